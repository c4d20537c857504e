// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Endpoints that are connected with each other, both in this process.
#pragma once

#include "dat.hpp"

namespace scale {

/// What all pairs have in common: a listener, and the EVDs of all that happens to them.
struct station {
    station(const adapter &opened, DAT_COUNT pairs);
    ~station();
    station(const station &) = delete;
    station &operator=(const station &) = delete;

    const adapter &ia;
    DAT_EVD_HANDLE arrivals, connections, requests, receives;
    DAT_CONN_QUAL port = 0;

  private:
    DAT_PSP_HANDLE listener_ = DAT_HANDLE_NULL;
};

struct pair {
    DAT_EP_HANDLE active = DAT_HANDLE_NULL, passive = DAT_HANDLE_NULL;

    void make(const station &st);
    void connect(const station &st) const;
    void disconnect(const station &st) const;
    void reset() const;
    void end() const;
};

/// A message, seen from both ends. The cookies are the same.
void receive(DAT_EP_HANDLE ep, DAT_LMR_TRIPLET where, DAT_UINT64 number);
void send(DAT_EP_HANDLE ep, DAT_LMR_TRIPLET what, DAT_UINT64 number);

} // namespace scale

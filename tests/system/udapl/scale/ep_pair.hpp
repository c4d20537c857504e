// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Endpoints that are connected with each other, both in this process.
#pragma once

#include "dat.hpp"

namespace scale {

/// What all pairs share: a PSP that the active EPs connect to, and the EVDs of all EPs.
struct shared_objects {
    /// The EVDs have room for the events of so many pairs.
    shared_objects(const scale_ia &used_ia, DAT_COUNT num_pairs);
    ~shared_objects();
    shared_objects(const shared_objects &) = delete;
    shared_objects &operator=(const shared_objects &) = delete;

    const scale_ia &ia;
    DAT_EVD_HANDLE cr_evd, connect_evd, request_evd, recv_evd;
    DAT_CONN_QUAL conn_qual = 0;

  private:
    DAT_PSP_HANDLE psp_ = DAT_HANDLE_NULL;
};

struct ep_pair {
    DAT_EP_HANDLE active = DAT_HANDLE_NULL, passive = DAT_HANDLE_NULL;

    void create(const shared_objects &shared);
    void connect(const shared_objects &shared) const;
    void disconnect(const shared_objects &shared) const;
    void reset() const;
    void free() const;
};

void post_recv(DAT_EP_HANDLE ep, DAT_LMR_TRIPLET iov, DAT_UINT64 cookie_value);
void post_send(DAT_EP_HANDLE ep, DAT_LMR_TRIPLET iov, DAT_UINT64 cookie_value);

} // namespace scale

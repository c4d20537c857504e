// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// One DAT object of each kind.
#pragma once

#include "consumer.hpp"

#include <array>
#include <optional>

namespace fake {

constexpr std::size_t num_kinds = DAT_HANDLE_TYPE_EXTENSION_BASE;

/// One of each kind, all of one IA.
class all_objects {
  public:
    explicit all_objects(const ia_fixture &owner);
    /// Frees all but the IA and its PZ. Fails if an object is still referenced.
    void free();

    DAT_HANDLE handle(std::size_t kind) const { return handles_.at(kind); }

    const ia_fixture &ia;
    ep_fixture idle_ep;      ///< the EP of this kind
    ep_fixture requester_ep; ///< has requested the CR
    ep_fixture reserved_ep;  ///< of the RSP
    memory buffer;           ///< has the LMR
    DAT_EVD_HANDLE cr_evd;
    DAT_EVD_HANDLE software_evd;
    DAT_SRQ_HANDLE srq;

  private:
    void make_listeners();

    std::array<DAT_HANDLE, num_kinds> handles_ = {};
};

} // namespace fake

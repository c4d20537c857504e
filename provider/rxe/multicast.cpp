// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "objects.hpp"

namespace coherdma::provider::rxe {

void fill_multicast_ops(abi::verbs_context_ops &ops) noexcept {
    ops.attach_mcast = abi::ibv_cmd().attach_mcast;
    ops.detach_mcast = abi::ibv_cmd().detach_mcast;
}

} // namespace coherdma::provider::rxe

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "objects.hpp"

namespace coherdma::provider::rxe {

void fill_multicast(abi::operations &able) noexcept {
    able.attach_mcast = abi::library().attach_mcast;
    able.detach_mcast = abi::library().detach_mcast;
}

} // namespace coherdma::provider::rxe

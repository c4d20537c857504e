// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Registering memory.

#include "objects.hpp"

#include <cerrno>

namespace coherdma::provider::rxe {
namespace {

ibv_mr *reg(ibv_pd *domain, void *address, std::size_t length, std::uint64_t remote,
            int access) noexcept {
    fresh<abi::verbs_mr> region;
    if (!region)
        return nullptr;
    abi::message<abi::command::reg_mr> command = {};
    abi::message<abi::response::reg_mr> response = {};
    if (const int error = library().reg_mr(domain, address, length, remote, access, &*region,
                                           &command, command.size, &response, response.size)) {
        errno = error;
        return nullptr;
    }
    return &region.take()->mr;
}

} // namespace

void fill_region(abi::operations &able) noexcept {
    able.reg_mr = reg;
}

} // namespace coherdma::provider::rxe

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Registering memory. siw knows it by its own address only.

#include "objects.hpp"

#include <atomic>
#include <cerrno>

namespace coherdma::provider::siw {
namespace {

// Part of the key is the program's to choose: another one each time, so that a key that is kept too
// long is found out.
ibv_mr *reg(ibv_pd *domain, void *address, std::size_t length, std::uint64_t remote,
            int access) noexcept {
    if (remote != reinterpret_cast<std::uintptr_t>(address)) {
        errno = EOPNOTSUPP;
        return nullptr;
    }
    fresh<abi::verbs_mr> region;
    if (!region)
        return nullptr;
    abi::message<abi::command::reg_mr, siw_ureq_reg_mr> command = {};
    abi::message<abi::response::reg_mr, siw_uresp_reg_mr> response = {};
    command.driver.stag_key = std::atomic_ref(of<context>(domain->context).next_key).fetch_add(1);
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

} // namespace coherdma::provider::siw

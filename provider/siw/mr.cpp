// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "objects.hpp"

#include <atomic>
#include <cerrno>

namespace coherdma::provider::siw {
namespace {

// siw supports no IOVA other than the address. This provider chooses the low byte of the STag, a
// different one each time, so that the use of a stale STag fails.
ibv_mr *reg_mr(ibv_pd *pd, void *addr, std::size_t length, std::uint64_t iova,
               int access) noexcept {
    if (iova != reinterpret_cast<std::uintptr_t>(addr))
        return fail_with(EOPNOTSUPP);
    auto mr = make_calloc_ptr<abi::verbs_mr>();
    if (!mr)
        return nullptr;
    abi::message<abi::command::reg_mr, siw_ureq_reg_mr> command = {};
    abi::message<abi::response::reg_mr, siw_uresp_reg_mr> response = {};
    command.drv_payload.stag_key =
        std::atomic_ref(to_siw_context(pd->context).next_stag_key).fetch_add(1);
    if (const int error = libibverbs().ibv_cmd_reg_mr(
            pd, addr, length, iova, access, &*mr, &command, command.size, &response, response.size))
        return fail_with(error);
    return &mr.release()->mr;
}

} // namespace

void fill_mr_ops(abi::verbs_context_ops &ops) noexcept {
    ops.reg_mr = reg_mr;
}

} // namespace coherdma::provider::siw

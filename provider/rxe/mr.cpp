// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "objects.hpp"

#include <cerrno>

namespace coherdma::provider::rxe {
namespace {

ibv_mr *reg_mr(ibv_pd *pd, void *addr, std::size_t length, std::uint64_t iova,
               int access) noexcept {
    auto mr = make_calloc_ptr<abi::verbs_mr>();
    if (!mr)
        return nullptr;
    abi::message<abi::command::reg_mr> command = {};
    abi::message<abi::response::reg_mr> response = {};
    if (const int error = libibverbs().ibv_cmd_reg_mr(
            pd, addr, length, iova, access, &*mr, &command, command.size, &response, response.size))
        return fail_with(error);
    return &mr.release()->mr;
}

} // namespace

void fill_mr_ops(abi::verbs_context_ops &ops) noexcept {
    ops.reg_mr = reg_mr;
}

} // namespace coherdma::provider::rxe

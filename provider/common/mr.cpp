// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// MRs. The kernel refuses the operations that its driver does not support.

#include "objects.hpp"

#include <cerrno>

namespace coherdma::provider {
namespace {

ibv_mr *reg_dmabuf_mr(ibv_pd *pd, std::uint64_t offset, std::size_t length, std::uint64_t iova,
                      int fd, int access) noexcept {
    auto mr = make_calloc_ptr<abi::verbs_mr>();
    if (!mr)
        return nullptr;
    if (const int error =
            libibverbs().ibv_cmd_reg_dmabuf_mr(pd, offset, length, iova, fd, access, &*mr))
        return fail_with(error);
    return &mr.release()->mr;
}

int rereg_mr(abi::verbs_mr *mr, int flags, ibv_pd *pd, void *addr, std::size_t length,
             int access) noexcept {
    abi::message<abi::command::rereg_mr> command = {};
    abi::message<abi::response::rereg_mr> response = {};
    return libibverbs().ibv_cmd_rereg_mr(mr, static_cast<std::uint32_t>(flags), addr, length,
                                         reinterpret_cast<std::uintptr_t>(addr), access, pd,
                                         &command, command.size, &response, response.size);
}

int dereg_mr(abi::verbs_mr *mr) noexcept {
    const int error = libibverbs().ibv_cmd_dereg_mr(mr);
    if (error == 0)
        std::free(mr);
    return error;
}

int advise_mr(ibv_pd *pd, ib_uverbs_advise_mr_advice advice, std::uint32_t flags, ibv_sge *sg_list,
              std::uint32_t num_sge) noexcept {
    return libibverbs().ibv_cmd_advise_mr(pd, advice, flags, sg_list, num_sge);
}

// Imports an MR that another process registered on the same open device.
ibv_mr *import_mr(ibv_pd *pd, std::uint32_t handle) noexcept {
    auto mr = make_calloc_ptr<abi::verbs_mr>();
    if (!mr)
        return nullptr;
    if (const int error = libibverbs().ibv_cmd_query_mr(pd, &*mr, handle))
        return fail_with(error);
    return &mr.release()->mr;
}

void unimport_mr(ibv_mr *ibmr) noexcept {
    std::free(&container_of<abi::verbs_mr>(ibmr));
}

} // namespace

void fill_mr_ops(abi::verbs_context_ops &ops) noexcept {
    ops.reg_dmabuf_mr = reg_dmabuf_mr;
    ops.rereg_mr = rereg_mr;
    ops.dereg_mr = dereg_mr;
    ops.advise_mr = advise_mr;
    ops.import_mr = import_mr;
    ops.unimport_mr = unimport_mr;
}

} // namespace coherdma::provider

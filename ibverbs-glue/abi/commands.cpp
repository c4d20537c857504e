// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "commands.hpp"

#include <cstring>

namespace coherdma::abi {
namespace {

template <class function>
function *function_cast(void *symbol) noexcept {
    return reinterpret_cast<function *>(symbol);
}

// For optional arguments whose type only newer headers declare.
constexpr std::nullptr_t unused = nullptr;

} // namespace

/// Release 57 added the parameter before the response.
int libibverbs_functions::ibv_cmd_get_context(verbs_context *context, void *command,
                                              std::size_t size, void *response,
                                              std::size_t response_size) const noexcept {
    if (versioned.version < abi_version::v57) {
        using before_v57 = int(verbs_context *, void *, std::size_t, void *, std::size_t);
        return function_cast<before_v57>(versioned.get_context)(context, command, size, response,
                                                                response_size);
    }
    using current = int(verbs_context *, void *, std::size_t, void *, void *, std::size_t);
    return function_cast<current>(versioned.get_context)(context, command, size, unused, response,
                                                         response_size);
}

/// Release 59 added the parameter before the CQ.
int libibverbs_functions::ibv_cmd_create_cq_ex(ibv_context *context,
                                               const ibv_cq_init_attr_ex *attr, verbs_cq *cq,
                                               void *command, std::size_t size, void *response,
                                               std::size_t response_size,
                                               std::uint32_t cmd_flags) const noexcept {
    if (versioned.version < abi_version::v59) {
        using before_v59 = int(ibv_context *, const ibv_cq_init_attr_ex *, verbs_cq *, void *,
                               std::size_t, void *, std::size_t, std::uint32_t);
        return function_cast<before_v59>(versioned.create_cq_ex)(
            context, attr, cq, command, size, response, response_size, cmd_flags);
    }
    using current = int(ibv_context *, const ibv_cq_init_attr_ex *, void *, verbs_cq *, void *,
                        std::size_t, void *, std::size_t, std::uint32_t);
    return function_cast<current>(versioned.create_cq_ex)(context, attr, unused, cq, command, size,
                                                          response, response_size, cmd_flags);
}

int libibverbs_functions::ibv_cmd_create_qp_ex2(ibv_context *context, verbs_qp *qp,
                                                ibv_qp_init_attr_ex *attr, void *command,
                                                std::size_t size, void *response,
                                                std::size_t response_size) const noexcept {
    // Releases before 64 lack the last parameter; the calling conventions of x86-64 and aarch64
    // let the callee ignore it.
    using current = int(ibv_context *, verbs_qp *, ibv_qp_init_attr_ex *, void *, std::size_t,
                        void *, std::size_t, ibv_command_buffer *);
    return function_cast<current>(versioned.create_qp_ex2)(context, qp, attr, command, size,
                                                           response, response_size, unused);
}

int libibverbs_functions::ibv_cmd_reg_dmabuf_mr(ibv_pd *pd, std::uint64_t offset,
                                                std::size_t length, std::uint64_t iova, int fd,
                                                int access, verbs_mr *mr) const noexcept {
    // Releases before 54 lack the last parameter and ignore it, as above. No symbol distinguishes
    // 53 from 54.
    using current = int(ibv_pd *, std::uint64_t, std::size_t, std::uint64_t, int, int, verbs_mr *,
                        ibv_command_buffer *);
    return function_cast<current>(versioned.reg_dmabuf_mr)(pd, offset, length, iova, fd, access, mr,
                                                           unused);
}

/// Looks up all functions by the symbol version of the layout. Returns the first required symbol
/// that is missing, else nullptr.
const char *load_commands(libibverbs_functions &functions, const layout &layout,
                          find_symbol_function *find_symbol) noexcept {
    const char *missing = nullptr;
    const auto load_optional = [&](auto &function, const char *symbol) {
        void *const address = find_symbol(symbol, layout.symbol_version);
        static_assert(sizeof(function) == sizeof(address));
        std::memcpy(&function, &address, sizeof(address));
        return address != nullptr;
    };
    const auto load = [&](auto &function, const char *symbol) {
        if (!load_optional(function, symbol) && missing == nullptr)
            missing = symbol;
    };
    load(functions.verbs_init_and_alloc_context, "_verbs_init_and_alloc_context");
    load(functions.verbs_uninit_context, "verbs_uninit_context");
    load(functions.verbs_set_ops, "verbs_set_ops");
    load(functions.execute_ioctl, "execute_ioctl");
    load(functions.ibv_cmd_query_context, "ibv_cmd_query_context");
    load(functions.ibv_cmd_query_device_any, "ibv_cmd_query_device_any");
    load(functions.ibv_cmd_query_port, "ibv_cmd_query_port");
    load(functions.ibv_cmd_alloc_pd, "ibv_cmd_alloc_pd");
    load(functions.ibv_cmd_dealloc_pd, "ibv_cmd_dealloc_pd");
    load(functions.ibv_cmd_reg_mr, "ibv_cmd_reg_mr");
    load(functions.ibv_cmd_rereg_mr, "ibv_cmd_rereg_mr");
    load(functions.ibv_cmd_dereg_mr, "ibv_cmd_dereg_mr");
    load(functions.ibv_cmd_advise_mr, "ibv_cmd_advise_mr");
    load(functions.ibv_cmd_query_mr, "ibv_cmd_query_mr");
    load(functions.ibv_cmd_alloc_mw, "ibv_cmd_alloc_mw");
    load(functions.ibv_cmd_dealloc_mw, "ibv_cmd_dealloc_mw");
    load(functions.ibv_cmd_resize_cq, "ibv_cmd_resize_cq");
    load(functions.ibv_cmd_req_notify_cq, "ibv_cmd_req_notify_cq");
    load(functions.ibv_cmd_modify_cq, "ibv_cmd_modify_cq");
    load(functions.ibv_cmd_destroy_cq, "ibv_cmd_destroy_cq");
    load(functions.ibv_cmd_create_srq, "ibv_cmd_create_srq");
    load(functions.ibv_cmd_create_srq_ex, "ibv_cmd_create_srq_ex");
    load(functions.ibv_cmd_modify_srq, "ibv_cmd_modify_srq");
    load(functions.ibv_cmd_query_srq, "ibv_cmd_query_srq");
    load(functions.ibv_cmd_destroy_srq, "ibv_cmd_destroy_srq");
    load(functions.ibv_cmd_create_qp, "ibv_cmd_create_qp");
    load(functions.ibv_cmd_query_qp, "ibv_cmd_query_qp");
    load(functions.ibv_cmd_modify_qp, "ibv_cmd_modify_qp");
    load(functions.ibv_cmd_destroy_qp, "ibv_cmd_destroy_qp");
    load(functions.ibv_cmd_attach_mcast, "ibv_cmd_attach_mcast");
    load(functions.ibv_cmd_detach_mcast, "ibv_cmd_detach_mcast");
    load(functions.ibv_cmd_create_ah, "ibv_cmd_create_ah");
    load(functions.ibv_cmd_destroy_ah, "ibv_cmd_destroy_ah");
    load_optional(functions.ibv_cmd_reg_mr_ex, "ibv_cmd_reg_mr_ex");
    load_optional(functions.ibv_cmd_query_port_speed, "ibv_cmd_query_port_speed");
    functions.versioned.version = layout.version;
    load(functions.versioned.get_context, "ibv_cmd_get_context");
    load(functions.versioned.create_cq_ex, "ibv_cmd_create_cq_ex");
    load(functions.versioned.create_qp_ex2, "ibv_cmd_create_qp_ex2");
    load(functions.versioned.reg_dmabuf_mr, "ibv_cmd_reg_dmabuf_mr");
    return missing;
}

} // namespace coherdma::abi

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "commands.hpp"

#include <cstring>

namespace coherdma::abi {
namespace {

template <class function>
function *as(void *symbol) noexcept {
    return reinterpret_cast<function *>(symbol);
}

// An argument that has no meaning here, of a type that only newer releases have.
constexpr std::nullptr_t none = nullptr;

} // namespace

int commands::get_context(verbs_context *context, void *command, std::size_t size, void *response,
                          std::size_t room) const noexcept {
    if (differing.of < epoch::v57) {
        using old = int(verbs_context *, void *, std::size_t, void *, std::size_t);
        return as<old>(differing.get_context)(context, command, size, response, room);
    }
    using now = int(verbs_context *, void *, std::size_t, void *, void *, std::size_t);
    return as<now>(differing.get_context)(context, command, size, none, response, room);
}

int commands::create_cq_ex(ibv_context *context, const ibv_cq_init_attr_ex *wanted, verbs_cq *cq,
                           void *command, std::size_t size, void *response, std::size_t room,
                           std::uint32_t flags) const noexcept {
    if (differing.of < epoch::v59) {
        using old = int(ibv_context *, const ibv_cq_init_attr_ex *, verbs_cq *, void *, std::size_t,
                        void *, std::size_t, std::uint32_t);
        return as<old>(differing.create_cq_ex)(context, wanted, cq, command, size, response, room,
                                               flags);
    }
    using now = int(ibv_context *, const ibv_cq_init_attr_ex *, void *, verbs_cq *, void *,
                    std::size_t, void *, std::size_t, std::uint32_t);
    return as<now>(differing.create_cq_ex)(context, wanted, none, cq, command, size, response, room,
                                           flags);
}

int commands::create_qp_ex2(ibv_context *context, verbs_qp *qp, ibv_qp_init_attr_ex *wanted,
                            void *command, std::size_t size, void *response,
                            std::size_t room) const noexcept {
    // Before 64 without the last; by the calling conventions of both machines it is then not seen.
    using now = int(ibv_context *, verbs_qp *, ibv_qp_init_attr_ex *, void *, std::size_t, void *,
                    std::size_t, ibv_command_buffer *);
    return as<now>(differing.create_qp_ex2)(context, qp, wanted, command, size, response, room,
                                            none);
}

int commands::reg_dmabuf_mr(ibv_pd *pd, std::uint64_t offset, std::size_t length,
                            std::uint64_t iova, int fd, int access, verbs_mr *mr) const noexcept {
    // Before 54 without the last, and nothing tells 53 from 54; it is then not seen, as above.
    using now = int(ibv_pd *, std::uint64_t, std::size_t, std::uint64_t, int, int, verbs_mr *,
                    ibv_command_buffer *);
    return as<now>(differing.reg_dmabuf_mr)(pd, offset, length, iova, fd, access, mr, none);
}

const char *find_commands(commands &into, const layout &of,
                          void *(*find)(const char *, const char *) noexcept) noexcept {
    const char *missing = nullptr;
    const auto may = [&](auto &function, const char *symbol) {
        void *const address = find(symbol, of.version);
        static_assert(sizeof(function) == sizeof(address));
        std::memcpy(&function, &address, sizeof(address));
        return address != nullptr;
    };
    const auto must = [&](auto &function, const char *symbol) {
        if (!may(function, symbol) && missing == nullptr)
            missing = symbol;
    };
    must(into.init_and_alloc_context, "_verbs_init_and_alloc_context");
    must(into.uninit_context, "verbs_uninit_context");
    must(into.set_ops, "verbs_set_ops");
    must(into.execute_ioctl, "execute_ioctl");
    must(into.query_context, "ibv_cmd_query_context");
    must(into.query_device_any, "ibv_cmd_query_device_any");
    must(into.query_port, "ibv_cmd_query_port");
    must(into.alloc_pd, "ibv_cmd_alloc_pd");
    must(into.dealloc_pd, "ibv_cmd_dealloc_pd");
    must(into.reg_mr, "ibv_cmd_reg_mr");
    must(into.rereg_mr, "ibv_cmd_rereg_mr");
    must(into.dereg_mr, "ibv_cmd_dereg_mr");
    must(into.advise_mr, "ibv_cmd_advise_mr");
    must(into.query_mr, "ibv_cmd_query_mr");
    must(into.alloc_mw, "ibv_cmd_alloc_mw");
    must(into.dealloc_mw, "ibv_cmd_dealloc_mw");
    must(into.create_cq, "ibv_cmd_create_cq");
    must(into.resize_cq, "ibv_cmd_resize_cq");
    must(into.req_notify_cq, "ibv_cmd_req_notify_cq");
    must(into.modify_cq, "ibv_cmd_modify_cq");
    must(into.destroy_cq, "ibv_cmd_destroy_cq");
    must(into.create_srq, "ibv_cmd_create_srq");
    must(into.create_srq_ex, "ibv_cmd_create_srq_ex");
    must(into.modify_srq, "ibv_cmd_modify_srq");
    must(into.query_srq, "ibv_cmd_query_srq");
    must(into.destroy_srq, "ibv_cmd_destroy_srq");
    must(into.create_qp, "ibv_cmd_create_qp");
    must(into.query_qp, "ibv_cmd_query_qp");
    must(into.modify_qp, "ibv_cmd_modify_qp");
    must(into.destroy_qp, "ibv_cmd_destroy_qp");
    must(into.attach_mcast, "ibv_cmd_attach_mcast");
    must(into.detach_mcast, "ibv_cmd_detach_mcast");
    must(into.create_ah, "ibv_cmd_create_ah");
    must(into.destroy_ah, "ibv_cmd_destroy_ah");
    may(into.reg_mr_ex, "ibv_cmd_reg_mr_ex");
    may(into.query_port_speed, "ibv_cmd_query_port_speed");
    into.differing.of = of.which;
    must(into.differing.get_context, "ibv_cmd_get_context");
    must(into.differing.create_cq_ex, "ibv_cmd_create_cq_ex");
    must(into.differing.create_qp_ex2, "ibv_cmd_create_qp_ex2");
    must(into.differing.reg_dmabuf_mr, "ibv_cmd_reg_dmabuf_mr");
    return missing;
}

} // namespace coherdma::abi

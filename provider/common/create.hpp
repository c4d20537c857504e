// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The commands for CQs, QPs and SRQs that both drivers send.
//
// create_*() and create_*_ex() allocate the object, have the kernel create its part, and call the
// driver's init_or_destroy() with the driver's part of the kernel's response. It returns the
// object; if that fails, it has the kernel destroy its part, sets errno and returns nullptr.
#pragma once

#include "objects.hpp"

#include <cerrno>
#include <cstddef>
#include <cstdint>

namespace coherdma::provider {

/// Has the kernel create the CQ; init_or_destroy() maps its ring or, if that fails, has the kernel
/// destroy it. set_poll_ops() sets the functions of the start_poll API. nullptr: errno is set.
template <class driver_cq, class driver_resp, auto init_or_destroy>
ibv_cq_ex *create_cq_ex(ibv_context *context, ibv_cq_init_attr_ex *attr) noexcept {
    bool single_threaded;
    if (const int error = check_cq_attr(*attr, single_threaded))
        return fail_with(error);
    auto cq = make_calloc_ptr<driver_cq>();
    if (!cq)
        return nullptr;
    cq->lock.init(single_threaded);
    abi::message<abi::command::create_cq_ex> command = {};
    abi::message<abi::response::create_cq_ex, driver_resp> response = {};
    if (const int error = libibverbs().ibv_cmd_create_cq_ex(
            context, attr, &cq->verbs, &command, command.size, &response, response.size, 0))
        return fail_with(error);
    driver_cq *const created = init_or_destroy(cq, context, response.drv_payload);
    if (created == nullptr)
        return nullptr;
    set_poll_ops(*created);
    return &created->verbs.cq_ex;
}

/// The driver's create_cq_ex for a consumer that does not use the start_poll API.
template <auto create_cq_ex>
ibv_cq *create_cq(ibv_context *context, int cqe, ibv_comp_channel *channel,
                  int comp_vector) noexcept {
    ibv_cq_init_attr_ex attr = {};
    attr.cqe = static_cast<std::uint32_t>(cqe);
    attr.channel = channel;
    attr.comp_vector = static_cast<std::uint32_t>(comp_vector);
    return ibv_cq_ex_to_cq(create_cq_ex(context, &attr));
}

/// Has the kernel create the QP; init_or_destroy() maps its rings or, if that fails, has the kernel
/// destroy it. nullptr: errno is set.
template <class driver_qp, class driver_resp, auto init_or_destroy>
ibv_qp *create_qp(ibv_pd *pd, ibv_qp_init_attr *attr) noexcept {
    auto qp = make_calloc_ptr<driver_qp>();
    if (!qp)
        return nullptr;
    abi::message<abi::command::create_qp> command = {};
    abi::message<abi::response::create_qp, driver_resp> response = {};
    if (const int error = libibverbs().ibv_cmd_create_qp(pd, &qp->verbs.qp, attr, &command,
                                                         command.size, &response, response.size))
        return fail_with(error);
    driver_qp *const created =
        init_or_destroy(qp, *attr, response.drv_payload, is_single_threaded(pd));
    return created != nullptr ? &created->verbs.qp : nullptr;
}

/// create_qp() for a QP that may have the ibv_wr_* API. get_supported_send_ops() returns the send
/// operations that a QP of this type can have; set_wr_ops() sets the functions of the requested
/// ones.
template <class driver_qp, class driver_resp, auto init_or_destroy, auto get_supported_send_ops>
ibv_qp *create_qp_ex(ibv_context *context, ibv_qp_init_attr_ex *attr) noexcept {
    // The kernel checks create_flags.
    constexpr unsigned supported_mask =
        IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS | IBV_QP_INIT_ATTR_CREATE_FLAGS;
    const bool has_send_ops = (attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) != 0;
    const std::uint64_t send_ops = has_send_ops ? attr->send_ops_flags : 0;
    if ((attr->comp_mask & IBV_QP_INIT_ATTR_PD) == 0)
        return fail_with(EINVAL);
    if ((attr->comp_mask & ~supported_mask) != 0 ||
        (send_ops & ~get_supported_send_ops(context, attr->qp_type, send_ops)) != 0)
        return fail_with(EOPNOTSUPP);
    auto qp = make_calloc_ptr<driver_qp>();
    if (!qp)
        return nullptr;
    abi::message<abi::command::create_qp_ex> command = {};
    abi::message<abi::response::create_qp_ex, driver_resp> response = {};
    if (const int error = libibverbs().ibv_cmd_create_qp_ex2(
            context, &qp->verbs, attr, &command, command.size, &response, response.size))
        return fail_with(error);
    driver_qp *const created =
        init_or_destroy(qp, *attr, response.drv_payload, is_single_threaded(attr->pd));
    if (created == nullptr)
        return nullptr;
    if (has_send_ops)
        set_wr_ops(*created, send_ops);
    return &created->verbs.qp;
}

/// Has the kernel create the SRQ; init_or_destroy() maps its ring or, if that fails, has the kernel
/// destroy it. nullptr: errno is set.
template <class driver_srq, class driver_resp, auto init_or_destroy>
ibv_srq *create_srq(ibv_pd *pd, ibv_srq_init_attr *attr) noexcept {
    auto srq = make_calloc_ptr<driver_srq>();
    if (!srq)
        return nullptr;
    abi::message<abi::command::create_srq> command = {};
    abi::message<abi::response::create_srq, driver_resp> response = {};
    if (const int error = libibverbs().ibv_cmd_create_srq(pd, &srq->verbs.srq, attr, &command,
                                                          command.size, &response, response.size))
        return fail_with(error);
    return init_or_destroy(srq, pd, response.drv_payload, attr->attr);
}

/// create_srq() for ibv_create_srq_ex(). The PD must be given.
template <class driver_srq, class driver_resp, auto init_or_destroy>
ibv_srq *create_srq_ex(ibv_context *context, ibv_srq_init_attr_ex *attr) noexcept {
    if ((attr->comp_mask & IBV_SRQ_INIT_ATTR_PD) == 0)
        return fail_with(EINVAL);
    auto srq = make_calloc_ptr<driver_srq>();
    if (!srq)
        return nullptr;
    abi::message<abi::command::create_srq_ex> command = {};
    abi::message<abi::response::create_srq, driver_resp> response = {};
    if (const int error = libibverbs().ibv_cmd_create_srq_ex(
            context, &srq->verbs, attr, &command, command.size, &response, response.size))
        return fail_with(error);
    return init_or_destroy(srq, attr->pd, response.drv_payload, attr->attr);
}

inline int modify_qp_cmd(ibv_qp *ibqp, ibv_qp_attr *attr, int attr_mask) noexcept {
    abi::message<abi::command::modify_qp> command = {};
    return libibverbs().ibv_cmd_modify_qp(ibqp, attr, attr_mask, &command, command.size);
}

inline int query_qp(ibv_qp *ibqp, ibv_qp_attr *attr, int attr_mask,
                    ibv_qp_init_attr *init_attr) noexcept {
    abi::message<abi::command::query_qp> command = {};
    return libibverbs().ibv_cmd_query_qp(ibqp, attr, attr_mask, init_attr, &command, command.size);
}

inline int query_srq(ibv_srq *ibsrq, ibv_srq_attr *attr) noexcept {
    abi::message<abi::command::query_srq> command = {};
    return libibverbs().ibv_cmd_query_srq(ibsrq, attr, &command, command.size);
}

} // namespace coherdma::provider

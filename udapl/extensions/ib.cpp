// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "ib.hpp"

#include "counters.hpp"

#include "dapl/api.hpp"
#include "dapl/ep/post.hpp"
#include "dapl/ia/device.hpp"
#include "dapl/ia/ia.hpp"
#include "remote.hpp"
#include "ud.hpp"

#include <cstring>
#include <dat2/dat_ib_extensions.h>

namespace coherdma::dapl::extensions {

static_assert(sizeof(DAT_IB_EXTENSION_EVENT_DATA) <= sizeof(DAT_EVENT::event_extension_data));

bool has_atomics(const device &dev) noexcept {
    return !dev.iwarp && dev.attr.atomic_cap != IBV_ATOMIC_NONE;
}

namespace {

constexpr dto_op rdma_write_with_imm = {.opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
                                        .operation = DAT_IB_DTO_RDMA_WRITE_IMMED,
                                        .can_inline = true,
                                        .counter = DCNT_EP_POST_WRITE_IMM};
constexpr dto_op fetch_and_add = {
    .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD, .operation = DAT_IB_DTO_FETCH_ADD, .can_inline = false};
constexpr dto_op cmp_and_swap = {
    .opcode = IBV_WR_ATOMIC_CMP_AND_SWP, .operation = DAT_IB_DTO_CMP_SWAP, .can_inline = false};

DAT_IB_EXT_TYPE extension_type(const ibv_wc &wc, const dto_cookie &cookie) noexcept {
    switch (static_cast<unsigned>(cookie.event.operation)) {
    case DAT_IB_DTO_RDMA_WRITE_IMMED:
        return DAT_IB_RDMA_WRITE_IMMED;
    case DAT_IB_DTO_FETCH_ADD:
        return DAT_IB_FETCH_AND_ADD;
    case DAT_IB_DTO_CMP_SWAP:
        return DAT_IB_CMP_AND_SWAP;
    case DAT_IB_DTO_SEND_UD:
        return DAT_IB_UD_SEND;
    case DAT_IB_DTO_RECV_UD:
        return DAT_IB_UD_RECV;
    default:
        return wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM ? DAT_IB_RDMA_WRITE_IMMED_DATA
                                                      : DAT_IB_RECV_IMMED_DATA;
    }
}

DAT_RETURN post_rdma_write_with_imm(dapl_ep &ep, std::va_list args) noexcept {
    const auto num_segments = va_arg(args, DAT_COUNT);
    auto *const iov = va_arg(args, DAT_LMR_TRIPLET *);
    const auto user_cookie = va_arg(args, DAT_DTO_COOKIE);
    const auto *const remote = va_arg(args, const DAT_RMR_TRIPLET *);
    const auto imm_data = va_arg(args, DAT_UINT32);
    const auto flags = static_cast<DAT_COMPLETION_FLAGS>(va_arg(args, int));
    if (remote == nullptr)
        return invalid_parameter(5);
    return post_checked(ep, rdma_write_with_imm, ep.max_write_iov, num_segments, iov, user_cookie,
                        flags, [&](ibv_send_wr &wr) {
                            wr.imm_data = imm_data; // in the consumer's byte order, as OFED does
                            wr.wr.rdma.remote_addr = remote->virtual_address;
                            wr.wr.rdma.rkey = remote->rmr_context;
                        });
}

DAT_RETURN post_atomic(dapl_ep &ep, const dto_op &op, std::va_list args) noexcept {
    const bool is_swap = op.opcode == IBV_WR_ATOMIC_CMP_AND_SWP;
    const auto compare_add = va_arg(args, DAT_UINT64);
    const auto swap = is_swap ? va_arg(args, DAT_UINT64) : DAT_UINT64{0};
    auto *const iov = va_arg(args, DAT_LMR_TRIPLET *);
    const auto user_cookie = va_arg(args, DAT_DTO_COOKIE);
    const auto *const remote = va_arg(args, const DAT_RMR_TRIPLET *);
    const auto flags = static_cast<DAT_COMPLETION_FLAGS>(va_arg(args, int));
    // The arguments have the numbers of the macros in dat_ib_extensions.h.
    if (iov == nullptr)
        return invalid_parameter(3);
    if (remote == nullptr || remote->virtual_address % sizeof(DAT_UINT64) != 0)
        return invalid_parameter(5);
    if (!has_atomics(*ep.ia->dev))
        return dat_error(DAT_MODEL_NOT_SUPPORTED);
    if (iov->segment_length != sizeof(DAT_UINT64))
        return dat_error(DAT_LENGTH_ERROR);
    const DAT_RETURN result =
        post_checked(ep, op, ep.max_write_iov, 1, iov, user_cookie, flags, [&](ibv_send_wr &wr) {
            wr.wr.atomic.remote_addr = remote->virtual_address;
            wr.wr.atomic.rkey = remote->rmr_context;
            wr.wr.atomic.compare_add = compare_add;
            wr.wr.atomic.swap = swap;
        });
    if (result == DAT_SUCCESS)
        ep.count(is_swap ? DCNT_EP_POST_CMP_SWAP : DCNT_EP_POST_FETCH_ADD);
    return result;
}

// Opens an IA for a query; DAT_IB_CLOSE_QUERY_OP closes it.
DAT_RETURN open_query(DAT_HANDLE name, std::va_list args) noexcept {
    auto *const ia_handle = va_arg(args, DAT_IA_HANDLE *);
    const auto ia_mask = va_arg(args, DAT_IA_ATTR_MASK);
    auto *const ia_attr = va_arg(args, DAT_IA_ATTR *);
    const auto provider_mask = va_arg(args, DAT_PROVIDER_ATTR_MASK);
    auto *const provider_attr = va_arg(args, DAT_PROVIDER_ATTR *);
    if (ia_handle == nullptr)
        return invalid_parameter(3);
    DAT_EVD_HANDLE async_evd_handle = DAT_HANDLE_NULL;
    const DAT_RETURN result =
        ia_open(static_cast<DAT_NAME_PTR>(name), 8, &async_evd_handle, ia_handle);
    if (result != DAT_SUCCESS)
        return result;
    return ia_query(*ia_handle, nullptr, ia_attr != nullptr ? ia_mask : 0, ia_attr,
                    provider_attr != nullptr ? provider_mask : 0, provider_attr);
}

} // namespace

void set_extension_event(const ibv_wc &wc, const dto_cookie &cookie, DAT_EVENT &event) noexcept {
    const bool success = wc.status == IBV_WC_SUCCESS;
    const bool has_imm = cookie.is_recv != 0 && (wc.wc_flags & IBV_WC_WITH_IMM) != 0;
    const bool is_ud_recv = static_cast<unsigned>(cookie.event.operation) == DAT_IB_DTO_RECV_UD;
    if (cookie.is_recv != 0 && !is_ud_recv && !(success && has_imm))
        return;
    DAT_IB_EXTENSION_EVENT_DATA ext_data;
    std::memset(&ext_data, 0, sizeof ext_data);
    ext_data.type = extension_type(wc, cookie);
    ext_data.status = success ? DAT_OP_SUCCESS : DAT_IB_OP_ERR;
    if (has_imm)
        ext_data.val.immed.data = wc.imm_data;
    event.event_number = static_cast<DAT_EVENT_NUMBER>(DAT_IB_DTO_EVENT);
    auto &data = event.event_data.dto_completion_event_data;
    if (is_ud_recv)
        ext_data.remote_ah.qpn = wc.src_qp;
    else if (has_imm)
        data.operation = static_cast<DAT_DTOS>(wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM
                                                   ? DAT_IB_DTO_RECV_IMMED
                                                   : DAT_IB_DTO_RECV_MSG_IMMED);
    std::memcpy(event.event_extension_data, &ext_data, sizeof ext_data);
}

DAT_RETURN extended_op(DAT_HANDLE handle, DAT_EXTENDED_OP operation, std::va_list args) noexcept {
    if (operation == DAT_IB_OPEN_QUERY_OP)
        return open_query(handle, args);
    if (operation == DAT_IB_CLOSE_QUERY_OP)
        return ia_close(handle, DAT_CLOSE_ABRUPT_FLAG);
    if (operation == DAT_IB_QUERY_COUNTERS_OP || operation == DAT_IB_PRINT_COUNTERS_OP ||
        operation == DAT_IB_START_COUNTERS_OP || operation == DAT_IB_STOP_COUNTERS_OP)
        return counters_op(handle, operation, args);
    if (is_remote_op(operation))
        return remote_op(handle, operation, args);
    dapl_ep *const ep = lookup<dapl_ep>(handle);
    switch (operation) {
    case DAT_IB_RDMA_WRITE_IMMED_OP:
    case DAT_IB_FETCH_AND_ADD_OP:
    case DAT_IB_CMP_AND_SWAP_OP:
    case DAT_IB_UD_SEND_OP:
    case DAT_IB_UD_AH_FREE_OP:
    case DAT_IB_UD_CM_FREE_OP:
        break;
    default:
        return dat_error(DAT_NOT_IMPLEMENTED);
    }
    if (ep == nullptr)
        return invalid_handle(DAT_INVALID_HANDLE_EP);
    if (ep->ia->dev->iwarp)
        return dat_error(DAT_NOT_IMPLEMENTED);
    switch (operation) {
    case DAT_IB_RDMA_WRITE_IMMED_OP:
        return post_rdma_write_with_imm(*ep, args);
    case DAT_IB_UD_SEND_OP:
        return post_ud_send(*ep, args);
    case DAT_IB_UD_AH_FREE_OP:
        return ud_free_ah(*ep, args);
    case DAT_IB_UD_CM_FREE_OP:
        return ud_free_peer(*ep, args);
    default:
        return post_atomic(*ep, operation == DAT_IB_FETCH_AND_ADD_OP ? fetch_and_add : cmp_and_swap,
                           args);
    }
}

} // namespace coherdma::dapl::extensions

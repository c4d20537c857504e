// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "ib.hpp"

#include "dapl/api.hpp"
#include "dapl/cm/ud.hpp"
#include "dapl/ep/post.hpp"
#include "dapl/ia/device.hpp"
#include "dapl/ia/ia.hpp"
#include "remote.hpp"

#include <cstring>
#include <dat2/dat_ib_extensions.h>

namespace coherdma::dapl::extensions {

namespace {

constexpr dto_op rdma_write_with_imm = {.opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
                                        .operation = DAT_IB_DTO_RDMA_WRITE_IMMED,
                                        .can_inline = true};
constexpr dto_op fetch_and_add = {
    .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD, .operation = DAT_IB_DTO_FETCH_ADD, .can_inline = false};
constexpr dto_op cmp_and_swap = {
    .opcode = IBV_WR_ATOMIC_CMP_AND_SWP, .operation = DAT_IB_DTO_CMP_SWAP, .can_inline = false};

/// args: those of dat_extension_op after the operation.
DAT_RETURN post_rdma_write_with_imm(dapl_ep &ep, std::va_list args) noexcept {
    const auto num_segments = va_arg(args, DAT_COUNT);
    auto *const iov = va_arg(args, DAT_LMR_TRIPLET *);
    const auto user_cookie = va_arg(args, DAT_DTO_COOKIE);
    const auto *const remote = va_arg(args, const DAT_RMR_TRIPLET *);
    const auto imm_data = va_arg(args, DAT_UINT32);
    const auto flags = static_cast<DAT_COMPLETION_FLAGS>(va_arg(args, int));
    if (remote == nullptr)
        return invalid_after_segments(ep, ep.max_write_iov, num_segments, iov, 5);
    return post_checked(ep, rdma_write_with_imm, ep.max_write_iov, num_segments, iov, user_cookie,
                        flags, [&](ibv_send_wr &wr) {
                            wr.imm_data = imm_data; // in the consumer's byte order, as OFED does
                            wr.wr.rdma.remote_addr = remote->virtual_address;
                            wr.wr.rdma.rkey = remote->rmr_context;
                        });
}

/// args: those of dat_extension_op after the operation.
DAT_RETURN post_atomic(dapl_ep &ep, const dto_op &op, std::va_list args) noexcept {
    const bool is_swap = op.opcode == IBV_WR_ATOMIC_CMP_AND_SWP;
    const auto compare_add = va_arg(args, DAT_UINT64);
    const auto swap = is_swap ? va_arg(args, DAT_UINT64) : DAT_UINT64{0};
    auto *const iov = va_arg(args, DAT_LMR_TRIPLET *);
    const auto user_cookie = va_arg(args, DAT_DTO_COOKIE);
    const auto *const remote = va_arg(args, const DAT_RMR_TRIPLET *);
    const auto flags = static_cast<DAT_COMPLETION_FLAGS>(va_arg(args, int));
    if (iov == nullptr)
        return invalid_parameter(is_swap ? 4 : 3);
    if (iov->segment_length != sizeof(DAT_UINT64))
        return dat_error(DAT_LENGTH_ERROR);
    if (remote == nullptr || remote->virtual_address % sizeof(DAT_UINT64) != 0)
        return invalid_parameter(is_swap ? 6 : 5);
    if (!ep.ia->dev->has_atomics())
        return dat_error(DAT_MODEL_NOT_SUPPORTED);
    return post_checked(ep, op, ep.max_write_iov, 1, iov, user_cookie, flags, [&](ibv_send_wr &wr) {
        wr.wr.atomic.remote_addr = remote->virtual_address;
        wr.wr.atomic.rkey = remote->rmr_context;
        wr.wr.atomic.compare_add = compare_add;
        wr.wr.atomic.swap = swap;
    });
}

/// DAT_IB_OPEN_QUERY_OP: opens an IA by name and queries it; DAT_IB_CLOSE_QUERY_OP closes it.
/// Arguments 1 and 3 to 6 have the numbers that they have in ia_open and ia_query.
DAT_RETURN open_query(DAT_HANDLE name, std::va_list args) noexcept {
    auto *const ia_handle = va_arg(args, DAT_IA_HANDLE *);
    const auto ia_mask = va_arg(args, DAT_IA_ATTR_MASK);
    auto *const ia_attr = va_arg(args, DAT_IA_ATTR *);
    const auto provider_mask = va_arg(args, DAT_PROVIDER_ATTR_MASK);
    auto *const provider_attr = va_arg(args, DAT_PROVIDER_ATTR *);
    if (name == nullptr)
        return invalid_parameter(1);
    if (ia_handle == nullptr)
        return invalid_parameter(2);
    DAT_EVD_HANDLE async_evd_handle = DAT_HANDLE_NULL;
    DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
    constexpr DAT_COUNT async_evd_qlen = 8;
    DAT_RETURN result =
        ia_open(static_cast<DAT_NAME_PTR>(name), async_evd_qlen, &async_evd_handle, &ia);
    if (result != DAT_SUCCESS)
        return result;
    result = ia_query(ia, nullptr, ia_attr != nullptr ? ia_mask : 0, ia_attr,
                      provider_attr != nullptr ? provider_mask : 0, provider_attr);
    if (result == DAT_SUCCESS)
        *ia_handle = ia;
    else
        ia_close(ia, DAT_CLOSE_ABRUPT_FLAG);
    return result;
}

} // namespace

/// dat_extension_op, as the registry forwards it. handle: the IA's name for DAT_IB_OPEN_QUERY_OP.
DAT_RETURN extended_op(DAT_HANDLE handle, DAT_EXTENDED_OP operation, std::va_list args) noexcept {
    if (operation == DAT_IB_OPEN_QUERY_OP)
        return open_query(handle, args);
    if (operation == DAT_IB_CLOSE_QUERY_OP)
        return ia_close(handle, DAT_CLOSE_ABRUPT_FLAG);
    if (operation == DAT_IB_QUERY_COUNTERS_OP || operation == DAT_IB_PRINT_COUNTERS_OP ||
        operation == DAT_IB_START_COUNTERS_OP || operation == DAT_IB_STOP_COUNTERS_OP)
        return dat_error(DAT_NOT_IMPLEMENTED); // as by OFED's packages
    if (is_remote_op(operation))
        return remote_op(handle, operation, args);
    const auto ep = lookup<dapl_ep>(handle);
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
    if (!ep)
        return invalid_handle(DAT_INVALID_HANDLE_EP);
    if (ep->ia->dev->iwarp)
        return dat_error(DAT_NOT_IMPLEMENTED);
    switch (operation) {
    case DAT_IB_RDMA_WRITE_IMMED_OP:
        return post_rdma_write_with_imm(*ep, args);
    case DAT_IB_UD_SEND_OP:
        return cm::post_ud_send(*ep, args);
    case DAT_IB_UD_AH_FREE_OP:
        return cm::ud_free_ah(*ep, args);
    case DAT_IB_UD_CM_FREE_OP:
        return cm::ud_free_peer(*ep, args);
    default:
        return post_atomic(*ep, operation == DAT_IB_FETCH_AND_ADD_OP ? fetch_and_add : cmp_and_swap,
                           args);
    }
}

} // namespace coherdma::dapl::extensions

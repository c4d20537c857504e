// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "ib.hpp"

#include "counters.hpp"

#include "dapl/api.hpp"
#include "dapl/device.hpp"
#include "dapl/ia.hpp"
#include "dapl/post.hpp"
#include "remote.hpp"
#include "ud.hpp"

#include <cstring>
#include <dat2/dat_ib_extensions.h>

namespace coherdma::dapl::extensions {

static_assert(sizeof(DAT_IB_EXTENSION_EVENT_DATA) <= sizeof(DAT_EVENT::event_extension_data));

bool atomics(const device &on) noexcept {
    return !on.iwarp && on.limits.atomic_cap != IBV_ATOMIC_NONE;
}

namespace {

constexpr posting write_immediate = {IBV_WR_RDMA_WRITE_WITH_IMM, DAT_IB_DTO_RDMA_WRITE_IMMED, true};
constexpr posting fetch_add = {IBV_WR_ATOMIC_FETCH_AND_ADD, DAT_IB_DTO_FETCH_ADD, false};
constexpr posting compare_swap = {IBV_WR_ATOMIC_CMP_AND_SWP, DAT_IB_DTO_CMP_SWAP, false};

DAT_IB_EXT_TYPE type_of(const ibv_wc &completion, const record &of) noexcept {
    switch (static_cast<unsigned>(of.told.operation)) {
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
        return completion.opcode == IBV_WC_RECV_RDMA_WITH_IMM ? DAT_IB_RDMA_WRITE_IMMED_DATA
                                                              : DAT_IB_RECV_IMMED_DATA;
    }
}

/// What is wrong with a request. The arguments are counted as in the macros of the header.
DAT_RETURN check(const ep &one, DAT_COUNT segments, const DAT_LMR_TRIPLET *iov,
                 const DAT_RMR_TRIPLET *remote) noexcept {
    if (segments < 0 || segments > one.write_iov)
        return wrong_argument(2);
    if (iov == nullptr && segments != 0)
        return wrong_argument(3);
    if (remote == nullptr)
        return wrong_argument(5);
    if (!one.takes_requests())
        return wrong_state(subtype_of(one.now()));
    return DAT_SUCCESS;
}

DAT_RETURN post_write(ep &one, std::va_list arguments) noexcept {
    const auto segments = va_arg(arguments, DAT_COUNT);
    auto *const iov = va_arg(arguments, DAT_LMR_TRIPLET *);
    const auto cookie = va_arg(arguments, DAT_DTO_COOKIE);
    const auto *const remote = va_arg(arguments, const DAT_RMR_TRIPLET *);
    const auto immediate = va_arg(arguments, DAT_UINT32);
    const auto flags = static_cast<DAT_COMPLETION_FLAGS>(va_arg(arguments, int));
    const DAT_RETURN result = check(one, segments, iov, remote);
    if (result != DAT_SUCCESS)
        return result;
    std::uint32_t length;
    if (!sum(iov, segments, length) || length > one.longest)
        return failed(DAT_LENGTH_ERROR);
    return post(one, write_immediate, {segments, iov, length, cookie.as_64, flags_of(flags)},
                [&](ibv_send_wr &wanted) {
                    // As it is: OFED does not turn it to the wire's order, either.
                    wanted.imm_data = immediate;
                    wanted.wr.rdma.remote_addr = remote->virtual_address;
                    wanted.wr.rdma.rkey = remote->rmr_context;
                });
}

DAT_RETURN post_atomic(ep &one, const posting &what, std::va_list arguments) noexcept {
    const bool swaps = what.opcode == IBV_WR_ATOMIC_CMP_AND_SWP;
    const auto first = va_arg(arguments, DAT_UINT64);
    const auto second = swaps ? va_arg(arguments, DAT_UINT64) : DAT_UINT64{0};
    auto *const iov = va_arg(arguments, DAT_LMR_TRIPLET *);
    const auto cookie = va_arg(arguments, DAT_DTO_COOKIE);
    const auto *const remote = va_arg(arguments, const DAT_RMR_TRIPLET *);
    const auto flags = static_cast<DAT_COMPLETION_FLAGS>(va_arg(arguments, int));
    const DAT_RETURN result = check(one, 1, iov, remote);
    if (result != DAT_SUCCESS)
        return result;
    if (!atomics(*one.home->on))
        return failed(DAT_MODEL_NOT_SUPPORTED);
    if (iov->segment_length != sizeof(DAT_UINT64))
        return failed(DAT_LENGTH_ERROR);
    if (remote->virtual_address % sizeof(DAT_UINT64) != 0)
        return wrong_argument(5);
    return post(one, what, {1, iov, sizeof(DAT_UINT64), cookie.as_64, flags_of(flags)},
                [&](ibv_send_wr &wanted) {
                    wanted.wr.atomic.remote_addr = remote->virtual_address;
                    wanted.wr.atomic.rkey = remote->rmr_context;
                    wanted.wr.atomic.compare_add = first;
                    wanted.wr.atomic.swap = second;
                });
}

// The registry's way to ask a name without opening it for good.
DAT_RETURN open_query(DAT_HANDLE name, std::va_list arguments) noexcept {
    auto *const ia_handle = va_arg(arguments, DAT_IA_HANDLE *);
    const auto ia_mask = va_arg(arguments, DAT_IA_ATTR_MASK);
    auto *const ia_attr = va_arg(arguments, DAT_IA_ATTR *);
    const auto provider_mask = va_arg(arguments, DAT_PROVIDER_ATTR_MASK);
    auto *const provider_attr = va_arg(arguments, DAT_PROVIDER_ATTR *);
    if (ia_handle == nullptr)
        return wrong_argument(3);
    DAT_EVD_HANDLE async = DAT_HANDLE_NULL;
    const DAT_RETURN result = ia_open(static_cast<DAT_NAME_PTR>(name), 8, &async, ia_handle);
    if (result != DAT_SUCCESS)
        return result;
    return ia_query(*ia_handle, nullptr, ia_attr != nullptr ? ia_mask : 0, ia_attr,
                    provider_attr != nullptr ? provider_mask : 0, provider_attr);
}

} // namespace

void tell(const ibv_wc &completion, const record &of, DAT_EVENT &event) noexcept {
    const bool good = completion.status == IBV_WC_SUCCESS;
    const bool immediate = of.received != 0 && (completion.wc_flags & IBV_WC_WITH_IMM) != 0;
    const bool datagram = static_cast<unsigned>(of.told.operation) == DAT_IB_DTO_RECV_UD;
    if (of.received != 0 && !datagram && !(good && immediate))
        return;
    DAT_IB_EXTENSION_EVENT_DATA more;
    std::memset(&more, 0, sizeof more);
    more.type = type_of(completion, of);
    more.status = good ? DAT_OP_SUCCESS : DAT_IB_OP_ERR;
    if (immediate)
        more.val.immed.data = completion.imm_data;
    event.event_number = static_cast<DAT_EVENT_NUMBER>(DAT_IB_DTO_EVENT);
    auto &data = event.event_data.dto_completion_event_data;
    if (datagram)
        more.remote_ah.qpn = completion.src_qp;
    else if (immediate)
        data.operation = static_cast<DAT_DTOS>(completion.opcode == IBV_WC_RECV_RDMA_WITH_IMM
                                                   ? DAT_IB_DTO_RECV_IMMED
                                                   : DAT_IB_DTO_RECV_MSG_IMMED);
    std::memcpy(event.event_extension_data, &more, sizeof more);
}

DAT_RETURN operate(DAT_HANDLE handle, DAT_EXTENDED_OP operation, std::va_list arguments) noexcept {
    if (operation == DAT_IB_OPEN_QUERY_OP)
        return open_query(handle, arguments);
    if (operation == DAT_IB_CLOSE_QUERY_OP)
        return ia_close(handle, DAT_CLOSE_ABRUPT_FLAG);
    if (operation == DAT_IB_QUERY_COUNTERS_OP || operation == DAT_IB_PRINT_COUNTERS_OP ||
        operation == DAT_IB_START_COUNTERS_OP || operation == DAT_IB_STOP_COUNTERS_OP)
        return operate_counters(handle, operation, arguments);
    if (is_remote(operation))
        return operate_remote(handle, operation, arguments);
    ep *const one = as<ep>(handle);
    switch (operation) {
    case DAT_IB_RDMA_WRITE_IMMED_OP:
    case DAT_IB_FETCH_AND_ADD_OP:
    case DAT_IB_CMP_AND_SWAP_OP:
    case DAT_IB_UD_SEND_OP:
    case DAT_IB_UD_AH_FREE_OP:
    case DAT_IB_UD_CM_FREE_OP:
        break;
    default:
        return failed(DAT_NOT_IMPLEMENTED);
    }
    if (one == nullptr)
        return wrong_handle(DAT_INVALID_HANDLE_EP);
    if (one->home->on->iwarp)
        return failed(DAT_NOT_IMPLEMENTED);
    switch (operation) {
    case DAT_IB_RDMA_WRITE_IMMED_OP:
        return post_write(*one, arguments);
    case DAT_IB_UD_SEND_OP:
        return post_datagram(*one, arguments);
    case DAT_IB_UD_AH_FREE_OP:
        return free_address(*one, arguments);
    case DAT_IB_UD_CM_FREE_OP:
        return free_resolution(*one, arguments);
    default:
        return post_atomic(*one, operation == DAT_IB_FETCH_AND_ADD_OP ? fetch_add : compare_swap,
                           arguments);
    }
}

} // namespace coherdma::dapl::extensions

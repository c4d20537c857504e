// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Posting a request: common to DTOs, RMR binds and extensions.
#pragma once

#include "dapl/core/result.hpp"
#include "ep.hpp"

#include <array>
#include <cstdint>

namespace coherdma::dapl {

/// What distinguishes a kind of request.
struct dto_op {
    ibv_wr_opcode opcode;
    std::uint16_t operation; ///< DAT_DTOS or DAT_IB_DTOS
    bool can_inline;
    bool is_datagram = false; ///< dat_ib_post_send_ud
};

/// Indexed by DAT_COMPLETION_FLAGS: the flags of ibv_send_wr.
constexpr std::array<unsigned, 16> verbs_flags_table = [] {
    std::array<unsigned, 16> table = {};
    for (unsigned i = 0; i != table.size(); ++i)
        table[i] =
            ((i & DAT_COMPLETION_SUPPRESS_FLAG) == 0 ? unsigned{IBV_SEND_SIGNALED} : 0) |
            ((i & DAT_COMPLETION_SOLICITED_WAIT_FLAG) != 0 ? unsigned{IBV_SEND_SOLICITED} : 0) |
            ((i & DAT_COMPLETION_BARRIER_FENCE_FLAG) != 0 ? unsigned{IBV_SEND_FENCE} : 0);
    return table;
}();
constexpr unsigned verbs_flags(DAT_COMPLETION_FLAGS flags) {
    return verbs_flags_table[static_cast<unsigned>(flags) % verbs_flags_table.size()];
}

/// What the consumer gives for a request.
struct dto_args {
    DAT_COUNT num_segments;
    DAT_LMR_TRIPLET *iov; ///< has the layout of ibv_sge, so it becomes the WR's sg_list
    std::uint32_t length;
    DAT_UINT64 user_cookie;
    unsigned send_flags;    ///< IBV_SEND_...
    void *object = nullptr; ///< becomes dto_cookie::object
};

/// The next free cookie, or nullptr: peek is a function of cookie_ring. The request ring of a
/// datagram EP is open for datagrams only: another request would have no address handle. The caller
/// has the ring's lock.
template <dto_cookie *(cookie_ring::*peek)() noexcept = &cookie_ring::peek_free>
inline dto_cookie *peek_free(dapl_ep &ep, const dto_op &op) noexcept {
    if (!op.is_datagram)
        return (ep.requests.*peek)();
    if (ep.qp != nullptr && ep.can_post_requests())
        ep.requests.open();
    dto_cookie *const cookie = (ep.requests.*peek)();
    ep.requests.close();
    return cookie;
}

/// Posts the WR with this cookie, whose address is in the wr_id. The caller has the ring's lock.
[[gnu::always_inline]] inline DAT_RETURN post_wr(dapl_ep &ep, const dto_op &op, ibv_send_wr &wr,
                                                 dto_cookie &cookie, std::uint32_t length,
                                                 DAT_UINT64 user_cookie, void *object) noexcept {
    ibv_send_wr *bad_wr;
    cookie.event.user_cookie.as_64 = user_cookie;
    cookie.event.transfered_length = length;
    cookie.event.operation = static_cast<DAT_DTOS>(op.operation);
    cookie.object = object;
    ep.requests.commit(cookie, wr.send_flags);
    if (const int error = ibv_post_send(ep.qp, &wr, &bad_wr)) {
        ep.requests.rollback();
        return from_errno(error, DAT_RESOURCE_MEMORY);
    }
    return DAT_SUCCESS;
}

/// The same for a request that finds no free cookie by peek_free(): syncs its memory and posts it
/// if the device is not coherent, else an error.
[[gnu::cold, gnu::noinline]] DAT_RETURN post_with_sync(dapl_ep &ep, const dto_op &op,
                                                       ibv_send_wr &wr, std::uint32_t length,
                                                       DAT_UINT64 user_cookie,
                                                       void *object) noexcept;

/// The error for a request that finds no free cookie: the EP's service type or state, or a full
/// queue.
DAT_RETURN request_queue_full(const dapl_ep &ep, bool is_datagram = false) noexcept;

/// Posts one WR of the kind op. set_op_fields(wr) stores the fields of ibv_send_wr that only this
/// kind has. The cookie holds the event that poll_event will make of the completion.
template <class SetOpFields>
inline DAT_RETURN post(dapl_ep &ep, const dto_op &op, const dto_args &dto,
                       const SetOpFields &set_op_fields) noexcept {
    ibv_send_wr wr;
    wr.next = nullptr;
    wr.sg_list = reinterpret_cast<ibv_sge *>(dto.iov);
    wr.num_sge = dto.num_segments;
    wr.opcode = op.opcode;
    const bool is_inline = op.can_inline && dto.length - 1 < ep.max_inline; // not if length is 0
    wr.send_flags = dto.send_flags | (is_inline ? unsigned{IBV_SEND_INLINE} : 0);
    set_op_fields(wr);
    const std::lock_guard guard(ep.requests.lock);
    dto_cookie *const cookie = peek_free(ep, op);
    if (cookie == nullptr)
        return post_with_sync(ep, op, wr, dto.length, dto.user_cookie, dto.object);
    wr.wr_id = to_wr_id(*cookie);
    return post_wr(ep, op, wr, *cookie, dto.length, dto.user_cookie, dto.object);
}

inline std::uint64_t total_length(const DAT_LMR_TRIPLET *iov, DAT_COUNT num_segments) noexcept {
    std::uint64_t length = 0;
    for (DAT_COUNT i = 0; i != num_segments; ++i)
        length += iov[i].segment_length;
    return length;
}

/// Checks num_segments and iov, the second and the third argument of every call. Sets length, the
/// sum of the segments'.
inline DAT_RETURN check_segments(const dapl_ep &ep, DAT_COUNT max_segments, DAT_COUNT num_segments,
                                 const DAT_LMR_TRIPLET *iov, std::uint64_t &length) noexcept {
    // Unlikely: so that GCC loads no result before its check.
    if (static_cast<unsigned>(num_segments) > static_cast<unsigned>(max_segments)) // or is negative
        [[unlikely]]
        return invalid_parameter(2);
    if (iov == nullptr && num_segments != 0) [[unlikely]]
        return invalid_parameter(3);
    length = total_length(iov, num_segments);
    if (length > ep.max_message) [[unlikely]]
        return dat_error(DAT_LENGTH_ERROR);
    return DAT_SUCCESS;
}

/// The error of a DTO whose argument with this number, after the segments, is invalid: an invalid
/// segment comes first.
[[gnu::cold, gnu::noinline]] DAT_RETURN
invalid_after_segments(const dapl_ep &ep, DAT_COUNT max_segments, DAT_COUNT num_segments,
                       const DAT_LMR_TRIPLET *iov, unsigned argument) noexcept;

/// Checks the arguments that every DTO has, and posts it. The state is checked last, by post(): the
/// ring of an EP that takes no requests has no free cookie.
template <class SetOpFields>
inline DAT_RETURN post_checked(dapl_ep &ep, const dto_op &op, DAT_COUNT max_segments,
                               DAT_COUNT num_segments, DAT_LMR_TRIPLET *iov,
                               DAT_DTO_COOKIE user_cookie, DAT_COMPLETION_FLAGS flags,
                               const SetOpFields &set_op_fields) noexcept {
    std::uint64_t length;
    const DAT_RETURN result = check_segments(ep, max_segments, num_segments, iov, length);
    if (result != DAT_SUCCESS) [[unlikely]]
        return result;
    return post(ep, op,
                {num_segments, iov, static_cast<std::uint32_t>(length), user_cookie.as_64,
                 verbs_flags(flags)},
                set_op_fields);
}

} // namespace coherdma::dapl

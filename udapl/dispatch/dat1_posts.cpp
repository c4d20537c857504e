// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Posting. A segment of DAT 1.2 has a 64-bit length and another layout than ibv_sge, so the list is
// copied to the stack: verbs have read it when the call returns.

#include "dapl/api.hpp"
#include "dat1_calls.hpp"

#include <array>
#include <cstdint>

namespace coherdma::dapl::dat1 {

namespace {

/// Calls post_fn, a function of DAT 2.0, with a copy of the segments. If they are invalid or one is
/// longer than 2.0 can represent, the list is nullptr: 2.0 checks the arguments before it, then
/// refuses the list, its third argument.
///
/// Inlined: an RDMA operation takes nine instructions fewer (tests/bench/dat1_costs.py).
template <auto post_fn, class... arg_types>
[[gnu::always_inline]] inline DAT_RETURN post(DAT_HANDLE handle, DAT_COUNT num_segments,
                                              const lmr_triplet *iov, arg_types... args) noexcept {
    std::array<DAT_LMR_TRIPLET, max_segments_per_dto> list;
    bool is_valid = iov != nullptr && num_segments >= 0 && num_segments <= max_segments_per_dto;
    for (std::size_t i = 0; is_valid && i != static_cast<std::size_t>(num_segments); ++i) {
        is_valid = iov[i].segment_length <= UINT32_MAX;
        list[i] = {iov[i].virtual_address, static_cast<DAT_SEG_LENGTH>(iov[i].segment_length),
                   iov[i].lmr_context};
    }
    const DAT_RETURN result =
        post_fn(handle, num_segments, is_valid ? list.data() : nullptr, args...);
    if (result == invalid_parameter(3) && iov != nullptr)
        return to_dat1_error(dat_error(DAT_LENGTH_ERROR));
    return to_dat1_result(result);
}

/// The peer checks the target's range, so its length may be truncated.
template <auto post_fn>
DAT_RETURN post_rdma(DAT_EP_HANDLE ep_handle, DAT_COUNT num_segments, const lmr_triplet *iov,
                     DAT_DTO_COOKIE user_cookie, const rmr_triplet *remote,
                     DAT_COMPLETION_FLAGS flags) noexcept {
    DAT_RMR_TRIPLET target;
    if (remote != nullptr)
        target = {remote->target_address, static_cast<DAT_SEG_LENGTH>(remote->segment_length),
                  remote->rmr_context};
    return post<post_fn>(ep_handle, num_segments, iov, user_cookie,
                         remote != nullptr ? &target : nullptr, flags);
}

} // namespace

DAT_RETURN ep_post_send(DAT_EP_HANDLE ep_handle, DAT_COUNT num_segments, lmr_triplet *iov,
                        DAT_DTO_COOKIE user_cookie, DAT_COMPLETION_FLAGS flags) noexcept {
    return post<dapl::ep_post_send>(ep_handle, num_segments, iov, user_cookie, flags);
}

DAT_RETURN ep_post_recv(DAT_EP_HANDLE ep_handle, DAT_COUNT num_segments, lmr_triplet *iov,
                        DAT_DTO_COOKIE user_cookie, DAT_COMPLETION_FLAGS flags) noexcept {
    return post<dapl::ep_post_recv>(ep_handle, num_segments, iov, user_cookie, flags);
}

DAT_RETURN ep_post_rdma_read(DAT_EP_HANDLE ep_handle, DAT_COUNT num_segments, lmr_triplet *iov,
                             DAT_DTO_COOKIE user_cookie, const rmr_triplet *remote,
                             DAT_COMPLETION_FLAGS flags) noexcept {
    return post_rdma<dapl::ep_post_rdma_read>(ep_handle, num_segments, iov, user_cookie, remote,
                                              flags);
}

DAT_RETURN ep_post_rdma_write(DAT_EP_HANDLE ep_handle, DAT_COUNT num_segments, lmr_triplet *iov,
                              DAT_DTO_COOKIE user_cookie, const rmr_triplet *remote,
                              DAT_COMPLETION_FLAGS flags) noexcept {
    return post_rdma<dapl::ep_post_rdma_write>(ep_handle, num_segments, iov, user_cookie, remote,
                                               flags);
}

DAT_RETURN srq_post_recv(DAT_SRQ_HANDLE srq_handle, DAT_COUNT num_segments, lmr_triplet *iov,
                         DAT_DTO_COOKIE user_cookie) noexcept {
    return post<dapl::srq_post_recv>(srq_handle, num_segments, iov, user_cookie);
}

} // namespace coherdma::dapl::dat1

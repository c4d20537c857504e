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

using segment_list = std::array<DAT_LMR_TRIPLET, max_segments>;

/// nullptr: a segment is longer than DAT 2.0 can say, or iov or num_segments is invalid.
DAT_LMR_TRIPLET *copy(segment_list &list, DAT_COUNT num_segments, const lmr_triplet *iov) noexcept {
    if (iov == nullptr || num_segments < 0 || num_segments > max_segments)
        return nullptr;
    for (unsigned i = 0; i != static_cast<unsigned>(num_segments); ++i) {
        if (iov[i].segment_length > UINT32_MAX)
            return nullptr;
        list[i] = {iov[i].virtual_address, static_cast<DAT_SEG_LENGTH>(iov[i].segment_length),
                   iov[i].lmr_context};
    }
    return list.data();
}

/// The peer checks the range, so its length may be truncated.
const DAT_RMR_TRIPLET *copy(DAT_RMR_TRIPLET &target, const rmr_triplet *remote) noexcept {
    if (remote == nullptr)
        return nullptr;
    target = {remote->target_address, static_cast<DAT_SEG_LENGTH>(remote->segment_length),
              remote->rmr_context};
    return &target;
}

/// DAT 2.0's function has refused a missing list, its third argument. If the consumer has given
/// one, a segment was too long.
DAT_RETURN post_result(DAT_RETURN result, const lmr_triplet *iov) noexcept {
    if (result == invalid_parameter(3) && iov != nullptr)
        return to_dat1_error(dat_error(DAT_LENGTH_ERROR));
    return to_dat1_result(result);
}

} // namespace

DAT_RETURN ep_post_send(DAT_EP_HANDLE ep_handle, DAT_COUNT num_segments, lmr_triplet *iov,
                        DAT_DTO_COOKIE user_cookie, DAT_COMPLETION_FLAGS flags) noexcept {
    segment_list list;
    return post_result(dapl::ep_post_send(ep_handle, num_segments, copy(list, num_segments, iov),
                                          user_cookie, flags),
                       iov);
}

DAT_RETURN ep_post_recv(DAT_EP_HANDLE ep_handle, DAT_COUNT num_segments, lmr_triplet *iov,
                        DAT_DTO_COOKIE user_cookie, DAT_COMPLETION_FLAGS flags) noexcept {
    segment_list list;
    return post_result(dapl::ep_post_recv(ep_handle, num_segments, copy(list, num_segments, iov),
                                          user_cookie, flags),
                       iov);
}

DAT_RETURN ep_post_rdma_read(DAT_EP_HANDLE ep_handle, DAT_COUNT num_segments, lmr_triplet *iov,
                             DAT_DTO_COOKIE user_cookie, const rmr_triplet *remote,
                             DAT_COMPLETION_FLAGS flags) noexcept {
    segment_list list;
    DAT_RMR_TRIPLET target;
    return post_result(dapl::ep_post_rdma_read(ep_handle, num_segments,
                                               copy(list, num_segments, iov), user_cookie,
                                               copy(target, remote), flags),
                       iov);
}

DAT_RETURN ep_post_rdma_write(DAT_EP_HANDLE ep_handle, DAT_COUNT num_segments, lmr_triplet *iov,
                              DAT_DTO_COOKIE user_cookie, const rmr_triplet *remote,
                              DAT_COMPLETION_FLAGS flags) noexcept {
    segment_list list;
    DAT_RMR_TRIPLET target;
    return post_result(dapl::ep_post_rdma_write(ep_handle, num_segments,
                                                copy(list, num_segments, iov), user_cookie,
                                                copy(target, remote), flags),
                       iov);
}

DAT_RETURN srq_post_recv(DAT_SRQ_HANDLE srq_handle, DAT_COUNT num_segments, lmr_triplet *iov,
                         DAT_DTO_COOKIE user_cookie) noexcept {
    segment_list list;
    return post_result(
        dapl::srq_post_recv(srq_handle, num_segments, copy(list, num_segments, iov), user_cookie),
        iov);
}

} // namespace coherdma::dapl::dat1

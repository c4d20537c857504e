// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Posting. A segment of 1.2 is no segment of verbs: it has 64 bits of length, and its members in
// another order. So the list is written anew on the stack; verbs have taken what they need of it
// when a call returns. One segment, of nearly all requests, goes a short way here as in 2.0's.

#include "dapl/api.hpp"
#include "dat1_calls.hpp"

#include <array>
#include <bit>
#include <cstdint>

namespace coherdma::dapl::dat1 {

namespace {

constexpr bool low_half_first = std::endian::native == std::endian::little;

// The two conditions of the short way that a compiler spends more on than they need: it would make
// the 1 anew for the call, and load the half before it looks at it.

[[gnu::always_inline]] inline bool is_one(DAT_COUNT segments) noexcept {
#ifdef __x86_64__
    bool is;
    asm volatile("cmpl $1, %1" : "=@cce"(is) : "r"(segments));
    return is;
#else
    return segments == 1;
#endif
}

[[gnu::always_inline]] inline bool is_long(const lmr_triplet &one) noexcept {
#ifdef __x86_64__
    bool is;
    using half [[gnu::may_alias]] = DAT_UINT32;
    const half &high = reinterpret_cast<const half *>(&one.segment_length)[1];
    asm volatile("cmpl $0, %1" : "=@ccne"(is) : "m"(high));
    return is;
#else
    return one.segment_length > UINT32_MAX;
#endif
}

/// Address and length are copied at once, and where the length's high half was comes the key.
template <class narrow>
[[gnu::always_inline]] inline void copy_words(narrow &to, const DAT_VADDR &address,
                                              const DAT_VLEN &length) noexcept {
    if constexpr (low_half_first) {
        using words [[gnu::vector_size(16), gnu::aligned(8), gnu::may_alias]] = DAT_UINT64;
        static_assert(sizeof to == sizeof(words));
        *reinterpret_cast<words *>(&to) = *reinterpret_cast<const words *>(&address);
    } else {
        to.virtual_address = address;
        to.segment_length = static_cast<DAT_SEG_LENGTH>(length);
    }
}

[[gnu::always_inline]] inline void narrow(DAT_LMR_TRIPLET &to, const lmr_triplet &from) noexcept {
    copy_words(to, from.virtual_address, from.segment_length);
    to.lmr_context = from.lmr_context;
}

// How long the remote range is said to be nobody asks: it is the peer's to check.
[[gnu::always_inline]] inline void narrow(DAT_RMR_TRIPLET &to, const rmr_triplet &from) noexcept {
    copy_words(to, from.target_address, from.segment_length);
    to.rmr_context = from.rmr_context;
}

/// Any list. post is 2.0's call with another list; with none instead of one that there is, it posts
/// nothing in any case, and says what is wrong before it, or the third argument.
template <class call>
DAT_RETURN post_list(DAT_COUNT segments, const lmr_triplet *iov, const call &post) noexcept {
    std::array<DAT_LMR_TRIPLET, most_segments> list;
    if (iov == nullptr || segments < 0 || segments > most_segments)
        return told_any(post(nullptr));
    for (unsigned at = 0; at != static_cast<unsigned>(segments); ++at) {
        if (is_long(iov[at])) {
            const DAT_RETURN result = post(nullptr);
            return told(result == wrong_argument(3) ? failed(DAT_LENGTH_ERROR) : result);
        }
        narrow(list[at], iov[at]);
    }
    return told_any(post(list.data()));
}

using post_call = DAT_RETURN (*)(DAT_EP_HANDLE, DAT_COUNT, DAT_LMR_TRIPLET *, DAT_DTO_COOKIE,
                                 DAT_COMPLETION_FLAGS) noexcept;
using rdma_call = DAT_RETURN (*)(DAT_EP_HANDLE, DAT_COUNT, DAT_LMR_TRIPLET *, DAT_DTO_COOKIE,
                                 const DAT_RMR_TRIPLET *, DAT_COMPLETION_FLAGS) noexcept;

template <post_call function>
[[gnu::noinline]] DAT_RETURN any_post(DAT_EP_HANDLE ep_handle, DAT_COUNT segments, lmr_triplet *iov,
                                      DAT_DTO_COOKIE cookie, DAT_COMPLETION_FLAGS flags) noexcept {
    return post_list(segments, iov, [&](DAT_LMR_TRIPLET *list) {
        return function(ep_handle, segments, list, cookie, flags);
    });
}

template <post_call function>
[[gnu::always_inline]] inline DAT_RETURN post(DAT_EP_HANDLE ep_handle, DAT_COUNT segments,
                                              lmr_triplet *iov, DAT_DTO_COOKIE cookie,
                                              DAT_COMPLETION_FLAGS flags) noexcept {
    if (!is_one(segments) || iov == nullptr || is_long(*iov)) [[unlikely]]
        return any_post<function>(ep_handle, segments, iov, cookie, flags);
    DAT_LMR_TRIPLET one;
    narrow(one, *iov);
    return told_any(function(ep_handle, segments, &one, cookie, flags));
}

template <rdma_call function>
[[gnu::noinline]] DAT_RETURN any_rdma(DAT_EP_HANDLE ep_handle, DAT_COUNT segments, lmr_triplet *iov,
                                      DAT_DTO_COOKIE cookie, const rmr_triplet *remote,
                                      DAT_COMPLETION_FLAGS flags) noexcept {
    DAT_RMR_TRIPLET to;
    if (remote != nullptr)
        narrow(to, *remote);
    return post_list(segments, iov, [&](DAT_LMR_TRIPLET *list) {
        return function(ep_handle, segments, list, cookie, remote != nullptr ? &to : nullptr,
                        flags);
    });
}

template <rdma_call function>
[[gnu::always_inline]] inline DAT_RETURN
rdma(DAT_EP_HANDLE ep_handle, DAT_COUNT segments, lmr_triplet *iov, DAT_DTO_COOKIE cookie,
     const rmr_triplet *remote, DAT_COMPLETION_FLAGS flags) noexcept {
    if (!is_one(segments) || iov == nullptr || remote == nullptr || is_long(*iov)) [[unlikely]]
        return any_rdma<function>(ep_handle, segments, iov, cookie, remote, flags);
    DAT_LMR_TRIPLET one;
    narrow(one, *iov);
    DAT_RMR_TRIPLET to;
    narrow(to, *remote);
    return told_any(function(ep_handle, segments, &one, cookie, &to, flags));
}

} // namespace

// No stack protector in these: what they keep on the stack is written member by member. (clang has
// the attribute by this spelling only.)

__attribute__((no_stack_protector)) DAT_RETURN ep_post_send(DAT_EP_HANDLE ep_handle,
                                                            DAT_COUNT segments, lmr_triplet *iov,
                                                            DAT_DTO_COOKIE cookie,
                                                            DAT_COMPLETION_FLAGS flags) noexcept {
    return post<dapl::ep_post_send>(ep_handle, segments, iov, cookie, flags);
}

__attribute__((no_stack_protector)) DAT_RETURN ep_post_recv(DAT_EP_HANDLE ep_handle,
                                                            DAT_COUNT segments, lmr_triplet *iov,
                                                            DAT_DTO_COOKIE cookie,
                                                            DAT_COMPLETION_FLAGS flags) noexcept {
    return post<dapl::ep_post_recv>(ep_handle, segments, iov, cookie, flags);
}

__attribute__((no_stack_protector)) DAT_RETURN
ep_post_rdma_read(DAT_EP_HANDLE ep_handle, DAT_COUNT segments, lmr_triplet *iov,
                  DAT_DTO_COOKIE cookie, const rmr_triplet *remote,
                  DAT_COMPLETION_FLAGS flags) noexcept {
    return rdma<dapl::ep_post_rdma_read>(ep_handle, segments, iov, cookie, remote, flags);
}

__attribute__((no_stack_protector)) DAT_RETURN
ep_post_rdma_write(DAT_EP_HANDLE ep_handle, DAT_COUNT segments, lmr_triplet *iov,
                   DAT_DTO_COOKIE cookie, const rmr_triplet *remote,
                   DAT_COMPLETION_FLAGS flags) noexcept {
    return rdma<dapl::ep_post_rdma_write>(ep_handle, segments, iov, cookie, remote, flags);
}

DAT_RETURN srq_post_recv(DAT_SRQ_HANDLE srq_handle, DAT_COUNT segments, lmr_triplet *iov,
                         DAT_DTO_COOKIE cookie) noexcept {
    return post_list(segments, iov, [&](DAT_LMR_TRIPLET *list) {
        return dapl::srq_post_recv(srq_handle, segments, list, cookie);
    });
}

} // namespace coherdma::dapl::dat1

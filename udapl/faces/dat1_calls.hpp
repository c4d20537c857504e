// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The functions of DAT 1.2's table that are not 2.0's: each translates its arguments, calls 2.0's,
// and translates what comes back. What is wrong is found out by 2.0's and in its order; what its
// types cannot say is given to it as something that it refuses.
#pragma once

#include "dapl/result.hpp"
#include "dat1_table.hpp"
#include "dat1_values.hpp"

#include <dat2/dat_coherdma_extensions.h>

namespace coherdma::dapl::dat1 {

/// Out of the way of calls that succeed.
DAT_RETURN told(DAT_RETURN failure) noexcept;
inline DAT_RETURN told_any(DAT_RETURN result) noexcept {
    return result == DAT_SUCCESS ? result : told(result);
}

template <auto function>
struct as_it_is;
/// A function of 2.0 that takes what 1.2's takes: only failures have other numbers.
template <class... arguments, DAT_RETURN (*function)(arguments...) noexcept>
struct as_it_is<function> {
    static DAT_RETURN call(arguments... given) noexcept { return told_any(function(given...)); }
};

/// Asks 2.0's call for all that it has to tell, and puts it as 1.2 lays it out.
template <class wide, class narrow, class query>
DAT_RETURN asked(narrow *to, void (*put)(narrow &, const wide &) noexcept,
                 const query &ask) noexcept {
    wide all;
    const DAT_RETURN result = ask(to != nullptr ? &all : nullptr);
    if (result != DAT_SUCCESS)
        return told(result);
    put(*to, all);
    return DAT_SUCCESS;
}

/// A failure that names an argument by its place in 2.0's call, with its place in 1.2's.
template <class place>
constexpr DAT_RETURN with_argument(DAT_RETURN result, const place &in_dat1) {
    constexpr DAT_UINT32 last = DAT_INVALID_ARG10;
    const DAT_UINT32 subtype = DAT_GET_SUBTYPE(result);
    if (DAT_GET_TYPE(result) != DAT_INVALID_PARAMETER || subtype < DAT_INVALID_ARG1 ||
        subtype > last)
        return result;
    return wrong_argument(in_dat1(subtype - DAT_INVALID_ARG1 + 1));
}

/// <dat/dat_coherdma_extensions.h> has the same.
struct remote_calls {
    DAT_UINT64 magic;
    DAT_RETURN(*post_atomic_write)
    (DAT_EP_HANDLE, const void *, const lmr_triplet *, DAT_DTO_COOKIE, const rmr_triplet *,
     DAT_COMPLETION_FLAGS);
    DAT_RETURN(*post_flush)
    (DAT_EP_HANDLE, const lmr_triplet *, DAT_DTO_COOKIE, const rmr_triplet *, DAT_COMPLETION_FLAGS);
    DAT_RETURN (*query_ways)(DAT_EP_HANDLE, DAT_COHERDMA_WAYS *);
};
extern const remote_calls extension;

/// How many segments a call may have: as IA and endpoints say. No device known has more.
inline constexpr DAT_COUNT most_segments = 256;

template <bool thread_safe>
DAT_RETURN ia_open(const DAT_NAME_PTR name, DAT_COUNT qlen, DAT_EVD_HANDLE *async,
                   DAT_IA_HANDLE *ia_handle, DAT_BOOLEAN ro_aware) noexcept;
DAT_RETURN ia_query(DAT_IA_HANDLE ia_handle, DAT_EVD_HANDLE *async, DAT_IA_ATTR_MASK ia_wanted,
                    ia_attr *ia_to, DAT_PROVIDER_ATTR_MASK provider_wanted,
                    provider_attr *provider_to) noexcept;

DAT_RETURN cno_query(DAT_CNO_HANDLE cno_handle, DAT_CNO_PARAM_MASK mask, cno_param *param) noexcept;
DAT_RETURN cr_reject(DAT_CR_HANDLE cr_handle) noexcept;
DAT_RETURN srq_query(DAT_SRQ_HANDLE srq_handle, DAT_SRQ_PARAM_MASK mask,
                     DAT_SRQ_PARAM *param) noexcept;

DAT_RETURN evd_wait(DAT_EVD_HANDLE evd_handle, DAT_TIMEOUT timeout, DAT_COUNT threshold, event *to,
                    DAT_COUNT *more) noexcept;
DAT_RETURN evd_dequeue(DAT_EVD_HANDLE evd_handle, event *to) noexcept;
DAT_RETURN evd_post_se(DAT_EVD_HANDLE evd_handle, const event *from) noexcept;

DAT_RETURN ep_create(DAT_IA_HANDLE ia_handle, DAT_PZ_HANDLE pz_handle, DAT_EVD_HANDLE recv,
                     DAT_EVD_HANDLE request, DAT_EVD_HANDLE connect, const ep_attr *attr,
                     DAT_EP_HANDLE *ep_handle) noexcept;
DAT_RETURN ep_create_with_srq(DAT_IA_HANDLE ia_handle, DAT_PZ_HANDLE pz_handle, DAT_EVD_HANDLE recv,
                              DAT_EVD_HANDLE request, DAT_EVD_HANDLE connect,
                              DAT_SRQ_HANDLE srq_handle, const ep_attr *attr,
                              DAT_EP_HANDLE *ep_handle) noexcept;
DAT_RETURN ep_query(DAT_EP_HANDLE ep_handle, DAT_EP_PARAM_MASK mask, ep_param *param) noexcept;
DAT_RETURN ep_modify(DAT_EP_HANDLE ep_handle, DAT_EP_PARAM_MASK mask,
                     const ep_param *param) noexcept;

DAT_RETURN ep_post_send(DAT_EP_HANDLE ep_handle, DAT_COUNT segments, lmr_triplet *iov,
                        DAT_DTO_COOKIE cookie, DAT_COMPLETION_FLAGS flags) noexcept;
DAT_RETURN ep_post_recv(DAT_EP_HANDLE ep_handle, DAT_COUNT segments, lmr_triplet *iov,
                        DAT_DTO_COOKIE cookie, DAT_COMPLETION_FLAGS flags) noexcept;
DAT_RETURN ep_post_rdma_read(DAT_EP_HANDLE ep_handle, DAT_COUNT segments, lmr_triplet *iov,
                             DAT_DTO_COOKIE cookie, const rmr_triplet *remote,
                             DAT_COMPLETION_FLAGS flags) noexcept;
DAT_RETURN ep_post_rdma_write(DAT_EP_HANDLE ep_handle, DAT_COUNT segments, lmr_triplet *iov,
                              DAT_DTO_COOKIE cookie, const rmr_triplet *remote,
                              DAT_COMPLETION_FLAGS flags) noexcept;
DAT_RETURN srq_post_recv(DAT_SRQ_HANDLE srq_handle, DAT_COUNT segments, lmr_triplet *iov,
                         DAT_DTO_COOKIE cookie) noexcept;

DAT_RETURN lmr_create(DAT_IA_HANDLE ia_handle, DAT_MEM_TYPE kind, DAT_REGION_DESCRIPTION region,
                      DAT_VLEN length, DAT_PZ_HANDLE pz_handle, DAT_MEM_PRIV_FLAGS privileges,
                      DAT_LMR_HANDLE *lmr_handle, DAT_LMR_CONTEXT *lmr_context,
                      DAT_RMR_CONTEXT *rmr_context, DAT_VLEN *registered_length,
                      DAT_VADDR *registered_address) noexcept;
DAT_RETURN lmr_query(DAT_LMR_HANDLE lmr_handle, DAT_LMR_PARAM_MASK mask, lmr_param *param) noexcept;
DAT_RETURN lmr_sync_rdma_read(DAT_IA_HANDLE ia_handle, const lmr_triplet *segments,
                              DAT_VLEN count) noexcept;
DAT_RETURN lmr_sync_rdma_write(DAT_IA_HANDLE ia_handle, const lmr_triplet *segments,
                               DAT_VLEN count) noexcept;
DAT_RETURN rmr_bind(DAT_RMR_HANDLE rmr_handle, const lmr_triplet *triplet,
                    DAT_MEM_PRIV_FLAGS privileges, DAT_EP_HANDLE ep_handle, DAT_RMR_COOKIE cookie,
                    DAT_COMPLETION_FLAGS flags, DAT_RMR_CONTEXT *context) noexcept;
DAT_RETURN rmr_query(DAT_RMR_HANDLE rmr_handle, DAT_RMR_PARAM_MASK mask, rmr_param *param) noexcept;

} // namespace coherdma::dapl::dat1

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The functions of DAT 1.2 that differ from 2.0: each converts its arguments, calls the function of
// 2.0 and converts the result. The function of 2.0 checks the arguments, in its order; a value that
// its types cannot represent is passed as one that it refuses.
#pragma once

#include "dapl/core/result.hpp"
#include "dat1_table.hpp"
#include "dat1_values.hpp"

#include <dat2/dat_coherdma_extensions.h>

namespace coherdma::dapl::dat1 {

/// An error of DAT 2.0 as one of 1.2. Out of line: successful calls do not need it.
DAT_RETURN to_dat1_error(DAT_RETURN error) noexcept;
inline DAT_RETURN to_dat1_result(DAT_RETURN result) noexcept {
    return result == DAT_SUCCESS ? result : to_dat1_error(result);
}

template <auto function>
struct passthrough;
/// A function with the same arguments in both versions: only the errors are converted.
template <class... arg_types, DAT_RETURN (*function)(arg_types...) noexcept>
struct passthrough<function> {
    static DAT_RETURN call(arg_types... args) noexcept { return to_dat1_result(function(args...)); }
};

/// Calls query, a function of 2.0, and converts what it stores to the type of 1.2. It refuses NULL.
/// Not noexcept, since dat_evd_wait may be canceled.
template <class dat2_type, class dat1_type, class query_function>
DAT_RETURN query_convert(dat1_type *param, void (*to_dat1)(dat1_type &, const dat2_type &) noexcept,
                         const query_function &query) {
    dat2_type dat2_param;
    const DAT_RETURN result = query(param != nullptr ? &dat2_param : nullptr);
    if (result != DAT_SUCCESS)
        return to_dat1_error(result);
    to_dat1(*param, dat2_param);
    return DAT_SUCCESS;
}

/// If the error is an invalid argument: dat1_number converts its number from 2.0's call to 1.2's.
template <class convert_number>
constexpr DAT_RETURN renumber_argument(DAT_RETURN result, const convert_number &dat1_number) {
    const DAT_UINT32 subtype = DAT_GET_SUBTYPE(result);
    if (DAT_GET_TYPE(result) != DAT_INVALID_PARAMETER || subtype < DAT_INVALID_ARG1 ||
        subtype > DAT_INVALID_ARG10)
        return result;
    return invalid_parameter(dat1_number(subtype - DAT_INVALID_ARG1 + 1));
}

/// Has the layout of DAT_COHERDMA_CALLS in <dat/dat_coherdma_extensions.h>.
struct remote_calls {
    DAT_UINT64 magic;
    DAT_RETURN(*post_atomic_write)
    (DAT_EP_HANDLE, const void *, const lmr_triplet *, DAT_DTO_COOKIE, const rmr_triplet *,
     DAT_COMPLETION_FLAGS);
    DAT_RETURN(*post_flush)
    (DAT_EP_HANDLE, const lmr_triplet *, DAT_DTO_COOKIE, const rmr_triplet *, DAT_COMPLETION_FLAGS);
    DAT_RETURN (*query_methods)(DAT_EP_HANDLE, DAT_COHERDMA_METHODS *);
};
extern const remote_calls extension;

/// The limit of segments per call that IA and EP attributes report. No known device has more.
inline constexpr DAT_COUNT max_segments_per_dto = 256;

template <bool thread_safe>
DAT_RETURN ia_open(const DAT_NAME_PTR name, DAT_COUNT qlen, DAT_EVD_HANDLE *async_evd_handle,
                   DAT_IA_HANDLE *ia_handle, DAT_BOOLEAN ro_aware) noexcept;
DAT_RETURN ia_query(DAT_IA_HANDLE ia_handle, DAT_EVD_HANDLE *async_evd_handle,
                    DAT_IA_ATTR_MASK ia_attr_mask, ia_attr *ia_attr_out,
                    DAT_PROVIDER_ATTR_MASK provider_attr_mask,
                    provider_attr *provider_attr_out) noexcept;

DAT_RETURN cno_query(DAT_CNO_HANDLE cno_handle, DAT_CNO_PARAM_MASK mask, cno_param *param) noexcept;
/// A cancellation point, like evd_wait; hence not noexcept.
DAT_RETURN cno_wait(DAT_CNO_HANDLE cno_handle, DAT_TIMEOUT timeout, DAT_EVD_HANDLE *evd_handle);
DAT_RETURN cr_reject(DAT_CR_HANDLE cr_handle) noexcept;
DAT_RETURN srq_query(DAT_SRQ_HANDLE srq_handle, DAT_SRQ_PARAM_MASK mask,
                     DAT_SRQ_PARAM *param) noexcept;

DAT_RETURN evd_wait(DAT_EVD_HANDLE evd_handle, DAT_TIMEOUT timeout, DAT_COUNT threshold,
                    event *event_out, DAT_COUNT *num_more);
DAT_RETURN evd_dequeue(DAT_EVD_HANDLE evd_handle, event *event_out) noexcept;
DAT_RETURN evd_post_se(DAT_EVD_HANDLE evd_handle, const event *software_event) noexcept;

DAT_RETURN ep_create(DAT_IA_HANDLE ia_handle, DAT_PZ_HANDLE pz_handle,
                     DAT_EVD_HANDLE recv_evd_handle, DAT_EVD_HANDLE request_evd_handle,
                     DAT_EVD_HANDLE connect_evd_handle, const ep_attr *attr,
                     DAT_EP_HANDLE *ep_handle) noexcept;
DAT_RETURN ep_create_with_srq(DAT_IA_HANDLE ia_handle, DAT_PZ_HANDLE pz_handle,
                              DAT_EVD_HANDLE recv_evd_handle, DAT_EVD_HANDLE request_evd_handle,
                              DAT_EVD_HANDLE connect_evd_handle, DAT_SRQ_HANDLE srq_handle,
                              const ep_attr *attr, DAT_EP_HANDLE *ep_handle) noexcept;
DAT_RETURN ep_query(DAT_EP_HANDLE ep_handle, DAT_EP_PARAM_MASK mask, ep_param *param) noexcept;
DAT_RETURN ep_modify(DAT_EP_HANDLE ep_handle, DAT_EP_PARAM_MASK mask,
                     const ep_param *param) noexcept;

DAT_RETURN ep_post_send(DAT_EP_HANDLE ep_handle, DAT_COUNT num_segments, lmr_triplet *iov,
                        DAT_DTO_COOKIE user_cookie, DAT_COMPLETION_FLAGS flags) noexcept;
DAT_RETURN ep_post_recv(DAT_EP_HANDLE ep_handle, DAT_COUNT num_segments, lmr_triplet *iov,
                        DAT_DTO_COOKIE user_cookie, DAT_COMPLETION_FLAGS flags) noexcept;
DAT_RETURN ep_post_rdma_read(DAT_EP_HANDLE ep_handle, DAT_COUNT num_segments, lmr_triplet *iov,
                             DAT_DTO_COOKIE user_cookie, const rmr_triplet *remote,
                             DAT_COMPLETION_FLAGS flags) noexcept;
DAT_RETURN ep_post_rdma_write(DAT_EP_HANDLE ep_handle, DAT_COUNT num_segments, lmr_triplet *iov,
                              DAT_DTO_COOKIE user_cookie, const rmr_triplet *remote,
                              DAT_COMPLETION_FLAGS flags) noexcept;
DAT_RETURN srq_post_recv(DAT_SRQ_HANDLE srq_handle, DAT_COUNT num_segments, lmr_triplet *iov,
                         DAT_DTO_COOKIE user_cookie) noexcept;

DAT_RETURN lmr_create(DAT_IA_HANDLE ia_handle, DAT_MEM_TYPE mem_type, DAT_REGION_DESCRIPTION region,
                      DAT_VLEN length, DAT_PZ_HANDLE pz_handle, DAT_MEM_PRIV_FLAGS privileges,
                      DAT_LMR_HANDLE *lmr_handle, DAT_LMR_CONTEXT *lmr_context,
                      DAT_RMR_CONTEXT *rmr_context, DAT_VLEN *registered_length,
                      DAT_VADDR *registered_address) noexcept;
DAT_RETURN lmr_query(DAT_LMR_HANDLE lmr_handle, DAT_LMR_PARAM_MASK mask, lmr_param *param) noexcept;
DAT_RETURN lmr_sync_rdma_read(DAT_IA_HANDLE ia_handle, const lmr_triplet *segments,
                              DAT_VLEN num_segments) noexcept;
DAT_RETURN lmr_sync_rdma_write(DAT_IA_HANDLE ia_handle, const lmr_triplet *segments,
                               DAT_VLEN num_segments) noexcept;
DAT_RETURN rmr_bind(DAT_RMR_HANDLE rmr_handle, const lmr_triplet *triplet,
                    DAT_MEM_PRIV_FLAGS privileges, DAT_EP_HANDLE ep_handle,
                    DAT_RMR_COOKIE user_cookie, DAT_COMPLETION_FLAGS flags,
                    DAT_RMR_CONTEXT *rmr_context) noexcept;
DAT_RETURN rmr_query(DAT_RMR_HANDLE rmr_handle, DAT_RMR_PARAM_MASK mask, rmr_param *param) noexcept;

} // namespace coherdma::dapl::dat1

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Opening an IA; CNOs, CRs and SRQs.

#include "dapl/api.hpp"
#include "dat1_calls.hpp"

namespace coherdma::dapl::dat1 {

template <bool thread_safe>
DAT_RETURN ia_open(const DAT_NAME_PTR name, DAT_COUNT qlen, DAT_EVD_HANDLE *async_evd_handle,
                   DAT_IA_HANDLE *ia_handle, DAT_BOOLEAN ro_aware) noexcept {
    const open_options options = {.version = 1,
                                  .thread_safe = thread_safe ? DAT_TRUE : DAT_FALSE,
                                  .ro_aware = ro_aware == DAT_TRUE};
    return to_dat1_result(open_ia(options, name, qlen, async_evd_handle, ia_handle));
}
template DAT_RETURN ia_open<false>(const DAT_NAME_PTR, DAT_COUNT, DAT_EVD_HANDLE *, DAT_IA_HANDLE *,
                                   DAT_BOOLEAN) noexcept;
template DAT_RETURN ia_open<true>(const DAT_NAME_PTR, DAT_COUNT, DAT_EVD_HANDLE *, DAT_IA_HANDLE *,
                                  DAT_BOOLEAN) noexcept;

namespace {

/// DAT 1.2 has no member for a file descriptor: then the agent is empty.
void to_dat1(cno_param &dst, const DAT_CNO_PARAM &src) noexcept {
    dst = {src.ia_handle, {nullptr, nullptr}};
    if (src.proxy_type == DAT_PROXY_TYPE_AGENT)
        dst.agent = src.proxy.agent;
}

} // namespace

DAT_RETURN cno_query(DAT_CNO_HANDLE cno_handle, DAT_CNO_PARAM_MASK mask,
                     cno_param *param) noexcept {
    return query_convert<DAT_CNO_PARAM>(param, to_dat1, [&](DAT_CNO_PARAM *dat2_param) {
        return dapl::cno_query(cno_handle, dat2_cno_mask(mask), dat2_param);
    });
}

DAT_RETURN cr_reject(DAT_CR_HANDLE cr_handle) noexcept {
    return to_dat1_result(dapl::cr_reject(cr_handle, 0, nullptr));
}

DAT_RETURN srq_query(DAT_SRQ_HANDLE srq_handle, DAT_SRQ_PARAM_MASK mask,
                     DAT_SRQ_PARAM *param) noexcept {
    const DAT_RETURN result = dapl::srq_query(srq_handle, mask, param);
    if (result != DAT_SUCCESS)
        return to_dat1_error(result);
    param->srq_state = dat1_srq_state(param->srq_state);
    return DAT_SUCCESS;
}

} // namespace coherdma::dapl::dat1

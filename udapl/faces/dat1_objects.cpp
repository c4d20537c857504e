// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// IAs that are opened, and objects of which little differs.

#include "dapl/api.hpp"
#include "dat1_calls.hpp"

namespace coherdma::dapl::dat1 {

template <bool thread_safe>
DAT_RETURN ia_open(const DAT_NAME_PTR name, DAT_COUNT qlen, DAT_EVD_HANDLE *async,
                   DAT_IA_HANDLE *ia_handle, DAT_BOOLEAN ro_aware) noexcept {
    return told_any(open_ia({1, thread_safe ? DAT_TRUE : DAT_FALSE, ro_aware == DAT_TRUE}, name,
                            qlen, async, ia_handle));
}
template DAT_RETURN ia_open<false>(const DAT_NAME_PTR, DAT_COUNT, DAT_EVD_HANDLE *, DAT_IA_HANDLE *,
                                   DAT_BOOLEAN) noexcept;
template DAT_RETURN ia_open<true>(const DAT_NAME_PTR, DAT_COUNT, DAT_EVD_HANDLE *, DAT_IA_HANDLE *,
                                  DAT_BOOLEAN) noexcept;

namespace {

// A descriptor, which 1.2 has no member for, is no agent.
void put(cno_param &to, const DAT_CNO_PARAM &from) noexcept {
    to = {from.ia_handle, {nullptr, nullptr}};
    if (from.proxy_type == DAT_PROXY_TYPE_AGENT)
        to.agent = from.proxy.agent;
}

} // namespace

DAT_RETURN cno_query(DAT_CNO_HANDLE cno_handle, DAT_CNO_PARAM_MASK mask,
                     cno_param *param) noexcept {
    return asked<DAT_CNO_PARAM>(param, put, [&](DAT_CNO_PARAM *all) {
        return dapl::cno_query(cno_handle, cno_mask(mask), all);
    });
}

DAT_RETURN cr_reject(DAT_CR_HANDLE cr_handle) noexcept {
    return told_any(dapl::cr_reject(cr_handle, 0, nullptr));
}

DAT_RETURN srq_query(DAT_SRQ_HANDLE srq_handle, DAT_SRQ_PARAM_MASK mask,
                     DAT_SRQ_PARAM *param) noexcept {
    const DAT_RETURN result = dapl::srq_query(srq_handle, mask, param);
    if (result != DAT_SUCCESS)
        return told(result);
    param->srq_state = srq_state(param->srq_state);
    return DAT_SUCCESS;
}

} // namespace coherdma::dapl::dat1

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "completion.hpp"

#include "ep.hpp"
#include "evd.hpp"
#include "extensions/ib.hpp"
#include "ia.hpp"
#include "srq.hpp"

namespace coherdma::dapl {

DAT_DTO_COMPLETION_STATUS status_of(ibv_wc_status status) noexcept {
    switch (status) {
    case IBV_WC_SUCCESS:
        return DAT_DTO_SUCCESS;
    case IBV_WC_LOC_LEN_ERR:
        return DAT_DTO_ERR_LOCAL_LENGTH;
    case IBV_WC_LOC_QP_OP_ERR:
        return DAT_DTO_ERR_LOCAL_EP;
    case IBV_WC_LOC_PROT_ERR:
    case IBV_WC_LOC_ACCESS_ERR:
    case IBV_WC_LOC_RDD_VIOL_ERR:
        return DAT_DTO_ERR_LOCAL_PROTECTION;
    case IBV_WC_WR_FLUSH_ERR:
        return DAT_DTO_ERR_FLUSHED;
    case IBV_WC_MW_BIND_ERR:
        return DAT_RMR_OPERATION_FAILED;
    case IBV_WC_BAD_RESP_ERR:
        return DAT_DTO_ERR_BAD_RESPONSE;
    case IBV_WC_REM_INV_REQ_ERR:
    case IBV_WC_REM_OP_ERR:
    case IBV_WC_REM_INV_RD_REQ_ERR:
    case IBV_WC_REM_ABORT_ERR:
        return DAT_DTO_ERR_REMOTE_RESPONDER;
    case IBV_WC_REM_ACCESS_ERR:
        return DAT_DTO_ERR_REMOTE_ACCESS;
    case IBV_WC_RNR_RETRY_EXC_ERR:
    case IBV_WC_RESP_TIMEOUT_ERR:
        return DAT_DTO_ERR_RECEIVER_NOT_READY;
    default:
        return DAT_DTO_ERR_TRANSPORT;
    }
}

namespace {

void tell_bind(const record &of, DAT_DTO_COMPLETION_STATUS status, DAT_EVENT &event) noexcept {
    event.event_number = DAT_RMR_BIND_COMPLETION_EVENT;
    auto &data = event.event_data.rmr_completion_event_data;
    data.rmr_handle = of.subject;
    data.user_cookie = of.told.user_cookie;
    data.status = status;
}

/// False: the device tells of something that nobody has posted, or again.
bool end_record(record &one) noexcept {
    if (ep *const pair = one.pair())
        return (one.received != 0 ? pair->receives : pair->requests).end(one);
    return static_cast<srq *>(one.subject)->end(one);
}

} // namespace

bool next_completion(evd &on, DAT_EVENT &event) noexcept {
    while (ibv_poll_cq(on.cq.get(), 1, &on.found) > 0) {
        if (tell(on, event) || tell_more(on, event))
            return true;
    }
    return false;
}

bool tell_more(evd &on, DAT_EVENT &event) noexcept {
    const ibv_wc &completion = on.found;
    if (completion.wr_id == 0 || completion.wr_id % alignof(record) != 0)
        return false;
    auto &one = *reinterpret_cast<record *>(completion.wr_id);
    const record of = one; // It is posted anew as soon as it has ended.
    if (!end_record(one))
        return false;
    ep *const pair = of.pair() != nullptr ? of.pair() : on.home->by_number.find(completion.qp_num);
    const bool good = completion.status == IBV_WC_SUCCESS;
    auto &data = event.event_data.dto_completion_event_data;
    event.event_number = DAT_DTO_COMPLETION_EVENT;
    event.evd_handle = &on;
    data = of.told;
    data.ep_handle = pair;
    data.status = status_of(completion.status);
    if (of.received != 0)
        data.transfered_length = completion.byte_len;
    if (!good) {
        data.transfered_length = 0;
        if (pair == nullptr || pair->silent.load(std::memory_order_relaxed))
            return false;
        if (completion.status != IBV_WC_WR_FLUSH_ERR)
            pair->broken();
    }
    if (of.received == 0 && data.operation < DAT_DTO_BIND_MW)
        return true;
    if (data.operation == DAT_DTO_BIND_MW) {
        tell_bind(of, data.status, event);
        return true;
    }
    // A datagram that nobody wants to hear of; see extensions/ud.cpp.
    if (good && of.received == 0 && of.subject != nullptr)
        return false;
    if (of.received != 0 && good && (completion.wc_flags & IBV_WC_WITH_INV) != 0) {
        data.operation = DAT_DTO_RECEIVE_WITH_INVALIDATE;
        data.rmr_context = completion.invalidated_rkey;
    } else {
        extensions::tell(completion, of, event);
    }
    return true;
}

} // namespace coherdma::dapl

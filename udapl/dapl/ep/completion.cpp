// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Converts work completions to DAT events.

#include "dapl/event/upcalls.hpp"
#include "dapl/ia/ia.hpp"
#include "dapl/memory/local_sync.hpp"
#include "dapl/memory/rmr.hpp"
#include "ep.hpp"
#include "srq.hpp"

#include <cstring>
#include <dat2/dat_ib_extensions.h>

namespace coherdma::dapl {

static_assert(sizeof(DAT_IB_EXTENSION_EVENT_DATA) <= sizeof(DAT_EVENT::event_extension_data));

namespace {

/// The status of a DTO event for that of a CQE.
DAT_DTO_COMPLETION_STATUS wc_to_dat_status(ibv_wc_status status) noexcept {
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

/// The type of the extension event of a work request or, for a Receive, of the peer's.
DAT_IB_EXT_TYPE extension_type(const ibv_wc &wc, const dto_cookie &cookie) noexcept {
    switch (static_cast<unsigned>(cookie.event.operation)) {
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
        return wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM ? DAT_IB_RDMA_WRITE_IMMED_DATA
                                                      : DAT_IB_RECV_IMMED_DATA;
    }
}

/// Makes a DTO event an extension event, if the operation is one of an extension or a Receive with
/// immediate data. A UD Receive is one also if it failed.
void set_extension_event(const ibv_wc &wc, const dto_cookie &cookie, DAT_EVENT &event) noexcept {
    const bool success = wc.status == IBV_WC_SUCCESS;
    const bool has_imm = cookie.is_recv != 0 && (wc.wc_flags & IBV_WC_WITH_IMM) != 0;
    const bool is_ud_recv = static_cast<unsigned>(cookie.event.operation) == DAT_IB_DTO_RECV_UD;
    if (cookie.is_recv != 0 && !is_ud_recv && !(success && has_imm))
        return;
    DAT_IB_EXTENSION_EVENT_DATA ext_data;
    std::memset(&ext_data, 0, sizeof ext_data);
    ext_data.type = extension_type(wc, cookie);
    ext_data.status = success ? DAT_OP_SUCCESS : DAT_IB_OP_ERR;
    if (has_imm)
        ext_data.val.immed.data = wc.imm_data;
    event.event_number = static_cast<DAT_EVENT_NUMBER>(DAT_IB_DTO_EVENT);
    auto &data = event.event_data.dto_completion_event_data;
    if (is_ud_recv)
        ext_data.remote_ah.qpn = wc.src_qp;
    else if (has_imm)
        data.operation = static_cast<DAT_DTOS>(wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM
                                                   ? DAT_IB_DTO_RECV_IMMED
                                                   : DAT_IB_DTO_RECV_MSG_IMMED);
    std::memcpy(event.event_extension_data, &ext_data, sizeof ext_data);
}

/// Makes the event that of a bind, whose cookie has the RMR.
void set_bind_event(const dto_cookie &cookie, DAT_DTO_COMPLETION_STATUS status,
                    DAT_EVENT &event) noexcept {
    event.event_number = DAT_RMR_BIND_COMPLETION_EVENT;
    auto &data = event.event_data.rmr_completion_event_data;
    data.rmr_handle = cookie.object;
    data.user_cookie = cookie.event.user_cookie;
    data.status = status;
}

/// Frees the cookie of a completed WR. False: no such WR is outstanding: the device reports a
/// completion twice, or an invalid one.
bool complete_cookie(dto_cookie &cookie) noexcept {
    if (dapl_ep *const ep = cookie.ep())
        return (cookie.is_recv != 0 ? ep->receives : ep->requests).complete_checked(cookie);
    auto *const srq = static_cast<dapl_srq *>(cookie.object);
    return srq != nullptr && srq->complete(cookie); // nullptr: see cookie_ring::retire
}

/// Before the cookie completes, if the device is not coherent: makes what the device has written
/// into its sinks (the local segments of a Receive or Read) visible to the CPU, and the same for
/// unsignaled requests before it. After an error the device may have written a part.
[[gnu::noinline]] void sync_completed(const ibv_wc &wc, dto_cookie &completed) noexcept {
    const auto sync = [](const dapl_ia &ia, const dto_cookie &cookie, std::uint64_t max_length) {
        if (cookie.num_sinks != 0)
            sync_for_cpu(ia, cookie.sinks, cookie.num_sinks, max_length);
    };
    const bool is_success = wc.status == IBV_WC_SUCCESS;
    // The data of a Write with immediate went to its remote address, not to the receive.
    const std::uint64_t recv_length = !is_success                              ? ~std::uint64_t{0}
                                      : wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM ? 0
                                                                               : wc.byte_len;
    dapl_ep *const ep = completed.ep();
    if (ep == nullptr) {
        const auto *const srq = static_cast<dapl_srq *>(completed.object);
        if (srq != nullptr && completed.seq != 0) // 0: not outstanding
            sync(*srq->ia, completed, recv_length);
    } else if (completed.is_recv != 0) {
        ep->receives.for_each_to_complete(completed, [&](const dto_cookie &cookie) {
            sync(*ep->ia, cookie, &cookie == &completed ? recv_length : ~std::uint64_t{0});
        });
    } else {
        ep->requests.for_each_to_complete(
            completed, [&](const dto_cookie &cookie) { sync(*ep->ia, cookie, ~std::uint64_t{0}); });
    }
}

/// The fast path of poll_event: if evd.wc is a DTO that succeeded on an EP's own queues, completes
/// its cookie and makes the event. False: nothing was done, and wc_to_event handles the completion.
/// tests/bench/dapl_costs.py shows what this saves.
inline bool dto_to_event(dapl_evd &evd, DAT_EVENT &event) noexcept {
    const ibv_wc &wc = evd.wc;
    // Neither 0 nor with sync_flag, which is the sign.
    if (wc.status != IBV_WC_SUCCESS || static_cast<std::int64_t>(wc.wr_id) <= 0) [[unlikely]]
        return false;
    auto &cookie = *reinterpret_cast<dto_cookie *>(wc.wr_id);
    const bool is_recv = cookie.event.operation == DAT_DTO_RECEIVE;
    if (is_recv ? cookie.ep() == nullptr || (wc.wc_flags & (IBV_WC_WITH_IMM | IBV_WC_WITH_INV)) != 0
                : cookie.event.operation > DAT_DTO_RECEIVE) [[unlikely]]
        return false;
    cookie_ring &ring = is_recv ? cookie.ep()->receives : cookie.ep()->requests;
    const std::uint64_t seq = ring.pending_seq(cookie);
    if (seq == 0) [[unlikely]]
        return false;
    auto &data = event.event_data.dto_completion_event_data;
    data = cookie.event;
    if (is_recv)
        data.transfered_length = wc.byte_len;
    ring.complete(cookie, seq);
    event.event_number = DAT_DTO_COMPLETION_EVENT;
    event.evd_handle = &evd;
    return true;
}

/// On iWARP, when the peer disconnects, the kernel flushes, and siw's fails the request that is
/// being sent. rdma_cm reports the end of the connection, also if that is not the reason.
bool is_effect_of_close(ibv_wc_status status) noexcept {
    return status == IBV_WC_WR_FLUSH_ERR || status == IBV_WC_LOC_QP_OP_ERR;
}

/// Makes the event of any completion in evd.wc: an error, a Receive from an SRQ or with immediate
/// data, a bind, an extension, one that the device reports twice, or any of a device that is not
/// coherent. False: there is no event.
[[gnu::noinline]] bool wc_to_event(dapl_evd &evd, DAT_EVENT &event) noexcept {
    const ibv_wc &wc = evd.wc;
    dto_cookie *const posted = to_cookie(wc.wr_id);
    if (posted == nullptr)
        return false;
    dto_cookie &ring_cookie = *posted;
    if ((wc.wr_id & sync_flag) != 0)
        sync_completed(wc, ring_cookie);   // while the cookie has its sinks
    const dto_cookie cookie = ring_cookie; // once it has completed, another thread may reuse it
    if (!complete_cookie(ring_cookie))
        return false;
    if (is_marker(cookie)) {
        --evd.num_markers;
        return false;
    }
    dapl_ep *const ep = cookie.ep() != nullptr ? cookie.ep() : evd.ia->qpn_index.find(wc.qp_num);
    if (ep == nullptr) // a receive from an SRQ, of a QP whose EP was freed or reset
        return false;
    const bool success = wc.status == IBV_WC_SUCCESS;
    auto &data = event.event_data.dto_completion_event_data;
    event.event_number = DAT_DTO_COMPLETION_EVENT;
    event.evd_handle = &evd;
    data = cookie.event;
    data.ep_handle = ep;
    data.status = wc_to_dat_status(wc.status);
    if (cookie.is_recv != 0)
        data.transfered_length = wc.byte_len;
    if (!success) {
        if (data.operation == DAT_DTO_BIND_MW)
            rmr_bind_failed(cookie.object);
        data.transfered_length = 0;
        if (ep->suppress_events.load(std::memory_order_relaxed))
            return false;
        if (wc.status != IBV_WC_WR_FLUSH_ERR && cookie.is_recv == 0)
            ep->request_failed = true;
        if (!ep->ia->dev->iwarp || !is_effect_of_close(wc.status))
            ep->schedule_broken();
    }
    if (cookie.is_recv == 0 && data.operation < DAT_DTO_BIND_MW)
        return true;
    if (data.operation == DAT_DTO_BIND_MW) {
        set_bind_event(cookie, data.status, event);
        return true;
    }
    // A UD Send without an event; see cm/ud.cpp.
    if (success && cookie.is_recv == 0 && cookie.object != nullptr)
        return false;
    if (cookie.is_recv != 0 && success && (wc.wc_flags & IBV_WC_WITH_INV) != 0) {
        data.operation = DAT_DTO_RECEIVE_WITH_INVALIDATE;
        data.rmr_context = wc.invalidated_rkey;
        rmr_invalidated(*ep->ia, wc.invalidated_rkey);
    } else {
        set_extension_event(wc, cookie, event);
    }
    return true;
}

} // namespace

bool flush_request(dapl_evd &evd, std::uint64_t wr_id, DAT_EVENT &event) noexcept {
    evd.wc = {};
    evd.wc.wr_id = wr_id;
    evd.wc.status = IBV_WC_WR_FLUSH_ERR;
    return wc_to_event(evd, event);
}

/// Polls the EVD's CQ until a completion has an event. Called with the EVD's lock.
DAT_RETURN poll_event(dapl_evd &evd, DAT_EVENT &event) noexcept {
    int count = 0;
    while ((count = ibv_poll_cq(evd.cq.get(), 1, &evd.wc)) > 0) {
        if (dto_to_event(evd, event) || wc_to_event(evd, event))
            return DAT_SUCCESS;
    }
    return count == 0 ? static_cast<DAT_RETURN>(DAT_QUEUE_EMPTY) : dat_error(DAT_INTERNAL_ERROR);
}

} // namespace coherdma::dapl

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Polling: a completion leads to its request, and gets the program's wr_id back.

#include "calls.hpp"

#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace coherdma::interposer {
namespace {

/// The events of a poll. No value: the CQ is not observed.
std::optional<delivery> begin_delivery(const cq_record *record) noexcept {
    return is_observed(record) ? std::optional<delivery>(std::in_place, *record) : std::nullopt;
}

/// Gives the completion the program's wr_id, also if it is not observed: the request was posted
/// when it was, by the parent of a fork() or another thread.
void deliver(const std::optional<delivery> &events, ibv_cq &cq, ibv_wc &wc, bool has_byte_len) {
    std::vector<request> silent;
    const auto match = request_queue::complete(wc.wr_id, wc.status == IBV_WC_WR_FLUSH_ERR, silent);
    if (match)
        wc.wr_id = match->completed.wr_id;
    if (!events)
        return;
    completion delivered = {.wc = wc,
                            .completed = match ? &match->completed : nullptr,
                            .has_byte_len = has_byte_len,
                            .silent = silent};
    events->notify(&observer::on_completion, cq, delivered);
}

int poll_cq(ibv_cq *cq, int num_entries, ibv_wc *wcs) {
    const cq_record *const record = tables().cqs.find(cq);
    if (record == nullptr && is_refused(object_kind::CQ, cq, "ibv_poll_cq"))
        return -1;
    if (const int error = failure_of("ibv_poll_cq"))
        return -error;
    note_unobserved_use(record, "ibv_poll_cq");
    const use_scope use(record, "ibv_poll_cq");
    const int count = context_of(cq->context).driver_ops.poll_cq(cq, num_entries, wcs);
    const auto events = begin_delivery(record);
    constexpr bool HAS_BYTE_LEN = true;
    for (int i = 0; i < count; ++i)
        deliver(events, *cq, wcs[i], HAS_BYTE_LEN);
    if (!events)
        return count;
    if (count >= 0 && count < num_entries)
        events->notify(&observer::on_short_poll, *cq,
                       std::span(wcs + count, static_cast<std::size_t>(num_entries - count)));
    events->notify(&observer::on_poll, *cq, count);
    return count;
}

/// What an extended CQ says of its current completion.
ibv_wc read_completion(const cq_record &record, ibv_cq_ex &cq) {
    const auto has = [&](std::uint64_t flag) {
        return (record.wc_flags & flag) != 0;
    };
    ibv_wc wc = {};
    wc.wr_id = cq.wr_id;
    wc.status = cq.status;
    if (has(IBV_WC_EX_WITH_QP_NUM))
        wc.qp_num = cq.read_qp_num(&cq);
    if (cq.status != IBV_WC_SUCCESS) {
        wc.vendor_err = cq.read_vendor_err(&cq);
        return wc;
    }
    wc.opcode = cq.read_opcode(&cq);
    if (has(IBV_WC_EX_WITH_BYTE_LEN))
        wc.byte_len = cq.read_byte_len(&cq);
    wc.wc_flags = cq.read_wc_flags(&cq);
    if (has(IBV_WC_EX_WITH_IMM) && (wc.wc_flags & (IBV_WC_WITH_IMM | IBV_WC_WITH_INV)) != 0)
        wc.imm_data = cq.read_imm_data(&cq); // or invalidated_rkey
    return wc;
}

/// The driver's start_poll or next_poll returned this.
int deliver_current(const cq_record &record, ibv_cq_ex &cq, int result) {
    ibv_cq &base = *ibv_cq_ex_to_cq(&cq);
    const auto events = begin_delivery(&record);
    if (result == 0) {
        ibv_wc wc = read_completion(record, cq);
        deliver(events, base, wc, (record.wc_flags & IBV_WC_EX_WITH_BYTE_LEN) != 0);
        cq.wr_id = wc.wr_id;
        cq.status = wc.status;
    }
    if (events)
        events->notify(&observer::on_poll, base, result == 0 ? 1 : 0);
    return result;
}

int start_poll(ibv_cq_ex *cq, ibv_poll_cq_attr *attr) {
    const cq_record &record = get_record(tables().cqs, object_kind::CQ, cq, "ibv_start_poll");
    if (const int error = failure_of("ibv_start_poll"))
        return error;
    note_unobserved_use(&record, "ibv_start_poll");
    begin_use(record, "ibv_start_poll");
    const int result = deliver_current(record, *cq, record.driver_start_poll(cq, attr));
    if (result != 0)
        end_use(record);
    return result;
}

int next_poll(ibv_cq_ex *cq) {
    const cq_record &record = get_record(tables().cqs, object_kind::CQ, cq, "ibv_next_poll");
    return deliver_current(record, *cq, record.driver_next_poll(cq));
}

void end_poll(ibv_cq_ex *cq) {
    const cq_record &record = get_record(tables().cqs, object_kind::CQ, cq, "ibv_end_poll");
    record.driver_end_poll(cq);
    end_use(record);
}

} // namespace

void hook_extended_poll(cq_record &record, ibv_cq_ex &cq) noexcept {
    record.driver_start_poll = cq.start_poll;
    record.driver_next_poll = cq.next_poll;
    cq.start_poll = start_poll;
    cq.next_poll = next_poll;
    if (!record.info.is_single_threaded)
        return; // the end of a poll is of no interest
    record.driver_end_poll = cq.end_poll;
    cq.end_poll = end_poll;
}

void hook_poll_functions(ibv_context &context) noexcept {
    context.ops.poll_cq = poll_cq;
}

} // namespace coherdma::interposer

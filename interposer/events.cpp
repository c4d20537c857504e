// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Events that the program waits for: of completions, and of the device.

#include "calls.hpp"

#include <utility>

using namespace coherdma::interposer;

namespace coherdma::interposer {
namespace {

int req_notify_cq(ibv_cq *cq, int solicited_only) {
    if (const int error = failure_of("ibv_req_notify_cq"))
        return error;
    const auto driver_req_notify_cq = context_of(cq->context).driver_ops.req_notify_cq;
    if (const cq_record *const record = tables().cqs.find(cq); is_observed(record))
        notify(*record, &observer::before_arm, *cq);
    else if (record == nullptr && is_refused(object_kind::CQ, cq, "ibv_req_notify_cq"))
        return EINVAL;
    else
        note_unobserved_use(record, "ibv_req_notify_cq");
    return driver_req_notify_cq(cq, solicited_only);
}

/// The object that an asynchronous event is of; nullptr: a port or the device, or it is not known.
const object_record *owner_of(const ibv_async_event &event) noexcept {
    switch (event.event_type) {
    case IBV_EVENT_CQ_ERR:
        return tables().cqs.find(event.element.cq);
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_COMM_EST:
    case IBV_EVENT_SQ_DRAINED:
    case IBV_EVENT_PATH_MIG:
    case IBV_EVENT_PATH_MIG_ERR:
    case IBV_EVENT_QP_LAST_WQE_REACHED:
        return tables().qps.find(event.element.qp);
    case IBV_EVENT_SRQ_ERR:
    case IBV_EVENT_SRQ_LIMIT_REACHED:
        return tables().srqs.find(event.element.srq);
    default:
        return nullptr;
    }
}

/// The program's call waits. It ends also if the thread is cancelled.
class wait_scope {
  public:
    explicit wait_scope(ibv_comp_channel &channel)
        : channel_(channel) {
        const object_record *const record = tables().others.find(&channel);
        if (!is_observed(record))
            return;
        record_ = record;
        notify(*record_, &observer::before_wait, channel_);
    }
    ~wait_scope() {
        if (record_ != nullptr)
            notify(*record_, &observer::after_wait, channel_);
    }
    wait_scope(const wait_scope &) = delete;
    wait_scope &operator=(const wait_scope &) = delete;

  private:
    ibv_comp_channel &channel_;
    const object_record *record_ = nullptr; ///< nullptr: it is not observed
};

} // namespace

void hook_event_functions(ibv_context &context) noexcept {
    context.ops.req_notify_cq = req_notify_cq;
}

} // namespace coherdma::interposer

extern "C" {

/// For libcoherdma, which finds the context's driver by this function: the driver's, in place of
/// which the context has the interposer's; nullptr: the context has its own.
void *coherdma_interposer_find_req_notify_cq(const ibv_context *context) {
    const context_record *const record = tables().contexts.find(context);
    return record != nullptr ? reinterpret_cast<void *>(record->driver_ops.req_notify_cq) : nullptr;
}

int ibv_get_cq_event(ibv_comp_channel *channel, ibv_cq **cq, void **cq_context) {
    if (const int error = failure_of("ibv_get_cq_event")) {
        errno = error;
        return -1;
    }
    const int result = [=] {
        const wait_scope wait(*channel);
        return libibverbs().get_cq_event(channel, cq, cq_context);
    }();
    if (const cq_record *const record = result == 0 ? tables().cqs.find(*cq) : nullptr;
        is_observed(record))
        notify(*record, &observer::on_completion_event, record->info);
    return result;
}

void ibv_ack_cq_events(ibv_cq *cq, unsigned count) {
    // Before: another thread may destroy the CQ as soon as its events are acknowledged.
    if (const cq_record *const record = tables().cqs.find(cq); is_observed(record))
        notify(*record, &observer::before_acknowledge, record->info, count);
    else if (record == nullptr && is_refused(object_kind::CQ, cq, "ibv_ack_cq_events"))
        return;
    libibverbs().ack_cq_events(cq, count);
}

int ibv_get_async_event(ibv_context *context, ibv_async_event *event) {
    if (const int error = failure_of("ibv_get_async_event")) {
        errno = error;
        return -1;
    }
    const int result = libibverbs().get_async_event(context, event);
    if (const object_record *const record = result == 0 ? owner_of(*event) : nullptr;
        is_observed(record))
        notify(*record, &observer::on_async_event, record->info);
    return result;
}

void ibv_ack_async_event(ibv_async_event *event) {
    constexpr unsigned ONE_EVENT = 1;
    if (const object_record *const record = owner_of(*event); is_observed(record))
        notify(*record, &observer::before_acknowledge, record->info, ONE_EVENT);
    libibverbs().ack_async_event(event);
}

} // extern "C"

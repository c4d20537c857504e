// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The observer that the interposer loads: makes calls and requests of the program fail.

#include "interposer/observer.hpp"

#include "process.hpp"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace coherdma::faults {
namespace {

using namespace interposer;

/// Calls func(process). Without memory nothing is done.
template <class function>
void with_process(function func) noexcept {
    // Acquire: sees what its maker has made.
    process_faults *const process = current_faults.load(std::memory_order_acquire);
    // Active: a signal handler has interrupted this thread there.
    if (process == nullptr || recording_scope::is_active())
        return;
    const recording_scope scope;
    try {
        func(*process);
    } catch (const std::bad_alloc &) {
    }
}

request_class class_of(ibv_wr_opcode opcode) noexcept {
    switch (opcode) {
    case IBV_WR_SEND:
    case IBV_WR_SEND_WITH_IMM:
    case IBV_WR_SEND_WITH_INV:
    case IBV_WR_TSO:
        return request_class::SEND;
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_WRITE_WITH_IMM:
        return request_class::WRITE;
    case IBV_WR_RDMA_READ:
        return request_class::READ;
    case IBV_WR_ATOMIC_CMP_AND_SWP:
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
        return request_class::ATOMIC;
    default:
        return request_class::OTHER;
    }
}

/// Whether requests of this kind can fail: a driver may take only some bits of the key of a bind,
/// which would then succeed.
bool can_fail(ibv_wr_opcode opcode) noexcept {
    return opcode != IBV_WR_BIND_MW;
}

/// 0: of an SRQ.
std::uint32_t qp_num_of(process_faults &process, const request &posted) {
    return process.requests.is_srq(posted.queue)
               ? 0
               : static_cast<const ibv_qp *>(posted.queue)->qp_num;
}

template <class wr_type>
void change_request(const request &posted, wr_type &wr, request_class posted_class) {
    with_process([&](process_faults &process) {
        process.requests.note_post(posted);
        queue_pairs::identity queue;
        if (process.selects_queues)
            queue = process.qps.find(posted.queue);
        const due_fault due = process.schedule.count_request(
            posted_class,
            {.number = queue.number, .peer = queue.path_peer, .other_peer = queue.cm_peer},
            std::chrono::steady_clock::now());
        if (due.cause != nullptr && process.requests.begin(posted, wr, *due.cause))
            process.log.note_request(due, posted, qp_num_of(process, posted));
    });
}

void note_cancelled(const request &cancelled, const char *reason) {
    with_process([&](process_faults &process) {
        if (const fault *const cause = process.requests.cancel(cancelled))
            process.log.note_failed_attempt(*cause, cancelled, reason);
    });
}

/// The context has the events of the scenario.
void add_events(process_faults &process, ibv_context &context, plan::time_point now) {
    const std::string device = ibv_get_device_name(context.device);
    const std::vector<plan::event> planned = process.schedule.list_events(now);
    std::vector<async_events::due_event> due;
    for (const plan::event &each : planned)
        due.push_back({.type = each.cause->event,
                       .time = each.time,
                       .report = [&process, device, cause = each.cause](bool is_delivered) {
                           if (!is_delivered)
                               return process.log.note_failed_event(
                                   *cause, device.c_str(), "the program has no object of its kind");
                           process.schedule.count_event(*cause);
                           process.log.note_event(*cause, device.c_str());
                       }});
    if (const int error = process.events.add_context(context, std::move(due)); error != 0)
        for (const plan::event &each : planned)
            process.log.note_failed_event(*each.cause, device.c_str(),
                                          std::generic_category().message(error));
}

/// Returns the errno that the call fails with, or 0.
int note_refusal(process_faults &process, const device_limits::refusal &refused) {
    if (refused.cause != nullptr)
        process.log.note_refusal(*refused.cause, refused.error, refused.asked);
    return refused.error;
}

class fault_observer final : public observer {
  public:
    bool wants_calls() override { return true; }
    int before_call(const char *call) override {
        int error = 0;
        std::chrono::microseconds delay{};
        with_process([&](process_faults &process) {
            process.log.add_call(call);
            process.schedule.count_call(call, std::chrono::steady_clock::now(),
                                        [&](const due_fault &due) {
                                            process.log.note_call(due, call);
                                            if (due.cause->effect == action::FAIL)
                                                error = due.cause->error;
                                            else
                                                delay += due.cause->duration;
                                        });
        });
        if (delay.count() >
            0) // not while it records: exit() in a signal handler writes the summary
            std::this_thread::sleep_for(delay);
        return error;
    }

    bool on_open(ibv_context &context, int &) override {
        with_process([&](process_faults &process) {
            const auto now = std::chrono::steady_clock::now();
            process.schedule.start(now);
            process.log.note_device(ibv_get_device_name(context.device));
            if (process.has_events)
                add_events(process, context, now);
        });
        return true;
    }

    void on_query_device(ibv_context &, ibv_device_attr &attr) override {
        with_process([&](process_faults &process) {
            for (const fault *const lowered : process.limits.lower(attr))
                process.log.note_limit(*lowered);
        });
    }
    int before_create_queue(ibv_context &context, const queue_request &asked) override {
        int error = 0;
        with_process([&](process_faults &process) {
            if (process.has_events)
                process.events.begin_create(&context);
            error = note_refusal(process, process.limits.check(asked));
        });
        return error;
    }
    ibv_mr *reg_mr(const registration &asked, registrar &next) override {
        int error = 0;
        with_process([&](process_faults &process) {
            error = note_refusal(process, process.limits.check(asked));
        });
        if (error == 0)
            return next.reg_mr(asked);
        errno = error;
        return nullptr;
    }
    void after_create_queue(ibv_context &context) override {
        with_process([&](process_faults &process) {
            if (process.has_events)
                process.events.end_create(&context);
        });
    }
    void on_create(const object &created) override {
        with_process([&](process_faults &process) {
            process.log.add_object(created.kind);
            process.limits.add(created.kind);
            // Not at the end of another one: this one may have its handle before that is noted.
            if (created.kind == object_kind::QP || created.kind == object_kind::SRQ)
                process.requests.forget(created.handle);
            if (created.kind == object_kind::SRQ)
                process.requests.add_srq(created.handle);
            if (created.kind == object_kind::QP)
                process.qps.add(created);
            if (created.kind == object_kind::CM_ID)
                process.qps.add_cm_id(static_cast<const rdma_cm_id *>(created.handle));
            if (process.has_events)
                process.events.add_object(created);
        });
    }
    void before_destroy(const object &ending) override {
        with_process([&](process_faults &process) {
            // Not at its end: its memory is freed then, and may be another id's. One whose end
            // fails has no peer any more.
            if (ending.kind == object_kind::CM_ID)
                process.qps.remove_cm_id(static_cast<const rdma_cm_id *>(ending.handle));
            if (process.has_events && ending.kind == object_kind::CONTEXT)
                process.events.remove_context(static_cast<const ibv_context *>(ending.handle));
            else if (process.has_events)
                process.events.begin_destroy(ending);
        });
    }
    void on_destroy(const object &ended, int error) override {
        with_process([&](process_faults &process) {
            if (process.has_events)
                process.events.end_destroy(ended, error == 0);
            if (error != 0)
                return;
            if (ended.kind == object_kind::QP)
                process.qps.remove(ended);
            process.log.remove_object(ended.kind);
            process.limits.remove(ended.kind);
        });
    }
    std::chrono::microseconds delay_of_sends(const object &qp) override {
        std::chrono::microseconds delay{};
        with_process([&](process_faults &process) {
            const std::uint64_t number = process.qps.announce(qp);
            if (const fault *const late = process.schedule.find_delay(number)) {
                delay = late->duration;
                process.log.note_late_queue(*late, number);
            }
        });
        return delay;
    }
    void on_modify_qp(ibv_qp &qp, const ibv_qp_attr &attr, int mask) override {
        if ((mask & IBV_QP_AV) != 0)
            with_process([&](process_faults &process) { process.qps.set_peer(&qp, attr.ah_attr); });
        if ((mask & IBV_QP_STATE) == 0)
            return;
        with_process([&](process_faults &process) {
            if (attr.qp_state == IBV_QPS_RESET)
                process.qps.clear_peer(&qp);
            if (attr.qp_state == IBV_QPS_RESET)
                process.requests.forget(&qp);
            else if (attr.qp_state == IBV_QPS_ERR)
                process.requests.note_error_state(&qp);
            else if (attr.qp_state == IBV_QPS_RTS)
                process.requests.restart(&qp);
        });
    }

    void before_send(const request &sent, ibv_send_wr &wr) override {
        if (can_fail(wr.opcode))
            change_request(sent, wr, class_of(wr.opcode));
    }
    void before_receive(const request &receive, ibv_recv_wr &wr) override {
        change_request(receive, wr, request_class::RECEIVE);
    }
    void on_refuse(const request &refused) override {
        note_cancelled(refused, "the driver has refused it");
    }
    void on_abort(const request &aborted) override {
        note_cancelled(aborted, "the program has aborted it");
    }
    void on_completion(ibv_cq &, completion &polled) override {
        if (polled.completed == nullptr)
            return;
        with_process([&](process_faults &process) {
            const fault *cause = nullptr;
            switch (process.requests.complete(*polled.completed, polled.wc, cause)) {
            case failing_requests::result::FAILED:
                return process.log.note_completion(*cause, *polled.completed, polled.wc.qp_num);
            case failing_requests::result::SUCCEEDED:
                return process.log.note_failed_attempt(*cause, *polled.completed,
                                                       "the device has completed it");
            case failing_requests::result::FLUSHED:
                return process.log.note_failed_attempt(*cause, *polled.completed,
                                                       "the device has flushed it");
            case failing_requests::result::NOTHING:
                return;
            }
        });
    }

    void on_fork() override { reset_faults_after_fork(); }
};

} // namespace
} // namespace coherdma::faults

extern "C" [[gnu::visibility("default")]] coherdma::interposer::observer *
coherdma_make_observer_9() {
    using namespace coherdma::faults;
    const settings config = read_settings();
    if (!config.problem.empty()) {
        std::fprintf(stderr, "coherdma: %s", config.problem.c_str());
        std::_Exit(EXIT_FAILURE);
    }
    if (config.is_empty() ||
        (!config.program.empty() && config.program != program_invocation_short_name))
        return nullptr;
    start_faults(config);
    return new fault_observer;
}

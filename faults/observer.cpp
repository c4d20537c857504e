// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The observer that the interposer loads: makes calls and requests of the program fail.

#include "interposer/observer.hpp"

#include "process.hpp"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <thread>

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

/// 0: of an SRQ.
std::uint32_t qp_num_of(process_faults &process, const request &posted) {
    return process.requests.is_srq(posted.queue)
               ? 0
               : static_cast<const ibv_qp *>(posted.queue)->qp_num;
}

template <class wr_type>
void change_request(const request &posted, wr_type &wr, request_class posted_class) {
    with_process([&](process_faults &process) {
        const due_fault due =
            process.schedule.count_request(posted_class, std::chrono::steady_clock::now());
        if (due.cause != nullptr && process.requests.begin(posted, wr, *due.cause))
            process.log.note_request(due, posted, qp_num_of(process, posted));
    });
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
                                                delay += due.cause->delay;
                                        });
        });
        if (delay.count() >
            0) // not while it records: exit() in a signal handler writes the summary
            std::this_thread::sleep_for(delay);
        return error;
    }

    bool on_open(ibv_context &, int &) override {
        with_process([](process_faults &process) {
            process.schedule.start(std::chrono::steady_clock::now());
            process.log.note_device();
        });
        return true;
    }

    void on_create(const object &created) override {
        with_process([&](process_faults &process) {
            process.log.add_object(created.kind);
            if (created.kind == object_kind::SRQ)
                process.requests.add_srq(created.handle);
        });
    }
    void on_destroy(const object &ended, int error) override {
        if (error != 0)
            return;
        with_process([&](process_faults &process) {
            process.log.remove_object(ended.kind);
            if (ended.kind == object_kind::QP || ended.kind == object_kind::SRQ)
                process.requests.forget(ended.handle);
        });
    }
    void on_modify_qp(ibv_qp &qp, const ibv_qp_attr &attr, int mask) override {
        if ((mask & IBV_QP_STATE) != 0 && attr.qp_state == IBV_QPS_RESET)
            with_process([&](process_faults &process) { process.requests.forget(&qp); });
    }

    void before_send(const request &sent, ibv_send_wr &wr) override {
        change_request(sent, wr, class_of(wr.opcode));
    }
    void before_receive(const request &receive, ibv_recv_wr &wr) override {
        change_request(receive, wr, request_class::RECEIVE);
    }
    void on_refuse(const request &refused) override {
        with_process([&](process_faults &process) {
            if (const fault *const cause = process.requests.refuse(refused))
                process.log.note_failed_attempt(*cause, refused, "the driver has refused it");
        });
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
coherdma_make_observer_7() {
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

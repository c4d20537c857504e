// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Waits for a completion event that cannot come, or that came before the CQ was armed. A signal
// ends those of the wrong programs.

#include "loopback.hpp"

#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <optional>
#include <pthread.h>
#include <thread>

namespace check_corpus {

namespace {

/// Interrupts the system calls of the thread that makes it, after the time that the checker waits
/// and until it is destroyed.
class interrupter {
    std::atomic<bool> stopped_ = false;
    std::thread thread_;

  public:
    /// is_needed: if not, it does nothing.
    explicit interrupter(bool is_needed) {
        if (!is_needed)
            return;
        struct sigaction action {};
        action.sa_handler = [](int) {
        };
        check(sigaction(SIGUSR1, &action, nullptr), "handle the signal");
        thread_ = std::thread([this, waiter = pthread_self()] {
            constexpr std::chrono::milliseconds interval(100), first(2000);
            for (auto time = std::chrono::milliseconds(0); !stopped_; time += interval) {
                std::this_thread::sleep_for(interval);
                if (time >= first)
                    pthread_kill(waiter, SIGUSR1);
            }
        });
    }
    interrupter(const interrupter &) = delete;
    interrupter &operator=(const interrupter &) = delete;
    ~interrupter() {
        stopped_ = true;
        if (thread_.joinable())
            thread_.join();
    }
};

void arm(ibv_cq *cq) {
    check(ibv_req_notify_cq(cq, 0), "arm");
}

/// libfabric #795: the CQ is not armed before the first wait.
void wait_unarmed(const target &target, bool corrected) {
    loopback link(target, !corrected);
    const endpoint &local = link.requester;
    if (corrected)
        arm(local.send_cq);
    link.send_message();
    const interrupter limit(!corrected);
    ibv_cq *cq = nullptr;
    void *context = nullptr;
    if (ibv_get_cq_event(local.channel, &cq, &context) == 0) // wrong: endless-wait
        ibv_ack_cq_events(cq, 1);
    wait_success(local.send_cq, "the message");
    wait_success(link.responder.recv_cq, "the receive");
}

/// An event disarms the CQ, and the next wait is without end.
void wait_twice_armed_once(const target &target, bool corrected) {
    loopback link(target, !corrected);
    const endpoint &local = link.requester;
    std::optional<interrupter> limit;
    arm(local.send_cq);
    for (int i = 0; i < 2; ++i) {
        link.send_message();
        if (i == 1 && !corrected)
            limit.emplace(!corrected);
        ibv_cq *cq = nullptr;
        void *context = nullptr;
        if (ibv_get_cq_event(local.channel, &cq, &context) == 0) // wrong: endless-wait
            ibv_ack_cq_events(cq, 1);
        if (corrected)
            arm(local.send_cq);
        wait_success(local.send_cq, "the message");
        wait_success(link.responder.recv_cq, "the receive");
    }
}

/// The CQ that is armed is of another channel.
void wait_for_other_channel(const target &target, bool corrected) {
    const endpoint_options options{.extended = true};
    loopback link(target, !corrected, {.requester = options, .responder = options});
    const endpoint &local = link.responder;
    arm(corrected ? local.recv_cq : link.requester.send_cq);
    link.send_message();
    const interrupter limit(!corrected);
    ibv_cq *cq = nullptr;
    void *context = nullptr;
    if (ibv_get_cq_event(local.channel, &cq, &context) == 0) // wrong: endless-wait
        ibv_ack_cq_events(cq, 1);
    wait_success(local.recv_cq, "the receive");
    wait_success(link.requester.send_cq, "the message");
}

/// libfabric #796: a completion comes between the last poll and the call that arms the CQ.
void armed_after_completion(const target &target, bool corrected) {
    loopback link(target, !corrected);
    const endpoint &local = link.requester;
    ibv_wc wc{};
    link.send_message();
    let_complete();
    arm(local.send_cq);
    if (corrected && ibv_poll_cq(local.send_cq, 1, &wc) == 1)
        return;
    const interrupter limit(!corrected);
    ibv_cq *cq = nullptr;
    void *context = nullptr;
    if (ibv_get_cq_event(local.channel, &cq, &context) == 0) // wrong: missed-completion
        ibv_ack_cq_events(cq, 1);
    wait_success(local.send_cq, "the message");
}

/// The responder gets an event for its first message.
void receive_first(loopback &link) {
    const endpoint &local = link.responder;
    arm(local.recv_cq);
    link.send_message();
    wait_success(link.requester.send_cq, "the message");
    ibv_cq *cq = nullptr;
    void *context = nullptr;
    check(ibv_get_cq_event(local.channel, &cq, &context), "get an event");
    ibv_ack_cq_events(cq, 1);
    wait_success(local.recv_cq, "the receive");
}

/// brpc #3415: both CQs are armed, and only that of the sends is polled again.
void two_armed_one_polled(const target &target, bool corrected) {
    loopback link(target, !corrected);
    const endpoint &local = link.responder;
    receive_first(link);
    ibv_wc wc{};
    link.send_message();
    wait_success(link.requester.send_cq, "the message");
    let_complete();
    arm(local.recv_cq);
    arm(local.send_cq);
    if (ibv_poll_cq(local.send_cq, 1, &wc) != 0)
        throw failure("a completion too many");
    if (corrected && ibv_poll_cq(local.recv_cq, 1, &wc) == 1)
        return;
    const interrupter limit(!corrected);
    ibv_cq *cq = nullptr;
    void *context = nullptr;
    if (ibv_get_cq_event(local.channel, &cq, &context) == 0) // wrong: missed-completion
        ibv_ack_cq_events(cq, 1);
    wait_success(local.recv_cq, "the receive");
}

/// BeeGFS PR #133: the completion is there when notification is asked for, and the program sleeps.
void armed_after_empty_poll(const target &target, bool corrected) {
    const endpoint_options options{.extended = true};
    loopback link(target, !corrected, {.requester = options, .responder = options});
    const endpoint &local = link.requester;
    ibv_cq_ex *const cq_ex = local.send_cq_ex();
    ibv_poll_cq_attr attr{};
    if (ibv_start_poll(cq_ex, &attr) == 0)
        throw failure("a completion too many");
    link.send_message();
    wait_success(link.responder.recv_cq, "the receive");
    let_complete();
    arm(local.send_cq);
    if (corrected && ibv_start_poll(cq_ex, &attr) == 0) {
        ibv_end_poll(cq_ex);
        return;
    }
    const interrupter limit(!corrected);
    ibv_cq *cq = nullptr;
    void *context = nullptr;
    if (ibv_get_cq_event(local.channel, &cq, &context) == 0) // wrong: missed-completion
        ibv_ack_cq_events(cq, 1);
    wait_success(local.send_cq, "the message");
}

constexpr std::string_view endless = "endless-wait", missed = "missed-completion";
constexpr std::array cases{
    corpus_case{.name = "wait_unarmed", .kind = endless, .run = wait_unarmed},
    corpus_case{.name = "wait_twice_armed_once", .kind = endless, .run = wait_twice_armed_once},
    corpus_case{.name = "wait_for_other_channel",
                .kind = endless,
                .run = wait_for_other_channel,
                .needs = extended},
    corpus_case{.name = "armed_after_completion", .kind = missed, .run = armed_after_completion},
    corpus_case{.name = "two_armed_one_polled", .kind = missed, .run = two_armed_one_polled},
    corpus_case{.name = "armed_after_empty_poll",
                .kind = missed,
                .run = armed_after_empty_poll,
                .needs = extended},
};

} // namespace

std::span<const corpus_case> wait_cases() {
    return cases;
}

} // namespace check_corpus

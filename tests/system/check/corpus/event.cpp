// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Objects that are destroyed while events of them are not acknowledged: the call waits until they
// are. In the wrong programs another thread acknowledges them late.

#include "loopback.hpp"

#include <array>
#include <chrono>
#include <thread>
#include <utility>

namespace check_corpus {

namespace {

void pause() {
    constexpr std::chrono::milliseconds time(2000); // the checker has some patience
    std::this_thread::sleep_for(time);
}

ibv_cq *get_event(ibv_comp_channel *channel) {
    ibv_cq *cq = nullptr;
    void *context = nullptr;
    check(ibv_get_cq_event(channel, &cq, &context), "get the event");
    return cq;
}

/// rdma-core PR #657: an exception leads to the destruction of a CQ whose event is not
/// acknowledged.
void cq_event_unacknowledged(const target &target, bool corrected) {
    loopback link(target, !corrected);
    endpoint &local = link.requester;
    check(ibv_req_notify_cq(local.send_cq, 0), "arm");
    link.send_message();
    ibv_cq *const cq = get_event(local.channel);
    if (corrected)
        ibv_ack_cq_events(cq, 1);
    wait_success(local.send_cq, "the message");
    local.destroy_qp();
    std::thread late([&] {
        pause();
        if (!corrected)
            ibv_ack_cq_events(cq, 1);
    });
    ibv_destroy_cq(std::exchange(local.send_cq, nullptr)); // wrong: unacknowledged-event
    late.join();
}

/// UCX #1039: events of two CQs come, and only the last of them is acknowledged.
void last_event_acknowledged(const target &target, bool corrected) {
    const endpoint_options options{.extended = true};
    loopback link(target, !corrected, {.requester = options, .responder = options});
    endpoint &local = link.responder;
    check(ibv_req_notify_cq(local.send_cq, 0), "arm");
    check(ibv_req_notify_cq(local.recv_cq, 0), "arm");
    link.send_message();
    link.requester.post_recv(link.requester.sge(64, 4096));
    local.post_send(IBV_WR_SEND, local.sge(64, 4096), link.requester);
    ibv_cq *const first = get_event(local.channel);
    ibv_cq *const last = get_event(local.channel);
    ibv_ack_cq_events(last, 1);
    if (corrected)
        ibv_ack_cq_events(first, 1);
    wait_success(local.send_cq, "the message");
    wait_success(local.recv_cq, "the receive");
    wait_success(link.requester.send_cq, "the requester's message");
    local.destroy_qp();
    std::thread late([&] {
        pause();
        if (!corrected)
            ibv_ack_cq_events(first, 1);
    });
    ibv_destroy_cq(first); // wrong: unacknowledged-event
    ibv_destroy_cq(last);
    local.send_cq = local.recv_cq = nullptr;
    late.join();
}

/// The SRQ's limit event is read and not acknowledged.
void srq_event_unacknowledged(const target &target, bool corrected) {
    loopback link(target, !corrected, {.responder = {.use_srq = true}});
    endpoint &local = link.responder;
    local.post_recv();
    local.post_recv();
    ibv_srq_attr limit{.max_wr = 0, .max_sge = 0, .srq_limit = 2};
    check(ibv_modify_srq(local.srq, &limit, IBV_SRQ_LIMIT), "arm the limit");
    link.requester.post_send(IBV_WR_SEND, link.requester.sge(), local);
    wait_success(link.requester.send_cq, "the message");
    wait_success(local.recv_cq, "the receive");
    ibv_async_event event{};
    check(ibv_get_async_event(local.context, &event), "get the event");
    if (corrected)
        ibv_ack_async_event(&event);
    local.destroy_qp();
    std::thread late([&] {
        pause();
        if (!corrected)
            ibv_ack_async_event(&event);
    });
    ibv_destroy_srq(std::exchange(local.srq, nullptr)); // wrong: unacknowledged-event
    late.join();
}

constexpr std::string_view kind = "unacknowledged-event";
constexpr std::array cases{
    corpus_case{.name = "cq_event_unacknowledged", .kind = kind, .run = cq_event_unacknowledged},
    corpus_case{.name = "last_event_acknowledged",
                .kind = kind,
                .run = last_event_acknowledged,
                .needs = extended},
    corpus_case{.name = "srq_event_unacknowledged", .kind = kind, .run = srq_event_unacknowledged},
};

} // namespace

std::span<const corpus_case> event_cases() {
    return cases;
}

} // namespace check_corpus

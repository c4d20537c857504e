// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Correct programs that wait for events, most of them in a thread of their own.

#include "loopback.hpp"

#include <array>
#include <atomic>
#include <chrono>
#include <pthread.h>
#include <thread>
#include <utility>

namespace check_corpus {

namespace {

using namespace std::chrono_literals;

ibv_cq *get_event(ibv_comp_channel *channel) {
    ibv_cq *cq = nullptr;
    void *context = nullptr;
    check(ibv_get_cq_event(channel, &cq, &context), "get the event");
    return cq;
}

void arm(ibv_cq *cq) {
    check(ibv_req_notify_cq(cq, 0), "arm");
}

/// The requester arms with the receive of the answer outstanding, asks, and waits: the peer answers
/// only when it has the question.
void answer_awaited(const target &target, bool /*corrected*/) {
    constexpr int num_questions = 3;
    const endpoint_options options{.extended = true};
    loopback link(target, false, {.requester = options, .responder = options});
    const endpoint &client = link.requester, &server = link.responder;
    server.post_recv();
    std::thread answering([&] {
        for (int i = 0; i < num_questions; ++i) {
            wait_success(server.recv_cq, "the question's receive");
            server.post_recv();
            server.post_send(IBV_WR_SEND, server.sge(64, 4096), client);
            wait_success(server.send_cq, "the answer");
        }
    });
    for (int i = 0; i < num_questions; ++i) {
        client.post_recv();
        arm(client.recv_cq);
        client.post_send(IBV_WR_SEND, client.sge(64, 4096), server);
        wait_success(client.send_cq, "the question");
        ibv_ack_cq_events(get_event(client.channel), 1);
        wait_success(client.recv_cq, "the answer's receive");
    }
    answering.join();
}

/// A thread waits from the beginning. The CQ is armed much later, before the first message.
void armed_with_first_client(const target &target, bool /*corrected*/) {
    loopback link(target, false);
    const endpoint &server = link.requester;
    std::thread waiting([&] { ibv_ack_cq_events(get_event(server.channel), 1); });
    std::this_thread::sleep_for(2s);
    arm(server.send_cq);
    link.send_message();
    waiting.join();
    wait_success(server.send_cq, "the message");
    wait_success(link.responder.recv_cq, "the receive");
}

/// A CQ is destroyed while another thread is about to acknowledge an event: the call waits for it.
void acknowledged_by_other_thread(const target &target, bool /*corrected*/) {
    loopback link(target, false);
    endpoint &local = link.requester;
    arm(local.send_cq);
    link.send_message();
    std::atomic<bool> has_event = false;
    std::thread waiting([&] {
        ibv_cq *const cq = get_event(local.channel);
        has_event = true;
        std::this_thread::sleep_for(200ms);
        ibv_ack_cq_events(cq, 1);
    });
    while (!has_event)
        std::this_thread::yield();
    wait_success(local.send_cq, "the message");
    local.destroy_qp();
    ibv_destroy_cq(std::exchange(local.send_cq, nullptr));
    waiting.join();
}

/// A thread that waits without end is cancelled, and the program goes on without events.
void wait_cancelled(const target &target, bool /*corrected*/) {
    loopback link(target, false);
    const endpoint &local = link.requester;
    pthread_t waiting{};
    const auto wait = [](void *channel) -> void * {
        get_event(static_cast<ibv_comp_channel *>(channel));
        return nullptr;
    };
    if (pthread_create(&waiting, nullptr, wait, local.channel) != 0)
        throw failure("no thread");
    std::this_thread::sleep_for(100ms);
    pthread_cancel(waiting);
    pthread_join(waiting, nullptr);
    link.send_message();
    std::this_thread::sleep_for(2s);
    wait_success(local.send_cq, "the message");
    wait_success(link.responder.recv_cq, "the receive");
}

constexpr std::string_view kind = "none";
constexpr std::array cases{
    corpus_case{.name = "answer_awaited", .kind = kind, .run = answer_awaited, .needs = extended},
    corpus_case{.name = "armed_with_first_client", .kind = kind, .run = armed_with_first_client},
    corpus_case{
        .name = "acknowledged_by_other_thread", .kind = kind, .run = acknowledged_by_other_thread},
    corpus_case{.name = "wait_cancelled", .kind = kind, .run = wait_cancelled, .needs = cancels},
};

} // namespace

std::span<const corpus_case> correct_wait_cases() {
    return cases;
}

} // namespace check_corpus

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Memory that the program uses while it is the device's.

#include "loopback.hpp"

#include <array>
#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

namespace check_corpus {

namespace {

constexpr std::size_t page_size = 4096;

/// nfs-ganesha #14: the buffer of a message is used for the next one too early.
void buffer_used_for_next_message(const target &target, bool corrected) {
    loopback link(target, false);
    endpoint &local = link.requester;
    link.responder.post_recv();
    local.memory[10] = std::byte{'a'};
    local.post_send(IBV_WR_SEND, local.sge(), link.responder); // wrong: source-changed
    if (corrected)
        wait_success(local.send_cq, "the message");
    local.memory[10] = std::byte{'b'};
    if (!corrected)
        wait_success(local.send_cq, "the message");
}

/// Mooncake #1567: another thread fills the buffer while the device reads it.
void other_thread_fills_buffer(const target &target, bool corrected) {
    loopback link(target, false);
    endpoint &local = link.requester;
    const auto fill = [&] {
        std::memset(local.memory, 0x55, 2 * page_size); // wrong: source-changed
    };
    local.post_send(IBV_WR_RDMA_WRITE, local.sge(2 * page_size), link.responder);
    if (corrected)
        wait_success(local.send_cq, "the Write");
    std::thread(fill).join();
    if (!corrected)
        wait_success(local.send_cq, "the Write");
}

/// DeepEP #310: a ring's head is cleaned while a Write of it is under way.
void head_cleaned_before_completion(const target &target, bool corrected) {
    loopback link(target, false);
    endpoint &local = link.requester;
    std::memset(local.memory, 1, page_size);
    local.post_send(IBV_WR_RDMA_WRITE, local.sge(page_size), link.responder);
    if (corrected)
        wait_success(local.send_cq, "the Write");
    local.memory[64] = std::byte{0}; // wrong: source-changed
    if (!corrected)
        wait_success(local.send_cq, "the Write");
}

/// Only the last of several Sends is signaled, and an earlier one's buffer is used before it.
void unsignaled_source_changed(const target &target, bool corrected) {
    loopback link(target, false);
    endpoint &local = link.requester;
    link.responder.post_recv();
    link.responder.post_recv(link.responder.sge(64, 64));
    const ibv_sge first = local.sge();
    local.post_send(IBV_WR_SEND, first, link.responder, unsignaled); // wrong: source-changed
    if (!corrected)
        local.memory[0] = std::byte{7};
    local.post_send(IBV_WR_SEND, local.sge(64, 64), link.responder);
    wait_success(local.send_cq, "both messages");
    local.memory[0] = std::byte{8};
}

/// A request of several SGEs: the header is of one buffer, which the next message uses again.
void header_changed_by_wr_api(const target &target, bool corrected) {
    const endpoint_options options{.extended = true};
    loopback link(target, false, {.requester = options, .responder = options});
    endpoint &local = link.requester;
    link.responder.post_recv();
    const std::array list{local.sge(16), local.sge(32, 1024)};
    ibv_qp_ex *const qp = local.qp_ex();
    ibv_wr_start(qp);
    qp->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_send(qp);
    ibv_wr_set_sge_list(qp, list.size(), list.data()); // wrong: source-changed
    check(ibv_wr_complete(qp), "post");
    if (corrected)
        wait_success(local.send_cq, "the message");
    local.memory[3] = std::byte{9};
    if (!corrected)
        wait_success(local.send_cq, "the message");
}

/// chimera #1064: the data of a Read are used before it is complete.
void read_used_before_completion(const target &target, bool corrected) {
    loopback link(target, false);
    endpoint &local = link.requester;
    link.responder.memory[100] = std::byte{1};
    local.post_send(IBV_WR_RDMA_READ, local.sge(2 * page_size), link.responder);
    if (corrected)
        wait_success(local.send_cq, "the Read");
    const volatile std::byte *const answer = &local.memory[100];
    [[maybe_unused]] const std::byte first = *answer; // wrong: early-access
    if (!corrected)
        wait_success(local.send_cq, "the Read");
}

/// w180112/RDMA-example #3: the program looks at the memory until the message seems to be there.
void message_found_by_memory(const target &target, bool corrected) {
    loopback link(target, false);
    endpoint &local = link.responder;
    local.post_recv(local.sge(page_size));
    link.requester.memory[page_size - 1] = std::byte{1};
    link.requester.post_send(IBV_WR_SEND, link.requester.sge(page_size), link.responder);
    if (corrected)
        wait_success(local.recv_cq, "the receive");
    const volatile std::byte *const last = &local.memory[page_size - 1];
    while (*last != std::byte{1}) { // wrong: early-access
    }
    wait_success(link.requester.send_cq, "the message");
    if (!corrected)
        wait_success(local.recv_cq, "the receive");
}

/// The buffer is cleared after the receive was posted: that may erase the message.
void receive_cleared_after_post(const target &target, bool corrected) {
    loopback link(target, false);
    endpoint &local = link.responder;
    if (corrected)
        std::memset(local.memory, 0, page_size);
    local.post_recv(local.sge(page_size));
    if (!corrected)
        std::memset(local.memory, 0, page_size); // wrong: early-access
    link.requester.post_send(IBV_WR_SEND, link.requester.sge(page_size), link.responder);
    wait_success(link.requester.send_cq, "the message");
    wait_success(local.recv_cq, "the receive");
}

/// The same by a thread that prepares buffers, and of an SRQ.
void other_thread_prepares_receive(const target &target, bool corrected) {
    const endpoint_options with_srq{.use_srq = true};
    loopback link(target, false, {.requester = {}, .responder = with_srq});
    endpoint &local = link.responder;
    const auto prepare = [&] {
        local.memory[5] = std::byte{5}; // wrong: early-access
    };
    if (corrected)
        std::thread(prepare).join();
    local.post_recv(local.sge(page_size));
    if (!corrected)
        std::thread(prepare).join();
    link.requester.post_send(IBV_WR_SEND, link.requester.sge(page_size), link.responder);
    wait_success(link.requester.send_cq, "the message");
    wait_success(local.recv_cq, "the receive");
}

/// Two receives have one buffer: the second message overwrites the first.
void two_receives_of_one_buffer(const target &target, bool corrected) {
    loopback link(target, false);
    endpoint &local = link.responder;
    local.post_recv(local.sge(64));
    local.post_recv(local.sge(64, corrected ? 64 : 32)); // wrong: overlap
    for (int i = 0; i < 2; ++i) {
        link.requester.post_send(IBV_WR_SEND, link.requester.sge(), link.responder);
        wait_success(link.requester.send_cq, "a message");
        wait_success(local.recv_cq, "a receive");
    }
}

/// A Read's target is what a Send that is not complete sends.
void read_into_source(const target &target, bool corrected) {
    loopback link(target, false);
    endpoint &local = link.requester;
    link.responder.post_recv(link.responder.sge(128));
    local.post_send(IBV_WR_SEND, local.sge(128), link.responder);
    if (corrected)
        wait_success(local.send_cq, "the message");
    local.post_send(IBV_WR_RDMA_READ, local.sge(64, 100), link.responder); // wrong: overlap
    if (!corrected)
        wait_success(local.send_cq, "the message");
    wait_success(local.send_cq, "the Read");
}

/// A message is forwarded from the buffer for which the next receive is posted already.
void forwarded_from_posted_buffer(const target &target, bool corrected) {
    loopback link(target, true);
    endpoint &local = link.responder;
    link.requester.post_recv(link.requester.sge(64, 512));
    link.send_message();
    wait_success(local.recv_cq, "the message");
    if (!corrected)
        local.post_recv();
    local.post_send(IBV_WR_SEND, local.sge(), link.requester); // wrong: overlap
    wait_success(local.send_cq, "the forwarded message");
    wait_success(link.requester.recv_cq, "the receive of it");
    if (corrected)
        local.post_recv();
}

/// The answer has come: the peer has the message, and its buffer is the program's again although
/// it is not signaled.
void buffer_used_after_answer(const target &target, bool /*corrected*/) {
    loopback link(target, true);
    endpoint &local = link.requester, &peer = link.responder;
    for (int i = 0; i < 3; ++i) {
        peer.post_recv();
        local.post_recv(local.sge(64, 512));
        local.memory[0] = std::byte(i);
        local.post_send(IBV_WR_SEND, local.sge(), peer, unsignaled);
        wait_success(peer.recv_cq, "the request");
        peer.post_send(IBV_WR_SEND, peer.sge(64, 512), local);
        wait_success(peer.send_cq, "the answer");
        wait_success(local.recv_cq, "the receive of it");
    }
}

/// Inline data are copied by the post.
void inline_source_changed(const target &target, bool /*corrected*/) {
    loopback link(target, false);
    endpoint &local = link.requester;
    link.responder.post_recv();
    std::array<std::byte, 16> message{std::byte{1}};
    const ibv_sge sge{reinterpret_cast<std::uintptr_t>(message.data()), message.size(), 0};
    local.post_send(IBV_WR_SEND, sge, link.responder, signaled | IBV_SEND_INLINE);
    message[0] = std::byte{2};
    wait_success(local.send_cq, "the message");
}

/// Memory beside a target, on its pages, is the program's.
void neighbor_of_target_used(const target &target, bool /*corrected*/) {
    loopback link(target, true);
    endpoint &local = link.responder;
    local.post_recv(local.sge(page_size, 64));
    std::memset(local.memory, 1, 64);
    local.memory[page_size + 64] = std::byte{1};
    local.post_recv(local.sge(page_size, 2 * page_size));
    local.memory[2 * page_size - 1] = local.memory[3 * page_size];
}

/// Registering memory again, and a child of fork(), work although a receive is outstanding.
void posted_memory_registered_again(const target &target, bool /*corrected*/) {
    loopback link(target, true);
    endpoint &local = link.responder;
    local.post_recv(local.sge(2 * page_size));
    ibv_mr *const second = local.register_memory();
    check(ibv_dereg_mr(second), "deregister");
}

constexpr std::string_view source = "source-changed", early = "early-access", both = "overlap";
constexpr std::string_view none = "none";
constexpr std::string_view ownership = "ownership", protect = "ownership,protect";
constexpr std::array cases{
    corpus_case{.name = "buffer_used_for_next_message",
                .kind = source,
                .run = buffer_used_for_next_message,
                .options = ownership},
    corpus_case{.name = "other_thread_fills_buffer",
                .kind = source,
                .run = other_thread_fills_buffer,
                .options = protect},
    corpus_case{.name = "head_cleaned_before_completion",
                .kind = source,
                .run = head_cleaned_before_completion,
                .options = protect},
    corpus_case{.name = "unsignaled_source_changed",
                .kind = source,
                .run = unsignaled_source_changed,
                .options = ownership},
    corpus_case{.name = "header_changed_by_wr_api",
                .kind = source,
                .run = header_changed_by_wr_api,
                .needs = extended,
                .options = ownership},
    corpus_case{.name = "read_used_before_completion",
                .kind = early,
                .run = read_used_before_completion,
                .options = protect},
    corpus_case{.name = "message_found_by_memory",
                .kind = early,
                .run = message_found_by_memory,
                .options = protect},
    corpus_case{.name = "receive_cleared_after_post",
                .kind = early,
                .run = receive_cleared_after_post,
                .options = protect},
    corpus_case{.name = "other_thread_prepares_receive",
                .kind = early,
                .run = other_thread_prepares_receive,
                .options = protect},
    corpus_case{.name = "two_receives_of_one_buffer",
                .kind = both,
                .run = two_receives_of_one_buffer,
                .options = ownership},
    corpus_case{
        .name = "read_into_source", .kind = both, .run = read_into_source, .options = ownership},
    corpus_case{.name = "forwarded_from_posted_buffer",
                .kind = both,
                .run = forwarded_from_posted_buffer,
                .also = "uninitialized-source", // with MSan
                .options = ownership},
    corpus_case{.name = "buffer_used_after_answer",
                .kind = none,
                .run = buffer_used_after_answer,
                .options = protect},
    corpus_case{.name = "inline_source_changed",
                .kind = none,
                .run = inline_source_changed,
                .options = protect},
    corpus_case{.name = "neighbor_of_target_used",
                .kind = none,
                .run = neighbor_of_target_used,
                .options = protect},
    corpus_case{.name = "posted_memory_registered_again",
                .kind = none,
                .run = posted_memory_registered_again,
                .options = protect},
};

} // namespace

std::span<const corpus_case> ownership_cases() {
    return cases;
}

} // namespace check_corpus

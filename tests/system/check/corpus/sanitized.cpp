// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Accesses of the CPU to memory that a device uses, which a sanitizer reports. The kind is that
// sanitizer; in other builds nothing of it is seen.

#include "loopback.hpp"

#include <array>
#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

namespace check_corpus {

namespace {

/// Keeps a value that nothing else uses.
template <class type>
void use(const type &value) {
    asm volatile("" : : "r"(&value) : "memory");
}

/// The receive's buffer is read before its completion is polled: here the message has arrived, and
/// on another device only a part of it.
void read_before_poll(const target &target, bool corrected) {
    loopback link(target, false);
    const endpoint &local = link.responder;
    link.send_message();
    let_complete();
    if (corrected)
        wait_success(local.recv_cq, "the receive");
    const std::byte first = local.memory[0]; // wrong: asan
    use(first);
    wait_success(link.requester.send_cq, "the message");
    if (!corrected)
        wait_success(local.recv_cq, "the receive");
}

/// The header of the next message is prepared in a buffer that a receive still has.
void write_posted_receive(const target &target, bool corrected) {
    unconnected side(target, {.use_srq = true});
    const endpoint &local = side.local;
    local.post_recv(local.sge(64));
    local.post_recv(local.sge(64, 64));
    std::memset(local.memory + (corrected ? 128 : 100), 0, 16); // wrong: asan
}

/// A Read into the heap: its result is taken when it has been posted.
void use_read_result_early(const target &target, bool corrected) {
    loopback link(target, !corrected);
    const endpoint &local = link.requester;
    std::vector<std::uint64_t> result(32);
    const std::size_t size = result.size() * sizeof result[0];
    ibv_mr *const mr = check(ibv_reg_mr(local.pd, result.data(), size, full_access), "register");
    local.post_send(IBV_WR_RDMA_READ,
                    {reinterpret_cast<std::uintptr_t>(result.data()),
                     static_cast<std::uint32_t>(size), mr->lkey},
                    link.responder);
    if (corrected)
        wait_success(local.send_cq, "the Read");
    use(result.back() + 1); // wrong: asan
    if (!corrected)
        wait_success(local.send_cq, "the Read");
    ibv_dereg_mr(mr);
}

/// The source of a Send is changed while the device may still read it.
void write_source_in_flight(const target &target, bool corrected) {
    loopback link(target, false);
    const endpoint &local = link.requester;
    local.memory[0] = std::byte{1};
    link.send_message();
    if (corrected)
        wait_success(local.send_cq, "the message");
    local.memory[0] = std::byte{2}; // wrong: tsan
    if (!corrected)
        wait_success(local.send_cq, "the message");
    wait_success(link.responder.recv_cq, "the receive");
}

/// A thread prepares the buffer of a receive that another one has posted.
void write_receive_of_other_thread(const target &target, bool corrected) {
    loopback link(target, false);
    const endpoint &local = link.responder;
    std::thread other;
    const auto prepare = [&] {
        std::memset(local.memory, 0, 64); // wrong: tsan
    };
    if (corrected) {
        other = std::thread(prepare);
        other.join();
    }
    link.send_message();
    if (!corrected) {
        other = std::thread(prepare);
        other.join();
    }
    wait_success(link.requester.send_cq, "the message");
    wait_success(local.recv_cq, "the receive");
}

/// The result of a Read is taken by a thread that does not wait for the one which polls.
void use_read_of_other_thread(const target &target, bool corrected) {
    loopback link(target, false);
    const endpoint &local = link.requester;
    local.post_send(IBV_WR_RDMA_READ, local.sge(64, 4096), link.responder);
    std::atomic<bool> is_complete = false;
    std::thread poller([&] {
        wait_success(local.send_cq, "the Read");
        is_complete.store(true, corrected ? std::memory_order_release : std::memory_order_relaxed);
    });
    while (!is_complete.load(corrected ? std::memory_order_acquire : std::memory_order_relaxed))
        std::this_thread::yield();
    const std::byte first = local.memory[4096]; // wrong: tsan
    use(first);
    poller.join();
}

/// Buffers go from a thread that fills them, by the device, to one that polls and writes to them.
void handed_over_by_device(const target &target, bool /*corrected*/) {
    loopback link(target, false);
    const endpoint &local = link.requester, &peer = link.responder;
    constexpr std::size_t num_messages = 8, size = 64;
    std::thread receiver([&] {
        for (std::size_t i = 0; i < num_messages; ++i) {
            wait_success(peer.recv_cq, "the receive");
            std::memset(peer.memory + i * size, 0, size);
        }
    });
    for (std::size_t i = 0; i < num_messages; ++i) {
        std::memset(local.memory, static_cast<int>(i), size);
        peer.post_recv(peer.sge(size, i * size));
        local.post_send(IBV_WR_SEND, local.sge(size), peer);
        wait_success(local.send_cq, "the message");
    }
    receiver.join();
}

/// A Send without a completion: the answer says that it has arrived, and its source is free.
void source_reused_after_answer(const target &target, bool /*corrected*/) {
    loopback link(target, true);
    const endpoint &local = link.requester, &peer = link.responder;
    local.post_recv(local.sge(64, 4096));
    peer.post_recv(peer.sge());
    std::memset(local.memory, 1, 64);
    local.post_send(IBV_WR_SEND, local.sge(), peer, unsignaled);
    wait_success(peer.recv_cq, "the message");
    peer.post_send(IBV_WR_SEND, peer.sge(64, 4096), local);
    wait_success(local.recv_cq, "the answer");
    std::memset(local.memory, 2, 64);
    peer.post_recv();
    local.post_send(IBV_WR_SEND, local.sge(), peer);
    wait_success(local.send_cq, "the second message");
    wait_success(peer.send_cq, "the answer's completion");
    wait_success(peer.recv_cq, "the second message's receive");
}

constexpr std::array cases{
    corpus_case{.name = "read_before_poll", .kind = "asan", .run = read_before_poll},
    corpus_case{.name = "write_posted_receive", .kind = "asan", .run = write_posted_receive},
    corpus_case{.name = "use_read_result_early", .kind = "asan", .run = use_read_result_early},
    corpus_case{.name = "write_source_in_flight", .kind = "tsan", .run = write_source_in_flight},
    corpus_case{.name = "write_receive_of_other_thread",
                .kind = "tsan",
                .run = write_receive_of_other_thread},
    corpus_case{
        .name = "use_read_of_other_thread", .kind = "tsan", .run = use_read_of_other_thread},
    corpus_case{.name = "handed_over_by_device", .kind = "none", .run = handed_over_by_device},
    corpus_case{
        .name = "source_reused_after_answer", .kind = "none", .run = source_reused_after_answer},
};

} // namespace

std::span<const corpus_case> sanitized_cases() {
    return cases;
}

} // namespace check_corpus

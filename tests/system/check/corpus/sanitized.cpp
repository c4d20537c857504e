// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Accesses of the CPU to memory that a device uses, which a sanitizer reports. The kind is that
// sanitizer; in other builds nothing of it is seen.

#include "loopback.hpp"

#include <array>
#include <atomic>
#include <cstdlib>
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

/// The peer has got the message, and writes to its source before it answers.
void source_written_by_peer(const target &target, bool /*corrected*/) {
    loopback link(target, true);
    const endpoint &local = link.requester, &peer = link.responder;
    local.post_recv(local.sge(64, 4096));
    peer.post_recv(peer.sge(64, 4096));
    std::memset(local.memory, 1, 64);
    local.post_send(IBV_WR_SEND, local.sge(), peer, unsignaled);
    wait_success(peer.recv_cq, "the message");
    std::memset(peer.memory, 2, 64);
    peer.post_send(IBV_WR_RDMA_WRITE, peer.sge(), local);
    wait_success(peer.send_cq, "the Write");
    peer.post_send(IBV_WR_SEND, peer.sge(), local);
    wait_success(local.recv_cq, "the answer");
    wait_success(peer.send_cq, "the answer's completion");
    peer.post_recv(peer.sge(64, 4096));
    local.post_send(IBV_WR_SEND, local.sge(), peer);
    wait_success(local.send_cq, "the second message");
    wait_success(peer.recv_cq, "the second message's receive");
}

/// Memory of the heap that has not been set, registered.
struct heap_buffer {
    static constexpr std::uint32_t size = 64;

    std::byte *memory = static_cast<std::byte *>(std::malloc(size));
    ibv_mr *mr;

    explicit heap_buffer(const endpoint &local, unsigned access = IBV_ACCESS_LOCAL_WRITE)
        : mr(check(ibv_reg_mr(local.pd, memory, size, access), "register")) {}
    heap_buffer(const heap_buffer &) = delete;
    heap_buffer &operator=(const heap_buffer &) = delete;
    ~heap_buffer() {
        ibv_dereg_mr(mr);
        std::free(memory);
    }
    ibv_sge sge(std::uint32_t length = size) const {
        return {reinterpret_cast<std::uintptr_t>(memory), length, mr->lkey};
    }
};

/// The message is shorter than its buffer, and all of that is sent.
void send_uninitialized(const target &target, bool corrected) {
    loopback link(target, false);
    const endpoint &local = link.requester;
    const heap_buffer source(local);
    std::memset(source.memory, 1, corrected ? heap_buffer::size : 40);
    link.responder.post_recv();
    send_request send(IBV_WR_SEND, source.sge());
    ibv_send_wr *bad_wr = nullptr;
    check(ibv_post_send(local.qp, &send.wr, &bad_wr), "post"); // wrong: uninitialized-source
    wait_success(local.send_cq, "the message");
    wait_success(link.responder.recv_cq, "the receive");
}

/// The message is shorter than the receive's buffer, and the program reads on.
void read_beyond_message(const target &target, bool corrected) {
    loopback link(target, false);
    const endpoint &local = link.responder;
    const heap_buffer buffer(local);
    local.post_recv(buffer.sge());
    link.requester.post_send(IBV_WR_SEND, link.requester.sge(16), local);
    wait_success(link.requester.send_cq, "the message");
    wait_success(local.recv_cq, "the receive");
    if (buffer.memory[corrected ? 15 : 16] == std::byte{7}) // wrong: msan
        use(buffer.memory[0]);
}

/// The program sets its results to nothing, and compares them with what a Read has not yet written.
void compare_before_read(const target &target, bool corrected) {
    loopback link(target, false);
    const endpoint &local = link.requester;
    const heap_buffer result(local);
    std::memset(result.memory, 0, heap_buffer::size);
    local.post_send(IBV_WR_RDMA_READ, result.sge(), link.responder);
    if (corrected)
        wait_success(local.send_cq, "the Read");
    if (result.memory[8] == std::byte{7}) // wrong: msan
        use(result.memory[0]);
    if (!corrected)
        wait_success(local.send_cq, "the Read");
}

/// What libraries, drivers and devices write is initialized.
void results_without_initial_values(const target &target, bool /*corrected*/) {
    loopback link(target, false);
    const endpoint &local = link.requester, &peer = link.responder;
    const heap_buffer received(peer), read(local);
    const heap_buffer written(peer, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    peer.post_recv(received.sge());
    local.post_send(IBV_WR_SEND, local.sge(), peer);
    local.post_send(IBV_WR_RDMA_READ, read.sge(), peer);
    send_request write(IBV_WR_RDMA_WRITE, local.sge(), &peer);
    write.wr.wr.rdma.remote_addr = reinterpret_cast<std::uintptr_t>(written.memory);
    write.wr.wr.rdma.rkey = written.mr->rkey;
    ibv_send_wr *bad_wr; // NOLINT: not set
    check(ibv_post_send(local.qp, &write.wr, &bad_wr), "post");
    for (int num_polled = 0; num_polled < 3;) {
        std::array<ibv_wc, 4> wcs; // NOLINT: not set
        const int count = ibv_poll_cq(local.send_cq, 4, wcs.data());
        for (int i = 0; i < count; ++i)
            check(wcs[static_cast<std::size_t>(i)].status == IBV_WC_SUCCESS ? 0 : -1, "complete");
        num_polled += count;
    }
    wait_success(peer.recv_cq, "the receive");
    for (const heap_buffer *each : {&received, &read, &written})
        if (std::memcmp(each->memory, local.memory, heap_buffer::size) != 0)
            throw failure("other data");
    ibv_qp_attr attr;
    ibv_qp_init_attr init;
    check(ibv_query_qp(local.qp, &attr, IBV_QP_STATE, &init), "query the QP");
    check(attr.qp_state == IBV_QPS_RTS && init.qp_type == IBV_QPT_RC ? 0 : -1, "a state");
    ibv_device_attr device_attr;
    check(ibv_query_device(local.context, &device_attr), "query the device");
    check(device_attr.max_qp > 0 ? 0 : -1, "a limit");
    ibv_port_attr port;
    check(ibv_query_port(local.context, 1, &port), "query the port");
    check(port.state == IBV_PORT_ACTIVE ? 0 : -1, "a port's state");
    ibv_gid gid;
    check(ibv_query_gid(local.context, 1, 0, &gid), "query the GID");
    check((gid.raw[0] | gid.raw[10] | gid.raw[15]) != 0 ? 0 : -1, "a GID");
}

/// The answer shows that the peer has got what was sent, but not that a Read is complete.
void use_read_after_answer(const target &target, bool corrected) {
    loopback link(target, false);
    const endpoint &local = link.requester, &peer = link.responder;
    local.post_recv();
    local.post_send(IBV_WR_RDMA_READ, local.sge(64, 4096), peer);
    peer.post_send(IBV_WR_SEND, peer.sge(), local);
    wait_success(local.recv_cq, "the answer");
    if (corrected)
        wait_success(local.send_cq, "the Read");
    const std::byte first = local.memory[4096]; // wrong: tsan
    use(first);
    if (!corrected)
        wait_success(local.send_cq, "the Read");
    wait_success(peer.send_cq, "the answer's completion");
}

/// An RDMA Write with immediate data completes a receive, and writes nothing to its buffer.
void read_receive_of_write(const target &target, bool corrected) {
    loopback link(target, false);
    const endpoint &local = link.responder;
    const heap_buffer buffer(local);
    local.post_recv(buffer.sge());
    link.requester.post_send(IBV_WR_RDMA_WRITE_WITH_IMM, link.requester.sge(), local);
    wait_success(link.requester.send_cq, "the Write");
    wait_success(local.recv_cq, "the receive");
    if ((corrected ? local.memory : buffer.memory)[0] == std::byte{7}) // wrong: msan
        use(buffer.memory[0]);
}

/// Inline data are sent, too.
void send_uninitialized_inline(const target &target, bool corrected) {
    loopback link(target, false);
    const endpoint &local = link.requester;
    const heap_buffer source(local);
    std::memset(source.memory, 1, corrected ? heap_buffer::size : 40);
    link.responder.post_recv();
    send_request send(IBV_WR_SEND, source.sge(), nullptr, signaled | IBV_SEND_INLINE);
    ibv_send_wr *bad_wr = nullptr;
    check(ibv_post_send(local.qp, &send.wr, &bad_wr), "post"); // wrong: uninitialized-source
    wait_success(local.send_cq, "the message");
    wait_success(link.responder.recv_cq, "the receive");
}

/// Peers may write to an MR since its access was changed.
void written_after_change_of_access(const target &target, bool /*corrected*/) {
    loopback link(target, false);
    const endpoint &local = link.requester, &peer = link.responder;
    const heap_buffer written(peer);
    if (ibv_rereg_mr(written.mr, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0,
                     static_cast<int>(full_access)) != 0)
        return; // not by each provider
    send_request write(IBV_WR_RDMA_WRITE, local.sge(), &peer);
    write.wr.wr.rdma.remote_addr = reinterpret_cast<std::uintptr_t>(written.memory);
    write.wr.wr.rdma.rkey = written.mr->rkey;
    ibv_send_wr *bad_wr = nullptr;
    check(ibv_post_send(local.qp, &write.wr, &bad_wr), "post");
    wait_success(local.send_cq, "the Write");
    if (std::memcmp(written.memory, local.memory, heap_buffer::size) != 0)
        throw failure("other data");
}

/// A message has arrived when the program stops the QP: its completion is in the CQ.
void message_before_error(const target &target, bool /*corrected*/) {
    loopback link(target, false);
    const endpoint &local = link.responder;
    const heap_buffer buffer(local);
    local.post_recv(buffer.sge());
    link.requester.post_send(IBV_WR_SEND, link.requester.sge(), local);
    wait_success(link.requester.send_cq, "the message");
    let_complete();
    local.to_state(IBV_QPS_ERR);
    wait_success(local.recv_cq, "the receive");
    if (std::memcmp(buffer.memory, link.requester.memory, heap_buffer::size) != 0)
        throw failure("other data");
}

/// A message has arrived when the program destroys the QP. A driver may leave its completion.
void message_before_destroy(const target &target, bool /*corrected*/) {
    loopback link(target, false);
    endpoint &local = link.responder;
    const heap_buffer buffer(local);
    local.post_recv(buffer.sge());
    link.requester.post_send(IBV_WR_SEND, link.requester.sge(), local);
    wait_success(link.requester.send_cq, "the message");
    let_complete();
    local.destroy_qp();
    ibv_wc wc;
    if (ibv_poll_cq(local.recv_cq, 1, &wc) == 1 && wc.status == IBV_WC_SUCCESS &&
        std::memcmp(buffer.memory, link.requester.memory, heap_buffer::size) != 0)
        throw failure("other data");
}

constexpr std::array cases{
    corpus_case{.name = "message_before_destroy", .kind = "none", .run = message_before_destroy},
    corpus_case{.name = "read_before_poll",
                .kind = "asan",
                .run = read_before_poll,
                .also = "early-access"},
    corpus_case{.name = "write_posted_receive",
                .kind = "asan",
                .run = write_posted_receive,
                .also = "early-access"},
    corpus_case{.name = "use_read_result_early",
                .kind = "asan",
                .run = use_read_result_early,
                .also = "early-access"},
    corpus_case{.name = "write_source_in_flight", .kind = "tsan", .run = write_source_in_flight},
    corpus_case{.name = "write_receive_of_other_thread",
                .kind = "tsan",
                .run = write_receive_of_other_thread},
    corpus_case{
        .name = "use_read_of_other_thread", .kind = "tsan", .run = use_read_of_other_thread},
    corpus_case{.name = "send_uninitialized",
                .kind = "uninitialized-source",
                .run = send_uninitialized,
                .needs = msan},
    corpus_case{.name = "read_beyond_message", .kind = "msan", .run = read_beyond_message},
    corpus_case{.name = "compare_before_read", .kind = "msan", .run = compare_before_read},
    corpus_case{.name = "use_read_after_answer", .kind = "tsan", .run = use_read_after_answer},
    corpus_case{.name = "read_receive_of_write",
                .kind = "msan",
                .run = read_receive_of_write,
                .needs = rxe},
    corpus_case{.name = "send_uninitialized_inline",
                .kind = "uninitialized-source",
                .run = send_uninitialized_inline,
                .needs = msan},
    corpus_case{.name = "written_after_change_of_access",
                .kind = "none",
                .run = written_after_change_of_access},
    corpus_case{.name = "message_before_error", .kind = "none", .run = message_before_error},
    corpus_case{.name = "results_without_initial_values",
                .kind = "none",
                .run = results_without_initial_values},
    corpus_case{.name = "handed_over_by_device", .kind = "none", .run = handed_over_by_device},
    corpus_case{
        .name = "source_reused_after_answer", .kind = "none", .run = source_reused_after_answer},
    corpus_case{.name = "source_written_by_peer",
                .kind = "none",
                .run = source_written_by_peer,
                .options = "ownership"},
};

} // namespace

std::span<const corpus_case> sanitized_cases() {
    return cases;
}

} // namespace check_corpus

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Correct programs that resemble wrong ones. The checker must be silent about them.

#include "loopback.hpp"

#include <array>
#include <cerrno>
#include <cstdlib>
#include <fcntl.h>
#include <memory>
#include <poll.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

namespace check_corpus {

namespace {

ibv_cq *get_event(ibv_comp_channel *channel) {
    ibv_cq *cq = nullptr;
    void *context = nullptr;
    check(ibv_get_cq_event(channel, &cq, &context), "get the event");
    return cq;
}

/// No completion can have come before the CQ was armed, since the QP was not connected.
void armed_before_connected(const target &target, bool /*corrected*/) {
    device dev(target);
    endpoint first, second;
    first.create(dev.context);
    second.create(dev.context);
    first.to_init();
    second.to_init();
    second.post_recv();
    check(ibv_req_notify_cq(second.recv_cq, 0), "arm");
    connect_by_verbs(dev, first, second);
    first.post_send(IBV_WR_SEND, first.sge(), second);
    ibv_ack_cq_events(get_event(second.channel), 1);
    wait_success(second.recv_cq, "the receive");
    wait_success(first.send_cq, "the message");
}

/// The manual page advises to acknowledge several events by one call.
void events_acknowledged_together(const target &target, bool /*corrected*/) {
    loopback link(target, false);
    constexpr unsigned count = 3;
    ibv_cq *const cq = link.requester.send_cq;
    for (unsigned i = 0; i < count; ++i) {
        check(ibv_req_notify_cq(cq, 0), "arm");
        link.send_message();
        if (get_event(link.requester.channel) != cq)
            throw failure("an event of another CQ");
        wait_success(cq, "the message");
        wait_success(link.responder.recv_cq, "the receive");
    }
    ibv_ack_cq_events(cq, count);
}

/// Only receives are outstanding when the QP is reset.
void reset_with_receives(const target &target, bool /*corrected*/) {
    loopback link(target, false);
    link.exchange_message();
    link.responder.post_recv();
    link.requester.post_recv();
    link.reconnect();
    link.exchange_message();
}

/// More sends than the SQ and the CQ have entries, but one in four is signaled, and is waited for.
void signaled_each_fourth(const target &target, bool /*corrected*/) {
    loopback link(target, false, {.requester = {.cqe = 2}});
    const endpoint &local = link.requester;
    constexpr unsigned count = 64;
    for (unsigned i = 0; i < count; ++i) {
        const bool has_cqe = i % 4 == 3;
        local.post_send(IBV_WR_RDMA_WRITE, local.sge(), link.responder,
                        has_cqe ? signaled : unsignaled);
        if (has_cqe)
            wait_success(local.send_cq, "a Write");
    }
}

/// A message of no bytes needs no SGE, and an SGE of no bytes in a message with others needs no
/// key.
void messages_without_bytes(const target &target, bool /*corrected*/) {
    loopback link(target, false);
    const endpoint &local = link.requester;
    link.responder.post_recv();
    send_request send(IBV_WR_SEND, local.sge());
    send.wr.num_sge = 0;
    send.wr.sg_list = nullptr;
    ibv_send_wr *bad_wr = nullptr;
    check(ibv_post_send(local.qp, &send.wr, &bad_wr), "post");
    wait_success(local.send_cq, "the message");
    wait_success(link.responder.recv_cq, "the receive");
}

/// The fence holds the Write back until the Read has brought what it writes.
void read_and_fenced_write(const target &target, bool /*corrected*/) {
    loopback link(target, false);
    const endpoint &local = link.requester;
    link.responder.memory[0] = std::byte{7};
    local.post_send(IBV_WR_RDMA_READ, local.sge(), link.responder, unsignaled);
    send_request write(IBV_WR_RDMA_WRITE, local.sge(), &link.responder, signaled | IBV_SEND_FENCE);
    write.wr.wr.rdma.remote_addr += local.sge().length;
    ibv_send_wr *bad_wr = nullptr;
    check(ibv_post_send(local.qp, &write.wr, &bad_wr), "post");
    wait_success(local.send_cq, "the Write");
    if (link.responder.memory[local.sge().length] != std::byte{7})
        throw failure("the Write did not wait for the Read");
}

/// A thread posts, and another one polls.
void posted_and_polled_by_threads(const target &target, bool /*corrected*/) {
    constexpr int count = 200;
    loopback link(target, false, {.requester = {.cqe = 256, .max_wr = 256}});
    const endpoint &local = link.requester;
    std::thread poller([&] {
        for (int i = 0; i < count; ++i)
            wait_success(local.send_cq, "a Write");
    });
    for (int i = 0; i < count; ++i)
        local.post_send(IBV_WR_RDMA_WRITE, local.sge(), link.responder);
    poller.join();
}

/// A child begins and ends while a receive is outstanding.
void child_during_receive(const target &target, bool /*corrected*/) {
    loopback link(target, false);
    link.responder.post_recv();
    const pid_t child = fork();
    if (child == 0)
        _exit(0);
    int status = 0;
    check(waitpid(child, &status, 0) == child ? 0 : -1, "wait");
    link.requester.post_send(IBV_WR_SEND, link.requester.sge(), link.responder);
    wait_success(link.requester.send_cq, "the message");
    wait_success(link.responder.recv_cq, "the receive");
}

/// Memory beside the receive's is freed, and the memory of a receive that is complete.
void other_memory_freed(const target &target, bool /*corrected*/) {
    loopback link(target, false);
    const endpoint &local = link.responder;
    constexpr std::size_t size = 512;
    std::array<void *, 3> blocks{std::malloc(size), std::malloc(size), std::malloc(size)};
    ibv_mr *const mr = check(ibv_reg_mr(local.pd, blocks[1], size, full_access), "register");
    local.post_recv({reinterpret_cast<std::uintptr_t>(blocks[1]), size, mr->lkey});
    std::free(blocks[0]);
    std::free(blocks[2]);
    link.requester.post_send(IBV_WR_SEND, link.requester.sge(), local);
    wait_success(link.requester.send_cq, "the message");
    wait_success(local.recv_cq, "the receive");
    ibv_dereg_mr(mr);
    std::free(blocks[1]);
}

/// Two MRs of the same memory, of which the request names the other.
void other_mr_deregistered(const target &target, bool /*corrected*/) {
    unconnected side(target);
    ibv_mr *const mr = side.local.register_memory();
    side.local.post_recv();
    ibv_dereg_mr(mr);
}

/// The QP is in ERR: its receives are flushed, and it may be destroyed with unread completions.
void destroyed_in_error(const target &target, bool /*corrected*/) {
    loopback link(target, false);
    link.send_message();
    link.requester.to_state(IBV_QPS_ERR);
    link.requester.post_recv();
    link.requester.destroy_qp();
}

/// rdma_disconnect() takes an InfiniBand QP to ERR, and an iWARP QP out of RTS: its requests are
/// flushed.
void ended_by_disconnect(const target &target, bool /*corrected*/) {
    loopback link(target, false, {.by_cm = true});
    link.send_message();
    link.responder.post_recv();
    link.requester.post_recv();
    link.disconnect();
    for (endpoint *const each : {&link.requester, &link.responder}) {
        ibv_dereg_mr(each->mr);
        each->mr = nullptr;
        each->destroy_qp();
    }
}

/// The device has taken the QP to ERR, which the program learns from it.
void reset_after_error(const target &target, bool /*corrected*/) {
    loopback link(target, false);
    const endpoint &local = link.requester;
    send_request write(IBV_WR_RDMA_WRITE, local.sge(), &link.responder);
    write.wr.wr.rdma.rkey = ~write.wr.wr.rdma.rkey;
    ibv_send_wr *bad_wr = nullptr;
    check(ibv_post_send(local.qp, &write.wr, &bad_wr), "post");
    ibv_qp_attr attr{};
    ibv_qp_init_attr init{};
    do
        check(ibv_query_qp(local.qp, &attr, IBV_QP_STATE, &init), "query");
    while (attr.qp_state != IBV_QPS_ERR);
    local.to_state(IBV_QPS_RESET);
}

/// The QP ends with the device, and its receive, too.
void freed_after_close(const target &target, bool /*corrected*/) {
    device dev(target);
    static endpoint &local = *new endpoint; // is not destroyed
    local.create(dev.context);
    local.to_init();
    constexpr std::size_t size = 512;
    void *const block = std::malloc(size);
    const ibv_mr *const mr = check(ibv_reg_mr(local.pd, block, size, full_access), "register");
    local.post_recv({reinterpret_cast<std::uintptr_t>(block), size, mr->lkey});
    check(ibv_close_device(std::exchange(dev.context, nullptr)), "close the device");
    std::free(block);
}

/// Requests are prepared before the QP is connected, and aborted.
void batch_aborted_in_init(const target &target, bool /*corrected*/) {
    unconnected side(target, {.extended = true});
    const endpoint &local = side.local;
    ibv_qp_ex *const qp = local.qp_ex();
    ibv_wr_start(qp);
    ibv_wr_send(qp);
    ibv_wr_set_sge(qp, local.mr->lkey, reinterpret_cast<std::uintptr_t>(local.memory), 64);
    ibv_wr_abort(qp);
}

/// A driver gives a new QP, CQ or MR the address, and a device the key or number, of one that was
/// destroyed.
void objects_created_again(const target &target, bool /*corrected*/) {
    constexpr int count = 5;
    device dev(target);
    for (int i = 0; i < count; ++i) {
        endpoint first, second;
        first.create(dev.context);
        second.create(dev.context);
        first.to_init();
        second.to_init();
        second.post_recv();
        connect_by_verbs(dev, first, second);
        first.post_send(IBV_WR_SEND, first.sge(), second);
        wait_success(first.send_cq, "the message");
        wait_success(second.recv_cq, "the receive");
    }
}

/// Posts until the SQ is full: what is refused is not outstanding.
void posts_until_refused(const target &target, bool /*corrected*/) {
    loopback link(target, false, {.requester = {.cqe = 64}});
    const endpoint &local = link.requester;
    send_request send(IBV_WR_RDMA_WRITE, local.sge(), &link.responder);
    ibv_send_wr *bad_wr = nullptr;
    constexpr int rounds = 3;
    for (int i = 0; i < rounds; ++i) {
        unsigned num_posted = 0;
        constexpr unsigned limit = 60; // the SQ may have room for more than is asked for
        while (num_posted < limit && ibv_post_send(local.qp, &send.wr, &bad_wr) == 0)
            ++num_posted;
        for (; num_posted != 0; --num_posted)
            wait_success(local.send_cq, "a Write");
    }
}

/// The second receive of a list has too many SGEs: it is refused, and the first one is posted.
void list_refused_in_part(const target &target, bool /*corrected*/) {
    unconnected side(target);
    const endpoint &local = side.local;
    recv_request first(local.sge()), second(local.sge());
    first.wr.next = &second.wr;
    second.wr.num_sge = 10000; // it has one
    ibv_recv_wr *bad_wr = nullptr;
    if (ibv_post_recv(local.qp, &first.wr, &bad_wr) == 0 || bad_wr != &second.wr)
        throw failure("the second receive was not refused");
}

/// A batch is aborted: its request is not outstanding.
void batch_aborted(const target &target, bool /*corrected*/) {
    const endpoint_options options{.extended = true};
    loopback link(target, false, {.requester = options, .responder = options});
    const endpoint &local = link.requester;
    ibv_qp_ex *const qp = local.qp_ex();
    link.responder.post_recv();
    for (const bool is_aborted : {true, false}) {
        ibv_wr_start(qp);
        qp->wr_flags = IBV_SEND_SIGNALED;
        ibv_wr_send(qp);
        ibv_wr_set_sge(qp, local.mr->lkey, reinterpret_cast<std::uintptr_t>(local.memory), 64);
        if (is_aborted)
            ibv_wr_abort(qp);
        else
            check(ibv_wr_complete(qp), "post");
    }
    wait_success(local.send_cq, "the message");
    wait_success(link.responder.recv_cq, "the receive");
}

/// Inline data are copied when they are set: their memory may end then, and is of no MR.
void wr_inline_data(const target &target, bool /*corrected*/) {
    const endpoint_options options{.extended = true};
    loopback link(target, false, {.requester = options, .responder = options});
    ibv_qp_ex *const qp = link.requester.qp_ex();
    link.responder.post_recv();
    ibv_wr_start(qp);
    qp->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_send(qp);
    {
        std::vector<char> text(16, 'x');
        ibv_wr_set_inline_data(qp, text.data(), text.size());
    }
    check(ibv_wr_complete(qp), "post");
    wait_success(link.requester.send_cq, "the message");
    wait_success(link.responder.recv_cq, "the receive");
}

/// Threads have a connection each, of which one CQ has the completions of both directions.
void connections_of_threads(const target &target, bool /*corrected*/) {
    constexpr std::size_t num_threads = 3;
    constexpr int count = 50;
    std::array<std::unique_ptr<loopback>, num_threads> links;
    for (auto &link : links)
        link = std::make_unique<loopback>(
            target, false, loopback_options{.requester = {.cqe = 64, .single_cq = true}});
    std::vector<std::thread> threads;
    for (auto &link : links) {
        threads.emplace_back([&link] {
            for (int i = 0; i < count; ++i)
                link->exchange_message();
        });
    }
    for (auto &thread : threads)
        thread.join();
}

/// The channel does not block: the program waits by poll(), and takes the event when it is there.
void channel_without_blocking(const target &target, bool /*corrected*/) {
    loopback link(target, false);
    const endpoint &local = link.requester;
    check(fcntl(local.channel->fd, F_SETFL, O_NONBLOCK), "channel");
    ibv_cq *cq = nullptr;
    void *context = nullptr;
    if (ibv_get_cq_event(local.channel, &cq, &context) == 0 || errno != EAGAIN)
        throw failure("an event too many");
    check(ibv_req_notify_cq(local.send_cq, 0), "arm");
    link.send_message();
    pollfd descriptor{.fd = local.channel->fd, .events = POLLIN, .revents = 0};
    constexpr int timeout_ms = 30'000;
    check(poll(&descriptor, 1, timeout_ms) == 1 ? 0 : -1, "wait");
    ibv_ack_cq_events(get_event(local.channel), 1);
    wait_success(local.send_cq, "the message");
    wait_success(link.responder.recv_cq, "the receive");
}

/// A block grows in its place, or its tail beside the receive's memory is cut off.
void block_resized_in_place(const target &target, bool /*corrected*/) {
    unconnected side(target);
    endpoint &local = side.local;
    constexpr std::size_t size = 1024;
    void *const block = std::malloc(size);
    ibv_mr *const mr = check(ibv_reg_mr(local.pd, block, size, full_access), "register");
    local.post_recv({reinterpret_cast<std::uintptr_t>(block), 64, mr->lkey});
    void *const same = std::realloc(block, size / 2);
    local.destroy_qp();
    ibv_dereg_mr(mr);
    std::free(same);
}

constexpr std::string_view kind = "none";
constexpr std::array cases{
    corpus_case{.name = "armed_before_connected",
                .kind = kind,
                .run = armed_before_connected,
                .needs = rxe},
    corpus_case{
        .name = "events_acknowledged_together", .kind = kind, .run = events_acknowledged_together},
    corpus_case{
        .name = "reset_with_receives", .kind = kind, .run = reset_with_receives, .needs = rxe},
    corpus_case{.name = "signaled_each_fourth", .kind = kind, .run = signaled_each_fourth},
    corpus_case{.name = "messages_without_bytes", .kind = kind, .run = messages_without_bytes},
    corpus_case{.name = "read_and_fenced_write",
                .kind = kind,
                .run = read_and_fenced_write,
                .options = "ownership"},
    corpus_case{
        .name = "posted_and_polled_by_threads", .kind = kind, .run = posted_and_polled_by_threads},
    corpus_case{.name = "child_during_receive", .kind = kind, .run = child_during_receive},
    corpus_case{.name = "other_memory_freed", .kind = kind, .run = other_memory_freed},
    corpus_case{.name = "other_mr_deregistered", .kind = kind, .run = other_mr_deregistered},
    corpus_case{.name = "destroyed_in_error", .kind = kind, .run = destroyed_in_error},
    corpus_case{.name = "ended_by_disconnect", .kind = kind, .run = ended_by_disconnect},
    corpus_case{.name = "reset_after_error", .kind = kind, .run = reset_after_error, .needs = rxe},
    corpus_case{.name = "batch_aborted_in_init",
                .kind = kind,
                .run = batch_aborted_in_init,
                .needs = extended},
    corpus_case{
        .name = "objects_created_again", .kind = kind, .run = objects_created_again, .needs = rxe},
    corpus_case{.name = "posts_until_refused", .kind = kind, .run = posts_until_refused},
    corpus_case{.name = "list_refused_in_part", .kind = kind, .run = list_refused_in_part},
    corpus_case{.name = "freed_after_close", .kind = kind, .run = freed_after_close},
    corpus_case{.name = "batch_aborted", .kind = kind, .run = batch_aborted, .needs = extended},
    corpus_case{.name = "wr_inline_data",
                .kind = kind,
                .run = wr_inline_data,
                .needs = extended | coherdma},
    corpus_case{.name = "connections_of_threads", .kind = kind, .run = connections_of_threads},
    corpus_case{.name = "channel_without_blocking", .kind = kind, .run = channel_without_blocking},
    corpus_case{.name = "block_resized_in_place", .kind = kind, .run = block_resized_in_place},
};

} // namespace

std::span<const corpus_case> correct_cases() {
    return cases;
}

} // namespace check_corpus

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// One reliable connection over any RDMA device, with one registered memory, for test programs.
//
// The side that connects is the client. On iWARP it must send the first message, and a message
// that finds no receive posted ends the connection; the caller keeps both rules. Every wait ends
// with what was waited for, with a failure that names it, or when the peer disconnects.

#pragma once

#include "verbs.hpp"

#include <infiniband/verbs.h>
#include <netdb.h>
#include <poll.h>
#include <rdma/rdma_cma.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <utility>

namespace verbs_test {

// No process listens at the address yet: the caller may try again.
struct refused : failure {
    using failure::failure;
};

// What each side tells the other while connecting.
struct hello {
    static constexpr std::uint64_t magic_value = 0x6361727279'0001; // "carry" in ASCII, version 1
    std::uint64_t magic, seed, address;
    std::uint32_t rounds, rkey;
};

// At most one of each is outstanding.
enum class work : std::uint64_t { receive, message, transfer };

class connection {
  public:
    using seconds = std::chrono::seconds;

    connection(std::span<std::byte> memory, seconds timeout)
        : memory_(memory)
        , timeout_(timeout) {}
    connection(const connection &) = delete;
    connection &operator=(const connection &) = delete;
    ~connection() {
        if (id_ && id_->qp)
            rdma_disconnect(id_.get());
    }

    // Waits for one client. first_buffer receives its first message.
    void accept_client(const std::string &address, const std::string &port,
                       std::span<std::byte> first_buffer) {
        const auto info = resolve(address, port, AI_PASSIVE);
        listener_ = create_id();
        check(rdma_bind_addr(listener_.get(), info->ai_addr), "bind to that address");
        check(rdma_listen(listener_.get(), 1), "listen");
        id_.reset(expect_event(RDMA_CM_EVENT_CONNECT_REQUEST, "a client"));
        shorten_retransmission();
        create_queues();
        post_recv(first_buffer);
        hello local_hello = make_hello(peer_.seed, peer_.rounds);
        rdma_conn_param param = make_conn_param(local_hello);
        check(rdma_accept(id_.get(), &param), "accept the client");
        expect_event(RDMA_CM_EVENT_ESTABLISHED, "the connection");
    }

    void connect(const std::string &address, const std::string &port, std::uint64_t seed,
                 std::uint32_t rounds) {
        const auto milliseconds = static_cast<int>(timeout_.count() * 1000);
        const auto info = resolve(address, port, 0);
        id_ = create_id();
        shorten_retransmission();
        // If the neighbor answers before the kernel has registered for the event, the kernel looks
        // again only after this timeout.
        check(rdma_resolve_addr(id_.get(), nullptr, info->ai_addr, std::min(milliseconds, 2000)),
              "find an RDMA device for that address");
        expect_event(RDMA_CM_EVENT_ADDR_RESOLVED, "the address");
        check(rdma_resolve_route(id_.get(), milliseconds), "find a route");
        expect_event(RDMA_CM_EVENT_ROUTE_RESOLVED, "the route");
        create_queues();
        hello local_hello = make_hello(seed, rounds);
        rdma_conn_param param = make_conn_param(local_hello);
        const int result = rdma_connect(id_.get(), &param);
        if (result != 0 && errno == ECONNREFUSED)
            throw refused("no process listens"); // siw; rxe sends an event
        check(result, "connect");
        expect_event(RDMA_CM_EVENT_ESTABLISHED, "the connection");
    }

    const hello &peer() const { return peer_; }

    void post_recv(std::span<std::byte> buffer) {
        ibv_sge sge = make_sge(buffer);
        ibv_recv_wr wr{static_cast<std::uint64_t>(work::receive), nullptr, &sge, 1};
        ibv_recv_wr *bad_wr = nullptr;
        check(ibv_post_recv(id_->qp, &wr, &bad_wr), "post a receive");
        ++outstanding_;
    }

    // remote_offset is an offset into the peer's memory; Send does not use it.
    void post_send(work kind, ibv_wr_opcode opcode, std::span<std::byte> buffer,
                   std::size_t remote_offset = 0) {
        ibv_sge sge = make_sge(buffer);
        ibv_send_wr wr{}, *bad_wr = nullptr;
        wr.wr_id = static_cast<std::uint64_t>(kind);
        wr.sg_list = &sge;
        wr.num_sge = 1;
        wr.opcode = opcode;
        wr.send_flags = IBV_SEND_SIGNALED;
        wr.wr.rdma.remote_addr = peer_.address + remote_offset;
        wr.wr.rdma.rkey = peer_.rkey;
        check(ibv_post_send(id_->qp, &wr, &bad_wr), "post a request");
        ++outstanding_;
    }

    // The completion of that kind; those of other kinds that come first are kept for their own
    // wait.
    ibv_wc wait_completion(work kind, const std::string &operation) {
        auto &wc = unclaimed_.at(static_cast<std::size_t>(kind));
        const auto deadline = clock::now() + timeout_;
        for (bool armed = false; !wc;) {
            const bool was_disconnected =
                disconnected_; // looked at first: what came before it still counts
            if (poll_completion(operation))
                continue;
            if (was_disconnected)
                throw failure(concat("the connection ended during ", operation));
            if (!std::exchange(armed, true)) {
                check(ibv_req_notify_cq(cq_.get(), 0), "arm the completion queue");
                continue; // one may have come before it was armed
            }
            poll_fds(deadline, operation);
            if (poll_fds_.at(0).revents) {
                ibv_cq *cq = nullptr;
                void *context = nullptr;
                check(ibv_get_cq_event(comp_channel_.get(), &cq, &context), "completion event");
                ibv_ack_cq_events(cq, 1);
                armed = false;
            }
            if (poll_fds_.at(1).revents)
                handle_cm_event();
        }
        return *std::exchange(wc, std::nullopt);
    }

    // After a failure: waits until every outstanding WR has completed; returns how many failed.
    unsigned drain() {
        if (!qp_)
            return 0;
        rdma_disconnect(id_.get()); // if the peer has disconnected, the QP is in error already
        const auto deadline = clock::now() + timeout_;
        while (outstanding_ != 0) {
            ibv_wc wc{};
            if (ibv_poll_cq(cq_.get(), 1, &wc) == 1)
                count_completion(wc);
            else if (clock::now() > deadline)
                throw failure(
                    concat(outstanding_, " WRs did not complete after the disconnection"));
        }
        return failed_;
    }

    void disconnect() { check(rdma_disconnect(id_.get()), "disconnect"); }

    void wait_disconnected() {
        if (!disconnected_)
            expect_event(RDMA_CM_EVENT_DISCONNECTED, "the peer's disconnection");
    }

  private:
    using clock = std::chrono::steady_clock;
    using id_ptr = unique_handle<rdma_cm_id, rdma_destroy_id>;

    id_ptr create_id() {
        rdma_cm_id *id = nullptr;
        check(rdma_create_id(events_.get(), &id, nullptr, RDMA_PS_TCP), "create a CM id");
        return id_ptr(id);
    }

    // RoCE sends again after 2 s by default, too long for a test on a lossy wire; 2^16 * 4.096 us
    // is 0.27 s. iWARP leaves it to TCP and refuses the option.
    void shorten_retransmission() {
        std::uint8_t exponent = 16;
        rdma_set_option(id_.get(), RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &exponent,
                        sizeof exponent);
    }

    static unique_handle<addrinfo, freeaddrinfo> resolve(const std::string &address,
                                                         const std::string &port, int flags) {
        addrinfo hints{}, *info = nullptr;
        hints.ai_flags = flags;
        hints.ai_socktype = SOCK_STREAM;
        if (const int error = getaddrinfo(address.c_str(), port.c_str(), &hints, &info))
            throw failure(concat(address, ": ", gai_strerror(error)));
        return unique_handle<addrinfo, freeaddrinfo>(info);
    }

    void create_queues() {
        ibv_context *device = id_->verbs;
        // An iWARP Read writes its sink as the peer would, and needs REMOTE_WRITE there.
        const int access =
            IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
        pd_ = check(decltype(pd_)(ibv_alloc_pd(device)), "protection domain");
        mr_ = check(decltype(mr_)(ibv_reg_mr(pd_.get(), memory_.data(), memory_.size(), access)),
                    "register memory");
        comp_channel_ =
            check(decltype(comp_channel_)(ibv_create_comp_channel(device)), "completion channel");
        cq_ = check(decltype(cq_)(ibv_create_cq(device, 8, nullptr, comp_channel_.get(), 0)),
                    "completion queue");
        ibv_qp_init_attr attr{};
        attr.qp_type = IBV_QPT_RC;
        attr.send_cq = attr.recv_cq = cq_.get();
        attr.cap = {4, 2, 1, 1, 0};
        check(rdma_create_qp(id_.get(), pd_.get(), &attr), "create a queue pair");
        qp_.reset(id_.get());
    }

    hello make_hello(std::uint64_t seed, std::uint32_t rounds) const {
        return {hello::magic_value, seed, reinterpret_cast<std::uintptr_t>(memory_.data()), rounds,
                mr_->rkey};
    }

    // Never more than one Read at a time, which every device can do. No retry for a missing
    // receive: there is always one.
    static rdma_conn_param make_conn_param(hello &local_hello) {
        rdma_conn_param param{};
        param.private_data = &local_hello;
        param.private_data_len = sizeof local_hello;
        param.responder_resources = 1;
        param.initiator_depth = 1;
        param.retry_count = 7;
        return param;
    }

    ibv_sge make_sge(std::span<std::byte> buffer) const {
        return {reinterpret_cast<std::uintptr_t>(buffer.data()),
                static_cast<std::uint32_t>(buffer.size()), mr_->lkey};
    }

    bool poll_completion(const std::string &operation) {
        ibv_wc wc{};
        const int count = ibv_poll_cq(cq_.get(), 1, &wc);
        if (count < 0)
            throw failure("cannot poll the completion queue");
        if (count == 0)
            return false;
        this->count_completion(wc);
        // How a device reports the end first differs: rxe by an event, siw by flushing.
        if (wc.status == IBV_WC_WR_FLUSH_ERR)
            throw failure(concat("the connection ended during ", operation));
        if (wc.status != IBV_WC_SUCCESS)
            throw failure(concat(operation, " failed: ", ibv_wc_status_str(wc.status),
                                 " (vendor code ", wc.vendor_err, ")"));
        unclaimed_.at(wc.wr_id) = wc;
        return true;
    }

    void count_completion(const ibv_wc &wc) {
        --outstanding_;
        failed_ += wc.status != IBV_WC_SUCCESS;
    }

    void poll_fds(clock::time_point deadline, const std::string &operation) {
        poll_fds_ = {pollfd{comp_channel_ ? comp_channel_->fd : -1, POLLIN, 0},
                     pollfd{events_->fd, POLLIN, 0}};
        const auto remaining =
            std::chrono::ceil<std::chrono::milliseconds>(deadline - clock::now());
        const auto timeout_ms = static_cast<int>(std::max<std::int64_t>(remaining.count(), 0));
        const int count = poll(poll_fds_.data(), poll_fds_.size(), timeout_ms);
        if (count < 0 && errno != EINTR)
            check(-1, "poll");
        if (count == 0 && timeout_ms == 0)
            throw failure(concat("no event within ", timeout_.count(), " s: ", operation));
    }

    // Takes one CM event; its private data, where it brings the peer's hello, goes to peer_.
    std::pair<rdma_cm_event_type, rdma_cm_id *> handle_cm_event() {
        rdma_cm_event *cm_event = nullptr;
        check(rdma_get_cm_event(events_.get(), &cm_event), "CM event");
        const unique_handle<rdma_cm_event, rdma_ack_cm_event> event(cm_event);
        status_ = event->status;
        if (event->event == RDMA_CM_EVENT_DISCONNECTED)
            disconnected_ = true;
        const auto &param = event->param.conn;
        const bool has_hello = event->event == RDMA_CM_EVENT_CONNECT_REQUEST ||
                               (event->event == RDMA_CM_EVENT_ESTABLISHED && !listener_);
        if (has_hello) {
            if (param.private_data_len >= sizeof peer_)
                std::memcpy(&peer_, param.private_data, sizeof peer_);
            if (peer_.magic != hello::magic_value)
                throw failure("the peer is not data_integrity");
        }
        return {event->event, event->id};
    }

    rdma_cm_id *expect_event(rdma_cm_event_type expected, const char *operation) {
        const auto deadline = clock::now() + timeout_;
        do
            poll_fds(deadline, operation);
        while (!poll_fds_.at(1).revents);
        const auto [type, id] = handle_cm_event();
        if (type == expected)
            return id;
        if (type == RDMA_CM_EVENT_REJECTED)
            throw refused("no process listens");
        throw failure(concat("waited for ", operation, " and got ", rdma_event_str(type),
                             " (status ", status_, ")"));
    }

    std::span<std::byte> memory_;
    seconds timeout_;
    hello peer_{};
    int status_ = 0;
    unsigned outstanding_ = 0, failed_ = 0;
    bool disconnected_ = false;
    std::array<pollfd, 2> poll_fds_{};
    std::array<std::optional<ibv_wc>, 3> unclaimed_{};

    // Released from the last to the first.
    unique_handle<rdma_event_channel, rdma_destroy_event_channel> events_ = check(
        decltype(events_)(rdma_create_event_channel()), "open the RDMA CM (modprobe rdma_ucm)");
    id_ptr listener_, id_;
    unique_handle<ibv_pd, ibv_dealloc_pd> pd_;
    unique_handle<ibv_mr, ibv_dereg_mr> mr_;
    unique_handle<ibv_comp_channel, ibv_destroy_comp_channel> comp_channel_;
    unique_handle<ibv_cq, ibv_destroy_cq> cq_;
    unique_handle<rdma_cm_id, rdma_destroy_qp> qp_;
};

} // namespace verbs_test

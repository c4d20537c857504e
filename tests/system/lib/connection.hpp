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

    // Waits for one client. The receive for its first message goes to FIRST.
    void serve(const std::string &address, const std::string &port, std::span<std::byte> first) {
        const auto info = resolve(address, port, AI_PASSIVE);
        listener_ = new_id();
        check(rdma_bind_addr(listener_.get(), info->ai_addr), "bind to that address");
        check(rdma_listen(listener_.get(), 1), "listen");
        id_.reset(expect(RDMA_CM_EVENT_CONNECT_REQUEST, "a client"));
        shorten_retransmission();
        create_queues();
        post_receive(first);
        hello own_hello = introduce(peer_.seed, peer_.rounds);
        rdma_conn_param parameters = connect_parameters(own_hello);
        check(rdma_accept(id_.get(), &parameters), "accept the client");
        expect(RDMA_CM_EVENT_ESTABLISHED, "the connection");
    }

    void connect(const std::string &address, const std::string &port, std::uint64_t seed,
                 std::uint32_t rounds) {
        const auto milliseconds = static_cast<int>(timeout_.count() * 1000);
        const auto info = resolve(address, port, 0);
        id_ = new_id();
        shorten_retransmission();
        // If the neighbor answers before the kernel has registered for the event, the kernel looks
        // again only after this timeout.
        check(rdma_resolve_addr(id_.get(), nullptr, info->ai_addr, std::min(milliseconds, 2000)),
              "find an RDMA device for that address");
        expect(RDMA_CM_EVENT_ADDR_RESOLVED, "the address");
        check(rdma_resolve_route(id_.get(), milliseconds), "find a route");
        expect(RDMA_CM_EVENT_ROUTE_RESOLVED, "the route");
        create_queues();
        hello own_hello = introduce(seed, rounds);
        rdma_conn_param parameters = connect_parameters(own_hello);
        const int result = rdma_connect(id_.get(), &parameters);
        if (result != 0 && errno == ECONNREFUSED)
            throw refused("no process listens"); // siw; rxe sends an event
        check(result, "connect");
        expect(RDMA_CM_EVENT_ESTABLISHED, "the connection");
    }

    const hello &peer() const { return peer_; }

    void post_receive(std::span<std::byte> where) {
        ibv_sge piece = sge(where);
        ibv_recv_wr request{static_cast<std::uint64_t>(work::receive), nullptr, &piece, 1};
        ibv_recv_wr *bad = nullptr;
        check(ibv_post_recv(id_->qp, &request, &bad), "post a receive");
        ++outstanding_;
    }

    // REMOTE is an offset into the peer's memory; Send does not use it.
    void post(work kind, ibv_wr_opcode operation, std::span<std::byte> local,
              std::size_t remote = 0) {
        ibv_sge piece = sge(local);
        ibv_send_wr request{}, *bad = nullptr;
        request.wr_id = static_cast<std::uint64_t>(kind);
        request.sg_list = &piece;
        request.num_sge = 1;
        request.opcode = operation;
        request.send_flags = IBV_SEND_SIGNALED;
        request.wr.rdma.remote_addr = peer_.address + remote;
        request.wr.rdma.rkey = peer_.rkey;
        check(ibv_post_send(id_->qp, &request, &bad), "post a request");
        ++outstanding_;
    }

    // The completion of KIND; those of other kinds that come first are kept for their own wait.
    ibv_wc wait(work kind, const std::string &what) {
        auto &wanted = completed_.at(static_cast<std::size_t>(kind));
        const auto deadline = clock::now() + timeout_;
        for (bool armed = false; !wanted;) {
            const bool gone = disconnected_; // looked at first: what came before it still counts
            if (take_completion(what))
                continue;
            if (gone)
                throw failure(text("the connection ended during ", what));
            if (!std::exchange(armed, true)) {
                check(ibv_req_notify_cq(cq_.get(), 0), "arm the completion queue");
                continue; // one may have come before it was armed
            }
            poll_until(deadline, what);
            if (ready_.at(0).revents) {
                ibv_cq *cq = nullptr;
                void *context = nullptr;
                check(ibv_get_cq_event(completions_.get(), &cq, &context), "completion event");
                ibv_ack_cq_events(cq, 1);
                armed = false;
            }
            if (ready_.at(1).revents)
                next_event();
        }
        return *std::exchange(wanted, std::nullopt);
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
                count(wc);
            else if (clock::now() > deadline)
                throw failure(text(outstanding_, " WRs did not complete after the disconnection"));
        }
        return failed_;
    }

    void disconnect() { check(rdma_disconnect(id_.get()), "disconnect"); }

    void wait_disconnected() {
        if (!disconnected_)
            expect(RDMA_CM_EVENT_DISCONNECTED, "the peer's disconnection");
    }

  private:
    using clock = std::chrono::steady_clock;
    using id_ptr = owned<rdma_cm_id, rdma_destroy_id>;

    id_ptr new_id() {
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

    static owned<addrinfo, freeaddrinfo> resolve(const std::string &address,
                                                 const std::string &port, int flags) {
        addrinfo hints{}, *info = nullptr;
        hints.ai_flags = flags;
        hints.ai_socktype = SOCK_STREAM;
        if (const int error = getaddrinfo(address.c_str(), port.c_str(), &hints, &info))
            throw failure(text(address, ": ", gai_strerror(error)));
        return owned<addrinfo, freeaddrinfo>(info);
    }

    void create_queues() {
        ibv_context *device = id_->verbs;
        // An iWARP Read writes its sink as the peer would, and needs REMOTE_WRITE there.
        const int access =
            IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
        pd_ = check(decltype(pd_)(ibv_alloc_pd(device)), "protection domain");
        mr_ = check(decltype(mr_)(ibv_reg_mr(pd_.get(), memory_.data(), memory_.size(), access)),
                    "register memory");
        completions_ =
            check(decltype(completions_)(ibv_create_comp_channel(device)), "completion channel");
        cq_ = check(decltype(cq_)(ibv_create_cq(device, 8, nullptr, completions_.get(), 0)),
                    "completion queue");
        ibv_qp_init_attr attributes{};
        attributes.qp_type = IBV_QPT_RC;
        attributes.send_cq = attributes.recv_cq = cq_.get();
        attributes.cap = {4, 2, 1, 1, 0};
        check(rdma_create_qp(id_.get(), pd_.get(), &attributes), "create a queue pair");
        qp_.reset(id_.get());
    }

    hello introduce(std::uint64_t seed, std::uint32_t rounds) const {
        return {hello::magic_value, seed, reinterpret_cast<std::uintptr_t>(memory_.data()), rounds,
                mr_->rkey};
    }

    // Never more than one Read at a time, which every device can do. No retry for a missing
    // receive: there is always one.
    static rdma_conn_param connect_parameters(hello &own_hello) {
        rdma_conn_param parameters{};
        parameters.private_data = &own_hello;
        parameters.private_data_len = sizeof own_hello;
        parameters.responder_resources = 1;
        parameters.initiator_depth = 1;
        parameters.retry_count = 7;
        return parameters;
    }

    ibv_sge sge(std::span<std::byte> where) const {
        return {reinterpret_cast<std::uintptr_t>(where.data()),
                static_cast<std::uint32_t>(where.size()), mr_->lkey};
    }

    bool take_completion(const std::string &what) {
        ibv_wc wc{};
        const int count = ibv_poll_cq(cq_.get(), 1, &wc);
        if (count < 0)
            throw failure("cannot poll the completion queue");
        if (count == 0)
            return false;
        this->count(wc);
        // How a device reports the end first differs: rxe by an event, siw by flushing.
        if (wc.status == IBV_WC_WR_FLUSH_ERR)
            throw failure(text("the connection ended during ", what));
        if (wc.status != IBV_WC_SUCCESS)
            throw failure(text(what, " failed: ", ibv_wc_status_str(wc.status), " (vendor code ",
                               wc.vendor_err, ")"));
        completed_.at(wc.wr_id) = wc;
        return true;
    }

    void count(const ibv_wc &wc) {
        --outstanding_;
        failed_ += wc.status != IBV_WC_SUCCESS;
    }

    void poll_until(clock::time_point deadline, const std::string &what) {
        ready_ = {pollfd{completions_ ? completions_->fd : -1, POLLIN, 0},
                  pollfd{events_->fd, POLLIN, 0}};
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - clock::now());
        const auto bounded = static_cast<int>(std::max<std::int64_t>(left.count(), 0));
        const int count = poll(ready_.data(), ready_.size(), bounded);
        if (count < 0 && errno != EINTR)
            check(-1, "poll");
        if (count == 0 && bounded == 0)
            throw failure(text("no event within ", timeout_.count(), " s: ", what));
    }

    // Takes one CM event; its private data, where it brings the peer's hello, goes to peer_.
    std::pair<rdma_cm_event_type, rdma_cm_id *> next_event() {
        rdma_cm_event *raw = nullptr;
        check(rdma_get_cm_event(events_.get(), &raw), "CM event");
        const owned<rdma_cm_event, rdma_ack_cm_event> event(raw);
        status_ = event->status;
        if (event->event == RDMA_CM_EVENT_DISCONNECTED)
            disconnected_ = true;
        const auto &parameters = event->param.conn;
        const bool greets = event->event == RDMA_CM_EVENT_CONNECT_REQUEST ||
                            (event->event == RDMA_CM_EVENT_ESTABLISHED && !listener_);
        if (greets) {
            if (parameters.private_data_len >= sizeof peer_)
                std::memcpy(&peer_, parameters.private_data, sizeof peer_);
            if (peer_.magic != hello::magic_value)
                throw failure("the peer is not data_integrity");
        }
        return {event->event, event->id};
    }

    rdma_cm_id *expect(rdma_cm_event_type wanted, const char *what) {
        const auto deadline = clock::now() + timeout_;
        do
            poll_until(deadline, what);
        while (!ready_.at(1).revents);
        const auto [type, id] = next_event();
        if (type == wanted)
            return id;
        if (type == RDMA_CM_EVENT_REJECTED)
            throw refused("no process listens");
        throw failure(text("waited for ", what, " and got ", rdma_event_str(type), " (status ",
                           status_, ")"));
    }

    std::span<std::byte> memory_;
    seconds timeout_;
    hello peer_{};
    int status_ = 0;
    unsigned outstanding_ = 0, failed_ = 0;
    bool disconnected_ = false;
    std::array<pollfd, 2> ready_{};
    std::array<std::optional<ibv_wc>, 3> completed_{};

    // Released from the last to the first.
    owned<rdma_event_channel, rdma_destroy_event_channel> events_ = check(
        decltype(events_)(rdma_create_event_channel()), "open the RDMA CM (modprobe rdma_ucm)");
    id_ptr listener_, id_;
    owned<ibv_pd, ibv_dealloc_pd> pd_;
    owned<ibv_mr, ibv_dereg_mr> mr_;
    owned<ibv_comp_channel, ibv_destroy_comp_channel> completions_;
    owned<ibv_cq, ibv_destroy_cq> cq_;
    owned<rdma_cm_id, rdma_destroy_qp> qp_;
};

} // namespace verbs_test

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Two QPs of one device connected by rdma_cm, as iWARP needs it: both in one thread, on one event
// channel. The requester has sent the first message already, as iWARP demands.

#pragma once

#include "fault_runner.hpp"

#include <arpa/inet.h>
#include <array>
#include <cstddef>
#include <cstdint>
#include <fcntl.h>
#include <functional>
#include <netinet/in.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <string>
#include <utility>

namespace verbs_test {

/// How an endpoint differs from a plain one.
struct qp_options {
    bool extended = false; ///< by the ibv_wr_* API, and a CQ by the ibv_start_poll API
    bool use_srq = false;  ///< with an SRQ
    bool sq_sig_all = false;
    bool single_threaded = false;                                ///< in a thread domain
    std::uint8_t rd_atomic = 1;                                  ///< RDMA Reads at a time
    std::function<void(const struct endpoint &)> before_connect; ///< called before it is connected
};

/// A CQ with its completion channel.
struct completion_queue {
    owned<ibv_comp_channel, ibv_destroy_comp_channel> channel;
    owned<ibv_cq, ibv_destroy_cq> cq;

    void make(ibv_context *context, const qp_options &options) {
        channel = check(decltype(channel)(ibv_create_comp_channel(context)), "channel");
        check(fcntl(channel->fd, F_SETFL, O_NONBLOCK), "channel");
        if (!options.extended && !options.single_threaded) {
            cq = check(decltype(cq)(ibv_create_cq(context, 64, nullptr, channel.get(), 0)),
                       "completion queue");
            return;
        }
        ibv_cq_init_attr_ex attributes{};
        attributes.cqe = 64;
        attributes.channel = channel.get();
        attributes.wc_flags = IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_QP_NUM;
        if (options.single_threaded) {
            attributes.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
            attributes.flags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED;
        }
        ibv_cq_ex *const made = ibv_create_cq_ex(context, &attributes);
        check(made != nullptr ? 0 : -1, "completion queue to poll by ibv_start_poll");
        cq.reset(ibv_cq_ex_to_cq(made));
    }
    std::optional<ibv_wc> completion(milliseconds within) const {
        return verbs_test::completion(cq.get(), within);
    }
    ibv_wc expect_success(const char *what) const {
        return verbs_test::expect_success(cq.get(), what);
    }
    void arm(bool solicited) const { check(ibv_req_notify_cq(cq.get(), solicited), "arm"); }
    bool event(milliseconds within) const {
        pollfd ready{channel->fd, POLLIN, 0};
        if (poll(&ready, 1, static_cast<int>(within.count())) <= 0)
            return false;
        ibv_cq *signaled = nullptr;
        void *context = nullptr;
        check(ibv_get_cq_event(channel.get(), &signaled, &context), "take the event");
        ibv_ack_cq_events(signaled, 1);
        return true;
    }
};

/// A QP with a CQ for each direction and some memory.
struct endpoint {
    static constexpr ibv_qp_cap asked{32, 32, 2, 2, 64};
    alignas(4096) std::array<std::byte, 8192> memory{};
    owned<ibv_pd, ibv_dealloc_pd> whole;
    struct releases_thread { // the verb itself is inline, so it is no template's argument
        void operator()(ibv_td *gone) const noexcept { ibv_dealloc_td(gone); }
    };
    std::unique_ptr<ibv_td, releases_thread> thread;
    owned<ibv_pd, ibv_dealloc_pd> pd; ///< the parent domain, if single_threaded
    owned<ibv_mr, ibv_dereg_mr> mr;
    completion_queue sent, received;
    owned<ibv_srq, ibv_destroy_srq> srq;
    ibv_qp_cap granted{};
    struct releases {
        void operator()(rdma_cm_id *gone) const noexcept {
            if (gone->qp != nullptr)
                rdma_destroy_qp(gone);
            rdma_destroy_id(gone);
        }
    };
    std::unique_ptr<rdma_cm_id, releases> id; ///< with its QP: destroyed first

    endpoint() = default;
    endpoint(const endpoint &) = delete;
    endpoint &operator=(const endpoint &) = delete;

    ibv_qp *qp() const { return id->qp; }

    owned<ibv_mr, ibv_dereg_mr> registered(void *addr, std::size_t length) const {
        constexpr int access =
            IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
        return check(decltype(mr)(ibv_reg_mr(pd.get(), addr, length, access)), "register memory");
    }
    void create_parent_domain() {
        whole = std::move(pd);
        ibv_td_init_attr plain{};
        thread = check(decltype(thread)(ibv_alloc_td(id->verbs, &plain)), "thread domain");
        ibv_parent_domain_init_attr attr{};
        attr.pd = whole.get();
        attr.td = thread.get();
        pd = check(decltype(pd)(ibv_alloc_parent_domain(id->verbs, &attr)), "parent domain");
    }
    void create_qp(const qp_options &options) {
        pd = check(decltype(pd)(ibv_alloc_pd(id->verbs)), "protection domain");
        if (options.single_threaded)
            create_parent_domain();
        mr = registered(memory.data(), memory.size());
        sent.make(id->verbs, options);
        received.make(id->verbs, options);
        ibv_qp_init_attr_ex attributes{};
        if (options.use_srq) {
            ibv_srq_init_attr srq_attr{};
            srq_attr.attr = {8, 2, 0};
            srq = check(decltype(srq)(ibv_create_srq(pd.get(), &srq_attr)), "shared queue");
            attributes.srq = srq.get();
        }
        attributes.qp_type = IBV_QPT_RC;
        attributes.send_cq = sent.cq.get();
        attributes.recv_cq = received.cq.get();
        attributes.sq_sig_all = options.sq_sig_all;
        attributes.cap = asked;
        attributes.comp_mask = IBV_QP_INIT_ATTR_PD;
        attributes.pd = pd.get();
        if (options.extended) {
            attributes.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
            attributes.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE |
                                        IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_SEND_WITH_INV;
            check(rdma_create_qp_ex(id.get(), &attributes),
                  "queue pair to post to by ibv_start_poll");
        } else {
            // The older structure is the newer one's beginning.
            check(rdma_create_qp(id.get(), pd.get(),
                                 reinterpret_cast<ibv_qp_init_attr *>(&attributes)),
                  "queue pair");
        }
        granted = attributes.cap;
        if (options.before_connect)
            options.before_connect(*this);
    }

    ibv_sge make_sge(std::uint32_t length, std::size_t offset = 0) const {
        return {reinterpret_cast<std::uintptr_t>(&memory.at(offset)), length, mr->lkey};
    }
    void post_recv(std::uint64_t number, std::uint32_t length = 64) const {
        ibv_sge sge = make_sge(length);
        ibv_recv_wr wr{number, nullptr, &sge, 1}, *bad = nullptr;
        check(srq ? ibv_post_srq_recv(srq.get(), &wr, &bad) : ibv_post_recv(qp(), &wr, &bad),
              "post a receive");
    }
    /// A WR with one SGE, which must live as long. Its remote memory is that of the peer.
    ibv_send_wr request(std::uint64_t number, ibv_wr_opcode opcode, ibv_sge &sge,
                        const endpoint &peer) const {
        ibv_send_wr made{};
        made.wr_id = number;
        made.opcode = opcode;
        made.sg_list = &sge;
        made.num_sge = 1;
        made.send_flags = IBV_SEND_SIGNALED;
        made.wr.rdma.remote_addr = reinterpret_cast<std::uintptr_t>(peer.memory.data());
        made.wr.rdma.rkey = peer.mr->rkey;
        return made;
    }
    /// What ibv_post_send() returned; named: whether bad_wr is the list's first.
    int post(ibv_send_wr &list, bool *named = nullptr) const {
        ibv_send_wr *bad = nullptr;
        const int error = ibv_post_send(qp(), &list, &bad);
        if (named != nullptr)
            *named = bad == &list;
        return error;
    }
};

class rdmacm_loopback {
    owned<rdma_event_channel, rdma_destroy_event_channel> events_ = check(
        decltype(events_)(rdma_create_event_channel()), "open the RDMA CM (modprobe rdma_ucm)");
    std::unique_ptr<rdma_cm_id, endpoint::releases> listener_ = new_id();

  public:
    endpoint requester, responder;

    explicit rdmacm_loopback(const std::string &address, const qp_options &requester_options = {},
                             const qp_options &responder_options = {}) {
        constexpr int timeout_ms = 60000;
        sockaddr_in addr{};
        addr.sin_family = AF_INET;
        if (inet_pton(AF_INET, address.c_str(), &addr.sin_addr) != 1)
            throw failure(text("not an address: ", address));
        check(rdma_bind_addr(listener_.get(), reinterpret_cast<sockaddr *>(&addr)), "bind to it");
        check(rdma_listen(listener_.get(), 1), "listen");
        requester.id = new_id();
        check(rdma_resolve_addr(requester.id.get(), nullptr, rdma_get_local_addr(listener_.get()),
                                timeout_ms),
              "find a device for that address");
        expect_event(RDMA_CM_EVENT_ADDR_RESOLVED);
        check(rdma_resolve_route(requester.id.get(), timeout_ms), "find a route");
        expect_event(RDMA_CM_EVENT_ROUTE_RESOLVED);
        requester.create_qp(requester_options);
        rdma_conn_param parameters_ = parameters(requester_options);
        check(rdma_connect(requester.id.get(), &parameters_), "connect");
        responder.id.reset(expect_event(RDMA_CM_EVENT_CONNECT_REQUEST));
        responder.create_qp(responder_options);
        responder.post_recv(0);
        parameters_ = parameters(responder_options);
        check(rdma_accept(responder.id.get(), &parameters_), "accept");
        expect_event(RDMA_CM_EVENT_ESTABLISHED);
        expect_event(RDMA_CM_EVENT_ESTABLISHED);
        send_first_message();
    }

    /// One endpoint disconnects; both have their event.
    void disconnect(const endpoint &first) {
        check(rdma_disconnect(first.id.get()), "disconnect");
        expect_event(RDMA_CM_EVENT_DISCONNECTED);
        expect_event(RDMA_CM_EVENT_DISCONNECTED);
    }

  private:
    std::unique_ptr<rdma_cm_id, endpoint::releases> new_id() const {
        rdma_cm_id *made = nullptr;
        check(rdma_create_id(events_.get(), &made, nullptr, RDMA_PS_TCP), "create a CM id");
        return std::unique_ptr<rdma_cm_id, endpoint::releases>(made);
    }
    static rdma_conn_param parameters(const qp_options &options) {
        rdma_conn_param is{};
        is.responder_resources = is.initiator_depth = options.rd_atomic;
        is.retry_count = is.rnr_retry_count = 7; // not of iWARP
        return is;
    }
    rdma_cm_id *expect_event(rdma_cm_event_type options) const {
        pollfd ready{events_->fd, POLLIN, 0};
        rdma_cm_event *event = nullptr;
        if (poll(&ready, 1, static_cast<int>(limit().count())) <= 0)
            throw failure(text("did not get ", rdma_event_str(options)));
        check(rdma_get_cm_event(events_.get(), &event), "CM event");
        const rdma_cm_event_type type = event->event;
        rdma_cm_id *const id = event->id;
        rdma_ack_cm_event(event);
        if (type != options)
            throw failure(
                text("expected ", rdma_event_str(options), ", got ", rdma_event_str(type)));
        return id;
    }
    void send_first_message() const {
        ibv_sge sge = requester.make_sge(8);
        ibv_send_wr first = requester.request(0, IBV_WR_SEND, sge, responder);
        check(requester.post(first), "post the first message");
        requester.sent.expect_success("the first message");
        responder.received.expect_success("the first message's receive");
    }
};

} // namespace verbs_test

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Two QPs of one device connected by rdma_cm, as iWARP needs it: both in one thread, on one event
// channel. The requester has sent the first message already, as iWARP demands.

#pragma once

#include "cm_event.hpp"
#include "fault_runner.hpp"

#include <arpa/inet.h>
#include <array>
#include <cstddef>
#include <cstdint>
#include <fcntl.h>
#include <functional>
#include <netinet/in.h>
#include <string>
#include <utility>

namespace verbs_test {

/// How an endpoint differs from a plain one.
struct qp_options {
    static constexpr ibv_qp_cap default_cap{32, 32, 2, 2, 64};
    ibv_qp_cap cap = default_cap;
    bool extended = false; ///< the QP has the ibv_wr_* API, the CQs the ibv_start_poll API
    bool use_srq = false;  ///< with an SRQ
    bool sq_sig_all = false;
    bool single_threaded = false;                                ///< in a thread domain, CQs too
    std::uint8_t rd_atomic = 1;                                  ///< RDMA Reads at a time
    std::function<void(const struct endpoint &)> before_connect; ///< called before it is connected
};

/// A CQ with its completion channel.
struct completion_queue {
    unique_handle<ibv_comp_channel, ibv_destroy_comp_channel> channel;
    unique_handle<ibv_cq, ibv_destroy_cq> cq;

    void create(ibv_context *context, const qp_options &options) {
        channel = check(decltype(channel)(ibv_create_comp_channel(context)), "channel");
        check(fcntl(channel->fd, F_SETFL, O_NONBLOCK), "channel");
        if (!options.extended && !options.single_threaded) {
            cq = check(decltype(cq)(ibv_create_cq(context, 64, nullptr, channel.get(), 0)),
                       "completion queue");
            return;
        }
        ibv_cq_init_attr_ex attr{};
        attr.cqe = 64;
        attr.channel = channel.get();
        attr.wc_flags = IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_QP_NUM;
        if (options.single_threaded) {
            attr.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
            attr.flags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED;
        }
        ibv_cq_ex *const created = ibv_create_cq_ex(context, &attr);
        check(created != nullptr ? 0 : -1, "completion queue to poll by ibv_start_poll");
        cq.reset(ibv_cq_ex_to_cq(created));
    }
    std::optional<ibv_wc> wait_completion(milliseconds timeout) const {
        return verbs_test::wait_completion(cq.get(), timeout);
    }
    ibv_wc expect_success(const char *operation) const {
        return verbs_test::expect_success(cq.get(), operation);
    }
    void arm() const { check(ibv_req_notify_cq(cq.get(), 0), "arm"); }
    void arm_solicited() const { check(ibv_req_notify_cq(cq.get(), 1), "arm"); }
    bool wait_event(milliseconds timeout) const {
        pollfd poll_fd{channel->fd, POLLIN, 0};
        if (poll(&poll_fd, 1, static_cast<int>(timeout.count())) <= 0)
            return false;
        ibv_cq *event_cq = nullptr;
        void *context = nullptr;
        check(ibv_get_cq_event(channel.get(), &event_cq, &context), "take the event");
        ibv_ack_cq_events(event_cq, 1);
        return true;
    }
};

/// A QP with a CQ for each direction and some memory.
struct endpoint {
    alignas(4096) std::array<std::byte, 8192> memory{};
    unique_handle<ibv_pd, ibv_dealloc_pd> base_pd;
    struct td_deleter { // the verb itself is inline, so it is no template's argument
        void operator()(ibv_td *td) const noexcept { ibv_dealloc_td(td); }
    };
    std::unique_ptr<ibv_td, td_deleter> td;
    unique_handle<ibv_pd, ibv_dealloc_pd> pd; ///< the parent domain, if single_threaded
    unique_handle<ibv_mr, ibv_dereg_mr> mr;
    completion_queue send_cq, recv_cq;
    unique_handle<ibv_srq, ibv_destroy_srq> srq;
    ibv_qp_cap granted_cap{};
    struct cm_id_deleter {
        void operator()(rdma_cm_id *id) const noexcept {
            if (id->qp != nullptr)
                rdma_destroy_qp(id);
            rdma_destroy_id(id);
        }
    };
    std::unique_ptr<rdma_cm_id, cm_id_deleter> id; ///< with its QP: destroyed first

    endpoint() = default;
    endpoint(const endpoint &) = delete;
    endpoint &operator=(const endpoint &) = delete;

    ibv_qp *qp() const { return id->qp; }

    unique_handle<ibv_mr, ibv_dereg_mr> register_memory(void *addr, std::size_t length) const {
        constexpr int access =
            IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
        return check(decltype(mr)(ibv_reg_mr(pd.get(), addr, length, access)), "register memory");
    }
    void create_parent_domain() {
        base_pd = std::move(pd);
        ibv_td_init_attr td_attr{};
        td = check(decltype(td)(ibv_alloc_td(id->verbs, &td_attr)), "thread domain");
        ibv_parent_domain_init_attr attr{};
        attr.pd = base_pd.get();
        attr.td = td.get();
        pd = check(decltype(pd)(ibv_alloc_parent_domain(id->verbs, &attr)), "parent domain");
    }
    void create_qp(const qp_options &options) {
        pd = check(decltype(pd)(ibv_alloc_pd(id->verbs)), "protection domain");
        if (options.single_threaded)
            create_parent_domain();
        mr = register_memory(memory.data(), memory.size());
        send_cq.create(id->verbs, options);
        recv_cq.create(id->verbs, options);
        ibv_qp_init_attr_ex attr{};
        if (options.use_srq) {
            ibv_srq_init_attr srq_attr{};
            srq_attr.attr = {8, 2, 0};
            srq = check(decltype(srq)(ibv_create_srq(pd.get(), &srq_attr)), "shared queue");
            attr.srq = srq.get();
        }
        attr.qp_type = IBV_QPT_RC;
        attr.send_cq = send_cq.cq.get();
        attr.recv_cq = recv_cq.cq.get();
        attr.sq_sig_all = options.sq_sig_all;
        attr.cap = options.cap;
        attr.comp_mask = IBV_QP_INIT_ATTR_PD;
        attr.pd = pd.get();
        if (options.extended) {
            attr.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
            attr.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE |
                                  IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_SEND_WITH_INV;
            check(rdma_create_qp_ex(id.get(), &attr), "queue pair to post to by ibv_start_poll");
        } else {
            // The older structure is the newer one's beginning.
            check(rdma_create_qp(id.get(), pd.get(), reinterpret_cast<ibv_qp_init_attr *>(&attr)),
                  "queue pair");
        }
        granted_cap = attr.cap;
        if (options.before_connect)
            options.before_connect(*this);
    }

    ibv_sge make_sge(std::uint32_t length, std::size_t offset = 0) const {
        return {reinterpret_cast<std::uintptr_t>(&memory.at(offset)), length, mr->lkey};
    }
    void post_recv(std::uint64_t wr_id, std::uint32_t length = 64) const {
        ibv_sge sge = make_sge(length);
        ibv_recv_wr wr{wr_id, nullptr, &sge, 1}, *bad_wr = nullptr;
        check(srq ? ibv_post_srq_recv(srq.get(), &wr, &bad_wr) : ibv_post_recv(qp(), &wr, &bad_wr),
              "post a receive");
    }
    /// A WR with one SGE, which must live as long. Its remote memory is that of the peer.
    ibv_send_wr make_wr(std::uint64_t wr_id, ibv_wr_opcode opcode, ibv_sge &sge,
                        const endpoint &peer) const {
        ibv_send_wr wr{};
        wr.wr_id = wr_id;
        wr.opcode = opcode;
        wr.sg_list = &sge;
        wr.num_sge = 1;
        wr.send_flags = IBV_SEND_SIGNALED;
        wr.wr.rdma.remote_addr = reinterpret_cast<std::uintptr_t>(peer.memory.data());
        wr.wr.rdma.rkey = peer.mr->rkey;
        return wr;
    }
    /// The result of ibv_post_send(). is_bad_wr: whether bad_wr is the first WR.
    int post_send(ibv_send_wr &list, bool *is_bad_wr = nullptr) const {
        ibv_send_wr *bad_wr = nullptr;
        const int error = ibv_post_send(qp(), &list, &bad_wr);
        if (is_bad_wr != nullptr)
            *is_bad_wr = bad_wr == &list;
        return error;
    }
};

class rdmacm_loopback {
    unique_handle<rdma_event_channel, rdma_destroy_event_channel> events_ = check(
        decltype(events_)(rdma_create_event_channel()), "open the RDMA CM (modprobe rdma_ucm)");
    std::unique_ptr<rdma_cm_id, endpoint::cm_id_deleter> listener_ = create_id();

  public:
    endpoint requester, responder;

    explicit rdmacm_loopback(const std::string &address, const qp_options &requester_options = {},
                             const qp_options &responder_options = {}) {
        constexpr int timeout_ms = 60000;
        sockaddr_in addr{};
        addr.sin_family = AF_INET;
        if (inet_pton(AF_INET, address.c_str(), &addr.sin_addr) != 1)
            throw failure(concat("not an address: ", address));
        check(rdma_bind_addr(listener_.get(), reinterpret_cast<sockaddr *>(&addr)), "bind to it");
        check(rdma_listen(listener_.get(), 1), "listen");
        requester.id = create_id();
        check(rdma_resolve_addr(requester.id.get(), nullptr, rdma_get_local_addr(listener_.get()),
                                timeout_ms),
              "find a device for that address");
        expect_event(RDMA_CM_EVENT_ADDR_RESOLVED);
        check(rdma_resolve_route(requester.id.get(), timeout_ms), "find a route");
        expect_event(RDMA_CM_EVENT_ROUTE_RESOLVED);
        requester.create_qp(requester_options);
        rdma_conn_param param = make_conn_param(requester_options);
        check(rdma_connect(requester.id.get(), &param), "connect");
        responder.id.reset(expect_event(RDMA_CM_EVENT_CONNECT_REQUEST));
        responder.create_qp(responder_options);
        responder.post_recv(0);
        param = make_conn_param(responder_options);
        check(rdma_accept(responder.id.get(), &param), "accept");
        expect_event(RDMA_CM_EVENT_ESTABLISHED);
        expect_event(RDMA_CM_EVENT_ESTABLISHED);
        send_first_message();
    }

    /// One endpoint disconnects; both have their event.
    void disconnect(const endpoint &initiator) {
        check(rdma_disconnect(initiator.id.get()), "disconnect");
        expect_event(RDMA_CM_EVENT_DISCONNECTED);
        expect_event(RDMA_CM_EVENT_DISCONNECTED);
    }

  private:
    std::unique_ptr<rdma_cm_id, endpoint::cm_id_deleter> create_id() const {
        rdma_cm_id *id = nullptr;
        check(rdma_create_id(events_.get(), &id, nullptr, RDMA_PS_TCP), "create a CM id");
        return std::unique_ptr<rdma_cm_id, endpoint::cm_id_deleter>(id);
    }
    static rdma_conn_param make_conn_param(const qp_options &options) {
        rdma_conn_param param{};
        param.responder_resources = param.initiator_depth = options.rd_atomic;
        param.retry_count = param.rnr_retry_count = 7; // not of iWARP
        return param;
    }
    rdma_cm_id *expect_event(rdma_cm_event_type expected) const {
        return verbs_test::expect_event(*events_, expected,
                                        static_cast<int>(trial_timeout().count()));
    }
    void send_first_message() const {
        ibv_sge sge = requester.make_sge(8);
        ibv_send_wr wr = requester.make_wr(0, IBV_WR_SEND, sge, responder);
        check(requester.post_send(wr), "post the first message");
        requester.send_cq.expect_success("the first message");
        responder.recv_cq.expect_success("the first message's receive");
    }
};

} // namespace verbs_test

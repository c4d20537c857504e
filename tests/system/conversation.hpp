// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// A device connected with itself by rdma_cm, as iWARP needs it: both ends in one thread, on one
// channel of events. The first message has gone from one to the other already, as iWARP wants.

#pragma once

#include "trial.hpp"

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

namespace carry {

/// What is out of the ordinary at an end.
struct wish {
    bool by_parts = false; ///< its requests are posted and its completions polled by parts
    bool shared = false;   ///< it takes its receives from a shared queue
    bool all_signaled = false;
    bool alone = false;     ///< one thread at a time: a thread domain, and queues that say so
    std::uint8_t reads = 1; ///< at a time
    std::function<void(const struct end &)> early; ///< called before it is connected
};

/// A completion queue with its channel.
struct queue {
    owned<ibv_comp_channel, ibv_destroy_comp_channel> channel;
    owned<ibv_cq, ibv_destroy_cq> cq;

    void make(ibv_context *context, const wish &wanted) {
        channel = check(decltype(channel)(ibv_create_comp_channel(context)), "channel");
        check(fcntl(channel->fd, F_SETFL, O_NONBLOCK), "channel");
        if (!wanted.by_parts && !wanted.alone) {
            cq = check(decltype(cq)(ibv_create_cq(context, 64, nullptr, channel.get(), 0)),
                       "completion queue");
            return;
        }
        ibv_cq_init_attr_ex attributes{};
        attributes.cqe = 64;
        attributes.channel = channel.get();
        attributes.wc_flags = IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_QP_NUM;
        if (wanted.alone) {
            attributes.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
            attributes.flags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED;
        }
        ibv_cq_ex *const made = ibv_create_cq_ex(context, &attributes);
        check(made != nullptr ? 0 : -1, "completion queue to poll by parts");
        cq.reset(ibv_cq_ex_to_cq(made));
    }
    std::optional<ibv_wc> completion(milliseconds within) const {
        return carry::completion(cq.get(), within);
    }
    ibv_wc success(const char *of) const { return carry::success(cq.get(), of); }
    void arm(bool solicited) const { check(ibv_req_notify_cq(cq.get(), solicited), "arm"); }
    bool event(milliseconds within) const {
        pollfd ready{channel->fd, POLLIN, 0};
        if (poll(&ready, 1, static_cast<int>(within.count())) <= 0)
            return false;
        ibv_cq *from = nullptr;
        void *context = nullptr;
        check(ibv_get_cq_event(channel.get(), &from, &context), "take the event");
        ibv_ack_cq_events(from, 1);
        return true;
    }
};

/// One end, with a completion queue for each direction and some memory.
struct end {
    static constexpr ibv_qp_cap asked{32, 32, 2, 2, 64};
    alignas(4096) std::array<std::byte, 8192> memory{};
    owned<ibv_pd, ibv_dealloc_pd> whole;
    struct releases_thread { // the verb itself is inline, so it is no template's argument
        void operator()(ibv_td *gone) const noexcept { ibv_dealloc_td(gone); }
    };
    std::unique_ptr<ibv_td, releases_thread> thread;
    owned<ibv_pd, ibv_dealloc_pd> pd; ///< of the thread, if it is alone
    owned<ibv_mr, ibv_dereg_mr> mr;
    queue sent, received;
    owned<ibv_srq, ibv_destroy_srq> srq;
    ibv_qp_cap granted{};
    struct releases {
        void operator()(rdma_cm_id *gone) const noexcept {
            if (gone->qp != nullptr)
                rdma_destroy_qp(gone);
            rdma_destroy_id(gone);
        }
    };
    std::unique_ptr<rdma_cm_id, releases> id; ///< with its queue pair: goes first

    end() = default;
    end(const end &) = delete;
    end &operator=(const end &) = delete;

    ibv_qp *qp() const { return id->qp; }

    owned<ibv_mr, ibv_dereg_mr> registered(void *where, std::size_t length) const {
        constexpr int access =
            IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
        return check(decltype(mr)(ibv_reg_mr(pd.get(), where, length, access)), "register memory");
    }
    void be_alone() {
        whole = std::move(pd);
        ibv_td_init_attr plain{};
        thread = check(decltype(thread)(ibv_alloc_td(id->verbs, &plain)), "thread domain");
        ibv_parent_domain_init_attr of{};
        of.pd = whole.get();
        of.td = thread.get();
        pd = check(decltype(pd)(ibv_alloc_parent_domain(id->verbs, &of)), "parent domain");
    }
    void furnish(const wish &wanted) {
        pd = check(decltype(pd)(ibv_alloc_pd(id->verbs)), "protection domain");
        if (wanted.alone)
            be_alone();
        mr = registered(memory.data(), memory.size());
        sent.make(id->verbs, wanted);
        received.make(id->verbs, wanted);
        ibv_qp_init_attr_ex attributes{};
        if (wanted.shared) {
            ibv_srq_init_attr shared{};
            shared.attr = {8, 2, 0};
            srq = check(decltype(srq)(ibv_create_srq(pd.get(), &shared)), "shared queue");
            attributes.srq = srq.get();
        }
        attributes.qp_type = IBV_QPT_RC;
        attributes.send_cq = sent.cq.get();
        attributes.recv_cq = received.cq.get();
        attributes.sq_sig_all = wanted.all_signaled;
        attributes.cap = asked;
        attributes.comp_mask = IBV_QP_INIT_ATTR_PD;
        attributes.pd = pd.get();
        if (wanted.by_parts) {
            attributes.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
            attributes.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE |
                                        IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_SEND_WITH_INV;
            check(rdma_create_qp_ex(id.get(), &attributes), "queue pair to post to by parts");
        } else {
            // The older structure is the newer one's beginning.
            check(rdma_create_qp(id.get(), pd.get(),
                                 reinterpret_cast<ibv_qp_init_attr *>(&attributes)),
                  "queue pair");
        }
        granted = attributes.cap;
        if (wanted.early)
            wanted.early(*this);
    }

    ibv_sge piece(std::uint32_t length, std::size_t at = 0) const {
        return {reinterpret_cast<std::uintptr_t>(&memory.at(at)), length, mr->lkey};
    }
    void post_receive(std::uint64_t number, std::uint32_t length = 64) const {
        ibv_sge where = piece(length);
        ibv_recv_wr request{number, nullptr, &where, 1}, *bad = nullptr;
        check(srq ? ibv_post_srq_recv(srq.get(), &request, &bad)
                  : ibv_post_recv(qp(), &request, &bad),
              "post a receive");
    }
    /// A request with one piece, which has to live as long; to memory: the peer's.
    ibv_send_wr request(std::uint64_t number, ibv_wr_opcode opcode, ibv_sge &piece,
                        const end &peer) const {
        ibv_send_wr made{};
        made.wr_id = number;
        made.opcode = opcode;
        made.sg_list = &piece;
        made.num_sge = 1;
        made.send_flags = IBV_SEND_SIGNALED;
        made.wr.rdma.remote_addr = reinterpret_cast<std::uintptr_t>(peer.memory.data());
        made.wr.rdma.rkey = peer.mr->rkey;
        return made;
    }
    /// 0 or what posting returned, with nothing changed; named: whether *bad was the request.
    int post(ibv_send_wr &list, bool *named = nullptr) const {
        ibv_send_wr *bad = nullptr;
        const int error = ibv_post_send(qp(), &list, &bad);
        if (named != nullptr)
            *named = bad == &list;
        return error;
    }
};

class conversation {
    owned<rdma_event_channel, rdma_destroy_event_channel> events_ = check(
        decltype(events_)(rdma_create_event_channel()), "open the RDMA CM (modprobe rdma_ucm)");
    std::unique_ptr<rdma_cm_id, end::releases> door_ = new_id();

  public:
    end from, to;

    explicit conversation(const std::string &address, const wish &mine = {}, const wish &its = {}) {
        constexpr int time = 5000;
        sockaddr_in where{};
        where.sin_family = AF_INET;
        if (inet_pton(AF_INET, address.c_str(), &where.sin_addr) != 1)
            throw failure(text("not an address: ", address));
        check(rdma_bind_addr(door_.get(), reinterpret_cast<sockaddr *>(&where)), "bind to it");
        check(rdma_listen(door_.get(), 1), "listen");
        from.id = new_id();
        check(rdma_resolve_addr(from.id.get(), nullptr, rdma_get_local_addr(door_.get()), time),
              "find a device for that address");
        heard(RDMA_CM_EVENT_ADDR_RESOLVED);
        check(rdma_resolve_route(from.id.get(), time), "find a route");
        heard(RDMA_CM_EVENT_ROUTE_RESOLVED);
        from.furnish(mine);
        rdma_conn_param how = parameters(mine);
        check(rdma_connect(from.id.get(), &how), "connect");
        to.id.reset(heard(RDMA_CM_EVENT_CONNECT_REQUEST));
        to.furnish(its);
        to.post_receive(0);
        how = parameters(its);
        check(rdma_accept(to.id.get(), &how), "accept");
        heard(RDMA_CM_EVENT_ESTABLISHED);
        heard(RDMA_CM_EVENT_ESTABLISHED);
        greet();
    }

    /// One of both hangs up, and both have heard.
    void hang_up(const end &first) {
        check(rdma_disconnect(first.id.get()), "disconnect");
        heard(RDMA_CM_EVENT_DISCONNECTED);
        heard(RDMA_CM_EVENT_DISCONNECTED);
    }

  private:
    std::unique_ptr<rdma_cm_id, end::releases> new_id() const {
        rdma_cm_id *made = nullptr;
        check(rdma_create_id(events_.get(), &made, nullptr, RDMA_PS_TCP), "create a CM id");
        return std::unique_ptr<rdma_cm_id, end::releases>(made);
    }
    static rdma_conn_param parameters(const wish &wanted) {
        rdma_conn_param is{};
        is.responder_resources = is.initiator_depth = wanted.reads;
        is.retry_count = is.rnr_retry_count = 7; // not of iWARP
        return is;
    }
    rdma_cm_id *heard(rdma_cm_event_type wanted) const {
        pollfd ready{events_->fd, POLLIN, 0};
        rdma_cm_event *event = nullptr;
        if (poll(&ready, 1, 10000) <= 0)
            throw failure(text("waited in vain for ", rdma_event_str(wanted)));
        check(rdma_get_cm_event(events_.get(), &event), "CM event");
        const rdma_cm_event_type type = event->event;
        rdma_cm_id *const of = event->id;
        rdma_ack_cm_event(event);
        if (type != wanted)
            throw failure(
                text("waited for ", rdma_event_str(wanted), ", got ", rdma_event_str(type)));
        return of;
    }
    void greet() const {
        ibv_sge piece = from.piece(8);
        ibv_send_wr first = from.request(0, IBV_WR_SEND, piece, to);
        check(from.post(first), "post the first message");
        from.sent.success("the first message");
        to.received.success("the first message's receive");
    }
};

} // namespace carry

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "endpoints.hpp"

#include "../../lib/cm_event.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <span>

namespace differential {
namespace {

ibv_cq *create_cq(const environment &env, const qp_options &options) {
    if (!options.extended)
        return check(ibv_create_cq(env.context, options.cqe, nullptr, options.channel, 0), "CQ");
    ibv_cq_init_attr_ex attr{};
    attr.cqe = static_cast<std::uint32_t>(options.cqe);
    attr.channel = options.channel;
    attr.wc_flags = IBV_WC_STANDARD_FLAGS;
    return ibv_cq_ex_to_cq(check(ibv_create_cq_ex(env.context, &attr), "extended CQ"));
}

bool poll_ex(ibv_cq_ex *cq, ibv_wc &wc) {
    ibv_poll_cq_attr attr{};
    const int error = ibv_start_poll(cq, &attr);
    if (error == ENOENT)
        return false;
    check(error, "ibv_start_poll");
    wc = {};
    wc.wr_id = cq->wr_id;
    wc.status = cq->status;
    wc.vendor_err = ibv_wc_read_vendor_err(cq);
    wc.qp_num = ibv_wc_read_qp_num(cq);
    if (wc.status == IBV_WC_SUCCESS) {
        wc.opcode = ibv_wc_read_opcode(cq);
        wc.byte_len = ibv_wc_read_byte_len(cq);
        wc.wc_flags = ibv_wc_read_wc_flags(cq);
        wc.imm_data = ibv_wc_read_imm_data(cq);
        wc.src_qp = ibv_wc_read_src_qp(cq);
        wc.slid = static_cast<std::uint16_t>(ibv_wc_read_slid(cq));
        wc.sl = ibv_wc_read_sl(cq);
        wc.dlid_path_bits = ibv_wc_read_dlid_path_bits(cq);
    }
    ibv_end_poll(cq);
    return true;
}

rdma_cm_id *create_id(rdma_event_channel *events) {
    rdma_cm_id *id = nullptr;
    check(rdma_create_id(events, &id, nullptr, RDMA_PS_TCP), "create a CM id");
    return id;
}

// One for the process.
struct listener {
    rdma_event_channel *events = check(rdma_create_event_channel(), "CM event channel");
    rdma_cm_id *id = create_id(events);

    explicit listener(const std::string &address) {
        sockaddr_in addr{};
        addr.sin_family = AF_INET;
        check(inet_pton(AF_INET, address.c_str(), &addr.sin_addr) - 1, "convert the address");
        check(rdma_bind_addr(id, reinterpret_cast<sockaddr *>(&addr)), "bind");
        check(rdma_listen(id, 1), "listen");
    }
};

listener &get_listener(const std::string &address) {
    static listener listener(address);
    return listener;
}

std::string state_name(ibv_qp_state state) {
    constexpr std::array names{"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};
    const auto index = static_cast<std::size_t>(state);
    return index < names.size() ? names.at(index) : std::to_string(index);
}

} // namespace

void cm_id_deleter::operator()(rdma_cm_id *id) const noexcept {
    if (id->qp != nullptr)
        rdma_destroy_qp(id);
    rdma_destroy_id(id);
}

ibv_context *open_cm_context(const std::string &address) {
    return get_listener(address).id->verbs;
}

qp_options make_options(const environment &env) {
    qp_options options;
    if (!env.options.is_rxe())
        options.access = options.mr_access =
            unsigned{IBV_ACCESS_LOCAL_WRITE} | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
    return options;
}

endpoint::endpoint(const environment &environment, const qp_options &qp_options)
    : env(environment)
    , options(qp_options) {
    ibv_context *const context = env.context;
    pd = check(decltype(pd)(ibv_alloc_pd(context)), "PD");
    if (options.use_td) {
        base_pd = std::move(pd);
        ibv_td_init_attr td_attr{};
        td = check(decltype(td)(ibv_alloc_td(context, &td_attr)), "thread domain");
        ibv_parent_domain_init_attr attr{};
        attr.pd = base_pd.get();
        attr.td = td.get();
        pd = check(decltype(pd)(ibv_alloc_parent_domain(context, &attr)), "parent domain");
    }
    mr = check(decltype(mr)(ibv_reg_mr(pd.get(), memory.data(), memory.size(), options.mr_access)),
               "MR");
    send_cq.reset(create_cq(env, options));
    recv_cq.reset(create_cq(env, options));
    if (options.use_srq) {
        ibv_srq_init_attr srq_attr{};
        srq_attr.attr = {16, 4, 0};
        srq = check(decltype(srq)(ibv_create_srq(pd.get(), &srq_attr)), "SRQ");
    }
}

ibv_qp_init_attr_ex endpoint::make_init_attr() const {
    ibv_qp_init_attr_ex attr{};
    attr.qp_type = options.type;
    attr.send_cq = send_cq.get();
    attr.recv_cq = recv_cq.get();
    attr.srq = srq.get();
    attr.sq_sig_all = options.sq_sig_all ? 1 : 0;
    attr.cap = options.cap;
    attr.comp_mask = IBV_QP_INIT_ATTR_PD;
    attr.pd = pd.get();
    if (options.extended) {
        constexpr std::uint64_t all_ops = IBV_QP_EX_WITH_BIND_MW * 2 - 1;
        constexpr std::uint64_t ud_ops = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;
        constexpr std::uint64_t iwarp_ops = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_INV |
                                            IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_READ;
        constexpr std::uint64_t uc_ops =
            ud_ops | IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM;
        attr.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
        attr.send_ops_flags = !env.options.is_rxe()        ? iwarp_ops
                              : options.type == IBV_QPT_UD ? ud_ops
                              : options.type == IBV_QPT_UC ? uc_ops
                                                           : all_ops | IBV_QP_EX_WITH_SEND_WITH_INV;
    }
    return attr;
}

void endpoint::create_qp() {
    ibv_qp_init_attr_ex attr = make_init_attr();
    if (id && options.extended)
        check(rdma_create_qp_ex(id.get(), &attr), "QP");
    else if (id) // The older structure is the newer one's beginning.
        check(rdma_create_qp(id.get(), pd.get(), reinterpret_cast<ibv_qp_init_attr *>(&attr)),
              "QP");
    else if (options.extended)
        owned_qp = check(decltype(owned_qp)(ibv_create_qp_ex(env.context, &attr)), "QP");
    else
        owned_qp = check(decltype(owned_qp)(
                             ibv_create_qp(pd.get(), reinterpret_cast<ibv_qp_init_attr *>(&attr))),
                         "QP");
    qp = id ? id->qp : owned_qp.get();
}

ibv_ah_attr endpoint::make_ah_attr() const {
    return make_loopback_ah_attr(env.gid, env.options.gid_index);
}

int endpoint::modify(ibv_qp_state state) const {
    ibv_qp_attr attr{};
    attr.qp_state = state;
    return ibv_modify_qp(qp, &attr, IBV_QP_STATE);
}
void endpoint::to_init() const {
    modify_qp_to_init(qp, options.access & ~unsigned{IBV_ACCESS_MW_BIND});
}
void endpoint::to_rtr(const endpoint &peer) const {
    modify_qp_to_rtr(qp, peer.qp->qp_num, make_ah_attr(), 4);
}
void endpoint::to_rts() const {
    constexpr std::uint8_t timeout = 18; // 1 s: nothing is lost, and the machine may be slow
    modify_qp_to_rts(qp, timeout, 1, 4);
}
ibv_qp_state endpoint::query_state() const {
    ibv_qp_attr attr{};
    ibv_qp_init_attr init_attr{};
    check(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init_attr), "query the QP");
    return attr.qp_state;
}

std::uintptr_t endpoint::addr(std::size_t offset) const {
    return reinterpret_cast<std::uintptr_t>(memory.data() + offset);
}
ibv_sge endpoint::make_sge(std::uint32_t length, std::size_t offset) const {
    return {addr(offset), length, mr->lkey};
}
int endpoint::post_recv_list(ibv_recv_wr *list, ibv_recv_wr **bad_wr) {
    const int error =
        srq ? ibv_post_srq_recv(srq.get(), list, bad_wr) : ibv_post_recv(qp, list, bad_wr);
    for (const ibv_recv_wr *wr = list; wr != nullptr && (error == 0 || wr != *bad_wr);
         wr = wr->next)
        ++num_recvs;
    return error;
}
int endpoint::post_recv(std::uint64_t wr_id, std::uint32_t length) {
    ibv_sge sge = make_sge(length, data_size / 2);
    ibv_recv_wr wr{wr_id, nullptr, &sge, 1}, *bad_wr = nullptr;
    return post_recv_list(&wr, &bad_wr);
}
// Binds the MW of type 2, for the peer to write to or invalidate.
void endpoint::bind_mw() {
    mw = check(decltype(mw)(ibv_alloc_mw(pd.get(), IBV_MW_TYPE_2)), "MW");
    ibv_send_wr wr{}, *bad_wr = nullptr;
    wr.opcode = IBV_WR_BIND_MW;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.bind_mw.mw = mw.get();
    wr.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
    wr.bind_mw.bind_info = {mr.get(), addr(), 4096, IBV_ACCESS_REMOTE_WRITE};
    check(ibv_post_send(qp, &wr, &bad_wr), "post the bind");
    ibv_wc wc{};
    if (!wait_until(hang_limit, [&] { return poll(send_cq.get(), wc); }) ||
        wc.status != IBV_WC_SUCCESS)
        throw failure("the bind fails");
    mw->rkey = wr.bind_mw.rkey;
}
void endpoint::fill(unsigned seed) {
    for (std::size_t i = 0; i < data_size; ++i)
        memory.at(i) = static_cast<std::byte>(i * 31 + i / 256 + seed * 101U);
}
std::uint64_t endpoint::digest() const {
    return hash_of(std::span(memory).first(data_size));
}

unique_handle<ibv_comp_channel, ibv_destroy_comp_channel> create_channel(const environment &env) {
    unique_handle<ibv_comp_channel, ibv_destroy_comp_channel> channel(
        check(ibv_create_comp_channel(env.context), "channel"));
    check(fcntl(channel->fd, F_SETFL, O_NONBLOCK), "channel");
    return channel;
}

bool endpoint::poll(ibv_cq *cq, ibv_wc &wc) const {
    if (options.extended)
        return poll_ex(reinterpret_cast<ibv_cq_ex *>(cq), wc);
    const int count = ibv_poll_cq(cq, 1, &wc);
    check(count < 0 ? -1 : 0, "poll");
    return count == 1;
}

std::string to_string(const endpoint &ep, const ibv_wc &wc, bool is_recv) {
    std::ostringstream text;
    text << wc.wr_id << ':' << ibv_wc_status_str(wc.status) << ':'
         << (wc.qp_num == ep.qp->qp_num ? "own" : "other");
    if (wc.status == IBV_WC_SUCCESS) {
        text << ":op" << wc.opcode;
        // The length of a Send's completion is not defined.
        if (is_recv || wc.opcode == IBV_WC_RDMA_READ)
            text << ':' << wc.byte_len;
        if (is_recv)
            text << ":f" << wc.wc_flags;
        if (is_recv && (wc.wc_flags & IBV_WC_WITH_IMM) != 0)
            text << ":imm" << ntohl(wc.imm_data);
        if (is_recv && ep.qp->qp_type == IBV_QPT_UD)
            text << ":slid" << wc.slid << ":sl" << unsigned{wc.sl} << ":path"
                 << unsigned{wc.dlid_path_bits};
    }
    std::string result = text.str();
    std::ranges::replace(result, ' ', '_');
    return result;
}

// False if TCP refuses the local port that rdma_cm has chosen at random, since a connection from it
// to this listener has just ended.
bool qp_pair::connect_by_cm() {
    const listener &listener = get_listener(env_.options.address);
    constexpr int timeout_ms = 60000;
    rdma_event_channel *const events = listener.events;
    a->id.reset(create_id(events));
    check(rdma_resolve_addr(a->id.get(), nullptr, rdma_get_local_addr(listener.id), timeout_ms),
          "resolve the address");
    expect_event(*events, RDMA_CM_EVENT_ADDR_RESOLVED);
    check(rdma_resolve_route(a->id.get(), timeout_ms), "resolve the route");
    expect_event(*events, RDMA_CM_EVENT_ROUTE_RESOLVED);
    a->create_qp();
    rdma_conn_param param{};
    param.responder_resources = param.initiator_depth = 4;
    param.retry_count = param.rnr_retry_count = 7; // not of iWARP
    const int result = rdma_connect(a->id.get(), &param);
    if (result != 0 && (errno == EADDRNOTAVAIL || errno == EADDRINUSE))
        return false;
    check(result, "connect");
    b->id.reset(expect_event(*events, RDMA_CM_EVENT_CONNECT_REQUEST));
    b->create_qp();
    check(b->post_recv(0), "post the first receive");
    check(rdma_accept(b->id.get(), &param), "accept");
    expect_event(*events, RDMA_CM_EVENT_ESTABLISHED);
    expect_event(*events, RDMA_CM_EVENT_ESTABLISHED);
    // iWARP demands that the requester sends first.
    ibv_sge sge = a->make_sge(8);
    ibv_send_wr wr{}, *bad_wr = nullptr;
    wr.opcode = IBV_WR_SEND;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.send_flags = IBV_SEND_SIGNALED;
    check(ibv_post_send(a->qp, &wr, &bad_wr), "post the first message");
    ibv_wc wc{};
    for (const auto &[ep, cq] : {std::pair(a.get(), a->send_cq.get()), {b.get(), b->recv_cq.get()}})
        if (!wait_until(hang_limit, [&, ep = ep, cq = cq] { return ep->poll(cq, wc); }) ||
            wc.status != IBV_WC_SUCCESS)
            throw failure("the first message fails");
    b->num_recvs = 0;
    return true;
}

void qp_pair::make_endpoints() {
    b.reset();
    a.reset();
    a = std::make_unique<endpoint>(env_, options_);
    b = std::make_unique<endpoint>(env_, options_);
}

void qp_pair::connect() {
    make_endpoints();
    if (!env_.options.is_rxe()) {
        constexpr int max_num_ports = 8;
        for (int num_ports = 1; !connect_by_cm(); ++num_ports) {
            if (num_ports == max_num_ports)
                throw failure("connect: TCP refuses each local port");
            make_endpoints();
        }
        return;
    }
    a->create_qp();
    b->create_qp();
    a->to_init();
    b->to_init();
    a->to_rtr(*b);
    b->to_rtr(*a);
    a->to_rts();
    b->to_rts();
    if (options_.type == IBV_QPT_UD) {
        ibv_ah_attr attr = a->make_ah_attr();
        a->ah = check(decltype(a->ah)(ibv_create_ah(a->pd.get(), &attr)), "AH");
    }
}

void qp_pair::prepare(unsigned seed) {
    if (!is_clean_)
        connect();
    is_clean_ = false;
    a->fill(seed);
    b->fill(seed + 1);
}

// The marker follows what the case has posted. Its completion shows that the others have completed
// on both sides: on RC rxe that of a Write without data, on siw that of a Read, else of a Send.
bool qp_pair::post_marker() {
    ibv_sge sge = a->make_sge(1, endpoint::data_size);
    ibv_send_wr wr{}, *bad_wr = nullptr;
    wr.wr_id = marker_id;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.rdma.remote_addr = b->addr(endpoint::data_size);
    wr.wr.rdma.rkey = b->mr->rkey;
    if (!env_.options.is_rxe()) {
        wr.opcode = IBV_WR_RDMA_READ;
        wr.sg_list = &sge;
        wr.num_sge = 1;
    } else if (options_.type == IBV_QPT_RC) {
        wr.opcode = IBV_WR_RDMA_WRITE;
    } else {
        wr.opcode = IBV_WR_SEND_WITH_IMM;
        wr.imm_data = htonl(marker_id);
        if (options_.type == IBV_QPT_UD) {
            wr.wr.ud.ah = a->ah.get();
            wr.wr.ud.remote_qpn = b->qp->qp_num;
            wr.wr.ud.remote_qkey = endpoint::qkey;
        }
        if (b->post_recv(marker_id) != 0)
            return false;
    }
    if (!options_.extended)
        return ibv_post_send(a->qp, &wr, &bad_wr) == 0;
    ibv_qp_ex *const qp_ex = ibv_qp_to_qp_ex(a->qp);
    ibv_wr_start(qp_ex);
    qp_ex->wr_id = wr.wr_id;
    qp_ex->wr_flags = wr.send_flags;
    if (wr.opcode == IBV_WR_RDMA_READ)
        ibv_wr_rdma_read(qp_ex, wr.wr.rdma.rkey, wr.wr.rdma.remote_addr);
    else if (wr.opcode == IBV_WR_RDMA_WRITE)
        ibv_wr_rdma_write(qp_ex, wr.wr.rdma.rkey, wr.wr.rdma.remote_addr);
    else
        ibv_wr_send_imm(qp_ex, wr.imm_data);
    if (options_.type == IBV_QPT_UD)
        ibv_wr_set_ud_addr(qp_ex, a->ah.get(), b->qp->qp_num, endpoint::qkey);
    ibv_wr_set_sge_list(qp_ex, wr.opcode == IBV_WR_RDMA_READ ? 1 : 0, &sge);
    return ibv_wr_complete(qp_ex) == 0;
}

void qp_pair::collect_sends(std::string &completions, bool &marker_failed, bool any_order) {
    ibv_wc wc{};
    std::vector<std::string> sends;
    bool has_marker = false, has_failed = false;
    const auto poll_all = [&] {
        while (!has_marker && a->poll(a->send_cq.get(), wc)) {
            has_marker = wc.wr_id == marker_id;
            has_failed = wc.status != IBV_WC_SUCCESS;
            if (!has_marker)
                sends.push_back(',' + to_string(*a, wc, false));
        }
        return has_marker;
    };
    wait_until(lost_limit, [&] {
        return poll_all() ||
               (!env_.options.is_rxe() && (has_failed || b->query_state() == IBV_QPS_ERR));
    });
    // On siw the stock provider may lose the marker after a failure. Ours flushes it in a poll
    // after the kernel has ended the connection, which may take it a moment.
    if (!has_marker)
        wait_until(flush_limit, poll_all);
    if (any_order)
        std::ranges::sort(sends);
    for (const std::string &send : sends)
        completions += send;
    marker_failed = !has_marker || has_failed;
    if (!has_marker)
        completions += ",lost";
}

void qp_pair::collect_recvs(endpoint &ep, std::string &completions, bool wait_for_all) {
    ibv_wc wc{};
    const auto poll_all = [&] {
        while (ep.poll(ep.recv_cq.get(), wc)) {
            --ep.num_recvs;
            completions += ',' + to_string(ep, wc, true);
        }
        return ep.num_recvs == 0;
    };
    if (!wait_for_all)
        poll_all();
    else if (!wait_until(lost_limit, poll_all))
        completions += concat(",lost", ep.num_recvs);
}

void qp_pair::wait_for_datagram(std::string &completions) {
    ibv_wc wc{};
    bool has_marker = false;
    wait_until(lost_limit, [&] {
        while (!has_marker && b->poll(b->recv_cq.get(), wc)) {
            --b->num_recvs;
            completions += ',' + to_string(*b, wc, true);
            has_marker = wc.status == IBV_WC_SUCCESS && (wc.wc_flags & IBV_WC_WITH_IMM) != 0 &&
                         ntohl(wc.imm_data) == marker_id;
        }
        return has_marker || b->query_state() == IBV_QPS_ERR;
    });
}

void qp_pair::finish(record &record, bool any_order) {
    std::string sends, recvs, own_recvs;
    bool marker_failed = true;
    if (post_marker())
        collect_sends(sends, marker_failed, any_order);
    if (!marker_failed && options_.type != IBV_QPT_RC)
        wait_for_datagram(recvs);
    collect_recvs(*b, recvs, false);
    const std::string states = state_name(a->query_state()) + '/' + state_name(b->query_state());
    if (marker_failed || b->num_recvs != 0 || a->num_recvs != 0) {
        // Receives of an SRQ are not flushed.
        for (endpoint *ep : {a.get(), b.get()})
            ep->modify(IBV_QPS_ERR);
        collect_recvs(*b, recvs, !options_.use_srq);
        collect_recvs(*a, own_recvs, !options_.use_srq);
        if (options_.use_srq)
            recvs += concat(",left", b->num_recvs);
    } else {
        is_clean_ = b->query_state() == IBV_QPS_RTS;
    }
    record.add("sends", sends.empty() ? "none" : sends.substr(1));
    record.add("recvs", recvs.empty() ? "none" : recvs.substr(1));
    if (!own_recvs.empty())
        record.add("own_recvs", own_recvs.substr(1));
    if (!marker_failed || env_.options.is_rxe()) // siw closes a failed connection later
        record.add("states", states);
    if (options_.type == IBV_QPT_UD) { // the GRH has bytes that are not defined
        constexpr std::size_t grh_size = 40;
        std::fill_n(b->memory.begin() + endpoint::data_size / 2, grh_size, std::byte{});
    }
    record.add("data", concat(std::hex, a->digest() % 0xffffffU, '/', b->digest() % 0xffffffU));
}

} // namespace differential

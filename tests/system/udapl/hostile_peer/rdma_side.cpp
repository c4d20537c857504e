// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "rdma_side.hpp"

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <poll.h>
#include <thread>

namespace hostile_peer {

namespace {

constexpr int event_timeout_ms = 60000;
constexpr std::size_t buffer_size = 256 * 1024;
constexpr int resolve_timeout_ms = 20000;
constexpr std::uint8_t num_reads_offered = 16;
constexpr int max_port_retries = 100;

sockaddr *to_sockaddr(sockaddr_in &address) {
    return reinterpret_cast<sockaddr *>(&address);
}

bool is_end_of_connection(rdma_cm_event_type type) {
    return type == RDMA_CM_EVENT_REJECTED || type == RDMA_CM_EVENT_DISCONNECTED ||
           type == RDMA_CM_EVENT_UNREACHABLE || type == RDMA_CM_EVENT_CONNECT_ERROR;
}

rdma_conn_param make_conn_param(const std::vector<unsigned char> &private_data, const ibv_qp *qp) {
    rdma_conn_param param{};
    param.private_data = private_data.data();
    param.private_data_len = static_cast<std::uint8_t>(private_data.size());
    param.responder_resources = num_reads_offered;
    param.initiator_depth = num_reads_offered;
    param.retry_count = 2;
    param.rnr_retry_count = 1;
    param.qp_num = qp != nullptr ? qp->qp_num : 0;
    return param;
}

} // namespace

rdma_cm_id *rdma_side::create_id() {
    if (channel_ == nullptr)
        check((channel_ = rdma_create_event_channel()) != nullptr, "rdma_create_event_channel");
    rdma_cm_id *id = nullptr;
    check(rdma_create_id(channel_, &id, nullptr, RDMA_PS_TCP) == 0, "rdma_create_id");
    return id;
}

rdma_cm_event rdma_side::next_event() {
    pollfd fd = {channel_->fd, POLLIN, 0};
    if (poll(&fd, 1, event_timeout_ms) != 1)
        throw std::runtime_error("no event of rdma_cm");
    rdma_cm_event *event = nullptr;
    check(rdma_get_cm_event(channel_, &event) == 0, "rdma_get_cm_event");
    const rdma_cm_event copy = *event;
    rdma_ack_cm_event(event);
    return copy;
}

void rdma_side::wait_event(rdma_cm_event_type expected) {
    const rdma_cm_event event = next_event();
    if (event.event != expected)
        throw std::runtime_error(std::string(rdma_event_str(event.event)) + ", status " +
                                 std::to_string(event.status));
}

std::string rdma_side::wait_end() {
    for (;;) {
        const rdma_cm_event event = next_event();
        if (!is_end_of_connection(event.event))
            continue;
        if (event.event == RDMA_CM_EVENT_DISCONNECTED)
            rdma_disconnect(id_); // answers
        destroy_qp_and_id();
        return rdma_event_str(event.event);
    }
}

void rdma_side::destroy_qp_and_id() {
    if (qp_ != nullptr && qp_unknown_to_cma_)
        ibv_destroy_qp(qp_);
    else if (qp_ != nullptr)
        rdma_destroy_qp(id_);
    if (id_ != nullptr)
        rdma_destroy_id(id_);
    qp_ = nullptr;
    id_ = nullptr;
}

void rdma_side::resolve() {
    destroy_qp_and_id();
    id_ = create_id();
    sockaddr_in source = address_;
    source.sin_port = 0;
    check(rdma_resolve_addr(id_, to_sockaddr(source), to_sockaddr(address_), resolve_timeout_ms) ==
              0,
          "rdma_resolve_addr");
    wait_event(RDMA_CM_EVENT_ADDR_RESOLVED);
    check(rdma_resolve_route(id_, resolve_timeout_ms) == 0, "rdma_resolve_route");
    wait_event(RDMA_CM_EVENT_ROUTE_RESOLVED);
}

void rdma_side::create_pd_cq_and_mr(ibv_context *verbs) {
    if (pd_ != nullptr)
        return;
    check((pd_ = ibv_alloc_pd(verbs)) != nullptr, "ibv_alloc_pd");
    check((cq_ = ibv_create_cq(verbs, 1024, nullptr, nullptr, 0)) != nullptr, "ibv_create_cq");
    buffer_.resize(buffer_size);
    mr_ = ibv_reg_mr(pd_, buffer_.data(), buffer_.size(),
                     IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
    check(mr_ != nullptr, "ibv_reg_mr");
}

ibv_qp_init_attr rdma_side::qp_attr() const {
    ibv_qp_init_attr attr{};
    attr.send_cq = attr.recv_cq = cq_;
    attr.cap = {64, 64, 1, 1, 0};
    attr.qp_type = IBV_QPT_RC;
    return attr;
}

void rdma_side::create_qp() {
    create_pd_cq_and_mr(id_->verbs);
    ibv_qp_init_attr attr = qp_attr();
    check(rdma_create_qp(id_, pd_, &attr) == 0, "rdma_create_qp");
    qp_ = id_->qp;
    qp_unknown_to_cma_ = false;
}

void rdma_side::create_qp_unknown_to_cma() {
    create_pd_cq_and_mr(id_->verbs);
    ibv_qp_init_attr attr = qp_attr();
    check((qp_ = ibv_create_qp(pd_, &attr)) != nullptr, "ibv_create_qp");
    qp_unknown_to_cma_ = true;
}

int rdma_side::connect(const std::vector<unsigned char> &private_data) {
    rdma_conn_param param = make_conn_param(private_data, qp_);
    return rdma_connect(id_, &param) == 0 ? 0 : errno;
}

void rdma_side::request(const std::vector<unsigned char> &private_data) {
    int error = connect(private_data);
    // siw: the local port that rdma_cm has chosen is in use by TCP; another rdma_cm_id gets another
    // one.
    for (int tries = 0;
         (error == EADDRINUSE || error == EADDRNOTAVAIL) && tries != max_port_retries; ++tries) {
        const bool had_qp = qp_ != nullptr, was_unknown_to_cma = qp_unknown_to_cma_;
        resolve();
        if (had_qp)
            // `resolve` destroys the QP with its rdma_cm_id.
            was_unknown_to_cma ? create_qp_unknown_to_cma() : create_qp();
        error = connect(private_data);
    }
    errno = error;
    check(error == 0, "rdma_connect");
}

void rdma_side::move_to_rts(unsigned long long num_reads) {
    for (const ibv_qp_state state : {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS}) {
        ibv_qp_attr attr{};
        attr.qp_state = state;
        int mask = 0;
        check(rdma_init_qp_attr(id_, &attr, &mask) == 0, "rdma_init_qp_attr");
        if (num_reads != 0)
            attr.max_rd_atomic = static_cast<std::uint8_t>(num_reads);
        errno = ibv_modify_qp(qp_, &attr, mask);
        check(errno == 0, "ibv_modify_qp");
    }
}

void rdma_side::establish() {
    check(rdma_establish(id_) == 0, "rdma_establish");
}

void rdma_side::disconnect() {
    check(rdma_disconnect(id_) == 0, "rdma_disconnect");
}

void rdma_side::listen() {
    listen_id_ = create_id();
    check(rdma_bind_addr(listen_id_, to_sockaddr(address_)) == 0, "rdma_bind_addr");
    check(rdma_listen(listen_id_, 64) == 0, "rdma_listen");
}

void rdma_side::get_request() {
    const rdma_cm_event event = next_event();
    if (event.event != RDMA_CM_EVENT_CONNECT_REQUEST)
        throw std::runtime_error(rdma_event_str(event.event));
    id_ = event.id;
}

void rdma_side::accept(const std::vector<unsigned char> &private_data) {
    rdma_conn_param param = make_conn_param(private_data, qp_);
    // get_request does not keep how many Reads the other side permits: it permits one in any case.
    param.responder_resources = param.initiator_depth = 1;
    check(rdma_accept(id_, &param) == 0, "rdma_accept");
}

void rdma_side::reject(const std::vector<unsigned char> &private_data) {
    check(rdma_reject(id_, private_data.data(), static_cast<std::uint8_t>(private_data.size())) ==
              0,
          "rdma_reject");
    destroy_qp_and_id();
}

void rdma_side::count_flood_end(const std::string &reason) {
    ++num_flood_ends_by_reason_[reason];
    ++num_flood_ended_;
}

/// Takes one of the connections of `flood` a step further, and counts those that have ended.
void rdma_side::handle_flood_event(const rdma_cm_event &event) {
    if (event.event == RDMA_CM_EVENT_ADDR_RESOLVED) {
        check(rdma_resolve_route(event.id, resolve_timeout_ms) == 0, "rdma_resolve_route");
    } else if (event.event == RDMA_CM_EVENT_ROUTE_RESOLVED) {
        create_pd_cq_and_mr(event.id->verbs);
        ibv_qp_init_attr attr = qp_attr();
        check(rdma_create_qp(event.id, pd_, &attr) == 0, "rdma_create_qp");
        rdma_conn_param param = make_conn_param({}, nullptr);
        ++num_flood_sent_;
        if (rdma_connect(event.id, &param) != 0)
            count_flood_end(std::strerror(errno)); // siw: the port is in use
    } else if (is_end_of_connection(event.event)) {
        if (event.event == RDMA_CM_EVENT_DISCONNECTED)
            rdma_disconnect(event.id); // answers
        count_flood_end(rdma_event_str(event.event));
    } else if (event.event != RDMA_CM_EVENT_ESTABLISHED &&
               event.event != RDMA_CM_EVENT_TIMEWAIT_EXIT) {
        throw std::runtime_error(rdma_event_str(event.event));
    }
}

void rdma_side::flood(unsigned long long count) {
    num_flood_requests_ = count;
    sockaddr_in source = address_;
    source.sin_port = 0;
    for (unsigned long long i = 0; i != count; ++i)
        check(rdma_resolve_addr(create_id(), to_sockaddr(source), to_sockaddr(address_),
                                resolve_timeout_ms) == 0,
              "rdma_resolve_addr");
    while (num_flood_sent_ != count)
        handle_flood_event(next_event());
}

std::string rdma_side::wait_flood_end() {
    while (num_flood_ended_ != num_flood_requests_)
        handle_flood_event(next_event());
    std::string result;
    for (const auto &[reason, count] : num_flood_ends_by_reason_)
        result += (result.empty() ? "" : ", ") + std::to_string(count) + " " + reason;
    return result;
}

std::string rdma_side::memory() {
    return std::to_string(reinterpret_cast<std::uintptr_t>(buffer_.data())) + " " +
           std::to_string(mr_->rkey);
}

void rdma_side::post_recvs(unsigned long long count, unsigned long long length) {
    ibv_sge sge = {reinterpret_cast<std::uintptr_t>(buffer_.data()),
                   static_cast<std::uint32_t>(length), mr_->lkey};
    for (; count != 0; --count) {
        ibv_recv_wr wr{}, *bad_wr = nullptr;
        wr.sg_list = &sge;
        wr.num_sge = 1;
        errno = ibv_post_recv(qp_, &wr, &bad_wr);
        check(errno == 0, "ibv_post_recv");
    }
}

void rdma_side::post_sends(ibv_wr_opcode opcode, const arguments &args) {
    ibv_sge sge = {reinterpret_cast<std::uintptr_t>(buffer_.data()),
                   static_cast<std::uint32_t>(args.number(1)), mr_->lkey};
    for (unsigned long long i = args.number(0); i != 0; --i) {
        ibv_send_wr wr{}, *bad_wr = nullptr;
        wr.sg_list = &sge;
        wr.num_sge = 1;
        wr.opcode = opcode;
        wr.send_flags = IBV_SEND_SIGNALED;
        wr.wr.rdma.remote_addr = args.number(2);
        wr.wr.rdma.rkey = static_cast<std::uint32_t>(args.number(3));
        errno = ibv_post_send(qp_, &wr, &bad_wr);
        check(errno == 0, "ibv_post_send");
    }
}

std::string rdma_side::wait_completions(unsigned long long count) {
    std::map<std::string, int> statuses;
    const auto deadline =
        std::chrono::steady_clock::now() + std::chrono::milliseconds(event_timeout_ms);
    for (ibv_wc wc; count != 0;) {
        if (ibv_poll_cq(cq_, 1, &wc) == 1) {
            ++statuses[ibv_wc_status_str(wc.status)];
            --count;
        } else if (std::chrono::steady_clock::now() > deadline) {
            throw std::runtime_error("no completion");
        } else {
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
    }
    std::string result;
    for (const auto &[status, number] : statuses)
        result += (result.empty() ? "" : ", ") + std::to_string(number) + " " + status;
    return result;
}

} // namespace hostile_peer

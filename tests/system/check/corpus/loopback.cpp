// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "loopback.hpp"

#include "../../lib/cm_event.hpp"
#include "../../lib/modify_qp.hpp"

#include <arpa/inet.h>
#include <cstring>
#include <netinet/in.h>

namespace check_corpus {

namespace {

constexpr int timeout_ms = 30'000;

in_addr parse_address(const target &target) {
    in_addr addr{};
    if (inet_pton(AF_INET, target.address.c_str(), &addr) != 1)
        throw failure(concat("not an address: ", target.address));
    return addr;
}

ibv_context *open_context(const target &target) {
    int count = 0;
    ibv_device **const list = check(ibv_get_device_list(&count), "list the devices");
    ibv_context *context = nullptr;
    for (int i = 0; i < count && context == nullptr; ++i) {
        if (ibv_get_device_name(list[i]) == target.device)
            context = check(ibv_open_device(list[i]), "open the device");
    }
    ibv_free_device_list(list);
    if (context == nullptr)
        throw failure(concat("no device ", target.device));
    return context;
}

/// Sets the GID that is the address, as RoCEv2 writes IPv4.
void query_gid(device &dev, const in_addr &addr) {
    constexpr int max_gids = 32;
    constexpr std::size_t ipv4_offset = 12;
    for (int i = max_gids - 1; i >= 0; --i) { // RoCEv1 has the lower index
        ibv_gid gid{};
        if (ibv_query_gid(dev.context, 1, i, &gid) == 0 &&
            std::memcmp(&gid.raw[ipv4_offset], &addr, sizeof addr) == 0) {
            dev.gid = gid;
            dev.gid_index = i;
            return;
        }
    }
    throw failure("no GID of the address");
}

rdma_conn_param make_conn_param() {
    rdma_conn_param param{};
    param.responder_resources = param.initiator_depth = 1;
    param.retry_count = param.rnr_retry_count = 7; // not of iWARP
    return param;
}

} // namespace

device::device(const target &target)
    : context(open_context(target)) {
    if (target.is_rxe())
        query_gid(*this, parse_address(target));
}

unconnected::unconnected(const target &target, const endpoint_options &options)
    : dev(target) {
    local.create(dev.context, options);
    local.to_init();
}

loopback::loopback(const target &target, bool in_doubt, const loopback_options &options) {
    if (target.is_rxe() && !options.by_cm)
        open_and_connect(target, options);
    else
        connect_by_cm(target, options);
    requester.in_doubt = responder.in_doubt = in_doubt;
}

void connect_by_verbs(const device &dev, const endpoint &first, const endpoint &second) {
    constexpr std::uint8_t ack_timeout = 14, rnr_retry = 7; // 67 ms
    const ibv_ah_attr ah_attr = verbs_test::make_loopback_ah_attr(dev.gid, dev.gid_index);
    verbs_test::modify_qp_to_rtr(first.qp, second.qp->qp_num, ah_attr, 1);
    verbs_test::modify_qp_to_rtr(second.qp, first.qp->qp_num, ah_attr, 1);
    verbs_test::modify_qp_to_rts(first.qp, ack_timeout, rnr_retry, 1);
    verbs_test::modify_qp_to_rts(second.qp, ack_timeout, rnr_retry, 1);
}

void loopback::open_and_connect(const target &target, const loopback_options &options) {
    device_ = std::make_unique<device>(target);
    requester.create(device_->context, options.requester);
    responder.create(device_->context, options.responder);
    requester.to_init();
    responder.to_init();
    connect_by_verbs(*device_, requester, responder);
}

void loopback::reconnect() const {
    for (const endpoint *each : {&requester, &responder}) {
        each->to_state(IBV_QPS_RESET);
        each->to_init();
    }
    connect_by_verbs(*device_, requester, responder);
}

rdma_cm_id *loopback::create_id() const {
    rdma_cm_id *id = nullptr;
    check(rdma_create_id(events_.get(), &id, nullptr, RDMA_PS_TCP), "create a CM id");
    return id;
}

void bind_to_device(const target &target, rdma_cm_id &id) {
    sockaddr_in addr{};
    addr.sin_family = AF_INET;
    addr.sin_addr = parse_address(target);
    check(rdma_bind_addr(&id, reinterpret_cast<sockaddr *>(&addr)), "bind to the address");
}

void loopback::resolve(const target &target) const {
    bind_to_device(target, *listener_);
    check(rdma_listen(listener_.get(), 1), "listen");
    check(
        rdma_resolve_addr(requester.id, nullptr, rdma_get_local_addr(listener_.get()), timeout_ms),
        "resolve the address");
    verbs_test::expect_event(*events_, RDMA_CM_EVENT_ADDR_RESOLVED, timeout_ms);
    check(rdma_resolve_route(requester.id, timeout_ms), "resolve the route");
    verbs_test::expect_event(*events_, RDMA_CM_EVENT_ROUTE_RESOLVED, timeout_ms);
}

void loopback::connect_by_cm(const target &target, const loopback_options &options) {
    events_.reset(check(rdma_create_event_channel(), "open the RDMA CM"));
    listener_.reset(create_id());
    requester.id = create_id();
    resolve(target);
    requester.create(requester.id->verbs, options.requester);
    rdma_conn_param param = make_conn_param();
    check(rdma_connect(requester.id, &param), "connect");
    responder.id = verbs_test::expect_event(*events_, RDMA_CM_EVENT_CONNECT_REQUEST, timeout_ms);
    responder.create(responder.id->verbs, options.responder);
    responder.post_recv();
    param = make_conn_param();
    check(rdma_accept(responder.id, &param), "accept");
    verbs_test::expect_event(*events_, RDMA_CM_EVENT_ESTABLISHED, timeout_ms);
    verbs_test::expect_event(*events_, RDMA_CM_EVENT_ESTABLISHED, timeout_ms);
    // iWARP wants the first message of the side that connects.
    requester.post_send(IBV_WR_SEND, requester.sge(), responder);
    wait_success(requester.send_cq, "the first message");
    wait_success(responder.recv_cq, "the first message's receive");
}

void loopback::disconnect() const {
    check(rdma_disconnect(requester.id), "disconnect");
    verbs_test::expect_event(*events_, RDMA_CM_EVENT_DISCONNECTED, timeout_ms);
    rdma_disconnect(
        responder.id); // InfiniBand's requester has its event then; iWARP needs no answer
    verbs_test::expect_event(*events_, RDMA_CM_EVENT_DISCONNECTED, timeout_ms);
}

void loopback::send_message() const {
    responder.post_recv();
    requester.post_send(IBV_WR_SEND, requester.sge(), responder);
}

void loopback::exchange_message() const {
    send_message();
    wait_success(requester.send_cq, "the message");
    wait_success(responder.recv_cq, "the message's receive");
}

} // namespace check_corpus

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "side.hpp"

#include <cstdio>

namespace omissions {
namespace {

rdma_conn_param make_conn_param() noexcept {
    rdma_conn_param param{};
    param.responder_resources = param.initiator_depth = 1;
    param.retry_count = param.rnr_retry_count = 7; // not of iWARP
    return param;
}

ibv_sge sge_of(bytes buffer, std::uint32_t lkey) noexcept {
    return {address_of(buffer), static_cast<std::uint32_t>(buffer.size()), lkey};
}

ibv_send_wr make_wr(ibv_wr_opcode opcode, ibv_sge &sge, remote_memory target) noexcept {
    ibv_send_wr wr{};
    wr.opcode = opcode;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.wr.rdma.remote_addr = target.address;
    wr.wr.rdma.rkey = target.rkey;
    return wr;
}

sockaddr_in parse_address(const std::string &address, std::uint16_t port) {
    sockaddr_in result{};
    result.sin_family = AF_INET;
    result.sin_port = port;
    if (inet_pton(AF_INET, address.c_str(), &result.sin_addr) != 1)
        throw failure(concat("not an address: ", address));
    return result;
}

} // namespace

std::unique_ptr<rdma_cm_id, verbs_test::endpoint::cm_id_deleter> side::create_id() const {
    rdma_cm_id *id = nullptr;
    check(rdma_create_id(events_.get(), &id, nullptr, RDMA_PS_TCP), "create a CM id");
    return std::unique_ptr<rdma_cm_id, verbs_test::endpoint::cm_id_deleter>(id);
}

void side::create_queues() {
    endpoint_.create_qp({});
    if (!is_iwarp())
        endpoint_.mr = check(decltype(endpoint_.mr)(ibv_reg_mr(
                                 pd(), endpoint_.memory.data(), endpoint_.memory.size(),
                                 IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
                                     IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)),
                             "register memory for atomic operations");
    device_ = check(decltype(device_)(coherdma_open_device(endpoint_.id->verbs)), "open device");
    coherdma_device_attr attr{};
    check(coherdma_query_device(device_.get(), &attr, sizeof attr), "query the device");
    std::printf("coherency %s%s %u\n", coherdma_coherency_str(attr.coherency),
                (attr.flags & COHERDMA_DEVICE_EMULATED) != 0 ? " emulated" : "", attr.line_size);
    std::ranges::fill(message(), std::byte{MESSAGE_VALUE});
    const coherdma_range range = range_of(endpoint_.memory); // stored to by its constructor
    check(coherdma_sync_after_write(device_.get(), &range, 1), "sync");
    sync_for_device(received_message(), COHERDMA_FROM_DEVICE);
    post_receive(received_message(), lkey());
}

void side::accept_peer(const std::string &address,
                       const std::function<void(std::uint16_t)> &tell_port) {
    sockaddr_in addr = parse_address(address, 0);
    listener_ = create_id();
    check(rdma_bind_addr(listener_.get(), reinterpret_cast<sockaddr *>(&addr)), "bind to it");
    check(rdma_listen(listener_.get(), 1), "listen");
    tell_port(rdma_get_src_port(listener_.get()));
    endpoint_.id.reset(expect_event(RDMA_CM_EVENT_CONNECT_REQUEST));
    create_queues();
    rdma_conn_param param = make_conn_param();
    check(rdma_accept(endpoint_.id.get(), &param), "accept");
    expect_event(RDMA_CM_EVENT_ESTABLISHED);
}

void side::connect_to_owner(const std::string &address, std::uint16_t port) {
    constexpr int timeout_ms = 60000;
    sockaddr_in addr = parse_address(address, port);
    endpoint_.id = create_id();
    check(rdma_resolve_addr(endpoint_.id.get(), nullptr, reinterpret_cast<sockaddr *>(&addr),
                            timeout_ms),
          "find a device for that address");
    expect_event(RDMA_CM_EVENT_ADDR_RESOLVED);
    check(rdma_resolve_route(endpoint_.id.get(), timeout_ms), "find a route");
    expect_event(RDMA_CM_EVENT_ROUTE_RESOLVED);
    create_queues();
    rdma_conn_param param = make_conn_param();
    check(rdma_connect(endpoint_.id.get(), &param), "connect");
    expect_event(RDMA_CM_EVENT_ESTABLISHED);
}

void side::post(ibv_send_wr &wr) const {
    wr.send_flags |= IBV_SEND_SIGNALED;
    check(endpoint_.post_send(wr), "post a request");
    endpoint_.send_cq.expect_success("a request");
}

void side::post(ibv_wr_opcode opcode, bytes buffer, std::uint32_t lkey, remote_memory target,
                unsigned flags) const {
    ibv_sge sge = sge_of(buffer, lkey);
    ibv_send_wr wr = make_wr(opcode, sge, target);
    wr.send_flags = flags;
    post(wr);
}

void side::post_unsignaled(ibv_wr_opcode opcode, bytes buffer, std::uint32_t lkey,
                           remote_memory target) const {
    ibv_sge sge = sge_of(buffer, lkey);
    ibv_send_wr wr = make_wr(opcode, sge, target);
    check(endpoint_.post_send(wr), "post a request");
}

ibv_wc_status side::post_failing(ibv_wr_opcode opcode, bytes buffer, std::uint32_t lkey,
                                 remote_memory target) const {
    post_unsignaled(opcode, buffer, lkey, target); // an error is always signaled
    const auto wc = endpoint_.send_cq.wait_completion(verbs_test::trial_timeout());
    if (!wc)
        throw failure("no completion with an error");
    return wc->status;
}

void side::post_both(bytes first, bytes second, std::uint32_t lkey) const {
    std::array<ibv_sge, 2> list = {sge_of(first, lkey), sge_of(second, lkey)};
    ibv_send_wr wr = make_wr(IBV_WR_SEND, list[0], {});
    wr.num_sge = list.size();
    post(wr);
}

void side::post_atomic(ibv_wr_opcode opcode, bytes buffer, std::uint32_t lkey, remote_memory target,
                       std::uint64_t compare_or_add, std::uint64_t swap) const {
    ibv_sge sge = sge_of(buffer, lkey);
    ibv_send_wr wr = make_wr(opcode, sge, {});
    wr.wr.atomic.remote_addr = target.address;
    wr.wr.atomic.rkey = target.rkey;
    wr.wr.atomic.compare_add = compare_or_add;
    wr.wr.atomic.swap = swap;
    post(wr);
}

void side::send_message() {
    post(IBV_WR_SEND, message(), lkey(), {});
}

std::array<std::byte, side::MESSAGE_LENGTH> side::receive_message() {
    std::array<std::byte, MESSAGE_LENGTH> data;
    poll_receive();
    sync_for_cpu(received_message());
    std::ranges::copy(received_message(), data.begin());
    sync_for_device(received_message(), COHERDMA_FROM_DEVICE);
    post_receive(received_message(), lkey());
    return data;
}

void side::post_receive(bytes buffer, std::uint32_t lkey) const {
    ibv_sge sge = sge_of(buffer, lkey);
    ibv_recv_wr wr{0, nullptr, &sge, 1}, *bad_wr = nullptr;
    check(ibv_post_recv(endpoint_.qp(), &wr, &bad_wr), "post a receive");
}

void side::sync_for_device(bytes buffer, std::uint32_t direction) const {
    const coherdma_range range = range_of(buffer);
    check(coherdma_sync_for_device(device_.get(), &range, 1, direction), "sync for the device");
}

void side::sync_for_cpu(bytes buffer) const {
    const coherdma_range range = range_of(buffer);
    check(coherdma_sync_for_cpu(device_.get(), &range, 1, COHERDMA_FROM_DEVICE),
          "sync for the CPU");
}

} // namespace omissions

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "test_ep.hpp"

#include <arpa/inet.h>
#include <cstring>
#include <thread>
#include <unistd.h>

namespace conform {

DAT_EP_ATTR minimal_ep_attr() {
    DAT_EP_ATTR attr{};
    attr.service_type = DAT_SERVICE_TYPE_RC;
    attr.max_message_size = 65536;
    attr.max_rdma_size = 65536;
    attr.qos = DAT_QOS_BEST_EFFORT;
    attr.recv_completion_flags = DAT_COMPLETION_DEFAULT_FLAG;
    attr.request_completion_flags = DAT_COMPLETION_DEFAULT_FLAG;
    attr.max_recv_dtos = 8;
    attr.max_request_dtos = 8;
    attr.max_recv_iov = 2;
    attr.max_request_iov = 2;
    attr.max_rdma_read_in = 2;
    attr.max_rdma_read_out = 2;
    attr.srq_soft_hw = DAT_HW_DEFAULT;
    attr.max_rdma_read_iov = 1;
    attr.max_rdma_write_iov = 1;
    return attr;
}

test_ep::test_ep(const test_ia &ia, DAT_PZ_HANDLE pz, const DAT_EP_ATTR *attr,
                 DAT_CNO_HANDLE recv_cno, source_location loc)
    : recv_evd(ia.create_evd(DAT_EVD_DTO_FLAG, 64, recv_cno, loc))
    , request_evd(ia.create_evd(DAT_EVD_DTO_FLAG | DAT_EVD_RMR_BIND_FLAG, 64, nullptr, loc))
    , connect_evd(ia.create_evd(DAT_EVD_CONNECTION_FLAG, 8, nullptr, loc)) {
    DAT_EP_HANDLE ep = nullptr;
    require_success(dat_ep_create(ia, pz, recv_evd, request_evd, connect_evd, attr, &ep), loc);
    handle = unique_ep(ep, loc);
}
test_ep::test_ep(const test_ia &ia, DAT_PZ_HANDLE pz, DAT_SRQ_HANDLE srq, const DAT_EP_ATTR *attr,
                 source_location loc)
    : recv_evd(ia.create_evd(DAT_EVD_DTO_FLAG, 64, nullptr, loc))
    , request_evd(ia.create_evd(DAT_EVD_DTO_FLAG, 64, nullptr, loc))
    , connect_evd(ia.create_evd(DAT_EVD_CONNECTION_FLAG, 8, nullptr, loc)) {
    DAT_EP_HANDLE ep = nullptr;
    require_success(
        dat_ep_create_with_srq(ia, pz, recv_evd, request_evd, connect_evd, srq, attr, &ep), loc);
    handle = unique_ep(ep, loc);
}

DAT_EP_STATE test_ep::get_state(source_location loc) const {
    DAT_EP_STATE state{};
    DAT_BOOLEAN recv_idle = DAT_FALSE, request_idle = DAT_FALSE;
    require_success(dat_ep_get_status(handle, &state, &recv_idle, &request_idle), loc);
    return state;
}
void test_ep::expect_state(DAT_EP_STATE expected, source_location loc) const {
    expect_eq(get_state(loc), expected, "the EP's state", loc);
    poisoned<DAT_EP_PARAM> param;
    if (expect_return(dat_ep_query(handle, DAT_EP_FIELD_EP_STATE, param.ptr()), DAT_SUCCESS, loc))
        expect_eq(param->ep_state, expected, "the EP's state by dat_ep_query", loc);
}

bool wait_for_state(DAT_EP_HANDLE ep, DAT_EP_STATE expected, source_location loc) {
    const auto deadline = std::chrono::steady_clock::now() + event_timeout;
    DAT_EP_STATE state{};
    do {
        DAT_BOOLEAN recv_idle = DAT_FALSE, request_idle = DAT_FALSE;
        require_success(dat_ep_get_status(ep, &state, &recv_idle, &request_idle), loc);
        if (state == expected)
            return true;
        std::this_thread::sleep_for(milliseconds(1));
    } while (std::chrono::steady_clock::now() < deadline);
    return expect_eq(state, expected, "the EP's state in the end", loc);
}

DAT_RETURN post_recv(DAT_EP_HANDLE ep, DAT_LMR_TRIPLET local, DAT_UINT64 cookie) {
    return dat_ep_post_recv(ep, 1, &local, make_context(cookie), DAT_COMPLETION_DEFAULT_FLAG);
}
DAT_RETURN post_send(DAT_EP_HANDLE ep, DAT_LMR_TRIPLET local, DAT_UINT64 cookie,
                     DAT_COMPLETION_FLAGS flags) {
    return dat_ep_post_send(ep, 1, &local, make_context(cookie), flags);
}
DAT_RETURN post_rdma_write(DAT_EP_HANDLE ep, DAT_LMR_TRIPLET local, DAT_RMR_TRIPLET remote,
                           DAT_UINT64 cookie, DAT_COMPLETION_FLAGS flags) {
    return dat_ep_post_rdma_write(ep, 1, &local, make_context(cookie), &remote, flags);
}
DAT_RETURN post_rdma_read(DAT_EP_HANDLE ep, DAT_LMR_TRIPLET local, DAT_RMR_TRIPLET remote,
                          DAT_UINT64 cookie, DAT_COMPLETION_FLAGS flags) {
    return dat_ep_post_rdma_read(ep, 1, &local, make_context(cookie), &remote, flags);
}

DAT_DTO_COMPLETION_EVENT_DATA next_completion(DAT_EVD_HANDLE evd, source_location loc) {
    return next_event(evd, DAT_DTO_COMPLETION_EVENT, loc).event_data.dto_completion_event_data;
}
void expect_completion(DAT_EVD_HANDLE evd, DAT_EP_HANDLE ep, DAT_UINT64 cookie, std::size_t length,
                       source_location loc) {
    const DAT_DTO_COMPLETION_EVENT_DATA dto = next_completion(evd, loc);
    expect_eq(dto.status, DAT_DTO_SUCCESS, "the status", loc);
    expect_eq(dto.ep_handle, ep, "the EP", loc);
    expect_eq(dto.user_cookie.as_64, cookie, "the cookie", loc);
    expect_eq(dto.transfered_length, static_cast<DAT_SEG_LENGTH>(length), "the length", loc);
}

DAT_CONN_QUAL unused_port() {
    // Below the ports that the kernel gives to clients. Processes that run at the same time have
    // ports of their own.
    constexpr DAT_CONN_QUAL FIRST_PORT = 21000, PORTS_OF_A_PROCESS = 200;
    constexpr int PROCESSES = 50;
    static DAT_CONN_QUAL last_port =
        FIRST_PORT + static_cast<DAT_CONN_QUAL>(getpid() % PROCESSES) * PORTS_OF_A_PROCESS;
    return ++last_port;
}

ia_address::ia_address(const sockaddr_in &address) {
    std::memcpy(&storage_, &address, sizeof address);
}
ia_address::ia_address(const std::string &address) {
    sockaddr_in ipv4{};
    sockaddr_in6 ipv6{};
    if (inet_pton(AF_INET, address.c_str(), &ipv4.sin_addr) == 1) {
        ipv4.sin_family = AF_INET;
        std::memcpy(&storage_, &ipv4, sizeof ipv4);
        return;
    }
    require(inet_pton(AF_INET6, address.c_str(), &ipv6.sin6_addr) == 1, "no address: " + address);
    ipv6.sin6_family = AF_INET6;
    std::memcpy(&storage_, &ipv6, sizeof ipv6);
}

std::vector<std::byte> make_pattern(std::size_t count, unsigned seed) {
    std::vector<std::byte> bytes(count);
    for (std::size_t i = 0; i < count; ++i)
        bytes[i] = static_cast<std::byte>((i * 7 + seed * 31 + (i >> 8)) & 0xff);
    return bytes;
}

DAT_RETURN connect_ep(DAT_EP_HANDLE ep, ia_address address, DAT_CONN_QUAL port,
                      byte_view private_data, DAT_TIMEOUT timeout) {
    return dat_ep_connect(ep, address.ptr(), port, timeout,
                          static_cast<DAT_COUNT>(private_data.size()),
                          private_data.empty() ? nullptr : mutable_data(private_data),
                          DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG);
}

ep_pair::ep_pair(const DAT_EP_ATTR *attr, source_location loc)
    : ia(loc)
    , pz(ia.create_pz(loc))
    , lmr(ia, pz, size, DAT_MEM_PRIV_ALL_FLAG, loc)
    , cno(ia.create_cno(loc))
    , cr_evd(ia.create_evd(DAT_EVD_CR_FLAG, 8, nullptr, loc))
    , port(unused_port())
    , active(ia, pz, attr, nullptr, loc)
    , passive(ia, pz, attr, nullptr, loc) {
    DAT_PSP_HANDLE handle = nullptr;
    require_success(dat_psp_create(ia, port, cr_evd, DAT_PSP_CONSUMER_FLAG, &handle), loc);
    psp = unique_psp(handle, loc);
}

DAT_RETURN ep_pair::request_connection(byte_view private_data) {
    return connect_ep(active, ia_address(ia.ipv4_address()), port, private_data);
}

DAT_CR_HANDLE ep_pair::next_cr(source_location loc) {
    const DAT_EVENT event = next_event(cr_evd, DAT_CONNECTION_REQUEST_EVENT, loc);
    const DAT_CR_ARRIVAL_EVENT_DATA &arrival = event.event_data.cr_arrival_event_data;
    require(arrival.cr_handle != nullptr, "the request has no handle", loc);
    return arrival.cr_handle;
}

void ep_pair::connect_without_messages(source_location loc) {
    require_success(request_connection(), loc);
    require_success(dat_cr_accept(next_cr(loc), passive, 0, nullptr), loc);
    next_event(active.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED, loc);
    next_event(passive.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED, loc);
}

void ep_pair::connect(source_location loc) {
    constexpr std::size_t length = 8;
    require_success(post_recv(passive, lmr.make_lmr_triplet(size - length, length), 101), loc);
    require_success(post_recv(active, lmr.make_lmr_triplet(size - 2 * length, length), 102), loc);
    connect_without_messages(loc);
    require_success(post_send(active, lmr.make_lmr_triplet(0, length), 103), loc);
    expect_completion(passive.recv_evd, passive, 101, length, loc);
    expect_completion(active.request_evd, active, 103, length, loc);
    require_success(post_send(passive, lmr.make_lmr_triplet(0, length), 104), loc);
    expect_completion(active.recv_evd, active, 102, length, loc);
    expect_completion(passive.request_evd, passive, 104, length, loc);
}

void ep_pair::disconnect(source_location loc) {
    require_success(dat_ep_disconnect(active, DAT_CLOSE_GRACEFUL_FLAG), loc);
    next_event(active.connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED, loc);
    next_event(passive.connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED, loc);
    active.expect_state(DAT_EP_STATE_DISCONNECTED, loc);
    passive.expect_state(DAT_EP_STATE_DISCONNECTED, loc);
}

} // namespace conform

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "endpoint.hpp"

#include <arpa/inet.h>
#include <cstring>
#include <thread>

namespace conform {

DAT_EP_ATTR modest() {
    DAT_EP_ATTR is{};
    is.service_type = DAT_SERVICE_TYPE_RC;
    is.max_message_size = 65536;
    is.max_rdma_size = 65536;
    is.qos = DAT_QOS_BEST_EFFORT;
    is.recv_completion_flags = DAT_COMPLETION_DEFAULT_FLAG;
    is.request_completion_flags = DAT_COMPLETION_DEFAULT_FLAG;
    is.max_recv_dtos = 8;
    is.max_request_dtos = 8;
    is.max_recv_iov = 2;
    is.max_request_iov = 2;
    is.max_rdma_read_in = 2;
    is.max_rdma_read_out = 2;
    is.srq_soft_hw = DAT_HW_DEFAULT;
    is.max_rdma_read_iov = 1;
    is.max_rdma_write_iov = 1;
    return is;
}

endpoint::endpoint(const adapter &ia, DAT_PZ_HANDLE zone, const DAT_EP_ATTR *attributes,
                   DAT_CNO_HANDLE of_receives, source_location loc)
    : received(ia.events(DAT_EVD_DTO_FLAG, 64, of_receives, loc))
    , requested(ia.events(DAT_EVD_DTO_FLAG | DAT_EVD_RMR_BIND_FLAG, 64, nullptr, loc))
    , connection(ia.events(DAT_EVD_CONNECTION_FLAG, 8, nullptr, loc)) {
    DAT_EP_HANDLE made = nullptr;
    require_success(dat_ep_create(ia, zone, received, requested, connection, attributes, &made),
                    loc);
    handle = unique_ep(made, loc);
}
endpoint::endpoint(const adapter &ia, DAT_PZ_HANDLE zone, DAT_SRQ_HANDLE queue,
                   const DAT_EP_ATTR *attributes, source_location loc)
    : received(ia.events(DAT_EVD_DTO_FLAG, 64, nullptr, loc))
    , requested(ia.events(DAT_EVD_DTO_FLAG, 64, nullptr, loc))
    , connection(ia.events(DAT_EVD_CONNECTION_FLAG, 8, nullptr, loc)) {
    DAT_EP_HANDLE made = nullptr;
    require_success(
        dat_ep_create_with_srq(ia, zone, received, requested, connection, queue, attributes, &made),
        loc);
    handle = unique_ep(made, loc);
}

DAT_EP_STATE endpoint::state(source_location loc) const {
    DAT_EP_STATE is_now{};
    DAT_BOOLEAN receives = DAT_FALSE, requests = DAT_FALSE;
    require_success(dat_ep_get_status(handle, &is_now, &receives, &requests), loc);
    return is_now;
}
void endpoint::is_in(DAT_EP_STATE wanted, source_location loc) const {
    expect_eq(state(loc), wanted, "the EP's state", loc);
    filled<DAT_EP_PARAM> is_now;
    if (expect_return(dat_ep_query(handle, DAT_EP_FIELD_EP_STATE, is_now.out()), DAT_SUCCESS, loc))
        expect_eq(is_now->ep_state, wanted, "the EP's state by dat_ep_query", loc);
}

bool reaches(DAT_EP_HANDLE one, DAT_EP_STATE state, source_location loc) {
    const auto until = std::chrono::steady_clock::now() + soon;
    DAT_EP_STATE is_now{};
    do {
        DAT_BOOLEAN receives = DAT_FALSE, requests = DAT_FALSE;
        require_success(dat_ep_get_status(one, &is_now, &receives, &requests), loc);
        if (is_now == state)
            return true;
        std::this_thread::sleep_for(milliseconds(1));
    } while (std::chrono::steady_clock::now() < until);
    return expect_eq(is_now, state, "the EP's state in the end", loc);
}

DAT_RETURN post_receive(DAT_EP_HANDLE to, DAT_LMR_TRIPLET piece, DAT_UINT64 cookie) {
    return dat_ep_post_recv(to, 1, &piece, make_context(cookie), DAT_COMPLETION_DEFAULT_FLAG);
}
DAT_RETURN post_send(DAT_EP_HANDLE to, DAT_LMR_TRIPLET piece, DAT_UINT64 cookie,
                     DAT_COMPLETION_FLAGS flags) {
    return dat_ep_post_send(to, 1, &piece, make_context(cookie), flags);
}
DAT_RETURN post_write(DAT_EP_HANDLE to, DAT_LMR_TRIPLET piece, DAT_RMR_TRIPLET target,
                      DAT_UINT64 cookie, DAT_COMPLETION_FLAGS flags) {
    return dat_ep_post_rdma_write(to, 1, &piece, make_context(cookie), &target, flags);
}
DAT_RETURN post_read(DAT_EP_HANDLE to, DAT_LMR_TRIPLET piece, DAT_RMR_TRIPLET target,
                     DAT_UINT64 cookie, DAT_COMPLETION_FLAGS flags) {
    return dat_ep_post_rdma_read(to, 1, &piece, make_context(cookie), &target, flags);
}

DAT_DTO_COMPLETION_EVENT_DATA completion(DAT_EVD_HANDLE from, source_location loc) {
    return next_event(from, DAT_DTO_COMPLETION_EVENT, loc).event_data.dto_completion_event_data;
}
void completed(DAT_EVD_HANDLE from, DAT_EP_HANDLE of, DAT_UINT64 cookie, std::size_t length,
               source_location loc) {
    const DAT_DTO_COMPLETION_EVENT_DATA is = completion(from, loc);
    expect_eq(is.status, DAT_DTO_SUCCESS, "the status", loc);
    expect_eq(is.ep_handle, of, "the EP", loc);
    expect_eq(is.user_cookie.as_64, cookie, "the cookie", loc);
    expect_eq(is.transfered_length, static_cast<DAT_SEG_LENGTH>(length), "the length", loc);
}

DAT_CONN_QUAL fresh_port() {
    static DAT_CONN_QUAL last = 21000;
    return ++last;
}

destination::destination(const sockaddr_in &address) {
    std::memcpy(&storage_, &address, sizeof address);
}
destination::destination(const std::string &address) {
    sockaddr_in four{};
    sockaddr_in6 six{};
    if (inet_pton(AF_INET, address.c_str(), &four.sin_addr) == 1) {
        four.sin_family = AF_INET;
        std::memcpy(&storage_, &four, sizeof four);
        return;
    }
    require(inet_pton(AF_INET6, address.c_str(), &six.sin6_addr) == 1, "no address: " + address);
    six.sin6_family = AF_INET6;
    std::memcpy(&storage_, &six, sizeof six);
}

std::vector<std::byte> some_bytes(std::size_t count, unsigned seed) {
    std::vector<std::byte> all(count);
    for (std::size_t i = 0; i < count; ++i)
        all[i] = static_cast<std::byte>((i * 7 + seed * 31 + (i >> 8)) & 0xff);
    return all;
}

DAT_RETURN connect(DAT_EP_HANDLE from, destination to, DAT_CONN_QUAL port, words data,
                   DAT_TIMEOUT timeout) {
    return dat_ep_connect(from, to.get(), port, timeout, static_cast<DAT_COUNT>(data.size()),
                          data.empty() ? nullptr : mutable_data(data), DAT_QOS_BEST_EFFORT,
                          DAT_CONNECT_DEFAULT_FLAG);
}

couple::couple(const DAT_EP_ATTR *attributes, source_location loc)
    : ia(loc)
    , zone(ia.zone(loc))
    , memory(ia, zone, size, DAT_MEM_PRIV_ALL_FLAG, loc)
    , notifier(ia.notifier(loc))
    , arrivals(ia.events(DAT_EVD_CR_FLAG, 8, nullptr, loc))
    , port(fresh_port())
    , active(ia, zone, attributes, nullptr, loc)
    , passive(ia, zone, attributes, nullptr, loc) {
    DAT_PSP_HANDLE made = nullptr;
    require_success(dat_psp_create(ia, port, arrivals, DAT_PSP_CONSUMER_FLAG, &made), loc);
    listener = unique_psp(made, loc);
}

DAT_RETURN couple::call(words data) {
    return connect(active, destination(ia.address()), port, data);
}

DAT_CR_HANDLE couple::request(source_location loc) {
    const DAT_EVENT arrived = next_event(arrivals, DAT_CONNECTION_REQUEST_EVENT, loc);
    const DAT_CR_ARRIVAL_EVENT_DATA &is = arrived.event_data.cr_arrival_event_data;
    require(is.cr_handle != nullptr, "the request has no handle", loc);
    return is.cr_handle;
}

void couple::join_silently(source_location loc) {
    require_success(call(), loc);
    require_success(dat_cr_accept(request(loc), passive, 0, nullptr), loc);
    next_event(active.connection, DAT_CONNECTION_EVENT_ESTABLISHED, loc);
    next_event(passive.connection, DAT_CONNECTION_EVENT_ESTABLISHED, loc);
}

void couple::join(source_location loc) {
    constexpr std::size_t word = 8;
    require_success(post_receive(passive, memory.piece(size - word, word), 101), loc);
    require_success(post_receive(active, memory.piece(size - 2 * word, word), 102), loc);
    join_silently(loc);
    require_success(post_send(active, memory.piece(0, word), 103), loc);
    completed(passive.received, passive, 101, word, loc);
    completed(active.requested, active, 103, word, loc);
    require_success(post_send(passive, memory.piece(0, word), 104), loc);
    completed(active.received, active, 102, word, loc);
    completed(passive.requested, passive, 104, word, loc);
}

void couple::part(source_location loc) {
    require_success(dat_ep_disconnect(active, DAT_CLOSE_GRACEFUL_FLAG), loc);
    next_event(active.connection, DAT_CONNECTION_EVENT_DISCONNECTED, loc);
    next_event(passive.connection, DAT_CONNECTION_EVENT_DISCONNECTED, loc);
    active.is_in(DAT_EP_STATE_DISCONNECTED, loc);
    passive.is_in(DAT_EP_STATE_DISCONNECTED, loc);
}

} // namespace conform

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
                   DAT_CNO_HANDLE of_receives, spot at)
    : received(ia.events(DAT_EVD_DTO_FLAG, 64, of_receives, at))
    , requested(ia.events(DAT_EVD_DTO_FLAG | DAT_EVD_RMR_BIND_FLAG, 64, nullptr, at))
    , connection(ia.events(DAT_EVD_CONNECTION_FLAG, 8, nullptr, at)) {
    DAT_EP_HANDLE made = nullptr;
    done(dat_ep_create(ia, zone, received, requested, connection, attributes, &made), at);
    handle = ep(made, at);
}
endpoint::endpoint(const adapter &ia, DAT_PZ_HANDLE zone, DAT_SRQ_HANDLE queue,
                   const DAT_EP_ATTR *attributes, spot at)
    : received(ia.events(DAT_EVD_DTO_FLAG, 64, nullptr, at))
    , requested(ia.events(DAT_EVD_DTO_FLAG, 64, nullptr, at))
    , connection(ia.events(DAT_EVD_CONNECTION_FLAG, 8, nullptr, at)) {
    DAT_EP_HANDLE made = nullptr;
    done(
        dat_ep_create_with_srq(ia, zone, received, requested, connection, queue, attributes, &made),
        at);
    handle = ep(made, at);
}

DAT_EP_STATE endpoint::state(spot at) const {
    DAT_EP_STATE is_now{};
    DAT_BOOLEAN receives = DAT_FALSE, requests = DAT_FALSE;
    done(dat_ep_get_status(handle, &is_now, &receives, &requests), at);
    return is_now;
}
void endpoint::is_in(DAT_EP_STATE wanted, spot at) const {
    same(state(at), wanted, "the EP's state", at);
    filled<DAT_EP_PARAM> is_now;
    if (is(dat_ep_query(handle, DAT_EP_FIELD_EP_STATE, is_now.out()), DAT_SUCCESS, at))
        same(is_now->ep_state, wanted, "the EP's state by dat_ep_query", at);
}

bool reaches(DAT_EP_HANDLE one, DAT_EP_STATE state, spot at) {
    const auto until = std::chrono::steady_clock::now() + soon;
    DAT_EP_STATE is_now{};
    do {
        DAT_BOOLEAN receives = DAT_FALSE, requests = DAT_FALSE;
        done(dat_ep_get_status(one, &is_now, &receives, &requests), at);
        if (is_now == state)
            return true;
        std::this_thread::sleep_for(milliseconds(1));
    } while (std::chrono::steady_clock::now() < until);
    return same(is_now, state, "the EP's state in the end", at);
}

DAT_RETURN post_receive(DAT_EP_HANDLE to, DAT_LMR_TRIPLET piece, DAT_UINT64 cookie) {
    return dat_ep_post_recv(to, 1, &piece, context(cookie), DAT_COMPLETION_DEFAULT_FLAG);
}
DAT_RETURN post_send(DAT_EP_HANDLE to, DAT_LMR_TRIPLET piece, DAT_UINT64 cookie,
                     DAT_COMPLETION_FLAGS flags) {
    return dat_ep_post_send(to, 1, &piece, context(cookie), flags);
}
DAT_RETURN post_write(DAT_EP_HANDLE to, DAT_LMR_TRIPLET piece, DAT_RMR_TRIPLET target,
                      DAT_UINT64 cookie, DAT_COMPLETION_FLAGS flags) {
    return dat_ep_post_rdma_write(to, 1, &piece, context(cookie), &target, flags);
}
DAT_RETURN post_read(DAT_EP_HANDLE to, DAT_LMR_TRIPLET piece, DAT_RMR_TRIPLET target,
                     DAT_UINT64 cookie, DAT_COMPLETION_FLAGS flags) {
    return dat_ep_post_rdma_read(to, 1, &piece, context(cookie), &target, flags);
}

DAT_DTO_COMPLETION_EVENT_DATA completion(DAT_EVD_HANDLE from, spot at) {
    return next_event(from, DAT_DTO_COMPLETION_EVENT, at).event_data.dto_completion_event_data;
}
void completed(DAT_EVD_HANDLE from, DAT_EP_HANDLE of, DAT_UINT64 cookie, std::size_t length,
               spot at) {
    const DAT_DTO_COMPLETION_EVENT_DATA is = completion(from, at);
    same(is.status, DAT_DTO_SUCCESS, "the status", at);
    same(is.ep_handle, of, "the EP", at);
    same(is.user_cookie.as_64, cookie, "the cookie", at);
    same(is.transfered_length, static_cast<DAT_SEG_LENGTH>(length), "the length", at);
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
    need(inet_pton(AF_INET6, address.c_str(), &six.sin6_addr) == 1, "no address: " + address);
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
                          data.empty() ? nullptr : data_of(data), DAT_QOS_BEST_EFFORT,
                          DAT_CONNECT_DEFAULT_FLAG);
}

couple::couple(const DAT_EP_ATTR *attributes, spot at)
    : ia(at)
    , zone(ia.zone(at))
    , memory(ia, zone, size, DAT_MEM_PRIV_ALL_FLAG, at)
    , notifier(ia.notifier(at))
    , arrivals(ia.events(DAT_EVD_CR_FLAG, 8, nullptr, at))
    , port(fresh_port())
    , active(ia, zone, attributes, nullptr, at)
    , passive(ia, zone, attributes, nullptr, at) {
    DAT_PSP_HANDLE made = nullptr;
    done(dat_psp_create(ia, port, arrivals, DAT_PSP_CONSUMER_FLAG, &made), at);
    listener = psp(made, at);
}

DAT_RETURN couple::call(words data) {
    return connect(active, destination(ia.address()), port, data);
}

DAT_CR_HANDLE couple::request(spot at) {
    const DAT_EVENT arrived = next_event(arrivals, DAT_CONNECTION_REQUEST_EVENT, at);
    const DAT_CR_ARRIVAL_EVENT_DATA &is = arrived.event_data.cr_arrival_event_data;
    need(is.cr_handle != nullptr, "the request has no handle", at);
    return is.cr_handle;
}

void couple::join_silently(spot at) {
    done(call(), at);
    done(dat_cr_accept(request(at), passive, 0, nullptr), at);
    next_event(active.connection, DAT_CONNECTION_EVENT_ESTABLISHED, at);
    next_event(passive.connection, DAT_CONNECTION_EVENT_ESTABLISHED, at);
}

void couple::join(spot at) {
    constexpr std::size_t word = 8;
    done(post_receive(passive, memory.piece(size - word, word), 101), at);
    done(post_receive(active, memory.piece(size - 2 * word, word), 102), at);
    join_silently(at);
    done(post_send(active, memory.piece(0, word), 103), at);
    completed(passive.received, passive, 101, word, at);
    completed(active.requested, active, 103, word, at);
    done(post_send(passive, memory.piece(0, word), 104), at);
    completed(active.received, active, 102, word, at);
    completed(passive.requested, passive, 104, word, at);
}

void couple::part(spot at) {
    done(dat_ep_disconnect(active, DAT_CLOSE_GRACEFUL_FLAG), at);
    next_event(active.connection, DAT_CONNECTION_EVENT_DISCONNECTED, at);
    next_event(passive.connection, DAT_CONNECTION_EVENT_DISCONNECTED, at);
    active.is_in(DAT_EP_STATE_DISCONNECTED, at);
    passive.is_in(DAT_EP_STATE_DISCONNECTED, at);
}

} // namespace conform

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The listener only offers memory, for RDMA Reads and Writes of the other machine. Its CPU does not
// touch this memory, so it does not matter whether the listener's device is coherent. One thread
// handles all events, and serves one peer at a time.

#include "selftest/peer.hpp"

#include "command.hpp"
#include "probe/buffers.hpp"
#include "probe/cm_objects.hpp"

#include <cerrno>
#include <cstdio>
#include <fmt/core.h>
#include <netdb.h>
#include <stdexcept>
#include <system_error>

namespace tools::selftest {
namespace {

using namespace coherdma::probe;
using std::chrono::milliseconds;

constexpr milliseconds POLL_INTERVAL{200};      ///< of the listener, in which it looks for a signal
constexpr milliseconds SETUP_TIMEOUT{10000};    ///< of a peer that has begun to connect
constexpr milliseconds SERVICE_TIMEOUT{600000}; ///< of a peer that does not end its connection
constexpr std::uint8_t MAX_RETRIES = 7;

rdma_conn_param make_conn_param(const private_data &data) {
    rdma_conn_param conn_param = {};
    conn_param.initiator_depth = 1;
    conn_param.responder_resources = 1;
    conn_param.retry_count = MAX_RETRIES;
    conn_param.rnr_retry_count = MAX_RETRIES;
    conn_param.private_data = data.data();
    conn_param.private_data_len = static_cast<std::uint8_t>(data.size());
    return conn_param;
}

using unique_addrinfo = unique_object<addrinfo, freeaddrinfo>;

unique_addrinfo resolve_host(const peer_address &address) {
    addrinfo hints = {}, *list = nullptr;
    hints.ai_socktype = SOCK_STREAM;
    const int error =
        getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(), &hints, &list);
    if (error != 0)
        throw std::runtime_error(gai_strerror(error));
    return unique_addrinfo(list);
}

class cm_peer_connection final : public peer_connection {
  public:
    cm_peer_connection(const std::string &device, const peer_address &address,
                       std::span<std::uint64_t> source, std::span<std::uint64_t> sink,
                       milliseconds timeout)
        : channel_(timeout) {
        const unique_addrinfo destination = resolve_host(address);
        id_ = channel_.bind_to_device(device, destination->ai_family, 0);
        channel_.resolve(id_.get(), destination->ai_addr);
        if (device != ibv_get_device_name(id_->verbs->device))
            throw std::runtime_error("the route to the peer is by " +
                                     std::string(ibv_get_device_name(id_->verbs->device)));
        pd_.reset(throw_if_null(ibv_alloc_pd(id_->verbs), "allocating a PD"));
        cq_.reset(
            throw_if_null(ibv_create_cq(id_->verbs, 4, nullptr, nullptr, 0), "creating a CQ"));
        source_mr_ = register_memory(pd_.get(), source);
        sink_mr_ = register_memory(pd_.get(), sink);
        flush_mr_ = register_memory(pd_.get(), flush_buffer_.words());
        create_qp(id_.get(), pd_.get(), cq_.get());
        const offered_memory memory = request_memory(source.size_bytes());
        remote_ = {.addr = memory.addr, .rkey = memory.rkey};
        requester_ = {.qp = id_->qp, .cq = cq_.get(), .timeout = timeout};
    }
    ~cm_peer_connection() override { rdma_disconnect(id_.get()); }

    int copy() override {
        int error = rdma_write(requester_, source_mr_.get(), remote_, flush_mr_.get());
        if (error == 0)
            error = rdma_read(requester_, remote_, sink_mr_.get());
        // The event of a disconnect may come later than the error that it causes.
        cm_event event = {};
        const bool has_ended =
            error != 0 && channel_.wait(event) && event.type == RDMA_CM_EVENT_DISCONNECTED;
        return has_ended ? ECONNRESET : error;
    }

  private:
    /// Connects, and returns the memory that the peer offers.
    offered_memory request_memory(std::uint64_t min_length) {
        const private_data request = encode_request();
        rdma_conn_param conn_param = make_conn_param(request);
        // With siw this call waits for the answer.
        const bool is_refused = rdma_connect(id_.get(), &conn_param) != 0;
        if (is_refused && errno != ECONNREFUSED)
            throw_error(errno, "connecting");
        cm_event event = {};
        if (!is_refused && !channel_.wait(event))
            throw std::runtime_error("no answer");
        if (is_refused || event.type == RDMA_CM_EVENT_REJECTED)
            throw std::runtime_error("refused; does coherdma selftest --listen run there, and "
                                     "serves no other peer?");
        if (event.type != RDMA_CM_EVENT_ESTABLISHED)
            throw std::runtime_error(rdma_event_str(event.type));
        offered_memory memory = {};
        const std::string problem = parse_offer(event.private_data, min_length, memory);
        if (!problem.empty())
            throw std::runtime_error(problem);
        return memory;
    }

    cm_event_channel channel_;
    flush_buffer flush_buffer_;
    unique_pd pd_;
    unique_cq cq_;
    unique_mr source_mr_, sink_mr_, flush_mr_;
    unique_cm_id id_; ///< destroyed first: its QP uses the others
    remote_memory remote_ = {};
    requester requester_ = {};
};

/// Listens on the default port, or on another one if that is in use.
unique_cm_id listen_on(const cm_event_channel &channel, const std::string &device) {
    unique_cm_id id;
    try {
        id = channel.bind_to_device(device, AF_UNSPEC, DEFAULT_PORT);
    } catch (const std::system_error &error) {
        if (error.code().value() != EADDRINUSE)
            throw;
        id = channel.bind_to_device(device, AF_UNSPEC, 0);
    }
    throw_if_rdma_cm_failed(rdma_listen(id.get(), 1), "listening on the device");
    return id;
}

/// ADDRESS, or with the port if it is not the default one.
std::string format_listener_address(rdma_cm_id *id) {
    char host[NI_MAXHOST];
    sockaddr *const addr = rdma_get_local_addr(id);
    const socklen_t length =
        addr->sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    if (getnameinfo(addr, length, host, sizeof host, nullptr, 0, NI_NUMERICHOST) != 0)
        return "ADDRESS";
    const std::uint16_t port = ntohs(rdma_get_src_port(id));
    if (port == DEFAULT_PORT)
        return host;
    return addr->sa_family == AF_INET ? fmt::format("{}:{}", host, port)
                                      : fmt::format("[{}]:{}", host, port);
}

/// A peer that has asked for a connection: from its request to its end.
class served_peer {
  public:
    served_peer(const cm_event_channel &channel, unique_cm_id id)
        : channel_(channel)
        , id_(std::move(id)) {
        pd_.reset(throw_if_null(ibv_alloc_pd(id_->verbs), "allocating a PD"));
        cq_.reset(
            throw_if_null(ibv_create_cq(id_->verbs, 4, nullptr, nullptr, 0), "creating a CQ"));
        mr_ = register_memory(pd_.get(), buffer_.words());
        create_qp(id_.get(), pd_.get(), cq_.get());
        const remote_memory remote = remote_memory_of(mr_.get());
        const private_data offer =
            encode_offer({.addr = remote.addr, .length = mr_->length, .rkey = remote.rkey});
        rdma_conn_param conn_param = make_conn_param(offer);
        throw_if_rdma_cm_failed(rdma_accept(id_.get(), &conn_param), "accepting the connection");
    }
    served_peer(const served_peer &) = delete;
    served_peer &operator=(const served_peer &) = delete;

    /// Returns when the peer has ended its connection, or is_interrupted().
    void wait_for_end(bool (*is_interrupted)()) {
        auto deadline = std::chrono::steady_clock::now() + SETUP_TIMEOUT;
        while (!is_interrupted()) {
            cm_event event = {};
            if (!channel_.wait(event)) {
                if (std::chrono::steady_clock::now() > deadline)
                    throw std::runtime_error("the peer does not answer");
                continue;
            }
            if (event.type == RDMA_CM_EVENT_CONNECT_REQUEST) {
                // Served later would be too late: the peer's time is limited.
                const unique_cm_id other(event.id);
                rdma_reject(other.get(), nullptr, 0);
            } else if (event.id != id_.get()) {
                continue; // of a peer that was served before
            } else if (event.type == RDMA_CM_EVENT_ESTABLISHED) {
                deadline = std::chrono::steady_clock::now() + SERVICE_TIMEOUT;
                fmt::print("A peer has connected.\n");
                std::fflush(stdout);
            } else if (event.type == RDMA_CM_EVENT_DISCONNECTED) {
                rdma_disconnect(id_.get());
                return;
            } else {
                throw std::runtime_error(std::string("the connection failed: ") +
                                         rdma_event_str(event.type));
            }
        }
    }

  private:
    const cm_event_channel &channel_;
    buffer<BUFFER_SIZE> buffer_;
    unique_pd pd_;
    unique_cq cq_;
    unique_mr mr_;
    unique_cm_id id_; ///< destroyed first: its QP uses the others
};

} // namespace

std::unique_ptr<peer_connection> connect_to_peer(const std::string &device,
                                                 const peer_address &address,
                                                 std::span<std::uint64_t> source,
                                                 std::span<std::uint64_t> sink,
                                                 milliseconds timeout) {
    return std::make_unique<cm_peer_connection>(device, address, source, sink, timeout);
}

int listen_for_peers(const std::string &device, bool is_once, bool (*is_interrupted)()) {
    const cm_event_channel channel(POLL_INTERVAL);
    const unique_cm_id listen_id = listen_on(channel, device);
    fmt::print("Waiting for a peer. On the other machine, type:\n"
               "coherdma selftest DEVICE --peer {}\n",
               format_listener_address(listen_id.get()));
    if (std::fflush(stdout) != 0) {
        std::perror("coherdma: cannot write the address");
        return FAILED;
    }
    while (!is_interrupted()) {
        cm_event event = {};
        if (!channel.wait(event) || event.type != RDMA_CM_EVENT_CONNECT_REQUEST)
            continue;
        unique_cm_id id(event.id);
        int status = SUCCESS;
        try {
            if (const std::string problem = check_request(event.private_data); !problem.empty()) {
                rdma_reject(id.get(), nullptr, 0);
                throw std::runtime_error(problem);
            }
            served_peer(channel, std::move(id)).wait_for_end(is_interrupted);
            fmt::print("A peer was served.\n");
        } catch (const std::exception &error) {
            fmt::print(stderr, "coherdma: a peer was not served: {}\n", error.what());
            status = FAILED;
        }
        std::fflush(stdout);
        if (is_once)
            return status;
    }
    return SUCCESS;
}

} // namespace tools::selftest

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The listener only offers memory, for RDMA Reads and Writes of the other machine. Its CPU does not
// touch this memory, so it does not matter whether the listener's device is coherent. One thread
// handles all events, and serves one peer at a time, with the same memory for all.

#include "selftest/peer.hpp"

#include "command.hpp"
#include "probe/buffers.hpp"
#include "probe/cm_objects.hpp"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <fmt/core.h>
#include <netdb.h>
#include <stdexcept>
#include <sys/time.h>
#include <system_error>

namespace tools::selftest {
namespace {

using namespace coherdma::probe;
using std::chrono::milliseconds;

constexpr milliseconds POLL_INTERVAL{200};   ///< of the listener, in which it looks for a signal
constexpr milliseconds SETUP_TIMEOUT{10000}; ///< of a peer that has begun to connect
constexpr std::chrono::minutes SERVICE_TIMEOUT{10}; ///< of a peer that has connected
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

/// While it exists, a system call ends with EINTR some time after the timeout.
class call_timeout {
  public:
    explicit call_timeout(milliseconds timeout) {
        struct sigaction action = {};
        action.sa_handler = [](int) {
        }; // without SA_RESTART
        sigaction(SIGALRM, &action, &old_action_);
        sigset_t alarm_signal;
        sigemptyset(&alarm_signal);
        sigaddset(&alarm_signal, SIGALRM);
        pthread_sigmask(SIG_UNBLOCK, &alarm_signal, &old_mask_); // the parent may have blocked it
        const auto usec = std::chrono::microseconds(timeout).count();
        const timeval period = {.tv_sec = usec / std::micro::den,
                                .tv_usec = usec % std::micro::den};
        // Again and again: the first signal may come just before the call.
        const itimerval timer = {.it_interval = period, .it_value = period};
        setitimer(ITIMER_REAL, &timer, nullptr);
    }
    ~call_timeout() {
        const itimerval off = {};
        setitimer(ITIMER_REAL, &off, nullptr);
        pthread_sigmask(SIG_SETMASK, &old_mask_, nullptr);
        sigaction(SIGALRM, &old_action_, nullptr);
    }
    call_timeout(const call_timeout &) = delete;
    call_timeout &operator=(const call_timeout &) = delete;

  private:
    struct sigaction old_action_ = {};
    sigset_t old_mask_ = {};
};

/// A loopback address, or one that stands for any of this machine.
bool is_of_this_machine(const sockaddr *addr) {
    if (addr->sa_family == AF_INET6) {
        const in6_addr &ipv6 = reinterpret_cast<const sockaddr_in6 *>(addr)->sin6_addr;
        return IN6_IS_ADDR_LOOPBACK(&ipv6) || IN6_IS_ADDR_UNSPECIFIED(&ipv6);
    }
    const in_addr_t ipv4 = ntohl(reinterpret_cast<const sockaddr_in *>(addr)->sin_addr.s_addr);
    return ipv4 == INADDR_ANY || ipv4 >> IN_CLASSA_NSHIFT == IN_LOOPBACKNET;
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
    cm_peer_connection(const std::string &device, const addrinfo &destination,
                       std::span<std::uint64_t> source, std::span<std::uint64_t> sink,
                       milliseconds timeout)
        : channel_(timeout)
        , timeout_(timeout) {
        if (is_of_this_machine(destination.ai_addr))
            throw std::runtime_error("it is this machine; to test the device with itself, omit "
                                     "--peer");
        id_ = channel_.bind_to_device(device, destination.ai_family);
        channel_.resolve(id_.get(), destination.ai_addr);
        if (device != ibv_get_device_name(id_->verbs->device))
            // Without its name, which may have a GUID.
            throw std::runtime_error("the route to the peer is not by this device");
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
        if (const int cause = channel_.why_ended(milliseconds(0)))
            return cause;
        int error = rdma_write(requester_, source_mr_.get(), remote_, flush_mr_.get());
        if (error == 0)
            error = rdma_read(requester_, remote_, sink_mr_.get());
        if (error == 0)
            return 0;
        // The event of a disconnect may come later than the error that it causes.
        const int cause = channel_.why_ended(timeout_);
        return cause != 0 ? cause : error;
    }

  private:
    /// Connects, and returns the memory that the peer offers.
    offered_memory request_memory(std::uint64_t min_length) {
        const private_data request = encode_request();
        rdma_conn_param conn_param = make_conn_param(request);
        int error = 0;
        {
            // With siw the call waits for the answer, for minutes if there is none.
            const call_timeout limit(timeout_);
            error = rdma_connect(id_.get(), &conn_param) == 0 ? 0 : errno;
        }
        const bool is_refused = error == ECONNREFUSED;
        if (error != 0 && error != EINTR && !is_refused)
            throw_error(error, "connecting");
        cm_event event = {};
        if (error == EINTR || (!is_refused && !channel_.wait(event)))
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
    milliseconds timeout_;
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
    unique_cm_id any_port = channel.bind_to_device(device, AF_UNSPEC);
    unique_cm_id default_port = channel.bind(rdma_get_local_addr(any_port.get()), DEFAULT_PORT);
    // siw learns that a TCP program uses the port when it begins to listen.
    if (default_port && rdma_listen(default_port.get(), 1) == 0)
        return default_port;
    if (errno != EADDRINUSE)
        throw_error(errno, "listening on the device");
    throw_if_rdma_cm_failed(rdma_listen(any_port.get(), 1), "listening on the device");
    return any_port;
}

/// ADDRESS, or with the port if it is not the default one.
std::string format_listener_address(rdma_cm_id *id) {
    char host[NI_MAXHOST];
    sockaddr *const addr = rdma_get_local_addr(id);
    const socklen_t length =
        addr->sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    if (getnameinfo(addr, length, host, sizeof host, nullptr, 0, NI_NUMERICHOST) != 0)
        return "ADDRESS";
    std::string text = host;
    // The peer's link has another name than ours.
    if (const auto scope = text.find('%'); scope != std::string::npos)
        text.replace(scope + 1, std::string::npos, "INTERFACE");
    const std::uint16_t port = ntohs(rdma_get_src_port(id));
    if (port == DEFAULT_PORT)
        return text;
    return addr->sa_family == AF_INET ? fmt::format("{}:{}", text, port)
                                      : fmt::format("[{}]:{}", text, port);
}

struct device_removed : std::runtime_error {
    device_removed()
        : runtime_error("the device was removed") {}
};

/// As channel.wait(), or throws device_removed. The kernel removes the device from ib_uverbs and
/// rdma_cm in any order, and waits for the processes that use the first before it removes it from
/// the second; so only one of them tells.
bool wait_for_event(const cm_event_channel &channel, const removal_watch &watch, cm_event &event) {
    if (watch.is_removed())
        throw device_removed();
    const bool has_event = channel.wait(event);
    if (has_event && event.type == RDMA_CM_EVENT_DEVICE_REMOVAL)
        throw device_removed();
    return has_event;
}

/// The memory that is offered to all peers, in turn. All ids of a device that librdmacm makes have
/// the same context.
struct shared_memory {
    explicit shared_memory(ibv_context *context)
        : pd(throw_if_null(ibv_alloc_pd(context), "allocating a PD"))
        , mr(register_memory(pd.get(), memory.words())) {}
    buffer<BUFFER_SIZE> memory;
    unique_pd pd;
    unique_mr mr;
};

/// A peer that has asked for a connection: from its request to its end.
class served_peer {
  public:
    served_peer(const cm_event_channel &channel, const removal_watch &watch,
                const shared_memory &memory, unique_cm_id id)
        : channel_(channel)
        , watch_(watch)
        , id_(std::move(id)) {
        cq_.reset(
            throw_if_null(ibv_create_cq(id_->verbs, 4, nullptr, nullptr, 0), "creating a CQ"));
        create_qp(id_.get(), memory.pd.get(), cq_.get());
        const remote_memory remote = remote_memory_of(memory.mr.get());
        const private_data offer =
            encode_offer({.addr = remote.addr, .length = memory.mr->length, .rkey = remote.rkey});
        rdma_conn_param conn_param = make_conn_param(offer);
        throw_if_rdma_cm_failed(rdma_accept(id_.get(), &conn_param), "accepting the connection");
    }
    served_peer(const served_peer &) = delete;
    served_peer &operator=(const served_peer &) = delete;

    /// Returns when the peer has ended its connection, or is_interrupted().
    void wait_for_end(bool (*is_interrupted)()) {
        auto deadline = std::chrono::steady_clock::now() + SETUP_TIMEOUT;
        const char *problem = "it does not answer";
        while (!is_interrupted()) {
            if (std::chrono::steady_clock::now() > deadline)
                throw std::runtime_error(problem);
            cm_event event = {};
            if (!wait_for_event(channel_, watch_, event))
                continue;
            if (event.type == RDMA_CM_EVENT_CONNECT_REQUEST) {
                // Served later would be too late: the peer's time is limited.
                const unique_cm_id other(event.id);
                rdma_reject(other.get(), nullptr, 0);
            } else if (event.id != id_.get()) {
                continue; // of a peer that was served before
            } else if (event.type == RDMA_CM_EVENT_ESTABLISHED) {
                deadline = std::chrono::steady_clock::now() + SERVICE_TIMEOUT;
                problem = "it did not end its connection within 10 minutes";
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
    const removal_watch &watch_;
    unique_cq cq_;
    unique_cm_id id_; ///< destroyed first: its QP uses the CQ
};

} // namespace

std::unique_ptr<peer_connection> connect_to_peer(const std::string &device,
                                                 const peer_address &address,
                                                 std::span<std::uint64_t> source,
                                                 std::span<std::uint64_t> sink,
                                                 milliseconds timeout, bool (*is_interrupted)()) {
    const unique_addrinfo list = resolve_host(address);
    std::string first_problem; // of the address that the system prefers
    for (const addrinfo *entry = list.get(); entry && !is_interrupted(); entry = entry->ai_next) {
        try {
            return std::make_unique<cm_peer_connection>(device, *entry, source, sink, timeout);
        } catch (const std::exception &error) {
            if (first_problem.empty())
                first_problem = error.what();
        }
    }
    throw std::runtime_error(first_problem);
}

int listen_for_peers(const std::string &device, bool is_once, bool (*is_interrupted)()) {
    const cm_event_channel channel(POLL_INTERVAL);
    const unique_cm_id listen_id = listen_on(channel, device);
    const removal_watch watch(listen_id->verbs);
    const shared_memory memory(listen_id->verbs);
    fmt::print("Waiting for a peer. On the other machine, type:\n"
               "coherdma selftest DEVICE --peer {}\n",
               format_listener_address(listen_id.get()));
    if (std::fflush(stdout) != 0) {
        std::perror("coherdma: cannot write the address");
        return FAILED;
    }
    while (!is_interrupted()) {
        cm_event event = {};
        if (!wait_for_event(channel, watch, event) || event.type != RDMA_CM_EVENT_CONNECT_REQUEST)
            continue; // the end of a peer that was served before
        unique_cm_id id(event.id);
        int status = SUCCESS;
        try {
            if (const std::string problem = check_request(event.private_data); !problem.empty()) {
                rdma_reject(id.get(), nullptr, 0);
                throw std::runtime_error(problem);
            }
            served_peer(channel, watch, memory, std::move(id)).wait_for_end(is_interrupted);
            fmt::print("A peer was served.\n");
        } catch (const device_removed &) {
            throw;
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

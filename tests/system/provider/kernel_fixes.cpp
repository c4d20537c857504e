// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Kernel faults that the lab's kernel has fixed (scripts/lab/patches/README.md), each provoked
// by many short connections of a device with itself.
//
// kernel_fixes CASE ADDRESS [CONNECTIONS]
//
// Prints a line for each kind of outcome. The status is 0 if all connections end as they must.

#include "../lib/verbs.hpp"

#include <arpa/inet.h>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <infiniband/verbs.h>
#include <linux/filter.h>
#include <linux/if_packet.h>
#include <map>
#include <mutex>
#include <net/ethernet.h>
#include <netinet/in.h>
#include <optional>
#include <rdma/rdma_cma.h>
#include <sched.h>
#include <string>
#include <string_view>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace {

using namespace verbs_test;
using std::chrono::milliseconds;
using clock = std::chrono::steady_clock;

constexpr std::uint16_t first_port = 7300;
constexpr std::uint32_t length = 100;      ///< of a message
constexpr std::uint32_t header_length = 8; ///< of one that siw copies into the packet's header
constexpr std::uint64_t max_reads = 8;
constexpr unsigned slow_ack_cpu = 0, other_cpu = 1;
constexpr std::uint64_t recv_wr_id = 0, send_wr_id = 1;
constexpr milliseconds completion_timeout(4000); ///< how long an end waits for a completion

struct cm_id_deleter {
    void operator()(rdma_cm_id *id) const noexcept {
        if (id->qp != nullptr)
            rdma_destroy_qp(id);
        rdma_destroy_id(id);
    }
};
using cm_id = std::unique_ptr<rdma_cm_id, cm_id_deleter>;

class fd_list {
    std::vector<int> fds_;

  public:
    fd_list() = default;
    fd_list(const fd_list &) = delete;
    fd_list &operator=(const fd_list &) = delete;
    ~fd_list() {
        for (const int fd : fds_)
            close(fd);
    }
    int add(int fd) {
        check(fd < 0 ? -1 : 0, "open");
        fds_.push_back(fd);
        return fd;
    }
};

/// A completion channel that takes the kernel long to notify: many epoll instances watch it. That
/// widens the window between a completion and what the driver does after it.
class slow_channel {
    fd_list fds_;
    std::vector<int> epoll_fds_;
    unique_handle<ibv_comp_channel, ibv_destroy_comp_channel> channel_;

  public:
    explicit slow_channel(ibv_context *context)
        : channel_(check(decltype(channel_)(ibv_create_comp_channel(context)),
                         "ibv_create_comp_channel")) {
        constexpr int num_epoll_fds = 40; // each has all watches
        std::vector<int> channel_fds;
        for (int i = 0; i < num_watches; ++i)
            channel_fds.push_back(fds_.add(dup(channel_->fd)));
        for (int i = 0; i < num_epoll_fds; ++i) {
            const int epoll_fd = fds_.add(epoll_create1(0));
            epoll_fds_.push_back(epoll_fd);
            for (const int channel_fd : channel_fds) {
                epoll_event event{};
                event.events = EPOLLIN | EPOLLET;
                check(epoll_ctl(epoll_fd, EPOLL_CTL_ADD, channel_fd, &event), "epoll_ctl");
            }
        }
    }
    ibv_comp_channel *get() const { return channel_.get(); }
    /// Make it slow again: an instance that is ready already takes no time.
    void reset() const {
        std::array<epoll_event, num_watches> events{};
        for (const int epoll_fd : epoll_fds_)
            epoll_wait(epoll_fd, events.data(), num_watches, 0);
    }

  private:
    static constexpr int num_watches = 200;
};

/// Packet sockets whose filters take long on one processor for a TCP segment that is only an ACK. A
/// system call that sends data there receives their ACK before it continues, and the peer acts on
/// the data meanwhile.
class slow_acks {
    fd_list fds_;

  public:
    slow_acks() {
        constexpr std::uint32_t ip_header_length = 20, flags_offset = 13, ack_only = 0x10;
        constexpr unsigned num_sockets = 500, num_loads = 1000;
        std::vector<sock_filter> filter{
            BPF_STMT(BPF_LD | BPF_W | BPF_ABS, static_cast<std::uint32_t>(SKF_AD_OFF + SKF_AD_CPU)),
            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, slow_ack_cpu, 0, 2),
            BPF_STMT(BPF_LD | BPF_B | BPF_ABS, ip_header_length + flags_offset),
            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ack_only, 1, 0),
            BPF_STMT(BPF_RET | BPF_K, 0),
        };
        filter.resize(filter.size() + num_loads, BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 0));
        filter.push_back(BPF_STMT(BPF_RET | BPF_K, 0));
        const sock_fprog program{static_cast<unsigned short>(filter.size()), filter.data()};
        for (unsigned i = 0; i < num_sockets; ++i) {
            const int fd = fds_.add(socket(AF_PACKET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
            check(setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program),
                  "SO_ATTACH_FILTER");
            sockaddr_ll addr{};
            addr.sll_family = AF_PACKET;
            addr.sll_protocol = htons(ETH_P_IP);
            check(bind(fd, reinterpret_cast<const sockaddr *>(&addr), sizeof addr), "bind");
        }
    }
};

/// One end of a connection; its calls of rdma_cm wait for their events.
struct endpoint {
    std::array<std::byte, 4096> memory{};
    std::atomic<bool> has_messages = false; ///< a server's: it has received all messages
    std::atomic<bool> client_done = false;  ///< a server's: its client's case has ended
    unique_handle<ibv_pd, ibv_dealloc_pd> pd;
    unique_handle<ibv_mr, ibv_dereg_mr> mr;
    unique_handle<ibv_cq, ibv_destroy_cq> cq;
    cm_id id; ///< with its QP: goes first

    /// channel: that of the CQ, which is then armed.
    void create_qp(ibv_comp_channel *channel = nullptr) {
        pd = check(decltype(pd)(ibv_alloc_pd(id->verbs)), "ibv_alloc_pd");
        constexpr int access =
            IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
        mr = check(decltype(mr)(ibv_reg_mr(pd.get(), memory.data(), memory.size(), access)),
                   "ibv_reg_mr");
        cq =
            check(decltype(cq)(ibv_create_cq(id->verbs, 64, nullptr, channel, 0)), "ibv_create_cq");
        if (channel != nullptr)
            check(ibv_req_notify_cq(cq.get(), 0), "ibv_req_notify_cq");
        ibv_qp_init_attr attr{};
        attr.qp_type = IBV_QPT_RC;
        attr.send_cq = attr.recv_cq = cq.get();
        attr.cap = {16, 16, 1, 1, 0};
        check(rdma_create_qp(id.get(), pd.get(), &attr), "rdma_create_qp");
    }
    ibv_sge make_sge() const {
        return {reinterpret_cast<std::uintptr_t>(memory.data()), length, mr->lkey};
    }
    void post_recv() const {
        ibv_sge sge = make_sge();
        ibv_recv_wr wr{recv_wr_id, nullptr, &sge, 1}, *bad_wr = nullptr;
        check(ibv_post_recv(id->qp, &wr, &bad_wr), "ibv_post_recv");
    }
    int post_send(ibv_wr_opcode opcode, std::uint64_t wr_id = send_wr_id,
                  const endpoint *peer = nullptr, std::uint32_t message_length = length) const {
        ibv_sge sge = make_sge();
        sge.length = message_length;
        ibv_send_wr wr{}, *bad_wr = nullptr;
        wr.wr_id = wr_id;
        wr.opcode = opcode;
        wr.sg_list = &sge;
        wr.num_sge = 1;
        wr.send_flags = IBV_SEND_SIGNALED;
        if (peer != nullptr) {
            wr.wr.rdma.remote_addr = reinterpret_cast<std::uintptr_t>(peer->memory.data());
            wr.wr.rdma.rkey = peer->mr->rkey;
        }
        return ibv_post_send(id->qp, &wr, &bad_wr);
    }
    bool poll(ibv_wc &wc, milliseconds timeout) const {
        const auto deadline = clock::now() + timeout;
        do {
            if (const int count = ibv_poll_cq(cq.get(), 1, &wc))
                return count == 1;
            std::this_thread::yield();
        } while (clock::now() < deadline);
        return false;
    }
    /// How the Send ends, among flushed receives.
    std::string wait_send_status() const {
        ibv_wc wc{};
        while (poll(wc, completion_timeout))
            if (wc.wr_id == send_wr_id)
                return ibv_wc_status_str(wc.status);
        return "no completion";
    }
    void to_error() const {
        ibv_qp_attr attr{};
        attr.qp_state = IBV_QPS_ERR;
        check(ibv_modify_qp(id->qp, &attr, IBV_QP_STATE), "ibv_modify_qp");
    }
    /// How the next completed WR ends.
    std::string wait_status() const {
        ibv_wc wc{};
        return poll(wc, completion_timeout) ? ibv_wc_status_str(wc.status) : "no completion";
    }
};

rdma_conn_param make_conn_param() {
    rdma_conn_param param{};
    param.responder_resources = param.initiator_depth = max_reads;
    param.retry_count = param.rnr_retry_count = 7;
    return param;
}

cm_id create_id() {
    rdma_cm_id *id = nullptr;
    check(rdma_create_id(nullptr, &id, nullptr, RDMA_PS_TCP), "rdma_create_id");
    return cm_id(id);
}

enum class end { none, server, client };

/// For a client's case: its server's endpoint, which lives until the case has ended.
using get_server_function = std::function<endpoint &()>;

/// What a case does at each end once the connection is established. The text is the outcome; empty:
/// this end has none.
struct kernel_fix {
    std::string_view name;
    std::string (*server)(endpoint &);
    std::string (*client)(endpoint &, const get_server_function &);
    unsigned num_parallel = 1; ///< servers, each with a client, that connect at the same time
    bool slow_server = false;  ///< the server's CQ is armed, and to notify it takes long
    bool slow_client = false;  ///< likewise the client's
    /// This end has a processor to itself, on which it takes the kernel long to receive ACKs.
    end slow_ack_end = end::none;
};

/// The outcomes of all connections, by how often each was.
class outcomes {
    std::mutex lock_;
    std::map<std::string, unsigned> counts_;

  public:
    void add(const std::string &outcome) {
        const std::lock_guard guard(lock_);
        ++counts_[outcome];
    }
    /// Whether there are none but the expected one.
    bool print(std::string_view expected) const {
        for (const auto &[outcome, count] : counts_)
            std::printf("%u %s\n", count, outcome.c_str());
        return counts_.size() == 1 && counts_.begin()->first == expected;
    }
};

/// A server and its client, which connect one time after the other.
class client_server {
    const kernel_fix &fix_;
    sockaddr_in addr_{};
    unsigned connections_;
    outcomes &outcomes_;
    cm_id listener_ = create_id();
    std::unique_ptr<slow_channel> channel_;      ///< of the end that is notified
    std::atomic<endpoint *> accepted_ = nullptr; ///< until the client has ended its connection
    std::atomic<bool> client_done_ = false;

  public:
    client_server(const kernel_fix &fix, const sockaddr_in &addr, unsigned connections,
                  outcomes &counted)
        : fix_(fix)
        , addr_(addr)
        , connections_(connections)
        , outcomes_(counted) {
        check(rdma_bind_addr(listener_.get(), reinterpret_cast<sockaddr *>(&addr_)),
              "rdma_bind_addr");
        check(rdma_listen(listener_.get(), 8), "rdma_listen");
    }
    void run_server() {
        select_processor(end::server);
        for (unsigned i = 0; i < connections_; ++i)
            run_step([this] { accept_one_client(); }, "server");
    }
    void run_client() {
        select_processor(end::client);
        for (unsigned i = 0; i < connections_; ++i) {
            run_step([this] { connect_one_client(); }, "client");
            client_done_ = true;
            client_done_.notify_one();
        }
    }

  private:
    void select_processor(end role) const {
        if (fix_.slow_ack_end == end::none)
            return;
        cpu_set_t set;
        CPU_ZERO(&set);
        CPU_SET(fix_.slow_ack_end == role ? slow_ack_cpu : other_cpu, &set);
        check(sched_setaffinity(0, sizeof set, &set), "sched_setaffinity");
    }
    void run_step(const std::function<void()> &step, const char *role) {
        try {
            step();
        } catch (const std::exception &error) {
            outcomes_.add(concat(role, ": ", error.what()));
        }
    }
    void add_outcome(const std::string &outcome) {
        if (!outcome.empty())
            outcomes_.add(outcome);
    }
    ibv_comp_channel *get_channel(ibv_context *context) {
        if (!channel_)
            channel_ = std::make_unique<slow_channel>(context);
        channel_->reset();
        return channel_->get();
    }
    void accept_one_client() {
        endpoint server;
        rdma_cm_id *id = nullptr;
        check(rdma_get_request(listener_.get(), &id), "rdma_get_request");
        server.id.reset(id);
        try {
            server.create_qp(fix_.slow_server ? get_channel(id->verbs) : nullptr);
            server.post_recv();
            server.post_recv();
            rdma_conn_param param = make_conn_param();
            accepted_ = &server;
            check(rdma_accept(id, &param), "rdma_accept");
            add_outcome(fix_.server(server));
        } catch (const std::exception &error) {
            outcomes_.add(concat("server: ", error.what()));
        }
        rdma_disconnect(id);
        server.id.reset(); // as soon as the case ends; the memory stays for the client
        client_done_.wait(false);
        client_done_ = false;
        accepted_ = nullptr;
    }
    void connect_one_client() {
        endpoint client;
        client.id = create_id();
        constexpr int timeout_ms = 5000;
        check(rdma_resolve_addr(client.id.get(), nullptr, reinterpret_cast<sockaddr *>(&addr_),
                                timeout_ms),
              "rdma_resolve_addr");
        check(rdma_resolve_route(client.id.get(), timeout_ms), "rdma_resolve_route");
        client.create_qp(fix_.slow_client ? get_channel(client.id->verbs) : nullptr);
        client.post_recv();
        rdma_conn_param param = make_conn_param();
        check(rdma_connect(client.id.get(), &param), "rdma_connect");
        add_outcome(fix_.client(client, [this]() -> endpoint & { return *accepted_; }));
        rdma_disconnect(client.id.get());
    }
};

const std::string success = "success"; ///< as ibv_wc_status_str()

/// The server's part of cases in which only the client acts.
std::string wait_for_client(endpoint &server) {
    server.client_done.wait(false);
    return {};
}
void release_server(endpoint &server) {
    server.client_done = true;
    server.client_done.notify_one();
}

// The cases: for each, one function in the server's thread and one in the client's. The server is
// the responder of the connection, and has two receives posted; the client has one.

/// The server posts a Send as soon as it is established: the client is established too, and
/// receives it. The server disconnects when it returns, so it waits for the Send's completion.
std::string send_and_wait_for_end(endpoint &server) {
    if (const int error = server.post_send(IBV_WR_SEND))
        return concat("server: ibv_post_send: ", std::strerror(error));
    ibv_wc wc{};
    while (server.poll(wc, completion_timeout) && wc.opcode != IBV_WC_SEND &&
           wc.status == IBV_WC_SUCCESS)
        ;
    return {};
}
std::string receive_message(endpoint &client, const get_server_function &) {
    return client.wait_status();
}

/// The client posts a Send as soon as it is established: the server receives it.
std::string receive_one_message(endpoint &server) {
    return server.wait_status();
}
std::string send_one_message(endpoint &client, const get_server_function &) {
    if (const int error = client.post_send(IBV_WR_SEND))
        return concat("client: ibv_post_send: ", std::strerror(error));
    client.wait_status(); // of the Send
    ibv_wc wc{};
    client.poll(wc, 2 * completion_timeout); // its receive, flushed when the server disconnects
    return {};
}

/// The server gets the client's Send, moves its QP to the error state, and returns: then it
/// disconnects and destroys the QP. The Send's completion at the client must be a success all the
/// same.
std::string receive_and_disconnect(endpoint &server) {
    ibv_wc wc{};
    server.poll(wc, completion_timeout);
    server.to_error();
    return {};
}
std::string send_and_wait(endpoint &client, const get_server_function &) {
    if (const int error = client.post_send(IBV_WR_SEND))
        return concat("client: ibv_post_send: ", std::strerror(error));
    return client.wait_send_status();
}
/// The same, with a pause between post and poll, in which the kernel has the client's processor.
std::string send_and_pause(endpoint &client, const get_server_function &) {
    if (const int error = client.post_send(IBV_WR_SEND))
        return concat("client: ibv_post_send: ", std::strerror(error));
    std::this_thread::sleep_for(milliseconds(5));
    return client.wait_send_status();
}

/// The client posts two Sends, and moves its QP to the error state once the server has received
/// them: the second completes with success, since the server has acknowledged it.
std::string receive_two_messages(endpoint &server) {
    ibv_wc wc{};
    for (int messages = 0; messages < 2; ++messages)
        server.poll(wc, completion_timeout);
    server.has_messages = true;
    server.has_messages.notify_one();
    return wait_for_client(server);
}
std::string send_and_set_error(endpoint &client, const get_server_function &get_server) {
    endpoint &server = get_server();
    // rxe's send task is still busy with the first Send's completion when the second is
    // acknowledged.
    constexpr std::uint64_t first_wr_id = send_wr_id + 1;
    check(client.post_send(IBV_WR_SEND, first_wr_id), "ibv_post_send");
    if (const int error = client.post_send(IBV_WR_SEND))
        return concat("client: ibv_post_send: ", std::strerror(error));
    server.has_messages.wait(false);
    client.to_error();
    std::string outcome = client.wait_send_status();
    release_server(server);
    return outcome;
}

/// The server disconnects while the client posts RDMA Reads: no Read completes twice. The time
/// until the disconnection is another one for each connection.
std::string disconnect_soon(endpoint &) {
    thread_local unsigned num_calls = 0;
    const auto deadline = clock::now() + std::chrono::microseconds(50 * (num_calls++ % 20));
    while (clock::now() < deadline)
        ;
    return {};
}
std::string read_until_flushed(endpoint &client, const get_server_function &get_server) {
    constexpr unsigned max_posts = 20000;
    const endpoint &server = get_server();
    std::map<std::uint64_t, unsigned> completions; // of each Read, by its wr_id
    std::uint64_t posted = 0, pending = 0;
    // False: a Read has failed, or there is no completion within the timeout.
    const auto poll_read = [&](milliseconds timeout) {
        ibv_wc wc{};
        if (!client.poll(wc, timeout))
            return false;
        if (wc.wr_id != recv_wr_id) {
            ++completions[wc.wr_id];
            pending -= pending > 0;
        }
        return wc.status == IBV_WC_SUCCESS || wc.wr_id == recv_wr_id;
    };
    bool connected = true;
    while (connected && posted < max_posts) {
        while (connected && pending < max_reads) {
            connected = client.post_send(IBV_WR_RDMA_READ, posted + 1, &server) == 0;
            posted += connected;
            pending += connected;
        }
        while (connected && pending == max_reads)
            connected = poll_read(milliseconds(200));
    }
    ibv_wc wc{};
    while (client.poll(wc, milliseconds(20)))
        if (wc.wr_id != recv_wr_id)
            ++completions[wc.wr_id];
    for (const auto &[wr_id, count] : completions)
        if (count > 1)
            return concat("a Read completes ", count, " times");
    return success;
}

/// Posts a signaled request of a few bytes again and again, each after the one before has
/// completed. The outcome: that of the first request that fails, or a success.
std::string post_repeatedly(const endpoint &requester, ibv_wr_opcode opcode,
                            const endpoint &responder,
                            const std::function<bool(unsigned)> &should_continue) {
    for (unsigned count = 0; should_continue(count); ++count) {
        if (const int error = requester.post_send(opcode, send_wr_id, &responder, header_length))
            return concat("ibv_post_send: ", std::strerror(error));
        if (const std::string outcome = requester.wait_send_status(); outcome != success)
            return outcome;
    }
    return success;
}
/// The client reads a few bytes from the server while the server posts Writes of its memory: siw's
/// transmit thread copies the data of the Read responses, and must not take them from the memory of
/// the process that posts.
std::string read_beside_writes(endpoint &client, const get_server_function &get_server) {
    constexpr unsigned num_reads = 20000;
    endpoint &server = get_server();
    std::atomic<bool> done = false;
    std::string writes_outcome;
    std::thread writer([&] {
        writes_outcome =
            post_repeatedly(server, IBV_WR_RDMA_WRITE, client, [&](unsigned) { return !done; });
    });
    std::string outcome = post_repeatedly(client, IBV_WR_RDMA_READ, server,
                                          [](unsigned count) { return count < num_reads; });
    done = true;
    writer.join();
    release_server(server);
    return outcome == success ? writes_outcome : outcome;
}

/// An MW of type 2 of an endpoint.
class type2_mw {
    const endpoint &ep_;
    unique_handle<ibv_mr, ibv_dereg_mr> mr_;
    unique_handle<ibv_mw, ibv_dealloc_mw> mw_;

  public:
    explicit type2_mw(endpoint &ep)
        : ep_(ep) {
        constexpr int access =
            IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_MW_BIND;
        mr_ = check(
            decltype(mr_)(ibv_reg_mr(ep.pd.get(), ep.memory.data(), ep.memory.size(), access)),
            "ibv_reg_mr");
        mw_ = check(decltype(mw_)(ibv_alloc_mw(ep.pd.get(), IBV_MW_TYPE_2)), "ibv_alloc_mw");
    }
    std::string bind() {
        ibv_send_wr wr{};
        wr.opcode = IBV_WR_BIND_MW;
        wr.bind_mw.mw = mw_.get();
        wr.bind_mw.rkey = ibv_inc_rkey(mw_->rkey);
        wr.bind_mw.bind_info = {mr_.get(), reinterpret_cast<std::uintptr_t>(ep_.memory.data()),
                                length, IBV_ACCESS_REMOTE_WRITE};
        std::string status = post_and_wait(ep_, wr);
        mw_->rkey = wr.bind_mw.rkey;
        return status;
    }
    /// By its own endpoint, or by the Send of the peer.
    std::string invalidate(const endpoint &requester) const {
        ibv_send_wr wr{};
        wr.opcode = &requester == &ep_ ? IBV_WR_LOCAL_INV : IBV_WR_SEND_WITH_INV;
        wr.invalidate_rkey = mw_->rkey;
        return post_and_wait(requester, wr);
    }

  private:
    static std::string post_and_wait(const endpoint &requester, ibv_send_wr &wr) {
        wr.wr_id = send_wr_id;
        wr.send_flags = IBV_SEND_SIGNALED;
        ibv_send_wr *bad_wr = nullptr;
        if (const int error = ibv_post_send(requester.id->qp, &wr, &bad_wr))
            return concat("ibv_post_send: ", std::strerror(error));
        return requester.wait_send_status();
    }
};

/// The client's MW is bound and invalidated twice, by IBV_WR_LOCAL_INV of the client or by
/// IBV_WR_SEND_WITH_INV of the server. The second time it is not bound, so there is nothing to
/// invalidate, and that succeeds.
std::string invalidate_twice(endpoint &client, const get_server_function &get_server) {
    endpoint &server = get_server();
    type2_mw mw(client);
    for (int sends = 0; sends < 3; ++sends) // of the server, below
        client.post_recv();
    const std::array<std::array<const endpoint *, 2>, 3> invalidators{
        {{&client, &client}, {&server, &client}, {&server, &server}}};
    std::string outcome = success;
    for (const auto &[first, second] : invalidators)
        for (const std::string &status : {mw.bind(), mw.invalidate(*first), mw.invalidate(*second)})
            if (outcome == success)
                outcome = status;
    release_server(server);
    return outcome;
}

const std::array kernel_fixes{
    kernel_fix{.name = "responder-sends-first",
               .server = send_and_wait_for_end,
               .client = receive_message,
               .num_parallel = 6},
    kernel_fix{.name = "initiator-sends-at-once",
               .server = receive_one_message,
               .client = send_one_message,
               .slow_ack_end = end::server},
    kernel_fix{.name = "receiver-leaves",
               .server = receive_and_disconnect,
               .client = send_and_pause,
               .slow_server = true},
    kernel_fix{.name = "receiver-leaves-at-once",
               .server = receive_and_disconnect,
               .client = send_and_wait,
               .slow_ack_end = end::client},
    kernel_fix{.name = "sender-leaves",
               .server = receive_two_messages,
               .client = send_and_set_error,
               .slow_client = true},
    kernel_fix{.name = "reads-complete-once",
               .server = disconnect_soon,
               .client = read_until_flushed,
               .num_parallel = 2},
    kernel_fix{
        .name = "reads-beside-writes", .server = wait_for_client, .client = read_beside_writes},
    kernel_fix{.name = "invalidate-twice", .server = wait_for_client, .client = invalidate_twice},
};

/// The program's exit status: 0 if each connection had the outcome "success". connections: in all.
int run_case(std::string_view name, const char *address, unsigned connections) {
    const kernel_fix *fix = nullptr;
    for (const kernel_fix &each : kernel_fixes)
        if (each.name == name)
            fix = &each;
    sockaddr_in addr{};
    addr.sin_family = AF_INET;
    if (fix == nullptr || inet_pton(AF_INET, address, &addr.sin_addr) != 1)
        throw failure(concat("no such case or address: ", name, " ", address));
    std::optional<slow_acks> slow;
    if (fix->slow_ack_end != end::none)
        slow.emplace();
    outcomes counted;
    std::vector<std::unique_ptr<client_server>> client_servers;
    for (unsigned i = 0; i < fix->num_parallel; ++i) {
        addr.sin_port = htons(static_cast<std::uint16_t>(first_port + i));
        client_servers.push_back(
            std::make_unique<client_server>(*fix, addr, connections / fix->num_parallel, counted));
    }
    std::vector<std::thread> threads;
    for (const auto &each : client_servers) {
        threads.emplace_back([&each] { each->run_server(); });
        threads.emplace_back([&each] { each->run_client(); });
    }
    for (std::thread &thread : threads)
        thread.join();
    return counted.print(success) ? 0 : 1;
}

} // namespace

int main(int argc, char **argv) {
    constexpr unsigned default_connections = 600, time_limit_s = 300;
    if (argc < 3 || argc > 4) {
        std::fprintf(stderr, "Usage: %s CASE ADDRESS [CONNECTIONS]\n", *argv);
        return 2;
    }
    try {
        alarm(time_limit_s); // a connection that hangs
        return run_case(argv[1], argv[2],
                        argc > 3 ? static_cast<unsigned>(std::strtoul(argv[3], nullptr, 10))
                                 : default_connections);
    } catch (const std::exception &error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 2;
    }
}

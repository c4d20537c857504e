// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Kernel faults that the lab's kernel has fixed (scripts/lab/kernel/KERNEL_FIXES.md), each provoked
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
#include <map>
#include <mutex>
#include <netinet/in.h>
#include <rdma/rdma_cma.h>
#include <string>
#include <string_view>
#include <sys/epoll.h>
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
constexpr std::uint64_t recv_wr_id = 0, send_wr_id = 1;
constexpr milliseconds patience(4000); ///< how long an end waits for a completion

struct releases {
    void operator()(rdma_cm_id *id) const noexcept {
        if (id->qp != nullptr)
            rdma_destroy_qp(id);
        rdma_destroy_id(id);
    }
};
using cm_id = std::unique_ptr<rdma_cm_id, releases>;

/// A completion channel that takes the kernel long to notify: many epoll instances watch it. That
/// widens the window between a completion and what the driver does after it.
class slow_channel {
    struct closes {
        std::vector<int> fds;
        closes() = default;
        closes(const closes &) = delete;
        closes &operator=(const closes &) = delete;
        ~closes() {
            for (const int fd : fds)
                close(fd);
        }
    };
    closes opened_;
    std::vector<int> instances_;
    owned<ibv_comp_channel, ibv_destroy_comp_channel> channel_;

  public:
    explicit slow_channel(ibv_context *context)
        : channel_(check(decltype(channel_)(ibv_create_comp_channel(context)),
                         "ibv_create_comp_channel")) {
        constexpr int instances = 40; // each has all watches
        std::vector<int> copies;
        for (int i = 0; i < watches; ++i)
            copies.push_back(opened(dup(channel_->fd)));
        for (int i = 0; i < instances; ++i) {
            const int instance = opened(epoll_create1(0));
            instances_.push_back(instance);
            for (const int copy : copies) {
                epoll_event event{};
                event.events = EPOLLIN | EPOLLET;
                check(epoll_ctl(instance, EPOLL_CTL_ADD, copy, &event), "epoll_ctl");
            }
        }
    }
    ibv_comp_channel *get() const { return channel_.get(); }
    /// Make it slow again: an instance that is ready already takes no time.
    void reset() const {
        std::array<epoll_event, watches> events{};
        for (const int instance : instances_)
            epoll_wait(instance, events.data(), watches, 0);
    }

  private:
    static constexpr int watches = 200;
    int opened(int fd) {
        check(fd < 0 ? -1 : 0, "open");
        opened_.fds.push_back(fd);
        return fd;
    }
};

/// One end of a connection; its calls of rdma_cm wait for their events.
struct end {
    std::array<std::byte, 4096> memory{};
    std::atomic<bool> received = false; ///< it has the message
    owned<ibv_pd, ibv_dealloc_pd> pd;
    owned<ibv_mr, ibv_dereg_mr> mr;
    owned<ibv_cq, ibv_destroy_cq> cq;
    cm_id id; ///< with its QP: goes first

    /// events: the completion channel, for which the CQ is armed.
    void create_qp(ibv_comp_channel *events = nullptr) {
        pd = check(decltype(pd)(ibv_alloc_pd(id->verbs)), "ibv_alloc_pd");
        constexpr int access =
            IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
        mr = check(decltype(mr)(ibv_reg_mr(pd.get(), memory.data(), memory.size(), access)),
                   "ibv_reg_mr");
        cq = check(decltype(cq)(ibv_create_cq(id->verbs, 64, nullptr, events, 0)), "ibv_create_cq");
        if (events != nullptr)
            check(ibv_req_notify_cq(cq.get(), 0), "ibv_req_notify_cq");
        ibv_qp_init_attr attr{};
        attr.qp_type = IBV_QPT_RC;
        attr.send_cq = attr.recv_cq = cq.get();
        attr.cap = {16, 16, 1, 1, 0};
        check(rdma_create_qp(id.get(), pd.get(), &attr), "rdma_create_qp");
    }
    ibv_sge sge() const {
        return {reinterpret_cast<std::uintptr_t>(memory.data()), length, mr->lkey};
    }
    void post_recv() const {
        ibv_sge sge = this->sge();
        ibv_recv_wr wr{recv_wr_id, nullptr, &sge, 1}, *bad_wr = nullptr;
        check(ibv_post_recv(id->qp, &wr, &bad_wr), "ibv_post_recv");
    }
    int post_send(ibv_wr_opcode opcode, std::uint64_t wr_id = send_wr_id, const end *peer = nullptr,
                  std::uint32_t bytes = length) const {
        ibv_sge sge = this->sge();
        sge.length = bytes;
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
    std::string send_completion() const {
        ibv_wc wc{};
        while (poll(wc, patience))
            if (wc.wr_id == send_wr_id)
                return ibv_wc_status_str(wc.status);
        return "no completion";
    }
    void to_error() const {
        ibv_qp_attr attr{};
        attr.qp_state = IBV_QPS_ERR;
        check(ibv_modify_qp(id->qp, &attr, IBV_QP_STATE), "ibv_modify_qp");
    }
    std::string completion() const {
        ibv_wc wc{};
        return poll(wc, patience) ? ibv_wc_status_str(wc.status) : "no completion";
    }
};

rdma_conn_param parameters() {
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

/// What a case does at each end once the connection is established. The text is the outcome; empty:
/// this end has none.
struct kernel_fix {
    std::string_view name;
    std::string (*server)(end &);
    std::string (*client)(end &, const std::function<end &()> &);
    unsigned pairs;           ///< servers, each with a client, that connect at the same time
    bool slow_server = false; ///< the server's CQ is armed, and to notify it takes long
    bool slow_client = false; ///< likewise the client's
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
class pair {
    const kernel_fix &tried_;
    sockaddr_in where_{};
    unsigned connections_;
    outcomes &outcomes_;
    cm_id listener_ = create_id();
    std::unique_ptr<slow_channel> channel_; ///< of the end that is notified
    std::atomic<end *> accepted_ = nullptr; ///< until the client has ended its connection
    std::atomic<bool> client_gone_ = false;

  public:
    pair(const kernel_fix &tried, const sockaddr_in &where, unsigned connections, outcomes &all)
        : tried_(tried)
        , where_(where)
        , connections_(connections)
        , outcomes_(all) {
        check(rdma_bind_addr(listener_.get(), reinterpret_cast<sockaddr *>(&where_)),
              "rdma_bind_addr");
        check(rdma_listen(listener_.get(), 8), "rdma_listen");
    }
    void serve() {
        for (unsigned i = 0; i < connections_; ++i)
            run([this] { serve_once(); }, "server");
    }
    void connect() {
        for (unsigned i = 0; i < connections_; ++i) {
            run([this] { connect_once(); }, "client");
            client_gone_ = true;
            client_gone_.notify_one();
        }
    }

  private:
    void run(const std::function<void()> &step, const char *who) {
        try {
            step();
        } catch (const std::exception &error) {
            outcomes_.add(text(who, ": ", error.what()));
        }
    }
    void add(const std::string &outcome) {
        if (!outcome.empty())
            outcomes_.add(outcome);
    }
    ibv_comp_channel *channel(ibv_context *context) {
        if (!channel_)
            channel_ = std::make_unique<slow_channel>(context);
        channel_->reset();
        return channel_->get();
    }
    void serve_once() {
        end server;
        rdma_cm_id *id = nullptr;
        check(rdma_get_request(listener_.get(), &id), "rdma_get_request");
        server.id.reset(id);
        try {
            server.create_qp(tried_.slow_server ? channel(id->verbs) : nullptr);
            server.post_recv();
            server.post_recv();
            rdma_conn_param param = parameters();
            accepted_ = &server;
            check(rdma_accept(id, &param), "rdma_accept");
            add(tried_.server(server));
        } catch (const std::exception &error) {
            outcomes_.add(text("server: ", error.what()));
        }
        rdma_disconnect(id);
        server.id.reset(); // as soon as the case ends; the memory stays for the client
        client_gone_.wait(false);
        client_gone_ = false;
        accepted_ = nullptr;
    }
    void connect_once() {
        end client;
        client.id = create_id();
        constexpr int time = 5000;
        check(rdma_resolve_addr(client.id.get(), nullptr, reinterpret_cast<sockaddr *>(&where_),
                                time),
              "rdma_resolve_addr");
        check(rdma_resolve_route(client.id.get(), time), "rdma_resolve_route");
        client.create_qp(tried_.slow_client ? channel(client.id->verbs) : nullptr);
        client.post_recv();
        rdma_conn_param param = parameters();
        check(rdma_connect(client.id.get(), &param), "rdma_connect");
        add(tried_.client(client, [this]() -> end & { return *accepted_; }));
        rdma_disconnect(client.id.get());
    }
};

const std::string success = "success";

/// The responder posts a Send as soon as it is established: the initiator is established too, and
/// receives it.
std::string send_and_wait(end &server) {
    if (const int error = server.post_send(IBV_WR_SEND))
        return text("server: ibv_post_send: ", std::strerror(error));
    ibv_wc wc{};
    while (server.poll(wc, patience) && wc.opcode != IBV_WC_SEND && wc.status == IBV_WC_SUCCESS)
        ;
    return {};
}
std::string receive(end &client, const std::function<end &()> &) {
    return client.completion();
}

/// The initiator posts a Send as soon as it is established: the responder receives it.
std::string receive_one(end &server) {
    return server.completion();
}
std::string send_alone(end &client, const std::function<end &()> &) {
    if (const int error = client.post_send(IBV_WR_SEND))
        return text("client: ibv_post_send: ", std::strerror(error));
    client.completion();
    ibv_wc wc{};
    client.poll(wc, patience); // flushed when the server disconnects
    return {};
}

/// The receiver disconnects and destroys its QP on the message: the sender's completion is a
/// success.
std::string receive_and_leave(end &server) {
    ibv_wc wc{};
    server.poll(wc, patience);
    server.to_error();
    return {};
}
std::string send_last(end &client, const std::function<end &()> &) {
    if (const int error = client.post_send(IBV_WR_SEND))
        return text("client: ibv_post_send: ", std::strerror(error));
    std::this_thread::sleep_for(milliseconds(5)); // the kernel has this processor meanwhile
    return client.send_completion();
}

/// The sender moves its QP to the error state once the receiver has the message: its completion is
/// a success, since the message was acknowledged before.
std::string receive_and_tell(end &server) {
    ibv_wc wc{};
    for (int messages = 0; messages < 2; ++messages)
        server.poll(wc, patience);
    server.received = true;
    server.received.notify_one();
    server.received.wait(true); // until the client is done
    return {};
}
std::string send_and_leave(end &client, const std::function<end &()> &peer) {
    end &server = peer();
    // The send task is busy with the first message's completion when the second is acknowledged.
    check(client.post_send(IBV_WR_SEND, send_wr_id + 1), "ibv_post_send");
    if (const int error = client.post_send(IBV_WR_SEND))
        return text("client: ibv_post_send: ", std::strerror(error));
    server.received.wait(false);
    client.to_error();
    std::string outcome = client.send_completion();
    server.received = false;
    server.received.notify_one();
    return outcome;
}

/// The peer disconnects while Reads are posted: none completes twice.
std::string leave_soon(end &) {
    thread_local unsigned turn = 0;
    const auto deadline = clock::now() + std::chrono::microseconds(50 * (turn++ % 20));
    while (clock::now() < deadline)
        ;
    return {};
}
std::string read_until_flushed(end &client, const std::function<end &()> &peer) {
    const end &server = peer();
    std::map<std::uint64_t, unsigned> completions;
    std::uint64_t posted = 0, pending = 0;
    const auto take = [&](milliseconds timeout) {
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
    while (connected && posted < 20000) {
        while (connected && pending < max_reads) {
            connected = client.post_send(IBV_WR_RDMA_READ, posted + 1, &server) == 0;
            posted += connected;
            pending += connected;
        }
        while (connected && pending == max_reads)
            connected = take(milliseconds(200));
    }
    ibv_wc wc{};
    while (client.poll(wc, milliseconds(20)))
        if (wc.wr_id != recv_wr_id)
            ++completions[wc.wr_id];
    for (const auto &[wr_id, count] : completions)
        if (count > 1)
            return text("a Read completes ", count, " times");
    return success;
}

/// The client reads a few bytes while the server posts Writes: siw's transmit thread copies the
/// data of the responses, and must not take them from the memory of the process that posts.
std::string wait_for_client(end &server) {
    server.received.wait(false);
    return {};
}
std::string request_repeatedly(const end &from, ibv_wr_opcode opcode, const end &to,
                               const std::function<bool(unsigned)> &more) {
    for (unsigned count = 0; more(count); ++count) {
        if (const int error = from.post_send(opcode, send_wr_id, &to, header_length))
            return text("ibv_post_send: ", std::strerror(error));
        if (const std::string outcome = from.send_completion(); outcome != success)
            return outcome;
    }
    return success;
}
std::string read_beside_writes(end &client, const std::function<end &()> &peer) {
    constexpr unsigned reads = 20000;
    end &server = peer();
    std::atomic<bool> done = false;
    std::string writes;
    std::thread writer([&] {
        writes =
            request_repeatedly(server, IBV_WR_RDMA_WRITE, client, [&](unsigned) { return !done; });
    });
    std::string outcome = request_repeatedly(client, IBV_WR_RDMA_READ, server,
                                             [](unsigned count) { return count < reads; });
    done = true;
    writer.join();
    server.received = true;
    server.received.notify_one();
    return outcome == success ? writes : outcome;
}

const std::array kernel_fixes{
    kernel_fix{"responder-sends-first", send_and_wait, receive, 6},
    kernel_fix{"initiator-sends-at-once", receive_one, send_alone, 6},
    kernel_fix{"receiver-leaves", receive_and_leave, send_last, 1, true, false},
    kernel_fix{"sender-leaves", receive_and_tell, send_and_leave, 1, false, true},
    kernel_fix{"reads-complete-once", leave_soon, read_until_flushed, 2},
    kernel_fix{"reads-beside-writes", wait_for_client, read_beside_writes, 1},
};

int try_it(std::string_view name, const char *address, unsigned connections) {
    const kernel_fix *tried = nullptr;
    for (const kernel_fix &each : kernel_fixes)
        if (each.name == name)
            tried = &each;
    sockaddr_in where{};
    where.sin_family = AF_INET;
    if (tried == nullptr || inet_pton(AF_INET, address, &where.sin_addr) != 1)
        throw failure(text("no such case or address: ", name, " ", address));
    outcomes all;
    std::vector<std::unique_ptr<pair>> made;
    for (unsigned i = 0; i < tried->pairs; ++i) {
        where.sin_port = htons(static_cast<std::uint16_t>(first_port + i));
        made.push_back(std::make_unique<pair>(*tried, where, connections / tried->pairs, all));
    }
    std::vector<std::thread> threads;
    for (const auto &each : made) {
        threads.emplace_back([&each] { each->serve(); });
        threads.emplace_back([&each] { each->connect(); });
    }
    for (std::thread &thread : threads)
        thread.join();
    return all.print(success) ? 0 : 1;
}

} // namespace

int main(int argc, char **argv) {
    constexpr unsigned enough = 600, seconds = 300;
    if (argc < 3 || argc > 4) {
        std::fprintf(stderr, "Usage: %s CASE ADDRESS [CONNECTIONS]\n", *argv);
        return 2;
    }
    try {
        alarm(seconds); // a connection that hangs
        return try_it(argv[1], argv[2],
                      argc > 3 ? static_cast<unsigned>(std::strtoul(argv[3], nullptr, 10))
                               : enough);
    } catch (const std::exception &error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 2;
    }
}

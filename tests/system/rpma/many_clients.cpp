// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Several clients of librpma at once against one server process. They connect, write, flush, write
// atomically, read, send and disconnect in an order that the seed decides, and each byte is
// compared.
//
//     many_clients ADDRESS THREADS CLIENTS ROUNDS SEED
//
// THREADS: one (for all connections), each (connection has one), or srq (one, with an SRQ). Each of
// the CLIENTS connects ROUNDS times, as
//
//     many_clients --client ADDRESS ROUNDS SEED

#include "objects.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <librpma.h>
#include <list>
#include <poll.h>
#include <random>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace {

constexpr const char *PORT = "7207";
constexpr int MAX_CLIENTS = 16;
constexpr std::size_t SIZE = 1024; ///< of the memory of a connection
constexpr std::size_t PAGE = 4096;
constexpr int NUM_RECEIVES = 4;
constexpr int LIMIT_MS = 180'000; // Ends a hang.

/// The first half of a region has messages to send, the second those that arrive.
struct message {
    enum : std::uint32_t { COMPARE, REPLY, DISCONNECT };
    std::uint32_t type, number;
    char bytes[SIZE]; ///< COMPARE: what the server's memory must have. REPLY: of fill()
};
constexpr std::size_t MESSAGE_SIZE = PAGE;
static_assert(sizeof(message) <= MESSAGE_SIZE);
struct message_buffer : region {
    explicit message_buffer(rpma_peer *peer)
        : region(peer, (1 + NUM_RECEIVES) * MESSAGE_SIZE) {}
    /// index 0: the message to send; others: receives.
    message &slot(std::size_t index) const {
        return *reinterpret_cast<message *>(memory + index * MESSAGE_SIZE);
    }
    static std::size_t to_offset(std::size_t index) { return index * MESSAGE_SIZE; }
};

void fill(char *bytes, std::size_t length, std::minstd_rand &random) {
    std::generate_n(bytes, length, [&random] { return static_cast<char>(random() >> 8U); });
}
void fill_reply(message &reply, std::uint32_t number) {
    std::minstd_rand random(number + 1);
    reply.type = message::REPLY;
    reply.number = number;
    fill(reply.bytes, SIZE, random);
}

void *to_context(std::size_t index) {
    return reinterpret_cast<void *>(index);
}

// -- the client ---------------------------------------------------------------------------------

struct client {
    rpma_peer *peer;
    std::minstd_rand &random;
    region local{peer, SIZE};
    region target{peer, SIZE}; ///< of reads
    message_buffer messages{peer};
    std::array<char, SIZE> expected = {}; ///< what the server's memory has
    rpma_conn *conn = nullptr;
    rpma_cq *cq = nullptr;
    rpma_mr_remote *remote = nullptr;
    std::uint32_t num_messages = 0;

    void connect(const char *address) {
        rpma_conn_req *req = nullptr;
        rpma_conn_event event = RPMA_CONN_UNDEFINED;
        rpma_conn_private_data data = {};
        rpma_conn_cfg *cfg = nullptr;
        check(rpma_conn_cfg_new(&cfg), "rpma_conn_cfg_new");
        check(rpma_conn_cfg_set_timeout(cfg, LIMIT_MS), "rpma_conn_cfg_set_timeout");
        check(rpma_conn_req_new(peer, address, PORT, cfg, &req), "rpma_conn_req_new");
        check(rpma_conn_cfg_delete(&cfg), "rpma_conn_cfg_delete");
        post_receive([&](auto... arguments) { return rpma_conn_req_recv(req, arguments...); });
        check(rpma_conn_req_connect(&req, nullptr, &conn), "rpma_conn_req_connect");
        check(rpma_conn_next_event(conn, &event), "rpma_conn_next_event");
        if (event != RPMA_CONN_ESTABLISHED)
            fail(rpma_utils_conn_event_2str(event));
        check(rpma_conn_get_private_data(conn, &data), "rpma_conn_get_private_data");
        check(rpma_mr_remote_from_descriptor(data.ptr, data.len, &remote), "descriptor");
        check(rpma_conn_get_cq(conn, &cq), "rpma_conn_get_cq");
    }

    template <class function>
    void post_receive(const function &receive) {
        check(receive(messages.mr, messages.to_offset(1), MESSAGE_SIZE, to_context(1)), "recv");
    }

    std::size_t choose(std::size_t limit) { return random() % limit; }

    void write(int flags) {
        const std::size_t offset = choose(SIZE), length = 1 + choose(SIZE - offset);
        fill(local.memory + offset, length, random);
        std::memcpy(expected.data() + offset, local.memory + offset, length);
        check(rpma_write(conn, remote, offset, local.mr, offset, length, flags, nullptr),
              "rpma_write");
    }
    void write_and_flush() {
        write(RPMA_F_COMPLETION_ON_ERROR);
        const std::size_t offset = choose(SIZE), length = choose(SIZE - offset);
        check(rpma_flush(conn, remote, offset, length, RPMA_FLUSH_TYPE_VISIBILITY,
                         RPMA_F_COMPLETION_ALWAYS, nullptr),
              "rpma_flush");
        wait_completion(cq);
    }
    void write_atomically() {
        char word[8];
        const std::size_t offset = choose(SIZE / sizeof word) * sizeof word;
        fill(word, sizeof word, random);
        std::memcpy(expected.data() + offset, word, sizeof word);
        check(rpma_atomic_write(conn, remote, offset, word, RPMA_F_COMPLETION_ALWAYS, nullptr),
              "rpma_atomic_write");
        wait_completion(cq);
    }
    void read() {
        const std::size_t offset = choose(SIZE), length = 1 + choose(SIZE - offset);
        std::memset(target.memory, 0, SIZE);
        check(rpma_read(conn, target.mr, offset, remote, offset, length, RPMA_F_COMPLETION_ALWAYS,
                        nullptr),
              "rpma_read");
        wait_completion(cq);
        if (std::memcmp(target.memory + offset, expected.data() + offset, length) != 0)
            fail("a read has other data than was written");
    }
    void send(std::uint32_t type) {
        message &request = messages.slot(0);
        request.type = type;
        request.number = ++num_messages;
        std::memcpy(request.bytes, expected.data(), SIZE);
        check(rpma_send(conn, messages.mr, 0, sizeof request, RPMA_F_COMPLETION_ALWAYS, nullptr),
              "rpma_send");
    }
    void compare() {
        send(message::COMPARE);
        wait_completion(cq);
        wait_completion(cq); // of the send, and of the reply
        static message expected_reply;
        fill_reply(expected_reply, num_messages);
        if (std::memcmp(&messages.slot(1), &expected_reply, sizeof expected_reply) != 0)
            fail("a reply has other data than was sent");
        post_receive([&](auto... arguments) { return rpma_recv(conn, arguments...); });
    }

    void run_operation() {
        switch (choose(5)) {
        case 0:
            return write_and_flush();
        case 1:
            return write_atomically();
        case 2:
            return read();
        case 3:
            return write(RPMA_F_COMPLETION_ON_ERROR), write(RPMA_F_COMPLETION_ON_ERROR),
                   write_atomically();
        default:
            return compare();
        }
    }

    void disconnect() {
        rpma_conn_event event = RPMA_CONN_UNDEFINED;
        switch (choose(3)) {
        case 0: // The server begins.
            send(message::DISCONNECT);
            check(rpma_conn_next_event(conn, &event), "rpma_conn_next_event");
            check(rpma_conn_disconnect(conn), "rpma_conn_disconnect");
            break;
        case 1: // This side begins.
            check(rpma_conn_disconnect(conn), "rpma_conn_disconnect");
            check(rpma_conn_next_event(conn, &event), "rpma_conn_next_event");
            break;
        default: // It is deleted at once.
            event = RPMA_CONN_CLOSED;
        }
        if (event != RPMA_CONN_CLOSED)
            fail(rpma_utils_conn_event_2str(event));
        check(rpma_conn_delete(&conn), "rpma_conn_delete");
        check(rpma_mr_remote_delete(&remote), "rpma_mr_remote_delete");
    }
};

int run_client(const char *address, int num_rounds, unsigned seed) {
    std::minstd_rand random(seed);
    rpma_peer *peer = open_peer(address, RPMA_UTIL_IBV_CONTEXT_REMOTE);
    for (int round = 0; round != num_rounds; ++round) {
        client client = {.peer = peer, .random = random};
        client.connect(address);
        for (std::size_t count = client.choose(20); count != 0; --count)
            client.run_operation();
        client.compare();
        client.disconnect();
    }
    check(rpma_peer_delete(&peer), "rpma_peer_delete");
    return 0;
}

// -- the server ---------------------------------------------------------------------------------

std::atomic<int> num_compared = 0;

struct connection {
    rpma_peer *peer;
    region memory{peer, SIZE};
    message_buffer messages{peer}; ///< of its own receives: not with an SRQ
    rpma_conn *conn = nullptr;
    rpma_cq *cq = nullptr;
    std::uint32_t qp_num = 0;
    int conn_fd = -1, cq_fd = -1;

    explicit connection(rpma_peer *owner)
        : peer(owner) {}

    void accept(rpma_conn_req *req, bool has_srq) {
        for (std::size_t index = 1; !has_srq && index <= NUM_RECEIVES; ++index)
            check(rpma_conn_req_recv(req, messages.mr, messages.to_offset(index), MESSAGE_SIZE,
                                     to_context(index)),
                  "rpma_conn_req_recv");
        description described(memory);
        const rpma_conn_private_data data = described.private_data();
        check(rpma_conn_req_connect(&req, &data, &conn), "rpma_conn_req_connect");
        check(rpma_conn_get_event_fd(conn, &conn_fd), "rpma_conn_get_event_fd");
        check(rpma_conn_get_cq(conn, &cq), "rpma_conn_get_cq");
        check(rpma_cq_get_fd(cq, &cq_fd), "rpma_cq_get_fd");
        check(rpma_conn_get_qp_num(conn, &qp_num), "rpma_conn_get_qp_num");
        make_nonblocking(conn_fd);
        make_nonblocking(cq_fd);
    }

    /// False: the connection has ended.
    bool handle_event() {
        rpma_conn_event event = RPMA_CONN_UNDEFINED;
        const int ret = rpma_conn_next_event(conn, &event);
        if (ret == RPMA_E_NO_EVENT)
            return true;
        check(ret, "rpma_conn_next_event");
        if (event == RPMA_CONN_ESTABLISHED)
            return true;
        if (event != RPMA_CONN_CLOSED)
            fail(rpma_utils_conn_event_2str(event));
        check(rpma_conn_disconnect(conn), "rpma_conn_disconnect");
        check(rpma_conn_delete(&conn), "rpma_conn_delete");
        return false;
    }

    void handle_message(const message &request) {
        if (request.type == message::DISCONNECT) {
            check(rpma_conn_disconnect(conn), "rpma_conn_disconnect");
            return;
        }
        if (request.type != message::COMPARE)
            fail("a message of no type");
        if (std::memcmp(request.bytes, memory.memory, SIZE) != 0)
            fail("the server's memory has other data than was written");
        ++num_compared;
        // The previous reply has arrived: the client has sent a message since.
        fill_reply(messages.slot(0), request.number);
        check(rpma_send(conn, messages.mr, 0, sizeof(message), RPMA_F_COMPLETION_ALWAYS, nullptr),
              "rpma_send");
    }

    void handle_completions() {
        ibv_wc wc = {};
        const int ret = rpma_cq_wait(cq);
        if (ret != RPMA_E_NO_COMPLETION)
            check(ret, "rpma_cq_wait");
        while (rpma_cq_get_wc(cq, 1, &wc, nullptr) == 0) {
            if (wc.status == IBV_WC_WR_FLUSH_ERR)
                continue;
            if (wc.status != IBV_WC_SUCCESS)
                fail(ibv_wc_status_str(wc.status));
            if (wc.opcode != IBV_WC_RECV)
                continue;
            const auto index = static_cast<std::size_t>(wc.wr_id);
            handle_message(messages.slot(index));
            // An error: the client has disconnected.
            (void)rpma_recv(conn, messages.mr, messages.to_offset(index), MESSAGE_SIZE,
                            to_context(index));
        }
    }
};

struct server {
    rpma_peer *peer = nullptr;
    rpma_ep *ep = nullptr;
    int ep_fd = -1;
    std::list<connection> conns; ///< of one thread
    rpma_srq *srq = nullptr;     ///< or none
    rpma_cq *srq_cq = nullptr;
    int srq_fd = -1;
    std::list<message_buffer> srq_messages;
    std::vector<std::thread> threads;
    bool has_threads = false;
    int num_accepted = 0;

    void listen(const char *address) {
        check(rpma_ep_listen(peer, address, PORT, &ep), "rpma_ep_listen");
        check(rpma_ep_get_fd(ep, &ep_fd), "rpma_ep_get_fd");
        make_nonblocking(ep_fd);
    }

    void create_srq() {
        rpma_srq_cfg *cfg = nullptr;
        check(rpma_srq_cfg_new(&cfg), "rpma_srq_cfg_new");
        check(rpma_srq_cfg_set_rq_size(cfg, 4 * MAX_CLIENTS), "rpma_srq_cfg_set_rq_size");
        check(rpma_srq_cfg_set_rcq_size(cfg, 8 * MAX_CLIENTS), "rpma_srq_cfg_set_rcq_size");
        check(rpma_srq_new(peer, cfg, &srq), "rpma_srq_new");
        check(rpma_srq_cfg_delete(&cfg), "rpma_srq_cfg_delete");
        check(rpma_srq_get_rcq(srq, &srq_cq), "rpma_srq_get_rcq");
        check(rpma_cq_get_fd(srq_cq, &srq_fd), "rpma_cq_get_fd");
        make_nonblocking(srq_fd);
        for (int i = 0; i != 3 * MAX_CLIENTS; ++i)
            post_to_srq(srq_messages.emplace_back(peer));
    }
    void post_to_srq(message_buffer &buffer) {
        check(rpma_srq_recv(srq, buffer.mr, 0, MESSAGE_SIZE, &buffer), "rpma_srq_recv");
    }
    void handle_srq() {
        ibv_wc wc = {};
        const int ret = rpma_cq_wait(srq_cq);
        if (ret != RPMA_E_NO_COMPLETION)
            check(ret, "rpma_cq_wait");
        while (rpma_cq_get_wc(srq_cq, 1, &wc, nullptr) == 0) {
            if (wc.status != IBV_WC_SUCCESS && wc.status != IBV_WC_WR_FLUSH_ERR)
                fail(ibv_wc_status_str(wc.status));
            auto &buffer =
                *reinterpret_cast<message_buffer *>(static_cast<std::uintptr_t>(wc.wr_id));
            const auto conn = std::find_if(conns.begin(), conns.end(), [&wc](const auto &each) {
                return each.qp_num == wc.qp_num;
            });
            if (wc.status == IBV_WC_SUCCESS && conn != conns.end())
                conn->handle_message(buffer.slot(0));
            post_to_srq(buffer);
        }
    }

    void accept_request() {
        rpma_conn_req *req = nullptr;
        rpma_conn_cfg *cfg = nullptr;
        check(rpma_conn_cfg_new(&cfg), "rpma_conn_cfg_new");
        if (srq != nullptr)
            check(rpma_conn_cfg_set_srq(cfg, srq), "rpma_conn_cfg_set_srq");
        check(rpma_conn_cfg_set_cq_size(cfg, 64), "rpma_conn_cfg_set_cq_size");
        const int ret = call_alone(rpma_ep_next_conn_req, ep, cfg, &req);
        check(rpma_conn_cfg_delete(&cfg), "rpma_conn_cfg_delete");
        if (ret == RPMA_E_NO_EVENT)
            return;
        check(ret, "rpma_ep_next_conn_req");
        ++num_accepted;
        if (!has_threads) {
            conns.emplace_back(peer).accept(req, srq != nullptr);
            return;
        }
        threads.emplace_back([this, req] {
            connection conn(peer);
            conn.accept(req, false);
            for (;;) {
                std::array<pollfd, 2> fds = {
                    {{.fd = conn.cq_fd, .events = POLLIN, .revents = 0},
                     {.fd = conn.conn_fd, .events = POLLIN, .revents = 0}}};
                if (poll(fds.data(), fds.size(), LIMIT_MS) <= 0)
                    fail("a connection of the server waits");
                if (fds[0].revents != 0)
                    conn.handle_completions();
                if (fds[1].revents != 0 && !conn.handle_event())
                    return;
            }
        });
    }

    /// Events of the endpoint, and of all connections that this thread serves.
    void step() {
        std::vector<pollfd> fds = {{.fd = ep_fd, .events = POLLIN, .revents = 0},
                                   {.fd = srq_fd, .events = POLLIN, .revents = 0}};
        for (const connection &conn : conns) {
            fds.push_back({.fd = conn.cq_fd, .events = POLLIN, .revents = 0});
            fds.push_back({.fd = conn.conn_fd, .events = POLLIN, .revents = 0});
        }
        if (poll(fds.data(), fds.size(), LIMIT_MS) <= 0)
            fail("the server waits");
        if (fds[1].revents != 0)
            handle_srq();
        std::size_t index = 2;
        for (auto conn = conns.begin(); conn != conns.end(); index += 2) {
            if (fds[index].revents != 0)
                conn->handle_completions();
            const bool has_ended = fds[index + 1].revents != 0 && !conn->handle_event();
            conn = has_ended ? conns.erase(conn) : std::next(conn);
        }
        if (fds[0].revents != 0)
            accept_request();
    }
};

int run_server(const char *program, const char *address, const std::string &mode, int num_clients,
               const char *num_rounds, unsigned seed) {
    server server;
    server.peer = open_peer(address, RPMA_UTIL_IBV_CONTEXT_LOCAL);
    server.has_threads = mode == "each";
    server.listen(address);
    if (mode == "srq")
        server.create_srq();
    std::vector<std::thread> waiters;
    for (int i = 0; i != num_clients; ++i) {
        const pid_t client = fork();
        if (client == 0) {
            execl(program, program, "--client", address, num_rounds,
                  std::to_string(seed * MAX_CLIENTS + static_cast<unsigned>(i)).c_str(), nullptr);
            _exit(127);
        }
        waiters.emplace_back([client] {
            int status = 0;
            if (waitpid(client, &status, 0) != client || status != 0)
                fail("a client has failed");
        });
    }
    const int num_conns = num_clients * std::atoi(num_rounds);
    while (server.num_accepted != num_conns || !server.conns.empty())
        server.step();
    for (std::thread &thread : server.threads)
        thread.join();
    for (std::thread &waiter : waiters)
        waiter.join();
    std::printf("%d connections, compared %d times\n", num_conns, num_compared.load());
    check(rpma_ep_shutdown(&server.ep), "rpma_ep_shutdown");
    check(rpma_srq_delete(&server.srq), "rpma_srq_delete");
    server.srq_messages.clear();
    check(rpma_peer_delete(&server.peer), "rpma_peer_delete"); // Fails if anything is left of it.
    return 0;
}

} // namespace

int main(int argc, char **argv) {
    if (argc == 5 && std::strcmp(argv[1], "--client") == 0)
        return run_client(argv[2], std::atoi(argv[3]), static_cast<unsigned>(std::atoi(argv[4])));
    if (argc != 6) {
        std::fprintf(stderr, "usage: many_clients ADDRESS one|each|srq CLIENTS ROUNDS SEED\n");
        return 2;
    }
    return run_server(argv[0], argv[1], argv[2], std::min(std::atoi(argv[3]), MAX_CLIENTS), argv[4],
                      static_cast<unsigned>(std::atoi(argv[5])));
}

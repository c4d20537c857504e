// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// A server of librpma whose clients are killed at any moment: while they connect, and during all
// operations. Each connection ends by an event, and all that the server has made can be deleted.
//
//     killed_peer ADDRESS ROUNDS SEED
//     killed_peer --client ADDRESS         connects, and runs operations until it is killed

#include "objects.hpp"

#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <librpma.h>
#include <poll.h>
#include <random>
#include <sys/wait.h>
#include <unistd.h>

namespace {

constexpr const char *PORT = "7206";
constexpr std::size_t SIZE = 4096;
constexpr int NUM_RECEIVES = 8;
constexpr int LIMIT_MS = 180'000; // Ends a hang.

// -- the client ----------------------------------------------------------------------------------

/// False: the server has rejected it.
bool connect_to_server(rpma_peer *peer, const char *address, rpma_conn *&conn) {
    rpma_conn_req *req = nullptr;
    rpma_conn_event event = RPMA_CONN_UNDEFINED;
    check(rpma_conn_req_new(peer, address, PORT, nullptr, &req), "rpma_conn_req_new");
    if (rpma_conn_req_connect(&req, nullptr, &conn) != 0)
        return false;
    check(rpma_conn_next_event(conn, &event), "rpma_conn_next_event");
    return event == RPMA_CONN_ESTABLISHED;
}

/// Until it is killed, or rejected.
int run_client(const char *address) {
    rpma_peer *const peer = open_peer(address, RPMA_UTIL_IBV_CONTEXT_REMOTE);
    const region local(peer, SIZE);
    rpma_conn *conn = nullptr;
    if (!connect_to_server(peer, address, conn))
        return 0;
    rpma_conn_private_data data = {};
    rpma_mr_remote *remote = nullptr;
    rpma_cq *cq = nullptr;
    check(rpma_conn_get_private_data(conn, &data), "rpma_conn_get_private_data");
    check(rpma_mr_remote_from_descriptor(data.ptr, data.len, &remote), "descriptor");
    check(rpma_conn_get_cq(conn, &cq), "rpma_conn_get_cq");
    for (;;) {
        const char word[8] = "word";
        ibv_wc wc = {};
        if (rpma_write(conn, remote, 0, local.mr, 0, SIZE, RPMA_F_COMPLETION_ON_ERROR, nullptr) ||
            rpma_read(conn, local.mr, 0, remote, 0, SIZE, RPMA_F_COMPLETION_ON_ERROR, nullptr) ||
            rpma_flush(conn, remote, 0, SIZE, RPMA_FLUSH_TYPE_VISIBILITY,
                       RPMA_F_COMPLETION_ON_ERROR, nullptr) ||
            rpma_atomic_write(conn, remote, 0, word, RPMA_F_COMPLETION_ON_ERROR, nullptr) ||
            rpma_send(conn, local.mr, 0, 1, RPMA_F_COMPLETION_ALWAYS, nullptr))
            return 0; // The server has ended the connection.
        int ret = RPMA_E_NO_COMPLETION;
        while (ret == RPMA_E_NO_COMPLETION && rpma_cq_wait(cq) == 0)
            ret = rpma_cq_get_wc(cq, 1, &wc, nullptr);
        if (ret != 0 || wc.status != IBV_WC_SUCCESS)
            return 0;
    }
}

// -- the server ----------------------------------------------------------------------------------

int count_open_files() {
    int count = 0;
    DIR *const folder = opendir("/proc/self/fd");
    while (readdir(folder) != nullptr)
        ++count;
    closedir(folder);
    return count;
}

struct server {
    rpma_peer *peer;
    const region &memory;
    rpma_ep *ep = nullptr;
    int ep_fd = -1;
    rpma_conn *conn = nullptr; ///< with the current client
    int conn_fd = -1, cq_fd = -1;
    rpma_cq *cq = nullptr;
    std::minstd_rand random;
    int num_established = 0, num_messages = 0, num_rejected = 0;
    std::array<int, RPMA_CONN_UNREACHABLE + 1> num_events = {};

    void listen(const char *address) {
        check(rpma_ep_listen(peer, address, PORT, &ep), "rpma_ep_listen");
        check(rpma_ep_get_fd(ep, &ep_fd), "rpma_ep_get_fd");
        make_nonblocking(ep_fd);
    }

    void accept_request() {
        rpma_conn_req *req = nullptr;
        if (rpma_ep_next_conn_req(ep, nullptr, &req) != 0)
            return; // The client is gone.
        if (conn != nullptr)
            fail("a second client");
        if (num_messages != 0 && random() % 8 == 0) {
            rpma_conn_req_delete(&req); // An error: the client is gone.
            ++num_rejected;
            return;
        }
        for (int i = 0; i != NUM_RECEIVES; ++i)
            check(rpma_conn_req_recv(req, memory.mr, 0, SIZE, nullptr), "rpma_conn_req_recv");
        description described(memory);
        const rpma_conn_private_data data = described.private_data();
        if (rpma_conn_req_connect(&req, &data, &conn) != 0) {
            conn = nullptr;
            return; // The client is gone.
        }
        check(rpma_conn_get_event_fd(conn, &conn_fd), "rpma_conn_get_event_fd");
        check(rpma_conn_get_cq(conn, &cq), "rpma_conn_get_cq");
        check(rpma_cq_get_fd(cq, &cq_fd), "rpma_cq_get_fd");
        make_nonblocking(conn_fd);
        make_nonblocking(cq_fd);
    }

    void handle_event() {
        rpma_conn_event event = RPMA_CONN_UNDEFINED;
        const int ret = rpma_conn_next_event(conn, &event);
        if (ret == RPMA_E_NO_EVENT)
            return;
        check(ret, "rpma_conn_next_event");
        ++num_events.at(static_cast<std::size_t>(event));
        if (event == RPMA_CONN_ESTABLISHED)
            return;
        rpma_conn_disconnect(conn); // An error: it was not established.
        check(rpma_conn_delete(&conn), "rpma_conn_delete");
        conn_fd = cq_fd = -1;
    }

    void handle_completions() {
        ibv_wc wc = {};
        if (rpma_cq_wait(cq) != 0)
            return;
        while (rpma_cq_get_wc(cq, 1, &wc, nullptr) == 0) {
            if (wc.status != IBV_WC_SUCCESS)
                continue;
            ++num_messages;
            // An error: the QP is in ERR, and the event follows.
            (void)rpma_recv(conn, memory.mr, 0, SIZE, nullptr);
        }
    }

    /// False: nothing has happened until timeout_ms.
    bool step(int timeout_ms) {
        std::array<pollfd, 3> fds = {{{.fd = ep_fd, .events = POLLIN, .revents = 0},
                                      {.fd = conn_fd, .events = POLLIN, .revents = 0},
                                      {.fd = cq_fd, .events = POLLIN, .revents = 0}}};
        if (poll(fds.data(), fds.size(), timeout_ms) <= 0)
            return false;
        if (fds[2].revents != 0)
            handle_completions();
        if (fds[1].revents != 0)
            handle_event();
        if (fds[0].revents != 0)
            accept_request();
        return true;
    }

    /// Serves a client that is killed after delay_ms, until its connection has ended. Returns the
    /// time of its first message in milliseconds; delay_ms 0: it is killed then.
    int run_round(const char *program, const char *address, int delay_ms) {
        using std::chrono::milliseconds, std::chrono::steady_clock;
        const auto start = steady_clock::now();
        const auto elapsed_ms = [start] {
            return static_cast<int>(
                std::chrono::ceil<milliseconds>(steady_clock::now() - start).count());
        };
        const int num_messages_before = num_messages;
        const pid_t client = fork();
        if (client == 0) {
            execl(program, program, "--client", address, nullptr);
            _exit(127);
        }
        const int limit_ms = delay_ms != 0 ? delay_ms : LIMIT_MS;
        int elapsed = elapsed_ms();
        while (elapsed < limit_ms && (delay_ms != 0 || num_messages == num_messages_before)) {
            step(limit_ms - elapsed);
            elapsed = elapsed_ms();
        }
        kill(client, SIGKILL);
        int status = 0;
        if (waitpid(client, &status, 0) != client ||
            (WIFEXITED(status) && WEXITSTATUS(status) != 0))
            fail("the client has failed");
        constexpr int QUIET_MS = 20; // A request of the dead client may be under way.
        while (step(conn != nullptr ? LIMIT_MS : QUIET_MS)) {
        }
        if (conn != nullptr)
            fail("no event tells that the client is dead");
        return elapsed;
    }
};

int run_server(const char *program, const char *address, int num_rounds, unsigned seed) {
    rpma_peer *peer = open_peer(address, RPMA_UTIL_IBV_CONTEXT_LOCAL);
    {
        const region memory(peer, SIZE);
        server server = {.peer = peer, .memory = memory, .random = std::minstd_rand(seed)};
        server.listen(address);
        const int num_files = count_open_files();
        // The times at which clients are killed are relative to what one takes here.
        const unsigned typical_ms =
            static_cast<unsigned>(server.run_round(program, address, 0)) + 1;
        for (int round = 1; round < num_rounds; ++round)
            server.run_round(program, address,
                             static_cast<int>(1 + server.random() % (2 * typical_ms)));
        if (server.num_messages == 0)
            fail("no client has sent a message");
        if (count_open_files() != num_files)
            fail("files are left open");
        check(rpma_ep_shutdown(&server.ep), "rpma_ep_shutdown");
        std::printf("%d rounds: %d messages, %d requests rejected; connections: %d established, %d "
                    "closed, %d lost, %d rejected, %d unreachable\n",
                    num_rounds, server.num_messages, server.num_rejected,
                    server.num_events[RPMA_CONN_ESTABLISHED], server.num_events[RPMA_CONN_CLOSED],
                    server.num_events[RPMA_CONN_LOST], server.num_events[RPMA_CONN_REJECTED],
                    server.num_events[RPMA_CONN_UNREACHABLE]);
    }
    check(rpma_peer_delete(&peer), "rpma_peer_delete"); // Fails if anything is left of it.
    return 0;
}

} // namespace

int main(int argc, char **argv) {
    if (argc == 3 && std::strcmp(argv[1], "--client") == 0)
        return run_client(argv[2]);
    if (argc != 4) {
        std::fprintf(stderr, "usage: killed_peer ADDRESS ROUNDS SEED\n");
        return 2;
    }
    return run_server(argv[0], argv[1], std::atoi(argv[2]),
                      static_cast<unsigned>(std::atoi(argv[3])));
}

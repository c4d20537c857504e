// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// A program of librpma forks while it has a connection, with itself. It goes on while the child
// exists, and when that has ended, with new data in the same memory; each byte is compared.
//
//     fork ADDRESS CHILD [--init] [--request]
//
// CHILD: what the child does, until the parent closes a pipe, and then
//     idle     waits, and ends by _exit()
//     exit     waits, and ends by exit(): destructors run
//     exec     becomes another program
//     write    changes its copy of the memory while the parent transfers
//     peer     connects to the parent, with a peer of its own
// --init: ibv_fork_init() before anything else. --request: the fork comes before the connection.

#include "objects.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <infiniband/verbs.h>
#include <librpma.h>
#include <random>
#include <string>
#include <sys/wait.h>
#include <unistd.h>

namespace {

constexpr const char *PORT = "7208";
constexpr std::size_t SIZE = 8192;

/// Memory with what a seed makes of it.
struct seeded_region : region {
    explicit seeded_region(rpma_peer *peer)
        : region(peer, SIZE) {}

    void fill(unsigned seed) const {
        std::minstd_rand random(seed);
        std::generate_n(memory, SIZE, [&random] { return static_cast<char>(random() >> 8U); });
    }
    void expect(unsigned seed, const char *text) const {
        std::minstd_rand random(seed);
        for (std::size_t i = 0; i != SIZE; ++i) {
            if (memory[i] != static_cast<char>(random() >> 8U))
                fail(std::string(text) + ": wrong data at " + std::to_string(i));
        }
    }
};

void expect_event(rpma_conn *conn, rpma_conn_event expected) {
    rpma_conn_event event = RPMA_CONN_UNDEFINED;
    check(rpma_conn_next_event(conn, &event), "rpma_conn_next_event");
    if (event != expected)
        fail(rpma_utils_conn_event_2str(event));
}

void wait_completion(rpma_conn *conn) {
    rpma_cq *cq = nullptr;
    check(rpma_conn_get_cq(conn, &cq), "rpma_conn_get_cq");
    wait_completion(cq);
}

/// Both sides of a connection.
struct connection {
    rpma_peer *peer;
    rpma_ep *ep = nullptr;
    rpma_conn_req *request = nullptr;
    rpma_conn *active = nullptr, *passive = nullptr;
    seeded_region source{peer}, target{peer}, copy{peer}, sent{peer}, received{peer};
    rpma_mr_remote *remote = nullptr;

    void listen(const char *address) {
        check(rpma_ep_listen(peer, address, PORT, &ep), "rpma_ep_listen");
        check(rpma_conn_req_new(peer, address, PORT, nullptr, &request), "rpma_conn_req_new");
    }
    void connect() {
        check(rpma_conn_req_connect(&request, nullptr, &active), "rpma_conn_req_connect");
        passive = accept();
        expect_event(active, RPMA_CONN_ESTABLISHED);
        expect_event(passive, RPMA_CONN_ESTABLISHED);
        const description described(target);
        check(rpma_mr_remote_from_descriptor(described.bytes.data(), described.size, &remote),
              "rpma_mr_remote_from_descriptor");
    }
    rpma_conn *accept() const {
        rpma_conn_req *req = nullptr;
        rpma_conn *conn = nullptr;
        check(rpma_ep_next_conn_req(ep, nullptr, &req), "rpma_ep_next_conn_req");
        check(rpma_conn_req_connect(&req, nullptr, &conn), "rpma_conn_req_connect");
        return conn;
    }

    void transfer(unsigned seed) {
        source.fill(seed);
        check(
            rpma_write(active, remote, 0, source.mr, 0, SIZE, RPMA_F_COMPLETION_ON_ERROR, nullptr),
            "rpma_write");
        check(rpma_flush(active, remote, 0, SIZE, RPMA_FLUSH_TYPE_VISIBILITY,
                         RPMA_F_COMPLETION_ALWAYS, nullptr),
              "rpma_flush");
        wait_completion(active);
        // A receive, before this side may look at the memory of a device that is not coherent.
        sent.fill(seed + 1);
        check(rpma_recv(passive, received.mr, 0, SIZE, nullptr), "rpma_recv");
        check(rpma_send(active, sent.mr, 0, SIZE, RPMA_F_COMPLETION_ALWAYS, nullptr), "rpma_send");
        wait_completion(active);
        wait_completion(passive);
        received.expect(seed + 1, "a message");
        target.expect(seed, "a write");
        target.fill(seed + 2);
        sent.fill(seed + 3);
        check(rpma_recv(active, received.mr, 0, SIZE, nullptr), "rpma_recv");
        check(rpma_send(passive, sent.mr, 0, SIZE, RPMA_F_COMPLETION_ALWAYS, nullptr), "rpma_send");
        wait_completion(passive);
        wait_completion(active);
        received.expect(seed + 3, "a message back");
        check(rpma_read(active, copy.mr, 0, remote, 0, SIZE, RPMA_F_COMPLETION_ALWAYS, nullptr),
              "rpma_read");
        wait_completion(active);
        copy.expect(seed + 2, "a read");
        check(rpma_atomic_write(active, remote, 8, "abcdefg", RPMA_F_COMPLETION_ALWAYS, nullptr),
              "rpma_atomic_write");
        wait_completion(active);
    }

    void close() {
        check(rpma_mr_remote_delete(&remote), "rpma_mr_remote_delete");
        check(rpma_conn_disconnect(active), "rpma_conn_disconnect");
        expect_event(passive, RPMA_CONN_CLOSED);
        check(rpma_conn_disconnect(passive), "rpma_conn_disconnect");
        expect_event(active, RPMA_CONN_CLOSED);
        check(rpma_conn_delete(&active), "rpma_conn_delete");
        check(rpma_conn_delete(&passive), "rpma_conn_delete");
        check(rpma_ep_shutdown(&ep), "rpma_ep_shutdown");
    }
};

/// Connects to the parent and ends the connection.
void connect_child(const char *address) {
    rpma_peer *peer = open_peer(address, RPMA_UTIL_IBV_CONTEXT_LOCAL);
    rpma_conn_req *req = nullptr;
    rpma_conn *conn = nullptr;
    check(rpma_conn_req_new(peer, address, PORT, nullptr, &req), "child: rpma_conn_req_new");
    check(rpma_conn_req_connect(&req, nullptr, &conn), "child: rpma_conn_req_connect");
    expect_event(conn, RPMA_CONN_ESTABLISHED);
    expect_event(conn, RPMA_CONN_CLOSED);
    check(rpma_conn_disconnect(conn), "child: rpma_conn_disconnect");
    check(rpma_conn_delete(&conn), "child: rpma_conn_delete");
    check(rpma_peer_delete(&peer), "child: rpma_peer_delete");
}

[[noreturn]] void run_child(const std::string &child, const char *address,
                            const connection &connected, int wait_fd) {
    char byte = 0;
    if (child == "exec") {
        dup2(wait_fd, STDIN_FILENO);
        execlp("cat", "cat", nullptr);
        _exit(127);
    }
    if (child == "write") {
        for (unsigned seed = 1000; seed != 1010; ++seed) {
            for (const seeded_region *each :
                 {&connected.source, &connected.target, &connected.copy, &connected.received})
                each->fill(seed);
        }
        connected.source.expect(1009, "child");
        connected.target.expect(1009, "child");
    }
    if (child == "peer")
        connect_child(address);
    if (read(wait_fd, &byte, 1) != 0)
        _exit(1);
    if (child == "write")
        connected.target.expect(1009, "child, after the parent");
    if (child == "exit")
        std::exit(0);
    _exit(0);
}

int run(const char *address, const std::string &child, bool has_init, bool has_request) {
    if (has_init && ibv_fork_init() != 0)
        fail("ibv_fork_init");
    rpma_peer *peer = open_peer(address, RPMA_UTIL_IBV_CONTEXT_LOCAL);
    {
        connection connected = {.peer = peer};
        std::array<int, 2> fds;
        connected.listen(address);
        if (!has_request) {
            connected.connect();
            for (unsigned seed = 1; seed != 20; ++seed)
                connected.transfer(seed);
        }
        if (pipe(fds.data()) != 0)
            fail("pipe");
        const pid_t pid = fork();
        if (pid == 0) {
            close(fds[1]);
            run_child(child, address, connected, fds[0]);
        }
        close(fds[0]);
        if (has_request)
            connected.connect();
        if (child == "peer") {
            rpma_conn *conn = connected.accept();
            expect_event(conn, RPMA_CONN_ESTABLISHED);
            check(rpma_conn_disconnect(conn), "rpma_conn_disconnect");
            expect_event(conn, RPMA_CONN_CLOSED);
            check(rpma_conn_delete(&conn), "rpma_conn_delete");
        }
        for (unsigned seed = 101; seed != 120; ++seed)
            connected.transfer(seed);
        close(fds[1]);
        int status = 0;
        if (waitpid(pid, &status, 0) != pid || status != 0)
            fail("the child has failed: " + std::to_string(status));
        for (unsigned seed = 201; seed != 220; ++seed)
            connected.transfer(seed);
        connected.close();
    }
    check(rpma_peer_delete(&peer), "rpma_peer_delete");
    return 0;
}

} // namespace

int main(int argc, char **argv) {
    bool has_init = false, has_request = false;
    for (int i = 3; i < argc; ++i) {
        has_init = has_init || std::strcmp(argv[i], "--init") == 0;
        has_request = has_request || std::strcmp(argv[i], "--request") == 0;
    }
    if (argc < 3) {
        std::fprintf(stderr,
                     "usage: fork ADDRESS idle|exit|exec|write|peer [--init] [--request]\n");
        return 2;
    }
    return run(argv[1], argv[2], has_init, has_request);
}

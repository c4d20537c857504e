// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// How a connection ends: closed, rejected, unreachable, lost.

#include "../lib/device.hpp"

#include <arpa/inet.h>
#include <csignal>
#include <cstring>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace conform {

namespace {

/// The process that the case has started, connected to it.
class peer_process {
  public:
    /// Before this process has used RDMA. The child connects once `start` has been called.
    peer_process() {
        require(pipe(fds_) == 0, "pipe");
        pid_ = fork();
        require(pid_ >= 0, "fork");
        if (pid_ == 0)
            run_child();
        close(fds_[0]);
    }
    ~peer_process() { end(); }
    peer_process(const peer_process &) = delete;
    peer_process &operator=(const peer_process &) = delete;
    void start() { require(write(fds_[1], "", 1) == 1, "write"); }
    void end() {
        if (pid_ > 0) {
            kill(pid_, SIGKILL);
            waitpid(pid_, nullptr, 0);
        }
        pid_ = 0;
    }

  private:
    [[noreturn]] void run_child() {
        char byte = 0;
        close(fds_[1]);
        if (read(fds_[0], &byte, 1) != 1)
            _exit(1);
        try {
            const test_peer peer;
            const conn_handle client = connect(request(peer));
            expect_event(client.get(), RPMA_CONN_ESTABLISHED);
            for (;;)
                pause();
        } catch (const case_aborted &) {
            _exit(1);
        }
    }

    int fds_[2] = {};
    pid_t pid_ = 0;
};

void add_closed(case_list &cases) {
    // Either side may begin; the other calls rpma_conn_disconnect() after its event.
    for (const bool server_begins : {false, true}) {
        add_case(cases, server_begins ? "event.closed_by_server" : "event.closed_by_client", [=] {
            const test_peer peer;
            const ep_handle ep = listen(peer);
            const conn_handle client = connect(request(peer));
            const conn_handle server = connect(next_request(ep));
            expect_event(client.get(), RPMA_CONN_ESTABLISHED);
            expect_event(server.get(), RPMA_CONN_ESTABLISHED);
            rpma_conn *const first = server_begins ? server.get() : client.get();
            rpma_conn *const second = server_begins ? client.get() : server.get();
            expect_return(rpma_conn_disconnect(first), 0);
            expect_event(second, RPMA_CONN_CLOSED);
            expect_return(rpma_conn_disconnect(second), 0);
            expect_event(first, RPMA_CONN_CLOSED);
        });
    }
    // On InfiniBand and RoCE, a message of the peer may arrive before RPMA_CONN_ESTABLISHED.
    add_case(cases, "event.closed_before_established", [] {
        const test_peer peer;
        const ep_handle ep = listen(peer);
        const conn_handle client = connect(request(peer));
        const conn_handle server = connect(next_request(ep));
        require_ok(rpma_conn_disconnect(server.get()));
        expect_event(client.get(), RPMA_CONN_ESTABLISHED);
        expect_event(server.get(), RPMA_CONN_ESTABLISHED);
        expect_event(client.get(), RPMA_CONN_CLOSED);
        require_ok(rpma_conn_disconnect(client.get()));
        expect_event(server.get(), RPMA_CONN_CLOSED);
    });
    add_case(cases, "event.closed_by_delete", [] {
        const test_peer peer;
        const ep_handle ep = listen(peer);
        conn_handle client = connect(request(peer));
        const conn_handle server = connect(next_request(ep));
        expect_event(client.get(), RPMA_CONN_ESTABLISHED);
        expect_event(server.get(), RPMA_CONN_ESTABLISHED);
        client.destroy();
        expect_event(server.get(), RPMA_CONN_CLOSED);
    });
    add_case(cases, "event.closed_by_death", [] {
        peer_process client;
        const test_peer peer;
        const ep_handle ep = listen(peer);
        client.start();
        const conn_handle server = connect(next_request(ep));
        expect_event(server.get(), RPMA_CONN_ESTABLISHED);
        client.end();
        expect_event(server.get(), RPMA_CONN_CLOSED);
    });
}

/// siw connects the TCP connection before the call returns, so that the call fails.
void expect_cannot_connect(req_handle req, rpma_conn_event expected) {
    conn_handle conn;
    const int ret = rpma_conn_req_connect(req.out(), nullptr, conn.out());
    expect_true(req.get() == nullptr, "the request is not NULL");
    if (is_iwarp()) {
        expect_return(ret, RPMA_E_PROVIDER);
        expect_true(conn.get() == nullptr, "there is a connection");
    } else {
        require_ok(ret);
        expect_event(conn.get(), expected);
    }
}

void add_rejected(case_list &cases) {
    add_case(cases, "event.rejected", [] {
        const test_peer peer;
        const ep_handle ep = listen(peer);
        const conn_handle client = connect(request(peer));
        req_handle req = next_request(ep);
        expect_return(rpma_conn_req_delete(req.out()), 0);
        expect_true(req.get() == nullptr, "the pointer is not NULL");
        expect_event(client.get(), RPMA_CONN_REJECTED);
        // The endpoint serves the next request.
        const conn_handle next_client = connect(request(peer));
        const conn_handle server = connect(next_request(ep));
        expect_event(next_client.get(), RPMA_CONN_ESTABLISHED);
        expect_event(server.get(), RPMA_CONN_ESTABLISHED);
    });
    add_case(cases, "event.rejected.no_listener", [] {
        const test_peer peer;
        expect_cannot_connect(request(peer), RPMA_CONN_REJECTED);
    });
}

/// A TCP socket that listens at the case's port.
int listen_tcp() {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(std::stoi(settings().port)));
    require(inet_pton(AF_INET, settings().address.c_str(), &address.sin_addr) == 1, "inet_pton");
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    require(fd >= 0 && bind(fd, reinterpret_cast<sockaddr *>(&address), sizeof address) == 0 &&
                ::listen(fd, 1) == 0,
            "cannot listen");
    return fd;
}

void add_lost(case_list &cases) {
    // InfiniBand's CM takes a minute of retries, siw as long as TCP.
    add_case(cases, "event.unreachable", [] {
        alarm(600);
        const test_peer peer;
        req_handle req;
        require_ok(rpma_conn_req_new(peer.get(), settings().unused_address.c_str(),
                                     settings().port.c_str(), nullptr, req.out()));
        expect_cannot_connect(std::move(req), RPMA_CONN_UNREACHABLE);
    });
    // The peer's reply is no MPA. A soft device that is removed is none: the kernel waits until no
    // process has an object of it.
    add_case(cases, "event.lost", [] {
        if (!is_iwarp())
            throw case_skipped{"InfiniBand's CM discards malformed replies"};
        const test_peer peer;
        const int listener = listen_tcp();
        const conn_handle client = connect(request(peer));
        const int fd = accept(listener, nullptr, nullptr);
        char text[64] = {};
        require(fd >= 0 && read(fd, text, sizeof text) > 0, "no request");
        std::memset(text, 'x', sizeof text);
        require(write(fd, text, sizeof text) == sizeof text, "write");
        expect_event(client.get(), RPMA_CONN_LOST);
    });
}

} // namespace

void add_event(case_list &cases) {
    add_closed(cases);
    add_rejected(cases);
    add_lost(cases);
}

} // namespace conform

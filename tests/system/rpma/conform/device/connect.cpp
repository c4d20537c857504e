// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Connections that are established, and what they say of themselves.

#include "../lib/device.hpp"
#include "../lib/invalid.hpp"

#include <fcntl.h>

namespace conform {

namespace {

int event_fd(const rpma_conn *conn) {
    int fd = -1;
    require_ok(rpma_conn_get_event_fd(conn, &fd));
    require(fd >= 0 && fcntl(fd, F_GETFD) >= 0, "no file descriptor");
    return fd;
}
std::uint32_t qp_num(const rpma_conn *conn) {
    std::uint32_t num = 0;
    require_ok(rpma_conn_get_qp_num(conn, &num));
    return num;
}

void add_established(case_list &cases) {
    add_case(cases, "conn.established", [] {
        const test_peer peer;
        const ep_handle ep = listen(peer);
        const conn_handle client = connect(request(peer));
        const conn_handle server = connect(next_request(ep));
        expect_event(client.get(), RPMA_CONN_ESTABLISHED);
        expect_event(server.get(), RPMA_CONN_ESTABLISHED);
        expect_true(event_fd(client.get()) != event_fd(server.get()), "one event file for two");
    });
    add_case(cases, "conn.event_fd", [] {
        const test_peer peer;
        const ep_handle ep = listen(peer);
        const conn_handle client = connect(request(peer));
        const int fd = event_fd(client.get());
        expect_true(!is_nonblocking(fd), "it is non-blocking");
        expect_true(!is_readable(fd), "it is readable without an event");
        const conn_handle server = connect(next_request(ep));
        wait_readable(fd);
        expect_event(client.get(), RPMA_CONN_ESTABLISHED);
        expect_event(server.get(), RPMA_CONN_ESTABLISHED);
        expect_true(!is_readable(fd), "it is readable after the event");
    });
    add_case(cases, "conn.no_event", [] {
        const test_peer peer;
        const conn_pair conns(peer);
        set_nonblocking(event_fd(conns.client()));
        expect_fails<rpma_conn_event>(
            [&](rpma_conn_event *event) { return rpma_conn_next_event(conns.client(), event); },
            RPMA_E_NO_EVENT);
        set_nonblocking(event_fd(conns.server()));
        expect_fails<rpma_conn_event>(
            [&](rpma_conn_event *event) { return rpma_conn_next_event(conns.server(), event); },
            RPMA_E_NO_EVENT);
        for (const rpma_conn *conn :
             {conns.client(), conns.server()}) // for the end of the connection
            fcntl(event_fd(conn), F_SETFL, fcntl(event_fd(conn), F_GETFL) & ~O_NONBLOCK);
    });
    add_case(cases, "conn.qp_num", [] {
        const test_peer peer;
        test_mr dst(peer, RPMA_MR_USAGE_RECV);
        const conn_pair conns(peer);
        expect_true(qp_num(conns.client()) != qp_num(conns.server()), "two QPs have one number");
        require_ok(rpma_recv(conns.server(), dst.get(), 0, 8, op_context(2)));
        require_ok(rpma_send(conns.client(), nullptr, 0, 0, always, op_context(1)));
        expect_eq(expect_wc(cq_of(conns.client()), 1, IBV_WC_SEND).qp_num, qp_num(conns.client()),
                  "qp_num");
        expect_eq(expect_wc(cq_of(conns.server()), 2, IBV_WC_RECV).qp_num, qp_num(conns.server()),
                  "qp_num");
    });
    add_case(cases, "conn.cqs", [] {
        const test_peer peer;
        const conn_cfg_object cfg;
        require_ok(rpma_conn_cfg_set_rcq_size(cfg.get(), 10));
        const conn_pair conns(peer, {.server_cfg = cfg.get()});
        rpma_cq *rcq = fake_object<rpma_cq>();
        expect_return(rpma_conn_get_rcq(conns.client(), &rcq), 0);
        expect_true(rcq == nullptr, "there is a receive CQ");
        expect_true(rcq_of(conns.server()) != cq_of(conns.server()),
                    "the receive CQ is the main CQ");
        expect_true(cq_of(conns.server()) != cq_of(conns.client()), "two connections have one CQ");
        expect_true(cq_of(conns.server()) == cq_of(conns.server()), "the CQ changes");
    });
    add_case(cases, "conn.null_output", [] {
        const test_peer peer;
        const conn_pair conns(peer);
        rpma_conn *const conn = conns.client();
        expect_return(rpma_conn_get_event_fd(conn, nullptr), RPMA_E_INVAL);
        expect_return(rpma_conn_next_event(conn, nullptr), RPMA_E_INVAL);
        expect_return(rpma_conn_get_qp_num(conn, nullptr), RPMA_E_INVAL);
        expect_return(rpma_conn_get_cq(conn, nullptr), RPMA_E_INVAL);
        expect_return(rpma_conn_get_rcq(conn, nullptr), RPMA_E_INVAL);
        expect_return(rpma_conn_get_compl_fd(conn, nullptr), RPMA_E_INVAL);
        expect_return(rpma_conn_apply_remote_peer_cfg(conn, nullptr), RPMA_E_INVAL);
        expect_return(rpma_conn_wait(conn, 0, nullptr, nullptr), RPMA_E_INVAL);
    });
}

void add_deleted(case_list &cases) {
    add_case(cases, "conn.lifetime", [] {
        const test_peer peer;
        conn_pair conns(peer);
        conns.disconnect();
        for (conn_handle *conn : {&conns.client_handle(), &conns.server_handle()}) {
            expect_return(rpma_conn_delete(conn->out()), 0);
            expect_true(conn->get() == nullptr, "the pointer is not NULL");
            expect_return(rpma_conn_delete(conn->out()), 0);
        }
    });
    add_case(cases, "conn.delete_connecting", [] {
        const test_peer peer;
        const ep_handle ep = listen(peer);
        conn_handle client = connect(request(peer));
        expect_return(rpma_conn_delete(client.out()), 0);
        expect_true(client.get() == nullptr, "the pointer is not NULL");
    });
    add_case(cases, "conn.delete_with_completions", [] {
        const test_peer peer;
        test_mr dst(peer, RPMA_MR_USAGE_RECV);
        conn_pair conns(peer);
        require_ok(rpma_recv(conns.client(), dst.get(), 0, 8, nullptr));
        require_ok(rpma_write(conns.client(), nullptr, 0, nullptr, 0, 0, always, nullptr));
        require_ok(rpma_cq_wait(cq_of(conns.client()))); // whose event has been acknowledged
        conns.disconnect();
    });
    add_case(cases, "conn.again", [] {
        const test_peer peer;
        for (int i = 0; i < 5; ++i)
            conn_pair(peer).disconnect();
    });
}

} // namespace

void add_connect(case_list &cases) {
    add_established(cases);
    add_deleted(cases);
}

} // namespace conform

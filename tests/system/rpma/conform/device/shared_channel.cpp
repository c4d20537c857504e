// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The completion channel that a connection's two CQs share: rpma_conn_wait(),
// rpma_conn_get_compl_fd().

#include "../lib/device.hpp"
#include "../lib/invalid.hpp"

namespace conform {

namespace {

struct shared_cfg {
    conn_cfg_object cfg;
    explicit shared_cfg(std::uint32_t rcq_size) {
        require_ok(rpma_conn_cfg_set_compl_channel(cfg.get(), true));
        require_ok(rpma_conn_cfg_set_rcq_size(cfg.get(), rcq_size));
    }
};
/// Both sides share their channels.
struct shared_pair {
    shared_cfg cfg;
    test_mr dst;
    conn_pair conns;
    explicit shared_pair(const test_peer &peer, std::uint32_t rcq_size = 10)
        : cfg(rcq_size)
        , dst(peer, RPMA_MR_USAGE_RECV)
        , conns(peer, {.client_cfg = cfg.cfg.get(), .server_cfg = cfg.cfg.get()}) {}
};

int compl_fd(const rpma_conn *conn) {
    int fd = -1;
    require_ok(rpma_conn_get_compl_fd(conn, &fd));
    require(fd >= 0, "no file descriptor");
    return fd;
}
/// Waits for the event of that CQ and takes its completion.
void expect_wait(rpma_conn *conn, rpma_cq *expected, bool expected_is_rcq, std::uint64_t wr_id,
                 source_location loc = current_location()) {
    rpma_cq *cq = nullptr;
    bool is_rcq = !expected_is_rcq;
    require_ok(rpma_conn_wait(conn, 0, &cq, &is_rcq), loc);
    expect_true(cq == expected, "it is another CQ", loc);
    expect_eq(is_rcq, expected_is_rcq, "is_rcq", loc);
    ibv_wc wc{};
    require_ok(rpma_cq_get_wc(cq, 1, &wc, nullptr), loc);
    expect_eq(wc.wr_id, wr_id, "wr_id", loc);
}

} // namespace

void add_shared_channel(case_list &cases) {
    add_case(cases, "shared.not_shared", [] {
        const test_peer peer;
        const conn_pair conns(peer);
        expect_fails<int>([&](int *fd) { return rpma_conn_get_compl_fd(conns.client(), fd); },
                          RPMA_E_NOT_SHARED_CHNL);
        bool is_rcq = false;
        expect_fails<rpma_cq *>(
            [&](rpma_cq **cq) { return rpma_conn_wait(conns.client(), 0, cq, &is_rcq); },
            RPMA_E_NOT_SHARED_CHNL);
        expect_return(rpma_conn_wait(conns.client(), 0, nullptr, nullptr), RPMA_E_INVAL);
    });
    add_case(cases, "shared.cq_wait", [] {
        const test_peer peer;
        const shared_pair both(peer);
        expect_return(rpma_cq_wait(cq_of(both.conns.client())), RPMA_E_SHARED_CHANNEL);
        expect_return(rpma_cq_wait(rcq_of(both.conns.client())), RPMA_E_SHARED_CHANNEL);
    });
    add_case(cases, "shared.fd", [] {
        const test_peer peer;
        const shared_pair both(peer);
        const int fd = compl_fd(both.conns.client());
        expect_true(!is_nonblocking(fd), "it is non-blocking");
        for (const rpma_cq *cq : {cq_of(both.conns.client()), rcq_of(both.conns.client())}) {
            int cq_fd = -1;
            expect_return(rpma_cq_get_fd(cq, &cq_fd), 0);
            expect_eq(cq_fd, fd, "the file descriptor of the CQ");
        }
        expect_true(!is_readable(fd), "it is readable without a completion");
        require_ok(
            rpma_write(both.conns.client(), nullptr, 0, nullptr, 0, 0, always, op_context(1)));
        wait_readable(fd);
        expect_wait(both.conns.client(), cq_of(both.conns.client()), false, 1);
        expect_return(rpma_conn_get_compl_fd(both.conns.client(), nullptr), RPMA_E_INVAL);
        expect_return(rpma_conn_wait(both.conns.client(), 0, nullptr, nullptr), RPMA_E_INVAL);
    });
    add_case(cases, "shared.wait", [] {
        const test_peer peer;
        const shared_pair both(peer);
        rpma_conn *const client = both.conns.client(), *const server = both.conns.server();
        for (std::uintptr_t i = 1; i < 6; ++i) {
            require_ok(rpma_recv(server, both.dst.get(), 0, 8, op_context(i + 100)));
            require_ok(rpma_send(client, nullptr, 0, 0, always, op_context(i)));
            expect_wait(server, rcq_of(server), true, i + 100);
            expect_wait(client, cq_of(client), false, i);
            require_ok(rpma_write(server, nullptr, 0, nullptr, 0, 0, always, op_context(i + 200)));
            expect_wait(server, cq_of(server), false, i + 200);
        }
    });
    add_case(cases, "shared.wait.no_is_rcq", [] {
        const test_peer peer;
        const shared_pair both(peer);
        require_ok(
            rpma_write(both.conns.client(), nullptr, 0, nullptr, 0, 0, always, op_context(1)));
        rpma_cq *cq = nullptr;
        expect_return(rpma_conn_wait(both.conns.client(), 0, &cq, nullptr), 0);
        expect_true(cq == cq_of(both.conns.client()), "it is another CQ");
    });
    // The flags have no meaning.
    add_case(cases, "shared.wait.flags", [] {
        const test_peer peer;
        const shared_pair both(peer);
        for (const int flags : {0, RPMA_W_WAIT_FOR_COMPLETION, -1}) {
            require_ok(
                rpma_write(both.conns.client(), nullptr, 0, nullptr, 0, 0, always, op_context(1)));
            rpma_cq *cq = nullptr;
            require_ok(rpma_conn_wait(both.conns.client(), flags, &cq, nullptr));
            expect_wc(cq, 1, IBV_WC_RDMA_WRITE);
        }
    });
    add_case(cases, "shared.without_rcq", [] {
        const test_peer peer;
        const shared_pair both(peer, 0);
        rpma_conn *const client = both.conns.client(), *const server = both.conns.server();
        require_ok(rpma_recv(server, both.dst.get(), 0, 8, op_context(2)));
        require_ok(rpma_send(client, nullptr, 0, 0, always, op_context(1)));
        expect_wait(server, cq_of(server), false, 2);
        expect_wait(client, cq_of(client), false, 1);
        expect_return(rpma_cq_wait(cq_of(client)), RPMA_E_SHARED_CHANNEL);
    });
    add_case(cases, "shared.no_completion", [] {
        const test_peer peer;
        const shared_pair both(peer);
        set_nonblocking(compl_fd(both.conns.client()));
        bool is_rcq = false;
        expect_fails<rpma_cq *>(
            [&](rpma_cq **cq) { return rpma_conn_wait(both.conns.client(), 0, cq, &is_rcq); },
            RPMA_E_NO_COMPLETION);
        require_ok(
            rpma_write(both.conns.client(), nullptr, 0, nullptr, 0, 0, always, op_context(1)));
        wait_readable(compl_fd(both.conns.client()));
        expect_wait(both.conns.client(), cq_of(both.conns.client()), false, 1);
    });
    // Each side chooses for itself.
    add_case(cases, "shared.by_one_side", [] {
        const test_peer peer;
        const shared_cfg cfg(10);
        const conn_pair conns(peer, {.server_cfg = cfg.cfg.get()});
        expect_fails<int>([&](int *fd) { return rpma_conn_get_compl_fd(conns.client(), fd); },
                          RPMA_E_NOT_SHARED_CHNL);
        compl_fd(conns.server());
    });
}

} // namespace conform

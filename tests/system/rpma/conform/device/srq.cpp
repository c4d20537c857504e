// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// rpma_srq_*(), and connections with an SRQ.

#include "../lib/device.hpp"
#include "../lib/invalid.hpp"

namespace conform {

namespace {

using output = rpma_srq *;

/// An SRQ with a receive CQ of that size; 0 is none.
srq_handle make_srq(const test_peer &peer, std::uint32_t rcq_size) {
    const srq_cfg_object cfg;
    require_ok(rpma_srq_cfg_set_rcq_size(cfg.get(), rcq_size));
    srq_handle srq;
    require_ok(rpma_srq_new(peer.get(), cfg.get(), srq.out()));
    require(srq.get() != nullptr, "no SRQ");
    return srq;
}
rpma_cq *rcq_of_srq(const srq_handle &srq) {
    rpma_cq *rcq = nullptr;
    require_ok(rpma_srq_get_rcq(srq.get(), &rcq));
    return rcq;
}
struct srq_conn_cfg {
    conn_cfg_object cfg;
    explicit srq_conn_cfg(const srq_handle &srq, std::uint32_t rcq_size = 0, bool shared = false) {
        require_ok(rpma_conn_cfg_set_srq(cfg.get(), srq.get()));
        require_ok(rpma_conn_cfg_set_rcq_size(cfg.get(), rcq_size));
        require_ok(rpma_conn_cfg_set_compl_channel(cfg.get(), shared));
    }
};
/// A message to the server, whose completion is in the CQ.
void expect_message(const test_peer &peer, const conn_pair &conns, const srq_handle &srq,
                    rpma_cq *cq) {
    test_mr src(peer, RPMA_MR_USAGE_SEND), dst(peer, RPMA_MR_USAGE_RECV);
    src.fill("message");
    require_ok(rpma_srq_recv(srq.get(), dst.get(), 3, 100, op_context(2)));
    require_ok(rpma_send(conns.client(), src.get(), 0, 7, always, op_context(1)));
    expect_wc(cq_of(conns.client()), 1, IBV_WC_SEND);
    expect_eq(expect_wc(cq, 2, IBV_WC_RECV).byte_len, 7, "byte_len");
    expect_eq(dst.text(3, 7), "message", "the memory");
}

void add_new(case_list &cases) {
    add_case(cases, "srq.default", [] {
        const test_peer peer;
        srq_handle srq;
        require_ok(rpma_srq_new(peer.get(), nullptr, srq.out()));
        expect_true(rcq_of_srq(srq) != nullptr, "no receive CQ");
        test_mr dst(peer, RPMA_MR_USAGE_RECV);
        for (unsigned i = 0; i < 20; ++i) // as many as rpma_srq_cfg_new() says
            require_ok(rpma_srq_recv(srq.get(), dst.get(), 0, 8, nullptr));
        expect_return(rpma_srq_delete(srq.out()), 0);
        expect_true(srq.get() == nullptr, "the pointer is not NULL");
        expect_return(rpma_srq_delete(srq.out()), 0);
    });
    add_case(cases, "srq.without_rcq", [] {
        const test_peer peer;
        const srq_handle srq = make_srq(peer, 0);
        rpma_cq *rcq = fake_object<rpma_cq>();
        expect_return(rpma_srq_get_rcq(srq.get(), &rcq), 0);
        expect_true(rcq == nullptr, "there is a receive CQ");
        expect_return(rpma_srq_get_rcq(srq.get(), nullptr), RPMA_E_INVAL);
    });
    add_case(cases, "srq.too_large", [] {
        const test_peer peer;
        const srq_cfg_object cfg;
        require_ok(rpma_srq_cfg_set_rq_size(cfg.get(), UINT32_MAX));
        const auto create = [&](output *out) {
            return rpma_srq_new(peer.get(), cfg.get(), out);
        };
        expect_fails<output>(create, RPMA_E_PROVIDER);
        require_ok(rpma_srq_cfg_set_rq_size(cfg.get(), 10));
        require_ok(rpma_srq_cfg_set_rcq_size(cfg.get(), UINT32_MAX));
        expect_fails<output>(create, RPMA_E_PROVIDER);
    });
    add_case(cases, "srq.full", [] {
        const test_peer peer;
        const srq_handle srq = make_srq(peer, 0);
        test_mr dst(peer, RPMA_MR_USAGE_RECV);
        int num = 0, ret = 0;
        while (num < 100000 && (ret = rpma_srq_recv(srq.get(), dst.get(), 0, 8, nullptr)) == 0)
            ++num;
        expect_return(ret, RPMA_E_PROVIDER);
        expect_true(num >= 20, concat("the SRQ has ", num, " entries"));
    });
    add_case(cases, "srq.delete_in_use", [] {
        const test_peer &peer = *new test_peer; // which cannot be deleted any more
        srq_handle srq = make_srq(peer, 0);
        const srq_conn_cfg cfg(srq);
        const req_handle req = request(peer, cfg.cfg.get());
        expect_return(rpma_srq_delete(srq.out()), RPMA_E_PROVIDER);
        expect_true(srq.get() == nullptr, "the pointer is not NULL");
    });
}

void add_receives(case_list &cases) {
    add_case(cases, "srq.own_rcq", [] {
        const test_peer peer;
        const srq_handle srq = make_srq(peer, 20);
        const srq_conn_cfg cfg(srq, 10); // whose receive CQ is not created
        const conn_pair conns(peer, {.server_cfg = cfg.cfg.get()});
        rpma_cq *rcq = fake_object<rpma_cq>();
        expect_return(rpma_conn_get_rcq(conns.server(), &rcq), 0);
        expect_true(rcq == nullptr, "the connection has a receive CQ");
        expect_message(peer, conns, srq, rcq_of_srq(srq));
        expect_no_wc(cq_of(conns.server()));
    });
    add_case(cases, "srq.rcq_of_connection", [] {
        const test_peer peer;
        const srq_handle srq = make_srq(peer, 0);
        const srq_conn_cfg cfg(srq, 10);
        const conn_pair conns(peer, {.server_cfg = cfg.cfg.get()});
        expect_message(peer, conns, srq, rcq_of(conns.server()));
        expect_no_wc(cq_of(conns.server()));
    });
    add_case(cases, "srq.cq_of_connection", [] {
        const test_peer peer;
        const srq_handle srq = make_srq(peer, 0);
        const srq_conn_cfg cfg(srq);
        const conn_pair conns(peer, {.server_cfg = cfg.cfg.get()});
        expect_message(peer, conns, srq, cq_of(conns.server()));
    });
    add_case(cases, "srq.two_connections", [] {
        const test_peer peer;
        const srq_handle srq = make_srq(peer, 20);
        test_mr src(peer, RPMA_MR_USAGE_SEND), dst(peer, RPMA_MR_USAGE_RECV);
        const srq_conn_cfg cfg(srq);
        const conn_pair conns(peer, {.server_cfg = cfg.cfg.get()});
        const conn_pair other(peer, {.server_cfg = cfg.cfg.get()});
        src.fill("one");
        std::string expected[] = {"one", "two"};
        unsigned number = 0;
        for (const conn_pair *conn : {&conns, &other}) {
            require_ok(rpma_srq_recv(srq.get(), dst.get(), 0, 64, op_context(7)));
            src.fill(expected[number]);
            require_ok(rpma_send(conn->client(), src.get(), 0, 3, always, op_context(1)));
            expect_wc(cq_of(conn->client()), 1, IBV_WC_SEND);
            const ibv_wc wc = expect_wc(rcq_of_srq(srq), 7, IBV_WC_RECV);
            std::uint32_t qp_num = 0;
            require_ok(rpma_conn_get_qp_num(conn->server(), &qp_num));
            expect_eq(wc.qp_num, qp_num, "qp_num");
            expect_eq(dst.text(0, 3), expected[number++], "the memory");
        }
    });
    // The QP has no RQ of its own.
    add_case(cases, "srq.conn_recv", [] {
        const test_peer peer;
        const srq_handle srq = make_srq(peer, 20);
        const srq_conn_cfg cfg(srq);
        const conn_pair conns(peer, {.server_cfg = cfg.cfg.get()});
        test_mr dst(peer, RPMA_MR_USAGE_RECV);
        expect_return(rpma_recv(conns.server(), dst.get(), 0, 8, nullptr), RPMA_E_PROVIDER);
    });
    add_case(cases, "srq.recv_no_mr", [] {
        const test_peer peer;
        const srq_handle srq = make_srq(peer, 20);
        const srq_conn_cfg cfg(srq);
        const conn_pair conns(peer, {.server_cfg = cfg.cfg.get()});
        require_ok(rpma_srq_recv(srq.get(), nullptr, 0, 0, op_context(2)));
        require_ok(rpma_send(conns.client(), nullptr, 0, 0, always, op_context(1)));
        expect_wc(cq_of(conns.client()), 1, IBV_WC_SEND);
        expect_eq(expect_wc(rcq_of_srq(srq), 2, IBV_WC_RECV).byte_len, 0, "byte_len");
    });
}

void add_shared(case_list &cases) {
    add_case(cases, "srq.shared_channel", [] {
        const test_peer peer;
        const srq_handle srq = make_srq(peer, 0);
        const srq_conn_cfg cfg(srq, 10, true);
        const conn_pair conns(peer, {.server_cfg = cfg.cfg.get()});
        test_mr dst(peer, RPMA_MR_USAGE_RECV);
        require_ok(rpma_srq_recv(srq.get(), dst.get(), 0, 8, op_context(2)));
        require_ok(rpma_send(conns.client(), nullptr, 0, 0, always, op_context(1)));
        rpma_cq *cq = nullptr;
        bool is_rcq = false;
        require_ok(rpma_conn_wait(conns.server(), 0, &cq, &is_rcq));
        expect_eq(is_rcq, true, "is_rcq");
        expect_wc(cq, 2, IBV_WC_RECV);
    });
    // The SRQ's receive CQ has a channel of its own.
    add_case(cases, "srq.shared_channel.own_rcq", [] {
        const test_peer peer;
        const srq_handle srq = make_srq(peer, 20);
        const srq_conn_cfg cfg(srq, 0, true);
        expect_fails<rpma_conn_req *>(
            [&](rpma_conn_req **req) {
                return rpma_conn_req_new(peer.get(), settings().address.c_str(),
                                         settings().port.c_str(), cfg.cfg.get(), req);
            },
            RPMA_E_INVAL);
        const ep_handle ep = listen(peer);
        const conn_handle client = connect(request(peer));
        expect_fails<rpma_conn_req *>(
            [&](rpma_conn_req **req) {
                return rpma_ep_next_conn_req(ep.get(), cfg.cfg.get(), req);
            },
            RPMA_E_INVAL);
    });
    add_case(cases, "srq.cq_of_own_rcq", [] {
        const test_peer peer;
        const srq_handle srq = make_srq(peer, 20);
        int fd = -1;
        expect_return(rpma_cq_get_fd(rcq_of_srq(srq), &fd), 0);
        set_nonblocking(fd);
        expect_return(rpma_cq_wait(rcq_of_srq(srq)), RPMA_E_NO_COMPLETION);
        expect_no_wc(rcq_of_srq(srq));
    });
}

} // namespace

void add_srq(case_list &cases) {
    add_new(cases);
    add_receives(cases);
    add_shared(cases);
}

} // namespace conform

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// rpma_conn_req_*(); private data are in private_data.cpp.

#include "../lib/device.hpp"
#include "../lib/invalid.hpp"

namespace conform {

namespace {

using output = rpma_conn_req *;

void expect_no_request(const test_peer &peer, const std::string &address, const std::string &port,
                       const rpma_conn_cfg *cfg = nullptr) {
    const scoped_trace trace(concat("address '", address, "', port '", port, "'"));
    expect_fails<output>(
        [&](output *out) {
            return rpma_conn_req_new(peer.get(), address.c_str(), port.c_str(), cfg, out);
        },
        RPMA_E_PROVIDER);
}
void add_too_large(case_list &cases, const char *name, int (*set)(rpma_conn_cfg *, std::uint32_t)) {
    add_case(cases, concat("req.too_large_", name), [set] {
        const test_peer peer;
        const conn_cfg_object cfg;
        require_ok(set(cfg.get(), UINT32_MAX));
        expect_no_request(peer, settings().address, settings().port, cfg.get());
        require_ok(set(cfg.get(), 20));
        const req_handle req = request(peer, cfg.get()); // nothing is left of the other
    });
}

void add_new(case_list &cases) {
    add_case(cases, "req.lifetime", [] {
        const test_peer peer;
        req_handle req = request(peer);
        expect_return(rpma_conn_req_delete(req.out()), 0);
        expect_true(req.get() == nullptr, "the pointer is not NULL");
        expect_return(rpma_conn_req_delete(req.out()), 0);
    });
    add_case(cases, "req.invalid_address", [] {
        const test_peer peer;
        expect_no_request(peer, "not an address", settings().port);
        expect_no_request(peer, settings().address, "not a port");
    });
    add_too_large(cases, "cq_size", rpma_conn_cfg_set_cq_size);
    add_too_large(cases, "rcq_size", rpma_conn_cfg_set_rcq_size);
    add_too_large(cases, "sq_size", rpma_conn_cfg_set_sq_size);
    add_too_large(cases, "rq_size", rpma_conn_cfg_set_rq_size);
    add_case(cases, "req.cfg_sizes", [] {
        const test_peer peer;
        const conn_cfg_object cfg;
        require_ok(rpma_conn_cfg_set_cq_size(cfg.get(), 100));
        require_ok(rpma_conn_cfg_set_rcq_size(cfg.get(), 50));
        require_ok(rpma_conn_cfg_set_sq_size(cfg.get(), 90));
        require_ok(rpma_conn_cfg_set_rq_size(cfg.get(), 40));
        require_ok(rpma_conn_cfg_set_timeout(cfg.get(), 5000));
        const conn_pair conns(peer, {.client_cfg = cfg.get(), .server_cfg = cfg.get()});
        test_mr mr(peer, RPMA_MR_USAGE_RECV);
        for (unsigned i = 0; i < 40; ++i)
            require_ok(rpma_recv(conns.client(), mr.get(), 0, 8, nullptr));
    });
    // The configuration is not needed afterwards.
    add_case(cases, "req.cfg_deleted", [] {
        const test_peer peer;
        const ep_handle ep = listen(peer);
        req_handle req;
        {
            const conn_cfg_object cfg;
            req = request(peer, cfg.get());
        }
        const conn_handle client = connect(std::move(req));
        const conn_handle server = connect(next_request(ep));
        expect_event(client.get(), RPMA_CONN_ESTABLISHED);
    });
}

void add_recv(case_list &cases) {
    // Before the connection is there: the first message of the peer finds the buffer.
    add_case(cases, "req.recv.server", [] {
        const test_peer peer;
        test_mr src(peer, RPMA_MR_USAGE_SEND), dst(peer, RPMA_MR_USAGE_RECV);
        const conn_pair conns(peer, {.prepare_server = [&](rpma_conn_req *req) {
                                  expect_return(
                                      rpma_conn_req_recv(req, dst.get(), 8, 64, op_context(2)), 0);
                              }});
        src.fill("early");
        require_ok(rpma_send(conns.client(), src.get(), 0, 5, always, op_context(1)));
        expect_wc(cq_of(conns.client()), 1, IBV_WC_SEND);
        const ibv_wc wc = expect_wc(cq_of(conns.server()), 2, IBV_WC_RECV);
        expect_eq(wc.byte_len, 5, "byte_len");
        expect_eq(dst.text(8, 5), "early", "the memory");
    });
    add_case(cases, "req.recv.client", [] {
        const test_peer peer;
        test_mr src(peer, RPMA_MR_USAGE_SEND), dst(peer, RPMA_MR_USAGE_RECV);
        const ep_handle ep = listen(peer);
        req_handle req = request(peer);
        expect_return(rpma_conn_req_recv(req.get(), dst.get(), 0, 64, nullptr), 0);
        const conn_handle client = connect(std::move(req));
        const conn_handle server = connect(next_request(ep));
        expect_event(client.get(), RPMA_CONN_ESTABLISHED);
        expect_event(server.get(), RPMA_CONN_ESTABLISHED);
        // On iWARP the client sends first.
        require_ok(rpma_write(client.get(), nullptr, 0, nullptr, 0, 0, always, op_context(3)));
        expect_wc(cq_of(client.get()), 3, IBV_WC_RDMA_WRITE);
        src.fill("early");
        require_ok(rpma_send(server.get(), src.get(), 0, 5, always, op_context(1)));
        expect_wc(cq_of(server.get()), 1, IBV_WC_SEND);
        expect_wc(cq_of(client.get()), 0, IBV_WC_RECV);
        expect_eq(dst.text(0, 5), "early", "the memory");
    });
    add_case(cases, "req.recv.invalid", [] {
        const test_peer peer;
        const req_handle req = request(peer);
        expect_return(rpma_conn_req_recv(req.get(), nullptr, 0, 8, op_context(1)), RPMA_E_INVAL);
        expect_return(rpma_conn_req_recv(req.get(), nullptr, 0, 0, op_context(1)), RPMA_E_INVAL);
    });
    add_case(cases, "req.recv.full", [] {
        const test_peer peer;
        test_mr dst(peer, RPMA_MR_USAGE_RECV);
        const req_handle req = request(peer);
        int num = 0, ret = 0;
        while (num < 100000 && (ret = rpma_conn_req_recv(req.get(), dst.get(), 0, 8, nullptr)) == 0)
            ++num;
        expect_return(ret, RPMA_E_PROVIDER);
        expect_true(num >= 10, concat("the RQ has ", num, " entries"));
    });
}

void add_connect_errors(case_list &cases) {
    // The request is consumed by a failure, too.
    add_case(cases, "req.connect.invalid", [] {
        const test_peer peer;
        char data[8] = {};
        for (const rpma_conn_private_data &invalid :
             {rpma_conn_private_data{data, 0}, rpma_conn_private_data{nullptr, 8},
              rpma_conn_private_data{nullptr, 0}}) {
            req_handle req = request(peer);
            expect_fails<rpma_conn *>(
                [&](rpma_conn **conn) { return rpma_conn_req_connect(req.out(), &invalid, conn); },
                RPMA_E_INVAL);
            expect_true(req.get() == nullptr, "the request is not NULL");
        }
        req_handle req = request(peer);
        expect_return(rpma_conn_req_connect(req.out(), nullptr, nullptr), RPMA_E_INVAL);
        expect_true(req.get() == nullptr, "the request is not NULL");
    });
    // A request of the peer is rejected by that.
    add_case(cases, "req.connect.invalid_server", [] {
        const test_peer peer;
        const ep_handle ep = listen(peer);
        const rpma_conn_private_data invalid{nullptr, 0};
        for (const rpma_conn_private_data *pdata :
             {&invalid, static_cast<decltype(&invalid)>(nullptr)}) {
            const conn_handle client = connect(request(peer));
            req_handle req = next_request(ep);
            rpma_conn *conn = nullptr;
            expect_return(rpma_conn_req_connect(req.out(), pdata, pdata ? &conn : nullptr),
                          RPMA_E_INVAL);
            expect_true(req.get() == nullptr, "the request is not NULL");
            expect_true(conn == nullptr, "there is a connection");
            expect_event(client.get(), RPMA_CONN_REJECTED);
        }
    });
}

} // namespace

void add_request(case_list &cases) {
    add_new(cases);
    add_recv(cases);
    add_connect_errors(cases);
}

} // namespace conform

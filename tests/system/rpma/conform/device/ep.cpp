// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// rpma_ep_*().

#include "../lib/device.hpp"
#include "../lib/invalid.hpp"

namespace conform {

namespace {

using ep_output = rpma_ep *;
using req_output = rpma_conn_req *;

int fd_of(const ep_handle &ep) {
    int fd = -1;
    require_ok(rpma_ep_get_fd(ep.get(), &fd));
    require(fd >= 0, "no file descriptor");
    return fd;
}

void expect_cannot_listen(const test_peer &peer, const std::string &address,
                          const std::string &port) {
    const scoped_trace trace(concat("address '", address, "', port '", port, "'"));
    expect_fails<ep_output>(
        [&](ep_output *out) {
            return rpma_ep_listen(peer.get(), address.c_str(), port.c_str(), out);
        },
        RPMA_E_PROVIDER);
}

void add_listen(case_list &cases) {
    add_case(cases, "ep.lifetime", [] {
        const test_peer peer;
        for (int i = 0; i < 2; ++i) { // the port is free again
            ep_handle ep = listen(peer);
            expect_return(rpma_ep_shutdown(ep.out()), 0);
            expect_true(ep.get() == nullptr, "the pointer is not NULL");
            expect_return(rpma_ep_shutdown(ep.out()), 0);
        }
    });
    add_case(cases, "ep.port_in_use", [] {
        const test_peer peer;
        const ep_handle ep = listen(peer);
        expect_cannot_listen(peer, settings().address, settings().port);
    });
    add_case(cases, "ep.invalid_address", [] {
        const test_peer peer;
        expect_cannot_listen(peer, settings().unused_address, settings().port);
        expect_cannot_listen(peer, "not an address", settings().port);
        expect_cannot_listen(peer, settings().address, "not a port");
    });
}

void add_next(case_list &cases) {
    add_case(cases, "ep.fd", [] {
        const test_peer peer;
        const ep_handle ep = listen(peer);
        expect_true(!is_nonblocking(fd_of(ep)), "it is non-blocking");
        expect_true(!is_readable(fd_of(ep)), "it is readable without a request");
        const conn_handle client = connect(request(peer));
        wait_readable(fd_of(ep));
        const req_handle req = next_request(ep);
        expect_true(!is_readable(fd_of(ep)), "it is readable after the request");
    });
    add_case(cases, "ep.no_event", [] {
        const test_peer peer;
        const ep_handle ep = listen(peer);
        set_nonblocking(fd_of(ep));
        expect_fails<req_output>(
            [&](req_output *out) { return rpma_ep_next_conn_req(ep.get(), nullptr, out); },
            RPMA_E_NO_EVENT);
        const conn_handle client = connect(request(peer));
        wait_readable(fd_of(ep));
        const req_handle req = next_request(ep);
        expect_fails<req_output>(
            [&](req_output *out) { return rpma_ep_next_conn_req(ep.get(), nullptr, out); },
            RPMA_E_NO_EVENT);
    });
    add_case(cases, "ep.several_requests", [] {
        const test_peer peer;
        const ep_handle ep = listen(peer);
        const conn_handle client = connect(request(peer)), other = connect(request(peer));
        const conn_handle server = connect(next_request(ep)),
                          other_server = connect(next_request(ep));
        for (const conn_handle *conn : {&client, &other, &server, &other_server})
            expect_event(conn->get(), RPMA_CONN_ESTABLISHED);
    });
    add_case(cases, "ep.shutdown_keeps_connections", [] {
        const test_peer peer;
        test_mr src(peer, RPMA_MR_USAGE_WRITE_SRC), dst(peer, RPMA_MR_USAGE_WRITE_DST);
        const conn_pair conns(peer); // its endpoint has ended
        src.fill("after");
        require_ok(
            rpma_write(conns.client(), dst.remote(), 0, src.get(), 0, 5, always, op_context(1)));
        expect_wc(cq_of(conns.client()), 1, IBV_WC_RDMA_WRITE);
        expect_eq(dst.text(0, 5), "after", "the memory");
    });
    // A request that its sender has withdrawn may fail; the endpoint serves the next.
    add_case(cases, "ep.client_deleted", [] {
        const test_peer peer;
        const ep_handle ep = listen(peer);
        {
            const conn_handle client = connect(request(peer));
            wait_readable(fd_of(ep));
        }
        rpma_conn_req *req = nullptr;
        const int ret = rpma_ep_next_conn_req(ep.get(), nullptr, &req);
        expect_return(ret, {0, RPMA_E_PROVIDER});
        expect_eq(req != nullptr, ret == 0, "there is a request");
        expect_return(rpma_conn_req_delete(&req),
                      {0, RPMA_E_PROVIDER}); // nothing is left to reject
        expect_true(req == nullptr, "the pointer is not NULL");
        const conn_handle client = connect(request(peer));
        const conn_handle server = connect(next_request(ep));
        expect_event(client.get(), RPMA_CONN_ESTABLISHED);
        expect_event(server.get(), RPMA_CONN_ESTABLISHED);
    });
    add_case(cases, "ep.next_conn_req.too_large_cq", [] {
        const test_peer peer;
        const conn_cfg_object cfg;
        require_ok(rpma_conn_cfg_set_cq_size(cfg.get(), UINT32_MAX));
        const ep_handle ep = listen(peer);
        const conn_handle client = connect(request(peer));
        expect_fails<req_output>(
            [&](req_output *out) { return rpma_ep_next_conn_req(ep.get(), cfg.get(), out); },
            RPMA_E_PROVIDER);
    });
    // Its sender need not wait for a time-out.
    add_case(cases, "ep.next_conn_req.failure_rejects", [] {
        const test_peer peer;
        const conn_cfg_object cfg;
        require_ok(rpma_conn_cfg_set_cq_size(cfg.get(), UINT32_MAX));
        const ep_handle ep = listen(peer);
        const conn_handle client = connect(request(peer));
        rpma_conn_req *req = nullptr;
        expect_return(rpma_ep_next_conn_req(ep.get(), cfg.get(), &req), RPMA_E_PROVIDER);
        expect_event(client.get(), RPMA_CONN_REJECTED);
    });
    add_case(cases, "ep.null_output", [] {
        const test_peer peer;
        const ep_handle ep = listen(peer);
        expect_return(rpma_ep_get_fd(ep.get(), nullptr), RPMA_E_INVAL);
        expect_return(rpma_ep_next_conn_req(ep.get(), nullptr, nullptr), RPMA_E_INVAL);
    });
}

} // namespace

void add_ep(case_list &cases) {
    add_listen(cases);
    add_next(cases);
}

} // namespace conform

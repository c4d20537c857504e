// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "device.hpp"

#include <cstring>
#include <fcntl.h>
#include <poll.h>

namespace conform {

ibv_context *device_context() {
    ibv_context *ctx = nullptr;
    require_ok(
        rpma_utils_get_ibv_context(settings().address.c_str(), RPMA_UTIL_IBV_CONTEXT_LOCAL, &ctx));
    require(ctx != nullptr, "no context");
    return ctx;
}
bool is_iwarp() {
    return device_context()->device->transport_type == IBV_TRANSPORT_IWARP;
}
void require_immediate_data() {
    if (is_iwarp())
        throw case_skipped{"iWARP has no immediate data"};
}

test_peer::test_peer() {
    require_ok(rpma_peer_new(device_context(), peer_.out()));
    require(peer_.get() != nullptr, "no peer");
}

test_mr::test_mr(const test_peer &peer, int usage, std::size_t size)
    : memory_(size) {
    require_ok(rpma_mr_reg(peer.get(), memory_.data(), size, usage, mr_.out()));
    require(mr_.get() != nullptr, "no MR");
    remote_ = make_remote(desc());
}
descriptor test_mr::desc() const {
    descriptor desc{};
    std::size_t size = 0;
    require_ok(rpma_mr_get_descriptor_size(mr_.get(), &size));
    require(size == desc.size(), concat("the descriptor has ", size, " bytes"));
    require_ok(rpma_mr_get_descriptor(mr_.get(), desc.data()));
    return desc;
}
void test_mr::fill(const std::string &text, std::size_t offset) {
    std::memcpy(memory_.data() + offset, text.data(), text.size());
}
remote_mr_handle make_remote(const descriptor &desc) {
    remote_mr_handle mr;
    require_ok(rpma_mr_remote_from_descriptor(desc.data(), desc.size(), mr.out()));
    require(mr.get() != nullptr, "no remote MR");
    return mr;
}

ep_handle listen(const test_peer &peer) {
    ep_handle ep;
    require_ok(
        rpma_ep_listen(peer.get(), settings().address.c_str(), settings().port.c_str(), ep.out()));
    require(ep.get() != nullptr, "no endpoint");
    return ep;
}
req_handle request(const test_peer &peer, const rpma_conn_cfg *cfg) {
    req_handle req;
    require_ok(rpma_conn_req_new(peer.get(), settings().address.c_str(), settings().port.c_str(),
                                 cfg, req.out()));
    require(req.get() != nullptr, "no request");
    return req;
}
req_handle next_request(const ep_handle &ep, const rpma_conn_cfg *cfg) {
    req_handle req;
    require_ok(rpma_ep_next_conn_req(ep.get(), cfg, req.out()));
    require(req.get() != nullptr, "no request");
    return req;
}
conn_handle connect(req_handle req, const std::string &private_data) {
    std::string data = private_data;
    const rpma_conn_private_data pdata{data.data(), static_cast<std::uint8_t>(data.size())};
    conn_handle conn;
    require_ok(rpma_conn_req_connect(req.out(), data.empty() ? nullptr : &pdata, conn.out()));
    expect_true(req.get() == nullptr, "the request is not NULL");
    require(conn.get() != nullptr, "no connection");
    return conn;
}

rpma_conn_event next_event(rpma_conn *conn) {
    rpma_conn_event event = RPMA_CONN_UNDEFINED;
    require_ok(rpma_conn_next_event(conn, &event));
    return event;
}
void expect_event(rpma_conn *conn, rpma_conn_event expected, source_location loc) {
    const rpma_conn_event event = next_event(conn);
    require(event == expected,
            concat("the event is '", rpma_utils_conn_event_2str(event), "', not '",
                   rpma_utils_conn_event_2str(expected), "'"),
            loc);
}

conn_pair::conn_pair(const test_peer &peer, const pair_options &options) {
    const ep_handle ep = listen(peer);
    client_ = connect(request(peer, options.client_cfg), options.client_data);
    req_handle req = next_request(ep, options.server_cfg);
    if (options.prepare_server)
        options.prepare_server(req.get());
    server_ = connect(std::move(req), options.server_data);
    expect_event(client(), RPMA_CONN_ESTABLISHED);
    expect_event(server(), RPMA_CONN_ESTABLISHED);
    connected_ = true;
}
conn_pair::~conn_pair() {
    if (!connected_ || !client() || !server())
        return;
    try {
        disconnect();
    } catch (const case_aborted &) { // a failure has been noted
    }
}
void conn_pair::disconnect() {
    connected_ = false;
    require_ok(rpma_conn_disconnect(client()));
    expect_event(server(), RPMA_CONN_CLOSED);
    require_ok(rpma_conn_disconnect(server()));
    expect_event(client(), RPMA_CONN_CLOSED);
}

void conn_pair::expect_terminated() {
    connected_ = false;
    expect_event(client(), RPMA_CONN_CLOSED);
    expect_event(server(), RPMA_CONN_CLOSED);
}

rpma_cq *cq_of(const rpma_conn *conn) {
    rpma_cq *cq = nullptr;
    require_ok(rpma_conn_get_cq(conn, &cq));
    require(cq != nullptr, "no CQ");
    return cq;
}
rpma_cq *rcq_of(const rpma_conn *conn) {
    rpma_cq *rcq = nullptr;
    require_ok(rpma_conn_get_rcq(conn, &rcq));
    require(rcq != nullptr, "no receive CQ");
    return rcq;
}
ibv_wc next_wc(rpma_cq *cq) {
    for (;;) {
        ibv_wc wc{};
        const int ret = rpma_cq_get_wc(cq, 1, &wc, nullptr);
        if (ret == 0)
            return wc;
        if (ret != RPMA_E_NO_COMPLETION)
            require_ok(ret);
        require_ok(rpma_cq_wait(cq));
    }
}
ibv_wc expect_wc(rpma_cq *cq, std::uint64_t wr_id, ibv_wc_opcode opcode, source_location loc) {
    const ibv_wc wc = next_wc(cq);
    require(wc.status == IBV_WC_SUCCESS, concat("the status is ", ibv_wc_status_str(wc.status)),
            loc);
    expect_eq(wc.wr_id, wr_id, "wr_id", loc);
    expect_eq(wc.opcode, opcode, "the opcode", loc);
    return wc;
}
void expect_error_wc(rpma_cq *cq, std::uint64_t wr_id, source_location loc) {
    const ibv_wc wc = next_wc(cq);
    expect_true(wc.status != IBV_WC_SUCCESS, "the status is success", loc);
    expect_eq(wc.wr_id, wr_id, "wr_id", loc);
}
void expect_no_wc(rpma_cq *cq, source_location loc) {
    ibv_wc wc{};
    expect_return(rpma_cq_get_wc(cq, 1, &wc, nullptr), RPMA_E_NO_COMPLETION, loc);
}

void set_nonblocking(int fd) {
    const int flags = fcntl(fd, F_GETFL);
    require(flags >= 0 && fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0, "fcntl");
}
bool is_nonblocking(int fd) {
    return (fcntl(fd, F_GETFL) & O_NONBLOCK) != 0;
}
namespace {
bool poll_readable(int fd, int timeout_ms) {
    pollfd entry{fd, POLLIN, 0};
    return poll(&entry, 1, timeout_ms) == 1 && (entry.revents & POLLIN) != 0;
}
} // namespace
void wait_readable(int fd) {
    require(poll_readable(fd, -1), "poll");
}
bool is_readable(int fd) {
    return poll_readable(fd, 0);
}

} // namespace conform

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Events of librdmacm: connection events, requests, private data, and the addresses and parameters
// of connections.

#include "connection.hpp"

#include <algorithm>

using namespace fake;

namespace {

struct event_case {
    rdma_cm_event_type type;
    rpma_conn_event event; ///< RPMA_CONN_UNDEFINED: RPMA_E_UNKNOWN
};
const event_case events[] = {
    {RDMA_CM_EVENT_ADDR_RESOLVED, RPMA_CONN_UNDEFINED},
    {RDMA_CM_EVENT_ADDR_ERROR, RPMA_CONN_UNDEFINED},
    {RDMA_CM_EVENT_ROUTE_RESOLVED, RPMA_CONN_UNDEFINED},
    {RDMA_CM_EVENT_ROUTE_ERROR, RPMA_CONN_UNDEFINED},
    {RDMA_CM_EVENT_CONNECT_RESPONSE, RPMA_CONN_UNDEFINED},
    {RDMA_CM_EVENT_CONNECT_ERROR, RPMA_CONN_LOST},
    {RDMA_CM_EVENT_UNREACHABLE, RPMA_CONN_UNREACHABLE},
    {RDMA_CM_EVENT_REJECTED, RPMA_CONN_REJECTED},
    {RDMA_CM_EVENT_ESTABLISHED, RPMA_CONN_ESTABLISHED},
    {RDMA_CM_EVENT_DISCONNECTED, RPMA_CONN_CLOSED},
    {RDMA_CM_EVENT_DEVICE_REMOVAL, RPMA_CONN_LOST},
    {RDMA_CM_EVENT_MULTICAST_JOIN, RPMA_CONN_UNDEFINED},
    {RDMA_CM_EVENT_MULTICAST_ERROR, RPMA_CONN_UNDEFINED},
    {RDMA_CM_EVENT_ADDR_CHANGE, RPMA_CONN_UNDEFINED},
    {RDMA_CM_EVENT_TIMEWAIT_EXIT, RPMA_CONN_CLOSED},
};

void conn_event_of_each_cm_event(void **) {
    connection connected;
    rdma_cm_id *const id = last_id();
    for (const auto &[type, expected] : events) {
        post_event(type, "", id);
        rpma_conn_event event = RPMA_CONN_UNDEFINED;
        assert_int_equal(rpma_conn_next_event(connected.conn, &event),
                         expected == RPMA_CONN_UNDEFINED ? RPMA_E_UNKNOWN : 0);
        assert_int_equal(event, expected);
    }
}

rpma_conn_private_data get_data(const rpma_conn *conn) {
    rpma_conn_private_data data = {};
    assert_int_equal(rpma_conn_get_private_data(conn, &data), 0);
    return data;
}
rpma_conn_private_data get_data(const rpma_conn_req *req) {
    rpma_conn_private_data data = {};
    assert_int_equal(rpma_conn_req_get_private_data(req, &data), 0);
    return data;
}
void assert_data(const rpma_conn_private_data &data, const std::string &expected) {
    assert_int_equal(data.len, expected.size());
    if (expected.empty())
        assert_null(data.ptr);
    else
        assert_memory_equal(data.ptr, expected.data(), expected.size());
}

std::string make_data(std::size_t length, char first) {
    std::string data(length, '\0');
    for (std::size_t i = 0; i != length; ++i)
        data[i] = static_cast<char>(first + static_cast<char>(i));
    return data;
}

const std::size_t lengths[] = {0, 1, 255};

// The reply's data; those of a later event do not replace it.
void active_side_has_private_data_of_reply(void **) {
    for (const std::size_t length : lengths) {
        connection connected;
        assert_data(get_data(connected.conn), "");
        const std::string data = make_data(length, 1);
        rpma_conn_event event;
        post_event(RDMA_CM_EVENT_ESTABLISHED, data, last_id());
        assert_int_equal(rpma_conn_next_event(connected.conn, &event), 0);
        assert_data(get_data(connected.conn), data);
        const void *const ptr = get_data(connected.conn).ptr;
        post_event(RDMA_CM_EVENT_DISCONNECTED, "other", last_id());
        assert_int_equal(rpma_conn_next_event(connected.conn, &event), 0);
        assert_ptr_equal(get_data(connected.conn).ptr, ptr);
    }
}

void rejection_has_no_private_data(void **) {
    connection connected;
    rpma_conn_event event;
    post_event(RDMA_CM_EVENT_REJECTED, "data", last_id());
    assert_int_equal(rpma_conn_next_event(connected.conn, &event), 0);
    assert_data(get_data(connected.conn), "");
}

// The program may keep the pointer: the connection takes the memory over.
void passive_side_keeps_private_data_of_request(void **) {
    rpma_peer *peer = create_peer();
    rpma_ep *ep = nullptr;
    assert_int_equal(rpma_ep_listen(peer, "192.0.2.1", "7204", &ep), 0);
    for (const std::size_t length : lengths) {
        const std::string data = make_data(length, 7);
        post_event(RDMA_CM_EVENT_CONNECT_REQUEST, data);
        rpma_conn_req *req = nullptr;
        assert_int_equal(rpma_ep_next_conn_req(ep, nullptr, &req), 0);
        const rpma_conn_private_data req_data = get_data(req);
        assert_data(req_data, data);
        rpma_conn *conn = nullptr;
        assert_int_equal(rpma_conn_req_connect(&req, nullptr, &conn), 0);
        assert_null(req);
        assert_ptr_equal(get_data(conn).ptr, req_data.ptr);
        assert_data(get_data(conn), data);
        // Another event's data do not replace it.
        post_event(RDMA_CM_EVENT_ESTABLISHED, length == 0 ? "" : "other", last_id());
        rpma_conn_event event;
        assert_int_equal(rpma_conn_next_event(conn, &event), 0);
        assert_ptr_equal(get_data(conn).ptr, req_data.ptr);
        assert_int_equal(rpma_conn_delete(&conn), 0);
    }
    assert_int_equal(rpma_ep_shutdown(&ep), 0);
    assert_int_equal(rpma_peer_delete(&peer), 0);
}

void sent_private_data_and_parameters(void **) {
    rpma_peer *peer = create_peer();
    rpma_ep *ep = nullptr;
    assert_int_equal(rpma_ep_listen(peer, "192.0.2.1", "7204", &ep), 0);
    for (const bool is_passive : {false, true}) {
        for (const std::size_t length : lengths) {
            rpma_conn_req *req = nullptr;
            if (is_passive) {
                post_event(RDMA_CM_EVENT_CONNECT_REQUEST);
                assert_int_equal(rpma_ep_next_conn_req(ep, nullptr, &req), 0);
            } else {
                assert_int_equal(rpma_conn_req_new(peer, "192.0.2.1", "7204", nullptr, &req), 0);
            }
            std::string data = make_data(length, 9);
            const rpma_conn_private_data pdata = {.ptr = data.data(),
                                                  .len = static_cast<std::uint8_t>(length)};
            rpma_conn *conn = nullptr;
            take_calls();
            assert_int_equal(rpma_conn_req_connect(&req, length == 0 ? nullptr : &pdata, &conn), 0);
            assert_string_equal(take_calls().back().c_str(),
                                is_passive ? "rdma_accept" : "rdma_connect");
            assert_true(last.private_data == data);
            assert_int_equal(last.conn_param.responder_resources, RDMA_MAX_RESP_RES);
            assert_int_equal(last.conn_param.initiator_depth, RDMA_MAX_INIT_DEPTH);
            assert_int_equal(last.conn_param.flow_control, 1);
            assert_int_equal(last.conn_param.retry_count, 7);
            assert_int_equal(last.conn_param.rnr_retry_count, 7);
            assert_int_equal(rpma_conn_delete(&conn), 0);
        }
    }
    assert_int_equal(rpma_ep_shutdown(&ep), 0);
    assert_int_equal(rpma_peer_delete(&peer), 0);
}

// ENODATA of librdmacm; EAGAIN if the program has made the file non-blocking.
void no_event(void **) {
    connection connected;
    rpma_ep *ep = nullptr;
    assert_int_equal(rpma_ep_listen(connected.peer, "192.0.2.1", "7204", &ep), 0);
    for (const auto &[error, ret] : {std::pair(EAGAIN, RPMA_E_NO_EVENT),
                                     {ENODATA, RPMA_E_NO_EVENT},
                                     {EINTR, RPMA_E_PROVIDER},
                                     {EIO, RPMA_E_PROVIDER}}) {
        settings.no_event_error = error;
        rpma_conn_event event = RPMA_CONN_LOST;
        assert_int_equal(rpma_conn_next_event(connected.conn, &event), ret);
        assert_int_equal(event, RPMA_CONN_LOST);
        assert_int_equal(errno, error);
        rpma_conn_req *req = nullptr;
        assert_int_equal(rpma_ep_next_conn_req(ep, nullptr, &req), ret);
        assert_null(req);
        assert_int_equal(errno, error);
    }
    assert_int_equal(rpma_ep_shutdown(&ep), 0);
}

// Events of the endpoint that are no request are acknowledged, and have no request.
void endpoint_refuses_other_events(void **) {
    rpma_peer *peer = create_peer();
    rpma_ep *ep = nullptr;
    assert_int_equal(rpma_ep_listen(peer, "192.0.2.1", "7204", &ep), 0);
    for (const event_case &each : events) {
        post_event(each.type, "data");
        rpma_conn_req *req = nullptr;
        assert_int_equal(rpma_ep_next_conn_req(ep, nullptr, &req), RPMA_E_INVAL);
        assert_null(req);
    }
    // Those that it does not get are freed with the channel.
    post_event(RDMA_CM_EVENT_CONNECT_REQUEST);
    assert_int_equal(rpma_ep_shutdown(&ep), 0);
    assert_int_equal(rpma_peer_delete(&peer), 0);
}

// Private data that cannot be stored: the request is gone, and the event acknowledged.
void private_data_out_of_memory(void **) {
    connection connected;
    post_event(RDMA_CM_EVENT_ESTABLISHED, "data", last_id());
    fail_allocation(1);
    rpma_conn_event event = RPMA_CONN_LOST;
    assert_int_equal(rpma_conn_next_event(connected.conn, &event), RPMA_E_NOMEM);
    assert_int_equal(event, RPMA_CONN_LOST);
    assert_data(get_data(connected.conn), "");
}

void addresses_and_timeouts(void **) {
    rpma_peer *peer = create_peer();
    rpma_ep *ep = nullptr;
    assert_int_equal(rpma_ep_listen(peer, "192.0.2.1", "7204", &ep), 0);
    assert_string_equal(last.node.c_str(), "192.0.2.1");
    assert_string_equal(last.service.c_str(), "7204");
    assert_int_equal(last.hints.ai_flags, RAI_PASSIVE);
    assert_int_equal(last.hints.ai_qp_type, IBV_QPT_RC);
    assert_int_equal(last.hints.ai_port_space, RDMA_PS_TCP);
    assert_int_equal(last.backlog, 0);
    assert_int_equal(rpma_ep_shutdown(&ep), 0);
    rpma_conn_cfg *cfg = nullptr;
    assert_int_equal(rpma_conn_cfg_new(&cfg), 0);
    assert_int_equal(rpma_conn_cfg_set_timeout(cfg, 1234), 0);
    for (const bool has_cfg : {false, true}) {
        rpma_conn_req *req = nullptr;
        assert_int_equal(
            rpma_conn_req_new(peer, "192.0.2.2", "7205", has_cfg ? cfg : nullptr, &req), 0);
        assert_string_equal(last.node.c_str(), "192.0.2.2");
        assert_string_equal(last.service.c_str(), "7205");
        assert_int_equal(last.hints.ai_flags, 0);
        assert_int_equal(last.timeout_ms, has_cfg ? 1234 : RPMA_DEFAULT_TIMEOUT_MS);
        assert_int_equal(rpma_conn_req_delete(&req), 0);
    }
    assert_int_equal(rpma_conn_cfg_delete(&cfg), 0);
    assert_int_equal(rpma_peer_delete(&peer), 0);
    for (const rpma_util_ibv_context_type type :
         {RPMA_UTIL_IBV_CONTEXT_LOCAL, RPMA_UTIL_IBV_CONTEXT_REMOTE}) {
        ibv_context *result = nullptr;
        assert_int_equal(rpma_utils_get_ibv_context("192.0.2.3", type, &result), 0);
        assert_ptr_equal(result, context());
        assert_string_equal(last.node.c_str(), "192.0.2.3");
        assert_string_equal(last.service.c_str(), "NULL");
        assert_int_equal(last.hints.ai_flags,
                         type == RPMA_UTIL_IBV_CONTEXT_LOCAL ? RAI_PASSIVE : 0);
        assert_int_equal(count_objects(), 0);
        for (const char *const name :
             {"rdma_getaddrinfo", "rdma_create_id",
              type == RPMA_UTIL_IBV_CONTEXT_LOCAL ? "rdma_bind_addr" : "rdma_resolve_addr"}) {
            fail_calls(name, EIO);
            result = nullptr;
            assert_int_equal(rpma_utils_get_ibv_context("192.0.2.3", type, &result),
                             RPMA_E_PROVIDER);
            assert_null(result);
            assert_int_equal(errno, EIO);
            assert_int_equal(count_objects(), 0);
            fail_none();
        }
    }
}

// Its events come to a channel of the connection alone, also those after an accept.
void connection_has_event_channel(void **) {
    rpma_peer *peer = create_peer();
    rpma_ep *ep = nullptr;
    assert_int_equal(rpma_ep_listen(peer, "192.0.2.1", "7204", &ep), 0);
    post_event(RDMA_CM_EVENT_CONNECT_REQUEST);
    rpma_conn_req *req = nullptr;
    assert_int_equal(rpma_ep_next_conn_req(ep, nullptr, &req), 0);
    rpma_conn *conn = nullptr;
    take_calls();
    assert_int_equal(rpma_conn_req_connect(&req, nullptr, &conn), 0);
    const std::vector<std::string> calls = take_calls();
    assert_true(std::find(calls.begin(), calls.end(), "rdma_migrate_id") <
                std::find(calls.begin(), calls.end(), "rdma_accept"));
    int conn_fd = -1, ep_fd = -1;
    assert_int_equal(rpma_conn_get_event_fd(conn, &conn_fd), 0);
    assert_int_equal(rpma_ep_get_fd(ep, &ep_fd), 0);
    assert_int_equal(conn_fd, last_id()->channel->fd);
    assert_true(conn_fd != ep_fd);
    std::uint32_t qp_num = 0;
    assert_int_equal(rpma_conn_get_qp_num(conn, &qp_num), 0);
    assert_int_equal(qp_num, QP_NUM);
    // The endpoint can be shut down first.
    assert_int_equal(rpma_ep_shutdown(&ep), 0);
    assert_int_equal(rpma_conn_disconnect(conn), 0);
    fail_calls("rdma_disconnect", EINVAL);
    assert_int_equal(rpma_conn_disconnect(conn), RPMA_E_PROVIDER);
    assert_int_equal(errno, EINVAL);
    fail_none();
    assert_int_equal(rpma_conn_delete(&conn), 0);
    assert_int_equal(rpma_peer_delete(&peer), 0);
}

// The kernel sends no DREQ before the connection is established.
void disconnect_before_established_is_repeated(void **) {
    for (const bool has_failed : {false, true}) {
        rpma_peer *peer = create_peer();
        rpma_conn_req *req = nullptr;
        rpma_conn *conn = nullptr;
        assert_int_equal(rpma_conn_req_new(peer, "192.0.2.1", "7204", nullptr, &req), 0);
        assert_int_equal(rpma_conn_req_connect(&req, nullptr, &conn), 0);
        if (has_failed)
            fail_calls("rdma_disconnect", EINVAL);
        assert_int_equal(rpma_conn_disconnect(conn), has_failed ? RPMA_E_PROVIDER : 0);
        fail_none();
        take_calls();
        rpma_conn_event event = RPMA_CONN_UNDEFINED;
        post_event(RDMA_CM_EVENT_ESTABLISHED, "", last_id());
        assert_int_equal(rpma_conn_next_event(conn, &event), 0);
        assert_int_equal(event, RPMA_CONN_ESTABLISHED);
        const std::vector<std::string> calls = take_calls();
        assert_int_equal(std::count(calls.begin(), calls.end(), "rdma_disconnect"),
                         has_failed ? 0 : 1);
        assert_int_equal(rpma_conn_delete(&conn), 0);
        assert_int_equal(rpma_peer_delete(&peer), 0);
    }
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        TEST(conn_event_of_each_cm_event),
        TEST(active_side_has_private_data_of_reply),
        TEST(rejection_has_no_private_data),
        TEST(passive_side_keeps_private_data_of_request),
        TEST(sent_private_data_and_parameters),
        TEST(no_event),
        TEST(endpoint_refuses_other_events),
        TEST(private_data_out_of_memory),
        TEST(addresses_and_timeouts),
        TEST(connection_has_event_channel),
        TEST(disconnect_before_established_is_repeated),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Configurations of connections and SRQs, and the arguments of functions that have no other test.

#include "connection.hpp"

#include <climits>

using namespace fake;

namespace {

/// Sets and gets some values.
template <class cfg_type, class value_type>
void check_setting(cfg_type *cfg, int (*set)(cfg_type *, value_type),
                   int (*get)(const cfg_type *, value_type *), value_type default_value,
                   std::initializer_list<value_type> values) {
    value_type result = {};
    assert_int_equal(get(cfg, &result), 0);
    assert_true(result == default_value);
    for (const value_type value : values) {
        assert_int_equal(set(cfg, value), 0);
        assert_int_equal(get(cfg, &result), 0);
        assert_true(result == value);
    }
    assert_int_equal(set(nullptr, *values.begin()), RPMA_E_INVAL);
    assert_int_equal(get(nullptr, &result), RPMA_E_INVAL);
    assert_int_equal(get(cfg, nullptr), RPMA_E_INVAL);
}

void conn_cfg_keeps_values(void **) {
    rpma_conn_cfg *cfg = nullptr;
    assert_int_equal(rpma_conn_cfg_new(nullptr), RPMA_E_INVAL);
    assert_int_equal(rpma_conn_cfg_new(&cfg), 0);
    using size = std::uint32_t;
    check_setting<rpma_conn_cfg, int>(cfg, rpma_conn_cfg_set_timeout, rpma_conn_cfg_get_timeout,
                                      RPMA_DEFAULT_TIMEOUT_MS, {0, 1, INT_MAX});
    check_setting<rpma_conn_cfg, size>(cfg, rpma_conn_cfg_set_cq_size, rpma_conn_cfg_get_cq_size,
                                       10, {0, 1, UINT32_MAX});
    check_setting<rpma_conn_cfg, size>(cfg, rpma_conn_cfg_set_rcq_size, rpma_conn_cfg_get_rcq_size,
                                       0, {0, 1, UINT32_MAX});
    check_setting<rpma_conn_cfg, size>(cfg, rpma_conn_cfg_set_sq_size, rpma_conn_cfg_get_sq_size,
                                       10, {0, 1, UINT32_MAX});
    check_setting<rpma_conn_cfg, size>(cfg, rpma_conn_cfg_set_rq_size, rpma_conn_cfg_get_rq_size,
                                       10, {0, 1, UINT32_MAX});
    check_setting<rpma_conn_cfg, bool>(cfg, rpma_conn_cfg_set_compl_channel,
                                       rpma_conn_cfg_get_compl_channel, false, {true, false});
    auto *const srq = reinterpret_cast<rpma_srq *>(&cfg); // any pointer
    check_setting<rpma_conn_cfg, rpma_srq *>(cfg, rpma_conn_cfg_set_srq, rpma_conn_cfg_get_srq,
                                             nullptr, {srq});
    assert_int_equal(rpma_conn_cfg_set_srq(cfg, nullptr), RPMA_E_INVAL);
    for (const int timeout_ms : {-1, INT_MIN})
        assert_int_equal(rpma_conn_cfg_set_timeout(cfg, timeout_ms), RPMA_E_INVAL);
    int timeout_ms = 0;
    assert_int_equal(rpma_conn_cfg_get_timeout(cfg, &timeout_ms), 0);
    assert_int_equal(timeout_ms, INT_MAX);
    assert_int_equal(rpma_conn_cfg_delete(&cfg), 0);
}

void srq_cfg_keeps_values(void **) {
    rpma_srq_cfg *cfg = nullptr;
    assert_int_equal(rpma_srq_cfg_new(nullptr), RPMA_E_INVAL);
    assert_int_equal(rpma_srq_cfg_new(&cfg), 0);
    using size = std::uint32_t;
    check_setting<rpma_srq_cfg, size>(cfg, rpma_srq_cfg_set_rq_size, rpma_srq_cfg_get_rq_size, 20,
                                      {0, 1, UINT32_MAX});
    check_setting<rpma_srq_cfg, size>(cfg, rpma_srq_cfg_set_rcq_size, rpma_srq_cfg_get_rcq_size, 20,
                                      {0, 1, UINT32_MAX});
    rpma_peer *peer = create_peer();
    rpma_srq *srq = nullptr;
    assert_int_equal(rpma_srq_new(peer, cfg, &srq), 0);
    assert_int_equal(last.srq.attr.max_wr, UINT32_MAX);
    assert_int_equal(last.cqe.back(), INT_MAX);
    assert_int_equal(rpma_srq_new(nullptr, cfg, &srq), RPMA_E_INVAL);
    assert_int_equal(rpma_srq_new(peer, cfg, nullptr), RPMA_E_INVAL);
    assert_int_equal(rpma_srq_delete(&srq), 0);
    assert_int_equal(rpma_peer_delete(&peer), 0);
    assert_int_equal(rpma_srq_cfg_delete(&cfg), 0);
}

void null_argument_is_invalid(void **) {
    connection connected;
    rpma_conn *const conn = connected.conn;
    rpma_peer *const peer = connected.peer;
    take_calls();
    rpma_peer *new_peer = nullptr;
    assert_int_equal(rpma_peer_new(nullptr, &new_peer), RPMA_E_INVAL);
    assert_int_equal(rpma_peer_new(context(), nullptr), RPMA_E_INVAL);
    rpma_ep *ep = nullptr;
    assert_int_equal(rpma_ep_listen(nullptr, "192.0.2.1", "7204", &ep), RPMA_E_INVAL);
    assert_int_equal(rpma_ep_listen(peer, nullptr, "7204", &ep), RPMA_E_INVAL);
    assert_int_equal(rpma_ep_listen(peer, "192.0.2.1", nullptr, &ep), RPMA_E_INVAL);
    assert_int_equal(rpma_ep_listen(peer, "192.0.2.1", "7204", nullptr), RPMA_E_INVAL);
    rpma_conn_req *req = nullptr;
    assert_int_equal(rpma_conn_req_new(nullptr, "192.0.2.1", "7204", nullptr, &req), RPMA_E_INVAL);
    assert_int_equal(rpma_conn_req_new(peer, nullptr, "7204", nullptr, &req), RPMA_E_INVAL);
    assert_int_equal(rpma_conn_req_new(peer, "192.0.2.1", nullptr, nullptr, &req), RPMA_E_INVAL);
    assert_int_equal(rpma_conn_req_new(peer, "192.0.2.1", "7204", nullptr, nullptr), RPMA_E_INVAL);
    assert_int_equal(rpma_ep_next_conn_req(nullptr, nullptr, &req), RPMA_E_INVAL);
    int value = 0;
    assert_int_equal(rpma_ep_get_fd(nullptr, &value), RPMA_E_INVAL);
    rpma_conn_private_data data = {};
    assert_int_equal(rpma_conn_req_get_private_data(nullptr, &data), RPMA_E_INVAL);
    assert_int_equal(rpma_conn_get_private_data(nullptr, &data), RPMA_E_INVAL);
    assert_int_equal(rpma_conn_get_private_data(conn, nullptr), RPMA_E_INVAL);
    rpma_conn_event event = RPMA_CONN_UNDEFINED;
    assert_int_equal(rpma_conn_next_event(nullptr, &event), RPMA_E_INVAL);
    assert_int_equal(rpma_conn_next_event(conn, nullptr), RPMA_E_INVAL);
    assert_int_equal(rpma_conn_get_event_fd(nullptr, &value), RPMA_E_INVAL);
    assert_int_equal(rpma_conn_get_event_fd(conn, nullptr), RPMA_E_INVAL);
    std::uint32_t qp_num = 0;
    assert_int_equal(rpma_conn_get_qp_num(nullptr, &qp_num), RPMA_E_INVAL);
    assert_int_equal(rpma_conn_get_qp_num(conn, nullptr), RPMA_E_INVAL);
    assert_int_equal(rpma_conn_disconnect(nullptr), RPMA_E_INVAL);
    rpma_peer_cfg *cfg = nullptr;
    assert_int_equal(rpma_peer_cfg_new(&cfg), 0);
    assert_int_equal(rpma_conn_apply_remote_peer_cfg(nullptr, cfg), RPMA_E_INVAL);
    assert_int_equal(rpma_conn_apply_remote_peer_cfg(conn, nullptr), RPMA_E_INVAL);
    assert_int_equal(rpma_peer_cfg_delete(&cfg), 0);
    char desc[21];
    std::size_t size = 0;
    void *ptr = nullptr;
    assert_int_equal(rpma_mr_get_descriptor(nullptr, desc), RPMA_E_INVAL);
    assert_int_equal(rpma_mr_get_descriptor(connected.local, nullptr), RPMA_E_INVAL);
    assert_int_equal(rpma_mr_get_descriptor_size(nullptr, &size), RPMA_E_INVAL);
    assert_int_equal(rpma_mr_get_descriptor_size(connected.local, nullptr), RPMA_E_INVAL);
    assert_int_equal(rpma_mr_get_ptr(nullptr, &ptr), RPMA_E_INVAL);
    assert_int_equal(rpma_mr_get_ptr(connected.local, nullptr), RPMA_E_INVAL);
    assert_int_equal(rpma_mr_get_size(nullptr, &size), RPMA_E_INVAL);
    assert_int_equal(rpma_mr_get_size(connected.local, nullptr), RPMA_E_INVAL);
    assert_int_equal(rpma_mr_advise(nullptr, 0, 0, 0, 0), RPMA_E_INVAL);
    assert_int_equal(rpma_mr_remote_get_size(connected.remote, nullptr), RPMA_E_INVAL);
    assert_int_equal(rpma_mr_remote_get_flush_type(connected.remote, nullptr), RPMA_E_INVAL);
    ibv_context *ibv_ctx = nullptr;
    assert_int_equal(rpma_utils_get_ibv_context(nullptr, RPMA_UTIL_IBV_CONTEXT_LOCAL, &ibv_ctx),
                     RPMA_E_INVAL);
    assert_int_equal(rpma_utils_get_ibv_context("192.0.2.1", RPMA_UTIL_IBV_CONTEXT_LOCAL, nullptr),
                     RPMA_E_INVAL);
    assert_int_equal(rpma_utils_ibv_context_is_odp_capable(nullptr, &value), RPMA_E_INVAL);
    assert_int_equal(rpma_utils_ibv_context_is_odp_capable(context(), nullptr), RPMA_E_INVAL);
    assert_true(take_calls().empty());
}

// An address of all devices, such as 0.0.0.0: the id has none.
void address_without_device_has_no_context(void **) {
    settings.has_device = false;
    ibv_context *ibv_ctx = nullptr;
    assert_int_equal(rpma_utils_get_ibv_context("0.0.0.0", RPMA_UTIL_IBV_CONTEXT_LOCAL, &ibv_ctx),
                     RPMA_E_PROVIDER);
    assert_int_equal(errno, ENODEV);
    assert_null(ibv_ctx);
}

void texts(void **) {
    for (const int error : {0, RPMA_E_UNKNOWN, RPMA_E_NOSUPP, RPMA_E_PROVIDER, RPMA_E_NOMEM,
                            RPMA_E_INVAL, RPMA_E_NO_COMPLETION, RPMA_E_NO_EVENT, RPMA_E_AGAIN,
                            RPMA_E_SHARED_CHANNEL, RPMA_E_NOT_SHARED_CHNL}) {
        assert_true(std::string(rpma_err_2str(error)).size() > 5);
        assert_int_equal(std::string(rpma_err_2str(error)) == "Unknown error",
                         error == RPMA_E_UNKNOWN);
    }
    for (const int error : {1, -1, RPMA_E_NOT_SHARED_CHNL - 1, INT_MIN, INT_MAX})
        assert_string_equal(rpma_err_2str(error), "Unknown error");
    std::vector<std::string> names;
    for (const rpma_conn_event event :
         {RPMA_CONN_UNDEFINED, RPMA_CONN_ESTABLISHED, RPMA_CONN_CLOSED, RPMA_CONN_LOST,
          RPMA_CONN_REJECTED, RPMA_CONN_UNREACHABLE})
        names.emplace_back(rpma_utils_conn_event_2str(event));
    const std::vector<std::string> expected = {
        "Undefined connection event", "Connection established",
        "Connection closed",          "Connection lost",
        "Connection rejected",        "Connection unreachable"};
    assert_true(names == expected);
    assert_string_equal(rpma_utils_conn_event_2str(static_cast<rpma_conn_event>(5)),
                        "Unsupported connection event");
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        TEST(conn_cfg_keeps_values),
        TEST(srq_cfg_keeps_values),
        TEST(null_argument_is_invalid),
        TEST(address_without_device_has_no_context),
        TEST(texts),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// CQs and their channels: sizes, events and completions; the SRQ's and the QP's attributes.

#include "create_cases.hpp"

#include <algorithm>

using namespace fake;

namespace {

struct deleted_conn {
    rpma_conn *conn = nullptr;
    explicit deleted_conn(fixture &fixture) {
        rpma_conn_req *req = nullptr;
        assert_int_equal(rpma_conn_req_new(fixture.peer, "192.0.2.1", "7204", fixture.cfg, &req),
                         0);
        assert_int_equal(rpma_conn_req_connect(&req, nullptr, &conn), 0);
    }
    ~deleted_conn() { assert_int_equal(rpma_conn_delete(&conn), 0); }
    deleted_conn(const deleted_conn &) = delete;

    rpma_cq *cq() const {
        rpma_cq *cq = nullptr;
        assert_int_equal(rpma_conn_get_cq(conn, &cq), 0);
        return cq;
    }
    rpma_cq *rcq() const {
        rpma_cq *rcq = nullptr;
        assert_int_equal(rpma_conn_get_rcq(conn, &rcq), 0);
        return rcq;
    }
};

/// The CQs of the connection: the CQ, and the receive CQ if there are two.
std::vector<ibv_cq *> conn_cqs(std::size_t num_cqs_before) {
    const std::vector<ibv_cq *> all = cqs();
    return {all.begin() + static_cast<std::ptrdiff_t>(num_cqs_before), all.end()};
}

void sizes_of_queues(void **) {
    fixture fixture;
    const auto connect = [&] {
        last.cqe.clear();
        last.qp.clear();
        const deleted_conn connected(fixture);
    };
    connect();
    assert_true(last.cqe == std::vector<int>{10});
    const ibv_qp_init_attr_ex &attr = last.qp.front();
    assert_int_equal(attr.cap.max_send_wr, 10);
    assert_int_equal(attr.cap.max_recv_wr, 10);
    assert_int_equal(attr.cap.max_send_sge, 1);
    assert_int_equal(attr.cap.max_recv_sge, 1);
    assert_int_equal(attr.cap.max_inline_data, 8);
    assert_int_equal(attr.qp_type, IBV_QPT_RC);
    assert_int_equal(attr.sq_sig_all, 0);
    assert_null(attr.qp_context);
    assert_ptr_equal(attr.send_cq, attr.recv_cq);
    assert_null(attr.srq);
    assert_int_equal(rpma_conn_cfg_set_cq_size(fixture.cfg, 21), 0);
    assert_int_equal(rpma_conn_cfg_set_rcq_size(fixture.cfg, 22), 0);
    assert_int_equal(rpma_conn_cfg_set_sq_size(fixture.cfg, 23), 0);
    assert_int_equal(rpma_conn_cfg_set_rq_size(fixture.cfg, UINT32_MAX), 0);
    connect();
    assert_true((last.cqe == std::vector<int>{21, 22}));
    assert_int_equal(last.qp.front().cap.max_send_wr, 23);
    assert_int_equal(last.qp.front().cap.max_recv_wr, UINT32_MAX);
    assert_ptr_not_equal(last.qp.front().send_cq, last.qp.front().recv_cq);
    // As much as ibv_create_cq() takes.
    assert_int_equal(rpma_conn_cfg_set_cq_size(fixture.cfg, UINT32_MAX), 0);
    assert_int_equal(rpma_conn_cfg_set_rcq_size(fixture.cfg, std::uint32_t{INT32_MAX} + 1), 0);
    connect();
    assert_true((last.cqe == std::vector<int>{INT32_MAX, INT32_MAX}));
}

void srq_and_its_cq(void **) {
    fixture fixture;
    assert_int_equal(last.srq.attr.max_wr, 20);
    assert_int_equal(last.srq.attr.max_sge, 1);
    assert_int_equal(last.srq.attr.srq_limit, 0);
    rpma_cq *srq_rcq = nullptr;
    assert_int_equal(rpma_srq_get_rcq(fixture.srq_without_cq, &srq_rcq), 0);
    assert_null(srq_rcq);
    assert_int_equal(rpma_srq_get_rcq(fixture.srq, &srq_rcq), 0);
    assert_non_null(srq_rcq);
    assert_int_equal(cqs().size(), 1);
    // The SRQ's CQ, not one of the connection.
    assert_int_equal(rpma_conn_cfg_set_rcq_size(fixture.cfg, 22), 0);
    assert_int_equal(rpma_conn_cfg_set_srq(fixture.cfg, fixture.srq), 0);
    {
        const deleted_conn connected(fixture);
        assert_ptr_equal(last.qp.back().recv_cq, cqs().front());
        assert_ptr_not_equal(last.qp.back().send_cq, last.qp.back().recv_cq);
        assert_non_null(last.qp.back().srq);
        assert_null(connected.rcq());
        assert_int_equal(cqs().size(), 2);
    }
    assert_int_equal(rpma_conn_cfg_set_srq(fixture.cfg, fixture.srq_without_cq), 0);
    const deleted_conn connected(fixture);
    assert_non_null(connected.rcq());
    assert_int_equal(cqs().size(), 3);
    assert_ptr_equal(last.qp.back().recv_cq, cqs().back());
}

void event_of_cq_channel(void **) {
    fixture fixture;
    assert_int_equal(rpma_conn_cfg_set_rcq_size(fixture.cfg, 10), 0);
    const std::size_t num_cqs = cqs().size();
    take_calls();
    const deleted_conn connected(fixture);
    const std::vector<std::string> calls = take_calls();
    assert_int_equal(std::count(calls.begin(), calls.end(), "ibv_req_notify_cq"), 2);
    const std::vector<ibv_cq *> ibcqs = conn_cqs(num_cqs);
    assert_int_equal(ibcqs.size(), 2);
    assert_ptr_not_equal(ibcqs[0]->channel, ibcqs[1]->channel);
    rpma_cq *const queues[] = {connected.cq(), connected.rcq()};
    for (std::size_t i = 0; i != 2; ++i) {
        int fd = -1;
        assert_int_equal(rpma_cq_get_fd(queues[i], &fd), 0);
        assert_int_equal(fd, ibcqs[i]->channel->fd);
        assert_int_equal(rpma_cq_wait(queues[i]), RPMA_E_NO_COMPLETION);
        post_cq_event(ibcqs[i]);
        take_calls();
        assert_int_equal(rpma_cq_wait(queues[i]), 0);
        assert_string_equal(take_calls().back().c_str(), "ibv_req_notify_cq");
        post_cq_event(ibcqs[i]);
        fail_calls("ibv_req_notify_cq", EIO);
        assert_int_equal(rpma_cq_wait(queues[i]), RPMA_E_PROVIDER); // the event is acknowledged
        assert_int_equal(errno, EIO);
        fail_none();
    }
    int fd = -1;
    rpma_cq *cq = nullptr;
    bool is_rcq = false;
    assert_int_equal(rpma_conn_get_compl_fd(connected.conn, &fd), RPMA_E_NOT_SHARED_CHNL);
    assert_int_equal(rpma_conn_wait(connected.conn, 0, &cq, &is_rcq), RPMA_E_NOT_SHARED_CHNL);
}

void event_of_shared_channel(void **) {
    for (const bool has_rcq : {false, true}) {
        fixture fixture;
        assert_int_equal(rpma_conn_cfg_set_compl_channel(fixture.cfg, true), 0);
        assert_int_equal(rpma_conn_cfg_set_rcq_size(fixture.cfg, has_rcq ? 10 : 0), 0);
        const std::size_t num_cqs = cqs().size();
        const deleted_conn connected(fixture);
        const std::vector<ibv_cq *> ibcqs = conn_cqs(num_cqs);
        assert_int_equal(ibcqs.size(), has_rcq ? 2 : 1);
        int fd = -1;
        assert_int_equal(rpma_conn_get_compl_fd(connected.conn, &fd), 0);
        rpma_cq *const queues[] = {connected.cq(), connected.rcq()};
        for (std::size_t i = 0; i != ibcqs.size(); ++i) {
            assert_int_equal(fd, ibcqs[i]->channel->fd);
            int cq_fd = -1;
            assert_int_equal(rpma_cq_get_fd(queues[i], &cq_fd), 0);
            assert_int_equal(cq_fd, fd);
            assert_int_equal(rpma_cq_wait(queues[i]), RPMA_E_SHARED_CHANNEL);
            rpma_cq *cq = nullptr;
            bool is_rcq = i == 0;
            assert_int_equal(rpma_conn_wait(connected.conn, 0, &cq, &is_rcq), RPMA_E_NO_COMPLETION);
            assert_null(cq);
            post_cq_event(ibcqs[i]);
            assert_int_equal(rpma_conn_wait(connected.conn, 0, &cq, &is_rcq), 0);
            assert_ptr_equal(cq, queues[i]);
            assert_int_equal(is_rcq, i == 1);
            post_cq_event(ibcqs[i]);
            assert_int_equal(rpma_conn_wait(connected.conn, -1, &cq, nullptr), 0);
            assert_ptr_equal(cq, queues[i]);
            post_cq_event(ibcqs[i]);
            fail_calls("ibv_req_notify_cq", EIO);
            assert_int_equal(rpma_conn_wait(connected.conn, 0, &cq, &is_rcq), RPMA_E_PROVIDER);
            assert_int_equal(errno, EIO);
            assert_null(cq);
            fail_none();
        }
    }
}

void completions_of_cq(void **) {
    fixture fixture;
    const deleted_conn connected(fixture);
    ibv_wc wc[4] = {};
    int num_got = -1;
    assert_int_equal(rpma_cq_get_wc(connected.cq(), 4, wc, &num_got), RPMA_E_NO_COMPLETION);
    assert_int_equal(num_got, -1);
    for (const int num_polled : {1, 3, 4}) {
        set_poll_result(num_polled);
        wc[0] = {};
        assert_int_equal(rpma_cq_get_wc(connected.cq(), 4, wc, &num_got), 0);
        assert_int_equal(num_got, num_polled);
        assert_int_equal(wc[num_polled - 1].wr_id, num_polled);
    }
    set_poll_result(1);
    assert_int_equal(rpma_cq_get_wc(connected.cq(), 1, wc, nullptr), 0);
    set_poll_result(-1);
    assert_int_equal(rpma_cq_get_wc(connected.cq(), 4, wc, &num_got), RPMA_E_PROVIDER);
    set_poll_result(5);
    assert_int_equal(rpma_cq_get_wc(connected.cq(), 4, wc, &num_got), RPMA_E_UNKNOWN);
    assert_int_equal(num_got, 4);
    assert_int_equal(rpma_cq_get_wc(nullptr, 4, wc, &num_got), RPMA_E_INVAL);
    assert_int_equal(rpma_cq_get_wc(connected.cq(), 0, wc, &num_got), RPMA_E_INVAL);
    assert_int_equal(rpma_cq_get_wc(connected.cq(), -1, wc, &num_got), RPMA_E_INVAL);
    assert_int_equal(rpma_cq_get_wc(connected.cq(), 4, nullptr, &num_got), RPMA_E_INVAL);
    assert_int_equal(rpma_cq_get_wc(connected.cq(), 2, wc, nullptr), RPMA_E_INVAL);
}

void null_argument_is_invalid(void **) {
    fixture fixture;
    const deleted_conn connected(fixture);
    rpma_cq *cq = nullptr;
    int fd = 0;
    assert_int_equal(rpma_cq_wait(nullptr), RPMA_E_INVAL);
    assert_int_equal(rpma_cq_get_fd(nullptr, &fd), RPMA_E_INVAL);
    assert_int_equal(rpma_cq_get_fd(connected.cq(), nullptr), RPMA_E_INVAL);
    assert_int_equal(rpma_conn_wait(nullptr, 0, &cq, nullptr), RPMA_E_INVAL);
    assert_int_equal(rpma_conn_wait(connected.conn, 0, nullptr, nullptr), RPMA_E_INVAL);
    assert_int_equal(rpma_conn_get_compl_fd(nullptr, &fd), RPMA_E_INVAL);
    assert_int_equal(rpma_conn_get_compl_fd(connected.conn, nullptr), RPMA_E_INVAL);
    assert_int_equal(rpma_conn_get_cq(nullptr, &cq), RPMA_E_INVAL);
    assert_int_equal(rpma_conn_get_cq(connected.conn, nullptr), RPMA_E_INVAL);
    assert_int_equal(rpma_conn_get_rcq(nullptr, &cq), RPMA_E_INVAL);
    assert_int_equal(rpma_conn_get_rcq(connected.conn, nullptr), RPMA_E_INVAL);
    assert_int_equal(rpma_srq_get_rcq(nullptr, &cq), RPMA_E_INVAL);
    assert_int_equal(rpma_srq_get_rcq(fixture.srq, nullptr), RPMA_E_INVAL);
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        TEST(sizes_of_queues),         TEST(srq_and_its_cq),    TEST(event_of_cq_channel),
        TEST(event_of_shared_channel), TEST(completions_of_cq), TEST(null_argument_is_invalid),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}

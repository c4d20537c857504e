// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// A device that is not coherent: each request syncs its memory before it is posted and after its
// completion, which has the program's wr_id; and what a peer may access is synced around all that a
// peer may learn from.

#include "connection.hpp"

#include <algorithm>
#include <coherdma/coherdma.h>

using namespace fake;

namespace {

int reset_sync(void **state) {
    const int ret = reset(state);
    settings.needs_sync = true;
    return ret;
}

rpma_cq *get_cq(const connection &connected) {
    rpma_cq *cq = nullptr;
    assert_int_equal(rpma_conn_get_cq(connected.conn, &cq), 0);
    return cq;
}

ibv_wc make_wc(std::uint64_t wr_id, ibv_wc_opcode opcode, ibv_wc_status status = IBV_WC_SUCCESS) {
    ibv_wc wc = {};
    wc.wr_id = wr_id;
    wc.opcode = opcode;
    wc.status = status;
    return wc;
}

/// The wr_id that the program gets of this CQE.
std::uint64_t complete(rpma_cq *cq, const ibv_wc &completion) {
    set_completions({completion});
    ibv_wc wc = {};
    assert_int_equal(rpma_cq_get_wc(cq, 1, &wc, nullptr), 0);
    assert_int_equal(wc.opcode, completion.opcode);
    assert_int_equal(wc.status, completion.status);
    return wc.wr_id;
}

/// The wr_id of the one request that has been posted.
std::uint64_t posted_wr_id() {
    const std::vector<std::uint64_t> wr_ids = take_wr_ids();
    assert_int_equal(wr_ids.size(), 1);
    take_posts();
    return wr_ids.front();
}

bool has_sync(const std::string &syncs, const std::string &text) {
    return syncs.find(text) != std::string::npos;
}

const char *const for_device_read = "for device 0x10030+8 0x10";
const char *const for_device_write = "for device 0x10030+8 0x20";
const char *const for_cpu_write = "for CPU 0x10030+8 0x20";

void read_syncs_its_sink(void **) {
    connection connected;
    take_syncs();
    assert_int_equal(rpma_read(connected.conn, connected.local, 0x30, connected.remote, 0, 8, 3,
                               to_context(0x77)),
                     0);
    assert_true(has_sync(take_syncs(), for_device_write));
    const std::uint64_t wr_id = posted_wr_id();
    assert_int_equal(complete(get_cq(connected), make_wc(wr_id, IBV_WC_RDMA_READ)), 0x77);
    assert_string_equal(take_syncs().c_str(), for_cpu_write);
}

void sends_and_writes_sync_their_source(void **) {
    connection connected;
    for (int i = 0; i != 4; ++i) {
        take_syncs();
        rpma_conn *const conn = connected.conn;
        const void *const op_context = to_context(0x77);
        assert_int_equal(
            i == 0   ? rpma_send(conn, connected.local, 0x30, 8, 3, op_context)
            : i == 1 ? rpma_send_with_imm(conn, connected.local, 0x30, 8, 3, 1, op_context)
            : i == 2
                ? rpma_write(conn, connected.remote, 0, connected.local, 0x30, 8, 3, op_context)
                : rpma_write_with_imm(conn, connected.remote, 0, connected.local, 0x30, 8, 3, 1,
                                      op_context),
            0);
        // Also what the peer may access when it learns of this.
        const std::string syncs = take_syncs();
        assert_true(has_sync(syncs, for_device_read));
        assert_true(has_sync(syncs, "batch 0x10000+"));
        assert_int_equal(complete(get_cq(connected), make_wc(posted_wr_id(), IBV_WC_SEND)), 0x77);
        assert_string_equal(take_syncs().c_str(), "");
    }
}

// A completed receive: the peer may have written before it sent.
void receive_syncs_its_buffer_and_what_peer_writes(void **) {
    connection connected;
    for (const ibv_wc_opcode opcode : {IBV_WC_RECV, IBV_WC_RECV_RDMA_WITH_IMM}) {
        take_syncs();
        assert_int_equal(rpma_recv(connected.conn, connected.local, 0x30, 8, to_context(0x77)), 0);
        assert_string_equal(take_syncs().c_str(), for_device_write);
        assert_int_equal(complete(get_cq(connected), make_wc(posted_wr_id(), opcode)), 0x77);
        const std::string syncs = take_syncs();
        assert_int_equal(syncs.rfind(for_cpu_write, 0), 0);
        assert_true(has_sync(syncs, "batch 0x10000+9223372036854775807 " +
                                        std::string(COHERDMA_AFTER_WRITE == 4 ? "0x4" : "?")));
    }
}

void only_memory_for_peers_is_synced_for_them(void **) {
    connection connected;
    assert_int_equal(rpma_mr_dereg(&connected.local), 0);
    const auto addr = [](int usage) {
        return reinterpret_cast<void *>(std::uintptr_t{0x10000} *
                                        static_cast<std::uintptr_t>(usage));
    };
    rpma_mr_local *mrs[8] = {};
    for (int i = 0; i != 8; ++i)
        assert_int_equal(rpma_mr_reg(connected.peer, addr(1 << i), 64, 1 << i, &mrs[i]), 0);
    take_syncs();
    assert_int_equal(rpma_send(connected.conn, nullptr, 0, 0, 3, nullptr), 0);
    std::string syncs = take_syncs();
    assert_true(has_sync(syncs, "batch 0x10000+64 0x1"));
    assert_true(has_sync(syncs, "batch 0x80000+64 0x2"));
    for (const char *const other : {"0x20000", "0x40000", "0x200000", "0x400000", "0x800000"})
        assert_false(has_sync(syncs, other));
    for (rpma_mr_local *&mr : mrs)
        assert_int_equal(rpma_mr_dereg(&mr), 0);
    take_syncs();
    assert_int_equal(rpma_send(connected.conn, nullptr, 0, 0, 3, nullptr), 0);
    assert_false(has_sync(take_syncs(), "batch"));
    assert_int_equal(rpma_mr_reg(connected.peer, addr(1), 64, ALL_USAGES, &connected.local), 0);
}

// Requests without a completion of their own.
void completion_completes_earlier_requests(void **) {
    connection connected;
    for (const std::size_t offset : {0x30U, 0x130U, 0x230U})
        assert_int_equal(rpma_read(connected.conn, connected.local, offset, connected.remote, 0, 8,
                                   1, to_context(offset)),
                         0);
    assert_int_equal(rpma_write(connected.conn, connected.remote, 0, connected.local, 0x30, 8, 3,
                                to_context(0x77)),
                     0);
    const std::vector<std::uint64_t> wr_ids = take_wr_ids();
    take_syncs();
    assert_int_equal(complete(get_cq(connected), make_wc(wr_ids.back(), IBV_WC_RDMA_WRITE)), 0x77);
    assert_string_equal(take_syncs().c_str(), "for CPU 0x10030+8 0x20 | for CPU 0x10130+8 0x20 | "
                                              "for CPU 0x10230+8 0x20");
}

void srq_completes_in_any_order(void **) {
    rpma_peer *peer = create_peer();
    rpma_srq *srq = nullptr;
    rpma_cq *rcq = nullptr;
    rpma_mr_local *mr = nullptr;
    assert_int_equal(rpma_srq_new(peer, nullptr, &srq), 0);
    assert_int_equal(rpma_srq_get_rcq(srq, &rcq), 0);
    assert_int_equal(
        rpma_mr_reg(peer, reinterpret_cast<void *>(LOCAL_ADDR), 4096, RPMA_MR_USAGE_RECV, &mr), 0);
    for (const std::size_t offset : {0x100U, 0x200U, 0x300U})
        assert_int_equal(rpma_srq_recv(srq, mr, offset, 8, to_context(offset)), 0);
    const std::vector<std::uint64_t> wr_ids = take_wr_ids();
    take_syncs();
    for (const std::size_t i : {2U, 0U}) {
        assert_int_equal(complete(rcq, make_wc(wr_ids[i], IBV_WC_RECV)), 0x100 * (i + 1));
        assert_string_equal(take_syncs().c_str(),
                            i == 2 ? "for CPU 0x10300+8 0x20" : "for CPU 0x10100+8 0x20");
    }
    assert_int_equal(rpma_mr_dereg(&mr), 0);
    assert_int_equal(rpma_srq_delete(&srq), 0); // with an outstanding receive
    assert_int_equal(rpma_peer_delete(&peer), 0);
}

void flush_and_atomic_write_have_wr_id_of_program(void **) {
    connection connected;
    assert_int_equal(rpma_flush(connected.conn, connected.remote, 0, 8, RPMA_FLUSH_TYPE_VISIBILITY,
                                3, to_context(0x77)),
                     0);
    assert_int_equal(complete(get_cq(connected), make_wc(posted_wr_id(), IBV_WC_RDMA_READ)), 0x77);
    assert_int_equal(
        rpma_atomic_write(connected.conn, connected.remote, 0, "abcdefgh", 3, to_context(0x78)), 0);
    assert_int_equal(complete(get_cq(connected), make_wc(posted_wr_id(), IBV_WC_RDMA_WRITE)), 0x78);
}

void failed_post_is_not_completed(void **) {
    connection connected;
    for (int i = 0; i != 200; ++i) {
        fail_calls(POST, ENOMEM);
        assert_int_equal(rpma_read(connected.conn, connected.local, 0x30, connected.remote, 0, 8, 3,
                                   to_context(0x77)),
                         RPMA_E_PROVIDER);
        assert_int_equal(errno, ENOMEM);
        fail_none();
    }
    assert_true(count_allocations() < 100); // requests are used again
    assert_int_equal(rpma_write(connected.conn, connected.remote, 0, connected.local, 0x30, 8, 3,
                                to_context(0x78)),
                     0);
    take_syncs();
    assert_int_equal(complete(get_cq(connected), make_wc(posted_wr_id(), IBV_WC_RDMA_WRITE)), 0x78);
    assert_string_equal(take_syncs().c_str(), "");
    fail_allocation(1);
    assert_int_equal(rpma_send(connected.conn, nullptr, 0, 0, 3, nullptr), 0); // a free one
    assert_int_equal(rpma_send(connected.conn, nullptr, 0, 0, 3, nullptr), RPMA_E_PROVIDER);
    assert_int_equal(errno, ENOMEM);
    fail_allocation(0);
}

// siw completes some Reads twice.
void second_completion_has_wr_id_and_no_sync(void **) {
    connection connected;
    assert_int_equal(rpma_read(connected.conn, connected.local, 0x30, connected.remote, 0, 8, 3,
                               to_context(0x77)),
                     0);
    const ibv_wc wc = make_wc(posted_wr_id(), IBV_WC_RDMA_READ);
    take_syncs();
    assert_int_equal(complete(get_cq(connected), wc), 0x77);
    assert_string_equal(take_syncs().c_str(), for_cpu_write);
    assert_int_equal(complete(get_cq(connected), wc), 0x77);
    assert_string_equal(take_syncs().c_str(), "");
}

// The second CQE of a Read comes when another Read is outstanding.
void second_completion_completes_no_other_request(void **) {
    connection connected;
    assert_int_equal(rpma_read(connected.conn, connected.local, 0x30, connected.remote, 0, 8, 3,
                               to_context(0x77)),
                     0);
    const ibv_wc first = make_wc(posted_wr_id(), IBV_WC_RDMA_READ);
    assert_int_equal(complete(get_cq(connected), first), 0x77);
    assert_int_equal(rpma_read(connected.conn, connected.local, 0x130, connected.remote, 0, 8, 3,
                               to_context(0x78)),
                     0);
    const ibv_wc second = make_wc(posted_wr_id(), IBV_WC_RDMA_READ);
    take_syncs();
    assert_int_equal(complete(get_cq(connected), first), 0x77);
    assert_string_equal(take_syncs().c_str(), "");
    assert_int_equal(complete(get_cq(connected), second), 0x78);
    assert_string_equal(take_syncs().c_str(), "for CPU 0x10130+8 0x20");
}

// The receives of an SRQ without a CQ, which completed in the CQ of a connection that is deleted
// before the program polls them.
void deleted_connection_leaves_no_receive(void **) {
    rpma_peer *peer = create_peer();
    rpma_srq_cfg *srq_cfg = nullptr;
    rpma_srq *srq = nullptr;
    rpma_conn_cfg *cfg = nullptr;
    rpma_mr_local *mr = nullptr;
    assert_int_equal(rpma_srq_cfg_new(&srq_cfg), 0);
    assert_int_equal(rpma_srq_cfg_set_rcq_size(srq_cfg, 0), 0);
    assert_int_equal(rpma_srq_new(peer, srq_cfg, &srq), 0);
    assert_int_equal(rpma_conn_cfg_new(&cfg), 0);
    assert_int_equal(rpma_conn_cfg_set_srq(cfg, srq), 0);
    assert_int_equal(
        rpma_mr_reg(peer, reinterpret_cast<void *>(LOCAL_ADDR), 4096, RPMA_MR_USAGE_RECV, &mr), 0);
    for (int i = 0; i != 200; ++i) {
        rpma_conn_req *req = nullptr;
        assert_int_equal(rpma_conn_req_new(peer, "192.0.2.1", "7204", cfg, &req), 0);
        assert_int_equal(rpma_srq_recv(srq, mr, 0, 8, to_context(0x77)), 0);
        set_completions({make_wc(posted_wr_id(), IBV_WC_RECV)});
        assert_int_equal(rpma_conn_req_delete(&req), 0);
    }
    assert_true(count_allocations() < 100);
    assert_int_equal(rpma_mr_dereg(&mr), 0);
    assert_int_equal(rpma_conn_cfg_delete(&cfg), 0);
    assert_int_equal(rpma_srq_delete(&srq), 0);
    assert_int_equal(rpma_srq_cfg_delete(&srq_cfg), 0);
    assert_int_equal(rpma_peer_delete(&peer), 0);
}

void deregistration_syncs_what_peer_has_written(void **) {
    rpma_peer *peer = create_peer();
    for (const int usage : {RPMA_MR_USAGE_WRITE_DST, RPMA_MR_USAGE_READ_SRC}) {
        rpma_mr_local *mr = nullptr;
        assert_int_equal(rpma_mr_reg(peer, reinterpret_cast<void *>(LOCAL_ADDR), 64, usage, &mr),
                         0);
        take_syncs();
        assert_int_equal(rpma_mr_dereg(&mr), 0);
        const std::string syncs = take_syncs();
        assert_true(has_sync(syncs, "before read 0x10000+4096"));
        assert_int_equal(has_sync(syncs, "after write 0x10000+64"),
                         usage == RPMA_MR_USAGE_WRITE_DST);
    }
    assert_int_equal(rpma_peer_delete(&peer), 0);
}

// The status of the last CQEs of a QP in error.
void flushed_requests_have_wr_id_of_program(void **) {
    connection connected;
    assert_int_equal(rpma_recv(connected.conn, connected.local, 0x30, 8, to_context(0x77)), 0);
    const std::uint64_t wr_id = posted_wr_id();
    take_syncs();
    assert_int_equal(complete(get_cq(connected), make_wc(wr_id, IBV_WC_RECV, IBV_WC_WR_FLUSH_ERR)),
                     0x77);
    assert_false(has_sync(take_syncs(), "batch")); // no peer has sent
}

void request_and_connection_share_receives(void **) {
    rpma_peer *peer = create_peer();
    rpma_mr_local *mr = nullptr;
    assert_int_equal(rpma_mr_reg(peer, reinterpret_cast<void *>(LOCAL_ADDR), 4096, ALL_USAGES, &mr),
                     0);
    rpma_conn_req *req = nullptr;
    rpma_conn *conn = nullptr;
    assert_int_equal(rpma_conn_req_new(peer, "192.0.2.1", "7204", nullptr, &req), 0);
    assert_int_equal(rpma_conn_req_recv(req, mr, 0x30, 8, to_context(0x77)), 0);
    take_syncs();
    assert_int_equal(rpma_conn_req_connect(&req, nullptr, &conn), 0);
    assert_true(has_sync(take_syncs(), "batch 0x10000+4096"));
    rpma_cq *cq = nullptr;
    assert_int_equal(rpma_conn_get_cq(conn, &cq), 0);
    assert_int_equal(complete(cq, make_wc(posted_wr_id(), IBV_WC_RECV)), 0x77);
    // Events: the peer may disconnect when it has written.
    take_syncs();
    post_event(RDMA_CM_EVENT_DISCONNECTED, "", last_id());
    rpma_conn_event event;
    assert_int_equal(rpma_conn_next_event(conn, &event), 0);
    assert_true(has_sync(take_syncs(), "batch 0x10000+4096 0x4"));
    assert_int_equal(rpma_conn_delete(&conn), 0);
    assert_int_equal(rpma_mr_dereg(&mr), 0);
    assert_int_equal(rpma_peer_delete(&peer), 0);
}

connection *logged_connection;
int logged_failures;

/// Uses what the failed call uses.
[[gnu::format(printf, 5, 6)]] void log_and_post(rpma_log_level, const char *, const int,
                                                const char *, const char *, ...) {
    ++logged_failures;
    fail_none();
    rpma_mr_local *mr = nullptr;
    assert_int_equal(
        rpma_mr_reg(logged_connection->peer, logged_connection, 64, RPMA_MR_USAGE_RECV, &mr), 0);
    assert_int_equal(
        rpma_send(logged_connection->conn, logged_connection->local, 0x30, 8, 3, to_context(0x79)),
        0);
    complete(get_cq(*logged_connection), make_wc(posted_wr_id(), IBV_WC_SEND));
    assert_int_equal(rpma_mr_dereg(&mr), 0);
}

void log_function_may_call_librpma(void **) {
    connection connected;
    logged_connection = &connected;
    assert_int_equal(rpma_log_set_function(log_and_post), 0);
    assert_int_equal(rpma_log_set_threshold(RPMA_LOG_THRESHOLD, RPMA_LOG_LEVEL_ERROR), 0);
    for (const char *const sync :
         {"for device", "end of batch", "for CPU", "before read", "after write"}) {
        logged_failures = 0;
        rpma_mr_local *mr = nullptr;
        assert_int_equal(rpma_mr_reg(connected.peer, &connected, 64, RPMA_MR_USAGE_WRITE_DST, &mr),
                         0);
        fail_calls(sync, EIO);
        assert_int_equal(rpma_mr_dereg(&mr), 0);
        assert_int_equal(rpma_recv(connected.conn, connected.local, 0x30, 8, to_context(0x77)), 0);
        if (logged_failures == 0) { // by neither of these
            const std::uint64_t wr_id = posted_wr_id();
            assert_int_equal(complete(get_cq(connected), make_wc(wr_id, IBV_WC_RECV)), 0x77);
        }
        assert_int_equal(logged_failures, 1);
        take_posts();
        take_wr_ids();
    }
    assert_int_equal(rpma_log_set_function(RPMA_LOG_USE_DEFAULT_FUNCTION), 0);
}

void coherent_device_is_not_synced(void **) {
    settings.needs_sync = false;
    {
        connection connected;
        assert_int_equal(rpma_read(connected.conn, connected.local, 0x30, connected.remote, 0, 8, 3,
                                   to_context(0x77)),
                         0);
        assert_int_equal(complete(get_cq(connected), make_wc(posted_wr_id(), IBV_WC_RDMA_READ)),
                         0x77);
    }
    assert_string_equal(take_syncs().c_str(), "");
}

} // namespace

int main() {
#define SYNC_TEST(function) cmocka_unit_test_setup_teardown(function, reset_sync, check)
    const CMUnitTest tests[] = {
        SYNC_TEST(read_syncs_its_sink),
        SYNC_TEST(sends_and_writes_sync_their_source),
        SYNC_TEST(receive_syncs_its_buffer_and_what_peer_writes),
        SYNC_TEST(only_memory_for_peers_is_synced_for_them),
        SYNC_TEST(completion_completes_earlier_requests),
        SYNC_TEST(srq_completes_in_any_order),
        SYNC_TEST(flush_and_atomic_write_have_wr_id_of_program),
        SYNC_TEST(failed_post_is_not_completed),
        SYNC_TEST(second_completion_has_wr_id_and_no_sync),
        SYNC_TEST(second_completion_completes_no_other_request),
        SYNC_TEST(deleted_connection_leaves_no_receive),
        SYNC_TEST(deregistration_syncs_what_peer_has_written),
        SYNC_TEST(flushed_requests_have_wr_id_of_program),
        SYNC_TEST(request_and_connection_share_receives),
        SYNC_TEST(log_function_may_call_librpma),
        SYNC_TEST(coherent_device_is_not_synced),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}

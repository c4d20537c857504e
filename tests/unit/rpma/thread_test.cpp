// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Calls of several threads. ThreadSanitizer, which does not see the fake libraries, finds what the
// library leaves unordered.

#include "connection.hpp"

#include <algorithm>
#include <atomic>
#include <barrier>
#include <thread>

using namespace fake;

namespace {

constexpr int NUM_THREADS = 4;

/// Runs the function in all threads at once; number: of the thread.
template <class function>
void run_threads(const function &run) {
    std::barrier start(NUM_THREADS);
    std::vector<std::thread> threads;
    for (int number = 0; number != NUM_THREADS; ++number)
        threads.emplace_back([&, number] {
            start.arrive_and_wait();
            run(number);
        });
    for (std::thread &thread : threads)
        thread.join();
}

/// Failures in threads, where cmocka cannot end the test.
std::atomic<int> num_failures = 0;
void expect(bool condition) {
    if (!condition)
        num_failures.fetch_add(1, std::memory_order_relaxed);
}

int reset_threads(void **state) {
    num_failures = 0;
    return reset(state);
}
int check_threads(void **state) {
    if (num_failures != 0)
        print_error("%d failures in threads\n", num_failures.load());
    return check(state) == 0 && num_failures == 0 ? 0 : -1;
}

/// The life of a connection, with each operation once.
void use_connection(rpma_peer *peer) {
    rpma_conn_req *req = nullptr;
    rpma_conn *conn = nullptr;
    rpma_mr_local *mr = nullptr;
    expect(rpma_conn_req_new(peer, "192.0.2.1", "7204", nullptr, &req) == 0);
    expect(rpma_conn_req_connect(&req, nullptr, &conn) == 0);
    expect(rpma_mr_reg(peer, reinterpret_cast<void *>(LOCAL_ADDR), 4096, ALL_USAGES, &mr) == 0);
    rpma_conn_event event = RPMA_CONN_UNDEFINED;
    post_event(RDMA_CM_EVENT_ESTABLISHED, "data", last_id());
    expect(rpma_conn_next_event(conn, &event) == 0 && event == RPMA_CONN_ESTABLISHED);
    rpma_mr_remote *remote = create_remote(REMOTE_ADDR, ALL_USAGES);
    expect(rpma_read(conn, mr, 0, remote, 0, 8, 3, nullptr) == 0);
    expect(rpma_write(conn, remote, 0, mr, 0, 8, 1, nullptr) == 0);
    expect(rpma_atomic_write(conn, remote, 0, "abcdefgh", 3, nullptr) == 0);
    expect(rpma_flush(conn, remote, 0, 8, RPMA_FLUSH_TYPE_VISIBILITY, 3, nullptr) == 0);
    expect(rpma_send(conn, mr, 0, 8, 3, nullptr) == 0);
    expect(rpma_recv(conn, mr, 0, 8, nullptr) == 0);
    expect(rpma_mr_remote_delete(&remote) == 0);
    expect(rpma_conn_disconnect(conn) == 0);
    post_event(RDMA_CM_EVENT_DISCONNECTED, "", last_id());
    expect(rpma_conn_next_event(conn, &event) == 0 && event == RPMA_CONN_CLOSED);
    expect(rpma_conn_delete(&conn) == 0);
    expect(rpma_mr_dereg(&mr) == 0);
}

void connections_of_one_peer(void **) {
    for (const bool needs_sync : {false, true}) {
        settings.needs_sync = needs_sync;
        rpma_peer *peer = create_peer();
        run_threads([&](int) {
            for (int i = 0; i != 20; ++i)
                use_connection(peer);
        });
        assert_int_equal(rpma_peer_delete(&peer), 0);
    }
}

void peers_of_each_thread(void **) {
    for (const bool needs_sync : {false, true}) {
        settings.needs_sync = needs_sync;
        run_threads([&](int) {
            for (int i = 0; i != 10; ++i) {
                rpma_peer *peer = nullptr;
                expect(rpma_peer_new(context(), &peer) == 0);
                use_connection(peer);
                expect(rpma_peer_delete(&peer) == 0);
            }
        });
    }
}

void memory_of_one_peer(void **) {
    settings.needs_sync = true;
    rpma_peer *peer = create_peer();
    run_threads([&](int) {
        for (int i = 0; i != 200; ++i) {
            rpma_mr_local *mr = nullptr;
            expect(rpma_mr_reg(peer, reinterpret_cast<void *>(LOCAL_ADDR), 64, ALL_USAGES, &mr) ==
                   0);
            expect(rpma_mr_dereg(&mr) == 0);
        }
    });
    assert_int_equal(rpma_peer_delete(&peer), 0);
}

/// Polls the CQE of a request, which has the program's wr_id then. Not of a receive, which syncs
/// more.
void complete_request(rpma_cq *cq, std::uint64_t wr_id, std::uint64_t expected) {
    ibv_wc wc = {};
    wc.wr_id = wr_id;
    wc.opcode = IBV_WC_RDMA_READ;
    set_completions({wc});
    expect(rpma_cq_get_wc(cq, 1, &wc, nullptr) == 0 && wc.wr_id == expected);
}

// Syncs use requests of one list.
void requests_of_one_peer(void **) {
    settings.needs_sync = true;
    rpma_peer *peer = create_peer();
    rpma_conn *conns[NUM_THREADS] = {};
    for (rpma_conn *&conn : conns) {
        rpma_conn_req *req = nullptr;
        assert_int_equal(rpma_conn_req_new(peer, "192.0.2.1", "7204", nullptr, &req), 0);
        assert_int_equal(rpma_conn_req_connect(&req, nullptr, &conn), 0);
    }
    run_threads([&](int number) {
        rpma_conn *const conn = conns[number];
        rpma_cq *cq = nullptr;
        expect(rpma_conn_get_cq(conn, &cq) == 0);
        for (std::uintptr_t i = 1; i != 200; ++i) {
            expect(rpma_recv(conn, nullptr, 0, 0, to_context(i)) == 0);
            complete_request(cq, last.wr_id, i);
        }
    });
    for (rpma_conn *&conn : conns)
        assert_int_equal(rpma_conn_delete(&conn), 0);
    assert_int_equal(rpma_peer_delete(&peer), 0);
}

// Posting, and changing whether flushes to persistence are possible.
void operations_of_one_connection(void **) {
    for (const bool needs_sync : {false, true}) {
        settings.needs_sync = needs_sync;
        connection connected;
        rpma_peer_cfg *cfg = nullptr;
        assert_int_equal(rpma_peer_cfg_new(&cfg), 0);
        take_posts();
        run_threads([&](int number) {
            rpma_conn *const conn = connected.conn;
            for (int i = 0; i != 50; ++i) {
                expect(rpma_write(conn, connected.remote, 0, connected.local, 0, 8, 3, nullptr) ==
                       0);
                expect(rpma_recv(conn, connected.local, 0, 8, nullptr) == 0);
                expect(rpma_peer_cfg_set_direct_write_to_pmem(cfg, number % 2 == 0) == 0);
                expect(rpma_conn_apply_remote_peer_cfg(conn, cfg) == 0);
                const int ret = rpma_flush(conn, connected.remote, 0, 8, RPMA_FLUSH_TYPE_PERSISTENT,
                                           3, nullptr);
                expect(ret == 0 || ret == RPMA_E_NOSUPP);
            }
        });
        const std::string posts = take_posts();
        assert_true(std::count(posts.begin(), posts.end(), '|') >= NUM_THREADS * 50 * 2 - 1);
        assert_int_equal(rpma_peer_cfg_delete(&cfg), 0);
    }
}

template <class value_type>
void check_setting(rpma_conn_cfg *cfg, int (*set)(rpma_conn_cfg *, value_type),
                   int (*get)(const rpma_conn_cfg *, value_type *), value_type value,
                   value_type other_value) {
    value_type result;
    expect(set(cfg, value) == 0);
    expect(get(cfg, &result) == 0 && (result == value || result == other_value));
}

// As librpma promises if it is built with atomics.
void one_configuration(void **) {
    rpma_peer *peer = create_peer();
    rpma_srq *srqs[2] = {};
    for (rpma_srq *&srq : srqs)
        assert_int_equal(rpma_srq_new(peer, nullptr, &srq), 0);
    rpma_conn_cfg *cfg = nullptr;
    rpma_srq_cfg *srq_cfg = nullptr;
    assert_int_equal(rpma_conn_cfg_new(&cfg), 0);
    assert_int_equal(rpma_srq_cfg_new(&srq_cfg), 0);
    run_threads([&](int number) {
        const bool is_odd = number % 2 != 0;
        const std::uint32_t size = is_odd ? 11 : 22, other = is_odd ? 22 : 11;
        for (int i = 0; i != 200; ++i) {
            check_setting<int>(cfg, rpma_conn_cfg_set_timeout, rpma_conn_cfg_get_timeout,
                               is_odd ? 11 : 22, is_odd ? 22 : 11);
            check_setting(cfg, rpma_conn_cfg_set_cq_size, rpma_conn_cfg_get_cq_size, size, other);
            check_setting(cfg, rpma_conn_cfg_set_rcq_size, rpma_conn_cfg_get_rcq_size, size, other);
            check_setting(cfg, rpma_conn_cfg_set_sq_size, rpma_conn_cfg_get_sq_size, size, other);
            check_setting(cfg, rpma_conn_cfg_set_rq_size, rpma_conn_cfg_get_rq_size, size, other);
            check_setting(cfg, rpma_conn_cfg_set_compl_channel, rpma_conn_cfg_get_compl_channel,
                          is_odd, !is_odd);
            check_setting(cfg, rpma_conn_cfg_set_srq, rpma_conn_cfg_get_srq, srqs[number % 2],
                          srqs[(number + 1) % 2]);
            std::uint32_t result = 0;
            expect(rpma_srq_cfg_set_rq_size(srq_cfg, size) == 0);
            expect(rpma_srq_cfg_set_rcq_size(srq_cfg, size) == 0);
            expect(rpma_srq_cfg_get_rq_size(srq_cfg, &result) == 0);
            expect(result == size || result == other);
            expect(rpma_srq_cfg_get_rcq_size(srq_cfg, &result) == 0);
            expect(result == size || result == other);
        }
    });
    assert_int_equal(rpma_srq_cfg_delete(&srq_cfg), 0);
    assert_int_equal(rpma_conn_cfg_delete(&cfg), 0);
    for (rpma_srq *&srq : srqs)
        assert_int_equal(rpma_srq_delete(&srq), 0);
    assert_int_equal(rpma_peer_delete(&peer), 0);
}

std::atomic<int> num_messages = 0;
[[gnu::format(printf, 5, 6)]] void count_message(rpma_log_level, const char *, int, const char *,
                                                 const char *, ...) {
    num_messages.fetch_add(1, std::memory_order_relaxed);
}
[[gnu::format(printf, 5, 6)]] void count_message_twice(rpma_log_level, const char *, int,
                                                       const char *, const char *, ...) {
    num_messages.fetch_add(2, std::memory_order_relaxed);
}

// Each message is passed to one of the functions, while threads set functions and thresholds.
void log_of_all_threads(void **) {
    num_messages = 0;
    assert_int_equal(rpma_log_set_function(count_message), 0);
    assert_int_equal(rpma_log_set_threshold(RPMA_LOG_THRESHOLD, RPMA_LOG_LEVEL_ERROR), 0);
    constexpr int NUM_ROUNDS = 200;
    run_threads([&](int number) {
        for (int i = 0; i != NUM_ROUNDS; ++i) {
            expect(rpma_log_set_function(number % 2 == 0 ? count_message : count_message_twice) ==
                   0);
            expect(rpma_log_set_threshold(RPMA_LOG_THRESHOLD, number % 2 == 0
                                                                  ? RPMA_LOG_LEVEL_ERROR
                                                                  : RPMA_LOG_LEVEL_WARNING) == 0);
            rpma_mr_remote *mr = nullptr;
            expect(rpma_mr_remote_from_descriptor("", 0, &mr) == RPMA_E_INVAL);
            rpma_log_level level;
            expect(rpma_log_get_threshold(RPMA_LOG_THRESHOLD, &level) == 0);
            expect(level == RPMA_LOG_LEVEL_ERROR || level == RPMA_LOG_LEVEL_WARNING);
        }
    });
    assert_int_equal(rpma_log_set_function(RPMA_LOG_USE_DEFAULT_FUNCTION), 0);
    assert_in_range(num_messages.load(), NUM_THREADS * NUM_ROUNDS, 2 * NUM_THREADS * NUM_ROUNDS);
}

} // namespace

int main() {
#define THREAD_TEST(function)                                                                      \
    cmocka_unit_test_setup_teardown(function, reset_threads, check_threads)
    const CMUnitTest tests[] = {
        THREAD_TEST(connections_of_one_peer),      THREAD_TEST(peers_of_each_thread),
        THREAD_TEST(memory_of_one_peer),           THREAD_TEST(requests_of_one_peer),
        THREAD_TEST(operations_of_one_connection), THREAD_TEST(one_configuration),
        THREAD_TEST(log_of_all_threads),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}

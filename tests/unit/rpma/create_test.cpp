// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Each call below a function that creates an object fails in turn: the function returns the error,
// keeps the caller's pointer, and leaks nothing.

#include "create_cases.hpp"

#include <algorithm>
#include <map>

using namespace fake;

namespace {

/// The result of a function when a call fails with EIO; RPMA_E_PROVIDER for others.
const std::map<std::string, int> results = {
    // How atomic writes are executed: only those of eight bytes inline remain.
    {"ibv_query_device", 0},
    {"ibv_query_qp", 0},
    {"mmap", RPMA_E_NOMEM},
    {"end of batch", 0}, // a sync is logged
};

/// The case with its nth call failing. 0: the call succeeded; the object is destroyed.
int create_failing(fixture &fixture, const create_case &test, unsigned nth) {
    if (test.prepare != nullptr)
        test.prepare(fixture);
    const std::size_t objects_before = count_objects();
    const long allocations_before = count_allocations();
    created_object object;
    object.pointer = &object; // must be kept
    errno = 0;
    fail_nth(nth, EIO);
    const int ret = test.create(fixture, object);
    const int error = errno;
    const std::string failed = failed_call();
    fail_none();
    assert_null(fixture.req);
    if (ret == 0) {
        assert_int_equal(test.destroy(object), 0);
        assert_null(object.pointer);
    } else {
        assert_ptr_equal(object.pointer, &object);
    }
    if (!failed.empty()) {
        const auto it = results.find(failed);
        const int result = it != results.end() ? it->second : RPMA_E_PROVIDER;
        if (ret != result)
            print_error("%s: %s\n", test.name, failed.c_str());
        assert_int_equal(ret, result);
        if (ret != 0)
            assert_int_equal(error, EIO);
    }
    // Less: a request is gone with its objects, and a received request's event.
    if (count_objects() > objects_before || count_allocations() > allocations_before)
        print_error("%s: %s: objects are left\n", test.name, failed.c_str());
    assert_true(count_objects() <= objects_before);
    assert_true(count_allocations() <= allocations_before);
    return failed.empty() ? 0 : 1;
}

void fail_each_call(bool needs_sync) {
    for (const create_case &test : create_cases) {
        unsigned nth = 1;
        // In a new fixture: a configuration has no function to remove an SRQ.
        for (int failed = 1; failed != 0; ++nth) {
            fixture fixture(needs_sync);
            failed = create_failing(fixture, test, nth);
        }
        const bool has_calls = std::string(test.name).find("configuration") == std::string::npos &&
                               std::string(test.name) != "remote MR";
        assert_int_equal(nth > 2, has_calls);
    }
}

void failed_call_leaks_nothing(void **) {
    fail_each_call(false);
}
void failed_call_leaks_nothing_with_syncs(void **) {
    fail_each_call(true);
}

void fail_each_allocation(bool needs_sync) {
    for (const create_case &test : create_cases) {
        bool has_failed = true;
        for (unsigned nth = 1; has_failed; ++nth) {
            fixture fixture(needs_sync);
            if (test.prepare != nullptr)
                test.prepare(fixture);
            const std::size_t objects_before = count_objects();
            created_object object;
            object.pointer = &object;
            fail_allocation(nth);
            const int ret = test.create(fixture, object);
            has_failed = has_failed_allocation();
            fail_allocation(0);
            assert_null(fixture.req);
            if (ret != (has_failed ? RPMA_E_NOMEM : 0))
                print_error("%s: allocation %u: %d\n", test.name, nth, ret);
            assert_int_equal(ret, has_failed ? RPMA_E_NOMEM : 0);
            if (has_failed)
                assert_ptr_equal(object.pointer, &object);
            else
                assert_int_equal(test.destroy(object), 0);
            assert_true(count_objects() <= objects_before);
            assert_true(nth > 1 || has_failed); // each function allocates
        }
    }
}

void out_of_memory_leaks_nothing(void **) {
    fail_each_allocation(false);
}
void out_of_memory_leaks_nothing_with_syncs(void **) {
    fail_each_allocation(true);
}

// As in librpma, the caller's pointer is then NULL.
void conn_cfg_and_srq_cfg_out_of_memory(void **) {
    rpma_conn_cfg *cfg = nullptr;
    fail_allocation(1);
    assert_int_equal(rpma_conn_cfg_new(&cfg), RPMA_E_NOMEM);
    assert_null(cfg);
    rpma_srq_cfg *srq_cfg = nullptr;
    fail_allocation(1);
    assert_int_equal(rpma_srq_cfg_new(&srq_cfg), RPMA_E_NOMEM);
    assert_null(srq_cfg);
}

void failed_alloc_pd_has_three_results(void **) {
    rpma_peer *peer = nullptr;
    for (const auto &[error, ret] :
         {std::pair(ENOMEM, RPMA_E_NOMEM), std::pair(EPERM, RPMA_E_PROVIDER)}) {
        fail_calls("ibv_alloc_pd", error);
        assert_int_equal(rpma_peer_new(context(), &peer), ret);
        fail_none();
    }
    assert_null(peer);
}

// The kernel's driver may have operations that the provider lacks.
void qp_without_native_operations_is_created_after_eopnotsupp(void **) {
    settings.cap_flags_ex = ATOMIC_WRITE | FLUSH_GLOBAL | FLUSH_PERSISTENT;
    fixture fixture;
    created_object object;
    for (const bool has_send_ops : {true, false}) {
        settings.has_send_ops = has_send_ops;
        last.qp.clear();
        const create_case &test = find_case("request");
        assert_int_equal(test.create(fixture, object), 0);
        assert_int_equal(last.qp.size(), has_send_ops ? 1 : 2);
        assert_true((last.qp.front().comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) != 0);
        assert_true((last.qp.front().send_ops_flags & IBV_QP_EX_WITH_ATOMIC_WRITE) != 0);
        if (!has_send_ops)
            assert_int_equal(last.qp.back().comp_mask, IBV_QP_INIT_ATTR_PD);
        assert_int_equal(test.destroy(object), 0);
    }
    // The second attempt fails, too; another error is not retried.
    for (const int error : {EOPNOTSUPP, ENOMEM}) {
        last.qp.clear();
        fail_calls("rdma_create_qp_ex", error);
        object.pointer = nullptr;
        assert_int_equal(find_case("request").create(fixture, object), RPMA_E_PROVIDER);
        assert_int_equal(errno, error);
        assert_int_equal(last.qp.size(), error == EOPNOTSUPP ? 2 : 1);
        assert_null(object.pointer);
        fail_none();
    }
}

// Providers without ibv_create_qp_ex() refuse the flags, even if they are 0.
void device_without_native_operations_gets_no_flags(void **) {
    fixture fixture;
    created_object object;
    const create_case &test = find_case("request");
    assert_int_equal(test.create(fixture, object), 0);
    assert_int_equal(last.qp.size(), 1);
    assert_int_equal(last.qp.front().comp_mask, IBV_QP_INIT_ATTR_PD);
    assert_int_equal(test.destroy(object), 0);
}

void shared_channel_with_srq_cq_is_invalid(void **) {
    fixture fixture;
    assert_int_equal(rpma_conn_cfg_set_compl_channel(fixture.cfg, true), 0);
    assert_int_equal(rpma_conn_cfg_set_srq(fixture.cfg, fixture.srq), 0);
    created_object object;
    assert_int_equal(find_case("request").create(fixture, object), RPMA_E_INVAL);
    const std::size_t objects_before = count_objects();
    post_event(RDMA_CM_EVENT_CONNECT_REQUEST);
    assert_int_equal(find_case("received request").create(fixture, object), RPMA_E_INVAL);
    assert_int_equal(count_objects(), objects_before); // the event is acknowledged
    assert_null(object.pointer);
}

// The passive side's request is deleted, too.
void invalid_connect_deletes_request(void **) {
    char byte = 0;
    const rpma_conn_private_data no_bytes = {.ptr = &byte, .len = 0};
    const rpma_conn_private_data no_pointer = {.ptr = nullptr, .len = 1};
    for (const char *const name : {"connection", "accepted connection"}) {
        for (int i = 0; i != 3; ++i) {
            fixture fixture;
            find_case(name).prepare(fixture);
            rpma_conn *conn = nullptr;
            take_calls();
            assert_int_equal(rpma_conn_req_connect(&fixture.req,
                                                   i == 1   ? &no_bytes
                                                   : i == 2 ? &no_pointer
                                                            : nullptr,
                                                   i == 0 ? nullptr : &conn),
                             RPMA_E_INVAL);
            assert_null(fixture.req);
            assert_null(conn);
            const std::vector<std::string> calls = take_calls();
            assert_int_equal(std::count(calls.begin(), calls.end(), "rdma_reject"),
                             std::string(name) == "accepted connection" ? 1 : 0);
        }
    }
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        TEST(failed_call_leaks_nothing),
        TEST(failed_call_leaks_nothing_with_syncs),
        TEST(out_of_memory_leaks_nothing),
        TEST(out_of_memory_leaks_nothing_with_syncs),
        TEST(conn_cfg_and_srq_cfg_out_of_memory),
        TEST(failed_alloc_pd_has_three_results),
        TEST(qp_without_native_operations_is_created_after_eopnotsupp),
        TEST(device_without_native_operations_gets_no_flags),
        TEST(shared_channel_with_srq_cq_is_invalid),
        TEST(invalid_connect_deletes_request),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}

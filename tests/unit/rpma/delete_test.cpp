// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Each call below a function that deletes an object fails in turn: the function returns the first
// error, destroys all else, and sets the caller's pointer to NULL.

#include "create_cases.hpp"

#include <algorithm>
#include <map>

using namespace fake;

namespace {

void create(fixture &fixture, const create_case &test, created_object &object) {
    if (test.prepare != nullptr)
        test.prepare(fixture);
    assert_int_equal(test.create(fixture, object), 0);
}

/// RPMA_E_PROVIDER for others.
const std::map<std::string, int> results = {
    {"munmap", RPMA_E_INVAL},
    {"before read", 0}, // a failed sync is only logged
    {"after write", 0},
};

void fail_each_call(bool needs_sync) {
    unsigned num_failed = 0;
    for (const create_case &test : create_cases) {
        std::string failed;
        unsigned nth = 0;
        do {
            fixture fixture(needs_sync);
            const std::size_t objects_before = count_objects();
            const long allocations_before = count_allocations();
            created_object object;
            create(fixture, test, object);
            fail_nth(++nth, EBUSY);
            const int ret = test.destroy(object);
            failed = failed_call();
            fail_none();
            const auto it = results.find(failed);
            const int result = failed.empty()        ? 0
                               : it != results.end() ? it->second
                                                     : RPMA_E_PROVIDER;
            if (ret != result)
                print_error("%s: %s\n", test.name, failed.c_str());
            assert_int_equal(ret, result);
            assert_null(object.pointer);
            if (count_objects() > objects_before || count_allocations() > allocations_before)
                print_error("%s: %s: objects are left\n", test.name, failed.c_str());
            assert_true(count_objects() <= objects_before);
            assert_true(count_allocations() <= allocations_before);
        } while (!failed.empty());
        num_failed += nth - 1;
    }
    assert_true(num_failed > 40);
}

void failed_call_destroys_all_else(void **) {
    fail_each_call(false);
}
void failed_call_destroys_all_else_with_syncs(void **) {
    fail_each_call(true);
}

void several_failed_calls_return_first_error(void **) {
    fixture fixture;
    created_object object;
    create(fixture, find_case("connection"), object);
    fail_calls("munmap", EINVAL); // RPMA_E_INVAL
    fail_calls("ibv_dereg_mr", EBUSY);
    assert_int_equal(find_case("connection").destroy(object), RPMA_E_PROVIDER);
    fail_none();
    create(fixture, find_case("connection"), object);
    fail_calls("munmap", EINVAL);
    fail_calls("ibv_destroy_cq", EBUSY);
    assert_int_equal(find_case("connection").destroy(object), RPMA_E_PROVIDER);
    fail_none();
}

void null_pointer_is_deleted(void **) {
    fixture fixture;
    for (const create_case &test : create_cases) {
        created_object object;
        take_calls();
        assert_int_equal(test.destroy(object), 0);
        assert_true(take_calls().empty());
    }
    rpma_conn_cfg *cfg = nullptr;
    assert_int_equal(rpma_conn_cfg_delete(&cfg), 0);
    rpma_srq_cfg *srq_cfg = nullptr;
    assert_int_equal(rpma_srq_cfg_delete(&srq_cfg), 0);
}

void null_argument_is_invalid(void **) {
    assert_int_equal(rpma_peer_delete(nullptr), RPMA_E_INVAL);
    assert_int_equal(rpma_peer_cfg_delete(nullptr), RPMA_E_INVAL);
    assert_int_equal(rpma_mr_dereg(nullptr), RPMA_E_INVAL);
    assert_int_equal(rpma_mr_remote_delete(nullptr), RPMA_E_INVAL);
    assert_int_equal(rpma_srq_delete(nullptr), RPMA_E_INVAL);
    assert_int_equal(rpma_srq_cfg_delete(nullptr), RPMA_E_INVAL);
    assert_int_equal(rpma_conn_cfg_delete(nullptr), RPMA_E_INVAL);
    assert_int_equal(rpma_ep_shutdown(nullptr), RPMA_E_INVAL);
    assert_int_equal(rpma_conn_req_delete(nullptr), RPMA_E_INVAL);
    assert_int_equal(rpma_conn_delete(nullptr), RPMA_E_INVAL);
    rpma_conn_req *req = nullptr;
    rpma_conn *conn = nullptr;
    assert_int_equal(rpma_conn_req_connect(nullptr, nullptr, &conn), RPMA_E_INVAL);
    assert_int_equal(rpma_conn_req_connect(&req, nullptr, &conn), RPMA_E_INVAL);
}

// Only the passive side has a request to reject.
void received_request_is_rejected(void **) {
    fixture fixture;
    for (const char *const name : {"request", "received request"}) {
        created_object object;
        create(fixture, find_case(name), object);
        take_calls();
        assert_int_equal(find_case(name).destroy(object), 0);
        const std::vector<std::string> calls = take_calls();
        assert_int_equal(std::count(calls.begin(), calls.end(), "rdma_reject"),
                         std::string(name) == "received request" ? 1 : 0);
    }
}

// A program may delete a peer before its memory: the PD then stays in the kernel.
void memory_outlives_peer(void **) {
    for (const bool needs_sync : {false, true}) {
        settings.needs_sync = needs_sync;
        rpma_peer *peer = create_peer();
        char memory[8];
        rpma_mr_local *mr = nullptr;
        assert_int_equal(rpma_mr_reg(peer, memory, sizeof memory, RPMA_MR_USAGE_RECV, &mr), 0);
        settings.keeps_pd = true;
        assert_int_equal(rpma_peer_delete(&peer), RPMA_E_PROVIDER);
        assert_null(peer);
        assert_int_equal(rpma_mr_dereg(&mr), 0);
        free_kept_pd();
    }
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        TEST(failed_call_destroys_all_else),
        TEST(failed_call_destroys_all_else_with_syncs),
        TEST(several_failed_calls_return_first_error),
        TEST(null_pointer_is_deleted),
        TEST(null_argument_is_invalid),
        TEST(received_request_is_rejected),
        TEST(memory_outlives_peer),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Limits that are lower than the device's.

#include "../cmocka.hpp"
#include "faults/device_limits.hpp"

#include <cerrno>

namespace {

using namespace coherdma::faults;
using coherdma::interposer::object_kind;
using coherdma::interposer::queue_request;
using coherdma::interposer::registration;

void the_device_tells_the_lower_one(void **) {
    const std::vector<fault> scenario =
        parse_scenario("limit max_qp 4; limit max_sge 100; limit max_mr_size 4096");
    ibv_device_attr attr = {};
    attr.max_qp = 1000;
    attr.max_sge = 32;
    attr.max_mr_size = ~std::uint64_t{0};
    attr.max_cq = 7;
    const std::vector<const fault *> lowered = device_limits(scenario).lower(attr);
    assert_int_equal(lowered.size(), 2);
    assert_string_equal(lowered[1]->limit.c_str(), "max_mr_size");
    assert_int_equal(attr.max_qp, 4);
    assert_int_equal(attr.max_sge, 32); // the device's own
    assert_int_equal(attr.max_mr_size, 4096);
    assert_int_equal(attr.max_cq, 7);
}

void so_many_objects(void **) {
    const std::vector<fault> scenario = parse_scenario("limit max_qp 2; limit max_mr 1");
    device_limits tested(scenario);
    const ibv_qp_cap cap = {};
    const queue_request qp = {.kind = object_kind::QP, .cap = &cap};
    assert_null(tested.check(qp).cause);
    tested.add(object_kind::QP);
    assert_null(tested.check(qp).cause);
    tested.add(object_kind::QP);
    const device_limits::refusal refused = tested.check(qp);
    assert_int_equal(refused.error, ENOMEM);
    assert_int_equal(refused.asked, 3);
    assert_string_equal(refused.cause->limit.c_str(), "max_qp");
    assert_null(tested.check({.kind = object_kind::CQ}).cause);
    assert_null(tested.check({.kind = object_kind::QP}).cause); // a WQ
    tested.remove(object_kind::QP);
    assert_null(tested.check(qp).cause);
    tested.add(object_kind::MR);
    assert_int_equal(tested.check(registration{}).error, ENOMEM);
}

void sizes_of_queues_and_memory(void **) {
    const std::vector<fault> scenario =
        parse_scenario("limit max_qp_wr 16; limit max_sge 2; limit max_cqe 10; limit max_srq_wr 5\n"
                       "limit max_srq_sge 1; limit max_mr_size 4096");
    device_limits tested(scenario);
    ibv_qp_cap cap = {.max_send_wr = 16,
                      .max_recv_wr = 1,
                      .max_send_sge = 1,
                      .max_recv_sge = 2,
                      .max_inline_data = 1000};
    const queue_request qp = {.kind = object_kind::QP, .cap = &cap};
    assert_null(tested.check(qp).cause);
    cap.max_recv_wr = 17;
    assert_string_equal(tested.check(qp).cause->limit.c_str(), "max_qp_wr");
    cap.max_recv_wr = 1;
    cap.max_send_sge = 3;
    assert_int_equal(tested.check(qp).error, EINVAL);
    assert_string_equal(tested.check(qp).cause->limit.c_str(), "max_sge");
    assert_null(tested.check({.kind = object_kind::CQ, .max_entries = 10}).cause);
    assert_int_equal(tested.check({.kind = object_kind::CQ, .max_entries = 11}).asked, 11);
    assert_null(tested.check({.kind = object_kind::SRQ, .max_entries = 5, .max_sge = 1}).cause);
    assert_non_null(tested.check({.kind = object_kind::SRQ, .max_entries = 6}).cause);
    assert_non_null(tested.check({.kind = object_kind::SRQ, .max_sge = 2}).cause);
    assert_null(tested.check({.length = 4096}).cause);
    assert_int_equal(tested.check({.length = 4097}).error, EINVAL);
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(the_device_tells_the_lower_one),
        cmocka_unit_test(so_many_objects),
        cmocka_unit_test(sizes_of_queues_and_memory),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Which calls and requests a scenario hits.

#include "../cmocka.hpp"
#include "faults/plan.hpp"

#include <set>
#include <string>
#include <thread>
#include <vector>

namespace {

using namespace coherdma::faults;
using namespace std::chrono_literals;

const plan::time_point NOW = plan::time_point(1000s);

/// The numbers of those of count requests of this class and queue pair that are to fail.
std::set<std::uint64_t> hit_requests(plan &tested, request_class posted, int count,
                                     const queue_identity &queue = {.number = 1}) {
    std::set<std::uint64_t> hit;
    for (int i = 0; i < count; ++i)
        if (const due_fault due = tested.count_request(posted, queue, NOW); due.cause != nullptr)
            hit.insert(due.count);
    return hit;
}

void one_request(void **) {
    plan tested(parse_scenario("3rd write fails retry_exc"), 0);
    assert_true(hit_requests(tested, request_class::READ, 10).empty());
    assert_true(hit_requests(tested, request_class::WRITE, 10) == std::set<std::uint64_t>{3});
}

void every_third_request(void **) {
    plan tested(parse_scenario("every 3rd request fails retry_exc"), 0);
    assert_true(hit_requests(tested, request_class::RECEIVE, 10).empty());
    assert_true(hit_requests(tested, request_class::OTHER, 5) == std::set<std::uint64_t>{3});
    assert_true(hit_requests(tested, request_class::SEND, 5) == (std::set<std::uint64_t>{6, 9}));
}

void a_share_depends_on_the_seed_alone(void **) {
    constexpr int COUNT = 10000;
    const auto faults = parse_scenario("10% of sends fail retry_exc");
    plan tested(faults, 1), repeated(faults, 1), other(faults, 2);
    const auto hit = hit_requests(tested, request_class::SEND, COUNT);
    assert_in_range(hit.size(), COUNT / 10 - COUNT / 50, COUNT / 10 + COUNT / 50);
    assert_true(hit == hit_requests(repeated, request_class::SEND, COUNT));
    assert_true(hit != hit_requests(other, request_class::SEND, COUNT));
}

void a_share_of_all_is_all(void **) {
    plan tested(parse_scenario("100% of sends fail retry_exc"), 7);
    assert_int_equal(hit_requests(tested, request_class::SEND, 100).size(), 100);
}

void requests_of_a_numbered_queue(void **) {
    plan tested(parse_scenario("2nd send of qp 3 fails retry_exc"), 0);
    assert_true(tested.selects_queues());
    assert_true(hit_requests(tested, request_class::SEND, 5, {.number = 2}).empty());
    assert_true(hit_requests(tested, request_class::SEND, 5, {.number = 3}) ==
                std::set<std::uint64_t>{2});
}

void requests_to_a_peer(void **) {
    plan tested(parse_scenario("1st receive to 198.18.0.2 fails loc_len"), 0);
    const queue_identity near = {.number = 1, .peer = "198.18.0.1"},
                         unknown = {.number = 0, .peer = ""},
                         far = {.number = 2, .peer = "198.18.0.2"},
                         by_rdma_cm = {.number = 3, .peer = "fe80::1", .other_peer = "198.18.0.2"};
    assert_true(hit_requests(tested, request_class::RECEIVE, 3, near).empty());
    assert_true(hit_requests(tested, request_class::RECEIVE, 3, unknown).empty());
    assert_int_equal(hit_requests(tested, request_class::RECEIVE, 3, far).size(), 1);
    plan of_rdma_cm(parse_scenario("1st receive to 198.18.0.2 fails loc_len"), 0);
    assert_int_equal(hit_requests(of_rdma_cm, request_class::RECEIVE, 3, by_rdma_cm).size(), 1);
}

void late_requests_do_not_fail(void **) {
    plan tested(parse_scenario("each request of qp 2 takes 5ms; each request takes 2ms; "
                               "each ibv_poll_cq takes 9s"),
                0);
    assert_true(hit_requests(tested, request_class::SEND, 5, {.number = 2}).empty());
    assert_int_equal(tested.num_counted(0), 5);
    assert_true(tested.find_delay(1)->duration == 2ms);
    assert_true(tested.find_delay(2)->duration == 5ms);
    assert_null(plan(parse_scenario("each request of qp 2 takes 5ms"), 0).find_delay(1));
}

void two_faults_of_one_request(void **) {
    plan tested(parse_scenario("2nd send fails rem_op; 3rd request fails fatal"), 0);
    assert_true(hit_requests(tested, request_class::SEND, 5) == (std::set<std::uint64_t>{2, 3}));
}

/// What happens to a call.
std::string call(plan &tested, const char *name, plan::time_point now = NOW) {
    std::string effects;
    tested.count_call(name, now, [&](const due_fault &due) {
        effects += due.cause->effect == action::FAIL ? "fails" : "waits ";
    });
    return effects;
}

void calls(void **) {
    plan tested(parse_scenario("each ibv_post_send takes 1us; 2nd ibv_post_send fails ENOMEM"), 0);
    assert_string_equal(call(tested, "ibv_post_recv").c_str(), "");
    assert_string_equal(call(tested, "ibv_post_send").c_str(), "waits ");
    assert_string_equal(call(tested, "ibv_post_send").c_str(), "waits fails");
    assert_string_equal(call(tested, "ibv_post_send").c_str(), "waits ");
    assert_true(hit_requests(tested, request_class::OTHER, 5).empty());
    assert_int_equal(tested.num_counted(1), 3);
}

void two_failures_of_one_call(void **) {
    plan tested(parse_scenario("1st ibv_reg_mr fails ENOMEM; each ibv_reg_mr takes 1us; "
                               "2nd ibv_reg_mr fails EPERM; 1st ibv_reg_mr fails EINVAL"),
                0);
    assert_string_equal(call(tested, "ibv_reg_mr").c_str(), "failswaits ");
    assert_string_equal(call(tested, "ibv_reg_mr").c_str(), "waits fails");
    assert_string_equal(call(tested, "ibv_reg_mr").c_str(), "waits ");
}

void after_a_time(void **) {
    plan tested(parse_scenario("after 2s 1st ibv_post_send fails ENOMEM"), 0);
    assert_string_equal(call(tested, "ibv_post_send", NOW + 10s).c_str(), ""); // no device is open
    tested.start(NOW);
    tested.start(NOW + 100s); // a second device
    assert_string_equal(call(tested, "ibv_post_send", NOW + 1999ms).c_str(), "");
    assert_string_equal(call(tested, "ibv_post_send", NOW + 2s).c_str(), "fails");
    assert_string_equal(call(tested, "ibv_post_send", NOW + 3s).c_str(), "");
}

void after_less_than_a_millisecond(void **) {
    plan tested(parse_scenario("after 500us 1st ibv_post_send fails ENOMEM"), 0);
    tested.start(NOW);
    assert_string_equal(call(tested, "ibv_post_send", NOW + 499us).c_str(), "");
    assert_string_equal(call(tested, "ibv_post_send", NOW + 500us).c_str(), "fails");
}

void many_threads(void **) {
    constexpr int NUM_THREADS = 4, COUNT = 5000;
    plan tested(parse_scenario("every 10th send fails retry_exc"), 0);
    std::vector<std::size_t> num_hit(NUM_THREADS);
    std::vector<std::thread> threads;
    for (std::size_t &hit : num_hit)
        threads.emplace_back(
            [&] { hit = hit_requests(tested, request_class::SEND, COUNT).size(); });
    for (std::thread &each : threads)
        each.join();
    std::size_t sum = 0;
    for (const std::size_t hit : num_hit)
        sum += hit;
    assert_int_equal(sum, NUM_THREADS * COUNT / 10);
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(one_request),
        cmocka_unit_test(every_third_request),
        cmocka_unit_test(a_share_depends_on_the_seed_alone),
        cmocka_unit_test(a_share_of_all_is_all),
        cmocka_unit_test(requests_of_a_numbered_queue),
        cmocka_unit_test(requests_to_a_peer),
        cmocka_unit_test(late_requests_do_not_fail),
        cmocka_unit_test(two_faults_of_one_request),
        cmocka_unit_test(calls),
        cmocka_unit_test(two_failures_of_one_call),
        cmocka_unit_test(after_a_time),
        cmocka_unit_test(after_less_than_a_millisecond),
        cmocka_unit_test(many_threads),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}

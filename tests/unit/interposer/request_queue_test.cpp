// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Requests that are posted and not complete: a driver's wr_id leads to them.

#include "../cmocka.hpp"
#include "interposer/request_books.hpp"

#include <array>
#include <atomic>
#include <thread>

using namespace coherdma::interposer;

namespace {

request make_send(std::uint64_t wr_id, bool is_signaled) {
    request made;
    made.wr_id = wr_id;
    made.is_signaled = is_signaled;
    return made;
}

/// The wr_id of the program, and of the silent requests before it; none: the wr_id is no token.
struct result {
    std::vector<std::uint64_t> silent;
    std::optional<std::uint64_t> wr_id;
    bool is_dropped = false;
};

result complete(std::uint64_t wr_id, bool is_flushed = false) {
    std::vector<request> silent;
    const auto match = request_queue::complete(wr_id, is_flushed, silent);
    result completed;
    for (const request &earlier : silent)
        completed.silent.push_back(earlier.wr_id);
    if (match) {
        completed.wr_id = match->completed.wr_id;
        completed.is_dropped = match->is_dropped;
    }
    return completed;
}

/// A call that posts one request.
struct post_call {
    post_call(request_queue &queue, std::uint64_t wr_id, bool is_signaled)
        : requests{{{.posted = make_send(wr_id, is_signaled)}}}
        , number(queue.begin_post(requests, request_tokens::ADD)) {}

    std::array<posted_request, 1> requests;
    std::uint64_t number;
};

request_token post(request_queue &queue, std::uint64_t wr_id, bool is_signaled = true) {
    const post_call call(queue, wr_id, is_signaled);
    queue.end_post(call.number);
    return call.requests.front().token;
}

void completion_leads_to_its_request_once(void **) {
    request_queue &queue = *request_queue::take();
    const request_token first = post(queue, 7), second = post(queue, 7);
    assert_true(first != second);
    assert_int_equal(complete(second).wr_id.value(), 7);
    assert_int_equal(complete(first).wr_id.value(), 7);
    assert_false(complete(first).wr_id.has_value());
    // The entry is used again, under another token.
    const request_token third = post(queue, 8);
    assert_true(third != first && third != second);
    assert_false(complete(first).wr_id.has_value());
    assert_int_equal(complete(third).wr_id.value(), 8);
    queue.drop(0);
}

void wr_id_of_the_program_is_no_token(void **) {
    for (const std::uint64_t wr_id :
         {std::uint64_t{0}, std::uint64_t{1}, ~std::uint64_t{0}, std::uint64_t{1} << 40})
        assert_false(complete(wr_id).wr_id.has_value());
}

void unsignaled_requests_before_a_completion_are_silent(void **) {
    request_queue &queue = *request_queue::take();
    post(queue, 1, false);
    post(queue, 2, false);
    const request_token third = post(queue, 3);
    post(queue, 4, false);
    const request_token fifth = post(queue, 5);
    assert_true((complete(third).silent == std::vector<std::uint64_t>{1, 2}));
    assert_true((complete(fifth).silent == std::vector<std::uint64_t>{4}));
    queue.drop(0);
}

void unsignaled_request_that_fails_has_its_own_completion(void **) {
    request_queue &queue = *request_queue::take();
    request_token first = post(queue, 1, false), second = post(queue, 2);
    assert_int_equal(complete(first).wr_id.value(), 1);
    assert_true(complete(second).silent.empty());
    constexpr bool IS_FLUSHED = true;
    // Of two threads that poll, the one with the later completion may be the first here.
    first = post(queue, 3, false);
    second = post(queue, 4, false);
    assert_true(complete(second, IS_FLUSHED).silent.empty());
    assert_int_equal(complete(first, IS_FLUSHED).wr_id.value(), 3);
    queue.drop(0);
}

/// Only the driver knows which of two calls at the same time came first.
void request_of_a_concurrent_call_is_not_silent(void **) {
    request_queue &queue = *request_queue::take();
    post(queue, 1, false);
    const post_call concurrent(queue, 2, false);
    const request_token signaled = post(queue, 3);
    assert_true((complete(signaled).silent == std::vector<std::uint64_t>{1}));
    queue.end_post(concurrent.number);
    assert_true((complete(post(queue, 4)).silent == std::vector<std::uint64_t>{2}));
    queue.drop(0);
}

/// Calls that always overlap hide only what they overlap with.
void requests_before_overlapping_calls_are_silent(void **) {
    request_queue &queue = *request_queue::take();
    std::uint64_t previous_post = 0;
    for (std::uint64_t wr_id = 1; wr_id <= 100; ++wr_id) {
        const post_call call(queue, wr_id, false);
        if (previous_post != 0)
            queue.end_post(previous_post);
        previous_post = call.number;
    }
    assert_int_equal(complete(post(queue, 101)).silent.size(), 99);
    queue.end_post(previous_post);
    queue.drop(0);
}

void receives_are_not_silent(void **) {
    request_queue &queue = *request_queue::take();
    request receive = make_send(1, false);
    receive.is_receive = true;
    std::array<posted_request, 2> receives = {{{.posted = receive}, {.posted = receive}}};
    queue.end_post(queue.begin_post(receives, request_tokens::ADD));
    assert_true(complete(receives[1].token).silent.empty());
    assert_true(complete(receives[0].token).silent.empty());
    queue.drop(0);
}

void refused_request_is_forgotten(void **) {
    request_queue &queue = *request_queue::take();
    const request_token first = post(queue, 1, false), second = post(queue, 2, false);
    queue.cancel(second);
    assert_false(complete(second).wr_id.has_value());
    constexpr request_token NO_TOKEN = 0;
    queue.cancel(NO_TOKEN);
    const request_token third = post(queue, 3);
    assert_true((complete(third).silent == std::vector<std::uint64_t>{1}));
    assert_false(complete(first).wr_id.has_value());
    queue.drop(0);
}

void completion_of_a_destroyed_qp_has_its_wr_id_until_the_cq_is_destroyed(void **) {
    constexpr std::uint64_t cq_number = 1, other_cq_number = 2;
    request_queue &queue = *request_queue::take();
    const request_token first = post(queue, 1), second = post(queue, 2);
    queue.drop(cq_number);
    request_queue::forget_dropped(other_cq_number);
    const result match = complete(first);
    assert_int_equal(match.wr_id.value(), 1);
    assert_true(match.is_dropped);
    request_queue::forget_dropped(cq_number);
    assert_false(complete(second).wr_id.has_value());
    // The queue is used again.
    request_queue &again = *request_queue::take();
    assert_ptr_equal(&again, &queue);
    assert_int_equal(complete(post(again, 3)).wr_id.value(), 3);
    again.drop(0);
}

void oldest_dropped_requests_are_forgotten(void **) {
    constexpr std::uint64_t cq_number = 1;
    constexpr int num_requests = 1000, num_queues = 300;
    std::vector<request_token> first_tokens;
    for (int i = 0; i < num_queues; ++i) {
        request_queue &queue = *request_queue::take();
        first_tokens.push_back(post(queue, 5));
        for (int j = 1; j < num_requests; ++j)
            post(queue, 6);
        queue.drop(cq_number);
    }
    assert_false(complete(first_tokens.front()).wr_id.has_value());
    assert_int_equal(complete(first_tokens.back()).wr_id.value(), 5);
    request_queue::forget_dropped(cq_number);
}

/// Each thread posts and completes its requests, on a queue of all.
void threads_share_a_queue(void **) {
    constexpr std::uint64_t num_threads = 4, num_rounds = 20000;
    request_queue &queue = *request_queue::take();
    std::atomic<std::uint64_t> num_completed = 0, num_silent = 0, num_wrong = 0;
    const auto use = [&](std::uint64_t thread) {
        for (std::uint64_t i = 0; i < num_rounds; ++i) {
            const std::uint64_t wr_id = thread << 32 | i;
            post(queue, wr_id, false);
            const result completed = complete(post(queue, wr_id));
            num_completed += completed.wr_id == wr_id;
            num_wrong += completed.wr_id != wr_id;
            num_silent += completed.silent.size();
        }
    };
    std::vector<std::thread> threads;
    for (std::uint64_t thread = 0; thread < num_threads; ++thread)
        threads.emplace_back(use, thread);
    for (std::thread &thread : threads)
        thread.join();
    num_silent += complete(post(queue, 0)).silent.size();
    assert_int_equal(num_wrong.load(), 0);
    assert_int_equal(num_completed.load(), num_threads * num_rounds);
    assert_int_equal(num_silent.load(), num_threads * num_rounds);
    queue.drop(0);
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(completion_leads_to_its_request_once),
        cmocka_unit_test(wr_id_of_the_program_is_no_token),
        cmocka_unit_test(unsignaled_requests_before_a_completion_are_silent),
        cmocka_unit_test(unsignaled_request_that_fails_has_its_own_completion),
        cmocka_unit_test(request_of_a_concurrent_call_is_not_silent),
        cmocka_unit_test(requests_before_overlapping_calls_are_silent),
        cmocka_unit_test(receives_are_not_silent),
        cmocka_unit_test(refused_request_is_forgotten),
        cmocka_unit_test(completion_of_a_destroyed_qp_has_its_wr_id_until_the_cq_is_destroyed),
        cmocka_unit_test(oldest_dropped_requests_are_forgotten),
        cmocka_unit_test(threads_share_a_queue),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}

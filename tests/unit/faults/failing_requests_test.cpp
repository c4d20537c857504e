// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Requests that are to fail: what the device gets, and what the program polls.

#include "../cmocka.hpp"
#include "faults/failing_requests.hpp"

#include <array>

namespace {

using namespace coherdma::faults;
using coherdma::interposer::request;

constexpr std::uint32_t KEY = 0x1234;

struct queues {
    failing_requests tested;
    const std::vector<fault> faults = parse_scenario("1st send fails retry_exc");
    std::array<char, 2> handles{};
    const void *const queue = &handles[0], *const other = &handles[1];
    std::uint64_t last_number = 0;

    request post(const void *target, bool is_receive = false) {
        const request posted = {.number = ++last_number, .queue = target, .is_receive = is_receive};
        tested.note_post(posted);
        return posted;
    }
    bool begin(const request &posted) {
        ibv_send_wr wr = {};
        return begin(posted, wr);
    }
    bool begin_receive(const request &posted) {
        ibv_recv_wr wr = {};
        return tested.begin(posted, wr, faults.front());
    }
    bool begin(const request &posted, ibv_send_wr &wr) {
        return tested.begin(posted, wr, faults.front());
    }
    /// The status that the program polls.
    ibv_wc_status complete(const request &completed, ibv_wc_status status) {
        ibv_wc wc = {};
        wc.status = status;
        const fault *cause = nullptr;
        last_result = tested.complete(completed, wc, cause);
        return wc.status;
    }
    failing_requests::result last_result = failing_requests::result::NOTHING;
};

void the_device_gets_no_key(void **) {
    queues all;
    std::array<ibv_sge, 2> sges = {ibv_sge{.addr = 0x1000, .length = 64, .lkey = KEY},
                                   ibv_sge{.addr = 0x2000, .length = 32, .lkey = KEY}};
    ibv_send_wr wr = {};
    wr.opcode = IBV_WR_RDMA_WRITE;
    wr.sg_list = sges.data();
    wr.num_sge = 2;
    wr.send_flags = IBV_SEND_SIGNALED;
    assert_true(all.begin(all.post(all.queue), wr));
    assert_int_equal(wr.num_sge, 2);
    for (std::size_t i = 0; i < sges.size(); ++i) {
        assert_true(wr.sg_list[i].addr == sges[i].addr && wr.sg_list[i].length == sges[i].length);
        assert_int_not_equal(wr.sg_list[i].lkey, KEY);
        assert_int_equal(sges[i].lkey, KEY); // the program's
    }
    assert_int_equal(wr.send_flags, IBV_SEND_SIGNALED);
}

void a_request_without_data_gets_some(void **) {
    queues all;
    ibv_send_wr wr = {};
    wr.opcode = IBV_WR_SEND;
    assert_true(all.begin(all.post(all.queue), wr));
    assert_int_equal(wr.num_sge, 1);
    assert_int_equal(wr.sg_list[0].length, 1);
}

void the_error_has_the_status(void **) {
    queues all;
    ibv_send_wr wr = {};
    const request before = all.post(all.queue), failing = all.post(all.queue),
                  later = all.post(all.queue), elsewhere = all.post(all.other);
    assert_true(all.begin(failing, wr));
    assert_int_equal(all.complete(elsewhere, IBV_WC_REM_OP_ERR), IBV_WC_REM_OP_ERR);
    assert_int_equal(all.complete(before, IBV_WC_SUCCESS), IBV_WC_SUCCESS);
    assert_int_equal(all.complete(failing, IBV_WC_LOC_PROT_ERR), IBV_WC_RETRY_EXC_ERR);
    assert_true(all.last_result == failing_requests::result::FAILED);
    assert_int_equal(all.complete(later, IBV_WC_WR_FLUSH_ERR), IBV_WC_WR_FLUSH_ERR);
    assert_true(all.last_result == failing_requests::result::NOTHING);
}

void the_first_error_has_the_status(void **) {
    queues all;
    ibv_send_wr wr = {};
    const request before = all.post(all.queue), failing = all.post(all.queue);
    assert_true(all.begin(failing, wr));
    assert_int_equal(all.complete(before, IBV_WC_WR_FLUSH_ERR), IBV_WC_RETRY_EXC_ERR);
    assert_int_equal(all.complete(failing, IBV_WC_LOC_PROT_ERR), IBV_WC_WR_FLUSH_ERR);
}

void one_at_a_time(void **) {
    queues all;
    ibv_send_wr wr = {};
    const request failing = all.post(all.queue);
    assert_true(all.begin(failing, wr));
    assert_false(all.begin(all.post(all.queue), wr));
    assert_true(all.begin(all.post(all.other), wr));
    all.complete(failing, IBV_WC_LOC_PROT_ERR);
    assert_false(all.begin(all.post(all.queue), wr)); // it is in the error state
    all.tested.forget(all.queue);
    assert_true(all.begin(all.post(all.queue), wr));
}

void inline_data_have_one_piece(void **) {
    constexpr int NUM_PIECES = 40; // more than the SGEs that a QP has
    queues all;
    std::array<ibv_sge, NUM_PIECES> sges = {};
    sges.fill({.addr = 0x1000, .length = 1, .lkey = 0});
    ibv_send_wr wr = {};
    wr.opcode = IBV_WR_SEND;
    wr.sg_list = sges.data();
    wr.num_sge = NUM_PIECES;
    wr.send_flags = IBV_SEND_INLINE;
    assert_true(all.begin(all.post(all.queue), wr));
    assert_int_equal(wr.num_sge, 1);
    assert_int_equal(wr.send_flags, 0);
}

void sges_outlive_the_queue(void **) {
    queues all;
    ibv_sge sge = {.addr = 0x1000, .length = 8, .lkey = KEY};
    ibv_send_wr wr = {};
    wr.sg_list = &sge;
    wr.num_sge = 1;
    assert_true(all.begin(all.post(all.queue), wr));
    all.tested.forget(all.queue);
    const std::array<char, 100> others{};
    for (const char &each : others)
        assert_true(all.begin(all.post(&each)));
    assert_int_equal(wr.sg_list->addr, sge.addr); // the driver still posts it
}

void a_queue_with_an_error_has_no_other(void **) {
    queues all;
    const request flushed = all.post(all.queue);
    all.complete(flushed, IBV_WC_WR_FLUSH_ERR);
    assert_false(all.begin(all.post(all.queue)));
    assert_false(all.begin_receive(all.post(all.queue, true)));
    assert_true(all.begin(all.post(all.other)));
    all.tested.restart(all.queue); // from the error state of its send queue
    assert_true(all.begin(all.post(all.queue)));
    all.tested.note_error_state(all.other);
    assert_false(all.begin_receive(all.post(all.other, true)));
}

void flushes_by_the_program_stay(void **) {
    queues all;
    const request earlier = all.post(all.queue), failing = all.post(all.queue);
    assert_true(all.begin(failing));
    all.tested.note_error_state(all.queue);
    assert_int_equal(all.complete(earlier, IBV_WC_WR_FLUSH_ERR), IBV_WC_WR_FLUSH_ERR);
    assert_int_equal(all.complete(failing, IBV_WC_WR_FLUSH_ERR), IBV_WC_WR_FLUSH_ERR);
    assert_true(all.last_result == failing_requests::result::FLUSHED);
}

void a_send_queue_restarts_after_the_fault(void **) {
    queues all;
    const request failing = all.post(all.queue);
    assert_true(all.begin(failing));
    all.tested.restart(all.queue); // a change of attributes, before it fails
    assert_int_equal(all.complete(failing, IBV_WC_LOC_PROT_ERR), IBV_WC_RETRY_EXC_ERR);
    all.tested.restart(all.queue);
    assert_true(all.begin(all.post(all.queue)));
}

void completions_of_an_earlier_life(void **) {
    queues all;
    const request before = all.post(all.queue), unread = all.post(all.queue);
    all.tested.forget(all.queue);
    assert_int_equal(all.complete(unread, IBV_WC_WR_FLUSH_ERR), IBV_WC_WR_FLUSH_ERR);
    const request failing = all.post(all.queue);
    assert_true(all.begin(failing));
    assert_int_equal(all.complete(before, IBV_WC_WR_FLUSH_ERR), IBV_WC_WR_FLUSH_ERR);
    assert_int_equal(all.complete(failing, IBV_WC_LOC_PROT_ERR), IBV_WC_RETRY_EXC_ERR);
}

void completions_that_nobody_sees(void **) {
    queues all;
    request posted = all.post(all.queue);
    posted.is_followed = false;
    assert_false(all.begin(posted));
}

void receives_of_a_qp_are_another_queue(void **) {
    queues all;
    assert_true(all.begin(all.post(all.queue)));
    assert_int_equal(all.complete(all.post(all.queue, true), IBV_WC_WR_FLUSH_ERR),
                     IBV_WC_WR_FLUSH_ERR);
}

void only_the_receive_itself_fails(void **) {
    queues all;
    all.tested.add_srq(all.queue);
    const request earlier = all.post(all.queue, true), failing = all.post(all.queue, true);
    assert_true(all.begin_receive(failing));
    assert_int_equal(all.complete(earlier, IBV_WC_WR_FLUSH_ERR), IBV_WC_WR_FLUSH_ERR);
    assert_int_equal(all.complete(failing, IBV_WC_LOC_PROT_ERR), IBV_WC_RETRY_EXC_ERR);
}

void a_receive_that_is_flushed(void **) {
    queues all;
    const request failing = all.post(all.queue, true);
    assert_true(all.begin_receive(failing));
    assert_int_equal(all.complete(failing, IBV_WC_WR_FLUSH_ERR), IBV_WC_WR_FLUSH_ERR);
    assert_true(all.last_result == failing_requests::result::FLUSHED);
}

void an_srq_serves_other_qps(void **) {
    queues all;
    all.tested.add_srq(all.queue);
    const request failing = all.post(all.queue, true);
    assert_true(all.begin_receive(failing));
    assert_int_equal(all.complete(failing, IBV_WC_LOC_PROT_ERR), IBV_WC_RETRY_EXC_ERR);
    assert_int_equal(all.complete(all.post(all.queue, true), IBV_WC_LOC_LEN_ERR),
                     IBV_WC_LOC_LEN_ERR);
    assert_true(all.begin_receive(all.post(all.queue, true)));
}

void a_request_that_did_not_fail(void **) {
    queues all;
    const request failing = all.post(all.queue), refused = all.post(all.other);
    assert_true(all.begin(failing) && all.begin(refused));
    all.complete(failing, IBV_WC_SUCCESS);
    assert_true(all.last_result == failing_requests::result::SUCCEEDED);
    assert_null(all.tested.cancel(failing));
    assert_ptr_equal(all.tested.cancel(refused), &all.faults.front());
    assert_null(all.tested.cancel(refused));
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(the_device_gets_no_key),
        cmocka_unit_test(a_request_without_data_gets_some),
        cmocka_unit_test(the_error_has_the_status),
        cmocka_unit_test(the_first_error_has_the_status),
        cmocka_unit_test(one_at_a_time),
        cmocka_unit_test(inline_data_have_one_piece),
        cmocka_unit_test(sges_outlive_the_queue),
        cmocka_unit_test(a_queue_with_an_error_has_no_other),
        cmocka_unit_test(flushes_by_the_program_stay),
        cmocka_unit_test(a_send_queue_restarts_after_the_fault),
        cmocka_unit_test(completions_of_an_earlier_life),
        cmocka_unit_test(completions_that_nobody_sees),
        cmocka_unit_test(receives_of_a_qp_are_another_queue),
        cmocka_unit_test(only_the_receive_itself_fails),
        cmocka_unit_test(a_receive_that_is_flushed),
        cmocka_unit_test(an_srq_serves_other_qps),
        cmocka_unit_test(a_request_that_did_not_fail),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}

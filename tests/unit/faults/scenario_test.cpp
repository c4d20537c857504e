// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The language of scenarios.

#include "../cmocka.hpp"
#include "faults/names.hpp"
#include "faults/scenario.hpp"

#include <cerrno>
#include <infiniband/verbs.h>
#include <string>

namespace {

using namespace coherdma::faults;
using namespace std::chrono_literals;

fault parse_one(const char *text) {
    const std::vector<fault> faults = parse_scenario(text);
    assert_int_equal(faults.size(), 1);
    return faults.front();
}

void a_call_that_fails(void **) {
    const fault parsed = parse_one("2nd ibv_reg_mr fails ENOMEM");
    assert_string_equal(parsed.call.c_str(), "ibv_reg_mr");
    assert_true(parsed.requests == request_class::NONE && parsed.effect == action::FAIL);
    assert_int_equal(parsed.error, ENOMEM);
    assert_int_equal(parsed.selected.first, 2);
    assert_int_equal(parsed.selected.step, 0);
    assert_string_equal(parsed.text.c_str(), "2nd ibv_reg_mr fails ENOMEM");
}

void requests_that_fail(void **) {
    const fault parsed = parse_one("every 100th write fails retry_exc");
    assert_true(parsed.call.empty() && parsed.requests == request_class::WRITE);
    assert_int_equal(parsed.error, IBV_WC_RETRY_EXC_ERR);
    assert_int_equal(parsed.selected.first, 100);
    assert_int_equal(parsed.selected.step, 100);
}

void a_call_that_takes_long(void **) {
    const fault parsed = parse_one("after 1500ms each ibv_poll_cq takes 20us");
    assert_true(parsed.begin == 1500ms && parsed.duration == 20us &&
                parsed.effect == action::DELAY);
    assert_int_equal(parsed.selected.first, 1);
    assert_int_equal(parsed.selected.step, 1);
}

void a_random_share(void **) {
    const fault parsed = parse_one("0.5% of sends fail rnr_retry_exc");
    assert_true(parsed.selected.share > 0.00499 && parsed.selected.share < 0.00501);
    assert_true(parsed.requests == request_class::SEND);
}

void several_faults(void **) {
    const std::vector<fault> faults = parse_scenario("# the first\n1st read fails rem_access; "
                                                     "3rd receive fails loc_len # and more\n\n"
                                                     ";; each request fails fatal\n");
    assert_int_equal(faults.size(), 3);
    assert_string_equal(faults[0].text.c_str(), "1st read fails rem_access");
    assert_string_equal(faults[1].text.c_str(), "3rd receive fails loc_len");
    assert_true(faults[2].requests == request_class::REQUEST);
}

void each_status_has_a_name(void **) {
    for (const std::string &name : all_status_names()) {
        assert_true(find_status(name) != IBV_WC_SUCCESS);
        assert_string_equal(name_of_status(find_status(name)).c_str(), name.c_str());
        assert_int_equal(parse_one(("1st send fails " + name).c_str()).error, find_status(name));
    }
    assert_int_equal(find_status("success"), 0);
}

void each_call_can_fail(void **) {
    for (const failing_call &call : all_calls()) {
        const std::string error = name_of_errno(call.usual_error);
        const fault parsed =
            parse_one(("1st " + std::string(call.name) + " fails " + error).c_str());
        assert_int_equal(parsed.error, call.usual_error);
    }
}

void each_event_has_a_name(void **) {
    for (const std::string &name : all_event_names()) {
        const fault parsed = parse_one(("after 3ms event " + name).c_str());
        assert_true(parsed.effect == action::EVENT && parsed.begin == std::chrono::milliseconds(3));
        assert_string_equal(name_of_event(parsed.event).c_str(), name.c_str());
    }
}

void requests_of_some_queues(void **) {
    const fault numbered = parse_one("3rd write of qp 2 fails retry_exc");
    assert_int_equal(numbered.queues.number, 2);
    assert_true(numbered.queues.peer.empty());
    assert_string_equal(parse_one("each send to 198.18.0.2 fails fatal").queues.peer.c_str(),
                        "198.18.0.2");
    assert_string_equal(parse_one("each send to fd00:0::0:2 fails fatal").queues.peer.c_str(),
                        "fd00::2");
    assert_string_equal(parse_one("each send to ::ffff:10.0.0.1 fails fatal").queues.peer.c_str(),
                        "10.0.0.1");
    assert_true(parse_one("each send fails fatal").queues.is_any());
}

void late_requests(void **) {
    const fault parsed = parse_one("each request of qp 1 takes 5ms");
    assert_true(parsed.effect == action::DELAY && parsed.duration == 5ms);
    assert_true(parsed.requests == request_class::REQUEST);
    assert_int_equal(parsed.queues.number, 1);
}

void a_lower_limit(void **) {
    const fault parsed = parse_one("limit max_qp_wr 16");
    assert_true(parsed.effect == action::LIMIT && !parsed.is_of_machine());
    assert_string_equal(parsed.limit.c_str(), "max_qp_wr");
    assert_int_equal(parsed.value, 16);
}

void a_port_that_goes_down(void **) {
    const fault parsed = parse_one("after 2s port down for 3s");
    assert_true(parsed.effect == action::PORT_DOWN && parsed.is_of_machine());
    assert_true(parsed.begin == 2s && parsed.duration == 3s);
    assert_true(parse_one("port down").duration == 0s);
}

void a_command_that_runs(void **) {
    const std::vector<fault> faults = parse_scenario(
        "after 1s run softrdma wire --host 1  --loss 5% # lossy\n1st send fails fatal; run true");
    assert_int_equal(faults.size(), 3);
    assert_true(faults[0].effect == action::RUN && faults[0].begin == 1s);
    assert_string_equal(faults[0].command.c_str(), "softrdma wire --host 1  --loss 5%");
    assert_string_equal(faults[0].text.c_str(), "after 1s run softrdma wire --host 1  --loss 5%");
    assert_string_equal(faults[2].command.c_str(), "true");
}

void errors_point_at_the_column(void **) {
    const struct {
        const char *text;
        std::size_t line, column;
    } cases[] = {
        {.text = "", .line = 1, .column = 1},
        {.text = "# nothing", .line = 1, .column = 1},
        {.text = "2nd", .line = 1, .column = 4},
        {.text = "2x ibv_reg_mr fails ENOMEM", .line = 1, .column = 1},
        {.text = "0th ibv_reg_mr fails ENOMEM", .line = 1, .column = 1},
        {.text = "-1st send fails fatal", .line = 1, .column = 1},
        {.text = "99999999999999999999th send fails fatal", .line = 1, .column = 1},
        {.text = "every write fails retry_exc", .line = 1, .column = 7},
        {.text = "every 10th wrote fails retry_exc", .line = 1, .column = 12},
        {.text = "1% writes fail retry_exc", .line = 1, .column = 4},
        {.text = "0% of writes fail retry_exc", .line = 1, .column = 1},
        {.text = "101% of writes fail retry_exc", .line = 1, .column = 1},
        {.text = "nan% of writes fail retry_exc", .line = 1, .column = 1},
        {.text = "1st write breaks retry_exc", .line = 1, .column = 11},
        {.text = "1st write fails ENOMEM", .line = 1, .column = 17},
        {.text = "1st ibv_reg_mr fails retry_exc", .line = 1, .column = 22},
        {.text = "1st write takes 5ms", .line = 1, .column = 11},
        {.text = "each request to 10.0.0.1 takes 5ms", .line = 1, .column = 26},
        {.text = "after 1s each request takes 5ms", .line = 1, .column = 23},
        {.text = "each send of 2 fails fatal", .line = 1, .column = 14},
        {.text = "each send of qp 0 fails fatal", .line = 1, .column = 17},
        {.text = "each send of qp 2nd fails fatal", .line = 1, .column = 17},
        {.text = "each send to host fails fatal", .line = 1, .column = 14},
        {.text = "each ibv_post_send of qp 2 fails ENOMEM", .line = 1, .column = 20},
        {.text = "limit max_pq 1", .line = 1, .column = 7},
        {.text = "limit max_qp 0", .line = 1, .column = 14},
        {.text = "limit max_qp", .line = 1, .column = 13},
        {.text = "after 1s limit max_qp 3", .line = 1, .column = 10},
        {.text = "port down for 0s", .line = 1, .column = 15},
        {.text = "each request takes 0ms", .line = 1, .column = 20},
        {.text = "port up", .line = 1, .column = 6},
        {.text = "port down 3s", .line = 1, .column = 11},
        {.text = "port down for", .line = 1, .column = 14},
        {.text = "after 2s run ", .line = 1, .column = 14},
        {.text = "1st ibv_poll_cq takes 5", .line = 1, .column = 23},
        {.text = "1st ibv_poll_cq takes 5000001s", .line = 1, .column = 23},
        {.text = "after 2 each write fails fatal", .line = 1, .column = 7},
        {.text = "after 2s event", .line = 1, .column = 15},
        {.text = "event port_lost", .line = 1, .column = 7},
        {.text = "each event port_err", .line = 1, .column = 6},
        {.text = "1st write fails fatal soon", .line = 1, .column = 23},
        {.text = "1st write fails fatal\n  2nd write faults", .line = 2, .column = 13},
        {.text = "1st write fails fatal; 1st", .line = 1, .column = 27},
    };
    for (const auto &each : cases) {
        try {
            parse_scenario(each.text);
            fail_msg("it is accepted: %s", each.text);
        } catch (const scenario_error &error) {
            if (error.line != each.line || error.column != each.column)
                fail_msg("%s: %zu:%zu", each.text, error.line, error.column);
        }
    }
}

void the_mark_is_below_the_word(void **) {
    constexpr const char *TEXT = "1st write fails fatal\n\t2nd write faults";
    try {
        parse_scenario(TEXT);
        fail();
    } catch (const scenario_error &error) {
        assert_string_equal(point_at(error, TEXT).c_str(), "\t2nd write faults\n\t          ^\n");
    }
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(a_call_that_fails),
        cmocka_unit_test(requests_that_fail),
        cmocka_unit_test(a_call_that_takes_long),
        cmocka_unit_test(a_random_share),
        cmocka_unit_test(several_faults),
        cmocka_unit_test(each_status_has_a_name),
        cmocka_unit_test(each_call_can_fail),
        cmocka_unit_test(each_event_has_a_name),
        cmocka_unit_test(requests_of_some_queues),
        cmocka_unit_test(late_requests),
        cmocka_unit_test(a_lower_limit),
        cmocka_unit_test(a_port_that_goes_down),
        cmocka_unit_test(a_command_that_runs),
        cmocka_unit_test(errors_point_at_the_column),
        cmocka_unit_test(the_mark_is_below_the_word),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}

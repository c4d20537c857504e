// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// coherdma fault: the logs of processes, what --fail-each makes of them, and the report.

#include "../cmocka.hpp"
#include "fault/fail_each.hpp"
#include "fault/log.hpp"
#include "fault/report.hpp"

#include <cerrno>
#include <csignal>
#include <cstring>
#include <optional>
#include <string>

namespace {

using namespace tools::fault;

constexpr const char *EVENT =
    R"({"pid":7,"program":"rping","time":0.5,"fault":"2nd send fails fatal","posted":"send",)"
    R"("number":2,"wr_id":1,"qp_num":17,"text":"send number 2 was posted to fail"})"
    "\n";

constexpr const char *NO_FAULT =
    R"({"summary":{"program":"rping","device":true,"faults":[],"left":{},"calls":[]}})";

std::string summary(const std::string &left, const std::string &calls = "") {
    return R"({"summary":{"program":"rping","device":true,"faults":[{"fault":)"
           R"("2nd send fails fatal","counted":3,"done":1}],"left":{)" +
           left + R"(},"calls":[)" + calls + "]}}\n";
}

run_log read(const std::string &text) {
    run_log log;
    read_log(text, 7, log);
    return log;
}

void a_log(void **) {
    const run_log log = read(EVENT + summary(""));
    assert_true(log.has_device() && log.has_effect());
    assert_int_equal(log.events.size(), 1);
    assert_string_equal(log.events[0].fault.c_str(), "2nd send fails fatal");
    assert_int_equal(log.processes[0].faults.at("2nd send fails fatal").counted, 3);
    assert_true(log.processes[0].is_complete);
}

void a_log_that_is_cut_off(void **) {
    const run_log log = read(std::string(EVENT) + R"({"summary":{"program":"rpi)");
    assert_true(log.has_effect() && !log.processes[0].is_complete);
    assert_int_equal(log.num_without_summary(), 1);
    assert_true(read("{\"opened\":true,\"device\":\"rxe0\",\"program\":\"rping\"}\n").has_device());
    assert_false(read("").has_device());
    assert_false(read("null\n[]\n{}\n{\"summary\":3}\n").has_effect());
}

void what_is_done_to_the_machine(void **) {
    const std::string begin =
        R"({"pid":7,"program":"coherdma","time":0.5,"fault":"port down","text":"-",)";
    assert_true(read(begin + "\"action\":\"port down\",\"device\":\"rxe0\"}\n").has_effect());
    assert_false(read(begin + "\"restored\":true,\"device\":\"rxe0\"}\n").has_effect());
    assert_false(read(begin + "\"not_done\":\"-\",\"device\":\"rxe0\"}\n").has_effect());
    assert_string_equal(read("{\"opened\":true,\"device\":\"rxe0\",\"program\":\"rping\"}\n")
                            .first_device()
                            .c_str(),
                        "rxe0");
    assert_string_equal(read(EVENT).first_device().c_str(), "");
}

void trials_of_the_calls(void **) {
    const run_log log = read(
        summary("", R"j({"call":"ibv_reg_mr","place":"main (x.c:3)","first":1,"count":1},)j"
                    R"j({"call":"ibv_reg_mr","place":"main (x.c:9)","first":12,"count":4},)j"
                    R"j({"call":"ibv_reg_mr","place":"main (x.c:3)","first":13,"count":1},)j"
                    R"j({"call":"ibv_of_later","place":"main (x.c:3)","first":1,"count":1})j"));
    const std::vector<trial> trials = plan_trials(log, {});
    assert_int_equal(trials.size(), 2);
    assert_string_equal(trials[0].scenario().c_str(), "1st ibv_reg_mr fails ENOMEM");
    assert_string_equal(trials[1].scenario().c_str(), "12th ibv_reg_mr fails ENOMEM");
    assert_string_equal(trials[1].program.c_str(), "rping");
    const std::vector<trial> with_errors = plan_trials(log, {"EINTR", "EPERM"});
    assert_int_equal(with_errors.size(), 4);
    assert_string_equal(with_errors[1].scenario().c_str(), "1st ibv_reg_mr fails EPERM");
    assert_string_equal(with_errors[2].scenario().c_str(), "12th ibv_reg_mr fails EINTR");
}

void ordinals(void **) {
    trial tried;
    tried.call = "c";
    tried.error = "E";
    const struct {
        std::uint64_t number;
        const char *scenario;
    } cases[] = {
        {.number = 2, .scenario = "2nd c fails E"},
        {.number = 3, .scenario = "3rd c fails E"},
        {.number = 11, .scenario = "11th c fails E"},
        {.number = 21, .scenario = "21st c fails E"},
        {.number = 113, .scenario = "113th c fails E"},
        {.number = 122, .scenario = "122nd c fails E"},
    };
    for (const auto &each : cases) {
        tried.number = each.number;
        assert_string_equal(tried.scenario().c_str(), each.scenario);
    }
}

std::string event_of(const std::string &members) {
    return R"({"pid":7,"program":"rping","time":0.5,"fault":"1st receive fails fatal","text":"",)" +
           members + "}\n";
}

void what_counts_as_made(void **) {
    const std::string receive = event_of(R"("posted":"receive")"),
                      send = event_of(R"("posted":"send")");
    assert_false(read(receive).has_effect()); // no message came
    assert_true(read(receive + event_of(R"("completed":"receive")")).has_effect());
    assert_false(
        read(receive + event_of(R"("posted":"receive","not_done":"flushed")")).has_effect());
    assert_true(read(send).has_effect());
    assert_int_equal(
        read(send + event_of(R"("completed":"send")")).sum_of("1st receive fails fatal").done, 1);
    assert_false(read(send + event_of(R"("posted":"send","not_done":"refused")")).has_effect());
}

void a_fault_twice(void **) {
    const run_log log = read(
        R"({"summary":{"program":"p","device":true,"faults":[{"fault":"f","counted":3,"done":1},)"
        R"({"fault":"f","counted":3,"done":0}],"left":{},"calls":[]}})");
    assert_int_equal(log.sum_of("f").counted, 3);
    assert_int_equal(log.sum_of("f").done, 1);
}

/// What comes of a run that ends with this status; no value: that does not end.
trial classify_status(std::optional<int> status, const std::string &log) {
    trial tried;
    classify(tried, status, read(log), read(summary(R"("MR":1)")));
    return tried;
}

void outcomes(void **) {
    const std::string log = EVENT + summary(R"("MR":1)");
    assert_true(classify_status(0, log).result == outcome::GOES_ON);
    assert_true(classify_status(3, log).result == outcome::FAILS);
    assert_true(classify_status(0, NO_FAULT).result == outcome::NOT_MADE);
    assert_true(classify_status({}, log).result == outcome::HANGS);
    assert_true(classify_status(124, log).result == outcome::FAILS); // as that of timeout(1)
    for (const int error : {1, ETIMEDOUT, EADDRINUSE, EHOSTUNREACH}) // as exit(-error)
        assert_true(classify_status(256 - error, log).result == outcome::FAILS);
    for (const int signal : {SIGSEGV, SIGABRT, SIGKILL, SIGPIPE})
        assert_true(classify_status(128 + signal, log).result == outcome::CRASHES);
    assert_true(classify_status({}, log).is_bad() && classify_status(128 + SIGBUS, log).is_bad());
    assert_true(classify_status(3, log).left.empty());
}

void the_place_of_the_call(void **) {
    const std::string call = event_of(R"j("call":"ibv_reg_mr","place":"main (x.c:9)")j");
    assert_string_equal(classify_status(3, call).place.c_str(), "main (x.c:9)");
}

void objects_that_are_left(void **) {
    const std::string log = EVENT + summary(R"("MR":3,"QP":1)");
    const trial tried = classify_status(3, log);
    assert_int_equal(tried.left.size(), 2);
    assert_int_equal(tried.left.at("MR"), 2);
    assert_int_equal(tried.left.at("QP"), 1);
    assert_true(classify_status(128 + SIGSEGV, log).left.empty()); // the process had no chance
}

void a_report(void **) {
    run_report report;
    report.faults = {"2nd send fails fatal", "9th read fails fatal"};
    report.seed = 5;
    report.log = read(EVENT + summary(""));
    const std::string text = as_text(report);
    assert_non_null(strstr(text.c_str(), "0.500 s  rping (7): 2nd send fails fatal\n"));
    assert_non_null(strstr(text.c_str(), "not done: 9th read fails fatal (counted: 0)\n"));
    assert_non_null(strstr(text.c_str(), "1 event, seed 5\n"));
    const auto json = nlohmann::ordered_json::parse(as_json(report, {"rping", "\xff"}));
    assert_int_equal(json.at("faults").at(0).at("done").get<int>(), 1);
    assert_int_equal(json.at("events").size(), 1);
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(a_log),
        cmocka_unit_test(a_log_that_is_cut_off),
        cmocka_unit_test(what_counts_as_made),
        cmocka_unit_test(a_fault_twice),
        cmocka_unit_test(what_is_done_to_the_machine),
        cmocka_unit_test(trials_of_the_calls),
        cmocka_unit_test(ordinals),
        cmocka_unit_test(outcomes),
        cmocka_unit_test(the_place_of_the_call),
        cmocka_unit_test(objects_that_are_left),
        cmocka_unit_test(a_report),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}

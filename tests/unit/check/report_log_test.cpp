// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The log of the checker: limits, files, suppressions and the summary.

#include "sample_finding.hpp"

#include "../captured_stderr.hpp"
#include "check/report_log.hpp"

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

namespace {

using namespace check_test;
using nlohmann::json;

class temp_folder {
  public:
    temp_folder() { assert_non_null(mkdtemp(name_.data())); }
    ~temp_folder() {
        unlink((path() + "/log").c_str());
        unlink((path() + "/known").c_str());
        rmdir(name_.c_str());
    }
    temp_folder(const temp_folder &) = delete;
    temp_folder &operator=(const temp_folder &) = delete;
    [[nodiscard]] const std::string &path() const { return name_; }

  private:
    std::string name_ = "/tmp/check_XXXXXX";
};

std::vector<json> read_lines(const std::string &file) {
    std::ifstream stream(file);
    std::vector<json> lines;
    for (std::string line; std::getline(stream, line);)
        lines.push_back(json::parse(line));
    return lines;
}

void findings_of_one_place_are_limited(void **) {
    const temp_folder folder;
    settings config;
    config.log_file = folder.path() + "/log";
    config.max_reports = 2;
    const std::string text = captured_stderr([&] {
        report_log log(config);
        for (int i = 0; i < 5; ++i)
            log.report(sample_finding());
        log.report(sample_finding(finding_kind::ERROR_IGNORED));
        if (log.write_summary() != 6 || log.write_summary() != 6)
            _exit(1);
        log.report(sample_finding()); // too late
    });
    assert_int_equal(count_of(text, ": cq-overflow: "), 2);
    assert_int_equal(count_of(text, "coherdma check: 5 errors, 1 warning, at 2 places\n"), 1);
    const std::vector<json> lines = read_lines(config.log_file);
    assert_int_equal(lines.size(), 4);
    assert_int_equal(lines[1]["repeated"].get<int>(), 1);
    assert_int_equal(lines[3]["summary"]["repeated"].get<int>(), 3);
    assert_int_equal(lines[1]["place_number"].get<int>(), 1);
    assert_int_equal(lines[2]["place_number"].get<int>(), 2);
    assert_true(lines[3]["summary"]["by_place"] == json({5, 1}));
}

void suppressed_findings_are_counted(void **) {
    const temp_folder folder;
    settings config;
    config.log_file = folder.path() + "/log";
    config.suppressions_file = folder.path() + "/known";
    std::ofstream(config.suppressions_file) << "cq-overflow:rxe?\nunknown-kind\n";
    const std::string text = captured_stderr([&] {
        report_log log(config);
        for (int i = 0; i < 2; ++i)
            log.report(sample_finding());
        if (log.write_summary() != 0)
            _exit(1);
    });
    assert_int_equal(count_of(text, "known:2: 'unknown-kind' is not a kind of finding"), 1);
    assert_int_equal(count_of(text, ": cq-overflow: "), 0);
    assert_int_equal(count_of(text, "coherdma check: no findings\n  2 suppressed\n"), 1);
    const std::vector<json> lines = read_lines(config.log_file);
    assert_true(lines.at(0)["suppressed"].get<bool>());
    assert_int_equal(lines.at(1)["summary"]["suppressed"].get<int>(), 2);
    assert_true(lines.at(1)["summary"]["by_place"] == json({0}));
}

// A place may have findings of several devices, or of objects that were created elsewhere.
void suppression_hides_only_what_it_names(void **) {
    const temp_folder folder;
    settings config;
    config.suppressions_file = folder.path() + "/known";
    std::ofstream(config.suppressions_file) << "cq-overflow:rxe0\n";
    const std::string text = captured_stderr([&] {
        report_log log(config);
        for (const char *const device : {"rxe0", "siw0", "rxe0"}) {
            finding reported = sample_finding();
            reported.device = device;
            log.report(reported);
        }
        if (log.write_summary() != 1)
            _exit(1);
    });
    assert_int_equal(count_of(text, "(siw0)"), 1);
    assert_int_equal(count_of(text, "coherdma check: 1 error, 0 warnings, at 1 place\n"), 1);
}

// gcc's name of a lambda has a #, and that of an array [].
void printed_suppression_matches_its_finding(void **) {
    const temp_folder folder;
    settings config;
    config.log_file = folder.path() + "/log";
    config.suppressions_file = folder.path() + "/known";
    const auto report_from_lambda = [&](const char(&)[6]) {
        report_log log(config);
        log.report(sample_finding());
        if (log.write_summary() > 1)
            _exit(1);
    };
    const std::string before = captured_stderr([&] { report_from_lambda("array"); });
    assert_int_equal(count_of(before, ": cq-overflow: "), 1);
    std::ofstream(config.suppressions_file)
        << read_lines(config.log_file).at(0)["suppression"].get<std::string>() << "\n";
    const std::string after = captured_stderr([&] { report_from_lambda("array"); });
    assert_int_equal(count_of(after, ": cq-overflow: "), 0);
}

[[gnu::noinline]] void report_from_another_line(report_log &log) {
    log.report(sample_finding());
}

// Who has called the program's function that makes the wrong call does not matter.
void call_with_two_callers_is_one_place(void **) {
    const std::string text = captured_stderr([&] {
        report_log log((settings()));
        log.report(sample_finding());
        report_from_another_line(log);
        static_cast<void>(log.write_summary());
    });
    assert_int_equal(count_of(text, ": cq-overflow: "), 1);
    assert_int_equal(count_of(text, "coherdma check: 2 errors, 0 warnings, at 1 place\n"), 1);
}

// The program goes on if what it prints has no reader any more.
void closed_pipe_does_not_end_the_program(void **) {
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    close(ends[0]);
    const int saved_stderr = dup(STDERR_FILENO);
    dup2(ends[1], STDERR_FILENO);
    {
        report_log log((settings()));
        log.report(sample_finding());
    }
    dup2(saved_stderr, STDERR_FILENO);
    close(saved_stderr);
    close(ends[1]);
}

void unwritable_log_is_said_once(void **) {
    settings config;
    config.log_file = "/nonexistent/log";
    const std::string text = captured_stderr([&] {
        report_log log(config);
        log.report(sample_finding());
        static_cast<void>(log.write_summary());
    });
    assert_int_equal(count_of(text, "cannot write findings to /nonexistent/log: No such file"), 1);
    assert_int_equal(count_of(text, "coherdma check: 1 error"), 1);
}

void threads_report_at_the_same_time(void **) {
    constexpr int NUM_THREADS = 4, NUM_REPORTS = 50;
    const std::string text = captured_stderr([&] {
        report_log log((settings()));
        std::vector<std::thread> threads;
        for (int i = 0; i < NUM_THREADS; ++i)
            threads.emplace_back([&] {
                for (int k = 0; k < NUM_REPORTS; ++k)
                    log.report(sample_finding());
            });
        for (std::thread &each : threads)
            each.join();
        if (log.write_summary() != NUM_THREADS * NUM_REPORTS)
            _exit(1);
    });
    assert_int_equal(count_of(text, "coherdma check: 200 errors"), 1);
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(findings_of_one_place_are_limited),
        cmocka_unit_test(suppressed_findings_are_counted),
        cmocka_unit_test(suppression_hides_only_what_it_names),
        cmocka_unit_test(printed_suppression_matches_its_finding),
        cmocka_unit_test(call_with_two_callers_is_one_place),
        cmocka_unit_test(closed_pipe_does_not_end_the_program),
        cmocka_unit_test(unwritable_log_is_said_once),
        cmocka_unit_test(threads_report_at_the_same_time),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The output of findings: limits, log files, suppression and the summary.

#include "sample_finding.hpp"

#include "../captured_stderr.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace emulation_test;

namespace {

void findings_of_one_site_are_limited(void **) {
    const temp_file log_file;
    settings config;
    config.max_reports = 2;
    config.log_file = log_file.name();
    const std::string text = captured_stderr([&] {
        finding_log log(config);
        finding other_site = sample_finding();
        other_site.request.peer_stack = {"elsewhere (/usr/bin/rping+0x9)"};
        for (int i = 0; i < 5; ++i)
            log.report(sample_finding());
        log.report(other_site);
        log.report(sample_finding(finding_kind::STALE));
        if (log.write_summary() != 7 || log.write_summary() != 7)
            _exit(1);
    });
    assert_int_equal(count_of(text, "coherdma: UNSYNCED WRITE"), 3);
    assert_int_equal(count_of(text, "coherdma: STALE"), 1);
    const std::string summary =
        "coherdma: emulation: 7 findings\n"
        "         6  unsynced-write  sync before the Write\n"
        "         1  stale           sync after the Write\n"
        "         3  places          in the program\n"
        "         3  repeated        not printed: more than the limit of one "
        "site\n";
    assert_string_equal(text.substr(text.find("coherdma: emulation")).c_str(), summary.c_str());
    const auto lines = log_file.lines();
    assert_int_equal(lines.size(), 5);
    assert_int_equal(lines[0]["repeated"].get<int>(), 0);
    assert_int_equal(lines[1]["repeated"].get<int>(), 1);
    assert_int_equal(lines[2]["repeated"].get<int>(), 0);
    assert_string_equal(lines[4]["coherdma"].get<std::string>().c_str(), "summary");
    assert_int_equal(lines[4]["findings"].get<int>(), 7);
    assert_int_equal(lines[4]["kinds"]["unsynced-write"].get<int>(), 6);
    assert_int_equal(lines[4]["repeated"].get<int>(), 3);
}

/// Without a request, the last sync and the place of registration identify a site.
void site_without_request_is_sync_and_registration(void **) {
    settings config;
    config.max_reports = 1;
    const std::string text = captured_stderr([&] {
        finding_log log(config);
        for (const bool has_sync : {false, true, true}) {
            finding sample = sample_finding(finding_kind::CONFLICT);
            sample.request = {};
            if (has_sync)
                sample.last_sync.text = "sync_writeback",
                sample.last_sync.stack = stack_trace::capture();
            log.report(sample);
            sample.mr.reg_stack = stack_trace::capture();
            log.report(sample);
        }
        log.write_summary();
    });
    assert_int_equal(count_of(text, "coherdma: CONFLICT"), 4);
    assert_int_equal(count_of(text, " 2  repeated"), 1);
}

/// A call that is missing at one place is one place, on however many regions.
void regions_of_one_call_are_one_site(void **) {
    settings config;
    config.max_reports = 2;
    const std::string text = captured_stderr([&] {
        finding_log log(config);
        finding sample = sample_finding(finding_kind::STALE);
        sample.after.stack = stack_trace::capture();
        for (std::uintptr_t i = 1; i <= 5; ++i) {
            sample.mr.number = static_cast<std::uint32_t>(i);
            sample.mr.reg_stack.depth = 1;
            sample.mr.reg_stack.frames[0] = reinterpret_cast<void *>(i);
            log.report(sample);
        }
        log.write_summary();
    });
    assert_int_equal(count_of(text, "coherdma: STALE"), 2);
    assert_int_equal(count_of(text, "         5  stale"), 1);
    assert_int_equal(count_of(text, "         1  place           in the program\n"), 1);
}

/// Findings with a doubt say why, and are counted apart; the option leaves them out.
void possible_findings_are_counted_or_left_out(void **) {
    for (const bool only_certain : {false, true}) {
        const temp_file log_file;
        settings config;
        config.log_file = log_file.name();
        config.only_certain = only_certain;
        const std::string text = captured_stderr([&] {
            finding_log log(config);
            finding sample = sample_finding();
            log.report(sample);
            sample.doubt = finding_doubt::SAME_BYTES;
            log.report(sample);
            sample.doubt = finding_doubt::MAYBE_UNREAD;
            log.report(sample);
            if (log.write_summary() != (only_certain ? 1 : 3))
                _exit(1);
        });
        const std::size_t num_possible = only_certain ? 0 : 1;
        assert_int_equal(count_of(text, "coherdma: POSSIBLE UNSYNCED WRITE: "), 2 * num_possible);
        assert_int_equal(count_of(text, "  possible: the bytes were the same this time\n"),
                         num_possible);
        assert_int_equal(count_of(text, "  possible: nothing shows that the program read them\n"),
                         num_possible);
        assert_int_equal(count_of(text, "         2  possible        of those above"),
                         num_possible);
        const auto lines = log_file.lines();
        assert_string_equal(lines[0]["certainty"].get<std::string>().c_str(), "certain");
        assert_int_equal(lines.back()["certain"].get<int>(), 1);
        assert_int_equal(lines.back()["possible"].get<int>(), only_certain ? 0 : 2);
        assert_int_equal(lines.back()["places"].get<int>(), 1);
        if (only_certain)
            continue;
        assert_string_equal(lines[1]["certainty"].get<std::string>().c_str(), "possible");
        assert_string_equal(lines[1]["doubt"].get<std::string>().c_str(), "same-bytes");
        assert_string_equal(lines[2]["doubt"].get<std::string>().c_str(), "maybe-unread");
    }
}

void summary_without_findings(void **) {
    assert_string_equal(captured_stderr([] {
                            finding_log log(settings{});
                            if (log.write_summary() != 0)
                                _exit(1);
                        }).c_str(),
                        "coherdma: emulation: no findings\n");
}

void notes_are_printed_once(void **) {
    assert_string_equal(captured_stderr([] {
                            finding_log log(settings{});
                            log.note("a");
                            log.note("b\x1b");
                            log.note("a");
                        }).c_str(),
                        "coherdma: a\ncoherdma: b?\n");
}

void log_name_expands_pid(void **) {
    const temp_file unique_file;
    const std::string name = unique_file.name();
    settings config;
    config.log_file = name + ".%p";
    captured_stderr([&] {
        finding_log log(config);
        if (fork() == 0) {
            log.report(sample_finding());
            _exit(0);
        }
        int status = 0;
        const pid_t child = wait(&status);
        log.report(sample_finding());
        log.report(sample_finding());
        struct stat status_of_file;
        const std::string parent_log = name + "." + std::to_string(getpid());
        const std::string child_log = name + "." + std::to_string(child);
        const auto count = [](const std::string &file_name) {
            return count_of(read_file(file_name), "\n");
        };
        const bool is_right = stat(parent_log.c_str(), &status_of_file) == 0 &&
                              (status_of_file.st_mode & 0777) == 0600 && count(parent_log) == 2 &&
                              count(child_log) == 1;
        unlink(parent_log.c_str());
        unlink(child_log.c_str());
        _exit(is_right ? 0 : 1);
    });
}

void unwritable_log_is_reported_once(void **) {
    settings config;
    config.log_file = "/tmp/coherdma-no-such-folder/%p";
    const std::string text = captured_stderr([&] {
        finding_log log(config);
        log.report(sample_finding());
        log.report(sample_finding(finding_kind::STALE));
        log.write_summary();
    });
    assert_int_equal(count_of(text, "coherdma: cannot write findings to /tmp/coherdma-no-such"), 1);
    assert_int_equal(count_of(text, "No such file"), 1);
    assert_int_equal(count_of(text, "coherdma: STALE"), 1);
}

/// In a daemon, the log may get the descriptor of stderr: no text is printed there.
void log_works_with_stderr_closed(void **) {
    const temp_file log_file;
    settings config;
    config.log_file = log_file.name();
    captured_stderr([&] {
        close(STDERR_FILENO);
        finding_log log(config);
        log.report(sample_finding());
        log.write_summary();
    });
    assert_int_equal(log_file.lines().size(), 2);
}

void suppressed_findings_are_counted(void **) {
    const temp_file log_file, known("# known\nstale\nunsynced-*\nconflict:rxe*:main # seen\n");
    settings config;
    config.log_file = log_file.name();
    config.suppressions_file = known.name();
    const std::string text = captured_stderr([&] {
        finding_log log(config);
        log.report(sample_finding(finding_kind::STALE));
        log.report(sample_finding(finding_kind::CONFLICT));
        log.report(sample_finding(finding_kind::DISCARDED));
        if (log.write_summary() != 1)
            _exit(1);
    });
    assert_int_equal(count_of(text, "coherdma: DISCARDED"), 1);
    assert_int_equal(count_of(text, "coherdma: STALE") + count_of(text, "coherdma: CONFLICT"), 0);
    assert_int_equal(count_of(text, "coherdma: emulation: 1 finding\n"), 1);
    assert_int_equal(count_of(text, " 2  suppressed"), 1);
    assert_int_equal(count_of(text, known.name() + ":3: 'unsynced-*' is not a kind of finding"), 1);
    const auto lines = log_file.lines();
    assert_int_equal(lines.size(), 4);
    assert_true(lines[0]["suppressed"].get<bool>() && !lines[2]["suppressed"].get<bool>());
}

void concurrent_findings_are_whole_lines(void **) {
    constexpr std::size_t NUM_THREADS = 4, FINDINGS_PER_THREAD = 100;
    const temp_file log_file;
    settings config;
    config.log_file = log_file.name();
    config.max_reports = 1000000;
    const std::string text = captured_stderr([&] {
        finding_log log(config);
        std::vector<std::thread> threads;
        for (std::size_t i = 0; i < NUM_THREADS; ++i)
            threads.emplace_back([&] {
                for (std::size_t round = 0; round < FINDINGS_PER_THREAD; ++round)
                    log.report(sample_finding());
            });
        for (std::thread &thread : threads)
            thread.join();
        if (log.write_summary() != NUM_THREADS * FINDINGS_PER_THREAD)
            _exit(1);
    });
    assert_int_equal(log_file.lines().size(), NUM_THREADS * FINDINGS_PER_THREAD + 1);
    assert_int_equal(count_of(text, "  suppress: unsynced-write:rxe0:main\ncoherdma: "),
                     NUM_THREADS * FINDINGS_PER_THREAD);
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(findings_of_one_site_are_limited),
        cmocka_unit_test(site_without_request_is_sync_and_registration),
        cmocka_unit_test(regions_of_one_call_are_one_site),
        cmocka_unit_test(possible_findings_are_counted_or_left_out),
        cmocka_unit_test(summary_without_findings),
        cmocka_unit_test(notes_are_printed_once),
        cmocka_unit_test(log_name_expands_pid),
        cmocka_unit_test(unwritable_log_is_reported_once),
        cmocka_unit_test(log_works_with_stderr_closed),
        cmocka_unit_test(suppressed_findings_are_counted),
        cmocka_unit_test(concurrent_findings_are_whole_lines),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}

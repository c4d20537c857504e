// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// A finding of the checker as text and as JSON.

#include "sample_finding.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

namespace {

using namespace check_test;
using nlohmann::json;

constexpr std::size_t WIDTH = 80;

int finding_line = 0;

[[gnu::noinline]] finding find_something() {
    finding_line = __LINE__ + 1;
    finding sample = sample_finding();
    return sample;
}

void first_line_names_place_and_kind(void **) {
    coherdma::reports::source_files sources;
    const std::string text = as_text(describe(find_something(), sources));
    const std::string expected =
        ": cq-overflow: 9 completions can come before one is polled, and CQ 3 has 8 entries "
        "(rxe0)\n";
    assert_true(text.find(expected) < text.find('\n'));
}

void lines_fit_a_terminal(void **) {
    coherdma::reports::source_files sources;
    for (const finding_kind kind : ALL_KINDS) {
        finding sample = sample_finding(kind);
        sample.title = "a title";
        sample.events.back().stack = {};
        std::istringstream lines(as_text(describe(sample, sources)));
        for (std::string line; std::getline(lines, line);)
            if (line.size() > WIDTH)
                fail_msg("%zu: %s", line.size(), line.c_str());
    }
}

void hostile_text_is_not_printed(void **) {
    coherdma::reports::source_files sources;
    finding sample = sample_finding();
    sample.title = "a\x1b[31m\nb";
    sample.device = "r\x07";
    sample.events.front().description = "c\x1b]0;d";
    const std::string text = as_text(describe(sample, sources));
    assert_true(std::none_of(text.begin(), text.end(),
                             [](char c) { return c != '\n' && c >= 0 && c < ' '; }));
    const json object = json::parse(as_json(describe(sample, sources), {}));
    assert_string_equal(object["title"].get<std::string>().c_str(), "a\x1b[31m\nb");
}

void json_has_events_and_place(void **) {
    coherdma::reports::source_files sources;
    const json object = json::parse(
        as_json(describe(find_something(), sources), {.suppressed = true, .num_earlier = 2}));
    assert_string_equal(object["kind"].get<std::string>().c_str(), "cq-overflow");
    assert_string_equal(object["level"].get<std::string>().c_str(), "error");
    assert_int_equal(object["events"].size(), 2);
    assert_true(object["events"][0]["file"].is_null());
    assert_int_equal(object["repeated"].get<int>(), 2);
    assert_true(object["suppressed"].get<bool>());
    assert_true(object["place"].contains("source"));
    const std::string suppression = object["suppression"];
    assert_int_equal(suppression.rfind("cq-overflow:rxe0:", 0), 0);
}

void events_have_times_and_are_in_their_order(void **) {
    coherdma::reports::source_files sources;
    const event_clock clock;
    finding sample = sample_finding();
    sample.events.insert(sample.events.begin(), {.description = "MR 1 was created", .stack = {}});
    sample.events[1].stack.time = read_ticks();
    constexpr std::chrono::milliseconds pause(1);
    std::this_thread::sleep_for(pause);
    sample.events[0].stack.time = read_ticks();
    sample.events[0].posted = posted_state::OUTSTANDING;
    sample.time = read_ticks();
    const json object = json::parse(as_json(describe(sample, sources, clock), {}));
    const json &events = object["events"];
    assert_string_equal(events[1]["description"].get<std::string>().c_str(), "MR 1 was created");
    assert_string_equal(events[1]["posted"].get<std::string>().c_str(), "outstanding");
    assert_true(events[0]["posted"].is_null());
    assert_true(events[0]["time"].get<double>() < events[1]["time"].get<double>());
    assert_true(events[1]["time"].get<double>() <= object["time"].get<double>());
    assert_true(object["place"].contains("line") && !object["place"].contains("time"));
    sample.events[0].stack.time = 0; // not known: they stay as they are
    const json other = json::parse(as_json(describe(sample, sources, clock), {}));
    assert_string_equal(other["events"][0]["description"].get<std::string>().c_str(),
                        "MR 1 was created");
    assert_true(other["events"][0]["time"].is_null());
}

void clock_shows_seconds_since_its_start(void **) {
    const tick_count before = read_ticks();
    const event_clock clock;
    assert_true(clock.scale().seconds_at(before) == 0);
    const auto start = std::chrono::steady_clock::now();
    constexpr std::chrono::milliseconds pause(20);
    std::this_thread::sleep_for(pause);
    const tick_count after = read_ticks();
    const std::chrono::duration<double> longest = std::chrono::steady_clock::now() - start;
    const double seconds = clock.scale().seconds_at(after);
    constexpr double tolerance = 0.005;
    assert_true(seconds > 0.02 - tolerance && seconds < longest.count() + tolerance);
}

void finding_without_a_stack_has_no_place(void **) {
    coherdma::reports::source_files sources;
    finding sample = sample_finding();
    sample.events.clear();
    const described_finding shown = describe(sample, sources);
    assert_true(json::parse(as_json(shown, {}))["place"].is_null());
    assert_int_equal(as_text(shown).rfind("coherdma check: cq-overflow: ", 0), 0);
    assert_string_equal(shown.suppression.c_str(), "cq-overflow:rxe0");
}

void summary_counts_levels(void **) {
    finding_counts counts;
    assert_string_equal(as_text(counts).c_str(), "coherdma check: no findings\n");
    counts.by_kind = {{finding_kind::CQ_OVERFLOW, 3}, {finding_kind::ERROR_IGNORED, 1}};
    counts.num_places = 2;
    counts.num_suppressed = 4;
    assert_int_equal(counts.total(), 4);
    const std::string text = as_text(counts);
    assert_int_equal(text.rfind("coherdma check: 3 errors, 1 warning, at 2 places\n", 0), 0);
    assert_int_equal(count_of(text, "  4 suppressed\n"), 1);
    const json summary = json::parse(as_json(counts))["summary"];
    assert_int_equal(summary["errors"].get<int>(), 3);
    assert_int_equal(summary["by_kind"]["error-ignored"].get<int>(), 1);
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(first_line_names_place_and_kind),
        cmocka_unit_test(lines_fit_a_terminal),
        cmocka_unit_test(hostile_text_is_not_printed),
        cmocka_unit_test(json_has_events_and_place),
        cmocka_unit_test(events_have_times_and_are_in_their_order),
        cmocka_unit_test(clock_shows_seconds_since_its_start),
        cmocka_unit_test(finding_without_a_stack_has_no_place),
        cmocka_unit_test(summary_counts_levels),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}

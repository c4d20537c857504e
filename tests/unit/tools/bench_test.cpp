// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// coherdma bench: percentiles, ratios, sizes, and the output as table, JSON and HTML.

#include "../cmocka.hpp"
#include "bench/plot.hpp"
#include "bench/report.hpp"
#include "bench/statistics.hpp"

#include <cmath>
#include <cstdint>
#include <stdexcept>

using namespace tools::bench;

namespace {

void assert_near(double actual, double expected) {
    if (std::fabs(actual - expected) > 1e-9)
        fail_msg("%.12g, not %.12g", actual, expected);
}

void percentile_interpolates(void **) {
    const std::vector<double> values{10, 20, 30, 40, 50};
    assert_near(percentile(values, 0), 10);
    assert_near(percentile(values, 0.5), 30);
    assert_near(percentile(values, 0.9), 46);
    assert_near(percentile(values, 1), 50);
    assert_near(percentile(values, 7), 50);
    assert_near(percentile({5}, 0.99), 5);
    assert_near(percentile({}, 0.5), 0);
}

void summarize_sorts_values(void **) {
    std::vector<double> values;
    for (int value = 100; value >= 0; --value)
        values.push_back(value);
    const summary s = summarize(values);
    assert_int_equal(s.num_samples, 101);
    assert_near(s.p50, 50);
    assert_near(s.p90, 90);
    assert_near(s.p99, 99);
    assert_int_equal(summarize({}).num_samples, 0);
}

void ratio_is_median_of_pairwise_ratios(void **) {
    // Both were slow in the third sample: the ratio of the medians would be 20 / 10.
    assert_near(median_ratio({10, 20, 4000}, {10, 10, 4000}), 1);
    assert_near(median_ratio({3, 3, 3}, {2, 2, 2}), 1.5);
    assert_near(median_ratio({1, 8}, {0, 4}), 2); // the first pair has no ratio
    assert_near(median_ratio({}, {}), 0);
}

void sizes_are_parsed_and_printed(void **) {
    assert_int_equal(parse_size("64"), 64);
    assert_int_equal(parse_size("4k"), 4096);
    assert_int_equal(parse_size("16MiB"), 16 << 20);
    assert_int_equal(parse_size("1G"), 1 << 30);
    assert_string_equal(format_size(64).c_str(), "64 B");
    assert_string_equal(format_size(1 << 20).c_str(), "1 MiB");
    assert_string_equal(format_size(1025).c_str(), "1025 B");
    for (const char *text : {"", "0", "x", "-1", "4kk", "4q", "2G", "99999999999999999999"}) {
        bool is_rejected = false;
        try {
            parse_size(text);
        } catch (const std::invalid_argument &) {
            is_rejected = true;
        }
        if (!is_rejected)
            fail_msg("%s was accepted as a size", text);
    }
}

/// Made-up results. Each list {9, 200, 210, 300} is a summary: 9 samples, p50, p90, p99.
measurements make_results() {
    measurements results;
    results.utc_time = "2024-02-29T12:00:00Z";
    results.machine.cpu_model = "<b>CPU & \"co\"</b>";
    results.machine.line_size = 64;
    results.options.sizes = {64, 4096};
    results.default_instructions = "clwb";
    results.timings = {
        {"clwb", SYNC_BEFORE_READ, "dirty", 64, 1, {9, 200, 210, 300}, {9, 190, 200, 250}, 1.05},
        {"clwb", SYNC_BEFORE_READ, "dirty", 4096, 64, {9, 5, 6, 7}, {}, 0}};
    results.scattered = {{1, {9, 200, 210, 220}, {9, 200, 210, 220}, 1},
                         {256, {9, 900, 910, 920}, {9, 45000, 46000, 47000}, 50}};
    results.coherent_call_ns = {9, 4, 5, 6};
    return results;
}

void json_round_trip(void **) {
    const measurements results = make_results(), parsed = from_json(as_json(results));
    assert_int_equal(parsed.timings.size(), 2);
    assert_string_equal(parsed.timings[0].call.c_str(), SYNC_BEFORE_READ);
    assert_near(parsed.timings[0].ns_per_line.p99, 300);
    assert_near(parsed.timings[0].ratio_to_raw_loop, 1.05);
    assert_int_equal(parsed.timings[1].raw_loop_ns_per_line.num_samples, 0);
    assert_near(parsed.scattered[1].call_per_range_ns.p50, 45000);
    std::string newer_schema = as_json(results);
    newer_schema.replace(newer_schema.find("\"schema\": 1"), 11, "\"schema\": 2");
    for (const std::string &text :
         {std::string(), std::string("{}"), std::string("[1]"), newer_schema}) {
        bool is_rejected = false;
        try {
            from_json(text);
        } catch (const std::runtime_error &) {
            is_rejected = true;
        }
        assert_true(is_rejected);
    }
}

void assert_contains(const std::string &text, const char *part) {
    if (text.find(part) == std::string::npos)
        fail_msg("not in the output: %s", part);
}

/// A result {samples, p50, p90, p99} counts as slower or faster if its range is outside the old
/// one.
void comparison_counts_slower_and_faster(void **) {
    measurements baseline = make_results(), results = make_results();
    assert_contains(as_comparison(results, baseline), "in total: 0 slower, 0 faster, of 5");
    results.timings[0].ns_per_line = {9, 260, 270, 280}; // above the old range
    results.timings[1].ns_per_line = {9, 4, 4.5, 7};
    results.coherent_call_ns = {9, 4.1, 5, 6}; // within the old range
    assert_contains(as_comparison(results, baseline), "in total: 1 slower, 1 faster, of 5");
    results.timings[0].raw_loop_ns_per_line = {9, 250, 260,
                                               270}; // the raw loop is slower too: a slower machine
    assert_contains(as_comparison(results, baseline), "in total: 0 slower, 1 faster, of 5");
}

void each_call_has_its_name(void **) {
    measurements results = make_results();
    const sync_timing timing = results.timings[0];
    results.timings.clear();
    for (const char *call :
         {SYNC_BEFORE_READ, SYNC_AFTER_WRITE, SYNC_TO_DEVICE, SYNC_FROM_DEVICE, SYNC_FOR_CPU}) {
        results.timings.push_back(timing);
        results.timings.back().call = call;
    }
    const std::string table = as_table(results), comparison = as_comparison(results, results);
    for (const char *occasion :
         {"clwb, before a Read\n", "clwb, around a Write\n", "clwb, for the device, which reads\n",
          "clwb, for the device, which writes\n", "clwb, for the CPU\n"})
        assert_contains(table, occasion);
    for (const char *row : {"clwb read, dirty", "clwb write, dirty", "clwb to dev, dirty",
                            "clwb from dev, dirty", "clwb cpu, dirty"})
        assert_contains(comparison, row);
}

void html_page_is_escaped(void **) {
    const std::string page = as_html(make_results());
    assert_contains(page, "&lt;b&gt;CPU &amp; &quot;co&quot;&lt;/b&gt;");
    assert_true(page.find("<b>CPU") == std::string::npos);
    for (const char *forbidden : {"<script", "http:", "https:", "url(", "nan", "inf,"})
        if (page.find(forbidden) != std::string::npos)
            fail_msg("the page has %s", forbidden);
}

void empty_results_are_printed(void **) {
    measurements results;
    results.options.sizes = {64};
    results.interrupted = true;
    assert_contains(as_table(results), "Interrupted");
    assert_contains(as_html(results), "Interrupted");
    assert_int_equal(from_json(as_json(results)).timings.size(), 0);
}

void text_fits_80_columns(void **) {
    const std::string text =
        as_table(make_results()) + as_comparison(make_results(), make_results());
    for (std::size_t begin = 0, end = 0; begin < text.size(); begin = end + 1) {
        end = text.find('\n', begin);
        assert_in_range(end - begin, 0, 80);
    }
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(percentile_interpolates),
        cmocka_unit_test(summarize_sorts_values),
        cmocka_unit_test(ratio_is_median_of_pairwise_ratios),
        cmocka_unit_test(sizes_are_parsed_and_printed),
        cmocka_unit_test(json_round_trip),
        cmocka_unit_test(comparison_counts_slower_and_faster),
        cmocka_unit_test(each_call_has_its_name),
        cmocka_unit_test(html_page_is_escaped),
        cmocka_unit_test(empty_results_are_printed),
        cmocka_unit_test(text_fits_80_columns),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What coherdma bench makes of what it measured: percentiles, ratios, sizes, and what it writes.

#include "bench/plot.hpp"
#include "bench/report.hpp"
#include "bench/statistics.hpp"

#include <cmath>
#include <csetjmp>
#include <cstdarg>
#include <cstdint>
#include <stdexcept>

extern "C" {
#include <cmocka.h>
}

using namespace tools::bench;

namespace {

void near(double got, double wanted) {
    if (std::fabs(got - wanted) > 1e-9)
        fail_msg("%.12g, not %.12g", got, wanted);
}

void percentiles(void **) {
    const std::vector<double> values{10, 20, 30, 40, 50};
    near(percentile(values, 0), 10);
    near(percentile(values, 0.5), 30);
    near(percentile(values, 0.9), 46);
    near(percentile(values, 1), 50);
    near(percentile(values, 7), 50);
    near(percentile({5}, 0.99), 5);
    near(percentile({}, 0.5), 0);
}

void summaries_sort(void **) {
    std::vector<double> values;
    for (int value = 100; value >= 0; --value)
        values.push_back(value);
    const summary got = summarize(values);
    assert_int_equal(got.count, 101);
    near(got.p50, 50);
    near(got.p90, 90);
    near(got.p99, 99);
    assert_int_equal(summarize({}).count, 0);
}

void ratios_are_of_pairs(void **) {
    // Both were slow in the third: their medians would say 20 / 10.
    near(median_ratio({10, 20, 4000}, {10, 10, 4000}), 1);
    near(median_ratio({3, 3, 3}, {2, 2, 2}), 1.5);
    near(median_ratio({1, 8}, {0, 4}), 2); // nothing can be said of the first
    near(median_ratio({}, {}), 0);
}

void sizes(void **) {
    assert_int_equal(size_value("64"), 64);
    assert_int_equal(size_value("4k"), 4096);
    assert_int_equal(size_value("16MiB"), 16 << 20);
    assert_int_equal(size_value("1G"), 1 << 30);
    assert_string_equal(size_name(64).c_str(), "64 B");
    assert_string_equal(size_name(1 << 20).c_str(), "1 MiB");
    assert_string_equal(size_name(1025).c_str(), "1025 B");
    for (const char *wrong : {"", "0", "x", "-1", "4kk", "4q", "2G", "99999999999999999999"}) {
        bool refused = false;
        try {
            size_value(wrong);
        } catch (const std::invalid_argument &) {
            refused = true;
        }
        if (!refused)
            fail_msg("%s was taken for a size", wrong);
    }
}

results some() {
    results all;
    all.when = "2024-02-29T12:00:00Z";
    all.where.cpu = "<b>CPU & \"co\"</b>";
    all.where.line_bytes = 64;
    all.how.sizes = {64, 4096};
    all.instructions = "clwb";
    all.cells = {{"clwb", "read", "dirty", 64, 1, {9, 200, 210, 300}, {9, 190, 200, 250}, 1.05},
                 {"clwb", "read", "dirty", 4096, 64, {9, 5, 6, 7}, {}, 0}};
    all.batches = {{1, {9, 200, 210, 220}, {9, 200, 210, 220}, 1},
                   {256, {9, 900, 910, 920}, {9, 45000, 46000, 47000}, 50}};
    all.coherent_ns = {9, 4, 5, 6};
    return all;
}

void json_is_read_again(void **) {
    const results all = some(), again = from_json(as_json(all));
    assert_int_equal(again.cells.size(), 2);
    assert_string_equal(again.cells[0].call.c_str(), "read");
    near(again.cells[0].call_ns.p99, 300);
    near(again.cells[0].ratio, 1.05);
    assert_int_equal(again.cells[1].raw_ns.count, 0);
    near(again.batches[1].calls_each_ns.p50, 45000);
    std::string of_later = as_json(all);
    of_later.replace(of_later.find("\"schema\": 1"), 11, "\"schema\": 2");
    for (const std::string &wrong :
         {std::string(), std::string("{}"), std::string("[1]"), of_later}) {
        bool refused = false;
        try {
            from_json(wrong);
        } catch (const std::runtime_error &) {
            refused = true;
        }
        assert_true(refused);
    }
}

void has(const std::string &text, const char *part) {
    if (text.find(part) == std::string::npos)
        fail_msg("nowhere: %s", part);
}

void comparisons_have_a_verdict(void **) {
    results old = some(), all = some();
    has(as_comparison(all, old), "verdict: 0 slower, 0 faster, of 5");
    all.cells[0].call_ns = {9, 260, 270, 280}; // above what was ordinary then
    all.cells[1].call_ns = {9, 4, 4.5, 7};
    all.coherent_ns = {9, 4.1, 5, 6}; // within the scatter
    has(as_comparison(all, old), "verdict: 1 slower, 1 faster, of 5");
    all.cells[0].raw_ns = {9, 250, 260, 270}; // a bare loop became as slow: the machine did
    has(as_comparison(all, old), "verdict: 0 slower, 1 faster, of 5");
}

void the_page_is_escaped(void **) {
    const std::string page = as_page(some());
    has(page, "&lt;b&gt;CPU &amp; &quot;co&quot;&lt;/b&gt;");
    assert_true(page.find("<b>CPU") == std::string::npos);
    for (const char *alien : {"<script", "http:", "https:", "url(", "nan", "inf,"})
        if (page.find(alien) != std::string::npos)
            fail_msg("the page has %s", alien);
}

void nothing_measured_is_no_reason_to_fail(void **) {
    results all;
    all.how.sizes = {64};
    all.interrupted = true;
    has(as_table(all), "Interrupted");
    has(as_page(all), "Interrupted");
    assert_int_equal(from_json(as_json(all)).cells.size(), 0);
}

void no_line_is_longer_than_a_terminal(void **) {
    const std::string text = as_table(some()) + as_comparison(some(), some());
    for (std::size_t at = 0, end = 0; at < text.size(); at = end + 1) {
        end = text.find('\n', at);
        assert_in_range(end - at, 0, 80);
    }
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(percentiles),
        cmocka_unit_test(summaries_sort),
        cmocka_unit_test(ratios_are_of_pairs),
        cmocka_unit_test(sizes),
        cmocka_unit_test(json_is_read_again),
        cmocka_unit_test(comparisons_have_a_verdict),
        cmocka_unit_test(the_page_is_escaped),
        cmocka_unit_test(nothing_measured_is_no_reason_to_fail),
        cmocka_unit_test(no_line_is_longer_than_a_terminal),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// coherdma check: counts and places from the logs of a run, the report as table and JSON, and the
// explanations.

#include "../cmocka.hpp"
#include "check/kinds.hpp"
#include "check/report.hpp"
#include "check_findings.hpp"

#include <cstring>
#include <sstream>

using namespace tools::check;
using namespace check_findings;

namespace {

constexpr std::size_t MAX_LINE_LENGTH = 80;

void assert_contains(const std::string &text, const char *part) {
    if (text.find(part) == std::string::npos)
        fail_msg("\"%s\" is not in:\n%s", part, text.c_str());
}

void assert_fits(const std::string &text) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);)
        if (line.size() > MAX_LINE_LENGTH)
            fail_msg("too long: %s", line.c_str());
}

void summary_line_sets_counts(void **) {
    const run_result result = make_run({make_finding("cq-overflow", 120), make_summary(2, 1)});
    assert_true(result.was_checked() && result.has_all_summaries());
    assert_int_equal(result.num_errors(), 2); // one was not logged
    assert_int_equal(result.num_warnings(), 1);
    assert_int_equal(result.num_suppressed(), 3);
    assert_int_equal(result.num_repeated(), 40);
    assert_int_equal(result.by_kind.at("cq-overflow"), 2);
}

/// A process that executes another program has two summaries in one log.
void summaries_of_one_process_are_added(void **) {
    const run_result result = make_run({make_summary(2), make_summary(1)});
    assert_int_equal(result.processes.size(), 1);
    assert_int_equal(result.num_errors(), 3);
    assert_int_equal(result.by_kind.at("cq-overflow"), 3);
}

void suppressed_finding_is_not_counted(void **) {
    json suppressed = make_finding("cq-overflow", 120);
    suppressed["suppressed"] = true;
    const run_result result = make_run({suppressed, make_summary(0)});
    assert_int_equal(result.num_errors(), 0);
    assert_true(result.has_all_summaries());
}

void log_without_summary_is_incomplete(void **) {
    assert_true(run_result{}.has_all_summaries() && !run_result{}.was_checked());
    assert_true(make_run({}).was_checked());
    assert_false(make_run({}).has_all_summaries());
    run_result truncated;
    read_log(make_finding("cq-overflow", 1).dump() + "\n{\"kind\": \"cq-ov", PID, truncated);
    assert_false(truncated.has_all_summaries());
    assert_int_equal(truncated.num_errors(), 1);
}

void invalid_log_line_is_incomplete(void **) {
    std::vector<std::string> lines = {"[]",
                                      "{}",
                                      "\xff",
                                      "null",
                                      "7",
                                      "\"x\"",
                                      R"({"summary": 7})",
                                      R"({"summary": {}})",
                                      std::string(10000, '['),
                                      std::string(1, '\0')};
    const json finding = make_finding("cq-overflow", 120);
    for (const auto &[member, value] : finding.items()) {
        json missing = finding, other_type = finding;
        missing.erase(member);
        other_type[member] = json::array({json::object()});
        lines.push_back(other_type.dump());
        if (member != "place_number") // that of one that is missing is 0
            lines.push_back(missing.dump());
    }
    for (const char *pointer :
         {"/place/source/0/line", "/place/source/0/text", "/place/file", "/place/source",
          "/events/0/stack", "/events/0/stack/0", "/events/0/description", "/events/1/line"}) {
        json invalid = finding;
        invalid[json::json_pointer(pointer)] = json::object();
        lines.push_back(invalid.dump());
    }
    json invalid_summary = make_summary(1);
    invalid_summary["summary"]["by_kind"] = "x";
    lines.push_back(invalid_summary.dump());
    lines.push_back(make_summary(1, 0, "x").dump());
    for (const std::string &line : lines) {
        run_result result;
        read_log(line + "\n" + make_summary(0).dump() + "\n", PID, result);
        if (result.has_all_summaries() || !result.findings.empty() || result.num_errors() != 0)
            fail_msg("accepted: %s", line.c_str());
        as_table(result);
    }
}

void findings_are_grouped_by_kind_and_place(void **) {
    json repeated = make_finding("cq-overflow", 120), warning = make_finding("error-ignored", 120);
    repeated["repeated"] = 1;
    repeated["title"] = "65 completions can come, and the CQ has 16 entries";
    repeated["device"] = "siw0";
    warning["level"] = "warning";
    const run_result result =
        make_run({warning, make_finding("cq-overflow", 130), make_finding("cq-overflow", 120),
                  repeated, warning, warning, warning});
    const std::vector<finding_place> places = group_findings(result);
    assert_int_equal(places.size(), 3);
    assert_string_equal(places[0].frame.c_str(), "main (/src/x.c:120)");
    assert_int_equal(places[0].num_findings, 2);
    assert_int_equal(places[0].findings.size(), 2);
    assert_true(places[0].devices == std::set<std::string>({"rxe0", "siw0"}));
    assert_string_equal(places[1].frame.c_str(), "main (/src/x.c:130)");
    assert_string_equal(places[2].kind.c_str(), "error-ignored"); // although more frequent
    assert_false(places[2].is_error);
}

/// The findings of a place that were not logged; a summary is of the findings before it.
void counted_findings_are_of_their_place(void **) {
    json other = make_finding("local-key", 130);
    other["place_number"] = 3; // the second one was suppressed
    const json again = make_finding("cq-overflow", 120);
    const run_result result = make_run({again, other, again, make_summary(12, 0, {7, 9, 5}), again,
                                        make_summary(2, 0, {2}), again});
    const std::vector<finding_place> places = group_findings(result);
    assert_int_equal(places.size(), 2);
    assert_int_equal(places[0].num_findings, 7 + 2 + 1);
    assert_int_equal(places[1].num_findings, 5);
    json huge = again;
    huge["place_number"] = 1000000;
    const run_result hostile = make_run({huge, make_summary(1, 0, {1})});
    assert_int_equal(group_findings(hostile)[0].num_findings, 1);
}

void places_without_lines_are_told_apart(void **) {
    json without_place = make_finding("cq-overflow", 1);
    without_place["place"] = nullptr;
    without_place["events"] = json::array();
    const run_result result = make_run(
        {make_finding_without_lines("cq-overflow", "main (/usr/bin/env+0x10)"),
         make_finding_without_lines("cq-overflow", "main (/usr/bin/env+0x20)"),
         make_finding_without_lines("leaked", "?? (/usr/bin/env+0x30)"),
         make_finding_without_lines("cq-overflow", "main (/usr/bin/env+0x10)"), without_place});
    const std::vector<finding_place> places = group_findings(result);
    assert_int_equal(places.size(), 4);
    assert_int_equal(places[0].num_findings, 2);
    const std::string table = as_table(result);
    assert_contains(table, "error    cq-overflow                main (env+0x10)");
    assert_contains(table, "error    cq-overflow                ? ");
    assert_contains(table, "error    leaked                     env+0x30 ");
    assert_contains(table, "\nsource lines are missing for\n  env  ");
}

void table_has_places_and_sums(void **) {
    const run_result result = make_run({make_finding("cq-overflow", 120), make_summary(1)});
    assert_string_equal(
        as_table(result).c_str(),
        "LEVEL    KIND                       PLACE                                 COUNT\n"
        "error    cq-overflow                x.c:120 in main                           1\n"
        "         64 completions can come, and the CQ has 16 entries\n"
        "\n"
        "1 error, 0 warnings at 1 place in 1 process; 40 repeated; 3 suppressed\n"
        "more on a kind: coherdma check --explain cq-overflow\n");
    assert_string_equal(as_table(run_result{}).c_str(), "0 errors, 0 warnings in 0 processes\n");
    assert_string_equal(as_table(make_run({})).c_str(),
                        "0 errors, 0 warnings in 1 process\n"
                        "findings can be missing: 1 process ended without a summary\n");
}

void table_fits_80_columns(void **) {
    json hostile = make_finding("dereg-while-outstanding", 120);
    hostile["title"] = "a\33[2J " + std::string(200, 'y') + " words that are many, so many";
    hostile["place"]["function"] = "f" + std::string(200, 'x');
    hostile["place"]["file"] = "/src/\33" + std::string(90, 'z');
    const run_result result =
        make_run({hostile, make_finding_without_lines("leaked", "f (/nonexistent/it's+0x12)")});
    const std::string table = as_table(result);
    assert_fits(table);
    assert_null(std::strchr(table.c_str(), '\33'));
}

void json_has_findings_and_places(void **) {
    const json document = json::parse(as_json(
        make_run({make_finding("cq-overflow", 120), make_summary(1)}), {"./x", "a \xff"}, 5));
    assert_true(document.at("command") == json({"./x", "a \xef\xbf\xbd"}));
    assert_int_equal(document.at("status").get<int>(), 5);
    assert_true(document.at("processes").at(0).at("pid") == PID);
    assert_true(document.at("findings").at(0).at("kind") == "cq-overflow");
    assert_true(document.at("places").at(0).at("frame") == "main (/src/x.c:120)");
    const json summary = {{"errors", 1},     {"warnings", 0},  {"places", 1},
                          {"suppressed", 3}, {"repeated", 40}, {"by_kind", {{"cq-overflow", 1}}},
                          {"complete", true}};
    assert_string_equal(document.at("summary").dump().c_str(), summary.dump().c_str());
    assert_false(
        json::parse(as_json(run_result{}, {}, 77)).at("summary").at("complete").get<bool>());
}

void each_kind_is_explained(void **) {
    const std::string list = list_kinds(), all = explain_kind("all");
    assert_fits(list);
    assert_fits(all);
    std::set<std::string> names;
    for (const auto kind : coherdma::check::ALL_KINDS) {
        const auto &description = describe(kind);
        names.insert(description.name);
        assert_true(coherdma::check::parse_kind(description.name) == kind);
        assert_contains(list, description.name);
        const std::string text = explain_kind(description.name);
        assert_contains(
            text,
            (std::string(description.name) + " (" + level_name(description.level) + "): ").c_str());
        assert_contains(text, "  What to do: ");
        assert_contains(all, text.c_str());
        // The source of the rule: a manual page, or the specification.
        assert_true(std::strstr(description.why, "(3)") != nullptr ||
                    std::strstr(description.why, "InfiniBand specification") != nullptr);
        for (const char *part : {description.summary, description.why, description.fix})
            assert_true(*part != '\0' && std::strpbrk(part, "\n\t") == nullptr &&
                        std::strstr(part, "  ") == nullptr);
    }
    assert_int_equal(names.size(), coherdma::check::NUM_KINDS);
    assert_string_equal(explain_kind("cq").c_str(), "");
    assert_false(coherdma::check::parse_kind("").has_value());
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(summary_line_sets_counts),
        cmocka_unit_test(summaries_of_one_process_are_added),
        cmocka_unit_test(suppressed_finding_is_not_counted),
        cmocka_unit_test(log_without_summary_is_incomplete),
        cmocka_unit_test(invalid_log_line_is_incomplete),
        cmocka_unit_test(findings_are_grouped_by_kind_and_place),
        cmocka_unit_test(counted_findings_are_of_their_place),
        cmocka_unit_test(places_without_lines_are_told_apart),
        cmocka_unit_test(table_has_places_and_sums),
        cmocka_unit_test(table_fits_80_columns),
        cmocka_unit_test(json_has_findings_and_places),
        cmocka_unit_test(each_kind_is_explained),
    };
    return cmocka_run_group_tests_name("check", tests, nullptr, nullptr);
}

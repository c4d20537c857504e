// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// coherdma emulate: counts and code locations from the logs of a run, and the report as table and
// JSON.

#include "../cmocka.hpp"
#include "emulate/report.hpp"
#include "run/debug_info.hpp"

#include <cstdint>
#include <cstring>
#include <sstream>
#include <unistd.h>

using namespace tools::emulate;
using json = nlohmann::ordered_json;

namespace {

json stack(const std::string &frame) {
    return json::array({frame, "main (/usr/bin/a+0x1)", "?? (/lib/libc.so.6+0x5)"});
}

/// A finding as the emulation logs it, of memory that this frame has registered.
json finding(const std::string &registered, long pid = 7) {
    return {{"coherdma", "finding"},
            {"kind", "unsynced-read"},
            {"certainty", "certain"},
            {"doubt", nullptr},
            {"missing", "sync before the Read"},
            {"insert",
             {{"text", "coherdma: insert sync_it(device); before the peer's RDMA Read"},
              {"place", nullptr},
              {"before_event", nullptr}}},
            {"after", nullptr},
            {"before",
             {{"description", "the peer's RDMA Read"},
              {"function", ""},
              {"file", nullptr},
              {"line", nullptr},
              {"stack", json::array()},
              {"source", json::array()}}},
            {"device", "rxe0"},
            {"region", 2},
            {"region_name", nullptr},
            {"region_length", 4096},
            {"offset", 64},
            {"length", 128},
            {"request",
             {{"description", "RDMA Read of 64 bytes, request 0x1, by process 9 (a)"},
              {"stack", stack("ask (/usr/bin/a+0x20)")}}},
            {"last_sync", nullptr},
            {"registered", stack(registered)},
            {"pid", pid},
            {"suppressed", false},
            {"suppression", "unsynced-read:rxe0:ask"},
            {"repeated", 0},
            {"line_size", 64},
            {"history", json::array()}};
}

json summary(std::size_t findings, std::size_t possible = 0) {
    return {{"coherdma", "summary"},
            {"findings", findings},
            {"possible", possible},
            {"suppressed", 3},
            {"repeated", 1}};
}

/// A finding of this region, with the place of the sync known.
json placed_finding(int region, const std::string &registered) {
    json placed = finding(registered);
    placed["region"] = region;
    placed["insert"]["text"] =
        "src/a.c:12: insert sync_it(device, with, many, arguments); between the completion polled "
        "at a.c:12 and the deregistration at a.c:20";
    placed["insert"]["place"] = "src/a.c:12";
    placed["after"] = {{"description", "the completion polled"},
                       {"function", "main"},
                       {"file", "/src/a.c"},
                       {"line", 12},
                       {"stack", stack("main (/src/a.c:12)")},
                       {"source", json::array({{{"line", 11}, {"text", "{"}},
                                               {{"line", 12}, {"text", "    poll(\x1b);"}}})}};
    return placed;
}

run_result make_run(const std::string &mode, const std::string &log) {
    run_result run;
    run.emulation_mode = mode;
    read_log(log, 7, run);
    return run;
}

void summary_line_sets_counts(void **) {
    const run_result run =
        make_run("stale", finding("f (/a+0x1)").dump() + "\n" + summary(2).dump() + "\n");
    assert_true(run.was_emulated() && run.has_all_summaries());
    assert_int_equal(run.num_findings(), 2); // one was not logged
    assert_int_equal(run.findings.size(), 1);
    assert_int_equal(run.num_suppressed(), 3);
    assert_int_equal(run.num_repeated(), 1);
}

void suppressed_finding_is_not_counted(void **) {
    json suppressed = finding("f (/a+0x1)");
    suppressed["suppressed"] = true;
    const run_result run = make_run("stale", suppressed.dump() + "\n" + summary(0).dump() + "\n");
    assert_int_equal(run.num_findings(), 0);
    assert_true(run.has_all_summaries());
}

void log_without_summary_is_incomplete(void **) {
    assert_true(run_result{}.has_all_summaries() && !run_result{}.was_emulated());
    assert_true(make_run("stale", "").was_emulated());
    assert_false(make_run("stale", "").has_all_summaries());
    const run_result truncated =
        make_run("stale", finding("f (/a+0x1)").dump() + "\n{\"coherdma\": \"fin");
    assert_false(truncated.has_all_summaries());
    assert_int_equal(truncated.num_findings(), 1);
}

void invalid_log_line_is_incomplete(void **) {
    json incomplete = finding("f (/a+0x1)");
    incomplete.erase("offset");
    json wrong_place = placed_finding(1, "f (/a+0x1)");
    wrong_place["after"]["source"][0]["line"] = "x";
    for (const std::string &line : {std::string("[]"), std::string("{}"), std::string("\xff"),
                                    incomplete.dump(), wrong_place.dump()}) {
        const run_result run = make_run("stale", line + "\n" + summary(0).dump() + "\n");
        assert_false(run.has_all_summaries());
        assert_int_equal(run.findings.size(), 0);
    }
}

/// By the stacks of the request and the registration, not by addresses or processes: three findings
/// of the first place, in two runs, are one row.
void findings_are_grouped_across_modes(void **) {
    const std::string first = finding("f (/usr/bin/a+0x1)").dump() + "\n";
    json repeated = finding("f (/usr/bin/a+0x1)", 8);
    repeated["offset"] = 0;
    repeated["request"]["description"] = "RDMA Read of 64 bytes, request 0x2, by process 10 (a)";
    const std::string second = finding("g (/usr/bin/a+0x9)").dump() + "\n";
    const std::vector<code_location> locations = group_findings(
        {make_run("stale", second + first), make_run("poison", first + repeated.dump() + "\n")});
    assert_int_equal(locations.size(), 2);
    assert_string_equal(locations[0].registration_stack.front().c_str(), "f (/usr/bin/a+0x1)");
    assert_int_equal(locations[0].num_findings, 3);
    assert_int_equal(locations[0].num_findings_by_mode.at("poison"), 2);
    assert_int_equal(locations[0].begin, 0);
    assert_int_equal(locations[0].end, 192);
    assert_int_equal(locations[1].num_findings, 1);
    assert_int_equal(locations[1].registration_stack.size(), 3);
}

/// Wherever the memory was registered: the same call is missing.
void regions_of_one_place_are_one_location(void **) {
    json longer = placed_finding(3, "g (/usr/bin/a+0x9)");
    longer["request"]["description"] = "RDMA Read of 8 bytes, request 0x1, by process 9 (a)";
    json other_place = placed_finding(4, "f (/usr/bin/a+0x1)");
    other_place["insert"]["place"] = "src/a.c:99";
    const std::vector<code_location> locations =
        group_findings({make_run("stale", placed_finding(1, "f (/usr/bin/a+0x1)").dump() + "\n" +
                                              longer.dump() + "\n" + other_place.dump() + "\n")});
    assert_int_equal(locations.size(), 2);
    assert_int_equal(locations[0].num_findings, 2);
    assert_int_equal(locations[0].regions.size(), 2);
    const std::string table = as_table({make_run(
        "stale", placed_finding(1, "f (/usr/bin/a+0x1)").dump() + "\n" + longer.dump() + "\n")});
    assert_non_null(std::strstr(table.c_str(), " 2 regions; region 1, bytes 64..191 of 4096\n"));
}

/// The first lines are what to insert, where, and the source there.
void table_begins_with_the_call_to_insert(void **) {
    json named = placed_finding(1, "f (/usr/bin/a+0x1)");
    named["region_name"] = "inbox";
    const std::string table = as_table({make_run("stale", named.dump() + "\n")});
    assert_non_null(
        std::strstr(table.c_str(),
                    "\n\nsrc/a.c:12: insert sync_it(device, with, many, arguments);\n"
                    "  between the completion polled at a.c:12 and the deregistration at a.c:20\n"
                    "      11  {\n"
                    "  >   12      poll(?);\n"
                    "unsynced-read   rxe0         region 1, bytes 64..191 of 4096\n"
                    "  memory      inbox\n"
                    "  missing     sync before the Read\n"));
    assert_non_null(std::strstr(table.c_str(), "\n  suppress    unsynced-read:rxe0:ask\n"));
    const std::string folder = "/a/folder/with/a/long/name/";
    named["insert"]["place"] = folder + "a.c:12";
    named["insert"]["text"] = folder + named["insert"]["text"].get<std::string>().substr(4);
    assert_non_null(std::strstr(as_table({make_run("stale", named.dump() + "\n")}).c_str(),
                                "\na.c:12: insert sync_it(device, with, many, arguments);\n"));
}

void possible_findings_are_counted_apart(void **) {
    json possible = finding("f (/usr/bin/a+0x1)");
    possible["certainty"] = "possible";
    possible["doubt"] = "maybe-unread";
    const run_result run = make_run("stale", possible.dump() + "\n" + possible.dump() + "\n" +
                                                 finding("g (/usr/bin/a+0x1)").dump() + "\n");
    assert_int_equal(run.num_findings(), 3);
    assert_int_equal(run.num_possible(), 2);
    assert_int_equal(make_run("stale", summary(9, 4).dump()).num_possible(), 4);
    const std::vector<code_location> locations = group_findings({run});
    assert_int_equal(locations.size(), 2);
    assert_int_equal(locations[0].num_possible, 0); // the certain one first
    assert_string_equal(describe_doubts(locations[1]).c_str(),
                        "nothing shows that the program read them");
    const std::string table = as_table({run});
    assert_non_null(std::strstr(table.c_str(),
                                "MODE                       STATUS PROCESSES CERTAIN "
                                "POSSIBLE SUPPRESSED REPEATED\n"
                                "stale                           0         1       1 "
                                "       2          0        0\n"));
    assert_non_null(
        std::strstr(table.c_str(), "  possible    nothing shows that the program read them\n"));
    const json document = json::parse(as_json({run}, 0));
    assert_int_equal(document.at("runs").at(0).at("possible").get<int>(), 2);
    assert_int_equal(document.at("places").at(1).at("possible").get<int>(), 2);
}

void table_fits_80_columns(void **) {
    json long_finding = placed_finding(1, "f" + std::string(200, 'x') + " (/usr/bin/a+0x1)");
    long_finding["registered"][0] =
        "a\33[2J name with blanks " + std::string(90, 'y') + " (/b+0x2)";
    const std::string table =
        as_table({make_run("evict:18446744073709551615", long_finding.dump())});
    std::istringstream lines(table);
    for (std::string line; std::getline(lines, line);)
        assert_true(line.size() <= 80);
    assert_null(std::strchr(table.c_str(), '\33'));
    assert_non_null(std::strstr(
        table.c_str(), "  request     RDMA Read of 64 bytes\n              ask (a+0x20)\n"));
}

void files_without_source_lines_are_named_once(void **) {
    code_location location;
    location.request_stack = {"post (/src/a.c:12)", "main (/nonexistent/it's+0x12)"};
    location.sync_stack = {"?? (/nonexistent/it's+0x99)", "?? (0x12)", "f (./misc/x.c:1)"};
    location.registration_stack = {"?? (/usr/bin/env+0x1)"};
    const auto files = tools::run::files_without_lines(frames_of({location}));
    assert_int_equal(files.size(), 2);
    assert_string_equal(files[0].path.c_str(), "/nonexistent/it's");
    assert_string_equal(files[0].package.c_str(), "");
    assert_string_equal(files[0].fix.c_str(), "compile it with -g");
    assert_string_equal(files[1].path.c_str(), "/usr/bin/env");
    if (access("/usr/bin/dpkg-query", X_OK) == 0) {
        assert_string_equal(files[1].package.c_str(), "coreutils");
        assert_string_equal(files[1].fix.c_str(), "install coreutils-dbgsym");
    }
}

void json_has_runs_and_code_locations(void **) {
    const json document = json::parse(
        as_json({make_run("stale", finding("f (/a+0x1)").dump() + "\n"), run_result{}}, 5));
    assert_int_equal(document.at("schema").get<int>(), 1);
    assert_int_equal(document.at("status").get<int>(), 5);
    assert_true(document.at("runs").at(0).at("findings").at(0).at("kind") == "unsynced-read");
    assert_false(document.at("runs").at(0).at("complete").get<bool>());
    assert_false(document.at("runs").at(1).at("emulated").get<bool>());
    assert_int_equal(document.at("places").at(0).at("by").at("stale").get<int>(), 1);
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(summary_line_sets_counts),
        cmocka_unit_test(suppressed_finding_is_not_counted),
        cmocka_unit_test(log_without_summary_is_incomplete),
        cmocka_unit_test(invalid_log_line_is_incomplete),
        cmocka_unit_test(findings_are_grouped_across_modes),
        cmocka_unit_test(regions_of_one_place_are_one_location),
        cmocka_unit_test(table_begins_with_the_call_to_insert),
        cmocka_unit_test(possible_findings_are_counted_apart),
        cmocka_unit_test(table_fits_80_columns),
        cmocka_unit_test(files_without_source_lines_are_named_once),
        cmocka_unit_test(json_has_runs_and_code_locations),
    };
    return cmocka_run_group_tests_name("emulate", tests, nullptr, nullptr);
}

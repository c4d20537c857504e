// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What coherdma emulate makes of the logs of a run: counts, places, table and JSON.

#include "emulate/report.hpp"

#include <csetjmp>
#include <cstdarg>
#include <cstdint>
#include <sstream>

extern "C" {
#include <cmocka.h>
}

using namespace tools::emulate;
using json = nlohmann::ordered_json;

namespace {

json stack(const std::string &frame) {
    return json::array({frame, "main (/usr/bin/a+0x1)", "?? (/lib/libc.so.6+0x5)"});
}

json finding(const std::string &registered, long pid = 7) {
    return {{"coherdma", "finding"},
            {"kind", "unsynced-read"},
            {"missing", "sync_rdma_read before the Read"},
            {"device", "rxe0"},
            {"region", 2},
            {"region_length", 4096},
            {"offset", 64},
            {"length", 128},
            {"request",
             {{"words", "RDMA Read of 64 bytes, request 0x1, by process 9 (a)"},
              {"stack", stack("ask (/usr/bin/a+0x20)")}}},
            {"last_sync", nullptr},
            {"registered", stack(registered)},
            {"pid", pid},
            {"suppressed", false},
            {"repeated", 0}};
}

json summary(std::size_t findings) {
    return {{"coherdma", "summary"}, {"findings", findings}, {"suppressed", 3}, {"repeated", 1}};
}

run_result run_of(const std::string &mode, const std::string &log) {
    run_result run;
    run.mode = mode;
    read_log(log, 7, run);
    return run;
}

void counts_of_summary(void **) {
    const run_result run =
        run_of("stale", finding("f (/a+0x1)").dump() + "\n" + summary(2).dump() + "\n");
    assert_true(run.played() && run.complete());
    assert_int_equal(run.count(), 2); // one was only counted
    assert_int_equal(run.findings.size(), 1);
    assert_int_equal(run.suppressed(), 3);
    assert_int_equal(run.repeated(), 1);
}

void suppressed_is_no_finding(void **) {
    json known = finding("f (/a+0x1)");
    known["suppressed"] = true;
    const run_result run = run_of("stale", known.dump() + "\n" + summary(0).dump() + "\n");
    assert_int_equal(run.count(), 0);
    assert_true(run.complete());
}

void killed_is_not_complete(void **) {
    assert_true(run_result{}.complete() && !run_result{}.played());
    assert_true(run_of("stale", "").played());
    assert_false(run_of("stale", "").complete());
    const run_result cut = run_of("stale", finding("f (/a+0x1)").dump() + "\n{\"coherdma\": \"fin");
    assert_false(cut.complete());
    assert_int_equal(cut.count(), 1);
}

void nonsense_is_not_complete(void **) {
    json without = finding("f (/a+0x1)");
    without.erase("offset");
    for (const std::string &line :
         {std::string("[]"), std::string("{}"), std::string("\xff"), without.dump()}) {
        const run_result run = run_of("stale", line + "\n" + summary(0).dump() + "\n");
        assert_false(run.complete());
        assert_int_equal(run.findings.size(), 0);
    }
}

void places_join_modes(void **) {
    const std::string one = finding("f (/usr/bin/a+0x1)").dump() + "\n";
    json later = finding("f (/usr/bin/a+0x1)", 8);
    later["offset"] = 0;
    later["request"]["words"] = "RDMA Read of 64 bytes, request 0x2, by process 10 (a)";
    const std::string other = finding("g (/usr/bin/a+0x9)").dump() + "\n";
    const std::vector<place> all =
        places_of({run_of("stale", other + one), run_of("poison", one + later.dump() + "\n")});
    assert_int_equal(all.size(), 2);
    assert_string_equal(all[0].registered_at.front().c_str(), "f (/usr/bin/a+0x1)");
    assert_int_equal(all[0].times, 3);
    assert_int_equal(all[0].by.at("poison"), 2);
    assert_int_equal(all[0].begin, 0);
    assert_int_equal(all[0].end, 192);
    assert_int_equal(all[1].times, 1);
    assert_int_equal(all[1].registered_at.size(), 2);
}

void lines_have_80_columns(void **) {
    json long_one = finding("f" + std::string(200, 'x') + " (/usr/bin/a+0x1)");
    long_one["registered"][0] = "a\33[2J name with blanks " + std::string(90, 'y') + " (/b+0x2)";
    const std::string table = as_table({run_of("evict:18446744073709551615", long_one.dump())});
    std::istringstream lines(table);
    for (std::string line; std::getline(lines, line);)
        assert_true(line.size() <= 80);
    assert_null(std::strchr(table.c_str(), '\33'));
    assert_non_null(std::strstr(
        table.c_str(), "  request     RDMA Read of 64 bytes\n              ask (a+0x20)\n"));
}

void json_has_all(void **) {
    const json all = json::parse(
        as_json({run_of("stale", finding("f (/a+0x1)").dump() + "\n"), run_result{}}, 5));
    assert_int_equal(all.at("schema").get<int>(), 1);
    assert_int_equal(all.at("status").get<int>(), 5);
    assert_true(all.at("runs").at(0).at("findings").at(0).at("kind") == "unsynced-read");
    assert_false(all.at("runs").at(0).at("complete").get<bool>());
    assert_false(all.at("runs").at(1).at("played").get<bool>());
    assert_int_equal(all.at("places").at(0).at("by").at("stale").get<int>(), 1);
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(counts_of_summary),      cmocka_unit_test(suppressed_is_no_finding),
        cmocka_unit_test(killed_is_not_complete), cmocka_unit_test(nonsense_is_not_complete),
        cmocka_unit_test(places_join_modes),      cmocka_unit_test(lines_have_80_columns),
        cmocka_unit_test(json_has_all),
    };
    return cmocka_run_group_tests_name("emulate", tests, nullptr, nullptr);
}

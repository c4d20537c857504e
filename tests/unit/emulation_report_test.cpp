// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// A finding in words, for people and programs; the frames in it; and whether it is suppressed.

#include "core/report.hpp"
#include "core/suppressions.hpp"
#include "emulation_finding.hpp"

#include <algorithm>
#include <search.h>

using namespace emulation_test;
using nlohmann::json;

namespace {

void text(void **) {
    finding one = some();
    assert_string_equal(as_text(one).c_str(),
                        "coherdma: UNSYNCED WRITE: rxe0 region 3, bytes 128..255 of 4096\n"
                        "  a peer writes lines that this program has changed and not synced\n"
                        "  missing: sync_rdma_write before the Write\n"
                        "  from byte 130 (0x7f0000001082):\n"
                        "  program  61 62 00  |ab.|\n"
                        "  device   00 01 02  |...|\n"
                        "  request: RDMA Write of 64 bytes, request 7, of process 123 (rping)\n"
                        "    at main (/usr/bin/rping+0x1234)\n"
                        "    at ?? (/lib/libc.so.6+0x5)\n"
                        "  last sync: none\n");
    one.agreed = {1, 'c', 'd'};
    one.request = {};
    one.last_sync.words = "sync_rdma_read";
    one.last_sync.where = trace::here();
    const std::string more = as_text(one);
    assert_true(times(more, "  agreed   01 63 64  |.cd|\n") == 1);
    assert_true(times(more, "request") == 0);
    assert_true(times(more, "  last sync: sync_rdma_read\n    at ") == 1);
}

void text_of_each_kind(void **) {
    for (const kind each : KINDS) {
        finding one = some(each);
        one.program.assign(16, 0xff);
        one.device.assign(16, 0);
        one.agreed.assign(16, 'x');
        std::istringstream lines(as_text(one));
        std::string title = "coherdma: " + std::string(name_of(each));
        std::transform(title.begin() + 10, title.end(), title.begin() + 10,
                       [](char of) { return of == '-' ? ' ' : static_cast<char>(of - 32); });
        std::string line;
        std::getline(lines, line);
        assert_int_equal(line.compare(0, title.size(), title), 0);
        do
            if (line.size() > 80)
                fail_msg("more than 80 columns: %s", line.c_str());
        while (std::getline(lines, line));
        const std::string all = as_text(one);
        assert_true(times(all, "missing: ") == (each == kind::REDUNDANT ? 0 : 1));
        assert_true(times(all, missing_for(each)) >= 1);
        assert_int_equal(times(all, "?"), 2); // of the frame: no kind without a sentence
    }
}

void a_terminal_is_safe(void **) {
    finding one = some();
    one.request.words = "\x1b[2J\n";
    one.request.there = {"a\rb"};
    one.in.device = "\x1b";
    for (const char each : as_text(one))
        assert_true(each == '\n' || (each >= ' ' && each <= '~'));
}

void lines_may_begin_before_their_region(void **) {
    finding one = some();
    one.in.where.begin += 0x90;
    assert_true(times(as_text(one), "bytes -16..111 of 3952") == 1);
    assert_int_equal(json::parse(as_json(one, {}))["offset"].get<int>(), -16);
}

void as_a_line_of_json(void **) {
    finding one = some();
    one.last_sync.words = "sync_rdma_read";
    one.last_sync.where = trace::here();
    const std::string line = as_json(one, {true, 4});
    assert_int_equal(times(line, "\n"), 1);
    assert_int_equal(line.back(), '\n');
    json all = json::parse(line);
    assert_true(all["last_sync"]["stack"].size() >= 1);
    all["last_sync"]["stack"] = json::array();
    const json wanted = {
        {"coherdma", "finding"},
        {"kind", "unsynced-write"},
        {"missing", "sync_rdma_write before the Write"},
        {"device", "rxe0"},
        {"region", 3},
        {"region_begin", "0x7f0000001000"},
        {"region_length", 4096},
        {"rkey", 0x1234},
        {"begin", "0x7f0000001080"},
        {"offset", 128},
        {"length", 128},
        {"first", "0x7f0000001082"},
        {"first_offset", 130},
        {"program", "616200"},
        {"device_bytes", "000102"},
        {"agreed", nullptr},
        {"request",
         {{"words", "RDMA Write of 64 bytes, request 7, of process 123 (rping)"},
          {"stack", {"main (/usr/bin/rping+0x1234)", "?? (/lib/libc.so.6+0x5)"}}}},
        {"last_sync", {{"words", "sync_rdma_read"}, {"stack", json::array()}}},
        {"registered", json::array()},
        {"pid", getpid()},
        {"suppressed", true},
        {"repeated", 4},
    };
    assert_string_equal(all.dump(1).c_str(), wanted.dump(1).c_str());
    assert_true(json::parse(as_json(some(kind::REDUNDANT), {}))["missing"].is_null());
}

void json_of_any_bytes(void **) {
    finding one = some();
    one.request.words = "a \"quoted\" \\ \n\t\x01 name \xff\xfe \xc3\xa4";
    const json all = json::parse(as_json(one, {}));
    assert_string_equal(all["request"]["words"].get<std::string>().c_str(),
                        "a \"quoted\" \\ \n\t\x01 name \xef\xbf\xbd\xef\xbf\xbd \xc3\xa4");
}

void suppressions_match(void **) {
    const struct {
        const char *line;
        bool matches;
    } cases[] = {
        {"*", true},
        {"unsynced-write", true},
        {"unsynced-read", false},
        {"*:rxe?", true},
        {"*:siw*", false},
        {"unsynced-write:rxe0:main", true},
        {"unsynced-write::main", true},
        {" unsynced-write : rxe0 : ma* ", true},
        {"unsynced-write:rxe0:mai", false},
        {"*:*:libc.so*", true}, // a function without a name
        {"*:*:rping", false},   // of one that has a name
        {"*:*:a::b(int)", true},
        {"*:*:no::*", false},
    };
    finding one = some();
    one.last_sync.words = "sync_rdma_read";
    one.last_sync.there = {"a::b(int) (/usr/lib/x (1).so+0x1)"};
    for (const auto &each : cases) {
        const suppressions known = parse_suppressions(each.line, "known");
        assert_int_equal(known.problems.size(), 0);
        if (known.match(one) != each.matches)
            fail_msg("%s", each.line);
    }
    assert_false(suppressions{}.match(one));
}

void suppressions_that_cannot_be(void **) {
    assert_int_equal(parse_suppressions("\n# nothing\n\n", "x").lines.size(), 0);
    const suppressions bad = parse_suppressions("stale\n:rxe0\n", "x");
    assert_int_equal(bad.lines.size(), 1);
    assert_string_equal(bad.problems.at(0).c_str(),
                        "x:2: '' is no kind of finding, as unsynced-read, nor *");
    assert_string_equal(read_suppressions("/no/such").problems.at(0).c_str(),
                        "cannot read /no/such: No such file or directory");
    const file large(std::string(65537, '#'));
    assert_true(times(read_suppressions(large.name()).problems.at(0), "larger") == 1);
    const std::string nonsense(1 << 16, '\n');
    assert_true(parse_suppressions("x\n" + nonsense, "x").problems.size() == 1);
    std::string many;
    for (int each = 0; each < 1000; ++each)
        many += "x\n";
    assert_true(parse_suppressions(many, "x").problems.size() < 20);
}

trace in_a_callback;

int note_where(const void *, const void *) {
    in_a_callback = trace::here();
    return 0;
}

[[gnu::noinline]] void called_back() {
    const int one = 1;
    std::size_t count = 1;
    assert_non_null(lfind(&one, &one, &count, sizeof(one), note_where));
}

/// All that is linked into this program is the module, to it: libc is the first that is not.
void traces_begin_outside(void **) {
    called_back();
    assert_true(in_a_callback.depth >= 2);
    const std::vector<std::string> words = in_words(in_a_callback);
    assert_int_equal(words.size(), in_a_callback.depth);
    assert_int_equal(words[0].compare(0, 7, "lfind ("), 0);
    assert_true(first_of_program(in_a_callback) == in_a_callback.at[0]);
    assert_true(first_of_program(trace{}) == nullptr);
    assert_int_equal(in_words(trace{}).size(), 0);
}

/// A file's name and an offset that addr2line understands.
void traces_have_lines(void **) {
    called_back();
    const std::vector<std::string> words = in_words(in_a_callback);
    const auto own = std::find_if(words.begin(), words.end(), [](const std::string &each) {
        return each.find("/emulation_report_test+0x") != std::string::npos;
    });
    assert_true(own != words.end());
    const std::size_t file = own->rfind(" (") + 2, plus = own->rfind('+');
    const std::string ask = "addr2line -f -e " + own->substr(file, plus - file) + " " +
                            own->substr(plus + 1, own->size() - plus - 2);
    FILE *const answer = popen(ask.c_str(), "r");
    assert_non_null(answer);
    std::array<char, 4096> line{};
    assert_non_null(std::fgets(line.data(), line.size(), answer));
    pclose(answer);
    assert_non_null(std::strstr(line.data(), "called_back"));
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(text),
        cmocka_unit_test(text_of_each_kind),
        cmocka_unit_test(a_terminal_is_safe),
        cmocka_unit_test(lines_may_begin_before_their_region),
        cmocka_unit_test(as_a_line_of_json),
        cmocka_unit_test(json_of_any_bytes),
        cmocka_unit_test(suppressions_match),
        cmocka_unit_test(suppressions_that_cannot_be),
        cmocka_unit_test(traces_begin_outside),
        cmocka_unit_test(traces_have_lines),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}

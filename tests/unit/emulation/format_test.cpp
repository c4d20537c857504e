// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// A finding as text and as JSON, its stack frames, and suppressions.

#include "core/findings/format.hpp"
#include "reports/suppressions.hpp"
#include "reports/symbols.hpp"
#include "sample_finding.hpp"

#include <algorithm>
#include <atomic>
#include <dlfcn.h>
#include <filesystem>
#include <search.h>
#include <unistd.h>

using namespace emulation_test;
using namespace coherdma::reports;
using nlohmann::json;
namespace fs = std::filesystem;

namespace {

void text_has_all_parts(void **) {
    finding sample = sample_finding();
    assert_string_equal(as_text(sample).c_str(),
                        "coherdma: insert coherdma_sync_before_write(device, &range, 1);\n"
                        "  between the registration and the peer's RDMA Write\n"
                        "coherdma: UNSYNCED WRITE: rxe0 region 3, bytes 128..255 of 4096\n"
                        "  a peer writes lines that this program has changed and not synced\n"
                        "  missing: sync before the Write\n"
                        "  from byte 130 (0x7f0000001082):\n"
                        "  program  61 62 00  |ab.|\n"
                        "  device   00 01 02  |...|\n"
                        "  request: RDMA Write of 64 bytes, request 7, of process 123 (rping)\n"
                        "    at main (/usr/bin/rping+0x1234)\n"
                        "    at ?? (/lib/libc.so.6+0x5)\n"
                        "  last sync: none\n"
                        "  suppress: unsynced-write:rxe0:main\n");
    sample.last_equal_bytes = {1, 'c', 'd'};
    sample.request = {};
    sample.last_sync.text = "sync_writeback";
    sample.last_sync.stack = stack_trace::capture();
    const std::string with_sync = as_text(sample);
    assert_true(count_of(with_sync, "  equal    01 63 64  |.cd|\n") == 1);
    assert_true(count_of(with_sync, "request") == 0);
    assert_true(count_of(with_sync, "  last sync: sync_writeback\n    at ") == 1);
}

void text_of_each_kind_fits_80_columns(void **) {
    for (const finding_kind kind : ALL_KINDS) {
        finding sample = sample_finding(kind);
        sample.program_bytes.assign(16, 0xff);
        sample.device_bytes.assign(16, 0);
        sample.last_equal_bytes.assign(16, 'x');
        std::istringstream lines(as_text(sample));
        std::string title = "coherdma: " + std::string(kind_name(kind));
        std::transform(title.begin() + 10, title.end(), title.begin() + 10,
                       [](char c) { return c == '-' ? ' ' : static_cast<char>(c - 32); });
        std::string line;
        for (const char *const skipped : {"coherdma: insert", "  between"}) // if a call is missing
            if (as_text(sample).find(skipped) != std::string::npos)
                std::getline(lines, line);
        std::getline(lines, line);
        assert_int_equal(line.compare(0, title.size(), title), 0);
        do
            if (line.size() > 80)
                fail_msg("more than 80 columns: %s", line.c_str());
        while (std::getline(lines, line));
        const std::string text = as_text(sample);
        assert_true(count_of(text, "missing: ") == (kind == finding_kind::REDUNDANT ? 0 : 1));
        assert_true(count_of(text, missing_sync(kind)) >= 1);
        assert_true(count_of(text, "insert ") == 1 || kind == finding_kind::SHARED_LINE ||
                    kind == finding_kind::BESIDE || kind == finding_kind::REDUNDANT);
        assert_int_equal(count_of(text, "?"), 2); // in the frame only: each kind has its text
    }
}

void control_characters_are_escaped(void **) {
    finding sample = sample_finding();
    sample.request.text = "\x1b[2J\n";
    sample.request.peer_stack = {"a\rb"};
    sample.mr.device_name = "\x1b";
    for (const char c : as_text(sample))
        assert_true(c == '\n' || (c >= ' ' && c <= '~'));
}

/// U+009B is a control sequence introducer, in UTF-8 c2 9b. Other characters stay.
void utf8_control_characters_are_escaped(void **) {
    const finding sample = sample_finding();
    advice given = advice_for(sample);
    const std::string text = "caf\xc3\xa9 \xe2\x80\x9b \xc2\xa0 \xc2\x9b 2J \xc2";
    given.region_name = text;
    given.after.source = {{7, text}};
    const std::string shown = coherdma::emulation::as_text(sample, given);
    assert_int_equal(count_of(shown, "\xc2\x9b"), 0);
    assert_int_equal(count_of(shown, "caf\xc3\xa9 \xe2\x80\x9b \xc2\xa0 ? 2J"), 2);
}

void offset_before_mr_is_negative(void **) {
    finding sample = sample_finding();
    sample.mr.range.begin += 0x90;
    assert_true(count_of(as_text(sample), "bytes -16..111 of 3952") == 1);
    assert_int_equal(json::parse(as_json(sample, {}))["offset"].get<int>(), -16);
}

void json_is_one_line_with_all_members(void **) {
    finding sample = sample_finding();
    sample.last_sync.text = "sync_writeback";
    sample.last_sync.stack = stack_trace::capture();
    const std::string line = as_json(sample, {true, 4});
    assert_int_equal(count_of(line, "\n"), 1);
    assert_int_equal(line.back(), '\n');
    json object = json::parse(line);
    assert_true(object["last_sync"]["stack"].size() >= 1);
    object["last_sync"]["stack"] = json::array();
    const json expected = {
        {"coherdma", "finding"},
        {"kind", "unsynced-write"},
        {"certainty", "certain"},
        {"doubt", nullptr},
        {"missing", "sync before the Write"},
        {"insert",
         {{"text", "coherdma: insert coherdma_sync_before_write(device, &range, 1); between the "
                   "registration and the peer's RDMA Write"},
          {"call", "coherdma_sync_before_write(device, &range, 1)"},
          {"place", nullptr},
          {"function", ""},
          {"file", nullptr},
          {"line", nullptr},
          {"before_event", nullptr}}},
        {"after",
         {{"description", "the registration"},
          {"function", ""},
          {"file", nullptr},
          {"line", nullptr},
          {"stack", json::array()},
          {"source", json::array()}}},
        {"before",
         {{"description", "the peer's RDMA Write"},
          {"function", ""},
          {"file", nullptr},
          {"line", nullptr},
          {"stack", json::array()},
          {"source", json::array()}}},
        {"device", "rxe0"},
        {"region", 3},
        {"region_name", nullptr},
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
        {"last_equal", nullptr},
        {"request",
         {{"description", "RDMA Write of 64 bytes, request 7, of process 123 (rping)"},
          {"stack", {"main (/usr/bin/rping+0x1234)", "?? (/lib/libc.so.6+0x5)"}}}},
        {"last_sync", {{"description", "sync_writeback"}, {"stack", json::array()}}},
        {"registered", json::array()},
        {"pid", getpid()},
        {"suppressed", true},
        {"suppression", "unsynced-write:rxe0:main"},
        {"repeated", 4},
        {"line_size", 64},
        {"history", json::array()},
    };
    assert_string_equal(object.dump(1).c_str(), expected.dump(1).c_str());
    assert_true(
        json::parse(as_json(sample_finding(finding_kind::REDUNDANT), {}))["missing"].is_null());
}

void json_replaces_invalid_utf8(void **) {
    finding sample = sample_finding();
    sample.request.text = "a \"quoted\" \\ \n\t\x01 name \xff\xfe \xc3\xa4";
    const json object = json::parse(as_json(sample, {}));
    assert_string_equal(object["request"]["description"].get<std::string>().c_str(),
                        "a \"quoted\" \\ \n\t\x01 name \xef\xbf\xbd\xef\xbf\xbd \xc3\xa4");
}

void suppression_patterns_match(void **) {
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
        {"*:*:libc.so*", true}, // a frame without a function name
        {"*:*:rping", false},   // of a frame with a function name
        {"*:*:a::b(int)", true},
        {"*:*:no::*", false},
    };
    finding sample = sample_finding();
    sample.last_sync.text = "sync_writeback";
    sample.last_sync.peer_stack = {"a::b(int) (/usr/lib/x (1).so+0x1)"};
    for (const auto &tested : cases) {
        const suppressions rules = parse_suppressions(tested.line, "known", kind_names());
        assert_int_equal(rules.problems.size(), 0);
        if (rules.matches(kind_name(sample.kind), sample.mr.device_name, all_frames_of(sample)) !=
            tested.matches)
            fail_msg("%s", tested.line);
    }
    assert_false(suppressions{}.matches(kind_name(sample.kind), sample.mr.device_name,
                                        all_frames_of(sample)));
}

void invalid_suppressions_are_reported(void **) {
    assert_int_equal(parse_suppressions("\n# nothing\n\n", "x", kind_names()).rules.size(), 0);
    const suppressions invalid = parse_suppressions("stale\n:rxe0\n", "x", kind_names());
    assert_int_equal(invalid.rules.size(), 1);
    assert_string_equal(invalid.problems.at(0).c_str(),
                        "x:2: '' is not a kind of finding (such as unsynced-read), nor *");
    assert_string_equal(read_suppressions("/nonexistent", kind_names()).problems.at(0).c_str(),
                        "cannot read /nonexistent: No such file or directory");
    const temp_file large_file(std::string(65537, '#'));
    assert_true(
        count_of(read_suppressions(large_file.name(), kind_names()).problems.at(0), "larger") == 1);
    const std::string blank_lines(1 << 16, '\n');
    assert_true(parse_suppressions("x\n" + blank_lines, "x", kind_names()).problems.size() == 1);
    std::string many_lines;
    for (int i = 0; i < 1000; ++i)
        many_lines += "x\n";
    assert_true(parse_suppressions(many_lines, "x", kind_names()).problems.size() < 20);
}

stack_trace callback_stack;

int record_stack(const void *, const void *) {
    callback_stack = stack_trace::capture();
    return 0;
}

int callback_line = 0, inline_call_line = 0;

[[gnu::always_inline]] inline void run_callback() {
    const int value = 1;
    std::size_t count = 1;
    callback_line = __LINE__ + 1;
    assert_non_null(lfind(&value, &value, &count, sizeof(value), record_stack));
}

[[gnu::noinline]] void call_inline_function() {
    inline_call_line = __LINE__ + 1;
    run_callback();
    std::atomic_signal_fence(std::memory_order_seq_cst); // no tail call
}

/// "function (/.../format_test.cpp:line)"; with -ffile-prefix-map, as in package builds, the path
/// is relative to the source tree.
void assert_frame(const std::string &frame, const std::string &function, int line) {
    const std::string file = "tests/unit/emulation/format_test.cpp:" + std::to_string(line) + ")";
    assert_true(frame.find(function) != std::string::npos);
    assert_true(frame.ends_with(" (" + file) ||
                (frame.find(" (/") != std::string::npos && frame.ends_with("/" + file)));
}

/// Everything linked into this program counts as the module; libc is the first frame outside.
void stack_begins_outside_of_module(void **) {
    call_inline_function();
    assert_true(callback_stack.depth >= 2);
    const std::vector<std::string> frames = to_strings(callback_stack);
    assert_true(frames[0].find("lfind (") != std::string::npos);
    assert_true(first_program_frame(callback_stack) == callback_stack.frames[0]);
    assert_true(first_program_frame(stack_trace{}) == nullptr);
    assert_int_equal(to_strings(stack_trace{}).size(), 0);
}

void stack_has_source_lines_of_static_and_inlined_functions(void **) {
    const int line = __LINE__ + 1;
    call_inline_function();
    const std::vector<std::string> frames = to_strings(callback_stack);
    assert_true(frames.size() > 4);
#ifdef __clang__ // with -g1 it records lines, but no inlined functions
    assert_frame(frames[1], "call_inline_function", callback_line);
    assert_frame(frames[2], "stack_has_source_lines_of_static_and_inlined_functions", line);
#else
    assert_frame(frames[1], "run_callback", callback_line);
    assert_frame(frames[2], "call_inline_function", inline_call_line);
    assert_frame(frames[3], "stack_has_source_lines_of_static_and_inlined_functions", line);
#endif
    assert_true(frames.back().starts_with("main ("));
}

/// A copy of libcmocka as the library of this name, and code in it.
class named_library {
  public:
    explicit named_library(const char *name) {
        Dl_info original;
        assert_true(dladdr(reinterpret_cast<void *>(&_cmocka_run_group_tests), &original) != 0);
        assert_non_null(mkdtemp(folder_.data()));
        const std::string copy = folder_ + "/" + name;
        assert_true(fs::copy_file(original.dli_fname, copy));
        handle_ = dlopen(copy.c_str(), RTLD_NOW | RTLD_LOCAL);
        assert_non_null(handle_);
    }
    ~named_library() {
        dlclose(handle_);
        fs::remove_all(folder_);
    }
    named_library(const named_library &) = delete;
    named_library &operator=(const named_library &) = delete;

    [[nodiscard]] void *code() const {
        return static_cast<char *>(dlsym(handle_, "_cmocka_run_group_tests")) + 1;
    }

  private:
    std::string folder_ = "/tmp/coherdma-library.XXXXXX";
    void *handle_ = nullptr;
};

/// The return address of a call in main(); in the program, not in a library.
void *code_of_program() {
    return reinterpret_cast<char *>(&record_stack) + 1;
}

void stack_begins_outside_of_middleware(void **) {
    for (const char *const name : {"libucp.so.0", "libfabric.so.1", "libmpi.so.40",
                                   "mca_pml_ucx.so", "librpma.so.0", "libibverbs.so.1"}) {
        const named_library library(name);
        stack_trace trace;
        trace.depth = 3;
        trace.frames = {library.code(), library.code(), code_of_program()};
        assert_true(first_program_frame(trace) == code_of_program());
        // Clang names the namespace, too.
        assert_true(to_strings(trace).front().find("record_stack") != std::string::npos);
    }
    const named_library other("libmine.so");
    stack_trace trace;
    trace.depth = 2;
    trace.frames = {other.code(), code_of_program()};
    assert_true(first_program_frame(trace) == other.code());
}

void program_is_in_the_stack_above_deep_middleware(void **) {
    const named_library library("libucp.so.0");
    for (const std::size_t depth : {2U, 23U, 24U, 25U, 100U}) {
        std::vector<void *> calls(depth, library.code());
        calls.insert(calls.end(), 3, code_of_program());
        const stack_trace trace = stack_trace::of_calls(calls.data(), calls.data() + calls.size());
        assert_true(first_program_frame(trace) == code_of_program());
        assert_int_equal(to_strings(trace).size(), 3);
    }
    const std::vector<void *> deep_program(100, code_of_program());
    assert_int_equal(stack_trace::of_calls(deep_program.data(), deep_program.data() + 100).depth,
                     24);
}

/// As in a thread of the library: libc calls its function.
void stack_within_middleware_is_its_outermost_frame(void **) {
    const named_library library("libucs.so.0");
    stack_trace trace;
    trace.depth = 3;
    trace.frames = {library.code(), static_cast<char *>(library.code()) + 1,
                    static_cast<char *>(dlsym(RTLD_DEFAULT, "pthread_create")) + 1};
    assert_true(first_program_frame(trace) == trace.frames[1]);
    assert_int_equal(to_strings(trace).size(), 1);
}

/// Of libcmocka, unless its debug package is installed.
void frame_without_debug_information_has_file_and_offset(void **) {
    const auto *const code =
        static_cast<const char *>(dlsym(RTLD_DEFAULT, "_cmocka_run_group_tests"));
    assert_non_null(code);
    const std::vector<std::string> frames = describe_call(code + 1);
    assert_int_equal(frames.size(), 1);
    if (frames[0].find(".c:") != std::string::npos)
        skip();
    assert_true(frames[0].starts_with("_cmocka_run_group_tests (/"));
    assert_true(frames[0].find("/libcmocka.so") != std::string::npos);
    assert_true(frames[0].find("+0x") != std::string::npos);
    int on_stack = 0;
    const std::vector<std::string> no_code = describe_call(&on_stack);
    assert_int_equal(no_code.size(), 1);
    assert_true(no_code[0].starts_with("?? (0x"));
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(text_has_all_parts),
        cmocka_unit_test(text_of_each_kind_fits_80_columns),
        cmocka_unit_test(control_characters_are_escaped),
        cmocka_unit_test(utf8_control_characters_are_escaped),
        cmocka_unit_test(offset_before_mr_is_negative),
        cmocka_unit_test(json_is_one_line_with_all_members),
        cmocka_unit_test(json_replaces_invalid_utf8),
        cmocka_unit_test(suppression_patterns_match),
        cmocka_unit_test(invalid_suppressions_are_reported),
        cmocka_unit_test(stack_begins_outside_of_module),
        cmocka_unit_test(stack_has_source_lines_of_static_and_inlined_functions),
        cmocka_unit_test(stack_begins_outside_of_middleware),
        cmocka_unit_test(program_is_in_the_stack_above_deep_middleware),
        cmocka_unit_test(stack_within_middleware_is_its_outermost_frame),
        cmocka_unit_test(frame_without_debug_information_has_file_and_offset),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}

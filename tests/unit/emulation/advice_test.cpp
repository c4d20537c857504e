// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What a finding advises: the call to insert, where, the name of the memory, and its suppression.

#include "core/findings/advice.hpp"
#include "reports/suppressions.hpp"
#include "reports/symbols.hpp"
#include "sample_finding.hpp"

#include <atomic>
#include <search.h>

using namespace emulation_test;
using namespace coherdma::reports;
using nlohmann::json;

/// What a debugger names by its symbol, too.
unsigned char global_inbox[256] = {1};

namespace {

unsigned char static_outbox[64] = {1};
using frame_list = std::vector<std::string>;

void frames_are_those_of_a_common_function(void **) {
    const naming_frames result =
        find_naming_frames({"reg (/src/a.c:5)", "work (/src/a.c:40)", "main (/src/a.c:90)"},
                           {"post (/src/a.c:9)", "work (/src/a.c:44)", "main (/src/a.c:90)"});
    assert_int_equal(result.after, 1);
    assert_int_equal(result.before, 1);
    const naming_frames callback =
        find_naming_frames({"f (/src/a.c:5)", "run (/lib/x.so+0x1)", "main (/src/a.c:90)"},
                           {"f (/src/a.c:7)", "run (/lib/x.so+0x1)", "main (/src/a.c:90)"});
    assert_int_equal(callback.after + callback.before, 0);
    const naming_frames loop = find_naming_frames({"main (/src/a.c:90)"}, {"main (/src/a.c:90)"});
    assert_int_equal(loop.after + loop.before, 0);
}

void frames_of_other_functions_are_the_innermost(void **) {
    const naming_frames result =
        find_naming_frames({"?? (/lib/x.so+0x1)", "reg (/src/a.c:5)", "one (/src/a.c:6)"},
                           {"post (/src/b.c:9)", "two (/src/b.c:8)"});
    assert_int_equal(result.after, 1);
    assert_int_equal(result.before, 0);
    const naming_frames none = find_naming_frames({"?? (/lib/x.so+0x1)"}, {});
    assert_int_equal(none.after + none.before, 0);
}

stack_trace captured;
int capture_stack(const void *, const void *) {
    captured = stack_trace::capture();
    return 0;
}

/// The stack of the caller: by way of libc, since this program counts as the module.
[[gnu::noinline]] stack_trace capture_caller() {
    constexpr int NUM_SKIPPED = 2; // lfind() and this function
    const int value = 1;
    std::size_t count = 1;
    assert_non_null(lfind(&value, &value, &count, sizeof(value), capture_stack));
    std::copy(captured.frames.begin() + NUM_SKIPPED, captured.frames.end(),
              captured.frames.begin());
    captured.depth -= NUM_SKIPPED;
    return captured;
}

finding with_places(int &after_line, int &before_line) {
    finding sample = sample_finding(finding_kind::STALE);
    sample.after.text = "the completion polled";
    after_line = __LINE__ + 1;
    sample.after.stack = capture_caller();
    sample.before.text = "the sync";
    before_line = __LINE__ + 1;
    sample.before.stack = capture_caller();
    return sample;
}

/// The first line of a finding: where, what; then between which calls; then the source there.
void call_is_named_with_its_place_and_source(void **) {
    int after_line = 0, before_line = 0;
    const finding sample = with_places(after_line, before_line);
    const std::string text = as_text(sample);
    const std::string first = text.substr(0, text.find('\n'));
    const std::string after = "advice_test.cpp:" + std::to_string(after_line),
                      before = "advice_test.cpp:" + std::to_string(before_line);
    assert_true(first.ends_with(after + ": insert coherdma_sync_after_write(device, &range, 1);"));
    const json object = json::parse(as_json(sample));
    const std::string sentence = object["insert"]["text"];
    assert_true(sentence.ends_with("between the completion polled at " + after +
                                   " and the sync at " + before));
    assert_int_equal(object["insert"]["line"].get<int>(), after_line);
    assert_int_equal(object["after"]["line"].get<int>(), after_line);
    assert_int_equal(object["before"]["line"].get<int>(), before_line);
    assert_string_equal(object["before"]["function"].get<std::string>().substr(0, 40).c_str(),
                        object["after"]["function"].get<std::string>().substr(0, 40).c_str());
    if (object["after"]["source"].empty())
        skip(); // the source is not where it was compiled
    assert_int_equal(object["after"]["source"].size(), 3);
    assert_int_equal(object["after"]["source"][1]["line"].get<int>(), after_line);
    assert_int_equal(count_of(text, "  >" + std::string(after_line < 100 ? 3 : 2, ' ') +
                                        std::to_string(after_line) +
                                        "      sample.after.stack = capture_caller();\n"),
                     1);
    assert_int_equal(count_of(text, "   ...\n"), 1);
}

/// A sync before a request belongs beside the request, if that is a call of this process.
void place_of_each_kind_is_the_nearer_call(void **) {
    int after_line = 0, before_line = 0;
    finding sample = with_places(after_line, before_line);
    assert_int_equal(advice_for(sample).frame.line, after_line);
    sample.kind = finding_kind::UNSYNCED_READ;
    assert_int_equal(advice_for(sample).frame.line, before_line);
    sample.before = {"the peer's RDMA Read", {}, {}};
    assert_int_equal(advice_for(sample).frame.line, after_line);
    assert_true(advice_for(sample).interval.ends_with(" and the peer's RDMA Read"));
    sample.after = {};
    assert_string_equal(advice_for(sample).interval.c_str(), "before the peer's RDMA Read");
    sample.before = {};
    assert_string_equal(advice_for(sample).interval.c_str(), "");
    assert_string_equal(advice_for(sample).first_line().c_str(),
                        "coherdma: insert coherdma_sync_before_read(device, &range, 1);");
}

void calls_at_one_place_are_rounds_of_a_loop(void **) {
    finding sample = sample_finding(finding_kind::STALE);
    sample.after = {"the completion polled", capture_caller(), {}};
    sample.before = {"the sync", sample.after.stack, {}};
    assert_true(advice_for(sample).interval.ends_with(" and the next sync there"));
}

void call_of_each_kind_exists(void **) {
    const std::pair<finding_kind, const char *> calls[] = {
        {finding_kind::UNSYNCED_READ, "coherdma_sync_before_read(device, &range, 1)"},
        {finding_kind::UNSYNCED_WRITE, "coherdma_sync_before_write(device, &range, 1)"},
        {finding_kind::STALE, "coherdma_sync_after_write(device, &range, 1)"},
        {finding_kind::CONFLICT, "coherdma_sync_after_write(device, &range, 1)"},
        {finding_kind::UNSYNCED_SOURCE,
         "coherdma_sync_for_device(device, &range, 1, COHERDMA_TO_DEVICE)"},
        {finding_kind::UNSYNCED_SINK,
         "coherdma_sync_for_device(device, &range, 1, COHERDMA_FROM_DEVICE)"},
        {finding_kind::STALE_SINK,
         "coherdma_sync_for_cpu(device, &range, 1, COHERDMA_FROM_DEVICE)"},
        {finding_kind::CONFLICT_SINK,
         "coherdma_sync_for_cpu(device, &range, 1, COHERDMA_FROM_DEVICE)"},
        {finding_kind::DISCARDED, "coherdma_sync_before_read(device, &range, 1)"},
        {finding_kind::BESIDE, ""},
        {finding_kind::REDUNDANT, ""},
    };
    for (const auto &[kind, call] : calls)
        assert_string_equal(advice_for(sample_finding(kind)).call.c_str(), call);
}

void variable_names_its_memory(void **) {
    const auto name_of = [](const unsigned char *memory) {
        finding sample = sample_finding();
        const auto begin = reinterpret_cast<std::uintptr_t>(memory);
        sample.mr.range = {begin, begin + 64};
        return advice_for(sample).region_name;
    };
    assert_string_equal(name_of(global_inbox).c_str(), "global_inbox");
    assert_string_equal(name_of(global_inbox + 64).c_str(), "global_inbox+64");
    assert_true(name_of(static_outbox).find("static_outbox") != std::string::npos);
    unsigned char on_stack[64] = {};
    assert_string_equal(name_of(on_stack).c_str(), "");
    assert_string_equal(describe_data(reinterpret_cast<std::uintptr_t>(&capture_stack)).c_str(),
                        "");
    const std::string text = as_text([] {
        finding sample = sample_finding();
        sample.mr.range.begin = reinterpret_cast<std::uintptr_t>(global_inbox);
        return sample;
    }());
    assert_int_equal(count_of(text, "  region 3: global_inbox\n"), 1);
}

struct fake_mr {
    stack_trace stack;
};
[[gnu::noinline]] fake_mr register_memory() {
    const fake_mr mr = {capture_caller()};
    return mr;
}

/// The line that assigns what the function returns; not that of the function, which registers all
/// memory.
void assignment_names_memory_on_the_heap(void **) {
    const int line = __LINE__ + 1;
    const fake_mr heap_inbox = register_memory();
    finding sample = sample_finding();
    sample.mr.reg_stack = heap_inbox.stack;
    const std::string name = advice_for(sample).region_name;
    if (name.empty())
        skip(); // the source is not where it was compiled
    assert_string_equal(name.c_str(), ("const fake_mr heap_inbox = register_memory() (" +
                                       std::string("advice_test.cpp:") + std::to_string(line) + ")")
                                          .c_str());
}

void allocation_names_memory_on_the_heap(void **) {
    finding sample = sample_finding();
    const int line = __LINE__ + 1;
    sample.mr.alloc_stack = capture_caller();
    const std::string name = advice_for(sample).region_name;
    assert_true(name.ends_with("(allocated at advice_test.cpp:" + std::to_string(line) + ")"));
}

/// The line is a rule that matches the finding, whatever characters its names have.
void suppression_matches_its_finding(void **) {
    for (const char *const function :
         {"main", "a::b(int*)", "operator[]", "f()::{lambda()#1}", "std::function<void (int)>"}) {
        finding sample = sample_finding(finding_kind::STALE);
        sample.request.peer_stack = {std::string(function) + " (/src/a.cpp:5)"};
        const std::string line = advice_for(sample).suppression;
        const suppressions rules = parse_suppressions(line, "known", kind_names());
        assert_int_equal(rules.problems.size(), 0);
        assert_int_equal(rules.rules.size(), 1);
        assert_true(
            rules.matches(kind_name(sample.kind), sample.mr.device_name, all_frames_of(sample)));
        sample.request.peer_stack = {"other (/src/a.cpp:5)"};
        assert_false(
            rules.matches(kind_name(sample.kind), sample.mr.device_name, all_frames_of(sample)));
    }
    finding sample = sample_finding(finding_kind::STALE);
    assert_string_equal(advice_for(sample).suppression.c_str(), "stale:rxe0:main");
    sample.request = {};
    assert_string_equal(advice_for(sample).suppression.c_str(), "stale:rxe0");
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(frames_are_those_of_a_common_function),
        cmocka_unit_test(frames_of_other_functions_are_the_innermost),
        cmocka_unit_test(call_is_named_with_its_place_and_source),
        cmocka_unit_test(place_of_each_kind_is_the_nearer_call),
        cmocka_unit_test(calls_at_one_place_are_rounds_of_a_loop),
        cmocka_unit_test(call_of_each_kind_exists),
        cmocka_unit_test(variable_names_its_memory),
        cmocka_unit_test(assignment_names_memory_on_the_heap),
        cmocka_unit_test(allocation_names_memory_on_the_heap),
        cmocka_unit_test(suppression_matches_its_finding),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}

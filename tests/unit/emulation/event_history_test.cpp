// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The history of events, and its part in findings.

#include "core/findings/event_history.hpp"
#include "sample_finding.hpp"

using namespace emulation_test;
using nlohmann::json;

namespace {

using kind = event_kind;

std::vector<std::string> names(const std::vector<const history_event *> &events) {
    std::vector<std::string> result;
    for (const history_event *const event : events)
        result.emplace_back(event_name(event->kind));
    return result;
}

void events_on_the_lines_are_found_oldest_first(void **) {
    event_history history;
    assert_int_equal(history.find_last({0, 64}, 9).size(), 0);
    assert_int_equal(history.last_number(), 0);
    history.add(kind::REG_MR, {0, 256});
    history.add(kind::SYNC_WRITEBACK, {10, 11});
    history.add(kind::SYNC_INVALIDATE, {64, 128});
    history.add(kind::PEER_RDMA_WRITE, {0, 0}); // of no line
    history.add(kind::PEER_RDMA_READ, {0, 256});
    assert_true(names(history.find_last({0, 64}, 9)) ==
                std::vector<std::string>({"reg_mr", "sync_writeback", "peer_rdma_read"}));
    assert_true(names(history.find_last({0, 64}, 2)) ==
                std::vector<std::string>({"sync_writeback", "peer_rdma_read"}));
    assert_int_equal(history.find_last({0, 64}, 9).back()->number, 5);
    assert_int_equal(history.last_number(), 5);
}

void equal_events_are_counted(void **) {
    event_history history;
    const auto add_sync = [&](line_state state) {
        history.add(kind::SYNC_INVALIDATE, {0, 64}).add_line({0, 64}, state);
        history.merge_last();
    };
    for (int i = 0; i < 5; ++i)
        add_sync(line_state::CLEAN);
    add_sync(line_state::STALE);
    add_sync(line_state::STALE);
    history.add(kind::SYNC_WRITEBACK, {0, 64});
    history.merge_last();
    const auto events = history.find_last({0, 64}, 9);
    assert_int_equal(events.size(), 3);
    assert_int_equal(events[0]->count, 5);
    assert_int_equal(events[1]->count, 2);
    assert_int_equal(events[2]->count, 1);
}

/// The history is a ring of CAPACITY events. merge_last() removes the last event if it is equal to
/// the one before.
void oldest_events_are_forgotten(void **) {
    event_history history;
    for (std::size_t i = 0; i < event_history::CAPACITY + 3; ++i)
        history.add(kind::POST_SINK, {i, i + 1});
    assert_int_equal(history.find_last({0, 3}, 9).size(), 0);
    assert_int_equal(history.find_last({3, 4}, 9).size(), 1);
    history.add(kind::EXIT, {0, 1});
    history.add(kind::EXIT, {0, 1});
    history.merge_last(); // the place of the second one is free again
    assert_int_equal(history.find_last({0, 9999}, 9999).size(), event_history::CAPACITY - 1);
    assert_int_equal(history.find_last({0, 1}, 9).size(), 1);
}

/// Adjacent lines in one state are one run; an event has at most 32 runs.
void lines_in_one_state_are_one_run(void **) {
    history_event event;
    for (std::uintptr_t addr = 0; addr < 4 * 64; addr += 64)
        event.add_line({addr, addr + 64}, addr < 128 ? line_state::DIRTY : line_state::CLEAN);
    event.add_line({512, 576}, line_state::CLEAN); // not adjacent
    assert_int_equal(event.runs.size(), 3);
    assert_true(event.runs[0] == (history_event::line_run{{0, 128}, line_state::DIRTY}));
    assert_true(event.runs[1] == (history_event::line_run{{128, 256}, line_state::CLEAN}));
    for (std::uintptr_t addr = 1024; addr < 1024 * 1024; addr += 128)
        event.add_line({addr, addr + 64}, line_state::STALE);
    assert_int_equal(event.runs.size(), 32);
}

/// The CPU's store is seen at the Read, with the state of each line.
void finding_has_the_events_of_its_lines(void **) {
    test_cache cache;
    const program_pages pages(2);
    const auto device = cache.add_unsynced_mr(pages.part(0, PAGE));
    const auto other = cache.add_unsynced_mr(pages.part(PAGE, PAGE));
    const addr_range first_line = pages.part(0, 64), elsewhere = pages.part(PAGE, 64);
    cache->sync_invalidate(&first_line, 1);
    cache->sync_invalidate(&elsewhere, 1);
    mem_access request;
    request.text = "RDMA Read of 128 bytes";
    request.peer_stack = {"ask (/src/peer.c:7)"};
    pages.bytes[70] ^= 1;
    cache->check_peer_rdma_read(pages.part(0, 128), request);
    const auto findings = cache.new_findings();
    assert_int_equal(findings.size(), 1);
    assert_int_equal(findings[0]["line_size"].get<int>(), 64);
    json history = findings[0]["history"]; // of the second line: without the sync of the first
    for (json &event : history) {
        event.erase("time_us");
        event.erase("stack");
    }
    const json expected = {{{"event", "reg_mr"},
                            {"times", 1},
                            {"offset", 0},
                            {"length", PAGE},
                            {"description", nullptr},
                            {"lines", json::array()}},
                           {{"event", "peer_rdma_read"},
                            {"times", 1},
                            {"offset", 0},
                            {"length", 128},
                            {"description", "RDMA Read of 128 bytes"},
                            {"lines", {{{"offset", 64}, {"length", 64}, {"state", "dirty"}}}}}};
    assert_string_equal(history.dump(1).c_str(), expected.dump(1).c_str());
    assert_string_equal(findings[0]["history"][1]["stack"][0].get<std::string>().c_str(),
                        "ask (/src/peer.c:7)");
}

std::vector<std::string> states_in(const json &finding, const std::string &event_name) {
    std::vector<std::string> states;
    for (const json &event : finding["history"])
        if (event["event"] == event_name)
            for (const json &run : event["lines"])
                states.push_back(run["state"]);
    return states;
}

/// The history of a finding has for each event the state of the line before the event moved it.
void events_have_the_states_that_they_find(void **) {
    test_cache cache;
    const program_pages pages(1);
    std::uint32_t mr_number = 0;
    const auto device = cache.add_unsynced_mr(pages.part(0, PAGE), &mr_number);
    const addr_range line = pages.part(0, 64);
    pages.bytes[0] ^= 1;
    cache->writeback_source(line);
    cache->writeback_sink(line);
    *device->copy_of(pages.bytes) ^= 2;
    cache->fetch_sink(line);
    *device->copy_of(pages.bytes) ^= 4;
    cache->sync_writeback(&line, 1);
    pages.bytes[0] ^= 8;
    cache->sync_invalidate(&line, 1); // finds the conflict
    *device->copy_of(pages.bytes) ^= 16;
    cache->remove_mr(mr_number);
    const auto findings = cache.new_findings();
    assert_int_equal(findings.size(), 2);
    const json &last = findings[1];
    const auto is = [&](const char *event, const char *state) {
        return states_in(last, event) == std::vector<std::string>({state});
    };
    assert_true(is("post_source", "dirty") && is("post_sink", "clean") &&
                is("complete_sink", "stale") && is("sync_writeback", "stale") &&
                is("sync_invalidate", "conflict") && is("dereg_mr", "stale"));
}

/// Moves of mode evict are events; lines that stay are not.
void eviction_is_an_event_of_moved_lines(void **) {
    settings config;
    config.mode = cache_mode::EVICT;
    test_cache cache(config);
    const program_pages pages(1);
    std::uint32_t mr_number = 0;
    const auto device = cache.add_unsynced_mr(pages.part(0, 64), &mr_number);
    pages.bytes[0] ^= 1;
    cache->run_background_step();
    *device->copy_of(pages.bytes) ^= 2;
    cache->run_background_step();
    *device->copy_of(pages.bytes) ^= 4;
    cache->remove_mr(mr_number);
    const auto findings = cache.new_findings();
    assert_int_equal(findings.size(), 1);
    std::vector<std::string> events;
    for (const json &event : findings[0]["history"])
        events.push_back(event["event"]);
    assert_true(events ==
                std::vector<std::string>({"reg_mr", "evict_writeback", "evict_fetch", "dereg_mr"}));
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(events_on_the_lines_are_found_oldest_first),
        cmocka_unit_test(equal_events_are_counted),
        cmocka_unit_test(oldest_events_are_forgotten),
        cmocka_unit_test(lines_in_one_state_are_one_run),
        cmocka_unit_test(finding_has_the_events_of_its_lines),
        cmocka_unit_test(events_have_the_states_that_they_find),
        cmocka_unit_test(eviction_is_an_event_of_moved_lines),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}

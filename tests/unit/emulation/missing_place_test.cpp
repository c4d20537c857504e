// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Between which calls a sync is missing, from the order of events.

#include "core/findings/missing_place.hpp"
#include "sample_finding.hpp"

using namespace emulation_test;
using nlohmann::json;

namespace {

using kind = event_kind;

/// A stack that has only this frame.
stack_trace frame(std::uintptr_t number) {
    stack_trace trace;
    trace.depth = 1;
    trace.frames[0] = reinterpret_cast<void *>(number);
    return trace;
}

/// A history of one line, in which call i of the program has frame(i), and its finding.
class one_line {
  public:
    void program(kind call, line_state state) {
        add(call, {"", frame(++num_calls_), {}}).add_line(LINE, state);
    }
    void program(kind call) { add(call, {"", frame(++num_calls_), {}}); }
    void peer_in_this_process(kind request, line_state state) {
        add(request, {"RDMA Write of 8 bytes", frame(++num_calls_), {}}).add_line(LINE, state);
    }
    void peer(kind request, line_state state) {
        add(request, {"RDMA Write of 8 bytes", {}, {"main (/a.c:1)"}}).add_line(LINE, state);
    }
    void event(kind other) { add(other, {}); }

    finding find(finding_kind found_kind, const last_syncs::sync *last_sync = nullptr,
                 const stack_trace *completion = nullptr) const {
        finding result;
        result.kind = found_kind;
        result.range = LINE;
        result.mr.reg_stack = frame(99);
        result.history = history_.find_last(LINE, 32);
        find_missing_place(result, last_sync, completion);
        return result;
    }

  private:
    history_event &add(kind event_kind, const mem_access &access) {
        return history_.add(event_kind, LINE, access);
    }

    static constexpr addr_range LINE = {0, 64};
    event_history history_;
    std::uintptr_t num_calls_ = 0;
};

std::uintptr_t number_of(const mem_access &place) {
    return place.stack.depth == 0 ? 0 : reinterpret_cast<std::uintptr_t>(place.stack.frames[0]);
}

void assert_places(const finding &result, const char *after, std::uintptr_t after_call,
                   const char *before, std::uintptr_t before_call) {
    assert_string_equal(result.after.text.c_str(), after);
    assert_int_equal(number_of(result.after), after_call);
    assert_string_equal(result.before.text.c_str(), before);
    assert_int_equal(number_of(result.before), before_call);
}

constexpr line_state CLEAN = line_state::CLEAN, DIRTY = line_state::DIRTY,
                     STALE = line_state::STALE, CONFLICT = line_state::CONFLICT;

/// The first completion after the Write, and the first call then, not those that follow.
void sync_after_write_is_missing_after_the_completion(void **) {
    one_line line;
    line.program(kind::REG_MR);
    line.program(kind::SYNC_WRITEBACK, CLEAN);
    line.peer(kind::PEER_RDMA_WRITE, CLEAN);
    line.program(kind::SYNC_WRITEBACK, CLEAN); // the data have not arrived yet
    line.program(kind::DATA_RECEIVED);         // call 4
    line.program(kind::SYNC_WRITEBACK, STALE); // call 5
    line.peer(kind::PEER_RDMA_WRITE, STALE);
    line.program(kind::DATA_RECEIVED);
    line.program(kind::DEREG_MR, STALE);
    const finding result = line.find(finding_kind::STALE);
    assert_places(result, "the completion polled", 4, "the sync", 5);
    assert_int_equal(result.missing_before, 5);
}

/// The data arrive, and a call finds them, before the completion is polled: the program could not
/// know of them.
void call_before_the_completion_is_no_place(void **) {
    one_line line;
    line.program(kind::REG_MR);
    line.peer(kind::PEER_RDMA_WRITE, CLEAN);
    line.program(kind::POST_SOURCE, STALE);
    line.program(kind::DATA_RECEIVED);
    line.program(kind::DEREG_MR, STALE);
    assert_places(line.find(finding_kind::STALE), "the completion polled", 3, "the deregistration",
                  4);
}

/// An invalidation between two Writes: the second one is not synced.
void synced_write_is_not_the_place(void **) {
    one_line line;
    line.program(kind::REG_MR);
    line.peer(kind::PEER_RDMA_WRITE, CLEAN);
    line.program(kind::DATA_RECEIVED);
    line.program(kind::SYNC_INVALIDATE, STALE);
    line.peer(kind::PEER_RDMA_WRITE, CLEAN);
    line.program(kind::DATA_RECEIVED); // call 4
    line.event(kind::EXIT);
    assert_places(line.find(finding_kind::STALE), "the completion polled", 4,
                  "the end of the process", 0);
}

/// The states show no change: the order of calls does.
void write_of_the_same_bytes_has_its_place(void **) {
    one_line line;
    line.program(kind::REG_MR);
    line.peer(kind::PEER_RDMA_WRITE, CLEAN);
    line.program(kind::DATA_RECEIVED);
    line.program(kind::POST_SINK, CLEAN);
    assert_places(line.find(finding_kind::STALE), "the completion polled", 2, "the post", 3);
}

void write_without_a_completion_is_after_the_last_call(void **) {
    one_line line;
    line.program(kind::REG_MR);
    line.program(kind::SYNC_WRITEBACK, CLEAN);
    line.program(kind::DEREG_MR, STALE);
    assert_places(line.find(finding_kind::STALE), "the sync", 2, "the deregistration", 3);
    const stack_trace completion = frame(50); // as the recorded write has it
    assert_places(line.find(finding_kind::STALE, nullptr, &completion), "the completion polled", 50,
                  "the deregistration", 3);
}

void conflict_is_found_by_the_next_sync(void **) {
    one_line line;
    line.program(kind::REG_MR);
    line.peer(kind::PEER_RDMA_WRITE, CLEAN);
    line.program(kind::DATA_RECEIVED);
    line.program(kind::SYNC_INVALIDATE, CONFLICT);
    assert_places(line.find(finding_kind::CONFLICT), "the completion polled", 2, "the sync", 3);
}

void sync_before_request_is_missing_after_the_last_call(void **) {
    one_line line;
    line.program(kind::REG_MR);
    line.program(kind::SYNC_WRITEBACK, DIRTY);
    line.peer(kind::PEER_RDMA_WRITE, DIRTY);
    assert_places(line.find(finding_kind::UNSYNCED_WRITE), "the sync", 2, "the peer's RDMA Write",
                  0);
    line.program(kind::REQUEST_SOURCE, DIRTY);
    assert_places(line.find(finding_kind::UNSYNCED_SOURCE), "the sync", 2, "the post", 3);
    one_line loopback;
    loopback.program(kind::REG_MR);
    loopback.peer_in_this_process(kind::PEER_RDMA_WRITE, DIRTY);
    loopback.peer_in_this_process(kind::PEER_RDMA_WRITE, DIRTY);
    assert_places(loopback.find(finding_kind::UNSYNCED_WRITE), "the registration", 1, "the post",
                  3);
}

/// The stack of the event REQUEST_COMPLETE is that of the post.
void completion_of_own_request_is_the_recorded_one(void **) {
    one_line line;
    line.program(kind::REG_MR);
    line.program(kind::REQUEST_SINK, CLEAN);
    line.program(kind::REQUEST_COMPLETE, STALE);
    line.program(kind::SYNC_FOR_DEVICE, STALE);
    const stack_trace completion = frame(50);
    assert_places(line.find(finding_kind::STALE_SINK, nullptr, &completion),
                  "the completion polled", 50, "the sync", 4);
}

/// What the ring of events has forgotten: the last sync if it is later than the registration.
void forgotten_calls_are_the_sync_or_the_registration(void **) {
    one_line line;
    line.peer(kind::PEER_RDMA_WRITE, DIRTY);
    last_syncs::sync sync = {kind::SYNC_WRITEBACK, 0, frame(60)};
    assert_places(line.find(finding_kind::UNSYNCED_WRITE), "the registration", 99,
                  "the peer's RDMA Write", 0);
    assert_places(line.find(finding_kind::UNSYNCED_WRITE, &sync), "the registration", 99,
                  "the peer's RDMA Write", 0);
    line.peer(kind::PEER_RDMA_WRITE, DIRTY);
    line.event(kind::EVICT_WRITEBACK);
    line.peer(kind::PEER_RDMA_WRITE, DIRTY);
    sync.number = 2;
    assert_places(line.find(finding_kind::UNSYNCED_WRITE, &sync), "the sync", 60,
                  "the peer's RDMA Write", 0);
}

void redundant_sync_has_no_place(void **) {
    one_line line;
    line.program(kind::SYNC_WRITEBACK, CLEAN);
    const finding result = line.find(finding_kind::REDUNDANT);
    assert_places(result, "", 0, "", 0);
    assert_int_equal(result.missing_before, finding::NO_EVENT);
}

/// The model records the completion for the writes before it, each once.
void completion_is_an_event_of_the_writes_before_it(void **) {
    test_cache cache;
    const program_pages pages(2);
    std::uint32_t mr_number = 0;
    const auto device = cache.add_mr(pages.part(0, pages.size), &mr_number);
    mem_access request;
    request.text = "RDMA Write of 8 bytes, wr_id 0x1";
    request.peer_stack = {"main (/usr/bin/peer+0x1)"};
    cache->on_data_received(); // of no write
    cache->check_peer_rdma_write(pages.part(0, 8), request);
    *device->copy_of(pages.bytes) ^= 1;
    cache->on_data_received();
    cache->check_peer_rdma_write(pages.part(PAGE, 8), request);
    cache->on_data_received();
    cache->on_data_received();
    cache->remove_mr(mr_number);
    const auto findings = cache.new_findings();
    assert_int_equal(findings.size(), 1);
    std::vector<std::string> events;
    for (const json &event : findings[0]["history"])
        events.push_back(event["event"]);
    assert_true(events == std::vector<std::string>({"reg_mr", "sync_writeback", "peer_rdma_write",
                                                    "data_received", "dereg_mr"}));
    assert_int_equal(findings[0]["insert"]["before_event"].get<int>(), 4);
    assert_string_equal(findings[0]["after"]["description"].get<std::string>().c_str(),
                        "the completion polled");
    assert_true(findings[0]["after"]["stack"].size() >= 1);
    assert_string_equal(findings[0]["before"]["description"].get<std::string>().c_str(),
                        "the deregistration");
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(sync_after_write_is_missing_after_the_completion),
        cmocka_unit_test(call_before_the_completion_is_no_place),
        cmocka_unit_test(synced_write_is_not_the_place),
        cmocka_unit_test(write_of_the_same_bytes_has_its_place),
        cmocka_unit_test(write_without_a_completion_is_after_the_last_call),
        cmocka_unit_test(conflict_is_found_by_the_next_sync),
        cmocka_unit_test(sync_before_request_is_missing_after_the_last_call),
        cmocka_unit_test(completion_of_own_request_is_the_recorded_one),
        cmocka_unit_test(forgotten_calls_are_the_sync_or_the_registration),
        cmocka_unit_test(redundant_sync_has_no_place),
        cmocka_unit_test(completion_is_an_event_of_the_writes_before_it),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}

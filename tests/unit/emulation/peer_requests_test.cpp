// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Findings at a peer's request, and the request in later findings.

#include "cache_fixture.hpp"

using namespace emulation_test;

namespace {

mem_access peer_request(const char *words) {
    mem_access request;
    request.text = words;
    request.peer_stack = {"main (/usr/bin/peer+0x1)"};
    return request;
}

std::string access_text(const nlohmann::json &finding, const char *name) {
    return finding[name].is_null() ? "" : finding[name]["description"].get<std::string>();
}

void assert_finding(const nlohmann::json &findings, const char *kind, std::size_t offset,
                    std::size_t length, std::size_t first) {
    assert_string_equal(findings["kind"].get<std::string>().c_str(), kind);
    assert_int_equal(findings["offset"].get<std::size_t>(), offset);
    assert_int_equal(findings["length"].get<std::size_t>(), length);
    assert_int_equal(findings["first_offset"].get<std::size_t>(), first);
}

void peer_read_of_dirty_line_is_reported(void **) {
    for (const std::size_t size : LINE_SIZES) {
        settings config;
        config.line_size = size;
        test_cache cache(config);
        const program_pages pages(2);
        const auto device = cache.add_mr(pages.part(256, PAGE));
        cache->check_peer_rdma_read(pages.part(256, PAGE), peer_request("a"));
        assert_int_equal(cache.new_findings().size(), 0);
        pages.bytes[LINE_OFFSET + 4] = pages.bytes[LINE_OFFSET + size] =
            pages.bytes[LINE_OFFSET + 4 * size] = CPU_DATA;
        cache->check_peer_rdma_read(pages.part(256, PAGE), peer_request("RDMA Read, of another"));
        const auto findings = cache.new_findings();
        assert_int_equal(findings.size(), 2); // two ranges of lines
        assert_finding(findings[0], "unsynced-read", LINE_OFFSET - 256, 2 * size,
                       LINE_OFFSET - 256 + 4);
        assert_finding(findings[1], "unsynced-read", LINE_OFFSET - 256 + 4 * size, size,
                       LINE_OFFSET - 256 + 4 * size);
        assert_string_equal(access_text(findings[0], "request").c_str(), "RDMA Read, of another");
        assert_string_equal(findings[0]["request"]["stack"][0].get<std::string>().c_str(),
                            "main (/usr/bin/peer+0x1)");
        assert_string_equal(access_text(findings[0], "last_sync").c_str(), "sync_writeback");
        assert_string_equal(findings[0]["program"].get<std::string>().substr(0, 2).c_str(), "fe");
        assert_int_not_equal(*device->copy_of(pages.bytes + LINE_OFFSET + 4),
                             CPU_DATA); // the read moves no line
    }
}

/// Bytes that the peer does not read, or that are equal, are not reported.
void peer_read_beside_dirty_bytes_is_not_reported(void **) {
    test_cache cache;
    const program_pages pages(1);
    const auto device = cache.add_mr(pages.part(0, pages.size));
    pages.bytes[LINE_OFFSET + 4] = CPU_DATA;
    cache->check_peer_rdma_read(pages.part(LINE_OFFSET + 5, 59), peer_request("a"));
    cache->check_peer_rdma_read(pages.part(LINE_OFFSET, 4), peer_request("a"));
    assert_int_equal(cache.new_findings().size(), 0);
    cache->check_peer_rdma_read(pages.part(LINE_OFFSET + 4, 1), peer_request("a"));
    assert_int_equal(cache.new_findings().size(), 1);
}

void peer_write_to_dirty_line_is_reported(void **) {
    for (const std::size_t size : LINE_SIZES) {
        settings config;
        config.line_size = size;
        test_cache cache(config);
        const program_pages pages(2);
        const auto device = cache.add_mr(pages.part(0, pages.size));
        const addr_range synced = pages.part(LINE_OFFSET, 1);
        cache->sync_writeback(&synced, 1);
        pages.bytes[LINE_OFFSET + 4] = CPU_DATA;
        cache->check_peer_rdma_write(pages.part(LINE_OFFSET + 8, 8),
                                     peer_request("RDMA Write")); // other bytes of the line
        auto findings = cache.new_findings();
        assert_int_equal(findings.size(), 1);
        assert_finding(findings[0], "unsynced-write", LINE_OFFSET, size, LINE_OFFSET + 4);
        assert_string_equal(access_text(findings[0], "request").c_str(), "RDMA Write");
        assert_string_equal(access_text(findings[0], "last_sync").c_str(), "sync_writeback");
        *device->copy_of(pages.bytes + LINE_OFFSET + 8) = DEVICE_DATA;
        cache->sync_invalidate(&synced, 1); // the conflict is known
        assert_int_equal(cache.new_findings().size(), 0);
        assert_int_equal(*device->copy_of(pages.bytes + LINE_OFFSET + 4), CPU_DATA);
    }
}

/// An atomic operation is reported as a read; the conflict by its write is not reported again.
void peer_atomic_on_dirty_line_is_reported_once(void **) {
    test_cache cache;
    const program_pages pages(1);
    const auto device = cache.add_mr(pages.part(0, pages.size));
    const addr_range word = pages.part(LINE_OFFSET, 8);
    cache->check_peer_atomic(word, peer_request("fetch and add"));
    assert_int_equal(cache.new_findings().size(), 0);
    pages.bytes[LINE_OFFSET + 4] = CPU_DATA;
    cache->check_peer_atomic(word, peer_request("fetch and add"));
    const auto findings = cache.new_findings();
    assert_int_equal(findings.size(), 1);
    assert_finding(findings[0], "unsynced-read", LINE_OFFSET, 64, LINE_OFFSET + 4);
    assert_string_equal(access_text(findings[0], "request").c_str(), "fetch and add");
    *device->copy_of(pages.bytes + LINE_OFFSET) = DEVICE_DATA;
    cache->sync_invalidate(&word, 1);
    assert_int_equal(cache.new_findings().size(), 0);
}

void conflict_names_request_of_peer_write(void **) {
    test_cache cache;
    const program_pages pages(1);
    const auto device = cache.add_mr(pages.part(0, pages.size));
    cache->check_peer_rdma_write(pages.part(LINE_OFFSET, 512), peer_request("first"));
    cache->check_peer_rdma_write(pages.part(LINE_OFFSET + 256, 64), peer_request("second"));
    assert_int_equal(cache.new_findings().size(), 0);
    std::memset(device->copy_of(pages.bytes + LINE_OFFSET), DEVICE_DATA, 512);
    const addr_range middle = pages.part(LINE_OFFSET + 130, 1);
    cache->sync_invalidate(&middle, 1);
    for (const std::size_t line : {0U, 128U, 256U, 448U})
        pages.bytes[LINE_OFFSET + line] = CPU_DATA;
    const addr_range whole = pages.part(0, pages.size);
    cache->sync_invalidate(&whole, 1);
    auto findings = cache.new_findings();
    assert_int_equal(findings.size(), 3); // the line in the middle was fetched
    assert_finding(findings[0], "conflict", LINE_OFFSET, 64, LINE_OFFSET);
    assert_string_equal(access_text(findings[0], "request").c_str(), "first");
    assert_finding(findings[1], "conflict", LINE_OFFSET + 256, 64, LINE_OFFSET + 256);
    assert_string_equal(access_text(findings[1], "request").c_str(), "second");
    assert_finding(findings[2], "conflict", LINE_OFFSET + 448, 64, LINE_OFFSET + 448);
    assert_string_equal(access_text(findings[2], "request").c_str(), "first");
    assert_string_equal(access_text(findings[2], "last_sync").c_str(), "sync_invalidate");
    // The requests are forgotten after the conflict.
    *device->copy_of(pages.bytes + LINE_OFFSET) = 0xfd;
    pages.bytes[LINE_OFFSET + 1] = 0xfd;
    cache->sync_invalidate(&whole, 1);
    findings = cache.new_findings();
    assert_int_equal(findings.size(), 1);
    assert_true(findings[0]["request"].is_null());
}

/// For many writes of many parts.
void requests_of_latest_writes_are_known(void **) {
    test_cache cache;
    const program_pages pages(64);
    const auto device = cache.add_mr(pages.part(0, pages.size));
    cache->check_peer_rdma_write(pages.part(0, pages.size), peer_request("whole"));
    for (std::size_t offset = 0; offset < pages.size; offset += 128) {
        const addr_range line = pages.part(offset, 1);
        cache->sync_invalidate(&line, 1);
    }
    for (std::size_t i = 0; i < 2000; ++i)
        cache->check_peer_rdma_write(pages.part(i * 64 + 1, 1),
                                     peer_request(std::to_string(i).c_str()));
    for (const std::size_t i : {10U, 1999U}) {
        pages.bytes[i * 64] = *device->copy_of(pages.bytes + i * 64) = 0;
        pages.bytes[i * 64] = CPU_DATA;
        *device->copy_of(pages.bytes + i * 64 + 1) = DEVICE_DATA;
    }
    const addr_range whole = pages.part(0, pages.size);
    cache->sync_writeback(&whole, 1);
    const auto findings = cache.new_findings();
    assert_int_equal(findings.size(), 2);
    assert_string_equal(access_text(findings[0], "request").c_str(), "");
    assert_string_equal(access_text(findings[1], "request").c_str(), "1999");
}

/// The region that contains all bytes, if several contain some.
void finding_names_mr_of_all_bytes(void **) {
    test_cache cache;
    const program_pages pages(2);
    const auto wide = cache.add_mr(pages.part(0, pages.size));
    const auto narrow = cache.add_mr(pages.part(LINE_OFFSET + 10, 40));
    pages.bytes[LINE_OFFSET] = pages.bytes[LINE_OFFSET + 512] = CPU_DATA;
    cache->check_peer_rdma_read(pages.part(0, pages.size), peer_request("a"));
    const auto findings = cache.new_findings();
    assert_int_equal(findings.size(), 2);
    assert_int_equal(findings[0]["region"].get<int>(), 1);
    assert_int_equal(findings[1]["region"].get<int>(), 1);
    assert_string_equal(findings[0]["device"].get<std::string>().c_str(), "rxe0");
}

void assert_certainty(const nlohmann::json &finding, const char *kind, const char *certainty) {
    assert_string_equal(finding["kind"].get<std::string>().c_str(), kind);
    assert_string_equal(finding["certainty"].get<std::string>().c_str(), certainty);
}

/// Bytes of the program share a line with those of a peer's Write: no sync keeps both.
void store_beside_written_bytes_asks_for_separate_lines(void **) {
    test_cache cache;
    const program_pages pages(1);
    const auto device = cache.add_mr(pages.part(0, pages.size));
    const addr_range written = pages.part(LINE_OFFSET, 8);
    cache->check_peer_rdma_write(written, peer_request("a"));
    *device->copy_of(pages.bytes + LINE_OFFSET) = DEVICE_DATA;
    pages.bytes[LINE_OFFSET + 8] = CPU_DATA;
    cache->sync_invalidate(&written, 1);
    const auto findings = cache.new_findings();
    assert_int_equal(findings.size(), 1);
    assert_certainty(findings[0], "shared-line", "certain");
    assert_string_equal(findings[0]["missing"].get<std::string>().c_str(),
                        "separate lines for data that arrive");
}

/// Memory that the program filled before it registered it: both copies are equal, but the program
/// has to sync it. Said once.
void store_before_registration_counts(void **) {
    using check = void (cache_model::*)(addr_range, const mem_access &, unposted_checks *);
    for (const auto &[check_peer, kind] :
         {std::pair<check, const char *>{&cache_model::check_peer_rdma_read, "unsynced-read"},
          {&cache_model::check_peer_rdma_write, "unsynced-write"},
          {&cache_model::check_peer_atomic, "unsynced-read"}}) {
        test_cache cache;
        const program_pages pages(2);
        std::memset(pages.bytes + PAGE, 0, PAGE);
        const auto device = cache.add_unsynced_mr(pages.part(0, pages.size));
        const addr_range synced = pages.part(0, 64);
        cache->sync_writeback(&synced, 1);
        ((*cache).*check_peer)(pages.part(0, 128), peer_request("a"), nullptr);
        const auto findings = cache.new_findings();
        assert_int_equal(findings.size(), 1);
        assert_certainty(findings[0], kind, "possible");
        assert_int_equal(findings[0]["offset"].get<std::size_t>(), 64);
        assert_int_equal(findings[0]["length"].get<std::size_t>(), 64);
        ((*cache).*check_peer)(pages.part(0, 128), peer_request("a"), nullptr);
        ((*cache).*check_peer)(pages.part(PAGE, 64), peer_request("a"), nullptr); // fresh: zeros
        assert_int_equal(cache.new_findings().size(), 0);
    }
}

/// Adjacent lines are one finding, which is certain if it is for one of them, whose bytes it shows.
void certain_line_makes_the_finding_certain(void **) {
    test_cache cache;
    const program_pages pages(1);
    const auto device = cache.add_unsynced_mr(pages.part(0, pages.size));
    pages.bytes[70] ^= 1;
    cache->check_peer_rdma_read(pages.part(0, 192), peer_request("a"));
    const auto findings = cache.new_findings();
    assert_int_equal(findings.size(), 1);
    assert_certainty(findings[0], "unsynced-read", "certain");
    assert_finding(findings[0], "unsynced-read", 0, 192, 70);
}

/// Bytes that the device wrote, and the mode moved into the program's copy, are no stores.
void moved_bytes_are_no_stores_before_registration(void **) {
    for (const cache_mode mode : {cache_mode::POISON, cache_mode::EVICT}) {
        settings config;
        config.mode = mode;
        test_cache cache(config);
        const program_pages pages(1);
        std::memset(pages.bytes, 0, pages.size); // fresh
        const auto device = cache.add_unsynced_mr(pages.part(0, 64));
        *device->copy_of(pages.bytes) = DEVICE_DATA; // of a peer on another host
        for (int i = 0; i < 100 && pages.bytes[0] == 0; ++i)
            cache->run_background_step();
        assert_int_not_equal(pages.bytes[0], 0);
        cache->check_peer_rdma_read(pages.part(0, 64), peer_request("a"));
        assert_int_equal(cache.new_findings().size(), 0);
    }
}

/// A batch over lines that need no sync does not unsync them until it ends.
void batch_over_dirty_lines_counts_at_its_end(void **) {
    test_cache cache;
    const program_pages pages(1);
    const auto device = cache.add_mr(pages.part(0, pages.size));
    const addr_range dirty = pages.part(0, 64), clean = pages.part(128, 64);
    pages.bytes[0] = CPU_DATA;
    for (const addr_range &range : {dirty, clean}) {
        cache->begin_sync(range);
        cache->sync_writeback(&range, 1);
    }
    cache->check_peer_rdma_read(clean, peer_request("a"));
    assert_int_equal(cache.new_findings().size(), 0);
    cache->check_peer_rdma_read(dirty, peer_request("a"));
    const auto findings = cache.new_findings();
    assert_int_equal(findings.size(), 1);
    assert_certainty(findings[0], "unsynced-read", "possible");
    cache->end_syncs();
    cache->check_peer_rdma_read(dirty, peer_request("a"));
    assert_int_equal(cache.new_findings().size(), 0);
}

/// A signal may end the process just before it syncs.
void signal_does_not_judge_what_has_just_arrived(void **) {
    for (const bool is_old : {false, true}) {
        test_cache cache;
        const program_pages pages(1);
        const auto device = cache.add_mr(pages.part(0, pages.size));
        cache->check_peer_rdma_write(pages.part(LINE_OFFSET, 8), peer_request("a"));
        *device->copy_of(pages.bytes + LINE_OFFSET) = DEVICE_DATA;
        cache->on_data_received();
        if (is_old)
            sleep(1);
        cache->on_process_end(cache_model::process_end::SIGNAL);
        cache->report_process_end();
        assert_int_equal(cache.new_findings().size(), is_old ? 1 : 0);
    }
}

/// A list of two requests on one range is refused: the first one is dropped first.
void refused_writes_of_one_range_leave_no_record(void **) {
    settings config;
    config.strict = true;
    test_cache cache(config);
    const program_pages pages(1);
    const auto device = cache.add_mr(pages.part(0, pages.size));
    const addr_range written = pages.part(LINE_OFFSET, 8);
    unposted_checks first, second;
    cache->check_peer_rdma_write(written, peer_request("first"), &first);
    cache->check_peer_rdma_write(written, peer_request("second"), &second);
    cache->drop_unposted(first);
    cache->drop_unposted(second);
    cache->on_data_received();
    end_process(cache);
    assert_int_equal(cache.new_findings().size(), 0);
}

/// A Write of the bytes that the memory had: the missing sync after it is found by the order, if
/// the program may know of the Write.
void unsynced_write_of_equal_bytes_is_possible_finding(void **) {
    for (const bool is_known : {false, true})
        for (const bool is_synced : {false, true})
            for (const bool at_exit : {false, true}) {
                settings config;
                config.strict = true;
                test_cache cache(config);
                const program_pages pages(1);
                std::uint32_t mr_number = 0;
                const auto device = cache.add_mr(pages.part(0, pages.size), &mr_number);
                const addr_range written = pages.part(LINE_OFFSET, 8);
                cache->on_data_received(); // of an earlier request
                cache->check_peer_rdma_write(written, peer_request("a"));
                if (is_known)
                    cache->on_data_received();
                if (is_synced)
                    cache->sync_invalidate(&written, 1);
                if (at_exit)
                    end_process(cache);
                else
                    cache->remove_mr(mr_number);
                const auto findings = cache.new_findings();
                assert_int_equal(findings.size(), is_known && !is_synced ? 1 : 0);
                if (!findings.empty())
                    assert_certainty(findings[0], "stale", "possible");
            }
}

/// What its history says is that of the check.
void findings_of_a_request_are_reported_when_it_is_posted(void **) {
    test_cache cache;
    const program_pages pages(1);
    const auto device = cache.add_mr(pages.part(0, pages.size));
    const addr_range line = pages.part(LINE_OFFSET, 8);
    cache->sync_writeback(&line, 1);
    pages.bytes[LINE_OFFSET] = CPU_DATA;
    unposted_checks refused, posted;
    cache->check_peer_rdma_read(line, peer_request("refused"), &refused);
    cache->check_peer_rdma_read(line, peer_request("posted"), &posted);
    assert_true(refused.has_findings() && posted.has_findings());
    cache->drop_unposted(refused);
    assert_int_equal(cache.new_findings().size(), 0);
    for (std::size_t i = 0; i < 2 * event_history::CAPACITY; ++i)
        cache->sync_writeback(&line, 1);
    cache->report_posted(posted);
    assert_true(posted.is_empty());
    const auto findings = cache.new_findings();
    assert_int_equal(findings.size(), 1);
    assert_finding(findings[0], "unsynced-read", LINE_OFFSET, 64, LINE_OFFSET);
    assert_string_equal(access_text(findings[0], "request").c_str(), "posted");
    const auto &history = findings[0]["history"];
    assert_string_equal(history.back()["event"].get<std::string>().c_str(), "peer_rdma_read");
    assert_string_equal(history.front()["event"].get<std::string>().c_str(), "reg_mr");
}

/// The write before it is recorded again, but what the program has fetched is not.
void write_that_is_refused_is_not_recorded(void **) {
    test_cache cache;
    const program_pages pages(1);
    const auto device = cache.add_mr(pages.part(0, pages.size));
    const addr_range lines = pages.part(0, 512), fetched = pages.part(128, 64);
    unposted_checks posted, refused, other;
    cache->check_peer_rdma_write(lines, peer_request("posted"), &posted);
    cache->report_posted(posted);
    pages.bytes[256] = CPU_DATA;
    cache->check_peer_rdma_write(lines, peer_request("refused"), &refused);
    cache->check_peer_rdma_write(pages.part(640, 64), peer_request("other"), &other);
    cache->sync_invalidate(&fetched, 1);
    cache->drop_unposted(refused);
    cache->drop_unposted(other);
    for (const std::size_t offset : {0U, 128U, 256U, 640U}) {
        pages.bytes[offset] = CPU_DATA;
        *device->copy_of(pages.bytes + offset + 1) = DEVICE_DATA;
    }
    const addr_range whole = pages.part(0, pages.size);
    cache->sync_invalidate(&whole, 1);
    const auto findings = cache.new_findings();
    const char *const expected[] = {"posted", "", "posted", ""};
    assert_int_equal(findings.size(), std::size(expected));
    for (std::size_t i = 0; i < findings.size(); ++i) {
        assert_string_equal(findings[i]["kind"].get<std::string>().c_str(), "conflict");
        assert_string_equal(access_text(findings[i], "request").c_str(), expected[i]);
    }
}

void many_findings_of_a_request_are_reported(void **) {
    test_cache cache;
    const program_pages pages(16);
    const auto device = cache.add_mr(pages.part(0, pages.size));
    std::size_t num_dirty = 0;
    for (std::size_t offset = 0; offset < pages.size; offset += 128, ++num_dirty)
        pages.bytes[offset] = CPU_DATA;
    unposted_checks checks;
    cache->check_peer_rdma_read(pages.part(0, pages.size), peer_request("a"), &checks);
    cache->report_posted(checks);
    assert_int_equal(cache.new_findings().size(), num_dirty);
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(peer_read_of_dirty_line_is_reported),
        cmocka_unit_test(peer_read_beside_dirty_bytes_is_not_reported),
        cmocka_unit_test(peer_write_to_dirty_line_is_reported),
        cmocka_unit_test(conflict_names_request_of_peer_write),
        cmocka_unit_test(requests_of_latest_writes_are_known),
        cmocka_unit_test(finding_names_mr_of_all_bytes),
        cmocka_unit_test(peer_atomic_on_dirty_line_is_reported_once),
        cmocka_unit_test(store_beside_written_bytes_asks_for_separate_lines),
        cmocka_unit_test(store_before_registration_counts),
        cmocka_unit_test(certain_line_makes_the_finding_certain),
        cmocka_unit_test(moved_bytes_are_no_stores_before_registration),
        cmocka_unit_test(batch_over_dirty_lines_counts_at_its_end),
        cmocka_unit_test(signal_does_not_judge_what_has_just_arrived),
        cmocka_unit_test(refused_writes_of_one_range_leave_no_record),
        cmocka_unit_test(unsynced_write_of_equal_bytes_is_possible_finding),
        cmocka_unit_test(findings_of_a_request_are_reported_when_it_is_posted),
        cmocka_unit_test(write_that_is_refused_is_not_recorded),
        cmocka_unit_test(many_findings_of_a_request_are_reported),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}

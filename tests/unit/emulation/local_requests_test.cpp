// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Local memory of the program's own requests that the program syncs: findings at the post, of what
// the device wrote, and the effect of the syncs.

#include "cache_fixture.hpp"

using namespace emulation_test;

namespace {

constexpr std::size_t LINE = 64;

struct fixture {
    explicit fixture(cache_mode mode = cache_mode::STALE, bool strict = false)
        : cache(settings_with(mode, strict)) {}

    static settings settings_with(cache_mode mode, bool strict) {
        settings config;
        config.mode = mode;
        config.strict = strict;
        config.program_syncs_local = true;
        return config;
    }

    /// A request writes the buffer, whose first byte becomes `byte`, and completes.
    void complete_write(unsigned char byte) {
        const bool is_reported = cache->check_local_sink(buffer, request);
        device_byte() = byte;
        cache->record_local_write(buffer, request, is_reported);
    }
    void sync_sink_for_device() { cache->sync_sink_for_device(&buffer, 1); }
    void sync_source_for_device() { cache->sync_source_for_device(&buffer, 1); }
    void sync_sink_for_cpu() { cache->sync_sink_for_cpu(&buffer, 1); }
    void deregister() { cache->remove_mr(mr_number); }
    unsigned char &program_byte() { return pages.bytes[LINE_OFFSET]; }
    unsigned char &device_byte() { return *device->copy_of(pages.bytes + LINE_OFFSET); }

    void assert_one_finding(const char *kind, const char *missing) {
        const auto findings = cache.new_findings();
        assert_int_equal(findings.size(), 1);
        assert_string_equal(findings[0]["kind"].get<std::string>().c_str(), kind);
        assert_string_equal(findings[0]["missing"].get<std::string>().c_str(), missing);
        assert_int_equal(findings[0]["offset"].get<std::size_t>(), LINE_OFFSET);
        assert_string_equal(findings[0]["request"]["description"].get<std::string>().c_str(),
                            "Receive of 64 bytes");
    }
    void assert_no_finding() { assert_int_equal(cache.new_findings().size(), 0); }

    test_cache cache;
    const program_pages pages{1};
    std::uint32_t mr_number = 0;
    const std::unique_ptr<device_side> device = cache.add_mr(pages.part(0, PAGE), &mr_number);
    const addr_range buffer = pages.part(LINE_OFFSET, LINE);
    const mem_access request = {"Receive of 64 bytes", {}, {}};
};

void unsynced_source_is_reported_and_not_written_back(void **) {
    fixture test;
    test.program_byte() = CPU_DATA;
    test.cache->check_local_source(test.buffer, test.request);
    test.assert_one_finding("unsynced-source", "sync_for_device before the post");
    assert_int_not_equal(test.device_byte(), CPU_DATA);
}

void synced_source_is_not_reported(void **) {
    fixture test;
    test.program_byte() = CPU_DATA;
    test.sync_source_for_device();
    assert_int_equal(test.device_byte(), CPU_DATA);
    test.cache->check_local_source(test.buffer, test.request);
    test.assert_no_finding();
}

/// The device does not read them.
void dirty_bytes_beside_source_are_not_reported(void **) {
    fixture test;
    test.program_byte() = CPU_DATA;
    test.cache->check_local_source(test.pages.part(LINE_OFFSET + 1, 8), test.request);
    test.assert_no_finding();
}

void unsynced_sink_is_reported_once(void **) {
    fixture test;
    test.program_byte() = CPU_DATA;
    test.complete_write(0x77);
    test.assert_one_finding("unsynced-sink", "sync_for_device before the post");
    test.sync_sink_for_cpu(); // the conflict has been reported
    test.assert_no_finding();
    assert_int_equal(test.device_byte(), CPU_DATA); // what the device wrote is lost
}

void empty_sink_needs_no_sync(void **) {
    fixture test;
    test.program_byte() = CPU_DATA;
    const addr_range empty = test.pages.part(LINE_OFFSET + 1, 0);
    test.cache->check_local_source(empty, test.request);
    test.cache->check_local_sink(empty, test.request);
    test.assert_no_finding();
}

void dirty_bytes_beside_sink_are_reported(void **) {
    fixture test;
    test.program_byte() = CPU_DATA;
    test.cache->check_local_sink(test.pages.part(LINE_OFFSET + 1, 8), test.request);
    test.assert_one_finding("unsynced-sink", "sync_for_device before the post");
}

void synced_sink_is_fetched_by_sync_for_cpu_only(void **) {
    fixture test;
    test.program_byte() = CPU_DATA;
    test.sync_sink_for_device();
    test.complete_write(0x77);
    assert_int_equal(test.program_byte(), CPU_DATA);
    test.sync_sink_for_cpu();
    assert_int_equal(test.program_byte(), 0x77);
    test.deregister();
    test.assert_no_finding();
}

void sink_not_synced_for_cpu_is_reported_at_deregistration(void **) {
    fixture test;
    test.complete_write(0x77);
    test.deregister();
    test.assert_one_finding("stale-sink", "sync_for_cpu after the completion");
}

/// sync_for_device before the next post would hide it.
void sink_not_synced_for_cpu_is_reported_when_it_is_posted_again(void **) {
    fixture test;
    test.complete_write(0x77);
    test.sync_sink_for_device();
    test.assert_one_finding("stale-sink", "sync_for_cpu after the completion");
    test.deregister();
    test.assert_no_finding();
}

/// A program may sync its next buffer, of the same line, before it reads the completed one.
void neighbor_of_completed_sink_is_not_reported(void **) {
    fixture test;
    const addr_range first = test.pages.part(LINE_OFFSET, 8),
                     second = test.pages.part(LINE_OFFSET + 8, 8);
    test.device_byte() = 0x77;
    test.cache->record_local_write(first, test.request, false);
    test.cache->sync_sink_for_device(&second, 1);
    test.cache->sync_sink_for_cpu(&first, 1);
    test.assert_no_finding();
    assert_int_equal(test.program_byte(), 0x77);
}

void store_between_completion_and_sync_is_a_conflict(void **) {
    fixture test;
    test.complete_write(0x77);
    test.program_byte() = CPU_DATA;
    test.sync_sink_for_cpu();
    test.assert_one_finding("conflict-sink", "sync_for_device before, or sync_for_cpu after");
}

/// A buffer to send and a received one share a line: no sync keeps both.
void store_beside_received_bytes_asks_for_separate_lines(void **) {
    fixture test;
    const addr_range received = test.pages.part(LINE_OFFSET, 8);
    const addr_range sent = test.pages.part(LINE_OFFSET + 8, 8);
    test.device_byte() = 0x77;
    test.cache->record_local_write(received, test.request, false);
    test.pages.bytes[LINE_OFFSET + 8] = CPU_DATA;
    test.cache->sync_source_for_device(&sent, 1);
    test.assert_one_finding("shared-line", "separate lines for data that arrive");
    assert_int_not_equal(test.device_byte(), 0x77); // lost
}

/// The order of calls shows that the sync is missing, the bytes do not.
void unsynced_write_of_equal_bytes_is_possible_finding(void **) {
    for (const bool strict : {false, true}) {
        const auto assert_possible_finding = [&](fixture &test) {
            const auto findings = test.cache.new_findings();
            assert_int_equal(findings.size(), strict ? 1 : 0);
            if (!strict)
                return;
            assert_string_equal(findings[0]["kind"].get<std::string>().c_str(), "stale-sink");
            assert_string_equal(findings[0]["certainty"].get<std::string>().c_str(), "possible");
        };
        fixture test(cache_mode::STALE, strict);
        test.complete_write(test.program_byte());
        test.sync_sink_for_device(); // gives the buffer to the device again
        assert_possible_finding(test);
        test.complete_write(test.program_byte());
        test.deregister();
        assert_possible_finding(test);
        fixture synced(cache_mode::STALE, strict);
        synced.complete_write(synced.program_byte());
        synced.sync_sink_for_cpu();
        synced.deregister();
        synced.assert_no_finding();
    }
}

void completed_sink_is_poisoned_until_it_is_synced(void **) {
    fixture test(cache_mode::POISON);
    test.complete_write(0x77);
    assert_int_equal(test.program_byte(), 0xdb);
    test.sync_sink_for_cpu();
    assert_int_equal(test.program_byte(), 0x77);
    test.assert_no_finding();
}

/// A peer's write is told from that of a request of the program.
void peer_write_is_reported_as_before(void **) {
    fixture test;
    test.complete_write(0x77);
    test.sync_sink_for_cpu();
    test.cache->check_peer_rdma_write(test.buffer, test.request);
    test.device_byte() = 0x78;
    test.deregister();
    test.assert_one_finding("stale", "sync after the Write");
}

void last_sync_is_named(void **) {
    fixture test;
    test.sync_sink_for_cpu();
    test.program_byte() = CPU_DATA;
    test.cache->check_local_source(test.buffer, test.request);
    const auto findings = test.cache.new_findings();
    assert_int_equal(findings.size(), 1);
    assert_string_equal(findings[0]["last_sync"]["description"].get<std::string>().c_str(),
                        "sync_for_cpu");
    std::string events;
    for (const auto &event : findings[0]["history"])
        events += event["event"].get<std::string>() + " ";
    assert_string_equal(events.c_str(), "reg_mr sync_writeback sync_for_cpu request_source ");
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(unsynced_source_is_reported_and_not_written_back),
        cmocka_unit_test(synced_source_is_not_reported),
        cmocka_unit_test(dirty_bytes_beside_source_are_not_reported),
        cmocka_unit_test(unsynced_sink_is_reported_once),
        cmocka_unit_test(empty_sink_needs_no_sync),
        cmocka_unit_test(dirty_bytes_beside_sink_are_reported),
        cmocka_unit_test(synced_sink_is_fetched_by_sync_for_cpu_only),
        cmocka_unit_test(sink_not_synced_for_cpu_is_reported_at_deregistration),
        cmocka_unit_test(sink_not_synced_for_cpu_is_reported_when_it_is_posted_again),
        cmocka_unit_test(neighbor_of_completed_sink_is_not_reported),
        cmocka_unit_test(store_between_completion_and_sync_is_a_conflict),
        cmocka_unit_test(store_beside_received_bytes_asks_for_separate_lines),
        cmocka_unit_test(unsynced_write_of_equal_bytes_is_possible_finding),
        cmocka_unit_test(completed_sink_is_poisoned_until_it_is_synced),
        cmocka_unit_test(peer_write_is_reported_as_before),
        cmocka_unit_test(last_sync_is_named),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The emulated cache: line states as in emulation/README.md, registration, and the syncs
// of local memory by the provider.

#include "cache_fixture.hpp"

#include <cerrno>

using namespace emulation_test;

namespace {

settings settings_with_line(std::size_t size) {
    settings config;
    config.line_size = size;
    return config;
}

void sync_writeback(test_cache &cache, addr_range range) {
    cache->sync_writeback(&range, 1);
}

void sync_invalidate(test_cache &cache, addr_range range) {
    cache->sync_invalidate(&range, 1);
}

using sync_function = void (*)(test_cache &, addr_range);

void add_mr_copies_memory_to_device(void **) {
    for (const std::size_t size : LINE_SIZES) {
        test_cache cache(settings_with_line(size));
        const program_pages pages(3);
        const auto device = cache.add_mr(pages.part(100, 2 * PAGE));
        assert_memory_equal(device->copy_of(pages.bytes), pages.bytes, pages.size); // whole pages
        for (const sync_function sync : {sync_writeback, sync_invalidate}) {
            sync(cache, pages.part(0, pages.size));
            assert_memory_equal(device->copy_of(pages.bytes), pages.bytes, pages.size);
        }
        end_process(cache);
        assert_int_equal(cache.new_findings().size(), 0);
    }
}

/// Both syncs copy the whole dirty line to the device, and nothing else.
void sync_writes_back_dirty_line(void **) {
    for (const std::size_t size : LINE_SIZES) {
        for (const sync_function sync : {sync_writeback, sync_invalidate}) {
            test_cache cache(settings_with_line(size));
            const program_pages pages(2);
            const auto device = cache.add_mr(pages.part(0, pages.size));
            const std::vector<unsigned char> before(pages.bytes, pages.bytes + pages.size);
            for (const std::size_t line : {LINE_OFFSET - size, LINE_OFFSET, LINE_OFFSET + size})
                pages.bytes[line] = pages.bytes[line + size - 1] = CPU_DATA;
            assert_memory_equal(device->copy_of(pages.bytes), before.data(), pages.size);
            sync(cache, pages.part(LINE_OFFSET + size / 2, 1));
            assert_memory_equal(device->copy_of(pages.bytes + LINE_OFFSET),
                                pages.bytes + LINE_OFFSET, size);
            assert_memory_equal(device->copy_of(pages.bytes), before.data(), LINE_OFFSET);
            assert_memory_equal(device->copy_of(pages.bytes + LINE_OFFSET + size),
                                &before[LINE_OFFSET + size], pages.size - LINE_OFFSET - size);
            sync(cache, pages.part(LINE_OFFSET - 1, size + 2)); // one byte of each adjacent line
            assert_memory_equal(device->copy_of(pages.bytes), pages.bytes, pages.size);
            assert_int_equal(cache.new_findings().size(), 0);
        }
    }
}

/// sync_invalidate copies the whole stale line to the program, sync_writeback does not.
void sync_write_fetches_stale_line(void **) {
    for (const std::size_t size : LINE_SIZES) {
        test_cache cache(settings_with_line(size));
        const program_pages pages(2);
        const auto device = cache.add_mr(pages.part(0, pages.size));
        const std::vector<unsigned char> before(pages.bytes, pages.bytes + pages.size);
        for (const std::size_t line : {LINE_OFFSET - size, LINE_OFFSET, LINE_OFFSET + size})
            *device->copy_of(pages.bytes + line) = *device->copy_of(pages.bytes + line + size - 1) =
                DEVICE_DATA;
        sync_writeback(cache, pages.part(0, pages.size));
        assert_memory_equal(pages.bytes, before.data(), pages.size);
        assert_int_equal(*device->copy_of(pages.bytes + LINE_OFFSET), DEVICE_DATA);
        sync_invalidate(cache, pages.part(LINE_OFFSET + size / 2, 1));
        assert_memory_equal(pages.bytes, before.data(), LINE_OFFSET);
        assert_memory_equal(pages.bytes + LINE_OFFSET, device->copy_of(pages.bytes + LINE_OFFSET),
                            size);
        assert_memory_equal(pages.bytes + LINE_OFFSET + size, &before[LINE_OFFSET + size],
                            pages.size - LINE_OFFSET - size);
        sync_invalidate(cache, pages.part(LINE_OFFSET - 1, size + 2));
        assert_memory_equal(device->copy_of(pages.bytes), pages.bytes, pages.size);
        assert_int_equal(cache.new_findings().size(), 0);
    }
}

/// The program's data wins; the finding has the place and the bytes.
void conflict_keeps_program_data_and_is_reported(void **) {
    for (const std::size_t size : LINE_SIZES) {
        for (const sync_function sync : {sync_writeback, sync_invalidate}) {
            test_cache cache(settings_with_line(size));
            const program_pages pages(2);
            const auto device = cache.add_mr(pages.part(256, pages.size - 256));
            const unsigned char old = pages.bytes[LINE_OFFSET + 3];
            for (const std::size_t line : {LINE_OFFSET, LINE_OFFSET + size}) {
                pages.bytes[line + 3] = CPU_DATA;
                *device->copy_of(pages.bytes + line + size - 1) = DEVICE_DATA;
            }
            const std::vector<unsigned char> expected(pages.bytes, pages.bytes + pages.size);
            sync(cache, pages.part(0, pages.size));
            assert_memory_equal(pages.bytes, expected.data(), pages.size);
            assert_memory_equal(device->copy_of(pages.bytes), expected.data(), pages.size);
            const auto findings = cache.new_findings();
            assert_int_equal(findings.size(), 1);
            assert_string_equal(findings[0]["kind"].get<std::string>().c_str(), "conflict");
            assert_int_equal(findings[0]["offset"].get<std::size_t>(), LINE_OFFSET - 256);
            assert_int_equal(findings[0]["length"].get<std::size_t>(), 2 * size);
            assert_int_equal(findings[0]["first_offset"].get<std::size_t>(), LINE_OFFSET - 256 + 3);
            assert_int_equal(findings[0]["region"].get<int>(), 1);
            assert_int_equal(findings[0]["rkey"].get<int>(), 257);
            const auto first_byte = [&](const char *member) {
                return std::stoi(findings[0][member].get<std::string>().substr(0, 2), nullptr, 16);
            };
            assert_int_equal(first_byte("program"), CPU_DATA);
            assert_int_equal(first_byte("device_bytes"), old);
            assert_int_equal(first_byte("last_equal"), old);
            sync(cache, pages.part(0, pages.size)); // no conflict is left
            assert_int_equal(cache.new_findings().size(), 0);
        }
    }
}

/// Program and device write the same value, so both copies are equal: no line is dirty or stale.
void equal_writes_are_no_conflict(void **) {
    test_cache cache;
    const program_pages pages(1);
    const auto device = cache.add_mr(pages.part(0, pages.size));
    pages.bytes[LINE_OFFSET] = *device->copy_of(pages.bytes + LINE_OFFSET) = 0;
    sync_writeback(cache, pages.part(LINE_OFFSET, 1));
    *device->copy_of(pages.bytes + LINE_OFFSET) = 9;
    sync_invalidate(cache, pages.part(LINE_OFFSET, 1));
    assert_int_equal(pages.bytes[LINE_OFFSET], 9);
    assert_int_equal(cache.new_findings().size(), 0);
}

void sync_skips_unregistered_memory(void **) {
    test_cache cache;
    const program_pages pages(5);
    const auto device = cache.add_mr(pages.part(PAGE, PAGE));
    pages.bytes[0] = pages.bytes[PAGE] = pages.bytes[4 * PAGE] = CPU_DATA;
    sync_writeback(cache, pages.part(0, pages.size));
    assert_int_equal(*device->copy_of(pages.bytes + PAGE), CPU_DATA);
    cache->sync_invalidate(nullptr, 0);
    assert_int_equal(cache.new_findings().size(), 0);
}

void writeback_source_copies_dirty_line(void **) {
    test_cache cache;
    const program_pages pages(1);
    const auto device = cache.add_mr(pages.part(0, pages.size));
    pages.bytes[LINE_OFFSET] = CPU_DATA;
    cache->writeback_source(pages.part(LINE_OFFSET + 1, 2));
    assert_int_equal(*device->copy_of(pages.bytes + LINE_OFFSET), CPU_DATA);
    assert_int_equal(cache.new_findings().size(), 0);
}

/// As for a Receive: the post writes the buffer back, the device writes data there and behind, and
/// the completion fetches the buffer's line only.
void fetch_sink_fetches_received_lines(void **) {
    for (const std::size_t size : LINE_SIZES) {
        test_cache cache(settings_with_line(size));
        const program_pages pages(1);
        const auto device = cache.add_mr(pages.part(0, pages.size));
        pages.bytes[LINE_OFFSET + 1] = CPU_DATA; // before the post
        cache->writeback_sink(pages.part(LINE_OFFSET, size));
        std::memset(device->copy_of(pages.bytes + LINE_OFFSET), 0x77, 2 * size);
        const unsigned char next = pages.bytes[LINE_OFFSET + size];
        cache->fetch_sink(pages.part(LINE_OFFSET, size));
        assert_memory_equal(pages.bytes + LINE_OFFSET, device->copy_of(pages.bytes + LINE_OFFSET),
                            size);
        assert_int_equal(pages.bytes[LINE_OFFSET + size], next);
        assert_int_equal(cache.new_findings().size(), 0);
    }
}

/// Data arrives in a line with bytes that the program has changed: both are kept.
void fetch_sink_keeps_dirty_bytes_beside_data(void **) {
    for (const bool strict : {false, true}) {
        settings config;
        config.strict = strict;
        test_cache cache(config);
        const program_pages pages(1);
        const auto device = cache.add_mr(pages.part(0, pages.size));
        const addr_range data = pages.part(LINE_OFFSET + 16, 40);
        cache->writeback_sink(data);
        pages.bytes[LINE_OFFSET + 1] = CPU_DATA;
        std::memset(device->copy_of(pages.bytes + LINE_OFFSET + 16), 0x77, 40);
        cache->fetch_sink(data);
        assert_int_equal(pages.bytes[LINE_OFFSET + 1], CPU_DATA);
        assert_memory_equal(pages.bytes + LINE_OFFSET + 16,
                            device->copy_of(pages.bytes + LINE_OFFSET + 16), 40);
        assert_int_not_equal(*device->copy_of(pages.bytes + LINE_OFFSET + 1), CPU_DATA);
        sync_writeback(cache, pages.part(LINE_OFFSET, 1)); // the byte was still dirty
        assert_int_equal(*device->copy_of(pages.bytes + LINE_OFFSET + 1), CPU_DATA);
        assert_int_equal(*device->copy_of(pages.bytes + LINE_OFFSET + 16), 0x77);
        const auto findings = cache.new_findings();
        assert_int_equal(findings.size(), strict ? 1 : 0);
        if (strict)
            assert_string_equal(findings[0]["kind"].get<std::string>().c_str(), "beside");
    }
}

/// Calls with memory that the program has unmapped return the first bad address, and none crashes.
void check_readable_finds_unmapped_memory(void **) {
    test_cache cache;
    const program_pages pages(4);
    const auto device = cache.add_mr(pages.part(64, pages.size - 64));
    const addr_range ranges[] = {pages.part(64, 10), pages.part(PAGE - 1, 2 * PAGE)};
    std::uintptr_t bad_addr = 0;
    assert_int_equal(cache->check_readable(ranges, 2, &bad_addr), 0);
    mprotect(pages.bytes + 2 * PAGE, PAGE, PROT_NONE);
    assert_int_equal(cache->check_readable(ranges, 2, &bad_addr), EFAULT);
    assert_int_equal(bad_addr, pages.begin() + 2 * PAGE);
    munmap(pages.bytes + PAGE, PAGE);
    assert_int_equal(cache->check_readable(ranges, 2, &bad_addr), EFAULT);
    assert_int_equal(bad_addr, pages.begin() + PAGE);
    sync_invalidate(cache, pages.part(0, pages.size)); // does not crash
    end_process(cache);
    cache->remove_mr(1);
    assert_int_equal(cache->memory_bytes(), 0);
}

void add_mr_rejects_unreadable_memory(void **) {
    test_cache cache;
    const program_pages pages(3);
    mprotect(pages.bytes + PAGE, PAGE, PROT_NONE);
    memory_region mr;
    mr.range = pages.part(0, pages.size);
    std::vector<cache_model::page_mapping> mappings;
    assert_int_equal(cache->add_mr(mr, mappings), EFAULT);
    assert_int_equal(cache->memory_bytes(), 0);
    mr.range = {PAGE, PAGE + (std::uintptr_t{1} << 47)};
    assert_int_equal(cache->add_mr(mr, mappings), ENOMEM);
    std::uint32_t mr_number = 0;
    cache.add_mr(pages.part(0, PAGE), &mr_number);
    assert_int_equal(mr_number, 1);
}

void sync_write_fetches_into_read_only_memory(void **) {
    skip_without_writable_proc();
    test_cache cache;
    const program_pages pages(1);
    const auto device = cache.add_mr(pages.part(0, pages.size));
    *device->copy_of(pages.bytes + LINE_OFFSET) = DEVICE_DATA;
    mprotect(pages.bytes, PAGE, PROT_READ);
    sync_invalidate(cache, pages.part(LINE_OFFSET, 1));
    assert_int_equal(pages.bytes[LINE_OFFSET], DEVICE_DATA);
}

void overlapping_mrs_share_pages(void **) {
    test_cache cache;
    const program_pages pages(4);
    std::uint32_t first = 0, second = 0;
    const auto device = cache.add_mr(pages.part(0, 3 * PAGE), &first);
    pages.bytes[2 * PAGE] = CPU_DATA; // dirty, also with the second MR
    const auto other = cache.add_unsynced_mr(pages.part(PAGE + 100, 3 * PAGE - 100), &second);
    const std::size_t both = cache->memory_bytes();
    assert_int_equal(second, first + 1);
    *device->copy_of(pages.bytes + PAGE + 200) = DEVICE_DATA;
    assert_int_equal(*other->copy_of(pages.bytes + PAGE + 200), DEVICE_DATA);
    assert_int_not_equal(*other->copy_of(pages.bytes + 2 * PAGE), CPU_DATA);
    cache->remove_mr(first);
    assert_int_equal(cache->memory_bytes(), both / 4 * 3);
    assert_int_equal(cache.new_findings().size(), 0); // the second MR keeps the lines
    sync_invalidate(cache, pages.part(0, pages.size));
    assert_int_equal(pages.bytes[PAGE + 200], DEVICE_DATA);
    assert_int_equal(*other->copy_of(pages.bytes + 2 * PAGE), CPU_DATA);
    cache->remove_mr(second);
    cache->remove_mr(second);
    assert_int_equal(cache->memory_bytes(), 0);
}

void remove_mr_frees_all_pages(void **) {
    test_cache cache;
    const program_pages pages(40);
    for (int i = 0; i < 1000; ++i) {
        std::uint32_t mr_number = 0;
        cache.add_mr(pages.part(static_cast<std::size_t>(i), pages.size / 2), &mr_number);
        cache->remove_mr(mr_number);
        assert_int_equal(cache->memory_bytes(), 0);
    }
}

void stale_line_is_reported_at_removal_and_exit(void **) {
    for (const bool at_exit : {false, true}) {
        test_cache cache;
        const program_pages pages(2);
        std::uint32_t mr_number = 0;
        const auto device = cache.add_mr(pages.part(0, pages.size), &mr_number);
        *device->copy_of(pages.bytes + LINE_OFFSET + 5) = DEVICE_DATA; // stale
        pages.bytes[LINE_OFFSET + 128] = CPU_DATA;                     // dirty: not reported
        *device->copy_of(pages.bytes + LINE_OFFSET + 256) = DEVICE_DATA;
        pages.bytes[LINE_OFFSET + 257] = CPU_DATA; // a conflict without a sync
        const unsigned char old = pages.bytes[LINE_OFFSET + 5];
        if (at_exit)
            end_process(cache);
        else
            cache->remove_mr(mr_number);
        const auto findings = cache.new_findings();
        assert_int_equal(findings.size(), 2);
        assert_string_equal(findings[0]["kind"].get<std::string>().c_str(), "stale");
        assert_int_equal(findings[0]["first_offset"].get<std::size_t>(), LINE_OFFSET + 5);
        assert_int_equal(findings[0]["length"].get<std::size_t>(), 64);
        assert_string_equal(findings[1]["kind"].get<std::string>().c_str(), "conflict");
        assert_true(pages.bytes[LINE_OFFSET + 5] == old &&
                    pages.bytes[LINE_OFFSET + 128] == CPU_DATA);
    }
}

/// The destructors of the program run after the exit handlers: what they sync is no finding, what
/// they deregister is one.
void destructor_may_sync_after_the_process_began_to_end(void **) {
    for (const bool is_synced : {false, true})
        for (const bool is_deregistered : {false, true}) {
            test_cache cache;
            const program_pages pages(1);
            std::uint32_t mr_number = 0;
            const auto device = cache.add_mr(pages.part(0, pages.size), &mr_number);
            *device->copy_of(pages.bytes + LINE_OFFSET) = DEVICE_DATA;
            assert_true(cache->on_process_end());
            assert_int_equal(cache.new_findings().size(), 0);
            if (is_synced)
                sync_invalidate(cache, pages.part(LINE_OFFSET, 1));
            if (is_deregistered)
                cache->remove_mr(mr_number);
            cache->report_process_end();
            assert_int_equal(cache.new_findings().size(), is_synced ? 0 : 1);
        }
}

/// The lines that a destructor does not sync, or deregister, are reported.
void destructor_may_sync_a_part(void **) {
    for (const bool is_deregistered : {false, true}) {
        test_cache cache;
        const program_pages pages(1);
        std::uint32_t mr_number = 0;
        const auto device = cache.add_mr(pages.part(0, pages.size));
        cache.add_mr(pages.part(LINE_OFFSET + 64, 64), &mr_number);
        std::memset(device->copy_of(pages.bytes + LINE_OFFSET), 0, 256);
        assert_true(cache->on_process_end());
        sync_invalidate(cache, pages.part(LINE_OFFSET + 64, 64));
        if (is_deregistered)
            cache->remove_mr(mr_number);
        cache->report_process_end();
        const auto findings = cache.new_findings();
        assert_int_equal(findings.size(), 2);
        const std::size_t offsets[] = {LINE_OFFSET, LINE_OFFSET + 128}, lengths[] = {64, 128};
        for (std::size_t i = 0; i < 2; ++i) {
            assert_string_equal(findings[i]["kind"].get<std::string>().c_str(), "stale");
            assert_int_equal(findings[i]["offset"].get<std::size_t>(), offsets[i]);
            assert_int_equal(findings[i]["first_offset"].get<std::size_t>(), offsets[i]);
            assert_int_equal(findings[i]["length"].get<std::size_t>(), lengths[i]);
            assert_int_equal(
                std::stoul(findings[i]["program"].get<std::string>().substr(0, 2), nullptr, 16),
                pages.bytes[offsets[i]]);
            assert_int_equal(findings[i]["device_bytes"].get<std::string>().find("00"), 0);
        }
    }
}

/// Once for all MRs with the line.
void stale_line_is_reported_once(void **) {
    test_cache cache;
    const program_pages pages(2);
    const auto device = cache.add_mr(pages.part(0, pages.size));
    const auto inner = cache.add_mr(pages.part(LINE_OFFSET, 256));
    const auto behind = cache.add_mr(pages.part(LINE_OFFSET + 100, PAGE));
    *device->copy_of(pages.bytes + LINE_OFFSET + 5) = DEVICE_DATA;
    *device->copy_of(pages.bytes + LINE_OFFSET + 640) = DEVICE_DATA;
    *device->copy_of(pages.bytes + 2 * PAGE - 1) = DEVICE_DATA;
    end_process(cache);
    assert_int_equal(cache.new_findings().size(), 3);
}

/// As on arm64 before Linux 7.0: whole pages are discarded.
void discarding_dereg_reports_dirty_lines(void **) {
    settings config;
    config.dereg_discards = true;
    test_cache cache(config);
    const program_pages pages(2);
    std::uint32_t mr_number = 0;
    const auto device = cache.add_mr(pages.part(LINE_OFFSET, 192), &mr_number);
    std::uint32_t other = 0;
    const auto beside = cache.add_mr(pages.part(PAGE, 100), &other);
    const std::vector<unsigned char> before(pages.bytes, pages.bytes + pages.size);
    pages.bytes[LINE_OFFSET] = pages.bytes[LINE_OFFSET + 64] = CPU_DATA;
    pages.bytes[64] = CPU_DATA;   // on the page, outside of the MR
    pages.bytes[PAGE] = CPU_DATA; // in another MR
    *device->copy_of(pages.bytes + LINE_OFFSET + 128) = DEVICE_DATA;
    cache->remove_mr(mr_number);
    const auto findings = cache.new_findings();
    assert_int_equal(findings.size(), 3);
    for (const auto &[index, kind, offset] :
         {std::tuple{0, "discarded", 64 - 1024}, std::tuple{1, "stale", 128},
          std::tuple{2, "discarded", 0}}) {
        std::size_t matches = 0;
        for (const auto &finding : findings)
            if (finding["kind"] == kind && finding["offset"] == offset &&
                finding["region"] == mr_number)
                ++matches;
        if (matches != 1)
            fail_msg("%d: %s at offset %d", index, kind, offset);
    }
    assert_int_equal(pages.bytes[LINE_OFFSET + 128],
                     DEVICE_DATA); // the program sees the device's data
    pages.bytes[LINE_OFFSET + 128] = before[LINE_OFFSET + 128];
    assert_memory_equal(pages.bytes, before.data(), PAGE);
    assert_int_equal(pages.bytes[PAGE], CPU_DATA);
}

/// With report_redundant, a sync of a range is a finding if no line of it needed the sync.
void redundant_sync_is_reported(void **) {
    settings config;
    config.report_redundant = true;
    test_cache cache(config);
    const program_pages pages(1);
    const auto device = cache.add_unsynced_mr(pages.part(0, pages.size));
    const addr_range both[] = {pages.part(0, 10), pages.part(LINE_OFFSET, 128)};
    pages.bytes[LINE_OFFSET + 64] = CPU_DATA;
    cache->sync_writeback(both, 2); // the second range was dirty
    *device->copy_of(pages.bytes + LINE_OFFSET) = DEVICE_DATA;
    cache->sync_invalidate(both, 2);
    const auto findings = cache.new_findings();
    assert_int_equal(findings.size(), 2);
    for (const auto &finding : findings) {
        assert_string_equal(finding["kind"].get<std::string>().c_str(), "redundant");
        assert_int_equal(finding["offset"].get<int>(), 0);
        assert_int_equal(finding["length"].get<int>(), 64);
    }
    sync_writeback(cache, pages.part(LINE_OFFSET, 128)); // a stale line needs no write-back
    assert_int_equal(cache.new_findings().size(), 1);
}

/// The stale line is reported for its MR, not for another one on the page.
void finding_names_its_mr_on_shared_page(void **) {
    test_cache cache;
    const program_pages pages(1);
    std::uint32_t low = 0, high = 0;
    const auto device = cache.add_mr(pages.part(0, 256), &low);
    const auto other = cache.add_mr(pages.part(2560, 256), &high);
    *device->copy_of(pages.bytes + 64) = DEVICE_DATA;
    cache->remove_mr(low);
    const auto findings = cache.new_findings();
    assert_int_equal(findings.size(), 1);
    assert_string_equal(findings[0]["kind"].get<std::string>().c_str(), "stale");
    assert_int_equal(findings[0]["region"].get<std::uint32_t>(), low);
    assert_int_equal(findings[0]["offset"].get<int>(), 64);
    cache->remove_mr(high);
    assert_int_equal(cache.new_findings().size(), 0);
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(add_mr_copies_memory_to_device),
        cmocka_unit_test(sync_writes_back_dirty_line),
        cmocka_unit_test(sync_write_fetches_stale_line),
        cmocka_unit_test(conflict_keeps_program_data_and_is_reported),
        cmocka_unit_test(equal_writes_are_no_conflict),
        cmocka_unit_test(sync_skips_unregistered_memory),
        cmocka_unit_test(writeback_source_copies_dirty_line),
        cmocka_unit_test(fetch_sink_fetches_received_lines),
        cmocka_unit_test(fetch_sink_keeps_dirty_bytes_beside_data),
        cmocka_unit_test(check_readable_finds_unmapped_memory),
        cmocka_unit_test(add_mr_rejects_unreadable_memory),
        cmocka_unit_test(sync_write_fetches_into_read_only_memory),
        cmocka_unit_test(overlapping_mrs_share_pages),
        cmocka_unit_test(remove_mr_frees_all_pages),
        cmocka_unit_test(stale_line_is_reported_at_removal_and_exit),
        cmocka_unit_test(destructor_may_sync_after_the_process_began_to_end),
        cmocka_unit_test(destructor_may_sync_a_part),
        cmocka_unit_test(stale_line_is_reported_once),
        cmocka_unit_test(discarding_dereg_reports_dirty_lines),
        cmocka_unit_test(redundant_sync_is_reported),
        cmocka_unit_test(finding_names_its_mr_on_shared_page),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}

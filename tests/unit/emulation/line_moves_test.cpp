// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The modes that change memory without a sync: poison and evict.

#include "cache_fixture.hpp"

#include <algorithm>
#include <thread>
#include <utility>

using namespace emulation_test;

namespace {

constexpr unsigned char POISON = 0xdb;

settings settings_for(const char *mode, std::size_t line = 64) {
    settings config;
    config.line_size = line;
    assert_true(parse_mode(mode, config));
    return config;
}

void sync_invalidate(test_cache &cache, addr_range range) {
    cache->sync_invalidate(&range, 1);
}

/// A post and a poll.
void post_and_poll(test_cache &cache) {
    cache->on_post_or_poll();
    cache->on_post_or_poll();
}

void stale_mode_moves_no_line(void **) {
    test_cache cache(settings_for("stale"));
    const program_pages pages(1);
    const auto device = cache.add_mr(pages.part(0, pages.size));
    pages.bytes[LINE_OFFSET] = CPU_DATA;
    *device->copy_of(pages.bytes + LINE_OFFSET + 64) = DEVICE_DATA;
    cache->check_peer_rdma_write(pages.part(LINE_OFFSET + 64, 1), {});
    for (int i = 0; i < 200; ++i)
        post_and_poll(cache), cache->run_background_step();
    assert_int_not_equal(*device->copy_of(pages.bytes + LINE_OFFSET), CPU_DATA);
    assert_true(pages.bytes[LINE_OFFSET + 64] != DEVICE_DATA &&
                pages.bytes[LINE_OFFSET + 64] != POISON);
}

/// The bytes that the device wrote, until they are fetched.
void poison_mode_poisons_stale_bytes(void **) {
    for (const std::size_t size : LINE_SIZES) {
        test_cache cache(settings_for("poison", size));
        const program_pages pages(1);
        const auto device = cache.add_mr(pages.part(0, pages.size));
        std::vector<unsigned char> expected(pages.bytes, pages.bytes + pages.size);
        cache->check_peer_rdma_write(pages.part(LINE_OFFSET + 4, 4), {});
        post_and_poll(cache);
        assert_memory_equal(pages.bytes, expected.data(), pages.size); // no data has arrived
        std::memset(device->copy_of(pages.bytes + LINE_OFFSET + 4), DEVICE_DATA, 4);
        post_and_poll(cache);
        std::memset(&expected[LINE_OFFSET + 4], POISON, 4);
        assert_memory_equal(pages.bytes, expected.data(), pages.size);
        std::memset(device->copy_of(pages.bytes + LINE_OFFSET + 10), DEVICE_DATA,
                    2); // more bytes of the same line
        cache->check_peer_rdma_write(pages.part(LINE_OFFSET + 10, 2), {});
        post_and_poll(cache);
        std::memset(&expected[LINE_OFFSET + 10], POISON, 2);
        assert_memory_equal(pages.bytes, expected.data(), pages.size);
        const addr_range range = pages.part(LINE_OFFSET, 1);
        cache->sync_writeback(&range, 1); // does not write back poison
        assert_int_equal(*device->copy_of(pages.bytes + LINE_OFFSET + 4), DEVICE_DATA);
        sync_invalidate(cache, range);
        assert_memory_equal(pages.bytes, device->copy_of(pages.bytes), pages.size);
        end_process(cache);
        assert_int_equal(cache.new_findings().size(), 0);
    }
}

/// The device writes a byte's old value again: the poison in the program's memory must go all the
/// same.
void restored_device_data_replaces_poison(void **) {
    test_cache cache(settings_for("poison"));
    const program_pages pages(1);
    const auto device = cache.add_mr(pages.part(0, pages.size));
    const unsigned char old = pages.bytes[LINE_OFFSET];
    cache->check_peer_rdma_write(pages.part(LINE_OFFSET, 1), {});
    *device->copy_of(pages.bytes + LINE_OFFSET) = DEVICE_DATA;
    post_and_poll(cache);
    assert_int_equal(pages.bytes[LINE_OFFSET], POISON);
    *device->copy_of(pages.bytes + LINE_OFFSET) = old;
    sync_invalidate(cache, pages.part(LINE_OFFSET, 1));
    assert_int_equal(pages.bytes[LINE_OFFSET], old);
    // Again in the same line.
    cache->check_peer_rdma_write(pages.part(LINE_OFFSET, 1), {});
    *device->copy_of(pages.bytes + LINE_OFFSET) = DEVICE_DATA;
    post_and_poll(cache);
    assert_int_equal(pages.bytes[LINE_OFFSET], POISON);
    cache->fetch_sink(pages.part(LINE_OFFSET, 1));
    assert_int_equal(pages.bytes[LINE_OFFSET], DEVICE_DATA);
}

/// Of a thousand Writes whose data has arrived, a poll without a completion poisons a few: a
/// program may poll all the time. A poll that found completions poisons all.
void empty_poll_poisons_few_lines(void **) {
    constexpr std::size_t COUNT = 1000;
    test_cache cache(settings_for("poison"));
    const program_pages pages(COUNT * 64 / PAGE + 1);
    const auto device = cache.add_mr(pages.part(0, pages.size));
    for (std::size_t i = 0; i < COUNT; ++i) {
        cache->check_peer_rdma_write(pages.part(i * 64, 8), {});
        std::memset(device->copy_of(pages.bytes + i * 64), DEVICE_DATA, 8);
    }
    const auto count_poisoned = [&] {
        std::size_t count = 0;
        for (std::size_t i = 0; i < COUNT; ++i)
            count += pages.bytes[i * 64] == POISON;
        return count;
    };
    std::size_t num_poisoned = 0;
    for (int i = 0; i < 10; ++i) {
        cache->on_post_or_poll();
        const std::size_t former = std::exchange(num_poisoned, count_poisoned());
        assert_true(num_poisoned > former && num_poisoned <= former + 16);
    }
    cache->on_post_or_poll(true);
    assert_int_equal(count_poisoned(), COUNT);
}

void dirty_line_is_not_poisoned(void **) {
    test_cache cache(settings_for("poison"));
    const program_pages pages(1);
    const auto device = cache.add_mr(pages.part(0, pages.size));
    cache->check_peer_rdma_write(pages.part(LINE_OFFSET, 8), {});
    *device->copy_of(pages.bytes + LINE_OFFSET) = DEVICE_DATA;
    pages.bytes[LINE_OFFSET + 9] = CPU_DATA;
    const unsigned char old = pages.bytes[LINE_OFFSET];
    post_and_poll(cache);
    cache->run_background_step();
    assert_int_equal(pages.bytes[LINE_OFFSET], old);
    // A write into a poisoned line makes it dirty.
    cache->check_peer_rdma_write(pages.part(LINE_OFFSET + 128, 8), {});
    *device->copy_of(pages.bytes + LINE_OFFSET + 128) = DEVICE_DATA;
    post_and_poll(cache);
    assert_int_equal(pages.bytes[LINE_OFFSET + 128], POISON);
    pages.bytes[LINE_OFFSET + 129] = CPU_DATA;
    sync_invalidate(cache, pages.part(LINE_OFFSET + 128, 1));
    assert_int_equal(*device->copy_of(pages.bytes + LINE_OFFSET + 129), CPU_DATA);
    const auto findings = cache.new_findings();
    assert_int_equal(findings.size(), 1);
    assert_string_equal(findings[0]["kind"].get<std::string>().c_str(), "conflict");
}

/// Writes by remote peers are found by a scan of all regions.
void background_scan_poisons_all_mrs(void **) {
    test_cache cache(settings_for("poison"));
    const program_pages pages(600);
    const std::size_t last = pages.size - 64;
    const auto high = cache.add_mr(pages.part(500 * PAGE, 100 * PAGE)); // not in address order
    const auto low = cache.add_mr(pages.part(0, 400 * PAGE));           // more than one scan covers
    const auto between = cache.add_mr(pages.part(450 * PAGE, PAGE));
    *high->copy_of(pages.bytes + last) = *low->copy_of(pages.bytes + 64) =
        *low->copy_of(pages.bytes + 399 * PAGE) = DEVICE_DATA;
    *between->copy_of(pages.bytes + 450 * PAGE) = DEVICE_DATA;
    for (int i = 0; i < 5; ++i)
        cache->run_background_step();
    for (const std::size_t offset : {last, std::size_t{64}, 399 * PAGE, 450 * PAGE})
        assert_int_equal(pages.bytes[offset], POISON);
    *low->copy_of(pages.bytes + 128) = DEVICE_DATA; // the scan starts again
    for (int i = 0; i < 5; ++i)
        cache->run_background_step();
    assert_int_equal(pages.bytes[128], POISON);
}

/// Poison is known for each MR: what is poison in an old MR is data in a new one at its address.
void new_mr_at_same_address_is_poisoned(void **) {
    test_cache cache(settings_for("poison"));
    const program_pages pages(1);
    for (int i = 0; i < 3; ++i) {
        std::uint32_t mr_number = 0;
        const auto device = cache.add_mr(pages.part(0, pages.size), &mr_number);
        pages.bytes[LINE_OFFSET] = 1;
        cache->writeback_source(pages.part(LINE_OFFSET, 1));
        cache->check_peer_rdma_write(pages.part(LINE_OFFSET, 1), {});
        *device->copy_of(pages.bytes + LINE_OFFSET) = DEVICE_DATA;
        post_and_poll(cache);
        assert_int_equal(pages.bytes[LINE_OFFSET], POISON);
        const std::vector<unsigned char> poisoned(pages.bytes + LINE_OFFSET,
                                                  pages.bytes + LINE_OFFSET + 64);
        cache->remove_mr(mr_number);
        assert_int_equal(cache.new_findings().size(), 1); // stale
        // The poison bytes of the old region are program data in the new one.
        pages.bytes[LINE_OFFSET] = 2;
        const auto next = cache.add_mr(pages.part(0, pages.size), &mr_number);
        std::memcpy(pages.bytes + LINE_OFFSET, poisoned.data(), poisoned.size());
        cache->writeback_source(pages.part(LINE_OFFSET, 1));
        assert_int_equal(*next->copy_of(pages.bytes + LINE_OFFSET), POISON);
        cache->remove_mr(mr_number);
    }
}

/// Runs a mode with a seed. Returns after each call a hash of which lines have moved, so that two
/// runs can be compared.
std::vector<std::uint64_t> run_evictions(const char *mode) {
    test_cache cache(settings_for(mode));
    const program_pages pages(4);
    const auto device = cache.add_mr(pages.part(0, 2 * PAGE));
    const auto other = cache.add_mr(pages.part(2 * PAGE, 2 * PAGE));
    for (std::size_t offset = 0; offset < pages.size; offset += 128) {
        pages.bytes[offset] = CPU_DATA;
        const unsigned char *const line = pages.bytes + offset + 64;
        *(offset < 2 * PAGE ? device : other)->copy_of(line) = DEVICE_DATA;
    }
    const addr_range synced = pages.part(0, 100);
    cache->sync_writeback(&synced, 1);
    std::vector<std::uint64_t> seen;
    for (int i = 0; i < 30; ++i) {
        i % 10 == 9 ? cache->run_background_step() : post_and_poll(cache);
        std::uint64_t moved = 0;
        for (std::size_t offset = 0; offset < pages.size; offset += 128) {
            const device_side &side = offset < 2 * PAGE ? *device : *other;
            const auto lines =
                static_cast<std::uint64_t>((*side.copy_of(pages.bytes + offset) == CPU_DATA) +
                                           2 * (pages.bytes[offset + 64] == DEVICE_DATA));
            moved = moved * 31 + lines;
        }
        seen.push_back(moved);
    }
    return seen;
}

void evict_seed_repeats_evictions(void **) {
    const auto first = run_evictions("evict:7");
    assert_true(first == run_evictions("evict:7"));
    assert_true(first != run_evictions("evict:8"));
    assert_true(first.front() != first.back());
    assert_true(run_evictions("evict") == run_evictions("evict:1"));
}

/// All lines move eventually, except those in conflict.
void evict_mode_moves_all_lines_without_conflict(void **) {
    for (const std::size_t size : LINE_SIZES) {
        test_cache cache(settings_for("evict:3", size));
        const program_pages pages(1);
        const auto device = cache.add_mr(pages.part(0, pages.size));
        pages.bytes[LINE_OFFSET] = CPU_DATA;
        *device->copy_of(pages.bytes + LINE_OFFSET + size) = DEVICE_DATA;
        pages.bytes[LINE_OFFSET + 2 * size] = CPU_DATA;
        *device->copy_of(pages.bytes + LINE_OFFSET + 2 * size + 8) = DEVICE_DATA;
        const std::size_t lines = PAGE / size;
        for (std::size_t i = 0; i < lines; ++i) // 64 lines each
            cache->run_background_step();
        assert_int_equal(*device->copy_of(pages.bytes + LINE_OFFSET), CPU_DATA);
        assert_int_equal(pages.bytes[LINE_OFFSET + size], DEVICE_DATA);
        assert_int_not_equal(*device->copy_of(pages.bytes + LINE_OFFSET + 2 * size), CPU_DATA);
        assert_int_not_equal(pages.bytes[LINE_OFFSET + 2 * size + 8], DEVICE_DATA);
        assert_int_equal(cache.new_findings().size(), 0);
    }
}

void evict_mode_reports_no_redundant_sync(void **) {
    settings config = settings_for("evict:3");
    config.report_redundant = true;
    test_cache cache(config);
    const program_pages pages(1);
    const auto device = cache.add_mr(pages.part(0, pages.size));
    sync_invalidate(cache, pages.part(0, pages.size));
    assert_int_equal(cache.new_findings().size(), 0);
}

/// Threads write to lines during eviction.
void eviction_loses_no_concurrent_store(void **) {
    constexpr std::uint64_t ROUNDS = 200000;
    test_cache cache(settings_for("evict:1"));
    const program_pages pages(1);
    const auto device = cache.add_mr(pages.part(0, pages.size));
    auto *const program_word = reinterpret_cast<std::uint64_t *>(pages.bytes);
    auto *const device_word = reinterpret_cast<std::uint64_t *>(device->copy_of(pages.bytes + 8));
    program_word[0] = 0;
    __atomic_store_n(device_word, 0, __ATOMIC_RELAXED);
    std::thread counter([&] {
        for (std::uint64_t i = 0; i < ROUNDS; ++i)
            __atomic_store_n(&program_word[0],
                             __atomic_load_n(&program_word[0], __ATOMIC_RELAXED) + 1,
                             __ATOMIC_RELAXED);
    });
    for (std::uint64_t i = 1; i <= 2000; ++i) {
        __atomic_store_n(device_word, i, __ATOMIC_RELAXED);
        post_and_poll(cache);
    }
    counter.join();
    assert_int_equal(program_word[0], ROUNDS);
}

/// As ibv_rereg_mr does. Memory that peers cannot write is not scanned.
void set_remote_access_limits_poison(void **) {
    test_cache cache(settings_for("poison"));
    const program_pages pages(1);
    std::uint32_t mr_number = 0;
    const auto device = cache.add_mr(pages.part(0, pages.size), &mr_number);
    const auto is_poisoned = [&](std::size_t offset) {
        *device->copy_of(pages.bytes + offset) = DEVICE_DATA;
        cache->run_background_step();
        return pages.bytes[offset] == POISON;
    };
    assert_true(is_poisoned(64));
    cache->set_remote_access(mr_number, false, false);
    assert_false(is_poisoned(128));
    cache->set_remote_access(mr_number, false, true);
    assert_true(is_poisoned(192));
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(stale_mode_moves_no_line),
        cmocka_unit_test(poison_mode_poisons_stale_bytes),
        cmocka_unit_test(restored_device_data_replaces_poison),
        cmocka_unit_test(empty_poll_poisons_few_lines),
        cmocka_unit_test(dirty_line_is_not_poisoned),
        cmocka_unit_test(background_scan_poisons_all_mrs),
        cmocka_unit_test(new_mr_at_same_address_is_poisoned),
        cmocka_unit_test(evict_seed_repeats_evictions),
        cmocka_unit_test(evict_mode_moves_all_lines_without_conflict),
        cmocka_unit_test(evict_mode_reports_no_redundant_sync),
        cmocka_unit_test(eviction_loses_no_concurrent_store),
        cmocka_unit_test(set_remote_access_limits_poison),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}

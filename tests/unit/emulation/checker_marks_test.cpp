// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The marks that a memory checker gets: the bytes that the device wrote and the program did not
// sync.

#include "cache_fixture.hpp"
#include "core/cache/checker_marks.hpp"

#include <chrono>
#include <set>

using namespace emulation_test;
using namespace std::chrono_literals;

namespace {

std::chrono::steady_clock::time_point fake_now{};

} // namespace

// Replaces that of the C++ library, also for the code under test.
std::chrono::steady_clock::time_point std::chrono::steady_clock::now() noexcept {
    return fake_now;
}

namespace {

// A fake memory checker records which bytes the emulation marks as not to be accessed. It refuses
// to mark the forbidden bytes, as a checker that forbids them already.

struct {
    std::set<std::uintptr_t> marked;
    addr_range forbidden;

    /// '#' for a marked byte, '.' for another.
    [[nodiscard]] std::string to_string(addr_range range) const {
        std::string text;
        for (std::uintptr_t addr = range.begin; addr < range.end; ++addr)
            text += marked.count(addr) != 0 ? '#' : '.';
        return text;
    }
} checker;

bool mark(addr_range range) noexcept {
    if (!intersection(range, checker.forbidden).empty())
        return false;
    for (std::uintptr_t addr = range.begin; addr < range.end; ++addr)
        checker.marked.insert(addr);
    return true;
}
void unmark(addr_range range) noexcept {
    for (std::uintptr_t addr = range.begin; addr < range.end; ++addr)
        assert_true(checker.marked.erase(addr) == 1); // only marked bytes
}
std::vector<addr_range> defined; ///< ranges that the emulation declared initialized
void make_defined(addr_range range) noexcept {
    defined.push_back(range);
}
/// Which mark single bytes, as memcheck does, or words of 8 bytes, as AddressSanitizer does.
constexpr memory_checker BYTE_CHECKER = {"bytes", 1, mark, unmark, make_defined};
constexpr memory_checker WORD_CHECKER = {"words", 8, mark, unmark, make_defined};

settings settings_for(const char *mode, std::size_t line = 64) {
    settings config;
    config.line_size = line;
    assert_true(parse_mode(mode, config));
    return config;
}

/// A cache with one MR, and writes by its device.
struct marked_region {
    marked_region(const char *mode, const memory_checker &mem_checker, std::size_t line = 64)
        : cache(settings_for(mode, line), &mem_checker) {
        checker = {};
        defined.clear();
        device = cache.add_mr(pages.part(0, pages.size), &mr_number);
    }
    void device_write(std::size_t offset, std::size_t length) const {
        std::memset(device->copy_of(pages.bytes + offset), DEVICE_DATA, length);
    }
    /// The emulation learns of the peer's RDMA Write before the device executes it.
    void announced_device_write(std::size_t offset, std::size_t length) {
        cache->check_peer_rdma_write(pages.part(offset, length), {});
        device_write(offset, length);
    }
    [[nodiscard]] std::string marked(std::size_t offset = LINE_OFFSET,
                                     std::size_t length = 16) const {
        return checker.to_string(pages.part(offset, length));
    }

    const program_pages pages{2};
    test_cache cache;
    std::unique_ptr<device_side> device;
    std::uint32_t mr_number = 0;
};

#define assert_marked(got, expected) assert_string_equal((got).c_str(), expected)

void announced_peer_write_is_marked(void **) {
    for (const std::size_t size : LINE_SIZES) {
        marked_region fixture("stale", BYTE_CHECKER, size);
        const unsigned char old = fixture.pages.bytes[LINE_OFFSET + 3];
        fixture.announced_device_write(LINE_OFFSET + 2, 9);
        *fixture.device->copy_of(fixture.pages.bytes + LINE_OFFSET + 3) =
            old; // written with the same value
        assert_marked(fixture.marked(), "................");
        fixture.cache->on_data_received();
        assert_marked(fixture.marked(), "..#########.....");
        assert_int_equal(checker.marked.size(), 9);
        fixture.cache->on_data_received();
        assert_int_equal(checker.marked.size(), 9);
    }
}

/// A line is marked when the device has changed it, not when the peer has announced the Write.
void pending_peer_write_is_not_marked(void **) {
    marked_region fixture("stale", BYTE_CHECKER);
    fixture.cache->check_peer_rdma_write(fixture.pages.part(LINE_OFFSET, 80), {});
    fixture.device_write(LINE_OFFSET, 16); // the first line only
    fixture.cache->on_data_received();
    assert_int_equal(checker.marked.size(), 64);
    fixture.device_write(LINE_OFFSET + 64, 16);
    fixture.cache->on_data_received();
    assert_int_equal(checker.marked.size(), 80);
    fixture.announced_device_write(LINE_OFFSET + 256, 4); // in the line of a pending write
    fixture.cache->check_peer_rdma_write(fixture.pages.part(LINE_OFFSET + 264, 4), {});
    fixture.cache->on_data_received();
    assert_marked(fixture.marked(LINE_OFFSET + 256), "####............");
}

void unannounced_device_write_is_marked(void **) {
    marked_region fixture("stale", BYTE_CHECKER);
    fixture.device_write(LINE_OFFSET + 1, 2);
    fixture.device_write(LINE_OFFSET + 9, 1); // a gap of six bytes counts as one Write
    fixture.device_write(LINE_OFFSET + 32, 1);
    fixture.cache->on_data_received();
    assert_marked(fixture.marked(), ".#########......");
    assert_marked(fixture.marked(LINE_OFFSET + 30, 4), "..#.");
}

void word_checker_marks_whole_words(void **) {
    marked_region fixture("stale", WORD_CHECKER);
    fixture.announced_device_write(LINE_OFFSET + 4, 22);
    fixture.announced_device_write(LINE_OFFSET + 40, 7);
    fixture.cache->on_data_received();
    assert_marked(fixture.marked(LINE_OFFSET, 48),
                  "........################........................");
}

/// The line is longer than the MR, and the device writes all of it.
void marks_stay_within_mr(void **) {
    checker = {};
    const program_pages pages(1);
    test_cache cache(settings_for("stale", 256), &BYTE_CHECKER);
    const auto device = cache.add_mr(pages.part(LINE_OFFSET + 3, 10));
    std::memset(device->copy_of(pages.bytes + LINE_OFFSET), DEVICE_DATA, 256);
    cache->on_data_received();
    assert_marked(checker.to_string(pages.part(LINE_OFFSET, 16)), "...##########...");
    assert_int_equal(checker.marked.size(), 10);
}

/// The word with a byte that the checker refuses stays unmarked, so a sync does not unmark it.
void forbidden_bytes_are_not_marked(void **) {
    marked_region fixture("stale", WORD_CHECKER);
    checker.forbidden = fixture.pages.part(LINE_OFFSET + 12, 1);
    fixture.announced_device_write(LINE_OFFSET, 32);
    fixture.cache->on_data_received();
    assert_marked(fixture.marked(LINE_OFFSET, 32), "########........################");
    const addr_range range = fixture.pages.part(LINE_OFFSET, 1);
    fixture.cache->sync_invalidate(&range, 1);
    assert_int_equal(checker.marked.size(), 0);
}

/// A dirty line is reported as a finding.
void dirty_line_is_not_marked(void **) {
    marked_region fixture("stale", BYTE_CHECKER);
    fixture.announced_device_write(LINE_OFFSET, 8);
    fixture.pages.bytes[LINE_OFFSET + 20] = CPU_DATA;
    fixture.cache->on_data_received();
    assert_int_equal(checker.marked.size(), 0);
}

void sync_write_removes_marks(void **) {
    marked_region fixture("stale", BYTE_CHECKER);
    const addr_range range = fixture.pages.part(LINE_OFFSET, 16);
    fixture.announced_device_write(LINE_OFFSET, 16);
    fixture.cache->on_data_received();
    fixture.cache->sync_writeback(&range, 1); // fetches nothing
    assert_int_equal(checker.marked.size(), 16);
    fixture.cache->sync_invalidate(&range, 1);
    assert_int_equal(checker.marked.size(), 0);
    assert_int_equal(fixture.pages.bytes[LINE_OFFSET], DEVICE_DATA);
    assert_true(defined.size() == 1 && defined[0].size() == 16);
    fixture.cache->on_data_received();
    assert_int_equal(checker.marked.size(), 0);
}

void fetch_sink_removes_marks(void **) {
    marked_region fixture("stale", BYTE_CHECKER);
    fixture.announced_device_write(LINE_OFFSET, 16);
    fixture.cache->on_data_received();
    fixture.cache->fetch_sink(fixture.pages.part(LINE_OFFSET + 2, 6));
    assert_int_equal(checker.marked.size(), 0);
    assert_true(defined.size() == 1 && defined[0].size() == 6);
}

void remove_mr_removes_marks(void **) {
    marked_region fixture("stale", BYTE_CHECKER);
    const auto other = fixture.cache.add_mr(fixture.pages.part(PAGE, PAGE));
    fixture.announced_device_write(LINE_OFFSET, 16);
    fixture.announced_device_write(PAGE, 4);
    fixture.cache->on_data_received();
    assert_int_equal(checker.marked.size(), 20);
    fixture.cache->remove_mr(fixture.mr_number);
    assert_int_equal(checker.marked.size(), 0);
    fixture.cache->on_data_received(); // the other region still has them
    assert_int_equal(checker.marked.size(), 4);
}

void eviction_removes_marks(void **) {
    marked_region fixture("evict:3", BYTE_CHECKER);
    fixture.announced_device_write(LINE_OFFSET, 16);
    fixture.cache->on_data_received();
    assert_int_equal(checker.marked.size(), 16);
    for (std::size_t i = 0; i < 2 * PAGE / 64; ++i) // 64 lines each
        fixture.cache->run_background_step();
    assert_int_equal(fixture.pages.bytes[LINE_OFFSET], DEVICE_DATA);
    assert_int_equal(checker.marked.size(), 0);
}

/// In mode poison a post or poll marks again; bytes of a new Write are marked when data is
/// received.
void poisoned_bytes_are_marked(void **) {
    marked_region fixture("poison", BYTE_CHECKER);
    fixture.announced_device_write(LINE_OFFSET, 4);
    fixture.cache->on_data_received();
    fixture.announced_device_write(LINE_OFFSET + 8, 4);
    checker.marked.clear(); // as a program's write does
    fixture.cache->on_post_or_poll();
    assert_marked(fixture.marked(), "####............");
    fixture.cache->on_data_received();
    assert_marked(fixture.marked(), "####....####....");
    const addr_range range = fixture.pages.part(LINE_OFFSET, 1);
    fixture.cache->sync_invalidate(&range, 1);
    assert_int_equal(checker.marked.size(), 0);
}

/// Not at once: a program may sync and read in turns. The clock is fake.
void unsynced_write_is_marked_after_one_second(void **) {
    for (const char *const mode : {"stale", "poison"}) {
        marked_region fixture(mode, BYTE_CHECKER);
        fixture.device_write(LINE_OFFSET, 16);
        const addr_range range = fixture.pages.part(LINE_OFFSET, 1);
        for (int i = 0; i < 2; ++i)
            fixture.cache->run_background_step();
        assert_int_equal(checker.marked.size(), 0);
        fixture.cache->sync_invalidate(&range, 1);
        std::memset(fixture.device->copy_of(fixture.pages.bytes + LINE_OFFSET), CPU_DATA, 16);
        fake_now += 1100ms;
        fixture.cache->run_background_step(); // synced within the second
        assert_int_equal(checker.marked.size(), 0);
        fake_now += 1100ms;
        fixture.cache->run_background_step();
        assert_int_equal(checker.marked.size(), 16);
    }
}

void no_marks_without_checker(void **) {
    checker = {};
    const program_pages pages(1);
    test_cache cache(settings_for("stale"));
    const auto device = cache.add_mr(pages.part(0, pages.size));
    cache->check_peer_rdma_write(pages.part(LINE_OFFSET, 16), {});
    std::memset(device->copy_of(pages.bytes + LINE_OFFSET), DEVICE_DATA, 16);
    cache->on_data_received();
    assert_int_equal(checker.marked.size(), 0);
    assert_false(cache->needs_thread());
}

// The memory checker that runs this test, if any.

const memory_checker *require_checker() {
    const memory_checker *const mem_checker = running_checker();
    if (mem_checker == nullptr) {
        print_message("# skipped: needs ASan or valgrind\n");
        skip();
    }
    return mem_checker;
}

/// Whether the checker allows access to all bytes.
bool is_free(const void *range, std::size_t length) {
    const auto addr = reinterpret_cast<std::uintptr_t>(range);
    const addr_range bytes = {addr, addr + length};
    if (!running_checker()->mark(bytes))
        return false;
    running_checker()->unmark(bytes);
    return true;
}

void unmark_keeps_freed_memory_forbidden(void **) {
    const memory_checker &mem_checker = *require_checker();
    auto *const block = static_cast<unsigned char *>(std::calloc(1, 64));
    assert_true(is_free(block, 64));
    assert_false(is_free(block + 64, 8)); // beyond the block
    const auto addr = reinterpret_cast<std::uintptr_t>(block);
    assert_true(mem_checker.mark({addr, addr + 32}));
    block[40] = 1; // not marked
    std::free(block);
    mem_checker.unmark({addr, addr + 32});
    assert_false(is_free(block, 32));
}

void emulation_accesses_marked_memory(void **) {
    const memory_checker &mem_checker = *require_checker();
    settings config = settings_for("stale");
    test_cache cache(config, &mem_checker);
    const program_pages pages(1);
    const auto device = cache.add_mr(pages.part(0, pages.size));
    cache->check_peer_rdma_write(pages.part(LINE_OFFSET, 64), {});
    std::memset(device->copy_of(pages.bytes + LINE_OFFSET), DEVICE_DATA, 64);
    cache->on_data_received();
    assert_false(mem_checker.unit == 8 && mem_checker.mark(pages.part(LINE_OFFSET, 64))); // marked
    const addr_range range = pages.part(LINE_OFFSET, 1);
    cache->sync_invalidate(&range, 1);
    assert_memory_equal(pages.bytes, device->copy_of(pages.bytes), pages.size); // usable again
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(announced_peer_write_is_marked),
        cmocka_unit_test(pending_peer_write_is_not_marked),
        cmocka_unit_test(unannounced_device_write_is_marked),
        cmocka_unit_test(word_checker_marks_whole_words),
        cmocka_unit_test(marks_stay_within_mr),
        cmocka_unit_test(forbidden_bytes_are_not_marked),
        cmocka_unit_test(dirty_line_is_not_marked),
        cmocka_unit_test(sync_write_removes_marks),
        cmocka_unit_test(fetch_sink_removes_marks),
        cmocka_unit_test(remove_mr_removes_marks),
        cmocka_unit_test(eviction_removes_marks),
        cmocka_unit_test(poisoned_bytes_are_marked),
        cmocka_unit_test(unsynced_write_is_marked_after_one_second),
        cmocka_unit_test(no_marks_without_checker),
        cmocka_unit_test(unmark_keeps_freed_memory_forbidden),
        cmocka_unit_test(emulation_accesses_marked_memory),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}

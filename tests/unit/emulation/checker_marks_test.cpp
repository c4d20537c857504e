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

// A fake memory checker; the program must not access the forbidden bytes.

struct {
    std::set<std::uintptr_t> marked;
    addr_range forbidden;

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
std::vector<addr_range> defined;
void make_defined(addr_range range) noexcept {
    defined.push_back(range);
}
constexpr memory_checker BYTES = {"bytes", 1, mark, unmark, make_defined};
constexpr memory_checker WORDS = {"words", 8, mark, unmark, make_defined};

constexpr std::size_t OFFSET = 1024;

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
        device = cache.add(pages.part(0, pages.size), &mr_number);
    }
    void write(std::size_t offset, std::size_t length) const {
        std::memset((*device)(pages.bytes + offset), 0xff, length);
    }
    void announced_write(std::size_t offset, std::size_t length) {
        cache->check_peer_rdma_write(pages.part(offset, length), {});
        write(offset, length);
    }
    [[nodiscard]] std::string marked(std::size_t offset = OFFSET, std::size_t length = 16) const {
        return checker.to_string(pages.part(offset, length));
    }

    const program_pages pages{2};
    test_cache cache;
    std::unique_ptr<device_side> device;
    std::uint32_t mr_number = 0;
};

#define assert_marked(got, expected) assert_string_equal((got).c_str(), expected)

void announced_peer_write_is_marked(void **) {
    for (const std::size_t size : SIZES) {
        marked_region fixture("stale", BYTES, size);
        const unsigned char old = fixture.pages.bytes[OFFSET + 3];
        fixture.announced_write(OFFSET + 2, 9);
        *(*fixture.device)(fixture.pages.bytes + OFFSET + 3) = old; // written with the same value
        assert_marked(fixture.marked(), "................");
        fixture.cache->on_data_received();
        assert_marked(fixture.marked(), "..#########.....");
        assert_int_equal(checker.marked.size(), 9);
        fixture.cache->on_data_received();
        assert_int_equal(checker.marked.size(), 9);
    }
}

void pending_peer_write_is_not_marked(void **) {
    marked_region fixture("stale", BYTES);
    fixture.cache->check_peer_rdma_write(fixture.pages.part(OFFSET, 80), {});
    fixture.write(OFFSET, 16); // the first line only
    fixture.cache->on_data_received();
    assert_int_equal(checker.marked.size(), 64);
    fixture.write(OFFSET + 64, 16);
    fixture.cache->on_data_received();
    assert_int_equal(checker.marked.size(), 80);
    fixture.announced_write(OFFSET + 256, 4); // in the line of a pending write
    fixture.cache->check_peer_rdma_write(fixture.pages.part(OFFSET + 264, 4), {});
    fixture.cache->on_data_received();
    assert_marked(fixture.marked(OFFSET + 256), "####............");
}

void unannounced_device_write_is_marked(void **) {
    marked_region fixture("stale", BYTES);
    fixture.write(OFFSET + 1, 2);
    fixture.write(OFFSET + 9, 1); // a gap of six bytes counts as one Write
    fixture.write(OFFSET + 32, 1);
    fixture.cache->on_data_received();
    assert_marked(fixture.marked(), ".#########......");
    assert_marked(fixture.marked(OFFSET + 30, 4), "..#.");
}

void word_checker_marks_whole_words(void **) {
    marked_region fixture("stale", WORDS);
    fixture.announced_write(OFFSET + 4, 22);
    fixture.announced_write(OFFSET + 40, 7);
    fixture.cache->on_data_received();
    assert_marked(fixture.marked(OFFSET, 48), "........################........................");
}

void marks_stay_within_mr(void **) {
    checker = {};
    const program_pages pages(1);
    test_cache cache(settings_for("stale", 256), &BYTES);
    const auto device = cache.add(pages.part(OFFSET + 3, 10));
    std::memset((*device)(pages.bytes + OFFSET), 0xff, 256);
    cache->on_data_received();
    assert_marked(checker.to_string(pages.part(OFFSET, 16)), "...##########...");
    assert_int_equal(checker.marked.size(), 10);
}

void forbidden_bytes_are_not_marked(void **) {
    marked_region fixture("stale", WORDS);
    checker.forbidden = fixture.pages.part(OFFSET + 12, 1);
    fixture.announced_write(OFFSET, 32);
    fixture.cache->on_data_received();
    assert_marked(fixture.marked(OFFSET, 32), "########........################");
    const addr_range range = fixture.pages.part(OFFSET, 1);
    fixture.cache->sync_rdma_write(&range, 1);
    assert_int_equal(checker.marked.size(), 0);
}

/// A dirty line is reported as a finding.
void dirty_line_is_not_marked(void **) {
    marked_region fixture("stale", BYTES);
    fixture.announced_write(OFFSET, 8);
    fixture.pages.bytes[OFFSET + 20] = 0xfe;
    fixture.cache->on_data_received();
    assert_int_equal(checker.marked.size(), 0);
}

void sync_write_removes_marks(void **) {
    marked_region fixture("stale", BYTES);
    const addr_range range = fixture.pages.part(OFFSET, 16);
    fixture.announced_write(OFFSET, 16);
    fixture.cache->on_data_received();
    fixture.cache->sync_rdma_read(&range, 1); // fetches nothing
    assert_int_equal(checker.marked.size(), 16);
    fixture.cache->sync_rdma_write(&range, 1);
    assert_int_equal(checker.marked.size(), 0);
    assert_int_equal(fixture.pages.bytes[OFFSET], 0xff);
    assert_true(defined.size() == 1 && defined[0].size() == 16);
    fixture.cache->on_data_received();
    assert_int_equal(checker.marked.size(), 0);
}

void fetch_sink_removes_marks(void **) {
    marked_region fixture("stale", BYTES);
    fixture.announced_write(OFFSET, 16);
    fixture.cache->on_data_received();
    fixture.cache->fetch_sink(fixture.pages.part(OFFSET + 2, 6));
    assert_int_equal(checker.marked.size(), 0);
    assert_true(defined.size() == 1 && defined[0].size() == 6);
}

void remove_mr_removes_marks(void **) {
    marked_region fixture("stale", BYTES);
    const auto other = fixture.cache.add(fixture.pages.part(PAGE, PAGE));
    fixture.announced_write(OFFSET, 16);
    fixture.announced_write(PAGE, 4);
    fixture.cache->on_data_received();
    assert_int_equal(checker.marked.size(), 20);
    fixture.cache->remove_mr(fixture.mr_number);
    assert_int_equal(checker.marked.size(), 0);
    fixture.cache->on_data_received(); // the other region still has them
    assert_int_equal(checker.marked.size(), 4);
}

void eviction_removes_marks(void **) {
    marked_region fixture("evict:3", BYTES);
    fixture.announced_write(OFFSET, 16);
    fixture.cache->on_data_received();
    assert_int_equal(checker.marked.size(), 16);
    for (std::size_t i = 0; i < 2 * PAGE / 64; ++i) // 64 lines each
        fixture.cache->run_background_step();
    assert_int_equal(fixture.pages.bytes[OFFSET], 0xff);
    assert_int_equal(checker.marked.size(), 0);
}

void poisoned_bytes_are_marked(void **) {
    marked_region fixture("poison", BYTES);
    fixture.announced_write(OFFSET, 4);
    fixture.cache->on_data_received();
    fixture.announced_write(OFFSET + 8, 4);
    checker.marked.clear(); // as a program's write does
    fixture.cache->on_post_or_poll();
    assert_marked(fixture.marked(), "####............");
    fixture.cache->on_data_received();
    assert_marked(fixture.marked(), "####....####....");
    const addr_range range = fixture.pages.part(OFFSET, 1);
    fixture.cache->sync_rdma_write(&range, 1);
    assert_int_equal(checker.marked.size(), 0);
}

/// Not at once: a program may sync and read in turns. The clock is fake.
void unsynced_write_is_marked_after_one_second(void **) {
    for (const char *const mode : {"stale", "poison"}) {
        marked_region fixture(mode, BYTES);
        fixture.write(OFFSET, 16);
        const addr_range range = fixture.pages.part(OFFSET, 1);
        for (int i = 0; i < 2; ++i)
            fixture.cache->run_background_step();
        assert_int_equal(checker.marked.size(), 0);
        fixture.cache->sync_rdma_write(&range, 1);
        std::memset((*fixture.device)(fixture.pages.bytes + OFFSET), 0xfe, 16);
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
    const auto device = cache.add(pages.part(0, pages.size));
    cache->check_peer_rdma_write(pages.part(OFFSET, 16), {});
    std::memset((*device)(pages.bytes + OFFSET), 0xff, 16);
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
    const auto device = cache.add(pages.part(0, pages.size));
    cache->check_peer_rdma_write(pages.part(OFFSET, 64), {});
    std::memset((*device)(pages.bytes + OFFSET), 0xff, 64);
    cache->on_data_received();
    assert_false(mem_checker.unit == 8 && mem_checker.mark(pages.part(OFFSET, 64))); // marked
    const addr_range range = pages.part(OFFSET, 1);
    cache->sync_rdma_write(&range, 1);
    assert_memory_equal(pages.bytes, (*device)(pages.bytes), pages.size); // usable again
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

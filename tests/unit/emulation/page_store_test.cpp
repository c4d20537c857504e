// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The device's pages: one for each page of the program, as long as it has a reference.

#include "cache_fixture.hpp"
#include "core/memory/page_store.hpp"

#include <cerrno>
#include <csignal>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace emulation_test;

namespace {

constexpr std::size_t HASHES = 512; // of a page
const std::uintptr_t BASE = 0x100000 * PAGE;

addr_range pages(std::size_t first, std::size_t count) {
    return {BASE + first * PAGE, BASE + (first + count) * PAGE};
}

struct counted_store {
    page_store pages_of_device{PAGE, HASHES};

    /// Gets pages; new ones must be zero, and get their address written. Returns the number of new
    /// pages.
    std::size_t get_pages(addr_range range) {
        std::size_t num_new = 0;
        assert_int_equal(pages_of_device.get_pages(range,
                                                   [&](addr_range part, page_extent &extent) {
                                                       num_new += part.size() / PAGE;
                                                       write_addresses(part, extent);
                                                   }),
                         0);
        return num_new;
    }
    static void write_addresses(addr_range part, const page_extent &extent) {
        for (std::uintptr_t page = part.begin; page < part.end; page += PAGE) {
            unsigned char *const device_page = extent.device + (page - extent.pages.begin);
            for (std::size_t i = 0; i < PAGE; i += 64)
                assert_int_equal(device_page[i], 0);
            std::memcpy(device_page, &page, sizeof(page));
        }
    }
    /// Counts pages with references; each must contain its address.
    std::size_t count_pages(addr_range range) {
        std::size_t count = 0;
        std::uintptr_t last = 0;
        pages_of_device.visit(range, [&](addr_range part, const page_extent &extent) {
            assert_true(part.begin >= last && part.begin >= range.begin && part.end <= range.end);
            last = part.end;
            for (std::uintptr_t page = part.begin; page < part.end; page += PAGE) {
                std::uintptr_t written;
                std::memcpy(&written, extent.device + (page - extent.pages.begin), sizeof(written));
                assert_true(written == page);
                ++count;
            }
        });
        return count;
    }
    [[nodiscard]] std::size_t file_bytes() const {
        struct stat status;
        assert_int_equal(fstat(pages_of_device.fd(), &status), 0);
        return static_cast<std::size_t>(status.st_blocks) * 512;
    }
};

/// The address space of this process, in pages.
std::size_t address_space() {
    std::size_t size = 0;
    std::ifstream("/proc/self/statm") >> size;
    return size;
}

std::size_t count_mappings() {
    std::ifstream maps("/proc/self/maps");
    std::size_t count = 0;
    for (std::string line; std::getline(maps, line);)
        ++count;
    return count;
}

/// A process may have 65,530 mappings: many small registrations share some.
void small_registrations_share_mappings(void **) {
    constexpr std::size_t COUNT = 20000, MAX_MAPPINGS = 20;
    counted_store store;
    store.get_pages(pages(0, 1)); // what is mapped once
    const std::size_t before = count_mappings(), space = address_space();
    for (std::size_t i = 1; i <= COUNT; ++i)
        assert_int_equal(store.get_pages(pages(2 * i, 1)), 1);
    assert_true(count_mappings() < before + MAX_MAPPINGS);
    assert_int_equal(store.count_pages(pages(2, 2 * COUNT)), COUNT);
    for (std::size_t i = 1; i <= COUNT; ++i)
        store.pages_of_device.put_pages(pages(2 * (i * 7919 % COUNT + 1), 1));
    assert_true(address_space() < space + 8192); // what malloc() keeps
}

void put_pages_frees_pages(void **) {
    counted_store store;
    assert_int_equal(store.pages_of_device.bytes(), 0);
    assert_int_equal(store.get_pages(pages(0, 5)), 5);
    assert_int_equal(store.pages_of_device.bytes(), 5 * (PAGE + HASHES));
    assert_int_equal(store.file_bytes(), 5 * PAGE);
    assert_int_equal(store.count_pages(pages(0, 5)), 5);
    store.pages_of_device.put_pages(pages(0, 5));
    assert_int_equal(store.pages_of_device.bytes(), 0);
    assert_int_equal(store.file_bytes(), 0);
    assert_int_equal(store.count_pages(pages(0, 5)), 0);
}

/// A page is allocated by the first get_pages() with it, and freed by the last put_pages().
/// get_pages() returns the number of new pages.
void overlapping_ranges_share_pages(void **) {
    counted_store store;
    assert_int_equal(store.get_pages(pages(2, 2)), 2);
    assert_int_equal(store.get_pages(pages(6, 1)), 1);
    assert_int_equal(store.get_pages(pages(0, 10)), 7);
    assert_int_equal(store.get_pages(pages(3, 4)), 0);
    assert_int_equal(store.pages_of_device.bytes(), 10 * (PAGE + HASHES));
    store.pages_of_device.put_pages(pages(0, 10));
    assert_int_equal(store.count_pages(pages(0, 20)), 5); // 2 to 6
    assert_int_equal(store.file_bytes(), 5 * PAGE);
    store.pages_of_device.put_pages(pages(2, 2));
    assert_int_equal(store.count_pages(pages(0, 20)), 4);
    store.pages_of_device.put_pages(pages(6, 1));
    assert_int_equal(store.count_pages(pages(0, 20)), 4);
    assert_int_equal(store.get_pages(pages(1, 3)), 2);
    assert_int_equal(store.count_pages(pages(0, 20)), 6);
    store.pages_of_device.put_pages(pages(3, 4));
    store.pages_of_device.put_pages(pages(1, 3));
    assert_int_equal(store.pages_of_device.bytes(), 0);
    assert_int_equal(store.file_bytes(), 0);
}

void visit_finds_parts_in_address_order(void **) {
    counted_store store;
    store.get_pages(pages(1, 1));
    store.get_pages(pages(3, 2));
    const addr_range range = {BASE + 100, BASE + 4 * PAGE + 10};
    std::vector<addr_range> seen;
    store.pages_of_device.visit(
        range, [&](addr_range part, const page_extent &) { seen.push_back(part); });
    assert_int_equal(seen.size(), 2);
    assert_true(seen[0].begin == BASE + PAGE && seen[0].end == BASE + 2 * PAGE);
    assert_true(seen[1].begin == BASE + 3 * PAGE && seen[1].end == BASE + 4 * PAGE + 10);
}

void repeated_get_and_put_do_not_grow(void **) {
    counted_store store;
    store.get_pages(pages(500, 3)); // referenced until the end
    std::size_t before = 0;
    for (int round = 0; round < 1000; ++round) {
        const auto first = static_cast<std::size_t>(round % 7);
        store.get_pages(pages(first, 40));
        store.get_pages(pages(first + 20, 50));
        store.pages_of_device.put_pages(pages(first, 40));
        store.pages_of_device.put_pages(pages(first + 20, 50));
        assert_int_equal(store.pages_of_device.bytes(), 3 * (PAGE + HASHES));
        if (round == 50)
            before = address_space();
    }
    assert_int_equal(store.file_bytes(), 3 * PAGE);
    // A leak would be 70 pages a round. valgrind delays the release of freed memory.
    assert_in_range(address_space(), 0, before + 4096);
    assert_int_equal(store.count_pages(pages(0, 1000)), 3);
}

void oversized_get_pages_fails(void **) {
    counted_store store;
    store.get_pages(pages(1, 2));
    const auto none = [](addr_range, page_extent &) {
        fail_msg("no page is expected");
    };
    const addr_range most = {PAGE, PAGE + (std::uintptr_t{1} << 47)};
    assert_int_equal(store.pages_of_device.get_pages(most, none), ENOMEM);
    assert_int_equal(store.count_pages(pages(0, 10)), 2);
    store.pages_of_device.put_pages(pages(1, 2));
    assert_int_equal(store.pages_of_device.bytes(), 0);
    assert_int_equal(store.count_pages(most), 0);
}

/// As a program does that closes all descriptors, such as a daemon, and goes on.
void file_with_the_number_of_the_store_is_unchanged(void **) {
    const int fd = memfd_create("the program's", MFD_CLOEXEC);
    assert_int_equal(write(fd, "data", 4), 4);
    int number = -1;
    {
        counted_store store;
        store.get_pages(pages(0, 1));
        number = store.pages_of_device.fd();
        assert_int_equal(dup2(fd, number), number);
        const auto none = [](addr_range, page_extent &) {
            fail_msg("no page is expected");
        };
        assert_int_equal(store.pages_of_device.get_pages(pages(1, 1), none), ENOMEM);
        store.pages_of_device.put_pages(pages(0, 1));
    }
    char text[5] = {};
    assert_int_equal(pread(number, text, sizeof text, 0), 4);
    assert_string_equal(text, "data");
    close(number);
    close(fd);
}

/// The first of two mappings succeeds, the second fails.
void failed_mmap_undoes_get_pages(void **) {
#if defined(COHERDMA_ASAN) || defined(COHERDMA_TSAN)
    print_message("# skipped: sanitizers need the whole address space\n");
    skip();
#endif
    constexpr std::size_t LARGE = 1 << 16;
    counted_store store;
    store.get_pages(pages(4, 1));
    const std::size_t before = address_space();
    rlimit old;
    assert_int_equal(getrlimit(RLIMIT_AS, &old), 0);
    const rlimit tight = {before * PAGE + (64 << 20), old.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_AS, &tight), 0);
    const int error =
        store.pages_of_device.get_pages(pages(0, LARGE), [](addr_range, page_extent &) {});
    assert_int_equal(setrlimit(RLIMIT_AS, &old), 0);
    assert_int_equal(error, ENOMEM);
    assert_int_equal(store.count_pages(pages(0, LARGE)), 1);
    assert_int_equal(store.pages_of_device.bytes(), PAGE + HASHES);
    assert_in_range(address_space(), 0, before + 4096);
    store.pages_of_device.put_pages(pages(4, 1)); // one reference was left
    assert_int_equal(store.pages_of_device.bytes(), 0);
}

/// The file cannot grow after the first pages are allocated.
void file_size_limit_undoes_get_pages(void **) {
    counted_store store;
    store.get_pages(pages(4, 1));
    signal(SIGXFSZ, SIG_IGN);
    rlimit old;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    const rlimit tight = {(1 << 20) + 7 * PAGE, old.rlim_max}; // and part of the last extent
    const std::size_t before = address_space();
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &tight), 0);
    std::size_t num_new = 0;
    const int error = store.pages_of_device.get_pages(
        pages(0, 2000), [&](addr_range part, page_extent &) { num_new += part.size(); });
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    assert_int_equal(error, EFBIG);
    assert_int_equal(num_new, 4 * PAGE); // the pages before
    assert_int_equal(store.count_pages(pages(0, 2000)), 1);
    assert_int_equal(store.file_bytes(), PAGE);
    assert_in_range(address_space(), 0, before + 1000);
    store.pages_of_device.put_pages(pages(4, 1));
    assert_int_equal(store.pages_of_device.bytes(), 0);
    assert_int_equal(store.get_pages(pages(0, 10)), 10);
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(small_registrations_share_mappings),
        cmocka_unit_test(put_pages_frees_pages),
        cmocka_unit_test(overlapping_ranges_share_pages),
        cmocka_unit_test(visit_finds_parts_in_address_order),
        cmocka_unit_test(repeated_get_and_put_do_not_grow),
        cmocka_unit_test(oversized_get_pages_fails),
        cmocka_unit_test(file_with_the_number_of_the_store_is_unchanged),
        cmocka_unit_test(failed_mmap_undoes_get_pages),
        cmocka_unit_test(file_size_limit_undoes_get_pages),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}

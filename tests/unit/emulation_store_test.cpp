// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The device's pages: one for each page of the program's, as long as somebody holds it.

#include "core/store.hpp"
#include "emulation.hpp"

#include <cerrno>
#include <csignal>
#include <sys/resource.h>
#include <sys/stat.h>

using namespace emulation_test;

namespace {

constexpr std::size_t HASHES = 512; // of a page
const std::uintptr_t BASE = 0x100000 * PAGE;

span pages(std::size_t first, std::size_t count) {
    return {BASE + first * PAGE, BASE + (first + count) * PAGE};
}

struct counted {
    store all{PAGE, HASHES};

    /// How many pages were new, all of them zero; each gets its number.
    std::size_t hold(span where) {
        std::size_t fresh = 0;
        assert_int_equal(all.hold(where,
                                  [&](span part, run &of) {
                                      fresh += part.size() / PAGE;
                                      mark(part, of);
                                  }),
                         0);
        return fresh;
    }
    static void mark(span part, const run &of) {
        for (std::uintptr_t page = part.begin; page < part.end; page += PAGE) {
            unsigned char *const at = of.device + (page - of.pages.begin);
            for (std::size_t each = 0; each < PAGE; each += 64)
                assert_int_equal(at[each], 0);
            std::memcpy(at, &page, sizeof(page));
        }
    }
    /// Those that are held, each with what was written to it.
    std::size_t count(span where) {
        std::size_t found = 0;
        std::uintptr_t last = 0;
        all.each(where, [&](span part, const run &of) {
            assert_true(part.begin >= last && part.begin >= where.begin && part.end <= where.end);
            last = part.end;
            for (std::uintptr_t page = part.begin; page < part.end; page += PAGE) {
                std::uintptr_t written;
                std::memcpy(&written, of.device + (page - of.pages.begin), sizeof(written));
                assert_true(written == page);
                ++found;
            }
        });
        return found;
    }
    [[nodiscard]] std::size_t in_file() const {
        struct stat of;
        assert_int_equal(fstat(all.file(), &of), 0);
        return static_cast<std::size_t>(of.st_blocks) * 512;
    }
};

/// Of this process, in pages.
std::size_t address_space() {
    std::size_t size = 0;
    std::ifstream("/proc/self/statm") >> size;
    return size;
}

void are_held_and_let_go(void **) {
    counted one;
    assert_int_equal(one.all.bytes(), 0);
    assert_int_equal(one.hold(pages(0, 5)), 5);
    assert_int_equal(one.all.bytes(), 5 * (PAGE + HASHES));
    assert_int_equal(one.in_file(), 5 * PAGE);
    assert_int_equal(one.count(pages(0, 5)), 5);
    one.all.let_go(pages(0, 5));
    assert_int_equal(one.all.bytes(), 0);
    assert_int_equal(one.in_file(), 0);
    assert_int_equal(one.count(pages(0, 5)), 0);
}

void overlaps_are_held_once(void **) {
    counted one;
    assert_int_equal(one.hold(pages(2, 2)), 2);
    assert_int_equal(one.hold(pages(6, 1)), 1);
    assert_int_equal(one.hold(pages(0, 10)), 7);
    assert_int_equal(one.hold(pages(3, 4)), 0);
    assert_int_equal(one.all.bytes(), 10 * (PAGE + HASHES));
    one.all.let_go(pages(0, 10));
    assert_int_equal(one.count(pages(0, 20)), 5); // 2 to 6
    assert_int_equal(one.in_file(), 5 * PAGE);
    one.all.let_go(pages(2, 2));
    assert_int_equal(one.count(pages(0, 20)), 4);
    one.all.let_go(pages(6, 1));
    assert_int_equal(one.count(pages(0, 20)), 4);
    assert_int_equal(one.hold(pages(1, 3)), 2);
    assert_int_equal(one.count(pages(0, 20)), 6);
    one.all.let_go(pages(3, 4));
    one.all.let_go(pages(1, 3));
    assert_int_equal(one.all.bytes(), 0);
    assert_int_equal(one.in_file(), 0);
}

void parts_are_visited(void **) {
    counted one;
    one.hold(pages(1, 1));
    one.hold(pages(3, 2));
    const span asked = {BASE + 100, BASE + 4 * PAGE + 10};
    std::vector<span> seen;
    one.all.each(asked, [&](span part, const run &) { seen.push_back(part); });
    assert_int_equal(seen.size(), 2);
    assert_true(seen[0].begin == BASE + PAGE && seen[0].end == BASE + 2 * PAGE);
    assert_true(seen[1].begin == BASE + 3 * PAGE && seen[1].end == BASE + 4 * PAGE + 10);
}

void does_not_grow(void **) {
    counted one;
    one.hold(pages(500, 3)); // somebody stays
    std::size_t before = 0;
    for (int round = 0; round < 1000; ++round) {
        const auto first = static_cast<std::size_t>(round % 7);
        one.hold(pages(first, 40));
        one.hold(pages(first + 20, 50));
        one.all.let_go(pages(first, 40));
        one.all.let_go(pages(first + 20, 50));
        assert_int_equal(one.all.bytes(), 3 * (PAGE + HASHES));
        if (round == 50)
            before = address_space();
    }
    assert_int_equal(one.in_file(), 3 * PAGE);
    // Some 70 pages a round would be. What is freed valgrind keeps for a while.
    assert_in_range(address_space(), 0, before + 4096);
    assert_int_equal(one.count(pages(0, 1000)), 3);
}

void too_much_is_refused(void **) {
    counted one;
    one.hold(pages(1, 2));
    const auto none = [](span, run &) {
        fail_msg("there are no such pages");
    };
    const span most = {PAGE, PAGE + (std::uintptr_t{1} << 47)};
    assert_int_equal(one.all.hold(most, none), ENOMEM);
    assert_int_equal(one.count(pages(0, 10)), 2);
    one.all.let_go(pages(1, 2));
    assert_int_equal(one.all.bytes(), 0);
    assert_int_equal(one.count(most), 0);
}

/// The first of two runs that are needed can be had, the second cannot.
void what_was_begun_is_undone(void **) {
#if defined(COHERDMA_ASAN) || defined(COHERDMA_TSAN)
    print_message("# skipped: sanitizers take all addresses there are\n");
    skip();
#endif
    constexpr std::size_t LARGE = 1 << 16;
    counted one;
    one.hold(pages(4, 1));
    const std::size_t before = address_space();
    rlimit old;
    assert_int_equal(getrlimit(RLIMIT_AS, &old), 0);
    const rlimit tight = {before * PAGE + (64 << 20), old.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_AS, &tight), 0);
    const int error = one.all.hold(pages(0, LARGE), [](span, run &) {});
    assert_int_equal(setrlimit(RLIMIT_AS, &old), 0);
    assert_int_equal(error, ENOMEM);
    assert_int_equal(one.count(pages(0, LARGE)), 1);
    assert_int_equal(one.all.bytes(), PAGE + HASHES);
    assert_in_range(address_space(), 0, before + 4096);
    one.all.let_go(pages(4, 1)); // there was one holder, and no more
    assert_int_equal(one.all.bytes(), 0);
}

/// Pages are held already when there is no room for others.
void what_was_held_is_let_go(void **) {
    counted one;
    one.hold(pages(4, 1));
    signal(SIGXFSZ, SIG_IGN);
    rlimit old;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    const rlimit tight = {(1 << 20) + 7 * PAGE, old.rlim_max}; // and part of the last run
    const std::size_t before = address_space();
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &tight), 0);
    std::size_t fresh = 0;
    const int error = one.all.hold(pages(0, 2000), [&](span part, run &) { fresh += part.size(); });
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    assert_int_equal(error, EFBIG);
    assert_int_equal(fresh, 4 * PAGE); // those before
    assert_int_equal(one.count(pages(0, 2000)), 1);
    assert_int_equal(one.in_file(), PAGE);
    assert_in_range(address_space(), 0, before + 1000);
    one.all.let_go(pages(4, 1));
    assert_int_equal(one.all.bytes(), 0);
    assert_int_equal(one.hold(pages(0, 10)), 10);
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(are_held_and_let_go),     cmocka_unit_test(overlaps_are_held_once),
        cmocka_unit_test(parts_are_visited),       cmocka_unit_test(does_not_grow),
        cmocka_unit_test(too_much_is_refused),     cmocka_unit_test(what_was_begun_is_undone),
        cmocka_unit_test(what_was_held_is_let_go),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}

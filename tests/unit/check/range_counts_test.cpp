// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// How many times each address is in use, beside an array that counts each.

#include "../cmocka.hpp"
#include "check/range_counts.hpp"

#include <algorithm>
#include <array>
#include <random>
#include <utility>
#include <vector>

namespace {

using coherdma::check::range_counts;
using range = std::pair<std::uintptr_t, std::uintptr_t>;

constexpr std::size_t NUM_ADDRS = 64;

/// What the counts tell, as a set of addresses.
struct reported_parts {
    std::array<bool, NUM_ADDRS> addrs{};

    auto mark() {
        return [this](std::uintptr_t begin, std::uintptr_t end) {
            for (std::uintptr_t addr = begin; addr < end; ++addr) {
                assert_false(addrs.at(addr)); // each only once
                addrs.at(addr) = true;
            }
        };
    }
};

/// One count for each address.
struct simple_counts {
    std::array<int, NUM_ADDRS> counts{};

    [[nodiscard]] bool overlaps(range r) const {
        return std::any_of(counts.begin() + static_cast<std::ptrdiff_t>(r.first),
                           counts.begin() + static_cast<std::ptrdiff_t>(r.second),
                           [](int count) { return count != 0; });
    }
};

void adjacent_ranges_are_separate(void **) {
    range_counts counts;
    reported_parts added, removed;
    counts.add(8, 16, added.mark());
    counts.add(16, 24, added.mark());
    assert_true(counts.overlaps(23, 24));
    counts.remove(8, 16, removed.mark());
    assert_false(counts.overlaps(0, 16));
    assert_true(counts.overlaps(15, 17));
    assert_true(removed.addrs.at(15));
    assert_false(removed.addrs.at(16));
}

void nothing_is_kept_of_ranges_that_ended(void **) {
    range_counts counts;
    reported_parts first, second;
    counts.add(8, 24, first.mark());
    counts.add(16, 40, first.mark()); // tells 24 to 40 only
    counts.remove(8, 24, second.mark());
    counts.remove(16, 40, second.mark());
    assert_int_equal(counts.num_parts(), 0);
    assert_true(first.addrs == second.addrs);
}

void ends_of_forgotten_ranges_are_skipped(void **) {
    range_counts counts;
    reported_parts added, forgotten, removed;
    counts.add(0, 32, added.mark());
    counts.forget(8, 16, forgotten.mark());
    assert_false(counts.overlaps(8, 16));
    counts.remove(0, 32, removed.mark());
    assert_false(removed.addrs.at(8));
    assert_true(removed.addrs.at(7) && removed.addrs.at(16));
    assert_int_equal(counts.num_parts(), 0);
}

void empty_range_is_never_in_use(void **) {
    range_counts counts;
    reported_parts added;
    counts.add(8, 8, added.mark());
    counts.add(8, 16, added.mark());
    assert_false(counts.overlaps(12, 12));
}

void many_ranges_are_counted_as_by_an_array(void **) {
    std::mt19937 random(1);
    constexpr int NUM_STEPS = 20000, MAX_IN_USE = 12;
    range_counts counts;
    simple_counts simple;
    std::vector<range> in_use;
    const auto some_range = [&] {
        std::uintptr_t begin = random() % NUM_ADDRS, end = random() % NUM_ADDRS;
        return range(std::minmax(begin, end));
    };
    for (int step = 0; step < NUM_STEPS; ++step) {
        reported_parts reported;
        std::array<bool, NUM_ADDRS> expected{};
        if (in_use.size() < MAX_IN_USE && random() % 2 == 0) {
            const range added = some_range();
            for (std::uintptr_t addr = added.first; addr < added.second; ++addr)
                expected.at(addr) = simple.counts.at(addr)++ == 0;
            counts.add(added.first, added.second, reported.mark());
            in_use.push_back(added);
        } else if (!in_use.empty()) {
            std::swap(in_use.at(random() % in_use.size()), in_use.back());
            const range removed = in_use.back();
            in_use.pop_back();
            for (std::uintptr_t addr = removed.first; addr < removed.second; ++addr)
                expected.at(addr) = --simple.counts.at(addr) == 0;
            counts.remove(removed.first, removed.second, reported.mark());
        }
        assert_true(reported.addrs == expected);
        const range asked = some_range();
        assert_int_equal(counts.overlaps(asked.first, asked.second), simple.overlaps(asked));
    }
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(adjacent_ranges_are_separate),
        cmocka_unit_test(nothing_is_kept_of_ranges_that_ended),
        cmocka_unit_test(ends_of_forgotten_ranges_are_skipped),
        cmocka_unit_test(empty_range_is_never_in_use),
        cmocka_unit_test(many_ranges_are_counted_as_by_an_array),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}

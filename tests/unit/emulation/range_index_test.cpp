// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "../cmocka.hpp"
#include "core/memory/range_index.hpp"

#include <algorithm>
#include <random>
#include <vector>

namespace {

using namespace coherdma::emulation;

struct numbered_range {
    addr_range range;
    std::uint64_t number;
};

std::vector<std::uint64_t> numbers_in(const range_index &index, addr_range range) {
    std::vector<std::uint64_t> numbers;
    index.find_if(range, [&](addr_range, std::uint64_t number) {
        numbers.push_back(number);
        return false;
    });
    std::sort(numbers.begin(), numbers.end());
    return numbers;
}

/// Against a look at all ranges.
void random_ranges_are_found(void **) {
    constexpr std::uintptr_t END = 300;
    std::mt19937 rng(1);
    range_index index;
    std::vector<numbered_range> all;
    for (std::uint64_t step = 1; step < 5000; ++step) {
        if (rng() % 2 == 0 || all.size() < 10) {
            const std::uintptr_t begin = rng() % END, size = 1 + rng() % (rng() % 2 ? 4 : END);
            all.push_back({{begin, begin + size}, step});
            index.add(all.back().range, step);
        } else {
            const std::size_t i = rng() % all.size();
            index.remove(all[i].range, all[i].number);
            all[i] = all.back();
            all.pop_back();
        }
        const std::uintptr_t begin = rng() % END;
        const addr_range range = {begin, begin + rng() % 20};
        std::vector<std::uint64_t> expected;
        addr_range first;
        for (const numbered_range &each : all) {
            if (!intersection(each.range, range).empty())
                expected.push_back(each.number);
            const addr_range rest = intersection(each.range, {begin, ~std::uintptr_t{0}});
            if (!rest.empty() && (first.empty() || rest.begin < first.begin))
                first = rest;
        }
        std::sort(expected.begin(), expected.end());
        assert_true(numbers_in(index, range) == expected);
        assert_true(index.find_first(begin).empty() == first.empty());
        assert_true(first.empty() || index.find_first(begin).begin == first.begin);
    }
}

void range_at_both_ends_of_memory_is_found(void **) {
    range_index index;
    constexpr std::uintptr_t END = ~std::uintptr_t{0};
    index.add({0, END}, 1);
    index.add({0, 1}, 2);
    index.add({END - 1, END}, 3);
    assert_true(numbers_in(index, {0, 1}) == (std::vector<std::uint64_t>{1, 2}));
    assert_true(numbers_in(index, {END - 1, END}) == (std::vector<std::uint64_t>{1, 3}));
    index.remove({0, END}, 1);
    assert_true(numbers_in(index, {1, END - 1}).empty());
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(random_ranges_are_found),
        cmocka_unit_test(range_at_both_ends_of_memory_is_found),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}

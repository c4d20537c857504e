// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "../cmocka.hpp"
#include "core/memory/range_set.hpp"

#include <array>
#include <random>

namespace {

using namespace coherdma::emulation;

void touching_ranges_are_one(void **) {
    range_set set;
    set.add({10, 20});
    set.add({30, 40});
    set.add({20, 30});
    set.remove({12, 38});
    assert_true(set.overlaps({10, 12}) && set.overlaps({39, 40}));
    assert_false(set.overlaps({12, 38}) || set.overlaps({0, 10}) || set.overlaps({40, 50}));
    assert_false(set.overlaps({11, 11}));
    set.remove({0, 100});
    assert_true(set.empty());
}

/// Against a bit for each address.
void random_changes_match_bits(void **) {
    constexpr std::uintptr_t END = 64;
    std::mt19937 rng(1);
    for (int round = 0; round < 200; ++round) {
        range_set set;
        std::array<bool, END> bits{};
        for (int step = 0; step < 40; ++step) {
            const std::uintptr_t begin = rng() % END, end = begin + rng() % (END - begin + 1);
            const bool is_added = rng() % 2 == 0;
            if (is_added)
                set.add({begin, end});
            else
                set.remove({begin, end});
            for (std::uintptr_t addr = begin; addr < end; ++addr)
                bits[addr] = is_added;
            for (std::uintptr_t addr = 0; addr < END; ++addr)
                assert_true(set.overlaps({addr, addr + 1}) == bits[addr]);
        }
    }
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(touching_ranges_are_one),
        cmocka_unit_test(random_changes_match_bits),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}

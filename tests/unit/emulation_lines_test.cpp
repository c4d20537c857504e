// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The hashes of lines, and what is found out from them.

#include "core/line.hpp"
#include "emulation.hpp"

#include <algorithm>
#include <set>

using namespace emulation_test;

namespace {

using bytes = std::array<unsigned char, LARGEST_LINE>;

bytes some(std::size_t from) {
    bytes all;
    for (std::size_t each = 0; each < all.size(); ++each)
        all[each] = static_cast<unsigned char>((each * 37 + from) % 256);
    return all;
}

void each_bit_counts(void **) {
    for (const std::size_t size : SIZES) {
        for (const bytes &begin : {bytes{}, some(3)}) {
            std::set<std::uint64_t> seen = {hash_of(begin.data(), size)};
            for (std::size_t bit = 0; bit < size * 8; ++bit) {
                bytes other = begin;
                other[bit / 8] = static_cast<unsigned char>(other[bit / 8] ^ 1U << bit % 8);
                if (!seen.insert(hash_of(other.data(), size)).second)
                    fail_msg("bit %zu of %zu bytes", bit, size);
            }
        }
    }
}

void places_count(void **) {
    for (const std::size_t size : SIZES) {
        std::set<std::uint64_t> seen;
        for (std::size_t one = 0; one < size; one += 8) {
            for (std::size_t other = one + 8; other < size; other += 8) {
                bytes all = some(9);
                std::swap_ranges(&all[one], &all[one] + 8, &all[other]);
                assert_true(seen.insert(hash_of(all.data(), size)).second);
            }
        }
    }
}

void beyond_the_line_nothing_counts(void **) {
    for (const std::size_t size : SIZES) {
        bytes one = some(5), other = some(5);
        if (size < LARGEST_LINE)
            other[size] ^= 1;
        assert_true(hash_of(one.data(), size) == hash_of(other.data(), size));
    }
    assert_true(hash_of(some(5).data(), 32) >> 32 == 0); // only so much is kept of it
}

void hashes_are_kept(void **) {
    for (const std::size_t size : SIZES) {
        std::vector<unsigned char> kept(4 * hash_bytes(size), 0xee);
        run one;
        one.pages = {4096, 4096 + 4 * size};
        one.agreed = kept.data();
        for (std::uint64_t each = 0; each < 4; ++each)
            agreement(one, 4096 + each * size, size).set(0x10203040 + each);
        for (std::uint64_t each = 0; each < 4; ++each)
            assert_true(agreement(one, 4096 + each * size, size).get() == 0x10203040 + each);
    }
}

line made(std::size_t size, const bytes &agreed, const bytes &program, const bytes &device) {
    line one;
    one.size = size;
    one.program_had = program;
    one.device_had = device;
    one.program_hash = hash_of(program.data(), size);
    one.device_hash = hash_of(device.data(), size);
    one.agreed = hash_of(agreed.data(), size);
    return one;
}

void what_was_agreed_is_known(void **) {
    for (const std::size_t size : SIZES) {
        const bytes agreed = some(1);
        bytes mine = agreed, its = agreed, found{};
        mine[0] ^= 0x55;
        its[size - 1] ^= 0xaa;
        const struct {
            const char *what;
            line one;
        } cases[] = {
            {"clean", made(size, agreed, agreed, agreed)},
            {"dirty", made(size, agreed, mine, agreed)},
            {"stale", made(size, agreed, agreed, its)},
            {"other words", made(size, agreed, mine, its)},
        };
        for (const auto &each : cases) {
            found.fill(0);
            if (!each.one.agreed_had(found.data()) || std::memcmp(&found, &agreed, size) != 0)
                fail_msg("%s, %zu bytes", each.what, size);
        }
    }
}

void other_bytes_of_a_word(void **) {
    for (const std::size_t size : SIZES) {
        const bytes agreed = some(2);
        bytes mine = agreed, its = agreed, found{};
        mine[8] ^= 1, mine[11] ^= 1;
        its[9] ^= 1, its[15] ^= 1;
        assert_true(made(size, agreed, mine, its).agreed_had(found.data()));
        assert_memory_equal(found.data(), agreed.data(), size);
    }
}

void what_cannot_be_known_is_not_said(void **) {
    for (const std::size_t size : SIZES) {
        const bytes agreed = some(4);
        bytes mine = agreed, its = agreed, found{};
        mine[8] = 1, its[8] = 2;
        const line one = made(size, agreed, mine, its);
        assert_false(one.agreed_had(found.data()));
        for (std::size_t each = 16; each < size; ++each) // more parts than are tried
            (each % 2 != 0 ? mine : its)[each] ^= 0x80;
        assert_false(made(size, agreed, mine, its).agreed_had(found.data()));
    }
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(each_bit_counts),
        cmocka_unit_test(places_count),
        cmocka_unit_test(beyond_the_line_nothing_counts),
        cmocka_unit_test(hashes_are_kept),
        cmocka_unit_test(what_was_agreed_is_known),
        cmocka_unit_test(other_bytes_of_a_word),
        cmocka_unit_test(what_cannot_be_known_is_not_said),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}

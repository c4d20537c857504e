// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Hashes of lines, and recovery of the bytes that were last equal, from a hash.

#include "cache_fixture.hpp"
#include "core/cache/cache_line.hpp"

#include <algorithm>
#include <set>

using namespace emulation_test;

namespace {

using bytes = std::array<unsigned char, MAX_LINE_SIZE>;

bytes pattern(std::size_t start) {
    bytes line;
    for (std::size_t i = 0; i < line.size(); ++i)
        line[i] = static_cast<unsigned char>((i * 37 + start) % 256);
    return line;
}

void hash_depends_on_each_bit(void **) {
    for (const std::size_t size : LINE_SIZES) {
        for (const bytes &line : {bytes{}, pattern(3)}) {
            std::set<std::uint64_t> seen = {hash_of(line.data(), size)};
            for (std::size_t bit = 0; bit < size * 8; ++bit) {
                bytes changed = line;
                changed[bit / 8] = static_cast<unsigned char>(changed[bit / 8] ^ 1U << bit % 8);
                if (!seen.insert(hash_of(changed.data(), size)).second)
                    fail_msg("bit %zu of %zu bytes", bit, size);
            }
        }
    }
}

void hash_depends_on_word_order(void **) {
    for (const std::size_t size : LINE_SIZES) {
        std::set<std::uint64_t> seen;
        for (std::size_t first = 0; first < size; first += 8) {
            for (std::size_t second = first + 8; second < size; second += 8) {
                bytes line = pattern(9);
                std::swap_ranges(&line[first], &line[first] + 8, &line[second]);
                assert_true(seen.insert(hash_of(line.data(), size)).second);
            }
        }
    }
}

void hash_ignores_bytes_beyond_line(void **) {
    for (const std::size_t size : LINE_SIZES) {
        bytes line = pattern(5), longer = pattern(5);
        if (size < MAX_LINE_SIZE)
            longer[size] ^= 1;
        assert_true(hash_of(line.data(), size) == hash_of(longer.data(), size));
    }
    assert_true(hash_of(pattern(5).data(), 32) >> 32 == 0); // short lines have 32-bit hashes
}

void stored_hash_is_that_of_its_line(void **) {
    for (const std::size_t size : LINE_SIZES) {
        std::vector<unsigned char> hashes(4 * hash_bytes(size), 0xee);
        page_extent extent;
        extent.pages = {4096, 4096 + 4 * size};
        extent.hashes = hashes.data();
        for (std::uint64_t i = 0; i < 4; ++i)
            stored_hash(extent, 4096 + i * size, size).set(0x10203040 + i);
        for (std::uint64_t i = 0; i < 4; ++i)
            assert_true(stored_hash(extent, 4096 + i * size, size).get() == 0x10203040 + i);
    }
}

cache_line make_line(std::size_t size, const bytes &last_equal, const bytes &program,
                     const bytes &device) {
    cache_line line;
    line.size = size;
    line.program_bytes = program;
    line.device_bytes = device;
    line.program_hash = hash_of(program.data(), size);
    line.device_hash = hash_of(device.data(), size);
    line.last_equal_hash = hash_of(last_equal.data(), size);
    return line;
}

/// recover_last_equal() finds what program and device both had before they wrote, from the line's
/// hash.
void agreed_bytes_are_recovered(void **) {
    for (const std::size_t size : LINE_SIZES) {
        const bytes last_equal = pattern(1);
        bytes program = last_equal, device = last_equal, recovered{};
        program[0] ^= 0x55;
        device[size - 1] ^= 0xaa;
        const struct {
            const char *state;
            cache_line line;
        } cases[] = {
            {"clean", make_line(size, last_equal, last_equal, last_equal)},
            {"dirty", make_line(size, last_equal, program, last_equal)},
            {"stale", make_line(size, last_equal, last_equal, device)},
            {"other words", make_line(size, last_equal, program, device)},
        };
        for (const auto &tested : cases) {
            recovered.fill(0);
            if (!tested.line.recover_last_equal(recovered.data()) ||
                std::memcmp(&recovered, &last_equal, size) != 0)
                fail_msg("%s, %zu bytes", tested.state, size);
        }
    }
}

void agreed_bytes_are_recovered_within_word(void **) {
    for (const std::size_t size : LINE_SIZES) {
        const bytes last_equal = pattern(2);
        bytes program = last_equal, device = last_equal, recovered{};
        program[8] ^= 1, program[11] ^= 1;
        device[9] ^= 1, device[15] ^= 1;
        assert_true(
            make_line(size, last_equal, program, device).recover_last_equal(recovered.data()));
        assert_memory_equal(recovered.data(), last_equal.data(), size);
    }
}

/// Both sides changed the same byte, so neither copy has the old value.
void ambiguous_agreed_bytes_are_not_reported(void **) {
    for (const std::size_t size : LINE_SIZES) {
        const bytes last_equal = pattern(4);
        bytes program = last_equal, device = last_equal, recovered{};
        program[8] = 1, device[8] = 2;
        const cache_line line = make_line(size, last_equal, program, device);
        assert_false(line.recover_last_equal(recovered.data()));
        for (std::size_t i = 16; i < size; ++i) // more combinations than are tried
            (i % 2 != 0 ? program : device)[i] ^= 0x80;
        assert_false(
            make_line(size, last_equal, program, device).recover_last_equal(recovered.data()));
    }
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(hash_depends_on_each_bit),
        cmocka_unit_test(hash_depends_on_word_order),
        cmocka_unit_test(hash_ignores_bytes_beyond_line),
        cmocka_unit_test(stored_hash_is_that_of_its_line),
        cmocka_unit_test(agreed_bytes_are_recovered),
        cmocka_unit_test(agreed_bytes_are_recovered_within_word),
        cmocka_unit_test(ambiguous_agreed_bytes_are_not_reported),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}

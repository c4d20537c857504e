// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The probe must catch a device that does not see the cache. There is none here, so the cache is
// played: a path whose flush moves lines between the program's memory and what is below it.

#include "probe/pattern.hpp"

#include <cerrno>
#include <csetjmp>
#include <cstdarg>
#include <vector>

extern "C" {
#include <cmocka.h>
}

using namespace coherdma;

namespace {

constexpr std::size_t WORDS = 2048; // each a line, for the played cache

// Program's memory, what is below the cache, and what both last agreed on.
struct machine {
    std::vector<std::uint64_t> above = std::vector<std::uint64_t>(2 * WORDS);
    std::vector<std::uint64_t> below = above, agreed = above;
    std::span<std::uint64_t> source() { return {above.data(), WORDS}; }
    std::span<std::uint64_t> sink() { return {above.data() + WORDS, WORDS}; }
};
machine *played = nullptr;

void nothing() noexcept {}
bool yes() noexcept {
    return true;
}

void flush(const cache::range *ranges, std::size_t count, std::size_t line) noexcept {
    const auto begin = reinterpret_cast<std::uintptr_t>(played->above.data());
    cache::each_line(ranges, count, line, [begin](std::uintptr_t at) {
        const std::size_t word = (at - begin) / sizeof(std::uint64_t);
        if (played->above[word] != played->agreed[word])
            played->below[word] = played->above[word];
        else
            played->above[word] = played->below[word];
        played->agreed[word] = played->below[word];
    });
}

constexpr cache::path PLAYED = {"played", nothing, flush, nothing, nothing, flush, nothing, yes};

struct device final : probe::mover {
    bool reads_cache, writes_cache;
    int calls = 0, fails_at = -1;
    device(bool reads, bool writes)
        : reads_cache(reads)
        , writes_cache(writes) {}
    int move() override {
        if (calls++ == fails_at)
            return ETIMEDOUT;
        for (std::size_t word = 0; word < WORDS; ++word) {
            const std::uint64_t value = reads_cache ? played->above[word] : played->below[word];
            if (writes_cache)
                played->above[WORDS + word] = played->agreed[WORDS + word] = value;
            played->below[WORDS + word] = value;
        }
        return 0;
    }
};

probe::count seen_with(device &moves, int expected = 0) {
    machine here;
    played = &here;
    probe::count seen;
    assert_int_equal(probe::look(moves, here.source(), here.sink(), PLAYED, 8, 3, seen), expected);
    return seen;
}

void coherent(void **) {
    device moves(true, true);
    const probe::count seen = seen_with(moves);
    assert_int_equal(seen.rounds, 3);
    assert_int_equal(seen.lines, 3 * WORDS);
    assert_int_equal(seen.device_stale, 0);
    assert_int_equal(seen.cpu_stale, 0);
}

void device_sees_old_data(void **) {
    device moves(false, true);
    const probe::count seen = seen_with(moves);
    assert_int_equal(seen.device_stale, 3 * WORDS);
    assert_int_equal(seen.cpu_stale, 0);
}

void cpu_sees_old_data(void **) {
    device moves(true, false);
    const probe::count seen = seen_with(moves);
    assert_int_equal(seen.device_stale, 0);
    assert_int_equal(seen.cpu_stale, 3 * WORDS);
}

void neither_sees_the_other(void **) {
    device moves(false, false);
    const probe::count seen = seen_with(moves);
    assert_int_equal(seen.device_stale, 3 * WORDS);
    assert_int_equal(seen.cpu_stale, 3 * WORDS);
}

void a_transfer_that_fails(void **) {
    device moves(false, false);
    moves.fails_at = 4;
    const probe::count seen = seen_with(moves, ETIMEDOUT);
    assert_int_equal(seen.rounds, 2);
    assert_int_equal(seen.device_stale, 2 * WORDS);
}

struct liar final : probe::mover {
    int move() override { return 0; } // says it is done, and is not
};

void a_device_that_does_nothing(void **) {
    machine here;
    played = &here;
    liar moves;
    probe::count seen;
    assert_int_equal(probe::look(moves, here.source(), here.sink(), PLAYED, 8, 1, seen), EIO);
    assert_int_equal(seen.rounds, 0);
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(coherent),
        cmocka_unit_test(device_sees_old_data),
        cmocka_unit_test(cpu_sees_old_data),
        cmocka_unit_test(neither_sees_the_other),
        cmocka_unit_test(a_transfer_that_fails),
        cmocka_unit_test(a_device_that_does_nothing),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What happens by itself: in poison and in evict.

#include "emulation.hpp"

#include <algorithm>
#include <thread>

using namespace emulation_test;

namespace {

constexpr std::size_t AT = 1024;
constexpr unsigned char POISON = 0xdb;

settings playing(const char *what, std::size_t line = 64) {
    settings one;
    one.line = line;
    assert_true(parse_mode(what, one));
    return one;
}

void write_sync(played &one, span where) {
    one->sync_write(&where, 1);
}

/// What a program does all the time: it posts, and polls.
void step(played &one) {
    one->step();
    one->step();
}

void in_stale_nothing_moves(void **) {
    played one(playing("stale"));
    const memory all(1);
    const auto device = one.add(all.part(0, all.size));
    all.at[AT] = 0xfe;
    *(*device)(all.at + AT + 64) = 0xff;
    one->peer_writes(all.part(AT + 64, 1), {});
    for (int each = 0; each < 200; ++each)
        step(one), one->wander();
    assert_int_not_equal(*(*device)(all.at + AT), 0xfe);
    assert_true(all.at[AT + 64] != 0xff && all.at[AT + 64] != POISON);
}

/// Exactly those bytes, until they are fetched.
void what_is_stale_is_poisoned(void **) {
    for (const std::size_t size : SIZES) {
        played one(playing("poison", size));
        const memory all(1);
        const auto device = one.add(all.part(0, all.size));
        std::vector<unsigned char> wanted(all.at, all.at + all.size);
        one->peer_writes(all.part(AT + 4, 4), {});
        step(one);
        assert_memory_equal(all.at, wanted.data(), all.size); // nothing has come yet
        std::memset((*device)(all.at + AT + 4), 0xff, 4);
        step(one);
        std::memset(&wanted[AT + 4], POISON, 4);
        assert_memory_equal(all.at, wanted.data(), all.size);
        std::memset((*device)(all.at + AT + 10), 0xff, 2); // more of the same line
        one->peer_writes(all.part(AT + 10, 2), {});
        step(one);
        std::memset(&wanted[AT + 10], POISON, 2);
        assert_memory_equal(all.at, wanted.data(), all.size);
        const span where = all.part(AT, 1);
        one->sync_read(&where, 1); // poison is not written back
        assert_int_equal(*(*device)(all.at + AT + 4), 0xff);
        write_sync(one, where);
        assert_memory_equal(all.at, (*device)(all.at), all.size);
        one->finish();
        assert_int_equal(one.told().size(), 0);
    }
}

void what_the_device_takes_back_is_fetched(void **) {
    played one(playing("poison"));
    const memory all(1);
    const auto device = one.add(all.part(0, all.size));
    const unsigned char old = all.at[AT];
    one->peer_writes(all.part(AT, 1), {});
    *(*device)(all.at + AT) = 0xff;
    step(one);
    assert_int_equal(all.at[AT], POISON);
    *(*device)(all.at + AT) = old;
    write_sync(one, all.part(AT, 1));
    assert_int_equal(all.at[AT], old);
    // Once more in the same line, as if nothing had been.
    one->peer_writes(all.part(AT, 1), {});
    *(*device)(all.at + AT) = 0xff;
    step(one);
    assert_int_equal(all.at[AT], POISON);
    one->arrived(all.part(AT, 1));
    assert_int_equal(all.at[AT], 0xff);
}

void what_is_dirty_is_not_poisoned(void **) {
    played one(playing("poison"));
    const memory all(1);
    const auto device = one.add(all.part(0, all.size));
    one->peer_writes(all.part(AT, 8), {});
    *(*device)(all.at + AT) = 0xff;
    all.at[AT + 9] = 0xfe;
    const unsigned char old = all.at[AT];
    step(one);
    one->wander();
    assert_int_equal(all.at[AT], old);
    // And to write into what is poisoned makes it dirty.
    one->peer_writes(all.part(AT + 128, 8), {});
    *(*device)(all.at + AT + 128) = 0xff;
    step(one);
    assert_int_equal(all.at[AT + 128], POISON);
    all.at[AT + 129] = 0xfe;
    write_sync(one, all.part(AT + 128, 1));
    assert_int_equal(*(*device)(all.at + AT + 129), 0xfe);
    const auto told = one.told();
    assert_int_equal(told.size(), 1);
    assert_string_equal(told[0]["kind"].get<std::string>().c_str(), "conflict");
}

/// Of peers elsewhere nothing is known: all regions are gone through.
void all_regions_are_poisoned(void **) {
    played one(playing("poison"));
    const memory all(600);
    const std::size_t last = all.size - 64;
    const auto high = one.add(all.part(500 * PAGE, 100 * PAGE)); // not in the order of addresses
    const auto low = one.add(all.part(0, 400 * PAGE));           // more than is looked at at once
    const auto between = one.add(all.part(450 * PAGE, PAGE));
    *(*high)(all.at + last) = *(*low)(all.at + 64) = *(*low)(all.at + 399 * PAGE) = 0xff;
    *(*between)(all.at + 450 * PAGE) = 0xff;
    for (int each = 0; each < 5; ++each)
        one->wander();
    for (const std::size_t at : {last, std::size_t{64}, 399 * PAGE, 450 * PAGE})
        assert_int_equal(all.at[at], POISON);
    *(*low)(all.at + 128) = 0xff; // and from the first again
    for (int each = 0; each < 5; ++each)
        one->wander();
    assert_int_equal(all.at[128], POISON);
}

void a_region_in_the_same_place_is_poisoned(void **) {
    played one(playing("poison"));
    const memory all(1);
    for (int each = 0; each < 3; ++each) {
        std::uint32_t number = 0;
        const auto device = one.add(all.part(0, all.size), &number);
        all.at[AT] = 1;
        one->source(all.part(AT, 1));
        one->peer_writes(all.part(AT, 1), {});
        *(*device)(all.at + AT) = 0xff;
        step(one);
        assert_int_equal(all.at[AT], POISON);
        const std::vector<unsigned char> poisoned(all.at + AT, all.at + AT + 64);
        one->remove(number);
        assert_int_equal(one.told().size(), 1); // stale
        // What was poison in the old one is the program's own in a new one.
        all.at[AT] = 2;
        const auto next = one.add(all.part(0, all.size), &number);
        std::memcpy(all.at + AT, poisoned.data(), poisoned.size());
        one->source(all.part(AT, 1));
        assert_int_equal(*(*next)(all.at + AT), POISON);
        one->remove(number);
    }
}

/// What both copies have after each of some calls.
std::vector<std::uint64_t> course(const char *what) {
    played one(playing(what));
    const memory all(4);
    const auto device = one.add(all.part(0, 2 * PAGE));
    const auto other = one.add(all.part(2 * PAGE, 2 * PAGE));
    for (std::size_t at = 0; at < all.size; at += 128) {
        all.at[at] = 0xfe;
        const unsigned char *const line = all.at + at + 64;
        *(at < 2 * PAGE ? *device : *other)(line) = 0xff;
    }
    const span synced = all.part(0, 100);
    one->sync_read(&synced, 1);
    std::vector<std::uint64_t> seen;
    for (int each = 0; each < 30; ++each) {
        each % 10 == 9 ? one->wander() : step(one);
        std::uint64_t moved = 0;
        for (std::size_t at = 0; at < all.size; at += 128) {
            const device_side &of = at < 2 * PAGE ? *device : *other;
            const auto lines = static_cast<std::uint64_t>((*of(all.at + at) == 0xfe) +
                                                          2 * (all.at[at + 64] == 0xff));
            moved = moved * 31 + lines;
        }
        seen.push_back(moved);
    }
    return seen;
}

void chance_is_repeated(void **) {
    const auto first = course("evict:7");
    assert_true(first == course("evict:7"));
    assert_true(first != course("evict:8"));
    assert_true(first.front() != first.back());
    assert_true(course("evict") == course("evict:1"));
}

/// In the end all lines move, but for those in conflict.
void all_lines_move_by_chance(void **) {
    for (const std::size_t size : SIZES) {
        played one(playing("evict:3", size));
        const memory all(1);
        const auto device = one.add(all.part(0, all.size));
        all.at[AT] = 0xfe;
        *(*device)(all.at + AT + size) = 0xff;
        all.at[AT + 2 * size] = 0xfe;
        *(*device)(all.at + AT + 2 * size + 8) = 0xff;
        const std::size_t lines = PAGE / size;
        for (std::size_t each = 0; each < lines; ++each) // 64 lines each
            one->wander();
        assert_int_equal(*(*device)(all.at + AT), 0xfe);
        assert_int_equal(all.at[AT + size], 0xff);
        assert_int_not_equal(*(*device)(all.at + AT + 2 * size), 0xfe);
        assert_int_not_equal(all.at[AT + 2 * size + 8], 0xff);
        assert_int_equal(one.told().size(), 0);
    }
}

void redundance_is_not_of_chance(void **) {
    settings asked = playing("evict:3");
    asked.redundant = true;
    played one(asked);
    const memory all(1);
    const auto device = one.add(all.part(0, all.size));
    write_sync(one, all.part(0, all.size));
    assert_int_equal(one.told().size(), 0);
}

/// Lines that threads write to while they move.
void no_store_is_lost(void **) {
    constexpr std::uint64_t ENOUGH = 200000;
    played one(playing("evict:1"));
    const memory all(1);
    const auto device = one.add(all.part(0, all.size));
    auto *const mine = reinterpret_cast<std::uint64_t *>(all.at);
    auto *const its = reinterpret_cast<std::uint64_t *>((*device)(all.at + 8));
    mine[0] = 0;
    __atomic_store_n(its, 0, __ATOMIC_RELAXED);
    std::thread counts([&] {
        for (std::uint64_t each = 0; each < ENOUGH; ++each)
            __atomic_store_n(&mine[0], __atomic_load_n(&mine[0], __ATOMIC_RELAXED) + 1,
                             __ATOMIC_RELAXED);
    });
    for (std::uint64_t each = 1; each <= 2000; ++each) {
        __atomic_store_n(its, each, __ATOMIC_RELAXED);
        step(one);
    }
    counts.join();
    assert_int_equal(mine[0], ENOUGH);
}

/// A region that is registered anew, with other rights.
void what_peers_may_do_changes(void **) {
    played one(playing("poison"));
    const memory all(1);
    std::uint32_t number = 0;
    const auto device = one.add(all.part(0, all.size), &number);
    const auto is_looked_at = [&](std::size_t at) {
        *(*device)(all.at + at) = 0xff;
        one->wander();
        return all.at[at] == POISON;
    };
    assert_true(is_looked_at(64));
    one->allow(number, false, false);
    assert_false(is_looked_at(128));
    one->allow(number, false, true);
    assert_true(is_looked_at(192));
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(in_stale_nothing_moves),
        cmocka_unit_test(what_is_stale_is_poisoned),
        cmocka_unit_test(what_the_device_takes_back_is_fetched),
        cmocka_unit_test(what_is_dirty_is_not_poisoned),
        cmocka_unit_test(all_regions_are_poisoned),
        cmocka_unit_test(a_region_in_the_same_place_is_poisoned),
        cmocka_unit_test(chance_is_repeated),
        cmocka_unit_test(all_lines_move_by_chance),
        cmocka_unit_test(redundance_is_not_of_chance),
        cmocka_unit_test(no_store_is_lost),
        cmocka_unit_test(what_peers_may_do_changes),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// From keys to objects: dapl/index.hpp.

#include "dapl/index.hpp"

#include <atomic>
#include <csetjmp>
#include <cstdarg>
#include <cstddef>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

extern "C" {
#include <cmocka.h>
}

namespace {

struct thing {
    std::uint32_t key = 0;
};
using things = coherdma::dapl::index<thing>;

// As devices give keys, and as they would be worst.
constexpr std::uint32_t by_device(std::uint32_t n) {
    return (n + 0x10) << 8 | 1;
}

void nothing_is_found_where_nothing_is(void **) {
    things in;
    assert_null(in.find(0));
    assert_null(in.find(1));
    thing one{5};
    in.remove(5, &one);
    assert_true(in.add(5, &one));
    assert_null(in.find(0));
    assert_null(in.find(4));
    assert_ptr_equal(in.find(5), &one);
    in.remove(4, &one);
    assert_ptr_equal(in.find(5), &one);
    in.remove(5, &one);
    assert_null(in.find(5));
}

void every_one_of_many_is_found(void **) {
    constexpr std::uint32_t many = 100000;
    for (const auto key_of :
         {+[](std::uint32_t n) { return by_device(n); }, +[](std::uint32_t n) { return n; },
          +[](std::uint32_t n) { return n << 16 | n >> 16; },
          +[](std::uint32_t n) {
              return 0xffffffff - n * 64;
          }}) {
        things in;
        std::vector<thing> all(many);
        for (std::uint32_t n = 0; n != many; ++n) {
            all[n].key = key_of(n);
            assert_true(in.add(all[n].key, &all[n]));
        }
        for (const thing &each : all)
            assert_ptr_equal(in.find(each.key), &each);
        for (std::uint32_t n = 0; n < many; n += 2)
            in.remove(all[n].key, &all[n]);
        for (std::uint32_t n = 0; n != many; ++n)
            assert_ptr_equal(in.find(all[n].key), n % 2 != 0 ? &all[n] : nullptr);
    }
}

void two_of_one_key_are_told_apart_when_one_goes(void **) {
    things in;
    thing first{9}, second{9};
    assert_true(in.add(9, &first));
    assert_true(in.add(9, &second));
    in.remove(9, &first);
    assert_ptr_equal(in.find(9), &second);
    in.remove(9, &first);
    assert_ptr_equal(in.find(9), &second);
    in.remove(9, &second);
    assert_null(in.find(9));
}

// Who comes and goes a million times needs no more room than the most at once.
void coming_and_going_costs_no_memory(void **) {
    things in;
    std::vector<thing> all(40);
    for (std::uint32_t n = 0; n != 40; ++n) {
        all[n].key = by_device(n);
        in.add(all[n].key, &all[n]);
    }
    for (std::uint32_t n = 40; n != 300000; ++n) {
        thing &one = all[n % 40];
        in.remove(one.key, &one);
        one.key = by_device(n);
        assert_true(in.add(one.key, &one));
        assert_ptr_equal(in.find(one.key), &one);
    }
    for (const thing &each : all)
        assert_ptr_equal(in.find(each.key), &each);
}

// While others come and go beside them, and the table is tidied under its readers' eyes: who stays
// is found, always, and nobody is found in another's place.
void readers_need_no_lock(void **) {
    constexpr std::uint32_t staying = 20, moving = 16, rounds = 60000;
    things in;
    std::vector<thing> stay(staying);
    for (std::uint32_t n = 0; n != staying; ++n) {
        stay[n].key = by_device(n * 3);
        in.add(stay[n].key, &stay[n]);
    }
    // A thing never has two keys, so that what was found can be asked for its own.
    std::unique_ptr<thing[]> move(new thing[rounds]);
    for (std::uint32_t n = 0; n != rounds; ++n)
        move[n].key = by_device(n * 3 + 1);
    std::atomic<bool> over = false;
    std::atomic<std::uint32_t> now = 0;
    std::atomic<unsigned> lost = 0, wrong = 0, seen = 0;
    const auto read = [&] {
        do {
            for (const thing &each : stay)
                lost += in.find(each.key) != &each;
            const std::uint32_t from = now.load(std::memory_order_relaxed);
            for (std::uint32_t n = from; n < from + 2 * moving && n < rounds; ++n)
                if (const thing *const one = in.find(by_device(n * 3 + 1))) {
                    wrong += one != &move[n];
                    ++seen;
                }
        } while (!over.load(std::memory_order_relaxed));
    };
    std::vector<std::thread> readers;
    for (int n = 0; n != 3; ++n)
        readers.emplace_back(read);
    for (std::uint32_t n = 0; n != rounds; ++n) {
        in.add(move[n].key, &move[n]);
        if (n >= moving)
            in.remove(move[n - moving].key, &move[n - moving]);
        now.store(n > moving ? n - moving : 0, std::memory_order_relaxed);
        // The readers may begin late.
        while (n == rounds / 2 && seen == 0)
            std::this_thread::yield();
    }
    over = true;
    for (std::thread &each : readers)
        each.join();
    assert_int_equal(lost, 0);
    assert_int_equal(wrong, 0);
    assert_int_not_equal(seen, 0);
}

// Tidying moves whoever stands behind a place that was left, often into another's place. For that,
// keys whose search begins at the same place: those that differ by no more than what is cut off.
void nobody_is_found_in_anothers_place(void **) {
    constexpr std::uint32_t alike = 6, rounds = 40000;
    // By trial: keys that collide with the first, in the smallest table.
    const auto home = [](std::uint32_t key) {
        return (key * 0x9e3779b97f4a7c15U >> 32) & 63;
    };
    std::vector<std::uint32_t> keys;
    for (std::uint32_t key = 1; keys.size() != alike + 1; ++key)
        if (home(key) == home(1))
            keys.push_back(key);
    things in;
    std::vector<thing> all(alike + 1);
    for (std::size_t n = 0; n != keys.size(); ++n)
        all[n].key = keys[n];
    std::atomic<bool> over = false;
    std::atomic<unsigned> wrong = 0;
    const auto read = [&] {
        while (!over.load(std::memory_order_relaxed))
            for (std::size_t n = 1; n != keys.size(); ++n) {
                const thing *const one = in.find(keys[n]);
                wrong += one != nullptr && one != &all[n];
            }
    };
    std::thread one(read), other(read);
    // Some elsewhere bring the table to where it is tidied.
    std::vector<thing> elsewhere(64);
    std::uint32_t key = 1000;
    for (std::uint32_t round = 0; round != rounds; ++round) {
        for (thing &each : all)
            in.add(each.key, &each);
        in.remove(all[0].key, &all[0]);
        for (std::size_t n = 0; n != 60; ++n) {
            elsewhere[n].key = ++key;
            in.add(key, &elsewhere[n]);
            in.remove(key, &elsewhere[n]);
        }
        for (std::size_t n = 1; n != all.size(); ++n)
            in.remove(all[n].key, &all[n]);
    }
    over = true;
    one.join();
    other.join();
    assert_int_equal(wrong, 0);
}

// One cell, two keys in turn: between a reader's two looks at it the same thing may have gone and
// come back, and another may have been there.
void nobody_is_found_by_the_key_of_who_was_there_between(void **) {
    constexpr std::uint32_t rounds = 400000;
    things in;
    thing first{1}, second{2};
    for (second.key = 2; (second.key * 0x9e3779b97f4a7c15U >> 32 & 63) !=
                         (first.key * 0x9e3779b97f4a7c15U >> 32 & 63);)
        ++second.key;
    std::atomic<bool> over = false;
    std::atomic<unsigned> wrong = 0, seen = 0;
    const auto read = [&](const thing &wanted) {
        while (!over.load(std::memory_order_relaxed)) {
            const thing *const one = in.find(wanted.key);
            seen += one != nullptr;
            wrong += one != nullptr && one != &wanted;
        }
    };
    std::thread one(read, std::cref(first)), other(read, std::cref(second));
    for (std::uint32_t round = 0; round != rounds; ++round)
        for (const auto each : {&first, &second}) {
            in.add(each->key, each);
            while (round == 0 && seen == 0)
                std::this_thread::yield();
            in.remove(each->key, each);
        }
    over = true;
    one.join();
    other.join();
    assert_int_equal(wrong, 0);
    assert_int_not_equal(seen, 0);
}

// A table that grows is left to its readers.
void readers_need_no_lock_while_it_grows(void **) {
    constexpr std::uint32_t many = 50000;
    std::unique_ptr<thing[]> all(new thing[many]);
    for (std::uint32_t n = 0; n != many; ++n)
        all[n].key = by_device(n);
    things in;
    std::atomic<std::uint32_t> there = 0;
    std::atomic<unsigned> lost = 0;
    const auto read = [&] {
        std::uint32_t n = 0, end;
        do {
            end = there.load(std::memory_order_acquire);
            for (std::uint32_t tries = 0; tries != 64 && end != 0; ++tries, n += 7919)
                lost += in.find(all[n % end].key) != &all[n % end];
        } while (end != many);
    };
    std::thread one(read), other(read);
    for (std::uint32_t n = 0; n != many; ++n) {
        in.add(all[n].key, &all[n]);
        there.store(n + 1, std::memory_order_release);
    }
    one.join();
    other.join();
    assert_int_equal(lost, 0);
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_found_where_nothing_is),
        cmocka_unit_test(every_one_of_many_is_found),
        cmocka_unit_test(two_of_one_key_are_told_apart_when_one_goes),
        cmocka_unit_test(coming_and_going_costs_no_memory),
        cmocka_unit_test(readers_need_no_lock),
        cmocka_unit_test(nobody_is_found_in_anothers_place),
        cmocka_unit_test(nobody_is_found_by_the_key_of_who_was_there_between),
        cmocka_unit_test(readers_need_no_lock_while_it_grows),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// dapl/core/index.hpp: lookup of objects by key.

#include "dapl/core/index.hpp"

#include <atomic>
#include <csetjmp>
#include <cstdarg>
#include <cstddef>
#include <memory>
#include <thread>
#include <vector>

extern "C" {
#include <cmocka.h>
}

namespace {

struct test_entry {
    std::uint32_t key = 0;
};
using entry_index = coherdma::dapl::index<test_entry>;

// Keys as devices number them.
constexpr std::uint32_t device_key(std::uint32_t n) {
    return (n + 0x10) << 8 | 1;
}

void empty_index_finds_nothing(void **) {
    entry_index index;
    assert_null(index.find(0));
    assert_null(index.find(1));
    test_entry entry{5};
    index.remove(5, &entry);
    assert_true(index.add(5, &entry));
    assert_null(index.find(0));
    assert_null(index.find(4));
    assert_ptr_equal(index.find(5), &entry);
    index.remove(4, &entry);
    assert_ptr_equal(index.find(5), &entry);
    index.remove(5, &entry);
    assert_null(index.find(5));
}

/// With keys as a device numbers them, consecutive ones, and ones that differ in the upper bits
/// only.
void index_finds_each_of_many(void **) {
    constexpr std::uint32_t num_entries = 100000;
    for (const auto key_of :
         {+[](std::uint32_t n) { return device_key(n); }, +[](std::uint32_t n) { return n; },
          +[](std::uint32_t n) { return n << 16 | n >> 16; },
          +[](std::uint32_t n) {
              return 0xffffffff - n * 64;
          }}) {
        entry_index index;
        std::vector<test_entry> entries(num_entries);
        for (std::uint32_t n = 0; n != num_entries; ++n) {
            entries[n].key = key_of(n);
            assert_true(index.add(entries[n].key, &entries[n]));
        }
        for (const test_entry &it : entries)
            assert_ptr_equal(index.find(it.key), &it);
        for (std::uint32_t n = 0; n < num_entries; n += 2)
            index.remove(entries[n].key, &entries[n]);
        for (std::uint32_t n = 0; n != num_entries; ++n)
            assert_ptr_equal(index.find(entries[n].key), n % 2 != 0 ? &entries[n] : nullptr);
    }
}

void remove_keeps_other_entry_of_same_key(void **) {
    entry_index index;
    test_entry first{9}, second{9};
    assert_true(index.add(9, &first));
    assert_true(index.add(9, &second));
    index.remove(9, &first);
    assert_ptr_equal(index.find(9), &second);
    index.remove(9, &first);
    assert_ptr_equal(index.find(9), &second);
    index.remove(9, &second);
    assert_null(index.find(9));
}

// While a writer adds and removes entries, readers find the entries that stay, and never a wrong
// one.
void concurrent_readers_find_stable_entries(void **) {
    constexpr std::uint32_t num_stable = 20, num_moving = 16, num_rounds = 60000;
    entry_index index;
    std::vector<test_entry> stable(num_stable);
    for (std::uint32_t n = 0; n != num_stable; ++n) {
        stable[n].key = device_key(n * 3);
        index.add(stable[n].key, &stable[n]);
    }
    // An entry never has two keys, so that a found one can be checked.
    std::unique_ptr<test_entry[]> moving(new test_entry[num_rounds]);
    for (std::uint32_t n = 0; n != num_rounds; ++n)
        moving[n].key = device_key(n * 3 + 1);
    std::atomic<bool> stopped = false;
    std::atomic<std::uint32_t> first_moving = 0;
    std::atomic<unsigned> num_lost = 0, num_wrong = 0, num_found = 0;
    const auto read = [&] {
        do {
            for (const test_entry &it : stable)
                num_lost += index.find(it.key) != &it;
            const std::uint32_t begin = first_moving.load(std::memory_order_relaxed);
            for (std::uint32_t n = begin; n < begin + 2 * num_moving && n < num_rounds; ++n)
                if (const test_entry *const entry = index.find(device_key(n * 3 + 1))) {
                    num_wrong += entry != &moving[n];
                    ++num_found;
                }
        } while (!stopped.load(std::memory_order_relaxed));
    };
    std::vector<std::thread> readers;
    for (int n = 0; n != 3; ++n)
        readers.emplace_back(read);
    for (std::uint32_t n = 0; n != num_rounds; ++n) {
        index.add(moving[n].key, &moving[n]);
        if (n >= num_moving)
            index.remove(moving[n - num_moving].key, &moving[n - num_moving]);
        first_moving.store(n > num_moving ? n - num_moving : 0, std::memory_order_relaxed);
        // Readers may start late.
        while (n == num_rounds / 2 && num_found == 0)
            std::this_thread::yield();
    }
    stopped = true;
    for (std::thread &it : readers)
        it.join();
    assert_int_equal(num_lost, 0);
    assert_int_equal(num_wrong, 0);
    assert_int_not_equal(num_found, 0);
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(empty_index_finds_nothing),
        cmocka_unit_test(index_finds_each_of_many),
        cmocka_unit_test(remove_keeps_other_entry_of_same_key),
        cmocka_unit_test(concurrent_readers_find_stable_entries),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}

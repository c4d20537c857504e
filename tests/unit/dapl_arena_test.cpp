// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Handles: dapl/arena.hpp. What is one, what is none, and what was one.

#include "dapl/arena.hpp"

#include <array>
#include <csetjmp>
#include <cstdarg>
#include <cstdlib>
#include <cstring>
#include <set>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

extern "C" {
#include <cmocka.h>
}

namespace {

using namespace coherdma::dapl;

struct small : slot {
    static constexpr DAT_HANDLE_TYPE type = DAT_HANDLE_TYPE_PZ;
    explicit small(int of)
        : word(of) {}
    ~small() { word = -1; }
    int word;
};

struct large : slot {
    static constexpr DAT_HANDLE_TYPE type = DAT_HANDLE_TYPE_EP;
    std::array<char, 1000> words = {};
};

const DAT_PROVIDER some_table = {};

template <class kind, class... arguments>
kind *make(arguments... given) {
    kind *const one = prepare<kind>(given...);
    if (one == nullptr)
        std::abort();
    return one;
}

void a_handle_is_good_from_publishing_to_withdrawing(void **) {
    small *const one = make<small>(5);
    assert_int_equal(reinterpret_cast<std::uintptr_t>(one) % 64, 0);
    assert_null(as<small>(one));
    assert_null(called_with<small>(one));
    publish(one, &some_table);
    assert_ptr_equal(as<small>(one), one);
    assert_ptr_equal(called_with<small>(one), one);
    DAT_PROVIDER *first = nullptr;
    std::memcpy(&first, one, sizeof first);
    assert_ptr_equal(first, &some_table);
    withdraw(one);
    assert_null(as<small>(one));
    assert_null(called_with<small>(one));
    discard(one);
    assert_null(as<small>(one));
    // A registry may still ask whose it was.
    std::memcpy(&first, static_cast<void *>(one), sizeof first);
    assert_ptr_equal(first, &some_table);
}

void nothing_else_is_taken_for_a_handle(void **) {
    small *const one = make<small>(5);
    large *const other = make<large>();
    publish(one, &some_table);
    publish(other, &some_table);
    assert_null(as<large>(one));
    assert_null(as<small>(other));
    assert_null(called_with<large>(one));
    assert_null(called_with<small>(other));
    char *const bytes = reinterpret_cast<char *>(other);
    for (std::size_t offset = 1; offset != sizeof(large); ++offset) {
        assert_null(as<large>(bytes + offset));
        assert_null(called_with<large>(bytes + offset));
    }
    int local = 0;
    for (const std::uintptr_t each :
         {std::uintptr_t{0}, std::uintptr_t{1}, std::uintptr_t{64}, std::uintptr_t{4096},
          ~std::uintptr_t{0}, ~std::uintptr_t{63}, std::uintptr_t{1} << 63,
          reinterpret_cast<std::uintptr_t>(&local) / 64 * 64,
          reinterpret_cast<std::uintptr_t>(bytes) + (std::uintptr_t{1} << 30)})
        assert_null(as<large>(reinterpret_cast<void *>(each)));
    // A copy is not at its tag's address.
    alignas(64) std::array<char, sizeof(large)> copy;
    std::memcpy(copy.data(), bytes, sizeof(large));
    assert_null(as<large>(copy.data()));
    assert_null(called_with<large>(copy.data()));
    withdraw(one);
    withdraw(other);
    discard(one);
    discard(other);
}

void a_slot_serves_its_kind_again(void **) {
    std::set<void *> first;
    std::vector<small *> all;
    for (int n = 0; n != 5000; ++n) {
        all.push_back(make<small>(n));
        assert_true(first.insert(all.back()).second);
        publish(all.back(), &some_table);
    }
    for (small *each : all) {
        withdraw(each);
        discard(each);
    }
    for (int n = 0; n != 5000; ++n) {
        all[static_cast<std::size_t>(n)] = make<small>(n);
        assert_int_equal(all[static_cast<std::size_t>(n)]->word, n);
        assert_int_equal(first.count(all[static_cast<std::size_t>(n)]), 1);
    }
    large *const other = make<large>();
    assert_int_equal(first.count(other), 0);
    discard(other);
    for (small *each : all)
        discard(each);
}

void threads_share_it(void **) {
    std::vector<std::thread> all;
    std::atomic<unsigned> bad = 0;
    for (int n = 0; n != 4; ++n)
        all.emplace_back([&bad, n] {
            for (int round = 0; round != 2000; ++round) {
                small *const one = make<small>(n * 10000 + round);
                publish(one, &some_table);
                bad += as<small>(one) != one || one->word != n * 10000 + round;
                withdraw(one);
                discard(one);
            }
        });
    for (std::thread &each : all)
        each.join();
    assert_int_equal(bad, 0);
}

void a_child_has_none_of_its_parents(void **) {
    small *const one = make<small>(5);
    publish(one, &some_table);
    const pid_t child = fork();
    if (child == 0) {
        int wrong = 0;
        wrong += as<small>(one) != nullptr;
        wrong += called_with<small>(one) != nullptr;
        small *const mine = make<small>(6);
        publish(mine, &some_table);
        wrong += as<small>(mine) != mine;
        _exit(wrong);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_ptr_equal(as<small>(one), one);
    assert_int_equal(one->word, 5);
    withdraw(one);
    discard(one);
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(a_handle_is_good_from_publishing_to_withdrawing),
        cmocka_unit_test(nothing_else_is_taken_for_a_handle),
        cmocka_unit_test(a_slot_serves_its_kind_again),
        cmocka_unit_test(threads_share_it),
        cmocka_unit_test(a_child_has_none_of_its_parents),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}

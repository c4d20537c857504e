// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The program's memory is reached without being killed by it, and without losing what it writes.

#include "core/program.hpp"
#include "emulation.hpp"

#include <atomic>
#include <cerrno>
#include <fcntl.h>
#include <thread>

using namespace emulation_test;

namespace {

using program::word;

void is_copied(void **) {
    const memory all(3);
    std::vector<unsigned char> copy(all.size - 2);
    assert_int_equal(program::read(all.begin() + 1, copy.data(), copy.size()), 0);
    assert_memory_equal(copy.data(), all.at + 1, copy.size());
}

void what_is_not_there_is_an_error(void **) {
    const memory all(3);
    std::vector<unsigned char> copy(all.size);
    std::array<word, 8> words{};
    std::size_t lost;
    munmap(all.at + PAGE, PAGE);
    assert_int_equal(program::read(all.begin(), copy.data(), all.size), EFAULT);
    assert_int_equal(program::read(all.begin() + PAGE, copy.data(), 1), EFAULT);
    assert_int_equal(program::read(all.begin(), copy.data(), PAGE), 0);
    assert_int_equal(
        program::replace(all.begin() + PAGE, words.data(), words.data(), words.size(), &lost),
        EFAULT);
}

void what_may_not_be_read_is_an_error(void **) {
    const memory all(2);
    std::vector<unsigned char> copy(all.size);
    assert_int_equal(mprotect(all.at + PAGE, PAGE, PROT_NONE), 0);
    assert_int_equal(program::read(all.begin(), copy.data(), all.size), EFAULT);
    assert_int_equal(program::read(all.begin() + PAGE, copy.data(), 1), EFAULT);
}

/// A device writes to what the program may only read by now, too.
void what_may_only_be_read_is_replaced(void **) {
    skip_without_writable_proc();
    const memory all(1);
    std::array<word, 8> seen, next;
    std::memcpy(seen.data(), all.at, sizeof(seen));
    next = seen;
    next[3] = 77;
    std::size_t lost = 99;
    for (const int rights : {PROT_READ, PROT_NONE}) {
        assert_int_equal(mprotect(all.at, PAGE, rights), 0);
        ++next[3];
        assert_int_equal(
            program::replace(all.begin(), seen.data(), next.data(), next.size(), &lost), 0);
        assert_int_equal(lost, 0);
        assert_int_equal(mprotect(all.at, PAGE, PROT_READ), 0);
        assert_memory_equal(all.at, next.data(), sizeof(next));
    }
    // A file's, that nobody may write to, stays.
    const file of(std::string(PAGE, 'x'));
    const int opened = open(of.name().c_str(), O_RDONLY);
    void *const shared = mmap(nullptr, PAGE, PROT_READ, MAP_SHARED, opened, 0);
    assert_true(shared != MAP_FAILED);
    assert_int_equal(program::replace(reinterpret_cast<std::uintptr_t>(shared), seen.data(),
                                      next.data(), next.size(), &lost),
                     EFAULT);
    assert_int_equal(static_cast<char *>(shared)[24], 'x');
    munmap(shared, PAGE);
    close(opened);
}

void words_that_have_changed_are_left(void **) {
    const memory all(1);
    auto *const words = reinterpret_cast<word *>(all.at);
    const std::array<word, 4> seen = {words[0], 1, words[2], words[3]};
    const std::array<word, 4> next = {100, 200, words[2], 400};
    const word second = words[1], third = words[2];
    std::size_t lost = 0;
    assert_int_equal(program::replace(all.begin(), seen.data(), next.data(), 4, &lost), 0);
    assert_int_equal(lost, 1);
    assert_true(words[0] == 100 && words[1] == second && words[2] == third && words[3] == 400);
}

/// In a line that is replaced all the time, a thread counts.
void no_store_of_a_neighbour_is_lost(void **) {
    constexpr word ROUNDS = 200000;
    const memory all(1);
    auto *const words = reinterpret_cast<word *>(all.at);
    std::memset(all.at, 0, PAGE);
    std::atomic<bool> over{false};
    std::atomic<word> counted{0};
    std::thread counts([&] {
        while (!over) { // not atomic: a plain store after a load
            const word now = __atomic_load_n(&words[3], __ATOMIC_RELAXED);
            __atomic_store_n(&words[3], now + 1, __ATOMIC_RELAXED);
            ++counted;
        }
    });
    while (counted == 0)
        std::this_thread::yield();
    word replaced = 0;
    for (word round = 1; round <= ROUNDS; ++round) {
        std::array<word, 8> seen, next;
        for (std::size_t each = 0; each < 8; ++each)
            next[each] = seen[each] = __atomic_load_n(&words[each], __ATOMIC_RELAXED);
        ++next[2], ++next[4];
        std::size_t lost = 0;
        assert_int_equal(program::replace(all.begin(), seen.data(), next.data(), 8, &lost), 0);
        assert_int_equal(lost, 0); // the counter was not to be replaced
        if (__atomic_load_n(&words[4], __ATOMIC_RELAXED) == round)
            ++replaced;
    }
    over = true;
    counts.join();
    assert_true(replaced == ROUNDS);
    assert_true(words[3] == counted);
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(is_copied),
        cmocka_unit_test(what_is_not_there_is_an_error),
        cmocka_unit_test(what_may_not_be_read_is_an_error),
        cmocka_unit_test(what_may_only_be_read_is_replaced),
        cmocka_unit_test(words_that_have_changed_are_left),
        cmocka_unit_test(no_store_of_a_neighbour_is_lost),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Access to the program's memory: faults are errors, and concurrent stores are kept.

#include "cache_fixture.hpp"
#include "core/memory/program_memory.hpp"

#include <atomic>
#include <cerrno>
#include <fcntl.h>
#include <thread>

using namespace emulation_test;

namespace {

using program_memory::word;

void read_copies_memory(void **) {
    const program_pages pages(3);
    std::vector<unsigned char> copy(pages.size - 2);
    assert_int_equal(program_memory::read(pages.begin() + 1, copy.data(), copy.size()), 0);
    assert_memory_equal(copy.data(), pages.bytes + 1, copy.size());
}

void access_to_unmapped_memory_fails(void **) {
    const program_pages pages(3);
    std::vector<unsigned char> copy(pages.size);
    std::array<word, 8> words{};
    std::size_t num_skipped;
    munmap(pages.bytes + PAGE, PAGE);
    assert_int_equal(program_memory::read(pages.begin(), copy.data(), pages.size), EFAULT);
    assert_int_equal(program_memory::read(pages.begin() + PAGE, copy.data(), 1), EFAULT);
    assert_int_equal(program_memory::read(pages.begin(), copy.data(), PAGE), 0);
    assert_int_equal(program_memory::replace_words(pages.begin() + PAGE, /*expected=*/words.data(),
                                                   /*desired=*/words.data(), words.size(),
                                                   &num_skipped),
                     EFAULT);
}

void read_of_protected_memory_fails(void **) {
    const program_pages pages(2);
    std::vector<unsigned char> copy(pages.size);
    assert_int_equal(mprotect(pages.bytes + PAGE, PAGE, PROT_NONE), 0);
    assert_int_equal(program_memory::read(pages.begin(), copy.data(), pages.size), EFAULT);
    assert_int_equal(program_memory::read(pages.begin() + PAGE, copy.data(), 1), EFAULT);
}

/// A device writes to memory that is read-only for the program.
void replace_writes_read_only_memory(void **) {
    skip_without_writable_proc();
    const program_pages pages(1);
    std::array<word, 8> seen, next;
    std::memcpy(seen.data(), pages.bytes, sizeof(seen));
    next = seen;
    next[3] = 77;
    std::size_t lost = 99;
    for (const int rights : {PROT_READ, PROT_NONE}) {
        assert_int_equal(mprotect(pages.bytes, PAGE, rights), 0);
        ++next[3];
        assert_int_equal(program_memory::replace_words(pages.begin(), seen.data(), next.data(),
                                                       next.size(), &lost),
                         0);
        assert_int_equal(lost, 0);
        assert_int_equal(mprotect(pages.bytes, PAGE, PROT_READ), 0);
        assert_memory_equal(pages.bytes, next.data(), sizeof(next));
    }
    // A read-only file is not changed.
    const temp_file read_only(std::string(PAGE, 'x'));
    const int opened = open(read_only.name().c_str(), O_RDONLY);
    void *const shared = mmap(nullptr, PAGE, PROT_READ, MAP_SHARED, opened, 0);
    assert_true(shared != MAP_FAILED);
    assert_int_equal(program_memory::replace_words(reinterpret_cast<std::uintptr_t>(shared),
                                                   seen.data(), next.data(), next.size(), &lost),
                     EFAULT);
    assert_int_equal(static_cast<char *>(shared)[24], 'x');
    munmap(shared, PAGE);
    close(opened);
}

void replace_skips_changed_words(void **) {
    const program_pages pages(1);
    auto *const words = reinterpret_cast<word *>(pages.bytes);
    const std::array<word, 4> seen = {words[0], 1, words[2], words[3]};
    const std::array<word, 4> next = {100, 200, words[2], 400};
    const word second = words[1], third = words[2];
    std::size_t lost = 0;
    assert_int_equal(
        program_memory::replace_words(pages.begin(), seen.data(), next.data(), 4, &lost), 0);
    assert_int_equal(lost, 1);
    assert_true(words[0] == 100 && words[1] == second && words[2] == third && words[3] == 400);
}

/// A thread counts in a line that is replaced without pause.
void replace_loses_no_concurrent_store(void **) {
    constexpr word ROUNDS = 200000;
    const program_pages pages(1);
    auto *const words = reinterpret_cast<word *>(pages.bytes);
    std::memset(pages.bytes, 0, PAGE);
    std::atomic<bool> stop{false};
    std::atomic<word> counted{0};
    std::thread counter([&] {
        while (!stop) { // a load and a store, not an atomic increment
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
        for (std::size_t i = 0; i < 8; ++i)
            next[i] = seen[i] = __atomic_load_n(&words[i], __ATOMIC_RELAXED);
        ++next[2], ++next[4];
        std::size_t lost = 0;
        assert_int_equal(
            program_memory::replace_words(pages.begin(), seen.data(), next.data(), 8, &lost), 0);
        assert_int_equal(lost, 0); // the counter was not replaced
        if (__atomic_load_n(&words[4], __ATOMIC_RELAXED) == round)
            ++replaced;
    }
    stop = true;
    counter.join();
    assert_true(replaced == ROUNDS);
    assert_true(words[3] == counted);
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(read_copies_memory),
        cmocka_unit_test(access_to_unmapped_memory_fails),
        cmocka_unit_test(read_of_protected_memory_fails),
        cmocka_unit_test(replace_writes_read_only_memory),
        cmocka_unit_test(replace_skips_changed_words),
        cmocka_unit_test(replace_loses_no_concurrent_store),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}

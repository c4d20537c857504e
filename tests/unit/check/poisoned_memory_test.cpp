// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Memory that requests poison: by several, in part, beside marks of the program, and freed before.

#include "../cmocka.hpp"
#include "check/poisoned_memory.hpp"

#include <algorithm>
#include <array>
#include <string>

namespace {

using coherdma::check::asan_runtime;
using coherdma::check::poisoned_memory;

constexpr std::size_t GRANULE = 8, NUM_GRANULES = 8;
constexpr unsigned char CLEAN = 0, BY_USER = 0xf7, FREED = 0xfd;

alignas(GRANULE) std::array<unsigned char, GRANULE * NUM_GRANULES> memory;
std::array<unsigned char, NUM_GRANULES> marks;

std::uintptr_t addr_of(std::size_t offset) {
    return reinterpret_cast<std::uintptr_t>(memory.data()) + offset;
}
void mark(const volatile void *addr, std::size_t length, unsigned char value) {
    const std::size_t offset = reinterpret_cast<std::uintptr_t>(addr) - addr_of(0);
    assert_int_equal(offset % GRANULE, 0);
    assert_int_equal(length % GRANULE, 0);
    assert_true(offset + length <= memory.size());
    std::fill_n(marks.begin() + static_cast<std::ptrdiff_t>(offset / GRANULE), length / GRANULE,
                value);
}

const asan_runtime RUNTIME = {
    .poison = [](const volatile void *addr, std::size_t length) { mark(addr, length, BY_USER); },
    .unpoison = [](const volatile void *addr, std::size_t length) { mark(addr, length, CLEAN); },
    .find_poisoned = [](void *begin, std::size_t length) -> void * {
        const std::size_t offset = reinterpret_cast<std::uintptr_t>(begin) - addr_of(0);
        for (std::size_t i = offset; i < offset + length; ++i)
            if (marks[i / GRANULE] != CLEAN)
                return &memory[i];
        return nullptr;
    },
    .get_shadow_mapping =
        [](std::size_t *scale, std::size_t *offset) {
            constexpr std::size_t SCALE = 3;
            *scale = SCALE;
            *offset = reinterpret_cast<std::uintptr_t>(marks.data()) - (addr_of(0) >> SCALE);
        },
};

/// A character for each granule.
std::string shown_marks() {
    std::string text;
    for (const unsigned char value : marks)
        text += value == CLEAN ? '.' : value == BY_USER ? 'x' : 'f';
    return text;
}

int clear_marks(void **) {
    marks.fill(CLEAN);
    return 0;
}

void whole_granules_are_poisoned(void **) {
    poisoned_memory poisoned(RUNTIME);
    poisoned.add(1, addr_of(4), addr_of(28));
    assert_string_equal(shown_marks().c_str(), ".xx.....");
    poisoned.add(2, addr_of(41), addr_of(47)); // no whole one
    assert_string_equal(shown_marks().c_str(), ".xx.....");
    poisoned.remove(2, addr_of(41), addr_of(47));
    poisoned.remove(1, addr_of(4), addr_of(28));
    assert_string_equal(shown_marks().c_str(), "........");
}

void overlap_stays_poisoned_until_both_end(void **) {
    poisoned_memory poisoned(RUNTIME);
    poisoned.add(1, addr_of(0), addr_of(32));
    poisoned.add(2, addr_of(16), addr_of(48));
    poisoned.add(3, addr_of(24), addr_of(32));
    assert_string_equal(shown_marks().c_str(), "xxxxxx..");
    assert_int_equal(poisoned.owners_of(addr_of(24), addr_of(25)).size(), 3);
    poisoned.remove(2, addr_of(16), addr_of(48));
    assert_string_equal(shown_marks().c_str(), "xxxx....");
    poisoned.remove(1, addr_of(0), addr_of(32));
    assert_string_equal(shown_marks().c_str(), "...x....");
    poisoned.remove(3, addr_of(24), addr_of(32));
    assert_string_equal(shown_marks().c_str(), "........");
    assert_true(poisoned.owners_of(addr_of(0), addr_of(64)).empty());
}

void memory_that_the_program_poisoned_stays_so(void **) {
    marks[2] = BY_USER;
    marks[5] = FREED;
    poisoned_memory poisoned(RUNTIME);
    poisoned.add(1, addr_of(0), addr_of(64));
    assert_string_equal(shown_marks().c_str(), "xxxxxfxx");
    poisoned.remove(1, addr_of(0), addr_of(64));
    assert_string_equal(shown_marks().c_str(), "..x..f..");
}

void freed_memory_is_not_unpoisoned(void **) {
    poisoned_memory poisoned(RUNTIME);
    poisoned.add(1, addr_of(8), addr_of(48));
    poisoned.remove_freed(addr_of(16), addr_of(32));
    std::fill_n(marks.begin() + 2, 2, BY_USER); // of the next owner of the memory
    assert_string_equal(shown_marks().c_str(), "..xx....");
    poisoned.remove(1, addr_of(8), addr_of(48));
    assert_string_equal(shown_marks().c_str(), "..xx....");
}

void memory_of_a_freed_buffer_is_poisoned_by_another_request(void **) {
    poisoned_memory poisoned(RUNTIME);
    poisoned.add(1, addr_of(0), addr_of(16));
    poisoned.remove_freed(addr_of(0), addr_of(16));
    marks.fill(CLEAN); // it is allocated again
    poisoned.add(2, addr_of(0), addr_of(16));
    poisoned.remove(1, addr_of(0), addr_of(16));
    assert_string_equal(shown_marks().c_str(), "xx......");
    poisoned.remove(2, addr_of(0), addr_of(16));
    assert_string_equal(shown_marks().c_str(), "........");
}

void unseen_free_is_not_unpoisoned(void **) {
    poisoned_memory poisoned(RUNTIME);
    poisoned.add(1, addr_of(0), addr_of(24));
    marks[1] = FREED;
    poisoned.remove(1, addr_of(0), addr_of(24));
    assert_string_equal(shown_marks().c_str(), ".f......");
}

void unmapped_memory_has_no_marks(void **) {
    poisoned_memory poisoned(RUNTIME);
    poisoned.add(1, addr_of(0), addr_of(64));
    poisoned.remove_unmapped(addr_of(8), addr_of(16));
    assert_string_equal(shown_marks().c_str(), "........");
    poisoned.add(2, addr_of(0), addr_of(64));
    poisoned.unpoison_all();
    assert_string_equal(shown_marks().c_str(), "........");
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test_setup(whole_granules_are_poisoned, clear_marks),
        cmocka_unit_test_setup(overlap_stays_poisoned_until_both_end, clear_marks),
        cmocka_unit_test_setup(memory_that_the_program_poisoned_stays_so, clear_marks),
        cmocka_unit_test_setup(freed_memory_is_not_unpoisoned, clear_marks),
        cmocka_unit_test_setup(memory_of_a_freed_buffer_is_poisoned_by_another_request,
                               clear_marks),
        cmocka_unit_test_setup(unseen_free_is_not_unpoisoned, clear_marks),
        cmocka_unit_test_setup(unmapped_memory_has_no_marks, clear_marks),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}

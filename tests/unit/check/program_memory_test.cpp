// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Memory of the program is read only where it can be, and without a copy where that is safe.

#include "../cmocka.hpp"
#include "check/program_memory.hpp"

#include <algorithm>
#include <cstdlib>
#include <sys/mman.h>
#include <unistd.h>

namespace {

using namespace coherdma::check;

constexpr std::size_t NUM_PAGES = 3;
constexpr char FILLED = 'c';

/// Mapped pages, of a file or of no file.
struct pages {
    const std::size_t size = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    char *const memory;

    explicit pages(int file = -1)
        : memory(static_cast<char *>(mmap(nullptr, NUM_PAGES * size, PROT_READ | PROT_WRITE,
                                          file < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED, file,
                                          0))) {
        std::fill_n(memory, NUM_PAGES * size, FILLED);
    }
    pages(const pages &) = delete;
    pages &operator=(const pages &) = delete;
    ~pages() { munmap(memory, NUM_PAGES * size); }

    [[nodiscard]] std::uintptr_t addr(std::size_t offset) const {
        return reinterpret_cast<std::uintptr_t>(memory) + offset;
    }
    [[nodiscard]] std::optional<program_memory> read(std::size_t begin, std::size_t end) const {
        return program_memory::read(addr(begin), addr(end));
    }
    [[nodiscard]] bool can_read(std::size_t begin, std::size_t end) const {
        return read(begin, end).has_value();
    }
};

void range_has_its_bytes(void **) {
    const pages p;
    p.memory[p.size] = 'x';
    const auto memory = p.read(5, 2 * p.size + 7);
    assert_true(memory.has_value());
    assert_int_equal(memory->bytes().size(), 2 * p.size + 2);
    assert_int_equal(std::to_integer<int>(memory->bytes()[0]), FILLED);
    assert_int_equal(std::to_integer<int>(memory->bytes()[p.size - 5]), 'x');
}

void unmapped_page_is_not_read(void **) {
    const pages p;
    munmap(p.memory + p.size, p.size);
    assert_false(p.can_read(0, 3 * p.size));
    assert_false(p.can_read(p.size - 1, p.size + 1));
    assert_false(p.can_read(2 * p.size - 1, 2 * p.size + 1));
    assert_true(p.can_read(p.size - 1, p.size));
    assert_true(p.can_read(2 * p.size, 2 * p.size + 1));
}

void protected_page_is_not_read(void **) {
    const pages p;
    mprotect(p.memory + p.size, p.size, PROT_NONE);
    assert_false(p.can_read(0, 2 * p.size));
    assert_false(p.can_read(p.size + 8, p.size + 16));
    assert_true(p.can_read(0, p.size));
}

void page_beyond_the_end_of_a_file_is_not_read(void **) {
    const int file = memfd_create("source", 0);
    assert_int_equal(ftruncate(file, static_cast<off_t>(NUM_PAGES) * getpagesize()), 0);
    const pages p(file);
    assert_true(p.can_read(0, NUM_PAGES * p.size));
    assert_int_equal(ftruncate(file, getpagesize()), 0);
    assert_false(p.can_read(0, NUM_PAGES * p.size));
    assert_false(p.can_read(p.size, p.size + 8));
    assert_true(p.can_read(0, p.size));
    close(file);
}

void memory_that_cannot_be_written_is_read(void **) {
    const pages p;
    mprotect(p.memory, NUM_PAGES * p.size, PROT_READ);
    assert_true(p.can_read(0, NUM_PAGES * p.size));
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(range_has_its_bytes),
        cmocka_unit_test(unmapped_page_is_not_read),
        cmocka_unit_test(protected_page_is_not_read),
        cmocka_unit_test(page_beyond_the_end_of_a_file_is_not_read),
        cmocka_unit_test(memory_that_cannot_be_written_is_read),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// is_readable() of memory that can be read, and of addresses that cannot.

#include <cerrno>
#include <cstdint>
#include <sys/mman.h>
#include <unistd.h>

#include "../cmocka.hpp"
#include "handles/probe_address.hpp"

using coherdma::registry::is_readable;

namespace {

constexpr std::size_t PAGE_SIZE = 4096;

char *map_page(int protection) {
    void *memory = mmap(nullptr, PAGE_SIZE, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        _exit(102);
    return static_cast<char *>(memory);
}

const void *to_pointer(std::uintptr_t address) {
    return reinterpret_cast<const void *>(address);
}

/// The lowest free descriptor, to detect leaks.
int next_fd() {
    const int fd = dup(0);
    close(fd);
    return fd;
}

/// Checks is_readable() for readable and unreadable addresses; it must keep errno and leave no open
/// file. Returns the number of the first check that fails, or 0.
int find_failed_check() {
    const int old_next_fd = next_fd();
    char *const readable = map_page(PROT_READ), *const inaccessible = map_page(PROT_NONE),
                *const unmapped = map_page(PROT_READ | PROT_WRITE);
    munmap(unmapped, PAGE_SIZE);
    const long words[3] = {0, 1, -1};
    // The value that the futex probe expects.
    const std::uint32_t expected_value[2] = {0x9E3779B9, 0};
    const void *const code =
        to_pointer(reinterpret_cast<std::uintptr_t>(&find_failed_check) & ~std::uintptr_t{7});
    const void *const readable_addresses[] = {readable,  readable + PAGE_SIZE - 8, words, words + 1,
                                              words + 2, expected_value,           code};
    const void *const unreadable_addresses[] = {nullptr,
                                                to_pointer(8),
                                                to_pointer(4096),
                                                inaccessible,
                                                inaccessible + PAGE_SIZE - 8,
                                                unmapped,
                                                to_pointer(std::uintptr_t{1} << 63),
                                                to_pointer(~std::uintptr_t{7}),
                                                to_pointer(0xffffffff81000000)};
    int check = 0;
    for (int round = 0; round < 2; ++round) {
        for (const void *address : readable_addresses) {
            errno = EDOM;
            ++check;
            if (!is_readable(address) || errno != EDOM)
                return check;
        }
        for (const void *address : unreadable_addresses) {
            errno = EDOM;
            ++check;
            if (is_readable(address) || errno != EDOM)
                return check;
        }
    }
    munmap(inaccessible, PAGE_SIZE);
    munmap(readable, PAGE_SIZE);
    return old_next_fd == next_fd() ? 0 : 100;
}

void readable_memory_detected(void **) {
    assert_int_equal(find_failed_check(), 0);
}

} // namespace

int main() {
    const CMUnitTest tests[] = {cmocka_unit_test(readable_memory_detected)};
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}

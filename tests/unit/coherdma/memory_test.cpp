// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The check whether memory is mapped reads one byte of each page, and none outside the ranges,
// which the address sanitizer would report.

#include "../cmocka.hpp"
#include "api/memory.hpp"

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>
#include <vector>

namespace {

using coherdma::api::check_mapped;
using coherdma::cache::range;

std::vector<std::uintptr_t> addrs_read;

const auto page_size = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));

/// Pages of memory; the first byte is at the beginning of a page.
struct pages {
    std::size_t size;
    std::uintptr_t addr;
    explicit pages(std::size_t count)
        : size(count * page_size) {
        void *const memory =
            mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        assert_ptr_not_equal(memory, MAP_FAILED);
        addr = reinterpret_cast<std::uintptr_t>(memory);
    }
    ~pages() { munmap(reinterpret_cast<void *>(addr), size); }
    pages(const pages &) = delete;
    pages &operator=(const pages &) = delete;
};

range make_range(std::uintptr_t addr, std::size_t length) {
    return {.addr = addr, .length = length};
}

void one_byte_of_each_page_is_read(void **) {
    const pages memory(4);
    const range ranges[] = {make_range(memory.addr + 100, 3 * page_size)};
    addrs_read.clear();
    assert_int_equal(check_mapped(ranges, 1), 0);
    const std::vector<std::uintptr_t> expected = {memory.addr + 100, memory.addr + page_size,
                                                  memory.addr + 2 * page_size,
                                                  memory.addr + 3 * page_size};
    assert_true(addrs_read == expected);
}

void no_byte_outside_ranges_is_read(void **) {
    const pages memory(300);
    const range ranges[] = {make_range(memory.addr + 7, 1), make_range(memory.addr + 2000, 8),
                            make_range(memory.addr + 9, 0),
                            make_range(memory.addr + page_size - 1, 280 * page_size)};
    addrs_read.clear();
    assert_int_equal(check_mapped(ranges, 4), 0);
    for (const std::uintptr_t addr : addrs_read) {
        bool is_in_range = false;
        for (const range &range : ranges)
            is_in_range = is_in_range || addr - range.addr < range.length;
        assert_true(is_in_range);
    }
    assert_true(addrs_read.size() >= 282);
}

void unreadable_page_is_reported(void **) {
    const pages memory(3);
    mprotect(reinterpret_cast<void *>(memory.addr + page_size), page_size, PROT_NONE);
    const range before = make_range(memory.addr + 5, page_size - 5),
                across = make_range(memory.addr + 5, page_size - 4),
                inside = make_range(memory.addr + page_size + 5, 1),
                after = make_range(memory.addr + 2 * page_size, 1);
    assert_int_equal(check_mapped(&before, 1), 0);
    assert_int_equal(check_mapped(&across, 1), EFAULT);
    assert_int_equal(check_mapped(&inside, 1), EFAULT);
    assert_int_equal(check_mapped(&after, 1), 0);
}

} // namespace

/// Instead of libc's.
extern "C" ssize_t writev(int fd, const iovec *buffers, int count) {
    for (int i = 0; i < count; ++i)
        addrs_read.push_back(reinterpret_cast<std::uintptr_t>(buffers[i].iov_base));
    return syscall(SYS_writev, fd, buffers, count);
}

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(one_byte_of_each_page_is_read),
        cmocka_unit_test(no_byte_outside_ranges_is_read),
        cmocka_unit_test(unreadable_page_is_reported),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "writeback.hpp"

#include "dapl/ia/ia.hpp"
#include "lmr.hpp"

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <unistd.h>

namespace coherdma::dapl {
namespace {

struct close_file {
    void operator()(std::FILE *file) const noexcept { std::fclose(file); }
};

} // namespace

void writeback_pages(const dapl_lmr &lmr) noexcept {
    const auto page_size = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
    const auto addr = reinterpret_cast<std::uintptr_t>(lmr.memory);
    const std::uintptr_t begin = addr & ~(page_size - 1);
    const std::uintptr_t end = (addr + lmr.length + page_size - 1) & ~(page_size - 1);
    const auto writeback = [&lmr](std::uintptr_t range_begin, std::size_t length) {
        const coherdma_range range = {.addr = reinterpret_cast<const void *>(range_begin),
                                      .length = length};
        return coherdma_sync_for_device(lmr.ia->checked_coherency.get(), &range, 1,
                                        COHERDMA_TO_DEVICE);
    };
    if (writeback(begin, end - begin) != EFAULT)
        return;
    // The consumer has unmapped some of the pages. Those that are left are written back.
    const std::unique_ptr<std::FILE, close_file> maps(std::fopen("/proc/self/maps", "re"));
    std::uintptr_t first = 0, last = 0;
    char can_read = '-';
    while (maps && std::fscanf(maps.get(), "%" SCNxPTR "-%" SCNxPTR " %c%*[^\n]", &first, &last,
                               &can_read) == 3) {
        first = std::max(first, begin);
        last = std::min(last, end);
        if (first < last && can_read == 'r') {
            [[maybe_unused]] const int error = writeback(first, last - first);
        }
    }
}

} // namespace coherdma::dapl

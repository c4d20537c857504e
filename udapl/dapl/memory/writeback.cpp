// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "writeback.hpp"

#include "dapl/ia/ia.hpp"
#include "lmr.hpp"

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <unistd.h>

namespace coherdma::dapl {

void writeback_pages(const dapl_lmr &lmr) noexcept {
    const auto page_size = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
    const auto addr = reinterpret_cast<std::uintptr_t>(lmr.memory);
    const std::uintptr_t begin = addr & ~(page_size - 1);
    const std::uintptr_t end = (addr + lmr.length + page_size - 1) & ~(page_size - 1);
    const auto writeback = [&lmr](std::uintptr_t first, std::size_t length) {
        const coherdma_range range = {.addr = reinterpret_cast<const void *>(first),
                                      .length = length};
        return coherdma_sync_for_device(lmr.ia->checked_coherency.get(), &range, 1,
                                        COHERDMA_TO_DEVICE);
    };
    if (writeback(begin, end - begin) != EFAULT)
        return;
    // The consumer has unmapped some of the pages, and maybe not all.
    for (std::uintptr_t page = begin; page != end; page += page_size) {
        [[maybe_unused]] const int error = writeback(page, page_size);
    }
}

} // namespace coherdma::dapl

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "writeback.hpp"

#include "dapl/ia/ia.hpp"
#include "lmr.hpp"

#include <algorithm>
#include <cstdint>
#include <infiniband/verbs.h>
#include <unistd.h>

namespace coherdma::dapl {

void writeback_pages(const dapl_lmr &lmr) noexcept {
    const auto page_size = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
    const auto addr = reinterpret_cast<std::uintptr_t>(lmr.memory);
    const std::uint64_t begin = addr & ~(page_size - 1);
    const std::uint64_t end = (addr + lmr.length + page_size - 1) & ~(page_size - 1);
    constexpr std::uint64_t max_sge_length = std::uint64_t{1} << 31;
    for (std::uint64_t pos = begin; pos < end; pos += max_sge_length) {
        const ibv_sge sge = {pos, static_cast<std::uint32_t>(std::min(end - pos, max_sge_length)),
                             0};
        coherdma_sync_for_device(lmr.ia->checked_coherency.get(), &sge, 1, COHERDMA_TO_DEVICE);
    }
}

} // namespace coherdma::dapl

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// A CPU whose cache user programs cannot maintain, or that nobody has written down here yet.

#include "cache.hpp"
#include "parts.hpp"

#include <atomic>

namespace coherdma::cache {
namespace {

void fence() noexcept {
    std::atomic_thread_fence(std::memory_order_seq_cst);
}

constexpr path ORDERING = {"", fence, no_line, fence, fence, no_line, fence, always};

} // namespace

std::span<const path> paths() noexcept {
    return {};
}

const path &ordering() noexcept {
    return ORDERING;
}

std::size_t line_size() noexcept {
    return 0;
}

} // namespace coherdma::cache

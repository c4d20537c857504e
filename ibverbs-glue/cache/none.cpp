// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// CPUs without cache maintenance for user programs, and those without a file here.

#include "cache.hpp"
#include "cpu_common.hpp"

#include <atomic>

namespace coherdma::cache {
namespace {

void fence() noexcept {
    std::atomic_thread_fence(std::memory_order_seq_cst);
}

constexpr cache_ops ORDERING_OPS = only_order(fence, fence);

} // namespace

std::span<const cache_ops> arch_ops() noexcept {
    return {};
}

const cache_ops &ordering_ops() noexcept {
    return ORDERING_OPS;
}

std::size_t line_size() noexcept {
    return 0;
}

std::size_t writeback_granule() noexcept {
    return 0; // a line
}

} // namespace coherdma::cache

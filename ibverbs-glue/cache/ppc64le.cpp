// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// POWER, where PCI devices snoop the cache: for devices configured as non-coherent, and for the
// emulation.
//
// dcbst writes back and may keep the line; plain dcbf writes back and invalidates it in all caches
// of the system. Both are in every version of the architecture; the dcbf variants for persistent
// memory are newer and not needed.

#include "cache.hpp"
#include "cpu_common.hpp"

#include <sys/auxv.h>

namespace coherdma::cache {
namespace {

// The "memory" clobbers keep the compiler from moving the program's stores past the instruction.
void dcbst(std::uintptr_t line) noexcept {
    asm volatile("dcbst 0, %0" ::"r"(line) : "memory");
}
void dcbf(std::uintptr_t line) noexcept {
    asm volatile("dcbf 0, %0" ::"r"(line) : "memory");
}
void sync() noexcept {
    asm volatile("sync" ::: "memory");
}

// After the loops, sync waits until the lines have reached memory. Before them, it orders earlier
// stores, of this thread and of threads whose stores it has observed: dcbst and dcbf are ordered
// like loads (Power ISA 3.0, Book II 4.3.2, "Data Cache Instructions"), and only sync orders a load
// after a store (Book II 4.6.3, "Memory Barrier Instructions").
constexpr cache_ops ARCH_OPS[] = {
    {
        .name = "dcb",
        .fence_before_writeback = sync,
        .writeback = per_line<dcbst>,
        .fence_after_writeback = sync,
        .fence_before_invalidate = sync,
        .writeback_invalidate = per_line<dcbf>,
        .fence_after_invalidate = sync,
        .is_reported = always_reported,
    },
};

// sync before the peer is notified, which may be by a store to the device: lwsync does not order
// such stores with those to memory (Power ISA 3.0, Book II 4.6.3). After a completion was read,
// lwsync would do, but the call does not know the phase. See tests/litmus.
constexpr cache_ops ORDERING_OPS = only_order(sync, sync);

} // namespace

std::span<const cache_ops> arch_ops() noexcept {
    return ARCH_OPS;
}

const cache_ops &ordering_ops() noexcept {
    return ORDERING_OPS;
}

std::size_t line_size() noexcept {
    return valid_line_size(getauxval(AT_DCACHEBSIZE));
}

std::size_t writeback_granule() noexcept {
    return 0; // a line
}

} // namespace coherdma::cache

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
void lwsync() noexcept {
    asm volatile("lwsync" ::: "memory");
}

// After the loops, sync waits until the lines have reached memory. Before them, it orders earlier
// stores, of this thread and of threads whose stores it has observed: dcbst and dcbf are ordered
// like loads, and only sync orders a load after a store.
constexpr cache_ops ARCH_OPS[] = {
    {"dcb", sync, per_line<dcbst>, sync, sync, per_line<dcbf>, sync, always_reported},
};

// sync before the peer is notified, which may be by a store to the device; lwsync after the
// completion was read: it orders loads before all later accesses.
constexpr cache_ops ORDERING_OPS = {"",   compiler_barrier, touch_no_line, sync,
                                    sync, touch_no_line,    lwsync,        always_reported};

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

} // namespace coherdma::cache

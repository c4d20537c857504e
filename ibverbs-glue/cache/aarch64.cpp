// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// arm64, where many devices do not snoop the CPU's cache.
//
// dc cvac writes back to the point of coherency, where all observers of memory agree, and may keep
// the line. dc civac writes back to it and invalidates the line in all caches of the shareability
// domain. dc cvau stops at the point of unification, which the device does not see. dc cvap writes
// back to the point of persistence: not on every CPU, and no device needs it.

#include "cache.hpp"
#include "cpu_common.hpp"

namespace coherdma::cache {
namespace {

// The "memory" clobbers keep the compiler from moving the program's stores past the instruction.
void dc_cvac(std::uintptr_t line) noexcept {
    asm volatile("dc cvac, %0" ::"r"(line) : "memory");
}
void dc_civac(std::uintptr_t line) noexcept {
    asm volatile("dc civac, %0" ::"r"(line) : "memory");
}
void dsb_sy() noexcept {
    asm volatile("dsb sy" ::: "memory");
}
void dmb_sy() noexcept {
    asm volatile("dmb sy" ::: "memory");
}
void dmb_osh() noexcept {
    asm volatile("dmb osh" ::: "memory");
}

// After the loops: only a dsb waits until the lines have reached memory; a dmb merely orders. Full
// system, because a device may be in no smaller shareability domain.
// fence_before_writeback: a CPU's own stores to a line precede its dc of that line. Stores of other
// threads that this thread learned of by a load do not without a dmb: a dc is not ordered after it.
// fence_before_invalidate: the completion may come from a device, so a dsb sy as well.
// Every CPU has these instructions, but the kernel can trap them: is_usable() finds out.
constexpr cache_ops ARCH_OPS[] = {
    {
        .name = "dc",
        .fence_before_writeback = dmb_sy,
        .writeback = per_line<dc_cvac>,
        .fence_after_writeback = dsb_sy,
        .fence_before_invalidate = dsb_sy,
        .writeback_invalidate = per_line<dc_civac>,
        .fence_after_invalidate = dsb_sy,
        .is_reported = always_reported,
    },
};

// Before a Read and before a Write, what precedes the store that notifies the peer: stores; loads,
// as a store of another thread is visible to the device only if the load that found it is performed
// (Arm ARM B2.3, Other-multi-copy atomicity); and loads of data that the peer will overwrite. After
// a Write, later loads follow the load of the completion. So each needs more than a dmb oshst or
// oshld. Outer shareable, as the kernel's dma_mb().
constexpr cache_ops ORDERING_OPS = only_order(dmb_osh, dmb_osh);

} // namespace

std::span<const cache_ops> arch_ops() noexcept {
    return ARCH_OPS;
}

const cache_ops &ordering_ops() noexcept {
    return ORDERING_OPS;
}

// CPUs have 32 to 256 bytes. Where cores differ, the kernel traps the read and returns the
// smallest.
std::size_t line_size() noexcept {
    std::uint64_t ctr = 0;
    asm("mrs %0, ctr_el0" : "=r"(ctr));
    return std::size_t{4} << ((ctr >> 16) & 0xF); // DminLine: log2 of the number of 4-byte words
}

} // namespace coherdma::cache

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

// Arm ARM D7.5.9, "Ordering and completion of data and instruction cache instructions":
// After the loops: only a dsb waits until the lines have reached memory; a dmb merely orders. Full
// system, because a device may be in no smaller shareability domain.
// fence_before_writeback: a CPU's own loads and stores of a line precede its dc of that line.
// Others do so only with a dmb or dsb for both kinds of access: a load by which this thread learned
// of stores of another thread, which then precede the dc as well (B2.3, "Other-multi-copy atomic").
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
// (Arm ARM B2.3, "Other-multi-copy atomic"); and loads of data that the peer will overwrite. After
// a Write, later loads follow the load of the completion. So each needs more than a dmb oshst or
// oshld (B2.3, "Barrier-ordered-before"; tests/litmus). Outer shareable, as the kernel's dma_mb().
constexpr cache_ops ORDERING_OPS = only_order(dmb_osh, dmb_osh);

// CTR_EL0 (Arm ARM, "CTR_EL0, Cache Type Register"): its fields are log2 of a number of 4-byte
// words. Where cores differ, the kernel traps the read.
constexpr std::size_t WORD_SIZE = 4;
constexpr std::uint64_t CTR_FIELD = 0xF;
constexpr unsigned CTR_DMIN_LINE = 16; // the smallest line of all data caches
constexpr unsigned CTR_CWG = 24;       // the cache write-back granule

std::uint64_t read_ctr() noexcept {
    std::uint64_t ctr = 0;
    asm("mrs %0, ctr_el0" : "=r"(ctr));
    return ctr;
}

} // namespace

std::span<const cache_ops> arch_ops() noexcept {
    return ARCH_OPS;
}

const cache_ops &ordering_ops() noexcept {
    return ORDERING_OPS;
}

// CPUs have 32 to 256 bytes.
std::size_t line_size() noexcept {
    return WORD_SIZE << ((read_ctr() >> CTR_DMIN_LINE) & CTR_FIELD);
}

// The kernel has the granule of the CPUs that have the largest, or 0. For 0 the maximum is assumed.
std::size_t writeback_granule() noexcept {
    constexpr std::size_t MAX_GRANULE = 2048;
    const std::uint64_t log2_words = (read_ctr() >> CTR_CWG) & CTR_FIELD;
    return log2_words == 0 ? MAX_GRANULE : WORD_SIZE << log2_words;
}

} // namespace coherdma::cache

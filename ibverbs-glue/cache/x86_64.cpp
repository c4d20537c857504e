// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// x86-64, where PCI devices snoop the cache: for devices configured as non-coherent, and for the
// emulation.
//
// clwb writes back and may keep the line: right before a Read, wrong around a Write, after which
// the CPU would read its own copy. clflushopt writes back and invalidates; so does the older
// clflush, serialized on some CPUs.

#include "cache.hpp"
#include "cpu_common.hpp"

#include <cpuid.h>

namespace coherdma::cache {
namespace {

constexpr unsigned CPUID_1_EDX_CLFSH = 1U << 19;
constexpr unsigned CPUID_7_EBX_CLFLUSHOPT = 1U << 23;
constexpr unsigned CPUID_7_EBX_CLWB = 1U << 24;

struct cpuid_registers {
    unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
};

cpuid_registers cpuid(unsigned leaf) noexcept {
    cpuid_registers regs;
    if (__get_cpuid_count(leaf, 0, &regs.eax, &regs.ebx, &regs.ecx, &regs.edx) == 0)
        return {};
    return regs;
}

// The "memory" clobbers keep the compiler from moving the program's stores past the instruction.
void clwb(std::uintptr_t line) noexcept {
    asm volatile("clwb (%0)" ::"r"(line) : "memory");
}
void clflushopt(std::uintptr_t line) noexcept {
    asm volatile("clflushopt (%0)" ::"r"(line) : "memory");
}
void clflush(std::uintptr_t line) noexcept {
    asm volatile("clflush (%0)" ::"r"(line) : "memory");
}
void sfence() noexcept {
    asm volatile("sfence" ::: "memory");
}
void lfence() noexcept {
    asm volatile("lfence" ::: "memory");
}
void mfence() noexcept {
    asm volatile("mfence" ::: "memory");
}

void sfence_lfence() noexcept {
    sfence();
    lfence();
}

bool has_clflush() noexcept {
    return (cpuid(1).edx & CPUID_1_EDX_CLFSH) != 0;
}
bool has_clflushopt() noexcept {
    return has_clflush() && (cpuid(7).ebx & CPUID_7_EBX_CLFLUSHOPT) != 0;
}
bool has_clwb() noexcept {
    return has_clflushopt() && (cpuid(7).ebx & CPUID_7_EBX_CLWB) != 0;
}

// fence_before_writeback: clwb and clflushopt follow this CPU's own stores to the line (Intel SDM 2
// and AMD APM 3, "CLWB", "CLFLUSHOPT"). They follow its older loads only by lfence, which no later
// instruction passes (SDM 2 and APM 3, "LFENCE"; on AMD CPUs as Linux sets them up); it waits for
// no write-back. fence_after_writeback: sfence orders clwb and clflushopt before later stores, and
// the peer is notified by a store. clflush: on CPUs without clflushopt, AMD's manual (APM 3,
// "CLFLUSH") guarantees order by mfence only, before and after. Around a Write: mfence, since
// sfence does not order loads (SDM 2, "SFENCE").
constexpr cache_ops ARCH_OPS[] = {
    {
        .name = "clwb",
        .fence_before_writeback = lfence,
        .writeback = per_line<clwb>,
        .fence_after_writeback = sfence,
        .fence_before_invalidate = mfence,
        .writeback_invalidate = per_line<clflushopt>,
        .fence_after_invalidate = mfence,
        .is_reported = has_clwb,
    },
    {
        .name = "clflushopt",
        .fence_before_writeback = lfence,
        .writeback = per_line<clflushopt>,
        .fence_after_writeback = sfence,
        .fence_before_invalidate = mfence,
        .writeback_invalidate = per_line<clflushopt>,
        .fence_after_invalidate = mfence,
        .is_reported = has_clflushopt,
    },
    {
        .name = "clflush",
        .fence_before_writeback = mfence,
        .writeback = per_line<clflush>,
        .fence_after_writeback = mfence,
        .fence_before_invalidate = mfence,
        .writeback_invalidate = per_line<clflush>,
        .fence_after_invalidate = mfence,
        .is_reported = has_clflush,
    },
};

// The CPU keeps loads and stores in order (SDM 3A 9.2.2, "Memory Ordering in P6 and More Recent
// Processor Families"; APM 2, 7.2), but not a store before a later load, which no sync promises,
// nor those that bypass the cache (APM 2, 7.4.2). For such stores, as _mm_stream_si128() makes
// them, sfence, also before a Write, since a store that waits in a buffer must not follow what the
// peer writes; for loads, lfence.
constexpr cache_ops ORDERING_OPS = only_order(sfence, sfence_lfence);

} // namespace

std::span<const cache_ops> arch_ops() noexcept {
    return ARCH_OPS;
}

const cache_ops &ordering_ops() noexcept {
    return ORDERING_OPS;
}

std::size_t line_size() noexcept {
    return valid_line_size(((cpuid(1).ebx >> 8) & 0xFF) *
                           std::size_t{8}); // CLFLUSH size, in 8 bytes
}

std::size_t writeback_granule() noexcept {
    return 0; // a line
}

} // namespace coherdma::cache

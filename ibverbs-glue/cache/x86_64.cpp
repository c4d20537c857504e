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

bool has_clflush() noexcept {
    return (cpuid(1).edx & CPUID_1_EDX_CLFSH) != 0;
}
bool has_clflushopt() noexcept {
    return has_clflush() && (cpuid(7).ebx & CPUID_7_EBX_CLFLUSHOPT) != 0;
}
bool has_clwb() noexcept {
    return has_clflushopt() && (cpuid(7).ebx & CPUID_7_EBX_CLWB) != 0;
}

// fence_before_writeback: none needed. The instructions follow this CPU's own stores to the line
// and all its older loads. fence_after_writeback: sfence orders clwb and clflushopt before later
// stores, and the peer is notified by a store. For clflush, older AMD manuals guarantee order by
// mfence only. Around a Write: mfence, since sfence does not order loads.
constexpr cache_ops ARCH_OPS[] = {
    {"clwb", compiler_barrier, per_line<clwb>, sfence, mfence, per_line<clflushopt>, mfence,
     has_clwb},
    {"clflushopt", compiler_barrier, per_line<clflushopt>, sfence, mfence, per_line<clflushopt>,
     mfence, has_clflushopt},
    {"clflush", compiler_barrier, per_line<clflush>, mfence, mfence, per_line<clflush>, mfence,
     has_clflush},
};

// The CPU keeps stores in order, and loads except those that bypass the cache: for these, lfence.
constexpr cache_ops ORDERING_OPS = {
    "",     compiler_barrier, touch_no_line, compiler_barrier, compiler_barrier, touch_no_line,
    lfence, always_reported};

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

} // namespace coherdma::cache

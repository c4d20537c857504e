// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// x86-64. PCI devices see the cache here, so this is for devices that are said not to, and for the
// emulation of one.
//
// clwb writes back and may keep the line, so it is right before a Read and wrong around a Write,
// where the CPU would go on reading its own copy. clflushopt writes back and drops; the older
// clflush does so, too, one after another on some CPUs.
//
// Fences: sfence orders the flushes of clwb and clflushopt before later stores, and whoever learns
// that the data is ready learns it by a store. It does not order loads, so around a Write it is
// mfence. Of clflush older AMD manuals promise order by mfence only. Before a clean there is none:
// a flush comes after this CPU's own stores to the line, and after all its older loads.

#include "cache.hpp"
#include "parts.hpp"

#include <cpuid.h>

namespace coherdma::cache {
namespace {

constexpr unsigned CLFSH = 1U << 19;      // leaf 1, edx
constexpr unsigned CLFLUSHOPT = 1U << 23; // leaf 7, ebx
constexpr unsigned CLWB = 1U << 24;       // leaf 7, ebx

struct registers {
    unsigned a = 0, b = 0, c = 0, d = 0;
};

registers leaf(unsigned number) noexcept {
    registers found;
    if (__get_cpuid_count(number, 0, &found.a, &found.b, &found.c, &found.d) == 0)
        return {};
    return found;
}

// "memory": the compiler may not move a store of the program's to after the instruction.
void clwb(std::uintptr_t at) noexcept {
    asm volatile("clwb (%0)" ::"r"(at) : "memory");
}
void clflushopt(std::uintptr_t at) noexcept {
    asm volatile("clflushopt (%0)" ::"r"(at) : "memory");
}
void clflush(std::uintptr_t at) noexcept {
    asm volatile("clflush (%0)" ::"r"(at) : "memory");
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
    return (leaf(1).d & CLFSH) != 0;
}
bool has_clflushopt() noexcept {
    return has_clflush() && (leaf(7).b & CLFLUSHOPT) != 0;
}
bool has_clwb() noexcept {
    return has_clflushopt() && (leaf(7).b & CLWB) != 0;
}

// Before a Read nothing: a CPU's own stores to a line come before its flush of that line.
constexpr path PATHS[] = {
    {"clwb", nothing, every<clwb>, sfence, mfence, every<clflushopt>, mfence, has_clwb},
    {"clflushopt", nothing, every<clflushopt>, sfence, mfence, every<clflushopt>, mfence,
     has_clflushopt},
    {"clflush", nothing, every<clflush>, mfence, mfence, every<clflush>, mfence, has_clflush},
};

// Stores are seen in their order here, and so are loads, but for those that bypass the cache.
constexpr path ORDERING = {"", nothing, no_line, nothing, nothing, no_line, lfence, always};

} // namespace

std::span<const path> paths() noexcept {
    return PATHS;
}

const path &ordering() noexcept {
    return ORDERING;
}

std::size_t line_size() noexcept {
    return power_of_two(((leaf(1).b >> 8) & 0xFF) * std::size_t{8});
}

} // namespace coherdma::cache

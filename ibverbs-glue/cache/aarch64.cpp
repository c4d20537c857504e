// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// arm64. Many of its devices do not see the CPU's cache.
//
// dc cvac writes back to the point of coherency, where all that read memory agree, and may keep the
// line; dc civac writes back to there and drops it in every cache of the domain. cvau stops where
// instruction fetches look, before the device does, and cvap goes on to persistence, which not
// every CPU has and no device needs.
//
// Fences: a dmb orders, but only a dsb waits until the lines have arrived, for as many of them as
// went before; its domain is the whole system, for a device may be in no smaller one. A CPU's own
// stores to a line come before its dc of that line without a fence. What other threads stored, and
// this one learned of by a load, does not: a dc is not held behind that load. So before a Read it
// is a dmb. Before the flush of a Write, the completion may even come from a device, and the same
// dsb as after it is used.

#include "cache.hpp"
#include "parts.hpp"

namespace coherdma::cache {
namespace {

// "memory": the compiler may not move a store of the program's to after the instruction.
void dc_cvac(std::uintptr_t at) noexcept {
    asm volatile("dc cvac, %0" ::"r"(at) : "memory");
}
void dc_civac(std::uintptr_t at) noexcept {
    asm volatile("dc civac, %0" ::"r"(at) : "memory");
}
void dsb_sy() noexcept {
    asm volatile("dsb sy" ::: "memory");
}
void dmb_sy() noexcept {
    asm volatile("dmb sy" ::: "memory");
}
void dmb_oshst() noexcept {
    asm volatile("dmb oshst" ::: "memory");
}
void dmb_oshld() noexcept {
    asm volatile("dmb oshld" ::: "memory");
}

// Every CPU has them, but the kernel can forbid them to user programs: that shows when tried.
constexpr path PATHS[] = {
    {"dc", dmb_sy, every<dc_cvac>, dsb_sy, dsb_sy, every<dc_civac>, dsb_sy, always},
};

// Before a Read, and before a Write, stores come before the store that tells of them. After a
// Write, loads come after the load of its completion; and as the same call serves before one,
// oshld has its other use there: what was read before comes before the store that lets the peer
// write over it.
constexpr path ORDERING = {"", nothing, no_line, dmb_oshst, dmb_oshst, no_line, dmb_oshld, always};

} // namespace

std::span<const path> paths() noexcept {
    return PATHS;
}

const path &ordering() noexcept {
    return ORDERING;
}

// Never assumed: CPUs have 32 to 256. Where cores differ, the kernel answers with the smallest.
std::size_t line_size() noexcept {
    std::uint64_t type = 0;
    asm("mrs %0, ctr_el0" : "=r"(type));
    return std::size_t{4} << ((type >> 16) & 0xF); // DminLine, in words of 4 bytes
}

} // namespace coherdma::cache

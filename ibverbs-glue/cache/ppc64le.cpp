// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// POWER. PCI devices see the cache here, so this is for devices that are said not to, and for the
// emulation of one.
//
// dcbst writes back and may keep the line; dcbf, in its plain form, writes back and drops it in
// every cache of the system. Both are as old as the architecture; the forms of dcbf for persistent
// memory are not, and are not needed.
//
// Fences: sync, the heavy one. Behind a loop it waits until the lines have arrived. Before it, what
// this thread and those that it learned from have stored must come first: these instructions count
// as loads, which nothing lighter holds behind a store.

#include "cache.hpp"
#include "parts.hpp"

#include <sys/auxv.h>

namespace coherdma::cache {
namespace {

// "memory": the compiler may not move a store of the program's to after the instruction.
void dcbst(std::uintptr_t at) noexcept {
    asm volatile("dcbst 0, %0" ::"r"(at) : "memory");
}
void dcbf(std::uintptr_t at) noexcept {
    asm volatile("dcbf 0, %0" ::"r"(at) : "memory");
}
void sync() noexcept {
    asm volatile("sync" ::: "memory");
}
void lwsync() noexcept {
    asm volatile("lwsync" ::: "memory");
}

constexpr path PATHS[] = {
    {"dcb", sync, every<dcbst>, sync, sync, every<dcbf>, sync, always},
};

// sync before something is told, which may be by a store to the device; lwsync after something was
// learned, for it orders loads with all that follows.
constexpr path ORDERING = {"", nothing, no_line, sync, sync, no_line, lwsync, always};

} // namespace

std::span<const path> paths() noexcept {
    return PATHS;
}

const path &ordering() noexcept {
    return ORDERING;
}

std::size_t line_size() noexcept {
    return power_of_two(getauxval(AT_DCACHEBSIZE));
}

} // namespace coherdma::cache

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// RISC-V with Zicbom. cbo.clean writes back to where all agents agree and may keep the line;
// cbo.flush writes back and drops it. Linux lets user programs do both from the release on that
// says so by hwprobe; before, and on CPUs without Zicbom, it cannot be done.
//
// T-Head's own instructions are left out: no kernel tells of them, nor of the size of their lines.
//
// Fences: to a fence these instructions are writes to the line, so what it makes of stores it makes
// of them. With loads and stores of this CPU to the same line they keep the order by themselves.
// What other threads stored, and this one learned of by a load, needs a fence between that load and
// the clean. Around a flush, and behind a clean, memory and devices on both sides: what tells or is
// told may be a register of the device.

#include "cache.hpp"
#include "parts.hpp"

#include <unistd.h>

namespace coherdma::cache {
namespace {

// The kernel's numbers, for the headers of older systems do not have them.
constexpr long HWPROBE = 258;
constexpr std::int64_t EXTENSIONS = 4;
constexpr std::uint64_t ZICBOM = std::uint64_t{1} << 55;
constexpr std::int64_t ZICBOM_BLOCK_SIZE = 12;

struct pair {
    std::int64_t key;
    std::uint64_t value;
};

// What all CPUs that are online have in common. A kernel that does not know the call fails; one
// that does not know the key takes it away and leaves 0.
std::uint64_t probe(std::int64_t key) noexcept {
    pair asked{key, 0};
    if (syscall(HWPROBE, &asked, 1UL, 0UL, nullptr, 0U) != 0 || asked.key != key)
        return 0;
    return asked.value;
}

// By their encoding: assemblers know the names only where the whole program may use Zicbom.
// "memory": the compiler may not move a store of the program's to after the instruction.
void cbo_clean(std::uintptr_t at) noexcept {
    asm volatile(".insn i 0x0F, 2, x0, %0, 1" ::"r"(at) : "memory");
}
void cbo_flush(std::uintptr_t at) noexcept {
    asm volatile(".insn i 0x0F, 2, x0, %0, 2" ::"r"(at) : "memory");
}
void fence_all() noexcept {
    asm volatile("fence iorw, iorw" ::: "memory");
}
void fence_learned() noexcept {
    asm volatile("fence ir, w" ::: "memory");
}
void fence_tell() noexcept {
    asm volatile("fence ow, ow" ::: "memory");
}
void fence_told() noexcept {
    asm volatile("fence ir, iorw" ::: "memory");
}

// A page that is not there is stored to, as the kernel takes it, and the program ends if it may
// only be read. So each page is read first, by which it comes.
template <void (*instruction)(std::uintptr_t) noexcept>
void every_there(const range *ranges, std::size_t count, std::size_t line) noexcept {
    constexpr std::size_t SMALLEST_PAGE = 4096;
    each_line(ranges, count, SMALLEST_PAGE, [](std::uintptr_t page) {
        static_cast<void>(*reinterpret_cast<const volatile unsigned char *>(page));
    });
    every<instruction>(ranges, count, line);
}

bool has_zicbom() noexcept {
    return (probe(EXTENSIONS) & ZICBOM) != 0;
}

constexpr path PATHS[] = {
    {"zicbom", fence_learned, every_there<cbo_clean>, fence_all, fence_all, every_there<cbo_flush>,
     fence_all, has_zicbom},
};

// Before a Read, and before a Write, stores come before the store that tells of them. After a
// Write, loads come after the load of its completion; and as the same call serves before one, what
// was read before comes before the store that lets the peer write over it.
constexpr path ORDERING = {"",         nothing, no_line,    fence_tell,
                           fence_tell, no_line, fence_told, always};

} // namespace

std::span<const path> paths() noexcept {
    return PATHS;
}

const path &ordering() noexcept {
    return ORDERING;
}

std::size_t line_size() noexcept {
    return power_of_two(probe(ZICBOM_BLOCK_SIZE));
}

} // namespace coherdma::cache

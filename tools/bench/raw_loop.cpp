// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "raw_loop.hpp"

#include <atomic>
#include <span>

namespace tools::bench {
namespace {

// Defines a function of raw_loop. A macro, since asm needs the instruction as a literal.
#define DEFINE_LOOP(name, instruction)                                                             \
    void name(std::uintptr_t addr, std::uintptr_t end, std::size_t line_size) {                    \
        for (; addr < end; addr += line_size)                                                      \
            asm volatile(instruction ::"r"(addr) : "memory");                                      \
    }

#if defined(__x86_64__)

DEFINE_LOOP(clwb, "clwb (%0)")
DEFINE_LOOP(clflushopt, "clflushopt (%0)")
DEFINE_LOOP(clflush, "clflush (%0)")

constexpr raw_loop LOOPS[] = {
    {"clwb", clwb, clflushopt},
    {"clflushopt", clflushopt, clflushopt},
    {"clflush", clflush, clflush},
};

#elif defined(__aarch64__)

DEFINE_LOOP(cvac, "dc cvac, %0")
DEFINE_LOOP(civac, "dc civac, %0")

constexpr raw_loop LOOPS[] = {{"dc", cvac, civac}};

#elif defined(__riscv) && __riscv_xlen == 64

DEFINE_LOOP(cbo_clean, ".insn i 0x0F, 2, x0, %0, 1")
DEFINE_LOOP(cbo_flush, ".insn i 0x0F, 2, x0, %0, 2")

constexpr raw_loop LOOPS[] = {{"zicbom", cbo_clean, cbo_flush}};

#elif defined(__powerpc64__)

DEFINE_LOOP(dcbst, "dcbst 0, %0")
DEFINE_LOOP(dcbf, "dcbf 0, %0")

constexpr raw_loop LOOPS[] = {{"dcb", dcbst, dcbf}};

#else

constexpr std::span<const raw_loop> LOOPS;

#endif

} // namespace

const raw_loop *find_raw_loop(std::string_view instructions) {
    for (const raw_loop &loop : LOOPS)
        if (loop.instructions == instructions)
            return &loop;
    return nullptr;
}

/// Until they are complete, not only ordered before later accesses.
void wait_for_cache_instructions() {
#if defined(__x86_64__)
    asm volatile("mfence" ::: "memory");
#elif defined(__aarch64__)
    asm volatile("dsb sy" ::: "memory");
#elif defined(__riscv)
    asm volatile("fence iorw, iorw" ::: "memory");
#elif defined(__powerpc64__)
    asm volatile("sync" ::: "memory");
#else
    std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
}

} // namespace tools::bench

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// RISC-V with Zicbom. cbo.clean writes back to where all agents agree and may keep the line;
// cbo.flush writes back and invalidates it. Linux permits them to user programs since the release
// that reports Zicbom by hwprobe; earlier, or without Zicbom, the cache cannot be maintained.
//
// T-Head's own instructions are not supported: no kernel reports them or their line size.

#include "cache.hpp"
#include "cpu_common.hpp"

#include <unistd.h>

namespace coherdma::cache {
namespace {

// The kernel's numbers; headers of older systems lack them.
constexpr long SYS_RISCV_HWPROBE = 258;
constexpr std::int64_t HWPROBE_KEY_IMA_EXT_0 = 4;
constexpr std::uint64_t HWPROBE_EXT_ZICBOM = std::uint64_t{1} << 55;
constexpr std::int64_t HWPROBE_KEY_ZICBOM_BLOCK_SIZE = 12;

struct riscv_hwprobe {
    std::int64_t key;
    std::uint64_t value;
};

// What all online CPUs have in common; 0 if the kernel does not know the system call or the key.
// The kernel sets the key to -1 if it does not know it.
std::uint64_t hwprobe(std::int64_t key) noexcept {
    riscv_hwprobe probe{key, 0};
    if (syscall(SYS_RISCV_HWPROBE, &probe, 1UL, 0UL, nullptr, 0U) != 0 || probe.key != key)
        return 0;
    return probe.value;
}

// Encoded by hand: assemblers accept the mnemonics only if the whole program may use Zicbom.
// The "memory" clobbers keep the compiler from moving the program's stores past the instruction.
void cbo_clean(std::uintptr_t line) noexcept {
    asm volatile(".insn i 0x0F, 2, x0, %0, 1" ::"r"(line) : "memory");
}
void cbo_flush(std::uintptr_t line) noexcept {
    asm volatile(".insn i 0x0F, 2, x0, %0, 2" ::"r"(line) : "memory");
}
void fence_iorw_iorw() noexcept {
    asm volatile("fence iorw, iorw" ::: "memory");
}
void fence_ir_w() noexcept {
    asm volatile("fence ir, w" ::: "memory");
}
void fence_iorw_ow() noexcept {
    asm volatile("fence iorw, ow" ::: "memory");
}

void load_byte(std::uintptr_t addr) noexcept {
    static_cast<void>(*reinterpret_cast<const volatile unsigned char *>(addr));
}

// These instructions need only the permission to load, but fault like stores if the page is not
// mapped, or if its accessed bit is clear and the CPU does not set it (unprivileged ISA, CMO
// extensions, "Page-Fault, Guest-Page-Fault, and Access-Fault Exceptions"; privileged ISA, Svade).
// For such a fault in a read-only mapping Linux kills the program. A load just before has the
// kernel map the page and set the bit. To find unused pages the kernel may clear it again, but then
// leaves the TLB as it is, and never does so for locked memory (mlock).
template <void (*instruction)(std::uintptr_t) noexcept>
constexpr auto per_line_mapped = per_line_loaded<instruction, load_byte>;

bool has_zicbom() noexcept {
    return (hwprobe(HWPROBE_KEY_IMA_EXT_0) & HWPROBE_EXT_ZICBOM) != 0;
}

// A fence orders these instructions like writes to the line. They keep their order with this CPU's
// own loads and stores to the same line (unprivileged ISA, CMO extensions, "Preserved Program
// Order").
// fence_before_writeback: stores of other threads that this thread learned of by a load need a
// fence between that load and the write-back. The other fences include device I/O on both sides:
// the completion and the notification may be accesses to device registers.
constexpr cache_ops ARCH_OPS[] = {
    {
        .name = "zicbom",
        .fence_before_writeback = fence_ir_w,
        .writeback = per_line_mapped<cbo_clean>,
        .fence_after_writeback = fence_iorw_iorw,
        .fence_before_invalidate = fence_iorw_iorw,
        .writeback_invalidate = per_line_mapped<cbo_flush>,
        .fence_after_invalidate = fence_iorw_iorw,
        .is_reported = has_zicbom,
    },
};

// Before a Read and before a Write, what precedes the store that notifies the peer: stores; loads,
// as a store of another thread is visible to the device only if the load that found it is performed
// (unprivileged ISA, RVWMO: it is multi-copy atomic, and by "Preserved Program Order" keeps no load
// before a later store without a dependency); and loads of data that the peer will overwrite. After
// a Write, later loads and stores follow the load of the completion. The model does not order main
// memory with I/O; these fences do (RV32I, "Memory Ordering Instructions"). See tests/litmus.
constexpr cache_ops ORDERING_OPS = only_order(fence_iorw_ow, fence_iorw_iorw);

} // namespace

std::span<const cache_ops> arch_ops() noexcept {
    return ARCH_OPS;
}

const cache_ops &ordering_ops() noexcept {
    return ORDERING_OPS;
}

std::size_t line_size() noexcept {
    return valid_line_size(hwprobe(HWPROBE_KEY_ZICBOM_BLOCK_SIZE));
}

std::size_t writeback_granule() noexcept {
    return 0; // a line
}

} // namespace coherdma::cache

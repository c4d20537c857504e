// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Cache maintenance on emulated CPUs: one program, linked statically, without a test library.
//
//     touch                 print the instructions that COHERDMA_CACHE or the CPU selects, and the
//                           line size
//     touch reported        print which instructions the CPU reports
//     touch granule         print the write-back granule
//     touch trace LIST...   maintain each list of ranges, ADDR+LENGTH,... in hex; for traced.py,
//                           which finds the end of a list by mark()
//     touch trapped LIST... trace on a CPU that reports the instructions and traps each: the signal
//                           handler skips it
//     touch order           execute the fences for a coherent device
//     touch selftest        run the tests of cache_test that need no test library
//
// Exit code: 0 success, 3 no usable instructions, 1 a check failed.

#include "cache/cache.hpp"
#include "cache/fault_guard.hpp"
#include "faults.hpp"

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

using namespace coherdma::cache;

/// traced.py looks for this name.
extern "C" [[gnu::noinline]] void mark() {
    asm volatile("" ::: "memory");
}

namespace {

constexpr std::uintptr_t AREA_ADDR = 0x700000000;
constexpr std::size_t AREA_SIZE = 1 << 20;

void require(bool condition, const char *description) {
    if (condition)
        return;
    std::printf("failed: %s\n", description);
    std::exit(1);
}

// "ADDR+LENGTH,...", in hexadecimal digits.
std::vector<range> parse_ranges(const char *text) {
    std::vector<range> ranges;
    while (*text != '\0') {
        char *end = nullptr;
        const std::uintptr_t addr = std::strtoul(text, &end, 16);
        require(*end == '+', "invalid range");
        const unsigned long length = std::strtoul(end + 1, &end, 16);
        ranges.push_back({.addr = addr, .length = length});
        text = *end == ',' ? end + 1 : end;
    }
    return ranges;
}

// Both maintenance operations with their fences, between marks that the tracer recognizes.
void maintain(const cache_ops &ops, const std::vector<range> &ranges, std::size_t size) {
    mark();
    ops.fence_before_writeback();
    ops.writeback(ranges.data(), ranges.size(), size);
    ops.fence_after_writeback();
    mark();
    ops.fence_before_invalidate();
    ops.writeback_invalidate(ranges.data(), ranges.size(), size);
    ops.fence_after_invalidate();
    mark();
}

void check_fault_calls_no_handler() {
    for (const int signal : {SIGILL, SIGSEGV})
        std::signal(signal, count_signal);
    void *page = mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char byte = 1;
    require(!runs_without_fault(execute_illegal, nullptr), "an illegal instruction is reported");
    require(!runs_without_fault(read_byte, page), "a read fault is reported");
    require(runs_without_fault(read_byte, &byte), "a valid read is not reported");
    require(handled_signals == 0, "the caller's handlers are not called");
    raise(SIGILL);
    require(handled_signals == 1, "the caller's handlers are in place");
    for (const int signal : {SIGILL, SIGSEGV})
        std::signal(signal, SIG_DFL);
}

// Instructions that the CPU reports, but that fault.
void check_faulting_ops_are_not_usable() {
    cache_ops faulting = ordering_ops();
    require(is_usable(faulting) == (line_size() != 0), "the fences for a coherent device run");
    faulting.writeback = [](const range *, std::size_t, std::size_t) noexcept {
        execute_illegal(nullptr);
    };
    require(!is_usable(faulting), "faulting instructions are not usable");
}

void check_data_is_kept(const cache_ops &ops) {
    std::vector<unsigned char> bytes(10000);
    for (std::size_t i = 0; i < bytes.size(); ++i)
        bytes[i] = static_cast<unsigned char>(i * 7);
    const auto copy = bytes;
    for (std::uint32_t offset = 0; offset < 130; offset += 13) {
        const auto addr = reinterpret_cast<std::uintptr_t>(bytes.data()) + offset;
        maintain(ops, {{addr, 5000}, {addr + 6000, offset}}, line_size());
        require(bytes == copy, "the data is kept");
    }
}

// Read-only pages: not mapped yet, and mapped with their accessed bit clear.
void check_read_only_memory(const cache_ops &ops) {
    constexpr std::size_t PAGE = 4096;
    void *memory =
        mmap(nullptr, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    auto *const bytes = static_cast<unsigned char *>(memory);
    bytes[PAGE] = 1;
    require(mprotect(memory, 2 * PAGE, PROT_READ) == 0, "cannot make memory read-only");
    require(madvise(bytes + PAGE, PAGE, MADV_COLD) == 0, "cannot clear the accessed bit");
    const auto addr = reinterpret_cast<std::uintptr_t>(bytes);
    maintain(ops, {{addr, 2 * PAGE}}, line_size());
    require(bytes[0] == 0 && bytes[PAGE] == 1, "read-only data is kept");
}

#if defined(__riscv)
void skip_instruction(int, siginfo_t *, void *context) noexcept {
    auto &pc = static_cast<ucontext_t *>(context)->uc_mcontext.__gregs[REG_PC];
    const std::uint32_t opcode = *reinterpret_cast<const std::uint32_t *>(pc) & ~(31U << 15);
    if (opcode != 0x0010200F && opcode != 0x0020200F) // cbo.clean, cbo.flush
        _exit(1);
    pc += 4;
}

// Instructions that the kernel reports but the emulator traps: a signal handler skips each, after
// the tracer has seen it.
const cache_ops *trapped_ops() {
    const cache_ops &ops = arch_ops()[0];
    require(ops.is_reported() && !is_usable(ops), "the reported instructions trap");
    struct sigaction action = {};
    action.sa_sigaction = skip_instruction;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGILL, &action, nullptr);
    return &ops;
}
#else
const cache_ops *trapped_ops() {
    return nullptr;
}
#endif

} // namespace

int main(int argc, char **argv) {
    const std::string_view task = argc > 1 ? argv[1] : "";
    if (task == "reported") {
        for (const cache_ops &ops : arch_ops())
            std::printf("%s: %s\n", ops.name, ops.is_reported() ? "yes" : "no");
        return 0;
    }
    if (task == "granule") {
        std::printf("granule %zu\n", writeback_granule());
        return 0;
    }
    const char *problem = nullptr;
    const cache_ops *ops =
        task == "order" ? &ordering_ops() : choose_ops(std::getenv("COHERDMA_CACHE"), &problem);
    if (task == "selftest") {
        check_fault_calls_no_handler();
        check_faulting_ops_are_not_usable();
    }
    if (task == "trapped")
        ops = trapped_ops();
    if (!ops) {
        require(problem != nullptr, "a reason is set");
        std::printf("none: %s\n", problem);
        return 3;
    }
    std::printf("ops %s line %zu\n", ops->name, line_size());
    if (task == "selftest") {
        check_data_is_kept(*ops);
        check_read_only_memory(*ops);
    }
    // MAP_POPULATE: after a page fault an instruction is executed twice.
    require(mmap(reinterpret_cast<void *>(AREA_ADDR), AREA_SIZE, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_POPULATE, -1, 0) != MAP_FAILED,
            "cannot map the area");
    if (task == "order")
        maintain(*ops, {{AREA_ADDR, 4096}}, line_size());
    for (int i = 2; i < argc; ++i)
        maintain(*ops, parse_ranges(argv[i]), line_size());
}

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The cache room on CPUs for which there are only emulators: one program, linked statically, with
// no test library.
//
//     touch                          which path COHERDMA_CACHE or the CPU chooses, and its line
//     touch claims                   which paths the CPU says that it has
//     touch trace LIST...            maintain each list of ranges, BEGIN+LENGTH,... in hex; for
//                                    traced.py, which sees by mark() where one ends
//     touch trapped LIST...          trace, where the CPU claims the instructions and does not run
//                                    them: each traps, and is stepped over
//     touch order                    what a coherent device gets
//     touch kept                     what cache_test has, as far as it needs no test library
//
// Its status is 0 if all is well, 3 if there is no path, 1 if something is wrong.

#include "cache/cache.hpp"
#include "cache/guard.hpp"

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

constexpr std::uintptr_t AREA = 0x700000000;
constexpr std::size_t AREA_SIZE = 1 << 20;

void require(bool good, const char *what) {
    if (good)
        return;
    std::printf("wrong: %s\n", what);
    std::exit(1);
}

std::vector<range> parsed(const char *text) {
    std::vector<range> ranges;
    while (*text != '\0') {
        char *end = nullptr;
        const std::uintptr_t begin = std::strtoul(text, &end, 16);
        require(*end == '+', "a range");
        const unsigned long length = std::strtoul(end + 1, &end, 16);
        ranges.push_back({begin, static_cast<std::uint32_t>(length)});
        text = *end == ',' ? end + 1 : end;
    }
    return ranges;
}

void maintain(const path &by, const std::vector<range> &ranges, std::size_t line) {
    mark();
    by.before_clean();
    by.clean(ranges.data(), ranges.size(), line);
    by.after_clean();
    mark();
    by.before_flush();
    by.flush(ranges.data(), ranges.size(), line);
    by.after_flush();
    mark();
}

void illegal(void *) {
#if defined(__aarch64__)
    asm volatile("udf #0");
#elif defined(__riscv)
    asm volatile("unimp");
#elif defined(__powerpc64__)
    asm volatile(".long 0");
#elif defined(__s390x__)
    asm volatile(".short 0");
#else
    raise(SIGILL);
#endif
}
void reads(void *from) {
    static_cast<void>(*static_cast<const volatile char *>(from));
}

std::atomic<int> handled{0};
void count(int) noexcept {
    ++handled;
}

void a_fault_is_nobodys_business() {
    for (const int signal : {SIGILL, SIGSEGV})
        std::signal(signal, count);
    void *page = mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char good = 1;
    require(!survives(illegal, nullptr), "an illegal instruction is told of");
    require(!survives(reads, page), "a fault is told of");
    require(survives(reads, &good), "what is good is told of");
    require(handled == 0, "the caller's handlers are not called");
    raise(SIGILL);
    require(handled == 1, "the caller's handlers are in place");
}

// A path of this CPU's own whose instructions fault, though it is claimed.
void a_false_claim_is_seen() {
    path liar = ordering();
    require(works(liar) == (line_size() != 0), "the fences of the coherent case run");
    liar.clean = [](const range *, std::size_t, std::size_t) noexcept {
        illegal(nullptr);
    };
    require(!works(liar), "a claim that is false");
}

void nothing_is_lost(const path &by) {
    std::vector<unsigned char> bytes(10000);
    for (std::size_t place = 0; place < bytes.size(); ++place)
        bytes[place] = static_cast<unsigned char>(place * 7);
    const auto copy = bytes;
    for (std::uint32_t offset = 0; offset < 130; offset += 13) {
        const auto begin = reinterpret_cast<std::uintptr_t>(bytes.data()) + offset;
        maintain(by, {{begin, 5000}, {begin + 6000, offset}}, line_size());
        require(bytes == copy, "nothing is lost");
    }
    // Not there yet, and may only be read.
    void *page = mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    maintain(by, {{reinterpret_cast<std::uintptr_t>(page), 4096}}, line_size());
}

#if defined(__riscv)
void step_over(int, siginfo_t *, void *context) noexcept {
    auto &place = static_cast<ucontext_t *>(context)->uc_mcontext.__gregs[REG_PC];
    const std::uint32_t bits = *reinterpret_cast<const std::uint32_t *>(place) & ~(31U << 15);
    if (bits != 0x0010200F && bits != 0x0020200F) // cbo.clean, cbo.flush
        _exit(1);
    place += 4;
}

const path *trapped() {
    require(!paths().empty() && paths()[0].claimed() && !works(paths()[0]), "a trap");
    struct sigaction action = {};
    action.sa_sigaction = step_over;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGILL, &action, nullptr);
    return &paths()[0];
}
#else
const path *trapped() {
    return nullptr;
}
#endif

} // namespace

int main(int count, char **words) {
    const std::string_view task = count > 1 ? words[1] : "";
    if (task == "claims") {
        for (const path &each : paths())
            std::printf("%s: %s\n", each.name, each.claimed() ? "yes" : "no");
        return 0;
    }
    const char *why = nullptr;
    const path *by = task == "order" ? &ordering() : choose(std::getenv("COHERDMA_CACHE"), &why);
    if (task == "kept") {
        a_fault_is_nobodys_business();
        a_false_claim_is_seen();
    }
    if (task == "trapped")
        by = trapped();
    if (!by) {
        require(why != nullptr, "why there is none");
        std::printf("none: %s\n", why);
        return 3;
    }
    std::printf("path %s line %zu\n", by->name, line_size());
    if (task == "kept")
        nothing_is_lost(*by);
    // There at once: on a page that is not, an instruction would be executed twice.
    require(mmap(reinterpret_cast<void *>(AREA), AREA_SIZE, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_POPULATE, -1, 0) != MAP_FAILED,
            "the area");
    if (task == "order")
        maintain(*by, {{AREA, 4096}}, line_size());
    for (int place = 2; place < count; ++place)
        maintain(*by, parsed(words[place]), line_size());
}

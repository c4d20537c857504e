// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The cache instructions and fences that this x86-64 CPU executes for a sync, by single-stepping a
// child process. A wrong one, such as clwb around an RDMA Write, has no effect that a program can
// see on a machine whose devices snoop the cache. traced.py does this for other CPUs.

#include "../cmocka.hpp"
#include "cache/cache.hpp"

#include <array>
#include <csignal>
#include <cstring>
#include <functional>
#include <string>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

using namespace coherdma::cache;

namespace {

using sequence = std::vector<std::string>;

// The name of the instruction if it is a cache instruction or a fence, else "".
std::string decode(const std::array<unsigned char, sizeof(long)> &code) {
    std::size_t pos = 0;
    const bool has_operand_size_prefix = code[pos] == 0x66;
    if (has_operand_size_prefix)
        ++pos;
    if ((code[pos] & 0xf0) == 0x40) // REX
        ++pos;
    if (code[pos] != 0x0f || code[pos + 1] != 0xae)
        return "";
    const unsigned mod = code[pos + 2] >> 6U, reg = (code[pos + 2] >> 3U) & 7U;
    if (mod == 3 && !has_operand_size_prefix)
        return reg == 5 ? "lfence" : reg == 6 ? "mfence" : reg == 7 ? "sfence" : "";
    if (mod != 3 && reg == 6 && has_operand_size_prefix)
        return "clwb";
    if (mod != 3 && reg == 7)
        return has_operand_size_prefix ? "clflushopt" : "clflush";
    return "";
}

// What a child process executes in the function, between its two stops. Skips the test if processes
// may not be traced here.
sequence executed_by(const std::function<void()> &function) {
    const pid_t child = fork();
    if (child == 0) {
        if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0)
            _exit(77);
        std::raise(SIGSTOP);
        function();
        std::raise(SIGSTOP);
        _exit(0);
    }
    assert_true(child > 0);
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFEXITED(status))
        skip();
    sequence executed;
    assert_true(WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP);
    do {
        user_regs_struct regs{};
        assert_int_equal(ptrace(PTRACE_GETREGS, child, nullptr, &regs), 0);
        const long word = ptrace(PTRACE_PEEKTEXT, child, regs.rip, nullptr);
        std::array<unsigned char, sizeof word> code{};
        std::memcpy(code.data(), &word, sizeof word);
        if (const std::string name = decode(code); !name.empty())
            executed.push_back(name);
        assert_int_equal(ptrace(PTRACE_SINGLESTEP, child, nullptr, nullptr), 0);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSTOPPED(status));
    } while (WSTOPSIG(status) == SIGTRAP);
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    return executed;
}

std::string joined(const sequence &names) {
    std::string text;
    for (const std::string &name : names)
        text += name + " ";
    return text;
}

constexpr std::size_t LINE_SIZE = 64;
alignas(LINE_SIZE) std::array<unsigned char, 2 * LINE_SIZE> two_lines;

sequence executed_before_read(const cache_ops &ops) {
    const range range = {.addr = reinterpret_cast<std::uintptr_t>(two_lines.data()),
                         .length = two_lines.size()};
    return executed_by([&] {
        ops.fence_before_writeback();
        ops.writeback(&range, 1, LINE_SIZE);
        ops.fence_after_writeback();
    });
}
sequence executed_around_write(const cache_ops &ops) {
    const range range = {.addr = reinterpret_cast<std::uintptr_t>(two_lines.data()),
                         .length = two_lines.size()};
    return executed_by([&] {
        ops.fence_before_invalidate();
        ops.writeback_invalidate(&range, 1, LINE_SIZE);
        ops.fence_after_invalidate();
    });
}

// For two lines, with each set of instructions that this CPU has.
void sync_executes_documented_instructions(void **) {
    struct row {
        const char *name, *before_read, *around_write;
    };
    constexpr std::array<row, 3> rows{
        {{"clwb", "lfence clwb clwb sfence ", "mfence clflushopt clflushopt mfence "},
         {"clflushopt", "lfence clflushopt clflushopt sfence ",
          "mfence clflushopt clflushopt mfence "},
         {"clflush", "mfence clflush clflush mfence ", "mfence clflush clflush mfence "}}};
    assert_int_equal(arch_ops().size(), rows.size());
    for (std::size_t i = 0; i < rows.size(); ++i) {
        const cache_ops &ops = arch_ops()[i];
        assert_string_equal(ops.name, rows[i].name);
        if (!is_usable(ops)) {
            print_message("# %s: this CPU does not have it\n", ops.name);
            continue;
        }
        assert_string_equal(joined(executed_before_read(ops)).c_str(), rows[i].before_read);
        assert_string_equal(joined(executed_around_write(ops)).c_str(), rows[i].around_write);
    }
}

void sync_of_coherent_device_only_orders(void **) {
    assert_string_equal(joined(executed_before_read(ordering_ops())).c_str(), "sfence ");
    assert_string_equal(joined(executed_around_write(ordering_ops())).c_str(), "sfence lfence ");
    // Also for stores between the additions to a batch.
    const std::string at_end = joined(executed_by(ordering_ops().fence_after_invalidate));
    assert_string_equal(at_end.c_str(), "sfence lfence ");
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(sync_executes_documented_instructions),
        cmocka_unit_test(sync_of_coherent_device_only_orders),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// A debugger of a user-mode kernel. It stops a processor in a function that the kernel calls with
// interrupts disabled and a run queue locked. There it lets a timer interrupt become pending, and:
//
//   uml_faults PID FUNCTION fault ADDRESS  the processor accesses vmalloc memory at ADDRESS that is
//                                          not mapped yet: it must return to the function
//   uml_faults PID FUNCTION panic PANIC    the processor calls panic(), which must end the kernel
//
// Or it stops the only processor in arch_cpu_idle(), where interrupts are disabled too:
//
//   uml_faults PID FUNCTION idle           SIGIO becomes pending: the processor must not sleep
//
// FUNCTION and PANIC are addresses of the kernel's functions. The status is 1 if that does not
// happen: the processor runs the timer interrupt, which spins on the lock that the processor holds.

#include "../lib/verbs.hpp"

#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <thread>
#include <ucontext.h>
#include <unistd.h>

namespace {

using namespace verbs_test;
using clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr std::chrono::seconds time_limit(10); // for what takes milliseconds
constexpr milliseconds tick_time(10);          // more than one timer tick
constexpr std::uint64_t int3 = 0xcc, code_mask = 0xff;

long trace(__ptrace_request request, pid_t tid, std::uint64_t addr = 0, std::uint64_t data = 0) {
    errno = 0;
    const long result = ptrace(request, tid, addr, data);
    check(errno == 0 ? 0 : -1, "ptrace");
    return result;
}
user_regs_struct get_regs(pid_t tid) {
    user_regs_struct regs{};
    trace(PTRACE_GETREGS, tid, 0, reinterpret_cast<std::uintptr_t>(&regs));
    return regs;
}
void set_regs(pid_t tid, const user_regs_struct &regs) {
    trace(PTRACE_SETREGS, tid, 0, reinterpret_cast<std::uintptr_t>(&regs));
}

/// As in /proc: 't' is stopped by the debugger, 'Z' a zombie.
char process_state(pid_t tid) {
    std::ifstream file(concat("/proc/", tid, "/stat"));
    std::string stat;
    std::getline(file, stat);
    check(stat.empty() ? -1 : 0, "the process ends");
    return stat.at(stat.rfind(')') + 2);
}

/// A kernel: a process, of which each thread is a processor. A processor that comes to the function
/// stays there until resume() or step().
class uml_kernel {
    pid_t pid_;
    std::uint64_t function_;
    std::uint64_t code_ = 0; ///< of the function

  public:
    uml_kernel(pid_t pid, std::uint64_t function)
        : pid_(pid)
        , function_(function) {
        for (const auto &task : tasks())
            trace(PTRACE_SEIZE, std::stoi(task.path().filename()));
        trace(PTRACE_INTERRUPT, pid);
        check(waitpid(pid, nullptr, __WALL) == pid ? 0 : -1, "waitpid");
        code_ = static_cast<std::uint64_t>(trace(PTRACE_PEEKTEXT, pid, function));
        set_breakpoint(pid);
        trace(PTRACE_CONT, pid);
    }
    void resume(pid_t tid, int signal = 0) const {
        trace(PTRACE_CONT, tid, 0, static_cast<std::uint64_t>(signal));
    }
    /// To the first instruction of the signal's handler.
    void step(pid_t tid, int signal) const {
        trace(PTRACE_SINGLESTEP, tid, 0, static_cast<std::uint64_t>(signal));
        check(waitpid(tid, nullptr, __WALL) == tid ? 0 : -1, "waitpid");
    }
    void set_breakpoint(pid_t tid) const {
        trace(PTRACE_POKETEXT, tid, function_, (code_ & ~code_mask) | int3);
    }
    void clear_breakpoint(pid_t tid) const { trace(PTRACE_POKETEXT, tid, function_, code_); }
    /// To the begin or end of the next system call. Returns its number.
    std::uint64_t resume_to_system_call(pid_t tid) const {
        int status = 0;
        for (int signal = 0; signal != SIGTRAP; signal = WSTOPSIG(status)) {
            trace(PTRACE_SYSCALL, tid, 0, static_cast<std::uint64_t>(signal));
            check(waitpid(tid, &status, __WALL) == tid ? 0 : -1, "waitpid");
        }
        return get_regs(tid).orig_rax;
    }
    /// The next processor that comes to the function; 0 if the kernel ends.
    pid_t wait_for_processor() const {
        for (const auto deadline = clock::now() + time_limit; clock::now() < deadline;) {
            int status = 0;
            const pid_t tid = waitpid(-1, &status, __WALL | WNOHANG);
            check(tid < 0 ? -1 : 0, "waitpid");
            if (tid == 0)
                std::this_thread::sleep_for(milliseconds(1));
            else if (tid == pid_ && !WIFSTOPPED(status))
                return 0;
            else if (WIFSTOPPED(status) && is_at_function(tid, status))
                return tid;
            else if (WIFSTOPPED(status))
                resume(tid, status >> 16 == 0 ? WSTOPSIG(status) : 0); // else an event of ptrace
        }
        throw failure(concat("no progress in ", time_limit.count(), " s: the processor hangs"));
    }
    void wait_for_processor(pid_t tid) const {
        for (pid_t other = 0; other != tid;) {
            other = wait_for_processor();
            check(other == 0 ? -1 : 0, "the kernel ends");
        }
    }

    void stop_other_processors(pid_t tid) const {
        for (const auto &task : tasks()) {
            const pid_t other = std::stoi(task.path().filename());
            if (other == tid)
                continue;
            trace(PTRACE_INTERRUPT, other); // no effect on one that is stopped already
            while (process_state(other) != 't')
                std::this_thread::sleep_for(milliseconds(1));
        }
    }
    /// Of a program in the guest.
    pid_t find_stub_process() const {
        for (const auto &task : tasks())
            if (pid_t child = 0; std::ifstream(task.path() / "children") >> child)
                return child;
        throw failure("the kernel has no stub process");
    }

  private:
    std::filesystem::directory_iterator tasks() const {
        return std::filesystem::directory_iterator(concat("/proc/", pid_, "/task"));
    }
    bool is_at_function(pid_t tid, int status) const {
        user_regs_struct regs = get_regs(tid);
        if (WSTOPSIG(status) != SIGTRAP || regs.rip != function_ + 1)
            return false;
        regs.rip = function_;
        set_regs(tid, regs);
        return true;
    }
};

/// Makes the processor, which is stopped in the function, fault as if it had accessed the address:
/// its handler for SIGSEGV maps the vmalloc memory. Returns when the processor is at the function
/// again; throws if it hangs.
void provoke_fault(const uml_kernel &kernel, pid_t tid, std::uint64_t address) {
    kernel.step(tid, SIGSEGV);
    constexpr std::size_t cr2 = offsetof(ucontext_t, uc_mcontext.gregs[REG_CR2]);
    const std::uint64_t context = get_regs(tid).rdx; // the handler's third argument
    trace(PTRACE_POKEDATA, tid, context + cr2, address);
    kernel.resume(tid);
    kernel.wait_for_processor(tid);
}

/// Kills the process that runs a guest's program for the processor: panic() must cope with its end,
/// which the kernel has not seen.
void kill_stub_process(const uml_kernel &kernel, pid_t tid) {
    kernel.stop_other_processors(tid);
    const pid_t child = kernel.find_stub_process();
    check(kill(child, SIGKILL), "kill");
    while (process_state(child) != 'Z')
        std::this_thread::sleep_for(milliseconds(1));
}
/// Makes the stopped processor call panic("x"), and waits for the end of the kernel.
void call_panic(const uml_kernel &kernel, pid_t tid, std::uint64_t panic) {
    kill_stub_process(kernel, tid);
    constexpr std::uint64_t used_stack = 512, alignment = 16;
    user_regs_struct regs = get_regs(tid);
    regs.rdi =
        (regs.rsp - used_stack) & ~(alignment - 1); // below what the function has on the stack
    trace(PTRACE_POKEDATA, tid, regs.rdi, 'x');     // the message
    regs.rsp = regs.rdi - sizeof(std::uint64_t);    // as behind a return address
    regs.rip = panic;
    regs.rax = 0; // no variable arguments
    set_regs(tid, regs);
    kernel.resume(tid);
    while (kernel.wait_for_processor() != 0)
        ;
}

/// Makes SIGIO pending just before the processor sleeps in arch_cpu_idle(): it must return instead
/// of sleeping in poll(). Tries several times, since a timer interrupt that becomes pending at the
/// same time prevents the sleep, too.
void test_idle(const uml_kernel &kernel, pid_t tid) {
    constexpr int num_tries = 10;
    for (int count = 0; count < num_tries; ++count) {
        kernel.wait_for_processor(tid);
        kernel.resume(tid, SIGIO); // its handler only marks it as pending
        kernel.wait_for_processor(tid);
        kernel.clear_breakpoint(tid);
        kernel.resume_to_system_call(tid); // the begin of the one that blocks the signals
        kernel.resume_to_system_call(tid); // its end
        if (kernel.resume_to_system_call(tid) == SYS_poll)
            throw failure("the processor sleeps with SIGIO pending");
        kernel.set_breakpoint(tid);
        kernel.resume(tid);
    }
}

} // namespace

int main(int argc, char **argv) {
    const std::string_view name = argc > 3 ? argv[3] : "";
    if (!(argc == 4 && name == "idle") && !(argc == 5 && (name == "fault" || name == "panic"))) {
        std::fprintf(stderr, "Usage: %s PID FUNCTION idle|fault|panic [ADDRESS]\n", *argv);
        return 2;
    }
    try {
        alarm(60); // a processor that never stops
        const uml_kernel kernel(std::stoi(argv[1]), std::stoull(argv[2], nullptr, 16));
        if (name == "idle") {
            test_idle(kernel, std::stoi(argv[1]));
            return 0;
        }
        const std::uint64_t address = std::stoull(argv[4], nullptr, 16);
        const pid_t tid = kernel.wait_for_processor();
        std::this_thread::sleep_for(tick_time); // a timer interrupt is due
        kernel.resume(tid, SIGALRM);    // its handler only marks the timer interrupt as pending
        kernel.wait_for_processor(tid); // it is at the breakpoint again
        name == "fault" ? provoke_fault(kernel, tid, address) : call_panic(kernel, tid, address);
        return 0;
    } catch (const std::exception &error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
}

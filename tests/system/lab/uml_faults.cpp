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
//   uml_faults PID FUNCTION child          the same, with SIGCHLD
//   uml_faults PID FUNCTION idle SEND      the same, with an interrupt of another processor
//
// Or it lets the only processor send the interrupts that processors send each other to itself:
//
//   uml_faults PID FUNCTION ipi SEND HANDLER RAISE SOFTIRQ
//       two of them and a softirq while interrupts are disabled in FUNCTION: HANDLER is called for
//       both, the second one before SOFTIRQ, which is called at the end of the first
//   uml_faults PID FUNCTION softirq SEND RAISE SOFTIRQ
//       a softirq and one interrupt while interrupts are enabled: SOFTIRQ can be interrupted
//
// Or it looks at each of two processors in arch_cpu_idle():
//
//   uml_faults PID FUNCTION masks  other processors can interrupt it, but not between its check for
//                                  work and its sleep
//
// FUNCTION, PANIC, SEND (os_send_ipi), HANDLER (uml_ipi_handler), RAISE (__raise_softirq_irqoff)
// and SOFTIRQ (run_timer_softirq) are addresses of the kernel's functions. The status is 1 if that
// does not happen: after fault and panic, the processor then runs the timer interrupt, which spins
// on the lock that the processor holds.

#include "../lib/verbs.hpp"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <set>
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
constexpr std::uint64_t used_stack = 512; // by what the processor does in the function
constexpr int ipi_signal = SIGUSR2;

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

/// Whether the thread blocks the signal.
bool is_blocked(pid_t tid, int signal) {
    std::ifstream file(concat("/proc/", tid, "/status"));
    std::string word;
    while (file >> word && word != "SigBlk:")
        ;
    std::uint64_t mask = 0;
    check(file >> std::hex >> mask ? 0 : -1, "the process ends");
    return (mask >> (signal - 1) & 1) != 0;
}

/// A kernel: a process, of which each thread is a processor. A processor that comes to a function
/// with a breakpoint stays there until resume() or step().
class uml_kernel {
    pid_t pid_;
    std::map<std::uint64_t, std::uint64_t> code_; ///< of each function with a breakpoint

  public:
    uml_kernel(pid_t pid, std::uint64_t function)
        : pid_(pid) {
        for (const auto &task : tasks())
            trace(PTRACE_SEIZE, std::stoi(task.path().filename()));
        trace(PTRACE_INTERRUPT, pid);
        check(waitpid(pid, nullptr, __WALL) == pid ? 0 : -1, "waitpid");
        add_breakpoint(pid, function);
        trace(PTRACE_CONT, pid);
    }
    void add_breakpoint(pid_t tid, std::uint64_t function) {
        code_[function] = static_cast<std::uint64_t>(trace(PTRACE_PEEKTEXT, tid, function));
        set_breakpoints(tid);
    }
    void resume(pid_t tid, int signal = 0) const {
        trace(PTRACE_CONT, tid, 0, static_cast<std::uint64_t>(signal));
    }
    /// To the first instruction of the signal's handler.
    void step(pid_t tid, int signal) const {
        trace(PTRACE_SINGLESTEP, tid, 0, static_cast<std::uint64_t>(signal));
        check(waitpid(tid, nullptr, __WALL) == tid ? 0 : -1, "waitpid");
    }
    void set_breakpoints(pid_t tid) const {
        for (const auto &[function, code] : code_)
            trace(PTRACE_POKETEXT, tid, function, (code & ~code_mask) | int3);
    }
    void clear_breakpoints(pid_t tid) const {
        for (const auto &[function, code] : code_)
            trace(PTRACE_POKETEXT, tid, function, code);
    }
    /// Resumes the processor, which is at a breakpoint, until it is at one again; returns its
    /// address.
    std::uint64_t resume_to_breakpoint(pid_t tid) const {
        for (;;) {
            clear_breakpoints(tid);
            trace(PTRACE_SINGLESTEP, tid);
            int status = 0;
            check(waitpid(tid, &status, __WALL) == tid ? 0 : -1, "waitpid");
            set_breakpoints(tid);
            if (WSTOPSIG(status) == SIGTRAP)
                break;
            resume(tid, WSTOPSIG(status)); // its handler returns to the breakpoint
            wait_for_processor(tid);
        }
        resume(tid);
        wait_for_processor(tid);
        return get_regs(tid).rip;
    }
    /// Makes the stopped processor call a function, and waits until it is at a breakpoint: at the
    /// one where it is now when the function has returned.
    void call(pid_t tid, std::uint64_t function, std::uint64_t first,
              std::uint64_t second = 0) const {
        const user_regs_struct before = get_regs(tid);
        prepare_call(tid, function, first, second);
        resume(tid);
        wait_for_processor(tid);
        if (get_regs(tid).rip == before.rip)
            set_regs(tid, before);
    }
    static void prepare_call(pid_t tid, std::uint64_t function, std::uint64_t first,
                             std::uint64_t second = 0) {
        constexpr std::uint64_t alignment = 16;
        user_regs_struct regs = get_regs(tid);
        const std::uint64_t return_address = regs.rip;
        regs.rsp = ((regs.rsp - 2 * used_stack) & ~(alignment - 1)) - sizeof return_address;
        trace(PTRACE_POKEDATA, tid, regs.rsp, return_address);
        regs.rdi = first;
        regs.rsi = second;
        regs.rip = function;
        regs.rax = 0; // no variable arguments
        set_regs(tid, regs);
    }
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
        if (WSTOPSIG(status) != SIGTRAP || code_.count(regs.rip - 1) == 0)
            return false;
        --regs.rip;
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
    const std::uint64_t message = get_regs(tid).rsp - used_stack;
    trace(PTRACE_POKEDATA, tid, message, 'x');
    uml_kernel::prepare_call(tid, panic, message);
    kernel.resume(tid);
    while (kernel.wait_for_processor() != 0)
        ;
}

/// The two interrupts that can come to a processor without a reason: scheduler_ipi(), and the calls
/// in its queue, which is empty.
constexpr std::uint64_t vectors[] = {0, 1};
constexpr std::uint64_t processor = 0, timer_softirq = 1;

/// Lets interrupt() make something pending just before the processor sleeps in arch_cpu_idle(): it
/// must return instead. Tries several times, since a timer interrupt that becomes pending at the
/// same time prevents the sleep, too.
void test_idle(const uml_kernel &kernel, pid_t tid, const std::function<void()> &interrupt) {
    constexpr int num_tries = 10;
    for (int count = 0; count < num_tries; ++count) {
        kernel.wait_for_processor(tid);
        interrupt();
        kernel.clear_breakpoints(tid);
        kernel.resume_to_system_call(tid); // the begin of the one that blocks the signals
        kernel.resume_to_system_call(tid); // its end
        const std::uint64_t call = kernel.resume_to_system_call(tid);
        if (call == SYS_poll || call == SYS_rt_sigsuspend)
            throw failure("the processor sleeps with an interrupt pending");
        kernel.set_breakpoints(tid);
        kernel.resume(tid);
    }
}

void test_ipi(uml_kernel &kernel, pid_t tid, std::uint64_t send, std::uint64_t handler,
              std::uint64_t raise, std::uint64_t softirq) {
    kernel.wait_for_processor(tid);
    const std::uint64_t function = get_regs(tid).rip;
    kernel.call(tid, raise, timer_softirq);
    for (const std::uint64_t vector : vectors)
        kernel.call(tid, send, processor, vector);
    kernel.add_breakpoint(tid, handler);
    kernel.add_breakpoint(tid, softirq);
    for (const std::uint64_t vector : vectors)
        if (kernel.resume_to_breakpoint(tid) != handler || get_regs(tid).rdi != vector)
            throw failure(concat("interrupt ", vector, " is lost or late"));
    // A timer interrupt, which may be the function, can come before the softirq.
    std::uint64_t address = function;
    while (address == function)
        address = kernel.resume_to_breakpoint(tid);
    if (address != softirq)
        throw failure("the handler does not call the softirq");
}

void test_softirq(uml_kernel &kernel, pid_t tid, std::uint64_t send, std::uint64_t raise,
                  std::uint64_t softirq) {
    kernel.wait_for_processor(tid);
    if (is_blocked(tid, ipi_signal))
        throw failure("the processor cannot be interrupted");
    kernel.call(tid, raise, timer_softirq);
    kernel.add_breakpoint(tid, softirq);
    kernel.call(tid, send, processor, vectors[0]);
    if (get_regs(tid).rip != softirq)
        throw failure("the handler does not call the softirq");
    if (is_blocked(tid, ipi_signal))
        throw failure("the softirq cannot be interrupted");
}

void test_masks(const uml_kernel &kernel) {
    constexpr std::size_t num_processors = 2;
    std::set<pid_t> processors;
    while (processors.size() != num_processors)
        processors.insert(kernel.wait_for_processor());
    for (const pid_t tid : processors)
        if (is_blocked(tid, ipi_signal))
            throw failure("a processor cannot be interrupted");
    const pid_t tid = *processors.begin();
    kernel.clear_breakpoints(tid);
    // It does not sleep if a timer interrupt has come meanwhile.
    while (kernel.resume_to_system_call(tid) != SYS_rt_sigsuspend)
        ;
    if (!is_blocked(tid, ipi_signal))
        throw failure("a processor can be interrupted between its check for work and its sleep");
}

} // namespace

int main(int argc, char **argv) {
    // The number of addresses after the name.
    const std::multimap<std::string_view, int> commands = {
        {"fault", 1}, {"panic", 1}, {"idle", 0},    {"child", 0},
        {"idle", 1},  {"ipi", 4},   {"softirq", 3}, {"masks", 0}};
    const std::string_view name = argc > 3 ? argv[3] : "";
    const auto [first, last] = commands.equal_range(name);
    if (std::none_of(first, last, [&](const auto &it) { return argc == 4 + it.second; })) {
        std::fprintf(stderr, "Usage: %s PID FUNCTION COMMAND [ADDRESS...]\n", *argv);
        return 2;
    }
    try {
        alarm(60); // a processor that never stops
        const auto address = [&](int argument) {
            return std::stoull(argv[argument], nullptr, 16);
        };
        const pid_t pid = std::stoi(argv[1]);
        uml_kernel kernel(pid, address(2));
        if (name == "idle" && argc > 4)
            test_idle(kernel, pid, [&] { kernel.call(pid, address(4), processor, vectors[0]); });
        else if (name == "idle" || name == "child")
            test_idle(kernel, pid, [&] {
                kernel.resume(pid, name == "idle" ? SIGIO : SIGCHLD); // only marked as pending
                kernel.wait_for_processor(pid);
            });
        else if (name == "ipi")
            test_ipi(kernel, pid, address(4), address(5), address(6), address(7));
        else if (name == "softirq")
            test_softirq(kernel, pid, address(4), address(5), address(6));
        else if (name == "masks")
            test_masks(kernel);
        else {
            const pid_t tid = kernel.wait_for_processor();
            std::this_thread::sleep_for(tick_time); // a timer interrupt is due
            kernel.resume(tid, SIGALRM);    // its handler only marks the timer interrupt as pending
            kernel.wait_for_processor(tid); // it is at the breakpoint again
            name == "fault" ? provoke_fault(kernel, tid, address(4))
                            : call_panic(kernel, tid, address(4));
        }
        return 0;
    } catch (const std::exception &error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
}

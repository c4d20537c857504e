// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Signal handlers belong to the whole process: a library must not replace them even briefly, since
// another thread may fault meanwhile. So the function runs in a child that shares memory but not
// signal handlers. It costs as much as vfork(), whatever the size of the program, and copies no
// pinned memory.

#include "fault_guard.hpp"
#include "kernel_action.hpp"

#include <cerrno>
#include <csignal>
#include <sched.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

// glibc's internal name of clone(). ThreadSanitizer intercepts clone(), takes the child for a fork,
// and would then refuse to create threads.
extern "C" [[gnu::weak]] int __clone(int (*)(void *), void *, int, void *, ...);

namespace coherdma::cache {
namespace {

constexpr int FAULTS[] = {SIGILL, SIGSEGV, SIGBUS};

struct function_call {
    void (*function)(void *);
    void *arg;
};

// Not _exit(): sanitizers intercept it to finish their reports, and would wait for locks that
// another thread of the parent may hold.
[[noreturn]] void exit_child(int status) noexcept {
    for (;;)
        syscall(SYS_exit_group, status);
}

// A handler, not the default action: a core dump kills all processes that share the memory.
[[gnu::no_sanitize_thread]] void handle_fault(int) noexcept {
    exit_child(1);
}

// A system call, not sigaction(): sanitizers and Java intercept that and keep lists in memory that
// the child shares with its parent.
void install_handler(int signal) noexcept {
    kernel_action action = {};
    action.handler = handle_fault;
#if defined(__x86_64__)
    constexpr unsigned long KERNEL_SA_RESTORER = 0x04000000; // required; the handler never returns
    action.flags = KERNEL_SA_RESTORER;
    action.restorer = handle_fault;
#endif
    syscall(SYS_rt_sigaction, signal, &action, nullptr, sizeof action.mask);
}

// The child: makes the call, and exits with 0, or with 1 from handle_fault(). Not instrumented: it
// exits without returning, on a stack unknown to sanitizers.
[[gnu::no_sanitize_address, gnu::no_sanitize_thread]] int run_child(void *arg) noexcept {
    const function_call &call_in_child = *static_cast<const function_call *>(arg);
    sigset_t faults;
    sigemptyset(&faults);
    for (const int signal : FAULTS) {
        install_handler(signal);
        sigaddset(&faults, signal);
    }
    sigprocmask(SIG_UNBLOCK, &faults, nullptr);
    call_in_child.function(call_in_child.arg);
    exit_child(0);
}

} // namespace

/// Whether function(arg) returns without SIGILL, SIGSEGV or SIGBUS. Runs it in a child that shares
/// memory with the caller, whose threads and signal handlers are not affected.
bool runs_without_fault(void (*function)(void *), void *arg) noexcept {
    alignas(16) unsigned char stack[32768];
    function_call call_in_child{function, arg};
    // Block all signals: the child begins with the caller's handlers.
    sigset_t all_signals, old_mask;
    sigfillset(&all_signals);
    if (pthread_sigmask(SIG_SETMASK, &all_signals, &old_mask) != 0)
        return false;
    // CLONE_VFORK: this thread sleeps until the child exits, so `stack` stays valid. The exit
    // signal is 0: the caller's SIGCHLD handler is not called.
    const auto clone_function = __clone ? __clone : clone;
    pid_t pid =
        clone_function(run_child, stack + sizeof stack, CLONE_VM | CLONE_VFORK, &call_in_child);
    // QEMU's user-mode emulation requires SIGCHLD for what it implements as a fork.
    if (pid < 0 && errno == EINVAL)
        pid = clone_function(run_child, stack + sizeof stack, CLONE_VM | CLONE_VFORK | SIGCHLD,
                             &call_in_child);
    int status = -1;
    pid_t waited_pid = -1;
    if (pid > 0) {
        do {
            waited_pid = waitpid(pid, &status, __WALL);
        } while (waited_pid < 0 && errno == EINTR);
    }
    pthread_sigmask(SIG_SETMASK, &old_mask, nullptr);
    return waited_pid == pid && pid > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

} // namespace coherdma::cache

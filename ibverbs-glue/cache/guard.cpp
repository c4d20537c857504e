// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Handlers of signals belong to the whole process, so a library must not put its own in place, not
// for a moment: another thread may fault meanwhile. A child that shares our memory but not our
// handlers can try in our stead. It costs what vfork does, whatever the size of the program, and
// copies nothing that RDMA has pinned.

#include "guard.hpp"
#include "kernel_action.hpp"

#include <cerrno>
#include <csignal>
#include <sched.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

// glibc's own name for clone: ThreadSanitizer puts itself before the other, takes the child for a
// fork, and would let the program start no thread any more.
extern "C" [[gnu::weak]] int __clone(int (*)(void *), void *, int, void *, ...);

namespace coherdma::cache {
namespace {

constexpr int FAULTS[] = {SIGILL, SIGSEGV, SIGBUS};

struct task {
    void (*work)(void *);
    void *argument;
};

// Not _exit, before which sanitizers finish their reports, with locks that a parent's thread may
// hold.
[[noreturn]] void leave(int status) noexcept {
    for (;;)
        syscall(SYS_exit_group, status);
}

// A handler, not the default: a child that dumps core takes down all that share its memory.
[[gnu::no_sanitize_thread]] void faulted(int) noexcept {
    leave(1);
}

// The kernel's own call: those who put themselves before sigaction (sanitizers, Java) keep lists,
// which the child would change for its parent.
void handle(int signal) noexcept {
    kernel_action action = {};
    action.handler = faulted;
#if defined(__x86_64__)
    constexpr unsigned long WITH_RESTORER = 0x04000000; // wanted here, though we never return
    action.flags = WITH_RESTORER;
    action.restorer = faulted;
#endif
    syscall(SYS_rt_sigaction, signal, &action, nullptr, sizeof action.mask);
}

// Not for sanitizers: it leaves without returning, on a stack that they do not know.
[[gnu::no_sanitize_address, gnu::no_sanitize_thread]] int child(void *given) noexcept {
    const task &todo = *static_cast<const task *>(given);
    sigset_t faults;
    sigemptyset(&faults);
    for (const int signal : FAULTS) {
        handle(signal);
        sigaddset(&faults, signal);
    }
    sigprocmask(SIG_UNBLOCK, &faults, nullptr);
    todo.work(todo.argument);
    leave(0);
}

} // namespace

bool survives(void (*work)(void *), void *argument) noexcept {
    alignas(16) unsigned char stack[32768];
    task todo{work, argument};
    // No signal of the caller's may reach the child, which has the caller's handlers at first.
    sigset_t all, before;
    sigfillset(&all);
    if (pthread_sigmask(SIG_SETMASK, &all, &before) != 0)
        return false;
    // CLONE_VFORK: we sleep until it has ended, so our stack and memory stand still for it. No
    // signal when it ends (the low byte is 0): the caller's SIGCHLD is none of our business.
    const auto begin = __clone ? __clone : clone;
    pid_t pid = begin(child, stack + sizeof stack, CLONE_VM | CLONE_VFORK, &todo);
    // Emulators of single programs make a fork of it, which they have only with its signal.
    if (pid < 0 && errno == EINVAL)
        pid = begin(child, stack + sizeof stack, CLONE_VM | CLONE_VFORK | SIGCHLD, &todo);
    int status = -1;
    pid_t got = -1;
    if (pid > 0) {
        do {
            got = waitpid(pid, &status, __WALL);
        } while (got < 0 && errno == EINTR);
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return got == pid && pid > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

} // namespace coherdma::cache

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Address probing by FUTEX_WAIT: the kernel reads the word and returns EAGAIN at once unless it has
// the expected value, here one that no lock of the C library uses, with a timeout of zero. This
// call has no side effects, no seccomp filter forbids it because the C library's locks need it, and
// valgrind does not report it for valid memory. On a kernel that does not answer so, the word is
// written to a pipe instead, which takes four system calls.

#include "probe_address.hpp"

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <ctime>
#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace coherdma::registry {
namespace {

/// True: the kernel has read the word. False: it has not, for whatever reason.
bool probe_by_futex(const void *address) noexcept {
    constexpr std::uint32_t EXPECTED_VALUE = 0x9E3779B9;
    constexpr std::timespec no_wait = {};
    const long result =
        syscall(SYS_futex, address, FUTEX_WAIT_PRIVATE, EXPECTED_VALUE, &no_wait, nullptr, 0);
    // If the word has the expected value, the wait times out, or a signal or a waker ends it.
    return result == 0 || errno == EAGAIN || errno == ETIMEDOUT || errno == EINTR;
}

/// True: the kernel could copy the word at the address into a pipe.
bool probe_by_pipe(const void *address) noexcept {
    int fds[2];
    if (pipe2(fds, O_CLOEXEC) != 0)
        return false; // rejecting a valid handle is better than a fault
    const bool written = write(fds[1], address, sizeof(void *)) == sizeof(void *);
    close(fds[0]);
    close(fds[1]);
    return written;
}

enum : int { UNKNOWN, FUTEX, PIPE };
std::atomic<int> probe_method = UNKNOWN;

/// Probes a page that cannot be read because it is beyond the end of its file. An address that is
/// not mapped would do, but valgrind reports system calls with such addresses. A seccomp filter
/// that lets a program load providers permits open() and mmap().
bool futex_detects_unreadable() noexcept {
    constexpr std::size_t SIZE = 1;
    constexpr off_t BEYOND_END = 1 << 30;
    const int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    void *const page = mmap(nullptr, SIZE, PROT_READ, MAP_SHARED, fd, BEYOND_END);
    const bool detected = page != MAP_FAILED && !probe_by_futex(page);
    if (page != MAP_FAILED)
        munmap(page, SIZE);
    close(fd);
    return detected;
}

/// Probes a readable and an unreadable address. Threads that call it concurrently store the same
/// method.
int select_method() noexcept {
    const long readable = 0;
    const int method = probe_by_futex(&readable) && futex_detects_unreadable() ? FUTEX : PIPE;
    probe_method.store(method, std::memory_order_relaxed);
    return method;
}

} // namespace

/// Whether the word at the address can be read, without a fault if not. Preserves errno.
bool is_readable(const void *address) noexcept {
    const int saved_errno = errno;
    int method = probe_method.load(std::memory_order_relaxed);
    if (method == UNKNOWN)
        method = select_method();
    const bool readable = method == FUTEX ? probe_by_futex(address) : probe_by_pipe(address);
    errno = saved_errno;
    return readable;
}

} // namespace coherdma::registry

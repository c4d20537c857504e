// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The kernel copies the bytes, as from another process, and reports faults as errors. Only words
// that the program's threads may store to are exchanged by instructions here, after a futex
// operation that leaves the word unchanged has shown that its page is writable.

#include "program_memory.hpp"

#include "core/cache/checker_marks.hpp"

#include <cerrno>
#include <fcntl.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

namespace coherdma::emulation::program_memory {
namespace {

constexpr std::uintptr_t MIN_PAGE_SIZE = 4096;

enum class direction { FROM_PROGRAM, TO_PROGRAM };

/// Reads or writes the program's memory: some containers forbid process_vm_readv, even on the
/// process itself. /proc/self/mem also writes to read-only pages, as a debugger does. Returns 0 or
/// EFAULT.
int copy_by_proc_mem(std::uintptr_t addr, void *buf, std::size_t length,
                     direction copy_direction) noexcept {
    const bool is_write = copy_direction == direction::TO_PROGRAM;
    const int fd = open("/proc/self/mem", (is_write ? O_WRONLY : O_RDONLY) | O_CLOEXEC);
    if (fd < 0)
        return EFAULT;
    auto *bytes = static_cast<unsigned char *>(buf);
    while (length != 0) {
        const auto offset = static_cast<off_t>(addr);
        const ssize_t result =
            is_write ? pwrite(fd, bytes, length, offset) : pread(fd, bytes, length, offset);
        if (result <= 0)
            break;
        const auto copied = static_cast<std::size_t>(result);
        addr += copied;
        bytes += copied;
        length -= copied;
    }
    close(fd);
    return length == 0 ? 0 : EFAULT;
}

/// Whether the program can store to the page: has the kernel OR 0 to a word, which fails if not.
bool is_writable(std::uintptr_t addr) noexcept {
    // If the word is a futex of the program, FUTEX_WAKE_OP wakes its waiters only where it equals
    // -2048 (0x800, sign-extended), which is no value of a lock.
    constexpr unsigned or_zero = FUTEX_OP(FUTEX_OP_OR, 0, FUTEX_OP_CMP_EQ, 0x800);
    std::uint32_t unused_futex = 0;
    return syscall(SYS_futex, &unused_futex, FUTEX_WAKE_OP_PRIVATE, 0, nullptr,
                   addr & ~std::uintptr_t{3}, or_zero) >= 0;
}

/// Whether the program can store to each page of the memory.
bool all_writable(std::uintptr_t addr, std::size_t length) noexcept {
    const std::uintptr_t last_page = (addr + length - 1) & ~(MIN_PAGE_SIZE - 1);
    for (std::uintptr_t page = addr & ~(MIN_PAGE_SIZE - 1);; page += MIN_PAGE_SIZE) {
        if (!is_writable(page < addr ? addr : page))
            return false;
        if (page == last_page)
            return true;
    }
}

} // namespace

/// Copies the program's memory, which the program may unmap at any moment. Returns 0, or EFAULT if
/// not all of it can be read.
int read(std::uintptr_t addr, void *buf, std::size_t length) noexcept {
    auto *bytes = static_cast<unsigned char *>(buf);
    while (length != 0) {
        const iovec local_iov = {bytes, length};
        const iovec remote_iov = {reinterpret_cast<void *>(addr), length};
        const ssize_t result = process_vm_readv(getpid(), &local_iov, 1, &remote_iov, 1, 0);
        if (result < 0 && (errno == EPERM || errno == ENOSYS))
            return copy_by_proc_mem(addr, bytes, length, direction::FROM_PROGRAM);
        if (result <= 0)
            return EFAULT;
        const auto copied = static_cast<std::size_t>(result);
        addr += copied;
        bytes += copied;
        length -= copied;
    }
    return 0;
}

/// Replaces aligned words from expected to desired, but skips those that the program has changed.
/// Returns 0, or EFAULT: then nothing is changed.
// A line may contain bytes that no object of the program has: ASan must not check these accesses.
[[gnu::no_sanitize_address]] int replace_words(std::uintptr_t addr, const word *expected,
                                               const word *desired, std::size_t count,
                                               std::size_t *num_skipped) noexcept {
    const scoped_checker_disable disable_checker;
    *num_skipped = 0;
    if (!all_writable(addr, count * sizeof(word))) // so the program's threads do not store there
        return copy_by_proc_mem(addr, const_cast<word *>(desired), count * sizeof(word),
                                direction::TO_PROGRAM);
    auto *words = reinterpret_cast<word *>(addr);
    for (std::size_t i = 0; i < count; ++i) {
        word current = expected[i];
        // Release: a program thread that loads this word with acquire also sees the lines that were
        // fetched before it.
        if (desired[i] != current &&
            !__atomic_compare_exchange_n(&words[i], &current, desired[i], false, __ATOMIC_RELEASE,
                                         __ATOMIC_RELAXED))
            ++*num_skipped;
    }
    return 0;
}

} // namespace coherdma::emulation::program_memory

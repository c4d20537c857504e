// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The kernel copies, as it would between processes, and says what is not there. Only words that
// threads may be at are exchanged here, after the kernel has found the page to be writable: by an
// operation of futexes that leaves the word as it is.

#include "program.hpp"

#include "marks.hpp"

#include <cerrno>
#include <fcntl.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

namespace coherdma::emulation::program {
namespace {

constexpr std::uintptr_t PAGE = 4096; // the smallest there is

/// Some containers forbid the system call, even on oneself. This file allows the same, and writes
/// to what is read-only as a debugger does.
int by_file(std::uintptr_t at, void *own, std::size_t length, bool out) noexcept {
    const int file = open("/proc/self/mem", (out ? O_WRONLY : O_RDONLY) | O_CLOEXEC);
    if (file < 0)
        return EFAULT;
    auto *bytes = static_cast<unsigned char *>(own);
    while (length != 0) {
        const auto place = static_cast<off_t>(at);
        const ssize_t done =
            out ? pwrite(file, bytes, length, place) : pread(file, bytes, length, place);
        if (done <= 0)
            break;
        const auto moved = static_cast<std::size_t>(done);
        at += moved;
        bytes += moved;
        length -= moved;
    }
    close(file);
    return length == 0 ? 0 : EFAULT;
}

/// The kernel writes what is there already, in one step, or says that it may not.
bool is_writable(std::uintptr_t at) noexcept {
    // Should the word be that of a lock, its waiters are woken if it is -2048: no lock's is.
    constexpr unsigned same = FUTEX_OP(FUTEX_OP_OR, 0, FUTEX_OP_CMP_EQ, 0x800);
    std::uint32_t mine = 0;
    return syscall(SYS_futex, &mine, FUTEX_WAKE_OP_PRIVATE, 0, nullptr, at & ~std::uintptr_t{3},
                   same) >= 0;
}

bool all_writable(std::uintptr_t at, std::size_t length) noexcept {
    const std::uintptr_t last = (at + length - 1) & ~(PAGE - 1);
    for (std::uintptr_t page = at & ~(PAGE - 1);; page += PAGE) {
        if (!is_writable(page < at ? at : page))
            return false;
        if (page == last)
            return true;
    }
}

} // namespace

int read(std::uintptr_t from, void *into, std::size_t length) noexcept {
    auto *bytes = static_cast<unsigned char *>(into);
    while (length != 0) {
        const iovec here = {bytes, length};
        const iovec there = {reinterpret_cast<void *>(from), length};
        const ssize_t done = process_vm_readv(getpid(), &here, 1, &there, 1, 0);
        if (done < 0 && (errno == EPERM || errno == ENOSYS))
            return by_file(from, bytes, length, false);
        if (done <= 0)
            return EFAULT;
        const auto moved = static_cast<std::size_t>(done);
        from += moved;
        bytes += moved;
        length -= moved;
    }
    return 0;
}

// A line has bytes of other objects, or of none: the address sanitizer need not know.
[[gnu::no_sanitize_address]] int replace(std::uintptr_t at, const word *seen, const word *next,
                                         std::size_t count, std::size_t *lost) noexcept {
    const unwatched own;
    *lost = 0;
    if (!all_writable(at, count * sizeof(word))) // so no thread of the program writes there, either
        return by_file(at, const_cast<word *>(next), count * sizeof(word), true);
    auto *words = reinterpret_cast<word *>(at);
    for (std::size_t each = 0; each < count; ++each) {
        word expected = seen[each];
        // release: who reads what the device wrote may look at other lines that are fetched first.
        if (next[each] != expected &&
            !__atomic_compare_exchange_n(&words[each], &expected, next[each], false,
                                         __ATOMIC_RELEASE, __ATOMIC_RELAXED))
            ++*lost;
    }
    return 0;
}

} // namespace coherdma::emulation::program

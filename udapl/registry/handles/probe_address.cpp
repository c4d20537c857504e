// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Address probing by FUTEX_WAIT: the kernel reads the word and returns EAGAIN at once unless it has
// the expected value, here one that no lock of the C library uses, with a timeout of zero. This
// call has no side effects, no seccomp filter forbids it because the C library's locks need it, and
// valgrind does not report it for valid memory.

#include "probe_address.hpp"

#include <cerrno>
#include <cstdint>
#include <ctime>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace coherdma::registry {

/// Whether the word at the address can be read, without a fault if not. Preserves errno.
bool is_readable(const void *address) noexcept {
    constexpr std::uint32_t EXPECTED_VALUE = 0x9E3779B9;
    constexpr std::timespec no_wait = {};
    const int saved_errno = errno;
    const long result =
        syscall(SYS_futex, address, FUTEX_WAIT_PRIVATE, EXPECTED_VALUE, &no_wait, nullptr, 0);
    // If the word has the expected value, the wait times out, or a signal or a waker ends it.
    const bool readable = result == 0 || errno == EAGAIN || errno == ETIMEDOUT || errno == EINTR;
    errno = saved_errno;
    return readable;
}

} // namespace coherdma::registry

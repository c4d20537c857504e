// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "program_bytes.hpp"

#include <atomic>
#include <cstdio>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

namespace coherdma::late {
namespace {

/// A copy that a system call makes, as far as the program may access the memory. Not by libc's
/// function: that of a sanitizer would report memory that is poisoned while a device uses it.
struct memory_copy {
    const long call;
    const std::uintptr_t addr;
    std::byte *const bytes;
    const std::size_t length;
    std::size_t num_copied = 0;

    void go_on() noexcept {
        while (num_copied < length) {
            const iovec local = {.iov_base = bytes + num_copied, .iov_len = length - num_copied};
            const iovec program = {.iov_base = reinterpret_cast<void *>(addr + num_copied),
                                   .iov_len = length - num_copied};
            const long result = syscall(call, getpid(), &local, 1, &program, 1, 0);
            if (result <= 0)
                return;
            num_copied += static_cast<std::size_t>(result);
        }
    }
    /// False: a part of the memory cannot be accessed.
    bool make() noexcept {
        go_on();
        if (num_copied < length && lend != nullptr)
            lend(
                addr, addr + length, [](void *copy) { static_cast<memory_copy *>(copy)->go_on(); },
                this);
        return num_copied == length;
    }
};

} // namespace

bool read_program(std::uintptr_t addr, std::byte *bytes, std::size_t length) noexcept {
    return memory_copy{SYS_process_vm_readv, addr, bytes, length}.make();
}

void write_program(std::uintptr_t addr, const std::byte *bytes, std::size_t length) noexcept {
    auto *const source = const_cast<std::byte *>(bytes); // the call reads it
    static std::atomic<bool> is_said = false;
    if (!memory_copy{SYS_process_vm_writev, addr, source, length}.make() && !is_said.exchange(true))
        std::fprintf(stderr,
                     "coherdma: data that a device has delivered late are lost: the program cannot "
                     "write to its memory at %p any more\n",
                     reinterpret_cast<void *>(addr));
}

} // namespace coherdma::late

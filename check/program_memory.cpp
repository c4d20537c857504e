// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "program_memory.hpp"

#include "sanitizer_runtimes.hpp"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

namespace coherdma::check {
namespace {

/// Whether a tool looks at each access of the process, or at those of libc's functions: it would
/// take the checker's for the program's.
bool find_memory_tool() noexcept {
    constexpr const char *OF_VALGRIND = "_vgnU_freeres";
    return find_asan() || find_tsan() || find_msan() || dlsym(RTLD_DEFAULT, OF_VALGRIND) != nullptr;
}

/// Looked up when the module is loaded: dlsym() waits for a thread that is in dlopen(), and that
/// may wait for the mutex of the check, in free().
const bool has_memory_tool = find_memory_tool();

/// Whether all pages are mapped and can be read. They stay so while the program's threads do not
/// unmap or protect them. False: that is not known, or the kernel is older than Linux 5.14.
bool are_pages_readable(std::uintptr_t begin, std::uintptr_t end) noexcept {
    constexpr int POPULATE_READ = 22; // MADV_POPULATE_READ, which older headers do not have
    static const auto page_size = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
    const std::uintptr_t first = begin & ~(page_size - 1);
    return syscall(SYS_madvise, first, end - first, POPULATE_READ) == 0;
}

} // namespace

std::optional<program_memory> program_memory::read(std::uintptr_t begin, std::uintptr_t end) {
    const std::size_t length = end - begin;
    std::optional<program_memory> memory = program_memory();
    if (!has_memory_tool && are_pages_readable(begin, end)) {
        memory->bytes_ = {reinterpret_cast<const std::byte *>(begin), length};
        return memory;
    }
    memory->copy_ = std::make_unique_for_overwrite<std::byte[]>(length);
    memory->bytes_ = {memory->copy_.get(), length};
    const iovec local = {.iov_base = memory->copy_.get(), .iov_len = length};
    const iovec remote = {.iov_base = reinterpret_cast<void *>(begin), .iov_len = length};
    // Not by libc's function: that of a sanitizer would report poisoned memory.
    if (syscall(SYS_process_vm_readv, getpid(), &local, 1, &remote, 1, 0) !=
        static_cast<long>(length))
        return std::nullopt;
    return memory;
}

} // namespace coherdma::check

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "file_mapping.hpp"

#include <sys/mman.h>
#include <unistd.h>

namespace coherdma::emulation {

/// Maps a part of a file, or anonymous memory if fd is -1. If that fails, addr() is nullptr.
file_mapping::file_mapping(int fd, std::uint64_t offset, std::size_t length) noexcept {
    // offset need not be a multiple of the page size.
    const auto page_size = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
    const std::uint64_t page_offset = offset % page_size;
    length_ = length + page_offset;
    void *const mapped = mmap(nullptr, length_, PROT_READ | PROT_WRITE,
                              fd >= 0 ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS, fd,
                              static_cast<off_t>(offset - page_offset));
    if (mapped == MAP_FAILED)
        return;
    // A child of the program does not use the emulation of its parent's devices.
    madvise(mapped, length_, MADV_DONTFORK);
    pages_ = mapped;
    addr_ = static_cast<unsigned char *>(mapped) + page_offset;
}

file_mapping::~file_mapping() {
    if (pages_ != nullptr)
        munmap(pages_, length_);
}

} // namespace coherdma::emulation

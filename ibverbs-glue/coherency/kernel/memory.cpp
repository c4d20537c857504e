// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "memory.hpp"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <limits>
#include <unistd.h>

namespace coherdma::coherency {
namespace {

bool read_whole(int fd, void *buffer, std::size_t size, std::uint64_t offset) {
    if (offset > static_cast<std::uint64_t>(std::numeric_limits<off_t>::max()))
        return false;
    const ssize_t count = pread(fd, buffer, size, static_cast<off_t>(offset));
    return count >= 0 && static_cast<std::size_t>(count) == size;
}

// Reads the segments of a core file of a 64-bit kernel. Returns false if the file is none.
bool read_segments(int fd, std::vector<Elf64_Phdr> &segments) {
    Elf64_Ehdr header;
    if (!read_whole(fd, &header, sizeof header, 0) ||
        std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
        header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_type != ET_CORE ||
        header.e_phentsize != sizeof(Elf64_Phdr))
        return false;
    segments.resize(header.e_phnum);
    return read_whole(fd, segments.data(), segments.size() * sizeof(Elf64_Phdr), header.e_phoff);
}

} // namespace

// In a container, /proc/kcore may be replaced by /dev/null.
kernel_memory::kernel_memory(const std::string &path)
    : fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)) {
    if (fd < 0) {
        error = errno;
    } else if (!read_segments(fd, segments)) {
        error = ENOEXEC;
        segments.clear();
    }
}

kernel_memory::~kernel_memory() {
    if (fd >= 0)
        close(fd);
}

bool kernel_memory::read(std::uint64_t address, void *buffer, std::size_t size) const {
    for (const Elf64_Phdr &segment : segments) {
        if (segment.p_type != PT_LOAD || address < segment.p_vaddr)
            continue;
        const std::uint64_t offset = address - segment.p_vaddr;
        if (offset <= segment.p_filesz && size <= segment.p_filesz - offset &&
            segment.p_offset <= std::numeric_limits<std::uint64_t>::max() - offset)
            return read_whole(fd, buffer, size, segment.p_offset + offset);
    }
    return false;
}

} // namespace coherdma::coherency

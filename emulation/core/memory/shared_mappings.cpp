// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "shared_mappings.hpp"

#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <fcntl.h>
#include <fstream>
#include <optional>
#include <string>
#include <sys/ioctl.h>
#include <unistd.h>

namespace coherdma::emulation {

namespace {

// Of <linux/fs.h> since Linux 6.11.
struct procmap_query {
    std::uint64_t size, query_flags, query_addr, vma_start, vma_end, vma_flags, vma_page_size,
        vma_offset, inode;
    std::uint32_t dev_major, dev_minor, vma_name_size, build_id_size;
    std::uint64_t vma_name_addr, build_id_addr;
};
constexpr unsigned long QUERY = _IOWR('f', 17, procmap_query);
constexpr std::uint64_t VMA_SHARED = 0x08, COVERING_OR_NEXT_VMA = 0x10;

std::uint64_t device_of(unsigned major, unsigned minor) noexcept {
    return std::uint64_t{major} << 32 | minor;
}

/// Asks the kernel for the mappings in the range one by one: a program may have many others.
/// nullopt: it cannot be asked.
std::optional<std::vector<shared_mapping>> query_shared_mappings(addr_range range) {
    const int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return std::nullopt;
    std::vector<shared_mapping> mappings;
    int error = 0;
    for (std::uintptr_t addr = range.begin; addr < range.end && error == 0;) {
        procmap_query query = {};
        query.size = sizeof query;
        query.query_flags = COVERING_OR_NEXT_VMA;
        query.query_addr = addr;
        error = ioctl(fd, QUERY, &query) == 0 ? 0 : errno;
        if (error != 0)
            break;
        const addr_range part = intersection({query.vma_start, query.vma_end}, range);
        if ((query.vma_flags & VMA_SHARED) != 0 && query.inode != 0 && !part.empty())
            mappings.push_back({part,
                                {device_of(query.dev_major, query.dev_minor), query.inode},
                                query.vma_offset + (part.begin - query.vma_start)});
        addr = query.vma_end;
    }
    close(fd);
    if (error != 0 && error != ENOENT) // there is no mapping at or behind the address
        return std::nullopt;
    return mappings;
}

} // namespace

/// The shared mappings in the range, clipped to it, in address order: of the lines of
/// /proc/self/maps, on older kernels.
std::vector<shared_mapping> find_shared_mappings(addr_range range) {
    if (auto queried = query_shared_mappings(range))
        return *std::move(queried);
    std::vector<shared_mapping> mappings;
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) {
        std::uint64_t begin, end, offset, inode;
        unsigned major, minor;
        char permissions[5];
        constexpr int NUM_FIELDS = 7;
        if (std::sscanf(line.c_str(), "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %x:%x %" SCNu64,
                        &begin, &end, permissions, &offset, &major, &minor, &inode) != NUM_FIELDS ||
            permissions[3] != 's' || inode == 0)
            continue;
        const addr_range part = intersection({begin, end}, range);
        if (!part.empty())
            mappings.push_back(
                {part, {device_of(major, minor), inode}, offset + (part.begin - begin)});
    }
    return mappings;
}

} // namespace coherdma::emulation

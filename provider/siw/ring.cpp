// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "ring.hpp"

#include <cerrno>
#include <sys/mman.h>

namespace coherdma::provider::siw {

/// Maps num_entries entries and the trailer_size bytes after them. Returns 0 or an errno.
// The kernel refuses to map another size than its queue's, so num_entries is right if mmap()
// succeeds.
int mapping::map(int fd, std::uint64_t key, std::uint32_t num_entries, std::size_t entry_size,
                 std::size_t trailer_size) noexcept {
    constexpr std::uint32_t max_entries = 1U << 24;
    if (num_entries == 0 || (num_entries & (num_entries - 1)) != 0 || num_entries > max_entries ||
        key > INT64_MAX)
        return EPROTO;
    const std::size_t map_size = std::size_t{num_entries} * entry_size + trailer_size;
    void *const mapped =
        mmap(nullptr, map_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, static_cast<off_t>(key));
    if (mapped == MAP_FAILED)
        return errno;
    addr = static_cast<unsigned char *>(mapped);
    size = map_size;
    index_mask = num_entries - 1;
    return 0;
}

void mapping::unmap() noexcept {
    if (addr != nullptr)
        munmap(addr, size);
    addr = nullptr;
}

} // namespace coherdma::provider::siw

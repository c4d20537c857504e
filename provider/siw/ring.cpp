// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "ring.hpp"

#include <cerrno>
#include <sys/mman.h>

namespace coherdma::provider::siw {

// The kernel maps neither more nor less than what it has, so its number of slots is true if this
// succeeds.
int mapping::map(int fd, std::uint64_t key, std::uint32_t slots, std::size_t slot,
                 std::size_t behind) noexcept {
    constexpr std::uint32_t most = 1U << 24;
    if (slots == 0 || (slots & (slots - 1)) != 0 || slots > most || key > INT64_MAX)
        return EPROTO;
    const std::size_t bytes = std::size_t{slots} * slot + behind;
    void *const found =
        mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, static_cast<off_t>(key));
    if (found == MAP_FAILED)
        return errno;
    memory = static_cast<unsigned char *>(found);
    size = bytes;
    mask = slots - 1;
    return 0;
}

void mapping::unmap() noexcept {
    if (memory != nullptr)
        munmap(memory, size);
    memory = nullptr;
}

} // namespace coherdma::provider::siw

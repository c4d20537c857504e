// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "ring.hpp"

#include <cerrno>
#include <sys/mman.h>

namespace coherdma::provider::rxe {
namespace {

/// Whether a mapping of mapped_size bytes has room for the entries, each of at least min_elem_size
/// bytes: invalid values of the kernel must not lead to an access outside it. Mask 0 is valid: a
/// queue of length zero has one entry.
bool is_valid_geometry(std::uint32_t mask, std::uint32_t log2_size, std::size_t mapped_size,
                       std::size_t min_elem_size) noexcept {
    if ((mask & (mask + 1)) != 0 || log2_size > 20)
        return false;
    const std::size_t entries_size = mapped_size - sizeof(rxe_queue_buf);
    const std::size_t elem_size = std::size_t{1} << log2_size;
    return min_elem_size <= elem_size && (std::size_t{mask} + 1) <= entries_size / elem_size;
}

/// Of length zero. It takes no WQE and has no CQE.
rxe_queue_buf empty_queue;

} // namespace

/// Maps a queue that the kernel allocated. Its entries must have at least min_elem_size bytes.
/// Returns 0 or an errno.
int ring::map(int fd, const mminfo &mi, std::size_t min_elem_size) noexcept {
    if (mi.size <= sizeof(rxe_queue_buf) || mi.offset > INT64_MAX)
        return EPROTO;
    void *const addr = mmap(nullptr, mi.size, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
                            static_cast<off_t>(mi.offset));
    if (addr == MAP_FAILED)
        return errno;
    auto *const mapped = static_cast<rxe_queue_buf *>(addr);
    // Each is loaded once, so that the values checked are the values used.
    const std::uint32_t mask = std::atomic_ref(mapped->index_mask).load(std::memory_order_relaxed);
    const std::uint32_t log2_size =
        std::atomic_ref(mapped->log2_elem_size).load(std::memory_order_relaxed);
    if (!is_valid_geometry(mask, log2_size, mi.size, min_elem_size)) {
        munmap(addr, mi.size);
        return EPROTO;
    }
    buf = mapped;
    mapped_size = mi.size;
    index_mask = mask;
    log2_elem_size = log2_size;
    return 0;
}

[[gnu::cold]] int ring::replace(int fd, const mminfo &mi, std::size_t min_elem_size) noexcept {
    ring new_ring = {};
    int error = new_ring.map(fd, mi, min_elem_size);
    unmap();
    if (error != 0)
        error = new_ring.map(fd, mi, min_elem_size); // the old one may have made room
    if (error != 0)
        new_ring = {.buf = &empty_queue, .mapped_size = 0, .index_mask = 0, .log2_elem_size = 0};
    *this = new_ring;
    return error;
}

void ring::unmap() noexcept {
    if (buf != nullptr && buf != &empty_queue)
        munmap(buf, mapped_size);
    buf = nullptr;
}

/// Loads both indices from shared memory.
[[gnu::cold]] void wq_ring::reset() noexcept {
    cons = load_index(buf->consumer_index);
    prod = prod_published = load_index(buf->producer_index);
}

} // namespace coherdma::provider::rxe

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "ring.hpp"

#include <cerrno>
#include <sys/mman.h>

namespace coherdma::provider::rxe {
namespace {

// A kernel that says nonsense here must not make us write anywhere else.
bool sound(std::uint32_t mask, std::uint32_t shift, std::size_t size, std::size_t slot) noexcept {
    if (mask == 0 || (mask & (mask + 1)) != 0 || shift > 20)
        return false;
    const std::size_t room = size - sizeof(ring_head), step = std::size_t{1} << shift;
    return slot <= step && (std::size_t{mask} + 1) <= room / step;
}

} // namespace

int ring::map(int fd, const place &where, std::size_t slot) noexcept {
    if (where.size <= sizeof(ring_head) || where.offset > INT64_MAX)
        return EPROTO;
    void *const at = mmap(nullptr, where.size, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
                          static_cast<off_t>(where.offset));
    if (at == MAP_FAILED)
        return errno;
    auto *const found = static_cast<ring_head *>(at);
    // Read once: the kernel could change them between the check and the use.
    const std::uint32_t said_mask = std::atomic_ref(found->mask).load(std::memory_order_relaxed);
    const std::uint32_t said_shift =
        std::atomic_ref(found->log2_slot).load(std::memory_order_relaxed);
    if (!sound(said_mask, said_shift, where.size, slot)) {
        munmap(at, where.size);
        return EPROTO;
    }
    head = found;
    mapped = where.size;
    mask = said_mask;
    log2_slot = said_shift;
    return 0;
}

void ring::unmap() noexcept {
    if (head != nullptr)
        munmap(head, mapped);
    head = nullptr;
}

void ring::start_over(bool producer) noexcept {
    const std::uint32_t filled_to = load(head->producer), emptied_to = load(head->consumer);
    own = published = producer ? filled_to : emptied_to;
    other = producer ? emptied_to : filled_to;
}

} // namespace coherdma::provider::rxe

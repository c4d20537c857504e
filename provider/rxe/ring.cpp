// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "ring.hpp"

#include <cerrno>
#include <sys/mman.h>

namespace coherdma::provider::rxe {
namespace {

// A kernel that says nonsense here must not make us write anywhere else.
bool sound(const ring_head &head, std::size_t size, std::size_t slot) noexcept {
    const std::uint32_t mask = head.mask, shift = head.log2_slot;
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
    if (!sound(*found, where.size, slot)) {
        munmap(at, where.size);
        return EPROTO;
    }
    head = found;
    mapped = where.size;
    mask = found->mask;
    log2_slot = found->log2_slot;
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

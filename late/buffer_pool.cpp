// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "buffer_pool.hpp"

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <new>
#include <sys/mman.h>
#include <unistd.h>

namespace coherdma::late {
namespace {

/// iWARP devices write what a Read returns as a peer would.
int needed_access(const ibv_pd &pd) noexcept {
    const bool is_iwarp = pd.context->device->transport_type == IBV_TRANSPORT_IWARP;
    return IBV_ACCESS_LOCAL_WRITE | (is_iwarp ? IBV_ACCESS_REMOTE_WRITE : 0);
}

} // namespace

std::unique_ptr<registered_chunk> registered_chunk::make(ibv_pd &pd, std::size_t size) {
    void *const memory =
        mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return nullptr;
    madvise(memory, size, MADV_DONTFORK); // the device's pages stay the parent's
    ibv_mr *const mr = (ibv_reg_mr)(&pd, memory, size, needed_access(pd)); // no macro
    const int error = errno;
    try {
        if (mr != nullptr)
            return std::unique_ptr<registered_chunk>(
                new registered_chunk(static_cast<std::byte *>(memory), size, mr));
    } catch (const std::bad_alloc &) {
        ibv_dereg_mr(mr);
        munmap(memory, size);
        throw;
    }
    munmap(memory, size);
    errno = error;
    return nullptr;
}

registered_chunk::~registered_chunk() {
    if (mr_ != nullptr)
        ibv_dereg_mr(mr_);
    munmap(memory_, size_);
}

std::byte *registered_chunk::take(std::size_t size) {
    const auto it = std::find_if(free_.begin(), free_.end(),
                                 [=](const auto &range) { return range.second >= size; });
    if (it == free_.end())
        return nullptr;
    const auto [offset, length] = *it;
    std::map<const std::byte *, std::size_t> use{{memory_ + offset, 1}};
    if (length > size)
        free_.emplace_hint(std::next(it), offset + size, length - size);
    free_.erase(it);
    uses_.merge(use);
    return memory_ + offset;
}

void registered_chunk::give_back(const std::byte *begin, std::size_t size) noexcept {
    const auto use = uses_.find(begin);
    if (--use->second != 0)
        return;
    uses_.erase(use);
    try {
        auto it = free_.emplace(begin - memory_, size).first;
        if (it != free_.begin() &&
            std::prev(it)->first + std::prev(it)->second == it->first) { // adjacent
            std::prev(it)->second += it->second;
            it = std::prev(free_.erase(it));
        }
        if (const auto next = std::next(it);
            next != free_.end() && it->first + it->second == next->first) {
            it->second += next->second;
            free_.erase(next);
        }
    } catch (const std::bad_alloc &) { // it is not used again
    }
}

std::optional<device_buffer> buffer_pool::take(const ibv_pd &pd, std::size_t size) {
    for (const auto &chunk : chunks_)
        if (std::byte *const begin = chunk->take(size))
            return device_buffer{&pd, chunk.get(), begin, size};
    return std::nullopt;
}

std::size_t buffer_pool::whole_pages(std::size_t size) noexcept {
    static const auto page_size = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    return (size + page_size - 1) / page_size * page_size;
}

std::size_t buffer_pool::next_size(std::size_t size) const noexcept {
    constexpr std::size_t FIRST = 65536, MAX_DOUBLINGS = 8;
    return std::max(whole_pages(size), FIRST << std::min(chunks_.size(), MAX_DOUBLINGS));
}

buffer_pool::chunks buffer_pool::take_unused() {
    const auto unused = std::stable_partition(
        chunks_.begin(), chunks_.end(), [](const auto &chunk) { return !chunk->is_unused(); });
    chunks taken(std::make_move_iterator(unused), std::make_move_iterator(chunks_.end()));
    chunks_.erase(unused, chunks_.end());
    return taken;
}

bool buffer_pool::has(const registered_chunk *chunk) const noexcept {
    return std::any_of(chunks_.begin(), chunks_.end(),
                       [=](const auto &known) { return known.get() == chunk; });
}

} // namespace coherdma::late

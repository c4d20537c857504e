// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "page_slabs.hpp"

#include <iterator>

namespace coherdma::emulation {
namespace {

constexpr std::uint64_t SLAB_LENGTH = 64 << 20; // of pages, in address space
constexpr std::size_t MAX_LENGTH_IN_SLAB = 1 << 20;

} // namespace

/// A large part has its own mappings.
std::shared_ptr<page_slabs::part> page_slabs::get_part(int fd, std::size_t length) {
    if (length > MAX_LENGTH_IN_SLAB) {
        auto large = std::make_shared<part>(nullptr, file_end_, length);
        file_end_ += length;
        large->device_mapping_ = std::make_unique<file_mapping>(fd, large->file_offset_, length);
        large->hashes_mapping_ =
            std::make_unique<file_mapping>(-1, 0, length / page_size_ * hash_bytes_);
        large->device = large->device_mapping_->addr();
        large->hashes = large->hashes_mapping_->addr();
        return large;
    }
    auto fitting = free_by_size_.lower_bound({length, 0});
    if (fitting == free_by_size_.end()) {
        if (!add_slab(fd))
            return std::make_shared<part>(nullptr, 0, 0);
        fitting = free_by_size_.lower_bound({length, 0});
    }
    const auto [size, offset] = *fitting;
    auto small = std::make_shared<part>(this, offset, length);
    const auto it = std::prev(slabs_.upper_bound(offset));
    const std::uint64_t offset_in_slab = offset - it->first;
    small->device = it->second.device.addr() + offset_in_slab;
    small->hashes = it->second.hashes.addr() + offset_in_slab / page_size_ * hash_bytes_;
    free_by_size_.erase(fitting);
    free_.erase(offset);
    if (size != length)
        add_free(offset + length, offset + size);
    return small;
}

bool page_slabs::add_slab(int fd) {
    const std::uint64_t offset = file_end_;
    const std::size_t hashes_length = SLAB_LENGTH / page_size_ * hash_bytes_;
    const auto [it, is_new] =
        slabs_.try_emplace(offset, slab{{fd, offset, SLAB_LENGTH}, {-1, 0, hashes_length}});
    if (it->second.device.addr() == nullptr || it->second.hashes.addr() == nullptr) {
        slabs_.erase(it);
        return false;
    }
    file_end_ += SLAB_LENGTH + page_size_; // free parts of two slabs do not touch
    add_free(offset, offset + SLAB_LENGTH);
    return true;
}

void page_slabs::add_free(std::uint64_t begin, std::uint64_t end) {
    free_[begin] = end;
    free_by_size_.insert({end - begin, begin});
}

page_slabs::part::~part() {
    if (slabs_ != nullptr)
        slabs_->put_part(file_offset_, length_);
}

/// Joins it with the free parts around it. A slab that is all free is unmapped, unless it is the
/// last one.
void page_slabs::put_part(std::uint64_t begin, std::size_t length) noexcept try {
    std::uint64_t end = begin + length;
    auto it = free_.lower_bound(begin);
    const auto take = [&](auto joined) {
        free_by_size_.erase({joined->second - joined->first, joined->first});
        return free_.erase(joined);
    };
    if (it != free_.end() && it->first == end) {
        end = it->second;
        it = take(it);
    }
    if (it != free_.begin() && std::prev(it)->second == begin) {
        begin = std::prev(it)->first;
        take(std::prev(it));
    }
    if (end - begin == SLAB_LENGTH && slabs_.size() > 1)
        slabs_.erase(begin);
    else
        add_free(begin, end);
} catch (...) { // without memory the part is never used again
}

} // namespace coherdma::emulation

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "page_store.hpp"

#include "robust_mutex.hpp"
#include "shm_object.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <optional>
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

page_store::page_store(std::size_t page_size, std::size_t hash_bytes) noexcept
    : page_size_(page_size)
    , hash_bytes_(hash_bytes)
    , file_(memfd_create("coherdma: pages of the device", MFD_CLOEXEC)) {}

namespace {

/// Whether that much memory is available: the kernel overcommits, and would kill the process later.
bool is_available(std::size_t bytes) noexcept {
    std::FILE *const meminfo = std::fopen("/proc/meminfo", "re");
    unsigned long long kilobytes = 0;
    bool is_known = false;
    for (char line[128]; meminfo != nullptr && !is_known && std::fgets(line, sizeof line, meminfo);)
        is_known = std::sscanf(line, "MemAvailable: %llu", &kilobytes) == 1;
    if (meminfo != nullptr)
        std::fclose(meminfo);
    return !is_known || bytes / 1024 < kilobytes;
}

} // namespace

std::size_t page_store::hash_bytes_for(std::size_t length) const noexcept {
    return length / page_size_ * hash_bytes_;
}

std::uint32_t &page_store::ref_count(page_extent &extent, std::uintptr_t page) const noexcept {
    return extent.ref_counts[(page - extent.pages.begin) / page_size_];
}

/// Allocates now: if memory runs out at the first store to a page, the kernel kills the process.
/// In chunks, because a signal interrupts posix_fallocate and the call starts over.
int page_store::allocate(std::uint64_t offset, std::size_t length) const noexcept {
    constexpr std::size_t CHUNK = 1 << 20;
    if (!is_available(length + hash_bytes_for(length)))
        return ENOMEM;
    for (std::size_t done = 0; done < length;) {
        const std::size_t chunk = std::min(CHUNK, length - done);
        const int error =
            posix_fallocate(fd(), static_cast<off_t>(offset + done), static_cast<off_t>(chunk));
        if (error != 0 && error != EINTR)
            return error == ENOSPC ? ENOMEM : error;
        done += error == 0 ? chunk : 0;
    }
    return 0;
}

/// The file of shared memory, opened once while extents use it. nullptr: see reason.
std::shared_ptr<shm_object> page_store::open_shm_object(shm_id id, std::string &reason) {
    std::weak_ptr<shm_object> &weak_object = shm_objects_[id];
    std::shared_ptr<shm_object> object = weak_object.lock();
    if (object == nullptr)
        weak_object = object = shm_object::open(id, page_size_, hash_bytes_, reason);
    return object;
}

/// Maps the extent's part of the file, without allocating memory, and adds it to extents. Returns 0
/// or an errno.
int page_store::map_extent(std::unique_ptr<page_extent> extent, extent_map &extents) {
    const std::size_t length = extent->pages.size();
    if (extent->shared != nullptr) {
        extent->fd = extent->shared->fd();
        extent->file_offset = shm_object::page_offset(extent->shm_offset);
        extent->hashes_mapping = std::make_shared<file_mapping>(
            extent->fd, extent->shared->hashes_offset(extent->shm_offset), hash_bytes_for(length));
    } else {
        extent->fd = fd();
        extent->file_offset = file_end_;
        file_end_ += length;
        extent->hashes_mapping = std::make_shared<file_mapping>(-1, 0, hash_bytes_for(length));
    }
    extent->device_mapping =
        std::make_shared<file_mapping>(extent->fd, extent->file_offset, length);
    extent->device = extent->device_mapping->addr();
    extent->hashes = extent->hashes_mapping->addr();
    if (extent->device == nullptr || extent->hashes == nullptr)
        return ENOMEM;
    extent->ref_counts.assign(length / page_size_, 0);
    extents[extent->pages.begin] = std::move(extent);
    return 0;
}

/// Makes extents for pages that are in none: one for each shared mapping, and for what is between.
/// reason: nullptr if shared mappings are treated as private.
int page_store::map_pages(addr_range pages, extent_map &extents, std::string *reason) {
    std::vector<shared_mapping> mappings;
    if (reason != nullptr)
        mappings = find_shared_mappings(pages);
    mappings.push_back({{pages.end, pages.end}, {}, 0}); // for private pages at the end
    for (const shared_mapping &mapping : mappings) {
        if (pages.begin < mapping.range.begin) {
            auto extent = std::make_unique<page_extent>();
            extent->pages = {pages.begin, mapping.range.begin};
            if (const int error = map_extent(std::move(extent), extents))
                return error;
        }
        pages.begin = mapping.range.end;
        if (mapping.range.empty())
            continue;
        auto extent = std::make_unique<page_extent>();
        extent->pages = mapping.range;
        extent->shm_offset = mapping.offset;
        extent->shared = open_shm_object(mapping.id, *reason);
        if (extent->shared == nullptr)
            return NO_SHM_OBJECT;
        if (const int error = map_extent(std::move(extent), extents))
            return error;
    }
    return 0;
}

/// Allocates the extent's pages, and calls init for those that no other process has.
int page_store::allocate_extent(page_extent &extent, const visitor &init) {
    const auto init_shared = [&](std::uint64_t offset, std::uint64_t length) {
        const std::uintptr_t addr = extent.pages.begin + (offset - extent.shm_offset);
        init({addr, addr + length}, extent);
    };
    const int error =
        extent.shared != nullptr
            ? extent.shared->get_pages(extent.shm_offset, extent.pages.size(), init_shared)
            : allocate(extent.file_offset, extent.pages.size());
    if (error == 0)
        bytes_ += extent.pages.size() + hash_bytes_for(extent.pages.size());
    else if (extent.shared == nullptr)
        punch_hole(extent, extent.pages);
    if (error == 0 && extent.shared == nullptr)
        init(extent.pages, extent);
    return error;
}

void page_store::punch_hole(const page_extent &extent, addr_range pages) const noexcept {
    const auto offset = static_cast<off_t>(extent.file_offset + (pages.begin - extent.pages.begin));
    while (file_.is_open() &&
           fallocate(fd(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset,
                     static_cast<off_t>(pages.size())) != 0 &&
           errno == EINTR) {
    }
}

void page_store::free_pages(const page_extent &extent, addr_range pages) noexcept {
    if (extent.shared != nullptr)
        extent.shared->put_pages(extent.shm_offset + (pages.begin - extent.pages.begin),
                                 pages.size());
    else
        punch_hole(extent, pages);
    bytes_ -= pages.size() + hash_bytes_for(pages.size());
}

/// Calls func for each part of the range that has device pages. Shared pages are locked against
/// other processes.
void page_store::visit(addr_range range, const visitor &func) {
    auto it = extents_.upper_bound(range.begin);
    if (it != extents_.begin())
        --it;
    for (; it != extents_.end() && it->first < range.end; ++it) {
        page_extent &extent = *it->second;
        const addr_range part = intersection(range, extent.pages);
        if (part.empty())
            continue;
        std::optional<robust_lock_guard> guard;
        if (extent.shared != nullptr)
            guard.emplace(extent.shared->mutex());
        func(part, extent);
    }
}

bool page_store::has_no_other_holder(const page_extent &extent,
                                     std::uintptr_t addr) const noexcept {
    return extent.shared == nullptr ||
           extent.shared->has_no_other_holder(extent.shm_offset + (addr - extent.pages.begin) /
                                                                      page_size_ * page_size_);
}

/// During visit(): whether one registration of this process is all that holds the page.
bool page_store::is_last_ref(const page_extent &extent, std::uintptr_t addr) const noexcept {
    const std::size_t page = (addr - extent.pages.begin) / page_size_;
    return extent.ref_counts[page] == 1 && has_no_other_holder(extent, addr) &&
           (extent.shared == nullptr ||
            extent.shared->is_last_ref(extent.shm_offset + page * page_size_));
}

/// Takes a reference to the device's page for each of these pages of the program. Pages that are in
/// no extent yet get a new one, and init fills them. Returns 0, an errno, or NO_SHM_OBJECT and sets
/// *reason: then no reference is taken.
int page_store::get_pages(addr_range pages, const visitor &init, std::string *reason) {
    if (!file_.is_open())
        return ENOMEM;
    extent_map added;
    int error = 0;
    for (std::uintptr_t addr = pages.begin; addr < pages.end && error == 0;) {
        const auto next = extents_.upper_bound(addr);
        const std::uintptr_t end =
            next == extents_.end() ? pages.end : std::min(next->first, pages.end);
        const page_extent *const previous =
            next == extents_.begin() ? nullptr : std::prev(next)->second.get();
        if (previous != nullptr && addr < previous->pages.end) {
            addr = previous->pages.end;
            continue;
        }
        error = map_pages({addr, end}, added, reason);
        addr = end;
    }
    auto it = added.begin();
    while (it != added.end() && error == 0) {
        error = allocate_extent(*it->second, init);
        if (error != 0 && it->second->shared != nullptr) {
            *reason = std::string("in /dev/shm: ") + std::strerror(error);
            error = NO_SHM_OBJECT;
        }
        if (error == 0)
            ++it;
    }
    if (error != 0) {
        while (it != added.begin()) {
            --it;
            free_pages(*it->second, it->second->pages);
        }
        return error;
    }
    extents_.merge(added);
    visit(pages, [&](addr_range part, page_extent &extent) {
        for (std::uintptr_t page = part.begin; page < part.end; page += page_size_)
            ++ref_count(extent, page);
    });
    return 0;
}

/// Drops the reference of these pages of the program to the device's pages, and frees device pages
/// without any.
void page_store::put_pages(addr_range pages) {
    auto it = extents_.upper_bound(pages.begin);
    if (it != extents_.begin())
        --it;
    while (it != extents_.end() && it->first < pages.end) {
        page_extent &extent = *it->second;
        const addr_range part = intersection(pages, extent.pages);
        for (std::uintptr_t page = part.begin; page < part.end; page += page_size_)
            --ref_count(extent, page);
        drop_unreferenced(it++);
    }
}

/// Frees pages without references and replaces the extent by extents of the other pages.
void page_store::drop_unreferenced(extent_map::iterator it) {
    const std::vector<std::uint32_t> &counts = it->second->ref_counts;
    if (std::find(counts.begin(), counts.end(), 0U) == counts.end())
        return;
    const std::unique_ptr<page_extent> old = std::move(it->second);
    extents_.erase(it);
    for (std::uintptr_t page = old->pages.begin; page < old->pages.end;) {
        const bool is_referenced = ref_count(*old, page) != 0;
        addr_range part = {page, page};
        while (part.end < old->pages.end && (ref_count(*old, part.end) != 0) == is_referenced)
            part.end += page_size_;
        page = part.end;
        const std::size_t offset = part.begin - old->pages.begin;
        if (!is_referenced) {
            free_pages(*old, part);
            continue;
        }
        auto extent = std::make_unique<page_extent>(*old);
        extent->pages = part;
        extent->file_offset += offset;
        extent->shm_offset += offset;
        extent->device += offset;
        extent->hashes = static_cast<unsigned char *>(old->hashes) + hash_bytes_for(offset);
        const auto first =
            old->ref_counts.begin() + static_cast<std::ptrdiff_t>(offset / page_size_);
        extent->ref_counts.assign(first,
                                  first + static_cast<std::ptrdiff_t>(part.size() / page_size_));
        extents_[part.begin] = std::move(extent);
    }
}

void page_store::unlink_shm() noexcept {
    for (const auto &[id, weak_object] : shm_objects_)
        if (const std::shared_ptr<shm_object> object = weak_object.lock())
            object->unlink_if_unused();
}

page_store::~page_store() {
    for (const auto &[addr, extent] : extents_)
        free_pages(*extent, extent->pages);
    extents_.clear();
    file_.close();
}

} // namespace coherdma::emulation

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

page_store::page_store(std::size_t page_size, std::size_t hash_bytes) noexcept
    : page_size_(page_size)
    , hash_bytes_(hash_bytes)
    , file_(memfd_create("coherdma: pages of the device", MFD_CLOEXEC))
    , slabs_(page_size, hash_bytes) {}

namespace {

/// The bytes of memory that are available. If that is not known, all are.
std::size_t read_available_memory() noexcept {
    std::FILE *const meminfo = std::fopen("/proc/meminfo", "re");
    unsigned long long kilobytes = 0;
    bool is_known = false;
    for (char line[128]; meminfo != nullptr && !is_known && std::fgets(line, sizeof line, meminfo);)
        is_known = std::sscanf(line, "MemAvailable: %llu", &kilobytes) == 1;
    if (meminfo != nullptr)
        std::fclose(meminfo);
    return is_known ? kilobytes * 1024 : ~std::size_t{0};
}

} // namespace

std::size_t page_store::hash_bytes_for(std::size_t length) const noexcept {
    return length / page_size_ * hash_bytes_;
}

/// Whether that much memory is available: the kernel overcommits, and would kill the process later.
/// Looks again when a part of what was available is allocated.
bool page_store::is_available(std::size_t bytes) noexcept {
    constexpr std::size_t PARTS = 64;
    if (bytes > num_available_) {
        const std::size_t available = read_available_memory();
        if (bytes >= available)
            return false;
        num_available_ = std::max(available / PARTS, bytes);
    }
    num_available_ -= bytes;
    return true;
}

std::uint32_t &page_store::ref_count(const page_extent &extent,
                                     std::uintptr_t page) const noexcept {
    return extent.ref_counts[(page - extent.pages.begin) / page_size_];
}

/// Allocates now: if memory runs out at the first store to a page, the kernel kills the process.
/// In chunks, because a signal interrupts posix_fallocate and the call starts over.
int page_store::allocate(std::uint64_t offset, std::size_t length) noexcept {
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
    if (object != nullptr)
        return object;
    object = shm_object::open(id, page_size_, hash_bytes_, reason);
    weak_object = object;
    if (shm_objects_.size() > max_shm_objects_) { // forgets those that are not open any more
        std::erase_if(shm_objects_, [](const auto &entry) { return entry.second.expired(); });
        max_shm_objects_ = 2 * shm_objects_.size() + 1;
    }
    return object;
}

/// Maps the extent's part of the file and adds it to extents, without allocating its pages. Returns
/// 0 or an errno.
int page_store::map_extent(std::unique_ptr<page_extent> extent, extent_map &extents) {
    const std::size_t length = extent->pages.size();
    if (extent->shared != nullptr) {
        extent->fd = extent->shared->fd();
        extent->file_offset = shm_object::page_offset(extent->shm_offset);
        extent->shared_pages =
            std::make_shared<file_mapping>(extent->fd, extent->file_offset, length);
        extent->shared_hashes = std::make_shared<file_mapping>(
            extent->fd, extent->shared->hashes_offset(extent->shm_offset), hash_bytes_for(length));
        extent->device = extent->shared_pages->addr();
        extent->hashes = extent->shared_hashes->addr();
    } else {
        extent->private_pages = slabs_.get_part(fd(), length);
        extent->fd = fd();
        extent->file_offset = extent->private_pages->file_offset();
        extent->device = extent->private_pages->device;
        extent->hashes = extent->private_pages->hashes;
    }
    if (extent->device == nullptr || extent->hashes == nullptr)
        return ENOMEM;
    extent->all_ref_counts = std::make_shared<std::vector<std::uint32_t>>(length / page_size_);
    extent->ref_counts = extent->all_ref_counts->data();
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
            extent.shared->num_refs(extent.shm_offset + page * page_size_) == 1);
}

bool page_store::is_registered_elsewhere(const page_extent &extent,
                                         std::uintptr_t addr) const noexcept {
    const std::size_t page = (addr - extent.pages.begin) / page_size_;
    return extent.shared != nullptr &&
           (!has_no_other_holder(extent, addr) ||
            extent.shared->num_refs(extent.shm_offset + page * page_size_) != 1);
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
        drop_unreferenced(it++, part);
    }
}

/// Frees those of these pages of the extent that have no reference, and replaces the extent by
/// extents of the other pages.
void page_store::drop_unreferenced(extent_map::iterator it, addr_range pages) {
    const auto is_referenced = [this, it](std::uintptr_t page) {
        return ref_count(*it->second, page) != 0;
    };
    std::vector<addr_range> unreferenced;
    for (std::uintptr_t page = pages.begin; page < pages.end; page += page_size_) {
        if (is_referenced(page))
            continue;
        if (unreferenced.empty() || unreferenced.back().end != page)
            unreferenced.push_back({page, page});
        unreferenced.back().end = page + page_size_;
    }
    if (unreferenced.empty())
        return;
    const std::unique_ptr<page_extent> old = std::move(it->second);
    extents_.erase(it);
    std::uintptr_t rest = old->pages.begin;
    for (const addr_range part : unreferenced) {
        add_part(*old, {rest, part.begin});
        free_pages(*old, part);
        rest = part.end;
    }
    add_part(*old, {rest, old->pages.end});
}

/// Adds an extent of a part of the pages of a former one.
void page_store::add_part(const page_extent &former, addr_range pages) {
    if (pages.empty())
        return;
    const std::size_t offset = pages.begin - former.pages.begin;
    auto extent = std::make_unique<page_extent>(former);
    extent->pages = pages;
    extent->file_offset += offset;
    extent->shm_offset += offset;
    extent->device += offset;
    extent->hashes = static_cast<unsigned char *>(former.hashes) + hash_bytes_for(offset);
    extent->ref_counts += offset / page_size_;
    extents_[pages.begin] = std::move(extent);
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

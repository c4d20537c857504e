// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The device's pages: one for each page of the program that is registered, however often. They are
// pages of files in memory: another process can map them at the program's address; this process
// maps them elsewhere.
#pragma once

#include "addr_range.hpp"
#include "own_descriptor.hpp"
#include "shared_mappings.hpp"

#include <cerrno>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace coherdma::emulation {

class shm_object;

/// Maps a part of a file, or anonymous memory (fd -1). Children of fork() do not inherit it.
class file_mapping {
  public:
    file_mapping(int fd, std::uint64_t offset, std::size_t length) noexcept;
    ~file_mapping();
    file_mapping(const file_mapping &) = delete;
    file_mapping &operator=(const file_mapping &) = delete;

    /// nullptr: mmap failed.
    [[nodiscard]] unsigned char *addr() const noexcept { return addr_; }

  private:
    void *pages_ = nullptr;
    std::size_t length_ = 0;
    unsigned char *addr_ = nullptr;
};

/// Contiguous pages of the program with contiguous pages of a file. Each has a reference.
struct page_extent {
    addr_range pages;
    int fd = -1;
    std::uint64_t file_offset = 0;
    unsigned char *device = nullptr; ///< where this process maps the device's pages
    void *hashes = nullptr; ///< stored_hash of each line, of when both copies were last equal
    std::vector<std::uint32_t> ref_counts; ///< of each page: registrations that cover it

    std::shared_ptr<shm_object> shared; ///< nullptr: only this process has these pages
    std::uint64_t shm_offset = 0;       ///< of the first page, in the pages of `shared`
    std::shared_ptr<file_mapping> device_mapping, hashes_mapping;
};

/// Not thread-safe.
class page_store {
  public:
    /// hash_bytes: the size of the hashes of one page's lines.
    page_store(std::size_t page_size, std::size_t hash_bytes) noexcept;
    ~page_store();
    page_store(const page_store &) = delete;
    page_store &operator=(const page_store &) = delete;

    using visitor = std::function<void(addr_range, page_extent &)>;

    /// Takes a reference to the device's page for each of these pages; init fills those that are
    /// new. Returns 0 or an errno: then no reference is taken. Shared memory has one device page
    /// for all processes and addresses; if that is not possible, NO_SHM_OBJECT is returned and
    /// *reason set. With nullptr for reason, all pages are treated as private.
    int get_pages(addr_range pages, const visitor &init, std::string *reason = nullptr);
    static constexpr int NO_SHM_OBJECT = ENOTSUP;
    /// Drops a reference to each page, and frees those without any.
    void put_pages(addr_range pages);

    /// Calls func for each part of the range that has device pages, in address order. No other
    /// process moves lines of that part during the call.
    void visit(addr_range range, const visitor &func);
    /// During visit(): whether no other process has the page of that address,
    [[nodiscard]] bool has_no_other_holder(const page_extent &, std::uintptr_t addr) const noexcept;
    /// and this process has one reference to it.
    [[nodiscard]] bool is_last_ref(const page_extent &, std::uintptr_t addr) const noexcept;

    /// Before the process ends: removes files of shared memory that no other process uses.
    void unlink_shm() noexcept;

    /// The file of private pages.
    [[nodiscard]] int fd() const noexcept { return file_.fd(); }
    /// The memory used for pages and hashes.
    [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

  private:
    using extent_map = std::map<std::uintptr_t, std::unique_ptr<page_extent>>;

    int map_pages(addr_range pages, extent_map &, std::string *reason);
    int map_extent(std::unique_ptr<page_extent>, extent_map &);
    std::shared_ptr<shm_object> open_shm_object(shm_id, std::string &reason);
    int allocate_extent(page_extent &, const visitor &init);
    void punch_hole(const page_extent &, addr_range pages) const noexcept;
    void free_pages(const page_extent &, addr_range pages) noexcept;
    int allocate(std::uint64_t offset, std::size_t length) const noexcept;
    void drop_unreferenced(extent_map::iterator);
    [[nodiscard]] std::size_t hash_bytes_for(std::size_t length) const noexcept;
    std::uint32_t &ref_count(page_extent &, std::uintptr_t page) const noexcept;

    std::size_t page_size_, hash_bytes_, bytes_ = 0;
    own_descriptor file_;
    std::uint64_t file_end_ = 0;
    extent_map extents_;
    std::map<shm_id, std::weak_ptr<shm_object>> shm_objects_;
};

} // namespace coherdma::emulation

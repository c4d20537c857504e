// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The device's pages: one for each page of the program that is registered, however often. They are
// pages of files in memory: another process can map them at the program's address; this process
// maps them elsewhere.
#pragma once

#include "addr_range.hpp"
#include "own_descriptor.hpp"
#include "page_slabs.hpp"
#include "shared_mappings.hpp"

#include <cerrno>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace coherdma::emulation {

class shm_object;

/// Contiguous pages of the program with contiguous pages of a file. Each has a reference.
struct page_extent {
    addr_range pages;
    int fd = -1;
    std::uint64_t file_offset = 0;
    unsigned char *device = nullptr; ///< where this process maps the device's pages
    void *hashes = nullptr; ///< stored_hash of each line, of when both copies were last equal
    std::uint32_t *ref_counts = nullptr; ///< of each page: registrations that cover it

    std::shared_ptr<shm_object> shared; ///< nullptr: only this process has these pages
    std::uint64_t shm_offset = 0;       ///< of the first page, in the pages of `shared`
    // What the pointers point into. Parts of an extent share it.
    std::shared_ptr<page_slabs::part> private_pages;
    std::shared_ptr<file_mapping> shared_pages, shared_hashes;
    std::shared_ptr<std::vector<std::uint32_t>> all_ref_counts;
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
    /// During visit(): whether another process has the page of that address, or this one at
    /// another address.
    [[nodiscard]] bool is_registered_elsewhere(const page_extent &,
                                               std::uintptr_t addr) const noexcept;

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
    [[nodiscard]] bool is_available(std::size_t bytes) noexcept;
    std::shared_ptr<shm_object> open_shm_object(shm_id, std::string &reason);
    int allocate_extent(page_extent &, const visitor &init);
    void punch_hole(const page_extent &, addr_range pages) const noexcept;
    void free_pages(const page_extent &, addr_range pages) noexcept;
    int allocate(std::uint64_t offset, std::size_t length) noexcept;
    void drop_unreferenced(extent_map::iterator, addr_range pages);
    void add_part(const page_extent &, addr_range pages);
    [[nodiscard]] std::size_t hash_bytes_for(std::size_t length) const noexcept;
    std::uint32_t &ref_count(const page_extent &, std::uintptr_t page) const noexcept;

    std::size_t page_size_, hash_bytes_, bytes_ = 0;
    own_descriptor file_;
    page_slabs slabs_;
    std::size_t num_available_ = 0; ///< bytes, when last looked at, less what was allocated since
    extent_map extents_;
    std::map<shm_id, std::weak_ptr<shm_object>> shm_objects_;
    std::size_t max_shm_objects_ = 64; ///< until those that are closed are forgotten
};

} // namespace coherdma::emulation

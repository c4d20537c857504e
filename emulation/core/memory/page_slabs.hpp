// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Where in a file private pages are, and where this process maps them and their hashes. Many small
// parts share a mapping, as a process may have 65,530.
#pragma once

#include "file_mapping.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <utility>

namespace coherdma::emulation {

/// Address space only: the caller allocates the pages, and frees them. Not thread-safe.
class page_slabs {
  public:
    /// A part of the file; its destructor gives it back.
    class part {
      public:
        part(page_slabs *slabs, std::uint64_t file_offset, std::size_t length) noexcept
            : slabs_(slabs)
            , file_offset_(file_offset)
            , length_(length) {}
        ~part();
        part(const part &) = delete;
        part &operator=(const part &) = delete;

        [[nodiscard]] std::uint64_t file_offset() const noexcept { return file_offset_; }
        /// nullptr: mmap failed.
        unsigned char *device = nullptr, *hashes = nullptr;

      private:
        friend class page_slabs;
        page_slabs *slabs_; ///< nullptr: it has its own mappings
        std::uint64_t file_offset_;
        std::size_t length_;
        std::unique_ptr<file_mapping> device_mapping_, hashes_mapping_;
    };

    page_slabs(std::size_t page_size, std::size_t hash_bytes) noexcept
        : page_size_(page_size)
        , hash_bytes_(hash_bytes) {}

    /// length: whole pages.
    std::shared_ptr<part> get_part(int fd, std::size_t length);

  private:
    struct slab {
        file_mapping device, hashes;
    };
    void add_free(std::uint64_t offset, std::uint64_t end);
    void put_part(std::uint64_t offset, std::size_t length) noexcept;
    bool add_slab(int fd);

    std::size_t page_size_, hash_bytes_;
    std::uint64_t file_end_ = 0;
    std::map<std::uint64_t, slab> slabs_;                            ///< by file offset
    std::map<std::uint64_t, std::uint64_t> free_;                    ///< end by begin
    std::set<std::pair<std::uint64_t, std::uint64_t>> free_by_size_; ///< length and begin
};

} // namespace coherdma::emulation

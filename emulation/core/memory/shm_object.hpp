// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The device's pages of memory that processes share, and the hashes of their lines. They are in a
// file in /dev/shm named after that memory, so all processes of a user find it: one device page for
// each page, whichever process registers it, at whatever address. A device page is separate from
// the program's page as long as a live process holds it.
#pragma once

#include "own_descriptor.hpp"
#include "shared_mappings.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <pthread.h>
#include <string>
#include <unordered_map>

namespace coherdma::emulation {

/// Offsets are those in the shared memory.
class shm_object {
  public:
    /// nullptr: see reason. hash_bytes: the size of the hashes of one page's lines, the same for
    /// all processes that open it.
    static std::shared_ptr<shm_object> open(shm_id, std::size_t page_size, std::size_t hash_bytes,
                                            std::string &reason);
    ~shm_object();
    shm_object(const shm_object &) = delete;
    shm_object &operator=(const shm_object &) = delete;

    [[nodiscard]] int fd() const noexcept { return file_.fd(); }
    /// The offset in the file of the device's page,
    [[nodiscard]] static std::uint64_t page_offset(std::uint64_t offset) noexcept;
    /// and of the hashes of its lines.
    [[nodiscard]] std::uint64_t hashes_offset(std::uint64_t offset) const noexcept;

    using page_visitor = std::function<void(std::uint64_t offset, std::uint64_t length)>;
    /// Takes a reference to each page. Calls init, under the mutex, for pages that no live process
    /// held. Returns 0 or an errno: then no reference is taken.
    int get_pages(std::uint64_t offset, std::uint64_t length, const page_visitor &init);
    void put_pages(std::uint64_t offset, std::uint64_t length) noexcept;

    /// Robust; protects lines while they are compared or moved, and the header.
    [[nodiscard]] pthread_mutex_t &mutex() noexcept;
    /// With the mutex: whether no other live process holds the page.
    [[nodiscard]] bool has_no_other_holder(std::uint64_t offset) noexcept;
    /// With the mutex: how many mappings of the page in this process have MRs.
    [[nodiscard]] std::uint32_t num_refs(std::uint64_t offset) const noexcept;

    /// Before the process ends: removes the file unless another process has it open.
    void unlink_if_unused() noexcept;

  private:
    struct header;
    shm_object(int fd, header *, std::string name, std::size_t page_size, std::size_t hash_bytes);
    static std::shared_ptr<shm_object> try_open(const std::string &name, std::size_t page_size,
                                                std::size_t hash_bytes, std::string &reason,
                                                bool &retry);
    bool claim_slot() noexcept;
    [[nodiscard]] std::uint64_t other_live_slots() const noexcept;
    [[nodiscard]] std::uint64_t read_holders(std::uint64_t offset) const noexcept;
    bool write_holders(std::uint64_t offset, std::uint64_t holders) const noexcept;
    [[nodiscard]] int allocate(std::uint64_t file_offset, std::uint64_t length) const noexcept;
    void put_page(std::uint64_t offset, std::uint64_t other_slots) noexcept;

    own_descriptor file_;
    header *header_;
    std::string name_;
    std::size_t page_size_, hash_bytes_;
    std::uint64_t slot_bit_ = 0; ///< of this process, in the holders of a page
    std::unordered_map<std::uint64_t, std::uint32_t> ref_counts_; ///< of this process, by offset
    std::optional<std::uint64_t> cached_other_slots_;             ///< since the mutex was taken
};

} // namespace coherdma::emulation

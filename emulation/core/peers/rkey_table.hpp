// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The rkeys that a process publishes: a hash table in a file that processes share. Only its owner
// changes it, and maps it for that. Others read it by pread(): the owner may be changing it or have
// been killed, and a part that it has not allocated reads as zeros. They take no lock of it.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <span>

namespace coherdma::emulation {

struct rkey_entry {
    std::uint32_t rkey = 0, driver_number = 0; ///< driver_number 0: the entry is free
    std::uint64_t iova = 0, length = 0;
    std::uint64_t publisher = 0; ///< which device of the process: two may have the same rkey
};

/// In mapped memory of the file.
struct rkey_table_state {
    std::atomic<std::uint32_t> sequence; ///< odd while the owner changes the table
    std::atomic<std::uint32_t> capacity; ///< number of entries, a power of two; 0: no table
};

/// Memory that a request names.
struct remote_memory {
    std::uint32_t driver_number = 0, rkey = 0;
    std::uint64_t addr = 0, length = 0;
};

/// Where the entries are.
struct rkey_table_place {
    int fd = -1;
    std::uint64_t offset = 0; ///< of MAX_BYTES bytes
    rkey_table_state *state = nullptr;
};

class rkey_table {
  public:
    static constexpr std::uint32_t MIN_CAPACITY = 256, MAX_CAPACITY = 262144;
    static constexpr std::uint32_t MAX_RKEYS = MAX_CAPACITY / 2;
    static constexpr std::uint64_t MAX_BYTES = MAX_CAPACITY * sizeof(rkey_entry);

    /// For the owner: empties it.
    explicit rkey_table(const rkey_table_place &);
    ~rkey_table();
    rkey_table(const rkey_table &) = delete;
    rkey_table &operator=(const rkey_table &) = delete;

    /// 0 or an errno. ENOSPC: the file system is full, or there are MAX_RKEYS.
    int add(const rkey_entry &) noexcept;
    /// Removes what this publisher has added. Without effect if there is none.
    void remove(std::uint32_t driver_number, std::uint32_t rkey, std::uint64_t publisher) noexcept;
    /// Before the process ends: empties it and frees its memory.
    void clear() noexcept;

    enum class answer : std::uint8_t {
        ABSENT,
        PRESENT,
        BUSY ///< the owner changes the table
    };
    /// For other processes: whether the owner has published such memory. sequence: that of BUSY.
    static answer find(const rkey_table_place &, const remote_memory &,
                       std::uint32_t &sequence) noexcept;

  private:
    int grow();
    void insert(const rkey_entry &) noexcept;

    const rkey_table_place place_;
    std::mutex mutex_; ///< protects the following
    std::span<rkey_entry> entries_;
    std::uint32_t num_used_ = 0;
};

} // namespace coherdma::emulation

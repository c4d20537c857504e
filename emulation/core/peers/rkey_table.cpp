// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Open addressing with linear probing; no more than half of the entries are used. If one is
// removed, those behind it move up, so that a search ends at the first free one.

#include "rkey_table.hpp"

#include "core/memory/private_shm.hpp"
#include "core/memory/slot_lock.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <fcntl.h>
#include <new>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

namespace coherdma::emulation {
namespace {

std::uint32_t home_of(std::uint32_t driver_number, std::uint32_t rkey,
                      std::uint32_t capacity) noexcept {
    const std::uint64_t key = std::uint64_t{driver_number} << 32 | rkey;
    // The high bits of the product depend on all bits of the key.
    return static_cast<std::uint32_t>(key * 0x9e3779b97f4a7c15 >> 40) & (capacity - 1);
}

bool is_capacity(std::uint32_t capacity) noexcept {
    return capacity >= rkey_table::MIN_CAPACITY && capacity <= rkey_table::MAX_CAPACITY &&
           (capacity & (capacity - 1)) == 0;
}

bool contains(const rkey_entry &entry, const remote_memory &memory) noexcept {
    return entry.driver_number == memory.driver_number && entry.rkey == memory.rkey &&
           memory.addr >= entry.iova && memory.addr - entry.iova <= entry.length &&
           memory.length <= entry.length - (memory.addr - entry.iova);
}

/// While it exists, the sequence is odd. A reader that has seen a part of the change finds another
/// sequence afterwards.
class change_scope {
  public:
    explicit change_scope(rkey_table_state &state) noexcept
        : state_(state) {
        state_.sequence.store(state_.sequence.load(std::memory_order_relaxed) | 1,
                              std::memory_order_relaxed);
        // The stores to entries are not visible before it.
        std::atomic_thread_fence(std::memory_order_release);
    }
    ~change_scope() {
        // Release: they are visible before it.
        state_.sequence.store((state_.sequence.load(std::memory_order_relaxed) | 1) + 1,
                              std::memory_order_release);
    }
    change_scope(const change_scope &) = delete;
    change_scope &operator=(const change_scope &) = delete;

  private:
    rkey_table_state &state_;
};

/// Searches the table of this capacity as the file has it now.
bool search(const rkey_table_place &place, const remote_memory &memory,
            std::uint32_t capacity) noexcept {
    constexpr std::uint32_t WINDOW = 16;
    static_assert(rkey_table::MIN_CAPACITY % WINDOW == 0);
    std::array<rkey_entry, WINDOW> window;
    std::uint32_t index = home_of(memory.driver_number, memory.rkey, capacity);
    for (std::uint32_t num_read = 0; num_read < capacity;) {
        const std::uint32_t count = std::min(WINDOW, capacity - index);
        const auto size = static_cast<ssize_t>(count * sizeof(rkey_entry));
        const auto offset = static_cast<off_t>(place.offset + index * sizeof(rkey_entry));
        if (pread(place.fd, window.data(), static_cast<std::size_t>(size), offset) != size)
            return false;
        for (std::uint32_t i = 0; i < count; ++i) {
            if (window[i].driver_number == 0)
                return false;
            if (contains(window[i], memory))
                return true;
        }
        num_read += count;
        index = (index + count) & (capacity - 1);
    }
    return false;
}

} // namespace

rkey_table::rkey_table(const rkey_table_place &place)
    : place_(place) {
    clear(); // of the slot's former process
}

rkey_table::~rkey_table() {
    munmap(entries_.data(), entries_.size_bytes());
}

void rkey_table::clear() noexcept {
    const std::lock_guard guard(mutex_);
    const change_scope change(*place_.state);
    place_.state->capacity.store(0, std::memory_order_relaxed);
    if (!entries_.empty())
        munmap(entries_.data(), entries_.size_bytes());
    entries_ = {};
    num_used_ = 0;
    fallocate(place_.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
              static_cast<off_t>(place_.offset), static_cast<off_t>(MAX_BYTES));
}

/// Doubles the capacity. 0 or an errno: then it is as before.
int rkey_table::grow() {
    const auto capacity =
        entries_.empty() ? MIN_CAPACITY : static_cast<std::uint32_t>(entries_.size() * 2);
    if (capacity > MAX_CAPACITY)
        return ENOSPC;
    const std::size_t size = capacity * sizeof(rkey_entry);
    if (const int error = allocate_shm(place_.fd, place_.offset, size))
        return error;
    std::vector<rkey_entry> used;
    used.reserve(num_used_);
    std::copy_if(entries_.begin(), entries_.end(), std::back_inserter(used),
                 [](const rkey_entry &entry) { return entry.driver_number != 0; });
    void *const mapped = map_slot_file(place_.fd, size, static_cast<off_t>(place_.offset));
    if (mapped == MAP_FAILED)
        return errno;
    if (!entries_.empty())
        munmap(entries_.data(), entries_.size_bytes());
    const change_scope change(*place_.state);
    entries_ = {static_cast<rkey_entry *>(mapped), capacity};
    std::fill(entries_.begin(), entries_.end(), rkey_entry{});
    place_.state->capacity.store(capacity, std::memory_order_relaxed);
    num_used_ = static_cast<std::uint32_t>(used.size());
    for (const rkey_entry &entry : used)
        insert(entry);
    return 0;
}

/// With room for it, in a change_scope. Other processes may write to the file, too: the search for
/// a free entry ends in any case.
void rkey_table::insert(const rkey_entry &added) noexcept {
    const auto capacity = static_cast<std::uint32_t>(entries_.size());
    std::uint32_t index = home_of(added.driver_number, added.rkey, capacity);
    for (std::uint32_t i = 0; i < capacity && entries_[index].driver_number != 0; ++i)
        index = (index + 1) & (capacity - 1);
    entries_[index] = added;
}

int rkey_table::add(const rkey_entry &added) noexcept try {
    const std::lock_guard guard(mutex_);
    if ((num_used_ + 1) * 2 > entries_.size())
        if (const int error = grow())
            return error == EFBIG ? ENOSPC : error;
    const change_scope change(*place_.state);
    insert(added);
    ++num_used_;
    return 0;
} catch (const std::bad_alloc &) {
    return ENOMEM;
}

void rkey_table::remove(std::uint32_t driver_number, std::uint32_t rkey,
                        std::uint64_t publisher) noexcept {
    const std::lock_guard guard(mutex_);
    if (entries_.empty())
        return;
    const auto capacity = static_cast<std::uint32_t>(entries_.size());
    const auto next = [=](std::uint32_t index) {
        return (index + 1) & (capacity - 1);
    };
    std::uint32_t hole = home_of(driver_number, rkey, capacity);
    for (std::uint32_t i = 0; i < capacity; ++i, hole = next(hole)) {
        const rkey_entry &entry = entries_[hole];
        if (entry.driver_number == 0)
            return;
        if (entry.driver_number == driver_number && entry.rkey == rkey &&
            entry.publisher == publisher)
            break;
    }
    const change_scope change(*place_.state);
    num_used_ -= num_used_ != 0 ? 1 : 0;
    std::uint32_t last = hole;
    for (std::uint32_t i = 0; i < capacity; ++i) {
        last = next(last);
        if (entries_[last].driver_number == 0)
            break;
        // It may move to the hole if that is not before its home.
        const std::uint32_t home =
            home_of(entries_[last].driver_number, entries_[last].rkey, capacity);
        if (((last - home) & (capacity - 1)) >= ((last - hole) & (capacity - 1))) {
            entries_[hole] = entries_[last];
            hole = last;
        }
    }
    entries_[hole] = {};
}

rkey_table::answer rkey_table::find(const rkey_table_place &place, const remote_memory &memory,
                                    std::uint32_t &sequence) noexcept {
    constexpr int MAX_TRIES = 100; // while the owner publishes other rkeys
    for (int i = 0; i < MAX_TRIES; ++i) {
        // Acquire: pairs with the release of the owner's last change.
        sequence = place.state->sequence.load(std::memory_order_acquire);
        if ((sequence & 1) != 0)
            continue;
        const std::uint32_t capacity = place.state->capacity.load(std::memory_order_relaxed);
        const bool is_found = is_capacity(capacity) && search(place, memory, capacity);
        // The reads are before the second load of the sequence.
        std::atomic_thread_fence(std::memory_order_acquire);
        if (place.state->sequence.load(std::memory_order_relaxed) == sequence)
            return is_found ? answer::PRESENT : answer::ABSENT;
    }
    return answer::BUSY;
}

} // namespace coherdma::emulation

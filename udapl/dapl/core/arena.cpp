// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "arena.hpp"

#include "lock.hpp"

#include <algorithm>
#include <array>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#ifdef COHERDMA_ASAN
#    include <sanitizer/asan_interface.h>
#endif

namespace coherdma::dapl::object_arena {

namespace {

// Address space is reserved with PROT_NONE and made accessible in chunks, so that neither mlockall
// nor strict overcommit accounts for all of it. Under a limit of RLIMIT_AS only a part of that is
// reserved, since the rest is for the program.
constexpr std::size_t max_reserved = std::size_t{1} << 30;
constexpr std::size_t min_reserved = std::size_t{1} << 24;
constexpr rlim_t reserved_part_of_limit = 16;
constexpr std::size_t num_types = DAT_HANDLE_TYPE_EXTENSION_BASE;
// Slots are carved from chunks of this size, each for one type.
constexpr std::size_t chunk_size = 64 * 1024;
constexpr std::size_t slot_alignment = 64;

struct free_slot {
    slot head; // stays: a call with a stale handle reads it, and may add to `users` for a moment
    free_slot *next;
};

// AddressSanitizer reports accesses to a free slot.
#ifdef COHERDMA_ASAN
void poison(free_slot *freed, std::size_t size) noexcept {
    ASAN_POISON_MEMORY_REGION(freed + 1, size - sizeof *freed);
}
void unpoison(free_slot *freed, std::size_t size) noexcept {
    ASAN_UNPOISON_MEMORY_REGION(freed, size);
}
#else
void poison(free_slot *, std::size_t) noexcept {}
void unpoison(free_slot *, std::size_t) noexcept {}
#endif

/// The slots of one type without an object.
struct type_slots {
    void push_freed(free_slot *added) noexcept {
        added->next = nullptr;
        (freed_tail != nullptr ? freed_tail->next : freed) = added;
        freed_tail = added;
        ++num_freed;
    }
    free_slot *pop_freed() noexcept {
        free_slot *const oldest = freed;
        freed = oldest->next;
        if (freed == nullptr)
            freed_tail = nullptr;
        --num_freed;
        return oldest;
    }

    free_slot *unused;             ///< had no object yet
    free_slot *freed, *freed_tail; ///< the oldest first
    std::size_t num_freed;
};

constexpr std::size_t slot_size(std::size_t object_size) {
    return (object_size + slot_alignment - 1) / slot_alignment * slot_alignment;
}

struct {
    mutex lock;
    std::atomic<std::uintptr_t> begin = 0;
    std::atomic<std::size_t> used = 0; ///< bytes from begin that are slots
    std::size_t size = 0;
    std::size_t accessible = 0; ///< bytes from begin that are not PROT_NONE: whole chunks
    std::array<type_slots, num_types> types = {};
} state;

/// In the child of a fork: of the parent's range what had objects stays mapped, as zeros, so that
/// their handles are invalid and the child's objects have others; the child reserves its own range.
void leave_parent_range() noexcept {
    if (state.size == 0)
        return;
    auto *const begin = reinterpret_cast<std::byte *>(state.begin.load(std::memory_order_relaxed));
    unpoison(reinterpret_cast<free_slot *>(begin), state.used.load(std::memory_order_relaxed));
    mmap(begin, state.accessible, PROT_READ | PROT_WRITE,
         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    munmap(begin + state.accessible, state.size - state.accessible);
    state.used.store(0, std::memory_order_relaxed);
    state.size = state.accessible = 0;
    state.types = {};
}

/// Reserves the address range, once. The caller holds state.lock.
bool reserve() noexcept {
    if (state.size != 0)
        return true;
    rlimit limit = {RLIM_INFINITY, RLIM_INFINITY};
    getrlimit(RLIMIT_AS, &limit);
    for (std::size_t size = std::clamp<std::size_t>(limit.rlim_cur / reserved_part_of_limit,
                                                    min_reserved, max_reserved);
         size >= min_reserved; size /= 2) {
        void *const memory =
            mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (memory == MAP_FAILED)
            continue;
        state.size = size;
        state.begin.store(reinterpret_cast<std::uintptr_t>(memory), std::memory_order_release);
        return true;
    }
    return false;
}

/// Makes the first `bytes` bytes of the range accessible. False: out of memory.
bool make_accessible(std::size_t bytes) noexcept {
    const std::size_t end = (bytes + chunk_size - 1) / chunk_size * chunk_size;
    if (end <= state.accessible)
        return true;
    auto *const begin = reinterpret_cast<std::byte *>(state.begin.load(std::memory_order_relaxed));
    if (mprotect(begin + state.accessible, end - state.accessible, PROT_READ | PROT_WRITE) != 0)
        return false;
    state.accessible = end;
    return true;
}

/// Adds a chunk of slots of `step` bytes. False: out of memory or address space.
bool add_chunk(type_slots &slots, std::size_t step) noexcept {
    const std::size_t used = state.used.load(std::memory_order_relaxed);
    const std::size_t bytes = std::max(step, chunk_size / step * step);
    if (state.size - used < bytes || !make_accessible(used + bytes))
        return false;
    const std::uintptr_t begin = state.begin.load(std::memory_order_relaxed) + used;
    for (std::size_t end = bytes; end != 0; end -= step) {
        auto *const added = reinterpret_cast<free_slot *>(begin + end - step);
        added->next = slots.unused;
        slots.unused = added;
        poison(added, step);
    }
    // release: pairs with contains().
    state.used.store(used + bytes, std::memory_order_release);
    return true;
}

} // namespace

void register_atfork() noexcept {
    pthread_atfork(
        [] {
            objects_lock.lock();
            state.lock.lock();
        },
        [] {
            state.lock.unlock();
            objects_lock.unlock();
        },
        [] {
            leave_parent_range();
            state.lock.unlock();
            objects_lock.unlock();
        });
}

/// Reuses the slot that was freed first if more than min_freed were freed, or if there is no other.
/// nullptr: out of memory.
void *alloc(DAT_HANDLE_TYPE type, std::size_t size) noexcept {
    const std::size_t step = slot_size(size);
    const std::lock_guard guard(state.lock);
    if (!reserve())
        return nullptr;
    type_slots &slots = state.types.at(type);
    free_slot *allocated;
    if (slots.num_freed > min_freed ||
        (slots.unused == nullptr && !add_chunk(slots, step) && slots.num_freed != 0)) {
        allocated = slots.pop_freed();
    } else if (slots.unused != nullptr) {
        allocated = slots.unused;
        slots.unused = allocated->next;
    } else {
        return nullptr;
    }
    unpoison(allocated, step);
    return allocated;
}

void free(DAT_HANDLE_TYPE type, std::size_t size, void *memory) noexcept {
    const std::lock_guard guard(state.lock);
    auto *const freed = static_cast<free_slot *>(memory);
    poison(freed, slot_size(size));
    state.types.at(type).push_freed(freed);
}

/// True: the words of a slot may be read at this address.
// acquire: bytes below `used` are accessible, and zero or a slot.
bool contains(const void *handle) noexcept {
    const std::uintptr_t address = reinterpret_cast<std::uintptr_t>(handle);
    const std::size_t used = state.used.load(std::memory_order_acquire);
    return address % slot_alignment == 0 &&
           address - state.begin.load(std::memory_order_relaxed) < used;
}

} // namespace coherdma::dapl::object_arena

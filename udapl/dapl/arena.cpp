// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "arena.hpp"

#include "lock.hpp"

#include <algorithm>
#include <array>
#include <pthread.h>
#include <sys/mman.h>
#ifdef COHERDMA_ASAN
#    include <sanitizer/asan_interface.h>
#endif

namespace coherdma::dapl::arena {

namespace {

// Of addresses only: they become memory a run at a time. So neither a program that locks all its
// memory pays for the rest, nor one where the system promises no more than it has; and tools do not
// search it. Less where a limit allows no more.
constexpr std::size_t most = std::size_t{1} << 30;
constexpr std::size_t least = std::size_t{1} << 24;
constexpr std::size_t kinds = DAT_HANDLE_TYPE_EXTENSION_BASE;
// Slots are laid out for a run at a time, so those of a kind are neighbours.
constexpr std::size_t run = 64 * 1024;

struct free_slot {
    slot head;  // stays as it is: it is looked at
    void *home; // so does the object's IA, for who was faster asking for it than another freeing it
    free_slot *next;
};

// Who uses a slot that is free is found out by the address sanitizer.
#ifdef COHERDMA_ASAN
void close(free_slot *one, std::size_t size) noexcept {
    ASAN_POISON_MEMORY_REGION(one + 1, size - sizeof *one);
}
void open(free_slot *one, std::size_t size) noexcept {
    ASAN_UNPOISON_MEMORY_REGION(one, size);
}
#else
void close(free_slot *, std::size_t) noexcept {}
void open(free_slot *, std::size_t) noexcept {}
#endif

constexpr std::size_t whole(std::size_t size) {
    return (size + 63) / 64 * 64;
}

struct {
    lock guard;
    std::atomic<std::uintptr_t> begin = 0;
    std::atomic<std::size_t> used = 0; ///< bytes from the begin that have been slots
    std::size_t size = 0;
    std::size_t opened = 0; ///< bytes from the begin that are memory: whole runs
    std::array<free_slot *, kinds> free = {};
} all;

bool reserve() noexcept {
    if (all.size != 0)
        return true;
    for (std::size_t size = most; size >= least; size /= 2) {
        void *const memory =
            mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (memory == MAP_FAILED)
            continue;
        madvise(memory, size, MADV_WIPEONFORK);
        all.size = size;
        all.begin.store(reinterpret_cast<std::uintptr_t>(memory), std::memory_order_release);
        // Where the kernel cannot wipe (before 4.14), the child's handles look good, as they
        // did in every uDAPL before.
        pthread_atfork([] { all.guard.lock_it(); }, [] { all.guard.unlock(); },
                       [] {
                           all.free = {};
                           all.used.store(0, std::memory_order_relaxed);
                           all.guard.unlock();
                       });
        return true;
    }
    return false;
}

/// That so many bytes from the begin are memory.
bool reaches(std::size_t bytes) noexcept {
    const std::size_t wanted = (bytes + run - 1) / run * run;
    if (wanted <= all.opened)
        return true;
    auto *const begin = reinterpret_cast<std::byte *>(all.begin.load(std::memory_order_relaxed));
    if (mprotect(begin + all.opened, wanted - all.opened, PROT_READ | PROT_WRITE) != 0)
        return false;
    all.opened = wanted;
    return true;
}

} // namespace

bool ready() noexcept {
    const holding guard(all.guard);
    return reserve();
}

void *take(DAT_HANDLE_TYPE kind, std::size_t size) noexcept {
    const std::size_t step = whole(size);
    const holding guard(all.guard);
    if (!reserve())
        return nullptr;
    free_slot *&first = all.free.at(kind);
    if (first == nullptr) {
        const std::size_t used = all.used.load(std::memory_order_relaxed);
        const std::size_t bytes = std::max(step, run / step * step);
        if (all.size - used < bytes || !reaches(used + bytes))
            return nullptr;
        const std::uintptr_t begin = all.begin.load(std::memory_order_relaxed) + used;
        for (std::size_t at = bytes; at != 0; at -= step) {
            auto *const fresh = reinterpret_cast<free_slot *>(begin + at - step);
            fresh->next = first;
            first = fresh;
            close(fresh, step);
        }
        all.used.store(used + bytes, std::memory_order_release);
    }
    free_slot *const taken = first;
    first = taken->next;
    open(taken, step);
    return taken;
}

void give_back(DAT_HANDLE_TYPE kind, std::size_t size, void *memory) noexcept {
    const holding guard(all.guard);
    auto *const freed = static_cast<free_slot *>(memory);
    close(freed, whole(size));
    freed->next = all.free.at(kind);
    all.free.at(kind) = freed;
}

// acquire: the memory is there, and zero or a slot, once it counts as used.
bool holds(const void *handle) noexcept {
    const std::uintptr_t address = reinterpret_cast<std::uintptr_t>(handle);
    const std::size_t used = all.used.load(std::memory_order_acquire);
    return address % 64 == 0 && address - all.begin.load(std::memory_order_relaxed) < used;
}

} // namespace coherdma::dapl::arena

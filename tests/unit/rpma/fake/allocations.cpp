// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The library allocates by operator new that returns nullptr on failure; tests and the fake
// libraries use the other one, which is not counted. TSan does not see the counters.

#include "objects.hpp"

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace {

/// Before each allocation.
struct alignas(std::max_align_t) header {
    bool is_counted;
};

// relaxed: these order nothing.
std::atomic<unsigned> failing_allocation = 0;
std::atomic<bool> has_failed = false;
std::atomic<long> num_counted = 0;

void *allocate(std::size_t size, bool is_counted) noexcept {
    auto *const memory = static_cast<header *>(std::malloc(sizeof(header) + size));
    if (memory == nullptr)
        return nullptr;
    memory->is_counted = is_counted;
    if (is_counted)
        num_counted.fetch_add(1, std::memory_order_relaxed);
    return memory + 1;
}

void *allocate_counted(std::size_t size) noexcept {
    if (failing_allocation.load(std::memory_order_relaxed) != 0 &&
        failing_allocation.fetch_sub(1, std::memory_order_relaxed) == 1) {
        has_failed.store(true, std::memory_order_relaxed);
        return nullptr;
    }
    return allocate(size, true);
}

void *allocate_or_throw(std::size_t size) {
    void *const memory = allocate(size, false);
    if (memory == nullptr)
        throw std::bad_alloc();
    return memory;
}

void deallocate(void *memory) noexcept {
    if (memory == nullptr)
        return;
    header *const begin = static_cast<header *>(memory) - 1;
    if (begin->is_counted)
        num_counted.fetch_sub(1, std::memory_order_relaxed);
    std::free(begin);
}

} // namespace

void *operator new(std::size_t size) {
    return allocate_or_throw(size);
}
void *operator new[](std::size_t size) {
    return allocate_or_throw(size);
}
void *operator new(std::size_t size, const std::nothrow_t &) noexcept {
    return allocate_counted(size);
}
void *operator new[](std::size_t size, const std::nothrow_t &) noexcept {
    return allocate_counted(size);
}
void operator delete(void *memory) noexcept {
    deallocate(memory);
}
void operator delete(void *memory, std::size_t) noexcept {
    deallocate(memory);
}
void operator delete[](void *memory) noexcept {
    deallocate(memory);
}
void operator delete[](void *memory, std::size_t) noexcept {
    deallocate(memory);
}

namespace fake {

void fail_allocation(unsigned nth) {
    has_failed.store(false, std::memory_order_relaxed);
    failing_allocation.store(nth, std::memory_order_relaxed);
}

bool has_failed_allocation() {
    return has_failed.load(std::memory_order_relaxed);
}

long count_allocations() {
    return num_counted.load(std::memory_order_relaxed);
}

} // namespace fake

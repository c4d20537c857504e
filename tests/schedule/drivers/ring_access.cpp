// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "ring_access.hpp"

#include <atomic>
#include <cstring>

namespace schedule {
namespace {

// std::atomic_ref has none for what is const until C++26.
template <typename number>
number load(const number &shared) {
    return std::atomic_ref(const_cast<number &>(shared)).load(std::memory_order_acquire);
}
template <typename number>
void store(number &shared, number value) {
    std::atomic_ref(shared).store(value, std::memory_order_release);
}

} // namespace

std::uint32_t load_acquire(const std::uint32_t &shared) {
    return load(shared);
}
std::uint16_t load_acquire(const std::uint16_t &shared) {
    return load(shared);
}
std::uint8_t load_acquire(const std::uint8_t &shared) {
    return load(shared);
}

void store_release(std::uint32_t &shared, std::uint32_t value) {
    store(shared, value);
}
void store_release(std::uint16_t &shared, std::uint16_t value) {
    store(shared, value);
}
void store_release(std::uint8_t &shared, std::uint8_t value) {
    store(shared, value);
}

void full_barrier() {
    std::atomic_thread_fence(std::memory_order_seq_cst);
}

void read_entry(void *dest, const void *shared, std::size_t size) {
    std::memcpy(dest, shared, size);
}
void write_entry(void *shared, const void *src, std::size_t size) {
    std::memcpy(shared, src, size);
}
void fill_entry(void *shared, unsigned char value, std::size_t size) {
    std::memset(shared, value, size);
}

} // namespace schedule

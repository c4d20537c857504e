// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// How a fake kernel accesses rings that the driver maps. These functions are compiled for the
// scheduler, as the fake kernels are not: each access is a point, the memory model knows it, and so
// finds an access that the driver does not order with the kernel's.
#pragma once

#include <cstddef>
#include <cstdint>

namespace schedule {

/// smp_load_acquire(). Also stands for a READ_ONCE() on which a later store depends: Linux orders
/// the two, and C++ has nothing weaker for that.
std::uint32_t load_acquire(const std::uint32_t &shared);
std::uint16_t load_acquire(const std::uint16_t &shared);
std::uint8_t load_acquire(const std::uint8_t &shared);

/// smp_store_release()
void store_release(std::uint32_t &shared, std::uint32_t value);
void store_release(std::uint16_t &shared, std::uint16_t value);
void store_release(std::uint8_t &shared, std::uint8_t value);

/// smp_mb()
void full_barrier();

// -- entries

void read_entry(void *dest, const void *shared, std::size_t size);
void write_entry(void *shared, const void *src, std::size_t size);
/// Sets its bytes to a value.
void fill_entry(void *shared, unsigned char value, std::size_t size);

} // namespace schedule

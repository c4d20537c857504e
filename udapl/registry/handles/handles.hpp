// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The provider of a handle. A program may pass any value as a handle; an invalid one is rejected
// without a fault.
//
// Every DAT object begins with the address of its DAT_PROVIDER, which can be read only if the page
// is mapped. Asking the kernel takes a system call, so the page cache has the pages in which
// objects were found, each with the provider found there. Its key is the page's address with bits 3
// to 11 set: a handle with these bits set equals the key only if it is in the page and a multiple
// of 8. The first page is never cached, so NULL and small integers never match.
//
// A page leaves the cache when a handle in it is freed; all leave it when a provider loses its last
// reference. So a cached page held a valid object after the last free in it. The coherdma provider
// never unmaps objects; with another provider, the use of a freed handle may fault.
//
// Ordering:
// - Key and provider of a slot are loaded one after the other and may belong to different stores.
//   The key proves that the handle can be read, the provider may be called in any case, and the
//   handle must begin with it.
// - The provider is stored before the key (release) and loaded after it (acquire): a thread that
//   sees a key sees a provider.
// - A provider's table is written before it is registered; a thread gets a handle of it only from a
//   later call.
// - Caching a page stores its key, then checks that the provider is known. The last
//   unref_provider() makes the provider unknown, then clears all keys. All four are seq_cst, so the
//   check fails or the key is cleared.
#pragma once

#include "dat.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace coherdma::registry {

inline constexpr unsigned PAGE_CACHE_BITS = 10;

struct cached_page {
    std::atomic<std::uintptr_t> key;
    std::atomic<const DAT_PROVIDER *> provider;
};
extern cached_page page_cache[std::size_t{1} << PAGE_CACHE_BITS];

inline std::uintptr_t to_address(DAT_HANDLE handle) noexcept {
    return reinterpret_cast<std::uintptr_t>(handle);
}

inline std::uintptr_t page_key(DAT_HANDLE handle) noexcept {
    return to_address(handle) | 0xff8;
}

/// Multiplicative hashing by the golden ratio; the lower 32 bits of the key suffice.
inline cached_page &find_slot(std::uintptr_t key) noexcept {
    return page_cache[static_cast<std::uint32_t>(key) * 0x9E3779B1U >> (32 - PAGE_CACHE_BITS)];
}

/// The first word of an object that can be read.
inline const DAT_PROVIDER *read_provider(DAT_HANDLE handle) noexcept {
    // Atomic: another thread may free the object, which writes the same value again.
    return std::atomic_ref(*static_cast<const DAT_PROVIDER **>(handle))
        .load(std::memory_order_relaxed);
}

/// Finds the provider of an object in a cached page; it has all functions. False if the page is not
/// cached, or not with this provider. Every DAT call begins with it: a dozen instructions on
/// x86-64.
inline bool find_cached_provider(DAT_HANDLE handle, const DAT_PROVIDER *&provider) noexcept {
    const std::uintptr_t key = page_key(handle);
    const cached_page &slot = find_slot(key);
    if (slot.key.load(std::memory_order_acquire) != key)
        return false;
    provider = slot.provider.load(std::memory_order_relaxed);
    return read_provider(handle) == provider;
}

/// The provider that the handle begins with; NULL if the handle cannot be read or the provider is
/// not known.
const DAT_PROVIDER *find_provider(DAT_HANDLE handle) noexcept;

/// Called after an object was freed: its page may be unmapped.
void uncache_page(DAT_HANDLE handle) noexcept;
void uncache_all_pages() noexcept;

} // namespace coherdma::registry

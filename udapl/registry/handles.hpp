// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// From a handle to its provider. Anything may be given as a handle, and must do no harm.
//
// The first word of an object is its provider's address. That can be seen only by reading it, and
// only where memory is. Asking the kernel takes a system call, so a small table keeps the pages
// where objects were found, and beside each the provider that was found there. A page stands in it
// as its address with the bits 3 to 11 set. A handle with these bits set is equal to that only if
// it lies in this page and is a multiple of 8. NULL and small integers never are, for the first
// page is not kept.
//
// A page is forgotten when a handle in it is freed, and all are when a provider goes. So one is
// kept only while, after the last free, somebody used an object in it. Our own provider never gives
// memory back. Another's may vanish under a handle that was freed and is used nevertheless.
//
// Page and provider are read one after the other, and may be of different times. That does no harm:
// the page says that the handle can be read, and the provider that this one may be called, each by
// itself, and the handle has to agree to the latter. Only must there be a provider as soon as there
// is a page: hence acquire when the page is read, and release (as part of the order below) when it
// is written. What the provider's table holds was written before the provider became known, and
// whoever holds one of its handles got it, on whatever way, from a call that came after.
//
// To enter a page is one thread's "enter, then look whether the provider still is known", to take a
// provider away another's "make unknown, then forget". These four are in the one order of
// sequentially consistent operations, so one of the two sees the other.
#pragma once

#include "dat.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace coherdma::registry {

inline constexpr unsigned KEPT_BITS = 10;

struct kept_page {
    std::atomic<std::uintptr_t> page;
    std::atomic<const DAT_PROVIDER *> provider;
};
extern kept_page kept[std::size_t{1} << KEPT_BITS];

inline std::uintptr_t address_of(DAT_HANDLE handle) noexcept {
    return reinterpret_cast<std::uintptr_t>(handle);
}

inline std::uintptr_t page_of(DAT_HANDLE handle) noexcept {
    return address_of(handle) | 0xff8;
}

/// The golden ratio spreads neighbours; the lower half of the address is enough to tell them apart.
inline kept_page &place_of(std::uintptr_t page) noexcept {
    return kept[static_cast<std::uint32_t>(page) * 0x9E3779B1U >> (32 - KEPT_BITS)];
}

/// Of an object that can be read.
inline const DAT_PROVIDER *first_word(DAT_HANDLE handle) noexcept {
    return *static_cast<const DAT_PROVIDER *const *>(handle);
}

/// Whether it is an object in a kept page of the provider beside it, which then has no gaps. Does
/// what every call of a program waits for: a dozen instructions of x86-64.
inline bool is_kept(DAT_HANDLE handle, const DAT_PROVIDER *&provider) noexcept {
    const std::uintptr_t page = page_of(handle);
    const kept_page &place = place_of(page);
    if (place.page.load(std::memory_order_acquire) != page)
        return false;
    provider = place.provider.load(std::memory_order_relaxed);
    return first_word(handle) == provider;
}

/// The provider that a handle begins with, if that is one that is known; else NULL.
const DAT_PROVIDER *provider_of(DAT_HANDLE handle) noexcept;

/// An object was freed: its page may vanish.
void forget(DAT_HANDLE handle) noexcept;
void forget_all() noexcept;

} // namespace coherdma::registry

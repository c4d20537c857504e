// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Programs know an IA by a small integer, the lowest that is free; the provider by its address.
// There are fewer integers than the first page has bytes, so none is ever taken for an address.
#pragma once

#include "handles.hpp"

namespace coherdma::registry {

struct registration;

inline constexpr std::size_t IA_LIMIT = 4096;

/// The provider's IA for each integer; NULL where none is open, and at 0. Stored with release and
/// loaded with acquire: even who guesses an integer sees a whole IA.
extern std::atomic<DAT_IA_HANDLE> ias[IA_LIMIT];

/// The integer of a provider's IA, as a handle; NULL if there is none.
DAT_IA_HANDLE outside(DAT_IA_HANDLE ia) noexcept;

inline bool is_number(DAT_HANDLE handle) noexcept {
    return address_of(handle) < IA_LIMIT;
}

/// The provider's IA of an integer; NULL if it is none of an open one.
inline DAT_IA_HANDLE ia_numbered(DAT_IA_HANDLE handle) noexcept {
    return ias[address_of(handle)].load(std::memory_order_acquire);
}

/// The provider's handle of any object; NULL if it cannot be one.
inline DAT_HANDLE inside(DAT_HANDLE handle) noexcept {
    return is_number(handle) ? ia_numbered(handle) : handle;
}

/// Under the registry's lock: gives an IA an integer; NULL if there is none, or no memory.
DAT_IA_HANDLE add_ia(DAT_IA_HANDLE ia, registration *through) noexcept;

/// An IA that one thread, and no other, is about to close.
struct closing_ia {
    std::size_t number = 0; ///< 0: it is not open, or being closed already
    DAT_IA_HANDLE ia = nullptr;
    registration *through = nullptr;
};
closing_ia begin_closing(DAT_IA_HANDLE handle) noexcept;
void end_closing(const closing_ia &which, bool closed) noexcept;

/// An IA that was opened under this name; NULL if there is none.
DAT_IA_HANDLE ia_named(const char *name) noexcept;

} // namespace coherdma::registry

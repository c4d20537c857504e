// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The open IAs. The handle of an IA that a program has is its index here; the provider's handle is
// an address. There are fewer indices than bytes in the first page, so an index is never taken for
// an address. Indices are handed out in turn, so that the handle of a closed IA stays invalid until
// all other free indices have been used.
#pragma once

#include "handles.hpp"

namespace coherdma::registry {

struct provider_entry;

inline constexpr std::size_t MAX_IAS = 4096;

/// The provider's handle for each index; NULL if none is open, and at 0. Stored with release and
/// loaded with acquire: even a thread that guesses an index sees a complete IA.
extern std::atomic<DAT_IA_HANDLE> ia_table[MAX_IAS];

/// The index of a provider's IA, as a handle; NULL if it is not open.
DAT_IA_HANDLE to_public_handle(DAT_IA_HANDLE ia) noexcept;

inline bool is_ia_index(DAT_HANDLE handle) noexcept {
    return to_address(handle) < MAX_IAS;
}

/// The provider's handle of the IA with this index; NULL if none is open.
inline DAT_IA_HANDLE find_ia(DAT_IA_HANDLE handle) noexcept {
    return ia_table[to_address(handle)].load(std::memory_order_acquire);
}

/// The provider's handle of any object; NULL for the index of no open IA.
inline DAT_HANDLE to_provider_handle(DAT_HANDLE handle) noexcept {
    return is_ia_index(handle) ? find_ia(handle) : handle;
}

/// Requires registry_lock. Returns the new index; NULL if none is free or memory is exhausted.
DAT_IA_HANDLE add_ia(DAT_IA_HANDLE ia, provider_entry *entry) noexcept;

/// An IA in dat_ia_close.
struct closing_ia {
    std::size_t index = 0; ///< 0: the IA is not open, or another thread is closing it
    DAT_IA_HANDLE ia = nullptr;
    provider_entry *entry = nullptr;
};
closing_ia begin_ia_close(DAT_IA_HANDLE handle) noexcept;
void end_ia_close(const closing_ia &closing, bool closed) noexcept;

/// In the child of a fork: the parent's IAs are not open there, and their handles stay invalid.
/// Indices continue after the parent's, as those of the IAs that it has closed are not used soon.
void forget_ias() noexcept;

/// The provider's handle of an IA opened by this name; NULL if there is none.
DAT_IA_HANDLE find_ia_by_name(const char *name) noexcept;

} // namespace coherdma::registry

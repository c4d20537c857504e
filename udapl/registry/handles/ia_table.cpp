// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "ia_table.hpp"
#include "lock.hpp"
#include "providers/provider_refs.hpp"
#include "providers/provider_table.hpp"

#include <cstring>

namespace coherdma::registry {
namespace {

/// Data of an open IA, protected by registry_lock.
struct {
    provider_entry *entry;
    const DAT_PROVIDER *provider; ///< the first word of the IA
    /// The index must not be reused: dat_ia_close has not returned, or the IA is the parent's.
    bool closing;
} ia_info[MAX_IAS];

// One more than the highest index used so far, to bound searches.
std::atomic<std::size_t> ia_search_end = 1;

// The index that was handed out last, protected by registry_lock.
std::size_t last_index = 0;

/// The next free index after last_index, in turn; 0 if none is free. Those of the IAs of parents
/// are used if there is no other. Requires registry_lock.
std::size_t find_free_index() noexcept {
    std::size_t index = last_index;
    for (const bool uses_parents : {false, true})
        for (std::size_t i = 1; i < MAX_IAS; ++i) {
            index = index + 1 < MAX_IAS ? index + 1 : 1;
            const bool of_parent = ia_info[index].closing && !ia_info[index].entry;
            if (!ia_table[index].load(std::memory_order_relaxed) &&
                (!ia_info[index].closing || (uses_parents && of_parent)))
                return index;
        }
    return 0;
}

/// The index of a provider's IA; 0 if it is not open.
std::size_t find_index(DAT_IA_HANDLE ia) noexcept {
    const std::size_t end = ia_search_end.load(std::memory_order_acquire);
    for (std::size_t i = 1; ia && i < end; ++i) {
        if (ia_table[i].load(std::memory_order_acquire) == ia)
            return i;
    }
    return 0;
}

} // namespace

std::atomic<DAT_IA_HANDLE> ia_table[MAX_IAS];

DAT_IA_HANDLE to_public_handle(DAT_IA_HANDLE ia) noexcept {
    return reinterpret_cast<DAT_IA_HANDLE>(find_index(ia));
}

/// Returns the index of the provider's IA as a handle for programs. Requires registry_lock.
DAT_IA_HANDLE add_ia(DAT_IA_HANDLE ia, provider_entry *entry) noexcept {
    // If the provider has reused the address of an IA in dat_ia_close, that IA is closed, though
    // the closing thread has not returned from the provider yet.
    if (const std::size_t old_index = find_index(ia); old_index != 0 && ia_info[old_index].closing)
        ia_table[old_index].store(nullptr, std::memory_order_release);
    const std::size_t index = find_free_index();
    if (index == 0 || !ref_provider(read_provider(ia)))
        return nullptr;
    last_index = index;
    ia_info[index] = {.entry = entry, .provider = read_provider(ia), .closing = false};
    ia_table[index].store(ia, std::memory_order_release);
    if (index >= ia_search_end.load(std::memory_order_relaxed))
        ia_search_end.store(index + 1, std::memory_order_release);
    return reinterpret_cast<DAT_IA_HANDLE>(index);
}

/// handle: an index, or the provider's handle. Until end_ia_close() no thread can close it again.
closing_ia begin_ia_close(DAT_IA_HANDLE handle) noexcept {
    const std::lock_guard guard(registry_lock);
    const DAT_IA_HANDLE ia = to_provider_handle(handle);
    const std::size_t index = is_ia_index(handle) ? to_address(handle) : find_index(ia);
    if (!ia || index == 0 || ia_info[index].closing)
        return {};
    ia_info[index].closing = true;
    return {index, ia, ia_info[index].entry};
}

/// closed: the provider has closed the IA; else it stays open.
void end_ia_close(const closing_ia &closing, bool closed) noexcept {
    const std::lock_guard guard(registry_lock);
    ia_info[closing.index].closing = false;
    if (!closed)
        return;
    ia_table[closing.index].store(nullptr, std::memory_order_release);
    unref_provider(ia_info[closing.index].provider);
    uncache_page(closing.ia);
}

/// The parent's references of providers stay: their libraries are not unloaded in the child.
void forget_ias() noexcept {
    const std::size_t end = ia_search_end.load(std::memory_order_relaxed);
    for (std::size_t i = 1; i < end; ++i) {
        const bool was_open = ia_table[i].exchange(nullptr, std::memory_order_relaxed) != nullptr;
        ia_info[i] = {
            .entry = nullptr, .provider = nullptr, .closing = was_open || ia_info[i].closing};
    }
}

/// The provider's handle of an open IA with this name; nullptr if there is none.
DAT_IA_HANDLE find_ia_by_name(const char *name) noexcept {
    const std::lock_guard guard(registry_lock);
    const std::size_t end = ia_search_end.load(std::memory_order_relaxed);
    for (std::size_t i = 1; i < end; ++i) {
        const DAT_IA_HANDLE ia = ia_table[i].load(std::memory_order_relaxed);
        if (ia && !ia_info[i].closing && std::strcmp(ia_info[i].entry->info.ia_name, name) == 0)
            return ia;
    }
    return nullptr;
}

} // namespace coherdma::registry

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "handles.hpp"
#include "probe_address.hpp"
#include "providers/provider_refs.hpp"

#include <array>
#include <cstring>

namespace coherdma::registry {
namespace {

// Cached in place of a provider that lacks a function. No handle begins with its address, so calls
// take the slow path, which checks the function.
constexpr DAT_PROVIDER INCOMPLETE = {};

/// Whether each function pointer of the provider is set, so that calls need not check it.
bool has_all_functions(const DAT_PROVIDER *provider) noexcept {
    // From ia_open_func on, all members are function pointers.
    constexpr std::size_t NUM_WORDS = sizeof(DAT_PROVIDER) / sizeof(void *);
    constexpr std::size_t FIRST_FUNCTION = offsetof(DAT_PROVIDER, ia_open_func) / sizeof(void *);
    std::array<void *, NUM_WORDS> words = {};
    std::memcpy(words.data(), provider, sizeof words);
    for (std::size_t i = FIRST_FUNCTION; i < NUM_WORDS; ++i) {
        if (!words[i])
            return false;
    }
    return true;
}

/// Stores that the page with this key has an object of the provider; with INCOMPLETE in its place,
/// if a function is missing, so that calls check each function.
void cache_page(std::uintptr_t key, const DAT_PROVIDER *provider) noexcept {
    cached_page &slot = find_slot(key);
    slot.provider.store(has_all_functions(provider) ? provider : &INCOMPLETE,
                        std::memory_order_relaxed);
    // seq_cst, like the last unref_provider(), which makes the provider unknown and then clears the
    // keys: either it clears this key, or the check below fails.
    slot.key.store(key);
    if (!is_provider_known(provider))
        slot.key.store(0);
}

} // namespace

cached_page page_cache[std::size_t{1} << PAGE_CACHE_BITS];

/// Accepts any value as a handle. NULL unless it is the address of a readable word that has the
/// address of a known provider.
const DAT_PROVIDER *find_provider(DAT_HANDLE handle) noexcept {
    constexpr std::uintptr_t FIRST_PAGE_SIZE = 4096;
    const std::uintptr_t address = to_address(handle);
    if (address < FIRST_PAGE_SIZE || address % sizeof(void *) != 0)
        return nullptr;
    const std::uintptr_t key = page_key(handle);
    const bool is_cached = find_slot(key).key.load(std::memory_order_acquire) == key;
    if (!is_cached && !is_readable(handle))
        return nullptr;
    const DAT_PROVIDER *provider = read_provider(handle);
    if (!is_provider_known(provider))
        return nullptr;
    if (!is_cached)
        cache_page(key, provider);
    return provider;
}

void uncache_page(DAT_HANDLE handle) noexcept {
    const std::uintptr_t key = page_key(handle);
    cached_page &slot = find_slot(key);
    if (slot.key.load(std::memory_order_relaxed) == key)
        slot.key.store(0);
}

void uncache_all_pages() noexcept {
    for (cached_page &slot : page_cache)
        slot.key.store(0);
}

} // namespace coherdma::registry

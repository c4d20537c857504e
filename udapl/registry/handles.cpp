// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "handles.hpp"
#include "providers.hpp"
#include "readable.hpp"

#include <array>
#include <cstring>

namespace coherdma::registry {
namespace {

// Stands for a provider that lacks a function: no handle begins with it, so all calls look closer.
constexpr DAT_PROVIDER WITH_GAPS = {};

bool is_complete(const DAT_PROVIDER *provider) noexcept {
    // Behind the two words of data there are pointers to functions only.
    constexpr std::size_t WORDS = sizeof(DAT_PROVIDER) / sizeof(void *);
    constexpr std::size_t FIRST_FUNCTION = offsetof(DAT_PROVIDER, ia_open_func) / sizeof(void *);
    std::array<void *, WORDS> words = {};
    std::memcpy(words.data(), provider, sizeof words);
    for (std::size_t place = FIRST_FUNCTION; place < WORDS; ++place) {
        if (!words[place])
            return false;
    }
    return true;
}

void keep(std::uintptr_t page, const DAT_PROVIDER *provider) noexcept {
    kept_page &place = place_of(page);
    place.provider.store(is_complete(provider) ? provider : &WITH_GAPS, std::memory_order_relaxed);
    place.page.store(page);
    if (!is_known(provider))
        place.page.store(0);
}

} // namespace

kept_page kept[std::size_t{1} << KEPT_BITS];

const DAT_PROVIDER *provider_of(DAT_HANDLE handle) noexcept {
    constexpr std::uintptr_t FIRST_PAGE = 4096;
    const std::uintptr_t address = address_of(handle);
    if (address < FIRST_PAGE || address % sizeof(void *) != 0)
        return nullptr;
    const std::uintptr_t page = page_of(handle);
    const bool is_kept = place_of(page).page.load(std::memory_order_acquire) == page;
    if (!is_kept && !readable(handle))
        return nullptr;
    const DAT_PROVIDER *provider = first_word(handle);
    if (!is_known(provider))
        return nullptr;
    if (!is_kept)
        keep(page, provider);
    return provider;
}

void forget(DAT_HANDLE handle) noexcept {
    const std::uintptr_t page = page_of(handle);
    kept_page &place = place_of(page);
    if (place.page.load(std::memory_order_relaxed) == page)
        place.page.store(0);
}

void forget_all() noexcept {
    for (kept_page &each : kept)
        each.page.store(0);
}

} // namespace coherdma::registry

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "ias.hpp"
#include "lock.hpp"
#include "providers.hpp"
#include "registrations.hpp"

#include <cstring>

namespace coherdma::registry {
namespace {

/// Of an open IA, under the lock.
struct {
    registration *through;
    const DAT_PROVIDER *table; ///< what it begins with
    bool closing;
} about[IA_LIMIT];

// One behind the highest integer that was ever given, so that a search ends soon.
std::atomic<std::size_t> ias_end = 1;

std::size_t number_of(DAT_IA_HANDLE ia) noexcept {
    const std::size_t end = ias_end.load(std::memory_order_acquire);
    for (std::size_t number = 1; ia && number < end; ++number) {
        if (ias[number].load(std::memory_order_acquire) == ia)
            return number;
    }
    return 0;
}

} // namespace

std::atomic<DAT_IA_HANDLE> ias[IA_LIMIT];

DAT_IA_HANDLE outside(DAT_IA_HANDLE ia) noexcept {
    return reinterpret_cast<DAT_IA_HANDLE>(number_of(ia));
}

DAT_IA_HANDLE add_ia(DAT_IA_HANDLE ia, registration *through) noexcept {
    // If the provider gives an address anew, an IA that is being closed there is gone, though
    // whoever closes it has not yet come back from that.
    if (const std::size_t other = number_of(ia); other != 0 && about[other].closing)
        ias[other].store(nullptr, std::memory_order_release);
    std::size_t number = 1;
    while (number < IA_LIMIT &&
           (ias[number].load(std::memory_order_relaxed) || about[number].closing))
        ++number;
    if (number == IA_LIMIT || !retain(first_word(ia)))
        return nullptr;
    about[number] = {through, first_word(ia), false};
    ias[number].store(ia, std::memory_order_release);
    if (number >= ias_end.load(std::memory_order_relaxed))
        ias_end.store(number + 1, std::memory_order_release);
    return reinterpret_cast<DAT_IA_HANDLE>(number);
}

closing_ia begin_closing(DAT_IA_HANDLE handle) noexcept {
    const locked lock;
    const DAT_IA_HANDLE ia = inside(handle);
    const std::size_t number = is_number(handle) ? address_of(handle) : number_of(ia);
    if (!ia || number == 0 || about[number].closing)
        return {};
    about[number].closing = true;
    return {number, ia, about[number].through};
}

void end_closing(const closing_ia &which, bool closed) noexcept {
    const locked lock;
    about[which.number].closing = false;
    if (!closed)
        return;
    ias[which.number].store(nullptr, std::memory_order_release);
    release(about[which.number].table);
    forget(which.ia);
}

DAT_IA_HANDLE ia_named(const char *name) noexcept {
    const locked lock;
    const std::size_t end = ias_end.load(std::memory_order_relaxed);
    for (std::size_t number = 1; number < end; ++number) {
        const DAT_IA_HANDLE ia = ias[number].load(std::memory_order_relaxed);
        if (ia && !about[number].closing &&
            std::strcmp(about[number].through->info.ia_name, name) == 0)
            return ia;
    }
    return nullptr;
}

} // namespace coherdma::registry

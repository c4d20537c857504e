// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "provider_refs.hpp"
#include "handles/handles.hpp"

#include <array>
#include <cstdlib>
#include <new>

namespace coherdma::registry {
namespace {

/// Changed with registry_lock only; is_provider_known() reads providers and next without it, so
/// blocks are never freed.
struct slot_block {
    std::array<std::atomic<const DAT_PROVIDER *>, 15> providers = {};
    std::atomic<slot_block *> next = nullptr;
    std::array<unsigned, 15> num_refs = {}; ///< 0: the slot is free
};
slot_block first_block;

/// Calls the function for each slot of the reference counts of providers until it returns true.
/// Returns whether it did.
template <typename Function>
bool any_slot(const Function &function) noexcept {
    for (slot_block *it = &first_block; it; it = it->next.load()) {
        for (std::size_t i = 0; i < it->providers.size(); ++i) {
            if (function(*it, i))
                return true;
        }
    }
    return false;
}

/// Gives the provider a slot with one reference. Returns false if no slot is free.
bool fill_free_slot(const DAT_PROVIDER *provider) noexcept {
    return any_slot([provider](slot_block &block, std::size_t i) {
        if (block.num_refs[i] != 0)
            return false;
        block.num_refs[i] = 1;
        block.providers[i].store(provider);
        return true;
    });
}

/// Inserts a block of free slots after the first. Returns false if memory is exhausted.
bool add_block() noexcept {
    // By the C library: the registry does not depend on the C++ runtime.
    void *memory = std::calloc(1, sizeof(slot_block));
    if (!memory)
        return false;
    auto *new_block = new (memory) slot_block;
    new_block->next.store(first_block.next.load());
    first_block.next.store(new_block);
    return true;
}

} // namespace

/// Adds a reference, which makes the provider known to find_provider(). False: no memory. Requires
/// registry_lock.
bool ref_provider(const DAT_PROVIDER *provider) noexcept {
    const bool has_slot = any_slot([provider](slot_block &block, std::size_t i) {
        if (block.providers[i].load() != provider)
            return false;
        ++block.num_refs[i];
        return true;
    });
    return has_slot || fill_free_slot(provider) || (add_block() && fill_free_slot(provider));
}

/// Drops a reference; without any the provider is not known any more. Requires registry_lock.
void unref_provider(const DAT_PROVIDER *provider) noexcept {
    any_slot([provider](slot_block &block, std::size_t i) {
        if (block.providers[i].load() != provider)
            return false;
        if (--block.num_refs[i] == 0) {
            block.providers[i].store(nullptr);
            // After the store, in the seq_cst order: see cache_page().
            uncache_all_pages();
        }
        return true;
    });
}

bool is_provider_known(const DAT_PROVIDER *provider) noexcept {
    return provider && any_slot([provider](const slot_block &block, std::size_t i) {
               return block.providers[i].load() == provider;
           });
}

} // namespace coherdma::registry

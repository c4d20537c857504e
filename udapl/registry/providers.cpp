// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "providers.hpp"
#include "handles.hpp"

#include <array>
#include <cstdlib>
#include <new>

namespace coherdma::registry {
namespace {

/// Never freed, so that readers may be anywhere in it.
struct chunk {
    std::array<std::atomic<const DAT_PROVIDER *>, 15> providers = {};
    std::atomic<chunk *> next = nullptr;
    std::array<unsigned, 15> uses = {};
};
chunk first_chunk;

/// Until one of the actions is true.
template <typename Action>
bool any_place(const Action &action) noexcept {
    for (chunk *each = &first_chunk; each; each = each->next.load()) {
        for (std::size_t place = 0; place < each->providers.size(); ++place) {
            if (action(*each, place))
                return true;
        }
    }
    return false;
}

bool add(const DAT_PROVIDER *provider) noexcept {
    return any_place([provider](chunk &in, std::size_t place) {
        if (in.uses[place] != 0)
            return false;
        in.uses[place] = 1;
        in.providers[place].store(provider);
        return true;
    });
}

bool grow() noexcept {
    void *memory = std::calloc(1, sizeof(chunk));
    if (!memory)
        return false;
    auto *more = new (memory) chunk;
    more->next.store(first_chunk.next.load());
    first_chunk.next.store(more);
    return true;
}

} // namespace

bool retain(const DAT_PROVIDER *provider) noexcept {
    const bool again = any_place([provider](chunk &in, std::size_t place) {
        if (in.providers[place].load() != provider)
            return false;
        ++in.uses[place];
        return true;
    });
    return again || add(provider) || (grow() && add(provider));
}

void release(const DAT_PROVIDER *provider) noexcept {
    any_place([provider](chunk &in, std::size_t place) {
        if (in.providers[place].load() != provider)
            return false;
        if (--in.uses[place] == 0) {
            in.providers[place].store(nullptr);
            forget_all();
        }
        return true;
    });
}

bool is_known(const DAT_PROVIDER *provider) noexcept {
    return provider && any_place([provider](const chunk &in, std::size_t place) {
               return in.providers[place].load() == provider;
           });
}

} // namespace coherdma::registry

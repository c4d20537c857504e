// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// An IA that is opened and closed many times. With the last one the library's thread and all
// descriptors go, and the provider may be unloaded.

#include "modes.hpp"
#include "usage.hpp"

namespace scale {

void opens(const char *name, std::size_t count) {
    constexpr std::size_t first = 10;
    for (std::size_t i = 0; i != first; ++i)
        const adapter one(name);
    const usage before = now();
    for (std::size_t i = 0; i != count; ++i)
        const adapter one(name);
    not_more("opens", before, now());
}

} // namespace scale

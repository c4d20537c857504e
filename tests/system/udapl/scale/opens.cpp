// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Opens and closes an IA many times. With the last IA the library's thread and all descriptors are
// gone, and the provider may be unloaded.

#include "modes.hpp"
#include "usage.hpp"

namespace scale {

void opens(const char *name, std::size_t count) {
    constexpr std::size_t first = 10;
    for (std::size_t i = 0; i != first; ++i)
        const adapter ia(name);
    const usage before = now();
    for (std::size_t i = 0; i != count; ++i)
        const adapter ia(name);
    not_more("opens", before, now());
}

} // namespace scale

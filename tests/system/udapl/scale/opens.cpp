// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Opens and closes an IA many times. With the last IA the library's thread and all descriptors are
// gone, and the provider may be unloaded.

#include "modes.hpp"
#include "usage.hpp"

namespace scale {

void test_opens(const char *name, std::size_t count) {
    constexpr std::size_t num_warmup = 10;
    for (std::size_t i = 0; i != num_warmup; ++i)
        const scale_ia ia(name);
    const usage before = read_usage();
    for (std::size_t i = 0; i != count; ++i)
        const scale_ia ia(name);
    require_no_growth("opens", before, read_usage());
}

} // namespace scale

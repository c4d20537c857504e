// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "operations.hpp"

#include <cstring>

namespace coherdma::abi {

placed_operations placed(const operations &from, epoch of) noexcept {
    placed_operations to{};
    const auto *bytes = reinterpret_cast<const unsigned char *>(&from);
    for (std::size_t place = 0; place < operations_count; ++place) {
        const std::size_t there = place_in(of, place);
        if (there != nowhere)
            std::memcpy(&to.at[there], bytes + place * sizeof(void *), sizeof(void *));
    }
    return to;
}

} // namespace coherdma::abi

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What of the program's memory other processes, or other addresses, may have, too: mappings that
// are shared, of a file or of memory without a name, as /proc/self/maps has them.
#pragma once

#include "store.hpp"

#include <cstdint>
#include <vector>

namespace coherdma::emulation {

struct shared_mapping {
    span where;
    object_name of;
    std::uint64_t offset = 0; ///< in the object, of the first byte
};

/// By address, as far as they are in it.
std::vector<shared_mapping> shared_mappings(span where);

} // namespace coherdma::emulation

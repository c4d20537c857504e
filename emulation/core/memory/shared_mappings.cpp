// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "shared_mappings.hpp"

#include <cinttypes>
#include <cstdio>
#include <fstream>
#include <string>

namespace coherdma::emulation {

/// The shared mappings of /proc/self/maps in the range, clipped to it, in address order.
std::vector<shared_mapping> find_shared_mappings(addr_range range) {
    std::vector<shared_mapping> mappings;
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) {
        std::uint64_t begin, end, offset, inode;
        unsigned major, minor;
        char permissions[5];
        constexpr int NUM_FIELDS = 7;
        if (std::sscanf(line.c_str(), "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %x:%x %" SCNu64,
                        &begin, &end, permissions, &offset, &major, &minor, &inode) != NUM_FIELDS ||
            permissions[3] != 's' || inode == 0)
            continue;
        const addr_range part = intersection({begin, end}, range);
        if (!part.empty())
            mappings.push_back(
                {part, {std::uint64_t{major} << 32 | minor, inode}, offset + (part.begin - begin)});
    }
    return mappings;
}

} // namespace coherdma::emulation

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "mappings.hpp"

#include <cinttypes>
#include <cstdio>
#include <fstream>
#include <string>

namespace coherdma::emulation {

std::vector<shared_mapping> shared_mappings(span where) {
    std::vector<shared_mapping> all;
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) {
        std::uint64_t begin, end, offset, inode;
        unsigned major, minor;
        char rights[5];
        constexpr int FIELDS = 7;
        if (std::sscanf(line.c_str(), "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %x:%x %" SCNu64,
                        &begin, &end, rights, &offset, &major, &minor, &inode) != FIELDS ||
            rights[3] != 's' || inode == 0)
            continue;
        const span part = common({begin, end}, where);
        if (!part.empty())
            all.push_back(
                {part, {std::uint64_t{major} << 32 | minor, inode}, offset + (part.begin - begin)});
    }
    return all;
}

} // namespace coherdma::emulation

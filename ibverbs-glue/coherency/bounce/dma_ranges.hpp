// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include <optional>
#include <string>

namespace coherdma::coherency {

class device_tree;

/// What of the machine's memory devices on this bus, a node, cannot access by dma-ranges of the
/// device tree: "memory at 0xc0000000, outside dma-ranges"; "" if they can access all. nullopt: the
/// tree limits it, but it is not known whether there is such memory. root: the prefix of /sys.
std::optional<std::string> find_dma_shortage(device_tree &tree, const std::string &first_bus,
                                             const std::string &root);

} // namespace coherdma::coherency

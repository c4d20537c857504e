// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include <string>

namespace coherdma::coherency {

class device_tree;

/// What of the machine's memory devices on this bus, a node, cannot access by dma-ranges of the
/// device tree: "memory at 0xc0000000, outside dma-ranges". "" if they can access all, or if the
/// tree does not tell.
std::string find_dma_shortage(device_tree &tree, const std::string &first_bus);

} // namespace coherdma::coherency

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include "../rules.hpp"

#include <string>

namespace coherdma::coherency {

/// Reads dma_coherent of the struct device of a folder, /sys/devices/... without input.root, which
/// need not be that of an RDMA device. COHERDMA_UNKNOWN: there is no result.
evidence read_dma_coherent(const rule_input &input, const std::string &device_folder);

} // namespace coherdma::coherency

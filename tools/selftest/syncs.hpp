// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The syncs of libcoherdma, by access of the device. All calls of libcoherdma's syncs are in
// syncs.cpp.
#pragma once

#include "coherency/device.hpp"
#include "selftest/experiment.hpp"

#include <memory>

namespace tools::selftest {

/// Of an emulated device. Of another one, the CPU's cache instructions, whatever libcoherdma says
/// about the device: that is what the experiments test.
std::unique_ptr<memory_sync> make_syncs(const device &device);

} // namespace tools::selftest

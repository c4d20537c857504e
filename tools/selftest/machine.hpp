// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include "coherency/device.hpp"
#include "selftest/report.hpp"

namespace tools::selftest {

/// root: the prefix of /proc, /sys and /run; "" except in tests.
machine_facts describe_machine(const std::string &root);

device_facts describe_device(const device &device);

} // namespace tools::selftest

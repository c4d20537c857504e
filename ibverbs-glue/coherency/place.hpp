// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include <string>

namespace coherdma::coherency {

struct subject;

/// Where the hardware of a device is in /sys/devices, root included; "" if it has none.
std::string hardware(const subject &device);

/// The folder pciDDDD:BB above it, which is the PCI host bridge; "" if it is not on PCI.
std::string host_bridge(const std::string &hardware);

/// A path without root, for people.
std::string without_root(const subject &device, const std::string &path);

} // namespace coherdma::coherency

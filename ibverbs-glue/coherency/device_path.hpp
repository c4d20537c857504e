// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include <string>

namespace coherdma::coherency {

struct rule_input;

/// The folder of the hardware in /sys/devices, with root; "" if the device has none: it is a
/// software device.
std::string find_hardware_folder(const rule_input &input);

/// The folder pciDDDD:BB of the PCI host bridge above it; "" if the device is not on PCI.
std::string find_host_bridge(const std::string &hardware_folder);

/// The folder of the PCI function, which does the DMA: the device itself, or one above a
/// subfunction, such as mlx5_core.sf.2. "" if the device is not on PCI.
std::string find_pci_function(const std::string &hardware_folder);

/// The path without input.root, for messages.
std::string strip_root(const rule_input &input, const std::string &path);

} // namespace coherdma::coherency

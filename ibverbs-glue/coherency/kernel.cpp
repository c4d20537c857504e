// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The kernel's own answer, for root: struct device.dma_coherent, which the kernel asks before it
// maintains the cache. It is the flag of the device that ib_register_device() has as dma_device: in
// each driver of Linux 7.2 that of the link `device`, or the PCI function above a subfunction.

#include "device_path.hpp"
#include "kernel/dma_coherent.hpp"
#include "rules.hpp"

namespace coherdma::coherency {

/// The rule "kernel" of rules.cpp: how the kernel treats the device. COHERDMA_UNKNOWN: the rule has
/// no result.
evidence evaluate_kernel(const rule_input &input) {
    const std::string device = find_hardware_folder(input);
    if (device.empty()) {
        evidence result;
        result.source = "/sys/class/infiniband/" + input.name + "/device";
        result.reason = "no hardware in sysfs: a software device does no DMA";
        return result;
    }
    const std::string function = find_pci_function(device);
    return read_dma_coherent(input, strip_root(input, function.empty() ? device : function));
}

} // namespace coherdma::coherency

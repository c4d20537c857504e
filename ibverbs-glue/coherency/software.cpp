// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Software devices: the CPU moves the data, through its cache, so they are coherent. Not so with a
// virtually indexed cache, which may hold two copies of a page, the kernel's and the program's.

#include "files.hpp"
#include "rules.hpp"

#include <rdma/ib_user_ioctl_verbs.h>

namespace coherdma::coherency {
namespace {

// Whether CPUs of this architecture, as in uname -m, may have a virtually indexed cache.
bool may_have_virtual_cache(const std::string &machine) {
    for (const char *prefix : {"mips", "sh", "parisc", "sparc", "armv4", "armv5", "armv6"}) {
        if (machine.rfind(prefix, 0) == 0 && machine != "sparc64")
            return true;
    }
    return false;
}

} // namespace

/// The rule "software" of rules.cpp: the CPU moves the data of the device. COHERDMA_UNKNOWN: the
/// rule has no result.
evidence evaluate_software(const rule_input &input) {
    // The provider is built only for CPUs without a virtually indexed cache.
    if (input.provider_attr != nullptr && input.provider_attr->coherency == COHERDMA_COHERENT) {
        const bool is_siw = input.provider_attr->driver_id == RDMA_DRIVER_SIW;
        return {COHERDMA_COHERENT, "coherdma's provider", is_siw ? "driver siw" : "driver rxe",
                input.provider_attr->evidence};
    }
    const std::string folder = "/sys/class/infiniband/" + input.name;
    const std::string device = real_path(input.root, folder); // "" if it does not exist
    evidence result;
    result.source = folder;
    const bool is_virtual =
        device.rfind(real_path(input.root, "/sys") + "/devices/virtual/", 0) == 0;
    if (input.driver == "rxe" || input.driver == "siw") {
        result.source = "RDMA netlink";
        result.value = "driver " + input.driver;
    } else if (!device.empty() && is_virtual) {
        result.value = device.substr(device.find("/sys/devices/"));
    } else {
        result.value = device.empty() ? "missing" : device.substr(device.find("/sys/devices/"));
        result.reason =
            device.empty() ? "the device is not in sysfs" : "not a known software device";
        return result;
    }
    if (may_have_virtual_cache(input.machine)) {
        result.reason = "a software device, but this CPU's cache may hold a second copy of a page";
        return result;
    }
    result.coherency = COHERDMA_COHERENT;
    result.reason = "the CPU moves the data of a software device";
    return result;
}

} // namespace coherdma::coherency

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// A device that is software: the CPU itself moves the data, through its cache. True but for CPUs
// whose cache goes by virtual addresses: there the kernel's copy and the program's are two.

#include "files.hpp"
#include "verdict.hpp"

namespace coherdma::coherency {
namespace {

bool cache_is_virtual(const std::string &machine) {
    for (const char *kind : {"mips", "sh", "parisc", "sparc", "armv4", "armv5", "armv6"}) {
        if (machine.rfind(kind, 0) == 0 && machine != "sparc64")
            return true;
    }
    return false;
}

} // namespace

finding ask_software(const subject &device) {
    const std::string folder = "/sys/class/infiniband/" + device.name;
    const std::string real = real_path(device.root, folder);
    finding found;
    found.source = folder;
    const bool is_virtual =
        real.rfind(real_path(device.root, "/sys") + "/devices/virtual/", 0) == 0;
    if (device.driver == "rxe" || device.driver == "siw") {
        found.source = "RDMA netlink";
        found.value = "driver " + device.driver;
    } else if (!real.empty() && is_virtual) {
        found.value = real.substr(real.find("/sys/devices/"));
    } else {
        found.value = real.empty() ? "not there" : real.substr(real.find("/sys/devices/"));
        found.reason =
            real.empty() ? "nothing to see here" : "not a device that is known to be software";
        return found;
    }
    if (cache_is_virtual(device.machine)) {
        found.reason = "it is software, but this CPU's cache may hold a second copy of a page";
        return found;
    }
    found.verdict = COHERDMA_COHERENT;
    found.reason = "it is software: the CPU moves the data itself";
    return found;
}

} // namespace coherdma::coherency

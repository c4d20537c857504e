// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Network namespaces: whether each sees all devices, or only those that were moved into it.

#include "doctor/doctor.hpp"

namespace tools::doctor {
namespace {

/// Nodes here whose device is not: it is in another namespace, or gone.
std::vector<std::string> without_device(const host &here) {
    std::vector<std::string> names;
    for (const std::string &name : here.list("/dev/infiniband")) {
        if (name.rfind("uverbs", 0) == 0 && !here.exists("/sys/class/infiniband_verbs/" + name))
            names.push_back(name);
    }
    return names;
}

} // namespace

void check_netns(const host &here, report &all) {
    check &found = all.add("netns", "Network namespaces");
    if (all.failed("kernel")) {
        found.skip("waits for RDMA in the kernel.");
        return;
    }
    const std::vector<std::string> strangers = without_device(here);
    const bool alone = here.netlink.mode == netns_mode::EXCLUSIVE;
    if (!strangers.empty())
        found.warn("/dev/infiniband has " + listed(strangers) + ", whose device is not seen here.",
                   "It is in another network namespace, or gone. Where it is seen:",
                   here.as_root("rdma dev set NAME netns HERE"));
    else if (here.netlink.mode == netns_mode::UNKNOWN)
        found.skip("the kernel does not say whether they share devices.");
    else
        found.ok(alone ? "exclusive: only devices moved into this one are seen."
                       : "shared: all of them see all devices.");
}

} // namespace tools::doctor

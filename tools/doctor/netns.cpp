// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Checks the network namespace mode: whether all namespaces share devices.

#include "doctor/doctor.hpp"

namespace tools::doctor {
namespace {

/// Device nodes whose device is not visible: it is in another namespace, or gone.
std::vector<std::string> nodes_without_device(const host &machine) {
    std::vector<std::string> names;
    for (const std::string &name : machine.list_folder("/dev/infiniband")) {
        if (name.rfind("uverbs", 0) == 0 && !machine.exists("/sys/class/infiniband_verbs/" + name))
            names.push_back(name);
    }
    return names;
}

} // namespace

void check_netns(const host &machine, report &results) {
    check &c = results.add("netns", "Network namespaces");
    if (results.has_failed("kernel")) {
        c.skip("requires RDMA in the kernel.");
        return;
    }
    const std::vector<std::string> stray_nodes = nodes_without_device(machine);
    const bool is_exclusive = machine.netlink.mode == netns_mode::EXCLUSIVE;
    if (!stray_nodes.empty())
        c.warn("/dev/infiniband has " + join_names(stray_nodes) +
                   ", whose device is not visible here.",
               "It is in another network namespace, or gone. Use the command in the namespace that "
               "has it.",
               machine.with_sudo("rdma dev set NAME netns HERE"));
    else if (machine.netlink.mode == netns_mode::UNKNOWN)
        c.skip("the kernel does not report whether they share devices.");
    else
        c.ok(is_exclusive ? "exclusive: only devices moved into this one are visible."
                          : "shared: all devices are visible in all of them.");
}

} // namespace tools::doctor

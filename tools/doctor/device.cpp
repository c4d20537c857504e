// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The devices, and whether they can be opened and have an active port.

#include "doctor/doctor.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace tools::doctor {
namespace {

bool has(const host &here, const char *name) {
    const presence is = module(here, name);
    return is == presence::LOADED || is == presence::LOADABLE;
}

void none(const host &here, check &found) {
    const bool rxe = has(here, "rdma_rxe"), siw = has(here, "siw");
    const std::string where = here.netlink.mode == netns_mode::EXCLUSIVE
                                  ? "none in this network namespace, which sees no others; where "
                                    "there is one, rdma dev set NAME netns HERE moves it; "
                                    "not a soft one, which stays in the first namespace."
                                  : "none (/sys/class/infiniband is empty).";
    if (rxe || siw)
        found.fail(where,
                   fmt::format("Make a soft one, on an interface of its own, with the command "
                               "below; on one of yours: {}",
                               here.as_root(fmt::format("rdma link add {0}0 type {0} netdev ETH",
                                                        rxe ? "rxe" : "siw"))),
                   here.as_root(rxe ? "softrdma up" : "softrdma up --driver siw"));
    else if (here.in_container())
        found.fail(where,
                   "This is a container: its host has no device, or keeps it. softrdma brings a "
                   "kernel of its own that has one:",
                   LAB);
    else
        found.fail(where,
                   "For one on this kernel, see the drivers above. softrdma brings a kernel of its "
                   "own that has one:",
                   LAB);
}

void not_active(const host &here, check &found, const std::string &seen, const std::string &netdev,
                const std::string &folder) {
    const auto below = here.interfaces.find(netdev);
    if (here.read(folder + "/link_layer") == "InfiniBand")
        found.fail(seen + ".",
                   "No subnet manager has configured it, or there is no cable. Unless a switch "
                   "does that, install opensm and:",
                   here.as_root("systemctl start opensm"));
    else if (netdev.empty())
        found.fail(seen + ", and its interface is not known here.",
                   "If the interface is in another network namespace, look from there.");
    else if (below == here.interfaces.end())
        found.fail(seen + "; its interface " + netdev + " is not in this network namespace.",
                   "Look from the namespace that has it, or move it here:",
                   here.as_root("ip link set " + netdev + " netns HERE"));
    else if (!below->second.up)
        found.fail(fmt::format("{}, because its interface {} is down.", seen, netdev), "",
                   here.as_root("ip link set " + netdev + " up"));
    else if (!below->second.carrier)
        found.fail(fmt::format("{}: {} is up, but has no carrier.", seen, netdev),
                   "Look at the cable and at the other side.", "ip link show " + netdev);
    else
        found.fail(fmt::format("{}, though {} is up.", seen, netdev),
                   "See what the kernel says:", here.as_root("dmesg | tail"));
}

/// Whether a container was given its node.
bool given(const host &here, const std::string &device) {
    const std::string node = node_of(here, device);
    return !node.empty() && here.exists(node);
}

} // namespace

std::string port_of(const host &here, const std::string &device) {
    const std::string ports = "/sys/class/infiniband/" + device + "/ports";
    const std::vector<std::string> all = here.list(ports);
    for (const std::string &port : all) {
        if (here.read(ports + "/" + port + "/state").value_or("").rfind("4:", 0) == 0)
            return port;
    }
    return all.empty() ? "1" : all.front();
}

std::string netdev_of(const host &here, const std::string &device) {
    const auto told = here.netlink.netdevs.find(device);
    if (told != here.netlink.netdevs.end())
        return told->second;
    const std::string folder = "/sys/class/infiniband/" + device;
    for (const std::string &port : here.list(folder + "/ports")) {
        if (auto name = here.read(folder + "/ports/" + port + "/gid_attrs/ndevs/0"))
            return *name;
    }
    const std::vector<std::string> below = here.list(folder + "/device/net");
    return below.empty() ? here.read(folder + "/parent").value_or("") : below.front();
}

void check_devices(const host &here, report &all, const std::vector<std::string> &wanted) {
    check &found = all.add("device", "RDMA devices");
    const std::vector<std::string> there = here.list("/sys/class/infiniband");
    // A container sees the names of all the host's devices, and is meant to use those it was given.
    std::vector<std::string> ours, others;
    for (const std::string &name : there)
        (!here.in_container() || given(here, name) ? ours : others).push_back(name);
    if (ours.empty())
        std::swap(ours, others);
    for (const std::string &name : wanted.empty() ? ours : wanted) {
        if (std::count(there.begin(), there.end(), name) &&
            !std::count(all.devices.begin(), all.devices.end(), name))
            all.devices.push_back(name);
    }
    std::vector<std::string> missing;
    for (const std::string &name : wanted) {
        if (!std::count(there.begin(), there.end(), name))
            missing.push_back(name);
    }
    if (all.failed("kernel"))
        found.skip("waits for RDMA in the kernel.");
    else if (there.empty())
        none(here, found);
    else if (!missing.empty())
        found.fail(fmt::format("there is no {}; there are: {}.", listed(missing), listed(there)),
                   "To look at one of those:", "coherdma doctor " + there.front());
    else if (wanted.empty() && !others.empty())
        found.ok(fmt::format("{}; not given to this container: {}.", listed(ours), listed(others)));
    else
        found.ok(listed(there) + ".");
}

void check_opens(const host &here, report &all, const std::string &device) {
    check &found = all.add("open", "libibverbs", device);
    for (const auto &[id, of] :
         {std::pair{"libibverbs", ""}, {"providers", ""}, {"node", device.c_str()}}) {
        if (all.failed(id, of)) {
            found.skip(fmt::format("waits for {}.", id));
            return;
        }
    }
    const opened is = here.open(device);
    const std::string because = is.words.empty() ? "" : " (" + is.words + ")";
    if (is.open)
        found.ok("lists and opens it.");
    else if (is.listed)
        found.fail("cannot open it" + because + ".",
                   here.in_container() ? "Start the container again with the node:"
                                       : "See what the kernel says:",
                   here.in_container() ? give_node(device) : here.as_root("dmesg | tail"));
    else
        found.fail("does not list it" + because + ".",
                   "No provider takes it; it may need a newer one, or that of its maker.",
                   package_of_providers(here).command);
}

void check_port(const host &here, report &all, const std::string &device) {
    check &found = all.add("port", "port", device);
    const std::string port = port_of(here, device);
    const std::string folder = "/sys/class/infiniband/" + device + "/ports/" + port;
    const std::string text = here.read(folder + "/state").value_or("? unknown");
    const std::string word = text.substr(std::min(text.find(' ') + 1, text.size()));
    const std::string netdev = netdev_of(here, device);
    found.title += " " + port;
    if (text.rfind("4:", 0) != 0)
        not_active(here, found, word, netdev, folder);
    else if (!netdev.empty() && !here.interfaces.count(netdev))
        found.warn(word + ", but its interface " + netdev + " is not in this network namespace.",
                   "rdma_cm works in the namespace that has the interface.");
    else
        found.ok(word + (netdev.empty() ? "." : ", on " + netdev + "."));
}

} // namespace tools::doctor

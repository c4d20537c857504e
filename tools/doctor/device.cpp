// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Checks the devices: whether they exist, can be opened and have an active port.

#include "doctor/doctor.hpp"

#include <algorithm>
#include <fmt/core.h>

namespace tools::doctor {
namespace {

bool is_module_available(const host &machine, const char *name) {
    const module_state state = find_module_state(machine, name);
    return state == module_state::LOADED || state == module_state::LOADABLE;
}

/// sysfs prints a state as the number of its enumerator and the name: "4: ACTIVE" is
/// IBV_PORT_ACTIVE.
bool is_active(const std::string &port_state) {
    return port_state.rfind("4:", 0) == 0;
}

/// The command that runs doctor in another network namespace.
std::string doctor_in_namespace_command(const host &machine, const std::string &device) {
    return machine.with_sudo("ip netns exec NAME coherdma doctor " + device);
}

/// The failure of check_devices() without any device: how to get one.
void fail_no_device(const host &machine, check &c) {
    const bool has_rxe = is_module_available(machine, "rdma_rxe"),
               has_siw = is_module_available(machine, "siw");
    const std::string evidence = machine.netlink.mode == netns_mode::EXCLUSIVE
                                     ? "none in this network namespace (exclusive mode). In the "
                                       "namespace that has a device, move it here with: rdma dev "
                                       "set NAME netns HERE. Soft devices cannot be moved."
                                     : "none (/sys/class/infiniband is empty).";
    if (has_rxe || has_siw)
        c.fail(evidence,
               fmt::format("Create a soft device on a new interface with the command below, or on "
                           "an existing interface: {}",
                           machine.with_sudo(fmt::format("rdma link add {0}0 type {0} netdev ETH",
                                                         has_rxe ? "rxe" : "siw"))),
               machine.with_sudo(has_rxe ? "softrdma up" : "softrdma up --driver siw"));
    else if (machine.is_container())
        c.fail(evidence,
               "This is a container: its host has no device, or does not pass it on. softrdma runs "
               "a kernel that has one.",
               RUN_IN_SOFTRDMA);
    else
        c.fail(evidence,
               "For a device on this kernel, see the drivers above. softrdma runs a kernel that "
               "has one.",
               RUN_IN_SOFTRDMA);
}

/// state_name: DOWN, INIT ...; netdev: the network interface of the device, "" if unknown;
/// port_folder: in sysfs.
void fail_port_inactive(const host &machine, check &c, const std::string &state_name,
                        const std::string &netdev, const std::string &port_folder) {
    const auto it = machine.interfaces.find(netdev);
    if (machine.read_file(port_folder + "/link_layer") == "InfiniBand")
        c.fail(state_name + ".",
               "No subnet manager has configured it, or there is no cable. Unless a switch runs "
               "one, install opensm and start it.",
               machine.with_sudo("systemctl start opensm"));
    else if (netdev.empty())
        c.fail(state_name + ", and its interface is unknown.",
               "If the interface is in another network namespace, run doctor there.",
               doctor_in_namespace_command(machine, c.device));
    else if (it == machine.interfaces.end())
        c.fail(state_name + "; its interface " + netdev + " is not in this network namespace.",
               "Run doctor in the namespace that has it, or move it here.",
               machine.with_sudo("ip link set " + netdev + " netns HERE"));
    else if (!it->second.is_up)
        c.fail(fmt::format("{}, because its interface {} is down.", state_name, netdev), NO_ADVICE,
               machine.with_sudo("ip link set " + netdev + " up"));
    else if (!it->second.has_carrier)
        c.fail(fmt::format("{}: {} is up, but has no carrier.", state_name, netdev),
               "Check the cable and the peer.", "ip link show " + netdev);
    else
        c.fail(fmt::format("{}, though {} is up.", state_name, netdev),
               "The kernel log may have the reason.", machine.with_sudo("dmesg | tail"));
}

/// Whether the device node exists in this container.
bool has_node(const host &machine, const std::string &device) {
    const std::string node = device_node_path(machine, device);
    return !node.empty() && machine.exists(node);
}

} // namespace

/// The number of the first active port, else of the first.
std::string select_port(const host &machine, const std::string &device) {
    const std::string ports = "/sys/class/infiniband/" + device + "/ports";
    const std::vector<std::string> port_names = machine.list_folder(ports);
    for (const std::string &port : port_names) {
        if (is_active(machine.read_file(ports + "/" + port + "/state").value_or("")))
            return port;
    }
    return port_names.empty() ? "1" : port_names.front();
}

/// From netlink, else from sysfs: of a port's first GID, of the PCI function, or of a soft device.
std::string find_netdev(const host &machine, const std::string &device) {
    const auto it = machine.netlink.netdevs.find(device);
    if (it != machine.netlink.netdevs.end())
        return it->second;
    const std::string folder = "/sys/class/infiniband/" + device;
    for (const std::string &port : machine.list_folder(folder + "/ports")) {
        if (auto name = machine.read_file(folder + "/ports/" + port + "/gid_attrs/ndevs/0"))
            return *name;
    }
    const std::vector<std::string> netdevs = machine.list_folder(folder + "/device/net");
    return netdevs.empty() ? machine.read_file(folder + "/parent").value_or("") : netdevs.front();
}

/// names: of the devices to check, as typed by the user; empty: all usable ones.
void check_devices(const host &machine, report &results, const std::vector<std::string> &names) {
    check &c = results.add("device", "RDMA devices");
    const auto contains = [](const std::vector<std::string> &list, const std::string &name) {
        return std::count(list.begin(), list.end(), name) > 0;
    };
    const std::vector<std::string> existing = machine.list_folder("/sys/class/infiniband");
    // A container sees all device names of its host, but can use only those with a node.
    std::vector<std::string> usable, unusable;
    for (const std::string &name : existing)
        (!machine.is_container() || has_node(machine, name) ? usable : unusable).push_back(name);
    if (usable.empty())
        std::swap(usable, unusable); // report on those that the container cannot use
    for (const std::string &name : names.empty() ? usable : names) {
        if (contains(existing, name) && !contains(results.checked_devices, name))
            results.checked_devices.push_back(name);
    }
    std::vector<std::string> missing;
    for (const std::string &name : names) {
        if (!contains(existing, name))
            missing.push_back(name);
    }
    if (results.has_failed("kernel"))
        c.skip("requires RDMA in the kernel.");
    else if (existing.empty())
        fail_no_device(machine, c);
    else if (!missing.empty())
        c.fail(fmt::format("there is no {}; there are: {}.", join_names(missing),
                           join_names(existing)),
               NO_ADVICE, "coherdma doctor " + existing.front());
    else if (names.empty() && !unusable.empty())
        c.ok(fmt::format("{}; not passed to this container: {}.", join_names(usable),
                         join_names(unusable)));
    else
        c.ok(join_names(existing) + ".");
}

/// Whether libibverbs can open the device.
void check_open(const host &machine, report &results, const std::string &device) {
    check &c = results.add("open", "libibverbs", device);
    const struct {
        const char *id, *device; ///< of a check that must not have failed
    } required[] = {{"libibverbs", ""}, {"providers", ""}, {"node", device.c_str()}};
    for (const auto &[id, dep_device] : required) {
        if (results.has_failed(id, dep_device)) {
            c.skip(fmt::format("requires {}.", id));
            return;
        }
    }
    const open_result result = machine.open_device(device);
    const std::string reason = result.message.empty() ? "" : " (" + result.message + ")";
    if (result.is_open)
        c.ok("lists and opens it.");
    else if (result.is_listed)
        c.fail("cannot open it" + reason + ".",
               machine.is_container() ? "Restart the container with the node."
                                      : "The kernel log may have the reason.",
               machine.is_container() ? container_command(device)
                                      : machine.with_sudo("dmesg | tail"));
    else
        c.fail("does not list it" + reason + ".",
               "No provider supports it; it may need a newer rdma-core, or its vendor's provider.",
               install_providers_hint(machine).fix);
}

void check_port(const host &machine, report &results, const std::string &device) {
    check &c = results.add("port", "port", device);
    const std::string port = select_port(machine, device);
    const std::string folder = "/sys/class/infiniband/" + device + "/ports/" + port;
    const std::string state_text = machine.read_file(folder + "/state").value_or("? unknown");
    const std::string state_name =
        state_text.substr(std::min(state_text.find(' ') + 1, state_text.size()));
    const std::string netdev = find_netdev(machine, device);
    c.title += " " + port;
    if (!is_active(state_text))
        fail_port_inactive(machine, c, state_name, netdev, folder);
    else if (!netdev.empty() && !machine.interfaces.count(netdev))
        c.warn(state_name + ", but its interface " + netdev + " is not in this network namespace.",
               "rdma_cm works in the namespace that has the interface.",
               doctor_in_namespace_command(machine, device));
    else
        c.ok(state_name + (netdev.empty() ? "." : ", on " + netdev + "."));
}

} // namespace tools::doctor

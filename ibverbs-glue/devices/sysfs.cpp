// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// sysfs: where netlink is not available, as in sandboxes and before Linux 4.16.

#include "coherency/files.hpp"
#include "devices.hpp"

#include <algorithm>
#include <cstdlib>
#include <tuple>

namespace coherdma::devices {
namespace {

using coherency::read_line;

bool starts_with(const std::string &text, const char *prefix) {
    return text.rfind(prefix, 0) == 0;
}

/// folder: that of the device in /sys/class/infiniband.
std::string find_transport(const std::string &folder) {
    if (starts_with(read_line(folder + "/node_type").value_or(""), "4:")) // "4: RNIC"
        return "iWARP";
    const std::string layer = read_line(folder + "/ports/1/link_layer").value_or("");
    return layer == "Ethernet" ? "RoCE" : layer;
}

/// The kernel driver: "rxe", whose folder has a file `parent`, "siw", or "" for others, which sysfs
/// does not tell apart. folder: that of the device in /sys/class/infiniband.
std::string find_driver(const std::string &folder, const std::string &transport) {
    if (transport == "RoCE" && coherency::path_exists(folder + "/parent"))
        return "rxe";
    if (transport == "iWARP" && starts_with(read_line(folder + "/node_desc").value_or(""), "siw"))
        return "siw";
    return {};
}

// Decimal, or hexadecimal with 0x; text after the number is ignored.
std::uint32_t parse_number(const std::string &text) {
    return static_cast<std::uint32_t>(std::strtoul(text.c_str(), nullptr, 0));
}

std::string port_folder(const std::string &folder, std::uint32_t port_num) {
    return folder + "/ports/" + std::to_string(port_num);
}

/// RoCE and iWARP: the network interface of one of the first GIDs of the port.
std::string find_gid_netdev(const std::string &port_path) {
    for (const char *index : {"0", "1", "2", "3"}) {
        const auto interface = read_line(port_path + "/gid_attrs/ndevs/" + index);
        if (interface && !interface->empty())
            return *interface;
    }
    return {};
}

/// IPoIB: the interface of the same hardware device with the number of the port.
std::string find_ipoib_netdev(const std::string &folder, std::uint32_t port_num) {
    constexpr char ARPHRD_INFINIBAND_TEXT[] = "32";
    const std::string net = folder + "/device/net";
    for (const std::string &name : coherency::list_folder(net)) {
        const std::string interface = net + "/" + name;
        if (read_line(interface + "/type") != ARPHRD_INFINIBAND_TEXT ||
            !read_line(interface + "/parent").value_or("").empty()) // an interface of a partition
            continue;
        // The number of the port, from 0. Older drivers set dev_id, newer ones dev_port.
        const std::uint32_t port_index =
            std::max(parse_number(read_line(interface + "/dev_port").value_or("")),
                     parse_number(read_line(interface + "/dev_id").value_or("")));
        if (port_index + 1 == port_num)
            return name;
    }
    return {};
}

constexpr char CLASS_PATH[] = "/sys/class/infiniband/";

} // namespace

/// root: "", or a folder with a copy of sysfs for tests.
std::vector<device> list_sysfs_devices(const std::string &root) {
    std::vector<device> devices;
    for (const std::string &name : coherency::list_folder(root + CLASS_PATH)) {
        const std::string folder = root + CLASS_PATH + name;
        const std::string transport = find_transport(folder);
        devices.push_back({name, find_driver(folder, transport), transport});
    }
    return devices;
}

/// The network interface of a port in root's sysfs; "" if none.
std::string find_sysfs_netdev(const std::string &root, const std::string &device,
                              std::uint32_t port_num) {
    const std::string folder = root + CLASS_PATH + device;
    const std::string port_path = port_folder(folder, port_num);
    if (read_line(port_path + "/link_layer") == "InfiniBand")
        return find_ipoib_netdev(folder, port_num);
    return find_gid_netdev(port_path);
}

std::vector<port> list_sysfs_ports(const std::string &root) {
    std::vector<port> ports;
    for (const device &device : list_sysfs_devices(root)) {
        const std::string folder = root + CLASS_PATH + device.name;
        for (const std::string &name : coherency::list_folder(folder + "/ports")) {
            const std::uint32_t port_num = parse_number(name);
            if (port_num == 0)
                continue;
            const std::string state =
                read_line(port_folder(folder, port_num) + "/state").value_or(""); // "4: ACTIVE"
            ports.push_back({device.name, find_sysfs_netdev(root, device.name, port_num),
                             device.transport, port_num, parse_number(state)});
        }
    }
    return ports;
}

/// By netlink, else by sysfs. Sorted by name.
std::vector<device> list_devices() {
    std::vector<device> devices;
    if (auto netlink_devices = list_netlink_devices())
        devices = std::move(*netlink_devices);
    else
        devices = list_sysfs_devices("");
    for (device &device : devices) {
        if (device.driver.empty()) // before Linux 5.3 netlink does not tell it
            device.driver = find_driver(CLASS_PATH + device.name, device.transport);
    }
    std::sort(devices.begin(), devices.end(),
              [](const device &a, const device &b) { return a.name < b.name; });
    return devices;
}

/// By netlink, else by sysfs; with the interfaces that only sysfs has. Sorted by device and number.
std::vector<port> list_ports() {
    std::vector<port> ports;
    if (auto netlink_ports = list_netlink_ports())
        ports = std::move(*netlink_ports);
    else
        ports = list_sysfs_ports("");
    for (port &port : ports) {
        if (port.netdev.empty())
            port.netdev = find_sysfs_netdev("", port.device, port.port_num);
    }
    std::sort(ports.begin(), ports.end(), [](const port &a, const port &b) {
        return std::tie(a.device, a.port_num) < std::tie(b.device, b.port_num);
    });
    return ports;
}

} // namespace coherdma::devices

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Where netlink is out of reach: sandboxes, kernels before 4.16.

#include "coherency/files.hpp"
#include "devices.hpp"

#include <algorithm>
#include <cstdlib>
#include <tuple>

namespace coherdma::devices {
namespace {

using coherency::read_line;

bool begins(const std::string &text, const char *with) {
    return text.rfind(with, 0) == 0;
}

std::string transport_of(const std::string &folder) {
    if (begins(read_line(folder + "/node_type").value_or(""), "4:"))
        return "iWARP";
    const std::string layer = read_line(folder + "/ports/1/link_layer").value_or("");
    return layer == "Ethernet" ? "RoCE" : layer;
}

// The two soft drivers can be told by what only they have here; others stay unknown.
std::string driver_of(const std::string &folder, const std::string &transport) {
    if (transport == "RoCE" && coherency::exists(folder + "/parent"))
        return "rxe";
    if (transport == "iWARP" && begins(read_line(folder + "/node_desc").value_or(""), "siw"))
        return "siw";
    return {};
}

std::uint32_t number_in(const std::string &text) {
    return static_cast<std::uint32_t>(std::strtoul(text.c_str(), nullptr, 0));
}

std::string port_folder(const std::string &folder, std::uint32_t number) {
    return folder + "/ports/" + std::to_string(number);
}

/// With RoCE and iWARP the interface stands beside the first addresses of the port.
std::string beside_addresses(const std::string &port) {
    for (const char *each : {"0", "1", "2", "3"}) {
        const auto found = read_line(port + "/gid_attrs/ndevs/" + each);
        if (found && !found->empty())
            return *found;
    }
    return {};
}

/// IP over InfiniBand is an interface of the same device, with the number of its port.
std::string over_infiniband(const std::string &folder, std::uint32_t number) {
    constexpr char INFINIBAND[] = "32"; // ARPHRD_INFINIBAND
    const std::string net = folder + "/device/net";
    for (const std::string &each : coherency::names_in(net)) {
        const std::string about = net + "/" + each;
        if (read_line(about + "/type") != INFINIBAND ||
            !read_line(about + "/parent").value_or("").empty()) // of a partition
            continue;
        // Older drivers count in the one, newer in the other; from 0.
        const std::uint32_t place = std::max(number_in(read_line(about + "/dev_port").value_or("")),
                                             number_in(read_line(about + "/dev_id").value_or("")));
        if (place + 1 == number)
            return each;
    }
    return {};
}

constexpr char CLASS[] = "/sys/class/infiniband/";

} // namespace

std::vector<device> by_sysfs(const std::string &root) {
    std::vector<device> found;
    for (const std::string &name : coherency::names_in(root + CLASS)) {
        const std::string folder = root + CLASS + name;
        const std::string transport = transport_of(folder);
        found.push_back({name, driver_of(folder, transport), transport});
    }
    return found;
}

std::string interface_by_sysfs(const std::string &root, const std::string &device,
                               std::uint32_t number) {
    const std::string folder = root + CLASS + device, port = port_folder(folder, number);
    if (read_line(port + "/link_layer") == "InfiniBand")
        return over_infiniband(folder, number);
    return beside_addresses(port);
}

std::vector<port> ports_by_sysfs(const std::string &root) {
    std::vector<port> found;
    for (const device &each : by_sysfs(root)) {
        const std::string folder = root + CLASS + each.name;
        for (const std::string &name : coherency::names_in(folder + "/ports")) {
            const std::uint32_t number = number_in(name);
            if (number == 0)
                continue;
            const std::string state =
                read_line(port_folder(folder, number) + "/state").value_or(""); // "4: ACTIVE"
            found.push_back({each.name, interface_by_sysfs(root, each.name, number), each.transport,
                             number, number_in(state)});
        }
    }
    return found;
}

std::vector<device> all() {
    std::vector<device> found;
    if (auto told = by_netlink())
        found = std::move(*told);
    else
        found = by_sysfs("");
    std::sort(found.begin(), found.end(),
              [](const device &one, const device &other) { return one.name < other.name; });
    return found;
}

std::vector<port> all_ports() {
    std::vector<port> found;
    if (auto told = ports_by_netlink())
        found = std::move(*told);
    else
        found = ports_by_sysfs("");
    for (port &each : found) {
        if (each.interface.empty())
            each.interface = interface_by_sysfs("", each.device, each.number);
    }
    std::sort(found.begin(), found.end(), [](const port &one, const port &other) {
        return std::tie(one.device, one.number) < std::tie(other.device, other.number);
    });
    return found;
}

} // namespace coherdma::devices

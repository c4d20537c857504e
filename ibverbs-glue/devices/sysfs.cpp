// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Where netlink is out of reach: sandboxes, kernels before 4.16.

#include "coherency/files.hpp"
#include "devices.hpp"

#include <algorithm>

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

} // namespace

std::vector<device> by_sysfs(const std::string &root) {
    std::vector<device> found;
    const std::string top = root + "/sys/class/infiniband";
    for (const std::string &name : coherency::names_in(top)) {
        const std::string folder = top + "/" + name;
        const std::string transport = transport_of(folder);
        found.push_back({name, driver_of(folder, transport), transport});
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

} // namespace coherdma::devices

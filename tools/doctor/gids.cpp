// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Checks the GID table: the indices for programs to use, and the one that rdma_cm selects.
//
// For a bound address, rdma_cm selects the GID with that address and the port's default type: RoCE
// v2 if the device supports it, unless configfs sets another.

#include "doctor/doctor.hpp"

#include <algorithm>
#include <arpa/inet.h>
#include <cstring>
#include <fmt/core.h>

namespace tools::doctor {
namespace {

struct gid {
    int index = 0;       ///< in the port's GID table
    std::string address; ///< 198.18.0.1, fe80::1
    std::string type;    ///< RoCE v2, IB/RoCE v1
    bool is_link_local = false;
};

std::vector<gid> read_gid_table(const host &machine, const std::string &port_folder) {
    std::vector<gid> gids;
    for (const std::string &name : machine.list_folder(port_folder + "/gids")) {
        const std::string text = machine.read_file(port_folder + "/gids/" + name).value_or("");
        in6_addr bytes{};
        char address[INET6_ADDRSTRLEN] = "";
        if (inet_pton(AF_INET6, text.c_str(), &bytes) != 1 || IN6_IS_ADDR_UNSPECIFIED(&bytes))
            continue;
        if (IN6_IS_ADDR_V4MAPPED(&bytes))
            inet_ntop(AF_INET, bytes.s6_addr + 12, address, sizeof address);
        else
            inet_ntop(AF_INET6, &bytes, address, sizeof address);
        gids.push_back({std::atoi(name.c_str()), address,
                        machine.read_file(port_folder + "/gid_attrs/types/" + name).value_or(""),
                        IN6_IS_ADDR_LINKLOCAL(&bytes) != 0});
    }
    std::sort(gids.begin(), gids.end(),
              [](const gid &a, const gid &b) { return a.index < b.index; });
    return gids;
}

/// The type of the GIDs that rdma_cm selects.
std::string default_gid_type(const host &machine, const std::string &device,
                             const std::string &port, const std::vector<gid> &gids) {
    if (const auto configured = machine.read_file("/sys/kernel/config/rdma_cm/" + device +
                                                  "/ports/" + port + "/default_roce_mode"))
        return *configured;
    for (const gid &g : gids) {
        if (g.type == "RoCE v2")
            return g.type;
    }
    return "IB/RoCE v1";
}

/// How to give the network interface an address.
fix_hint add_address_hint(const host &machine, const std::string &netdev) {
    if (netdev.empty())
        return {"The device's interface needs an address. The command below prints the interface.",
                "rdma link"};
    return {"GIDs come from the interface's addresses. For a test, any address will do.",
            machine.with_sudo("ip address add 198.18.9.1/24 dev " + netdev)};
}

/// iWARP has one GID, which is not used; it uses the IP addresses of the interface netdev.
void check_iwarp_address(const host &machine, check &c, const std::string &netdev) {
    const auto it = machine.interfaces.find(netdev);
    std::vector<std::string> usable;
    if (it != machine.interfaces.end()) {
        for (const std::string &address : it->second.addresses) {
            if (address.rfind("fe80:", 0) != 0)
                usable.push_back(address);
        }
    }
    const fix_hint hint = add_address_hint(machine, netdev);
    if (usable.empty())
        c.fail(fmt::format("iWARP uses IP addresses, and {} has none.",
                           netdev.empty() ? "its interface" : netdev),
               netdev.empty() ? hint.explanation : "For a test, any address will do.", hint.fix);
    else
        c.ok(fmt::format("index 0, unused; iWARP uses the address {}.", join_names(usable, 2)));
}

/// "0 (198.18.0.1), 1 (fe80::1)": index and address.
std::string format_gids(const std::vector<const gid *> &gids) {
    std::vector<std::string> entries;
    for (const gid *g : gids)
        entries.push_back(fmt::format("{} ({})", g->index, g->address));
    return join_names(entries, 3);
}

/// RoCE: rdma_cm selects a GID of the default type (RoCE v1 or v2) that is not link-local.
void check_roce_gids(const host &machine, check &c, const std::vector<gid> &gids,
                     const std::string &default_type, const std::string &netdev) {
    std::vector<const gid *> usable, others;
    for (const gid &g : gids)
        (g.type == default_type && !g.is_link_local ? usable : others).push_back(&g);
    const auto is_ipv4 = [](const gid *g) {
        return g->address.find(':') == std::string::npos;
    };
    std::stable_partition(usable.begin(), usable.end(), is_ipv4);
    const fix_hint hint = add_address_hint(machine, netdev);
    if (gids.empty())
        c.fail("none, so no data can be sent.", hint.explanation, hint.fix);
    else if (usable.empty())
        c.warn(fmt::format("only {}: rdma_cm needs a {} GID with a global address.",
                           format_gids(others), default_type),
               hint.explanation, hint.fix);
    else
        c.ok(fmt::format("index {}: {}, selected by rdma_cm.{}", format_gids(usable), default_type,
                         others.empty() ? "" : " Also: " + format_gids(others) + "."));
}

} // namespace

void check_gids(const host &machine, report &results, const std::string &device) {
    check &c = results.add("gid", "GIDs", device);
    const std::string folder = "/sys/class/infiniband/" + device;
    const std::string port = select_port(machine, device);
    const std::string netdev = find_netdev(machine, device);
    const std::vector<gid> gids = read_gid_table(machine, folder + "/ports/" + port);
    if (!netdev.empty() && !machine.interfaces.count(netdev))
        c.skip(netdev + " is not in this network namespace.");
    else if (machine.read_file(folder + "/node_type").value_or("").rfind("4:", 0) == 0) // "4: RNIC"
        check_iwarp_address(machine, c, netdev);
    else if (machine.read_file(folder + "/ports/" + port + "/link_layer") == "InfiniBand")
        c.ok("InfiniBand: index 0, and the port's LID.");
    else
        check_roce_gids(machine, c, gids, default_gid_type(machine, device, port, gids), netdev);
}

} // namespace tools::doctor

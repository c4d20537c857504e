// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The table of GIDs: which index to give to programs that ask for one, and which one rdma_cm takes.
//
// rdma_cm takes, for the address that a program binds, the GID that is this address, of the type
// that is the port's default. That is RoCE v2 where the device has it, unless configfs says other.

#include "doctor/doctor.hpp"

#include <algorithm>
#include <arpa/inet.h>
#include <cstring>
#include <fmt/format.h>

namespace tools::doctor {
namespace {

struct gid {
    int index = 0;
    std::string address; ///< 198.18.0.1, fe80::1
    std::string type;    ///< RoCE v2, IB/RoCE v1
    bool link_local = false;
};

std::vector<gid> table(const host &here, const std::string &port) {
    std::vector<gid> all;
    for (const std::string &name : here.list(port + "/gids")) {
        const std::string text = here.read(port + "/gids/" + name).value_or("");
        in6_addr bytes{};
        char words[INET6_ADDRSTRLEN] = "";
        if (inet_pton(AF_INET6, text.c_str(), &bytes) != 1 || IN6_IS_ADDR_UNSPECIFIED(&bytes))
            continue;
        if (IN6_IS_ADDR_V4MAPPED(&bytes))
            inet_ntop(AF_INET, bytes.s6_addr + 12, words, sizeof words);
        else
            inet_ntop(AF_INET6, &bytes, words, sizeof words);
        all.push_back({std::atoi(name.c_str()), words,
                       here.read(port + "/gid_attrs/types/" + name).value_or(""),
                       IN6_IS_ADDR_LINKLOCAL(&bytes) != 0});
    }
    std::sort(all.begin(), all.end(), [](const gid &a, const gid &b) { return a.index < b.index; });
    return all;
}

std::string default_type(const host &here, const std::string &device, const std::string &port,
                         const std::vector<gid> &gids) {
    if (const auto set = here.read("/sys/kernel/config/rdma_cm/" + device + "/ports/" + port +
                                   "/default_roce_mode"))
        return *set;
    for (const gid &each : gids) {
        if (each.type == "RoCE v2")
            return each.type;
    }
    return "IB/RoCE v1";
}

remedy add_address(const host &here, const std::string &netdev) {
    if (netdev.empty())
        return {"The interface under the device needs an address.", ""};
    return {"A GID comes with an address of the interface. For a test any will do:",
            here.as_root("ip address add 198.18.9.1/24 dev " + netdev)};
}

/// iWARP: there is one GID, which nobody looks at.
void by_address(const host &here, check &found, const std::string &netdev) {
    const auto below = here.interfaces.find(netdev);
    std::vector<std::string> usable;
    if (below != here.interfaces.end()) {
        for (const std::string &each : below->second.addresses) {
            if (each.rfind("fe80:", 0) != 0)
                usable.push_back(each);
        }
    }
    const remedy mend = add_address(here, netdev);
    if (usable.empty())
        found.fail(fmt::format("iWARP goes by addresses, and {} has none.",
                               netdev.empty() ? "its interface" : netdev),
                   "For a test any will do:", mend.command);
    else
        found.ok(fmt::format("index 0, unused; iWARP goes by the address {}.", listed(usable, 2)));
}

std::string named(const std::vector<const gid *> &some) {
    std::vector<std::string> words;
    for (const gid *each : some)
        words.push_back(fmt::format("{} ({})", each->index, each->address));
    return listed(words, 3);
}

void roce(const host &here, check &found, const std::vector<gid> &gids, const std::string &type,
          const std::string &netdev) {
    std::vector<const gid *> taken, others;
    for (const gid &each : gids)
        (each.type == type && !each.link_local ? taken : others).push_back(&each);
    const auto is_ipv4 = [](const gid *each) {
        return each->address.find(':') == std::string::npos;
    };
    std::stable_partition(taken.begin(), taken.end(), is_ipv4);
    const remedy mend = add_address(here, netdev);
    if (gids.empty())
        found.fail("none, so nothing can be sent.", mend.fix, mend.command);
    else if (taken.empty())
        found.warn(fmt::format("only {}: rdma_cm needs a {} GID that is an ordinary address.",
                               named(others), type),
                   mend.fix, mend.command);
    else
        found.ok(fmt::format("index {}: {}, and rdma_cm takes it.{}", named(taken), type,
                             others.empty() ? "" : " Also: " + named(others) + "."));
}

} // namespace

void check_gids(const host &here, report &all, const std::string &device) {
    check &found = all.add("gid", "GIDs", device);
    const std::string folder = "/sys/class/infiniband/" + device;
    const std::string port = port_of(here, device);
    const std::string netdev = netdev_of(here, device);
    const std::vector<gid> gids = table(here, folder + "/ports/" + port);
    if (!netdev.empty() && !here.interfaces.count(netdev))
        found.skip(netdev + " is not in this network namespace.");
    else if (here.read(folder + "/node_type").value_or("").rfind("4:", 0) == 0)
        by_address(here, found, netdev);
    else if (here.read(folder + "/ports/" + port + "/link_layer") == "InfiniBand")
        found.ok("InfiniBand: index 0, and the port's LID.");
    else
        roce(here, found, gids, default_type(here, device, port, gids), netdev);
}

} // namespace tools::doctor

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Fills in a host from system calls.

#include "doctor/host.hpp"
#include "provider_config/serving_provider.hpp"

#include <arpa/inet.h>
#include <cstdlib>
#include <cstring>
#include <grp.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <pwd.h>
#include <sstream>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

namespace tools::doctor {
namespace {

constexpr unsigned CAP_IPC_LOCK_BIT = 14; // in CapEff

/// Whether this process is in the group.
bool is_member(gid_t group) {
    std::vector<gid_t> groups(static_cast<std::size_t>(std::max(getgroups(0, nullptr), 0)));
    const int count = getgroups(static_cast<int>(groups.size()), groups.data());
    groups.resize(static_cast<std::size_t>(std::max(count, 0)));
    groups.push_back(getegid());
    for (const gid_t member : groups) {
        if (member == group)
            return true;
    }
    return false;
}

device_node stat_node(const std::string &path) {
    struct stat attr {};
    if (stat(path.c_str(), &attr) != 0)
        return {};
    const group *group_entry = getgrgid(attr.st_gid);
    return {true, access(path.c_str(), R_OK | W_OK) == 0, attr.st_mode & 07777,
            group_entry ? group_entry->gr_name : std::to_string(attr.st_gid),
            is_member(attr.st_gid)};
}

/// The kernel ignores the limit only for CAP_IPC_LOCK in the initial user namespace.
bool has_unlimited_pinning(const host &machine) {
    // The initial user namespace maps all user ids to themselves. Without the file the kernel has
    // no user namespaces.
    constexpr std::uint64_t NUM_IDS = 4294967295;
    std::istringstream map(machine.read_file("/proc/self/uid_map").value_or("0 0 4294967295"));
    std::uint64_t first_id = 0, first_parent_id = 0, num_ids = 0;
    map >> first_id >> first_parent_id >> num_ids;
    if (first_id != 0 || first_parent_id != 0 || num_ids != NUM_IDS)
        return false;
    for (const std::string &line : machine.read_lines("/proc/self/status")) {
        if (line.rfind("CapEff:", 0) == 0)
            return std::strtoull(line.c_str() + 7, nullptr, 16) >> CAP_IPC_LOCK_BIT & 1;
    }
    return false;
}

std::string address_to_string(const sockaddr *addr) {
    char text[INET6_ADDRSTRLEN] = "";
    if (addr && addr->sa_family == AF_INET) {
        sockaddr_in address;
        std::memcpy(&address, addr, sizeof address);
        inet_ntop(AF_INET, &address.sin_addr, text, sizeof text);
    } else if (addr && addr->sa_family == AF_INET6) {
        sockaddr_in6 address;
        std::memcpy(&address, addr, sizeof address);
        inet_ntop(AF_INET6, &address.sin6_addr, text, sizeof text);
    }
    return text;
}

/// By name. From getifaddrs, since /sys can belong to another network namespace.
std::map<std::string, interface> query_interfaces() {
    std::map<std::string, interface> interfaces_by_name;
    ifaddrs *first = nullptr;
    if (getifaddrs(&first) != 0)
        return interfaces_by_name;
    for (const ifaddrs *entry = first; entry; entry = entry->ifa_next) {
        interface &netdev = interfaces_by_name[entry->ifa_name];
        netdev.is_up = entry->ifa_flags & IFF_UP;
        netdev.has_carrier = entry->ifa_flags & IFF_RUNNING;
        if (const std::string address = address_to_string(entry->ifa_addr); !address.empty())
            netdev.addresses.push_back(address);
    }
    freeifaddrs(first);
    return interfaces_by_name;
}

} // namespace

std::map<std::string, std::string> read_environment() {
    std::map<std::string, std::string> values;
    // softrdma sets SOFTRDMA_HOST in its guests.
    for (const char *name : {"RDMAV_DRIVERS", "IBV_DRIVERS", "SOFTRDMA_HOST"}) {
        if (const char *value = std::getenv(name))
            values[name] = value;
    }
    return values;
}

host this_machine() {
    host h;
    utsname names{};
    if (uname(&names) == 0)
        h.kernel = names.release;
    const passwd *user = getpwuid(geteuid());
    h.user = user ? user->pw_name : std::to_string(geteuid());
    h.is_root = geteuid() == 0;
    rlimit memlock{};
    if (getrlimit(RLIMIT_MEMLOCK, &memlock) == 0 && memlock.rlim_cur != RLIM_INFINITY)
        h.memlock_limit = memlock.rlim_cur;
    h.has_unlimited_pinning = has_unlimited_pinning(h);
    h.netlink = query_netlink();
    h.interfaces = query_interfaces();
    h.environment = read_environment();
    h.libibverbs_path = provider_config::find_libibverbs();
    h.stat_node = stat_node;
    h.open_device = open_device;
    h.query_coherency = query_coherency;
    return h;
}

} // namespace tools::doctor

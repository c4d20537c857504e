// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What system calls tell about this machine.

#include "doctor/host.hpp"
#include "selection/serving.hpp"

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

constexpr unsigned CAP_IPC_LOCK_BIT = 14;

bool in_group(gid_t group) {
    std::vector<gid_t> groups(static_cast<std::size_t>(std::max(getgroups(0, nullptr), 0)));
    const int count = getgroups(static_cast<int>(groups.size()), groups.data());
    groups.resize(static_cast<std::size_t>(std::max(count, 0)));
    groups.push_back(getegid());
    for (const gid_t each : groups) {
        if (each == group)
            return true;
    }
    return false;
}

node look_at(const std::string &path) {
    struct stat facts {};
    if (stat(path.c_str(), &facts) != 0)
        return {};
    const group *named = getgrgid(facts.st_gid);
    return {true, access(path.c_str(), R_OK | W_OK) == 0, facts.st_mode & 07777,
            named ? named->gr_name : std::to_string(facts.st_gid), in_group(facts.st_gid)};
}

/// The kernel counts pinned memory unless the capability is one of the first user namespace.
bool pins_freely(const host &here) {
    std::istringstream map(here.read("/proc/self/uid_map").value_or("0 0 4294967295"));
    std::uint64_t inside = 0, outside = 0, count = 0;
    map >> inside >> outside >> count;
    if (inside != 0 || outside != 0 || count != 4294967295)
        return false;
    for (const std::string &line : here.lines("/proc/self/status")) {
        if (line.rfind("CapEff:", 0) == 0)
            return std::strtoull(line.c_str() + 7, nullptr, 16) >> CAP_IPC_LOCK_BIT & 1;
    }
    return false;
}

std::string address_in(const sockaddr *from) {
    char text[INET6_ADDRSTRLEN] = "";
    if (from && from->sa_family == AF_INET) {
        sockaddr_in address;
        std::memcpy(&address, from, sizeof address);
        inet_ntop(AF_INET, &address.sin_addr, text, sizeof text);
    } else if (from && from->sa_family == AF_INET6) {
        sockaddr_in6 address;
        std::memcpy(&address, from, sizeof address);
        inet_ntop(AF_INET6, &address.sin6_addr, text, sizeof text);
    }
    return text;
}

/// Not from /sys, which may be that of another network namespace.
std::map<std::string, interface> interfaces() {
    std::map<std::string, interface> all;
    ifaddrs *first = nullptr;
    if (getifaddrs(&first) != 0)
        return all;
    for (const ifaddrs *each = first; each; each = each->ifa_next) {
        interface &one = all[each->ifa_name];
        one.up = each->ifa_flags & IFF_UP;
        one.carrier = each->ifa_flags & IFF_RUNNING;
        if (const std::string address = address_in(each->ifa_addr); !address.empty())
            one.addresses.push_back(address);
    }
    freeifaddrs(first);
    return all;
}

} // namespace

std::map<std::string, std::string> environment() {
    std::map<std::string, std::string> all;
    for (const char *name : {"RDMAV_DRIVERS", "IBV_DRIVERS", "SOFTRDMA_HOST"}) {
        if (const char *value = std::getenv(name))
            all[name] = value;
    }
    return all;
}

host this_machine() {
    host here;
    utsname names{};
    if (uname(&names) == 0)
        here.kernel = names.release;
    const passwd *me = getpwuid(geteuid());
    here.user = me ? me->pw_name : std::to_string(geteuid());
    here.is_root = geteuid() == 0;
    rlimit limit{};
    if (getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
        here.memlock = limit.rlim_cur;
    here.pins_freely = pins_freely(here);
    here.netlink = ask_netlink();
    here.interfaces = interfaces();
    here.environment = environment();
    here.library = selection::find_libibverbs();
    here.look_at = look_at;
    here.open = open_device;
    here.coherency = ask_coherency;
    return here;
}

} // namespace tools::doctor

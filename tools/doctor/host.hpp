// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The machine to check: its files below a root, and the results of system calls. Unit tests supply
// other roots and results.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace tools::doctor {

/// A device node in /dev/infiniband.
struct device_node {
    bool exists = false;
    bool is_accessible = false; ///< this process may read and write it
    unsigned mode = 0;          ///< permission bits
    std::string group;          ///< that owns it
    bool is_member = false;     ///< this process is in the group
};

/// What libibverbs does when a device is opened.
struct open_result {
    bool is_listed = false;    ///< libibverbs lists the device
    bool is_open = false;      ///< opening succeeded
    std::string message;       ///< libibverbs' output, or the error
    std::string plugin = {};   ///< path of the plugin that serves it; "" if unknown
    bool is_preloaded = false; ///< the plugin was loaded before libibverbs searched for plugins
};

struct coherency_result {
    std::string coherency; ///< coherent, non-coherent, bounced, unknown; "" if the query failed
    std::string explanation;
    std::string sync_problem = {}; ///< why programs that need sync cannot open the device, or ""
};

/// Whether network namespaces share RDMA devices: "rdma system show netns".
enum class netns_mode { UNKNOWN, SHARED, EXCLUSIVE };

struct netlink_info {
    bool is_available = false; ///< the kernel supports RDMA netlink
    netns_mode mode = netns_mode::UNKNOWN;
    std::map<std::string, std::string>
        netdevs; ///< by device name; netdev of the first port that has one
};

/// A network interface.
struct interface {
    bool is_up = false;
    bool has_carrier = false;
    std::vector<std::string> addresses;
};

inline constexpr std::uint64_t NO_LIMIT = ~std::uint64_t{0};

struct host {
    std::string root;   ///< prefix of all paths; "" for this machine
    std::string kernel; ///< its release, as in uname -r
    std::string user = "root";
    bool is_root = true;
    std::uint64_t memlock_limit = NO_LIMIT; ///< RLIMIT_MEMLOCK, in bytes
    bool has_unlimited_pinning = false;     ///< the limit does not apply: CAP_IPC_LOCK
    netlink_info netlink;
    std::map<std::string, interface> interfaces;    ///< in this network namespace
    std::map<std::string, std::string> environment; ///< the variables that affect libibverbs
    std::string libibverbs_path; ///< of libibverbs.so.1, below the root; "" if not found
    std::function<device_node(const std::string &)> stat_node = [](const std::string &) {
        return device_node{};
    };
    std::function<open_result(const std::string &)> open_device = [](const std::string &) {
        return open_result{};
    };
    std::function<coherency_result(const std::string &)> query_coherency = [](const std::string &) {
        return coherency_result{};
    };

    /// The file's content, decompressed if it is gzip, without trailing whitespace.
    [[nodiscard]] std::optional<std::string> read_file(const std::string &path) const;
    /// The file's lines; empty if it cannot be read.
    [[nodiscard]] std::vector<std::string> read_lines(const std::string &path) const;
    [[nodiscard]] bool exists(const std::string &path) const;
    /// The names in a folder, sorted; empty if it cannot be read.
    [[nodiscard]] std::vector<std::string> list_folder(const std::string &path) const;

    [[nodiscard]] bool is_container() const;
    /// The command, with sudo if this user is not root.
    [[nodiscard]] std::string with_sudo(const std::string &command) const;
};

/// The machine on which this process runs.
host this_machine();

/// The variables that affect libibverbs or where this process runs.
std::map<std::string, std::string> read_environment();
netlink_info query_netlink();
open_result open_device(const std::string &name);
coherency_result query_coherency(const std::string &name);

} // namespace tools::doctor

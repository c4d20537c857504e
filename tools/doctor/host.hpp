// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The machine that is looked at: its files below a root, and what only system calls tell. A test
// gives another root and other answers.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace tools::doctor {

struct node {
    bool there = false;
    bool usable = false; ///< this process may read and write it
    unsigned mode = 0;   ///< permission bits
    std::string group;
    bool member = false; ///< this process is in the group
};

struct opened {
    bool listed = false; ///< libibverbs knows the device
    bool open = false;
    std::string words;       ///< what libibverbs printed, or the error
    std::string plugin = {}; ///< the file whose code serves it; "" if nobody knows
    bool preloaded = false;  ///< that file was there before libibverbs looked for any
};

struct verdict {
    std::string name; ///< coherent, non-coherent, unknown; "" if the question failed
    std::string explanation;
};

enum class netns_mode { UNKNOWN, SHARED, EXCLUSIVE };

struct netlink_answer {
    bool there = false; ///< the kernel answers on the RDMA socket
    netns_mode mode = netns_mode::UNKNOWN;
    std::map<std::string, std::string> netdevs; ///< by device, of the first port that has one
};

struct interface {
    bool up = false;
    bool carrier = false;
    std::vector<std::string> addresses;
};

inline constexpr std::uint64_t NO_LIMIT = ~std::uint64_t{0};

struct host {
    std::string root;   ///< before every path; "" is this machine
    std::string kernel; ///< its release, as of uname -r
    std::string user = "root";
    bool is_root = true;
    std::uint64_t memlock = NO_LIMIT; ///< bytes
    bool pins_freely = false;         ///< memlock does not count: CAP_IPC_LOCK
    netlink_answer netlink;
    std::map<std::string, interface> interfaces;    ///< of this network namespace
    std::map<std::string, std::string> environment; ///< what of it matters here
    std::string library; ///< where libibverbs.so.1 is, without the root; "" if not found
    std::function<node(const std::string &)> look_at = [](const std::string &) {
        return node{};
    };
    std::function<opened(const std::string &)> open = [](const std::string &) {
        return opened{};
    };
    std::function<verdict(const std::string &)> coherency = [](const std::string &) {
        return verdict{};
    };

    /// The file, also if compressed by gzip, without blanks at its end.
    [[nodiscard]] std::optional<std::string> read(const std::string &path) const;
    /// The same, in lines; none if it cannot be read.
    [[nodiscard]] std::vector<std::string> lines(const std::string &path) const;
    [[nodiscard]] bool exists(const std::string &path) const;
    /// Names in a folder, sorted; none if it cannot be read.
    [[nodiscard]] std::vector<std::string> list(const std::string &path) const;

    [[nodiscard]] bool in_container() const;
    /// A command as this user has to type it.
    [[nodiscard]] std::string as_root(const std::string &command) const;
};

/// The machine that this process runs on.
host this_machine();

std::map<std::string, std::string> environment();
netlink_answer ask_netlink();
opened open_device(const std::string &name);
verdict ask_coherency(const std::string &name);

} // namespace tools::doctor

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Why there is, or is not, a working RDMA device here, and what to type next. The table of checks
// is in checks.cpp; each check looks at a host and adds what it found to a report.
#pragma once

#include "doctor/host.hpp"

#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

namespace tools::doctor {

/// How a check ended. SKIP: there is nothing to look at, because of something that is said above.
enum class state { OK, WARN, FAIL, SKIP };

struct check {
    std::string id;     ///< for programs: never changes, once per device
    std::string title;  ///< for people
    std::string device; ///< "" if it is about the whole machine
    state is = state::OK;
    std::string evidence; ///< what was seen, and where
    std::string fix;      ///< what mends it, in words; may be "" where the command says it all
    std::string command;  ///< what to type next, or ""

    void ok(std::string seen) { ends(state::OK, std::move(seen)); }
    void skip(std::string why) { ends(state::SKIP, std::move(why)); }
    void warn(std::string seen, std::string mend, std::string type = {}) {
        ends(state::WARN, std::move(seen), std::move(mend), std::move(type));
    }
    void fail(std::string seen, std::string mend, std::string type = {}) {
        ends(state::FAIL, std::move(seen), std::move(mend), std::move(type));
    }

  private:
    void ends(state how, std::string seen, std::string mend = {}, std::string type = {}) {
        is = how;
        evidence = std::move(seen);
        fix = std::move(mend);
        command = std::move(type);
    }
};

struct report {
    std::vector<check> checks;
    std::vector<std::string> devices; ///< that are looked at
    std::vector<std::string> working; ///< those of them without a failed check

    /// The reference is good until the next one is added.
    check &add(std::string id, std::string title, std::string device = {});
    [[nodiscard]] const check *find(std::string_view id, std::string_view device = {}) const;
    [[nodiscard]] bool failed(std::string_view id, std::string_view device = {}) const;
    [[nodiscard]] bool any_failed() const;
};

/// All checks, over these devices (all, if none is named).
report examine(const host &here, const std::vector<std::string> &wanted);

void print_text(const report &all, std::FILE *to, bool colour);
std::string as_json(const report &all);
const char *name_of(state is);

// -- the checks, in their order ------------------------------------------------------------------

void check_kernel(const host &here, report &all);
void check_modules(const host &here, report &all);
void check_soft_drivers(const host &here, report &all);
void check_devices(const host &here, report &all, const std::vector<std::string> &wanted);
void check_rdma_cm(const host &here, report &all);
void check_memlock(const host &here, report &all);
void check_netns(const host &here, report &all);
void check_library(const host &here, report &all);
void check_providers(const host &here, report &all);
void check_driver_lines(const host &here, report &all);
void check_environment(const host &here, report &all);
void check_selection(const host &here, report &all);

void check_node(const host &here, report &all, const std::string &device);
void check_opens(const host &here, report &all, const std::string &device);
void check_served(const host &here, report &all, const std::string &device);
void check_port(const host &here, report &all, const std::string &device);
void check_gids(const host &here, report &all, const std::string &device);
void check_coherency(const host &here, report &all, const std::string &device);

// -- what checks share ---------------------------------------------------------------------------

/// What to type to have a command run where RDMA is, whatever is wrong here.
inline constexpr char LAB[] = "softrdma run -- ibv_devinfo";

/// "a, b and 3 more": what fits a line.
std::string listed(const std::vector<std::string> &names, std::size_t most = 6);

/// Where a kernel module is: UNKNOWN if this machine does not let us see its kernel's modules.
enum class presence { LOADED, LOADABLE, ABSENT, UNKNOWN };
presence module(const host &here, const std::string &name);

/// What brings a module that this kernel's package lacks: words, and a command or "".
struct remedy {
    std::string fix, command;
};
remedy package_with(const host &here, const std::string &module);
remedy package_of_providers(const host &here);
remedy matched_providers(const host &here);

/// The path of its node, given to a container or not; empty: the kernel names none.
std::string node_of(const host &here, const std::string &device);

/// How a container is started that is to have this device.
std::string give_node(const std::string &device);

/// The port that matters: the first active one, else the first.
std::string port_of(const host &here, const std::string &device);

/// The interface under a device, or "" if nobody says.
std::string netdev_of(const host &here, const std::string &device);

} // namespace tools::doctor

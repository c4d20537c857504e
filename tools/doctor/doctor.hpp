// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Diagnoses why RDMA devices work or not, and suggests a fix for each problem. checks.cpp lists the
// checks; each examines a host and adds its result to a report.
#pragma once

#include "doctor/host.hpp"

#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

namespace tools::doctor {

/// The result of a check. SKIP: the check depends on another one that failed, or cannot be made.
enum class check_status { OK, WARN, FAIL, SKIP };

struct check {
    std::string id;     ///< stable identifier for programs, unique per device
    std::string title;  ///< heading for users
    std::string device; ///< "" if it concerns the whole machine
    check_status status = check_status::OK;
    std::string evidence;    ///< what was read, and where
    std::string explanation; ///< of the fix; may be "" if that is sufficient
    std::string fix;         ///< the command to type; "" if the status is OK or SKIP

    void ok(std::string observed) { set(check_status::OK, std::move(observed)); }
    void skip(std::string reason) { set(check_status::SKIP, std::move(reason)); }
    void warn(std::string observed, std::string advice, std::string command) {
        set(check_status::WARN, std::move(observed), std::move(advice), std::move(command));
    }
    void fail(std::string observed, std::string advice, std::string command) {
        set(check_status::FAIL, std::move(observed), std::move(advice), std::move(command));
    }

  private:
    void set(check_status new_status, std::string observed, std::string advice = {},
             std::string command = {}) {
        status = new_status;
        evidence = std::move(observed);
        explanation = std::move(advice);
        fix = std::move(command);
    }
};

struct report {
    std::vector<check> checks;
    std::vector<std::string> devices; ///< the devices that are checked
    std::vector<std::string> working; ///< those without a failed check

    /// The reference is valid until the next add().
    check &add(std::string id, std::string title, std::string device = {});
    [[nodiscard]] const check *find(std::string_view id, std::string_view device = {}) const;
    [[nodiscard]] bool failed(std::string_view id, std::string_view device = {}) const;
    [[nodiscard]] bool any_failed() const;
};

/// Runs all checks for the named devices, or for all if none is named.
report examine(const host &machine, const std::vector<std::string> &names);

void print_text(const report &results, std::FILE *out, bool color);
std::string as_json(const report &results);
const char *name_of(check_status status);

// -- the checks, in order -----------------------------------------------------------------------

void check_kernel(const host &machine, report &results);
void check_modules(const host &machine, report &results);
void check_soft_drivers(const host &machine, report &results);
void check_devices(const host &machine, report &results, const std::vector<std::string> &names);
void check_rdma_cm(const host &machine, report &results);
void check_memlock(const host &machine, report &results);
void check_netns(const host &machine, report &results);
void check_library(const host &machine, report &results);
void check_providers(const host &machine, report &results);
void check_driver_lines(const host &machine, report &results);
void check_environment(const host &machine, report &results);
void check_provider_config(const host &machine, report &results);

void check_node(const host &machine, report &results, const std::string &device);
void check_open(const host &machine, report &results, const std::string &device);
void check_served(const host &machine, report &results, const std::string &device);
void check_port(const host &machine, report &results, const std::string &device);
void check_gids(const host &machine, report &results, const std::string &device);
void check_coherency(const host &machine, report &results, const std::string &device);

// -- shared by checks ----------------------------------------------------------------------------

/// A command that runs in softrdma's lab, which has RDMA in any case.
inline constexpr char LAB[] = "softrdma run -- ibv_devinfo";
/// The same with the kernel and the libraries of a Debian release.
inline constexpr char GUEST[] = "softrdma run --suite trixie -- ibv_devinfo";

/// "a, b and 3 more"
std::string join_names(const std::vector<std::string> &names, std::size_t max = 6);

/// State of a kernel module. UNKNOWN: the modules of the running kernel are not visible.
enum class module_state { LOADED, LOADABLE, ABSENT, UNKNOWN };
module_state find_module(const host &machine, const std::string &name);

/// A fix: its explanation, which may be "", and the command.
struct fix_hint {
    std::string explanation, fix;
};
fix_hint package_with_module(const host &machine, const std::string &module);
fix_hint providers_package(const host &machine);
fix_hint matching_packages(const host &machine);
/// The command that prints the package of a file.
std::string package_with_file(const host &machine, const std::string &path);

/// The path of the device node, whether or not it exists in this container; "" if the kernel has
/// none.
std::string device_node_path(const host &machine, const std::string &device);

/// The command that starts a container with this device.
std::string container_command(const std::string &device);

/// The first active port, else the first.
std::string select_port(const host &machine, const std::string &device);

/// The network interface of a device, or "" if unknown.
std::string find_netdev(const host &machine, const std::string &device);

} // namespace tools::doctor

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

/// For check::warn() and fail(): the command needs no explanation.
inline constexpr char NO_ADVICE[] = "";

struct check {
    std::string id;     ///< stable identifier for programs, unique per device
    std::string title;  ///< heading for users
    std::string device; ///< "" if it concerns the whole machine
    check_status status = check_status::OK;
    std::string evidence;    ///< what was read, and where
    std::string explanation; ///< of the fix; may be "" if that is sufficient
    std::string fix;         ///< the command to type; "" if the status is OK or SKIP

    // Each sets the result. observed: what was read, and where; advice: explains the command, which
    // the user can type to fix the problem.
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
    std::vector<std::string> checked_devices;
    std::vector<std::string> working_devices; ///< those without a failed check

    /// Adds a check without result. The reference is valid until the next add().
    check &add(std::string id, std::string title, std::string device = {});
    /// nullptr if the check has not run.
    [[nodiscard]] const check *find(std::string_view id, std::string_view device = {}) const;
    [[nodiscard]] bool has_failed(std::string_view id, std::string_view device = {}) const;
    [[nodiscard]] bool has_any_failed() const;
};

/// Runs all checks for the named devices, or for all if none is named.
report examine(const host &machine, const std::vector<std::string> &names);

void print_text(const report &results, std::FILE *out, bool use_color);
std::string as_json(const report &results);
const char *name_of(check_status status);

// -- the checks, in order -----------------------------------------------------------------------

void check_kernel(const host &machine, report &results);
void check_modules(const host &machine, report &results);
void check_soft_drivers(const host &machine, report &results);
/// Fills in report::checked_devices.
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
inline constexpr char RUN_IN_SOFTRDMA[] = "softrdma run -- ibv_devinfo";
/// The same with the kernel and the libraries of a Debian release.
inline constexpr char RUN_IN_SOFTRDMA_GUEST[] = "softrdma run --suite trixie -- ibv_devinfo";

/// "a, b and 3 more" if there are more than max_names.
std::string join_names(const std::vector<std::string> &names, std::size_t max_names = 6);

/// State of a kernel module. LOADED: or built in; LOADABLE: by modprobe; UNKNOWN: the modules of
/// the running kernel are not visible.
enum class module_state { LOADED, LOADABLE, ABSENT, UNKNOWN };
module_state find_module_state(const host &machine, const std::string &name);

/// A fix: the command to type, and its explanation, which may be "".
struct fix_hint {
    std::string explanation, fix;
};
/// How to install a missing kernel module.
fix_hint install_module_hint(const host &machine, const std::string &module);
/// How to install rdma-core's providers.
fix_hint install_providers_hint(const host &machine);
/// How to make libibverbs and its providers those of one rdma-core.
fix_hint reinstall_rdma_core_hint(const host &machine);
/// The command that prints the package of a file.
std::string query_package_command(const host &machine, const std::string &path);

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

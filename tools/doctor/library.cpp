// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Checks libibverbs and its providers: plugins whose file names contain the number of the private
// ABI.

#include "doctor/doctor.hpp"
#include "provider_config/system_setting.hpp"

#include <fmt/core.h>

namespace tools::doctor {
namespace {

using namespace provider_config;

struct providers {
    std::vector<std::string> matching;   ///< names of plugins for this libibverbs: "rxe"
    std::vector<std::string> mismatched; ///< file names of plugins for another one
};

/// The plugins in libibverbs' folder: those for its ABI version, and others, which it cannot load.
providers list_providers(const host &machine) {
    providers plugins;
    const std::string suffix = "-rdmav" + private_abi_number(machine) + ".so";
    for (const std::string &file : machine.list_folder(plugin_folder(machine))) {
        const std::size_t pos = file.find("-rdmav");
        if (file.rfind("lib", 0) != 0 || pos == std::string::npos)
            continue;
        if (file.substr(pos) == suffix)
            plugins.matching.push_back(file.substr(3, pos - 3));
        else
            plugins.mismatched.push_back(file);
    }
    return plugins;
}

/// Skips the check if that of libibverbs has failed. Returns whether it did.
bool skip_without_library(const report &results, check &c) {
    if (results.has_failed("libibverbs"))
        c.skip("requires libibverbs.");
    return results.has_failed("libibverbs");
}

} // namespace

void check_library(const host &machine, report &results) {
    check &c = results.add("libibverbs", "libibverbs");
    const std::string abi = private_abi_number(machine);
    const fix_hint hint = install_providers_hint(machine);
    if (machine.libibverbs_path.empty())
        c.fail("libibverbs.so.1 is not found.",
               hint.explanation.empty() ? "It comes with the providers." : hint.explanation,
               hint.fix);
    else if (abi.empty())
        c.warn(machine.libibverbs_path + " has no private ABI version, so it is not rdma-core's.",
               "Install library and providers of your distribution.",
               reinstall_rdma_core_hint(machine).fix);
    else
        c.ok(fmt::format("{}, private ABI {}.", machine.libibverbs_path, abi));
}

void check_providers(const host &machine, report &results) {
    check &c = results.add("providers", "Providers");
    if (skip_without_library(results, c))
        return;
    const providers installed = list_providers(machine);
    const std::string abi = private_abi_number(machine);
    const fix_hint hint = install_providers_hint(machine);
    if (!installed.matching.empty() && installed.mismatched.empty())
        c.ok(join_names(installed.matching) + ".");
    else if (!installed.matching.empty())
        c.warn(fmt::format("{} are not loaded: libibverbs requires -rdmav{}.so.",
                           join_names(installed.mismatched, 3), abi),
               "They belong to another rdma-core version; the others work. If no package has them, "
               "remove them.",
               query_package_command(machine,
                                     plugin_folder(machine) + "/" + installed.mismatched.front()));
    else if (!installed.mismatched.empty()) {
        const fix_hint matching_hint = reinstall_rdma_core_hint(machine);
        c.fail(fmt::format("none for this libibverbs: it requires -rdmav{}.so, found {}.", abi,
                           join_names(installed.mismatched, 3)),
               matching_hint.explanation, matching_hint.fix);
    } else
        c.fail(fmt::format("no lib*-rdmav{}.so in {}.", abi, plugin_folder(machine)),
               hint.explanation, hint.fix);
}

/// Checks whether the plugins exist that the lines "driver NAME" name.
void check_driver_lines(const host &machine, report &results) {
    check &c = results.add("driver_lines", "Lines in /etc/libibverbs.d");
    if (skip_without_library(results, c))
        return;
    std::vector<std::string> stale_lines; // their plugin does not exist
    std::string first_stale_file, first_stale_name;
    int num_lines = 0;
    for (const driver_file &file : read_driver_files(machine)) {
        for (const auto &[line_num, name] : parse_driver_lines(file.text)) {
            ++num_lines;
            // check_provider_config checks coherdma's lines.
            if (is_coherdma_driver(name) || machine.exists(plugin_path(machine, name)))
                continue;
            if (stale_lines.empty()) {
                first_stale_file = file.path;
                first_stale_name = name;
            }
            stale_lines.push_back("driver " + name);
        }
    }
    if (results.has_failed("providers"))
        c.skip("requires providers.");
    else if (stale_lines.empty())
        c.ok(fmt::format("{}, all plugins exist.", num_lines));
    else
        c.warn(fmt::format("{}: no such file, so all programs print a warning.",
                           join_names(stale_lines, 4)),
               "Install the provider, or disable the line.",
               machine.with_sudo(fmt::format("sed -i 's|^[ \\t]*driver[ \\t]*{}|#&|' {}",
                                             first_stale_name, first_stale_file)));
}

void check_environment(const host &machine, report &results) {
    check &c = results.add("environment", "RDMAV_DRIVERS");
    if (skip_without_library(results, c))
        return;
    const driver_variable drivers = get_driver_variable(machine);
    if (drivers.variable.empty()) {
        c.ok("not set.");
        return;
    }
    for (const std::string &name : drivers.names) {
        if (!machine.exists(plugin_path(machine, name))) {
            c.warn(fmt::format("{} names {}, but {} does not exist.", drivers.variable, name,
                               plugin_path(machine, name)),
                   NO_ADVICE, "unset " + drivers.variable);
            return;
        }
    }
    c.ok(fmt::format("{}={}: loaded first.", drivers.variable, drivers.value));
}

} // namespace tools::doctor

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
    std::vector<std::string> matching;   ///< names of plugins for this libibverbs
    std::vector<std::string> mismatched; ///< file names of plugins for another one
};

providers list_providers(const host &machine) {
    providers plugins;
    const std::string suffix = "-rdmav" + private_abi(machine) + ".so";
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

bool skip_without_library(const report &results, check &c) {
    if (results.failed("libibverbs"))
        c.skip("requires libibverbs.");
    return results.failed("libibverbs");
}

} // namespace

void check_library(const host &machine, report &results) {
    check &c = results.add("libibverbs", "libibverbs");
    const std::string abi = private_abi(machine);
    const fix_hint hint = providers_package(machine);
    if (machine.library.empty())
        c.fail("libibverbs.so.1 is not found.",
               hint.explanation.empty() ? "It comes with the providers." : hint.explanation,
               hint.fix);
    else if (abi.empty())
        c.warn(machine.library + " has no private ABI version, so it is not rdma-core's.",
               "Install library and providers of your distribution.",
               matching_packages(machine).fix);
    else
        c.ok(fmt::format("{}, private ABI {}.", machine.library, abi));
}

void check_providers(const host &machine, report &results) {
    check &c = results.add("providers", "Providers");
    if (skip_without_library(results, c))
        return;
    const providers installed = list_providers(machine);
    const std::string abi = private_abi(machine);
    const fix_hint hint = providers_package(machine);
    if (!installed.matching.empty() && installed.mismatched.empty())
        c.ok(join_names(installed.matching) + ".");
    else if (!installed.matching.empty())
        c.warn(fmt::format("{} are not loaded: libibverbs requires -rdmav{}.so.",
                           join_names(installed.mismatched, 3), abi),
               "They belong to another rdma-core version; the others work. If no package has them, "
               "remove them.",
               package_with_file(machine,
                                 plugin_folder(machine) + "/" + installed.mismatched.front()));
    else if (!installed.mismatched.empty()) {
        const fix_hint matching_hint = matching_packages(machine);
        c.fail(fmt::format("none for this libibverbs: it requires -rdmav{}.so, found {}.", abi,
                           join_names(installed.mismatched, 3)),
               matching_hint.explanation, matching_hint.fix);
    } else
        c.fail(fmt::format("no lib*-rdmav{}.so in {}.", abi, plugin_folder(machine)),
               hint.explanation, hint.fix);
}

void check_driver_lines(const host &machine, report &results) {
    check &c = results.add("driver_lines", "Lines in /etc/libibverbs.d");
    if (skip_without_library(results, c))
        return;
    std::vector<std::string> stale;
    std::string first_path, first_name;
    int count = 0;
    for (const driver_file &file : driver_files(machine)) {
        for (const auto &[number, name] : parse_driver_lines(file.text)) {
            ++count;
            // check_provider_config checks coherdma's lines.
            if (is_coherdma(name) || machine.exists(plugin_file(machine, name)))
                continue;
            if (stale.empty()) {
                first_path = file.path;
                first_name = name;
            }
            stale.push_back("driver " + name);
        }
    }
    if (results.failed("providers"))
        c.skip("requires providers.");
    else if (stale.empty())
        c.ok(fmt::format("{}, all plugins exist.", count));
    else
        c.warn(
            fmt::format("{}: no such file, so all programs print a warning.", join_names(stale, 4)),
            "Install the provider, or disable the line.",
            machine.with_sudo(
                fmt::format("sed -i 's|^[ \\t]*driver[ \\t]*{}|#&|' {}", first_name, first_path)));
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
        if (!machine.exists(plugin_file(machine, name))) {
            c.warn(fmt::format("{} names {}, but {} does not exist.", drivers.variable, name,
                               plugin_file(machine, name)),
                   "", "unset " + drivers.variable);
            return;
        }
    }
    c.ok(fmt::format("{}={}: loaded first.", drivers.variable, drivers.value));
}

} // namespace tools::doctor

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// libibverbs and the providers that it loads: files named for the number of its private ABI.

#include "doctor/doctor.hpp"
#include "selection/setting.hpp"

#include <fmt/format.h>

namespace tools::doctor {
namespace {

using namespace selection;

struct providers {
    std::vector<std::string> good, other; ///< for this libibverbs (names), and not (files)
};

providers installed(const host &here) {
    providers all;
    const std::string end = "-rdmav" + private_abi(here) + ".so";
    for (const std::string &file : here.list(plugin_folder(here))) {
        const std::size_t at = file.find("-rdmav");
        if (file.rfind("lib", 0) != 0 || at == std::string::npos)
            continue;
        if (file.substr(at) == end)
            all.good.push_back(file.substr(3, at - 3));
        else
            all.other.push_back(file);
    }
    return all;
}

bool waits(const report &all, check &found) {
    if (all.failed("libibverbs"))
        found.skip("waits for libibverbs.");
    return all.failed("libibverbs");
}

} // namespace

void check_library(const host &here, report &all) {
    check &found = all.add("libibverbs", "libibverbs");
    const std::string abi = private_abi(here);
    if (here.library.empty())
        found.fail("libibverbs.so.1 is not found.",
                   "It comes with the providers:", package_of_providers(here).command);
    else if (abi.empty())
        found.warn(here.library + " does not say the number of its private ABI.",
                   "It is not one of rdma-core; use your distribution's.");
    else
        found.ok(fmt::format("{}, private ABI {}.", here.library, abi));
}

void check_providers(const host &here, report &all) {
    check &found = all.add("providers", "Providers");
    if (waits(all, found))
        return;
    const providers files = installed(here);
    const std::string abi = private_abi(here);
    const remedy mend = package_of_providers(here);
    if (!files.good.empty() && files.other.empty())
        found.ok(listed(files.good) + ".");
    else if (!files.good.empty())
        found.warn(fmt::format("{} are not loaded: libibverbs wants -rdmav{}.so.",
                               listed(files.other, 3), abi),
                   "They are left over from another rdma-core, or made for one; the others work.");
    else if (!files.other.empty()) {
        const remedy match = matched_providers(here);
        found.fail(fmt::format("none for this libibverbs: it wants -rdmav{}.so, there are {}.", abi,
                               listed(files.other, 3)),
                   match.fix, match.command);
    } else
        found.fail(fmt::format("no lib*-rdmav{}.so in {}.", abi, plugin_folder(here)), mend.fix,
                   mend.command);
}

void check_driver_lines(const host &here, report &all) {
    check &found = all.add("driver_lines", "Lines in /etc/libibverbs.d");
    if (waits(all, found))
        return;
    std::vector<std::string> stale;
    std::string first, name_of_first;
    int count = 0;
    for (const driver_file &file : driver_files(here)) {
        for (const auto &[number, name] : driver_lines(file.text)) {
            ++count;
            if (is_ours(name) || here.exists(file_of(here, name))) // ours: see selection
                continue;
            if (stale.empty()) {
                first = file.path;
                name_of_first = name;
            }
            stale.push_back("driver " + name);
        }
    }
    if (all.failed("providers"))
        found.skip("waits for providers.");
    else if (stale.empty())
        found.ok(fmt::format("{}, each with its file.", count));
    else
        found.warn(
            fmt::format("{}: no such file, so every program prints a warning.", listed(stale, 4)),
            "Install the provider, or take the line out:",
            here.as_root(
                fmt::format("sed -i 's|^[ \\t]*driver[ \\t]*{}|#&|' {}", name_of_first, first)));
}

void check_environment(const host &here, report &all) {
    check &found = all.add("environment", "RDMAV_DRIVERS");
    if (waits(all, found))
        return;
    const wish wanted = wish_of(here);
    if (wanted.variable.empty()) {
        found.ok("not set: the usual order.");
        return;
    }
    for (const std::string &name : wanted.names) {
        if (!here.exists(file_of(here, name))) {
            found.warn(fmt::format("{} names {}, but there is no {}.", wanted.variable, name,
                                   file_of(here, name)),
                       "", "unset " + wanted.variable);
            return;
        }
    }
    found.ok(fmt::format("{}={}: loaded first.", wanted.variable, wanted.value));
}

} // namespace tools::doctor

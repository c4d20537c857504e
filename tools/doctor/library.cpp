// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// libibverbs and the providers that it loads: files named for the number of its private ABI.

#include "doctor/doctor.hpp"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>

namespace tools::doctor {
namespace {

/// The library defines a version IBVERBS_PRIVATE_<number>; "" if it does not.
std::string private_abi(const host &here) {
    const std::string name = "IBVERBS_PRIVATE_", bytes = here.read(here.library).value_or("");
    const std::size_t at = bytes.find(name);
    if (here.library.empty() || at == std::string::npos)
        return "";
    const std::size_t begin = at + name.size();
    return bytes.substr(begin, bytes.find_first_not_of("0123456789", begin) - begin);
}

std::string provider_folder(const host &here) {
    return std::filesystem::path(here.library).parent_path().string() + "/libibverbs";
}

/// Its file, as libibverbs makes it from a line "driver NAME" or from RDMAV_DRIVERS.
std::string file_of(const host &here, const std::string &name) {
    const std::string end = "-rdmav" + private_abi(here) + ".so";
    return name.rfind('/', 0) == 0 ? name + end : provider_folder(here) + "/lib" + name + end;
}

struct providers {
    std::vector<std::string> good, other; ///< for this libibverbs (names), and not (files)
};

providers installed(const host &here) {
    providers all;
    const std::string end = "-rdmav" + private_abi(here) + ".so";
    for (const std::string &file : here.list(provider_folder(here))) {
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

/// "driver NAME" -> NAME, with blanks wherever; "" for any other line.
std::string named_in(const std::string &line) {
    const std::string blanks = " \t";
    const std::size_t begin = line.find_first_not_of(blanks);
    if (begin == std::string::npos || line.compare(begin, 6, "driver") != 0)
        return "";
    const std::size_t name = line.find_first_not_of(blanks, begin + 6);
    if (name == std::string::npos || name == begin + 6)
        return "";
    return line.substr(name, line.find_first_of(blanks, name) - name);
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
        found.fail(fmt::format("no lib*-rdmav{}.so in {}.", abi, provider_folder(here)), mend.fix,
                   mend.command);
}

void check_driver_lines(const host &here, report &all) {
    check &found = all.add("driver_lines", "Lines in /etc/libibverbs.d");
    if (waits(all, found))
        return;
    std::vector<std::string> stale;
    std::string first, name_of_first;
    int count = 0;
    for (const std::string &file : here.list("/etc/libibverbs.d")) {
        for (const std::string &line : here.lines("/etc/libibverbs.d/" + file)) {
            const std::string name = named_in(line);
            count += !name.empty();
            if (name.empty() || here.exists(file_of(here, name)))
                continue;
            if (stale.empty()) {
                first = "/etc/libibverbs.d/" + file;
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
    auto set = here.environment.find("RDMAV_DRIVERS");
    if (set == here.environment.end())
        set = here.environment.find("IBV_DRIVERS");
    if (set == here.environment.end()) {
        found.ok("not set: the usual order.");
        return;
    }
    std::string names = set->second;
    std::replace(names.begin(), names.end(), ';', ':');
    for (std::size_t at = 0, end = 0; end != std::string::npos; at = end + 1) {
        end = names.find(':', at);
        const std::string name = names.substr(at, end - at);
        if (!name.empty() && !here.exists(file_of(here, name))) {
            found.warn(fmt::format("{} names {}, but there is no {}.", set->first, name,
                                   file_of(here, name)),
                       "", "unset " + set->first);
            return;
        }
    }
    found.ok(fmt::format("{}={}: loaded first.", set->first, set->second));
}

} // namespace tools::doctor

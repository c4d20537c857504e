// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The kernel modules that programs and soft devices need.

#include "doctor/doctor.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace tools::doctor {
namespace {

/// "kernel/drivers/siw.ko.xz: ..." -> "siw"
std::string module_of(const std::string &line) {
    const std::string path = line.substr(0, line.find(':'));
    const std::string name = path.substr(path.rfind('/') + 1);
    return name.substr(0, name.find(".ko"));
}

bool in_list(const host &here, const char *file, const std::string &name) {
    for (const std::string &line : here.lines("/lib/modules/" + here.kernel + "/" + file)) {
        if (module_of(line) == name)
            return true;
    }
    return false;
}

bool loaded(const host &here, const std::string &name) {
    if (here.exists("/sys/module/" + name))
        return true;
    for (const std::string &line : here.lines("/proc/modules")) {
        if (line.substr(0, line.find(' ')) == name)
            return true;
    }
    return false;
}

} // namespace

presence module(const host &here, const std::string &name) {
    if (loaded(here, name) || in_list(here, "modules.builtin", name))
        return presence::LOADED;
    if (in_list(here, "modules.dep", name))
        return presence::LOADABLE;
    const bool seen = here.exists("/lib/modules/" + here.kernel + "/modules.dep");
    return seen ? presence::ABSENT : presence::UNKNOWN;
}

void check_modules(const host &here, report &all) {
    check &found = all.add("modules", "Kernel modules");
    if (all.failed("kernel")) {
        found.skip("waits for RDMA in the kernel.");
        return;
    }
    const bool device = !here.list("/sys/class/infiniband").empty();
    const std::pair<const char *, const char *> wanted[] = {
        {"ib_uverbs", "/sys/class/infiniband_verbs"}, {"rdma_ucm", "/sys/class/misc/rdma_cm"}};
    std::vector<std::string> there, loadable, absent;
    for (const auto &[name, sign] : wanted) {
        const presence is = module(here, name);
        if (is == presence::LOADED || here.exists(sign))
            there.push_back(name);
        else if (is == presence::LOADABLE)
            loadable.push_back(name);
        else if (is == presence::ABSENT)
            absent.push_back(name);
    }
    if (!absent.empty()) {
        const remedy mend = package_with(here, absent.front());
        found.fail(fmt::format("kernel {} lacks {}.", here.kernel, listed(absent)), mend.fix,
                   mend.command.empty() ? LAB : mend.command);
    } else if (!loadable.empty() && device)
        found.fail(fmt::format("{} not loaded; programs cannot reach a device.", listed(loadable)),
                   "", here.as_root("modprobe -a " + fmt::format("{}", fmt::join(loadable, " "))));
    else if (!loadable.empty())
        found.ok(listed(loadable) + " not loaded yet.");
    else if (there.size() == std::size(wanted))
        found.ok(listed(there) + ".");
    else
        found.skip(fmt::format("/lib/modules/{} cannot be seen from here.", here.kernel));
}

void check_soft_drivers(const host &here, report &all) {
    check &found = all.add("soft_drivers", "Soft device drivers");
    if (all.failed("kernel")) {
        found.skip("waits for RDMA in the kernel.");
        return;
    }
    const presence rxe = module(here, "rdma_rxe"), siw = module(here, "siw");
    const auto words = [](const char *name, presence is) {
        return fmt::format("{} {}", name,
                           is == presence::LOADED     ? "is there"
                           : is == presence::LOADABLE ? "can be loaded"
                                                      : "is absent");
    };
    const std::vector<std::string> devices = here.list("/sys/class/infiniband");
    if (rxe == presence::LOADED || rxe == presence::LOADABLE || siw == presence::LOADED ||
        siw == presence::LOADABLE)
        found.ok(words("rdma_rxe", rxe) + ", " + words("siw", siw) + ".");
    else if (!devices.empty())
        found.ok("not needed: " + listed(devices) + " there.");
    else if (rxe == presence::UNKNOWN)
        found.skip(fmt::format("/lib/modules/{} cannot be seen from here.", here.kernel));
    else {
        const remedy mend = package_with(here, "rdma_rxe");
        found.warn(fmt::format("kernel {} has neither rdma_rxe nor siw.", here.kernel), mend.fix,
                   mend.command.empty() ? LAB : mend.command);
    }
}

} // namespace tools::doctor

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Checks the kernel modules that programs and soft devices need.

#include "doctor/doctor.hpp"

#include <fmt/core.h>
#include <fmt/ranges.h>

namespace tools::doctor {
namespace {

/// From a line of modules.dep or modules.builtin: "kernel/drivers/siw.ko.xz: ..." -> "siw".
std::string parse_module_name(const std::string &line) {
    const std::string path = line.substr(0, line.find(':'));
    const std::string name = path.substr(path.rfind('/') + 1);
    return name.substr(0, name.find(".ko"));
}

/// file: modules.dep or modules.builtin of the running kernel.
bool is_listed(const host &machine, const char *file, const std::string &name) {
    for (const std::string &line :
         machine.read_lines("/lib/modules/" + machine.kernel + "/" + file)) {
        if (parse_module_name(line) == name)
            return true;
    }
    return false;
}

bool is_loaded(const host &machine, const std::string &name) {
    if (machine.exists("/sys/module/" + name))
        return true;
    for (const std::string &line : machine.read_lines("/proc/modules")) {
        if (line.substr(0, line.find(' ')) == name)
            return true;
    }
    return false;
}

} // namespace

/// UNKNOWN: neither loaded nor built in, and /lib/modules of the running kernel is not visible.
module_state find_module_state(const host &machine, const std::string &name) {
    if (is_loaded(machine, name) || is_listed(machine, "modules.builtin", name))
        return module_state::LOADED;
    if (is_listed(machine, "modules.dep", name))
        return module_state::LOADABLE;
    const bool has_module_list = machine.exists("/lib/modules/" + machine.kernel + "/modules.dep");
    return has_module_list ? module_state::ABSENT : module_state::UNKNOWN;
}

void check_modules(const host &machine, report &results) {
    check &c = results.add("modules", "Kernel modules");
    if (results.has_failed("kernel")) {
        c.skip("requires RDMA in the kernel.");
        return;
    }
    const bool has_device = !machine.list_folder("/sys/class/infiniband").empty();
    const struct {
        const char *name, *path; ///< path: exists in sysfs if the module is loaded
    } modules[] = {{"ib_uverbs", "/sys/class/infiniband_verbs"},
                   {"rdma_ucm", "/sys/class/misc/rdma_cm"}};
    std::vector<std::string> loaded, loadable, absent;
    for (const auto &[name, path] : modules) {
        const module_state state = find_module_state(machine, name);
        if (state == module_state::LOADED || machine.exists(path))
            loaded.push_back(name);
        else if (state == module_state::LOADABLE)
            loadable.push_back(name);
        else if (state == module_state::ABSENT)
            absent.push_back(name);
    }
    if (!absent.empty()) {
        const fix_hint hint = install_module_hint(machine, absent.front());
        c.fail(fmt::format("kernel {} lacks {}.", machine.kernel, join_names(absent)),
               hint.explanation, hint.fix);
    } else if (!loadable.empty() && has_device)
        c.fail(fmt::format("{} not loaded; programs cannot access a device.", join_names(loadable)),
               NO_ADVICE,
               machine.with_sudo("modprobe -a " + fmt::format("{}", fmt::join(loadable, " "))));
    else if (!loadable.empty())
        c.ok(join_names(loadable) + " not loaded yet.");
    else if (loaded.size() == std::size(modules))
        c.ok(join_names(loaded) + ".");
    else
        c.skip(fmt::format("/lib/modules/{} is not accessible.", machine.kernel));
}

/// Only a warning: hardware devices need neither rdma_rxe nor siw.
void check_soft_drivers(const host &machine, report &results) {
    check &c = results.add("soft_drivers", "Soft device drivers");
    if (results.has_failed("kernel")) {
        c.skip("requires RDMA in the kernel.");
        return;
    }
    const module_state rxe = find_module_state(machine, "rdma_rxe"),
                       siw = find_module_state(machine, "siw");
    const auto describe = [](const char *name, module_state state) {
        return fmt::format("{} {}", name,
                           state == module_state::LOADED     ? "is available"
                           : state == module_state::LOADABLE ? "can be loaded"
                                                             : "is absent");
    };
    const std::vector<std::string> devices = machine.list_folder("/sys/class/infiniband");
    if (rxe == module_state::LOADED || rxe == module_state::LOADABLE ||
        siw == module_state::LOADED || siw == module_state::LOADABLE)
        c.ok(describe("rdma_rxe", rxe) + ", " + describe("siw", siw) + ".");
    else if (!devices.empty())
        c.ok("not needed: found " + join_names(devices) + ".");
    else if (rxe == module_state::UNKNOWN)
        c.skip(fmt::format("/lib/modules/{} is not accessible.", machine.kernel));
    else {
        const fix_hint hint = install_module_hint(machine, "rdma_rxe");
        c.warn(fmt::format("kernel {} has neither rdma_rxe nor siw.", machine.kernel),
               hint.explanation, hint.fix);
    }
}

} // namespace tools::doctor

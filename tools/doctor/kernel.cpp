// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Checks whether the running kernel has RDMA.

#include "doctor/doctor.hpp"

#include <fmt/core.h>

namespace tools::doctor {
namespace {

struct kernel_option {
    std::string source; ///< the file with the option; "" if there is none
    std::string line;   ///< "CONFIG_X=y", "CONFIG_X=m", or "CONFIG_X is not set"
    bool is_set = false;
};

/// CONFIG_INFINIBAND in the first configuration of the running kernel that can be read.
kernel_option find_infiniband_option(const host &machine) {
    for (const std::string &path :
         {std::string("/proc/config.gz"), "/boot/config-" + machine.kernel,
          "/lib/modules/" + machine.kernel + "/config"}) {
        for (const std::string &line : machine.read_lines(path)) {
            if (line.rfind("CONFIG_INFINIBAND=", 0) == 0)
                return {path, line, true};
            if (line == "# CONFIG_INFINIBAND is not set")
                return {path, "CONFIG_INFINIBAND is not set", false};
        }
        if (machine.exists(path)) // a disabled menu's options are absent
            return {path, "CONFIG_INFINIBAND is absent", false};
    }
    return {};
}

void fail_no_rdma(const host &machine, check &c, const std::string &reason) {
    c.fail(fmt::format("kernel {} has none: {}.", machine.kernel, reason),
           machine.is_container() ? "This is a container, which uses the host's kernel. softrdma "
                                    "runs a kernel with RDMA as an ordinary process."
                                  : "softrdma runs a kernel with RDMA as an ordinary process. For "
                                    "RDMA on this machine, boot a kernel with CONFIG_INFINIBAND.",
           RUN_IN_SOFTRDMA);
}

} // namespace

void check_kernel(const host &machine, report &results) {
    check &c = results.add("kernel", "RDMA in the kernel");
    if (machine.exists("/sys/class/infiniband")) {
        c.ok("/sys/class/infiniband exists.");
        return;
    }
    const kernel_option option = find_infiniband_option(machine);
    const module_state ib_core = find_module_state(machine, "ib_core");
    if (!option.source.empty() && !option.is_set)
        fail_no_rdma(machine, c, option.line + " (" + option.source + ")");
    else if (ib_core == module_state::ABSENT && !machine.netlink.is_available) {
        const fix_hint hint = install_module_hint(machine, "ib_core");
        c.fail(fmt::format("kernel {} has no module ib_core (/lib/modules/{}).", machine.kernel,
                           machine.kernel),
               hint.explanation, hint.fix);
    } else if (option.is_set)
        c.ok(fmt::format("{} ({}), not loaded yet.", option.line, option.source));
    else if (ib_core != module_state::UNKNOWN)
        c.ok(fmt::format("module ib_core is in /lib/modules/{}.", machine.kernel));
    else if (machine.netlink.is_available)
        c.ok("the kernel answers on the RDMA netlink socket.");
    else
        fail_no_rdma(machine, c,
                     "/sys/class/infiniband is missing, and there is no RDMA netlink socket");
}

} // namespace tools::doctor

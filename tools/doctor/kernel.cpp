// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Is RDMA in the running kernel at all?

#include "doctor/doctor.hpp"

#include <fmt/format.h>

namespace tools::doctor {
namespace {

struct option {
    std::string source; ///< the file that says it, "" if there is none
    std::string line;   ///< "CONFIG_X=y", "CONFIG_X=m", or that it is not set
    bool set = false;
};

option infiniband(const host &here) {
    for (const std::string &path : {std::string("/proc/config.gz"), "/boot/config-" + here.kernel,
                                    "/lib/modules/" + here.kernel + "/config"}) {
        for (const std::string &line : here.lines(path)) {
            if (line.rfind("CONFIG_INFINIBAND=", 0) == 0)
                return {path, line, true};
            if (line == "# CONFIG_INFINIBAND is not set")
                return {path, "CONFIG_INFINIBAND is not set", false};
        }
        if (here.exists(path)) // an option whose menu is off is not even named
            return {path, "CONFIG_INFINIBAND is not named", false};
    }
    return {};
}

void not_in_kernel(const host &here, check &found, const std::string &why) {
    found.fail(fmt::format("kernel {} has none: {}.", here.kernel, why),
               here.in_container()
                   ? "This is a container, where the host's kernel decides. softrdma brings a "
                     "kernel of its own that has RDMA, as an ordinary process:"
                   : "softrdma brings a kernel of its own that has RDMA, as an ordinary process. "
                     "To have it on this machine, boot a kernel with CONFIG_INFINIBAND.",
               LAB);
}

} // namespace

void check_kernel(const host &here, report &all) {
    check &found = all.add("kernel", "RDMA in the kernel");
    if (here.exists("/sys/class/infiniband")) {
        found.ok("/sys/class/infiniband is there.");
        return;
    }
    const option built = infiniband(here);
    const presence core = module(here, "ib_core");
    if (!built.source.empty() && !built.set)
        not_in_kernel(here, found, built.line + " (" + built.source + ")");
    else if (core == presence::ABSENT && !here.netlink.there) {
        const remedy mend = package_with(here, "ib_core");
        found.fail(fmt::format("kernel {} has no module ib_core (/lib/modules/{}).", here.kernel,
                               here.kernel),
                   mend.fix, mend.command.empty() ? LAB : mend.command);
    } else if (built.set)
        found.ok(fmt::format("{} ({}), not loaded yet.", built.line, built.source));
    else if (core != presence::UNKNOWN)
        found.ok(fmt::format("module ib_core is in /lib/modules/{}.", here.kernel));
    else if (here.netlink.there)
        found.ok("the kernel answers on the RDMA netlink socket.");
    else
        not_in_kernel(here, found,
                      "/sys/class/infiniband is missing, and there is no RDMA netlink socket");
}

} // namespace tools::doctor

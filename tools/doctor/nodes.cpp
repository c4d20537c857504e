// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The nodes by which programs reach the kernel, and how much memory they may pin.

#include "doctor/doctor.hpp"

#include <fmt/format.h>

namespace tools::doctor {
namespace {

constexpr std::uint64_t MIB = 1 << 20;
constexpr std::uint64_t ENOUGH = 64 * MIB;

void missing(const host &here, check &found, const std::string &path, const char *module,
             const std::string &device) {
    if (here.in_container())
        found.fail(path + " is missing.",
                   "This is a container. On its host, sudo softrdma cdi --output "
                   "/etc/cdi/softrdma.json, once; then start it again with the command below, or "
                   "with all nodes: docker run --device=/dev/infiniband",
                   give_node(device));
    else
        found.fail(path + " is missing.", fmt::format("The module {} makes it:", module),
                   here.as_root(fmt::format("modprobe {}", module)));
}

void forbidden(const host &here, check &found, const std::string &path, const node &is) {
    const std::string seen = fmt::format("{} is not for user {}: mode {:04o}, group {}.", path,
                                         here.user, is.mode, is.group);
    if ((is.mode & 060) == 060 && !is.member && is.group != "root")
        found.fail(seen, "Join the group, then log in again:",
                   here.as_root(fmt::format("usermod -aG {} {}", is.group, here.user)));
    else
        found.fail(seen,
                   "Until the next boot, the command below; for good, a udev rule with "
                   "SUBSYSTEM==\"infiniband_verbs\", MODE=\"0666\".",
                   here.as_root("chmod 0666 " + path));
}

/// Whether this user may open it, and what to do if not; of that device, or of all.
void look(const host &here, check &found, const std::string &path, const char *module,
          const std::string &device) {
    const node is = here.look_at(path);
    if (!is.there)
        missing(here, found, path, module, device);
    else if (!is.usable)
        forbidden(here, found, path, is);
    else
        found.ok(fmt::format("{}, mode {:04o}.", path, is.mode));
}

void small(const host &here, check &found) {
    const std::string seen = fmt::format("only {} KiB may be pinned (ulimit -l); registering more "
                                         "memory fails.",
                                         here.memlock / 1024);
    if (here.in_container())
        found.warn(seen, "Start the container again without the limit (podman takes the same):",
                   "docker run --ulimit memlock=-1 ...");
    else
        found.warn(seen,
                   fmt::format("For good: a line '{} - memlock unlimited' in "
                               "/etc/security/limits.d/rdma.conf, then log in again; for a "
                               "service: LimitMEMLOCK=infinity. For this shell:",
                               here.is_root ? "root" : here.user),
                   here.is_root ? "ulimit -l unlimited"
                                : here.as_root("prlimit --memlock=unlimited --pid $$"));
}

} // namespace

std::string node_of(const host &here, const std::string &device) {
    for (const std::string &name : here.list("/sys/class/infiniband_verbs")) {
        if (here.read("/sys/class/infiniband_verbs/" + name + "/ibdev") == device)
            return "/dev/infiniband/" + name;
    }
    return "";
}

std::string give_node(const std::string &device) {
    return "podman run --device softrdma.alt/rdma=" + device + " ...";
}

void check_rdma_cm(const host &here, report &all) {
    check &found = all.add("rdma_cm", "Node of rdma_cm");
    if (all.devices.empty())
        found.skip("waits for a device.");
    else
        look(here, found, "/dev/infiniband/rdma_cm", "rdma_ucm", all.devices.front());
}

void check_node(const host &here, report &all, const std::string &device) {
    check &found = all.add("node", "node", device);
    const std::string node = node_of(here, device);
    if (node.empty())
        found.fail(
            "nothing in /sys/class/infiniband_verbs belongs to it.",
            "Programs reach a device by the module ib_uverbs:", here.as_root("modprobe ib_uverbs"));
    else
        look(here, found, node, "ib_uverbs", device);
}

void check_memlock(const host &here, report &all) {
    check &found = all.add("memlock", "Pinned memory");
    if (here.memlock == NO_LIMIT)
        found.ok("no limit.");
    else if (here.pins_freely)
        found.ok("no limit for this process (CAP_IPC_LOCK).");
    else if (here.memlock >= ENOUGH)
        found.ok(fmt::format("{} MiB.", here.memlock / MIB));
    else
        small(here, found);
}

} // namespace tools::doctor

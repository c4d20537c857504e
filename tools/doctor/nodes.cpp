// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Checks the device nodes, and the limit for pinned memory.

#include "doctor/doctor.hpp"

#include <fmt/core.h>

namespace tools::doctor {
namespace {

constexpr std::uint64_t MIB = 1 << 20;
constexpr std::uint64_t MIN_MEMLOCK = 64 * MIB;

void fail_missing(const host &machine, check &c, const std::string &path, const char *module,
                  const std::string &device) {
    if (machine.is_container())
        c.fail(path + " is missing.",
               "This is a container. On its host, run once: sudo softrdma cdi --output "
               "/etc/cdi/softrdma.json. Then restart it with the command below, or with all nodes: "
               "docker run --device=/dev/infiniband",
               container_command(device));
    else
        c.fail(path + " is missing.", fmt::format("The module {} creates it.", module),
               machine.with_sudo(fmt::format("modprobe {}", module)));
}

void fail_no_permission(const host &machine, check &c, const std::string &path, const node &attr) {
    const std::string evidence =
        fmt::format("{} is not accessible to user {}: mode {:04o}, group {}.", path, machine.user,
                    attr.mode, attr.group);
    if ((attr.mode & 060) == 060 && !attr.in_group && attr.group != "root")
        c.fail(evidence, "Add the user to the group, then log in again.",
               machine.with_sudo(fmt::format("usermod -aG {} {}", attr.group, machine.user)));
    else
        c.fail(evidence,
               "Until the next boot, use the command below; permanently, a udev rule with "
               "SUBSYSTEM==\"infiniband_verbs\", MODE=\"0666\".",
               machine.with_sudo("chmod 0666 " + path));
}

/// Checks whether this user may open the node.
void check_node_access(const host &machine, check &c, const std::string &path, const char *module,
                       const std::string &device) {
    const node attr = machine.stat_node(path);
    if (!attr.exists)
        fail_missing(machine, c, path, module, device);
    else if (!attr.is_usable)
        fail_no_permission(machine, c, path, attr);
    else
        c.ok(fmt::format("{}, mode {:04o}.", path, attr.mode));
}

void warn_memlock(const host &machine, check &c) {
    const std::string evidence =
        fmt::format("only {} KiB may be pinned (ulimit -l); registering more "
                    "memory fails.",
                    machine.memlock / 1024);
    if (machine.is_container())
        c.warn(evidence, "Restart the container without the limit; podman has the same option.",
               "docker run --ulimit memlock=-1 ...");
    else
        c.warn(evidence,
               fmt::format(
                   "Permanently: add '{} - memlock unlimited' to /etc/security/limits.d/rdma.conf, "
                   "then log in again; for a service: LimitMEMLOCK=infinity. For this shell, use "
                   "the command below.",
                   machine.is_root ? "root" : machine.user),
               machine.is_root ? "ulimit -l unlimited"
                               : machine.with_sudo("prlimit --memlock=unlimited --pid $$"));
}

} // namespace

std::string device_node_path(const host &machine, const std::string &device) {
    for (const std::string &name : machine.list_folder("/sys/class/infiniband_verbs")) {
        if (machine.read_file("/sys/class/infiniband_verbs/" + name + "/ibdev") == device)
            return "/dev/infiniband/" + name;
    }
    return "";
}

std::string container_command(const std::string &device) {
    return "podman run --device softrdma.alt/rdma=" + device + " ...";
}

void check_rdma_cm(const host &machine, report &results) {
    check &c = results.add("rdma_cm", "Node of rdma_cm");
    if (results.devices.empty())
        c.skip("requires a device.");
    else
        check_node_access(machine, c, "/dev/infiniband/rdma_cm", "rdma_ucm",
                          results.devices.front());
}

void check_node(const host &machine, report &results, const std::string &device) {
    check &c = results.add("node", "node", device);
    const std::string node = device_node_path(machine, device);
    if (node.empty())
        c.fail("it has no entry in /sys/class/infiniband_verbs.",
               "Programs access devices through the module ib_uverbs.",
               machine.with_sudo("modprobe ib_uverbs"));
    else
        check_node_access(machine, c, node, "ib_uverbs", device);
}

void check_memlock(const host &machine, report &results) {
    check &c = results.add("memlock", "Pinned memory");
    if (machine.memlock == NO_LIMIT)
        c.ok("no limit.");
    else if (machine.has_unlimited_pinning)
        c.ok("no limit for this process (CAP_IPC_LOCK).");
    else if (machine.memlock >= MIN_MEMLOCK)
        c.ok(fmt::format("{} MiB.", machine.memlock / MIB));
    else
        warn_memlock(machine, c);
}

} // namespace tools::doctor

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Checks the device nodes, and the limit for pinned memory.

#include "doctor/doctor.hpp"

#include <fmt/core.h>

namespace tools::doctor {
namespace {

constexpr std::uint64_t MIB = 1 << 20;
constexpr std::uint64_t MIN_MEMLOCK_LIMIT = 64 * MIB; // less is worth a warning

/// module: the kernel module that creates the node.
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

void fail_no_permission(const host &machine, check &c, const std::string &path,
                        const device_node &node) {
    const std::string evidence =
        fmt::format("{} is not accessible to user {}: mode {:04o}, group {}.", path, machine.user,
                    node.mode, node.group);
    constexpr unsigned GROUP_READ_WRITE = 060;
    if ((node.mode & GROUP_READ_WRITE) == GROUP_READ_WRITE && !node.is_member &&
        node.group != "root")
        c.fail(evidence, "Add the user to the group, then log in again.",
               machine.with_sudo(fmt::format("usermod -aG {} {}", node.group, machine.user)));
    else
        c.fail(evidence,
               "Until the next boot, use the command below; permanently, a udev rule with "
               "SUBSYSTEM==\"infiniband_verbs\", MODE=\"0666\".",
               machine.with_sudo("chmod 0666 " + path));
}

/// Checks whether this user may open the node at the path, which the kernel module creates.
void check_node_access(const host &machine, check &c, const std::string &path, const char *module,
                       const std::string &device) {
    const device_node node = machine.stat_node(path);
    if (!node.exists)
        fail_missing(machine, c, path, module, device);
    else if (!node.is_accessible)
        fail_no_permission(machine, c, path, node);
    else
        c.ok(fmt::format("{}, mode {:04o}.", path, node.mode));
}

/// The limit of pinned memory (RLIMIT_MEMLOCK) is low.
void warn_memlock(const host &machine, check &c) {
    const std::string evidence =
        fmt::format("only {} KiB may be pinned (ulimit -l); registering more "
                    "memory fails.",
                    machine.memlock_limit / 1024);
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
    if (results.checked_devices.empty())
        c.skip("requires a device.");
    else
        check_node_access(machine, c, "/dev/infiniband/rdma_cm", "rdma_ucm",
                          results.checked_devices.front());
}

void check_node(const host &machine, report &results, const std::string &device) {
    check &c = results.add("node", "node", device);
    const std::string path = device_node_path(machine, device);
    if (path.empty())
        c.fail("it has no entry in /sys/class/infiniband_verbs.",
               "Programs access devices through the module ib_uverbs.",
               machine.with_sudo("modprobe ib_uverbs"));
    else
        check_node_access(machine, c, path, "ib_uverbs", device);
}

void check_memlock(const host &machine, report &results) {
    check &c = results.add("memlock", "Pinned memory");
    if (machine.memlock_limit == NO_LIMIT)
        c.ok("no limit.");
    else if (machine.has_unlimited_pinning)
        c.ok("no limit for this process (CAP_IPC_LOCK).");
    else if (machine.memlock_limit >= MIN_MEMLOCK_LIMIT)
        c.ok(fmt::format("{} MiB.", machine.memlock_limit / MIB));
    else
        warn_memlock(machine, c);
}

} // namespace tools::doctor

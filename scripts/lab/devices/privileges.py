# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Whether this process may make devices on the running kernel, by what /proc says.

Root of a container usually may not. A security module or a seccomp filter can
deny it as well; only the attempt shows this.
"""

import os
from typing import List

CAPABILITIES = {"CAP_NET_ADMIN": 12, "CAP_SYS_MODULE": 16, "CAP_SYS_ADMIN": 21}
INITIAL_USER_NAMESPACE = 0xEFFFFFFD  # PROC_USER_INIT_INO: the same inode in all kernels
NODE_FOLDERS = ("/dev/infiniband", "/dev")


def reason_not_permitted(missing_modules: List[str], num_hosts: int = 1) -> str:
    """Why this process may not make devices; empty if nothing is known against it.

    missing_modules: those that have to be loaded first.
    """
    if os.geteuid() != 0:
        return "making devices on the running kernel needs root"
    if not _is_in_initial_user_namespace():
        return "this root is that of a user namespace (a container), which may not make devices on the running kernel"
    purposes = {"CAP_NET_ADMIN": "making devices on the running kernel"}
    if missing_modules:
        purposes["CAP_SYS_MODULE"] = f"loading the module {missing_modules[0]}"
    if num_hosts > 1:
        purposes["CAP_SYS_ADMIN"] = "making hosts on the running kernel"
    capabilities = _effective_capabilities()
    for name, purpose in purposes.items():
        if not capabilities & 1 << CAPABILITIES[name]:
            return f"{purpose} needs {name}, which this process lacks (as in a container)"
    if missing_modules and _read_line("/proc/sys/kernel/modules_disabled") == "1":
        return f"the module {missing_modules[0]} is not loaded, and this kernel loads no more (kernel.modules_disabled)"
    return ""


def reason_for_no_nodes() -> str:
    """Why programs cannot open a new device: its node does not appear here. Empty if it does."""
    for folder in NODE_FOLDERS:
        try:
            device = os.stat(folder).st_dev
        except OSError:
            continue
        number = f"{os.major(device)}:{os.minor(device)}"
        try:
            with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as file:
                mounts = [line.split(" - ") for line in file]
        except OSError:
            return ""
        types = {right.split(" ")[0] for left, right in mounts if left.split(" ")[2] == number}
        if types and "devtmpfs" not in types:
            return f"{folder} is a container's, in which the node of a new device does not appear"
        return ""
    return ""


def _is_in_initial_user_namespace() -> bool:
    try:
        return os.stat("/proc/self/ns/user").st_ino == INITIAL_USER_NAMESPACE
    except OSError:  # no /proc, or a kernel without user namespaces
        return True


def _effective_capabilities() -> int:
    """A bit for each; all, if /proc does not say."""
    try:
        with open("/proc/self/status", encoding="ascii", errors="replace") as file:
            fields = dict(line.split(":\t", 1) for line in file if ":\t" in line)
        return int(fields["CapEff"], 16)
    except (OSError, KeyError, ValueError):
        return ~0


def _read_line(path: str) -> str:
    """Empty if the file cannot be read."""
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.readline().strip()
    except OSError:
        return ""

# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Soft RDMA devices on the running kernel: modules, RDMA links, GIDs.

The kernel adds the GID of a device some time after `rdma link add` returns; a
connection before that fails with a completion error. wait_until_ready() waits
for the GID.
"""

import errno
import json
import os
import time
from typing import Any, List, NamedTuple, Optional

from ..core import subprocesses
from ..core.errors import LabError, Unavailable
from . import privileges

SYSFS = "/sys/class/infiniband"
READY_TIMEOUT_SECONDS = 10.0
# Of the interfaces that softrdma makes: rxe's largest packets, of 4096 bytes and headers, fit.
MTU = 9000

MODULES = {"rxe": "rdma_rxe", "siw": "siw"}
CONNECTION_MODULE = "rdma_ucm"
NOT_PERMITTED = tuple(os.strerror(code) for code in (errno.EPERM, errno.EACCES, errno.EROFS))


class Gid(NamedTuple):
    gid_index: int
    text: str


def _run_program(argv: List[str], stdin_text: str = "", error_text: Optional[str] = None) -> str:
    """Raises Unavailable if the program is not permitted what it does."""
    try:
        return subprocesses.capture_output(argv, stdin_text=stdin_text, error_text=error_text)
    except LabError as problem:
        if any(text in str(problem) for text in NOT_PERMITTED):
            raise Unavailable(str(problem)) from problem
        raise


def run_ip(*arguments: str) -> str:
    return _run_program(
        [subprocesses.require_program("ip", "iproute2", "making a device"), *arguments]
    )


def run_ip_batch(commands: List[List[str]], netns: Optional[str] = None) -> None:
    """Run several commands in one process: starting processes is slow in a guest."""
    program = subprocesses.require_program("ip", "iproute2", "making a device")
    lines = "".join(" ".join(arguments) + "\n" for arguments in commands)
    netns_option = ["-n", netns] if netns else []
    argv = [program, *netns_option, "-batch", "-"]
    _run_program(argv, stdin_text=lines, error_text="ip failed")


def run_ip_json(*arguments: str) -> List[Any]:
    return list(json.loads(run_ip("-j", *arguments) or "[]"))


def run_rdma(*arguments: str, netns: Optional[str] = None) -> str:
    argv = [subprocesses.require_program("rdma", "iproute2", "making a device"), *arguments]
    if netns:
        ip = subprocesses.require_program("ip", "iproute2", "making a device")
        argv = [ip, "netns", "exec", netns, *argv]
    return _run_program(argv)


def rdma_links(netns: Optional[str] = None) -> List[Any]:
    return list(json.loads(run_rdma("-j", "link", netns=netns) or "[]"))


def device_names() -> List[str]:
    """All RDMA devices."""
    try:
        return os.listdir(SYSFS)
    except OSError:
        return []


def device_exists(device: str) -> bool:
    return os.path.isdir(f"{SYSFS}/{device}")


def netdev_exists(netdev: str) -> bool:
    return os.path.isdir(f"/sys/class/net/{netdev}")


def reason_unusable(driver: str) -> Optional[str]:
    """Why this kernel cannot make devices of the driver; None if it can."""
    module = MODULES[driver]
    if _is_loaded(module) or _is_listed(
        module, "modules.dep", (".ko:", ".ko.xz:", ".ko.zst:", ".ko.gz:")
    ):
        return None
    return f"the running kernel {os.uname().release} has no {module} module"


def _is_loaded(module: str) -> bool:
    """Also true if it is built in; /sys/module need not list such a module."""
    return os.path.isdir(f"/sys/module/{module}") or _is_listed(module, "modules.builtin", (".ko",))


def _is_listed(module: str, index: str, suffixes: "tuple[str, ...]") -> bool:
    """Whether a file of /lib/modules, such as modules.dep, lists the module.

    suffixes: what may follow the module's name there.
    """
    file_names = tuple(f"/{module}{suffix}" for suffix in suffixes)
    try:
        with open(f"/lib/modules/{os.uname().release}/{index}", encoding="utf-8") as file:
            return any(
                line.split(maxsplit=1)[0].endswith(file_names) for line in file if line.strip()
            )
    except OSError:
        return False


def missing_modules(driver: str) -> List[str]:
    """The modules that are not loaded yet: the driver and rdma_ucm."""
    return [module for module in (MODULES[driver], CONNECTION_MODULE) if not _is_loaded(module)]


def load_modules(driver: str) -> None:
    """Load the driver and rdma_ucm."""
    reason = reason_unusable(driver)
    if reason:
        raise Unavailable(f"{reason}. {_module_remedy()}")
    modules = missing_modules(driver)
    reason = privileges.reason_not_permitted(modules)
    if reason:
        remedy = "sudo softrdma …, or " if os.geteuid() != 0 else ""
        raise Unavailable(f"{reason}; try: {remedy}softrdma run --in qemu")
    for module in modules:
        modprobe = subprocesses.require_program("modprobe", "kmod", "loading a kernel module")
        subprocesses.run_long(
            [modprobe, module], f"cannot load the module {module}", error_class=Unavailable
        )


def _module_remedy() -> str:
    release = os.uname().release
    if "cloud" in release:
        return "Cloud kernels lack it: install linux-image-amd64 and reboot, or use: softrdma run --in qemu -- COMMAND"
    if os.path.isdir("/usr/share/doc/ubuntu-minimal") or "generic" in release or "azure" in release:
        return (
            f"It may be in linux-modules-extra-{release}; or use: softrdma run --in qemu -- COMMAND"
        )
    return "Use: softrdma run --in qemu -- COMMAND"


def add_device(driver: str, device: str, netdev: str, netns: Optional[str] = None) -> None:
    if device_exists(device):
        raise LabError(f"an RDMA device {device} exists already; choose another with --name")
    run_rdma("link", "add", device, "type", driver, "netdev", netdev, netns=netns)


def remove_device(device: str, netdev: str, netns: Optional[str] = None) -> None:
    """Remove the device if it exists and is on that interface."""
    if not device_exists(device):
        return
    if netns:
        run_rdma("link", "delete", device, netns=netns)
    elif any(link["ifname"] == device and link.get("netdev") == netdev for link in rdma_links()):
        run_rdma("link", "delete", device)


def device_users(device: str) -> List[str]:
    """The processes with objects of the device. Its removal would block until they end."""
    users = set()
    for kind in ("pd", "cm_id", "qp"):
        keyword = "link" if kind != "pd" else "dev"
        try:
            objects = json.loads(run_rdma("-j", "resource", "show", kind, keyword, device) or "[]")
        except LabError:
            continue
        users |= {
            f"{row['comm']} ({row['pid']})" for row in objects if "pid" in row and "comm" in row
        }
    return sorted(users)


def wait_until_ready(
    device: str, address: Optional[str], timeout_seconds: float = READY_TIMEOUT_SECONDS
) -> Gid:
    """Wait until the port is active and has the GID of the address."""
    deadline = time.monotonic() + timeout_seconds
    while True:
        gid = _find_gid(device, address)
        state = read_sysfs(f"{SYSFS}/{device}/ports/1/state")
        if gid and state.endswith("ACTIVE"):
            return gid
        if time.monotonic() > deadline:
            reason = (
                "it has no GID" + (f" for {address}" if address else "")
                if not gid
                else f"its port is not active ({state or 'no state'})"
            )
            raise LabError(
                f"{device} is not ready after {timeout_seconds:.0f} s: {reason}; see: dmesg | tail, rdma link"
            )
        time.sleep(0.02)


def _find_gid(device: str, address: Optional[str]) -> Optional[Gid]:
    """The GID that is made of the IPv4 address; without an address, the first GID.

    An iWARP device has one GID, which is not made of an address.
    """
    folder = f"{SYSFS}/{device}/ports/1"
    address_gid = ipv4_mapped_gid(address) if address else None
    first = None
    index = 0
    while True:
        text = read_sysfs(f"{folder}/gids/{index}")
        if not text:
            break
        if text.strip("0:"):
            gid = Gid(index, text)
            if address_gid and text == address_gid:
                return gid
            first = first or gid
        index += 1
    is_iwarp = read_sysfs(f"{SYSFS}/{device}/node_type").endswith("RNIC")
    return first if is_iwarp or not address_gid else None


def ipv4_mapped_gid(address: str) -> str:
    a, b, c, d = (int(part) for part in address.split("."))
    return f"0000:0000:0000:0000:0000:ffff:{a:02x}{b:02x}:{c:02x}{d:02x}"


def read_sysfs(path: str) -> str:
    """The contents of a file in sysfs; empty if it cannot be read."""
    try:
        with open(path, encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""

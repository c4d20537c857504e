# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Soft RDMA devices on the running kernel: modules, links, and when they are ready.

A device is usable only once its GID is there, which the kernel does some time
after `rdma link add` has returned; whoever connects earlier gets a completion
error. So ready() waits for the GID, with a limit, and nothing here sleeps.
"""

import json
import os
import time
from typing import Any, List, NamedTuple, Optional

from . import children
from .errors import CannotHere, LabError

SYSFS = "/sys/class/infiniband"
READY_SECONDS = 10.0


class Driver(NamedTuple):
    module: str
    title: str


DRIVERS = {
    "rxe": Driver("rdma_rxe", "Soft-RoCE"),
    "siw": Driver("siw", "soft-iWARP"),
}


class Gid(NamedTuple):
    place: int  # the GID index
    text: str


def ip(*words: str) -> str:
    return children.capture([children.need("ip", "iproute2", "making a device"), *words])


def ip_batch(commands: List[List[str]], netns: Optional[str] = None) -> None:
    """Several in one process: where a process is dear, that is most of the time."""
    program = children.need("ip", "iproute2", "making a device")
    lines = "".join(" ".join(words) + "\n" for words in commands)
    where = ["-n", netns] if netns else []
    children.capture([program, *where, "-batch", "-"], text=lines, fails="ip failed")


def ip_json(*words: str) -> List[Any]:
    return json.loads(ip("-j", *words) or "[]")


def rdma(*words: str, netns: Optional[str] = None) -> str:
    argv = [children.need("rdma", "iproute2", "making a device"), *words]
    if netns:
        argv = [children.need("ip", "iproute2", "making a device"), "netns", "exec", netns, *argv]
    return children.capture(argv)


def links() -> List[Any]:
    return json.loads(rdma("-j", "link") or "[]")


def names() -> List[str]:
    """The RDMA devices there are, whoever made them."""
    try:
        return os.listdir(SYSFS)
    except OSError:
        return []


def why_not(driver: str) -> Optional[str]:
    """Why this kernel cannot make such devices; None if it can."""
    module = DRIVERS[driver].module
    if _loaded(module) or _listed(
        module, "modules.dep", (".ko:", ".ko.xz:", ".ko.zst:", ".ko.gz:")
    ):
        return None
    return f"the running kernel {os.uname().release} has no {module} module"


def _loaded(module: str) -> bool:
    """Or a part of the kernel itself, of which /sys/module need not know."""
    return os.path.isdir(f"/sys/module/{module}") or _listed(module, "modules.builtin", (".ko",))


def _listed(module: str, index: str, ends: "tuple[str, ...]") -> bool:
    wanted = tuple(f"/{module}{end}" for end in ends)
    try:
        with open(f"/lib/modules/{os.uname().release}/{index}", encoding="utf-8") as file:
            return any(line.split(maxsplit=1)[0].endswith(wanted) for line in file if line.strip())
    except OSError:
        return False


def load(driver: str) -> None:
    """Have the kernel load the driver, and the connection manager for users."""
    reason = why_not(driver)
    if reason:
        raise CannotHere(f"{reason}. {_remedy()}")
    if os.geteuid() != 0:
        raise CannotHere(
            "making a device on the running kernel needs root; try: sudo softrdma …, or softrdma run --in qemu"
        )
    for module in (DRIVERS[driver].module, "rdma_ucm"):
        if not _loaded(module):
            modprobe = children.need("modprobe", "kmod", "loading a kernel module")
            children.work([modprobe, module], f"the kernel did not load {module}", error=CannotHere)


def _remedy() -> str:
    release = os.uname().release
    if "cloud" in release:
        return "Cloud flavours leave it out: install linux-image-amd64 and reboot, or use: softrdma run --in qemu -- COMMAND"
    if os.path.isdir("/usr/share/doc/ubuntu-minimal") or "generic" in release or "azure" in release:
        return (
            f"It may be in linux-modules-extra-{release}; or use: softrdma run --in qemu -- COMMAND"
        )
    return "Use: softrdma run --in qemu -- COMMAND"


def add(driver: str, device: str, netdev: str, netns: Optional[str] = None) -> None:
    if os.path.isdir(f"{SYSFS}/{device}"):
        raise LabError(f"an RDMA device {device} exists already; choose another with --name")
    rdma("link", "add", device, "type", driver, "netdev", netdev, netns=netns)


def remove(device: str, netdev: str, netns: Optional[str] = None) -> None:
    """Remove the device if it is there and still the one on that interface."""
    if not os.path.isdir(f"{SYSFS}/{device}"):
        return
    if netns:
        rdma("link", "delete", device, netns=netns)
    elif any(link["ifname"] == device and link.get("netdev") == netdev for link in links()):
        rdma("link", "delete", device)


def users(device: str) -> List[str]:
    """Who holds the device: the kernel waits for them when it is removed."""
    found = set()
    for kind in ("pd", "cm_id", "qp"):
        try:
            rows = json.loads(
                rdma("-j", "resource", "show", kind, "link" if kind != "pd" else "dev", device)
                or "[]"
            )
        except LabError:
            continue
        found |= {f"{row['comm']} ({row['pid']})" for row in rows if "pid" in row and "comm" in row}
    return sorted(found)


def ready(device: str, address: Optional[str], seconds: float = READY_SECONDS) -> Gid:
    """Wait until the port is active and the GID for the address is there."""
    deadline = time.monotonic() + seconds
    while True:
        gid = _gid(device, address)
        state = fact(f"{SYSFS}/{device}/ports/1/state")
        if gid and state.endswith("ACTIVE"):
            return gid
        if time.monotonic() > deadline:
            missing = (
                "the GID" + (f" for {address}" if address else "")
                if not gid
                else f"the port (it says {state or 'nothing'})"
            )
            raise LabError(
                f"{device} is there, but {missing} did not come up within {seconds:.0f} s; see: dmesg | tail, rdma link"
            )
        time.sleep(0.02)


def _gid(device: str, address: Optional[str]) -> Optional[Gid]:
    """The GID made from the IPv4 address; on iWARP, which has but one, that one."""
    folder = f"{SYSFS}/{device}/ports/1"
    wanted = mapped(address) if address else None
    first = None
    index = 0
    while True:
        text = fact(f"{folder}/gids/{index}")
        if not text:
            break
        if text.strip("0:"):
            gid = Gid(index, text)
            if wanted and text == wanted:
                return gid
            first = first or gid
        index += 1
    iwarp = fact(f"{SYSFS}/{device}/node_type").endswith("RNIC")
    return first if iwarp or not wanted else None


def mapped(address: str) -> str:
    a, b, c, d = (int(part) for part in address.split("."))
    return f"0000:0000:0000:0000:0000:ffff:{a:02x}{b:02x}:{c:02x}{d:02x}"


def fact(path: str) -> str:
    """What a file of the kernel's says; nothing, if it is not there."""
    try:
        with open(path, encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""

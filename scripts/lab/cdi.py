# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""`cdi`: which files a container needs for each RDMA device, in the words of container runtimes.

A CDI specification (Container Device Interface) names devices; a runtime that is given a name adds
the device's nodes to the container. It holds for whatever RDMA device there is, soft or not.

The kind needs a domain for its vendor. Names below .alt are nobody's in the DNS, and will not be
(RFC 9476), so it collides with no one's.
"""

import contextlib
import glob
import json
import os
import re
import stat
from typing import Any, Dict, List, Optional

from . import say
from .devices import fact
from .errors import CannotHere, LabError, Misuse
from .packages import natural

KIND = "softrdma.alt/rdma"
ALL = "all"
FOLDERS = ("/etc/cdi", "/run/cdi", "/var/run/cdi")  # where runtimes look
NODES = "/dev/infiniband"
CONNECTIONS = "/sys/class/misc/rdma_cm"
VERBS = "/sys/class/infiniband_verbs"
MANAGEMENT = "/sys/class/infiniband_mad"
NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.:-]*[A-Za-z0-9])?")
PLUGIN = re.compile(r"(libcoherdma)-rdmav[0-9]+\.so")
PLUGIN_PLACE = "/usr/lib/coherdma"  # in a container

Edits = Dict[str, Any]


def specification(root: str = "", management: bool = False, plugin: str = "") -> Dict[str, Any]:
    """Of the devices there are. root: another place for /sys and /dev; plugin: a file to mount."""
    nodes = {name: [_node(root, each, name)] for name, each in _of_class(root, VERBS)}
    if not nodes:
        raise CannotHere(_why_none(root))
    common: Edits = {"deviceNodes": [_node(root, CONNECTIONS, "")]}
    if management:
        for name, each in _of_class(root, MANAGEMENT):
            if name in nodes:
                nodes[name].append(_node(root, each, name))
    for name in [name for name in nodes if not NAME.fullmatch(name)]:
        say.note(f"{name} is left out: CDI has no such names; try: rdma dev set {name} name …")
        del nodes[name]
    if plugin:
        common.update(_mounts(plugin))
    devices = [
        {"name": name, "containerEdits": {"deviceNodes": nodes[name]}}
        for name in sorted(nodes, key=natural)
    ]
    if ALL not in nodes:
        every = [node for name in sorted(nodes, key=natural) for node in nodes[name]]
        devices.append({"name": ALL, "containerEdits": {"deviceNodes": every}})
    return {
        # The oldest that will do, for old runtimes: names with a digit first came in 0.5.0.
        "cdiVersion": "0.5.0" if any(name[0].isdigit() for name in nodes) else "0.3.0",
        "kind": KIND,
        "containerEdits": common,
        "devices": devices,
    }


def text(spec: Dict[str, Any]) -> str:
    return json.dumps(spec, indent=2) + "\n"


def write(path: str, words: str) -> None:
    """All of it, or what was there before stays: a runtime may read at any moment."""
    folder, name = os.path.split(os.path.abspath(path))
    if folder in FOLDERS and not name.endswith(".json"):
        raise Misuse(f"--output {path}: container runtimes read only files that end in .json there")
    part = os.path.join(folder, f".{name}.{os.getpid()}.part")
    try:
        if folder in FOLDERS:
            os.makedirs(folder, exist_ok=True)
        if os.path.exists(path) and not os.path.isfile(path):  # a terminal, a pipe
            with open(path, "w", encoding="utf-8") as file:
                file.write(words)
            return
        try:
            with open(part, "w", encoding="utf-8") as file:
                file.write(words)
            os.rename(part, path)
        finally:
            with contextlib.suppress(OSError):
                os.unlink(part)
    except OSError as problem:
        next_step = (
            "; try: sudo softrdma cdi …"
            if isinstance(problem, PermissionError)
            else "; choose another --output"
        )
        raise LabError(f"cannot write {path}: {problem.strerror}{next_step}") from problem


def find_plugin(prefixes: "tuple[str, ...]" = ("/usr/local", "/usr")) -> str:
    """The provider's file: that of COHERDMA_PROVIDER, else the one that is installed."""
    named = os.environ.get("COHERDMA_PROVIDER", "")
    if named:
        if not (named.startswith("/") and PLUGIN.fullmatch(os.path.basename(named))):
            raise Misuse(
                f"COHERDMA_PROVIDER is '{named}', not an absolute path to libcoherdma-rdmav*.so"
            )
        if not os.path.isfile(named):
            raise CannotHere(f"COHERDMA_PROVIDER: there is no {named}; build it, or unset that")
        return named
    native = os.uname().machine
    for prefix in prefixes:
        for folder in (f"lib/{native}-*", "lib64", "lib"):
            found = sorted(glob.glob(f"{prefix}/{folder}/libibverbs/libcoherdma-rdmav*.so"))
            if found:
                return found[0]
    raise CannotHere(
        "--with-provider: coherdma's provider is not installed; "
        "try: apt install coherdma-provider, or name the file in COHERDMA_PROVIDER"
    )


def _mounts(plugin: str) -> Edits:
    """Its names for each release of libibverbs: that of the image chooses."""
    folder = os.path.dirname(plugin)
    names = sorted(name for name in os.listdir(folder) if PLUGIN.fullmatch(name))
    return {
        "env": [f"RDMAV_DRIVERS={PLUGIN_PLACE}/libcoherdma"],
        "mounts": [
            {
                "hostPath": os.path.join(folder, name),
                "containerPath": f"{PLUGIN_PLACE}/{name}",
                "options": ["ro", "nosuid", "nodev", "bind"],
            }
            for name in names
        ],
    }


def _of_class(root: str, place: str) -> "List[tuple[str, str]]":
    """Devices and what the class has of them, such as rxe0 and …/uverbs0."""
    found = []
    with contextlib.suppress(OSError):
        for entry in sorted(os.listdir(root + place), key=natural):
            name = fact(f"{root}{place}/{entry}/ibdev")
            if name:
                found.append((name, f"{place}/{entry}"))
    return found


def _node(root: str, place: str, device: str) -> Dict[str, Any]:
    """The node in /dev of what is at this place in /sys, if it is truly there.

    Its numbers are left to the runtime, who looks when a container starts: a node that is gone by
    then is an error, not somebody else's device.
    """
    path = f"{NODES}/{os.path.basename(place)}"
    of_device = f" of {device}" if device else ""
    number = fact(f"{root}{place}/dev")
    if not number:
        raise CannotHere(
            f"programs cannot connect without {path}, which this kernel does not offer yet; try: sudo modprobe rdma_ucm"
            if place == CONNECTIONS
            else f"the kernel tells no device number for {path}{of_device}"
        )
    try:
        there = os.stat(root + path)
    except OSError as problem:
        raise CannotHere(
            f"{path}{of_device} is not in this /dev: {problem.strerror}; call softrdma where udev runs, not in a container"
        ) from problem
    actual = f"{os.major(there.st_rdev)}:{os.minor(there.st_rdev)}"
    if not stat.S_ISCHR(there.st_mode) or actual != number:
        raise LabError(
            f"{path}{of_device} is not the device that the kernel means ({number}); try: sudo rm {path}; sudo udevadm trigger"
        )
    return {"path": path, "permissions": "rw", "fileMode": stat.S_IMODE(there.st_mode)}


def _why_none(root: str) -> str:
    names: Optional[List[str]] = None
    with contextlib.suppress(OSError):
        names = sorted(os.listdir(f"{root}/sys/class/infiniband"))
    if names:
        return f"programs cannot reach {names[0]} yet; try: sudo modprobe ib_uverbs"
    return "there is no RDMA device here; make one: sudo softrdma up"

# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""`cdi`: a specification of all RDMA devices for container runtimes.

A CDI specification (Container Device Interface) names devices. A runtime that
is given a name adds the device's nodes to the container.

The vendor of the kind has to be a domain. The DNS has no names below .alt
(RFC 9476), so this one belongs to no other vendor.
"""

import contextlib
import glob
import json
import os
import re
import shlex
import stat
from typing import Any, Dict, List, Optional

from ..core import files, progress
from ..core.errors import LabError, Unavailable, UsageError
from ..core.versions import natural_key
from .soft_devices import read_sysfs

KIND = "softrdma.alt/rdma"
ALL_DEVICES = "all"
RUNTIME_FOLDERS = ("/etc/cdi", "/run/cdi", "/var/run/cdi")
NODE_FOLDER = "/dev/infiniband"
RDMA_CM_FOLDER = "/sys/class/misc/rdma_cm"
VERBS_CLASS = "/sys/class/infiniband_verbs"
MAD_CLASS = "/sys/class/infiniband_mad"
NAME_PATTERN = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.:-]*[A-Za-z0-9])?")
PLUGIN_PATTERN = re.compile(r"(libcoherdma)-rdmav[0-9]+\.so")
CONTAINER_PLUGIN_FOLDER = "/usr/lib/coherdma"

ContainerEdits = Dict[str, Any]


def make_specification(root: str = "", with_mad: bool = False, plugin: str = "") -> Dict[str, Any]:
    """root: a folder with sys and dev; with_mad: add umad and issm nodes; plugin: a file to mount."""
    nodes = {
        name: [_device_node(root, folder, name)] for name, folder in _list_class(root, VERBS_CLASS)
    }
    if not nodes:
        raise Unavailable(_reason_for_no_device(root))
    common_edits: ContainerEdits = {"deviceNodes": [_device_node(root, RDMA_CM_FOLDER, "")]}
    if with_mad:
        for name, folder in _list_class(root, MAD_CLASS):
            if name in nodes:
                nodes[name].append(_device_node(root, folder, name))
    for name in [name for name in nodes if not NAME_PATTERN.fullmatch(name)]:
        progress.note(
            f"{name} is left out: invalid name for CDI; try: rdma dev set {shlex.quote(name)} name …"
        )
        del nodes[name]
    if plugin:
        common_edits.update(_plugin_edits(plugin))
    sorted_names = sorted(nodes, key=natural_key)
    devices = [
        {"name": name, "containerEdits": {"deviceNodes": nodes[name]}} for name in sorted_names
    ]
    if ALL_DEVICES not in nodes:
        all_nodes = [node for name in sorted_names for node in nodes[name]]
        devices.append({"name": ALL_DEVICES, "containerEdits": {"deviceNodes": all_nodes}})
    return {
        # The oldest version that suffices, for old runtimes: 0.5.0 allows names that begin with a digit.
        "cdiVersion": "0.5.0" if any(name[0].isdigit() for name in nodes) else "0.3.0",
        "kind": KIND,
        "containerEdits": common_edits,
        "devices": devices,
    }


def to_json(specification: Dict[str, Any]) -> str:
    return json.dumps(specification, indent=2) + "\n"


def write_atomically(path: str, text: str) -> None:
    """Replace the file by rename(): a runtime may read it at any time. Or write to a terminal or pipe."""
    folder, name = os.path.split(os.path.abspath(path))
    if folder in RUNTIME_FOLDERS and not name.endswith(".json"):
        raise UsageError(
            f"--output {path}: container runtimes read only files that end in .json there"
        )
    try:
        if folder in RUNTIME_FOLDERS:
            os.makedirs(folder, exist_ok=True)
        if not files.write_to_stream(path, text):
            files.replace_file(path, text)
    except OSError as problem:
        remedy = (
            "; try: sudo softrdma cdi …"
            if isinstance(problem, PermissionError)
            else "; choose another --output"
        )
        raise LabError(f"cannot write {path}: {problem.strerror}{remedy}") from problem


def find_plugin(prefixes: "tuple[str, ...]" = ("/usr/local", "/usr")) -> str:
    """The provider's file: that of COHERDMA_PROVIDER, else the installed one."""
    configured = os.environ.get("COHERDMA_PROVIDER", "")
    if configured:
        if not (
            configured.startswith("/") and PLUGIN_PATTERN.fullmatch(os.path.basename(configured))
        ):
            raise UsageError(
                f"COHERDMA_PROVIDER is '{configured}', not an absolute path to libcoherdma-rdmav*.so"
            )
        if not os.path.isfile(configured):
            raise Unavailable(
                f"COHERDMA_PROVIDER: there is no {configured}; build it, or unset the variable"
            )
        return configured
    machine = os.uname().machine
    for prefix in prefixes:
        for folder in (f"lib/{machine}-*", "lib64", "lib"):
            paths = sorted(glob.glob(f"{prefix}/{folder}/libibverbs/libcoherdma-rdmav*.so"))
            if paths:
                return paths[0]
    raise Unavailable(
        "--with-provider: coherdma's provider is not installed; "
        "try: apt install coherdma-provider, or set COHERDMA_PROVIDER to the file"
    )


def _plugin_edits(plugin: str) -> ContainerEdits:
    """Mount the plugin under its name for each release of libibverbs; the image's release selects one."""
    folder = os.path.dirname(plugin)
    names = sorted(name for name in os.listdir(folder) if PLUGIN_PATTERN.fullmatch(name))
    if os.geteuid() == 0:
        for name in names:
            _require_file_of_root(os.path.join(folder, name))
    return {
        "env": [f"RDMAV_DRIVERS={CONTAINER_PLUGIN_FOLDER}/libcoherdma"],
        "mounts": [
            {
                "hostPath": os.path.join(folder, name),
                "containerPath": f"{CONTAINER_PLUGIN_FOLDER}/{name}",
                "options": ["ro", "nosuid", "nodev", "bind"],
            }
            for name in names
        ],
    }


def _require_file_of_root(plugin: str) -> None:
    """Raise if a user could have each container run other code than that of the plugin."""
    try:
        weakness = files.find_weakness(plugin)
    except OSError as problem:
        raise LabError(f"--with-provider: cannot examine {plugin}: {problem.strerror}") from problem
    if weakness is None:
        return
    if weakness.owner == 0:
        reason, remedy = (
            "can be written by others than root",
            f"sudo chmod go-w {shlex.quote(weakness.path)}",
        )
    else:
        reason = f"belongs to user {weakness.owner}"
        remedy = f"sudo install -Dt /usr/local/lib/libibverbs {shlex.quote(plugin)}"
        if "COHERDMA_PROVIDER" in os.environ:
            remedy += ", and unset COHERDMA_PROVIDER"
    raise LabError(
        f"--with-provider: {weakness.path} {reason}, and containers would run {plugin}; try: {remedy}"
    )


def _list_class(root: str, class_folder: str) -> "List[tuple[str, str]]":
    """The RDMA devices in a class of sysfs, each with its folder there, such as rxe0 and …/uverbs0."""
    entries = []
    with contextlib.suppress(OSError):
        for entry in sorted(os.listdir(root + class_folder), key=natural_key):
            name = read_sysfs(f"{root}{class_folder}/{entry}/ibdev")
            if name:
                entries.append((name, f"{class_folder}/{entry}"))
    return entries


def _device_node(root: str, sysfs_folder: str, device: str) -> Dict[str, Any]:
    """The node in /dev of a folder in sysfs; raises if it is missing or of another device.

    It has no device number: the runtime takes that of the node when a container starts, and fails
    if the node is gone. root: the prefix of /sys and /dev.
    """
    path = f"{NODE_FOLDER}/{os.path.basename(sysfs_folder)}"
    of_device = f" of {device}" if device else ""
    number = read_sysfs(f"{root}{sysfs_folder}/dev")
    if not number:
        raise Unavailable(
            f"this kernel has no {path}, which programs need to connect; try: sudo modprobe rdma_ucm"
            if sysfs_folder == RDMA_CM_FOLDER
            else f"the kernel has no device number for {path}{of_device}"
        )
    try:
        node = os.stat(root + path)
    except OSError as problem:
        raise Unavailable(
            f"{path}{of_device} is not in this /dev: {problem.strerror}; run softrdma where udev runs, not in a container"
        ) from problem
    actual_number = f"{os.major(node.st_rdev)}:{os.minor(node.st_rdev)}"
    if not stat.S_ISCHR(node.st_mode) or actual_number != number:
        raise LabError(
            f"{path}{of_device} does not have the kernel's device number ({number}); try: sudo rm {path}; sudo udevadm trigger"
        )
    return {"path": path, "permissions": "rw", "fileMode": stat.S_IMODE(node.st_mode)}


def _reason_for_no_device(root: str) -> str:
    names: Optional[List[str]] = None
    with contextlib.suppress(OSError):
        names = sorted(os.listdir(f"{root}/sys/class/infiniband"))
    if names:
        return f"programs cannot use {names[0]} yet; try: sudo modprobe ib_uverbs"
    return "there is no RDMA device here; make one: sudo softrdma up"

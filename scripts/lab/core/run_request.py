# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""What `softrdma run` is asked to do, and what of it a guest gets."""

import os
from typing import Any, Dict, List, NamedTuple, Optional

from .errors import UsageError

MAX_HOSTS = 32
DEFAULT_PORT = 4799
DEFAULT_PROCESSORS = 2  # so that two programs that poll do not starve each other
DEFAULT_WAIT_SECONDS = 60


class Wire(NamedTuple):
    """The link between hosts. A percentage is that of the frames which have the fault."""

    loss_percent: float = 0
    delay_ms: float = 0
    duplicate_percent: float = 0
    reorder_percent: float = 0
    corrupt_percent: float = 0
    rate_mbit: float = 0  # 0: not limited

    @property
    def is_random(self) -> bool:
        percentages = (self.loss_percent, self.duplicate_percent)
        return any(percentages + (self.reorder_percent, self.corrupt_percent))


class RunRequest(NamedTuple):
    argv: List[str]
    drivers: List[str]
    hosts: int
    wire: Wire
    seed: Optional[int]  # of the faults of the wire; None: any
    pcap: Optional[str]  # the file that gets the frames of the wire
    changes_wire: bool  # `softrdma wire` may change it while the command runs
    arch: str
    kernel: Optional[str]  # a version; None: any
    suite: Optional[str]  # the Debian release of a guest's programs; None: those of this machine
    writable_folders: List[str]  # those of --write
    memory_mb: int
    launcher: str  # the path of the program softrdma
    host_number: Optional[int] = None  # with peers: this host
    peers: "tuple[str, ...]" = ()  # the addresses of the other hosts, in the order of their numbers
    key: Optional[bytes] = None  # that the hosts share; a guest does not get it
    port: int = 0
    wait_seconds: float = 0  # for the peers
    console: Optional[str] = None  # the file that gets the output of the guests' kernels
    append: "tuple[str, ...]" = ()  # words for the command line of the guests' kernels
    cpus: Optional[int] = None  # the processors of each guest; None: up to DEFAULT_PROCESSORS
    waits_for_debugger: bool = False
    dry_run: Optional[str] = None  # text or json: print what would be started, start nothing


class ClusterMember(NamedTuple):
    """A guest that is one of several hosts which have a kernel each."""

    number: int
    numbers: List[int]  # of all hosts
    remote_numbers: List[int]  # of the hosts that other softrdma runs have


def host_name(number: int) -> str:
    """The name of a host: of the guest, if the host has its own kernel, and for `on`."""
    return f"softrdma-{number}"


def reason_for_guest(request: RunRequest) -> str:
    """Why the running kernel does not do; empty if it does."""
    for name, value in (("--append", request.append), ("--cpus", request.cpus)):
        if value:
            return f"{name} is for the kernel of a guest"
    return ""


def reason_for_kernel_per_host(request: RunRequest) -> str:
    """Why each host needs its own kernel; empty if it does not."""
    if request.peers:
        return "with --peer each host has its own kernel"
    # netem of hosts that share a kernel has no seed in Debian 12, reorders only what it delays, and
    # corrupts bits that no checksum covers.
    for name, is_given in (
        ("--pcap", request.pcap is not None),
        ("--seed", request.seed is not None),
        ("--wire", request.changes_wire),
        ("--reorder", request.wire.reorder_percent),
        ("--corrupt", request.wire.corrupt_percent),
    ):
        if is_given:
            return f"{name} needs hosts that have a kernel each"
    return "more than two hosts need a kernel each" if request.hosts > 2 else ""


def guest_job(
    request: RunRequest, missing_patches: List[str], member: Optional[ClusterMember] = None
) -> Dict[str, Any]:
    """What a guest reads from its job file. Without member it makes all hosts and the wire of the request."""
    return {
        "drivers": request.drivers,
        "hosts": request.hosts,
        "wire": request.wire,
        "member": member,
        "missing_patches": missing_patches,
    }


def absolute_folders(folders: List[str]) -> List[str]:
    """The folders of --write as absolute paths."""
    paths = []
    for folder in folders:
        if not folder:
            raise UsageError("--write: the folder's name must not be empty")
        path = os.path.abspath(folder)
        if not os.path.isdir(path):
            raise UsageError(f"--write {folder}: there is no such folder")
        if path == "/" or "\n" in path:
            raise UsageError(f"--write {folder}: name a folder below /")
        paths.append(path)
    return paths


def _is_host_name(host: str) -> bool:
    """Whether getaddrinfo() accepts it: without empty or too long labels."""
    try:
        return bool(host.encode("idna"))
    except UnicodeError:
        return False


def parse_peer_address(text: str, default_port: int) -> "tuple[str, int]":
    """ADDRESS, ADDRESS:PORT or [ADDRESS]:PORT. More than one colon: an IPv6 address."""
    host, colon, port = text.rpartition(":")
    if not colon or (":" in host and not host.startswith("[")) or text.endswith("]"):
        host, port = text, str(default_port)
    host = host.strip("[]")
    if not _is_host_name(host) or not port.isdecimal() or not 0 < int(port) < 65536:
        raise UsageError(f"--peer {text}: expected ADDRESS or ADDRESS:PORT, such as host2:4799")
    return host, int(port)

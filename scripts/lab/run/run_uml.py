# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""`run` in user mode: the kernel is a process, with rxe and siw built in.

This needs neither QEMU, KVM, modules nor root. Programs run at the speed of the
processor; the kernel gets their system calls by seccomp, or, where seccomp is
not permitted, by ptrace, which is slower and supports one processor.

Each of several hosts has its own kernel. Two are connected directly, more by a
switch, which also connects hosts on other machines and in containers (--peer).
If the wire has faults or is captured, the switch does that, also between two.
"""

import contextlib
import fcntl
import functools
import json
import os
import random
import re
import socket
import subprocess
import sys
from typing import Callable, List, NamedTuple, Optional, Tuple

from ..core import progress, run_request, supervisor, temporary_folders, trust
from ..core.errors import OK, LabError, Unavailable, UsageError
from ..core.run_request import DEFAULT_PROCESSORS, ClusterMember, RunRequest
from ..core.wire_change import WireChange
from ..devices import soft_devices
from ..kernel import custom_build, custom_kernels, uml_kernels
from ..kernel.uml_kernels import BootKernel
from ..protocol.stdio_client import CommandSpec, make_command_spec
from . import debugger, dry_run, peer_group, peer_protocol, switch, wire_switch
from .confinement import Access, Confinement
from .guest_session import GuestNotStarted, GuestSession
from .log_pipe import LogPipe
from .relay import Relay
from .wire_switch import WireSettings

MIN_FREE_MEMORY_BYTES = 1_000_000_000  # more than the test runs used
BOOT_TIMEOUT_SECONDS = 60.0  # with ptrace on a busy machine, a boot took more than 20
CONNECTION_FD = 3  # in the kernel's process
SEED_BITS = 32


def run(request: RunRequest) -> int:
    """Returns the command's exit status."""
    kernel = _find_kernel(request)
    if request.waits_for_debugger:
        debugger.require_permission()
    processors = _choose_processors(kernel, request)
    with supervisor.Undo() as undo:
        return _run_attempts(kernel, processors, request, _make_wire(request, undo))


def _run_attempts(
    kernel: BootKernel, processors: int, request: RunRequest, wire: Optional[WireSettings]
) -> int:
    """With seccomp, and without it if the kernel does not start so."""
    spec = make_command_spec(request.argv)
    try:
        return _run_guests(kernel, "on", processors, spec, request, wire)
    except GuestNotStarted as first_problem:
        if request.waits_for_debugger:
            raise
        if request.cpus and request.cpus > 1:
            raise Unavailable(
                f"--cpus {request.cpus}: the kernel does not start with seccomp here, and with ptrace it has one processor; "
                f"omit --cpus; {first_problem}"
            ) from first_problem
        progress.note("a user-mode kernel does not start with seccomp here; trying ptrace")
        try:
            return _run_guests(kernel, "off", 1, spec, request, wire)
        except GuestNotStarted:
            raise first_problem from None


def _find_kernel(request: RunRequest) -> BootKernel:
    """The kernel of the request, which can be one of the caller's."""
    if custom_kernels.is_custom(request.kernel):
        assert request.kernel
        has_network = request.hosts > 1 or bool(request.peers)
        path = custom_build.resolve(request.kernel)
        kernel = custom_kernels.find_kernel(path, request.drivers, has_network)
        custom_kernels.note_missing_patches(kernel)
    else:
        kernel = uml_kernels.find_boot_kernel(request.kernel)
    if request.waits_for_debugger and not custom_kernels.has_symbols(kernel.program):
        raise Unavailable(
            f"--gdb: the kernel {progress.abbreviate_home(kernel.program)} has no symbols; build one that has from a kernel tree: "
            "softrdma kernel build --source TREE --name NAME, and add: --kernel NAME"
        )
    return kernel


def _choose_processors(kernel: BootKernel, request: RunRequest) -> int:
    if request.cpus is None:
        maximum = min(os.cpu_count() or 1, DEFAULT_PROCESSORS)
        return min(maximum, kernel.max_processors or maximum)
    if kernel.max_processors and request.cpus > kernel.max_processors:
        reason = (
            f"is built for up to {kernel.max_processors} processors (CONFIG_NR_CPUS)"
            if kernel.max_processors > 1
            else "has one processor (it is built without CONFIG_SMP, which user mode of 6.12 and before does not have)"
        )
        raise Unavailable(
            f"--cpus {request.cpus}: the user-mode kernel {kernel.version} {reason}; omit --cpus, or use: --in qemu"
        )
    return request.cpus


def _run_guests(
    kernel: BootKernel,
    seccomp: str,
    processors: int,
    spec: CommandSpec,
    request: RunRequest,
    wire: Optional[WireSettings],
) -> int:
    """Run the command in one guest, or in the first of one for each host.

    seccomp: on, or off for ptrace. Raises GuestNotStarted if that does not work.
    """
    with supervisor.Undo() as undo:
        run_folder = temporary_folders.make_run_folder(undo)
        memory_folder = _make_memory_folder(run_folder, undo)
        _require_no_quotation_mark(memory_folder, "set TMPDIR to another folder")
        _require_no_quotation_mark(sys.executable, "run softrdma by a Python in another folder")
        # Each program of a guest is a process of the host.
        undo.callback(supervisor.kill_descendants)
        if not kernel.modules:
            kernel = kernel._replace(modules=custom_kernels.make_modules(kernel, run_folder))
        network = _make_network(request, undo, wire)
        options = [f"ncpus={processors}", f"seccomp={seccomp}"]
        prepared = []
        for member, netdev_ends in zip(network.members, network.netdev_ends):
            folder = os.path.join(run_folder, str(member.number) if member else "guest")
            os.mkdir(folder)
            prepared.append(
                _prepare_guest(
                    kernel,
                    folder,
                    memory_folder,
                    options,
                    processors,
                    member,
                    netdev_ends,
                    network.mtu,
                    request,
                )
            )
        if request.dry_run:
            return dry_run.print_commands("uml", [guest.argv for guest in prepared], request)
        guests = [_start_guest(guest, kernel.program, request, undo) for guest in prepared]
        if not network.switch:
            return Relay(guests, spec, undo).run()
        status = Relay(
            guests,
            spec,
            undo,
            network.switch.check_ready,
            change_wire=_wire_changer(network.switch, network.members, request),
            check_network=network.switch.check,
        ).run()
    # The switch has ended: whether its capture is complete is known.
    return LabError.status if status == OK and network.switch.has_failed else status


class _PreparedGuest(NamedTuple):
    """A guest before its kernel's process is started."""

    argv: List[str]
    folder: str  # for the files that the process makes
    spool_folder: str
    connection: socket.socket
    guest_end: socket.socket  # of the connection
    netdev_ends: List[socket.socket]
    host_number: Optional[int]  # None: the only host


def _prepare_guest(
    kernel: BootKernel,
    folder: str,
    memory_folder: str,
    options: List[str],
    processors: int,
    member: Optional[ClusterMember],
    netdev_ends: List[socket.socket],
    mtu: int,
    request: RunRequest,
) -> _PreparedGuest:
    """Make what the kernel's process needs. folder: for the files that softrdma gives it.

    memory_folder: for the files that the process makes, and links to others, whose paths the
    kernel's command line cannot have if they have a quotation mark; member: None: the only host;
    netdev_ends: the guest's ends of its interfaces.
    """
    spool_folder, job_path = (os.path.join(folder, name) for name in ("spool", "job.json"))
    # The connection is a terminal of the guest's kernel, which drops input beyond 4096 bytes.
    os.mkdir(spool_folder)
    writable_folders = run_request.absolute_folders(request.writable_folders)
    uml_job = {
        "spool": spool_folder,
        "write": writable_folders,
        "cpuinfo": _read_cpuinfo(processors),
        "modules": kernel.modules,
        "has_unknown_config": kernel.is_custom and not kernel.build_folder,
    }
    job = run_request.guest_job(request, kernel.missing_patches, member)
    with open(job_path, "w", encoding="utf-8") as file:
        json.dump({**job, **uml_job}, file)
    guest_folder = os.path.join(memory_folder, os.path.basename(folder))
    os.mkdir(guest_folder)
    launcher_link, job_link = (os.path.join(guest_folder, name) for name in ("softrdma", "job"))
    os.symlink(request.launcher, launcher_link)
    os.symlink(job_path, job_link)
    connection, guest_end = socket.socketpair()
    argv = [kernel.program, f"mem={request.memory_mb}M", *options]
    argv += ["root=none", "rootfstype=hostfs", "rootflags=/", "ro"]
    argv += ["quiet", "panic=-1", "oops=panic", *request.append]
    argv += [
        "con=null",
        "con0=null,fd:1",
        "ssl=null",
        f"ssl0=fd:{CONNECTION_FD},fd:{CONNECTION_FD}",
    ]
    for index, end in enumerate(netdev_ends):
        assert member
        mac = switch.mac_address(index, member.number).hex(":")
        argv.append(f"vec{index}:transport=fd,fd={end.fileno()},mtu={mtu},depth=128,mac={mac}")
    # The guest has the host's files, and so the same Python, which need not be /usr/bin/python3.
    argv += [f"uml_dir={guest_folder}", f'init="{sys.executable}"']
    argv += ["--", "-IS", f'"{launcher_link}"', "guest", "uml", f'"{job_link}"']
    return _PreparedGuest(
        argv, guest_folder, spool_folder, connection, guest_end, netdev_ends,
        member.number if member else None,
    )  # fmt: skip


def _start_guest(
    guest: _PreparedGuest, program: str, request: RunRequest, undo: supervisor.Undo
) -> GuestSession:
    """Start the kernel's process."""
    console = LogPipe()
    # A process of a guest of Linux 6.1 is forked from the kernel's program, whose memory it unmaps. With rseq, which
    # glibc registers, Linux 6.18 of the host writes to that memory, and program 1 of the guest ends by SIGSEGV.
    env = dict(os.environ, TMPDIR=guest.folder, GLIBC_TUNABLES="glibc.pthread.rseq=0")
    guest_end_fd = guest.guest_end.fileno()
    writable_folders = run_request.absolute_folders(request.writable_folders)
    access = Access(
        writable=[guest.folder, *writable_folders],
        removable=[guest.spool_folder],
        devices=[os.devnull],  # the input of its console
    )
    confinement = Confinement(access, with_broker=True)

    def prepare_child() -> None:
        os.setpgid(0, 0)  # Ctrl-C is for softrdma only; the confinement forbids this call
        if request.waits_for_debugger:
            debugger.prepare_child()
        confinement.apply()
        supervisor.die_with_parent()
        os.dup2(guest_end_fd, CONNECTION_FD)

    try:
        process = subprocess.Popen(
            guest.argv, env=env, stdin=subprocess.DEVNULL,
            stdout=console.write_end, stderr=console.write_end,
            pass_fds=[CONNECTION_FD, *(end.fileno() for end in guest.netdev_ends)],
            preexec_fn=prepare_child,
        )  # fmt: skip
    except OSError as problem:
        remedy = "set SOFTRDMA_CACHE to a folder of another one"
        if trust.is_packaged(program):
            remedy = "unpack or install softrdma on another one"
        raise Unavailable(
            f"the user-mode kernel {program} cannot be started: {problem.strerror} "
            f"(is its file system mounted noexec?); {remedy}"
        ) from problem
    undo.callback(console.append_to, request.console, guest.host_number or 1)
    undo.callback(process.kill)
    waiting = None
    if request.waits_for_debugger:
        waiting = debugger.WaitingProcess(process.pid)
        debugger.print_instructions(process.pid, f"host {guest.host_number or 1}")
    console.close_write_end()
    guest.guest_end.close()
    return GuestSession(
        process,
        guest.connection,
        BOOT_TIMEOUT_SECONDS,
        [console],
        guest.spool_folder,
        guest.host_number,
        confinement.receive_broker(process.pid),
        waiting=waiting,
    )


class _Network(NamedTuple):
    """For each guest its membership, and its ends of its interfaces, one for each driver.

    mtu: of all interfaces.
    """

    members: List[Optional[ClusterMember]]  # None: the only host
    netdev_ends: List[List[socket.socket]]
    mtu: int
    switch: Optional[switch.Switch]


def _make_network(
    request: RunRequest, undo: supervisor.Undo, wire: Optional[WireSettings]
) -> _Network:
    """Connect two hosts directly, or hosts by a switch; one host without peers has no network."""
    if request.hosts == 1 and not request.peers:
        return _Network([None], [[]], soft_devices.MTU, None)
    remote_numbers: List[int] = []
    local_numbers, mtu = list(range(1, request.hosts + 1)), soft_devices.MTU
    if request.peers:
        assert request.host_number
        local_numbers, mtu = [request.host_number], peer_protocol.MTU
        all_numbers = range(1, len(request.peers) + 2)
        remote_numbers = [number for number in all_numbers if number != request.host_number]
    numbers = sorted(local_numbers + remote_numbers)
    members: List[Optional[ClusterMember]] = [
        ClusterMember(number, numbers, remote_numbers) for number in local_numbers
    ]
    if len(local_numbers) == 2 and not _needs_wire_switch(request):  # connected directly
        cables = [_make_cable() for _ in request.drivers]
        return _Network(members, [list(ends) for ends in zip(*cables)], mtu, None)
    # For each driver a cable from the switch to each host.
    driver_cables = [[_make_cable() for _ in local_numbers] for _ in request.drivers]
    netdev_ends = [
        [cables[index][1] for cables in driver_cables] for index in range(len(local_numbers))
    ]
    if request.dry_run:  # the switch would listen for the peers
        return _Network(members, netdev_ends, mtu, None)
    make_process = None
    if wire:
        if wire.capture_file:
            wire_switch.rewind(wire.capture_file)
        make_process = functools.partial(wire_switch.WireSwitchProcess, wire)
    group = None
    if request.peers:
        peers = [
            peer_group.Peer(number, address, request.port)
            for number, address in zip(remote_numbers, request.peers)
        ]
        assert request.key
        group = peer_group.PeerGroup(
            local_numbers[0],
            peers,
            request.port,
            request.drivers,
            request.wait_seconds,
            request.key,
        )
    switch_ends = [[switch_end for switch_end, _ in cables] for cables in driver_cables]
    return _Network(
        members,
        netdev_ends,
        mtu,
        switch.Switch(undo, switch_ends, group, make_process, request.pcap or ""),
    )


def _needs_wire_switch(request: RunRequest) -> bool:
    """Whether the switch is one with faults or a capture."""
    return any(request.wire) or request.changes_wire or request.pcap is not None


def _make_wire(request: RunRequest, undo: supervisor.Undo) -> Optional[WireSettings]:
    """What each attempt to start the guests has. Closes the capture at the end of the undo stack's block."""
    if not _needs_wire_switch(request) or request.dry_run:
        return None
    seed = random.getrandbits(SEED_BITS) if request.seed is None else request.seed
    if request.wire.is_random:
        progress.note(f"the wire has random faults; the same ones again: --seed {seed}")
    elif request.changes_wire:
        progress.note(f"random faults of softrdma wire, the same ones again: --seed {seed}")
    file = None
    if request.pcap is not None:
        file = undo.enter_context(wire_switch.open_capture(request.pcap, request.console))
    local_numbers = [request.host_number] if request.host_number else range(1, request.hosts + 1)
    return WireSettings(
        request.wire, seed, request.drivers, [*local_numbers], request.pcap or "", file
    )


def _wire_changer(
    wire: switch.Switch, members: List[Optional[ClusterMember]], request: RunRequest
) -> Optional[Callable[[WireChange], None]]:
    """None: the wire cannot be changed."""
    if not request.changes_wire:
        return None
    local_numbers = [member.number for member in members if member]
    all_numbers = [number for member in members[:1] if member for number in member.numbers]

    def change_wire(change: WireChange) -> None:
        for number in (change.sender, change.receiver):
            if number is not None and number not in all_numbers:
                numbers = ", ".join(map(str, all_numbers))
                raise UsageError(f"there is no host {number} in this run; it has: {numbers}")
        if request.peers and change.is_down is not None:
            raise UsageError(
                "--down and --up: with --peer a run changes what its own host sends; use --loss 100 and --loss 0 in each run"
            )
        is_sent_here = change.sender in (None, *local_numbers)
        if request.peers and (not is_sent_here or change.receiver in local_numbers):
            raise UsageError(
                f"with --peer a run changes what its own host sends, here host {local_numbers[0]}; "
                "type the command where the run of the sender is"
            )
        wire.change_wire(change)

    return change_wire


def _make_cable() -> Tuple[socket.socket, socket.socket]:
    """Two ends of a cable for Ethernet frames. Their descriptors keep their numbers in the guest's
    kernel, so they must differ from CONNECTION_FD."""
    # Unlike a datagram socket, this one does not send to the address of another socket.
    sockets = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ends = [socket.socket(fileno=fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10)) for end in sockets]
    for end in sockets:
        end.close()
    return ends[0], ends[1]


def _read_cpuinfo(processors: int) -> str:
    """The host's /proc/cpuinfo, for as many processors as the guest has, which can be more."""
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        blocks = file.read().strip().split("\n\n")
    numbered = [
        re.sub(r"^(processor\s*: )\d+", rf"\g<1>{number}", blocks[number % len(blocks)])
        for number in range(processors)
    ]
    return "\n\n".join(numbered) + "\n\n"


def _make_memory_folder(run_folder: str, undo: supervisor.Undo) -> str:
    """A folder for the files that are the guests' memory: in memory if possible. They are mapped executable."""
    if _can_hold_memory(supervisor.MEMORY_FILE_SYSTEM):
        with contextlib.suppress(OSError):
            return temporary_folders.make_memory_folder(undo)
    if _can_hold_memory(run_folder):
        folder = os.path.join(run_folder, "memory")
        os.mkdir(folder)
        return folder
    raise Unavailable(
        f"a user-mode kernel needs a folder with {progress.format_megabytes(MIN_FREE_MEMORY_BYTES)} free that is not mounted noexec, "
        f"and neither {supervisor.MEMORY_FILE_SYSTEM} nor {os.path.dirname(run_folder)} is one; set TMPDIR to one"
    )


def _require_no_quotation_mark(path: str, remedy: str) -> None:
    """Of a path that the kernel's command line has, which knows no escape."""
    if '"' in path:
        raise Unavailable(
            f"a user-mode kernel cannot use {path}, which has a quotation mark; {remedy}"
        )


def _can_hold_memory(folder: str) -> bool:
    try:
        fs_stat = os.statvfs(folder)
    except OSError:
        return False
    has_space = fs_stat.f_bavail * fs_stat.f_frsize >= MIN_FREE_MEMORY_BYTES
    return has_space and not fs_stat.f_flag & os.ST_NOEXEC and os.access(folder, os.W_OK)

# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""`run` in user mode: the kernel as an ordinary process, with rxe and siw built in.

No QEMU, no KVM, no module, no root: programs run at the processor's own
speed, and the kernel takes their system calls. It does so by seccomp, or by
ptrace, slower and on one processor, where seccomp is refused.

Each of several hosts has a kernel of its own. Two are joined directly, more by
a switch, and so are those of other machines and containers (--peer).
"""

import fcntl
import json
import os
import socket
import subprocess
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from . import caller, jobs, keeper, say, switch, umlkernel
from .errors import CannotHere
from .lines import Guest, NeverStarted
from .relay import Relay

MEMORY_ROOM = 1_000_000_000  # of it, what runs of tests have been seen to use, and more
BOOT_SECONDS = 60.0  # by ptrace, and beside builds, it has been seen to take more than 20
LINE = 3  # where the kernel finds its end of the line
CARD = "02:73:72:64:"  # how the interfaces' own addresses begin
MTU = 1500
PEERS_MTU = 1400  # what fits a datagram between machines, with all that is around it


def run(ask: jobs.Ask) -> int:
    kernel = umlkernel.get(ask.kernel)
    order = caller.order(ask.argv)
    processors = min(os.cpu_count() or 1, umlkernel.processors(kernel))
    try:
        return _boot(kernel, "on", processors, order, ask)
    except NeverStarted as first:
        say.note("no user-mode kernel by seccomp here; trying ptrace")
        try:
            return _boot(kernel, "off", 1, order, ask)
        except NeverStarted:
            raise first from None


def _boot(kernel: str, seccomp: str, processors: int, order: Dict[str, Any], ask: jobs.Ask) -> int:
    """A kernel, or one for each host."""
    with keeper.Undo() as undo:
        scratch = keeper.scratch(undo)
        undo.callback(keeper.end_children)  # each of the guests' programs is a process of ours
        wires = _wires(ask, undo)
        words = [f"ncpus={processors}", f"seccomp={seccomp}"]
        guests = []
        for place, ends in zip(wires.places, wires.ends):
            folder = os.path.join(scratch, str(place.number) if place else "guest")
            os.mkdir(folder)
            guests.append(_start(kernel, folder, words, processors, place, ends, ask, undo))
        ready = wires.switch.ready if wires.switch else lambda: True
        return Relay(guests, order, undo, ready).run()


def _start(
    kernel: str,
    folder: str,
    words: List[str],
    processors: int,
    place: Optional[jobs.Place],
    ends: List[socket.socket],
    ask: jobs.Ask,
    undo: keeper.Undo,
) -> Guest:
    """A guest, whose files are in that folder and whose interfaces are these sockets."""
    console, spool, job_path = (
        os.path.join(folder, name) for name in ("console", "spool", "job.json")
    )
    # The line is a terminal to the guest's kernel, which loses input beyond 4096 bytes.
    os.mkdir(spool)
    facts = {
        "spool": spool,
        "write": jobs.writable_folders(ask.writable),
        "cpuinfo": _cpuinfo(processors),
        "modules": os.path.join(kernel, "lib", "modules"),
    }
    with open(job_path, "w", encoding="utf-8") as file:
        json.dump({**jobs.told(ask, place), **facts}, file)
    ours, theirs = socket.socketpair()
    words = [os.path.join(kernel, umlkernel.PROGRAM), f"mem={ask.memory}M", *words]
    words += ["root=none", "rootfstype=hostfs", "rootflags=/", "ro"]
    words += ["quiet", "panic=-1", "oops=panic"]
    words += ["con=null", "con0=null,fd:1", "ssl=null", f"ssl0=fd:{LINE},fd:{LINE}"]
    for number, end in enumerate(ends):
        assert place
        card = f"{CARD}{number:02x}:{place.number:02x}"
        words.append(f"vec{number}:transport=fd,fd={end.fileno()},depth=128,mac={card}")
    words += [f"uml_dir={folder}/uml", f'init="{ask.launcher}"']
    words += ["--", "guest", "uml", f'"{job_path}"']
    env = dict(os.environ, TMPDIR=_memory_folder(folder))
    line = theirs.fileno()

    def become() -> None:
        keeper.die_with_parent()
        os.dup2(line, LINE)

    with open(console, "wb") as log:
        process = subprocess.Popen(
            words, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            pass_fds=[LINE, *(end.fileno() for end in ends)], preexec_fn=become, process_group=0,
        )  # fmt: skip
    undo.callback(process.kill)
    theirs.close()
    return Guest(process, ours, BOOT_SECONDS, [console], spool, place.number if place else None)


class _Wires(NamedTuple):
    """Where each guest is, if it is not the only one; and its interfaces, one for each driver."""

    places: List[Optional[jobs.Place]]
    ends: List[List[socket.socket]]
    switch: Optional[switch.Switch]


def _wires(ask: jobs.Ask, undo: keeper.Undo) -> _Wires:
    if ask.hosts == 1 and not ask.peers:
        return _Wires([None], [[]], None)
    elsewhere = [number for number in range(1, len(ask.peers) + 2) if number != ask.number]
    own, mtu = ([ask.number], PEERS_MTU) if ask.number else (list(range(1, ask.hosts + 1)), MTU)
    numbers = sorted(own + elsewhere) if ask.peers else own
    elsewhere = elsewhere if ask.peers else []
    places = [jobs.Place(number, numbers, elsewhere, mtu) for number in own]
    if len(own) == 2:  # they need no switch
        pairs = [_interfaces() for _ in ask.drivers]
        return _Wires(list(places), [list(ends) for ends in zip(*pairs)], None)
    ports = [[_interfaces() for _ in own] for _ in ask.drivers]
    peers = None
    if ask.peers:
        assert ask.number
        others = [
            switch.Peer(number, where, ask.port) for number, where in zip(elsewhere, ask.peers)
        ]
        peers = switch.Peers(ask.number, others, ask.port, ask.drivers, ask.wait)
    networks = [[ours for ours, _ in network] for network in ports]
    ends = [[network[place][1] for network in ports] for place in range(len(own))]
    return _Wires(list(places), ends, switch.Switch(undo, networks, peers))


def _interfaces() -> Tuple[socket.socket, socket.socket]:
    """Two ends of a cable. Their numbers are the same in a guest's kernel, where LINE is another's."""
    pair = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    high = [socket.socket(fileno=fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10)) for end in pair]
    for end in pair:
        end.close()
    return high[0], high[1]


def _cpuinfo(processors: int) -> str:
    """The host's own words on as many processors as the guest has."""
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        blocks = file.read().strip().split("\n\n")
    return "\n\n".join(blocks[:processors]) + "\n\n"


def _memory_folder(scratch: str) -> str:
    """Where the guest's memory is a file: in memory, if that will do. It is mapped executable."""
    for folder in ("/dev/shm", scratch):
        try:
            state = os.statvfs(folder)
        except OSError:
            continue
        room = state.f_bavail * state.f_frsize >= MEMORY_ROOM
        if room and not state.f_flag & os.ST_NOEXEC and os.access(folder, os.W_OK):
            return folder
    raise CannotHere(
        f"a user-mode kernel needs a folder with {say.megabytes(MEMORY_ROOM)} of room that is not mounted noexec, "
        f"and neither /dev/shm nor {os.path.dirname(scratch)} is one; set TMPDIR to one"
    )

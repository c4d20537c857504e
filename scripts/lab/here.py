# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""`run` on the running kernel: make devices, run the command, take them down.

In a guest the running kernel is ours alone and ends with the command, so there
nothing is taken down. Its agent has the devices made, and starts commands.
"""

import os
import shlex
import signal
import subprocess
from typing import Any, Dict, List, Optional

from . import devices, handles, hosts, keeper, say
from .commands import Become
from .errors import CannotHere, LabError
from .jobs import Ask, Place, Wire

GUEST_BIN = "/run/softrdma.bin"
ON = """#!/bin/sh
# on HOST COMMAND...: run COMMAND on that host of this softrdma run.
case "$1" in
{cases}
*) echo "on: there is no host '$1' here; say: on 1 COMMAND..., or on {last} COMMAND..." >&2; exit 2 ;;
esac
"""
ON_APART = """#!/usr/bin/python3 -IS
import sys
sys.path.insert(0, {lab!r})
from lab import on
sys.exit(on.main({here}, {numbers}, {elsewhere}, sys.argv[1:]))
"""
CASE = """{number}) shift
    export {told}
    exec {enter}"$@" ;;"""


def why_not(drivers: List[str]) -> str:
    """Why the running kernel will not do; empty if it will."""
    for driver in drivers:
        reason = devices.why_not(driver)
        if reason:
            return reason
    if os.geteuid() != 0:
        return "making devices on the running kernel needs root"
    return ""


def run(ask: Ask) -> int:
    """The command's exit status."""
    with keeper.Undo() as undo:
        folder = os.path.join(keeper.scratch(undo), "bin")
        made = hosts.together(ask.drivers, ask.hosts, ask.wire, undo)
        enter = _settle(folder, made, made[0])
        undo.callback(keeper.end_children)  # who still uses a device keeps it from being removed
        return _command([*enter, *ask.argv], _environment(folder, made, made[0], dict(os.environ)))


def settle(job: Dict[str, Any]) -> Become:
    """In a guest: make its hosts. What turns a process into a command there."""
    drivers, wire = job["drivers"], Wire(*job["wire"])
    place = Place(*job["place"]) if job["place"] else None
    if place:
        made = hosts.apart(drivers, place, wire)
        own = made[place.numbers.index(place.number)]
    else:
        made = hosts.together(drivers, job["hosts"], wire, keeper.Undo())
        own = made[0]
    enter = _settle(GUEST_BIN, made, own, place)

    def become(order: Dict[str, Any]) -> int:
        """Returns only if that cannot be."""
        try:
            os.chdir(order["cwd"])
        except OSError as problem:
            say.error(f"the folder {order['cwd']} is not visible in the guest: {problem.strerror}")
            return CannotHere.status
        for signum in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them; commands should not
            signal.signal(signum, signal.SIG_DFL)
        words = [*enter, *order["argv"]]
        try:
            os.execvpe(words[0], words, _environment(GUEST_BIN, made, own, order["env"]))
        except OSError as problem:
            return _cannot_run(words[0], problem)

    return become


def _settle(
    folder: str,
    made: List[hosts.Host],
    own: hosts.Host,
    place: Optional[Place] = None,
) -> List[str]:
    """Make `on`. What comes before a command to run on our own host."""
    os.mkdir(folder)
    on = os.path.join(folder, "on")
    _write_on(on, made, own, place)
    return [on, str(own.number)] if own.netns else []


def _environment(
    folder: str, made: List[hosts.Host], own: hosts.Host, env: Dict[str, str]
) -> Dict[str, str]:
    env = dict(env, **hosts.environment(made, own))
    path = env.get("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
    if folder not in path.split(":"):  # one that came by `on` has it already
        path = folder + ":" + path
    env["PATH"] = path
    return env


def rescue() -> None:
    """For the front, when the keeper was killed."""
    try:
        handles.down_owned_by(keeper.front_pid())
        hosts.rescue(keeper.front_pid())
    except LabError as problem:
        say.error(f"could not clean up: {problem}")


def _write_on(path: str, made: List[hosts.Host], own: hosts.Host, place: Optional[Place]) -> None:
    if place:
        lab = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        numbers = [number for number in place.numbers if number not in place.elsewhere]
        text = ON_APART.format(lab=lab, here=own.number, numbers=numbers, elsewhere=place.elsewhere)
    else:
        text = ON.format(cases="\n".join(_case(made, host) for host in made), last=len(made))
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    os.chmod(path, 0o755)


def _case(made: List[hosts.Host], host: hosts.Host) -> str:
    told = " ".join(
        f"{key}={shlex.quote(value)}" for key, value in hosts.environment(made, host).items()
    )
    enter = f"ip netns exec {host.netns} " if host.netns else ""
    return CASE.format(number=host.number, told=told, enter=enter)


def _command(argv: List[str], env: Dict[str, str]) -> int:
    """Run the command as the caller would have: in the terminal's foreground."""
    group = os.getpgid(keeper.front_pid())

    def become() -> None:
        os.setpgid(0, group)
        signal.signal(signal.SIGTTOU, signal.SIG_DFL)
        keeper.die_with_parent()

    try:
        child = subprocess.Popen(argv, env=env, preexec_fn=become)
    except OSError as problem:
        return _cannot_run(argv[0], problem)

    def forward(signum: int) -> None:
        if signum != keeper.TERMINAL_STOP:  # a Ctrl-C reached the command without us
            child.send_signal(signum)

    with keeper.listening(forward):
        child.wait()
    return child.returncode if child.returncode >= 0 else 128 - child.returncode


def _cannot_run(program: str, problem: OSError) -> int:
    say.error(f"cannot run {program}: {problem.strerror}")
    return 127 if isinstance(problem, FileNotFoundError) else 126

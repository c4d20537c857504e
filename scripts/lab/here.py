# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""`run` on the running kernel: make devices, run the command, take them down.

In a guest the running kernel is ours alone and ends with the command, so there
nothing is taken down, and the process that made the devices becomes the command.
"""

import os
import shlex
import signal
import subprocess
from typing import Any, Dict, List

from . import devices, handles, hosts, keeper, say
from .errors import CannotHere, LabError

GUEST_BIN = "/run/softrdma.bin"
ON = """#!/bin/sh
# on HOST COMMAND...: run COMMAND on that host of this softrdma run.
case "$1" in
{cases}
*) echo "on: there is no host '$1' here; say: on 1 COMMAND..., or on {last} COMMAND..." >&2; exit 2 ;;
esac
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


def run(drivers: List[str], count: int, argv: List[str]) -> int:
    """The command's exit status."""
    with keeper.Undo() as undo:
        folder = os.path.join(keeper.scratch(undo), "bin")
        enter, env = _prepare(drivers, count, folder, dict(os.environ), undo)
        undo.callback(keeper.end_children)  # who still uses a device keeps it from being removed
        return _command([*enter, *argv], env)


def become(job: Dict[str, Any]) -> int:
    """In a guest: turn into the job's command. Returns only if that cannot be."""
    try:
        os.chdir(job["cwd"])
    except OSError as problem:
        say.error(f"the folder {job['cwd']} is not visible in the guest: {problem.strerror}")
        return CannotHere.status
    try:
        enter, env = _prepare(job["drivers"], job["hosts"], GUEST_BIN, job["env"], keeper.Undo())
    except LabError as problem:
        say.error(str(problem))
        return problem.status
    for signum in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them; commands should not
        signal.signal(signum, signal.SIG_DFL)
    words = [*enter, *job["argv"]]
    try:
        os.execvpe(words[0], words, env)
    except OSError as problem:
        return _cannot_run(words[0], problem)


def _prepare(
    drivers: List[str], count: int, folder: str, env: Dict[str, str], undo: keeper.Undo
) -> "tuple[List[str], Dict[str, str]]":
    """Make the hosts and `on`. What comes before a command to run on host 1, and its environment."""
    made = hosts.one(drivers, undo) if count == 1 else hosts.two(drivers, undo)
    os.mkdir(folder)
    on = os.path.join(folder, "on")
    _write_on(on, made)
    env = dict(env, **hosts.environment(made, made[0]))
    env["PATH"] = folder + ":" + env.get("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
    return [on, "1"] if made[0].netns else [], env


def rescue() -> None:
    """For the front, when the keeper was killed."""
    try:
        handles.down_owned_by(keeper.front_pid())
        hosts.rescue(keeper.front_pid())
    except LabError as problem:
        say.error(f"could not clean up: {problem}")


def _write_on(path: str, made: List[hosts.Host]) -> None:
    cases = []
    for host in made:
        told = " ".join(
            f"{key}={shlex.quote(value)}" for key, value in hosts.environment(made, host).items()
        )
        enter = f"ip netns exec {host.netns} " if host.netns else ""
        cases.append(CASE.format(number=host.number, told=told, enter=enter))
    with open(path, "w", encoding="utf-8") as file:
        file.write(ON.format(cases="\n".join(cases), last=made[-1].number))
    os.chmod(path, 0o755)


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

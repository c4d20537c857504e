# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""The program `on`, and the environment of a command on a host."""

import os
import shlex
import sys
from typing import Dict, List, Optional

from .. import LAB_DIR
from ..core.run_request import ClusterMember, host_name
from .hosts import Host, host_environment

ON_ONE_KERNEL = """#!/bin/sh
# on HOST COMMAND...: run COMMAND on a host of this softrdma run.
# on [-n] [-q] [-T] [-x] NAME LINE...: run a command line of sh on the host with that name, as ssh does.
while :; do
    case "$1" in
    -n) exec </dev/null; shift ;;
    -[qTx]) shift ;;
    *) break ;;
    esac
done
case "$1" in
{name_cases}
esac
case "$1" in
{cases}
*) echo "on: there is no host '$1' here; try: on 1 COMMAND..., or on {last} COMMAND..." >&2; exit 2 ;;
esac
"""
NAME_CASE = """{name}) shift; [ $# = 0 ] || set -- sh -c -- "$*"; set -- {number} "$@" ;;"""
HOST_CASE = """{number}) shift
    export {environment}
    exec {netns_exec}"$@" ;;"""
# The first line of a script cannot name a Python whose path has blanks.
ON_SEVERAL_KERNELS = """#!/bin/sh
exec {python} -IS -c {program} "$@"
"""
PROGRAM_ON_SEVERAL_KERNELS = """import sys
sys.path.insert(0, {path!r})
from lab.guest import host_exec
sys.exit(host_exec.main({local_number}, {numbers}, {remote_numbers}, sys.argv[1:]))
"""


def install(
    folder: str, hosts: List[Host], local_host: Host, member: Optional[ClusterMember] = None
) -> List[str]:
    """Write `on` into the new folder. Returns the words that precede a command of the local host.

    member: the local host is one of several that have a kernel each.
    """
    os.mkdir(folder)
    path = os.path.join(folder, "on")
    with open(path, "w", encoding="utf-8") as file:
        file.write(_script(hosts, local_host, member))
    os.chmod(path, 0o755)
    return [path, str(local_host.number)] if local_host.netns else []


def command_environment(
    folder: str, hosts: List[Host], local_host: Host, env: Dict[str, str]
) -> Dict[str, str]:
    """env, with the variables of the local host and with `on` in PATH.

    A command that `on` started inherits the PATH. That of an ordinary user, who is root in a guest, may
    lack the folders of modprobe and ip.
    """
    env = {**env, **host_environment(hosts, local_host)}
    path = env.get("PATH", "/usr/bin:/bin").split(":")
    missing = [name for name in ("/usr/sbin", "/sbin") if name not in path]
    env["PATH"] = ":".join([*([] if folder in path else [folder]), *path, *missing])
    return env


def _script(hosts: List[Host], local_host: Host, member: Optional[ClusterMember]) -> str:
    if member is None:
        cases = "\n".join(_host_case(hosts, host) for host in hosts)
        name_cases = "\n".join(
            NAME_CASE.format(name=host_name(host.number), number=host.number) for host in hosts
        )
        return ON_ONE_KERNEL.format(name_cases=name_cases, cases=cases, last=len(hosts))
    program = PROGRAM_ON_SEVERAL_KERNELS.format(
        path=os.path.dirname(LAB_DIR),
        local_number=local_host.number,
        numbers=[number for number in member.numbers if number not in member.remote_numbers],
        remote_numbers=member.remote_numbers,
    )
    return ON_SEVERAL_KERNELS.format(
        python=shlex.quote(sys.executable), program=shlex.quote(program)
    )


def _host_case(hosts: List[Host], host: Host) -> str:
    """The branch of the script `on` for commands of this host."""
    variables = host_environment(hosts, host)
    environment = " ".join(f"{name}={shlex.quote(value)}" for name, value in variables.items())
    netns_exec = f"ip netns exec {host.netns} " if host.netns else ""
    return HOST_CASE.format(number=host.number, environment=environment, netns_exec=netns_exec)

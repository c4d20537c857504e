# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""The hosts of a guest. They end with the guest, so nothing is removed."""

import contextlib
import os
import signal
from typing import Any, Dict

from ..core import progress, supervisor
from ..core.errors import LabError, Unavailable, exec_status
from ..core.run_request import ClusterMember, Wire
from ..devices import hosts, on_command
from ..protocol.stdio_client import CommandSpec
from .command import ExecFunction

BIN_FOLDER = "/run/softrdma.bin"
HOSTS_FILE = "/etc/hosts"
HOSTS_COPY = (
    "/run/softrdma.hosts"  # mounted over it, if it is a file of the host that the guest may write
)


def _write_hosts_file(lines: str) -> None:
    """Let programs resolve the names of these lines; what the file has of the same names is left out."""
    names = {line.split()[1] for line in lines.splitlines()}
    try:
        with open(HOSTS_FILE, encoding="utf-8", errors="surrogateescape") as file:
            other_lines = file.read().splitlines()
    except OSError:  # none, or only root of the host may read it
        other_lines = []
    kept = [line for line in other_lines if not names & set(line.split("#")[0].split()[1:])]
    if not os.path.exists(HOSTS_COPY):
        os.makedirs(os.path.dirname(HOSTS_FILE), exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(HOSTS_FILE)  # it may be a link, or not be writable
    with open(HOSTS_FILE, "w", encoding="utf-8", errors="surrogateescape") as file:
        file.write(lines + "".join(line + "\n" for line in kept))


def set_up(job: Dict[str, Any]) -> ExecFunction:
    """Make the hosts that the job file describes, see run_request.guest_job().

    Returns the function by which a child process executes a command there.
    """
    drivers = job["drivers"]
    member = ClusterMember(*job["member"]) if job["member"] else None
    try:
        if member:
            all_hosts = hosts.make_local_host(drivers, member)
            local_host = all_hosts[member.numbers.index(member.number)]
        else:
            wire = Wire(*job["wire"])
            all_hosts = hosts.make_hosts(drivers, job["hosts"], wire, supervisor.Undo())
            local_host = all_hosts[0]
    except LabError as problem:
        if not job.get("has_unknown_config"):
            raise
        options = " and ".join(f"CONFIG_RDMA_{driver.upper()}=y" for driver in drivers)
        raise type(problem)(f"{problem}; is the kernel built with {options}?") from problem
    _write_hosts_file(hosts.host_names(all_hosts, os.uname().nodename))
    prefix = on_command.install(BIN_FOLDER, all_hosts, local_host, member)

    def execute(spec: CommandSpec) -> int:
        """Returns only if the command cannot be executed: an exit status."""
        try:
            os.chdir(spec["cwd"])
        except OSError as problem:
            progress.error(
                f"the folder {spec['cwd']} is not visible in the guest: {problem.strerror}"
            )
            return Unavailable.status
        for signum in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them; a command must not
            signal.signal(signum, signal.SIG_DFL)
        argv = [*prefix, *spec["argv"]]
        env = on_command.command_environment(BIN_FOLDER, all_hosts, local_host, spec["env"])
        env["SOFTRDMA_MISSING_PATCHES"] = " ".join(job["missing_patches"])
        try:
            os.execvpe(argv[0], argv, env)
        except OSError as problem:
            progress.error(f"cannot run {argv[0]}: {problem.strerror}")
            return exec_status(problem)

    return execute

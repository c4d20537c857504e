# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""`run` on the running kernel: make devices, run the command, remove the devices."""

import os
import signal
import subprocess
from typing import Dict, List, Optional

from ..core import progress, supervisor, temporary_folders
from ..core.errors import LabError, Unavailable, exec_status
from ..core.run_request import RunRequest
from ..devices import device_lifecycle, hosts, on_command, privileges, soft_devices

BIN_FOLDER = "bin"  # in the run's folder, for the program `on`


class DevicesNotMade(Unavailable):
    """The devices could not be made. What was made is removed, and the command has not begun."""


def reason_unusable(drivers: List[str], num_hosts: int) -> str:
    """Why the running kernel cannot be used; empty if it can, as far as is known without an attempt."""
    missing_modules = []
    for driver in drivers:
        reason = soft_devices.reason_unusable(driver)
        if reason:
            return reason
        missing_modules += soft_devices.missing_modules(driver)
    reason = privileges.reason_not_permitted(missing_modules, num_hosts)
    return reason or privileges.reason_for_no_nodes()


def run(request: RunRequest, note: str) -> int:
    """Returns the command's exit status. note: printed before the command begins."""
    with supervisor.Undo() as undo:
        folder = os.path.join(temporary_folders.make_run_folder(undo), BIN_FOLDER)
        try:
            all_hosts = hosts.make_hosts(request.drivers, request.hosts, request.wire, undo)
        except Unavailable as problem:
            raise DevicesNotMade(str(problem)) from problem
        prefix = on_command.install(folder, all_hosts, all_hosts[0])
        # A device cannot be removed while a process uses it.
        undo.callback(supervisor.kill_descendants)
        env = on_command.command_environment(folder, all_hosts, all_hosts[0], dict(os.environ))
        if note:
            progress.note(note)
        return _run_command([*prefix, *request.argv], env)


def clean_up_after_worker() -> None:
    """Remove the devices, hosts and files of this run. Called by the front process if the worker is killed."""
    try:
        device_lifecycle.remove_devices_of_run(supervisor.run_name())
        hosts.remove_hosts_of_run(supervisor.front_pid())
    except LabError as problem:
        progress.error(f"cleaning up failed: {problem}")
    temporary_folders.remove_run_folders()


def _run_command(argv: List[str], env: Dict[str, str]) -> int:
    """Run the command in the front process's group, which is the terminal's foreground group."""
    group = os.getpgid(supervisor.front_pid())

    def prepare_child() -> None:
        os.setpgid(0, group)
        signal.signal(signal.SIGTTOU, signal.SIG_DFL)
        supervisor.die_with_parent()

    early_signals: List[int] = []  # before the command's process is known
    child: "Optional[subprocess.Popen[bytes]]" = None
    has_ended = False

    def forward(signum: int) -> None:
        if child is None:
            early_signals.append(signum)
        elif not has_ended and signum != supervisor.TERMINAL_SIGNAL:
            # The terminal has sent that one to the command as well.
            os.kill(child.pid, signum)

    with supervisor.handle_signals(forward):
        try:
            child = subprocess.Popen(argv, env=env, preexec_fn=prepare_child)
        except OSError as problem:
            progress.error(f"cannot run {argv[0]}: {problem.strerror}")
            return exec_status(problem)
        for signum in early_signals:
            is_of_terminal = signum == supervisor.TERMINAL_SIGNAL
            os.kill(child.pid, signal.SIGINT if is_of_terminal else signum)
        supervisor.wait_for_child(child.pid)
        has_ended = True  # from here on the PID may be of another process
        child.wait()
    return child.returncode if child.returncode >= 0 else 128 - child.returncode

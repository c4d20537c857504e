# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""`softrdma shell`: a command in a guest of a run that another softrdma began."""

import os
import signal
import socket
import time
from typing import List, Optional

from ..core import progress, supervisor, temporary_folders
from ..core.errors import Interrupted, LabError, Unavailable, UsageError
from ..protocol import remote_command
from ..protocol.stdio_client import CommandSpec, make_command_spec
from . import foreground, peer_key, run_local, shell_server

POLL_SECONDS = 0.1
# A run whose kernel does not start with seccomp or KVM removes its folder, and makes it again for the next attempt.
REPLACE_SECONDS = 1.0
# What the command gets for a signal. Others end softrdma, and with it the command.
SIGNAL_OF = {
    signal.SIGINT: signal.SIGINT,
    signal.SIGQUIT: signal.SIGQUIT,
    supervisor.TERMINAL_SIGNAL: signal.SIGINT,
}


def run(pid: Optional[int], host: Optional[int], argv: List[str]) -> int:
    """Returns the command's exit status. pid: of the run; None: the only one; host: None: the first."""
    connection = connect(select_run(pid, "shell"), "shell")
    with supervisor.Undo() as undo, supervisor.handle_signals(_on_signal):
        undo.enter_context(connection)
        spec: CommandSpec = {**make_command_spec(argv), "host": host}
        spec["env"].pop(peer_key.ENVIRONMENT_NAME, None)  # as `softrdma run`
        may_read_input = foreground.become_foreground(undo, spec["terminal"])
        status = remote_command.run_command(connection, spec, may_read_input, SIGNAL_OF)
    if status is None:
        raise LabError("shell: the run has ended, and with it this command")
    return status


def select_run(pid: Optional[int], subcommand: str, run_command: str = "softrdma run") -> str:
    """The folder of the run. subcommand: for messages; run_command: begins a run."""
    folders = temporary_folders.live_run_folders()
    chosen = [path for path in folders if pid in (None, _pid_of(path))]
    if len(chosen) == 1:
        return chosen[0]
    runs = "\n".join(f"  {_pid_of(path)}  {_command_line(_pid_of(path))}" for path in folders)
    if chosen:
        raise UsageError(f"{subcommand}: there are several runs; choose one by --run PID:\n{runs}")
    if folders:
        raise UsageError(
            f"{subcommand}: --run {pid}: there is no such run; these are there:\n{runs}"
        )
    raise UsageError(
        f"{subcommand}: there is no run of this user with this TMPDIR; begin one in another terminal: {run_command}"
    )


def _pid_of(folder: str) -> int:
    return int(os.path.basename(folder).split(".")[1])


def _command_line(pid: int) -> str:
    """Of a softrdma; empty if the process cannot be seen, or is that of another PID namespace."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            words = file.read().decode(errors="replace").split("\0")[:-1]
    except OSError:
        return ""
    begins = [index for index, word in enumerate(words) if os.path.basename(word) == "softrdma"]
    return progress.escape(" ".join(["softrdma", *words[begins[0] + 1 :]])) if begins else ""


def connect(folder: str, subcommand: str) -> socket.socket:
    """Wait until the run's command begins, and connect to the run."""
    connection = _try_connect(folder, subcommand)
    if connection:
        return connection
    last_seen = time.monotonic()
    with progress.Step(f"waiting for the guest of the run {_pid_of(folder)}") as step:
        while not connection:
            time.sleep(POLL_SECONDS)
            step.update(None)
            now = time.monotonic()
            if os.path.isdir(folder):
                last_seen = now
            elif now - last_seen > REPLACE_SECONDS:
                raise LabError(f"{subcommand}: the run {_pid_of(folder)} has ended")
            connection = _try_connect(folder, subcommand)
    return connection


def _try_connect(folder: str, subcommand: str) -> Optional[socket.socket]:
    """None: the run has no socket, or does not listen."""
    if os.path.exists(os.path.join(folder, run_local.BIN_FOLDER)):
        raise Unavailable(
            f"shell: the run {_pid_of(folder)} is on the running kernel, where all programs see its devices; "
            f"for its hosts type: {folder}/{run_local.BIN_FOLDER}/on HOST COMMAND..."
        )
    connection = socket.socket(socket.AF_UNIX)
    try:
        folder_fd = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            connection.connect(shell_server.path_in(folder_fd))
        finally:
            os.close(folder_fd)
    except OSError as problem:
        connection.close()
        if os.path.isfile(os.path.join(folder, shell_server.SOCKET_NAME)):
            raise Unavailable(
                f"{subcommand}: the run {_pid_of(folder)} has no socket, since its folder {folder} cannot have one; "
                "for the next run, set TMPDIR to a folder of another file system"
            ) from problem
        return None
    return connection


def _on_signal(signum: int) -> None:
    """run_command() gets all signals from a pipe; those that it does not forward end this process."""
    if signum not in SIGNAL_OF:
        raise Interrupted(signum)

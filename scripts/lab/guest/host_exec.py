# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""`on HOST COMMAND...` where each host has its own kernel.

HOST is a number. If it is a host's name, `on` is a remote shell for programs
that have a parameter for one, such as mpirun: the other arguments, joined by
blanks, are a command line of sh, and options of ssh may precede the name.

The command gets the streams, signals, environment and folder of `on`, and the
environment variables of its host. If `on` is killed, so is the command.
"""

import itertools
import os
import signal
import socket
import sys
from typing import List, NoReturn

from ..core import standard_files
from ..core.errors import LabError, UsageError, exec_status
from ..core.run_request import host_name
from ..protocol import remote_command
from ..protocol.stdio_client import make_command_spec
from .agent import SOCKET_PATH

# Without argument: no input, quiet, no terminal, no X11.
SSH_OPTIONS = ("-n", "-q", "-T", "-x")
FORWARDED_SIGNALS = (
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
)


def main(
    local_number: int, numbers: List[int], remote_numbers: List[int], arguments: List[str]
) -> int:
    """numbers: the hosts of this run; remote_numbers: those of other runs, which --peer names."""
    standard_files.open_closed()  # a connection must not get one of their numbers
    for signum in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them; a command must not
        signal.signal(signum, signal.SIG_DFL)
    options, host, argv = parse_arguments(arguments, numbers + remote_numbers)
    if "-n" in options:
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    local_run = [str(number) for number in numbers]
    if host in [str(number) for number in remote_numbers]:
        return _report_usage(f"host {host} is of another softrdma run; start its commands there")
    if host not in local_run:
        last = local_run[-1]
        return _report_usage(
            f"there is no host '{host}' here; try: on 1 COMMAND..., or on {last} COMMAND..."
        )
    if not argv:
        return _report_usage(f"a command is missing; try: on {host} COMMAND...")
    if host == str(local_number):
        _execute(argv)
    return _run_on_other_host(int(host), argv)


def parse_arguments(arguments: List[str], numbers: List[int]) -> "tuple[List[str], str, List[str]]":
    """Returns options, the host, as a number if one of the hosts has that name, and its command."""
    options = list(itertools.takewhile(SSH_OPTIONS.__contains__, arguments))
    words = arguments[len(options) :]
    host, argv = (words[0] if words else ""), words[1:]
    number_of = {host_name(number): str(number) for number in numbers}
    if host not in number_of:
        return options, host, argv
    return options, number_of[host], ["sh", "-c", "--", " ".join(argv)] if argv else []


def _report_usage(text: str) -> int:
    print("on: " + text, file=sys.stderr)
    return UsageError.status


def _execute(argv: List[str]) -> NoReturn:
    try:
        os.execvp(argv[0], argv)
    except OSError as problem:
        print(f"on: cannot run {argv[0]}: {problem.strerror}", file=sys.stderr)
        sys.exit(exec_status(problem))


def _run_on_other_host(number: int, argv: List[str]) -> int:
    """Have the agent start the command on that host. Returns the command's exit status."""
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(SOCKET_PATH)
    for signum in FORWARDED_SIGNALS:
        signal.signal(signum, lambda *_: None)
    signal_of = {signum: signum for signum in FORWARDED_SIGNALS}
    try:
        spec = {**make_command_spec(argv), "host": number}
        status = remote_command.run_command(connection, spec, _may_read_input(), signal_of)
    except LabError as problem:
        print(f"on: {problem}", file=sys.stderr)
        return problem.status
    if status is None:
        print("on: the agent of this host has ended", file=sys.stderr)
        return 1
    return status


def _may_read_input() -> bool:
    """Only the foreground process group may read a terminal."""
    try:
        return not os.isatty(0) or os.tcgetpgrp(0) == os.getpgrp()
    except OSError:
        return False

# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""`on HOST COMMAND...` where each host has its own kernel.

The command gets the streams, signals, environment and folder of `on`, and the
environment variables of its host. If `on` is killed, so is the command.
"""

import contextlib
import json
import os
import select
import signal
import socket
import sys
from typing import List, NoReturn

from ..core.errors import UsageError, exec_status
from ..protocol import frames
from ..protocol.stdio_client import CHUNK_BYTES, StdioClient, make_command_spec
from .agent import SOCKET_PATH

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
    for signum in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them; a command must not
        signal.signal(signum, signal.SIG_DFL)
    host, argv = (arguments[0] if arguments else ""), arguments[1:]
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
    spec = make_command_spec(argv)
    client = StdioClient(
        lambda kind, data: connection.sendall(frames.encode(kind, data=data)),
        spec["terminal"],
        _may_read_input(),
    )
    spec["host"] = number
    connection.sendall(frames.encode(frames.START, data=json.dumps(spec).encode()))
    undo = contextlib.ExitStack()
    client.make_terminal_raw(undo)
    try:
        return _forward(connection, client, _make_signal_pipe())
    finally:
        undo.close()


def _make_signal_pipe() -> int:
    """A file descriptor from which the numbers of received signals can be read."""
    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)
    signal.set_wakeup_fd(write_end)
    for signum in FORWARDED_SIGNALS:
        signal.signal(signum, lambda *_: None)
    return read_end


def _forward(connection: socket.socket, client: StdioClient, signal_pipe: int) -> int:
    """Forward streams and signals until the command ends. Returns its exit status.

    The connection is for this command alone, so each frame names MAIN_COMMAND.
    """
    decoder = frames.Decoder()
    poll = select.poll()
    poll.register(connection, select.POLLIN)
    poll.register(signal_pipe, select.POLLIN)
    while True:
        polls_input = client.can_forward_input()
        if polls_input:
            poll.register(0, select.POLLIN)
        ready = poll.poll()
        if polls_input:
            poll.unregister(0)
        for fd, _ in ready:
            if fd == 0:
                client.forward_input()
                continue
            if fd == signal_pipe:
                for signum in os.read(signal_pipe, 64):
                    if signum in FORWARDED_SIGNALS:
                        connection.sendall(
                            frames.encode_number(frames.SIGNAL, frames.MAIN_COMMAND, signum)
                        )
                client.send_changed_size()
                continue
            data = connection.recv(CHUNK_BYTES)
            if not data:
                print("on: the agent of this host has ended", file=sys.stderr)
                return 1
            for kind, _, body in decoder.feed(data):
                status = client.handle_frame(kind, body)
                if status is not None:
                    return status
                if kind in (frames.OUTPUT, frames.ERRORS):
                    connection.sendall(
                        frames.encode_number(frames.OUTPUT_TAKEN, frames.MAIN_COMMAND, len(body))
                    )


def _may_read_input() -> bool:
    """Only the foreground process group may read a terminal."""
    try:
        return not os.isatty(0) or os.tcgetpgrp(0) == os.getpgrp()
    except OSError:
        return False

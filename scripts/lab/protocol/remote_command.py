# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Runs a command through a connection that is for it alone, with this process's streams and signals.

`on` does so by the agent of its guest (guest/host_exec.py), and `softrdma shell` by the process of
a run (run/shell_client.py). If this process is killed, so is the command.
"""

import contextlib
import json
import os
import select
import signal
import socket
from typing import Any, Mapping, Optional

from ..core.supervisor import Undo
from . import frames
from .stdio_client import CHUNK_BYTES, CommandSpec, StdioClient

MAX_SIGNALS = 64  # read from the pipe at once


def run_command(
    connection: socket.socket,
    spec: CommandSpec,
    may_read_input: bool,
    signal_of: Mapping[Any, int],
) -> Optional[int]:
    """Returns the command's exit status; None if the other end closes the connection before.

    signal_of: for each signal that this process handles, the one that the command gets.
    """

    def send(kind: bytes, data: bytes) -> None:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # recv() tells it, too
            connection.sendall(frames.encode(kind, data=data))

    client = StdioClient(send, spec["terminal"], may_read_input)
    with Undo() as undo:
        send(frames.START, json.dumps(spec).encode())
        client.make_terminal_raw(undo)
        return _forward(connection, client, _make_signal_pipe(undo), signal_of)


def _make_signal_pipe(undo: Undo) -> int:
    """A file descriptor from which the numbers of received signals can be read."""
    ends = os.pipe()
    for end in ends:
        os.set_blocking(end, False)
        undo.callback(os.close, end)
    undo.callback(signal.set_wakeup_fd, signal.set_wakeup_fd(ends[1]))
    return ends[0]


def _forward(
    connection: socket.socket, client: StdioClient, signal_pipe: int, signal_of: Mapping[Any, int]
) -> Optional[int]:
    """Forward streams and signals until the command ends, and write all of its output.

    Returns its exit status; None if the connection ends before.
    """
    decoder = frames.Decoder()
    status: Optional[int] = None
    has_ended = False
    while not has_ended or client.blocked_fds():
        output_fds = client.blocked_fds()
        poll = select.poll()
        poll.register(signal_pipe, select.POLLIN)
        for fd in output_fds:
            poll.register(fd, select.POLLOUT)
        if not has_ended:
            poll.register(connection, select.POLLIN)
            if client.can_forward_input():
                poll.register(0, select.POLLIN)
        for fd, _ in poll.poll():
            if fd in output_fds:
                client.write_output()
            elif fd == 0:
                client.forward_input()
            elif fd == signal_pipe:
                for signum in os.read(signal_pipe, MAX_SIGNALS):
                    if signum in signal_of and has_ended:
                        return 128 + signal_of[signum]
                    if signum in signal_of:
                        client.send(frames.SIGNAL, frames.NUMBER.pack(signal_of[signum]))
                client.send_changed_size()
            else:
                data = _receive(connection)
                has_ended = not data
                for kind, _, body in decoder.feed(data):
                    status = client.handle_frame(kind, body)
                    if status is not None:
                        has_ended = True
                        break
    return status


def _receive(connection: socket.socket) -> bytes:
    """Empty if the other end has closed the connection."""
    try:
        return connection.recv(CHUNK_BYTES)
    except ConnectionResetError:
        return b""

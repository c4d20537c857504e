# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Runs a command through a connection that is for it alone, with this process's streams and signals.

`on` does so by the agent of its guest (guest/host_exec.py), and `softrdma shell` by the process of
a run (run/shell_client.py). If this process is killed, so is the command.
"""

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


class _ConnectionEnded(Exception):
    """The other end has closed the connection; unlike BrokenPipeError, which is of this process's output."""


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
        try:
            connection.sendall(frames.encode(kind, data=data))
        except (BrokenPipeError, ConnectionResetError):
            raise _ConnectionEnded from None

    client = StdioClient(send, spec["terminal"], may_read_input)
    with Undo() as undo:
        try:
            send(frames.START, json.dumps(spec).encode())
            client.make_terminal_raw(undo)
            return _forward(connection, client, _make_signal_pipe(undo), signal_of)
        except _ConnectionEnded:
            return None


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
) -> int:
    """Forward streams and signals until the command ends. Returns its exit status."""
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
                for signum in os.read(signal_pipe, MAX_SIGNALS):
                    if signum in signal_of:
                        client.send(frames.SIGNAL, frames.NUMBER.pack(signal_of[signum]))
                client.send_changed_size()
                continue
            try:
                data = connection.recv(CHUNK_BYTES)
            except ConnectionResetError:
                data = b""
            if not data:
                raise _ConnectionEnded
            for kind, _, body in decoder.feed(data):
                status = client.handle_frame(kind, body)
                if status is not None:
                    return status
                if kind in (frames.OUTPUT, frames.ERRORS):
                    client.send(frames.OUTPUT_TAKEN, frames.NUMBER.pack(len(body)))

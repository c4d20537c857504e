# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""The agent runs commands in a guest for softrdma (run/relay.py) on the host.

Only the agent has the connection to softrdma (file descriptor 3), so output of
a command cannot be taken for its exit status. Programs that start a command on
another host (host_exec.py) connect to the agent's socket.
"""

import contextlib
import json
import os
import select
import socket
import time
import tty
from typing import Callable, Dict

from ..core.errors import LabError
from ..protocol import frames
from ..protocol.stdio_client import CHUNK_BYTES
from .command import Command, ExecFunction

CONNECTION_FD = 3
SPOOL_FOLDER = "/run/softrdma.spool"  # of user mode: where the host's spool folder is mounted
SOCKET_PATH = "/run/softrdma.on"
ALIVE_SECONDS = 2.0


def make_connection_raw() -> None:
    """In user mode the connection is a terminal; let it pass all bytes unchanged."""
    if os.isatty(CONNECTION_FD):
        tty.setraw(CONNECTION_FD)


def send_line(text: str) -> None:
    """Send a line of text; before the first frame only."""
    with contextlib.suppress(OSError):
        os.write(CONNECTION_FD, text.encode() + b"\n")


def run(set_up: Callable[[], ExecFunction]) -> int:
    """Make the devices by set_up(), then serve softrdma. Returns an exit status."""
    try:
        execute = set_up()
    except LabError as problem:
        send_line(f"refuse {problem.status} {problem}".replace("\n", " "))
        return problem.status
    try:
        send_line("agent")
        Agent(execute).serve()
    except Exception:  # noqa: BLE001  (softrdma reports it)
        import traceback

        os.write(
            CONNECTION_FD, frames.encode(frames.AGENT_FAILED, data=traceback.format_exc().encode())
        )
        return 1
    return 0


class Agent:
    """Runs the commands that softrdma starts, and serves the `on` programs of this guest."""

    def __init__(self, execute: ExecFunction):
        self.execute = execute
        self.poll = select.poll()
        self.handlers: Dict[int, Callable[[int], object]] = {}  # by file descriptor
        self.commands: Dict[int, Command] = {}  # by the number that softrdma gave
        self.calls: Dict[int, _Call] = {}  # those of `on`, by the number that this agent gave
        self.num_calls = 0
        self.bytes_taken = 0  # read from the connection
        self.decoder = frames.Decoder()
        self.done = False
        self.is_ending = False  # the main command has ended, and its report waits for its output
        self.watch(CONNECTION_FD, select.POLLIN, self._read_connection)
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(SOCKET_PATH)
        os.chmod(SOCKET_PATH, 0o600)
        self.listener.listen(16)
        self.watch(self.listener.fileno(), select.POLLIN, self._accept)

    def serve(self) -> None:
        """Returns when the main command ends. In a guest without one, softrdma ends the guest."""
        last_alive = 0.0
        while not self.done:
            for fd, events in self.poll.poll(int(ALIVE_SECONDS * 1000)):
                if fd in self.handlers:  # an earlier handler may have removed it
                    self.handlers[fd](events)
            if frames.MAIN_COMMAND in self.commands:  # the timeout of its output may have passed
                self.commands[frames.MAIN_COMMAND].report_if_ended()
            if time.monotonic() - last_alive >= ALIVE_SECONDS:
                last_alive = time.monotonic()
                self.send(frames.encode(frames.ALIVE))

    def watch(self, fd: int, events: int, handler: Callable[[int], object]) -> None:
        """Have serve() call handler(events) when the file descriptor is ready."""
        self.poll.register(fd, events)
        self.handlers[fd] = handler

    def unwatch(self, fd: int) -> None:
        if self.handlers.pop(fd, None):
            self.poll.unregister(fd)

    def send(self, data: bytes) -> None:
        while data:
            data = data[os.write(CONNECTION_FD, data) :]

    def remove_command(self, number: int) -> None:
        """Called by a command that has reported its exit status."""
        del self.commands[number]
        self.done = number == frames.MAIN_COMMAND

    def _read_connection(self, _events: int) -> None:
        """Report how much was read: softrdma sends no more than the connection can hold."""
        data = os.read(CONNECTION_FD, 65536)
        self.bytes_taken += len(data)
        self.send(frames.encode_number(frames.BYTES_TAKEN, 0, self.bytes_taken & 0xFFFFFFFF))
        for kind, number, body in self.decoder.feed(data):
            if kind == frames.SPOOLED:  # the frame itself is in a file
                kind, file_number = frames.SPOOLED_FRAME.unpack(body)
                path = os.path.join(SPOOL_FOLDER, str(file_number))
                with open(path, "rb") as file:
                    body = file.read()
                os.unlink(path)
            self._handle_frame(kind, number, body)

    def _handle_frame(self, kind: bytes, number: int, body: bytes) -> None:
        """A frame from a command to its `on` in this guest, or for a command of this guest."""
        if kind in frames.FROM_COMMAND:
            if number in self.calls:
                self.calls[number].forward(kind, body)
        elif kind == frames.START:
            self.commands[number] = Command(self, number, json.loads(body))
        elif number in self.commands:
            self.commands[number].handle_frame(kind, body)

    def _accept(self, _events: int) -> None:
        connection, _ = self.listener.accept()
        self.num_calls += 1
        self.calls[self.num_calls] = _Call(self, self.num_calls, connection)


class _Call:
    """Forwards frames between an `on` in this guest and its command on another host."""

    def __init__(self, agent: Agent, number: int, on_socket: socket.socket):
        self.agent, self.number, self.on_socket = agent, number, on_socket
        self.decoder = frames.Decoder()
        self.outgoing = b""  # to `on`
        self.command_ended = False
        on_socket.setblocking(False)
        self._watch()

    def forward(self, kind: bytes, body: bytes) -> None:
        """A frame from the command to `on`."""
        self.command_ended = self.command_ended or kind == frames.EXIT_STATUS
        self.outgoing += frames.encode(kind, 0, body)
        self._watch()

    def _watch(self) -> None:
        """Wait for frames of `on`, and for space in its socket if frames wait for it."""
        events = select.POLLIN | (select.POLLOUT if self.outgoing else 0)
        self.agent.watch(self.on_socket.fileno(), events, self._on_ready)

    def _on_ready(self, events: int) -> None:
        """poll() reports events of the socket of `on`: send to it, or forward what it sent."""
        try:
            if events & select.POLLOUT:
                self.outgoing = self.outgoing[self.on_socket.send(self.outgoing) :]
                self._watch()
            if events & ~select.POLLOUT:
                data = self.on_socket.recv(CHUNK_BYTES)
                for kind, _, body in self.decoder.feed(data):
                    if kind in frames.TO_COMMAND:
                        self.agent.send(frames.encode(kind, self.number, body))
                if not data:
                    self._close()
        except BlockingIOError:
            pass
        except OSError:
            self._close()

    def _close(self) -> None:
        """`on` has ended: if its command has not, kill it."""
        self.agent.unwatch(self.on_socket.fileno())
        self.on_socket.close()
        del self.agent.calls[self.number]
        if not self.command_ended:
            self.agent.send(frames.encode(frames.KILL, self.number))

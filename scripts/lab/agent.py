# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""The other side of relay.py: runs commands in the guest, on the host's behalf.

It holds the only line to the host (file descriptor 3), which no command gets:
nothing that a command prints can be taken for its status. Programs that want a
command run on another host (on.py) come to it by a socket.
"""

import contextlib
import json
import os
import select
import socket
import time
import tty
from typing import Callable, Dict

from . import caller, frames
from .commands import Become, Command
from .errors import LabError

LINE = 3
SPOOL = "/run/softrdma.spool"  # what the host calls so (relay.py), in user mode
DOOR = "/run/softrdma.on"
BEAT_SECONDS = 2.0


def make_raw() -> None:
    """The line may be a terminal to this kernel; it must pass bytes as they are."""
    if os.isatty(LINE):
        tty.setraw(LINE)


def say(text: str) -> None:
    """A line of text, before frames begin."""
    with contextlib.suppress(OSError):
        os.write(LINE, text.encode() + b"\n")


def serve(settle: Callable[[], Become]) -> int:
    """Serve the host. settle() makes what commands need; what turns a process into one."""
    try:
        become = settle()
    except LabError as problem:
        say(f"refuse {problem.status} {problem}".replace("\n", " "))
        return problem.status
    try:
        say("agent")
        Agent(become).serve()
    except Exception:  # noqa: BLE001  (whatever it is, the host has to hear of it)
        import traceback

        os.write(LINE, frames.frame(b"f", 0, traceback.format_exc().encode()))
        return 1
    return 0


class Agent:
    def __init__(self, become: Become):
        self.become = become
        self.poll = select.poll()
        self.watched: Dict[int, Callable[[int], object]] = {}
        self.commands: Dict[int, Command] = {}
        self.calls: Dict[int, _Call] = {}
        self.called = 0
        self.taken = 0
        self.decoder = frames.Decoder()
        self.over = False
        self.watch(LINE, select.POLLIN, self._listen)
        self.door = socket.socket(socket.AF_UNIX)
        self.door.bind(DOOR)
        os.chmod(DOOR, 0o600)
        self.door.listen(16)
        self.watch(self.door.fileno(), select.POLLIN, self._open)

    def serve(self) -> None:
        """Until the main command is over; where there is none, until the host ends the guest."""
        beaten = 0.0
        while not self.over:
            for ready, events in self.poll.poll(int(BEAT_SECONDS * 1000)):
                if ready in self.watched:  # one before it may have ended it
                    self.watched[ready](events)
            if 0 in self.commands:
                self.commands[0].look()
            if time.monotonic() - beaten >= BEAT_SECONDS:
                beaten = time.monotonic()
                self.send(frames.frame(b"b"))

    def watch(self, source: int, events: int, handler: Callable[[int], object]) -> None:
        self.poll.register(source, events)
        self.watched[source] = handler

    def unwatch(self, source: int) -> None:
        if self.watched.pop(source, None):
            self.poll.unregister(source)

    def send(self, data: bytes) -> None:
        while data:
            data = data[os.write(LINE, data) :]

    def ended(self, number: int) -> None:
        """A command has reported its status."""
        del self.commands[number]
        self.over = number == 0

    def _listen(self, _events: int) -> None:
        data = os.read(LINE, 65536)
        self.taken += len(data)
        self.send(frames.number(b"l", 0, self.taken & 0xFFFFFFFF))
        for kind, number, body in self.decoder.feed(data):
            if kind == b"n":
                kind, place = frames.SPOOLED.unpack(body)
                path = os.path.join(SPOOL, str(place))
                with open(path, "rb") as file:
                    body = file.read()
                os.unlink(path)
            self._take(kind, number, body)

    def _take(self, kind: bytes, number: int, body: bytes) -> None:
        if kind in frames.FROM_COMMAND:
            if number in self.calls:
                self.calls[number].hear(kind, body)
        elif kind == b"c":
            self.commands[number] = Command(self, number, json.loads(body))
        elif number in self.commands:
            self.commands[number].take(kind, body)

    def _open(self, _events: int) -> None:
        connection, _ = self.door.accept()
        self.called += 1
        self.calls[self.called] = _Call(self, self.called, connection)


class _Call:
    """A program here, by its socket, and its command on another host, by our line."""

    def __init__(self, agent: Agent, number: int, connection: socket.socket):
        self.agent, self.number, self.connection = agent, number, connection
        self.decoder = frames.Decoder()
        self.outgoing = b""
        self.over = False
        connection.setblocking(False)
        self._watch()

    def hear(self, kind: bytes, body: bytes) -> None:
        self.over = self.over or kind == b"x"
        self.outgoing += frames.frame(kind, 0, body)
        self._watch()

    def _watch(self) -> None:
        wanted = select.POLLIN | (select.POLLOUT if self.outgoing else 0)
        self.agent.watch(self.connection.fileno(), wanted, self._ready)

    def _ready(self, events: int) -> None:
        try:
            if events & select.POLLOUT:
                self.outgoing = self.outgoing[self.connection.send(self.outgoing) :]
                self._watch()
            if events & ~select.POLLOUT:
                data = self.connection.recv(caller.PIECE)
                for kind, _, body in self.decoder.feed(data):
                    if kind in frames.TOWARD_COMMAND:
                        self.agent.send(frames.frame(kind, self.number, body))
                if not data:
                    self._close()
        except BlockingIOError:
            pass
        except OSError:
            self._close()

    def _close(self) -> None:
        self.agent.unwatch(self.connection.fileno())
        self.connection.close()
        del self.agent.calls[self.number]
        if not self.over:
            self.agent.send(frames.frame(b"k", self.number))

# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""A command that the agent in a guest runs, and its streams."""

import contextlib
import fcntl
import functools
import os
import select
import signal
import struct
import termios
import time
from typing import Any, Callable, Dict, Optional, Protocol, Tuple

from . import frames
from .caller import PIECE, WINDOW

Become = Callable[[Dict[str, Any]], int]
MAIN = 0
# A process that the kernel holds for ever may keep a stream open.
STREAMS_SECONDS = 20.0


class Owner(Protocol):
    """What a command asks of who looks after it: the agent."""

    @property
    def become(self) -> Become:
        ...

    def watch(self, source: int, events: int, handler: Callable[[int], object]) -> None:
        ...

    def unwatch(self, source: int) -> None:
        ...

    def send(self, data: bytes) -> None:
        ...

    def ended(self, number: int) -> None:
        ...


class Command:
    """Number 0 is the main command: when it ends, whatever is left here is killed.

    The others, which programs on other hosts asked for, end alone. What these
    print waits while the program there does not take it.
    """

    def __init__(self, owner: Owner, number: int, order: Dict[str, Any]):
        self.owner = owner
        self.number = number
        self.terminal = bool(order["terminal"])
        self.input = b""
        self.input_ended = False
        self.room: Optional[int] = None if number == MAIN else WINDOW
        self.status: Optional[int] = None
        self.until = 0.0
        self.sources: Dict[int, bytes]
        if self.terminal:
            master, slave = os.openpty()
            _resize(master, *order["size"])
            theirs, self.sink, self.sources = (slave, slave, slave), os.dup(master), {master: b"o"}
        else:
            (read, self.sink), (out, write_out), (err, write_err) = os.pipe(), os.pipe(), os.pipe()
            theirs, self.sources = (read, write_out, write_err), {out: b"o", err: b"e"}
        self.child = os.fork()
        if self.child == 0:
            os._exit(self._become(theirs, order))
        for end in set(theirs):
            os.close(end)
        os.set_blocking(self.sink, False)
        for source in self.sources:
            os.set_blocking(source, False)
        self.pidfd = os.pidfd_open(self.child)
        owner.watch(self.pidfd, select.POLLIN, self._ended)
        self._open_sources()

    def _become(self, streams: Tuple[int, int, int], order: Dict[str, Any]) -> int:
        try:
            os.setsid()
            for number, stream in enumerate(streams):
                os.dup2(stream, number)
            os.closerange(3, 1024)  # the line to the host among them
            if self.terminal:
                fcntl.ioctl(0, termios.TIOCSCTTY, 0)
            return self.owner.become(order)
        except BaseException:  # noqa: BLE001  (never return into the agent's own stack)
            import traceback

            traceback.print_exc()
            return 1

    def take(self, kind: bytes, data: bytes) -> None:
        """What the caller says."""
        if kind == b"i":
            self.input += data
            self._feed()
        elif kind == b"z":
            self.input_ended = True
            self._feed()
        elif kind == b"s":
            self._signal(frames.NUMBER.unpack(data)[0])
        elif kind == b"w" and self.terminal:
            _resize(self.sink, *frames.SIZE.unpack(data))
        elif kind == b"t" and self.room is not None:
            self.room += frames.NUMBER.unpack(data)[0]
            self._open_sources()
            self.look()
        elif kind == b"k":
            self._signal(signal.SIGKILL)
            self.room = None
            self.look()

    def look(self) -> None:
        """Report the status, if the command has ended and all that it printed is sent."""
        if self.status is None:
            return
        if self.number == MAIN:
            if self.sources and time.monotonic() < self.until:
                return
            os.sync()
        else:
            for source in list(self.sources):
                self._carry(source)
            if self.room is not None and self.room <= 0:
                return
        self.owner.send(frames.number(b"x", self.number, self.status))
        self.owner.ended(self.number)
        for source in list(
            self.sources
        ):  # what it left behind must not be killed by what it prints
            self.owner.watch(source, select.POLLIN, functools.partial(self._read, source, PIECE))
        self._close_sink()

    def _open_sources(self) -> None:
        for source in self.sources:
            self.owner.watch(source, select.POLLIN, functools.partial(self._carry, source))

    def _carry(self, source: int, _events: int = 0) -> None:
        """Send what is there to read, as far as there is room."""
        while self.room is None or self.room > 0:
            data = self._read(source, PIECE if self.room is None else min(self.room, PIECE))
            if not data:
                return
            self.owner.send(frames.frame(self.sources[source], self.number, data))
            if self.room is None:
                return  # others have their turn
            self.room -= len(data)
        for each in self.sources:  # until the caller has taken some
            self.owner.unwatch(each)

    def _read(self, source: int, most: int, _events: int = 0) -> bytes:
        """Nothing, if nothing is there now; or never will be, then it is closed."""
        try:
            data = os.read(source, most)
        except BlockingIOError:
            return b""
        except OSError:  # a terminal that nobody has open any more
            data = b""
        if not data:
            self.owner.unwatch(source)
            del self.sources[source]
            os.close(source)
        return data

    def _ended(self, _events: int) -> None:
        self.owner.unwatch(self.pidfd)
        os.close(self.pidfd)
        if self.number == MAIN:
            self.until = time.monotonic() + STREAMS_SECONDS
            with contextlib.suppress(ProcessLookupError):
                os.kill(-1, signal.SIGKILL)  # whatever it left behind; not 1, nor us
        _, status = os.waitpid(self.child, 0)
        code = os.waitstatus_to_exitcode(status)
        self.status = code if code >= 0 else 128 - code
        self.look()

    def _signal(self, number: int) -> None:
        """To the main command; of the others, to all that they have in the foreground."""
        if self.status is not None:
            return
        if self.number != MAIN:
            with contextlib.suppress(ProcessLookupError):  # as long as it has none of its own
                os.killpg(self.child, number)
                return
        os.kill(self.child, number)

    def _feed(self, _events: int = 0) -> None:
        """Give the command what it takes; say how much that was."""
        if self.sink < 0:
            self.input = b""
        while self.input:
            try:
                taken = os.write(self.sink, self.input)
            except BlockingIOError:
                self.owner.watch(self.sink, select.POLLOUT, self._feed)
                return
            except OSError:  # nobody reads: as good as taken
                taken = len(self.input)
            self.input = self.input[taken:]
            self.owner.send(frames.number(b"a", self.number, taken))
        if self.sink >= 0:
            self.owner.unwatch(self.sink)
        if self.input_ended and not self.terminal:
            self._close_sink()

    def _close_sink(self) -> None:
        if self.sink >= 0:
            self.owner.unwatch(self.sink)
            os.close(self.sink)
            self.sink = -1


def _resize(terminal: int, columns: int, rows: int) -> None:
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""The other side of relay.py: runs the command in the guest, on the host's behalf.

It holds the only line to the host (file descriptor 3), which the command does
not get: nothing that the command prints can be taken for its status.
"""

import contextlib
import fcntl
import os
import select
import signal
import struct
import termios
import time
import tty
from typing import Any, Callable, Dict

from . import frames

LINE = 3
SPOOL = "/run/softrdma.spool"  # what the host calls so (relay.py), in user mode
BEAT_SECONDS = 2.0
# A process that the kernel holds for ever may keep a stream open.
STREAMS_SECONDS = 20.0


def make_raw() -> None:
    """The line may be a terminal to this kernel; it must pass bytes as they are."""
    if os.isatty(LINE):
        tty.setraw(LINE)


def say(text: str) -> None:
    """A line of text, before frames begin."""
    with contextlib.suppress(OSError):
        os.write(LINE, text.encode() + b"\n")


def serve(job: Dict[str, Any], become: Callable[[Dict[str, Any]], int]) -> int:
    """Have a child become the job's command, with the host's streams, and report its status."""
    try:
        _Agent(job, become).relay()
    except Exception:  # noqa: BLE001  (whatever it is, the host has to hear of it)
        import traceback

        os.write(LINE, frames.frame(b"f", traceback.format_exc().encode()))
        return 1
    return 0


class _Agent:
    def __init__(self, job: Dict[str, Any], become: Callable[[Dict[str, Any]], int]):
        self.terminal = bool(job["terminal"])
        self.input = b""
        self.input_ended = False
        self.decoder = frames.Decoder()
        if self.terminal:
            master, slave = os.openpty()
            _resize(master, *job["size"])
            theirs, self.sink, self.sources = (slave, slave, slave), os.dup(master), {master: b"o"}
        else:
            (read, self.sink), (out, write_out), (err, write_err) = os.pipe(), os.pipe(), os.pipe()
            theirs, self.sources = (read, write_out, write_err), {out: b"o", err: b"e"}
        say("agent")
        self.child = os.fork()
        if self.child == 0:
            os._exit(self._become(theirs, job, become))
        for end in set(theirs):
            os.close(end)
        os.set_blocking(self.sink, False)
        self.pidfd = os.pidfd_open(self.child)

    def _become(
        self,
        streams: "tuple[int, int, int]",
        job: Dict[str, Any],
        become: Callable[[Dict[str, Any]], int],
    ) -> int:
        try:
            os.close(LINE)
            os.setsid()
            for number, stream in enumerate(streams):
                os.dup2(stream, number)
            if self.terminal:
                fcntl.ioctl(0, termios.TIOCSCTTY, 0)
            return become(job)
        except BaseException:  # noqa: BLE001  (never return into the agent's own stack)
            import traceback

            traceback.print_exc()
            return 1

    def relay(self) -> None:
        poll = select.poll()
        poll.register(LINE, select.POLLIN)
        poll.register(self.pidfd, select.POLLIN)
        for source in self.sources:
            poll.register(source, select.POLLIN)
        beaten, over = 0.0, None
        while over is None or (self.sources and time.monotonic() < over):
            if self.input:
                poll.register(self.sink, select.POLLOUT)
            for ready, _ in poll.poll(int(BEAT_SECONDS * 1000)):
                if ready == LINE:
                    self._listen()
                elif ready == self.sink:
                    poll.unregister(ready)  # before it may be closed
                    self._feed()
                elif ready == self.pidfd:
                    over = time.monotonic() + STREAMS_SECONDS
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(-1, signal.SIGKILL)  # whatever it left behind; not 1, nor us
                    poll.unregister(self.pidfd)
                elif not self._carry(ready):
                    poll.unregister(ready)
                    del self.sources[ready]
            if time.monotonic() - beaten >= BEAT_SECONDS:
                beaten = time.monotonic()
                self._send(frames.frame(b"b"))
        _, status = os.waitpid(self.child, 0)
        os.sync()
        code = os.waitstatus_to_exitcode(status)
        self._send(frames.number(b"x", code if code >= 0 else 128 - code))

    def _send(self, data: bytes) -> None:
        while data:
            data = data[os.write(LINE, data) :]

    def _carry(self, source: int) -> bool:
        try:
            data = os.read(source, 65536)
        except OSError:  # a terminal that nobody has open any more
            data = b""
        if data:
            self._send(frames.frame(self.sources[source], data))
        return bool(data)

    def _listen(self) -> None:
        for kind, data in self.decoder.feed(os.read(LINE, 65536)):
            if kind == b"i":
                self.input += data
            elif kind == b"n":
                path = os.path.join(SPOOL, str(frames.NUMBER.unpack(data)[0]))
                with open(path, "rb") as file:
                    self.input += file.read()
                os.unlink(path)
            elif kind == b"z":
                self.input_ended = True
            elif kind == b"s":
                os.kill(self.child, frames.NUMBER.unpack(data)[0])
            elif kind == b"w" and self.terminal:
                _resize(self.sink, *frames.SIZE.unpack(data))
        if not self.input:
            self._feed()

    def _feed(self) -> None:
        """Give the command what it takes; say how much that was."""
        if self.sink < 0:
            self.input = b""
        while self.input:
            try:
                taken = os.write(self.sink, self.input)
            except BlockingIOError:
                break
            except OSError:  # nobody reads: as good as taken
                taken = len(self.input)
            self.input = self.input[taken:]
            self._send(frames.number(b"a", taken))
        if self.input_ended and not self.input and self.sink >= 0 and not self.terminal:
            os.close(self.sink)
            self.sink = -1


def _resize(terminal: int, columns: int, rows: int) -> None:
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

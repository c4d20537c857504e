# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Between a guest and the caller: streams, signals, and how the guest ended.

The status is the number that the agent in the guest reports on the line that
only it has. A guest that ends without, or falls silent, has failed, whatever
was printed.
"""

import contextlib
import os
import re
import select
import signal
import socket
import subprocess
import termios
import time
import tty
from typing import List, NoReturn, Optional

from . import frames, keeper, say
from .errors import Interrupted, LabError, Misuse

# A live guest says "beat" every two seconds.
SILENCE_SECONDS = 90.0
STOP_SECONDS = 10.0
WINDOW = 1 << 18
IN_LINE = 512  # input of this size need not go through the spool folder
TROUBLE = re.compile(r"Kernel panic|BUG:|Oops|Unable to handle")


class NeverStarted(LabError):
    """The guest gave no sign of life at all."""


class Relay:
    """A running guest, our end of its line, and the caller's streams."""

    def __init__(
        self,
        process: "subprocess.Popen[bytes]",
        line: socket.socket,
        boot_seconds: float,
        terminal: bool,
        logs: List[str],
        undo: keeper.Undo,
        spool: Optional[str] = None,
    ):
        """spool: a folder that the guest sees, for input; where its line is good for little."""
        self.process = process
        self.line = line
        self.line.setblocking(False)
        self.outgoing = b""
        self.boot_seconds = boot_seconds
        self.terminal = terminal
        self.logs = logs
        self.silence = _silence()
        self.said_hello = self.started = False
        self.text = b""
        self.decoder = frames.Decoder()
        self.credit = WINDOW  # of input on its way that the command has not taken yet
        self.spool = spool
        self.spooled = 0
        self.input_open = _may_read_input(undo)
        self.stopping: Optional[float] = None
        self.stop_signal = 0
        if terminal and self.input_open:
            undo.callback(termios.tcsetattr, 0, termios.TCSADRAIN, termios.tcgetattr(0))
            tty.setraw(0)
            signal.signal(signal.SIGWINCH, self._resized)

    def run(self) -> int:
        """Carry bytes both ways until the guest reports the command's status."""
        began = heard = time.monotonic()
        step: Optional[say.Step] = say.Step("starting a guest")
        poll = select.poll()
        with keeper.listening(self._on_signal):
            while True:
                # By way of the spool, one piece at a time, so that its line never holds many.
                wanted = WINDOW if self.spool else 1
                listening = self.input_open and self.started and self.credit >= wanted
                if listening:
                    poll.register(0, select.POLLIN)
                poll.register(self.line, select.POLLIN | (select.POLLOUT if self.outgoing else 0))
                for source, events in poll.poll(100):
                    if source == 0:
                        self._read_input()
                        continue
                    if events & select.POLLOUT:
                        self._send(b"")
                    if events & ~select.POLLOUT:
                        heard = time.monotonic()
                        status = self._hear()
                        if status is not None:
                            return status
                if listening:
                    poll.unregister(0)
                if step and self.started:
                    step.clear()
                    step = None
                elif step:
                    step.at(None)
                self._check(time.monotonic(), began, heard)

    def _check(self, now: float, began: float, heard: float) -> None:
        if self.process.poll() is not None:
            self._fail(
                "the guest ended before the command did (its kernel panicked, or it was shut down)"
            )
        if not self.said_hello and now - began > self.boot_seconds:
            self._fail(f"the guest did not start within {self.boot_seconds:.0f} s")
        silence = self.silence if self.started else SILENCE_SECONDS
        if self.said_hello and now - heard > silence:
            self._fail(f"the guest hangs: nothing was heard from it for {silence:.0f} s")
        if self.stopping and now - self.stopping > STOP_SECONDS:
            raise Interrupted(self.stop_signal)

    def _fail(self, why: str) -> NoReturn:
        raise (LabError if self.said_hello else NeverStarted)(why + self._last_words())

    def _last_words(self) -> str:
        """What the kernel or the emulator said last, for the error."""
        lines = []
        for path in self.logs:
            with contextlib.suppress(OSError), open(
                path, encoding="utf-8", errors="replace"
            ) as file:
                lines += [line.rstrip() for line in file if line.strip()]
        trouble = [place for place, line in enumerate(lines) if TROUBLE.search(line)]
        first = min(trouble[0] - 5 if trouble else len(lines), len(lines) - 20)
        shown = ["    " + line[:160] for line in lines[max(0, first) :][:20]]
        return "; the last it said:\n" + "\n".join(shown) if shown else ""

    def _hear(self) -> Optional[int]:
        """Take what the guest says; the command's status, once it says that."""
        try:
            data = self.line.recv(1 << 16)
        except OSError:
            data = b""
        if not data:  # its end is closed: it is ending, or has ended
            time.sleep(0.01)
        if not self.started:
            data = self._hear_text(data)
        for kind, body in self.decoder.feed(data):
            if kind in b"oe":
                _write(1 if kind == b"o" else 2, body)
            elif kind == b"a":
                self.credit += frames.NUMBER.unpack(body)[0]
            elif kind == b"f":
                raise LabError(
                    f"the agent in the guest failed; please report:\n{body.decode(errors='replace')}"
                )
            elif kind == b"x":
                return int(frames.NUMBER.unpack(body)[0])
        return None

    def _hear_text(self, data: bytes) -> bytes:
        """The lines that come before frames do; what is left over are frames."""
        self.text += data
        while not self.started and b"\n" in self.text:
            line, _, self.text = self.text.partition(b"\n")
            word, _, rest = line.decode(errors="replace").strip().partition(" ")
            if word == "hello":
                self.said_hello = True
            elif word == "fail":
                raise LabError(f"the guest could not start: {rest}{self._last_words()}")
            elif word == "agent":
                self.started = True
        if not self.started:
            return b""
        left, self.text = self.text, b""
        return left

    def _read_input(self) -> None:
        try:
            data = os.read(0, min(self.credit, 1 << 16))
        except OSError:
            data = b""
        if data:
            self.credit -= len(data)
            if self.spool is None or len(data) <= IN_LINE:
                self._send(frames.frame(b"i", data))
                return
            # A new file each time: what is in a guest's cache is never a file's former contents.
            self.spooled += 1
            with open(os.path.join(self.spool, str(self.spooled)), "wb") as file:
                file.write(data)
            self._send(frames.number(b"n", self.spooled))
        else:
            self.input_open = False
            self._send(frames.frame(b"z"))

    def _send(self, data: bytes) -> None:
        """Never waits: were both sides to wait for the other to read, none would."""
        self.outgoing += data
        try:
            self.outgoing = self.outgoing[self.line.send(self.outgoing) :] if self.outgoing else b""
        except BlockingIOError:
            pass
        except OSError:  # a guest that is gone is noticed elsewhere
            self.outgoing = b""

    def _on_signal(self, signum: int) -> None:
        """Once: hand it to the command. Twice, or without an answer: end the guest."""
        signum = signal.SIGINT if signum == keeper.TERMINAL_STOP else signum
        if self.stopping or not self.started:
            raise Interrupted(signum)
        self.stopping, self.stop_signal = time.monotonic(), signum
        self._send(frames.number(b"s", signum))

    def _resized(self, *_: object) -> None:
        if self.started:
            self._send(frames.frame(b"w", frames.SIZE.pack(*os.get_terminal_size(0))))


def _write(stream: int, data: bytes) -> None:
    while data:
        data = data[os.write(stream, data) :]


def _silence() -> float:
    text = os.environ.get("SOFTRDMA_SILENCE_SECONDS")
    try:
        return float(text) if text else SILENCE_SECONDS
    except ValueError:
        raise Misuse(f"SOFTRDMA_SILENCE_SECONDS={text}: give a number of seconds") from None


def _may_read_input(undo: keeper.Undo) -> bool:
    """Whether stdin is ours to read. On a terminal only its foreground may, so be that."""
    if not os.isatty(0):
        return True
    try:
        front = os.getpgid(keeper.front_pid())
        if os.tcgetpgrp(0) != front:
            return False  # softrdma itself was put in the background
        undo.callback(os.tcsetpgrp, 0, front)
        signal.signal(signal.SIGTSTP, signal.SIG_IGN)  # nobody would wake us again
        os.tcsetpgrp(0, os.getpgrp())
    except OSError:
        return False
    return True

# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""A running guest, and our end of its line."""

import contextlib
import os
import re
import socket
import subprocess
import time
from typing import Iterator, List, NoReturn, Optional, Tuple

from . import frames
from .errors import LabError, Misuse, of_status

# A live guest says "beat" every two seconds.
SILENCE_SECONDS = 90.0
IN_LINE = 512  # frames of this size need not go through the spool folder
# Bytes on their way to a guest whose line is a terminal, which loses what goes beyond 4096.
PACE = 2048
TROUBLE = re.compile(r"Kernel panic|BUG:|Oops|Unable to handle")


class NeverStarted(LabError):
    """The guest gave no sign of life at all."""


class Guest:
    def __init__(
        self,
        process: "subprocess.Popen[bytes]",
        line: socket.socket,
        boot_seconds: float,
        logs: List[str],
        spool: Optional[str] = None,
        number: Optional[int] = None,
    ):
        """spool: a folder that the guest sees, where its line is good for little; number: of the
        host that it is, if it is one of several."""
        self.process = process
        self.line = line
        self.line.setblocking(False)
        self.name = f"host {number}'s guest" if number else "the guest"
        self.number = number
        self.boot_seconds = boot_seconds
        self.logs = logs
        self.silence = _silence()
        self.began = self.heard = time.monotonic()
        self.said_hello = self.started = False
        self.text = b""
        self.decoder = frames.Decoder()
        self.spool = spool
        self.spooled = 0
        self.outgoing = b""
        self.sent = self.taken = 0

    def send(self, kind: bytes, command: int, data: bytes) -> None:
        """Never waits: were both sides to wait for the other to read, none would."""
        if self.spool and len(data) > IN_LINE:
            # A new file each time: what is in a guest's cache is never a file's former contents.
            self.spooled += 1
            with open(os.path.join(self.spool, str(self.spooled)), "wb") as file:
                file.write(data)
            kind, data = b"n", frames.SPOOLED.pack(kind, self.spooled)
        self.outgoing += frames.frame(kind, command, data)
        self.say_more()

    def has_to_say(self) -> bool:
        return bool(self._sendable())

    def say_more(self) -> None:
        try:
            count = self.line.send(self._sendable()) if self.has_to_say() else 0
            self.outgoing = self.outgoing[count:]
            self.sent += count
        except BlockingIOError:
            pass
        except OSError:  # a guest that is gone is noticed elsewhere
            self.outgoing = b""

    def _sendable(self) -> bytes:
        if not self.spool:
            return self.outgoing
        return self.outgoing[: max(0, PACE - (self.sent - self.taken))]

    def hear(self) -> Iterator[Tuple[bytes, int, bytes]]:
        """Take what the guest says: the frames of its commands."""
        self.heard = time.monotonic()
        try:
            data = self.line.recv(1 << 16)
        except OSError:
            data = b""
        if not data:  # its end is closed: it is ending, or has ended
            time.sleep(0.01)
        if not self.started:
            data = self._hear_text(data)
        for kind, number, body in self.decoder.feed(data):
            if kind == b"f":
                raise LabError(
                    f"the agent in {self.name} failed; please report:\n{body.decode(errors='replace')}"
                )
            if kind == b"l":
                self.taken += (frames.NUMBER.unpack(body)[0] - self.taken) & 0xFFFFFFFF
                self.say_more()
            elif kind != b"b":
                yield kind, number, body

    def _hear_text(self, data: bytes) -> bytes:
        """The lines that come before frames do; what is left over are frames."""
        self.text += data
        while not self.started and b"\n" in self.text:
            line, _, self.text = self.text.partition(b"\n")
            word, _, rest = line.decode(errors="replace").strip().partition(" ")
            if word == "hello":
                self.said_hello = True
            elif word == "fail":
                raise LabError(f"{self.name} could not start: {rest}{self._last_words()}")
            elif word == "refuse":
                status, _, why = rest.partition(" ")
                raise of_status(int(status), why)
            elif word == "agent":
                self.started = True
        if not self.started:
            return b""
        left, self.text = self.text, b""
        return left

    def check(self, now: float) -> None:
        """Raise, if the guest has failed."""
        if self.process.poll() is not None:
            self._fail(
                f"{self.name} ended before the command did (its kernel panicked, or it was shut down)"
            )
        if not self.said_hello and now - self.began > self.boot_seconds:
            self._fail(f"{self.name} did not start within {self.boot_seconds:.0f} s")
        silence = self.silence if self.started else SILENCE_SECONDS
        if self.said_hello and now - self.heard > silence:
            self._fail(f"{self.name} hangs: nothing was heard from it for {silence:.0f} s")

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


def _silence() -> float:
    text = os.environ.get("SOFTRDMA_SILENCE_SECONDS")
    try:
        return float(text) if text else SILENCE_SECONDS
    except ValueError:
        raise Misuse(f"SOFTRDMA_SILENCE_SECONDS={text}: give a number of seconds") from None

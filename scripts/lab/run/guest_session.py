# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""A running guest, and the connection to it."""

import os
import re
import socket
import subprocess
import time
from typing import Iterator, List, NoReturn, Optional, Tuple

from ..core import progress
from ..core.errors import LabError, UsageError, error_for_status
from ..protocol import frames
from .attribute_broker import AttributeBroker
from .debugger import WaitingProcess
from .log_pipe import LogPipe

# The agent of a guest sends ALIVE every two seconds.
SILENCE_TIMEOUT_SECONDS = 90.0
MAX_DIRECT_BYTES = 512  # longer frames go through the spool folder
# The connection of user mode is a terminal, which drops what exceeds 4096 unread bytes.
MAX_UNREAD_BYTES = 2048
KERNEL_FAULT = re.compile(r"Kernel panic|BUG:|Oops|Unable to handle")
# After a panic the kernel prints its call trace and ends.
PANIC_TIMEOUT_SECONDS = 3.0
MAX_LOG_LINES = 20


class GuestNotStarted(LabError):
    """The guest did not send "hello"."""


class GuestSession:
    """The process of a guest's kernel or emulator, and the frames to and from its agent."""

    def __init__(
        self,
        process: "subprocess.Popen[bytes]",
        connection: socket.socket,
        boot_timeout_seconds: float,
        logs: List[LogPipe],
        spool_folder: Optional[str] = None,
        host_number: Optional[int] = None,
        broker: Optional[AttributeBroker] = None,
        waiting: Optional[WaitingProcess] = None,
    ):
        """logs: the output of the guest's kernel and of the emulator.

        spool_folder: a folder that the guest mounts, for data that exceeds its connection's buffer.
        host_number: of a guest that is one of several hosts.
        broker: for system calls of the process, if it has one.
        waiting: of a process that a debugger may stop, so that no silence is too long.
        """
        self.process = process
        self.connection = connection
        self.connection.setblocking(False)
        self.name = f"the guest of host {host_number}" if host_number else "the guest"
        self.host_number = host_number
        self.boot_timeout_seconds = boot_timeout_seconds
        self.logs = logs
        self.silence_timeout_seconds = _silence_timeout()
        self.start_time = self.last_receive_time = time.monotonic()
        self.has_booted = False  # it has sent "hello"
        self.is_ready = False  # its agent takes commands
        self.text = b""  # received before the first frame: the beginning of a line
        self.decoder = frames.Decoder()
        # The descriptor stays that of the folder, whatever the guest puts in its place.
        self.spool_fd = os.open(spool_folder, os.O_PATH | os.O_CLOEXEC) if spool_folder else -1
        self.has_spool = spool_folder is not None
        self.broker = broker
        self.waiting = waiting
        self.num_spooled = 0
        self.outgoing = b""
        self.bytes_sent = self.bytes_taken = 0  # taken: read by the agent, as it reports
        self.panic_time: Optional[float] = None

    def send(self, kind: bytes, command: int, data: bytes) -> None:
        """Does not block: the guest might block until softrdma reads, which would be a deadlock."""
        if self.has_spool and len(data) > MAX_DIRECT_BYTES:
            # Through a file, a new one each time: the guest could have cached an old one's contents.
            self.num_spooled += 1
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            fd = os.open(str(self.num_spooled), flags, 0o600, dir_fd=self.spool_fd)
            with open(fd, "wb") as file:
                file.write(data)
            kind, data = frames.SPOOLED, frames.SPOOLED_FRAME.pack(kind, self.num_spooled)
        self.outgoing += frames.encode(kind, command, data)
        self.send_outgoing()

    def can_send(self) -> bool:
        return bool(self._sendable_bytes())

    def send_outgoing(self) -> None:
        """Send what the connection takes without blocking."""
        try:
            count = self.connection.send(self._sendable_bytes()) if self.can_send() else 0
            self.outgoing = self.outgoing[count:]
            self.bytes_sent += count
        except BlockingIOError:
            pass
        except OSError:  # the guest has ended: check() reports it
            self.outgoing = b""

    def _sendable_bytes(self) -> bytes:
        """In user mode, which has a spool folder, no more than the guest's terminal holds."""
        if not self.has_spool:
            return self.outgoing
        return self.outgoing[: max(0, MAX_UNREAD_BYTES - (self.bytes_sent - self.bytes_taken))]

    def receive(self) -> Iterator[Tuple[bytes, int, bytes]]:
        """Read from the connection once. Yields the frames of commands."""
        self.last_receive_time = time.monotonic()
        try:
            data = self.connection.recv(1 << 16)
        except OSError:
            data = b""
        if not data:  # the guest has closed its end; poll() would return at once until it ends
            time.sleep(0.01)
        if not self.is_ready:
            data = self._read_text(data)
        for kind, number, body in self.decoder.feed(data):
            if kind == frames.AGENT_FAILED:
                text = progress.escape_lines(body.decode(errors="replace"))
                raise LabError(f"the agent in {self.name} failed; please report:\n{text}")
            if kind == frames.BYTES_TAKEN:
                self.bytes_taken += (frames.decode_number(body) - self.bytes_taken) & 0xFFFFFFFF
                self.send_outgoing()
            elif kind != frames.ALIVE:
                yield kind, number, body

    def _read_text(self, data: bytes) -> bytes:
        """Handle the lines of text before the first frame. Returns the bytes after them."""
        self.text += data
        while not self.is_ready and b"\n" in self.text:
            line, _, self.text = self.text.partition(b"\n")
            keyword, _, rest = line.decode(errors="replace").strip().partition(" ")
            if keyword == "hello":
                self.has_booted = True
            elif keyword == "fail":
                raise LabError(
                    f"{self.name} could not start: {progress.escape(rest)}{self._last_log_lines()}"
                )
            elif keyword == "refuse":
                status, _, reason = rest.partition(" ")
                raise error_for_status(int(status), progress.escape(reason))
            elif keyword == "agent":
                self.is_ready = True
        if not self.is_ready:
            return b""
        frame_bytes, self.text = self.text, b""
        return frame_bytes

    def check(self, now: float) -> None:
        """Raise if the guest has ended, hangs, or did not start."""
        has_ended = self.process.poll() is not None
        for log in self.logs:
            log.read()
        if not self.panic_time and any([log.has_new_panic() for log in self.logs]):
            self.panic_time = now
        if has_ended or (self.panic_time and now - self.panic_time > PANIC_TIMEOUT_SECONDS):
            reason = "its kernel panicked" if self.panic_time else "it was shut down or killed"
            suffix = "" if has_ended else ", and does not end"
            self._fail(f"{self.name} ended before the command did: {reason}{suffix}")
        if self.waiting:
            self.waiting.check(now)
            return
        if not self.has_booted and now - self.start_time > self.boot_timeout_seconds:
            self._fail(f"{self.name} did not start within {self.boot_timeout_seconds:.0f} s")
        timeout = self.silence_timeout_seconds if self.is_ready else SILENCE_TIMEOUT_SECONDS
        if self.has_booted and now - self.last_receive_time > timeout:
            self._fail(f"{self.name} hangs: it sent nothing for {timeout:.0f} s")

    def _fail(self, reason: str) -> NoReturn:
        raise (LabError if self.has_booted else GuestNotStarted)(reason + self._last_log_lines())

    def _last_log_lines(self) -> str:
        """The end of the logs, or what precedes and follows the first kernel fault."""
        for log in self.logs:
            log.read()
        lines = [line for log in self.logs for line in log.lines()]
        faults = [index for index, line in enumerate(lines) if KERNEL_FAULT.search(line)]
        first = min(faults[0] - 5 if faults else len(lines), len(lines) - MAX_LOG_LINES)
        excerpt = [
            "    " + progress.escape(line[:160]) for line in lines[max(0, first) :][:MAX_LOG_LINES]
        ]
        return "; its last output:\n" + "\n".join(excerpt) if excerpt else ""


def _silence_timeout() -> float:
    text = os.environ.get("SOFTRDMA_SILENCE_SECONDS")
    try:
        return float(text) if text else SILENCE_TIMEOUT_SECONDS
    except ValueError:
        raise UsageError(f"SOFTRDMA_SILENCE_SECONDS={text}: expected a number of seconds") from None

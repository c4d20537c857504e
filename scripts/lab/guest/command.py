# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""A command that the agent runs, and its streams."""

import contextlib
import fcntl
import functools
import os
import select
import signal
import struct
import termios
import time
from typing import Callable, Dict, Optional, Protocol, Tuple

from ..protocol import frames
from ..protocol.stdio_client import CHUNK_BYTES, WINDOW_BYTES, CommandSpec

# Executes a command in the calling process. Returns, with an exit status, only if that fails.
ExecFunction = Callable[[CommandSpec], int]
# How long to wait for the end of the main command's output: a process in an uninterruptible system
# call may keep a stream open.
OUTPUT_TIMEOUT_SECONDS = 20.0


class CommandOwner(Protocol):
    """What a command needs of the agent."""

    is_ending: bool  # the main command has ended

    @property
    def execute(self) -> ExecFunction:
        ...

    def watch(self, fd: int, events: int, handler: Callable[[int], object]) -> None:
        ...

    def unwatch(self, fd: int) -> None:
        ...

    def send(self, data: bytes) -> None:
        ...

    def remove_command(self, number: int) -> None:
        ...


class Command:
    """When the main command ends, all other processes of the guest are killed.

    Other commands, which programs on other hosts started, leave their background
    processes running. The output of all waits until its reader takes it.
    """

    def __init__(self, owner: CommandOwner, number: int, spec: CommandSpec):
        self.owner = owner
        self.number = number
        self.has_terminal = bool(spec["terminal"])
        self.input = b""
        self.input_ended = False
        # The number of output bytes that may be sent until its reader takes some; None: it is gone.
        self.output_credit: Optional[int] = WINDOW_BYTES
        self.status: Optional[int] = None
        self.output_deadline = 0.0
        # The agent's ends of the streams; for output the kind of its frames.
        self.output_fds: Dict[int, bytes]
        if self.has_terminal:
            master, slave = os.openpty()
            _set_window_size(master, *spec["size"])
            child_fds, self.input_fd = (slave, slave, slave), os.dup(master)
            self.output_fds = {master: frames.OUTPUT}
        else:
            (stdin, self.input_fd), (out, stdout), (err, stderr) = os.pipe(), os.pipe(), os.pipe()
            child_fds = (stdin, stdout, stderr)
            self.output_fds = {out: frames.OUTPUT, err: frames.ERRORS}
        self.child = os.fork()
        if self.child == 0:
            os._exit(self._run_child(child_fds, spec))
        for fd in set(child_fds):
            os.close(fd)
        os.set_blocking(self.input_fd, False)
        for fd in self.output_fds:
            os.set_blocking(fd, False)
        self.pidfd = os.pidfd_open(self.child)
        owner.watch(self.pidfd, select.POLLIN, self._on_child_end)
        self._watch_output()

    def _is_main(self) -> bool:
        return self.number == frames.MAIN_COMMAND

    def _run_child(self, stdio_fds: Tuple[int, int, int], spec: CommandSpec) -> int:
        """In the child: execute the command. Returns, with an exit status, only if that fails."""
        try:
            os.setsid()
            for number, fd in enumerate(stdio_fds):
                os.dup2(fd, number)
            os.closerange(3, 1024)  # also the connection to softrdma
            if self.has_terminal:
                fcntl.ioctl(0, termios.TIOCSCTTY, 0)
            return self.owner.execute(spec)
        except BaseException:  # noqa: BLE001  (the child must not return to the agent's loop)
            import traceback

            traceback.print_exc()
            return 1

    def handle_frame(self, kind: bytes, data: bytes) -> None:
        """A frame from the process that has the command's streams: softrdma, or `on`."""
        if kind == frames.INPUT:
            self.input += data
            self._write_input()
        elif kind == frames.INPUT_END:
            self.input_ended = True
            self._write_input()
        elif kind == frames.SIGNAL:
            self._send_signal(frames.decode_number(data))
        elif kind == frames.WINDOW_SIZE and self.has_terminal:
            _set_window_size(self.input_fd, *frames.SIZE.unpack(data))
        elif kind == frames.OUTPUT_TAKEN and self.output_credit is not None:
            self.output_credit += frames.decode_number(data)
            self.output_deadline = time.monotonic() + OUTPUT_TIMEOUT_SECONDS
            self._watch_output()
            self.report_if_ended()
        elif kind == frames.KILL:
            self._send_signal(signal.SIGKILL)
            self.output_credit = None
            self.report_if_ended()

    def report_if_ended(self) -> None:
        """Report the exit status if the command has ended and all of its output is sent.

        Not that of a command which the end of the main command killed: the connection's end tells more.
        """
        if self.status is None or (self.owner.is_ending and not self._is_main()):
            return
        if not self._is_main():
            for fd in list(self.output_fds):
                self._forward_output(fd)
        if self.output_credit is not None and self.output_credit <= 0:
            return
        if self._is_main():
            if self.output_fds and time.monotonic() < self.output_deadline:
                return
            os.sync()  # the files of --write: softrdma then kills the guest
        self.owner.send(frames.encode_number(frames.EXIT_STATUS, self.number, self.status))
        self.owner.remove_command(self.number)
        # Drop further output of its background processes: a full or closed pipe would stop them.
        for fd in list(self.output_fds):
            read = functools.partial(self._read_output, fd, CHUNK_BYTES)
            self.owner.watch(fd, select.POLLIN, read)
        self._close_input()

    def _watch_output(self) -> None:
        """Have the agent forward the command's output when there is some."""
        for fd in self.output_fds:
            self.owner.watch(fd, select.POLLIN, functools.partial(self._forward_output, fd))

    def _forward_output(self, fd: int, _events: int = 0) -> None:
        """Send what can be read, as far as the credit allows."""
        while self.output_credit is None or self.output_credit > 0:
            credit = CHUNK_BYTES if self.output_credit is None else self.output_credit
            data = self._read_output(fd, min(credit, CHUNK_BYTES))
            if not data:
                return
            self.owner.send(frames.encode(self.output_fds[fd], self.number, data))
            if self.output_credit is None:
                return  # one chunk for each poll, so that other streams are served
            self.output_credit -= len(data)
        for output_fd in self.output_fds:  # until the reader has taken some
            self.owner.unwatch(output_fd)

    def _read_output(self, fd: int, max_bytes: int, _events: int = 0) -> bytes:
        """Empty if there is nothing to read, or at the end of the stream, which is closed then."""
        try:
            data = os.read(fd, max_bytes)
        except BlockingIOError:
            return b""
        except OSError:  # a terminal that no process has open
            data = b""
        if not data:
            self.owner.unwatch(fd)
            del self.output_fds[fd]
            os.close(fd)
        return data

    def _on_child_end(self, _events: int) -> None:
        """The command has ended; if it is the main command, end all other processes of the guest."""
        self.owner.unwatch(self.pidfd)
        os.close(self.pidfd)
        if self._is_main():
            self.owner.is_ending = True
            self.output_deadline = time.monotonic() + OUTPUT_TIMEOUT_SECONDS
            with contextlib.suppress(ProcessLookupError):
                os.kill(-1, signal.SIGKILL)  # all processes but process 1 and this one
        _, status = os.waitpid(self.child, 0)
        code = os.waitstatus_to_exitcode(status)
        self.status = code if code >= 0 else 128 - code
        self.report_if_ended()

    def _send_signal(self, signum: int) -> None:
        """To the main command alone; of another command, to its process group."""
        if self.status is not None:
            return
        if not self._is_main():
            with contextlib.suppress(ProcessLookupError):  # the child has not called setsid() yet
                os.killpg(self.child, signum)
                return
        os.kill(self.child, signum)

    def _write_input(self, _events: int = 0) -> None:
        """Write to the command's stdin what it takes, and report how much that is."""
        if self.input_fd < 0:
            self.input = b""
        while self.input:
            try:
                count = os.write(self.input_fd, self.input)
            except BlockingIOError:
                self.owner.watch(self.input_fd, select.POLLOUT, self._write_input)
                return
            except OSError:  # no process reads it: drop it
                count = len(self.input)
            self.input = self.input[count:]
            self.owner.send(frames.encode_number(frames.INPUT_TAKEN, self.number, count))
        if self.input_fd >= 0:
            self.owner.unwatch(self.input_fd)
        if self.input_ended and not self.has_terminal:
            self._close_input()

    def _close_input(self) -> None:
        if self.input_fd >= 0:
            self.owner.unwatch(self.input_fd)
            os.close(self.input_fd)
            self.input_fd = -1


def _set_window_size(terminal_fd: int, columns: int, rows: int) -> None:
    fcntl.ioctl(terminal_fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Connects this process's stdin, stdout, stderr and terminal to a command in a guest.

softrdma uses it for its command (run/relay.py), and `on` for its command on
another host (guest/host_exec.py).
"""

import collections
import contextlib
import os
import select
import signal
import stat
import termios
import tty
from typing import Any, Callable, Deque, Dict, List, NamedTuple, Optional, Tuple

from ..core import progress
from ..core.errors import LabError, UsageError
from . import frames

WINDOW_BYTES = 1 << 18  # sent and not yet taken by the reader, for each direction
CHUNK_BYTES = 1 << 16

CommandSpec = Dict[str, Any]


def make_command_spec(argv: List[str]) -> CommandSpec:
    """The command, with the environment, folder and terminal of this process."""
    has_terminal = all(os.isatty(stream) for stream in (0, 1, 2))
    try:
        folder = os.getcwd()
    except OSError as problem:
        raise UsageError(
            f"the current folder: {problem.strerror}; change to another one: cd"
        ) from problem
    return {
        "argv": argv,
        "env": dict(os.environ),
        "cwd": folder,
        "terminal": has_terminal,
        "size": tuple(os.get_terminal_size(0)) if has_terminal else None,
    }


class StdioClient:
    """Forwards input to the command, and writes its output.

    It does not block for a reader of the output that is slow: other commands, and signals, do not wait for it.
    """

    def __init__(
        self, send: Callable[[bytes, bytes], None], has_terminal: bool, may_read_input: bool
    ):
        """send(kind, data): sends a frame to the command."""
        self.send = send
        self.has_terminal = has_terminal
        self.input_open = may_read_input
        self.input_credit = WINDOW_BYTES  # may be sent until the command takes some
        self.size_changed = False
        self.streams = {stream: _open_nonblocking(stream) for stream in (1, 2)}
        # In the order of arrival, also if both streams are one file: the stream, and what to write there.
        self.unwritten: Deque[Tuple[int, bytes]] = collections.deque()
        self.bytes_taken = 0  # written since the last OUTPUT_TAKEN

    def make_terminal_raw(self, undo: contextlib.ExitStack) -> None:
        """Let the command's terminal interpret the input; follow the size of the window."""
        if self.has_terminal and self.input_open:
            undo.callback(termios.tcsetattr, 0, termios.TCSADRAIN, termios.tcgetattr(0))
            tty.setraw(0)
            undo.callback(progress.end_lines_by, "\n")
            progress.end_lines_by("\r\n")
            signal.signal(signal.SIGWINCH, self._on_sigwinch)

    def can_forward_input(self) -> bool:
        return self.input_open and self.input_credit > 0

    def forward_input(self) -> None:
        """Read stdin once; called when it is readable."""
        try:
            data = os.read(0, min(self.input_credit, CHUNK_BYTES))
        except OSError:
            data = b""
        if data:
            self.input_credit -= len(data)
            self.send(frames.INPUT, data)
        else:
            self.input_open = False
            self.send(frames.INPUT_END, b"")

    def handle_frame(self, kind: bytes, data: bytes) -> Optional[int]:
        """Handle a frame from the command. Returns the exit status if the frame has it."""
        if kind in (frames.OUTPUT, frames.ERRORS):
            stream = 1 if kind == frames.OUTPUT else 2
            self.unwritten.append((stream, data))
            if len(self.unwritten) == 1 and not self.streams[stream].blocks:
                self.write_output()
        elif kind == frames.INPUT_TAKEN:
            self.input_credit += frames.decode_number(data)
        elif kind == frames.EXIT_STATUS:
            return frames.decode_number(data)
        return None

    def blocked_fds(self) -> List[int]:
        """Where output is to be written next: call write_output() when poll() reports it."""
        return [self.streams[self.unwritten[0][0]].fd] if self.unwritten else []

    def write_output(self) -> None:
        """Write what is possible without blocking, and report it: the command may then send more."""
        stream, data = self.unwritten.popleft()
        output = self.streams[stream]
        count = 0
        try:
            count = os.write(output.fd, data[: select.PIPE_BUF] if output.blocks else data)
        except BlockingIOError:
            pass
        except BrokenPipeError:
            raise
        except OSError as problem:
            name = "standard output" if stream == 1 else "standard error"
            raise LabError(f"cannot write to {name}: {problem.strerror}") from problem
        if count < len(data):
            self.unwritten.appendleft((stream, data[count:]))
        self.bytes_taken += count
        if self.bytes_taken >= WINDOW_BYTES // 4:
            self.send(frames.OUTPUT_TAKEN, frames.NUMBER.pack(self.bytes_taken))
            self.bytes_taken = 0

    def send_changed_size(self) -> None:
        """Called outside of the signal handler, which could interrupt another send()."""
        if self.size_changed:
            self.size_changed = False
            self.send(frames.WINDOW_SIZE, frames.SIZE.pack(*os.get_terminal_size(0)))

    def _on_sigwinch(self, *_: object) -> None:
        self.size_changed = True


class _Output(NamedTuple):
    fd: int
    blocks: bool  # but not for PIPE_BUF bytes when poll() reports it


def _open_nonblocking(stream: int) -> _Output:
    """Open the stream again: for other processes that have it, too, it must not become nonblocking."""
    mode = os.fstat(stream).st_mode
    if stat.S_ISFIFO(mode) or os.isatty(stream):
        flags = os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
        with contextlib.suppress(OSError):  # it may be another user's
            return _Output(os.open(f"/proc/self/fd/{stream}", flags), blocks=False)
    return _Output(stream, blocks=not stat.S_ISREG(mode))

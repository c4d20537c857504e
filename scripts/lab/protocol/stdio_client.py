# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Connects this process's stdin, stdout, stderr and terminal to a command in a guest.

softrdma uses it for its command (run/relay.py), and `on` for its command on
another host (guest/host_exec.py).
"""

import contextlib
import os
import signal
import termios
import tty
from typing import Any, Callable, Dict, List, Optional

from . import frames

WINDOW_BYTES = 1 << 18  # sent and not yet taken by the reader, for each direction
CHUNK_BYTES = 1 << 16

CommandSpec = Dict[str, Any]


def make_command_spec(argv: List[str]) -> CommandSpec:
    """The command, with the environment, folder and terminal of this process."""
    has_terminal = all(os.isatty(stream) for stream in (0, 1, 2))
    return {
        "argv": argv,
        "env": dict(os.environ),
        "cwd": os.getcwd(),
        "terminal": has_terminal,
        "size": tuple(os.get_terminal_size(0)) if has_terminal else None,
    }


class StdioClient:
    """Forwards input to the command, and writes its output."""

    def __init__(
        self, send: Callable[[bytes, bytes], None], has_terminal: bool, may_read_input: bool
    ):
        """send(kind, data): sends a frame to the command."""
        self.send = send
        self.has_terminal = has_terminal
        self.input_open = may_read_input
        self.input_credit = WINDOW_BYTES  # may be sent until the command takes some
        self.size_changed = False

    def make_terminal_raw(self, undo: contextlib.ExitStack) -> None:
        """Let the command's terminal interpret the input; follow the size of the window."""
        if self.has_terminal and self.input_open:
            undo.callback(termios.tcsetattr, 0, termios.TCSADRAIN, termios.tcgetattr(0))
            tty.setraw(0)
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
            while data:
                data = data[os.write(stream, data) :]
        elif kind == frames.INPUT_TAKEN:
            self.input_credit += frames.decode_number(data)
        elif kind == frames.EXIT_STATUS:
            return frames.decode_number(data)
        return None

    def send_changed_size(self) -> None:
        """Called outside of the signal handler, which could interrupt another send()."""
        if self.size_changed:
            self.size_changed = False
            self.send(frames.WINDOW_SIZE, frames.SIZE.pack(*os.get_terminal_size(0)))

    def _on_sigwinch(self, *_: object) -> None:
        self.size_changed = True

# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""The caller's streams, for a command that runs elsewhere.

softrdma lends them to its command in a guest (relay.py), and `on` to its
command on another host (on.py).
"""

import contextlib
import os
import signal
import termios
import tty
from typing import Any, Callable, Dict, List, Optional

from . import frames

WINDOW = 1 << 18  # bytes on their way that nobody has taken yet, either way
PIECE = 1 << 16


def order(argv: List[str]) -> Dict[str, Any]:
    """What to start elsewhere: these words, with the caller's environment, folder and terminal."""
    terminal = all(os.isatty(stream) for stream in (0, 1, 2))
    return {
        "argv": argv,
        "env": dict(os.environ),
        "cwd": os.getcwd(),
        "terminal": terminal,
        "size": tuple(os.get_terminal_size(0)) if terminal else None,
    }


class Caller:
    def __init__(self, send: Callable[[bytes, bytes], None], terminal: bool, input_open: bool):
        """send(letter, bytes): toward the command."""
        self.send = send
        self.terminal = terminal
        self.input_open = input_open
        self.credit = WINDOW
        self.resized = False

    def make_raw(self, undo: contextlib.ExitStack) -> None:
        """What is typed is the command's, as are its window's changes."""
        if self.terminal and self.input_open:
            undo.callback(termios.tcsetattr, 0, termios.TCSADRAIN, termios.tcgetattr(0))
            tty.setraw(0)
            signal.signal(signal.SIGWINCH, self._note_size)

    def listens(self) -> bool:
        """Whether there is room for input."""
        return self.input_open and self.credit > 0

    def read(self) -> None:
        try:
            data = os.read(0, min(self.credit, PIECE))
        except OSError:
            data = b""
        if data:
            self.credit -= len(data)
            self.send(b"i", data)
        else:
            self.input_open = False
            self.send(b"z", b"")

    def take(self, kind: bytes, data: bytes) -> Optional[int]:
        """What comes from the command; its status, once it says that."""
        if kind in b"oe":
            stream = 1 if kind == b"o" else 2
            while data:
                data = data[os.write(stream, data) :]
        elif kind == b"a":
            self.credit += frames.NUMBER.unpack(data)[0]
        elif kind == b"x":
            return int(frames.NUMBER.unpack(data)[0])
        return None

    def resize(self) -> None:
        """Say so, if the window has another size; not from within a signal."""
        if self.resized:
            self.resized = False
            self.send(b"w", frames.SIZE.pack(*os.get_terminal_size(0)))

    def _note_size(self, *_: object) -> None:
        self.resized = True

# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""What passes between softrdma and the agents in its guests, over a line each.

A frame is a letter, the number of a command, a length, and that many bytes:

toward a command  c  start it: its words, environment and folder, as JSON
                  i  input for it                z  end of the input
                  s  a signal (its number)       w  window size (columns, rows)
                  t  output taken (how much)     k  nobody waits for it: kill it
from a command    o  its output                  e  its errors
                  a  input taken (how much)      x  exit status
of the line       n  to a guest: a frame whose bytes are in a file of its spool folder
                     (letter, number of the file)
                  l  from a guest: how many bytes it has taken from the line so far
                  b  from a guest: still alive
                  f  from a guest: a fault of the agent itself

The caller's command, the main one, is number 0. What programs in a guest start
on other hosts (`on`) has two numbers: its guest's agent counts calls, and
softrdma counts what it has the other guest run, and hands frames between them.

Before frames, a guest speaks in lines of text: hello; fail WHY or refuse STATUS
WHY; agent, and frames follow that.
"""

import struct
from typing import Iterator, Tuple

HEAD = struct.Struct("!cII")
NUMBER = struct.Struct("!I")
SIZE = struct.Struct("!HH")
SPOOLED = struct.Struct("!cI")

TOWARD_COMMAND = b"ciswztk"
FROM_COMMAND = b"oeax"


def frame(kind: bytes, command: int = 0, data: bytes = b"") -> bytes:
    return HEAD.pack(kind, command, len(data)) + data


def number(kind: bytes, command: int, value: int) -> bytes:
    return frame(kind, command, NUMBER.pack(value))


class Decoder:
    """Takes bytes as they come, gives frames as they are complete: kind, command, bytes."""

    def __init__(self) -> None:
        self.buffer = b""

    def feed(self, data: bytes) -> Iterator[Tuple[bytes, int, bytes]]:
        self.buffer += data
        while len(self.buffer) >= HEAD.size:
            kind, command, length = HEAD.unpack_from(self.buffer)
            end = HEAD.size + length
            if len(self.buffer) < end:
                return
            body, self.buffer = self.buffer[HEAD.size : end], self.buffer[end:]
            yield kind, command, body

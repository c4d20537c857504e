# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""What passes between softrdma and the agent in its guest, over one line.

A frame is a letter, a length, and that many bytes:

to the guest    i  input for the command        z  end of the input
                n  input: a file of that number in the spool folder, if the guest has one
                s  a signal (its number)        w  window size (columns, rows)
from the guest  o  output of the command        e  its errors
                a  input taken (how much)       b  beat: still alive
                x  exit status                  f  a fault of the agent itself

Before the agent is there, the guest's first program speaks in lines of text:
hello, fail WHY, agent; frames follow the last.
"""

import struct
from typing import Iterator, Tuple

HEAD = struct.Struct("!cI")
NUMBER = struct.Struct("!I")
SIZE = struct.Struct("!HH")


def frame(kind: bytes, data: bytes = b"") -> bytes:
    return HEAD.pack(kind, len(data)) + data


def number(kind: bytes, value: int) -> bytes:
    return frame(kind, NUMBER.pack(value))


class Decoder:
    """Takes bytes as they come, gives frames as they are complete."""

    def __init__(self) -> None:
        self.buffer = b""

    def feed(self, data: bytes) -> Iterator[Tuple[bytes, bytes]]:
        self.buffer += data
        while len(self.buffer) >= HEAD.size:
            kind, length = HEAD.unpack_from(self.buffer)
            end = HEAD.size + length
            if len(self.buffer) < end:
                return
            body, self.buffer = self.buffer[HEAD.size : end], self.buffer[end:]
            yield kind, body

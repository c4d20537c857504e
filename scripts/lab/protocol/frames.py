# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""The frames between softrdma and the agents in its guests.

A frame is a letter (its kind), the number of a command, a length, and that many
bytes. Each guest has one connection, a byte stream.

The command of `softrdma run` is number 0 (MAIN_COMMAND). A command that a
program in a guest starts on another host (`on`) has two numbers: one of the
agent in the guest of that program, and one that softrdma gives it in the guest
where it runs. softrdma forwards its frames between the two.

Before the first frame, a guest sends lines of text: "hello"; "fail REASON" or
"refuse STATUS REASON"; "agent", after which frames follow.
"""

import struct
from typing import Iterator, Tuple

MAIN_COMMAND = 0

# To a command.
START = b"c"  # its argv, environment and folder, as JSON
INPUT = b"i"
INPUT_END = b"z"
SIGNAL = b"s"  # its number
WINDOW_SIZE = b"w"  # columns, rows
OUTPUT_TAKEN = b"t"  # the number of output bytes that the reader has taken
KILL = b"k"  # its reader is gone
WIRE = b"v"  # instead of START: a change of the wire, as JSON; softrdma itself answers as a command

# From a command.
OUTPUT = b"o"
ERRORS = b"e"
INPUT_TAKEN = b"a"  # the number of input bytes that the command has taken
EXIT_STATUS = b"x"

# Of the connection.
SPOOLED = b"n"  # to a guest: the frame's bytes are in a file of the spool folder; kind, file number
BYTES_TAKEN = b"l"  # from a guest: the number of bytes read so far
ALIVE = b"b"  # from a guest, every two seconds
AGENT_FAILED = b"f"  # from a guest: a traceback of the agent

TO_COMMAND = START + INPUT + INPUT_END + SIGNAL + WINDOW_SIZE + OUTPUT_TAKEN + KILL + WIRE
FROM_COMMAND = OUTPUT + ERRORS + INPUT_TAKEN + EXIT_STATUS

HEADER = struct.Struct("!cII")  # kind, command, length
MAX_BODY_BYTES = 64_000_000  # more than any argv and environment as JSON
NUMBER = struct.Struct("!I")
SIZE = struct.Struct("!HH")
SPOOLED_FRAME = struct.Struct("!cI")


def encode(kind: bytes, command: int = MAIN_COMMAND, data: bytes = b"") -> bytes:
    return HEADER.pack(kind, command, len(data)) + data


def encode_number(kind: bytes, command: int, value: int) -> bytes:
    return encode(kind, command, NUMBER.pack(value))


def decode_number(data: bytes) -> int:
    return int(NUMBER.unpack(data)[0])


class Decoder:
    """Splits a byte stream into frames: kind, command, data."""

    def __init__(self) -> None:
        self.buffer = b""

    def feed(self, data: bytes) -> Iterator[Tuple[bytes, int, bytes]]:
        """Yields the frames that are complete now; the rest waits for more data. Raises ValueError."""
        self.buffer += data
        while len(self.buffer) >= HEADER.size:
            kind, command, length = HEADER.unpack_from(self.buffer)
            if length > MAX_BODY_BYTES:
                raise ValueError(f"a frame of {length} bytes")
            end = HEADER.size + length
            if len(self.buffer) < end:
                return
            body, self.buffer = self.buffer[HEADER.size : end], self.buffer[end:]
            yield kind, command, body

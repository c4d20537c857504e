# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Writes Ethernet frames as pcapng, which Wireshark and tshark read.

https://www.ietf.org/archive/id/draft-ietf-opsawg-pcapng-02.html describes the format: blocks, each
with its length at both ends, and options in them.
"""

import struct
from typing import BinaryIO, List, Tuple

SECTION_HEADER, INTERFACE_DESCRIPTION, ENHANCED_PACKET = 0x0A0D0D0A, 1, 6
BYTE_ORDER_MAGIC, VERSION, UNKNOWN_LENGTH = 0x1A2B3C4D, (1, 0), -1
LINKTYPE_ETHERNET, NO_SNAPLEN = 1, 0
OPT_ENDOFOPT, OPT_COMMENT = 0, 1
SHB_USERAPPL = 4
IF_NAME, IF_DESCRIPTION, IF_TSRESOL = 2, 3, 9
NANOSECONDS = b"\x09"  # if_tsresol: ten to the power of -9 seconds
EPB_FLAGS = 2
INBOUND, OUTBOUND = 1, 2  # the direction in epb_flags

Option = Tuple[int, bytes]


class Writer:
    """Of one section. Nothing is flushed but by flush()."""

    def __init__(
        self, file: BinaryIO, program: str, comment: str, interfaces: List[Tuple[str, str]]
    ):
        """comment: on the whole capture; interfaces: the name and the description of each."""
        self.file = file
        magic = struct.pack("=IHHq", BYTE_ORDER_MAGIC, *VERSION, UNKNOWN_LENGTH)
        options = [(SHB_USERAPPL, program.encode()), (OPT_COMMENT, comment.encode())]
        self._write_block(SECTION_HEADER, magic, options)
        for name, description in interfaces:
            body = struct.pack("=HHI", LINKTYPE_ETHERNET, 0, NO_SNAPLEN)
            options = [(IF_NAME, name.encode()), (IF_DESCRIPTION, description.encode())]
            self._write_block(INTERFACE_DESCRIPTION, body, [*options, (IF_TSRESOL, NANOSECONDS)])

    def write_packet(
        self, interface: int, direction: int, time_ns: int, frame: bytes, comment: str
    ) -> None:
        """interface: its index; direction: INBOUND or OUTBOUND; time_ns: since 1970; comment: may be empty."""
        size = len(frame)
        body = struct.pack(
            "=IIIII", interface, time_ns >> 32, time_ns & 0xFFFFFFFF, size, size
        ) + _pad(frame)
        options = [(EPB_FLAGS, struct.pack("=I", direction)), (OPT_COMMENT, comment.encode())]
        self._write_block(ENHANCED_PACKET, body, options)

    def flush(self) -> None:
        self.file.flush()

    def _write_block(self, kind: int, body: bytes, options: List[Option]) -> None:
        """Options without a value are left out."""
        parts = [
            struct.pack("=HH", code, len(value)) + _pad(value) for code, value in options if value
        ]
        body += b"".join(parts) + struct.pack("=HH", OPT_ENDOFOPT, 0)
        length = struct.pack("=I", 12 + len(body))
        self.file.write(struct.pack("=I", kind) + length + body + length)


def _pad(data: bytes) -> bytes:
    """To a multiple of four bytes."""
    return data + bytes(-len(data) % 4)

# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Which frames the wire drops, corrupts, duplicates and holds back.

A stream is the frames of one protocol (IPv4, ARP, IPv6 or other) from one host to
another. Its random numbers are those of the seed and the stream: the n-th frame of
a stream has the same faults in each run with the same seed, whatever frames other
streams have. Neighbor discovery, whose frames depend on the time, is another
protocol than that of RDMA.
"""

import random
import struct
from typing import Dict, NamedTuple, Optional, Tuple

from ..core.run_request import Wire

ETHERNET_HEADER_BYTES = 14
IPV6_HEADER_BYTES = 40
UDP_HEADER_BYTES = 8
MIN_TCP_HEADER_BYTES = 20
ICMP_HEADER_BYTES = 8
BTH_BYTES = 12
ROCE_PORT = 4791
ETHERTYPE_IPV4, ETHERTYPE_ARP, ETHERTYPE_IPV6 = 0x0800, 0x0806, 0x86DD
PROTOCOL_NAMES = {ETHERTYPE_IPV4: "IPv4", ETHERTYPE_ARP: "ARP", ETHERTYPE_IPV6: "IPv6"}
OTHER_PROTOCOL = "other"
PROTOCOL_ICMP, PROTOCOL_TCP, PROTOCOL_UDP, PROTOCOL_ICMPV6 = 1, 6, 17, 58
IPV4_FRAGMENT_BITS = 0x3FFF  # more fragments follow, or the fragment has an offset


class Direction(NamedTuple):
    """From one host to another, in the network of a driver."""

    driver: str
    sender: int
    receiver: int


class Faults(NamedTuple):
    """Of one frame."""

    is_dropped: bool = False
    corrupted_bit: Optional[int] = None  # from the frame's begin
    is_duplicated: bool = False
    is_held: bool = False  # until a later frame has passed it
    frame_name: str = ""

    def describe(self, is_copy: bool = False) -> str:
        """The comment on the frame, or on its second copy; empty if the frame has no fault."""
        words = []
        if self.is_dropped:
            words.append("dropped")
        if self.corrupted_bit is not None:
            words.append(f"corrupted in bit {self.corrupted_bit}")
        if self.is_duplicated:
            words.append("a duplicate" if is_copy else "duplicated")
        if self.is_held:
            words.append("held back")
        return f"{', '.join(words)}: {self.frame_name}" if words else ""


NO_FAULTS = Faults()


class _Stream:
    def __init__(self, seed: int, direction: Direction, protocol: str):
        words = (seed, direction.driver, direction.sender, direction.receiver, protocol)
        self.random = random.Random(" ".join(map(str, words)))
        self.num_frames = 0


class FaultSource:
    """Decides the faults of each frame."""

    def __init__(self, seed: int):
        self.seed = seed
        self.streams: Dict[Tuple[Direction, str], _Stream] = {}

    def decide(self, wire: Wire, direction: Direction, frame: bytes) -> Faults:
        """To be called once for each frame, in their order."""
        (ethertype,) = struct.unpack_from("!H", frame, 12)
        protocol = PROTOCOL_NAMES.get(ethertype, OTHER_PROTOCOL)
        stream = self.streams.get((direction, protocol))
        if not stream:
            stream = self.streams[direction, protocol] = _Stream(self.seed, direction, protocol)
        stream.num_frames += 1
        # Each frame takes the same random numbers, so that no option changes the effect of another one.
        draw = stream.random.random
        is_dropped = draw() * 100 < wire.loss_percent
        is_corrupted = draw() * 100 < wire.corrupt_percent
        is_duplicated = draw() * 100 < wire.duplicate_percent
        is_held = draw() * 100 < wire.reorder_percent
        position = draw()
        if not (is_dropped or is_corrupted or is_duplicated or is_held):
            return NO_FAULTS
        frame_name = (
            f"{protocol} frame {stream.num_frames} of {direction.driver} "
            f"from host {direction.sender} to {direction.receiver}"
        )
        if is_dropped:
            return Faults(is_dropped=True, frame_name=frame_name)
        bit = None
        if is_corrupted:
            begin, end = checked_payload(frame)
            if begin < end:
                bit = 8 * begin + int(position * 8 * (end - begin))
        return Faults(False, bit, is_duplicated, is_held, frame_name)


def flip_bit(frame: bytes, bit: int) -> bytes:
    changed = bytearray(frame)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def checked_payload(frame: bytes) -> Tuple[int, int]:
    """Begin and end of those bytes of which the receiver detects each change by a checksum or ICRC.

    They are the payload; the header of a TCP segment that has none. They are empty if nothing is known to
    be checked, as in ARP.
    """
    try:
        return _checked_payload(frame)
    except (struct.error, IndexError):  # the frame is shorter than its headers
        return 0, 0


def _checked_payload(frame: bytes) -> Tuple[int, int]:
    (ethertype,) = struct.unpack_from("!H", frame, 12)
    begin = ETHERNET_HEADER_BYTES
    if ethertype == ETHERTYPE_IPV4:
        size, fragment = struct.unpack_from("!H2xH", frame, begin + 2)
        end, protocol = begin + size, frame[begin + 9]
        begin += (frame[begin] & 0xF) * 4
        if fragment & IPV4_FRAGMENT_BITS:
            return 0, 0
    elif ethertype == ETHERTYPE_IPV6:
        size, protocol = struct.unpack_from("!HB", frame, begin + 4)
        begin += IPV6_HEADER_BYTES
        end = begin + size
    else:
        return 0, 0
    end = min(end, len(frame))
    if protocol == PROTOCOL_UDP:
        port, checksum = struct.unpack_from("!2xH2xH", frame, begin)
        begin += UDP_HEADER_BYTES
        if port == ROCE_PORT:  # the ICRC does not cover all bits of the BTH
            begin += BTH_BYTES
        elif not checksum:
            return 0, 0
    elif protocol == PROTOCOL_TCP:
        header_bytes = max(MIN_TCP_HEADER_BYTES, (frame[begin + 12] >> 4) * 4)
        begin += header_bytes if begin + header_bytes < end else 0
    elif protocol in (PROTOCOL_ICMP, PROTOCOL_ICMPV6):
        begin += ICMP_HEADER_BYTES
    else:
        return 0, 0
    return begin, end

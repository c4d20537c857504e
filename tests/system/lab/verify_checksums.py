#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Runs a command, and compares the checksum of each RoCE packet that passes meanwhile with zlib's.

    verify_checksums.py NETDEV COMMAND [ARGUMENT...]

Prints the number of packets. Exit status: that of the command, or 1 if a packet has another checksum, or none passed.
"""

import socket
import struct
import subprocess
import sys
import zlib
from typing import Iterator

ETH_P_ALL = 3
SO_RCVBUFFORCE = 33  # of asm-generic/socket.h, as on x86 and ARM
ETH_HEADER_LENGTH = 14
IPV4_WITHOUT_OPTIONS = b"\x08\x00\x45"  # the Ethernet type, version and header length
IP_HEADER_LENGTH, UDP_HEADER_LENGTH, CHECKSUM_LENGTH = 20, 8, 4
UDP = 17
ROCE_PORT = 4791
RECEIVE_BUFFER_BYTES = 64 << 20


def received_packets(capture: socket.socket) -> Iterator[bytes]:
    """IPv4 packets of RoCE, until none is left."""
    while True:
        try:
            frame = capture.recv(1 << 16)
        except BlockingIOError:
            return
        if frame[ETH_HEADER_LENGTH - 2 :].startswith(IPV4_WITHOUT_OPTIONS):
            packet = frame[ETH_HEADER_LENGTH:]
            (length,) = struct.unpack_from("!H", packet, 2)
            port = packet[IP_HEADER_LENGTH + 2 : IP_HEADER_LENGTH + 4]
            if packet[9] == UDP and port == ROCE_PORT.to_bytes(2, "big"):
                yield packet[:length]


def invariant_crc(packet: bytes) -> int:
    """InfiniBand Architecture, annex A17.3.3: over what no router changes; the rest is all ones."""
    masked = bytearray(packet[:-CHECKSUM_LENGTH])
    udp, bth = IP_HEADER_LENGTH, IP_HEADER_LENGTH + UDP_HEADER_LENGTH
    masked[1] = masked[8] = 0xFF  # type of service, time to live
    masked[10:12] = masked[udp + 6 : udp + 8] = b"\xff\xff"  # the checksums of IP and UDP
    masked[bth + 4] = 0xFF  # FECN, BECN, reserved
    local_route_header = b"\xff" * 8
    return zlib.crc32(local_route_header + masked)


def main() -> int:
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL)) as capture:
        capture.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, RECEIVE_BUFFER_BYTES)
        capture.bind((sys.argv[1], 0))
        capture.setblocking(False)
        status = subprocess.run(sys.argv[2:], check=False).returncode
        packets = list(received_packets(capture))
    wrong = [
        packet
        for packet in packets
        if struct.unpack("<I", packet[-CHECKSUM_LENGTH:])[0] != invariant_crc(packet)
    ]
    print(f"{len(packets)} packets, {len(wrong)} with a wrong checksum")
    for packet in wrong[:3]:
        print(f"{len(packet)} bytes, expected {invariant_crc(packet):08x}: {packet.hex()}")
    return status or int(bool(wrong) or not packets)


sys.exit(main())

#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Attacks host 1 of `softrdma run --peer` in the name of host 2, from another network namespace.

peer_attacker.py capture INTERFACE FILE   append what host 1 is sent to FILE, until SIGTERM
peer_attacker.py replay FILE              send that again
peer_attacker.py forge COUNT              send hellos, byes and frames without the key
peer_attacker.py random COUNT             send random bytes

All but capture print how many datagrams they have sent. A forged frame has the text FORGED
for UDP port FORGED_PORT of host 1.
"""

import random
import socket
import struct
import sys
import time
from typing import Iterator, List

HOST_1, HOST_2, PORT = "10.47.99.1", "10.47.99.2", 4799
GUEST_1, GUEST_2, FORGED_PORT = "198.19.1.1", "198.19.1.2", 9999
FORGED = b"a forged frame"
ETH_P_IP = 0x0800
BURST = 50  # of these, and a pause: the buffer of host 1 holds more
IP_HEADER, UDP_HEADER = struct.Struct("!BBHHHBBH4s4s"), struct.Struct("!HHHH")
LENGTH = struct.Struct("!I")


def checksum(data: bytes) -> int:
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return total ^ 0xFFFF


def make_packet(source: str, destination: str, source_port: int, port: int, data: bytes) -> bytes:
    """IPv4 and UDP; without a checksum of UDP, which is optional."""
    length = UDP_HEADER.size + len(data)
    fields = [0x45, 0, IP_HEADER.size + length, 0, 0, 64, socket.IPPROTO_UDP, 0]
    addresses = [socket.inet_aton(source), socket.inet_aton(destination)]
    fields[7] = checksum(IP_HEADER.pack(*fields, *addresses))
    header = IP_HEADER.pack(*fields, *addresses)
    return header + UDP_HEADER.pack(source_port, port, length, 0) + data


def capture(interface: str, path: str) -> None:
    """Write the datagrams to host 1, each after its length."""
    packet_socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_IP))
    packet_socket.bind((interface, ETH_P_IP))
    with open(path, "ab", buffering=0) as file:
        print("capturing", flush=True)
        while True:
            packet = packet_socket.recv(65536)[14:]
            fields = IP_HEADER.unpack_from(packet)
            if fields[6] == socket.IPPROTO_UDP and fields[9] == socket.inet_aton(HOST_1):
                data = packet[IP_HEADER.size + UDP_HEADER.size : fields[2]]
                file.write(LENGTH.pack(len(data)) + data)


def read_captured(path: str) -> Iterator[bytes]:
    with open(path, "rb") as file:
        while header := file.read(LENGTH.size):
            data = file.read(LENGTH.unpack(header)[0])
            if data.startswith(b"softrdma"):  # the capture may still be writing the last one
                yield data


def make_forged() -> Iterator[bytes]:
    """Datagrams of this protocol with a random tag, and of the one that had none."""
    hello = b'{"host": 2, "you": 1, "hosts": 2, "drivers": ["rxe"], "ready": true, "knows": true, "ask": true}'
    mac = bytes.fromhex("02737264 0001 02737264 0002 0800")
    frame = mac + make_packet(GUEST_2, GUEST_1, FORGED_PORT, FORGED_PORT, FORGED)
    for kind, body in ((b"h", hello), (b"f", b"\0" + frame), (b"b", b""), (b"b", b"1")):
        yield b"softrdma1" + kind + body
        for session in (bytes(8), random.randbytes(8)):
            header = b"softrdma2" + b"\2\1" + random.randbytes(8) + session + bytes(7) + b"\1"
            yield header + kind + body + random.randbytes(16)


def send(datagrams: List[bytes]) -> None:
    raw_socket = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
    for number, data in enumerate(datagrams):
        raw_socket.sendto(make_packet(HOST_2, HOST_1, PORT, PORT, data), (HOST_1, 0))
        if number % BURST == 0:
            time.sleep(0.002)
    print(len(datagrams))


def main(action: str, *arguments: str) -> None:
    if action == "capture":
        capture(*arguments)
    elif action == "replay":
        send(list(read_captured(*arguments)))
    elif action == "forge":
        send([data for _ in range(int(arguments[0])) for data in make_forged()])
    else:
        send([random.randbytes(random.randrange(1400)) for _ in range(int(arguments[0]))])


main(*sys.argv[1:])

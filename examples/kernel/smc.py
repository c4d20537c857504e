#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""SMC-R: host 1 sends host 2 data over a TCP connection that the kernel moves to RDMA.

    softrdma run --in uml --hosts 2 -- ./smc.py

Any program's connections do, if smc-tools' smc_run starts it on both hosts.
"""

import hashlib
import os
import socket
import struct
import subprocess
import sys

IPPROTO_SMC = 256
PORT = 5000
SIZE = 16 << 20

# Of <linux/genetlink.h> and <linux/smc.h>.
NETLINK_GENERIC = 16
NLM_F_REQUEST, NLM_F_ACK = 1, 4
GENL_ID_CTRL, CTRL_CMD_GETFAMILY, CTRL_ATTR_FAMILY_ID, CTRL_ATTR_FAMILY_NAME = 16, 3, 1, 2
SMC_NETLINK_ADD_UEID, SMC_NLA_EID_TABLE_ENTRY, SMC_MAX_EID_LEN = 10, 1, 32
HEADERS = struct.Struct("=IHHIIBBxx")  # nlmsghdr, genlmsghdr
ATTRIBUTE = struct.Struct("=HH")


def call(family: int, command: int, attribute: int, value: bytes, flags: int) -> bytes:
    """Returns the kernel's reply to a generic netlink command."""
    length = HEADERS.size + ATTRIBUTE.size + len(value)
    padding = bytes(-len(value) % 4)
    message = HEADERS.pack(length, family, NLM_F_REQUEST | flags, 1, 0, command, 1)
    message += ATTRIBUTE.pack(ATTRIBUTE.size + len(value), attribute) + value + padding
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_GENERIC) as netlink:
        netlink.bind((0, 0))
        netlink.send(message)
        return netlink.recv(65536)


def find_family(name: str) -> int:
    reply = call(GENL_ID_CTRL, CTRL_CMD_GETFAMILY, CTRL_ATTR_FAMILY_NAME, name.encode() + b"\0", 0)
    offset = HEADERS.size
    while offset < len(reply):
        length, attribute = ATTRIBUTE.unpack_from(reply, offset)
        if attribute == CTRL_ATTR_FAMILY_ID:
            (family,) = struct.unpack_from("=H", reply, offset + ATTRIBUTE.size)
            return int(family)
        offset += (length + 3) & ~3
    sys.exit(f"the kernel has no {name}")


def set_up() -> None:
    """Hosts that have an EID in common use RDMA between them: `smcr ueid add LAB` does the same."""
    subprocess.run(["modprobe", "smc"], check=True)
    eid = b"LAB".ljust(SMC_MAX_EID_LEN) + b"\0"
    family = find_family("SMC_GEN_NETLINK")
    reply = call(family, SMC_NETLINK_ADD_UEID, SMC_NLA_EID_TABLE_ENTRY, eid, NLM_F_ACK)
    (error,) = struct.unpack_from("=i", reply, 16)
    if error:
        sys.exit(f"cannot add an EID: {os.strerror(-error)}")


def open_socket() -> socket.socket:
    return socket.socket(socket.AF_INET, socket.SOCK_STREAM, IPPROTO_SMC)


def sent_bytes() -> int:
    """By RDMA: a connection that cannot be moved to it stays with TCP, and works as well."""
    port = f"/sys/class/infiniband/{os.environ['SOFTRDMA_DEVICE']}/ports/1"
    with open(f"{port}/hw_counters/sent_bytes", encoding="ascii") as file:
        return int(file.read())


def receive() -> str:
    """Returns the digest of all data."""
    set_up()
    digest = hashlib.sha256()
    with open_socket() as server:
        server.bind((os.environ["SOFTRDMA_ADDRESS"], PORT))
        server.listen()
        print("ready", flush=True)
        connection, _ = server.accept()
        with connection:
            while data := connection.recv(65536):
                digest.update(data)
    return digest.hexdigest()


def send() -> str:
    data = os.urandom(SIZE)
    with open_socket() as connection:
        connection.connect((os.environ["HOST2"], PORT))
        connection.sendall(data)
    return hashlib.sha256(data).hexdigest()


def main() -> None:
    if sys.argv[1:] == ["receive"]:
        print(receive())
        return
    if os.uname().nodename != "softrdma-1":
        advice = f"softrdma run --in uml --hosts 2 -- {sys.argv[0]}"
        sys.exit(f"this is no host of the lab; type: {advice}")
    if os.environ["SOFTRDMA_DEVICE"].startswith("siw"):
        sys.exit("SMC-R is defined for RoCE, and siw is none; type: softrdma run --driver rxe ...")
    set_up()
    before = sent_bytes()
    command = ["on", "2", os.path.abspath(__file__), "receive"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as receiver:
        assert receiver.stdout
        if receiver.stdout.readline() != "ready\n":
            sys.exit("host 2 cannot receive")
        sent, received = send(), receiver.stdout.read().strip()
    print("sent:    ", sent)
    print("received:", received)
    if sent != received:
        sys.exit("the data differ")
    if sent_bytes() - before < SIZE:
        sys.exit("the data went by TCP")


if __name__ == "__main__":
    main()

#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""RDS over RDMA: host 1 sends host 2 messages, each of which it acknowledges.

    softrdma run --in uml --hosts 2 -- ./rds.py
"""

import hashlib
import os
import socket
import subprocess
import sys

AF_RDS = 21
PORT = 5000
MESSAGES, SIZE = 200, 8192


def open_socket() -> socket.socket:
    subprocess.run(["modprobe", "rds_rdma"], check=True)
    rds = socket.socket(AF_RDS, socket.SOCK_SEQPACKET)
    rds.bind((os.environ["SOFTRDMA_ADDRESS"], PORT))
    return rds


def receive() -> str:
    """Returns the digest of all messages."""
    rds, digest = open_socket(), hashlib.sha256()
    print("ready", flush=True)
    for _ in range(MESSAGES):
        message, sender = rds.recvfrom(SIZE)
        digest.update(message)
        rds.sendto(b"received", sender)
    return digest.hexdigest()


def send() -> str:
    rds, digest = open_socket(), hashlib.sha256()
    for _ in range(MESSAGES):
        message = os.urandom(SIZE)
        digest.update(message)
        rds.sendto(message, (os.environ["HOST2"], PORT))
        rds.recv(SIZE)
    return digest.hexdigest()


def main() -> None:
    if sys.argv[1:] == ["receive"]:
        print(receive())
        return
    if os.uname().nodename != "softrdma-1":
        advice = f"softrdma run --in uml --hosts 2 -- {sys.argv[0]}"
        sys.exit(f"this is no host of the lab; type: {advice}")
    if os.environ["SOFTRDMA_DEVICE"].startswith("siw"):
        sys.exit("RDS has no transport for siw; type: softrdma run --driver rxe ...")
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


if __name__ == "__main__":
    main()

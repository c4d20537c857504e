#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Writes and reads the memory of another process by a transfer engine, and compares every byte.

    transfer_engine.py mooncake|nixl serve
    transfer_engine.py mooncake|nixl copy SERVER [--size BYTES]

copy writes random bytes into one buffer of the server and reads another one. The server computes the SHA-256
of both buffers, and copy compares. Without --tcp, the packets that the RDMA device has sent are counted, since an
engine that finds no device may use TCP and say nothing. The device and the address are those of softrdma,
SOFTRDMA_DEVICE and SOFTRDMA_ADDRESS.
"""

import argparse
import base64
import hashlib
import json
import os
import random
import socket
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Dict, List, TextIO

import numpy

PORT = 7600


class Mooncake:
    """Mooncake's transfer engine."""

    def __init__(self, name: str) -> None:
        from mooncake.engine import TransferEngine

        address, device = os.environ["SOFTRDMA_ADDRESS"], os.environ["SOFTRDMA_DEVICE"]
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            if not os.path.exists("/sys/devices/system/node"):
                # Mooncake finds a device by its NUMA node, of which this kernel has none.
                json.dump({"cpu:0": [[device], []]}, file)
                file.flush()
                os.environ["MC_CUSTOM_TOPO_JSON"] = file.name
            self.start(TransferEngine(), address, device)

    def start(self, engine: Any, address: str, device: str) -> None:
        self.engine = engine
        if self.engine.initialize(address, "P2PHANDSHAKE", "rdma", device) != 0:
            sys.exit(f"Mooncake cannot use {device}")
        self.name = f"{address}:{self.engine.get_rpc_port()}"

    def register(self, buffer: Any) -> None:
        if self.engine.register_memory(buffer.ctypes.data, len(buffer)) != 0:
            sys.exit(f"Mooncake cannot register {len(buffer)} bytes")

    def description(self) -> str:
        return self.name

    def connect(self, description: str) -> None:
        self.peer = description

    def transfer(self, verb: str, buffer: Any, peer_address: int) -> None:
        function = {
            "WRITE": self.engine.transfer_sync_write,
            "READ": self.engine.transfer_sync_read,
        }[verb]
        if function(self.peer, buffer.ctypes.data, peer_address, len(buffer)) != 0:
            sys.exit(f"Mooncake: {verb} of {len(buffer)} bytes failed")


class Nixl:
    """NIXL with its backend UCX."""

    def __init__(self, name: str) -> None:
        from nixl_cu12._api import nixl_agent, nixl_agent_config

        self.agent = nixl_agent(name, nixl_agent_config(backends=["UCX"]))

    def register(self, buffer: Any) -> None:
        self.agent.register_memory([(buffer.ctypes.data, len(buffer), 0, "")], "DRAM")

    def description(self) -> str:
        return base64.b64encode(self.agent.get_agent_metadata()).decode()

    def connect(self, description: str) -> None:
        self.peer = self.agent.add_remote_agent(base64.b64decode(description))

    def transfer(self, verb: str, buffer: Any, peer_address: int) -> None:
        local = self.agent.get_xfer_descs([(buffer.ctypes.data, len(buffer), 0)], "DRAM")
        remote = self.agent.get_xfer_descs([(peer_address, len(buffer), 0)], "DRAM")
        handle = self.agent.initialize_xfer(verb, local, remote, self.peer)
        state = self.agent.transfer(handle)
        while state == "PROC":
            time.sleep(0.001)
            state = self.agent.check_xfer_state(handle)
        if state != "DONE":
            sys.exit(f"NIXL: {verb} of {len(buffer)} bytes failed")
        handle.release()


ENGINES = {"mooncake": Mooncake, "nixl": Nixl}


def random_buffer(size: int) -> Any:
    return numpy.frombuffer(bytearray(random.randbytes(size)), dtype=numpy.uint8)


def digest(buffer: Any) -> str:
    return hashlib.sha256(buffer).hexdigest()


def check(title: str, buffer: Any, expected: str) -> str:
    if digest(buffer) != expected:
        sys.exit(f"{title}: {len(buffer)} bytes, not those of the server")
    return f"{title}: {len(buffer)} bytes, the SHA-256 is right"


def packets_sent() -> int:
    device = os.environ["SOFTRDMA_DEVICE"]
    return int(Path(f"/sys/class/infiniband/{device}/ports/1/hw_counters/sent_pkts").read_text())


def send(stream: TextIO, **message: Any) -> None:
    stream.write(json.dumps(message) + "\n")
    stream.flush()


def receive(stream: TextIO) -> Dict[str, Any]:
    line = stream.readline()
    if not line:
        sys.exit("the other side has ended")
    message: Dict[str, Any] = json.loads(line)
    return message


def serve(engine: Any) -> None:
    with socket.create_server(("", PORT)) as listener:
        stream = listener.accept()[0].makefile("rw")
    size = receive(stream)["size"]
    target, source = random_buffer(size), random_buffer(size)
    engine.register(target)
    engine.register(source)
    send(
        stream,
        engine=engine.description(),
        target=target.ctypes.data,
        source=source.ctypes.data,
    )
    receive(stream)
    send(stream, target=digest(target), source=digest(source))


def connect(server: str) -> socket.socket:
    """Waits until the server listens."""
    end = time.monotonic() + 60
    while True:
        try:
            return socket.create_connection((server, PORT))
        except ConnectionRefusedError:
            if time.monotonic() > end:
                raise
            time.sleep(0.1)


def copy(engine: Any, server: str, size: int) -> List[str]:
    data, result = random_buffer(size), random_buffer(size)
    engine.register(data)
    engine.register(result)
    stream = connect(server).makefile("rw")
    send(stream, size=size)
    peer = receive(stream)
    engine.connect(peer["engine"])
    engine.transfer("WRITE", data, peer["target"])
    engine.transfer("READ", result, peer["source"])
    send(stream, done=True)
    digests = receive(stream)
    return [check("written", data, digests["target"]), check("read", result, digests["source"])]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("engine", choices=ENGINES)
    parser.add_argument("action", choices=("serve", "copy"))
    parser.add_argument("server", nargs="?")
    parser.add_argument("--size", type=int, default=8 << 20)
    parser.add_argument("--tcp", action="store_true", help="do not expect RDMA")
    options = parser.parse_args()
    engine = ENGINES[options.engine](options.action)
    if options.action == "serve":
        serve(engine)
        return
    before = 0 if options.tcp else packets_sent()
    report = copy(engine, options.server, options.size)
    if not options.tcp:
        num_packets = packets_sent() - before
        if num_packets * 4096 < options.size:  # the largest MTU of RoCE
            report.append(f"{num_packets} packets by RDMA: the data did not take this way")
            sys.exit("\n".join(report))
        report.append(f"{os.environ['SOFTRDMA_DEVICE']} has sent {num_packets} packets")
    print("\n".join(report))  # at once: the server's log is not in between


if __name__ == "__main__":
    main()

#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Migrates a running machine of QEMU to another host by RDMA, and compares its memory.

    qemu_migrate.py [--pin] ADDRESS [ENTER...]

ADDRESS is the target host's, ENTER a command that enters it: on 2. --pin: register all memory at once
(rdma-pin-all). The machine has random bytes in its memory, and runs its firmware.
"""

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, List

PORT = 4444
MEMORY = 64  # MiB
START, SIZE = 16 << 20, 24 << 20  # of the random bytes; the firmware uses memory above them


class Machine:
    """A process of QEMU, commanded by QMP."""

    def __init__(self, enter: List[str], options: List[str]) -> None:
        command = ["qemu-system-x86_64", "-accel", "tcg", "-nodefaults", "-display", "none"]
        command += ["-m", str(MEMORY), "-qmp", "stdio", *options]
        self.process = subprocess.Popen(
            [*enter, *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.receive()  # the greeting
        self.execute("qmp_capabilities")

    def receive(self) -> Any:
        assert self.process.stdout
        for line in self.process.stdout:
            if line.startswith("{"):  # its RDMA code prints lines, too
                return json.loads(line)
            print(f"QEMU: {line}", end="", flush=True)
        sys.exit(f"QEMU has ended, with status {self.process.wait()}")

    def execute(self, command: str, **arguments: Any) -> Any:
        assert self.process.stdin
        self.process.stdin.write(json.dumps({"execute": command, "arguments": arguments}) + "\n")
        self.process.stdin.flush()
        while True:
            message = self.receive()
            if "error" in message:
                sys.exit(f"{command}: {message['error']['desc']}")
            if "return" in message:
                return message["return"]

    def set_capability(self, name: str) -> None:
        capabilities = [{"capability": name, "state": True}]
        self.execute("migrate-set-capabilities", capabilities=capabilities)

    def end(self) -> None:
        self.execute("quit")
        self.process.wait()


def migrate(source: Machine, uri: str) -> Any:
    source.execute("migrate", uri=uri)
    while True:
        state = source.execute("query-migrate")
        if state["status"] == "completed":
            return state
        if state["status"] in ("failed", "cancelled"):
            sys.exit(f"the migration has {state['status']}: {state.get('error-desc')}")
        time.sleep(0.1)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--pin", action="store_true")
    parser.add_argument("address")
    parser.add_argument("enter", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    uri = f"rdma:{options.address}:{PORT}"
    data = os.urandom(SIZE)
    with tempfile.NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        loader = f"loader,file={file.name},addr={START:#x},force-raw=on"
        source = Machine([], ["-device", loader])
        # Both machines have the same devices. The target's memory is zero until it comes by RDMA.
        target = Machine(
            options.enter, ["-device", "loader,addr=0,data=0,data-len=4", "-incoming", "defer"]
        )
        if options.pin:
            source.set_capability("rdma-pin-all")
            target.set_capability("rdma-pin-all")
        target.execute("migrate-incoming", uri=uri)
        state = migrate(source, uri)
    while target.execute("query-status")["status"] != "running":
        time.sleep(0.1)
    dump = f"/run/qemu_migrate.{os.getpid()}"
    target.execute("pmemsave", val=START, size=SIZE, filename=dump)
    digest = subprocess.check_output([*options.enter, "sha256sum", dump], text=True).split()[0]
    Path(dump).unlink(missing_ok=True)
    source.end()
    target.end()
    if digest != hashlib.sha256(data).hexdigest():
        sys.exit("the memory is not that of the source")
    print(f"migrated: {SIZE} bytes as on the source, {state['ram']['transferred']} transferred")


if __name__ == "__main__":
    main()

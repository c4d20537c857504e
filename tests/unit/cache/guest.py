#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Runs one statically linked program in a RISC-V guest with its own kernel.

    guest.py -cpu MODEL [-one-insn-per-tb -d WHAT -D LOG -dfilter RANGES] PROGRAM [WORD...]
    guest.py --version
    guest.py ready

The command line and the exit status are those of a user-mode emulator. COHERDMA_CACHE is passed on.
The log covers PROGRAM, not the boot, which would take minutes instruction by instruction.
GUEST_INIT is the guest's init, built from init.cpp. ready: fetches the parts; status 77 with a
reason if one is missing.
"""

import argparse
import json
import os
import re
import resource
import socket
import stat
import subprocess
import sys
import tempfile
import threading
from typing import IO, Any, Dict, List

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "debian"))

import emulator  # noqa: E402
from lab.core import supervisor  # noqa: E402
from lab.run import initramfs  # noqa: E402
from lab.core.errors import LabError  # noqa: E402

TIMEOUT_S = 400  # of the guest
MAX_FILE_SIZE = 100_000_000


def limit_child() -> None:
    supervisor.die_with_parent()
    resource.setrlimit(resource.RLIMIT_FSIZE, (MAX_FILE_SIZE, MAX_FILE_SIZE))


def read_bytes(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def write_initramfs(path: str, program: str, args: List[str]) -> None:
    """Writes the initramfs of the guest."""
    environment = [
        f"{name}={os.environ[name]}" for name in ["COHERDMA_CACHE"] if name in os.environ
    ]
    archive = initramfs.CpioArchive(path)
    archive.add("dev", stat.S_IFDIR | 0o755)
    archive.add("dev/console", stat.S_IFCHR | 0o600, device=(5, 1))
    archive.add("init", stat.S_IFREG | 0o755, read_bytes(os.environ["GUEST_INIT"]))
    archive.add("program", stat.S_IFREG | 0o755, read_bytes(program))
    words = "".join(f"{word}\0" for word in [*environment, "", program, *args])
    archive.add("words", stat.S_IFREG | 0o644, words.encode())
    archive.close()


def qemu_command(parts: emulator.Guest, options: argparse.Namespace, folder: str) -> List[str]:
    command = [parts.emulator, "-M", "virt", "-cpu", options.cpu, "-m", "256"]
    command += ["-nodefaults", "-display", "none", "-no-reboot", "-serial", "stdio"]
    command += ["-qmp", f"unix:{folder}/qmp,server=on,wait=off", "-bios", parts.firmware]
    command += ["-kernel", parts.kernel, "-initrd", f"{folder}/archive"]
    command += ["-append", "console=ttyS0 loglevel=0 panic=-1"]
    if options.D:
        command += ["-D", options.D, "-dfilter", options.dfilter]
    return command


def begin_log(path: str, items: str) -> None:
    """Switches to one instruction at a time, and logs."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(TIMEOUT_S)
        connection.connect(path)
        with connection.makefile("rwb") as monitor:
            commands: List[Dict[str, Any]] = [{"execute": "qmp_capabilities"}]
            for line in ("one-insn-per-tb on", f"log {items}"):
                arguments = {"command-line": line}
                commands.append({"execute": "human-monitor-command", "arguments": arguments})
            monitor.readline()  # the greeting
            for command in commands:
                monitor.write(json.dumps(command).encode() + b"\n")
                monitor.flush()
                answer = json.loads(monitor.readline())
                while "event" in answer:
                    answer = json.loads(monitor.readline())
                if answer.get("return") not in ({}, ""):  # text is an error message
                    sys.exit(f"the emulator refused {command}: {answer}")


def read_until(console: IO[bytes], pattern: str) -> "tuple[List[str], str]":
    """The lines before one that matches, and its group."""
    lines: List[str] = []
    for raw in console:
        line = raw.decode(errors="replace").rstrip("\r\n")
        if match := re.fullmatch(pattern, line):
            return lines, match[1]
        lines.append(line)
    sys.exit("the guest ended too early: " + " | ".join(lines[-5:]))


def run(options: argparse.Namespace) -> int:
    parts = emulator.guest()
    with tempfile.TemporaryDirectory() as folder:
        write_initramfs(f"{folder}/archive", options.program, options.args)
        with subprocess.Popen(
            qemu_command(parts, options, folder),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            preexec_fn=limit_child,
        ) as guest:
            assert guest.stdin and guest.stdout
            alarm = threading.Timer(TIMEOUT_S, guest.kill)
            alarm.start()
            try:
                read_until(guest.stdout, "(ready)")
                if options.D:
                    begin_log(f"{folder}/qmp", options.d)
                guest.stdin.write(b"\n")
                guest.stdin.flush()
                lines, status = read_until(guest.stdout, r"ended (\d+)")
                guest.wait()
            finally:
                alarm.cancel()
                guest.kill()
    print("\n".join(lines))
    return int(status)


def main() -> int:
    if sys.argv[1:] == ["ready"]:
        emulator.guest()
        return 0
    if sys.argv[1:] == ["--version"]:
        return subprocess.call([emulator.guest().emulator, "--version"])
    parser = argparse.ArgumentParser()
    for name in ("-cpu", "-d", "-D", "-dfilter"):
        parser.add_argument(name)
    parser.add_argument("-one-insn-per-tb", action="store_true")
    parser.add_argument("program")
    parser.add_argument("args", nargs=argparse.REMAINDER)
    return run(parser.parse_args())


if __name__ == "__main__":
    try:
        sys.exit(main())
    except LabError as problem:
        print(problem)
        sys.exit(problem.status)

#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""One program, linked statically, as the only one of a RISC-V guest with a kernel of its own.

    guest.py -cpu MODEL [-one-insn-per-tb -d WHAT -D LOG -dfilter RANGES] PROGRAM [WORD...]
    guest.py --version
    guest.py ready

It is called as emulators of single programs are, and ends as PROGRAM does; so whoever calls those
can call this. COHERDMA_CACHE is passed on. The log is of PROGRAM's time, not of the boot's: to
execute that one by one would take minutes. FIRST names the guest's first program, made of
first.cpp. ready: whether all of it is here, which it is fetched for; status 77 if not, and why.
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

import emulator
from lab import initramfs, keeper
from lab.errors import LabError

SECONDS = 400  # of a machine that is busy otherwise
LARGEST = 100_000_000  # bytes of a file


def limited() -> None:
    keeper.die_with_parent()
    resource.setrlimit(resource.RLIMIT_FSIZE, (LARGEST, LARGEST))


def contents(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def archive(path: str, program: str, words: List[str]) -> None:
    """What the guest boots from."""
    environment = [
        f"{name}={os.environ[name]}" for name in ["COHERDMA_CACHE"] if name in os.environ
    ]
    made = initramfs.Archive(path)
    made.add("dev", stat.S_IFDIR | 0o755)
    made.add("dev/console", stat.S_IFCHR | 0o600, device=(5, 1))
    made.add("init", stat.S_IFREG | 0o755, contents(os.environ["FIRST"]))
    made.add("program", stat.S_IFREG | 0o755, contents(program))
    listed = "".join(f"{word}\0" for word in [*environment, "", program, *words])
    made.add("words", stat.S_IFREG | 0o644, listed.encode())
    made.close()


def machine(parts: emulator.Guest, given: argparse.Namespace, folder: str) -> List[str]:
    command = [parts.emulator, "-M", "virt", "-cpu", given.cpu, "-m", "256"]
    command += ["-nodefaults", "-display", "none", "-no-reboot", "-serial", "stdio"]
    command += ["-qmp", f"unix:{folder}/qmp,server=on,wait=off", "-bios", parts.firmware]
    command += ["-kernel", parts.kernel, "-initrd", f"{folder}/archive"]
    command += ["-append", "console=ttyS0 loglevel=0 panic=-1"]
    if given.D:
        command += ["-D", given.D, "-dfilter", given.dfilter]
    return command


def begin_log(path: str, what: str) -> None:
    """From here on, one by one and written down."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(SECONDS)
        connection.connect(path)
        with connection.makefile("rwb") as monitor:
            orders: List[Dict[str, Any]] = [{"execute": "qmp_capabilities"}]
            for line in ("one-insn-per-tb on", f"log {what}"):
                asked = {"command-line": line}
                orders.append({"execute": "human-monitor-command", "arguments": asked})
            monitor.readline()  # the greeting
            for order in orders:
                monitor.write(json.dumps(order).encode() + b"\n")
                monitor.flush()
                answer = json.loads(monitor.readline())
                while "event" in answer:
                    answer = json.loads(monitor.readline())
                if answer.get("return") not in ({}, ""):  # words are a complaint
                    sys.exit(f"the emulator refused {order}: {answer}")


def until(console: IO[bytes], wanted: str) -> "tuple[List[str], str]":
    """The lines before one that is like that, and its number."""
    lines: List[str] = []
    for raw in console:
        line = raw.decode(errors="replace").rstrip("\r\n")
        if found := re.fullmatch(wanted, line):
            return lines, found[1]
        lines.append(line)
    sys.exit("the guest ended too early: " + " | ".join(lines[-5:]))


def run(given: argparse.Namespace) -> int:
    parts = emulator.guest()
    with tempfile.TemporaryDirectory() as folder:
        archive(f"{folder}/archive", given.program, given.words)
        with subprocess.Popen(
            machine(parts, given, folder),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            preexec_fn=limited,
        ) as guest:
            assert guest.stdin and guest.stdout
            alarm = threading.Timer(SECONDS, guest.kill)
            alarm.start()
            try:
                until(guest.stdout, "(ready)")
                if given.D:
                    begin_log(f"{folder}/qmp", given.d)
                guest.stdin.write(b"\n")
                guest.stdin.flush()
                lines, status = until(guest.stdout, r"ended (\d+)")
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
    parser.add_argument("words", nargs=argparse.REMAINDER)
    return run(parser.parse_args())


if __name__ == "__main__":
    try:
        sys.exit(main())
    except LabError as problem:
        print(problem)
        sys.exit(problem.status)

# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""`run` in a QEMU guest: the caller's files, streams and status, another kernel.

Here is the host's side of guest/init and guest/serve. The guest says on its
control port how it fares; its streams are relayed as they come. The status
is the number it says after "exit" there; a guest that ends without, or falls
silent, has failed, whatever was printed.
"""

import contextlib
import json
import os
import re
import select
import signal
import socket
import termios
import time
import tty
from typing import Any, Dict, List, Optional

from . import initramfs, keeper, kernels, packages, qemu, roots, say, siw
from .errors import Interrupted, LabError, Misuse
from .qemu import Share

BOOT_SECONDS = {"kvm": 10.0, "tcg": 120.0}
# A live guest says "beat" every two seconds.
SILENCE_SECONDS = 90.0
STOP_SECONDS = 10.0
TROUBLE = re.compile(r"Kernel panic|BUG:|Oops|Unable to handle")
PYTHON = "/usr/bin/python3"


class Ended(Exception):
    """The guest is over: its status, or why there is none."""

    def __init__(self, status: Optional[int], why: str = ""):
        super().__init__(why)
        self.status = status


def run(
    drivers: List[str],
    hosts: int,
    argv: List[str],
    arch: str,
    wanted: Optional[str],
    writable: List[str],
    launcher: str,
) -> int:
    qemu.program(arch)
    kernel = kernels.get(arch, wanted)
    if "siw" in drivers:
        siw.add(kernel)
    shares = _shares(kernel, writable, launcher)
    terminal = all(os.isatty(stream) for stream in (0, 1, 2))
    job = {
        "argv": argv,
        "env": dict(os.environ),
        "cwd": os.getcwd(),
        "drivers": drivers,
        "hosts": hosts,
        "terminal": terminal,
    }
    if terminal:
        job["size"] = tuple(os.get_terminal_size())
    for accelerator in qemu.accelerators(arch):
        with keeper.Undo() as undo:
            scratch = keeper.scratch(undo)
            initrd = os.path.join(scratch, "initrd")
            initramfs.write(initrd, kernel, _files(job, shares, launcher))
            guest = _Guest(kernel, accelerator, scratch, initrd, shares, terminal, undo)
            try:
                guest.relay()
            except Ended as end:
                if accelerator == "kvm" and not guest.said_hello:
                    qemu.remember_kvm("hangs")
                    say.note("KVM is there but does not start a guest; emulating instead")
                    continue
                if end.status is None:
                    raise LabError(f"{end}{guest.last_words()}") from None
                return end.status
    raise LabError("no accelerator started the guest")


def _shares(kernel: kernels.Kernel, writable: List[str], launcher: str) -> List[Share]:
    modules = Share("modules", "ro", kernel.modules, f"/lib/modules/{kernel.release}")
    if kernel.arch == packages.machine_arch():
        shares = [Share("root", "ro", "/", "/"), modules]
    else:
        suite = kernel.suite.removesuffix("-backports")
        shares = [Share("root", "ro", roots.get(kernel.arch, suite), "/"), modules]
        # The caller's files, and this program's own.
        places = [os.getcwd(), os.path.dirname(launcher), os.path.dirname(initramfs.GUEST)]
        for number, place in enumerate(dict.fromkeys(places)):
            if place == "/" or place.startswith(("/usr/bin", "/usr/lib")):
                continue
            shares.append(Share(f"files{number}", "ro", place, place))
    for number, place in enumerate(writable):
        path = os.path.abspath(place)
        if not os.path.isdir(path):
            raise Misuse(f"--write {place}: there is no such folder")
        if path == "/" or "\n" in path:
            raise Misuse(f"--write {place}: name a folder below /")
        shares.append(Share(f"write{number}", "rw", path, path))
    return shares


def _files(job: Dict[str, Any], shares: List[Share], launcher: str) -> Dict[str, bytes]:
    lines = [f"{share.tag} {share.mode} {share.place}\n" for share in shares]
    command = f"{PYTHON} -IS '{launcher}' guest-job /run/softrdma.guest/job.json"
    return {
        "job.json": json.dumps(job).encode(),
        "shares": "".join(lines).encode(),
        "command": command.encode(),
    }


def _silence() -> float:
    text = os.environ.get("SOFTRDMA_SILENCE_SECONDS")
    try:
        return float(text) if text else SILENCE_SECONDS
    except ValueError:
        raise Misuse(f"SOFTRDMA_SILENCE_SECONDS={text}: give a number of seconds") from None


def _may_read_input(undo: keeper.Undo) -> bool:
    """Whether stdin is ours to read. On a terminal only its foreground may, so be that."""
    if not os.isatty(0):
        return True
    try:
        front = os.getpgid(keeper.front_pid())
        if os.tcgetpgrp(0) != front:
            return False  # softrdma itself was put in the background
        undo.callback(os.tcsetpgrp, 0, front)
        signal.signal(signal.SIGTSTP, signal.SIG_IGN)  # nobody would wake us again
        os.tcsetpgrp(0, os.getpgrp())
    except OSError:
        return False
    return True


class _Guest:
    """A running guest and the streams between it and us."""

    def __init__(
        self,
        kernel: kernels.Kernel,
        accelerator: str,
        scratch: str,
        initrd: str,
        shares: List[Share],
        terminal: bool,
        undo: keeper.Undo,
    ):
        self.console = os.path.join(scratch, "console")
        self.log = os.path.join(scratch, "qemu")
        self.boot_seconds = BOOT_SECONDS[accelerator]
        self.silence = _silence()
        self.terminal = terminal
        self.said_hello = self.started = False
        self.words = b""
        self.stopping: Optional[float] = None
        self.stop_signal = 0
        pairs = [socket.socketpair() for _ in range(2 if terminal else 4)]
        self.ours = [ours for ours, _ in pairs]
        with open(self.log, "wb") as log:
            theirs = [other.fileno() for _, other in pairs]
            self.process = qemu.start(
                kernel, accelerator, initrd, self.console, shares, theirs, terminal, log.fileno()
            )
        undo.callback(self._kill)
        for _, other in pairs:
            other.close()
        self.control = self.ours[0]
        # Where what arrives goes: from a file descriptor to another.
        if terminal:
            self.routes = {self.ours[1].fileno(): 1}
        else:
            self.routes = {self.ours[2].fileno(): 1, self.ours[3].fileno(): 2}
        if _may_read_input(undo):
            self.routes[0] = self.ours[1].fileno()
            if terminal:
                undo.callback(termios.tcsetattr, 0, termios.TCSADRAIN, termios.tcgetattr(0))
                tty.setraw(0)

    def _kill(self) -> None:
        self.process.kill()
        self.process.wait()
        for end in self.ours:
            end.close()

    def last_words(self) -> str:
        """What the kernel or the emulator said last, for the error."""
        lines = []
        for path in (self.log, self.console):
            with contextlib.suppress(OSError), open(
                path, encoding="utf-8", errors="replace"
            ) as file:
                lines += [line.rstrip() for line in file if line.strip()]
        first = next(
            (place for place, line in enumerate(lines) if TROUBLE.search(line)), len(lines)
        )
        lines = lines[max(0, min(first - 5, len(lines) - 20)) :][:20]
        return (
            "; the last it said:\n" + "\n".join("    " + line[:160] for line in lines)
            if lines
            else ""
        )

    def relay(self) -> None:
        """Carry bytes both ways until the guest ends, which is an Ended."""
        began = heard = time.monotonic()
        step: Optional[say.Step] = say.Step("starting a guest")
        poll = select.poll()
        for source in (*self.routes, self.control.fileno()):
            poll.register(source, select.POLLIN)
        with keeper.listening(self._on_signal):
            while True:
                for source, events in poll.poll(200):
                    if source == self.control.fileno():
                        heard = time.monotonic()
                        self._hear()
                    elif not self._carry(source):
                        poll.unregister(source)
                now = time.monotonic()
                if step and self.started:
                    step.clear()
                    step = None
                elif step:
                    step.at(None)
                self._check(now, began, heard)

    def _check(self, now: float, began: float, heard: float) -> None:
        if self.process.poll() is not None:
            self._hear()
            raise Ended(
                None,
                "the guest ended before the command did (its kernel panicked, or it was shut down)",
            )
        if not self.said_hello and now - began > self.boot_seconds:
            raise Ended(None, f"the guest did not start within {self.boot_seconds:.0f} s")
        if self.said_hello and now - heard > self.silence:
            raise Ended(
                None, f"the guest hangs: nothing was heard from it for {self.silence:.0f} s"
            )
        if self.stopping and now - self.stopping > STOP_SECONDS:
            raise Interrupted(self.stop_signal)

    def _hear(self) -> None:
        with contextlib.suppress(OSError):
            self.words += self.control.recv(65536, socket.MSG_DONTWAIT)
        *lines, self.words = self.words.split(b"\n")
        for line in lines:
            word, _, rest = line.decode(errors="replace").strip().partition(" ")
            if word == "hello":
                self.said_hello = True
            elif word == "started":
                self.started = True
            elif word == "fail":
                raise Ended(None, f"the guest could not start: {rest}")
            elif word == "exit" and rest.isdigit():
                self._drain()
                raise Ended(int(rest) & 0xFF)

    def _drain(self) -> None:
        """Carry what is still in the sockets: the guest wrote it before its status."""
        for source, target in self.routes.items():
            if source != 0:
                while select.select([source], [], [], 0)[0] and self._carry(source):
                    pass

    def _carry(self, source: int) -> bool:
        """Carry what is there; False at the end of the stream."""
        try:
            data = os.read(source, 65536)
        except OSError:
            data = b""
        target = self.routes[source]
        if not data:
            if source == 0 and not self.terminal:
                # Not close(): QEMU would drop what it has not read yet.
                self.ours[1].shutdown(socket.SHUT_WR)
            return False
        while data:
            data = data[os.write(target, data) :]
        return True

    def _on_signal(self, signum: int) -> None:
        """Once: hand it to the command. Twice, or without an answer: end the guest."""
        signum = signal.SIGINT if signum == keeper.TERMINAL_STOP else signum
        if self.stopping or not self.started:
            raise Interrupted(signum)
        self.stopping, self.stop_signal = time.monotonic(), signum
        self.control.send(f"signal {signum}\n".encode())

# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""`on HOST COMMAND...` where each host has a kernel of its own.

The command gets this program's streams, signals, environment and folder, and
the host's own words on its devices; if this program is killed, so is the
command.
"""

import contextlib
import json
import os
import select
import signal
import socket
import sys
from typing import List, NoReturn

from . import agent, frames
from .caller import PIECE, Caller, order

PASSED = (
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
)
MISUSE, CANNOT_RUN, NOT_FOUND = 2, 126, 127


def main(here: int, numbers: List[int], elsewhere: List[int], words: List[str]) -> int:
    """numbers: the hosts of this run; elsewhere: those of other runs, joined by --peer."""
    for signum in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them; commands should not
        signal.signal(signum, signal.SIG_DFL)
    number, argv = (words[0] if words else ""), words[1:]
    reachable = [str(each) for each in numbers]
    if number in [str(each) for each in elsewhere]:
        return _misuse(f"host {number} is another softrdma run's; start its commands there")
    if number not in reachable:
        last = reachable[-1]
        return _misuse(
            f"there is no host '{number}' here; say: on 1 COMMAND..., or on {last} COMMAND..."
        )
    if not argv:
        return _misuse(f"which command? Say: on {number} COMMAND...")
    if number == str(here):
        _become(argv)
    return _elsewhere(int(number), argv)


def _misuse(text: str) -> int:
    print("on: " + text, file=sys.stderr)
    return MISUSE


def _become(argv: List[str]) -> NoReturn:
    try:
        os.execvp(argv[0], argv)
    except OSError as problem:
        print(f"on: cannot run {argv[0]}: {problem.strerror}", file=sys.stderr)
        sys.exit(NOT_FOUND if isinstance(problem, FileNotFoundError) else CANNOT_RUN)


def _elsewhere(number: int, argv: List[str]) -> int:
    line = socket.socket(socket.AF_UNIX)
    line.connect(agent.DOOR)
    wanted = order(argv)
    caller = Caller(
        lambda kind, data: line.sendall(frames.frame(kind, 0, data)),
        wanted["terminal"],
        _may_read_input(),
    )
    line.sendall(frames.frame(b"c", 0, json.dumps({**wanted, "host": number}).encode()))
    undo = contextlib.ExitStack()
    caller.make_raw(undo)
    try:
        return _carry(line, caller, _signals())
    finally:
        undo.close()


def _signals() -> int:
    """Where the numbers of signals can be read that come."""
    read, write = os.pipe()
    os.set_blocking(write, False)
    signal.set_wakeup_fd(write)
    for signum in PASSED:
        signal.signal(signum, lambda *_: None)
    return read


def _carry(line: socket.socket, caller: Caller, signals: int) -> int:
    decoder = frames.Decoder()
    poll = select.poll()
    poll.register(line, select.POLLIN)
    poll.register(signals, select.POLLIN)
    while True:
        listening = caller.listens()
        if listening:
            poll.register(0, select.POLLIN)
        ready = poll.poll()
        if listening:
            poll.unregister(0)
        for source, _ in ready:
            if source == 0:
                caller.read()
                continue
            if source == signals:
                for signum in os.read(signals, 64):
                    if signum in PASSED:
                        line.sendall(frames.number(b"s", 0, signum))
                caller.resize()
                continue
            data = line.recv(PIECE)
            if not data:
                print("on: this host's agent is gone", file=sys.stderr)
                return 1
            for kind, _, body in decoder.feed(data):
                status = caller.take(kind, body)
                if status is not None:
                    return status
                if kind in b"oe":
                    line.sendall(frames.number(b"t", 0, len(body)))


def _may_read_input() -> bool:
    """On a terminal only its foreground may."""
    try:
        return not os.isatty(0) or os.tcgetpgrp(0) == os.getpgrp()
    except OSError:
        return False

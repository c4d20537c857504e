# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Between guests and the caller: streams, signals, and how the command ended.

The command runs in the first guest; what it starts on other hosts (`on`) runs
in theirs, and everything between them passes here. The status is the number
that the first guest's agent reports on the line that only it has. A guest that
ends without, or falls silent, has failed, whatever was printed.
"""

import json
import os
import select
import signal
import time
from typing import Any, Callable, Dict, List, Optional, Tuple

from . import frames, keeper, say
from .caller import Caller
from .commands import MAIN
from .errors import Interrupted
from .lines import Guest

STOP_SECONDS = 10.0

Command = Tuple[int, int]  # which guest, and its number there


class Relay:
    """Running guests, and the caller's streams."""

    def __init__(
        self,
        guests: List[Guest],
        order: Dict[str, Any],
        undo: keeper.Undo,
        ready: Callable[[], bool] = lambda: True,
    ):
        """order: the caller's command; ready(): whether all else that it needs is there."""
        self.guests = guests
        self.order = order
        self.ready = ready
        self.begun = False
        self.caller = Caller(self._send_main, order["terminal"], _may_read_input(undo))
        self.caller.make_raw(undo)
        # Commands that programs in guests started on other hosts: where they run, and for whom.
        self.runs: Dict[Command, Command] = {}
        self.callers: Dict[Command, Command] = {}
        self.started = [MAIN for _ in guests]
        self.stop_signal = 0
        self.stopping: Optional[float] = None

    def run(self) -> int:
        """Carry bytes all ways until the main command's status is reported."""
        several = f"{len(self.guests)} guests" if len(self.guests) > 1 else "a guest"
        step: Optional[say.Step] = say.Step(f"starting {several}")
        poll = select.poll()
        with keeper.listening(self._on_signal):
            while True:
                listening = self.begun and self.caller.listens()
                if listening:
                    poll.register(0, select.POLLIN)
                for guest in self.guests:
                    wanted = select.POLLIN | (select.POLLOUT if guest.has_to_say() else 0)
                    poll.register(guest.line, wanted)
                ready = poll.poll(100)
                if listening:
                    poll.unregister(0)
                for source, events in ready:
                    if source == 0:
                        self.caller.read()
                        continue
                    status = self._serve(source, events)
                    if status is not None:
                        return status
                if not self.begun and all(guest.started for guest in self.guests) and self.ready():
                    self._begin()
                if step and self.begun:
                    step.clear()
                    step = None
                elif step:
                    step.at(None)
                self._check(time.monotonic())

    def _begin(self) -> None:
        self.begun = True
        self._send_main(b"c", json.dumps(self.order).encode())

    def _check(self, now: float) -> None:
        for guest in self.guests:
            guest.check(now)
        self.caller.resize()
        if self.stop_signal and not self.stopping:
            self.stopping = now
            self._send_main(b"s", frames.NUMBER.pack(self.stop_signal))
        if self.stopping and now - self.stopping > STOP_SECONDS:
            raise Interrupted(self.stop_signal)

    def _serve(self, line: int, events: int) -> Optional[int]:
        """What a guest wants: to hear, or to be heard. The main command's status, once it is known."""
        (place,) = (place for place, guest in enumerate(self.guests) if guest.line.fileno() == line)
        guest = self.guests[place]
        if events & select.POLLOUT:
            guest.say_more()
        if events & ~select.POLLOUT:
            for kind, number, body in guest.hear():
                if kind in frames.TOWARD_COMMAND:
                    self._toward_command(kind, (place, number), body)
                elif number != MAIN:
                    self._from_command(kind, (place, number), body)
                else:
                    status = self.caller.take(kind, body)
                    if status is not None:
                        return status
        return None

    def _toward_command(self, kind: bytes, caller: Command, body: bytes) -> None:
        if kind == b"c":
            order = json.loads(body)
            (place,) = (
                place for place, guest in enumerate(self.guests) if guest.number == order["host"]
            )
            self.started[place] += 1
            self.runs[caller] = (place, self.started[place])
            self.callers[self.runs[caller]] = caller
        if caller in self.runs:
            place, number = self.runs[caller]
            self.guests[place].send(kind, number, body)

    def _from_command(self, kind: bytes, command: Command, body: bytes) -> None:
        place, number = self.callers[command]
        self.guests[place].send(kind, number, body)
        if kind == b"x":
            del self.runs[self.callers.pop(command)]

    def _send_main(self, kind: bytes, data: bytes) -> None:
        self.guests[0].send(kind, MAIN, data)

    def _on_signal(self, signum: int) -> None:
        """Once: hand it to the command. Twice, or without an answer: end the guests."""
        signum = signal.SIGINT if signum == keeper.TERMINAL_STOP else signum
        if self.stop_signal or not self.begun:
            raise Interrupted(signum)
        self.stop_signal = signum


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

# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Forwards streams and signals between the caller's command, its guests, and the caller.

The command runs in the first guest. Commands that programs start on other hosts
(`on`), and those of `softrdma shell`, run in the guests of the hosts that they
name; their frames pass through here. The exit status is the one that the agent
of the first guest reports on the connection, which no other program has. A guest
that ends without it, or sends nothing for too long, has failed, whatever its
command printed.
"""

import json
import select
import signal
import struct
import time
from typing import Callable, Dict, List, Optional, Tuple

from ..core import progress, supervisor, wire_change
from ..core.errors import OK, Interrupted, LabError, UsageError
from ..core.wire_change import WireChange
from ..protocol import frames
from ..protocol.frames import MAIN_COMMAND
from ..protocol.stdio_client import CommandSpec, StdioClient
from . import foreground, shell_server
from .guest_session import GuestSession
from .shell_server import ShellServer

STOP_TIMEOUT_SECONDS = 10.0

SHELLS = -1
# The index of a guest, and the command's number there; or SHELLS, and the number of a connection.
CommandId = Tuple[int, int]


class Relay:
    """Waits until all guests are ready, starts the command in the first, and forwards frames."""

    def __init__(
        self,
        guests: List[GuestSession],
        spec: CommandSpec,
        undo: supervisor.Undo,
        are_peers_ready: Callable[[], bool] = lambda: True,
        num_hosts: int = 1,
        change_wire: Optional[Callable[[WireChange], None]] = None,
        check_network: Callable[[], None] = lambda: None,
    ):
        """num_hosts: of a guest that has all hosts of this run; change_wire: None: it cannot be changed.

        check_network: called often; raises why the hosts have no network.
        """
        self.guests = guests
        self.hosts = [
            number
            for guest in guests
            for number in ([guest.host_number] if guest.host_number else range(1, num_hosts + 1))
        ]
        self.spec = spec
        self.are_peers_ready = are_peers_ready
        self.change_wire = change_wire
        self.check_network = check_network
        self.has_started_command = self.has_ended = False
        self.undo = undo
        may_read_input = foreground.become_foreground(undo, spec["terminal"])
        self.client = StdioClient(self._send_to_main, spec["terminal"], may_read_input)
        self.client.make_terminal_raw(undo)
        self.shells: Optional[ShellServer] = None
        # Commands of `on` and of `softrdma shell`: who started it, and where it runs.
        self.callee_of: Dict[CommandId, CommandId] = {}
        self.caller_of: Dict[CommandId, CommandId] = {}
        self.last_numbers = [MAIN_COMMAND for _ in guests]
        self.brokers = {guest.broker.fileno(): guest.broker for guest in guests if guest.broker}
        self.stop_signal = 0
        self.stop_time: Optional[float] = None

    def run(self) -> int:
        """Returns the exit status of the main command."""
        title = (
            f"starting {len(self.guests)} guests" if len(self.guests) > 1 else "starting a guest"
        )
        step: Optional[progress.Step] = progress.Step(title)
        poll = select.poll()
        for broker_fd in self.brokers:
            poll.register(broker_fd, select.POLLIN)
        with supervisor.handle_signals(self._on_signal):
            while True:
                polls_input = self.has_started_command and self.client.can_forward_input()
                if polls_input:
                    poll.register(0, select.POLLIN)
                for guest in self.guests:
                    events = select.POLLIN | (select.POLLOUT if guest.can_send() else 0)
                    poll.register(guest.connection, events)
                output_fds = self.client.blocked_fds()
                for fd in output_fds:
                    poll.register(fd, select.POLLOUT)
                ready = poll.poll(100)
                if polls_input:
                    poll.unregister(0)
                for fd in output_fds:
                    poll.unregister(fd)
                for fd, events in ready:
                    if fd == 0:
                        self.client.forward_input()
                        continue
                    if fd in output_fds:
                        self.client.write_output()
                        continue
                    if fd in self.brokers:
                        if events & select.POLLIN:
                            self.brokers[fd].handle_call()
                        else:  # the guest's process has ended
                            poll.unregister(fd)
                        continue
                    if self.shells and fd == self.shells.fileno():
                        self._serve_shells(self.shells)
                        continue
                    status = self._serve_guest(fd, events)
                    if status is not None:
                        self._end_commands()
                        return status
                if not self.has_started_command and self._is_all_ready():
                    self.shells = self._make_shell_server()
                    if self.shells:
                        poll.register(self.shells, select.POLLIN)
                    self._start_command()
                if step and self.has_started_command:
                    step.clear()
                    step = None
                elif step:
                    step.update(None)
                self._check(time.monotonic())

    def _is_all_ready(self) -> bool:
        return all(guest.is_ready for guest in self.guests) and self.are_peers_ready()

    def _make_shell_server(self) -> Optional[ShellServer]:
        """None: the run's folder cannot have a socket."""
        folder = supervisor.run_folder()
        try:
            return ShellServer(folder, self.undo)
        except OSError as problem:
            progress.note(
                f"softrdma shell cannot reach this run: no socket in {folder}: {problem.strerror}"
            )
            shell_server.mark_without_socket(folder)
            return None

    def _start_command(self) -> None:
        self.has_started_command = True
        self._send_to_main(frames.START, json.dumps(self.spec).encode())

    def _end_commands(self) -> None:
        """Write what is left of the main command's output; all others have ended."""
        if self.shells:
            self.shells.close()
        self.has_ended = True
        while self.client.blocked_fds():
            poll = select.poll()
            poll.register(self.client.blocked_fds()[0], select.POLLOUT)
            if poll.poll(100):
                self.client.write_output()

    def _check(self, now: float) -> None:
        """Raise for a failed guest or switch; pass on a new window size and a signal."""
        for guest in self.guests:
            guest.check(now)
        self.check_network()
        self.client.send_changed_size()
        if self.stop_signal and not self.stop_time:
            self.stop_time = now
            self._send_to_main(frames.SIGNAL, frames.NUMBER.pack(self.stop_signal))
        if self.stop_time and now - self.stop_time > STOP_TIMEOUT_SECONDS:
            raise Interrupted(self.stop_signal)

    def _serve_guest(self, fd: int, events: int) -> Optional[int]:
        """Send to the guest and receive from it. Returns the main command's status if it is received."""
        (index,) = (
            index for index, guest in enumerate(self.guests) if guest.connection.fileno() == fd
        )
        guest = self.guests[index]
        if events & select.POLLOUT:
            guest.send_outgoing()
        if events & ~select.POLLOUT:
            try:
                return self._handle_frames(guest, index)
            except (ValueError, KeyError, TypeError, RecursionError, struct.error):
                raise LabError(f"{guest.name} sent what its agent does not send") from None
        return None

    def _handle_frames(self, guest: GuestSession, index: int) -> Optional[int]:
        """Forward the guest's frames, which a command can send, too. Returns the main command's status."""
        for kind, number, body in guest.receive():
            if kind in frames.TO_COMMAND:
                self._forward_to_callee(kind, (index, number), body)
            elif number != MAIN_COMMAND:
                self._forward_to_caller(kind, (index, number), body)
            else:
                status = self.client.handle_frame(kind, body)
                if status is not None:
                    return status
        return None

    def _forward_to_callee(self, kind: bytes, caller: CommandId, body: bytes) -> None:
        """A frame from an `on` to its command on another host, or from a `softrdma shell` to its command.

        Or a change of the wire.
        """
        if kind == frames.WIRE:
            self._change_wire(caller, wire_change.decode(body))
            return
        if kind == frames.START:
            (index,) = (
                index
                for index, guest in enumerate(self.guests)
                if guest.host_number == json.loads(body)["host"]
            )
            self._add_callee(caller, index)
        if caller in self.callee_of:
            index, number = self.callee_of[caller]
            self.guests[index].send(kind, number, body)

    def _add_callee(self, caller: CommandId, index: int) -> None:
        """Give the caller's command a number in a guest."""
        self.last_numbers[index] += 1
        callee = (index, self.last_numbers[index])
        self.callee_of[caller] = callee
        self.caller_of[callee] = caller

    def _serve_shells(self, shells: ShellServer) -> None:
        for number, kind, body in shells.receive():
            try:
                if kind == frames.START:
                    self._start_shell(shells, number, json.loads(body))
                else:
                    self._forward_to_callee(kind, (SHELLS, number), body)
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
                shells.reject(
                    number,
                    "the run does not understand this version of softrdma; use the one that began the run",
                )

    def _start_shell(self, shells: ShellServer, number: int, spec: CommandSpec) -> None:
        """Start the command on the host that it names, or on the first one of this run."""
        host = self.hosts[0] if spec["host"] is None else spec["host"]
        if host not in self.hosts:
            numbers = ", ".join(map(str, self.hosts))
            reason = f"shell: there is no host {host} in this run; it has: {numbers}"
            shells.reject(number, reason, spec["terminal"])
            return
        guest = self.guests[0]
        if guest.host_number:
            spec["host"] = host
        else:  # the guest has all hosts
            spec["host"] = None
            spec["argv"] = ["on", str(host), *spec["argv"]]
        self._forward_to_callee(frames.START, (SHELLS, number), json.dumps(spec).encode())

    def _change_wire(self, caller: CommandId, change: WireChange) -> None:
        status, reason = OK, ""
        try:
            if not self.change_wire:
                raise UsageError(
                    "the wire of this run cannot be changed; begin a run whose hosts have a kernel each with: --wire"
                )
            self.change_wire(change)
        except LabError as problem:
            status, reason = problem.status, str(problem)
        index, number = caller
        for kind, answer in (
            (frames.ERRORS, reason.encode()),
            (frames.EXIT_STATUS, frames.NUMBER.pack(status)),
        ):
            if index != SHELLS:
                self.guests[index].send(kind, number, answer)
            elif self.shells:
                self.shells.send(number, kind, answer)

    def _forward_to_caller(self, kind: bytes, callee: CommandId, body: bytes) -> None:
        """A frame from a command to the program that started it."""
        index, number = self.caller_of[callee]
        if index != SHELLS:
            self.guests[index].send(kind, number, body)
        elif self.shells:
            self.shells.send(number, kind, body)
        if kind == frames.EXIT_STATUS:
            del self.callee_of[self.caller_of.pop(callee)]

    def _send_to_main(self, kind: bytes, data: bytes) -> None:
        """Send a frame to the caller's command."""
        self.guests[0].send(kind, MAIN_COMMAND, data)

    def _on_signal(self, signum: int) -> None:
        """The first signal goes to the command; a second one, or a timeout, ends the guests.

        If the command has ended, its output is still written, which the first one ends.
        """
        signum = signal.SIGINT if signum == supervisor.TERMINAL_SIGNAL else signum
        if self.stop_signal or self.has_ended or not self.has_started_command:
            raise Interrupted(signum)
        self.stop_signal = signum

# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""The switch of hosts whose wire has faults or is captured.

Each frame takes these steps: the rate of its sender's link decides when the next
one is read, so that no frame is lost by it; the faults of its stream are decided
(wire_faults.py); it waits for the delay of the wire, or is held back; and it is
sent to its port or peer. A frame that a peer sent has had all this there.
"""

import collections
import contextlib
import fcntl
import functools
import heapq
import itertools
import os
import select
import socket
import stat
import time
from typing import BinaryIO, Callable, Deque, Dict, List, NamedTuple, Optional, Tuple

from .. import VERSION
from ..core.errors import LabError, UsageError
from ..core import wire_change
from ..core.run_request import Wire, host_name
from ..core.wire_change import WireChange, WireTable
from . import pcapng, wire_faults
from .peer_group import Peer, PeerGroup
from .switch import (
    CHANGE,
    CHANGE_NUMBER,
    CHANGED,
    DAMAGE,
    MAX_FRAMES_PER_TURN,
    MAX_QUEUED_FRAMES,
    Destination,
    Port,
    SwitchProcess,
)
from .wire_faults import Direction, FaultSource

HOLD_SECONDS = 0.01  # of a frame that no later one passes
RATE_BURST_SECONDS = 0.001  # that a link may catch up if this process was late
PRECISE_WAIT_SECONDS = 0.002  # shorter waits are not in whole milliseconds, as those of poll() are
FLUSH_INTERVAL_SECONDS = 1.0
MAX_WAITING_BYTES = 64 << 20  # of memory for the frames of one link; then its host has to wait
# Of memory for a frame on its way, beside its bytes: the objects and their places in the agenda and in
# the frames held back. A unit test measures it.
DELIVERY_BYTES = 900
CAPTURE_BUFFER_BYTES = 1 << 20
BITS_PER_BYTE = 8
BITS_PER_MEGABIT = 1_000_000
MS_PER_SECOND = 1000


# When something is due, a number that keeps the order of what is due at the same time, and what to do.
_Appointment = Tuple[float, int, Callable[[], None]]


class WireSettings(NamedTuple):
    wire: Wire
    seed: int
    drivers: List[str]  # of each network
    host_numbers: List[int]  # of the ports of each network
    capture_path: str  # empty: none
    capture_file: Optional[BinaryIO]


def open_capture(path: str, console_path: Optional[str] = None) -> BinaryIO:
    """The file of --pcap, which nothing else writes; rewind() empties it. console_path: of --console."""
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o666)
        file = open(fd, "wb", buffering=CAPTURE_BUFFER_BYTES)
    except OSError as problem:
        raise UsageError(f"--pcap {path}: it cannot be written: {problem.strerror}") from problem
    writer = _find_writer(file.fileno(), console_path)
    if writer:
        file.close()
        raise UsageError(f"--pcap {path}: {writer}; name another file, or a named pipe (mkfifo)")
    return file


def _find_writer(fd: int, console_path: Optional[str]) -> str:
    """What else writes the file; empty if nothing does. Locks a file: another softrdma finds that."""
    status = os.fstat(fd)
    if os.isatty(fd):
        return "it is a terminal, which other programs write"
    if stat.S_ISCHR(status.st_mode):  # /dev/null
        return ""
    for stream, name in ((1, "standard output"), (2, "standard error")):
        if os.path.samestat(status, os.fstat(stream)):
            return f"it is the {name}, which the command writes"
    if console_path is not None and os.path.exists(console_path):
        if os.path.samestat(status, os.stat(console_path)):
            return "it is the file of --console"
    if stat.S_ISREG(status.st_mode):
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return "another softrdma writes it"
        except OSError:  # the file system has no locks
            pass
    return ""


def rewind(capture_file: BinaryIO) -> None:
    """Empty the file, which an earlier attempt to start the guests may have written."""
    fd = capture_file.fileno()
    if stat.S_ISREG(os.fstat(fd).st_mode):
        os.lseek(fd, 0, os.SEEK_SET)
        os.ftruncate(fd, 0)


class _Capture:
    """The file of --pcap, which has an interface for each local host."""

    def __init__(
        self, settings: WireSettings, file: BinaryIO, report_damage: Callable[[str], None]
    ):
        """report_damage: called once if the capture cannot be complete."""
        self.path = settings.capture_path
        self.has_failed = False
        self.report_damage = report_damage
        self.next_flush_time = 0.0
        self.file = file
        self.interfaces = {number: index for index, number in enumerate(settings.host_numbers)}
        descriptions = [
            (host_name(number), f"host {number}, {' and '.join(settings.drivers)}")
            for number in settings.host_numbers
        ]
        comment = f"softrdma run --seed {settings.seed}" if settings.wire.is_random else ""
        self.writer = pcapng.Writer(file, f"softrdma {VERSION}", comment, descriptions)

    def add(self, host: int, direction: int, frame: bytes, comment: str) -> None:
        if not self.has_failed:
            try:
                interface = self.interfaces[host]
                self.writer.write_packet(interface, direction, time.time_ns(), frame, comment)
            except OSError as problem:
                self._note_failure(problem)

    def flush_in_interval(self) -> None:
        """So that a reader sees the frames soon, and a run that is killed leaves most of them."""
        now = time.monotonic()
        if now >= self.next_flush_time:
            self.next_flush_time = now + FLUSH_INTERVAL_SECONDS
            self.flush()

    def flush(self) -> None:
        if not self.has_failed:
            try:
                self.file.flush()
            except OSError as problem:
                self._note_failure(problem)

    def _note_failure(self, problem: OSError) -> None:
        """The hosts run on without the capture."""
        self.has_failed = True
        self.report_damage(
            f"--pcap {self.path}: the capture is not complete: writing failed: {problem.strerror}"
        )


class _Link:
    """From a host to the switch."""

    def __init__(self, driver: str, host: int):
        self.driver = driver
        self.host = host
        self.rate_mbit = 0.0  # of the frame in transmission
        self.free_time = 0.0  # when it has transmitted the frame before
        self.is_busy = False
        # What follows when the frame in transmission has left the host.
        self.departing: List[_Appointment] = []
        self.waiting_bytes = 0
        # Those of the frames in the queue of the port that leads to the host.
        self.comments: Deque[str] = collections.deque(maxlen=MAX_QUEUED_FRAMES)


class _Delivery:
    """A frame on its way to one destination."""

    __slots__ = ("source", "destination", "frame", "comment")

    def __init__(self, source: Port, destination: Destination, frame: bytes, comment: str):
        self.source = source
        self.destination = destination
        self.frame = frame
        self.comment = comment

    @property
    def size(self) -> int:
        """Of the memory that it takes."""
        return len(self.frame) + DELIVERY_BYTES


class WireSwitchProcess(SwitchProcess):
    def __init__(
        self,
        settings: WireSettings,
        networks: List[List[socket.socket]],
        group: Optional[PeerGroup],
        parent: socket.socket,
    ):
        super().__init__(networks, group, parent)
        self.table = WireTable(settings.wire)
        peers = group.peers if group else []
        self.all_numbers = [*settings.host_numbers, *(peer.number for peer in peers)]
        self.faults = FaultSource(settings.seed)
        self.links: Dict[Port, _Link] = {}
        for network, driver in zip(self.networks, settings.drivers):
            for port, number in zip(network.ports, settings.host_numbers):
                self.links[port] = _Link(driver, number)
        self.agenda: List[_Appointment] = []  # a heap
        self.numbers = itertools.count()
        self.held: Dict[Direction, Dict[_Delivery, None]] = {}
        self.capture = (
            _Capture(settings, settings.capture_file, self._report_damage)
            if settings.capture_file
            else None
        )

    def on_sigterm(self, *_: object) -> None:
        self.is_stopped = True

    def serve(self) -> None:
        try:
            super().serve()
        finally:
            if self.capture:
                self.capture.flush()

    def _report_damage(self, text: str) -> None:
        with contextlib.suppress(OSError):  # the parent has ended
            self.parent.send(DAMAGE + text.encode(errors="replace"))

    def obey(self, order: bytes) -> None:
        super().obey(order)
        if order[:1] == CHANGE:
            begin = 1 + CHANGE_NUMBER.size
            number, reason = order[1:begin], ""
            try:
                self._change_wire(wire_change.decode(order[begin:]))
            except LabError as problem:
                reason = str(problem)
            self.parent.send(CHANGED + number + reason.encode())

    def _change_wire(self, change: WireChange) -> None:
        number = self.table.change(change, self.all_numbers)
        if change.seconds is not None:
            end = functools.partial(self._end_change, number)
            self._schedule(time.monotonic() + change.seconds, end)
        self._end_transmissions()

    def _end_change(self, number: int) -> None:
        self.table.end(number)
        self._end_transmissions()

    def _end_transmissions(self) -> None:
        """Of links with another rate now: the frame has left, as a slow rate may have taken minutes for it."""
        now = time.monotonic()
        for source, link in self.links.items():
            if link.is_busy and link.rate_mbit != self._rate_mbit(source):
                earlier = {
                    number: (due_time - link.free_time + now, number, act)
                    for due_time, number, act in link.departing
                }
                self.agenda = [earlier.get(entry[1], entry) for entry in self.agenda]
                heapq.heapify(self.agenda)
                link.free_time, link.departing = now, []

    def wait(self, timeout_ms: float) -> List[Tuple[int, int]]:
        """Do what is due, and wait until more is due or a descriptor has an event."""
        self._run_agenda()
        if self.capture:
            self.capture.flush_in_interval()
        if self.agenda:
            seconds = max(0.0, self.agenda[0][0] - time.monotonic())
            seconds = min(seconds, timeout_ms / MS_PER_SECOND)
            timeout_ms = int(seconds * MS_PER_SECOND)
            if 0 < seconds < PRECISE_WAIT_SECONDS:
                self._wait_precisely(seconds)
                timeout_ms = 0
        events = super().wait(timeout_ms)
        self._run_agenda()
        return events

    def _wait_precisely(self, seconds: float) -> None:
        readers: List[socket.socket] = [self.parent]
        if self.group:
            readers.append(self.group.socket)
        readers += [port.socket for port in self.links if self._can_receive(port)]
        writers = [port.socket for port in self.links if port.waits_for_space]
        try:
            select.select(readers, writers, [], seconds)
        except ValueError:  # a descriptor that is too large for select()
            time.sleep(seconds)

    def _run_agenda(self) -> None:
        while self.agenda and self.agenda[0][0] <= time.monotonic():
            _, _, act = heapq.heappop(self.agenda)
            act()

    def _schedule(self, due_time: float, act: Callable[[], None]) -> "_Appointment":
        appointment = (due_time, next(self.numbers), act)
        heapq.heappush(self.agenda, appointment)
        return appointment

    def receive_from_port(self, port: Port, max_frames: int = MAX_FRAMES_PER_TURN) -> None:
        if self._can_receive(port):
            super().receive_from_port(port, 1 if self._rate_mbit(port) else max_frames)

    def _can_receive(self, port: Port) -> bool:
        """Whether a frame may be read from the port: whether the link is free."""
        link = self.links[port]
        return not link.is_busy and link.waiting_bytes <= MAX_WAITING_BYTES

    def forward_from_port(self, source: Port, frame: bytes) -> None:
        link = self.links[source]
        departure_time = self._transmit(source, len(frame))
        comments = []
        for destination in self.find_destinations(source, frame):
            comment = self._send_over_wire(source, destination, frame, departure_time)
            if comment:
                comments.append(comment)
        if self.capture:
            self.capture.add(link.host, pcapng.OUTBOUND, frame, "; ".join(comments))
        self._run_agenda()

    def _transmit(self, source: Port, size: int) -> float:
        """Occupy the link. Returns when the frame has left the host."""
        now, rate_mbit = time.monotonic(), self._rate_mbit(source)
        if not rate_mbit:
            return now
        link = self.links[source]
        seconds = size * BITS_PER_BYTE / (rate_mbit * BITS_PER_MEGABIT)
        link.free_time = max(link.free_time, now - RATE_BURST_SECONDS) + seconds
        link.departing = []
        if link.free_time > now:
            link.is_busy, link.rate_mbit = True, rate_mbit
            free = functools.partial(self._free_link, source)
            link.departing.append(self._schedule(link.free_time, free))
            self._set_events(source)
        return link.free_time

    def _rate_mbit(self, port: Port) -> float:
        """It is the same to all receivers."""
        host = self.links[port].host
        return self.table.wire(host, host).rate_mbit

    def _free_link(self, source: Port) -> None:
        self.links[source].is_busy = False
        self._set_events(source)

    def _send_over_wire(
        self, source: Port, destination: Destination, frame: bytes, departure_time: float
    ) -> str:
        """Decide the faults, and when the frame arrives. Returns the comment on it."""
        link = self.links[source]
        if isinstance(destination, Peer):
            direction = Direction(link.driver, link.host, destination.number)
        else:
            direction = Direction(link.driver, link.host, self.links[destination].host)
        wire = self.table.wire(direction.sender, direction.receiver)
        faults = self.faults.decide(wire, direction, frame)
        comment = faults.describe()
        if faults.is_dropped:
            return comment
        if faults.corrupted_bit is not None:
            frame = wire_faults.flip_bit(frame, faults.corrupted_bit)
        deliveries = [_Delivery(source, destination, frame, comment)]
        if faults.is_duplicated:
            deliveries.append(_Delivery(source, destination, frame, faults.describe(is_copy=True)))
        link.waiting_bytes += sum(delivery.size for delivery in deliveries)
        if not self._can_receive(source):
            self._set_events(source)
        due_time = departure_time + wire.delay_ms / MS_PER_SECOND
        if faults.is_held:
            self.held.setdefault(direction, {}).update(dict.fromkeys(deliveries))
            release = functools.partial(self._release, direction, deliveries)
            appointments = [self._schedule(due_time + HOLD_SECONDS, release)]
        else:
            appointments = [
                self._schedule(due_time, functools.partial(self._deliver, delivery))
                for delivery in (*deliveries, *self.held.pop(direction, ()))
            ]
        if link.is_busy:
            link.departing += appointments
        return comment

    def _release(self, direction: Direction, deliveries: List[_Delivery]) -> None:
        """Deliver those that no later frame has passed."""
        held = self.held.get(direction, {})
        for delivery in deliveries:
            if delivery in held:
                del held[delivery]
                self._deliver(delivery)

    def _deliver(self, delivery: _Delivery) -> None:
        link = self.links[delivery.source]
        was_full = link.waiting_bytes > MAX_WAITING_BYTES
        link.waiting_bytes -= delivery.size
        if was_full:
            self._set_events(delivery.source)
        if isinstance(delivery.destination, Port):
            self.send_to_port(delivery.destination, delivery.frame, delivery.comment)
        elif self.group:
            network = delivery.source.network
            self.group.send_frame(delivery.destination, network, delivery.frame)

    def send_to_port(self, port: Port, frame: bytes, comment: str = "") -> None:
        self.links[port].comments.append(comment)
        super().send_to_port(port, frame)

    def send_queue(self, port: Port) -> None:
        """As that of a SwitchProcess; the capture gets what the socket took."""
        link = self.links[port]
        try:
            while port.queue:
                frame = port.queue[0]
                port.socket.send(frame)
                port.queue.popleft()
                comment = link.comments.popleft()
                if self.capture:
                    self.capture.add(link.host, pcapng.INBOUND, frame, comment)
        except BlockingIOError:
            pass
        except OSError:  # the interface is not open: drop the frames
            port.queue.clear()
            link.comments.clear()
        port.waits_for_space = bool(port.queue)
        self._set_events(port)

    def _set_events(self, port: Port) -> None:
        self.poll.modify(port.socket, self.events_of(port))

    def events_of(self, port: Port) -> int:
        events = super().events_of(port)
        return events if self._can_receive(port) else events & ~select.POLLIN

# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""An Ethernet switch between user-mode kernels, as a process of its own.

A port is a datagram socket, each datagram an Ethernet frame. Its other end is an
interface of a kernel. The interfaces of one driver are one network. A peer is
the switch of another softrdma, on another machine or in another container,
reached by UDP; peer_protocol.py describes the datagrams. Frames from one peer
are not forwarded to another: each switch has all others as peers.

A peer can send frames with any source Ethernet address except that of an
interface that softrdma makes for another host (mac_address()). IP addresses are
not checked: a peer can answer ARP requests for those of another host.

wire_switch.py has the switch whose wire has faults or is captured.
"""

import collections
import contextlib
import os
import select
import signal
import socket
import struct
import time
import traceback
from typing import Callable, Deque, Dict, List, NoReturn, Optional, Union

from ..core import progress, supervisor, wire_change
from ..core.errors import LabError
from ..core.wire_change import WireChange
from .peer_group import HELLO_INTERVAL_SECONDS, Peer, PeerGroup, describe_peers

MAC_PREFIX = bytes.fromhex("02737264")  # of all interfaces; two bytes follow: network, host number
NOTE_DELAY_SECONDS = 2.0  # before the message that names the peers
MAX_QUEUED_FRAMES = 1000  # for each port; more are dropped
MAX_LEARNED_ADDRESSES = 1000  # of a port or peer in a network
MAX_FRAMES_PER_TURN = 1000
MIN_FRAME_BYTES, MAX_FRAME_BYTES = 14, 65536
MAX_REPORT_BYTES = MAX_ORDER_BYTES = 65536
MIN_TIMEOUT_SECONDS = 0.001  # 0 would not wait at all
ALL_STOP_SIGNALS = {*supervisor.STOP_SIGNALS, supervisor.TERMINAL_SIGNAL}
# What the process of a switch reports: that all hosts are ready; a note, at its end; what is damaged, while
# it runs on; why it has failed; that the wire is changed: the number of the change, and why not if it is not.
GO, NOTE, DAMAGE, FAILURE, CHANGED = b"g", b"n", b"d", b"f", b"c"
# What it is told: that the local guests are ready; a change of the wire, with its number.
READY, CHANGE = b"r", b"c"
CHANGE_NUMBER = struct.Struct("!I")
CHANGE_TIMEOUT_SECONDS = 10.0
END_TIMEOUT_SECONDS = 2.0  # a switch that writes a capture waits for the capture's reader

MakeProcess = Callable[
    [List[List[socket.socket]], Optional[PeerGroup], socket.socket], "SwitchProcess"
]


def mac_address(network: int, host_number: int) -> bytes:
    """Of a host's interface in a network."""
    return MAC_PREFIX + bytes([network, host_number])


class Switch:
    """Starts the process of a switch and communicates with it."""

    def __init__(
        self,
        undo: supervisor.Undo,
        networks: List[List[socket.socket]],
        group: Optional[PeerGroup],
        make_process: Optional[MakeProcess] = None,
        capture_path: str = "",
    ):
        """networks: the sockets of each network's ports, which the switch takes over.

        make_process: makes the SwitchProcess, in its process, if it is another one.
        capture_path: of the file that it writes, if it does.
        """
        self.connection, child_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.group = group
        if group:
            undo.callback(group.socket.close)
        self.ready_time: Optional[float] = None
        self.all_ready = self.has_noted_wait = False
        self.capture_path = capture_path
        self.has_failed = False  # an error was printed, with which a run has not succeeded
        self.end_reason = ""  # why the process ended before it was told to
        self.is_reaped = False
        self.num_changes = (
            self.last_change
        ) = 0  # the number of the last change that was sent; that is in effect
        # Block signals until the child handles them: SIGTERM of _end() must not be lost.
        old_mask = signal.pthread_sigmask(signal.SIG_BLOCK, ALL_STOP_SIGNALS)
        self.child = os.fork()
        if self.child == 0:
            self.connection.close()
            _run_child(make_process or SwitchProcess, networks, group, child_end)
        undo.callback(self._end)
        signal.pthread_sigmask(signal.SIG_SETMASK, old_mask)
        child_end.close()
        self.connection.setblocking(False)

    def check_ready(self) -> bool:
        """Called when the local guests are ready. Returns whether the peers are; raises their error."""
        if self.ready_time is None:
            self.ready_time = time.monotonic()
            with contextlib.suppress(BrokenPipeError):  # the child has ended: check() raises it
                self.connection.send(READY)
        self.check()
        if not self.group:
            return True
        elapsed = time.monotonic() - self.ready_time
        if not (self.all_ready or self.has_noted_wait) and elapsed > NOTE_DELAY_SECONDS:
            self.has_noted_wait = True
            progress.note("ready, waiting for " + describe_peers(self.group.peers))
        return self.all_ready

    def check(self) -> None:
        """Print what the process has reported. Raises why it has ended."""
        with contextlib.suppress(BlockingIOError):
            while True:
                self._handle_report(self._receive_report())

    def change_wire(self, change: WireChange) -> None:
        """Returns when it is in effect."""
        self.num_changes += 1
        order = CHANGE + CHANGE_NUMBER.pack(self.num_changes) + wire_change.encode(change)
        deadline = time.monotonic() + CHANGE_TIMEOUT_SECONDS
        try:
            self.connection.settimeout(CHANGE_TIMEOUT_SECONDS)
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # it has ended
                self.connection.send(order)
            while self.last_change < self.num_changes:
                self._handle_report(self._receive_report(deadline))
        except socket.timeout:
            advice = f"; does a program read {self.capture_path}?" if self.capture_path else ""
            raise LabError(
                f"the switch between the hosts does not answer within {CHANGE_TIMEOUT_SECONDS:g} s; "
                f"the change will be in effect when it does{advice}"
            ) from None
        finally:
            self.connection.setblocking(False)

    def _handle_report(self, report: bytes) -> None:
        """report: empty if the process has ended."""
        kind, body = report[:1], report[1:]
        if kind == NOTE:
            progress.note(body.decode())
        elif kind == DAMAGE:
            self._print_failure(body.decode())
        elif kind == GO:
            self.all_ready = True
        elif kind == CHANGED:
            (self.last_change,) = CHANGE_NUMBER.unpack_from(body)
            reason = body[CHANGE_NUMBER.size :].decode()
            if reason and self.last_change == self.num_changes:
                raise LabError(reason)
        else:
            if body:
                self.end_reason = body.decode()
            elif not self.end_reason:
                self.end_reason = self._describe_end(self._reap())
            raise LabError(self.end_reason)

    def _print_failure(self, text: str) -> None:
        self.has_failed = True
        progress.error(text)

    def _reap(self) -> str:
        """Wait until the process has ended. Returns what it was killed by; empty if it was not."""
        self.is_reaped = True
        status = 0
        with contextlib.suppress(ChildProcessError):
            _, status = os.waitpid(self.child, 0)
        return signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else ""

    def _describe_end(self, signal_name: str) -> str:
        """signal_name: what it was killed by, or empty."""
        text = "the switch between the hosts has ended"
        if signal_name:
            text += f": it was killed by {signal_name}"
        if self.capture_path:
            text += f"; --pcap {self.capture_path}: the capture is not complete"
        return text

    def _receive_report(self, deadline: Optional[float] = None) -> bytes:
        """Raises socket.timeout at the deadline; without one, BlockingIOError if there is no report."""
        if deadline is not None:
            self.connection.settimeout(max(MIN_TIMEOUT_SECONDS, deadline - time.monotonic()))
        try:
            return self.connection.recv(MAX_REPORT_BYTES)
        except ConnectionResetError:  # the switch ended before it read all: its reports follow
            return self.connection.recv(MAX_REPORT_BYTES)

    def _end(self) -> None:
        """End the process, and print its notes and why it failed. It is killed if it does not end."""
        if self.is_reaped:  # check() has raised that it has ended
            return
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_WR)  # poll() returns, also if SIGTERM precedes it
        self._kill(signal.SIGTERM)
        deadline = time.monotonic() + END_TIMEOUT_SECONDS
        failure = ""
        try:
            while report := self._receive_report(deadline):
                if report[:1] == FAILURE:
                    failure = report[1:].decode()
                elif report[:1] in (NOTE, DAMAGE):
                    self._handle_report(report)
            signal_name = self._reap()
            if signal_name:
                failure = self._describe_end(signal_name)
        except socket.timeout:
            self._kill(signal.SIGKILL)
            self._reap()
            failure = "the switch between the hosts did not end, and was killed"
            if self.capture_path:
                failure = f"--pcap {self.capture_path}: the capture is not complete: its reader does not read on"
        if failure:
            self._print_failure(failure)

    def _kill(self, signum: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.child, signum)


def _run_child(
    make_process: MakeProcess,
    networks: List[List[socket.socket]],
    group: Optional[PeerGroup],
    parent: socket.socket,
) -> NoReturn:
    """The process of the switch. If it fails, it sends the reason to the parent."""
    supervisor.die_with_parent()
    for signum in ALL_STOP_SIGNALS - {signal.SIGTERM}:  # SIG_IGN would discard a pending SIGTERM
        signal.signal(signum, signal.SIG_IGN)
    failure = ""
    try:
        make_process(networks, group, parent).serve()
    except LabError as problem:
        failure = str(problem)
    except Exception:  # noqa: BLE001  (the parent reports it)
        failure = "the switch between the hosts failed:\n" + traceback.format_exc()
    with contextlib.suppress(OSError):  # the parent has ended
        note = group.describe_dropped() if group else ""
        if note:
            parent.send(NOTE + note.encode())
        if failure:
            parent.send(FAILURE + failure.encode(errors="replace"))
    os._exit(0)


class Port:
    """A port, and the frames that wait for space in its socket."""

    def __init__(self, network: int, end: socket.socket):
        self.network = network
        self.socket = end
        self.queue: Deque[bytes] = collections.deque(maxlen=MAX_QUEUED_FRAMES)
        self.waits_for_space = False


Destination = Union[Port, Peer]


class _Network:
    """The ports of a network, and where a MAC address was last seen."""

    def __init__(self, ports: List[Port]):
        self.ports = ports
        self.destination_by_mac: Dict[bytes, Destination] = {}
        # Each source has its share of the table: a flood of addresses displaces only its addresses.
        self.macs_by_source: Dict[Destination, Dict[bytes, None]] = {}

    def learn(self, mac: bytes, source: Destination) -> None:
        """The oldest address of the source is forgotten if it has too many."""
        old_source = self.destination_by_mac.get(mac)
        if old_source is source or mac[0] & 1:
            return
        if old_source:
            del self.macs_by_source[old_source][mac]
        macs = self.macs_by_source.setdefault(source, {})
        if len(macs) >= MAX_LEARNED_ADDRESSES:
            oldest = next(iter(macs))
            del macs[oldest], self.destination_by_mac[oldest]
        macs[mac] = None
        self.destination_by_mac[mac] = source


class SwitchProcess:
    """The process of the switch."""

    def __init__(
        self,
        networks: List[List[socket.socket]],
        group: Optional[PeerGroup],
        parent: socket.socket,
    ):
        self.parent = parent
        self.group = group
        self.port_by_fd: Dict[int, Port] = {}
        self.networks: List[_Network] = []
        self.poll = select.poll()
        for number, ends in enumerate(networks):
            ports = [Port(number, end) for end in ends]
            self.networks.append(_Network(ports))
            for port in ports:
                port.socket.setblocking(False)
                self.port_by_fd[port.socket.fileno()] = port
                self.poll.register(port.socket, select.POLLIN)
        self.poll.register(parent, select.POLLIN)
        if group:
            self.poll.register(group.socket, select.POLLIN)
        self.is_stopped = False
        signal.signal(signal.SIGTERM, self.on_sigterm)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ALL_STOP_SIGNALS)

    def on_sigterm(self, *_: object) -> None:
        """With peers serve() ends, and says bye to them."""
        if not self.group:
            os._exit(0)
        self.is_stopped = True

    def serve(self) -> None:
        """Forward frames until SIGTERM, or until the parent has ended; then say bye to the peers."""
        group = self.group
        timeout_ms = HELLO_INTERVAL_SECONDS * 1000 if group else 1000
        while not self.is_stopped:
            if group and group.send_hellos():
                self.parent.send(GO)
            for fd, events in self.wait(timeout_ms):
                if fd == self.parent.fileno():  # Switch.check_ready()
                    self.obey(self.parent.recv(MAX_ORDER_BYTES))
                elif group and fd == group.socket.fileno():
                    group.receive(self.forward_from_peer)
                elif events & select.POLLOUT:
                    self.send_queue(self.port_by_fd[fd])
                else:
                    self.receive_from_port(self.port_by_fd[fd])
        if group:
            group.send_byes()

    def obey(self, order: bytes) -> None:
        """order: what the parent tells; empty if it ends the process."""
        if not order:
            self.is_stopped = True
        elif self.group and order == READY:
            self.group.set_ready()

    def wait(self, timeout_ms: float) -> "List[tuple[int, int]]":
        """Returns descriptors with their events."""
        return self.poll.poll(timeout_ms)

    def receive_from_port(self, port: Port, max_frames: int = MAX_FRAMES_PER_TURN) -> None:
        """Forward the frames that a guest has sent."""
        for _ in range(max_frames):  # then other ports get their turn
            try:
                frame = port.socket.recv(MAX_FRAME_BYTES)
            except BlockingIOError:
                return
            except OSError:  # the guest's kernel has ended, or has not opened the interface yet
                return
            if len(frame) >= MIN_FRAME_BYTES:
                self.forward_from_port(port, frame)

    def forward_from_port(self, source: Port, frame: bytes) -> None:
        for destination in self.find_destinations(source, frame):
            if isinstance(destination, Port):
                self.send_to_port(destination, frame)
            elif self.group:
                self.group.send_frame(destination, source.network, frame)

    def find_destinations(self, source: Port, frame: bytes) -> List[Destination]:
        """Where the address was last seen; if it is unknown or multicast, all but the source."""
        network = self.networks[source.network]
        network.learn(frame[6:12], source)
        target = _find_target(network, frame)
        if target:
            return [target] if target is not source else []
        ports = [port for port in network.ports if port is not source]
        return [*ports, *self.group.peers] if self.group else [*ports]

    def forward_from_peer(self, network_number: int, source: Peer, frame: bytes) -> bool:
        """To ports only: to the one that has the address, or to all. Returns whether the frame is valid."""
        if network_number >= len(self.networks) or len(frame) < MIN_FRAME_BYTES:
            return False
        source_mac = frame[6:12]
        if source_mac.startswith(MAC_PREFIX) and source_mac[5] != source.number:
            return False
        network = self.networks[network_number]
        network.learn(source_mac, source)
        target = _find_target(network, frame)
        for port in [target] if isinstance(target, Port) else network.ports:
            self.send_to_port(port, frame)
        return True

    def send_to_port(self, port: Port, frame: bytes) -> None:
        port.queue.append(frame)
        self.send_queue(port)

    def send_queue(self, port: Port) -> None:
        """Send what the port's socket takes; poll() reports when it takes more."""
        try:
            while port.queue:
                port.socket.send(port.queue[0])
                port.queue.popleft()
        except BlockingIOError:
            pass
        except OSError:  # the interface is not open: drop the frames
            port.queue.clear()
        if bool(port.queue) != port.waits_for_space:
            port.waits_for_space = bool(port.queue)
            self.poll.modify(port.socket, self.events_of(port))

    def events_of(self, port: Port) -> int:
        """That poll() reports."""
        return select.POLLIN | (select.POLLOUT if port.waits_for_space else 0)


def _find_target(network: _Network, frame: bytes) -> Optional[Destination]:
    """None: the frame is multicast, or its address is not known."""
    return None if frame[0] & 1 else network.destination_by_mac.get(frame[:6])

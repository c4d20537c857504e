# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""An Ethernet switch between user-mode kernels, as a process of its own.

A port is a datagram socket, each datagram an Ethernet frame. Its other end is an
interface of a kernel. The interfaces of one driver are one network. A peer is
the switch of another softrdma, on another machine or in another container,
reached by UDP. Frames from one peer are not forwarded to another: each switch
has all others as peers.

A datagram to a peer begins with MAGIC and a letter:

h  hello: the sender's state, as JSON; repeated until all hosts have started
b  bye: the sender ends; followed by 1 if it had started
f  a frame, after the number of its network

A host starts when all hosts are ready and each knows that the others are. Only
datagrams from the addresses of peers are handled. As on any Ethernet, these can
be forged: the network and the other hosts have to be trusted.
"""

import collections
import contextlib
import json
import os
import select
import signal
import socket
import time
import traceback
from typing import Any, Deque, Dict, List, NoReturn, Optional, Union

from ..core import progress, run_request, supervisor
from ..core.errors import LabError

MAGIC = b"softrdma1"
HELLO, BYE, FRAME = b"h", b"b", b"f"
STARTED = b"1"
HELLO_INTERVAL_SECONDS = 0.1
NOTE_DELAY_SECONDS = 2.0  # before the message that names the peers
NUM_BYES = 3
MAX_QUEUED_FRAMES = 1000  # for each port; more are dropped
MAX_LEARNED_ADDRESSES = 1000
MAX_FRAMES_PER_TURN = 1000
MAX_DATAGRAM_BYTES = 65536
SOCKET_BUFFER_BYTES = 1 << 20
ALL_STOP_SIGNALS = {*supervisor.STOP_SIGNALS, supervisor.TERMINAL_SIGNAL}


class Peer:
    """The switch of another softrdma, which is host NUMBER."""

    def __init__(self, number: int, address: str, default_port: int):
        self.number = number
        self.address = address
        self.host, self.port = run_request.parse_peer_address(address, default_port)
        self.socket_address: Any = None
        self.is_ready = False
        self.knows_ready = False  # the peer knows that this host is ready

    def resolve(self, family: int) -> None:
        """Called until it succeeds: the name of a container may be known only after its start."""
        flags = socket.AI_V4MAPPED | socket.AI_ALL if family == socket.AF_INET6 else 0
        with contextlib.suppress(OSError):
            infos = socket.getaddrinfo(self.host, self.port, family, socket.SOCK_DGRAM, flags=flags)
            self.socket_address = infos[0][4]


class PeerGroup:
    """The peers, and this host among them."""

    def __init__(
        self,
        local_number: int,
        peers: List[Peer],
        port: int,
        drivers: List[str],
        wait_seconds: float,
    ):
        self.local_number = local_number
        self.peers = peers
        self.drivers = drivers
        self.wait_seconds = wait_seconds
        try:
            self.socket = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            self.socket.bind(("::", port))
        except OSError:
            self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            try:
                self.socket.bind(("", port))
            except OSError as problem:
                raise LabError(
                    f"cannot listen on UDP port {port}: {problem.strerror}; choose another with --port"
                ) from problem
        # As far as the system allows; a full buffer drops datagrams.
        for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
            self.socket.setsockopt(socket.SOL_SOCKET, option, SOCKET_BUFFER_BYTES)

    @property
    def num_hosts(self) -> int:
        return len(self.peers) + 1


class Switch:
    """Starts the process of a switch and communicates with it."""

    def __init__(
        self,
        undo: supervisor.Undo,
        networks: List[List[socket.socket]],
        group: Optional[PeerGroup],
    ):
        """networks: the sockets of each network's ports, which the switch takes over."""
        self.connection, child_end = socket.socketpair()
        self.group = group
        self.ready_time: Optional[float] = None
        self.all_ready = self.has_noted_wait = False
        # Block signals until the child handles them: SIGTERM of _end() must not be lost.
        old_mask = signal.pthread_sigmask(signal.SIG_BLOCK, ALL_STOP_SIGNALS)
        self.child = os.fork()
        if self.child == 0:
            self.connection.close()
            _run_child(networks, group, child_end)
        undo.callback(self._end)
        signal.pthread_sigmask(signal.SIG_SETMASK, old_mask)
        child_end.close()
        self.connection.setblocking(False)

    def check_ready(self) -> bool:
        """Called when the local guests are ready. Returns whether the peers are; raises their error."""
        if self.ready_time is None:
            self.ready_time = time.monotonic()
            with contextlib.suppress(BrokenPipeError):  # the child has ended: see _read_report()
                self.connection.send(b"r")
        self._read_report()
        if not self.group:
            return True
        elapsed = time.monotonic() - self.ready_time
        if not (self.all_ready or self.has_noted_wait) and elapsed > NOTE_DELAY_SECONDS:
            self.has_noted_wait = True
            progress.note("ready, waiting for " + _describe_peers(self.group.peers))
        return self.all_ready

    def _read_report(self) -> None:
        """The switch reports "go" when all hosts are ready, or why it has ended."""
        with contextlib.suppress(BlockingIOError):
            report = self.connection.recv(MAX_DATAGRAM_BYTES)
            if report != b"go":
                raise LabError(report.decode() or "the switch between the hosts has ended")
            self.all_ready = True

    def _end(self) -> None:
        with contextlib.suppress(OSError):
            os.kill(self.child, signal.SIGTERM)
            os.waitpid(self.child, 0)


def _describe_peers(peers: List[Peer]) -> str:
    return " and ".join(f"host {peer.number} at {peer.address}" for peer in peers)


def _run_child(
    networks: List[List[socket.socket]], group: Optional[PeerGroup], parent: socket.socket
) -> NoReturn:
    """The process of the switch. If it fails, it sends the reason to the parent."""
    supervisor.die_with_parent()
    for signum in ALL_STOP_SIGNALS - {signal.SIGTERM}:  # SIG_IGN would discard a pending SIGTERM
        signal.signal(signum, signal.SIG_IGN)
    try:
        _SwitchProcess(networks, group, parent).serve()
    except LabError as problem:
        parent.send(str(problem).encode())
    except Exception:  # noqa: BLE001  (the parent reports it)
        parent.send(("the switch between the hosts failed:\n" + traceback.format_exc()).encode())
    os._exit(0)


class _Port:
    """A port, and the frames that wait for space in its socket."""

    def __init__(self, network: int, end: socket.socket):
        self.network = network
        self.socket = end
        self.queue: Deque[bytes] = collections.deque(maxlen=MAX_QUEUED_FRAMES)


Destination = Union[_Port, Peer]


class _SwitchProcess:
    """What the process of the switch does."""

    def __init__(
        self,
        networks: List[List[socket.socket]],
        group: Optional[PeerGroup],
        parent: socket.socket,
    ):
        self.parent = parent
        self.group = group
        self.port_by_fd: Dict[int, _Port] = {}
        self.ports_by_network: List[List[_Port]] = []
        # For each network, where a MAC address was last seen.
        self.learned: List[Dict[bytes, Destination]] = [{} for _ in networks]
        self.poll = select.poll()
        for network, ends in enumerate(networks):
            ports = [_Port(network, end) for end in ends]
            self.ports_by_network.append(ports)
            for port in ports:
                port.socket.setblocking(False)
                self.port_by_fd[port.socket.fileno()] = port
                self.poll.register(port.socket, select.POLLIN)
        self.poll.register(parent, select.POLLIN)
        if group:
            group.socket.setblocking(False)
            self.poll.register(group.socket, select.POLLIN)
        self.peer_by_address: Dict[Any, Peer] = {}
        self.is_ready = self.has_started = self.is_stopped = False
        self.ready_time = 0.0
        signal.signal(signal.SIGTERM, self._on_sigterm)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ALL_STOP_SIGNALS)

    def _on_sigterm(self, *_: object) -> None:
        """With peers serve() ends, and says bye to them."""
        if not self.group:
            os._exit(0)
        self.is_stopped = True

    def serve(self) -> None:
        """Forward frames until SIGTERM, then say bye to the peers; or until the parent has ended."""
        last_hello = 0.0
        timeout_ms = HELLO_INTERVAL_SECONDS * 1000 if self.group else 1000
        while not self.is_stopped:
            for fd, events in self.poll.poll(timeout_ms):
                if fd == self.parent.fileno():  # Switch.check_ready()
                    self.is_ready, self.ready_time = True, time.monotonic()
                    if not self.parent.recv(16):
                        return
                elif self.group and fd == self.group.socket.fileno():
                    self._receive_from_peers(self.group)
                elif events & select.POLLOUT:
                    self._send_queue(self.port_by_fd[fd])
                else:
                    self._receive_from_port(self.port_by_fd[fd])
            if self.group and time.monotonic() - last_hello >= HELLO_INTERVAL_SECONDS:
                last_hello = time.monotonic()
                self._send_hellos(self.group)
        for _ in range(NUM_BYES):
            for peer in self.group.peers if self.group else []:
                self._send_to_peer(peer, BYE + (STARTED if self.has_started else b""))

    def _receive_from_port(self, port: _Port) -> None:
        """Forward the frames that a guest has sent."""
        for _ in range(MAX_FRAMES_PER_TURN):  # then other ports get their turn
            try:
                frame = port.socket.recv(MAX_DATAGRAM_BYTES)
            except BlockingIOError:
                return
            except OSError:  # the guest's kernel has ended, or has not opened the interface yet
                return
            self._forward(port.network, port, frame)

    def _forward(self, network: int, source: Destination, frame: bytes) -> None:
        """To where the address was last seen; if it is unknown or multicast, to all but the source."""
        if len(frame) < 14:
            return
        target_mac, source_mac = frame[:6], frame[6:12]
        learned = self.learned[network]
        if len(learned) < MAX_LEARNED_ADDRESSES or source_mac in learned:
            learned[source_mac] = source
        is_multicast = target_mac[0] & 1
        target = None if is_multicast else learned.get(target_mac)
        targets: List[Destination] = [target] if target else [*self.ports_by_network[network]]
        if not target and self.group:
            targets += self.group.peers
        for destination in targets:
            if destination is source:
                continue
            if not isinstance(destination, Peer):
                destination.queue.append(frame)
                self._send_queue(destination)
            elif not isinstance(source, Peer):
                self._send_to_peer(destination, FRAME + bytes([network]) + frame)

    def _send_queue(self, port: _Port) -> None:
        """Send what the port's socket takes; poll() reports when it takes more."""
        try:
            while port.queue:
                port.socket.send(port.queue[0])
                port.queue.popleft()
        except BlockingIOError:
            pass
        except OSError:  # the interface is not open: drop the frames
            port.queue.clear()
        events = select.POLLIN | (select.POLLOUT if port.queue else 0)
        self.poll.modify(port.socket, events)

    def _send_to_peer(self, peer: Peer, data: bytes) -> None:
        if self.group and peer.socket_address:
            with contextlib.suppress(
                OSError
            ):  # the buffer is full, or the peer does not listen yet
                self.group.socket.sendto(MAGIC + data, peer.socket_address)

    def _send_hellos(self, group: PeerGroup) -> None:
        """Send this host's state to the peers, until all have started."""
        for peer in group.peers:
            if not peer.socket_address:
                peer.resolve(group.socket.family)
                if peer.socket_address:
                    self.peer_by_address[peer.socket_address[:2]] = peer
            self._send_hello(group, peer, True)
        if self.is_ready and not self.has_started:
            missing = [peer for peer in group.peers if not (peer.is_ready and peer.knows_ready)]
            if not missing:
                self.has_started = True
                self.parent.send(b"go")
            elif time.monotonic() - self.ready_time > group.wait_seconds:
                raise LabError(
                    f"nothing was received from {_describe_peers(missing)} within {group.wait_seconds:.0f} s; run softrdma there, too, "
                    f"with --as {missing[0].number} and --peer this machine, or increase --wait"
                )

    def _send_hello(self, group: PeerGroup, peer: Peer, wants_answer: bool) -> None:
        """Send this host's state. Once it has started, it sends hellos only as answers."""
        if wants_answer and self.has_started:
            return
        hello = {
            "host": group.local_number,
            "you": peer.number,
            "hosts": group.num_hosts,
            "drivers": group.drivers,
            "ready": self.is_ready,
            "knows": peer.is_ready,  # that the peer is ready
            "ask": wants_answer,
        }
        self._send_to_peer(peer, HELLO + json.dumps(hello).encode())

    def _receive_from_peers(self, group: PeerGroup) -> None:
        """Handle datagrams of peers; ignore all others."""
        for _ in range(MAX_FRAMES_PER_TURN):
            try:
                data, address = group.socket.recvfrom(MAX_DATAGRAM_BYTES)
            except BlockingIOError:
                return
            except OSError:  # an ICMP error: a peer does not listen yet
                continue
            peer = self.peer_by_address.get(address[:2])
            if not peer or not data.startswith(MAGIC):
                continue
            kind, body = data[len(MAGIC) : len(MAGIC) + 1], data[len(MAGIC) + 1 :]
            if kind == FRAME and body and body[0] < len(self.learned):
                self._forward(body[0], peer, body[1:])
            elif kind == HELLO:
                self._handle_hello(group, peer, body)
            elif kind == BYE and body:  # it had started, so all hosts were ready
                peer.is_ready = peer.knows_ready = True
            elif kind == BYE and peer.is_ready and not self.has_started:
                raise LabError(
                    f"host {peer.number} at {peer.address} ended before all hosts had started"
                )

    def _handle_hello(self, group: PeerGroup, peer: Peer, body: bytes) -> None:
        """Take over the peer's state. Raises if its idea of the hosts differs; ignores invalid data."""
        try:
            hello: Dict[str, Any] = json.loads(body)
            drivers = [str(driver) for driver in hello["drivers"]]
            received = (hello["host"], hello["you"], hello["hosts"], drivers)
            peer.is_ready, peer.knows_ready = bool(hello["ready"]), bool(hello["knows"])
            wants_answer = bool(hello["ask"])
        except (ValueError, KeyError, TypeError, RecursionError):
            return
        expected = (peer.number, group.local_number, group.num_hosts, group.drivers)
        if wants_answer:
            self._send_hello(group, peer, False)
        if received != expected and not self.has_started:  # the answer lets the peer report it, too
            raise LabError(_describe_mismatch(peer, expected, received))


def _describe_mismatch(peer: Peer, expected: Any, received: Any) -> str:
    """expected, received: the peer's number, this host's, the number of hosts, and the drivers."""
    subject = f"the softrdma at {peer.address}"
    if received[:2] != expected[:2]:
        return (
            f"{subject} says that it is host {received[0]} and this one host {received[1]}, not {expected[0]} and {expected[1]}; "
            "give each its number with --as, and its peers in the order of their numbers"
        )
    if received[2] != expected[2]:
        return f"{subject} has {received[2]} hosts, this one has {expected[2]}; give each all its peers"
    return (
        f"{subject} has --driver {' and '.join(received[3])}, this one {' and '.join(expected[3])}; "
        "give all the same"
    )

# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""A switch for the interfaces of user-mode kernels, as a process of its own.

Each port is a socket that carries an Ethernet frame in a datagram: the other
end of a kernel's interface, or a peer, which is the switch of another softrdma,
on another machine or in another container, reached by UDP. Interfaces of one
driver are one network. What one peer sends never goes to another: every switch
has every other as its peer.

A datagram to a peer begins with a word of ours and a letter:

h  hello: who it is and how far, as JSON; repeated until all have begun
b  bye: it has ended; 1, if it had begun, for which it knew that all were ready
f  a frame, after the number of its network

Nobody begins before all are ready and know of each other that they are. Only
the peers' own addresses are heard; what comes from them is as far from being
proven as on any Ethernet: joining softrdma's trust each other and the network.
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
from typing import Any, Deque, Dict, List, NoReturn, Optional

from . import jobs, keeper, say
from .errors import LabError

WORD = b"softrdma1"
HELLO, BYE, FRAME = b"h", b"b", b"f"
HELLO_SECONDS = 0.1
NOTE_SECONDS = 2.0  # after so long, who is waited for is said
FAREWELLS = 3
QUEUE = 1000  # frames that a port may be behind; more are lost, as on any switch
LARGEST = 65536
BUFFER = 1 << 20
STOPS = {*keeper.STOPS, keeper.TERMINAL_STOP}


class Peer:
    """Another softrdma, which is host NUMBER."""

    def __init__(self, number: int, place: str, default_port: int):
        self.number = number
        self.place = place
        self.host, self.port = jobs.peer_address(place, default_port)
        self.address: Any = None
        self.ready = self.knows = False  # whether it is ready; and knows that we are

    def resolve(self, family: int) -> None:
        """A name may be known only later, when its container has started."""
        flags = socket.AI_V4MAPPED | socket.AI_ALL if family == socket.AF_INET6 else 0
        with contextlib.suppress(OSError):
            found = socket.getaddrinfo(self.host, self.port, family, socket.SOCK_DGRAM, flags=flags)
            self.address = found[0][4]


class Peers:
    """Our own place among peers."""

    def __init__(self, number: int, peers: List[Peer], port: int, drivers: List[str], wait: float):
        self.number = number
        self.peers = peers
        self.drivers = drivers
        self.wait = wait
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
                    f"cannot listen at UDP port {port}: {problem.strerror}; choose another: --port"
                ) from problem
        _enlarge(self.socket)


class Switch:
    """The process, for the one that started it."""

    def __init__(
        self, undo: keeper.Undo, networks: List[List[socket.socket]], peers: Optional[Peers]
    ):
        """networks: the ports of each, which are ours from now on."""
        self.ours, theirs = socket.socketpair()
        self.peers = peers
        self.began: Optional[float] = None
        self.go = self.noted = False
        # Until the child listens to signals they wait: it must not miss _end(), which waits for it.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)
        self.child = os.fork()
        if self.child == 0:
            self.ours.close()
            _become(networks, peers, theirs)
        undo.callback(self._end)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        theirs.close()
        self.ours.setblocking(False)

    def ready(self) -> bool:
        """Called once our own guests are: whether the peers are, too. Raises what is wrong."""
        if self.began is None:
            self.began = time.monotonic()
            with contextlib.suppress(BrokenPipeError):  # it has ended: it said why, or check() does
                self.ours.send(b"r")
        self.check()
        if not self.peers:
            return True
        if not (self.go or self.noted) and time.monotonic() - self.began > NOTE_SECONDS:
            self.noted = True
            say.note("ready, and waiting for " + _named(self.peers.peers))
        return self.go

    def check(self) -> None:
        with contextlib.suppress(BlockingIOError):
            word = self.ours.recv(LARGEST)
            if word == b"go":
                self.go = True
            else:
                raise LabError(word.decode() or "the switch between the hosts has ended")

    def _end(self) -> None:
        with contextlib.suppress(OSError):
            os.kill(self.child, signal.SIGTERM)
            os.waitpid(self.child, 0)


def _named(peers: List[Peer]) -> str:
    return " and ".join(f"host {peer.number} at {peer.place}" for peer in peers)


def _become(
    networks: List[List[socket.socket]], peers: Optional[Peers], report: socket.socket
) -> NoReturn:
    keeper.die_with_parent()
    for signum in STOPS - {signal.SIGTERM}:  # that one, if it waits already, would be forgotten
        signal.signal(signum, signal.SIG_IGN)
    try:
        _Process(networks, peers, report).serve()
    except LabError as problem:
        report.send(str(problem).encode())
    except Exception:  # noqa: BLE001  (the one that started us has to hear of it)
        report.send(("the switch between the hosts failed:\n" + traceback.format_exc()).encode())
    os._exit(0)


class _Port:
    """One end: frames that wait until it takes them, and where its network's frames go."""

    def __init__(self, network: int, end: socket.socket):
        self.network = network
        self.end = end
        self.waiting: Deque[bytes] = collections.deque(maxlen=QUEUE)


class _Process:
    def __init__(
        self, networks: List[List[socket.socket]], peers: Optional[Peers], report: socket.socket
    ):
        self.report = report
        self.peers = peers
        self.ports: Dict[int, _Port] = {}
        self.by_network: List[List[_Port]] = []
        self.learned: List[Dict[bytes, Any]] = [{} for _ in networks]
        self.poll = select.poll()
        for network, ends in enumerate(networks):
            ports = [_Port(network, end) for end in ends]
            self.by_network.append(ports)
            for port in ports:
                port.end.setblocking(False)
                self.ports[port.end.fileno()] = port
                self.poll.register(port.end, select.POLLIN)
        self.poll.register(report, select.POLLIN)
        if peers:
            peers.socket.setblocking(False)
            self.poll.register(peers.socket, select.POLLIN)
        self.by_address: Dict[Any, Peer] = {}
        self.ready = self.went = self.over = False
        self.ready_since = 0.0
        signal.signal(signal.SIGTERM, self._stop)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)

    def _stop(self, *_: object) -> None:
        if not self.peers:
            os._exit(0)
        self.over = True

    def serve(self) -> None:
        told = 0.0
        while not self.over:
            for source, events in self.poll.poll(HELLO_SECONDS * 1000 if self.peers else 1000):
                if source == self.report.fileno():
                    self.ready, self.ready_since = True, time.monotonic()
                    if not self.report.recv(16):
                        return
                elif self.peers and source == self.peers.socket.fileno():
                    self._from_peers()
                elif events & select.POLLOUT:
                    self._flush(self.ports[source])
                else:
                    self._from_port(self.ports[source])
            if self.peers and time.monotonic() - told >= HELLO_SECONDS:
                told = time.monotonic()
                self._greet()
        for _ in range(FAREWELLS):
            self._tell_all(BYE + (b"1" if self.went else b""))

    def _from_port(self, port: _Port) -> None:
        for _ in range(QUEUE):  # others have their turn
            try:
                frame = port.end.recv(LARGEST)
            except BlockingIOError:
                return
            except OSError:  # its kernel has gone, or does not listen yet
                return
            self._carry(port.network, port, frame)

    def _carry(self, network: int, source: Any, frame: bytes) -> None:
        """To the port or peer that the address was last seen at; else to all but the source."""
        if len(frame) < 14:
            return
        to, sender = frame[:6], frame[6:12]
        learned = self.learned[network]
        if len(learned) < QUEUE or sender in learned:
            learned[sender] = source
        place = None if to[0] & 1 else learned.get(to)
        from_peer = isinstance(source, Peer)
        for other in [place] if place else self.by_network[network]:
            if other is source or (from_peer and isinstance(other, Peer)):
                continue
            if isinstance(other, Peer):
                self._tell(other, FRAME + bytes([network]) + frame)
            else:
                self._put(other, frame)
        if not place and not from_peer and self.peers:
            for peer in self.peers.peers:
                self._tell(peer, FRAME + bytes([network]) + frame)

    def _put(self, port: _Port, frame: bytes) -> None:
        port.waiting.append(frame)
        self._flush(port)

    def _flush(self, port: _Port) -> None:
        try:
            while port.waiting:
                port.end.send(port.waiting[0])
                port.waiting.popleft()
        except BlockingIOError:
            pass
        except OSError:  # nobody is there: lost
            port.waiting.clear()
        wanted = select.POLLIN | (select.POLLOUT if port.waiting else 0)
        self.poll.modify(port.end, wanted)

    def _tell(self, peer: Peer, words: bytes) -> None:
        if self.peers and peer.address:
            with contextlib.suppress(OSError):  # a full queue, or nobody listens yet: lost
                self.peers.socket.sendto(WORD + words, peer.address)

    def _tell_all(self, words: bytes) -> None:
        for peer in self.peers.peers if self.peers else []:
            self._tell(peer, words)

    def _greet(self) -> None:
        """Hello to all who may not know yet how far we are."""
        assert self.peers
        for peer in self.peers.peers:
            if not peer.address:
                peer.resolve(self.peers.socket.family)
                if peer.address:
                    self.by_address[peer.address[:2]] = peer
            self._hello(peer, True)
        if self.ready and not self.went:
            missing = [peer for peer in self.peers.peers if not (peer.ready and peer.knows)]
            if not missing:
                self.went = True
                self.report.send(b"go")
            elif time.monotonic() - self.ready_since > self.peers.wait:
                raise LabError(
                    f"nothing was heard from {_named(missing)} within {self.peers.wait:.0f} s; run softrdma there, too, "
                    f"with --as {missing[0].number} and --peer this machine, or let this one --wait longer"
                )

    def _hello(self, peer: Peer, ask: bool) -> None:
        assert self.peers
        if ask and self.went:
            return
        words = {
            "host": self.peers.number,
            "you": peer.number,
            "hosts": len(self.peers.peers) + 1,
            "drivers": self.peers.drivers,
            "ready": self.ready,
            "knows": peer.ready,
            "ask": ask,
        }
        self._tell(peer, HELLO + json.dumps(words).encode())

    def _from_peers(self) -> None:
        assert self.peers
        for _ in range(QUEUE):
            try:
                data, address = self.peers.socket.recvfrom(LARGEST)
            except BlockingIOError:
                return
            except OSError:  # somebody does not listen yet
                continue
            peer = self.by_address.get(address[:2])
            if not peer or not data.startswith(WORD):
                continue
            kind, body = data[len(WORD) : len(WORD) + 1], data[len(WORD) + 1 :]
            if kind == FRAME and body and body[0] < len(self.learned):
                self._carry(body[0], peer, body[1:])
            elif kind == HELLO:
                self._hear_hello(peer, body)
            elif kind == BYE and body:
                peer.ready = peer.knows = True
            elif kind == BYE and peer.ready and not self.went:
                raise LabError(f"host {peer.number} at {peer.place} has ended before all had begun")

    def _hear_hello(self, peer: Peer, body: bytes) -> None:
        assert self.peers
        try:
            said: Dict[str, Any] = json.loads(body)
            drivers = [str(driver) for driver in said["drivers"]]
            theirs = (said["host"], said["you"], said["hosts"], drivers)
            peer.ready, peer.knows = bool(said["ready"]), bool(said["knows"])
            ask = bool(said["ask"])
        except (ValueError, KeyError, TypeError, RecursionError):
            return
        ours = (peer.number, self.peers.number, len(self.peers.peers) + 1, self.peers.drivers)
        if ask:
            self._hello(peer, False)
        if theirs != ours and not self.went:  # which the other has just been told of, too
            raise LabError(_mismatch(peer, ours, theirs))


def _mismatch(peer: Peer, ours: Any, theirs: Any) -> str:
    who = f"the softrdma at {peer.place}"
    if theirs[0] != ours[0] or theirs[1] != ours[1]:
        return (
            f"{who} says that it is host {theirs[0]} and this one host {theirs[1]}, and not {ours[0]} and {ours[1]}; "
            "give each its number with --as, and its peers in the order of their numbers"
        )
    if theirs[2] != ours[2]:
        return f"{who} knows of {theirs[2]} hosts, this one of {ours[2]}; give each all its peers"
    return f"{who} has --driver {' and '.join(theirs[3])}, this one {' and '.join(ours[3])}; give all the same"


def _enlarge(end: socket.socket) -> None:
    """As far as the system allows: a full one loses what comes."""
    for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
        end.setsockopt(socket.SOL_SOCKET, option, BUFFER)

# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""The hosts of `run --peer` as the switch of one of them sees them: which are ready, what they send.

A host starts when all hosts are ready and each knows that the others are.
peer_protocol.py describes the datagrams.
"""

import collections
import contextlib
import json
import socket
import threading
import time
from typing import Any, Callable, Counter, Dict, List, NamedTuple, Optional, Tuple

from ..core import progress, run_request
from ..core.errors import LabError
from . import peer_protocol
from .peer_protocol import BYE, FRAME, HELLO, NO_SESSION, Drop

STARTED = b"1"
HELLO_INTERVAL_SECONDS = 0.1
LOOKUP_INTERVAL_SECONDS = 1.0
# Before the error that a peer has another number: until then, a hello that was copied from another
# peer's address is known to be of that peer.
MISMATCH_DELAY_SECONDS = 1.0
NUM_BYES = 3
MAX_DRIVERS = 2
MAX_DATAGRAMS_PER_TURN = 1000
SOCKET_BUFFER_BYTES = 1 << 20


class NumberMismatch(NamedTuple):
    """What a peer that has another idea of the numbers said."""

    time: float
    session: bytes
    text: str


class Peer:
    """The switch of another softrdma, which is host NUMBER."""

    link: peer_protocol.Link  # PeerGroup sets it

    def __init__(self, number: int, address: str, default_port: int):
        self.number = number
        self.address = address
        self.host, self.port = run_request.parse_peer_address(address, default_port)
        self.socket_address: Any = None
        self.lookup: Optional[threading.Thread] = None
        self.next_lookup_time = 0.0
        self.found_address: Any = None  # socket_address, from the thread
        self.is_ready = False
        self.knows_ready = False  # the peer knows that this host is ready
        self.has_ended = False
        self.state_sequence = -1  # of the last hello whose state was taken
        self.num_dropped: Counter[Drop] = collections.Counter()
        self.mismatch: Optional[NumberMismatch] = None

    def __str__(self) -> str:
        return f"host {self.number} at {progress.escape(self.address)}"

    def resolve(self, family: int) -> None:
        """Called until the address is known: the name of a container may be known only after its start."""
        if not self.lookup:
            self._look_up(family, socket.AI_NUMERICHOST)  # does not block
        self.socket_address = self.found_address
        is_in_progress = self.lookup and self.lookup.is_alive()
        now = time.monotonic()
        if not (self.socket_address or is_in_progress) and now >= self.next_lookup_time:
            self.next_lookup_time = now + LOOKUP_INTERVAL_SECONDS
            self.lookup = threading.Thread(target=self._look_up, args=(family,), daemon=True)
            self.lookup.start()

    def _look_up(self, family: int, flags: int = 0) -> None:
        if family == socket.AF_INET6:
            flags |= socket.AI_V4MAPPED | socket.AI_ALL
        with contextlib.suppress(OSError):
            infos = socket.getaddrinfo(self.host, self.port, family, socket.SOCK_DGRAM, flags=flags)
            self.found_address = infos[0][4]


def describe_peers(peers: List[Peer]) -> str:
    return " and ".join(str(peer) for peer in peers)


class PeerGroup:
    """The peers, and this host among them."""

    def __init__(
        self,
        local_number: int,
        peers: List[Peer],
        port: int,
        drivers: List[str],
        wait_seconds: float,
        key: bytes,
    ):
        self.local_number = local_number
        self.peers = peers
        self.drivers = drivers
        self.wait_seconds = wait_seconds
        self.session = peer_protocol.make_session()
        authenticator = peer_protocol.Authenticator(key)
        for peer in peers:
            peer.link = peer_protocol.Link(authenticator, local_number, peer.number, self.session)
        self.peer_by_address: Dict[Any, Peer] = {}
        self.is_ready = self.has_started = False
        self.ready_time = self.last_hello_time = 0.0
        self.num_dropped: Counter[Drop] = collections.Counter()
        self.socket = _make_socket(port)

    @property
    def num_hosts(self) -> int:
        return len(self.peers) + 1

    def set_ready(self) -> None:
        self.is_ready, self.ready_time = True, time.monotonic()

    def send_frame(self, peer: Peer, network: int, frame: bytes) -> None:
        if len(frame) <= peer_protocol.MAX_FRAME_BYTES:
            self._send(peer, FRAME, bytes([network]) + frame, peer.link.session)

    def send_byes(self) -> None:
        for _ in range(NUM_BYES):
            for peer in self.peers:
                self._send(peer, BYE, STARTED if self.has_started else b"", peer.link.session)

    def _send(self, peer: Peer, kind: bytes, body: bytes, session: bytes) -> None:
        """session: the peer's. Only a hello is sent if it is unknown."""
        if not peer.socket_address or (session == NO_SESSION and kind != HELLO):
            return
        data = peer.link.seal(kind, body, session)
        with contextlib.suppress(OSError):  # the buffer is full, or the peer does not listen yet
            self.socket.sendto(data, peer.socket_address)

    def send_hellos(self) -> bool:
        """Send this host's state to the peers, until all have started; called often.

        Returns whether all hosts are ready now and were not before; raises if they are not in time.
        """
        now = time.monotonic()
        if now - self.last_hello_time < HELLO_INTERVAL_SECONDS:
            return False
        self.last_hello_time = now
        for peer in self.peers:
            if not peer.socket_address:
                peer.resolve(self.socket.family)
                if peer.socket_address:
                    self.peer_by_address[peer.socket_address[:2]] = peer
            candidate = peer.link.take_candidate()
            if not self.has_started:
                self._check_mismatch(peer, now)
                if peer.link.session != NO_SESSION or not candidate:
                    self._send_hello(peer, True, peer.link.session)
            if candidate:
                self._send_hello(peer, not self.has_started, candidate)
        return self.is_ready and not self.has_started and self._check_all_ready(now)

    def _check_all_ready(self, now: float) -> bool:
        missing = [peer for peer in self.peers if not (peer.is_ready and peer.knows_ready)]
        if not missing:
            self.has_started = True
        elif now - self.ready_time > self.wait_seconds:
            raise LabError(
                _describe_strange_peers(missing) or _describe_missing(missing, self.wait_seconds)
            )
        return self.has_started

    def _check_mismatch(self, peer: Peer, now: float) -> None:
        if not peer.mismatch or now - peer.mismatch.time < MISMATCH_DELAY_SECONDS:
            return
        mismatch, peer.mismatch = peer.mismatch, None
        if not self._knows_session(mismatch.session):
            raise LabError(mismatch.text)

    def _knows_session(self, session: bytes) -> bool:
        """Whether it is, or was, that of any peer."""
        return any(peer.link.knows_session(session) for peer in self.peers)

    def _send_hello(self, peer: Peer, wants_answer: bool, session: bytes) -> None:
        hello = {
            "hosts": self.num_hosts,
            "drivers": self.drivers,
            "ready": self.is_ready,
            # That the peer is ready: the one of this session, not one that was started before.
            "knows": peer.is_ready and session == peer.link.session,
            "ask": wants_answer,
        }
        self._send(peer, HELLO, json.dumps(hello).encode(), session)

    def receive(self, forward_frame: Callable[[int, Peer, bytes], bool]) -> None:
        """Handle datagrams of peers; count all others.

        forward_frame(network, peer, frame): returns whether the frame is valid.
        """
        for _ in range(MAX_DATAGRAMS_PER_TURN):
            try:
                data, address = self.socket.recvfrom(peer_protocol.MAX_BYTES)
            except BlockingIOError:
                return
            except OSError:  # an ICMP error: a peer does not listen yet
                continue
            peer = self.peer_by_address.get(address[:2])
            reason = self._handle_datagram(peer, data, forward_frame) if peer else Drop.ADDRESS
            if reason:
                (peer or self).num_dropped[reason] += 1

    def _handle_datagram(
        self, peer: Peer, data: bytes, forward_frame: Callable[[int, Peer, bytes], bool]
    ) -> Optional[Drop]:
        """Returns the reason if the datagram is dropped."""
        old_session = peer.link.session
        datagram = peer.link.receive(data)
        if datagram is None or isinstance(datagram, Drop):
            return datagram
        if (datagram.sender, datagram.receiver) != (peer.number, self.local_number):
            return self._note_mismatch(peer, datagram)
        if peer.link.session != old_session:
            if peer.mismatch:  # its hello may be sent again
                peer.link.old_sessions.add(peer.mismatch.session)
            peer.mismatch, peer.has_ended, peer.state_sequence = None, False, -1
            if not self.has_started:  # the peer was started again
                peer.is_ready = peer.knows_ready = False
        if datagram.kind == FRAME and len(datagram.body) <= 1 + peer_protocol.MAX_FRAME_BYTES:
            body = datagram.body
            is_valid = bool(body) and forward_frame(body[0], peer, body[1:])
        elif datagram.kind == HELLO:
            is_valid = self._handle_hello(peer, datagram)
        else:
            is_valid = datagram.kind == BYE and datagram.body in (b"", STARTED)
            if is_valid:
                self._handle_bye(peer, datagram.body == STARTED)
        return None if is_valid else Drop.CONTENTS

    def _note_mismatch(self, peer: Peer, datagram: peer_protocol.Datagram) -> Optional[Drop]:
        """A hello of this run with other numbers, from the peer's address. The peer gets hellos, so that it reports it, too."""
        if self.has_started or self._knows_session(datagram.sender_session):
            return Drop.HOST
        peer.link.add_candidate(datagram.sender_session)
        if not peer.mismatch:
            text = (
                f"the softrdma at {progress.escape(peer.address)} says that it is host {datagram.sender} "
                f"and this one host {datagram.receiver}, not {peer.number} and {self.local_number}; "
                "give each its number with --as, and its peers in the order of their numbers"
            )
            peer.mismatch = NumberMismatch(time.monotonic(), datagram.sender_session, text)
        return None

    def _handle_hello(self, peer: Peer, datagram: peer_protocol.Datagram) -> bool:
        """Take over the peer's state. Raises if its idea of the hosts differs. Returns whether it is valid."""
        try:
            hello: Dict[str, Any] = json.loads(datagram.body)
            flags = [hello[name] for name in ("ready", "knows", "ask")]
            num_hosts, drivers = hello["hosts"], hello["drivers"]
            is_valid = all(isinstance(flag, bool) for flag in flags)
            is_valid = (
                is_valid and isinstance(num_hosts, int) and 0 < num_hosts <= run_request.MAX_HOSTS
            )
            is_valid = is_valid and isinstance(drivers, list) and 1 <= len(drivers) <= MAX_DRIVERS
            is_valid = is_valid and all(isinstance(driver, str) for driver in drivers)
        except (ValueError, KeyError, TypeError, RecursionError):
            return False
        if not is_valid:
            return False
        is_ready, knows_ready, wants_answer = flags
        # UDP may change the order.
        if datagram.sequence > peer.state_sequence and not peer.has_ended:
            peer.is_ready, peer.knows_ready = is_ready, knows_ready
            peer.state_sequence = datagram.sequence
        differs = (num_hosts, drivers) != (self.num_hosts, self.drivers) and not self.has_started
        if wants_answer:
            for _ in range(NUM_BYES if differs else 1):  # the peer reports the difference, too
                self._send_hello(peer, False, peer.link.session)
        if differs:
            raise LabError(self._describe_difference(peer, num_hosts, drivers))
        return True

    def _describe_difference(self, peer: Peer, num_hosts: int, drivers: List[str]) -> str:
        subject = f"the softrdma at {progress.escape(peer.address)}"
        if num_hosts != self.num_hosts:
            return f"{subject} has {num_hosts} hosts, this one has {self.num_hosts}; give each all its peers"
        return (
            f"{subject} has --driver {progress.escape(' and '.join(drivers))}, this one {' and '.join(self.drivers)}; "
            "give all the same"
        )

    def _handle_bye(self, peer: Peer, had_started: bool) -> None:
        """Before the start of this host it is an error, unless the peer had started: then all were ready."""
        peer.has_ended = True
        if had_started:
            peer.is_ready = peer.knows_ready = True
        elif peer.is_ready and not self.has_started:
            raise LabError(f"{peer} ended before all hosts had started")

    def describe_dropped(self) -> str:
        """Empty if no datagram was dropped."""
        return describe_dropped(sum((peer.num_dropped for peer in self.peers), self.num_dropped))


def describe_dropped(num_dropped: Counter[Drop]) -> str:
    total = sum(num_dropped.values())
    if not total:
        return ""
    parts = [f"{num_dropped[reason]} {reason.value}" for reason in Drop if num_dropped[reason]]
    return f"dropped {total} datagram{'s' if total > 1 else ''}: " + ", ".join(parts)


def _describe_strange_peers(peers: List[Peer]) -> str:
    """The error for peers of which nothing could be read; empty if there is none."""
    advice: Tuple[Tuple[Drop, str], ...] = (
        (Drop.TAG, "have another key; give both the same --key FILE"),
        (Drop.FORMAT, "are of another version of softrdma; install the same on both"),
    )
    for peer in peers:
        for reason, text in advice:
            if peer.link.session == NO_SESSION and peer.num_dropped[reason]:
                return f"{peer.num_dropped[reason]} datagrams from {peer} {text}"
    return ""


def _describe_missing(peers: List[Peer], wait_seconds: float) -> str:
    """The error for peers that are not ready. Those that sent nothing come first."""
    silent = [peer for peer in peers if peer.link.session == NO_SESSION]
    if silent:
        return (
            f"nothing was received from {describe_peers(silent)} within {wait_seconds:.0f} s; run softrdma there, too, "
            f"with --as {silent[0].number} and --peer this machine, or increase --wait"
        )
    was, is_not = ("was", "is not") if len(peers) == 1 else ("were", "are not")
    return (
        f"{describe_peers(peers)} {was} heard but {is_not} ready within {wait_seconds:.0f} s; "
        "see the messages of softrdma there, or increase --wait"
    )


def _make_socket(port: int) -> socket.socket:
    """Of all addresses, IPv6 and IPv4 if the system has both."""
    try:
        udp_socket = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
        udp_socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        udp_socket.bind(("::", port))
    except OSError:
        udp_socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            udp_socket.bind(("", port))
        except OSError as problem:
            raise LabError(
                f"cannot listen on UDP port {port}: {problem.strerror}; choose another with --port"
            ) from problem
    # As far as the system allows; a full buffer drops datagrams.
    for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
        udp_socket.setsockopt(socket.SOL_SOCKET, option, SOCKET_BUFFER_BYTES)
    udp_socket.setblocking(False)
    return udp_socket

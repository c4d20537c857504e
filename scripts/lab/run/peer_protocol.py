# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""The datagrams between the switches of `run --peer`: their format, and which are accepted.

A datagram, in network byte order:

 9 bytes  MAGIC: the protocol and its version
 1        the sender's host number
 1        the receiver's host number
 8        the sender's session, random in each run
 8        the receiver's session as the sender knows it, or zeros
 8        the sequence number, which the sender increases for each datagram to this receiver
 1        the kind
          the body
16        the tag: BLAKE2b of all that precedes, with the key that the hosts share

Kinds:

h  hello: the sender's state, as JSON; repeated until all hosts have started
b  bye: the sender ends; the body is 1 if it had started
f  an Ethernet frame, after the number of its network (1 byte)

The receiver drops datagrams whose tag is wrong. All others were made with the
key, but perhaps in an earlier run: they are accepted only if they name the
receiver's session of this run. A switch learns the peer's session from a hello
and names it in its next hello, which makes the peer accept that one, and so on.
A hello that does not name the receiver's session therefore has one effect: at
most one hello in HELLO_INTERVAL_SECONDS names its sender's session. If several
are received, which happens if old ones are sent again, one is chosen at random.

The first accepted datagram of another session replaces the session of the peer,
which was started again; the old session is not accepted again. In a session
each sequence number is accepted once, and only if it is less than WINDOW_SIZE
below the highest one, since UDP may change the order.

The tag does not encrypt: all on the path can read the frames. All hosts have
the same key: one that can send from the address of another (a forged source
address) can send in its name, too.
"""

import enum
import hashlib
import hmac
import os
import random
import struct
from typing import NamedTuple, Optional, Set, Union

MAGIC = b"softrdma2"
HELLO, BYE, FRAME = b"h", b"b", b"f"
HEADER = struct.Struct("!9sBB8s8sQc")
TAG_BYTES = 16
SESSION_BYTES = 8
NO_SESSION = bytes(SESSION_BYTES)
WINDOW_SIZE = 1024
MAX_SESSIONS = 1000  # of a peer in a run; later ones are dropped
MAX_CANDIDATES = 16

# With all headers a frame and the tag of a VLAN fit into an IPv6 packet of 1500 bytes.
MTU = 1380
MAX_FRAME_BYTES = MTU + 14 + 4
IPV6_AND_UDP_HEADER_BYTES = 48
MIN_BYTES = HEADER.size + TAG_BYTES
MAX_BYTES = 2048  # longer datagrams are truncated: their tag is wrong


class Drop(enum.Enum):
    """Why a datagram is dropped: a text that follows their number."""

    ADDRESS = "from other addresses"
    FORMAT = "of another version or too short"
    TAG = "with a wrong tag"
    HOST = "of or for another host"
    SESSION = "of another run"
    REPLAY = "received before"
    CONTENTS = "with invalid contents"


class Datagram(NamedTuple):
    magic: bytes
    sender: int
    receiver: int
    sender_session: bytes
    receiver_session: bytes
    sequence: int
    kind: bytes
    body: bytes


def make_session() -> bytes:
    return os.urandom(SESSION_BYTES)


class Authenticator:
    """Adds the tag to datagrams and checks it."""

    def __init__(self, key: bytes):
        # HMAC-SHA256 is as fast only if the processor has instructions for SHA:
        # tests/bench/peer_tags.py.
        self._keyed_hash = hashlib.blake2b(digest_size=TAG_BYTES, key=key, person=b"softrdma2 peer")

    def _make_tag(self, data: bytes) -> bytes:
        keyed_hash = self._keyed_hash.copy()
        keyed_hash.update(data)
        return keyed_hash.digest()

    def seal_datagram(
        self,
        sender: int,
        receiver: int,
        sender_session: bytes,
        receiver_session: bytes,
        sequence: int,
        kind: bytes,
        body: bytes,
    ) -> bytes:
        data = (
            HEADER.pack(MAGIC, sender, receiver, sender_session, receiver_session, sequence, kind)
            + body
        )
        return data + self._make_tag(data)

    def open_datagram(self, data: bytes) -> Union[Datagram, Drop]:
        if len(data) < MIN_BYTES or not data.startswith(MAGIC):
            return Drop.FORMAT
        tagged = data[:-TAG_BYTES]
        if not hmac.compare_digest(self._make_tag(tagged), data[-TAG_BYTES:]):
            return Drop.TAG
        fields = *HEADER.unpack_from(tagged), tagged[HEADER.size :]
        return Datagram._make(fields)


class ReplayWindow:
    """The sequence numbers that were received."""

    def __init__(self) -> None:
        self.highest = -1
        self.received = 0  # bit N: highest - N

    def accept(self, sequence: int) -> bool:
        """Whether the number is new; then it is received now."""
        distance = self.highest - sequence
        if distance < 0:
            shift = min(-distance, WINDOW_SIZE)
            self.received = (self.received << shift | 1) & ((1 << WINDOW_SIZE) - 1)
            self.highest = sequence
            return True
        if distance >= WINDOW_SIZE or self.received >> distance & 1:
            return False
        self.received |= 1 << distance
        return True


class Link:
    """The datagrams between this host and one peer."""

    def __init__(
        self,
        authenticator: Authenticator,
        local_number: int,
        peer_number: int,
        local_session: bytes,
    ):
        self.authenticator = authenticator
        self.local_number = local_number
        self.peer_number = peer_number
        self.local_session = local_session
        self.session = NO_SESSION  # the peer's, from an accepted datagram
        self.old_sessions: Set[bytes] = {NO_SESSION}
        self.candidates: Set[bytes] = set()  # sessions of hellos that do not name this host's
        self.window = ReplayWindow()
        self.num_sent = 0

    def seal(self, kind: bytes, body: bytes, peer_session: bytes) -> bytes:
        self.num_sent += 1
        return self.authenticator.seal_datagram(
            self.local_number,
            self.peer_number,
            self.local_session,
            peer_session,
            self.num_sent,
            kind,
            body,
        )

    def receive(self, data: bytes) -> Union[Datagram, Drop, None]:
        """None: a hello that does not name this host's session, from a peer that does not know it yet.

        A hello of or for another host number is returned without a change of state if it names this
        host's session: the caller compares the numbers.
        """
        datagram = self.authenticator.open_datagram(data)
        if isinstance(datagram, Drop):
            return datagram
        if datagram.receiver_session != self.local_session:
            if datagram.kind != HELLO:
                return Drop.SESSION
            self.add_candidate(datagram.sender_session)
            return None if datagram.receiver_session == NO_SESSION else Drop.SESSION
        if (datagram.sender, datagram.receiver) != (self.peer_number, self.local_number):
            return datagram if datagram.kind == HELLO else Drop.HOST
        if datagram.sender_session != self.session:
            is_old = datagram.sender_session in self.old_sessions
            if is_old or len(self.old_sessions) >= MAX_SESSIONS:
                return Drop.SESSION
            self.old_sessions.add(self.session)
            self.session, self.window = datagram.sender_session, ReplayWindow()
        return datagram if self.window.accept(datagram.sequence) else Drop.REPLAY

    def knows_session(self, session: bytes) -> bool:
        """Whether it is, or was, the peer's session; or that of a hello with other numbers."""
        return session == self.session or session in self.old_sessions

    def add_candidate(self, session: bytes) -> None:
        """A session that a hello is to name. If there are too many, it replaces any of them."""
        if session == self.local_session or self.knows_session(session):
            return
        if len(self.candidates) >= MAX_CANDIDATES and session not in self.candidates:
            self.candidates.remove(random.choice(list(self.candidates)))
        self.candidates.add(session)

    def take_candidate(self) -> Optional[bytes]:
        """One of the candidates, at random; all are removed."""
        self.candidates.discard(self.session)
        candidates, self.candidates = list(self.candidates), set()
        return random.choice(candidates) if candidates else None

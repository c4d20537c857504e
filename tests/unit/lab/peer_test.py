#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""run --peer: the datagrams, the start of the hosts, and the frames of peers."""

import os
import random
import signal
import socket
import sys
import time
import unittest
from typing import List, Optional, Tuple

TEST_FOLDER = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, os.path.join(TEST_FOLDER, "..", "..", "..", "scripts"))
sys.dont_write_bytecode = True

from lab.core import supervisor  # noqa: E402
from lab.core.errors import LabError  # noqa: E402
from lab.run import peer_group, peer_protocol, switch  # noqa: E402
from lab.run.peer_group import Peer, PeerGroup  # noqa: E402
from lab.run.peer_protocol import BYE, FRAME, HELLO, Datagram, Drop, Link  # noqa: E402

KEY, OTHER_KEY = bytes(range(32)), bytes(32)
NUM_RANDOM = 100_000
SHORT_WAIT_SECONDS = 1.0  # enough to hear a peer on a busy machine


def make_links(key: bytes = KEY) -> Tuple[Link, Link]:
    """Of host 1 and of host 2, which know the session of the other."""
    sessions = [peer_protocol.make_session() for _ in range(2)]
    first = Link(peer_protocol.Authenticator(KEY), 1, 2, sessions[0])
    second = Link(peer_protocol.Authenticator(key), 2, 1, sessions[1])
    return first, second


class Protocol(unittest.TestCase):
    def setUp(self) -> None:
        self.local, self.remote = make_links()

    def seal(self, kind: bytes = FRAME, body: bytes = b"\0frame") -> bytes:
        return self.remote.seal(kind, body, self.local.local_session)

    def expect_frame(self, data: bytes) -> None:
        datagram = self.local.receive(data)
        assert isinstance(datagram, Datagram)
        self.assertEqual((datagram.kind, datagram.body), (FRAME, b"\0frame"))

    def test_frame_is_received(self) -> None:
        self.expect_frame(self.seal())

    def test_frame_fits_into_packet_of_ipv6(self) -> None:
        data = self.seal(FRAME, bytes(1 + peer_protocol.MAX_FRAME_BYTES))
        self.assertLessEqual(len(data) + peer_protocol.IPV6_AND_UDP_HEADER_BYTES, 1500)

    def test_each_flipped_bit_is_detected(self) -> None:
        data = self.seal()
        for position in range(8 * len(data)):
            flipped = bytearray(data)
            flipped[position // 8] ^= 1 << position % 8
            reason = Drop.FORMAT if position // 8 < len(peer_protocol.MAGIC) else Drop.TAG
            self.assertEqual(self.local.receive(bytes(flipped)), reason, position)
        self.expect_frame(data)

    def test_each_other_length_is_detected(self) -> None:
        data = self.seal()
        for length in range(len(data)):
            self.assertIn(self.local.receive(data[:length]), (Drop.FORMAT, Drop.TAG))
        self.assertEqual(self.local.receive(data + b"\0"), Drop.TAG)
        self.expect_frame(data)

    def test_random_datagrams_are_dropped(self) -> None:
        source = random.Random(1)
        for number in range(NUM_RANDOM):
            data = source.randbytes(source.randrange(200))
            if number % 2:
                data = peer_protocol.MAGIC + data
            self.assertIn(self.local.receive(data), (Drop.FORMAT, Drop.TAG))
        self.assertFalse(self.local.candidates)
        self.expect_frame(self.seal())

    def test_other_key_is_detected(self) -> None:
        for kind in (HELLO, BYE, FRAME):
            _, other = make_links(OTHER_KEY)
            data = other.seal(kind, b"", self.local.local_session)
            self.assertEqual(self.local.receive(data), Drop.TAG)

    def test_datagram_for_or_of_another_host_is_dropped(self) -> None:
        authenticator = peer_protocol.Authenticator(KEY)
        for sender, receiver in ((2, 3), (3, 1), (1, 2)):
            other = Link(authenticator, sender, receiver, self.remote.local_session)
            for kind in (BYE, FRAME):
                data = other.seal(kind, b"", self.local.local_session)
                self.assertEqual(self.local.receive(data), Drop.HOST)
        self.assertEqual(self.local.session, peer_protocol.NO_SESSION)

    def test_reflected_datagram_is_dropped(self) -> None:
        for session in (self.remote.local_session, peer_protocol.NO_SESSION):
            for kind in (HELLO, BYE, FRAME):
                reflected = self.local.receive(self.local.seal(kind, b"", session))
                self.assertIn(reflected, (Drop.SESSION, None))
        self.assertFalse(self.local.candidates)

    def test_datagrams_of_an_earlier_run_have_no_effect(self) -> None:
        earlier_local, earlier_remote = make_links()
        for session in (earlier_local.local_session, peer_protocol.NO_SESSION):
            for kind in (BYE, FRAME):
                data = earlier_remote.seal(kind, b"", session)
                self.assertEqual(self.local.receive(data), Drop.SESSION)
        self.assertFalse(self.local.candidates)
        data = earlier_remote.seal(HELLO, b"", earlier_local.local_session)
        self.assertEqual(self.local.receive(data), Drop.SESSION)
        data = earlier_remote.seal(HELLO, b"", peer_protocol.NO_SESSION)
        self.assertIsNone(self.local.receive(data))
        # The hello may be of a peer that does not know this host yet: its session is named once.
        self.assertEqual(self.local.take_candidate(), earlier_remote.local_session)
        self.assertIsNone(self.local.take_candidate())
        self.assertEqual(self.local.session, peer_protocol.NO_SESSION)

    def test_many_sessions_of_earlier_runs_do_not_exclude_the_peer(self) -> None:
        sessions = set()
        for _ in range(1000):
            for _ in range(100):
                _, earlier = make_links()
                self.local.receive(earlier.seal(HELLO, b"", peer_protocol.NO_SESSION))
            self.local.receive(self.remote.seal(HELLO, b"", peer_protocol.NO_SESSION))
            self.assertLessEqual(len(self.local.candidates), peer_protocol.MAX_CANDIDATES)
            sessions.add(self.local.take_candidate())
            if self.remote.local_session in sessions:
                return
        self.fail("the session of the peer was not named")

    def test_each_datagram_is_accepted_once_in_any_order(self) -> None:
        data = [self.seal() for _ in range(500)]
        random.Random(1).shuffle(data)
        for datagram in data:
            self.expect_frame(datagram)
        for datagram in data:
            self.assertEqual(self.local.receive(datagram), Drop.REPLAY)

    def test_window_accepts_as_a_set_of_numbers(self) -> None:
        source = random.Random(1)
        window, received, highest = peer_protocol.ReplayWindow(), set(), -1
        for step in range(50_000):
            middle = step // 10
            number = max(0, middle + source.randrange(-2000, 2000 if step % 100 else 5000))
            expected = number not in received and number > highest - peer_protocol.WINDOW_SIZE
            self.assertEqual(window.accept(number), expected)
            received.add(number)
            highest = max(highest, number)

    def test_peer_that_was_started_again_replaces_its_session(self) -> None:
        old_data = self.seal()
        self.expect_frame(self.seal())
        authenticator = peer_protocol.Authenticator(KEY)
        again = Link(authenticator, 2, 1, peer_protocol.make_session())
        self.expect_frame(again.seal(FRAME, b"\0frame", self.local.local_session))
        self.assertEqual(self.local.session, again.local_session)
        self.assertEqual(self.local.receive(old_data), Drop.SESSION)
        self.assertEqual(self.local.receive(self.seal()), Drop.SESSION)
        self.assertEqual(self.local.session, again.local_session)

    def test_number_of_sessions_is_limited(self) -> None:
        authenticator = peer_protocol.Authenticator(KEY)
        for _ in range(2 * peer_protocol.MAX_SESSIONS):
            again = Link(authenticator, 2, 1, peer_protocol.make_session())
            self.local.receive(again.seal(FRAME, b"", self.local.local_session))
        self.assertEqual(len(self.local.old_sessions), peer_protocol.MAX_SESSIONS)


class Network(unittest.TestCase):
    """Hosts with real sockets, at 127.0.0.N."""

    def setUp(self) -> None:
        self.frames: List[bytes] = []

    def make_host(
        self,
        number: int,
        num_hosts: int = 2,
        key: bytes = KEY,
        drivers: Tuple[str, ...] = ("rxe",),
        local_number: Optional[int] = None,
        wait_seconds: float = 60,
    ) -> PeerGroup:
        """local_number: that of the address is another."""
        numbers = [other for other in range(1, num_hosts + 1) if other != (local_number or number)]
        others = [other for other in range(1, num_hosts + 1) if other != number]
        peers = [Peer(peer, "127.0.0.1", 5100 + other) for peer, other in zip(numbers, others)]
        group = PeerGroup(
            local_number or number, peers, 5100 + number, list(drivers), wait_seconds, key
        )
        self.addCleanup(group.socket.close)
        return group

    def take_frame(self, network: int, _peer: Peer, frame: bytes) -> bool:
        self.frames.append(frame)
        return network == 0

    def step(self, *hosts: PeerGroup) -> None:
        """Let all send hellos and handle what they receive."""
        for host in hosts:
            host.last_hello_time = 0
            host.send_hellos()
        for host in hosts:
            host.receive(self.take_frame)

    def start(self, *hosts: PeerGroup) -> None:
        for host in hosts:
            host.set_ready()
        for _ in range(10):
            self.step(*hosts)
        self.assertTrue(all(host.has_started for host in hosts))

    def send_as(self, host: PeerGroup, target: PeerGroup, data: bytes) -> None:
        """Send from the address of the host, which the attacker forges."""
        address = "::ffff:127.0.0.1" if host.socket.family == socket.AF_INET6 else "127.0.0.1"
        host.socket.sendto(data, (address, target.socket.getsockname()[1]))

    def capture(self, host: PeerGroup) -> List[bytes]:
        """What the host has been sent and has not received."""
        data = []
        try:
            while True:
                data.append(host.socket.recv(peer_protocol.MAX_BYTES))
        except BlockingIOError:
            return data


class Hosts(Network):
    def test_three_hosts_start_and_drop_nothing(self) -> None:
        hosts = [self.make_host(number, 3) for number in (1, 2, 3)]
        self.start(*hosts)
        for host in hosts:
            for peer in host.peers:
                host.send_frame(peer, 0, b"frame")
        self.step(*hosts)
        self.assertEqual(self.frames, [b"frame"] * 6)
        self.assertEqual([host.describe_dropped() for host in hosts], [""] * 3)

    def test_host_does_not_start_before_all_are_ready(self) -> None:
        first, second = self.make_host(1), self.make_host(2)
        first.set_ready()
        for _ in range(20):
            self.step(first, second)
        self.assertFalse(first.has_started)

    def test_forged_hellos_byes_and_frames_have_no_effect(self) -> None:
        first, second = self.make_host(1), self.make_host(2)
        first.set_ready()
        self.step(first, second)
        body = b'{"hosts": 2, "drivers": ["rxe"], "ready": true, "knows": true, "ask": true}'
        for session in (first.session, peer_protocol.NO_SESSION):
            for kind, contents in ((HELLO, body), (BYE, b""), (BYE, b"1"), (FRAME, b"\0frame")):
                forger = Link(peer_protocol.Authenticator(OTHER_KEY), 2, 1, second.session)
                self.send_as(second, first, forger.seal(kind, contents, session))
                self.send_as(second, first, b"softrdma1" + kind + contents)
        self.step(first)
        self.assertFalse(first.has_started or first.peers[0].is_ready or self.frames)
        self.assertEqual(
            first.describe_dropped(),
            "dropped 16 datagrams: 8 of another version or too short, 8 with a wrong tag",
        )
        self.start(first, second)

    def test_random_datagrams_are_counted_and_frames_still_pass(self) -> None:
        first, second = self.make_host(1), self.make_host(2)
        self.start(first, second)
        source = random.Random(1)
        num_sent = 0
        while num_sent < NUM_RANDOM:
            for _ in range(100):
                prefix = peer_protocol.MAGIC if num_sent % 2 else b""
                self.send_as(second, first, prefix + source.randbytes(source.randrange(100)))
                num_sent += 1
            first.receive(self.take_frame)
        self.assertIn(f"dropped {NUM_RANDOM} datagrams: ", first.describe_dropped())
        second.send_frame(second.peers[0], 0, b"frame")
        first.receive(self.take_frame)
        self.assertEqual(self.frames, [b"frame"])

    def test_datagrams_of_this_run_that_are_sent_again_have_no_effect(self) -> None:
        first, second = self.make_host(1), self.make_host(2)
        self.step(first, second)
        second.set_ready()
        captured = []
        for _ in range(5):
            for host in (first, second):
                host.last_hello_time = 0
                host.send_hellos()
            second.send_frame(second.peers[0], 0, b"frame")
            captured += (data := self.capture(first))
            for datagram in data:
                self.send_as(second, first, datagram)
            self.step(first, second)
        num_frames = len(self.frames)
        self.assertGreater(num_frames, 0)
        for datagram in captured:
            self.send_as(second, first, datagram)
        self.step(first)
        self.assertEqual(len(self.frames), num_frames)
        self.assertGreater(first.peers[0].num_dropped[Drop.REPLAY], num_frames)
        self.start(first, second)

    def test_datagrams_of_an_earlier_run_neither_start_nor_end_a_run(self) -> None:
        first, second = self.make_host(1), self.make_host(2)
        captured = []
        for host in (first, second):
            host.set_ready()
        for _ in range(10):
            for host in (first, second):
                host.last_hello_time = 0
                host.send_hellos()
            second.send_frame(second.peers[0], 0, b"frame")
            captured += (data := self.capture(first))
            for datagram in data:
                self.send_as(second, first, datagram)
            self.step(first, second)
        second.send_byes()
        second.has_started = False
        second.send_byes()
        captured += self.capture(first)
        self.assertGreater(len(captured), 15)
        first.socket.close()
        self.frames.clear()

        first = self.make_host(1)
        first.set_ready()
        for _ in range(3):
            self.step(first)
            self.capture(second)
            for datagram in captured:
                self.send_as(second, first, datagram)
            first.receive(self.take_frame)
        self.assertFalse(first.has_started or first.peers[0].is_ready or self.frames)
        # Many hellos have one answer, in the next interval.
        self.step(first)
        self.assertEqual(len(self.capture(second)), 1)
        self.assertIn("of another run", first.describe_dropped())

    def test_hellos_of_an_earlier_run_are_answered_at_the_rate_of_hellos(self) -> None:
        first, second = self.make_host(1), self.make_host(2)
        self.start(first, second)
        self.capture(second)
        _, earlier = make_links()
        begin = time.monotonic()
        num_sent = 0
        while time.monotonic() < begin + 0.55 or num_sent <= 100:
            self.send_as(second, first, earlier.seal(HELLO, b"", peer_protocol.NO_SESSION))
            num_sent += 1
            first.send_hellos()
            first.receive(self.take_frame)
        num_answers = len(self.capture(second))
        most = 1 + (time.monotonic() - begin) / peer_group.HELLO_INTERVAL_SECONDS
        self.assertTrue(1 <= num_answers <= most, num_answers)

    def test_hello_that_is_sent_again_is_not_answered(self) -> None:
        first, second = self.make_host(1), self.make_host(2)
        for _ in range(5):
            self.step(first, second)
        second.last_hello_time = 0
        second.send_hellos()
        (hello,) = self.capture(first)[-1:]
        for _ in range(50):
            self.send_as(second, first, hello)
        self.capture(second)
        first.receive(self.take_frame)
        self.assertEqual(len(self.capture(second)), 1)

    def test_bye_of_a_peer_before_the_start_is_an_error(self) -> None:
        first, second = self.make_host(1), self.make_host(2)
        second.set_ready()
        for _ in range(5):
            self.step(first, second)
        second.has_started = False
        second.send_byes()
        with self.assertRaisesRegex(LabError, "host 2 at .* ended before all hosts had started"):
            first.receive(self.take_frame)

    def test_peer_is_accepted_when_it_is_started_again(self) -> None:
        first, second = self.make_host(1), self.make_host(2)
        second.set_ready()
        for _ in range(5):
            self.step(first, second)
        self.assertTrue(first.peers[0].is_ready)
        second.socket.close()
        second = self.make_host(2)
        for _ in range(5):
            self.step(first, second)
        self.assertFalse(first.peers[0].is_ready)
        self.start(first, second)
        second.socket.close()  # after the start, too
        second = self.make_host(2)
        second.set_ready()
        for _ in range(10):
            self.step(first, second)
        self.assertTrue(second.has_started)

    def test_state_of_a_peer_that_was_started_again_is_taken(self) -> None:
        first, second = self.make_host(1), self.make_host(2)
        for _ in range(50):
            self.step(first, second)
        second.send_byes()
        first.receive(self.take_frame)
        second.socket.close()
        self.start(first, self.make_host(2))

    def deliver(self, source: PeerGroup, target: PeerGroup, *data: bytes) -> None:
        for datagram in data:
            self.send_as(source, target, datagram)
        target.receive(self.take_frame)

    def test_state_of_an_earlier_hello_that_arrives_later_is_not_taken(self) -> None:
        first, second = self.make_host(1), self.make_host(2)
        for _ in range(5):
            self.step(first, second)
        earlier = self.capture_hello(second, first)
        second.set_ready()
        self.deliver(second, first, self.capture_hello(second, first), earlier)
        self.assertTrue(first.peers[0].is_ready)

    def test_state_of_a_hello_that_arrives_after_the_bye_is_not_taken(self) -> None:
        first, second = self.make_host(1), self.make_host(2)
        for _ in range(5):
            self.step(first, second)
        earlier = self.capture_hello(second, first)
        second.set_ready()
        ready = self.capture_hello(second, first)
        for has_started, hello in ((False, ready), (True, earlier)):
            second.has_started = has_started
            second.send_byes()
            self.deliver(second, first, hello)
            self.assertEqual(first.peers[0].is_ready, has_started)
            self.assertEqual(first.peers[0].knows_ready, has_started)

    def test_host_that_was_started_again_is_not_known_to_be_ready(self) -> None:
        first, second = self.make_host(1), self.make_host(2)
        first.set_ready()
        for _ in range(5):
            self.step(first, second)
        self.assertTrue(second.peers[0].is_ready)
        first.socket.close()
        first = self.make_host(1)
        for host in (first, second):
            host.set_ready()
        for _ in range(3):  # the hellos that name the session of the second host are lost
            first.last_hello_time = 0
            first.send_hellos()
            if first.peers[0].link.session == peer_protocol.NO_SESSION:
                second.receive(self.take_frame)
            self.capture(second)
            self.deliver(second, first, self.capture_hello(second, first))
        self.assertEqual(first.peers[0].link.session, second.session)
        self.assertTrue(first.peers[0].is_ready)
        self.assertFalse(first.peers[0].knows_ready or first.has_started)
        self.start(first, second)

    def test_after_the_start_no_peer_ends_the_run(self) -> None:
        first, second = self.make_host(1), self.make_host(2)
        self.start(first, second)
        for drivers in (["siw"], ["rxe", "siw"]):
            second.drivers = drivers
            second._send_hello(second.peers[0], True, first.session)
        for has_started in (False, True):
            second.has_started = has_started
            second.send_byes()
            self.deliver(second, first)
        self.step(first)
        self.assertTrue(first.has_started)
        self.assertEqual(first.describe_dropped(), "")

    def test_datagrams_from_another_address_are_dropped(self) -> None:
        first, second = self.make_host(1), self.make_host(2)
        self.start(first, second)
        link = second.peers[0].link
        other = self.make_host(3, 3)
        frame = link.seal(FRAME, b"\0frame", first.session)
        self.deliver(other, first, frame, link.seal(HELLO, b"", first.session), b"")
        self.assertEqual(self.frames, [])
        self.assertEqual(first.describe_dropped(), "dropped 3 datagrams: 3 from other addresses")
        self.deliver(second, first, frame)
        self.assertEqual(self.frames, [b"frame"])

    def expect_error(self, text: str, *hosts: PeerGroup) -> None:
        """Of each host."""
        for host in hosts:
            host.set_ready()
        errors = []
        deadline = time.monotonic() + 10
        running = list(hosts)
        while running and time.monotonic() < deadline:
            for host in list(running):
                try:
                    self.step(host)
                except LabError as problem:
                    errors.append(str(problem))
                    running.remove(host)
            time.sleep(0.01)
        self.assertEqual(len(errors), len(hosts))
        for error in errors:
            self.assertIn(text, error)

    def test_differences_are_errors_of_both(self) -> None:
        self.expect_error("has --driver", self.make_host(1), self.make_host(2, drivers=("siw",)))

    def test_other_number_of_hosts_is_an_error_of_both(self) -> None:
        hosts = self.make_host(1), self.make_host(2, num_hosts=3)
        self.expect_error("hosts, this one has", *hosts)

    def test_other_numbers_are_an_error_of_both(self) -> None:
        hosts = self.make_host(1), self.make_host(2, local_number=1)
        self.expect_error("give each its number with --as", *hosts)

    def test_hello_of_another_peer_from_a_peers_address_is_no_error(self) -> None:
        first, second, third = hosts = [self.make_host(number, 3) for number in (1, 2, 3)]
        first.set_ready()
        deadline = time.monotonic() + peer_group.MISMATCH_DELAY_SECONDS + 0.5
        while time.monotonic() < deadline:
            third.last_hello_time = 0
            third.send_hellos()
            data = self.capture(first)
            for datagram in data:  # from the address of the second host first
                self.send_as(second, first, datagram)
            first.receive(self.take_frame)
            for datagram in data:
                self.send_as(third, first, datagram)
            self.step(*hosts)
            time.sleep(0.02)
        self.assertGreater(first.peers[0].num_dropped[Drop.HOST], 0)
        self.start(*hosts)

    def end_delay(self, host: PeerGroup) -> None:
        """As if MISMATCH_DELAY_SECONDS had passed."""
        for peer in host.peers:
            if peer.mismatch:
                peer.mismatch = peer.mismatch._replace(time=0)
        host.last_hello_time = 0
        host.send_hellos()

    def capture_hello(self, source: PeerGroup, target: PeerGroup) -> bytes:
        """The last hello from source that names the session of the target, which does not get it."""
        self.capture(target)
        source.last_hello_time = 0
        source.send_hellos()
        return self.capture(target)[-1]

    def test_hello_of_a_peer_that_another_address_sent_first_is_no_error(self) -> None:
        first, second, third = (self.make_host(number, 3) for number in (1, 2, 3))
        self.step(first, third)
        hello = self.capture_hello(third, first)
        self.send_as(second, first, hello)
        first.receive(self.take_frame)
        self.assertIsNotNone(first.peers[0].mismatch)
        self.send_as(third, first, hello)
        first.receive(self.take_frame)
        self.end_delay(first)
        self.assertIsNone(first.peers[0].mismatch)

    def test_hello_of_a_former_session_from_another_address_is_no_error(self) -> None:
        first, second, third = hosts = [self.make_host(number, 3) for number in (1, 2, 3)]
        for _ in range(5):
            self.step(*hosts)
        hello = self.capture_hello(third, first)
        third.socket.close()
        third = self.make_host(3, 3)
        for _ in range(5):
            self.step(first, second, third)
        self.send_as(second, first, hello)
        first.receive(self.take_frame)
        self.end_delay(first)
        self.start(first, second, third)

    def test_session_that_ends_during_the_delay_is_no_error(self) -> None:
        first, second, third = (self.make_host(number, 3) for number in (1, 2, 3))
        self.step(first, third)
        hello = self.capture_hello(third, first)
        self.send_as(second, first, hello)
        self.send_as(third, first, hello)
        first.receive(self.take_frame)
        third.socket.close()
        third = self.make_host(3, 3)
        for _ in range(5):
            self.step(first, third)
        self.assertEqual(first.peers[1].link.session, third.session)
        self.end_delay(first)
        self.start(first, second, third)

    def test_hello_with_a_number_that_was_corrected_is_no_error(self) -> None:
        first, wrong = self.make_host(1, 3), self.make_host(2, 3, local_number=3)
        self.step(first, wrong)
        hello = self.capture_hello(wrong, first)
        self.send_as(wrong, first, hello)
        first.receive(self.take_frame)
        self.assertIsNotNone(first.peers[0].mismatch)
        wrong.socket.close()
        second, third = self.make_host(2, 3), self.make_host(3, 3)
        for _ in range(5):
            self.step(first, second, third)
        self.send_as(second, first, hello)
        first.receive(self.take_frame)
        self.end_delay(first)
        self.start(first, second, third)

    def test_other_key_is_named_when_the_time_is_over(self) -> None:
        first = self.make_host(1, wait_seconds=SHORT_WAIT_SECONDS)
        second = self.make_host(2, key=OTHER_KEY)
        with self.assertRaisesRegex(
            LabError, r"^\d+ datagrams from host 2 at .* another key; .*--key FILE$"
        ):
            self.wait_for_error(first, second)

    def test_absent_peer_is_named_when_the_time_is_over(self) -> None:
        with self.assertRaisesRegex(
            LabError, "^nothing was received from host 2 at 127.0.0.1 within"
        ):
            self.wait_for_error(self.make_host(1, wait_seconds=SHORT_WAIT_SECONDS))

    def test_peer_that_is_not_ready_is_named_when_the_time_is_over(self) -> None:
        first, second = self.make_host(1, wait_seconds=SHORT_WAIT_SECONDS), self.make_host(2)
        first.set_ready()
        deadline = time.monotonic() + 10
        with self.assertRaisesRegex(
            LabError, "^host 2 at 127.0.0.1 was heard but is not ready within 1 s; .*--wait$"
        ):
            while time.monotonic() < deadline:
                self.step(first, second)
                time.sleep(0.05)

    def test_peer_that_is_not_heard_is_named_before_one_that_is_not_ready(self) -> None:
        first, second = self.make_host(1, 3, wait_seconds=SHORT_WAIT_SECONDS), self.make_host(2, 3)
        first.set_ready()
        deadline = time.monotonic() + 10
        with self.assertRaisesRegex(LabError, "^nothing was received from host 3 at 127.0.0.1 w"):
            while time.monotonic() < deadline:
                self.step(first, second)
                time.sleep(0.05)

    def wait_for_error(self, *hosts: PeerGroup) -> None:
        for host in hosts:
            host.set_ready()
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            for host in hosts:
                self.step(host)
            time.sleep(0.05)

    def test_invalid_contents_of_a_peer_are_counted(self) -> None:
        first, second = self.make_host(1), self.make_host(2)
        self.start(first, second)
        link = second.peers[0].link
        valid = b'"drivers": ["rxe"], "ready": true, "knows": true, "ask": false'
        bodies = [
            (HELLO, body)
            for body in (b"", b"[", b"[" * 1900, b"{}", b"1", b"\xff", b'{"hosts": 1e9, %s}' % valid,
                         b'{"hosts": %s, %s}' % (b"9" * 1500, valid), b'{"hosts": null, %s}' % valid,
                         *(b'{"hosts": 2, "drivers": %s, "ready": true, "knows": true, "ask": false}' % drivers
                           for drivers in (b"7", b'"rxe"', b"[]", b'["a", "b", "c"]', b'{"rxe": 1}')),
                         b'{"hosts": 2, "drivers": ["rxe"], "ready": 1, "knows": 1, "ask": 1}')
        ]  # fmt: skip
        bodies += [
            (BYE, b"2"),
            (b"x", b""),
            (FRAME, b""),
            (FRAME, b"\7frame"),
            (FRAME, bytes(1500)),
        ]
        for kind, body in bodies:
            data = link.seal(kind, body, first.session)
            self.send_as(second, first, data)
        first.receive(self.take_frame)
        self.assertEqual(
            first.describe_dropped(),
            f"dropped {len(bodies)} datagrams: {len(bodies)} with invalid contents",
        )

    def test_text_of_a_peer_is_escaped(self) -> None:
        first, second = self.make_host(1), self.make_host(2)
        for _ in range(5):
            self.step(first, second)
        second.drivers = ["\x1b]0;title\x07\udc9b\u202e"]
        second.last_hello_time = 0
        second.send_hellos()
        with self.assertRaises(LabError) as raised:
            first.receive(self.take_frame)
        self.assertIn(
            r"has --driver \x1b]0;title\x07\x9b\u202e, this one rxe; give", str(raised.exception)
        )


class Ports(Network):
    def test_port_can_be_bound_again_after_a_failed_attempt(self) -> None:
        # The error of the first attempt still refers to its group.
        guest_end, port_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        first = self.make_host(1)
        with guest_end, port_end, supervisor.Undo() as undo:
            process = switch.Switch(undo, [[port_end]], first)
        process.connection.close()
        self.assertEqual(self.make_host(1).num_hosts, first.num_hosts)


class Frames(Network):
    """The process of a switch, called in this process."""

    def setUp(self) -> None:
        super().setUp()
        handler = signal.getsignal(signal.SIGTERM)
        self.addCleanup(signal.signal, signal.SIGTERM, handler)
        self.guest, port_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        parent, self.parent_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        for end in (self.guest, port_end, parent, self.parent_end):
            self.addCleanup(end.close)
        self.guest.setblocking(False)
        self.group = self.make_host(1, 3)
        self.second, self.third = self.group.peers
        self.sent: List[Tuple[Peer, bytes]] = []
        setattr(self.group, "send_frame", self.record_frame)
        self.process = switch.SwitchProcess([[port_end]], self.group, parent)

    def record_frame(self, peer: Peer, _network: int, frame: bytes) -> None:
        self.sent.append((peer, frame))

    def send_from_guest(self, frame: bytes) -> List[Peer]:
        """Returns the peers that get it."""
        self.sent.clear()
        self.guest.send(frame)
        (port,) = self.process.port_by_fd.values()
        self.process.receive_from_port(port)
        return [peer for peer, _ in self.sent]

    def reaches_guest(self, source: Peer, frame: bytes, network: int = 0) -> bool:
        self.process.forward_from_peer(network, source, frame)
        try:
            return self.guest.recv(2000) == frame
        except BlockingIOError:
            return False

    def test_peer_has_address_of_its_interface_only(self) -> None:
        local_mac, second_mac, third_mac = (switch.mac_address(0, number) for number in (1, 2, 3))
        data = b"\x08\0contents"
        self.assertTrue(self.reaches_guest(self.second, local_mac + second_mac + data))
        self.assertEqual(self.send_from_guest(second_mac + local_mac + data), [self.second])
        for stolen in (local_mac, third_mac):
            self.assertFalse(self.reaches_guest(self.second, b"\xff" * 6 + stolen + data))
        self.assertTrue(self.reaches_guest(self.third, local_mac + third_mac + data))
        self.assertEqual(self.send_from_guest(third_mac + local_mac + data), [self.third])

    def test_address_of_a_local_guest_that_a_peer_uses_still_gets_frames(self) -> None:
        macvlan, data = bytes.fromhex("0a0000000001"), b"\x08\0contents"
        third_mac = switch.mac_address(0, 3)
        self.send_from_guest(b"\xff" * 6 + macvlan + data)
        self.reaches_guest(self.second, b"\xff" * 6 + macvlan + data)
        self.assertTrue(self.reaches_guest(self.third, macvlan + third_mac + data))

    def test_addresses_of_a_flood_displace_only_those_of_its_source(self) -> None:
        second_mac, local_mac = switch.mac_address(0, 2), switch.mac_address(0, 1)
        self.reaches_guest(self.second, local_mac + second_mac + b"\x08\0")
        for number in range(3 * switch.MAX_LEARNED_ADDRESSES):
            mac = b"\x0a\0" + number.to_bytes(4, "big")
            self.reaches_guest(self.third, local_mac + mac + b"\x08\0")
            self.send_from_guest(second_mac + b"\x0e" + mac[1:] + b"\x08\0")
        self.assertEqual(self.send_from_guest(second_mac + local_mac + b"\x08\0"), [self.second])
        (network,) = self.process.networks
        self.assertLessEqual(len(network.destination_by_mac), 2 * switch.MAX_LEARNED_ADDRESSES + 1)
        self.assertEqual(
            len(network.destination_by_mac), sum(map(len, network.macs_by_source.values()))
        )

    def test_frame_too_short_or_of_unknown_network_is_invalid(self) -> None:
        frame = switch.mac_address(0, 1) + switch.mac_address(0, 2) + b"\x08\0"
        self.assertFalse(self.reaches_guest(self.second, frame[:-1]))
        self.assertFalse(self.reaches_guest(self.second, frame, network=1))
        self.assertTrue(self.reaches_guest(self.second, frame))


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""The wire between hosts: its options, the faults of frames, the switch with faults, the capture."""

import contextlib
import io
import os
import signal
import socket
import struct
import sys
import tempfile
import time
import tracemalloc
import unittest
from typing import Any, Callable, Dict, List, NamedTuple, Optional
from unittest import mock

TEST_FOLDER = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, os.path.join(TEST_FOLDER, "..", "..", "..", "scripts"))
sys.dont_write_bytecode = True

from lab.cli import main, run_command, wire_command, wire_options  # noqa: E402
from lab.core import run_request, supervisor, wire_change  # noqa: E402
from lab.core.errors import UsageError  # noqa: E402
from lab.core.run_request import Wire  # noqa: E402
from lab.run import pcapng, run_uml, switch, wire_faults, wire_switch  # noqa: E402
from lab.run.guest_session import GuestNotStarted  # noqa: E402
from lab.run.wire_faults import Direction, FaultSource  # noqa: E402
from lab.run.wire_switch import WireSettings, WireSwitchProcess  # noqa: E402

MACS = [switch.mac_address(0, number) for number in (1, 2, 3)]
TO_SECOND = Direction("rxe", 1, 2)
PSEUDO_HEADER = struct.Struct("!4s4sBBH")
# Numbers of frames; a seed that the report of a fault names has to mean the same everywhere.
DROPPED_BY_SEED_1 = [25, 32, 34, 36]
ADDRESSES = [bytes([198, 19, 1, number]) for number in (1, 2)]


def checksum(data: bytes) -> int:
    """Of the Internet protocols."""
    data += bytes(len(data) % 2)
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def ethernet(payload: bytes, ethertype: int = wire_faults.ETHERTYPE_IPV4) -> bytes:
    """From host 1 to host 2."""
    return MACS[1] + MACS[0] + ethertype.to_bytes(2, "big") + payload


def ipv4(protocol: int, payload: bytes, fragment: int = 0) -> bytes:
    size = 20 + len(payload)
    header = struct.pack("!BBHHHBBH", 0x45, 0, size, 0, fragment, 64, protocol, 0)
    return ethernet(header + b"".join(ADDRESSES) + payload)


def udp(port: int, payload: bytes, check: int = 0) -> bytes:
    header = struct.pack("!HHHH", 50000, port, 8 + len(payload), check)
    return ipv4(wire_faults.PROTOCOL_UDP, header + payload)


def tcp(payload: bytes) -> bytes:
    header = struct.pack("!HHIIBBHHH", 1, 2, 0, 0, 5 << 4, 16, 0, 0, 0)
    pseudo_header = PSEUDO_HEADER.pack(*ADDRESSES, 0, wire_faults.PROTOCOL_TCP, 20 + len(payload))
    check = checksum(pseudo_header + header + payload).to_bytes(2, "big")
    return ipv4(wire_faults.PROTOCOL_TCP, header[:16] + check + header[18:] + payload)


def roce(payload: bytes = b"") -> bytes:
    return udp(wire_faults.ROCE_PORT, bytes(wire_faults.BTH_BYTES) + payload + b"ICRC")


def numbered(number: int, payload: bytes = b"") -> bytes:
    return ethernet(b"\x45" + number.to_bytes(4, "big") + payload)


def number_of(frame: bytes) -> int:
    return int.from_bytes(frame[15:19], "big")


class Options(unittest.TestCase):
    def parse(self, *words: str) -> Wire:
        return wire_options.parse_wire(main.make_parser().parse_args(["run", *words]))

    def make_request(self, *words: str) -> run_request.RunRequest:
        options = main.make_parser().parse_args(["run", *words, "--", "true"])
        options.launcher = "softrdma"
        return run_command._make_request(options, "")

    def test_units_may_be_given(self) -> None:
        words = "--loss 1% --delay 5ms --duplicate 2 --reorder 3% --corrupt 0.5% --rate 100Mbit"
        self.assertEqual(self.parse(*words.split()), Wire(1, 5, 2, 3, 0.5, 100))
        self.assertEqual(self.parse("--delay", "2.5", "--rate", "10").rate_mbit, 10)
        self.assertFalse(any(self.parse()))

    def test_error_names_option_value_and_range(self) -> None:
        for words, text in (
            ("--loss 101%", "--loss 101%: expected 0 to 100 percent, such as 5%"),
            ("--loss -1", "--loss -1: expected"),
            ("--duplicate nan", "--duplicate nan: expected 0 to 100 percent"),
            ("--reorder often", "--reorder often: expected 0 to 100 percent"),
            ("--corrupt inf", "--corrupt inf: expected 0 to 100 percent"),
            ("--delay 5s", "--delay 5s: expected 0 to 10000 milliseconds, such as 5ms"),
            (
                "--rate -1",
                "--rate -1: expected 0, or 0.01 to 100000 megabits per second, such as 5mbit",
            ),
            ("--rate 1gbit", "--rate 1gbit: expected"),
        ):
            with self.assertRaises(UsageError) as raised:
                self.parse(*words.split())
            self.assertIn(text, str(raised.exception))

    def test_wire_needs_two_hosts(self) -> None:
        for words, text in (
            ("--loss 1", "--loss needs two hosts; add: --hosts 2"),
            ("--rate 1 --corrupt 1", "--corrupt and --rate need two hosts; add: --hosts 2"),
            ("--pcap file", "--pcap needs two hosts; add: --hosts 2"),
            ("--seed 1", "--seed needs two hosts; add: --hosts 2"),
        ):
            with self.assertRaises(UsageError) as raised:
                self.make_request(*words.split())
            self.assertEqual(text, str(raised.exception))

    def test_seed_is_a_number_and_needs_a_random_fault(self) -> None:
        for words, text in (
            ("--seed x --loss 1", "--seed x: expected a whole number, 0 to 18446744073709551615"),
            ("--seed -1 --loss 1", "--seed -1: expected"),
            (f"--seed {1 << 64} --loss 1", "expected"),
            (f"--seed {'1' * 5000} --loss 1", "expected"),  # Python does not convert it
            ("--seed 1 --delay 5", "--seed 1: nothing is random; add one of --loss, --dup"),
        ):
            with self.assertRaises(UsageError) as raised:
                self.make_request("--hosts", "2", *words.split())
            self.assertIn(text, str(raised.exception))
        request = self.make_request("--hosts", "2", "--seed", "0", "--reorder", "1")
        self.assertEqual(request.seed, 0)

    def test_guest_of_another_release_is_refused_what_it_cannot_do(self) -> None:
        """Not by an advice to use a guest in which the other option is refused."""
        for words in ("--suite trixie", "--arch arm64"):
            for backend in ("auto", "uml", "qemu"):
                arguments = ["run", "--hosts", "2", "--pcap", "file", *words.split()]
                options = main.make_parser().parse_args([*arguments, "--in", backend, "--", "true"])
                options.launcher = "softrdma"
                with self.assertRaisesRegex(
                    UsageError, f"--pcap needs hosts that have a kernel each: .*; omit {words}$"
                ):
                    run_command.run(options)

    def test_hosts_of_one_kernel_are_refused_what_netem_cannot_do(self) -> None:
        for words in ("--pcap file", "--seed 1 --loss 1", "--reorder 1", "--corrupt 1"):
            request = self.make_request("--hosts", "2", *words.split())
            reason = run_request.reason_for_kernel_per_host(request)
            self.assertEqual(reason, f"{words.split()[0]} needs hosts that have a kernel each")
        for words in ("--loss 1 --delay 1", "--duplicate 1", "--rate 1"):
            request = self.make_request("--hosts", "2", *words.split())
            self.assertEqual(run_request.reason_for_kernel_per_host(request), "")


class FrameFaults(unittest.TestCase):
    def decide(self, wire: Wire, count: int = 1000, seed: int = 1, **options: Any) -> List[str]:
        source = FaultSource(seed)
        frame, direction = options.get("frame", roce()), options.get("direction", TO_SECOND)
        return [source.decide(wire, direction, frame).describe() for _ in range(count)]

    def test_share_of_frames_is_the_percentage(self) -> None:
        for wire, word in (
            (Wire(loss_percent=10), "dropped: "),
            (Wire(duplicate_percent=10), "duplicated: "),
            (Wire(reorder_percent=10), "held back: "),
            (Wire(corrupt_percent=10), "corrupted in bit "),
        ):
            comments = [comment for comment in self.decide(wire, 10000) if comment]
            self.assertTrue(all(comment.startswith(word) for comment in comments), comments[:3])
            self.assertTrue(850 < len(comments) < 1150, (word, len(comments)))

    def test_all_or_no_frames(self) -> None:
        self.assertTrue(all(self.decide(Wire(loss_percent=100))))
        self.assertFalse(any(self.decide(Wire(delay_ms=5, rate_mbit=1))))

    def test_same_seed_makes_the_same_faults(self) -> None:
        wire = Wire(5, 0, 5, 5, 5)
        self.assertEqual(self.decide(wire, seed=7), self.decide(wire, seed=7))
        self.assertNotEqual(self.decide(wire, seed=7), self.decide(wire, seed=8))

    def test_faults_of_a_seed_are_those_of_any_release(self) -> None:
        comments = self.decide(Wire(loss_percent=10), 40, seed=1)
        dropped = [number for number, comment in enumerate(comments, 1) if comment]
        self.assertEqual(dropped, DROPPED_BY_SEED_1)

    def test_directions_have_other_faults(self) -> None:
        wire = Wire(loss_percent=20)
        reverse = self.decide(wire, direction=Direction("rxe", 2, 1))
        positions = [[bool(text) for text in texts] for texts in (reverse, self.decide(wire))]
        self.assertNotEqual(*positions)

    def test_other_streams_and_options_do_not_change_what_is_dropped(self) -> None:
        def dropped(wire: Wire, others: bool) -> List[int]:
            source, numbers = FaultSource(3), []
            for number in range(1000):
                if others:
                    source.decide(wire, TO_SECOND, ethernet(b"", wire_faults.ETHERTYPE_ARP))
                    source.decide(wire, Direction("rxe", 1, 3), roce())
                if source.decide(wire, TO_SECOND, roce()).is_dropped:
                    numbers.append(number)
            return numbers

        expected = dropped(Wire(loss_percent=10), others=False)
        self.assertTrue(expected)
        self.assertEqual(dropped(Wire(10, 0, 10, 10, 10), others=True), expected)

    def test_comment_names_the_frame(self) -> None:
        self.assertEqual(
            self.decide(Wire(loss_percent=100), 2)[1],
            "dropped: IPv4 frame 2 of rxe from host 1 to 2",
        )
        arp = ethernet(b"", wire_faults.ETHERTYPE_ARP)
        self.assertIn("ARP frame 1 ", self.decide(Wire(loss_percent=100), 1, frame=arp)[0])

    def corrupted_bytes(self, frame: bytes) -> "set[int]":
        """The offsets of the bytes that are changed in many copies of the frame."""
        source, offsets = FaultSource(1), set()
        for _ in range(2000):
            bit = source.decide(Wire(corrupt_percent=100), TO_SECOND, frame).corrupted_bit
            if bit is not None:
                changed = wire_faults.flip_bit(frame, bit)
                differing = [index for index in range(len(frame)) if frame[index] != changed[index]]
                self.assertEqual(len(differing), 1)
                offsets.update(differing)
        return offsets

    def test_corrupted_is_what_an_icrc_covers(self) -> None:
        frame = roce(b"payload")
        begin = 14 + 20 + 8 + 12
        self.assertEqual(self.corrupted_bytes(frame), set(range(begin, len(frame))))

    def test_corrupted_is_the_payload_of_tcp_or_its_header(self) -> None:
        frame = tcp(b"payload")
        self.assertEqual(self.corrupted_bytes(frame), set(range(14 + 20 + 20, len(frame))))
        self.assertEqual(self.corrupted_bytes(tcp(b"")), set(range(14 + 20, 14 + 20 + 20)))

    def test_checksum_of_tcp_detects_each_corruption(self) -> None:
        for frame in (tcp(b"payload"), tcp(b"")):
            segment = frame[34:]
            pseudo_header = PSEUDO_HEADER.pack(*ADDRESSES, 0, 6, len(segment))
            self.assertEqual(checksum(pseudo_header + segment), 0)
            begin, end = wire_faults.checked_payload(frame)
            for bit in range(8 * begin, 8 * end):
                changed = wire_faults.flip_bit(frame, bit)[34:]
                self.assertNotEqual(checksum(pseudo_header + changed), 0)

    def test_ipv6_is_corrupted_as_ipv4(self) -> None:
        datagram = roce(b"payload")[34:]
        header = struct.pack("!IHBB", 6 << 28, len(datagram), wire_faults.PROTOCOL_UDP, 64)
        frame = ethernet(header + bytes(32) + datagram, wire_faults.ETHERTYPE_IPV6)
        begin = 14 + 40 + 8 + 12
        self.assertEqual(self.corrupted_bytes(frame), set(range(begin, len(frame))))

    def test_padding_of_a_short_frame_is_not_corrupted(self) -> None:
        frame = tcp(b"x")
        self.assertEqual(self.corrupted_bytes(frame + bytes(20)), {len(frame) - 1})

    def test_frames_without_checksum_are_not_corrupted(self) -> None:
        for frame in (
            ethernet(bytes(28), wire_faults.ETHERTYPE_ARP),
            udp(53, b"no checksum"),
            ipv4(wire_faults.PROTOCOL_UDP, b"\1" * 20, fragment=0x2000),
            ipv4(wire_faults.PROTOCOL_UDP, b"\1" * 20, fragment=0x0001),
            ipv4(47, bytes(20)),
        ):
            self.assertEqual(self.corrupted_bytes(frame), set(), frame)
        self.assertTrue(self.corrupted_bytes(udp(53, b"checksum", check=1)))

    def test_frames_of_any_length_are_accepted(self) -> None:
        source = FaultSource(1)
        for frame in (roce(b"payload"), tcp(b"payload")):
            for size in range(switch.MIN_FRAME_BYTES, len(frame) + 1):
                bit = source.decide(
                    Wire(corrupt_percent=100), TO_SECOND, frame[:size]
                ).corrupted_bit
                self.assertTrue(bit is None or bit < 8 * size)


class Packet(NamedTuple):
    interface: int
    time_ns: int
    frame: bytes
    direction: int
    comment: str


def read_options(data: bytes) -> Dict[int, bytes]:
    options: Dict[int, bytes] = {}
    while True:
        code, size = struct.unpack_from("=HH", data)
        if code == pcapng.OPT_ENDOFOPT:
            return options
        options[code] = data[4 : 4 + size]
        data = data[4 + (size + 3) // 4 * 4 :]


def read_capture(data: bytes) -> "tuple[List[str], List[Packet], str]":
    """The names of the interfaces, the packets and the comment."""
    names, packets, comment = [], [], ""
    while data:
        kind, size = struct.unpack_from("=II", data)
        assert size % 4 == 0 and struct.unpack_from("=I", data, size - 4) == (size,)
        body, data = data[8 : size - 4], data[size:]
        if kind == pcapng.SECTION_HEADER:
            assert struct.unpack_from("=I", body) == (pcapng.BYTE_ORDER_MAGIC,)
            comment = read_options(body[16:]).get(pcapng.OPT_COMMENT, b"").decode()
        elif kind == pcapng.INTERFACE_DESCRIPTION:
            names.append(read_options(body[8:])[pcapng.IF_NAME].decode())
        else:
            interface, high, low, captured, original = struct.unpack_from("=5I", body)
            assert captured == original
            options = read_options(body[20 + (captured + 3) // 4 * 4 :])
            packets.append(
                Packet(
                    interface,
                    high << 32 | low,
                    body[20 : 20 + captured],
                    int.from_bytes(options[pcapng.EPB_FLAGS], sys.byteorder),
                    options.get(pcapng.OPT_COMMENT, b"").decode(),
                )
            )
    return names, packets, comment


class Hosts(unittest.TestCase):
    """Three hosts, and the switch between them in this process."""

    def make(self, wire: Wire, seed: int = 1, file: Optional[Any] = None) -> None:
        cables = [socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in MACS]
        parent, self.parent_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        for end in (*(end for cable in cables for end in cable), parent, self.parent_end):
            self.addCleanup(end.close)
        self.ends = [end for end, _ in cables]
        for end in self.ends:
            end.setblocking(False)
        handler = signal.getsignal(signal.SIGTERM)
        self.addCleanup(signal.signal, signal.SIGTERM, handler)
        settings = WireSettings(wire, seed, ["rxe"], [1, 2, 3], "file", file)
        self.process = WireSwitchProcess(settings, [[end for _, end in cables]], None, parent)
        for number in range(len(MACS)):  # the switch learns the addresses
            self.process.networks[0].learn(MACS[number], self.port(number))

    def port(self, index: int) -> switch.Port:
        return self.process.networks[0].ports[index]

    def run_switch(self) -> None:
        """Until all frames have arrived."""
        is_idle = False
        while not is_idle:
            is_idle = not self.process.agenda
            for fd, _ in self.process.wait(1):
                is_idle = False
                self.process.receive_from_port(self.process.port_by_fd[fd])

    def received(self, index: int) -> List[bytes]:
        frames = []
        with contextlib.suppress(BlockingIOError):
            while True:
                frames.append(self.ends[index].recv(switch.MAX_FRAME_BYTES))
        return frames

    def send(self, count: int, waits: bool = True) -> List[int]:
        """From host 1 to 2, one after the other. Returns the numbers of those that arrive."""
        arrived = []
        for number in range(count):
            self.ends[0].send(numbered(number))
            self.process.receive_from_port(self.port(0))
            arrived += self.received(1)
        if waits:
            self.run_switch()
        arrived += self.received(1)
        return [number_of(frame) for frame in arrived]

    def test_frames_pass_unchanged_and_in_order(self) -> None:
        self.make(Wire(delay_ms=1))
        self.assertEqual(self.send(100), list(range(100)))

    def test_lost_frames_are_missing(self) -> None:
        self.make(Wire(loss_percent=20))
        arrived = self.send(500)
        self.assertTrue(350 < len(arrived) < 450, len(arrived))
        self.assertEqual(arrived, sorted(set(arrived)))

    def test_duplicated_frames_arrive_twice(self) -> None:
        self.make(Wire(duplicate_percent=100))
        self.assertEqual(self.send(50), [number for number in range(50) for _ in range(2)])

    def test_held_frame_follows_the_next_one(self) -> None:
        self.make(Wire(reorder_percent=20))
        with mock.patch.object(wire_switch, "HOLD_SECONDS", 1000):
            arrived = self.send(500, waits=False)
        num_passed = sum(former > latter for former, latter in zip(arrived, arrived[1:]))
        self.assertTrue(60 < num_passed < 110, num_passed)
        self.assertEqual(len(arrived), len(set(arrived)))
        # Only frames at the end have no later one.
        self.assertTrue(set(range(480)) <= set(arrived))

    def test_held_frame_arrives_without_a_next_one(self) -> None:
        self.make(Wire(reorder_percent=100))
        self.assertEqual(self.send(1), [0])

    def test_corrupted_frame_differs_in_a_bit(self) -> None:
        self.make(Wire(corrupt_percent=100))
        frame = roce(b"payload")
        self.ends[0].send(frame)
        self.run_switch()
        (arrived,) = self.received(1)
        difference = int.from_bytes(arrived, "big") ^ int.from_bytes(frame, "big")
        self.assertEqual(bin(difference).count("1"), 1)

    def test_delay_is_at_least_that_of_the_option(self) -> None:
        self.make(Wire(delay_ms=30))
        begin = time.monotonic()
        self.assertEqual(self.send(3), [0, 1, 2])
        self.assertGreaterEqual(time.monotonic() - begin, 0.03)

    def test_rate_limits_a_link_and_loses_nothing(self) -> None:
        self.make(Wire(rate_mbit=8))  # a byte in a microsecond
        payload = bytes(2000)
        for number in range(40):
            self.ends[0].send(numbered(number, payload))
        begin = time.monotonic()
        for _ in range(3):
            self.process.receive_from_port(self.port(0))
        # Two at most in the burst that a link may catch up; the others are still with the host.
        self.assertLessEqual(self.process.links[self.port(0)].waiting_bytes, 2 * 2100)
        self.run_switch()
        self.assertGreaterEqual(time.monotonic() - begin, 0.07)
        self.assertEqual([number_of(frame) for frame in self.received(1)], list(range(40)))

    def test_change_of_a_rate_ends_transmissions_in_their_order(self) -> None:
        self.make(Wire(rate_mbit=wire_change.MIN_RATE_MBIT, duplicate_percent=100))
        for number in range(3):
            self.ends[0].send(numbered(number, bytes(20000)))  # 16 seconds for each
        begin = time.monotonic()
        self.process.receive_from_port(self.port(0))
        self.assertTrue(self.process.links[self.port(0)].is_busy)
        self.change("--loss 0 --host 2")  # not of this link's rate
        self.assertTrue(self.process.links[self.port(0)].is_busy)
        self.change("--rate 0")
        self.run_switch()
        self.assertLess(time.monotonic() - begin, 15)
        numbers = [number_of(frame) for frame in self.received(1)]
        self.assertEqual(numbers, [0, 0, 1, 1, 2, 2])

    def change(self, words: str) -> None:
        change = wire_command.make_change(main.make_parser().parse_args(["wire", *words.split()]))
        number = switch.CHANGE_NUMBER.pack(1)
        self.process.obey(switch.CHANGE + number + wire_change.encode(change))
        self.assertEqual(self.parent_end.recv(switch.MAX_REPORT_BYTES), switch.CHANGED + number)

    def test_memory_of_frames_on_the_way_is_counted(self) -> None:
        for wire in (Wire(delay_ms=100_000), Wire(0, 100_000, 100, 100, 100)):
            self.make(wire)
            frame = tcp(b"x")
            self.ends[0].send(frame)  # the stream of random numbers is made
            self.process.receive_from_port(self.port(0))
            link = self.process.links[self.port(0)]
            counted = link.waiting_bytes
            tracemalloc.start()
            for _ in range(5000):
                self.ends[0].send(frame)
                self.process.receive_from_port(self.port(0))
            taken, _ = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            counted = link.waiting_bytes - counted
            self.assertLess(taken, counted)
            self.assertGreater(taken, counted / 3)

    def test_link_waits_if_too_much_is_on_the_way(self) -> None:
        self.make(Wire(delay_ms=50))
        limit = 10 * (100 + wire_switch.DELIVERY_BYTES)
        with mock.patch.object(wire_switch, "MAX_WAITING_BYTES", limit):
            for number in range(40):
                self.ends[0].send(numbered(number, bytes(100)))
            for _ in range(40):
                self.process.receive_from_port(self.port(0), 1)
            self.assertLess(len(self.process.agenda), 12)
            self.run_switch()
        self.assertEqual([number_of(frame) for frame in self.received(1)], list(range(40)))
        self.assertEqual(self.process.links[self.port(0)].waiting_bytes, 0)

    def test_capture_has_the_view_of_each_host(self) -> None:
        file = io.BytesIO()
        self.make(Wire(), file=file)
        frame = numbered(5, b"odd")
        begin = time.time_ns()
        self.ends[0].send(frame)
        self.run_switch()
        broadcast = b"\xff" * 6 + frame[6:]
        self.ends[0].send(broadcast)
        self.run_switch()
        names, packets, comment = read_capture(file.getvalue())
        self.assertEqual(names, ["softrdma-1", "softrdma-2", "softrdma-3"])
        self.assertEqual(comment, "")
        views = [(packet.interface, packet.direction, packet.frame) for packet in packets]
        self.assertEqual(
            views,
            [
                (0, pcapng.OUTBOUND, frame),
                (1, pcapng.INBOUND, frame),
                (0, pcapng.OUTBOUND, broadcast),
                (1, pcapng.INBOUND, broadcast),
                (2, pcapng.INBOUND, broadcast),
            ],
        )
        times = [begin, *(packet.time_ns for packet in packets), time.time_ns()]
        self.assertEqual(times, sorted(times))

    def capture(self, wire: Wire, count: int) -> List[Packet]:
        file = io.BytesIO()
        self.make(wire, seed=5, file=file)
        self.send(count)
        _, packets, comment = read_capture(file.getvalue())
        self.assertEqual(comment, "softrdma run --seed 5")
        return packets

    def test_capture_of_dropped_frames_has_the_view_of_the_sender_and_a_comment(self) -> None:
        packets = self.capture(Wire(loss_percent=30), 100)
        dropped = [packet for packet in packets if packet.comment]
        arrived = {packet.frame for packet in packets if packet.interface == 1}
        self.assertTrue(15 < len(dropped) < 45)
        for packet in dropped:
            self.assertEqual(packet.interface, 0)
            name = f"IPv4 frame {number_of(packet.frame) + 1} of rxe from host 1 to 2"
            self.assertEqual(packet.comment, f"dropped: {name}")
            self.assertNotIn(packet.frame, arrived)
        self.assertEqual(len(arrived) + len(dropped), 100)

    def test_capture_has_comments_on_both_views_of_other_faults(self) -> None:
        for wire, words in (
            (Wire(duplicate_percent=100), ["duplicated", "duplicated", "a duplicate"]),
            (Wire(reorder_percent=100), ["held back", "held back"]),
        ):
            packets = self.capture(wire, 1)
            name = "IPv4 frame 1 of rxe from host 1 to 2"
            comments = [packet.comment for packet in packets]
            self.assertEqual(comments, [f"{word}: {name}" for word in words])

    def test_capture_of_a_corrupted_frame_has_it_as_sent_and_as_received(self) -> None:
        file = io.BytesIO()
        self.make(Wire(corrupt_percent=100), file=file)
        self.ends[0].send(roce(b"payload"))
        self.run_switch()
        _, (sent, arrived), _ = read_capture(file.getvalue())
        self.assertEqual(sent.frame, roce(b"payload"))
        self.assertNotEqual(arrived.frame, sent.frame)
        self.assertRegex(sent.comment, r"^corrupted in bit [0-9]+: IPv4 frame 1 ")
        self.assertEqual(arrived.comment, sent.comment)

    def test_frame_for_which_the_receiver_has_no_room_is_not_in_its_view(self) -> None:
        file = io.BytesIO()
        self.make(Wire(), file=file)
        for number in range(3 * switch.MAX_QUEUED_FRAMES):
            self.ends[0].send(numbered(number))
            self.process.receive_from_port(self.port(0))
        arrived = self.received(1)
        while self.port(1).queue:
            self.process.send_queue(self.port(1))
            arrived += self.received(1)
        self.assertLess(len(arrived), 3 * switch.MAX_QUEUED_FRAMES)
        _, packets, _ = read_capture(file.getvalue())
        self.assertEqual([packet.frame for packet in packets if packet.interface == 1], arrived)

    def test_comments_stay_with_their_frames_while_the_receiver_is_slow(self) -> None:
        file = io.BytesIO()
        self.make(Wire(duplicate_percent=30), file=file)
        for number in range(switch.MAX_QUEUED_FRAMES // 2):
            self.ends[0].send(numbered(number))
            self.process.receive_from_port(self.port(0))
        self.assertTrue(self.port(1).queue)
        while self.port(1).queue:
            self.received(1)
            self.process.send_queue(self.port(1))
        _, packets, _ = read_capture(file.getvalue())
        commented = [packet for packet in packets if packet.interface == 1 and packet.comment]
        self.assertGreater(len(commented), switch.MAX_QUEUED_FRAMES // 4)
        for packet in commented:
            self.assertIn(f"IPv4 frame {number_of(packet.frame) + 1} ", packet.comment)


class CaptureFile(unittest.TestCase):
    """Of the process of a switch."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "capture")

    def run_process(
        self,
        path: str,
        num_frames: int,
        payload: bytes = b"",
        while_running: Callable[[], None] = lambda: None,
    ) -> str:
        """Returns what is printed."""
        output = io.StringIO()
        cables = [socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in range(2)]
        old_handler = signal.signal(signal.SIGTERM, lambda *_: None)
        self.addCleanup(signal.signal, signal.SIGTERM, old_handler)
        with contextlib.redirect_stderr(output), supervisor.Undo() as undo:
            for end in (end for cable in cables for end in cable):
                undo.callback(end.close)
            file = undo.enter_context(wire_switch.open_capture(path))
            wire_switch.rewind(file)
            settings = WireSettings(Wire(), 1, ["rxe"], [1, 2], path, file)

            def make_process(*arguments: Any) -> WireSwitchProcess:
                return WireSwitchProcess(settings, *arguments)

            self.switch = switch.Switch(
                undo, [[end for _, end in cables]], None, make_process, path
            )
            self.addCleanup(self.switch.connection.close)
            for number in range(num_frames):
                cables[0][0].send(numbered(number, payload))
                if not cables[1][0].recv(switch.MAX_FRAME_BYTES):
                    break
            while_running()
        return output.getvalue()

    def test_file_is_whole_when_the_process_has_ended(self) -> None:
        for _ in range(10):
            self.assertEqual(self.run_process(self.path, 20), "")
            with open(self.path, "rb") as file:
                names, packets, _ = read_capture(file.read())
            self.assertEqual((names, len(packets)), (["softrdma-1", "softrdma-2"], 40))

    def test_file_that_cannot_be_opened_is_an_error_at_once(self) -> None:
        for path in (self.path + "/file", "/"):
            with self.assertRaisesRegex(UsageError, "--pcap .*: it cannot be written: "):
                wire_switch.open_capture(path)

    def test_file_that_something_else_writes_is_refused_and_stays(self) -> None:
        def expect_refusal(path: str, reason: str, console: Optional[str] = None) -> None:
            with self.assertRaisesRegex(UsageError, f"--pcap {path}: {reason}.*; name another"):
                wire_switch.open_capture(path, console)

        with open(self.path, "w", encoding="ascii") as file:
            file.write("text")
        with wire_switch.open_capture(self.path, self.path + ".console"):
            expect_refusal(self.path, "another softrdma writes it")
        expect_refusal(self.path, "it is the file of --console", self.path)
        for stream, name in ((1, "standard output"), (2, "standard error")):
            saved = os.dup(stream)
            with open(self.path, "a", encoding="ascii") as file:
                os.dup2(file.fileno(), stream)
            try:
                expect_refusal(self.path, f"it is the {name}")
                expect_refusal(f"/dev/fd/{stream}", f"it is the {name}")
            finally:
                os.dup2(saved, stream)
                os.close(saved)
        main_end, terminal = os.openpty()
        expect_refusal(os.ttyname(terminal), "it is a terminal")
        os.close(main_end)
        os.close(terminal)
        with open(self.path, encoding="ascii") as file:
            self.assertEqual(file.read(), "text")
        wire_switch.open_capture("/dev/null", "/dev/null").close()

    def test_second_attempt_has_the_same_seed_and_an_empty_file(self) -> None:
        attempts: List[WireSettings] = []

        def run_guests(*arguments: Any) -> int:
            wire = arguments[-1]
            wire_switch.rewind(wire.capture_file)
            attempts.append(wire)
            self.assertEqual(os.path.getsize(self.path), 0)
            os.write(wire.capture_file.fileno(), b"frames of a kernel that does not start")
            if len(attempts) == 1:
                raise GuestNotStarted("no seccomp")
            return 0

        options = main.make_parser().parse_args(
            ["run", "--hosts", "2", "--loss", "1", "--pcap", self.path, "--", "true"]
        )
        options.launcher = "softrdma"
        request = run_command._make_request(options, "")
        output = io.StringIO()
        with contextlib.redirect_stderr(output), mock.patch.multiple(
            run_uml,
            _find_kernel=lambda _: None,
            _choose_processors=lambda *_: 1,
            _run_guests=run_guests,
        ):
            self.assertEqual(run_uml.run(request), 0)
        self.assertEqual(len(attempts), 2)
        self.assertIs(attempts[0], attempts[1])
        self.assertEqual(output.getvalue().count("--seed"), 1)

    def test_full_disk_is_an_error_at_once_and_frames_still_pass(self) -> None:
        def wait_for_error() -> None:
            deadline = time.monotonic() + 60
            while not self.switch.has_failed and time.monotonic() < deadline:
                self.switch.check()
            self.assertTrue(self.switch.has_failed)

        for while_running in (wait_for_error, lambda: None):
            self.assertEqual(
                self.run_process("/dev/full", 20, while_running=while_running),
                "softrdma: --pcap /dev/full: the capture is not complete: "
                "writing failed: No space left on device\n",
            )
            self.assertTrue(self.switch.has_failed)

    def test_reader_that_does_not_read_on_does_not_hang_the_end(self) -> None:
        os.mkfifo(self.path)
        reader = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK)
        self.addCleanup(os.close, reader)
        # Less than the buffer: it is written at the end.
        text = self.run_process(self.path, 10, bytes(20000))
        self.assertEqual(
            text,
            f"softrdma: --pcap {self.path}: the capture is not complete: its reader does not read on\n",
        )
        self.assertTrue(self.switch.has_failed)

    def test_kill_of_the_process_is_an_error_at_its_end(self) -> None:
        text = self.run_process(
            self.path, 1, while_running=lambda: os.kill(self.switch.child, signal.SIGKILL)
        )
        self.assertEqual(
            text,
            "softrdma: the switch between the hosts has ended: it was killed by SIGKILL; "
            f"--pcap {self.path}: the capture is not complete\n",
        )
        self.assertTrue(self.switch.has_failed)


if __name__ == "__main__":
    unittest.main()

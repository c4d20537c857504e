#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""`softrdma wire`: its options, and what a change does to the wire."""

import json
import os
import select
import signal
import socket
import sys
import tempfile
import unittest
from typing import Any, Dict, Tuple
from unittest import mock

TEST_FOLDER = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, os.path.join(TEST_FOLDER, "..", "..", "..", "scripts"))
sys.dont_write_bytecode = True

from lab.cli import main, run_command, wire_command  # noqa: E402
from lab.core import supervisor, temporary_folders, wire_change  # noqa: E402
from lab.core.errors import LabError, Unavailable, UsageError  # noqa: E402
from lab.core.run_request import ClusterMember, Wire  # noqa: E402
from lab.core.wire_change import WireChange, WireTable  # noqa: E402
from lab.protocol import frames  # noqa: E402
from lab.run import peer_key, run_local, run_uml, shell_client, switch  # noqa: E402
from lab.run import wire_client, wire_switch  # noqa: E402

HOSTS = [1, 2, 3]
DIRECTIONS = [(sender, receiver) for sender in HOSTS for receiver in HOSTS if sender != receiver]


def make_change(words: str) -> WireChange:
    return wire_command.make_change(main.make_parser().parse_args(["wire", *words.split()]))


class Options(unittest.TestCase):
    def test_only_given_options_change(self) -> None:
        self.assertEqual(
            make_change("--host 1 --to 2 --loss 3% --delay 0 --for 3s"),
            WireChange(1, 2, {"loss_percent": 3, "delay_ms": 0}, None, 3),
        )
        self.assertEqual(make_change("--up"), WireChange(None, None, {}, False, None))
        self.assertEqual(
            make_change("--host 2 --down --for 200ms"), WireChange(2, None, {}, True, 0.2)
        )
        self.assertEqual(
            make_change("--rate 5"), WireChange(None, None, {"rate_mbit": 5}, None, None)
        )

    def test_error_names_what_is_wrong(self) -> None:
        for words, text in (
            ("--host 1", "wire: nothing is to be changed; try: softrdma wire --host 1 --loss 100"),
            ("--down", "wire --down: it is for the link of a host; add: --host N"),
            ("--host 1 --down --loss 3", "wire --down: it is for both directions of a link, and"),
            ("--up --delay 3", "change these by a second command"),
            ("--host 1 --up --down", "wire --down --up: they exclude each other"),
            ("--rate 0.001", "--rate 0.001: expected 0, or 0.01 to 100000 megabits per second"),
            ("--host 1 --to 2 --rate 3", "wire --rate: it is that of a host to all others"),
            ("--host 1 --to 1 --loss 3", "wire --to 1: a host has no wire to itself"),
            ("--loss 101", "--loss 101: expected 0 to 100 percent"),
            ("--loss 1 --for 0", "wire --for 0: expected a time of up to 86400 seconds"),
            ("--loss 1 --for 1h", "wire --for 1h: expected"),
            ("--loss 1 --for nan", "wire --for nan: expected"),
        ):
            with self.assertRaises(UsageError) as raised:
                make_change(words)
            self.assertIn(text, str(raised.exception))


class Changes(unittest.TestCase):
    def lost(self, table: WireTable) -> "set[Tuple[int, int]]":
        return {direction for direction in DIRECTIONS if table.wire(*direction).loss_percent}

    def test_direction_is_that_of_host_and_to(self) -> None:
        for words, expected in (
            ("--loss 1", set(DIRECTIONS)),
            ("--host 1 --loss 1", {(1, 2), (1, 3)}),
            ("--to 1 --loss 1", {(2, 1), (3, 1)}),
            ("--host 1 --to 3 --loss 1", {(1, 3)}),
            ("--host 1 --down", {(1, 2), (1, 3), (2, 1), (3, 1)}),
            ("--host 1 --to 3 --down", {(1, 3), (3, 1)}),
        ):
            for duration in ("", " --for 1s"):
                table = WireTable(Wire())
                table.change(make_change(words + duration), HOSTS)
                self.assertEqual(self.lost(table), expected, words + duration)

    def test_values_that_are_not_given_stay(self) -> None:
        table = WireTable(Wire(loss_percent=1, delay_ms=5))
        table.change(make_change("--delay 7"), HOSTS)
        table.change(make_change("--host 1 --duplicate 2 --for 1s"), HOSTS)
        self.assertEqual(table.wire(1, 2), Wire(1, 7, 2))
        self.assertEqual(table.wire(2, 1), Wire(1, 7))

    def test_end_of_a_change_restores_what_others_leave(self) -> None:
        table = WireTable(Wire(loss_percent=1))
        first = table.change(make_change("--loss 20 --for 1s"), HOSTS)
        second = table.change(make_change("--loss 30 --delay 5 --for 1s"), HOSTS)
        self.assertEqual(table.wire(1, 2), Wire(30, 5))
        table.end(first)
        self.assertEqual(table.wire(1, 2), Wire(30, 5))
        table.end(second)
        self.assertEqual(table.wire(1, 2), Wire(1))

    def test_last_change_counts_also_after_one_that_will_end(self) -> None:
        table = WireTable(Wire(loss_percent=1))
        temporary = table.change(make_change("--loss 20 --delay 5 --for 1s"), HOSTS)
        table.change(make_change("--loss 2"), HOSTS)
        self.assertEqual(table.wire(1, 2), Wire(2, 5))
        table.end(temporary)
        self.assertEqual(table.wire(1, 2), Wire(2))

    def test_link_that_is_up_again_has_its_former_wire_in_both_directions(self) -> None:
        for duration in ("", " --for 1s"):
            table = WireTable(Wire(loss_percent=1))
            table.change(make_change("--host 2 --loss 3"), HOSTS)
            table.change(make_change("--host 1 --down" + duration), HOSTS)
            table.change(make_change("--loss 0 --host 1 --to 2"), HOSTS)  # it is still down
            self.assertEqual([table.wire(1, 2), table.wire(2, 1)], [Wire(100), Wire(100)])
            table.change(make_change("--host 1 --up"), HOSTS)
            wires = [table.wire(*direction) for direction in ((1, 2), (2, 1), (1, 3), (3, 1))]
            self.assertEqual(wires, [Wire(0), Wire(3), Wire(1), Wire(1)], duration)

    def test_up_of_one_link_leaves_others_down(self) -> None:
        table = WireTable(Wire())
        table.change(make_change("--host 1 --down"), HOSTS)
        table.change(make_change("--host 3 --to 1 --up"), HOSTS)
        self.assertEqual(self.lost(table), {(1, 2), (2, 1)})
        table.change(make_change("--up"), HOSTS)
        self.assertEqual(self.lost(table), set())

    def test_number_of_changes_that_will_end_is_limited(self) -> None:
        table = WireTable(Wire())
        change = make_change("--loss 1 --for 1s")
        numbers = [table.change(change, HOSTS) for _ in range(wire_change.MAX_TEMPORARY_CHANGES)]
        with self.assertRaisesRegex(LabError, "changes with --for have not ended; wait for"):
            table.change(change, HOSTS)
        table.change(make_change("--loss 2"), HOSTS)
        table.end(numbers[0])
        table.change(change, HOSTS)

    def test_change_passes_unchanged_and_others_are_refused(self) -> None:
        change = make_change("--host 1 --to 2 --loss 3% --for 3s")
        self.assertEqual(wire_change.decode(wire_change.encode(change)), change)
        valid: Dict[str, Any] = change._asdict()
        for name, wrong in (
            ("sender", "1"),
            ("sender", True),
            ("receiver", 1.5),
            ("values", {"loss_percent": "3"}),
            ("values", {"loss_percent": float("nan")}),
            ("values", {"delay_ms": -1}),
            ("values", {"unknown": 1}),
            ("values", {"seconds": 1}),  # of the change, not of the wire
            ("values", [1]),
            ("values", {"loss_percent": 101}),
            ("values", {"rate_mbit": 10**400}),
            ("values", {"rate_mbit": 0.001}),
            ("is_down", 1),
            ("is_down", True),  # with values
            ("seconds", float("inf")),
            ("seconds", "3"),
            ("other", 1),
        ):
            data = json.dumps({**valid, name: wrong}).encode()
            with self.assertRaises((ValueError, TypeError, KeyError), msg=name):
                wire_change.decode(data)


class SwitchWithChanges(unittest.TestCase):
    def setUp(self) -> None:
        undo = supervisor.Undo()
        self.addCleanup(lambda: self.switch.connection.close())
        self.addCleanup(undo.close)
        cables = [socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in HOSTS]
        for end in (end for cable in cables for end in cable):
            self.addCleanup(end.close)
        self.ends = [end for end, _ in cables]
        for end in self.ends:
            end.settimeout(60)  # ends a hang
        settings = wire_switch.WireSettings(Wire(), 1, ["rxe"], HOSTS, "", None)

        def make_process(*arguments: Any) -> wire_switch.WireSwitchProcess:
            return wire_switch.WireSwitchProcess(settings, *arguments)

        self.switch = switch.Switch(undo, [[end for _, end in cables]], None, make_process)

    def send(self, sender: int, text: bytes) -> None:
        """To all others."""
        mac = switch.mac_address(0, sender)
        self.ends[sender - 1].send(b"\xff" * 6 + mac + b"\x08\0" + text)

    def receive(self, receiver: int) -> bytes:
        return self.ends[receiver - 1].recv(switch.MAX_FRAME_BYTES)[14:]

    def test_change_is_in_effect_when_the_call_returns(self) -> None:
        self.switch.change_wire(make_change("--host 1 --to 2 --loss 100"))
        self.send(1, b"lost")
        self.assertEqual(self.receive(3), b"lost")
        self.send(3, b"other")
        self.assertEqual(self.receive(2), b"other")
        self.switch.change_wire(make_change("--loss 0"))
        self.send(1, b"next")
        self.assertEqual(self.receive(2), b"next")

    def test_change_ends_after_its_time(self) -> None:
        self.switch.change_wire(make_change("--host 1 --down --for 100ms"))
        self.ends[1].settimeout(0.02)
        num_lost = 0
        text = b""
        while not text:
            self.send(1, b"text")
            try:
                text = self.receive(2)
            except socket.timeout:
                num_lost += 1
        self.assertGreater(num_lost, 0)

    def test_switch_that_has_ended_is_an_error(self) -> None:
        self.switch.connection.shutdown(socket.SHUT_WR)
        with self.assertRaisesRegex(LabError, "the switch between the hosts has ended$"):
            self.switch.change_wire(make_change("--loss 1"))

    def test_switch_that_is_killed_is_an_error_at_the_next_check(self) -> None:
        self.switch.check()
        os.kill(self.switch.child, signal.SIGKILL)
        with self.assertRaisesRegex(LabError, "has ended: it was killed by SIGKILL$"):
            while True:
                self.switch.check()

    def test_change_is_refused_while_an_earlier_one_waits(self) -> None:
        """The report of the earlier one is not taken for its own."""
        os.kill(self.switch.child, signal.SIGSTOP)
        change = make_change("--loss 1")
        with mock.patch.object(switch, "CHANGE_TIMEOUT_SECONDS", 0.1):
            with self.assertRaisesRegex(LabError, "does not answer within 0.1 s; the change will"):
                self.switch.change_wire(change)
            os.kill(self.switch.child, signal.SIGCONT)
            select.select([self.switch.connection], [], [], 60)
            os.kill(self.switch.child, signal.SIGSTOP)
            os.waitid(os.P_PID, self.switch.child, os.WSTOPPED)
            with self.assertRaisesRegex(LabError, "does not answer"):
                self.switch.change_wire(change)
        os.kill(self.switch.child, signal.SIGCONT)
        self.switch.change_wire(change)
        self.assertEqual(self.switch.last_change, 3)

    def test_change_that_the_switch_refuses_is_an_error(self) -> None:
        change = make_change("--loss 1 --for 1000s")
        for _ in range(wire_change.MAX_TEMPORARY_CHANGES):
            self.switch.change_wire(change)
        with self.assertRaisesRegex(LabError, "changes with --for have not ended"):
            self.switch.change_wire(change)
        self.switch.change_wire(make_change("--loss 0"))


class Run(unittest.TestCase):
    """What a run does with a change."""

    def change(self, words: str, *run_words: str) -> None:
        options = main.make_parser().parse_args(["run", "--wire", *run_words, "--", "true"])
        options.launcher = "softrdma"
        request = run_command._make_request(options, peer_key.make_key_text())
        members = [ClusterMember(number, [1, 2, 3], []) for number in self.local_numbers]
        change_wire = run_uml._wire_changer(self.switch, [*members], request)
        assert change_wire
        change_wire(make_change(words))

    def test_with_peers_only_what_the_host_sends_can_change(self) -> None:
        self.switch, self.local_numbers = mock.Mock(), [2]
        peers = ["--as", "2", "--peer", "host1", "--peer", "host3"]
        for words, text in (
            ("--to 2 --loss 1", "changes what its own host sends, here host 2; type the command"),
            ("--host 1 --loss 1", "changes what its own host sends, here host 2; type the command"),
            ("--host 2 --down", "use --loss 100 and --loss 0 in each run"),
            ("--up", "use --loss 100 and --loss 0 in each run"),
            ("--host 4 --loss 1", "there is no host 4 in this run; it has: 1, 2, 3"),
        ):
            with self.assertRaisesRegex(UsageError, text):
                self.change(words, *peers)
        self.switch.change_wire.assert_not_called()
        for words in ("--loss 1", "--to 3 --loss 1", "--host 2 --loss 1"):
            self.change(words, *peers)
        self.assertEqual(self.switch.change_wire.call_count, 3)

    def test_without_peers_any_host_can_be_changed(self) -> None:
        self.switch, self.local_numbers = mock.Mock(), [1, 2, 3]
        for words in ("--to 2 --loss 1", "--host 2 --down", "--up"):
            self.change(words, "--hosts", "3")
        self.assertEqual(self.switch.change_wire.call_count, 3)


class Client(unittest.TestCase):
    def answer(self, answer: bytes) -> WireChange:
        """Returns what the run gets from a client that it answers so."""
        client_end, run_end = socket.socketpair()
        with client_end, run_end, mock.patch.object(wire_client, "_connect", lambda _: client_end):
            run_end.sendall(answer)
            run_end.shutdown(socket.SHUT_WR)
            try:
                wire_client.change_wire(None, make_change("--loss 1"))
            finally:
                (frame,) = frames.Decoder().feed(run_end.recv(1000))
        self.assertEqual(frame[0], frames.WIRE)
        return wire_change.decode(frame[2])

    def test_client_sends_the_change(self) -> None:
        change = self.answer(frames.encode_number(frames.EXIT_STATUS, 0, 0))
        self.assertEqual(change, make_change("--loss 1"))

    def test_reason_of_the_run_is_the_error(self) -> None:
        answer = frames.encode(frames.ERRORS, 0, b"there is no host 9\x07")
        with self.assertRaises(UsageError) as raised:
            self.answer(answer + frames.encode_number(frames.EXIT_STATUS, 0, 2))
        self.assertEqual(str(raised.exception), r"wire: there is no host 9\x07")

    def test_run_that_ends_is_an_error(self) -> None:
        with self.assertRaisesRegex(LabError, "the run has ended"):
            self.answer(b"")

    def test_run_that_ends_before_it_reads_is_an_error(self) -> None:
        client_end, run_end = socket.socketpair()
        run_end.close()
        with mock.patch.object(wire_client, "_connect", lambda _: client_end):
            with self.assertRaisesRegex(LabError, "^wire: the run has ended$"):
                wire_client.change_wire(None, make_change("--loss 1"))

    def test_agent_that_cannot_be_reached_is_an_error(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "agent")
            with mock.patch.object(wire_client, "SOCKET_PATH", path):
                with socket.socket(socket.AF_UNIX) as listener:
                    listener.bind(path)  # and does not listen
                    with self.assertRaisesRegex(LabError, "^wire: the run has ended$"):
                        wire_client.change_wire(None, make_change("--loss 1"))
                    refuse = mock.Mock(side_effect=PermissionError)
                    with mock.patch.object(socket.socket, "connect", refuse):
                        with self.assertRaisesRegex(Unavailable, "only root of the guest may"):
                            wire_client.change_wire(None, make_change("--loss 1"))

    def test_run_is_advised_that_can_be_changed(self) -> None:
        with mock.patch.object(temporary_folders, "live_run_folders", lambda: []):
            with self.assertRaisesRegex(
                UsageError, "another terminal: softrdma run --hosts 2 --wire -- COMMAND$"
            ):
                wire_client.change_wire(None, make_change("--loss 1"))

    def test_run_on_the_running_kernel_is_refused(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            os.mkdir(os.path.join(folder, run_local.BIN_FOLDER))
            with mock.patch.object(shell_client, "select_run", lambda *_: folder):
                with self.assertRaisesRegex(Unavailable, "share the running kernel"):
                    wire_client.change_wire(1, make_change("--loss 1"))


if __name__ == "__main__":
    unittest.main()

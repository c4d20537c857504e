#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""run --peer: the key and the addresses that the caller gives."""

import os
import socket
import stat
import sys
import tempfile
import threading
import time
import unittest
import unittest.mock
from typing import Any

TEST_FOLDER = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, os.path.join(TEST_FOLDER, "..", "..", "..", "scripts"))
sys.dont_write_bytecode = True

from lab.core import run_request  # noqa: E402
from lab.core.errors import LabError, UsageError  # noqa: E402
from lab.run import peer_group, peer_key  # noqa: E402


class Key(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "key")

    def expect_refusal(self, text: str) -> None:
        with self.assertRaisesRegex(UsageError, text):
            peer_key.read_key_file(self.path)

    def test_file_is_readable_by_owner_only_whatever_the_umask(self) -> None:
        for umask in (0, 0o777):
            old_umask = os.umask(umask)
            try:
                peer_key.write_key_file(self.path)
            finally:
                os.umask(old_umask)
            self.assertEqual(stat.S_IMODE(os.stat(self.path).st_mode), 0o600)
            self.assertEqual(len(peer_key.read_key_file(self.path)), 32)
            os.unlink(self.path)

    def test_existing_file_and_link_are_not_overwritten(self) -> None:
        target = self.path + ".target"
        os.symlink(target, self.path)
        with self.assertRaisesRegex(LabError, "is not overwritten"):
            peer_key.write_key_file(self.path)
        self.assertFalse(os.path.exists(target))

    def test_keys_differ(self) -> None:
        self.assertNotEqual(peer_key.make_key_text(), peer_key.make_key_text())

    def test_file_of_which_others_know_the_contents_is_refused(self) -> None:
        peer_key.write_key_file(self.path)
        for mode in (0o640, 0o604, 0o620, 0o602):
            os.chmod(self.path, mode)
            self.expect_refusal("chmod 600")
        os.chmod(self.path, 0o600)
        if os.geteuid() == 0:
            os.chown(self.path, 1, 1)
            self.expect_refusal("belongs to user 1")

    def test_what_is_no_key_is_refused_and_not_shown(self) -> None:
        text = peer_key.make_key_text()
        for wrong in ("", text[:-1], text + "0", text.replace("-1-", "-2-"), "\xff\0" * 5000):
            with open(self.path, "w", encoding="latin-1") as file:
                os.chmod(self.path, 0o600)
                file.write(wrong)
            self.expect_refusal("this is no key; make one: softrdma key FILE$")
        os.unlink(self.path)
        self.expect_refusal("No such file")
        os.mkfifo(self.path, 0o600)
        self.expect_refusal("this is no file; .*, or put its text in SOFTRDMA_KEY$")
        os.unlink(self.path)
        os.mkdir(self.path)
        self.expect_refusal("this is no file")

    def test_longer_file_is_refused_although_it_begins_with_a_key(self) -> None:
        peer_key.write_key_file(self.path)
        with open(self.path, "a", encoding="ascii") as file:
            file.write("\n" * peer_key.MAX_FILE_BYTES + "text")
        self.expect_refusal("this is no key")


class Addresses(unittest.TestCase):
    def test_names_that_no_system_resolves_are_refused(self) -> None:
        for address in ("a..b", ".", "a" * 64, "a..b:4799", "[a..b]:4799", "b:\u00b2", "b\udcff"):
            with self.assertRaisesRegex(UsageError, "^--peer .* expected ADDRESS"):
                run_request.parse_peer_address(address, 1)

    def test_names_and_addresses_are_accepted(self) -> None:
        for host in ("host2", "a.example.", "b\u00fccher", "127.0.0.1", "fd00::2", "fe80::1%eth0"):
            self.assertEqual(run_request.parse_peer_address(host, 1), (host, 1))
            self.assertEqual(run_request.parse_peer_address(f"[{host}]:2", 1), (host, 2))


class Names(unittest.TestCase):
    """The system looks a name up for a long time."""

    def setUp(self) -> None:
        self.num_lookups = 0
        self.can_end = threading.Event()
        self.addCleanup(self.can_end.set)
        self.getaddrinfo: Any = socket.getaddrinfo
        patch = unittest.mock.patch.object(socket, "getaddrinfo", self.look_up)
        patch.start()
        self.addCleanup(patch.stop)

    def look_up(self, host: str, *details: Any, flags: int = 0) -> Any:
        if host != "slow":
            return self.getaddrinfo(host, *details, flags=flags)
        if flags & socket.AI_NUMERICHOST:
            raise OSError
        self.num_lookups += 1
        self.can_end.wait(10)
        return self.getaddrinfo("127.0.0.1", *details, flags=flags)

    def test_lookup_does_not_block_the_switch(self) -> None:
        slow = peer_group.Peer(2, "slow", 5203)
        numeric = peer_group.Peer(3, "127.0.0.1", 5203)
        group = peer_group.PeerGroup(1, [slow, numeric], 5201, ["rxe"], 60, bytes(32))
        self.addCleanup(group.socket.close)
        start_time = time.monotonic()
        for _ in range(20):
            group.last_hello_time = 0
            group.send_hellos()
        self.assertLess(time.monotonic() - start_time, 5)
        self.assertEqual(self.num_lookups, 1)
        self.assertEqual(list(group.peer_by_address.values()), [numeric])
        self.can_end.set()
        deadline = time.monotonic() + 10
        while not slow.socket_address and time.monotonic() < deadline:
            time.sleep(0.01)
            group.last_hello_time = 0
            group.send_hellos()
        self.assertEqual(slow.socket_address, numeric.socket_address)
        self.assertEqual(list(group.peer_by_address.values()), [slow])

    def test_name_that_is_not_known_is_looked_up_at_most_once_a_second(self) -> None:
        self.can_end.set()
        peer = peer_group.Peer(2, "slow", 5203)
        start_time = time.monotonic()
        for _ in range(20):  # of a family that the address does not have
            peer.resolve(socket.AF_UNIX)
            time.sleep(0.01)
        self.assertLessEqual(self.num_lookups, 1 + time.monotonic() - start_time)


if __name__ == "__main__":
    unittest.main()

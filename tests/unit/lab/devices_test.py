#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Devices of a run: `down` removes those of a run that was killed, and no others."""

import itertools
import json
import os
import signal
import subprocess
import sys
import tempfile
import unittest
from typing import List

TEST_FOLDER = os.path.dirname(os.path.realpath(__file__))
SCRIPTS = os.path.join(TEST_FOLDER, "..", "..", "..", "scripts")
# A kernel that makes any device at once.
WITH_FAKE_KERNEL = """if True:
    import json, os, sys, unittest.mock
    from lab.core import supervisor
    from lab.core.errors import LabError
    from lab.core.run_request import Wire
    from lab.devices import device_lifecycle, hosts, soft_devices
    device_lifecycle.RECORDS_FOLDER = os.environ["RECORDS"]
    for name in ("load_modules", "run_ip_batch", "add_device", "remove_device"):
        unittest.mock.patch.object(soft_devices, name).start()
    for name, value in (("run_ip_json", []), ("device_names", []), ("device_users", []),
                        ("device_exists", True), ("netdev_exists", False),
                        ("wait_until_ready", soft_devices.Gid(1, "::1"))):
        unittest.mock.patch.object(soft_devices, name, return_value=value).start()
"""
MAKE_DEVICE = """
    with supervisor.Undo() as undo:
        hosts.make_hosts(["rxe"], 1, Wire(0, 0), undo)
        print("made", flush=True)
        sys.stdin.read()
"""
MAKE_DEVICE_OF_GUEST = """
    hosts.make_hosts(["rxe"], 1, Wire(0, 0), supervisor.Undo())  # never called, as in a guest
    print("made", flush=True)
    sys.stdin.read()
"""
TAKE_DOWN = """
    print("states:", [device_lifecycle.device_state(record) for record in device_lifecycle.read_records()])
    print("removed:", device_lifecycle.take_down([]))
    try:
        device_lifecycle.take_down(["rxe0"])
    except LabError as problem:
        print(problem)
"""
# No process of the other namespace has the id of one of this namespace, or process 1 of both has.
OTHER_NAMESPACE = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
if os.geteuid() != 0:
    OTHER_NAMESPACE.insert(1, "-Ur")


class Owners(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.records = os.path.join(self.folder, "records")

    def start(self, script: str, command: List[str]) -> "subprocess.Popen[str]":
        process = subprocess.Popen(
            [*command, sys.executable, "-B", "-c", WITH_FAKE_KERNEL + script],
            env=dict(os.environ, PYTHONPATH=SCRIPTS, RECORDS=self.records),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.addCleanup(process.communicate)
        return process

    def start_run(self, command: List[str], script: str = MAKE_DEVICE) -> "subprocess.Popen[str]":
        process = self.start(script, command)
        assert process.stdout
        self.assertEqual(process.stdout.readline(), "made\n")
        return process

    def take_down(self, command: List[str]) -> str:
        return self.start(TAKE_DOWN, command).communicate()[0]

    def test_device_of_live_run_stays(self) -> None:
        namespaces: "tuple[tuple[List[str], List[str]], ...]"
        namespaces = ([], []), ([], OTHER_NAMESPACE), (OTHER_NAMESPACE, [])
        cases = itertools.product((MAKE_DEVICE, MAKE_DEVICE_OF_GUEST), namespaces)
        for number, (script, (run_command, down_command)) in enumerate(cases):
            with self.subTest(script=script, run=run_command, down=down_command):
                self.records = os.path.join(self.folder, str(number))
                run = self.start_run(run_command, script)
                output = self.take_down(down_command)
                run.communicate()
                self.assertIn("states: ['in a run']\nremoved: []\n", output)
                self.assertRegex(output, r"rxe0 belongs to a softrdma run \(process \d+\)")

    def test_device_of_killed_run_is_removed_although_a_process_has_its_id(self) -> None:
        run = self.start_run(OTHER_NAMESPACE)  # process 1 there
        run.send_signal(signal.SIGKILL)
        assert run.stdout
        run.stdout.read()  # its end shows that the process in the namespace has ended
        output = self.take_down([])
        self.assertIn("states: ['up']\nremoved: ['rxe0']\n", output)
        self.assertEqual(os.listdir(self.records), [".lock"])

    def test_front_process_removes_devices_of_its_killed_worker_after_another_down(self) -> None:
        run = self.start_run([])
        run.kill()
        run.communicate()
        script = """
    (record,) = device_lifecycle.read_records()
    device_lifecycle.bring_up("siw", name="siw5")
    print(device_lifecycle.take_down(["siw5"]))
    device_lifecycle.remove_devices_of_run(record["owner"])
"""
        self.assertEqual(self.start(script, []).communicate()[0], "['siw5']\n")
        self.assertEqual(os.listdir(self.records), [".lock"])

    @unittest.skipIf(os.geteuid() != 0, "needs root")
    def test_state_for_a_user_who_cannot_open_the_lock(self) -> None:
        os.chmod(self.folder, 0o755)
        self.start_run([])
        script = """
    os.seteuid(65534)
    print([device_lifecycle.device_state(record) for record in device_lifecycle.read_records()])
"""
        self.assertEqual(self.start(script, []).communicate()[0], "['in a run']\n")

    def test_run_that_ends_leaves_no_file(self) -> None:
        run = self.start_run([])
        (name,) = (name for name in os.listdir(self.records) if name.endswith(".json"))
        with open(os.path.join(self.records, name), encoding="utf-8") as file:
            self.assertEqual(json.load(file)["device"], "rxe0")
        run.communicate()
        self.assertEqual(os.listdir(self.records), [".lock"])


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""lab/core: versions, programs, the supervisor, the cache."""

import os
import signal
import subprocess
import sys
import tempfile
import unittest
from typing import Callable

TEST_FOLDER = os.path.dirname(os.path.realpath(__file__))
SCRIPTS = os.path.join(TEST_FOLDER, "..", "..", "..", "scripts")
sys.path.insert(0, SCRIPTS)
sys.dont_write_bytecode = True

from lab.core import cache, run_request, subprocesses, versions  # noqa: E402
from lab.core.errors import Unavailable, UsageError  # noqa: E402


class Versions(unittest.TestCase):
    def test_versions_sort_by_number(self) -> None:
        releases = ["6.1.0-9-amd64", "6.1.0-56-amd64", "6.1.0-10-amd64"]
        self.assertEqual(max(releases, key=versions.natural_key), "6.1.0-56-amd64")


class RequiredPrograms(unittest.TestCase):
    def test_all_missing_programs_are_in_one_error(self) -> None:
        with self.assertRaises(Unavailable) as raised:
            subprocesses.require_programs(
                {"sh": "dash", "no-make": "make", "no-depmod": "kmod"}, "a kernel"
            )
        self.assertEqual(
            str(raised.exception),
            "a kernel needs no-make and no-depmod, which are not installed; "
            "try: apt-get install make kmod",
        )

    def test_installed_program_has_absolute_path(self) -> None:
        subprocesses.require_programs({"sh": "dash"}, "a kernel")
        self.assertRegex(subprocesses.require_program("sh", "dash", "a kernel"), "^/.*/sh$")


class WritableFolders(unittest.TestCase):
    def test_folder_that_cannot_be_written_is_misuse(self) -> None:
        for folder in ("", "/", "/no-such-folder", "/etc/passwd"):
            with self.subTest(folder=folder), self.assertRaises(UsageError):
                run_request.absolute_folders([folder])
        self.assertEqual(run_request.absolute_folders([TEST_FOLDER]), [TEST_FOLDER])


class Supervisor(unittest.TestCase):
    def test_signal_ends_work_during_destructor(self) -> None:
        script = """if True:
            import sys, time
            from lab.core import supervisor
            class SlowDestructor:
                def __del__(self):
                    print("ready", flush=True)
                    time.sleep(1e6)
            def work():
                SlowDestructor()
                time.sleep(1e6)
                return 0
            sys.exit(supervisor.run(work, lambda: None))
        """
        for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGKILL):
            with subprocess.Popen(
                [sys.executable, "-c", script],
                env=dict(os.environ, PYTHONPATH=SCRIPTS),
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            ) as front:
                assert front.stdout and front.stderr
                self.assertEqual(front.stdout.readline(), "ready\n")
                front.send_signal(signum)
                # The worker has the pipes open, too: their end shows that both processes ended.
                self.assertEqual((front.stdout.read(), front.stderr.read()), ("", ""))
            is_killed = signum == signal.SIGKILL
            self.assertEqual(front.returncode, -signum if is_killed else 128 + signum)

    def test_signal_before_blocking_call_ends_work(self) -> None:
        # The deque calls kill() and sleep() without a bytecode between them.
        script = """if True:
            import collections, ctypes, itertools, os, sys, time
            from lab.core import supervisor
            kill = ctypes.CDLL(None).kill
            def work():
                calls = itertools.chain(map(kill, [os.getpid()], [15]), map(time.sleep, [1e6]))
                collections.deque(calls)
                return 0
            sys.exit(supervisor.run(work, lambda: None))
        """
        with subprocess.Popen(
            [sys.executable, "-c", script], env=dict(os.environ, PYTHONPATH=SCRIPTS)
        ) as front:
            self.assertEqual(front.wait(), 128 + signal.SIGTERM)


class Cache(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        os.environ["SOFTRDMA_CACHE"] = folder.name
        self.num_builds = 0

    def build(self, path: str) -> "dict[str, str]":
        self.num_builds += 1
        os.mkdir(os.path.join(path, "lib"))
        for name in ("boot", "lib/other"):
            with open(os.path.join(path, name), "w", encoding="ascii") as file:
                file.write("contents of " + name)
        return {"version": "1"}

    def get_entry(self) -> str:
        return cache.get_or_build("kind", "name", self.build, ["boot"])

    def test_entry_is_built_once(self) -> None:
        self.assertEqual(self.get_entry(), self.get_entry())
        self.assertEqual(self.num_builds, 1)

    def test_damaged_entry_is_rebuilt(self) -> None:
        path = self.get_entry()

        def write(name: str, text: str) -> None:
            with open(os.path.join(path, name), "w", encoding="ascii") as file:
                file.write(text)

        damages: "tuple[tuple[Callable[[], None], str], ...]" = (
            (lambda: write("boot", "CONTENTS OF boot"), "boot has other contents"),
            (lambda: write("lib/other", "short"), "lib/other has another size"),
            (lambda: os.unlink(os.path.join(path, "lib/other")), "lib/other is missing"),
            (lambda: write("manifest.json", "{}"), "manifest is missing or broken"),
        )
        for make_damage, expected in damages:
            make_damage()
            self.assertIn(expected, cache.find_damage(path) or "no damage")
            self.get_entry()
            self.assertIsNone(cache.find_damage(path))
        self.assertEqual(self.num_builds, 1 + len(damages))

    def test_failed_build_leaves_no_file(self) -> None:
        def fail(path: str) -> "dict[str, str]":
            self.build(path)
            raise ValueError

        with self.assertRaises(ValueError):
            cache.get_or_build("kind", "name", fail, [])
        self.assertEqual(os.listdir(cache.cache_path("kind")), ["name.lock"])


if __name__ == "__main__":
    unittest.main()

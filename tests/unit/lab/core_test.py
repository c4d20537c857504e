#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""lab/core: versions, programs, the supervisor, the cache."""

import contextlib
import functools
import io
import os
import signal
import subprocess
import sys
import tempfile
import unittest
import unittest.mock
from typing import Callable, List

TEST_FOLDER = os.path.dirname(os.path.realpath(__file__))
SCRIPTS = os.path.join(TEST_FOLDER, "..", "..", "..", "scripts")
sys.path.insert(0, SCRIPTS)
sys.dont_write_bytecode = True

from lab.core import cache, progress, run_request, subprocesses, supervisor, versions  # noqa: E402
from lab.core.errors import LabError, Unavailable, UsageError  # noqa: E402
from lab.run import bench  # noqa: E402


class Versions(unittest.TestCase):
    def test_versions_sort_by_number(self) -> None:
        releases = ["6.1.0-9-amd64", "6.1.0-56-amd64", "6.1.0-10-amd64"]
        self.assertEqual(max(releases, key=versions.natural_key), "6.1.0-56-amd64")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Messages(unittest.TestCase):
    HOSTILE = "\x1b]0;title\x07 \x9b2J \u202ereversed \udcff\r\x7f\0"
    ESCAPED = r"\x1b]0;title\x07 \x9b2J \u202ereversed \xff\r\x7f\x00"

    def printed(self, write: Callable[[], object]) -> str:
        stderr = io.StringIO()
        with contextlib.redirect_stderr(stderr):
            write()
        return stderr.getvalue()

    def test_control_characters_are_not_printed(self) -> None:
        functions: List[Callable[[str], object]] = [progress.note, progress.error]
        functions.append(lambda text: progress.Step(text).__enter__())
        for function in functions:
            stderr = self.printed(functools.partial(function, self.HOSTILE))
            self.assertEqual(stderr, f"softrdma: {self.ESCAPED}\n")

    def test_step_on_a_terminal_prints_no_control_character_of_its_title(self) -> None:
        step = progress.Step(self.HOSTILE)
        step.on_terminal = True
        self.addCleanup(self.printed, step.clear)
        os.environ["COLUMNS"] = "200"
        self.assertIn(
            f"\r\x1b[Ksoftrdma: {self.ESCAPED}  ", self.printed(lambda: step.update(None))
        )

    def test_message_takes_the_place_of_a_step_on_a_terminal(self) -> None:
        step = progress.Step("starting")
        step.on_terminal = True
        self.printed(lambda: step.update(None))
        self.assertEqual(
            self.printed(lambda: progress.error("a")), f"{progress.CLEAR_LINE}softrdma: a\n"
        )
        self.assertEqual(self.printed(lambda: progress.error("b")), "softrdma: b\n")
        self.assertEqual(self.printed(step.clear), "")

    def test_lines_on_a_raw_terminal_end_by_cr_lf(self) -> None:
        progress.end_lines_by("\r\n")
        self.addCleanup(progress.end_lines_by, "\n")
        self.assertEqual(self.printed(lambda: progress.error("a")), "softrdma: a\n")
        terminal = Terminal()
        with contextlib.redirect_stderr(terminal):
            progress.error("a\nb")
        self.assertEqual(terminal.getvalue(), "softrdma: a\r\nb\r\n")

    def test_cell_of_a_table_and_result_are_one_line(self) -> None:
        stdout = io.StringIO()
        with contextlib.redirect_stdout(stdout):
            progress.print_table(["A", "B"], [[self.HOSTILE, 1]], "")
            progress.print_table(["A"], [], self.HOSTILE)
            progress.print_result(self.HOSTILE)
        width = len(self.ESCAPED)
        self.assertEqual(
            stdout.getvalue(),
            f"{'A'.ljust(width)}  B\n{self.ESCAPED}  1\n{self.ESCAPED}\n{self.ESCAPED}\n",
        )

    def test_output_of_perftest_is_escaped(self) -> None:
        lines = bench._last_lines("h\xf6r \x1b[2J\nb\x9b\0")
        self.assertEqual(lines, "h\xf6r " + r"\x1b[2J | b\x9b\x00")

    def test_newlines_and_tabs_of_a_message_stay(self) -> None:
        self.assertEqual(self.printed(lambda: progress.error("a\n\tb")), "softrdma: a\n\tb\n")

    def test_other_text_is_printed_unchanged(self) -> None:
        for text in ("", "plain", "größer → 5 µs", r"C:\x1b"):
            self.assertEqual(progress.escape(text), text)

    def test_escaped_text_is_one_line(self) -> None:
        self.assertEqual(progress.escape("a\nsoftrdma: b\u2028"), r"a\nsoftrdma: b\u2028")
        self.assertEqual(progress.escape_lines("a\x1b\nb\r"), "a\\x1b\nb\\r")

    def test_output_of_a_program_is_escaped_in_its_error(self) -> None:
        with self.assertRaisesRegex(LabError, r"failed: one \| \\x1b\[31mtwo$"):
            subprocesses.capture_output(["sh", "-c", r"printf 'one\n\033[31mtwo\n' >&2; false"])


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

    def test_package_manager_of_the_system_is_named(self) -> None:
        for manager, command in (
            ("dnf", "dnf install iproute qemu-system-x86-core"),
            ("apk", "apk add iproute2 iproute2-rdma qemu-system-x86_64"),
        ):
            with tempfile.TemporaryDirectory() as folder:
                program = os.path.join(folder, manager)
                with open(program, "w", encoding="ascii") as file:
                    file.write("#!/bin/sh\n")
                os.chmod(program, 0o755)
                path = unittest.mock.patch.dict(os.environ, {"PATH": folder})
                system_path = unittest.mock.patch.object(subprocesses, "SYSTEM_PATH", "")
                needed = {"ip": "iproute2", "qemu": "qemu-system-x86 --no-install-recommends"}
                with path, system_path, self.assertRaises(Unavailable) as raised:
                    subprocesses.require_programs(needed, "it")
            self.assertTrue(str(raised.exception).endswith(f"try: {command}"), raised.exception)

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

    def run_front(self, script: str) -> "tuple[int, str, str]":
        """The status and the output of a program that calls supervisor.run()."""
        with tempfile.TemporaryFile("w+") as stdout, tempfile.TemporaryFile("w+") as stderr:
            # Files: a process that is left would keep pipes open.
            result = subprocess.run(
                [sys.executable, "-c", script],
                env=dict(os.environ, PYTHONPATH=SCRIPTS),
                stdout=stdout,
                stderr=stderr,
                timeout=120,
            )
            stdout.seek(0)
            stderr.seek(0)
            return result.returncode, stdout.read(), stderr.read()

    def test_caller_that_ignores_sigchld_gets_status(self) -> None:
        status, _, errors = self.run_front(
            """if True:
            import signal, sys
            from lab.core import supervisor
            signal.signal(signal.SIGCHLD, signal.SIG_IGN)
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(20)  # ends a hang
            sys.exit(supervisor.run(lambda: 5, lambda: None))
        """
        )
        self.assertEqual(status, 5, errors)

    def test_killed_worker_leaves_no_descendant(self) -> None:
        # Children of the worker and daemons, with and without a session, that ignore SIGTERM.
        status, output, errors = self.run_front(
            """if True:
            import os, signal, sys, time
            from lab.core import supervisor
            started_end, write_end = os.pipe()
            def start(num_forks, leave_session):
                if os.fork():
                    return
                for _ in range(num_forks - 1):
                    if os.fork():
                        os._exit(0)
                if leave_session:
                    os.setsid()
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
                os.write(write_end, b"%8d" % os.getpid())
                time.sleep(1e6)
            def work():
                for num_forks in (1, 2, 3):
                    start(num_forks, False)
                    start(num_forks, True)
                pids = [os.read(started_end, 8) for _ in range(6)]
                os.write(write_end, b"".join(pids))
                os.kill(os.getpid(), signal.SIGKILL)
            def clean_up():  # it would wait for a process that has a device open
                pids = os.read(started_end, 48).split()
                alive = [pid for pid in pids if os.path.exists(b"/proc/" + pid)]
                print(len(pids), "processes,", len(alive), "alive")
                for pid in alive:
                    os.kill(int(pid), signal.SIGKILL)
            sys.exit(supervisor.run(work, clean_up))
        """
        )
        self.assertEqual((status, output), (1, "6 processes, 0 alive\n"), errors)
        self.assertIn("the worker process was killed", errors)
        self.assertIn("the next build removes those in the cache", errors)

    def test_killed_worker_leaves_children_of_former_program(self) -> None:
        # `sh -c 'server & exec softrdma ...'`: the server is no process of softrdma.
        status, output, errors = self.run_front(
            """if True:
            import os, signal, sys, time
            from lab.core import supervisor
            server = os.fork()
            if server == 0:
                time.sleep(1e6)
            def work():
                if os.fork() == 0:
                    time.sleep(10)  # ends also if the test fails
                    os._exit(0)
                os.kill(os.getpid(), signal.SIGKILL)
            def clean_up():
                print("the server has ended:", os.waitpid(server, os.WNOHANG) != (0, 0))
                os.kill(server, signal.SIGKILL)
            sys.exit(supervisor.run(work, clean_up))
        """
        )
        self.assertEqual((status, output), (1, "the server has ended: False\n"), errors)

    def test_ended_child_of_former_program_is_no_end_of_work(self) -> None:
        status, _, errors = self.run_front(
            """if True:
            import os, sys, time
            from lab.core import supervisor
            read_end, write_end = os.pipe()
            if os.fork() == 0:
                os.read(read_end, 1)
                os._exit(7)
            def work():
                os.write(write_end, b"x")
                time.sleep(0.3)  # the subject: the former child ends first
                return 5
            sys.exit(supervisor.run(work, lambda: None))
        """
        )
        self.assertEqual(status, 5, errors)

    def test_children_that_have_ended_are_reaped_at_once(self) -> None:
        # To list and to kill the children for each of thousands took longer than the timeout.
        children = [os.fork() or os._exit(0) for _ in range(100)]
        for child in children:
            os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
        with unittest.mock.patch.object(
            supervisor, "_child_pids", wraps=supervisor._child_pids
        ) as child_pids:
            supervisor.kill_descendants()
        self.assertEqual(child_pids.call_count, 1)
        with self.assertRaises(ChildProcessError):
            os.waitpid(-1, os.WNOHANG)


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

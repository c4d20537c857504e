#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Parts of softrdma that need neither device nor guest: GIDs, the switch, initramfs, --help."""

import io
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import unittest
from contextlib import redirect_stdout
from unittest import mock

TEST_FOLDER = os.path.dirname(os.path.realpath(__file__))
TOP_FOLDER = os.path.join(TEST_FOLDER, "..", "..", "..")
sys.path.insert(0, os.path.join(TOP_FOLDER, "scripts"))
sys.dont_write_bytecode = True

from lab.cli import main  # noqa: E402
from lab.core import supervisor  # noqa: E402
from lab.core.errors import LabError, Unavailable  # noqa: E402
from lab.core.run_request import ClusterMember  # noqa: E402
from lab.devices import hosts, on_command, privileges, soft_devices  # noqa: E402
from lab.guest import host_exec, host_setup  # noqa: E402
from lab.kernel import custom_build  # noqa: E402
from lab.protocol import frames  # noqa: E402
from lab.run import (  # noqa: E402
    debugger,
    guest_session,
    initramfs,
    log_pipe,
    shell_client,
    shell_server,
    switch,
)


class Gids(unittest.TestCase):
    def test_ipv4_address_is_mapped_to_gid(self) -> None:
        self.assertEqual(
            soft_devices.ipv4_mapped_gid("198.18.0.1"), "0000:0000:0000:0000:0000:ffff:c612:0001"
        )


class OwnPython(unittest.TestCase):
    """Not each machine has Python as /usr/bin/python3."""

    def test_on_runs_the_python_of_softrdma(self) -> None:
        with tempfile.TemporaryDirectory() as parent:
            python = os.path.join(parent, "a python")
            with open(python, "w", encoding="ascii") as file:
                file.write(f'#!/bin/sh\necho own >&2\nexec {sys.executable} "$@"\n')
            os.chmod(python, 0o755)
            local_host = hosts.Host(number=1, netns=None, devices=[])
            member = ClusterMember(number=1, numbers=[1, 2], remote_numbers=[])
            folder = os.path.join(parent, "bin")
            with mock.patch.object(sys, "executable", python):
                on_command.install(folder, [local_host], local_host, member)
            result = subprocess.run(
                [os.path.join(folder, "on"), "9"], stderr=subprocess.PIPE, text=True
            )
        self.assertEqual(result.returncode, 2)
        self.assertTrue(result.stderr.startswith("own\non: there is no host '9'"), result.stderr)

    def test_python_that_does_not_know_its_path(self) -> None:
        program = os.path.join(TOP_FOLDER, "scripts", "softrdma")
        result = subprocess.run(
            ["no-path", program, "--version"],
            executable=os.path.realpath(sys.executable),
            env={"LC_ALL": "C"},
            stdout=subprocess.PIPE,
            text=True,
        )
        self.assertEqual(result.returncode, 0)
        self.assertTrue(result.stdout.startswith("softrdma "))


class RemoteShell(unittest.TestCase):
    """`on` with the name of a host in place of its number."""

    def test_name_makes_words_a_command_line(self) -> None:
        line = ["softrdma-2", ' "/usr/bin/program"', "a;", "b  c"]
        self.assertEqual(
            host_exec.parse_arguments(line, [1, 2]),
            ([], "2", ["sh", "-c", "--", ' "/usr/bin/program" a; b  c']),
        )

    def test_number_keeps_words(self) -> None:
        words = ["a;", "", "b  c"]
        self.assertEqual(host_exec.parse_arguments(["2", *words], [1, 2]), ([], "2", words))

    def test_options_precede_the_host(self) -> None:
        arguments = ["-x", "-n", "softrdma-1", "-n", "-q"]
        self.assertEqual(
            host_exec.parse_arguments(arguments, [1, 2]),
            (["-x", "-n"], "1", ["sh", "-c", "--", "-n -q"]),
        )

    def test_name_of_no_host_is_no_number(self) -> None:
        for name in ("softrdma-3", "softrdma-", "softrdma-02", "-v"):
            self.assertEqual(host_exec.parse_arguments([name, "x"], [1, 2]), ([], name, ["x"]))

    def test_missing_command_is_no_empty_line(self) -> None:
        self.assertEqual(host_exec.parse_arguments(["softrdma-2"], [1, 2]), ([], "2", []))
        self.assertEqual(host_exec.parse_arguments(["-n"], [1, 2]), (["-n"], "", []))

    def test_script_for_one_kernel_does_the_same(self) -> None:
        device = {
            "driver": "rxe",
            "device": "rxe0",
            "netdev": "eth0",
            "address": "1.2.3.4",
            "gid_index": 1,
        }
        all_hosts = [hosts.Host(number, None, [device]) for number in (1, 2)]
        with tempfile.TemporaryDirectory() as parent:
            folder = os.path.join(parent, "bin")
            on_command.install(folder, all_hosts, all_hosts[0])

            def run_on(*arguments: str) -> "tuple[int, str]":
                result = subprocess.run(
                    [os.path.join(folder, "on"), *arguments],
                    input="input",
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    text=True,
                )
                return result.returncode, result.stdout

            line = ["echo", "a  b;", "echo", "$SOFTRDMA_HOST;", "exit", "3"]
            self.assertEqual(run_on("softrdma-2", *line), (3, "a b\n2\n"))
            self.assertEqual(run_on("2", "printf", "%s|", "a  b;", ""), (0, "a  b;||"))
            self.assertEqual(run_on("-q", "softrdma-1", "cat"), (0, "input"))
            self.assertEqual(run_on("-x", "-n", "softrdma-1", "cat"), (0, ""))
            self.assertEqual(run_on("softrdma-3", "true"), (2, ""))


class NamesOfHosts(unittest.TestCase):
    def test_each_host_has_a_line(self) -> None:
        all_hosts = [
            hosts.Host(number, None, [{"address": f"198.19.1.{number}"}]) for number in (1, 2)
        ]
        lines = "198.19.1.1 softrdma-1\n198.19.1.2 softrdma-2\n"
        self.assertEqual(hosts.host_names(all_hosts, "softrdma-2"), lines)
        self.assertEqual(hosts.host_names(all_hosts, "softrdma"), lines + "198.19.1.1 softrdma\n")

    def write_hosts_file(self, path: str) -> str:
        """Returns what the file has when the name of a host was added to it."""
        with mock.patch.multiple(host_setup, HOSTS_FILE=path, HOSTS_COPY="/nonexistent/copy"):
            host_setup._write_hosts_file("198.19.1.2 softrdma-2\n")
        self.assertFalse(os.path.islink(path))
        with open(path, encoding="ascii") as file:
            return file.read()

    def test_hosts_file_names_each_host_once(self) -> None:
        with tempfile.TemporaryDirectory() as parent:
            path = os.path.join(parent, "etc", "hosts")
            line = "198.19.1.2 softrdma-2\n"
            self.assertEqual(self.write_hosts_file(path), line)  # there was none
            with open(path, "w", encoding="ascii") as file:
                file.write("10.0.0.9 other softrdma-2 # old\n127.0.0.1 localhost # not softrdma-2")
            expected = line + "127.0.0.1 localhost # not softrdma-2\n"
            self.assertEqual(self.write_hosts_file(path), expected)
            os.unlink(path)
            os.symlink("/nonexistent", path)
            self.assertEqual(self.write_hosts_file(path), line)


class RefusedPrograms(unittest.TestCase):
    def test_program_that_is_not_permitted_makes_the_kernel_unavailable(self) -> None:
        with self.assertRaisesRegex(Unavailable, "Operation not permitted"):
            soft_devices._run_program(
                ["sh", "-c", "echo error: Operation not permitted >&2; exit 1"]
            )
        with self.assertRaises(LabError) as raised:
            soft_devices._run_program(["sh", "-c", "echo No such device >&2; exit 1"])
        self.assertEqual(raised.exception.status, 1)

    def test_read_only_setting_makes_two_hosts_unavailable(self) -> None:
        path = "/proc/sys/kernel/ostype"  # not even root can open it for writing
        with mock.patch.object(
            hosts, "NONLOCAL_BIND", path
        ), supervisor.Undo() as undo, self.assertRaisesRegex(
            Unavailable, f"{path}, which cannot be written: Permission denied; use: .*--in uml"
        ):
            hosts._allow_nonlocal_bind(undo)  # the end of Undo succeeds: nothing was changed


class LocalCommand(unittest.TestCase):
    """A command on the running kernel, without devices."""

    def start(self, script: str) -> "subprocess.Popen[str]":
        program = (
            "import os, sys; from lab.core import supervisor; from lab.run import run_local; "
            "run = lambda: run_local._run_command(['sh', '-c', sys.argv[1]], dict(os.environ)); "
            "sys.exit(supervisor.run(run, lambda: None))"
        )
        return subprocess.Popen(
            [sys.executable, "-c", program, script],
            env=dict(os.environ, PYTHONPATH=os.path.join(TOP_FOLDER, "scripts")),
            stdout=subprocess.PIPE,
            text=True,
        )

    def test_ended_daemons_of_command_are_reaped(self) -> None:
        with self.start(
            """
            for daemon in 1 2 3 4 5; do (true &); done
            for attempt in $(seq 200); do
                states=$(ps -o stat= --ppid $PPID)
                case $states in *Z*) sleep 0.05 ;; *) echo "no zombie"; exit 6 ;; esac
            done
            echo "$states"
            """
        ) as front:
            output, _ = front.communicate()
        self.assertEqual((front.returncode, output), (6, "no zombie\n"))

    def test_command_gets_signals_and_its_status_counts(self) -> None:
        for signum, name in ((signal.SIGTERM, "TERM"), (signal.SIGINT, "INT")):
            with self.start(
                f'trap "echo trapped; exit 9" {name}; (sleep 0.1 &); echo begun; while :; do sleep 0.1; done'
            ) as front:
                assert front.stdout
                self.assertEqual(front.stdout.readline(), "begun\n")
                front.send_signal(signum)
                self.assertEqual(front.stdout.read(), "trapped\n")
            self.assertEqual(front.returncode, 9)

    def test_signal_of_command_is_its_status(self) -> None:
        with self.start("kill -KILL $$") as front:
            self.assertEqual(front.wait(), 128 + signal.SIGKILL)


class Privileges(unittest.TestCase):
    def reason(self, prefix: "list[str]", missing_modules: str = "", num_hosts: int = 1) -> str:
        """Of a process that the prefix starts."""
        call = f"privileges.reason_not_permitted({missing_modules.split()!r}, {num_hosts})"
        program = f"from lab.devices import privileges; print({call})"
        result = subprocess.run(
            [*prefix, "/usr/bin/python3", "-B", "-c", program],
            env=dict(os.environ, PYTHONPATH=os.path.join(TOP_FOLDER, "scripts")),
            capture_output=True,
            text=True,
        )
        if result.returncode:
            self.skipTest(f"not permitted here: {result.stderr}")
        return result.stdout.strip()

    def test_root_of_user_namespace_may_not(self) -> None:
        self.assertIn("user namespace", self.reason(["unshare", "--user", "--map-root-user"]))

    @unittest.skipIf(os.geteuid() != 0, "needs root")
    def test_missing_capability_is_named(self) -> None:
        def without(*names: str) -> "list[str]":
            return ["setpriv", "--bounding-set", ",".join(f"-{name}" for name in names)]

        self.assertIn(
            "devices on the running kernel needs CAP_NET_ADMIN", self.reason(without("net_admin"))
        )
        unloaded = self.reason(without("sys_module"), missing_modules="siw rdma_ucm")
        self.assertIn("loading the module siw needs CAP_SYS_MODULE", unloaded)
        self.assertEqual(self.reason(without("sys_module", "sys_admin")), "")
        two_hosts = self.reason(without("sys_admin"), num_hosts=2)
        self.assertIn("making hosts on the running kernel needs CAP_SYS_ADMIN", two_hosts)
        self.assertEqual(self.reason([], "siw", 2), "")

    @unittest.skipIf(os.geteuid() != 0, "needs root")
    def test_user_may_not(self) -> None:
        with mock.patch("os.geteuid", return_value=65534):
            self.assertIn("needs root", privileges.reason_not_permitted([]))

    def test_folder_without_new_nodes_is_found(self) -> None:
        # A tmpfs as /dev, as in a container; then with the machine's nodes of RDMA devices.
        reason = "from lab.devices import privileges; print(privileges.reason_for_no_nodes())"
        script = (
            f'mount --rbind /dev /mnt && mount -t tmpfs dev /dev && "$0" -B -c "{reason}" && '
            f'mkdir /dev/infiniband && mount --rbind /mnt /dev/infiniband && "$0" -B -c "{reason}"'
        )
        result = subprocess.run(
            [
                "unshare",
                "--user",
                "--map-root-user",
                "--mount",
                "sh",
                "-c",
                script,
                "/usr/bin/python3",
            ],
            env=dict(os.environ, PYTHONPATH=os.path.join(TOP_FOLDER, "scripts")),
            capture_output=True,
            text=True,
        )
        if result.returncode:
            self.skipTest(f"not permitted here: {result.stderr}")
        self.assertEqual(
            result.stdout,
            "/dev is a container's, in which the node of a new device does not appear\n\n",
        )


class SwitchProcess(unittest.TestCase):
    def test_sigterm_before_start_ends_process(self) -> None:
        # The child inherits a handler, as in softrdma.
        old_handler = signal.signal(signal.SIGTERM, lambda *_: None)
        self.addCleanup(signal.signal, signal.SIGTERM, old_handler)
        for _ in range(40):
            parent_end, child_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
            with parent_end, child_end, supervisor.Undo() as undo:
                process = switch.Switch(undo, [[child_end]], None)
            process.connection.close()
            with self.assertRaises(ProcessLookupError):
                os.kill(process.child, 0)

    def test_reason_is_reported_if_process_ends_before_it_reads(self) -> None:
        guest_end, port_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        with supervisor.Undo() as undo, guest_end, port_end:
            process = switch.Switch(undo, [[port_end]], None)
            process.connection.close()
            process.connection, child = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            process.connection.setblocking(False)
            process.check_ready()  # the child does not read what it sends
            child.send(switch.FAILURE + b"the reason")
            child.close()
            with self.assertRaisesRegex(LabError, "^the reason$"):
                process.check_ready()
        process.connection.close()


class OutputOfKernel(unittest.TestCase):
    def setUp(self) -> None:
        self.log = log_pipe.LogPipe()
        self.addCleanup(os.close, self.log.read_end)
        self.addCleanup(self.log.close_write_end)
        os.set_blocking(self.log.write_end, False)

    def print_and_read(self, text: bytes) -> None:
        while text:
            text = text[os.write(self.log.write_end, text) :]
            self.log.read()

    def test_panic_is_found_once_also_in_parts(self) -> None:
        panic = b"[    1.2] Kernel panic - not syncing: reason\n"
        for end in range(1, len(panic) - len(b" reason\n")):
            self.print_and_read(panic[:end])
            self.log.has_new_panic()
            self.print_and_read(panic[end:])
            self.assertTrue(self.log.has_new_panic(), end)
            self.assertFalse(self.log.has_new_panic())

    def test_words_of_a_program_are_no_panic(self) -> None:
        self.print_and_read(b"said: Kernel panic - not syncing\n")
        self.assertFalse(self.log.has_new_panic())

    def test_much_output_is_dropped_but_its_end(self) -> None:
        self.print_and_read(b"first\n")
        line = b"x" * 99 + b"\n"
        for _ in range(3 * log_pipe.MAX_BYTES // 100_000):
            self.print_and_read(line * 1000)
            self.assertFalse(self.log.has_new_panic())
            self.assertLess(len(self.log.text), log_pipe.MAX_BYTES + len(log_pipe.DROPPED) + 1)
        self.print_and_read(b"Kernel panic - not syncing\n")
        self.assertTrue(self.log.has_new_panic())
        lines = self.log.lines()
        self.assertIn("output before this was dropped", lines[0])
        self.assertEqual(lines[-1], "Kernel panic - not syncing")

    def test_expected_line_is_left_out(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "console")
            self.print_and_read(b"um: check_one_sigio failed, errno = 13\n")
            self.log.append_to(path, 1)
            self.assertFalse(os.path.exists(path))
            self.print_and_read(b"other\n")
            self.log.append_to(path, 2)
            with open(path, "rb") as file:
                self.assertEqual(file.read(), b"== kernel of host 2\nother\n")


class GuestText(unittest.TestCase):
    """What a guest sends is not printed as it is."""

    def setUp(self) -> None:
        console = log_pipe.LogPipe()
        os.write(console.write_end, b"kernel \x1b[31m\xff\rmessage\x07\n")
        console.close_write_end()
        local_end, self.guest_end = socket.socketpair()
        self.addCleanup(local_end.close)
        self.addCleanup(self.guest_end.close)
        process = subprocess.Popen(["sleep", "infinity"])
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.session = guest_session.GuestSession(process, local_end, 60, [console])

    def error_after(self, data: bytes) -> str:
        self.guest_end.send(data)
        with self.assertRaises(LabError) as raised:
            for _ in self.session.receive():
                pass
        return str(raised.exception)

    def test_reason_of_a_guest_that_does_not_start_is_escaped(self) -> None:
        error = self.error_after(b"fail \x1b]0;title\x07\n")
        self.assertIn(r"could not start: \x1b]0;title\x07; its last output:", error)
        self.assertIn("\n    kernel \\x1b[31m\ufffd\n    message\\x07", error)

    def test_refusal_is_escaped(self) -> None:
        self.assertEqual(self.error_after(b"refuse 77 \x1b[2J\xff\n"), "\\x1b[2J\ufffd")

    def test_failure_of_the_agent_is_escaped_and_has_its_lines(self) -> None:
        frame = frames.encode(frames.AGENT_FAILED, 0, b"Traceback\n  \x1b[2J\x9b\r\n")
        error = self.error_after(b"agent\n" + frame)
        self.assertIn("please report:\nTraceback\n  \\x1b[2J\ufffd\\r\n", error)


class Debugger(unittest.TestCase):
    def test_process_that_may_not_be_traced_is_refused(self) -> None:
        with mock.patch.object(debugger, "_libc") as libc:
            libc.ptrace.return_value = 0
            debugger.require_permission()
            libc.ptrace.return_value = -1
            with self.assertRaisesRegex(Unavailable, "may not be traced"):
                debugger.require_permission()


class ShellSocket(unittest.TestCase):
    def setUp(self) -> None:
        parent = tempfile.TemporaryDirectory()
        self.addCleanup(parent.cleanup)
        # Longer than the address of a socket can be.
        self.folder = os.path.join(parent.name, "long" * 30, "softrdma.4711.0123456789abcdef")
        os.makedirs(self.folder)

    def test_a_run_without_socket_is_waited_for_until_it_has_one(self) -> None:
        self.assertIsNone(shell_client._try_connect(self.folder, "shell"))
        with supervisor.Undo() as undo:
            shell_server.ShellServer(self.folder, undo)
            connection = shell_client._try_connect(self.folder, "shell")
            assert connection
            connection.close()
        self.assertIsNone(shell_client._try_connect(self.folder, "shell"))

    def test_a_run_on_the_running_kernel_has_none(self) -> None:
        os.mkdir(os.path.join(self.folder, "bin"))
        with self.assertRaisesRegex(
            Unavailable, f"the running kernel, .* {self.folder}/bin/on HOST"
        ):
            shell_client._try_connect(self.folder, "shell")

    def test_a_run_that_cannot_have_one_is_not_waited_for(self) -> None:
        shell_server.mark_without_socket(self.folder)
        with self.assertRaisesRegex(Unavailable, "the run 4711 has no socket, .* set TMPDIR"):
            shell_client._try_connect(self.folder, "shell")


class InterruptedBuild(unittest.TestCase):
    def test_build_that_a_signal_ends_before_it_is_configured_leaves_no_folder(self) -> None:
        with tempfile.TemporaryDirectory() as parent:
            folder = os.path.join(parent, "mine")
            os.mkdir(folder)
            with mock.patch.object(custom_build, "_make", side_effect=KeyboardInterrupt):
                with self.assertRaises(KeyboardInterrupt):
                    custom_build._configure("tree", folder, "7.2")
            self.assertEqual(os.listdir(parent), [])

    def test_variables_that_move_the_build_are_ignored(self) -> None:
        moving = {name: "x" for name in ("KCONFIG_CONFIG", "KBUILD_OUTPUT", "M", "O", "MAKEFLAGS")}
        with mock.patch.dict(os.environ, {**moving, "CC": "gcc"}), mock.patch(
            "lab.core.subprocesses.run_long"
        ) as run:
            custom_build._make("tree", "folder", [], "")
        environment = run.call_args.kwargs["env"]
        self.assertEqual(environment["CC"], "gcc")
        self.assertFalse(set(moving) & set(environment))


class Initramfs(unittest.TestCase):
    def test_archive_is_readable_by_cpio(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "archive")
            archive = initramfs.CpioArchive(path)
            archive.add("sub", 0o040755)
            files = {f"sub/{length}": os.urandom(length) for length in (0, 1, 2, 3, 4, 4097)}
            for name, data in files.items():
                archive.add(name, 0o100644, data)
            archive.close()
            unpacked = os.path.join(folder, "unpacked")
            os.mkdir(unpacked)
            with open(path, "rb") as file:
                subprocess.run(["cpio", "-id", "--quiet"], stdin=file, cwd=unpacked, check=True)
            for name, data in files.items():
                with open(os.path.join(unpacked, name), "rb") as file:
                    self.assertEqual(file.read(), data)


class Manual(unittest.TestCase):
    def test_manual_has_each_option_of_help(self) -> None:
        with open(os.path.join(TOP_FOLDER, "man/softrdma/softrdma.1"), encoding="utf-8") as file:
            manual = file.read().replace("\\-", "-")
        for command in ("run", "up", "down", "list", "kernel", "key"):
            self.assertRegex(manual, rf"\.B softrdma {command}\b")
            help_text = io.StringIO()
            with redirect_stdout(help_text), self.assertRaises(SystemExit):
                main.make_parser().parse_args([command, "--help"])
            options = set(re.findall(r"(--[a-z]+)", help_text.getvalue())) - {"--help"}
            for option in options:
                self.assertIn(option, manual, f"{command} {option}")


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""lab/run/confinement: a confined process, as one that has taken over a guest's kernel, tries to reach the host.

tests/system/lab/escapes.bats tries what a command in a guest can.
"""

import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
from typing import Any, Dict, Optional, Sequence

TEST_FOLDER = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, os.path.join(TEST_FOLDER, "..", "..", "..", "scripts"))
sys.dont_write_bytecode = True

from lab.run import landlock, syscall_filter  # noqa: E402
from lab.run.confinement import Access, Confinement  # noqa: E402

# Defines attempt(NAME, FUNCTION), system_call(NAME, ARGUMENT...), and the variables of the test.
PRELUDE = """if True:
    import ctypes, errno, fcntl, json, mmap, os, resource, signal, socket, sys
    facts = json.loads(sys.argv[1])
    inside, outside, peer = facts["inside"], facts["outside"], facts["peer"]
    numbers = facts["numbers"]
    libc = ctypes.CDLL(None, use_errno=True)
    results = {}
    def attempt(name, function):
        try:
            function()
            results[name] = "done"
        except OSError as problem:
            results[name] = errno.errorcode[problem.errno]
    def system_call(name, *arguments):
        if libc.syscall(numbers[name], *arguments) < 0:
            raise OSError(ctypes.get_errno(), name)
    def write(path, text="x", mode="w"):
        with open(path, mode) as file:
            file.write(text)
"""
EPILOGUE = """
    print(json.dumps(results))
"""
CAP_SYS_ADMIN = 21
REFUSED = ("EPERM", "EACCES", "EROFS", "ENOSYS", "EXDEV", "EINVAL", "ELOOP", "ENOENT")


def can_mount() -> bool:
    with open("/proc/self/status", encoding="ascii", errors="replace") as file:
        (line,) = (line for line in file if line.startswith("CapEff:"))
    return bool(int(line.split()[1], 16) & 1 << CAP_SYS_ADMIN)


class ConfinedProcess(unittest.TestCase):
    version: Optional[int] = None  # of Landlock; None: that of the running kernel
    removable: Sequence[str] = ()

    def setUp(self) -> None:
        if self.version is None and not landlock.kernel_version():
            self.skipTest("the running kernel has no Landlock")
        if self.version == 0 and not can_mount():
            self.skipTest("a mount namespace needs CAP_SYS_ADMIN")
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.inside, self.outside = (
            os.path.join(os.path.realpath(folder.name), name) for name in ("inside", "outside")
        )
        for path in (self.inside, self.outside):
            os.mkdir(path)
            with open(os.path.join(path, "file"), "w", encoding="ascii") as file:
                file.write("secret")
            os.chmod(os.path.join(path, "file"), 0o644)
        self.peer = subprocess.Popen(["sleep", "infinity"], process_group=0)
        self.addCleanup(self.peer.wait)
        self.addCleanup(self.peer.kill)

    def run_script(self, script: str, with_broker: bool = True, **facts: Any) -> Dict[str, str]:
        """The results of its attempts in a confined process that may write in self.inside."""
        confinement = Confinement(
            Access([self.inside], self.removable, devices=[os.devnull]), with_broker, self.version
        )
        facts["numbers"] = {
            **syscall_filter.NUMBERS[os.uname().machine],
            **syscall_filter.COMMON_NUMBERS,
        }
        facts.update(inside=self.inside, outside=self.outside, peer=self.peer.pid)
        with tempfile.TemporaryFile("w+") as output:
            process = subprocess.Popen(
                [sys.executable, "-c", PRELUDE + script + EPILOGUE, json.dumps(facts)],
                preexec_fn=confinement.apply,
                stdout=output,
                process_group=0,
            )
            broker = confinement.receive_broker(process.pid)
            poll = select.poll()
            if broker:
                poll.register(broker, select.POLLIN)
                self.addCleanup(os.close, broker.fileno())
            while process.poll() is None:
                if poll.poll(20) and broker:
                    broker.handle_call()
            self.assertEqual(process.returncode, 0)
            output.seek(0)
            return dict(json.load(output))

    def expect_refused(self, results: Dict[str, str]) -> None:
        for name, result in results.items():
            with self.subTest(name):
                self.assertIn(result, REFUSED)

    def snapshot(self) -> Any:
        status = os.stat(os.path.join(self.outside, "file"))
        with open(os.path.join(self.outside, "file"), encoding="ascii") as file:
            text = file.read()
        return (
            *(text, sorted(os.listdir(self.outside)), status.st_mode, status.st_uid),
            *(status.st_gid, status.st_mtime_ns, status.st_nlink),
        )

    def test_files_outside_cannot_be_changed(self) -> None:
        before = self.snapshot()
        results = self.run_script(
            """
    file = outside + "/file"
    os.symlink(file, inside + "/link")
    os.symlink(outside, inside + "/folder-link")
    opened = os.open(file, os.O_RDONLY)
    attempt("write", lambda: write(file))
    attempt("append", lambda: write(file, mode="a"))
    attempt("write by a link", lambda: write(inside + "/link"))
    attempt("write by a link to the folder", lambda: write(inside + "/folder-link/file"))
    attempt("reopen", lambda: write(f"/proc/self/fd/{opened}"))
    attempt("create", lambda: write(outside + "/new"))
    attempt("truncate", lambda: os.truncate(file, 0))
    attempt("truncate while reading", lambda: os.open(file, os.O_RDONLY | os.O_TRUNC))
    attempt("truncate without reading", lambda: os.open(file, 3 | os.O_TRUNC))
    attempt("remove", lambda: os.unlink(file))
    attempt("make a folder", lambda: os.mkdir(outside + "/new"))
    attempt("remove the folder", lambda: os.rmdir(outside))
    attempt("move in", lambda: os.rename(file, inside + "/moved"))
    attempt("move out", lambda: os.rename(inside + "/file", outside + "/moved"))
    attempt("link in", lambda: os.link(file, inside + "/hard"))
    attempt("symbolic link", lambda: os.symlink("file", outside + "/link"))
    attempt("mode", lambda: os.chmod(file, 0o777))
    attempt("mode of a descriptor", lambda: os.fchmod(opened, 0o777))
    attempt("mode by a link", lambda: os.chmod(inside + "/link", 0o777))
    attempt("mode by the links of /proc", lambda: os.chmod(f"/proc/self/fd/{opened}", 0o777))
    attempt("mode by ..", lambda: os.chmod(inside + "/../outside/file", 0o777))
    attempt("owner", lambda: os.chown(file, os.getuid(), os.getgid()))
    attempt("owner of a descriptor", lambda: os.fchown(opened, os.getuid(), os.getgid()))
    attempt("owner of a link", lambda: os.lchown(file, os.getuid(), os.getgid()))
    attempt("times", lambda: os.utime(file, (1, 2)))
    attempt("times of a descriptor", lambda: os.utime(opened, (1, 2)))
    attempt("attribute", lambda: os.setxattr(file, "user.name", b"value"))
    attempt("memory of the kernel", lambda: os.open("/proc/self/mem", os.O_RDWR))
    attempt("memory of a process", lambda: os.open(f"/proc/{peer}/mem", os.O_RDWR))
    attempt("device", lambda: write("/dev/full"))
    attempt("setting", lambda: write(f"/proc/{peer}/oom_score_adj", "1000"))
"""
        )
        self.expect_refused(results)
        self.assertEqual(self.snapshot(), before)

    def test_setuid_files_and_nodes_cannot_be_made(self) -> None:
        for with_broker in (True, False):
            results = self.run_script(
                """
    file = inside + "/file"
    for mode in (0o4755, 0o2755, 0o6755):
        attempt(f"mode {mode:o}", lambda: os.chmod(file, mode))
        attempt(f"mode {mode:o} of a descriptor", lambda: os.fchmod(os.open(file, os.O_RDWR), mode))
        attempt(f"create {mode:o}", lambda: os.open(f"{inside}/{mode:o}", os.O_CREAT | os.O_RDWR, mode))
        attempt(f"unnamed {mode:o}", lambda: os.open(inside, os.O_TMPFILE | os.O_RDWR, mode))
        attempt(f"node {mode:o}", lambda: os.mknod(f"{inside}/node", 0o100000 | mode))
    attempt("character device", lambda: os.mknod(inside + "/c", 0o020666, os.makedev(1, 3)))
    attempt("block device", lambda: os.mknod(inside + "/b", 0o060666, os.makedev(7, 0)))
    attempt("capabilities", lambda: os.setxattr(file, "security.capability", bytes(20)))
""",
                with_broker,
            )
            self.expect_refused(results)
            self.assertEqual(os.listdir(self.inside), ["file"])

    def test_files_in_the_folder_can_be_changed(self) -> None:
        results = self.run_script(
            """
    file = inside + "/file"
    opened = os.open(file, os.O_RDONLY)
    attempt("write", lambda: write(file, "new"))
    attempt("create", lambda: write(inside + "/new"))
    attempt("rename", lambda: (os.mkdir(inside + "/folder"), os.rename(inside + "/new", inside + "/folder/new")))
    attempt("link", lambda: os.link(file, inside + "/folder/hard"))
    attempt("fifo", lambda: os.mkfifo(inside + "/fifo"))
    attempt("mode", lambda: os.chmod(file, 0o600))
    attempt("mode of a descriptor", lambda: os.fchmod(opened, 0o640))
    attempt("mode of the folder", lambda: os.chmod(inside, 0o1755))
    attempt("owner", lambda: os.chown(file, -1, os.getgid()))
    attempt("owner of a descriptor", lambda: os.fchown(opened, os.getuid(), -1))
    attempt("times", lambda: os.utime(file, ns=(1_000_000_001, 2_000_000_002)))
    os.chdir(inside)
    attempt("removing", lambda: (os.unlink("folder/hard"), os.unlink("fifo")))
    attempt("null", lambda: write("/dev/null"))
    # A path that ends with the last mapped page.
    page = mmap.PAGESIZE
    pages = libc.mmap
    pages.restype = ctypes.c_void_p
    start = pages(None, ctypes.c_size_t(2 * page), 3, 0x22, -1, 0)
    libc.munmap(ctypes.c_void_p(start + page), ctypes.c_size_t(page))
    path = (inside + "/folder/new").encode() + bytes(1)
    address = start + page - len(path)
    ctypes.memmove(address, path, len(path))
    if "chmod" in numbers:
        attempt("mode at the end of memory", lambda: system_call("chmod", ctypes.c_void_p(address), 0o604))
"""
        )
        self.assertEqual({name for name, result in results.items() if result != "done"}, set())
        status = os.stat(os.path.join(self.inside, "file"))
        self.assertEqual(status.st_mode & 0o7777, 0o640)
        self.assertEqual((status.st_atime_ns, status.st_mtime_ns), (1_000_000_001, 2_000_000_002))
        self.assertEqual(os.stat(self.inside).st_mode & 0o7777, 0o1755)
        if "mode at the end of memory" in results:
            self.assertEqual(
                os.stat(os.path.join(self.inside, "folder/new")).st_mode & 0o777, 0o604
            )

    def test_bad_arguments_are_errors(self) -> None:
        results = self.run_script(
            """
    for name in ("chmod", "chown", "utimes"):
        if name in numbers:
            attempt(f"{name} of no address", lambda: system_call(name, 0, 0, 0))
            attempt(f"{name} of a wild address", lambda: system_call(name, ctypes.c_void_p(2**63 - 5), 0, 0))
            path = ctypes.create_string_buffer(b"x" * 5000)
            attempt(f"{name} of a long path", lambda: system_call(name, path, 0, 0))
            path_of_file = ctypes.create_string_buffer((inside + "/missing").encode())
            attempt(f"{name} of a missing file", lambda: system_call(name, path_of_file, 0, 0))
    attempt("descriptor", lambda: system_call("fchmod", 1000, 0o600))
    attempt("negative descriptor", lambda: system_call("fchmod", -1, 0o600))
    file = ctypes.create_string_buffer((inside + "/file").encode())
    attempt("times", lambda: system_call("utimensat", -100, file, ctypes.c_void_p(1), 0))
"""
        )
        self.assertEqual([name for name, result in results.items() if result == "done"], [])

    def test_other_processes_cannot_be_reached(self) -> None:
        with socket.socket(socket.AF_UNIX) as server, socket.socket() as tcp_server:
            server.bind(os.path.join(self.outside, "socket"))
            server.listen()
            tcp_server.bind(("127.0.0.1", 0))
            tcp_server.listen()
            results = self.run_script(
                """
    attempt("signal", lambda: os.kill(peer, signal.SIGKILL))
    attempt("signal to the group of another process", lambda: (os.setpgid(0, os.getpgid(peer)), os.kill(0, signal.SIGKILL)))
    attempt("signal to a thread", lambda: libc.tgkill(peer, peer, 9) and (_ for _ in ()).throw(OSError(ctypes.get_errno(), "")))
    attempt("signal by rt_sigqueueinfo", lambda: system_call("rt_sigqueueinfo", peer, 9, bytes(128)))
    attempt("signal to a thread by rt_tgsigqueueinfo", lambda: system_call("rt_tgsigqueueinfo", peer, peer, 9, bytes(128)))
    attempt("signal by a pidfd", lambda: signal.pidfd_send_signal(os.pidfd_open(peer), signal.SIGKILL))
    attempt("limit", lambda: resource.prlimit(peer, resource.RLIMIT_NOFILE, (1, 1)))
    attempt("scheduling", lambda: os.sched_setscheduler(peer, os.SCHED_BATCH, os.sched_param(0)))
    attempt("priority", lambda: os.setpriority(os.PRIO_PROCESS, peer, 5))
    attempt("tracing", lambda: libc.ptrace(0x4206, peer, 0, 0) and (_ for _ in ()).throw(OSError(ctypes.get_errno(), "")))
    for family in (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK, socket.AF_PACKET):
        attempt(f"socket {family}", lambda: socket.socket(family, socket.SOCK_RAW))
        attempt(f"stream {family}", lambda: socket.socket(family, socket.SOCK_STREAM))
    for kind in (socket.SOCK_DGRAM, socket.SOCK_RAW, socket.SOCK_RDM):
        attempt(f"pair {kind}", lambda: socket.socketpair(socket.AF_UNIX, kind))
    readable = os.open(outside + "/file", os.O_RDONLY)
    attempt("owner of signals", lambda: fcntl.fcntl(readable, fcntl.F_SETOWN, peer))
    attempt("owner of signals by F_SETOWN_EX", lambda: fcntl.fcntl(readable, 15, bytes(8)))
    attempt("death signal", lambda: system_call("prctl", 1, 0, 0, 0, 0))
    attempt("user namespace", lambda: system_call("clone", 0x10000000 | 17, 0, 0, 0, 0))
    attempt("new system call", lambda: libc.syscall(500) and (_ for _ in ()).throw(OSError(ctypes.get_errno(), "")))
"""
            )
        self.expect_refused(results)
        self.assertIsNone(self.peer.poll())

    def test_system_calls_are_refused_by_the_filter(self) -> None:
        """Without it, these arguments give other errors, or none."""
        results = self.run_script(
            """
    names = (
        "socket connect bind listen unshare setns open_by_handle_at "
        "shmget shmat shmctl semget semop semctl semtimedop msgget msgsnd msgrcv msgctl mq_open mq_unlink "
        "add_key request_key keyctl bpf perf_event_open userfaultfd fanotify_init "
        "io_uring_setup io_uring_enter io_uring_register pidfd_getfd process_vm_writev process_madvise "
        "setpriority ioprio_set sched_setscheduler sched_setparam sched_setattr migrate_pages move_pages "
        "tkill rt_sigqueueinfo rt_tgsigqueueinfo pidfd_send_signal setpgid "
        "setxattr lsetxattr fsetxattr setxattrat removexattr lremovexattr fremovexattr removexattrat file_setattr "
        "lchown utime futimesat fchmodat2"
    )
    for name in names.split():
        if name in numbers:
            attempt(name, lambda: system_call(name, -1, -1, -1, -1, -1, -1))
    for flag in (0x00020000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000):
        attempt(f"clone {flag:x}", lambda: system_call("clone", flag | 0x100, 0, 0, 0, 0))
    for kind in (0o020000, 0o060000, 0o104000, 0o102000):
        for name in ("mknod", "mknodat"):
            if name in numbers:
                arguments = (0, kind) if name == "mknod" else (-1, 0, kind)
                attempt(f"{name} {kind:o}", lambda: system_call(name, *arguments, 0))
    for mode in (0o4755, 0o2755):
        if "creat" in numbers:
            attempt(f"creat {mode:o}", lambda: system_call("creat", 0, mode))
            attempt(f"open {mode:o}", lambda: system_call("open", 0, os.O_CREAT, mode))
        attempt(f"openat {mode:o}", lambda: system_call("openat", -1, 0, os.O_CREAT, mode))
    attempt("prlimit64", lambda: system_call("prlimit64", peer, 7, 0, 0))
"""
        )
        self.assertGreater(len(results), 60)
        others = {name: result for name, result in results.items() if result != "EPERM"}
        self.assertEqual(others, {})

    def test_calls_that_the_filter_cannot_read_do_not_exist(self) -> None:
        results = self.run_script(
            """
    for name in ("clone3", "openat2"):
        attempt(name, lambda: system_call(name, 0, 0, 0, 0))
    for number in (472, 500, 0x40000000 + 39):
        numbers["new"] = number
        attempt(f"{number:x}", lambda: system_call("new", 0, 0, 0, 0))
"""
        )
        self.assertEqual(set(results.values()), {"ENOSYS"})

    def test_requests_that_change_files_and_terminals_are_refused(self) -> None:
        results = self.run_script(
            """
    readable = os.open(outside + "/file", os.O_RDONLY)
    # FS_IOC_SETFLAGS, FS_IOC_SETVERSION, FS_IOC_FSSETXATTR, a snapshot of btrfs; TIOCSTI, TIOCLINUX, TIOCSCTTY, TCSETS.
    for request in (0x40086602, 0x40087602, 0x401c5820, 0x50009401, 0x5412, 0x541c, 0x540e, 0x5402):
        attempt(f"{request:x}", lambda: system_call("ioctl", readable, request, bytes(4096)))
"""
        )
        self.assertEqual(set(results.values()), {"ENOTTY"})

    def test_times_and_ids_that_stay(self) -> None:
        before = os.stat(os.path.join(self.inside, "file"))
        results = self.run_script(
            """
    file = ctypes.create_string_buffer((inside + "/file").encode())
    now, omit = (1 << 30) - 1, (1 << 30) - 2
    times = (ctypes.c_int64 * 4)(0, omit, 5, 6)
    attempt("omit", lambda: system_call("utimensat", -100, file, times, 0))
    attempt("ids", lambda: system_call("fchownat", -100, file, -1, -1, 0))
    os.chdir(inside)
    relative = ctypes.create_string_buffer(b"file")
    attempt("relative", lambda: system_call("fchmodat", -100, relative, 0o621))
    folder = os.open(inside, os.O_PATH)
    attempt("of a folder", lambda: system_call("fchmodat", folder, relative, 0o612))
    opened = os.open("file", os.O_PATH)
    itself = ctypes.create_string_buffer(f"/proc/self/fd/{opened}".encode())
    attempt("by its descriptor", lambda: system_call("fchmodat", -100, itself, 0o611))
    os.symlink(outside + "/file", "link")
    link = ctypes.create_string_buffer(b"link")
    attempt("a link itself", lambda: system_call("fchownat", folder, link, os.getuid(), -1, 0x100))
    os.mkdir("shared")
    attempt("setgid folder", lambda: os.chmod("shared", 0o2775))
    times = (ctypes.c_int64 * 4)(0, now, 0, now)
    os.close(os.open("new", os.O_CREAT | os.O_WRONLY))
    attempt("now", lambda: system_call("utimensat", folder, ctypes.create_string_buffer(b"new"), times, 0))
"""
        )
        self.assertEqual({name for name, result in results.items() if result != "done"}, set())
        after = os.stat(os.path.join(self.inside, "file"))
        self.assertEqual(
            (after.st_atime_ns, after.st_mtime_ns), (before.st_atime_ns, 5_000_000_006)
        )
        self.assertEqual((after.st_uid, after.st_gid), (before.st_uid, before.st_gid))
        self.assertEqual(after.st_mode & 0o7777, 0o611)
        self.assertEqual(os.stat(os.path.join(self.inside, "shared")).st_mode & 0o7777, 0o2775)
        self.assertLess(abs(os.stat(os.path.join(self.inside, "new")).st_mtime - time.time()), 600)

    def test_file_beside_a_folder_with_the_same_beginning(self) -> None:
        os.mkdir(self.inside + "-other")
        results = self.run_script(
            """
    attempt("mode", lambda: os.chmod(inside + "-other", 0o777))
"""
        )
        self.expect_refused(results)

    def test_times_beyond_the_memory_are_an_error(self) -> None:
        results = self.run_script(
            """
    page = mmap.PAGESIZE
    libc.mmap.restype = ctypes.c_void_p
    start = libc.mmap(None, ctypes.c_size_t(2 * page), 3, 0x22, -1, 0)
    libc.munmap(ctypes.c_void_p(start + page), ctypes.c_size_t(page))
    file = ctypes.create_string_buffer((inside + "/file").encode())
    attempt("times", lambda: system_call("utimensat", -100, file, ctypes.c_void_p(start + page - 16), 0))
"""
        )
        self.assertEqual(results, {"times": "EFAULT"})

    def test_removable_files_cannot_be_written(self) -> None:
        if self.version == 0:
            self.skipTest("a mount namespace cannot tell removing from writing")
        self.removable = [self.outside]
        results = self.run_script(
            """
    attempt("write", lambda: write(outside + "/file"))
    attempt("create", lambda: write(outside + "/new"))
"""
        )
        self.expect_refused(results)
        self.assertEqual(
            self.run_script(
                """
    attempt("remove", lambda: os.unlink(outside + "/file"))
"""
            ),
            {"remove": "done"},
        )

    def test_what_a_kernel_needs_works(self) -> None:
        results = self.run_script(
            """
    attempt("signal to itself", lambda: os.kill(os.getpid(), 0))
    attempt("signal to its group", lambda: (signal.signal(signal.SIGUSR1, signal.SIG_IGN), os.kill(0, signal.SIGUSR1)))
    child = os.fork()
    if child == 0:
        signal.pause()
    attempt("signal to a child", lambda: os.kill(child, signal.SIGKILL))
    results["child"] = os.waitpid(child, 0)[1]
    attempt("pair", lambda: socket.socketpair())
    attempt("limit", lambda: resource.getrlimit(resource.RLIMIT_NOFILE))
    attempt("reading", lambda: open(outside + "/file").read())
"""
        )
        self.assertEqual(results.pop("child"), signal.SIGKILL)
        self.assertEqual({name for name, result in results.items() if result != "done"}, set())

    def test_capabilities_are_those_of_files(self) -> None:
        results = self.run_script(
            """
    results["gained"] = os.popen("grep -E '^Cap(Prm|Eff)' /proc/self/status").read()
"""
        )
        for line in results["gained"].splitlines():
            self.assertEqual(int(line.split()[1], 16) & ~0b1111, 0)


class WithoutScopesOfLandlock(ConfinedProcess):
    """As on Linux 6.1: Landlock restricts neither truncation nor signals."""

    version = 2

    def setUp(self) -> None:
        if landlock.kernel_version() < 2:
            self.skipTest("the running kernel has no Landlock, or its first version")
        super().setUp()


class WithoutLandlock(ConfinedProcess):
    version = 0


if __name__ == "__main__":
    unittest.main()

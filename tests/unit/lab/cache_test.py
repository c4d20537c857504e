#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""The cache folder: whose it is, who can change it, and what is removed in it."""

import os
import signal
import struct
import subprocess
import sys
import tempfile
import unittest
import unittest.mock
from typing import Callable, Dict, Iterator, List

TEST_FOLDER = os.path.dirname(os.path.realpath(__file__))
SCRIPTS = os.path.join(TEST_FOLDER, "..", "..", "..", "scripts")
sys.path.insert(0, SCRIPTS)
sys.dont_write_bytecode = True

from lab.core import cache, cache_folder, supervisor, temporary_folders, trust  # noqa: E402
from lab.core.errors import LabError, UsageError  # noqa: E402
from lab.core.temporary_folders import make_work_folder  # noqa: E402
from lab.debian import packages  # noqa: E402
from lab.kernel import uml_build  # noqa: E402

OTHER_USER = 12345
MAKE_WORK_FOLDER = """if True:
    import sys, time
    from lab.core import supervisor, temporary_folders
    with supervisor.Undo() as undo:
        print(temporary_folders.make_work_folder(undo, "other"), flush=True)
        sys.stdin.read()
"""


class WithFolder(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = os.path.realpath(folder.name)
        environment = {"HOME": self.folder, "SOFTRDMA_CACHE": self.path("cache")}
        patcher = unittest.mock.patch.dict(os.environ, environment)
        patcher.start()
        self.addCleanup(patcher.stop)
        for name in ("XDG_CACHE_HOME", packages.OLD_LISTS_VARIABLE):
            os.environ.pop(name, None)

    def path(self, *names: str) -> str:
        return os.path.join(self.folder, *names)

    def write(self, *names: str, text: str = "text") -> str:
        path = self.path(*names)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="ascii") as file:
            file.write(text)
        return path

    def files(self) -> List[str]:
        """All files and folders, relative to the test's folder."""
        paths = []
        for folder, folder_names, file_names in os.walk(self.folder):
            paths += [os.path.join(folder, name) for name in folder_names + file_names]
        return sorted(os.path.relpath(path, self.folder) for path in paths)

    def let_other_user_write(self, path: str, list_name: str) -> None:
        """Set the access list, or the default one of what will be made in the folder."""
        no_id = 0xFFFFFFFF
        rules = (
            (1, 7, no_id),
            (2, 7, OTHER_USER),
            (4, 5, no_id),
            (0x10, 7, no_id),
            (0x20, 5, no_id),
        )
        access_list = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *rule) for rule in rules)
        try:
            os.setxattr(path, list_name, access_list)
        except OSError as problem:
            self.skipTest(f"access lists: {problem.strerror}")

    def start_python(self, script: str, *command: str) -> "subprocess.Popen[str]":
        process = subprocess.Popen(
            [*command, sys.executable, "-c", script],
            env=dict(os.environ, PYTHONPATH=SCRIPTS),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.addCleanup(process.communicate)
        return process


class Marker(WithFolder):
    """softrdma uses a folder that has its marker, or that is missing or empty."""

    def test_new_and_empty_folders_get_the_marker(self) -> None:
        for is_empty in (False, True):
            os.environ["SOFTRDMA_CACHE"] = cache_path = self.path(f"cache{is_empty}", "deeper")
            if is_empty:
                os.makedirs(cache_path)
            self.assertEqual(cache.make_cache_folder("uml"), os.path.join(cache_path, "uml"))
            with open(os.path.join(cache_path, "CACHEDIR.TAG"), encoding="ascii") as file:
                self.assertEqual(file.readline(), "Signature: 8a477f597d28d172789f06886806bc55\n")
                self.assertIn("softrdma", file.readline())
            self.assertEqual(sorted(os.listdir(cache_path)), ["CACHEDIR.TAG", "uml"])
            self.assertEqual(cache.find_folder("uml"), os.path.join(cache_path, "uml"))

    def test_folder_with_other_files_is_refused_and_unchanged(self) -> None:
        self.write("cache", "work", "thesis")
        self.write("cache", cache_folder.MARKER, text=cache_folder.MARKER_TEXT[:43] + "\n")
        before = self.files()
        with supervisor.Undo() as undo:
            attempts: "tuple[Callable[[], object], ...]" = (
                lambda: cache.make_cache_folder("uml"),
                lambda: cache.find_folder("uml"),
                lambda: make_work_folder(undo, "uml"),
                lambda: cache.get_or_build("uml", "name", lambda _: {}, []),
            )
            for attempt in attempts:
                with self.assertRaisesRegex(UsageError, "SOFTRDMA_CACHE=.*/cache/softrdma$"):
                    attempt()
        self.assertEqual(self.files(), before)

    def test_path_with_a_newline_is_refused(self) -> None:
        os.environ["SOFTRDMA_CACHE"] = self.path("new\nline")
        for use in (cache.find_folder, cache.make_cache_folder, cache.cache_path):
            with self.assertRaisesRegex(
                UsageError, r"^the cache folder '.*new\\nline' .*SOFTRDMA_CACHE"
            ):
                use("uml")
        self.assertEqual(self.files(), [])

    def test_readers_make_no_folder(self) -> None:
        self.assertIsNone(cache.find_folder("uml"))
        os.mkdir(self.path("cache"))
        self.assertIsNone(cache.find_folder("uml"))
        self.assertEqual(self.files(), ["cache"])

    def test_default_folder_of_older_softrdma_is_adopted(self) -> None:
        del os.environ["SOFTRDMA_CACHE"]
        self.write(".cache", "softrdma", "uml", "6.1.lock")
        self.write(".cache", "softrdma", "kvm")
        self.assertEqual(cache.find_folder("uml"), self.path(".cache", "softrdma", "uml"))
        self.assertNotIn(".cache/softrdma/CACHEDIR.TAG", self.files())
        cache.make_cache_folder("uml")
        self.assertIn(".cache/softrdma/CACHEDIR.TAG", self.files())

    def test_hidden_files_of_other_programs_do_not_prevent_adoption(self) -> None:
        del os.environ["SOFTRDMA_CACHE"]
        kept = [self.write(".cache", "softrdma", name) for name in (".DS_Store", ".nfs0000123")]
        self.write(".cache", "softrdma", "uml", "6.1.lock")
        self.assertEqual(cache.find_folder("uml"), self.path(".cache", "softrdma", "uml"))
        cache.make_cache_folder("uml")
        self.assertIn(".cache/softrdma/CACHEDIR.TAG", self.files())
        self.assertTrue(all(os.path.exists(path) for path in kept))

    def test_hidden_folders_and_other_folders_with_hidden_files_are_refused(self) -> None:
        self.write("cache", ".bashrc")
        with self.assertRaisesRegex(UsageError, "has other files"):
            cache.make_cache_folder("uml")
        del os.environ["SOFTRDMA_CACHE"]
        self.write(".cache", "softrdma", ".git", "config")
        with self.assertRaisesRegex(UsageError, "has .git, which softrdma did not make"):
            cache.make_cache_folder("uml")

    def test_default_folder_that_the_variable_names_is_adopted(self) -> None:
        os.environ["SOFTRDMA_CACHE"] = self.path(".cache", "softrdma") + "/"
        self.write(".cache", "softrdma", "uml", "6.1.lock")
        cache.make_cache_folder("uml")
        self.assertIn(".cache/softrdma/CACHEDIR.TAG", self.files())

    def test_default_folder_with_other_files_is_refused(self) -> None:
        del os.environ["SOFTRDMA_CACHE"]
        self.write(".cache", "softrdma", "uml", "6.1.lock")
        self.write(".cache", "softrdma", "thesis")
        for use in (cache.find_folder, cache.make_cache_folder):
            with self.assertRaisesRegex(UsageError, "has thesis, which softrdma did not make"):
                use("uml")

    def test_marker_is_written_by_many_at_once(self) -> None:
        script = """if True:
            import sys
            from lab.core import cache
            print("ready", flush=True)
            sys.stdin.readline()
            cache.make_cache_folder("uml")
            print(cache.find_folder("uml"))
        """
        for _ in range(3):
            os.environ["SOFTRDMA_CACHE"] = self.path(f"cache{_}")
            processes = [self.start_python(script) for _ in range(8)]
            for process in processes:
                assert process.stdout
                self.assertEqual(process.stdout.readline(), "ready\n")
            for process in processes:
                assert process.stdin
                process.stdin.write("\n")
                process.stdin.flush()
            for process in processes:
                self.assertEqual(process.communicate()[0], cache.cache_path("uml") + "\n")
            self.assertEqual(sorted(os.listdir(cache.cache_path())), ["CACHEDIR.TAG", "uml"])


class Trust(WithFolder):
    """A file that another user can change is not used."""

    def setUp(self) -> None:
        super().setUp()
        self.entry = cache.get_or_build("kernels/amd64", "6.1", self.build, ["vmlinuz"])

    def build(self, path: str) -> Dict[str, str]:
        modules = os.path.join(path, "lib", "modules", "6.1")
        os.makedirs(os.path.join(modules, "kernel"))
        for name in ("vmlinuz", "lib/modules/6.1/kernel/siw.ko", "lib/modules/6.1/modules.dep"):
            with open(os.path.join(path, name), "w", encoding="ascii") as file:
                file.write(name)
        os.symlink("kernel/siw.ko", os.path.join(modules, "link.ko"))
        return {}

    def use_entry(self) -> None:
        cache.find_folder("kernels", "amd64")
        cache.read_facts(self.entry)
        self.assertIsNone(cache.find_damage(self.entry))

    def assert_refused(self, path: str, *texts: str) -> None:
        """path: which the error names."""
        uses: "tuple[Callable[[], object], ...]" = (
            self.use_entry,
            lambda: cache.get_or_build("kernels/amd64", "6.1", self.build, []),
        )
        for use in uses:
            with self.assertRaises(trust.Untrusted) as raised:
                use()
            for text in (path, "SOFTRDMA_CACHE", *texts):
                self.assertIn(text, str(raised.exception))
            self.assertEqual(raised.exception.status, 1)

    def paths(self) -> Iterator[str]:
        """The root of the cache, the entry, and all between them and in it."""
        yield from (cache.cache_path(), cache.cache_path("kernels"))
        yield from (cache.cache_path("kernels", "amd64"), self.entry)
        for folder, folder_names, file_names in os.walk(self.entry):
            yield from (os.path.join(folder, name) for name in folder_names + file_names)

    def test_file_or_folder_that_others_may_write_is_refused(self) -> None:
        self.use_entry()
        for path in self.paths():
            mode = os.stat(path).st_mode
            if os.path.islink(path):
                continue
            actors = {0o002: "all users"}
            if os.geteuid() == 0:
                os.chown(path, -1, OTHER_USER)
                actors[0o020] = "its group"
            for bits, actor in actors.items():
                with self.subTest(path):
                    os.chmod(path, mode | bits)
                    self.assert_refused(path, f"{actor} may write it", "chmod ", " go-w ")
                    os.chmod(path, mode)
                    self.use_entry()

    @unittest.skipIf(os.geteuid() != 0, "needs root")
    def test_file_or_folder_of_another_user_is_refused(self) -> None:
        for path in self.paths():
            with self.subTest(path):
                os.chown(path, OTHER_USER, -1, follow_symlinks=False)
                self.assert_refused(path, f"belongs to user {OTHER_USER}")
                os.chown(path, 0, -1, follow_symlinks=False)
        self.use_entry()

    @unittest.skipIf(os.geteuid() != 0, "needs root")
    def test_private_group_may_write_unless_an_access_list_names_others(self) -> None:
        for path in self.paths():
            if not os.path.islink(path):
                os.chmod(path, os.stat(path).st_mode | 0o020)
        self.use_entry()
        self.let_other_user_write(self.entry, "system.posix_acl_access")
        self.assert_refused(self.entry, "its group may write it (mode 0775)")

    def test_all_weak_paths_are_in_one_message(self) -> None:
        os.environ["SOFTRDMA_CACHE"] = cache_path = self.path("a b", "c", "cache")
        cache.make_cache_folder()
        paths = [self.path("a b"), self.path("a b", "c"), cache_path]
        for path in paths:
            os.chmod(path, 0o777)
        with self.assertRaises(trust.Untrusted) as raised:
            cache.find_folder()
        text = str(raised.exception)
        for path in paths:
            self.assertIn(f"chmod go-w '{path}'", text)
        self.assertEqual(text.count("all users may write"), 3)
        command = text.split("type: ")[1].split(", or ")[0]
        subprocess.run(["sh", "-c", command], check=True)
        self.assertEqual(cache.find_folder(), cache_path)

    @unittest.skipIf(os.geteuid() != 0, "needs root")
    def test_chmod_is_suggested_only_to_the_owner(self) -> None:
        os.chmod(self.folder, 0o777)
        with unittest.mock.patch("os.geteuid", return_value=OTHER_USER):
            with self.assertRaises(trust.Untrusted) as raised:
                self.use_entry()
        self.assertIn(
            f"all users may write {self.folder}, which leads to it", str(raised.exception)
        )
        self.assertNotIn("chmod", str(raised.exception))
        self.assertIn(trust.OTHER_CACHE, str(raised.exception))

    def test_folder_above_that_others_may_write_is_refused_unless_sticky(self) -> None:
        os.chmod(self.folder, 0o777)
        self.assert_refused(self.folder, f"chmod go-w {self.folder},")
        os.chmod(self.folder, 0o1777)
        self.use_entry()

    @unittest.skipIf(os.geteuid() != 0, "needs root")
    def test_folder_above_of_another_user_or_group_is_refused(self) -> None:
        os.chown(self.folder, OTHER_USER, -1)
        self.assert_refused(self.folder, f"user {OTHER_USER}")
        os.chown(self.folder, 0, OTHER_USER)
        os.chmod(self.folder, 0o770)
        self.assert_refused(self.folder, "its group may write")

    def test_folder_above_the_target_of_a_link_is_checked(self) -> None:
        os.mkdir(self.path("open"))
        os.rename(self.path("cache"), self.path("open", "cache"))
        os.symlink("open/cache", self.path("cache"))
        self.use_entry()
        os.chmod(self.path("open"), 0o777)
        self.assert_refused(self.path("open"))

    def assert_nothing_made(self, cache_path: str, *texts: str) -> None:
        os.environ["SOFTRDMA_CACHE"] = cache_path
        before = self.files()
        with self.assertRaises(LabError) as raised:
            cache.make_cache_folder("uml")
        for text in texts:
            self.assertIn(text, str(raised.exception))
        self.assertEqual(self.files(), before)

    def test_nothing_is_made_below_a_folder_that_others_may_write(self) -> None:
        os.mkdir(self.path("home"))
        os.symlink("home", self.path("link"))
        os.chmod(self.path("home"), 0o777)
        for name in ("home", "link"):
            cache_path = self.path(name, ".cache", "softrdma")
            self.assert_nothing_made(cache_path, cache_path, f"chmod go-w {self.path('home')}")

    @unittest.skipIf(os.geteuid() != 0, "needs root")
    def test_nothing_is_made_in_the_home_of_another_user(self) -> None:
        os.mkdir(self.path("home"))
        os.chown(self.path("home"), OTHER_USER, OTHER_USER)
        cache_path = self.path("home", ".cache", "softrdma")
        self.assert_nothing_made(cache_path, self.path("home"), f"user {OTHER_USER}")

    def test_folders_above_one_that_cannot_be_made_are_removed(self) -> None:
        self.assert_nothing_made(self.path("new", "deeper", "x" * 300), "File name too long")

    def test_link_in_place_of_a_folder_is_refused(self) -> None:
        os.rename(cache.cache_path("kernels"), self.path("elsewhere"))
        os.symlink(self.path("elsewhere"), cache.cache_path("kernels"))
        self.assert_refused(cache.cache_path("kernels"), "it is a link")

    def test_build_with_any_umask_is_trusted(self) -> None:
        for umask in (0o000, 0o002, 0o077):
            old_umask = os.umask(umask)
            try:
                os.environ["SOFTRDMA_CACHE"] = self.path(f"cache{umask}", "deeper")
                self.entry = cache.get_or_build("kernels/amd64", "6.1", self.build, ["vmlinuz"])
                self.use_entry()
            finally:
                self.assertEqual(os.umask(old_umask), umask)

    def test_default_access_list_of_a_folder_above_gives_no_other_user_access(self) -> None:
        for is_empty in (False, True):
            parent = self.path(f"parent{is_empty}")
            os.mkdir(parent)
            cache_path = parent if is_empty else os.path.join(parent, "deeper", "cache")
            self.let_other_user_write(parent, "system.posix_acl_default")
            os.environ["SOFTRDMA_CACHE"] = cache_path
            with self.subTest(cache_path):
                self.entry = cache.get_or_build("kernels/amd64", "6.1", self.build, ["vmlinuz"])
                self.use_entry()
                trust.require_trusted_tree(cache_path)

    def test_modes_of_unpacked_files_are_made_safe(self) -> None:
        def build(path: str) -> Dict[str, str]:
            facts = self.build(path)
            for name in ("vmlinuz", "lib/modules/6.1", "lib/modules/6.1/modules.dep"):
                os.chmod(os.path.join(path, name), 0o777)
            return facts

        self.entry = cache.get_or_build("kernels/amd64", "6.2", build, ["vmlinuz"])
        self.use_entry()


class WorkFolders(WithFolder):
    def make_work_folders(self) -> str:
        """Make a work folder, which removes those of killed processes. Returns their names."""
        with supervisor.Undo() as undo:
            path = make_work_folder(undo, "this")
            self.assertEqual(os.stat(path).st_mode & 0o777, 0o700)
            names = {name.removesuffix(".lock") for name in os.listdir(cache.cache_path("work"))}
            names.remove(os.path.basename(path))
        return " ".join(sorted(names))

    def test_folder_is_removed_when_its_process_was_killed_and_not_before(self) -> None:
        # In another PID namespace, no process has the id of this test's processes.
        unshare = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
        if os.geteuid() != 0:
            unshare.insert(1, "-Ur")
        commands: "tuple[List[str], ...]" = ([], unshare)
        for command in commands:
            other = self.start_python(MAKE_WORK_FOLDER, *command)
            assert other.stdout
            folder = other.stdout.readline().strip()
            for name in ("a", "b"):
                with open(os.path.join(folder, name), "w", encoding="ascii"):
                    pass
            self.assertEqual(self.make_work_folders(), os.path.basename(folder))
            self.assertEqual(sorted(os.listdir(folder)), ["a", "b"])
            other.send_signal(signal.SIGKILL)
            other.communicate()
            while self.make_work_folders():  # the kernel ends the namespace after its process
                pass
            self.assertEqual(os.listdir(cache.cache_path("work")), [])

    def test_other_entries_of_the_folder_stay(self) -> None:
        cache.make_cache_folder("work")
        kept = [
            self.write("cache", "work", *names)
            for names in (
                ("thesis",),
                ("uml.123", "thesis"),
                ("uml.0123456789abcdef", "thesis"),
                ("thesis.lock",),
                ("photos.lock",),
                ("photos", "thesis.0123456789abcdef.lock"),
            )
        ]
        os.symlink(self.write("lock"), self.path("cache", "work", "uml.0123456789abcdee.lock"))
        self.make_work_folders()
        for path in kept:
            self.assertTrue(os.path.exists(path), path)
        self.assertTrue(os.path.exists(self.path("lock")))

    def test_program_that_outlives_its_process_keeps_the_folder(self) -> None:
        script = """if True:
            import os
            from lab.core import subprocesses, supervisor, temporary_folders
            with supervisor.Undo() as undo:
                print(temporary_folders.make_work_folder(undo, "other"), flush=True)
                child = subprocesses.capture_output(
                    ["sh", "-c", "sleep 1000 >/dev/null 2>&1 </dev/null & echo $!"]
                )
                print(child, end="", flush=True)
                os.kill(os.getpid(), 9)
        """
        other = self.start_python(script)
        folder, child_pid = other.communicate()[0].split()
        self.assertEqual(self.make_work_folders(), os.path.basename(folder))
        os.kill(int(child_pid), signal.SIGKILL)
        while self.make_work_folders():
            pass

    def test_link_in_place_of_the_folder_is_refused(self) -> None:
        cache.make_cache_folder()
        self.write("elsewhere", "uml.0123456789abcdef.lock")
        os.symlink(self.path("elsewhere"), self.path("cache", "work"))
        with self.assertRaisesRegex(trust.Untrusted, "it is a link"):
            self.make_work_folders()
        self.assertTrue(os.path.exists(self.path("elsewhere", "uml.0123456789abcdef.lock")))


class RunFolders(WithFolder):
    """Those of a run that was killed are removed by the next run of the same user."""

    def setUp(self) -> None:
        super().setUp()
        os.mkdir(self.path("memory"))
        self.set_temporary_folder("temporary")

    def set_temporary_folder(self, name: str) -> None:
        os.makedirs(self.path(name), exist_ok=True)
        os.environ["TMPDIR"] = self.path(name)

    def start_run(self) -> "subprocess.Popen[str]":
        """Returns when the run has its folders. It ends when its standard input is closed."""
        script = f"""if True:
            import os, sys
            from lab.core import supervisor, temporary_folders
            from lab.run import run_local
            supervisor.MEMORY_FILE_SYSTEM = {self.path("memory")!r}
            def work():
                with supervisor.Undo() as undo:
                    for make in temporary_folders.make_run_folder, temporary_folders.make_memory_folder:
                        with open(os.path.join(make(undo), "file"), "w"):
                            pass
                    print(os.getpid(), flush=True)
                    sys.stdin.read()
                return 0
            sys.exit(supervisor.run(work, run_local.clean_up_after_worker))
        """
        run = self.start_python(script)
        assert run.stdout
        self.worker = int(run.stdout.readline())
        return run

    def kill_run(self) -> None:
        """Kill both processes of a run."""
        run = self.start_run()
        for pid in (run.pid, self.worker):  # the first one's end would let the second one clean up
            os.kill(pid, signal.SIGSTOP)
        for pid in (self.worker, run.pid):
            os.kill(pid, signal.SIGKILL)
        assert run.stdout
        run.stdout.read()  # its end shows that both have ended

    def run_names(self) -> List[str]:
        """The names of runs in both folders."""
        names = os.listdir(os.environ["TMPDIR"]) + os.listdir(self.path("memory"))
        return sorted({name.removesuffix(".lock") for name in names})

    def test_run_leaves_nothing(self) -> None:
        for signum in (0, signal.SIGTERM, signal.SIGKILL):
            run = self.start_run()
            self.assertEqual(len(self.run_names()), 1)
            if signum:
                os.kill(self.worker, signum)
            run.communicate()
            self.assertEqual(self.run_names(), [])

    def test_next_run_removes_folders_of_a_killed_run_only(self) -> None:
        self.kill_run()
        self.kill_run()
        self.assertEqual(len(self.run_names()), 1)  # that of the last one
        run = self.start_run()
        (name,) = self.run_names()
        self.start_run().communicate()
        self.assertEqual(self.run_names(), [name])
        self.assertTrue(os.path.exists(self.path("temporary", name, "file")))
        run.communicate()
        self.assertEqual(self.run_names(), [])

    def test_what_is_not_proved_to_be_of_a_run_stays(self) -> None:
        name = "softrdma.1.0123456789abcde"
        kept = [
            self.write("temporary", name + "0", "thesis"),  # without a lock
            self.write("temporary", "softrdma.1", "thesis"),
            self.write("temporary", "softrdma.1.lock"),
            self.write("temporary", "other.1.0123456789abcdef.lock"),
            self.write("temporary", name + "2", "thesis"),
            self.write("temporary", name + "3"),
            self.write("elsewhere", "thesis"),
            self.write("elsewhere", "lock"),
        ]
        os.symlink(self.path("elsewhere", "lock"), self.path("temporary", name + "2.lock"))
        self.write("temporary", name + "3.lock")
        os.symlink(self.path("elsewhere"), self.path("temporary", name + "4"))
        self.write("temporary", name + "4.lock")
        os.mkfifo(self.path("temporary", name + "5.lock"))
        before = self.files()
        self.start_run().communicate()
        self.assertEqual(self.files(), before)
        self.assertTrue(all(os.path.exists(path) for path in kept))

    @unittest.skipIf(os.geteuid() != 0, "needs root")
    def test_what_another_user_made_stays(self) -> None:
        name = "softrdma.1.0123456789abcde"
        os.chmod(self.path("temporary"), 0o1777)
        for number in (1, 2):
            self.write("temporary", f"{name}{number}", "thesis")
            self.write("temporary", f"{name}{number}.lock")
        os.chown(self.path("temporary", name + "1.lock"), OTHER_USER, OTHER_USER)
        os.chown(self.path("temporary", name + "2"), OTHER_USER, OTHER_USER)
        before = self.files()
        self.start_run().communicate()
        self.assertEqual(self.files(), before)

    def test_folder_where_other_users_can_exchange_files_is_left_alone(self) -> None:
        self.kill_run()
        before = self.files()
        os.chmod(self.path("temporary"), 0o777)
        os.chmod(self.path("memory"), 0o777)
        self.start_run().communicate()
        self.assertEqual(self.files(), before)

    def test_folder_that_exists_is_not_removed(self) -> None:
        existing = self.write("run", "thesis")
        with unittest.mock.patch.object(supervisor, "_run_folder", self.path("run")):
            with self.assertRaisesRegex(LabError, "TMPDIR"), supervisor.Undo() as undo:
                temporary_folders.make_run_folder(undo)
        self.assertTrue(os.path.exists(existing))
        self.assertFalse(os.path.exists(self.path("run.lock")))


@unittest.skipIf(os.geteuid() != 0, "needs root")
class Mounts(WithFolder):
    """What is mounted in a folder of the cache is not removed with it."""

    def setUp(self) -> None:
        super().setUp()
        self.precious = self.write("precious", "thesis")

    def run_with_mount(self, folder: str, script: str) -> str:
        """Run the script with precious mounted in the folder. Returns its output."""
        point = os.path.join(folder, "a mount\\point")
        os.makedirs(point, exist_ok=True)
        shell = 'mount --bind "$0" "$1" && shift && exec "$@"'
        command = ["unshare", "--mount", "sh", "-c", shell, self.path("precious"), point]
        output, _ = self.start_python(script, *command).communicate()
        self.assertTrue(os.path.exists(self.precious), output)
        self.assertIn(f"umount '{point}'", output)
        self.assertIn(f"{point} is a mount point", output)
        os.rmdir(point)
        return output

    def test_entry_that_is_removed_or_made_again(self) -> None:
        entry = cache.get_or_build("uml", "6.1", lambda _: {}, [])
        for operation in (
            f"cache.remove_folder({entry!r})",
            f"os.unlink({entry!r} + '/manifest.json'); cache.get_or_build('uml', '6.1', lambda _: {{}}, [])",
        ):
            script = f"""if True:
                import os
                from lab.core import cache
                from lab.core.errors import LabError
                try:
                    {operation}
                except LabError as problem:
                    print(problem)
            """
            self.run_with_mount(entry, script)
        self.assertTrue(os.path.exists(entry))
        cache.remove_folder(entry)
        self.assertFalse(os.path.exists(entry))

    def test_part_that_a_killed_process_left(self) -> None:
        cache.make_cache_folder("uml")
        script = """if True:
            from lab.core import cache
            from lab.core.errors import LabError
            try:
                cache.get_or_build("uml", "6.1", lambda _: {}, [])
            except LabError as problem:
                print(problem)
        """
        self.run_with_mount(cache.cache_path("uml", "6.1.part"), script)

    def test_part_of_a_build_that_fails(self) -> None:
        script = """if True:
            import os, subprocess, sys
            from lab.core import cache
            os.dup2(1, 2)
            def build(path):
                os.mkdir(path + "/mnt")
                subprocess.run(["mount", "--bind", sys.stdin.readline().strip(), path + "/mnt"], check=True)
                raise ValueError
            try:
                cache.get_or_build("uml", "6.1", build, [])
            except ValueError:
                pass
        """
        process = self.start_python(script, "unshare", "--mount")
        output, _ = process.communicate(self.path("precious") + "\n")
        self.assertTrue(os.path.exists(self.precious), output)
        self.assertIn(f"umount {cache.cache_path('uml', '6.1.part', 'mnt')}", output)

    def test_work_folder_that_is_abandoned(self) -> None:
        cache.make_cache_folder("work")
        folder = self.path("cache", "work", "uml.0123456789abcdef")
        self.write("cache", "work", "uml.0123456789abcdef.lock")
        script = """if True:
            import os
            from lab.core import supervisor, temporary_folders
            os.dup2(1, 2)
            with supervisor.Undo() as undo:
                temporary_folders.make_work_folder(undo, "this")
        """
        self.run_with_mount(folder, script)
        self.assertTrue(os.path.exists(folder + ".lock"))

    def test_tree_of_another_build(self) -> None:
        cache.make_cache_folder("uml")
        tree = cache.cache_path("uml", "6.1-1-01234567.tree")
        script = f"""if True:
            from lab.core.errors import LabError
            from lab.kernel import uml_build
            try:
                uml_build._remove_other_trees({cache.cache_path('uml', 'other.tree')!r})
            except LabError as problem:
                print(problem)
        """
        self.run_with_mount(tree, script)
        self.assertTrue(os.path.isdir(tree))


class KeptTree(WithFolder):
    def test_a_process_that_is_killed_while_it_removes_a_tree_leaves_none_to_continue_with(
        self,
    ) -> None:
        cache.make_cache_folder("uml")
        tree = cache.cache_path("uml", "6.1-1-01234567.tree")
        os.mkdir(tree, 0o700)
        with unittest.mock.patch.object(cache, "remove_folder", side_effect=KeyboardInterrupt):
            with self.assertRaises(KeyboardInterrupt):
                uml_build.remove_tree(tree)
        self.assertFalse(uml_build._can_continue(tree))


class OldLists(WithFolder):
    def test_lists_read_by_the_lenient_rule_are_fresh_only_by_it(self) -> None:
        stamp = self.write("stamp", text=packages.OLD_LISTS_VARIABLE)
        self.assertFalse(packages._is_fresh(stamp))
        os.environ[packages.OLD_LISTS_VARIABLE] = "yes"
        self.assertTrue(packages._is_fresh(stamp))
        self.write("stamp", text="")
        self.assertTrue(packages._is_fresh(stamp))
        del os.environ[packages.OLD_LISTS_VARIABLE]
        self.assertTrue(packages._is_fresh(stamp))

    def test_apt_checks_the_age_unless_old_lists_are_asked_for(self) -> None:
        option = "Acquire::Check-Valid-Until=false"
        self.assertNotIn(option, packages.Suite("sid", "amd64").apt_options)
        os.environ[packages.OLD_LISTS_VARIABLE] = "yes"
        self.assertIn(option, packages.Suite("sid", "amd64").apt_options)
        os.environ[packages.OLD_LISTS_VARIABLE] = "1"
        with self.assertRaisesRegex(UsageError, "SOFTRDMA_OLD_LISTS=1: expected yes or no"):
            packages.Suite("sid", "amd64")

    def test_lists_that_another_user_can_change_are_refused(self) -> None:
        suite = packages.Suite("sid", "amd64")
        cache.make_cache_folder("apt")
        os.mkdir(suite.folder)
        lists = os.path.join(suite.folder, "lists")
        for name in ("refreshed", "lists"):
            with open(os.path.join(suite.folder, name), "w", encoding="ascii"):
                pass
        suite.update_lists()
        os.chmod(lists, 0o666)
        with self.assertRaisesRegex(trust.Untrusted, "lists is not used: all users may write it"):
            suite.update_lists()


if __name__ == "__main__":
    unittest.main()

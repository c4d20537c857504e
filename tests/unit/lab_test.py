#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""The rooms of softrdma that need no device and no guest."""

import hashlib
import io
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import tempfile
import time
import unittest
from contextlib import redirect_stderr, redirect_stdout
from typing import Callable

HERE = os.path.dirname(os.path.realpath(__file__))
SCRIPTS = os.path.join(HERE, "..", "..", "scripts")
sys.path.insert(0, SCRIPTS)
sys.dont_write_bytecode = True

from lab import (
    cache,
    children,
    cli,
    devices,
    initramfs,
    keeper,
    kernels,
    mends,
    packages,
    siw,
    switch,
    umlkernel,
)  # noqa: E402
from lab.errors import CannotHere  # noqa: E402


class Versions(unittest.TestCase):
    def test_a_series_is_not_the_beginning_of_another(self) -> None:
        self.assertTrue(kernels.matches("6.1.0-9-amd64", "6.1"))
        self.assertTrue(kernels.matches("6.1.0-9-amd64", "6.1.0-9-amd64"))
        self.assertFalse(kernels.matches("6.12.5-amd64", "6.1"))
        self.assertFalse(kernels.matches("6.1.0-9-amd64", "6.1.0-9-amd64-x"))

    def test_the_newest_is_found_by_number(self) -> None:
        names = ["6.1.0-9-amd64", "6.1.0-56-amd64", "6.1.0-10-amd64"]
        self.assertEqual(max(names, key=packages.natural), "6.1.0-56-amd64")


class CrossCompiler(unittest.TestCase):
    def compiler(self, *depends: str) -> str:
        return siw.cross_compiler(packages.Package("headers", "1", 0, list(depends)), "arm64")

    def test_it_is_of_the_version_that_the_headers_ask_for(self) -> None:
        self.assertEqual(self.compiler("linux-base", "gcc-14"), "gcc-14-aarch64-linux-gnu")
        self.assertEqual(self.compiler("gcc-16-for-host", "pahole"), "gcc-16-aarch64-linux-gnu")

    def test_headers_without_a_compiler_are_refused(self) -> None:
        with self.assertRaisesRegex(CannotHere, "headers asks for no compiler"):
            self.compiler("linux-base", "libgcc-14-dev")


class Addresses(unittest.TestCase):
    def test_an_ipv4_address_as_a_gid(self) -> None:
        self.assertEqual(devices.mapped("198.18.0.1"), "0000:0000:0000:0000:0000:ffff:c612:0001")


class Needed(unittest.TestCase):
    def test_all_that_is_missing_is_said_at_once(self) -> None:
        with self.assertRaises(CannotHere) as raised:
            children.need_all({"sh": "dash", "no-make": "make", "no-depmod": "kmod"}, "a kernel")
        self.assertEqual(
            str(raised.exception),
            "a kernel needs no-make and no-depmod, which are not installed; "
            "try: apt-get install make kmod",
        )

    def test_what_is_there(self) -> None:
        children.need_all({"sh": "dash"}, "a kernel")
        self.assertRegex(children.need("sh", "dash", "a kernel"), "^/.*/sh$")


class Keeper(unittest.TestCase):
    def test_a_signal_ends_the_work_even_while_an_object_is_destroyed(self) -> None:
        script = """if True:
            import sys, time
            from lab import keeper
            class Last:
                def __del__(self):
                    print("ready", flush=True)
                    time.sleep(20)
            def work():
                Last()
                time.sleep(20)
                return 0
            sys.exit(keeper.run(work, lambda: None))
        """
        for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGKILL):
            began = time.monotonic()
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
                # The keeper has them open, too.
                self.assertEqual((front.stdout.read(), front.stderr.read()), ("", ""))
            self.assertLess(time.monotonic() - began, 15)
            killed = signum == signal.SIGKILL
            self.assertEqual(front.returncode, -signum if killed else 128 + signum)


class SwitchProcess(unittest.TestCase):
    def test_it_ends_even_if_it_is_told_to_before_it_has_begun(self) -> None:
        # As in softrdma's own process, a handler that the child inherits.
        self.addCleanup(
            signal.signal, signal.SIGTERM, signal.signal(signal.SIGTERM, lambda *_: None)
        )
        signal.alarm(60)  # it is waited for
        for _ in range(200):
            ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
            with ours, its, keeper.Undo() as undo:
                made = switch.Switch(undo, [[its]], None)
            made.ours.close()
            with self.assertRaises(ProcessLookupError):
                os.kill(made.child, 0)
        signal.alarm(0)


class Cache(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        os.environ["SOFTRDMA_CACHE"] = folder.name
        self.builds = 0

    def build(self, path: str) -> "dict[str, str]":
        self.builds += 1
        os.mkdir(os.path.join(path, "lib"))
        for name in ("boot", "lib/other"):
            with open(os.path.join(path, name), "w", encoding="ascii") as file:
                file.write("contents of " + name)
        return {"version": "1"}

    def entry(self) -> str:
        return cache.entry("kind", "name", self.build, ["boot"])

    def test_an_entry_is_made_once(self) -> None:
        self.assertEqual(self.entry(), self.entry())
        self.assertEqual(self.builds, 1)

    def test_damage_is_found_and_mended(self) -> None:
        path = self.entry()

        def write(name: str, text: str) -> None:
            with open(os.path.join(path, name), "w", encoding="ascii") as file:
                file.write(text)

        harms = (
            (lambda: write("boot", "CONTENTS OF boot"), "boot has other contents"),
            (lambda: write("lib/other", "short"), "lib/other has another size"),
            (lambda: os.unlink(os.path.join(path, "lib/other")), "lib/other is missing"),
            (lambda: write("manifest.json", "{}"), "manifest is missing or broken"),
        )
        for harm, said in harms:
            harm()
            self.assertIn(said, cache.damage(path) or "nothing")
            self.entry()
            self.assertIsNone(cache.damage(path))
        self.assertEqual(self.builds, 1 + len(harms))

    def test_what_fails_leaves_nothing(self) -> None:
        def fail(path: str) -> "dict[str, str]":
            self.build(path)
            raise ValueError

        with self.assertRaises(ValueError):
            cache.entry("kind", "name", fail, [])
        self.assertEqual(os.listdir(cache.folder("kind")), ["name.lock"])


class InPrefix(unittest.TestCase):
    """softrdma as it is installed."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.prefix = os.path.join(folder.name, "usr")
        self.cache = os.path.join(folder.name, "cache")
        self.package = os.path.join(self.prefix, "lib", "softrdma", "uml")
        self.share = os.path.join(self.prefix, "share", "softrdma")
        self.install(os.path.join(self.prefix, "bin"), self.share)
        self.config = os.path.join(self.share, "lab", "guest", "uml.config")

    def install(self, programs: str, share: str) -> None:
        no_cache = shutil.ignore_patterns("__pycache__")
        shutil.copytree(os.path.join(SCRIPTS, "lab"), os.path.join(share, "lab"), ignore=no_cache)
        os.makedirs(programs, exist_ok=True)
        shutil.copy(os.path.join(SCRIPTS, "softrdma"), programs)

    def kernel(self, place: str, name: str, version: str, config: str = "") -> str:
        """The path of a kernel that cannot be run, but looked up."""
        path = os.path.join(place, name)
        os.makedirs(path)
        with open(os.path.join(path, "linux"), "w", encoding="ascii") as file:
            file.write("kernel")
        series = ".".join(version.split(".")[:2])
        with open(self.config, "rb") as binary:
            wish = binary.read() + (umlkernel.FOR_OLDER if mends.is_older(series) else b"")
        key = hashlib.sha256(wish + mends.key(series).encode()).hexdigest()[:8]
        config = config or key
        facts = {"series": series, "version": version, "config": config}
        cache.write_manifest(path, facts, ["linux"])
        return path

    def ours(self, version: str) -> str:
        return self.kernel(os.path.join(self.cache, "uml"), version, version)

    def theirs(self, version: str, config: str = "") -> str:
        return self.kernel(self.package, version, version, config)

    def softrdma(self, *words: str, program: str = "bin/softrdma") -> "tuple[int, str]":
        done = subprocess.run(
            [os.path.join(self.prefix, program), *words],
            env={"PATH": os.environ["PATH"], "HOME": "/nowhere", "SOFTRDMA_CACHE": self.cache},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
        )
        return done.returncode, done.stdout


class Installed(InPrefix):
    """Kernels that a package and a user have put there."""

    def test_a_package_s_kernel_is_found_without_a_cache(self) -> None:
        path = self.theirs("6.1.187")
        self.assertEqual(self.softrdma("kernel", "path"), (0, f"{path}/linux\n"))
        self.assertEqual(self.softrdma("kernel", "path", "6.1"), (0, f"{path}/linux\n"))
        status, said = self.softrdma("kernel", "list")
        self.assertEqual(status, 0)
        self.assertRegex(said, r"6\.1 +uml +\S+ +6\.1\.187 +yes +package")
        (row,) = json.loads(self.softrdma("kernel", "list", "--json")[1])["kernels"]
        self.assertEqual((row["from"], row["for"], row["path"]), ("package", "uml", path))
        self.assertFalse(os.path.exists(self.cache))

    def test_the_newest_wins_wherever_it_lies(self) -> None:
        self.theirs("6.1.187")
        ours = self.ours("6.12.9-1")
        self.assertEqual(self.softrdma("kernel", "path"), (0, f"{ours}/linux\n"))
        newer = self.theirs("6.12.10")
        self.assertEqual(self.softrdma("kernel", "path"), (0, f"{newer}/linux\n"))
        older = self.ours("6.1.188-1")
        self.assertEqual(self.softrdma("kernel", "path", "6.1"), (0, f"{older}/linux\n"))

    def test_of_two_that_are_the_same_it_is_the_package_s(self) -> None:
        self.ours("6.1.187")
        theirs = self.theirs("6.1.187")
        self.assertEqual(self.softrdma("kernel", "path"), (0, f"{theirs}/linux\n"))

    def test_one_of_another_configuration_is_not_run(self) -> None:
        path = self.theirs("6.12.1", config="01234567")
        for words in (("kernel", "path"), ("run", "--in", "uml", "--", "true")):
            status, said = self.softrdma(*words)
            self.assertEqual(status, 77)
            self.assertIn(path, said)
            self.assertIn("apt install softrdma softrdma-uml", said)
        self.assertIn("outdated", self.softrdma("kernel", "list")[1])
        current = self.ours("6.1.187")
        self.assertEqual(self.softrdma("kernel", "path"), (0, f"{current}/linux\n"))

    def test_damage_comes_with_the_remedy_of_the_place(self) -> None:
        remedies = {
            "6.12": (self.theirs("6.12.1"), "apt install --reinstall softrdma-uml"),
            "6.13": (self.ours("6.13.1-1"), "softrdma kernel build 6.13"),
        }
        for series, (path, remedy) in remedies.items():
            with open(os.path.join(path, "linux"), "w", encoding="ascii") as file:
                file.write("KERNEL")
            run = ("run", "--in", "uml", "--kernel", series, "--", "true")
            for words in (("kernel", "path", series), run):
                status, said = self.softrdma(*words)
                self.assertEqual(status, 1)
                self.assertIn("linux has other contents", said)
                self.assertIn(remedy, said)
                self.assertEqual(said.count("\n"), 1)

    def test_a_broken_manifest_is_damage_too(self) -> None:
        path = self.theirs("6.12.1")
        for text in ("", "[]", "{}", '{"facts": 1, "sizes": {}, "sha256": {}}'):
            with open(os.path.join(path, cache.MANIFEST), "w", encoding="ascii") as file:
                file.write(text)
            status, said = self.softrdma("kernel", "path")
            self.assertEqual(status, 77)
            self.assertIn(f"{path} is damaged", said)
            self.assertIn("apt install --reinstall softrdma-uml", said)
            self.assertEqual(said.count("\n"), 1)

    def test_what_a_package_brought_is_not_removed(self) -> None:
        theirs = self.theirs("6.1.187")
        status, said = self.softrdma("kernel", "remove", "6.1")
        self.assertEqual(status, 2)
        self.assertIn("apt remove softrdma-uml", said)
        ours = self.ours("6.1.188-1")
        status, said = self.softrdma("kernel", "remove", "6.1")
        self.assertEqual(status, 0)
        self.assertIn("softrdma-uml stays", said)
        self.assertFalse(os.path.exists(ours))
        self.assertTrue(os.path.exists(os.path.join(theirs, "linux")))

    def test_a_checkout_has_no_package_s_kernels(self) -> None:
        self.theirs("6.1.187")
        self.install(os.path.join(self.prefix, "scripts"), os.path.join(self.prefix, "scripts"))
        status, said = self.softrdma("kernel", "path", program="scripts/softrdma")
        self.assertEqual(status, 77)
        self.assertIn("softrdma kernel build", said)


# What of a kernel's source the build asks for; it notes what would show in the program's bytes.
PLAYED_SOURCE = {
    "Makefile": """VERSION = 6
PATCHLEVEL = 1
SUBLEVEL = 187
allnoconfig:
\tgrep -vE 'SMP|NR_CPUS' $(KCONFIG_ALLCONFIG) >.config
linux:
\tmkdir -p include/config
\techo 6.1.187 >include/config/kernel.release
\techo 'const char file[] = __FILE__; int main(void) { return 0; }' >$(CURDIR)/main.c
\tgcc -g $(CFLAGS) $(KCFLAGS) -o linux $(CURDIR)/main.c
\tenv | grep ^KBUILD_ >modules.builtin
\ttouch modules.builtin.modinfo
""",
    "arch/um/Kconfig": "config HZ\n\tint\n\tdefault 100\n",
}


class Mends(unittest.TestCase):
    """What is mended in a kernel's source: of the whole tree, or of siw's folder alone."""

    def mended(self, mend: mends.Mend, text: "str | None", folder: str = "") -> "str | None":
        """What becomes of that text where the mend's place is sought; the others find theirs."""
        with tempfile.TemporaryDirectory() as tree, redirect_stderr(io.StringIO()) as self.said:
            texts = {**{each.file: each.before for each in mends.MENDS}, mend.file: text}
            for name, content in texts.items():
                path = os.path.join(tree, os.path.relpath(name, folder or "."))
                os.makedirs(os.path.dirname(path), exist_ok=True)
                if content is not None:
                    with open(path, "w", encoding="utf-8") as file:
                        file.write(content)
            mends.apply(tree, folder)
            if text is None:
                return None
            with open(os.path.join(tree, os.path.relpath(mend.file, folder or "."))) as file:
                return file.read()

    def test_what_is_known_is_mended_and_nothing_else_changed(self) -> None:
        for mend in mends.MENDS:
            for folder in ("", siw.FOLDER):
                done = self.mended(mend, f"before\n{mend.before}after\n", folder)
                self.assertEqual(done, f"before\n{mend.statement}{mend.before}after\n")
                self.assertEqual(self.said.getvalue(), "")

    def test_user_mode_is_mended_where_it_has_the_fault(self) -> None:
        mend = mends.USER_MODE[0]
        for known in (True, False):
            with tempfile.TemporaryDirectory() as tree:
                path = os.path.join(tree, mend.file)
                os.makedirs(os.path.dirname(path))
                with open(path, "w", encoding="utf-8") as file:
                    file.write(f"before\n{mend.before if known else ''}after\n")
                with redirect_stderr(io.StringIO()) as said:
                    mends.apply(tree)
                self.assertNotIn(mend.file, said.getvalue())
                with open(path, encoding="utf-8") as file:
                    text = f"{mend.statement}{mend.before}" if known else ""
                    self.assertEqual(file.read(), f"before\n{text}after\n")
        self.assertEqual(mends.key("6.12"), mends.key("6.1"))
        self.assertEqual(mends.key("7.2"), mends.KEY)
        self.assertNotEqual(mends.key("6.12"), mends.key("6.13"))

    def test_what_is_not_known_is_left_and_said(self) -> None:
        for mend in mends.MENDS:
            name = os.path.basename(mend.file)
            for text in ("another\n", mend.before * 2, None):
                self.assertEqual(self.mended(mend, text), text)
                self.assertIn(f"{name} is not as it was known", self.said.getvalue())


@unittest.skipUnless(packages.machine_arch() == "amd64", "user mode is of amd64 alone")
class BuildInto(InPrefix):
    """A kernel from a source file, into a folder: as a package is built."""

    def setUp(self) -> None:
        super().setUp()
        self.work = os.path.join(self.prefix, "work")
        os.mkdir(self.work)

    def source(self, **changed: str) -> str:
        """A tar.xz; changed: other texts for its files, by their last name."""
        path = os.path.join(self.work, "source.tar.xz")
        with tarfile.open(path, "w:xz") as tar:
            for name, text in PLAYED_SOURCE.items():
                data = changed.get(os.path.basename(name), text).encode()
                member = tarfile.TarInfo("linux-source/" + name)
                member.size, member.mtime = len(data), 1_000_000_000
                tar.addfile(member, io.BytesIO(data))
        return path

    def words(self, source: str, into: str) -> "list[str]":
        program = os.path.join(self.prefix, "bin", "softrdma")
        return [program, "kernel", "build", "--source", source, "--into", into]

    def build(self, source: str, into: str, *more: str, **environment: str) -> "tuple[int, str]":
        done = subprocess.run(
            [*self.words(source, into), *more],
            env={"PATH": os.environ["PATH"], "SOFTRDMA_CACHE": self.cache, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
        )
        return done.returncode, done.stdout

    def contents(self, path: str) -> "dict[str, bytes]":
        found = {}
        for place, _, names in os.walk(path):
            for name in names:
                with open(os.path.join(place, name), "rb") as file:
                    found[os.path.relpath(os.path.join(place, name), path)] = file.read()
        return found

    def test_it_is_whole_and_found_where_packages_install(self) -> None:
        into = os.path.join(self.package, "6.1")
        status, said = self.build(self.source(), into)
        self.assertEqual(status, 0, said)
        self.assertIn("6.1.187 is in", said)
        self.assertEqual(self.softrdma("kernel", "path", "6.1"), (0, f"{into}/linux\n"))
        facts = (cache.manifest(into) or {})["facts"]
        self.assertEqual((facts["version"], facts["processors"]), ("6.1.187", 1))
        self.assertEqual(os.listdir(self.package), ["6.1"])
        self.assertEqual(os.stat(into).st_mode, os.stat(self.work).st_mode)
        self.assertFalse(os.path.exists(self.cache))

    def test_the_same_bytes_in_another_folder_and_environment(self) -> None:
        source = self.source()
        one, other = os.path.join(self.work, "one"), os.path.join(self.work, "deeper", "other")
        os.makedirs(other)  # an empty folder will do
        epoch = {"SOURCE_DATE_EPOCH": "86400"}
        self.assertEqual(self.build(source, one, **epoch)[0], 0)
        noise = {"CFLAGS": "-nonsense", "MAKEFLAGS": "--nonsense", "KBUILD_BUILD_USER": "me"}
        status, said = self.build(source, other, **epoch, **noise, TZ="Asia/Tokyo")
        self.assertEqual(status, 0, said)
        self.assertEqual(self.contents(one), self.contents(other))
        notes = self.contents(one)["lib/modules/6.1.187/modules.builtin"].decode()
        self.assertIn("KBUILD_BUILD_TIMESTAMP=1970-01-02 00:00:00 UTC", notes)

    def test_without_a_date_it_is_the_source_s(self) -> None:
        into = os.path.join(self.work, "made")
        self.assertEqual(self.build(self.source(), into)[0], 0)
        notes = self.contents(into)["lib/modules/6.1.187/modules.builtin"].decode()
        self.assertIn("KBUILD_BUILD_TIMESTAMP=2001-09-09 01:46:40 UTC", notes)

    def test_what_fails_leaves_nothing(self) -> None:
        harms = (
            ({"Makefile": "all:\n"}, 2, "there is no kernel in it"),
            ({"Kconfig": "config HZ\n"}, 1, "sets HZ in another way"),
            ({"Makefile": PLAYED_SOURCE["Makefile"] + "\tfalse\n"}, 1, "does not build"),
        )
        for changed, expected, words in harms:
            source = self.source(**changed)
            status, said = self.build(source, os.path.join(self.work, "made"))
            self.assertEqual(status, expected, said)
            self.assertIn(words, said)
            self.assertEqual(os.listdir(self.work), ["source.tar.xz"])

    def test_killed_it_leaves_nothing(self) -> None:
        source = self.source(Makefile=PLAYED_SOURCE["Makefile"] + "\tsleep 600\n")
        began = subprocess.Popen(
            self.words(source, os.path.join(self.work, "made")),
            env={"PATH": os.environ["PATH"]},
            stderr=subprocess.DEVNULL,
        )

        def has_built() -> bool:
            return any("modules.builtin.modinfo" in names for _, _, names in os.walk(self.work))

        self.await_that(has_built)
        began.kill()
        began.wait()
        self.await_that(lambda: os.listdir(self.work) == ["source.tar.xz"])

    def await_that(self, condition: Callable[[], bool]) -> None:
        limit = time.monotonic() + 30
        while not condition():
            self.assertLess(time.monotonic(), limit, os.listdir(self.work))
            time.sleep(0.05)

    def test_verbose_shows_what_make_does(self) -> None:
        source, into = self.source(), os.path.join(self.work, "made")
        status, said = self.build(source, into, "--verbose", "--jobs", "1")
        self.assertEqual(status, 0, said)
        self.assertIn("gcc -g", said)
        source = self.source(Makefile=PLAYED_SOURCE["Makefile"] + "\techo why; false\n")
        status, said = self.build(source, into + "2", "--verbose")
        self.assertEqual(status, 1)
        self.assertRegex(said, r"(?s)\nwhy\n.*does not build; what it said is above")

    def test_misuse_is_one_line_that_says_what_to_do(self) -> None:
        source = self.source()
        plain = os.path.join(self.work, "plain")
        os.mkdir(plain)
        with open(os.path.join(plain, "file"), "w", encoding="ascii") as file:
            file.write("no xz")
        new = os.path.join(self.work, "new")
        cases = (
            (("build", "--source", source), "go together"),
            (("build", "--into", new), "go together"),
            (("build", "6.1", "--source", source, "--into", new), "which version"),
            (("build", "--source", plain + "/none", "--into", new), "No such file"),
            (("build", "--source", plain, "--into", new), "Is a directory"),
            (("build", "--source", "", "--into", new), "No such file"),
            (("build", "--source", plain + "/file", "--into", new), "not compressed by xz"),
            (("build", "--source", source, "--into", plain), "no empty folder"),
            (("build", "--source", source, "--into", plain + "/file"), "no empty folder"),
            (("build", "--source", source, "--into", ""), "the folder to make"),
            (("build", "--jobs", "0"), "1 or more"),
            (("list", "--source", source), "kernel build alone"),
            (("path", "--into", new), "kernel build alone"),
            (("fetch", "--verbose"), "kernel build alone"),
            (("remove", "6.1", "--jobs", "2"), "kernel build alone"),
        )
        for words, expected in cases:
            status, said = self.softrdma("kernel", *words)
            self.assertEqual((status, said.count("\n")), (2, 1), f"{words}: {said}")
            self.assertIn(expected, said)
        status, said = self.build(source, new, SOURCE_DATE_EPOCH="today")
        self.assertEqual(status, 2)
        self.assertIn("SOURCE_DATE_EPOCH", said)
        self.assertEqual(sorted(os.listdir(self.work)), ["plain", "source.tar.xz"])


class Initramfs(unittest.TestCase):
    def test_cpio_reads_back_what_was_written(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "archive")
            archive = initramfs.Archive(path)
            archive.add("sub", 0o040755)
            files = {f"sub/{length}": os.urandom(length) for length in (0, 1, 2, 3, 4, 4097)}
            for name, data in files.items():
                archive.add(name, 0o100644, data)
            archive.close()
            out = os.path.join(folder, "out")
            os.mkdir(out)
            with open(path, "rb") as file:
                subprocess.run(["cpio", "-id", "--quiet"], stdin=file, cwd=out, check=True)
            for name, data in files.items():
                with open(os.path.join(out, name), "rb") as file:
                    self.assertEqual(file.read(), data)


class Manual(unittest.TestCase):
    def test_the_manual_has_every_option_of_the_help(self) -> None:
        with open(os.path.join(HERE, "..", "..", "man", "softrdma.1"), encoding="utf-8") as file:
            manual = file.read().replace("\\-", "-")
        for command in ("run", "up", "down", "list", "kernel"):
            self.assertRegex(manual, rf"\.B softrdma {command}\b")
            text = io.StringIO()
            with redirect_stdout(text), self.assertRaises(SystemExit):
                cli.parser().parse_args([command, "--help"])
            options = set(re.findall(r"(--[a-z]+)", text.getvalue())) - {"--help"}
            for option in options:
                self.assertIn(option, manual, f"{command} {option}")


if __name__ == "__main__":
    unittest.main()

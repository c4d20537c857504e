#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""The parts of scripts/release that need no kernel: checksums, sources, licenses, and which kernel fits."""

import contextlib
import hashlib
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import unittest
from typing import Any, Dict, List, Set, Tuple
from unittest import mock

TEST_FOLDER = os.path.dirname(os.path.realpath(__file__))
SCRIPTS = os.path.join(TEST_FOLDER, "..", "..", "..", "scripts")
sys.path.insert(0, SCRIPTS)
sys.dont_write_bytecode = True

from lab.core import (  # noqa: E402
    cache,
    files,
    progress,
    subprocesses,
    supervisor,
    temporary_folders,
)
from lab.core.errors import LabError, Unavailable, UsageError  # noqa: E402
from lab.kernel import linked_libraries  # noqa: E402
from release_parts import (  # noqa: E402
    bill,
    checksums,
    deb_packages,
    debian_status,
    material,
    prefix,
    repository,
    rpm_packages,
    sources,
    wheel,
)

LIBRARIES = {
    "libc.a": {"package": "libc6-dev", "source": "glibc", "version": "2.36-9"},
    "libgcc.a": {"package": "libgcc-12-dev", "source": "gcc-12", "version": "12.2.0-14"},
}


class InFolder(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.out = self.make_folder("out")

    def make_folder(self, *names: str) -> str:
        path = os.path.join(self.folder, *names)
        os.makedirs(path, exist_ok=True)
        return path

    def write(self, text: str, *names: str) -> str:
        path = os.path.join(self.folder, *names)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path


class Checksums(InFolder):
    """What SHA256SUMS lists after several runs of scripts/release."""

    def publish(self, bill: str, *parts: str) -> None:
        made = [self.write(f"contents of {part}", "work", part) for part in parts]
        bill_path = self.write(bill, "work", "a.spdx.json")
        checksums.publish(made, bill_path, os.path.join(self.folder, "work"), self.out)
        subprocess.run(
            ["sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS"], cwd=self.out, check=True
        )

    def listed(self) -> List[str]:
        with open(os.path.join(self.out, "SHA256SUMS"), encoding="ascii") as file:
            return [line.split()[1] for line in file]

    def test_parts_of_the_same_release_stay_listed(self) -> None:
        self.publish("commit 1", "archive")
        self.publish("commit 1", "wheel")
        self.assertEqual(self.listed(), ["a.spdx.json", "archive", "wheel"])
        self.publish("commit 1", "archive")
        self.assertEqual(self.listed(), ["a.spdx.json", "archive", "wheel"])

    def test_parts_of_another_release_are_not_listed(self) -> None:
        self.publish("commit 1", "archive", "wheel")
        with mock.patch.object(progress, "note") as note:
            self.publish("commit 2", "wheel")
            self.assertRegex(note.call_args[0][0], "out still has archive, of another commit")
            note.reset_mock()
            self.publish("commit 3", "wheel")
            note.assert_not_called()
        self.assertEqual(self.listed(), ["a.spdx.json", "wheel"])
        self.assertTrue(os.path.isfile(os.path.join(self.out, "archive")))

    def test_changed_missing_and_foreign_files_are_not_listed(self) -> None:
        self.publish("commit 1", "archive", "sources")
        self.write("changed", "out", "archive")
        os.unlink(os.path.join(self.out, "sources"))
        self.write("mine", "out", "thesis")
        self.publish("commit 1", "wheel")
        self.assertEqual(self.listed(), ["a.spdx.json", "wheel"])

    def test_killed_run_leaves_no_sums_of_the_release_before(self) -> None:
        self.publish("commit 1", "archive", "wheel")
        replace = os.replace

        def die_at_sums(source: str, target: str) -> None:
            if source.endswith("SHA256SUMS"):
                raise KeyboardInterrupt
            replace(source, target)

        with mock.patch("os.replace", die_at_sums), self.assertRaises(KeyboardInterrupt):
            self.publish("commit 2", "archive")
        self.publish("commit 2", "archive")
        self.assertEqual(self.listed(), ["a.spdx.json", "archive"])

    def test_damaged_sums_are_made_again(self) -> None:
        self.publish("commit 1", "archive")
        for text in ("", "\xff", f"{'0' * 64}  ../archive\n"):
            self.write(text, "out", "SHA256SUMS")
            self.publish("commit 1", "wheel")
            self.assertEqual(self.listed(), ["a.spdx.json", "wheel"])

    def test_folder_in_the_way_is_named_and_nothing_is_moved(self) -> None:
        self.make_folder("out", "wheel")
        with self.assertRaisesRegex(UsageError, "out/wheel is a folder"):
            self.publish("commit 1", "archive", "wheel")
        self.assertEqual(os.listdir(self.out), ["wheel"])

    def test_releases_into_a_folder_at_once_are_all_listed(self) -> None:
        names = [f"part{number}" for number in range(8)]
        children = []
        for name in names:
            work = self.make_folder(f"work.{name}")
            made = self.write("contents", work, name)
            bill = self.write("commit 1", work, "a.spdx.json")
            child = os.fork()
            if child == 0:
                with contextlib.suppress(BaseException):
                    read_sums = checksums._read_sums

                    def read_sums_slowly(folder: str) -> Dict[str, str]:
                        sums = read_sums(folder)
                        time.sleep(0.05)
                        return sums

                    with mock.patch.object(checksums, "_read_sums", read_sums_slowly):
                        checksums.publish([made], bill, work, self.out)
                    os._exit(0)
                os._exit(1)
            children.append(child)
        self.assertEqual([os.waitpid(child, 0)[1] for child in children], [0] * len(names))
        self.assertEqual(self.listed(), ["a.spdx.json", *names])

    def publish_folder(self, text: str) -> None:
        self.write(text, "work", "apt", "file")
        self.publish("commit 1", "archive")
        made = os.path.join(self.folder, "work", "apt")
        bill = self.write("commit 1", "work", "a.spdx.json")
        checksums.publish([made], bill, os.path.join(self.folder, "work"), self.out)

    def test_folder_is_replaced_and_never_missing(self) -> None:
        self.publish_folder("old")
        with mock.patch("os.rename", side_effect=AssertionError("there is a moment without it")):
            self.publish_folder("new")
        with open(os.path.join(self.out, "apt", "file"), encoding="utf-8") as file:
            self.assertEqual(file.read(), "new")

    def test_folder_is_replaced_where_folders_cannot_be_exchanged(self) -> None:
        self.publish_folder("old")
        with mock.patch.object(checksums, "_exchange", return_value=False):
            self.publish_folder("new")
        with open(os.path.join(self.out, "apt", "file"), encoding="utf-8") as file:
            self.assertEqual(file.read(), "new")


class PartFolders(InFolder):
    def test_folder_of_a_killed_release_is_removed_and_others_stay(self) -> None:
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            with contextlib.suppress(BaseException), supervisor.Undo() as undo:
                path = temporary_folders.make_part_folder(undo, self.out)
                os.write(writer, path.encode())
                signal.pause()
            os._exit(1)
        os.close(writer)
        with open(reader, encoding="utf-8") as pipe:
            killed = os.path.basename(pipe.read(len(self.out) + 23))
            user_folders = {"part.0123456789abcdef", ".part.thesis"}
            for name in user_folders:
                self.make_folder("out", name)
                self.write("", "out", name + ".lock")

            def left() -> Set[str]:
                with supervisor.Undo() as undo:
                    part = os.path.basename(temporary_folders.make_part_folder(undo, self.out))
                    return {
                        name
                        for name in os.listdir(self.out)
                        if not name.startswith(part) and not name.endswith(".lock")
                    }

            self.assertEqual(left(), {killed, *user_folders})
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            self.assertEqual(left(), user_folders)
        self.assertEqual(len(os.listdir(self.out)), 2 * len(user_folders))


class SourcePackage(InFolder):
    """Which files of a download are passed on."""

    def download(self, *listed: str) -> str:
        lines = [
            f" {hashlib.sha256(name.encode()).hexdigest()} {len(name)} {name}\n" for name in listed
        ]
        self.write(f"Checksums-Sha256:\n{''.join(lines)}", "downloads", "c_1.dsc")
        for name in listed:
            self.write(name, "downloads", name)
        return os.path.join(self.folder, "downloads")

    def test_only_files_of_the_dsc_are_kept(self) -> None:
        downloads = self.download("c_1.orig.tar.xz", "c_1.debian.tar.xz")
        self.write("half", "downloads", "c_1.orig.tar.xz.FAILED")
        kept = os.path.join(self.folder, "kept")
        sources.keep_source_package(downloads, kept)
        self.assertEqual(
            sorted(os.listdir(kept)), ["c_1.debian.tar.xz", "c_1.dsc", "c_1.orig.tar.xz"]
        )

    def test_damaged_or_missing_file_is_an_error(self) -> None:
        for number, damage in enumerate(("changed", None)):
            downloads = self.download("c_1.orig.tar.xz")
            path = self.write("changed", "downloads", "c_1.orig.tar.xz")
            if damage is None:
                os.unlink(path)
            with self.assertRaisesRegex(LabError, "c_1.orig.tar.xz is not what c_1.dsc names"):
                sources.keep_source_package(downloads, os.path.join(self.folder, f"kept{number}"))


class Licenses(InFolder):
    def test_missing_license_is_an_error(self) -> None:
        release: Any = mock.Mock(libc=LIBRARIES["libc.a"], libgcc=LIBRARIES["libgcc.a"])
        common = self.write("license", "common", "LGPL-2.1")
        with mock.patch.multiple(
            prefix, COMMON_LICENSES={"LGPL-2.1": common}, DOC_FOLDER=self.folder
        ):
            with self.assertRaisesRegex(
                Unavailable, "libc6-dev/copyright and .*libgcc-12-dev/copyr"
            ):
                prefix.licenses_of_libraries(release)
            for library in LIBRARIES.values():
                self.write("copyright", library["package"], "copyright")
            names = set(prefix.licenses_of_libraries(release))
            self.assertEqual(names, {"LGPL-2.1", "libc6-dev.copyright", "libgcc-12-dev.copyright"})
            os.unlink(common)
            with self.assertRaisesRegex(Unavailable, "LGPL-2.1 is missing.*reinstall base-files"):
                prefix.licenses_of_libraries(release)


class FittingKernel(InFolder):
    """A kernel in the cache is used if it is known what it is linked with, and that is installed."""

    def find_kernel(self, cached_facts: Dict[str, Any]) -> str:
        """The name of the folder: cached, or made."""

        def build(tree: str, environment: Dict[str, str]) -> str:
            is_own = environment.get("SOFTRDMA_CACHE") == os.path.join(self.folder, "cache")
            path = self.make_folder("made" if is_own else "cached")
            facts = {linked_libraries.LINKED_FACT: LIBRARIES} if is_own else cached_facts
            cache.write_manifest(path, facts, [])
            return path

        with mock.patch.object(material, "_build_kernel", build), mock.patch.object(
            linked_libraries, "find_libraries", lambda environment: LIBRARIES
        ):
            return os.path.basename(material._find_kernel("tree", self.folder))

    def test_kernel_that_fits(self) -> None:
        self.assertEqual(self.find_kernel({linked_libraries.LINKED_FACT: LIBRARIES}), "cached")

    def test_kernel_of_an_older_softrdma(self) -> None:
        self.assertEqual(self.find_kernel({"version": "7.2.13-1"}), "made")

    def test_kernel_that_is_linked_with_another_library(self) -> None:
        older = {**LIBRARIES, "libc.a": {**LIBRARIES["libc.a"], "version": "2.36-8"}}
        self.assertEqual(self.find_kernel({linked_libraries.LINKED_FACT: older}), "made")


STATUS = """\
Package: libstdc++6
Status: install ok installed
Architecture: amd64
Source: gcc-12 (12.2.0-14+deb12u1)
Version: 1:12.2.0-14+deb12u1+b1
Description: a library
 Package: none

Package: removed
Status: deinstall ok config-files
Architecture: amd64
Version: 1

Package: dash
Status: hold ok installed
Architecture: amd64
Version: 0.5.12-2

Package: softrdma-uml
Status: install ok installed
Architecture: amd64
Source: coherdma
Version: 0.1.0-1
Built-Using: glibc (= 2.36-9+deb12u14), zlib (= 1:1.2.13)
"""


class ImageBill(InFolder):
    """The bill of an image has all packages in it, and where their sources are."""

    def make(self) -> Any:
        release: Any = mock.Mock(commit="1" * 40, seconds=0)
        root = os.path.join(self.folder, "root.tar")
        with tarfile.open(root, "w") as tar:
            status = tarfile.TarInfo("./var/lib/dpkg/status")
            status.size = len(STATUS)
            tar.addfile(tarfile.TarInfo("./var/lib/dpkg/status-old"))
            tar.addfile(status, io.BytesIO(STATUS.encode()))
        debs = debian_status.read_packages(root)
        path = bill.make_image_bill(release, self.folder, "coherdma", debs, has_archive=False)
        self.assertEqual(os.path.basename(path), "coherdma-0.1.0-image.spdx.json")
        with open(path, encoding="utf-8") as file:
            return json.load(file)

    def test_packages_name_the_place_of_their_source(self) -> None:
        packages = {
            (package["name"], package["versionInfo"]): package["downloadLocation"]
            for package in self.make()["packages"]
        }
        snapshot = "https://snapshot.debian.org/package"
        self.assertEqual(
            packages,
            {
                ("coherdma", "0.1.0"): "NOASSERTION",
                ("dash", "0.5.12-2"): f"{snapshot}/dash/0.5.12-2/",
                ("glibc", "2.36-9+deb12u14"): f"{snapshot}/glibc/2.36-9%2Bdeb12u14/",
                ("libstdc++6", "1:12.2.0-14+deb12u1+b1"): f"{snapshot}/gcc-12/12.2.0-14%2Bdeb12u1/",
                ("softrdma-uml", "0.1.0-1"): "NOASSERTION",
                ("zlib", "1:1.2.13"): f"{snapshot}/zlib/1%3A1.2.13/",
            },
        )

    def test_relationships_name_its_packages(self) -> None:
        document = self.make()
        identifiers = [package["SPDXID"] for package in document["packages"]]
        self.assertEqual(len(set(identifiers)), len(identifiers))
        for identifier in identifiers:
            self.assertRegex(identifier, "^SPDXRef-[A-Za-z0-9.-]+$")
        related = [entry["relatedSpdxElement"] for entry in document["relationships"]]
        self.assertEqual(sorted(related), sorted(identifiers))

    def test_root_without_packages_is_an_error(self) -> None:
        root = os.path.join(self.folder, "root.tar")
        with tarfile.open(root, "w") as tar:
            tar.addfile(tarfile.TarInfo("./etc"))
        with self.assertRaisesRegex(LabError, "has no ./var/lib/dpkg/status"):
            debian_status.read_packages(root)


class Trees(InFolder):
    """The files of the last commit, in checkouts of several kinds."""

    def setUp(self) -> None:
        super().setUp()
        self.checkout = self.make_folder("checkout")
        self.git("init", "--quiet")
        for text in ("1", "2"):
            self.write(text, "checkout", "file")
            self.write(text, "checkout", "folder", "file")
            self.git("add", ".")
            self.git("commit", "--quiet", "--message", text)

    def git(self, *arguments: str) -> None:
        identity = ("-c", "user.name=a", "-c", "user.email=a@test.invalid")
        environment = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null"}
        subprocess.run(
            ["git", *identity, *arguments], cwd=self.checkout, env=environment, check=True
        )

    def find_tree(self, checkout: str) -> material.Tree:
        work = tempfile.mkdtemp(dir=self.folder)
        with mock.patch.object(material, "REPOSITORY", checkout):
            return material._find_tree(work)

    def test_shallow_clone_has_the_same_tree(self) -> None:
        shallow = os.path.join(self.folder, "shallow")
        self.git("clone", "--quiet", "--depth=1", f"file://{self.checkout}", shallow)
        whole, tree = self.find_tree(self.checkout), self.find_tree(shallow)
        self.assertEqual((tree.commit, tree.seconds), (whole.commit, whole.seconds))
        self.assertEqual(files.hash_file(str(tree.archive)), files.hash_file(str(whole.archive)))
        self.assertLess(abs(time.time() - tree.seconds), 600)

    def test_folder_of_another_checkout_is_an_error(self) -> None:
        with self.assertRaisesRegex(Unavailable, "folder is no git checkout"):
            self.find_tree(os.path.join(self.checkout, "folder"))

    def test_checkout_starts_no_program_and_stays_as_it_is(self) -> None:
        mark = os.path.join(self.folder, "mark")
        self.git("config", "core.fsmonitor", f"touch {mark}; false")
        index = os.path.join(self.checkout, ".git", "index")
        os.utime(os.path.join(self.checkout, "file"), (0, 0))  # git would refresh the index
        before = os.stat(index)
        self.find_tree(self.checkout)
        after = os.stat(index)
        self.assertEqual((after.st_ino, after.st_mtime_ns), (before.st_ino, before.st_mtime_ns))
        self.assertFalse(os.path.exists(mark))


class Interruption(InFolder):
    """mmdebstrap has mounts, and unmounts them if it can."""

    def interrupt(self, trap: str, cleanup_seconds: float) -> bool:
        """Returns whether the program could clean up."""
        mark = os.path.join(self.folder, "mark")
        script = f"trap '{trap}' TERM; echo; while :; do sleep 0.01; done"

        def stop_when_started(num_bytes: int) -> None:
            if num_bytes:
                raise KeyboardInterrupt

        with self.assertRaises(KeyboardInterrupt):
            subprocesses.run_long(
                ["sh", "-c", script, "-", mark],
                "",
                on_progress=stop_when_started,
                cleanup_seconds=cleanup_seconds,
            )
        return os.path.exists(mark)

    def test_program_can_clean_up_only_if_it_is_let(self) -> None:
        clean_up = 'touch "$1"; exit'
        self.assertFalse(self.interrupt(clean_up, 0))
        self.assertFalse(self.interrupt("", 0.1))
        self.assertTrue(self.interrupt(clean_up, 60))


class WheelProgram(InFolder):
    """Which Python starts the program of a wheel."""

    def setUp(self) -> None:
        super().setUp()
        self.bin = self.make_folder("a b'c\"d", "bin")
        text = "#!/usr/bin/python3\nimport sys\nprint(sys.executable, sys.flags.isolated, sys.argv[1:])\n"
        self.program = self.write(text, self.bin, "softrdma")
        prefix.set_first_line(self.program, wheel.FIRST_LINES)
        os.chmod(self.program, 0o755)
        self.path = self.make_folder("path")
        for tool in ("dirname", "readlink"):
            os.symlink(str(shutil.which(tool)), os.path.join(self.path, tool))

    def add_python(self, folder: str, name: str, text: str = "") -> str:
        path = self.write(
            f'#!/bin/sh\n{text or f"""exec {sys.executable} "$@" """}\n', folder, name
        )
        os.chmod(path, 0o755)
        return path

    def start(self, program: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [program, "x y", "-c"], env={"PATH": self.path}, capture_output=True, text=True
        )

    def test_python_of_the_virtual_environment_also_by_a_link(self) -> None:
        mark = os.path.join(self.folder, "mark")
        self.add_python(self.bin, "python3", f': >{mark}; exec {sys.executable} "$@"')
        self.add_python(self.path, "python3", "exit 1")
        link = os.path.join(self.path, "softrdma")
        os.symlink(self.program, link)
        for program in (self.program, link):
            result = self.start(program)
            self.assertEqual((result.returncode, result.stderr), (0, ""))
            self.assertIn("1 ['x y', '-c']", result.stdout)
            os.unlink(mark)

    def test_python_in_path_that_is_new_enough(self) -> None:
        self.add_python(self.path, "python3", "exit 1")
        self.add_python(self.path, "python3.10")
        self.assertIn("1 ['x y', '-c']", self.start(self.program).stdout)

    def test_without_python_the_error_says_what_to_install(self) -> None:
        self.add_python(self.path, "python3", "exit 1")
        result = self.start(self.program)
        self.assertEqual(result.returncode, 77)
        self.assertIn("needs Python 3.9 or newer, as python3 in ", result.stderr)


class Packages(InFolder):
    """Those that scripts/package makes are of the release's commit."""

    def require(self, release_commit: str, made_commit: str) -> None:
        folder = self.make_folder("packages", "bookworm-amd64")

        def make(*_: object, **__: object) -> None:
            with tarfile.open(
                os.path.join(folder, "c_1.orig.tar.gz"),
                "w:gz",
                format=tarfile.PAX_FORMAT,
                pax_headers={"comment": made_commit},
            ) as tar:
                tar.addfile(tarfile.TarInfo("file"))
            digest = files.hash_file(os.path.join(folder, "c_1.orig.tar.gz"))
            self.write(f"{digest}  c_1.orig.tar.gz\n", folder, "SHA256SUMS")

        release: Any = mock.Mock(commit=release_commit)
        with mock.patch("lab.core.subprocesses.run_long", make), mock.patch(
            "lab.debian.packages.machine_arch", return_value="amd64"
        ):
            deb_packages.require_packages(release, os.path.dirname(folder), "bookworm")

    def test_packages_are_those_of_their_sums(self) -> None:
        line = f"{hashlib.sha256(b'text').hexdigest()}  a.deb\n"
        cases: List[Tuple[str, List[str], str]] = [
            (line, ["a.deb", "log"], ""),
            ("\n" + line, ["a.deb"], ""),
            (line, ["a.deb", "b.deb"], "b.deb"),
            (line, [], "a.deb"),
            (line.replace("0", "1"), ["a.deb"], "a.deb"),
            ("", ["a.deb"], "a.deb"),
        ]
        for number, (sums, names, wrong) in enumerate(cases):
            folder = self.make_folder(f"made{number}")
            for name in names:
                self.write("text", folder, name)
            if sums:
                self.write(sums, folder, "SHA256SUMS")
            if not wrong:
                deb_packages.verify_sums(folder)
                continue
            with self.assertRaisesRegex(
                LabError, f"{wrong} is not as in SHA256SUMS; remove {folder}, to make it again"
            ):
                deb_packages.verify_sums(folder)

    def test_commit_that_comes_meanwhile_is_an_error(self) -> None:
        with self.assertRaisesRegex(LabError, "packages of another commit.*start again"):
            self.require("1" * 40, "2" * 40)
        self.require("1" * 40, "1" * 40)


class Repository(InFolder):
    def test_repository_of_others_is_not_replaced(self) -> None:
        apt = self.make_folder("out", "apt")
        for origin, is_own in (("coherdma", True), ("Debian", False)):
            with open(
                os.path.join(self.make_folder("out", "apt", "dists", origin), "Release"), "w"
            ) as file:
                file.write(f"Origin: {origin}\nLabel: coherdma\n")
            self.assertEqual(repository.is_own_repository(apt), is_own)
        self.assertFalse(repository.is_own_repository(self.out))
        with self.assertRaisesRegex(UsageError, "is not a repository of coherdma; move it away"):
            repository.check_options(self.out, None, True)

    def test_link_to_a_repository_is_not_replaced(self) -> None:
        self.write("Origin: coherdma\n", "www", "apt", "dists", "bookworm", "Release")
        os.symlink(os.path.join(self.folder, "www", "apt"), os.path.join(self.out, "apt"))
        with self.assertRaisesRegex(UsageError, "out/apt is there and is a link; move it away"):
            repository.check_options(self.out, None, True)

    def make_suite(self, root: str, text: str) -> Set[str]:
        """Returns the names of its indexes by their hashes, relative to the root."""
        dist = self.make_folder(root, "dists", "bookworm")
        repository.add_index(dist, "main/binary-amd64/Packages", text)
        by_hash = os.path.join(dist, "main/binary-amd64/by-hash/SHA256")
        names = os.listdir(by_hash)
        lines = [f" {name} 1 main/binary-amd64/Packages\n" for name in names]
        self.write(
            f"Origin: coherdma\nSHA256:\n{''.join(lines)}", root, "dists/bookworm", "Release"
        )
        return set(names)

    def test_indexes_of_the_replaced_repository_are_kept_once(self) -> None:
        kept: Set[str] = set()
        for number, text in enumerate(("", "Package: a\n", "Package: a\n", "Package: b\n")):
            work = f"work{number}"
            made = self.make_suite(os.path.join(work, "apt"), text)
            apt = os.path.join(self.folder, work, "apt")
            repository.keep_indexes(self.out, os.path.join(self.folder, work))
            by_hash = os.path.join(apt, "dists/bookworm/main/binary-amd64/by-hash/SHA256")
            self.assertEqual(set(os.listdir(by_hash)), made | kept)
            for name in os.listdir(by_hash):
                self.assertEqual(files.hash_file(os.path.join(by_hash, name)), name)
            kept = made
            shutil.rmtree(os.path.join(self.out, "apt"), ignore_errors=True)
            os.rename(apt, os.path.join(self.out, "apt"))

    def test_suite_that_is_only_in_the_replaced_repository_is_not_kept(self) -> None:
        self.make_suite("out/apt", "Package: a\n")
        self.write("Origin: coherdma\n", "work", "apt", "dists", "trixie", "Release")
        repository.keep_indexes(self.out, os.path.join(self.folder, "work"))
        self.assertEqual(os.listdir(os.path.join(self.folder, "work/apt/dists")), ["trixie"])

    def test_what_is_put_in_its_place_meanwhile_stays(self) -> None:
        self.write("mine", "out", "apt", "thesis")
        self.make_suite("work/apt", "")
        with self.assertRaisesRegex(UsageError, "is not a repository of coherdma"):
            repository.keep_indexes(self.out, os.path.join(self.folder, "work"))

    def make_keys(self) -> None:
        """A folder of gpg, in the environment."""
        home = self.make_folder("gpg")
        os.chmod(home, 0o700)
        self.addCleanup(
            lambda: subprocess.run(["gpgconf", "--homedir", home, "--kill", "all"], check=False)
        )
        environment = mock.patch.dict(os.environ, GNUPGHOME=home)
        environment.start()
        self.addCleanup(environment.stop)

    def gpg(self, *options: str) -> None:
        subprocess.run(
            ["gpg", "--batch", "--yes", "--passphrase", "", *options],
            check=True,
            capture_output=True,
        )

    @unittest.skipUnless(shutil.which("gpg"), "gpg is not installed")
    def test_key_that_cannot_sign_is_refused_before_anything_is_made(self) -> None:
        self.make_keys()
        past = ("--faked-system-time", "20200101T000000")
        self.gpg("--quick-gen-key", "good key", "ed25519", "sign")
        self.gpg("--quick-gen-key", "certifier", "ed25519", "cert")
        self.gpg(*past, "--quick-gen-key", "expired", "ed25519", "sign", "1d")
        self.gpg("--quick-gen-key", "revoked", "ed25519", "sign")
        fingerprint = repository.find_fingerprint("revoked")
        path = os.path.join(os.environ["GNUPGHOME"], "openpgp-revocs.d", f"{fingerprint}.rev")
        with open(path, encoding="utf-8") as file:
            revocation = self.write(file.read().replace(":-----", "-----"), "revocation")
        self.gpg("--import", revocation)
        with mock.patch.object(repository, "PROGRAM_PACKAGES", {}):
            repository.check_options(self.out, "good key", False)
            for key in ("certifier", "expired", "revoked"):
                with self.assertRaisesRegex(
                    LabError, f"--key {key}: gpg cannot sign with it .*: gpg: "
                ):
                    repository.check_options(self.out, key, False)
        self.assertEqual(os.listdir(self.out), [])

    @unittest.skipUnless(shutil.which("gpg"), "gpg is not installed")
    def test_key_is_one_key(self) -> None:
        self.make_keys()
        for name in ("one@example.com", "one@example.com.other"):
            self.gpg("--quick-gen-key", name)
        fingerprint = repository.find_fingerprint("=one@example.com")
        self.assertRegex(fingerprint, "^[0-9A-F]{40}$")
        self.assertEqual(repository.find_fingerprint(fingerprint), fingerprint)
        with self.assertRaisesRegex(UsageError, "gpg has 2 such secret keys"):
            repository.find_fingerprint("one@example.com")
        with self.assertRaisesRegex(LabError, "gpg has no secret key two to sign with"):
            repository.find_fingerprint("two")


SPEC = """
Name: small
Version: 1
Release: 1
Summary: small
License: none
BuildArch: noarch
%{?commit:VCS: git:%{commit}}
%description
%files
"""


class Rpms(InFolder):
    def make_rpms(self, *options: str) -> None:
        """In build/rpm, as scripts/package does it."""
        spec, made = self.write(SPEC, "small.spec"), self.make_folder("build", "rpm")
        defines = ["--define", f"_topdir {self.folder}/top", "--define", f"_rpmdir {made}"]
        command = ["rpmbuild", "-ba", "--quiet", *defines, "--define", f"_srcrpmdir {made}"]
        flat = ["--define", "_build_name_fmt %%{NAME}.%%{ARCH}.rpm"]
        subprocess.run([*command, *flat, *options, spec], check=True, capture_output=True)
        with open(os.path.join(made, "SHA256SUMS"), "w") as sums:
            subprocess.run("sha256sum *.rpm", shell=True, check=True, cwd=made, stdout=sums)
        self.write("== source\n", "build", "rpm", "log")

    def publish(self, commit: str) -> List[str]:
        """The names of what is published. Raises LookupError if the rpms are of another commit."""
        of_commit = mock.Mock(commit=commit)
        work = tempfile.mkdtemp(dir=self.folder)
        with mock.patch.object(deb_packages, "make_packages", side_effect=LookupError):
            root = rpm_packages.make_rpms(of_commit, work, os.path.join(self.folder, "build"))
        return sorted(os.listdir(root))

    @unittest.skipUnless(shutil.which("rpmbuild"), "rpm is not installed")
    def test_rpms_of_the_commit_are_published(self) -> None:
        self.make_rpms("--define", "commit 0123abcd")
        names = ["SHA256SUMS", "small-1-1.src.rpm", "small.noarch.rpm"]
        self.assertEqual(self.publish("0123abcd"), names)
        self.write("damaged", "build", "rpm", "small.noarch.rpm")
        with self.assertRaisesRegex(LabError, "small.noarch.rpm is not as in SHA256SUMS"):
            self.publish("0123abcd")

    @unittest.skipUnless(shutil.which("rpmbuild"), "rpm is not installed")
    def test_rpms_of_another_commit_are_made_again(self) -> None:
        self.make_folder("build")
        with self.assertRaises(LookupError):
            self.publish("0123abcd")
        for define in ("other 0123abcd", "commit 0123"):
            self.make_rpms("--define", define)
            with self.assertRaises(LookupError):
                self.publish("0123abcd")

    def test_folder_with_other_files_is_not_replaced(self) -> None:
        self.write("", "out", "rpm", "a.rpm")
        self.write("", "out", "rpm", "SHA256SUMS")
        self.assertTrue(rpm_packages.is_own_folder(os.path.join(self.out, "rpm")))
        self.write("", "out", "rpm", "thesis")
        with self.assertRaisesRegex(UsageError, "has other files than rpms; move it away"):
            rpm_packages.check_options(self.out)


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""lab/kernel: releases, the compiler of siw, and the patches of the kernel's source."""

import io
import os
import subprocess
import sys
import tempfile
import unittest
import unittest.mock
from contextlib import redirect_stderr, redirect_stdout

TEST_FOLDER = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, os.path.join(TEST_FOLDER, "..", "..", "..", "scripts"))
sys.dont_write_bytecode = True

from lab.cli import kernel_command  # noqa: E402
from lab.core.errors import LabError, Unavailable  # noqa: E402
from lab.debian.packages import Package  # noqa: E402
from lab.kernel import kernel_patches, siw_module  # noqa: E402
from lab.kernel.debian_kernels import release_matches  # noqa: E402


class Releases(unittest.TestCase):
    def test_series_is_matched_as_whole_numbers(self) -> None:
        self.assertTrue(release_matches("6.1.0-9-amd64", "6.1"))
        self.assertTrue(release_matches("6.1.0-9-amd64", "6.1.0-9-amd64"))
        self.assertFalse(release_matches("6.12.5-amd64", "6.1"))
        self.assertFalse(release_matches("6.1.0-9-amd64", "6.1.0-9-amd64-x"))


class Listing(unittest.TestCase):
    def test_names_in_the_cache_are_escaped(self) -> None:
        names = ("release", "for", "arch", "version", "from", "path")
        row = {**dict.fromkeys(names, "\x1b[2J"), "siw": True, "missing_patches": ["\x9b.patch"]}
        with unittest.mock.patch.object(kernel_command, "_kernel_rows", lambda: [row]):
            with redirect_stdout(io.StringIO()) as stdout:
                kernel_command._list_kernels(as_json=False)
        self.assertIn(r"\x1b[2J lacks \x9b.patch", stdout.getvalue())
        self.assertTrue(stdout.getvalue().replace("\n", "").isprintable())


class CrossCompiler(unittest.TestCase):
    def compiler_package(self, *depends: str) -> str:
        headers = Package("headers", "1", 0, list(depends))
        return siw_module.cross_compiler_package(headers, "arm64")

    def test_version_is_that_of_the_headers(self) -> None:
        self.assertEqual(self.compiler_package("linux-base", "gcc-14"), "gcc-14-aarch64-linux-gnu")
        self.assertEqual(
            self.compiler_package("gcc-16-for-host", "pahole"), "gcc-16-aarch64-linux-gnu"
        )

    def test_headers_without_compiler_are_rejected(self) -> None:
        with self.assertRaisesRegex(Unavailable, "headers depends on no compiler"):
            self.compiler_package("linux-base", "libgcc-14-dev")


SERIES = {  # of a kernel with the files a and b, and siw's file c
    "6.1.10": ["0001-siw-repair-c", "0002-um-repair-a-and-b"],
    "7.2.13": ["0001-um-repair-a-and-b", "0002-siw-repair-c"],
}
PATCHED_FILES = {"siw-repair-c": [f"{kernel_patches.SIW_DIR}/c"], "um-repair-a-and-b": ["a", "b"]}


def patch_text(files: "list[str]") -> str:
    parts = ["Subject: [PATCH] repair\n\n"]
    for file in files:
        parts.append(f"diff --git a/{file} b/{file}\n--- a/{file}\n+++ b/{file}\n")
        parts.append("@@ -1,3 +1,3 @@\n before\n-fault\n+repair\n after\n")
    return "".join(parts)


class KernelPatches(unittest.TestCase):
    """Series of patches, applied to a tree in which each file has the line that they replace."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.tree, patches = (os.path.join(folder.name, name) for name in ("tree", "patches"))
        for version, names in SERIES.items():
            os.makedirs(os.path.join(patches, version))
            for name in names:
                text = patch_text(PATCHED_FILES[name.partition("-")[2]])
                with open(os.path.join(patches, version, f"{name}.patch"), "w") as file:
                    file.write(text)
        for files in PATCHED_FILES.values():
            for name in files:
                self.write(name, "before\nfault\nafter\n")
        patcher = unittest.mock.patch.object(kernel_patches, "PATCHES_DIR", patches)
        patcher.start()
        self.addCleanup(patcher.stop)

    def write(self, name: str, text: str) -> None:
        path = os.path.join(self.tree, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    def line(self, name: str) -> str:
        with open(os.path.join(self.tree, name), encoding="utf-8") as file:
            return file.read().split("\n")[1]

    def apply(self, series: kernel_patches.PatchSeries, version: str) -> "list[str]":
        with redirect_stderr(io.StringIO()) as self.stderr:
            return series.apply(self.tree, version)

    def test_all_patches_of_a_known_version_are_applied(self) -> None:
        self.assertEqual(self.apply(kernel_patches.series_for("7.2.13"), "7.2.13"), [])
        self.assertEqual(
            {self.line(name) for files in PATCHED_FILES.values() for name in files}, {"repair"}
        )
        self.assertEqual(self.stderr.getvalue(), "")

    def test_siw_series_changes_siw_only(self) -> None:
        self.assertEqual(self.apply(kernel_patches.siw_series_for("6.1.10-1"), "6.1.10"), [])
        self.assertEqual(self.line(f"{kernel_patches.SIW_DIR}/c"), "repair")
        self.assertEqual(self.line("a"), "fault")

    def test_patches_that_a_tree_lacks_are_found(self) -> None:
        series = kernel_patches.series_for("7.2.13")
        names = [patch.name for patch in series.patches]
        self.assertEqual(series.find_missing(self.tree), names)
        self.write(f"{kernel_patches.SIW_DIR}/c", "before\nrepair\nafter\n")
        self.assertEqual(series.find_missing(self.tree), ["um-repair-a-and-b"])
        self.write("a", "before\nrepair\nafter\n")  # half of it
        self.assertEqual(series.find_missing(self.tree), ["um-repair-a-and-b"])
        self.write("b", "before\nrepair\nafter\n")
        self.assertEqual(series.find_missing(self.tree), [])
        os.unlink(os.path.join(self.tree, "b"))
        self.assertEqual(series.find_missing(self.tree), ["um-repair-a-and-b"])
        self.assertEqual(self.line("a"), "repair", "the tree was changed")

    def test_version_gets_series_of_its_minor_version_or_the_one_before(self) -> None:
        for version, expected in (
            ("6.1.10", "6.1.10"),
            ("6.1.9-1", "6.1.10"),
            ("6.1", "6.1.10"),
            ("6.12.1", "6.1.10"),
            ("7.2.14-1", "7.2.13"),
            ("7.10", "7.2.13"),
            ("5.10.1", "6.1.10"),
        ):
            self.assertEqual(kernel_patches.series_for(version).version, expected, version)

    def test_patch_that_does_not_apply_to_its_version_is_an_error(self) -> None:
        self.write("b", "other\n")
        with self.assertRaisesRegex(
            LabError, r"0001-um-repair-a-and-b\.patch does not .*7\.2\.13.*\bb\b"
        ):
            self.apply(kernel_patches.series_for("7.2.13"), "7.2.13")

    def test_other_version_is_built_without_a_patch_that_does_not_apply(self) -> None:
        for text in ("other\n", None):
            if text:
                self.write("b", text)
            else:
                os.unlink(os.path.join(self.tree, "b"))
            self.write(f"{kernel_patches.SIW_DIR}/c", "before\nfault\nafter\n")
            missing = self.apply(kernel_patches.series_for("7.2.14"), "7.2.14")
            self.assertEqual(missing, ["um-repair-a-and-b"])
            self.assertEqual(self.line("a"), "fault", "half of the patch is applied")
            self.assertEqual(self.line(f"{kernel_patches.SIW_DIR}/c"), "repair")
            self.assertRegex(
                self.stderr.getvalue(), r"7\.2\.14 gets no 0001-um-repair-a-and-b\.patch"
            )

    def test_tree_below_a_repository_is_patched(self) -> None:
        subprocess.run(["git", "init", "-q", os.path.dirname(self.tree)], check=True)
        self.assertEqual(self.apply(kernel_patches.series_for("7.2.13"), "7.2.13"), [])
        self.assertEqual(self.line("a"), "repair")

    def test_digest_depends_on_the_patches(self) -> None:
        digests = [kernel_patches.series_for(version).digest() for version in SERIES]
        digests.append(kernel_patches.siw_series_for("7.2").digest())
        self.assertEqual(len(set(digests)), 3)
        self.assertEqual(kernel_patches.series_for("7.2.14").digest(), digests[1])
        path = kernel_patches.series_for("7.2").patches[0].path
        with open(path, encoding="utf-8") as file:
            text = file.read()
        for old, new, is_same in (("repair\n\n", "other message\n\n", True), ("fault", "f", False)):
            with open(path, "w", encoding="utf-8") as file:
                file.write(text.replace(old, new, 1))
            digest = kernel_patches.series_for("7.2").digest()
            self.assertEqual(digest == digests[1], is_same)


class Patches(unittest.TestCase):
    """The patches themselves."""

    def test_each_has_one_subject_a_reproducer_and_is_described(self) -> None:
        with open(os.path.join(kernel_patches.PATCHES_DIR, "README.md"), encoding="utf-8") as file:
            readme = file.read()
        with os.scandir(kernel_patches.PATCHES_DIR) as entries:
            versions = [entry.name for entry in entries if entry.is_dir()]
        self.assertTrue(versions)
        for version in versions:
            series = kernel_patches.series_for(version)
            self.assertEqual(series.version, version, "two series for one minor version")
            patches = series.patches
            for number, patch in enumerate(patches, 1):
                with open(patch.path, encoding="utf-8") as file:
                    message, _, diff = file.read().partition("\ndiff --git ")
                with self.subTest(patch.path):
                    self.assertTrue(os.path.basename(patch.path).startswith(f"{number:04}-"))
                    self.assertRegex(
                        message, r"\nSubject: \[PATCH\] (RDMA/core|RDMA/rxe|RDMA/siw|lib/crc|um): "
                    )
                    self.assertIn("\nReproducer: ", message)
                    self.assertIn("\nSigned-off-by: ", message)
                    self.assertTrue(patch.changed_files)
                    self.assertTrue(f"`{patch.name}`" in readme, "README.md does not list it")


if __name__ == "__main__":
    unittest.main()

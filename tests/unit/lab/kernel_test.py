#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""lab/kernel: releases, the compiler of siw, and the fixes of the kernel's source."""

import io
import os
import sys
import tempfile
import unittest
from contextlib import redirect_stderr

TEST_FOLDER = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, os.path.join(TEST_FOLDER, "..", "..", "..", "scripts"))
sys.dont_write_bytecode = True

from lab.core.errors import Unavailable  # noqa: E402
from lab.debian.packages import Package  # noqa: E402
from lab.kernel import kernel_fixes, siw_module  # noqa: E402
from lab.kernel.debian_kernels import release_matches  # noqa: E402


class Releases(unittest.TestCase):
    def test_series_is_matched_as_whole_numbers(self) -> None:
        self.assertTrue(release_matches("6.1.0-9-amd64", "6.1"))
        self.assertTrue(release_matches("6.1.0-9-amd64", "6.1.0-9-amd64"))
        self.assertFalse(release_matches("6.12.5-amd64", "6.1"))
        self.assertFalse(release_matches("6.1.0-9-amd64", "6.1.0-9-amd64-x"))


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


NEW_SERIES_FIXES = (*kernel_fixes.SIW_FIXES, *kernel_fixes.RXE_FIXES, *kernel_fixes.UML_FIXES)


def changes(path: str) -> "list[tuple[str, str]]":
    """All changes of a file."""
    fixes = (*NEW_SERIES_FIXES, *kernel_fixes.OLD_UML_FIXES)
    return [change for fix in fixes if fix.file == path for change in fix.changes]


def old_text(path: str) -> str:
    return "".join(old for old, _ in changes(path))


def new_text(path: str) -> str:
    return "".join(new for _, new in changes(path))


class KernelFixes(unittest.TestCase):
    """Fixes of a whole tree, or of siw's folder."""

    def fix_file(self, path: str, text: "str | None", folder: str = "") -> "str | None":
        """Fix a tree with that text (None: without the file). Returns the file's new text.

        All other files have the texts that their fixes replace. folder: fix siw's folder.
        """
        with tempfile.TemporaryDirectory() as tree, redirect_stderr(io.StringIO()) as self.stderr:
            fixes = kernel_fixes.SIW_FIXES if folder else NEW_SERIES_FIXES
            texts: "dict[str, str | None]" = {fix.file: old_text(fix.file) for fix in fixes}
            texts[path] = text
            for name, content in texts.items():
                file_path = os.path.join(tree, os.path.relpath(name, folder or "."))
                os.makedirs(os.path.dirname(file_path), exist_ok=True)
                if content is not None:
                    with open(file_path, "w", encoding="utf-8") as file:
                        file.write(content)
            if folder:
                kernel_fixes.fix_siw_folder(tree, folder)
            else:
                kernel_fixes.fix_uml_tree(tree, "7.2")
            if text is None:
                return None
            with open(os.path.join(tree, os.path.relpath(path, folder or "."))) as file:
                return file.read()

    def fix_only_file(self, path: str, text: str, series: str) -> str:
        """Fix a tree with only that file. Returns its new text; the fix prints no message."""
        with tempfile.TemporaryDirectory() as tree:
            file_path = os.path.join(tree, path)
            os.makedirs(os.path.dirname(file_path))
            with open(file_path, "w", encoding="utf-8") as file:
                file.write(text)
            with redirect_stderr(io.StringIO()) as stderr:
                kernel_fixes.fix_uml_tree(tree, series)
            self.assertNotIn(path, stderr.getvalue())
            with open(file_path, encoding="utf-8") as file:
                return file.read()

    def test_known_source_is_fixed_and_nothing_else_changed(self) -> None:
        for fixes, folder in (
            (NEW_SERIES_FIXES, ""),
            (kernel_fixes.SIW_FIXES, siw_module.SOURCE_FOLDER),
        ):
            for path in {fix.file for fix in fixes}:
                fixed_text = self.fix_file(path, f"before\n{old_text(path)}after\n", folder)
                self.assertEqual(fixed_text, f"before\n{new_text(path)}after\n")
                self.assertEqual(self.stderr.getvalue(), "")

    def test_all_changes_of_a_fix_are_made_or_none(self) -> None:
        (fix,) = (fix for fix in NEW_SERIES_FIXES if fix.file.endswith("time.c"))
        self.assertGreater(len(fix.changes), 1)
        self.assertEqual(self.fix_file(fix.file, old_text(fix.file)), new_text(fix.file))
        partial_text = "".join(old for old, _ in fix.changes[1:])
        self.assertEqual(self.fix_file(fix.file, partial_text), partial_text)
        self.assertIn(f"{fix.file} differs from the known source", self.stderr.getvalue())

    def test_rxe_is_fixed_in_new_series_only(self) -> None:
        for path in {fix.file for fix in kernel_fixes.RXE_FIXES}:
            self.assertEqual(self.fix_only_file(path, old_text(path), "7.2"), new_text(path))
            self.assertEqual(self.fix_only_file(path, old_text(path), "6.12"), old_text(path))

    def test_old_user_mode_is_fixed_where_it_has_the_fault(self) -> None:
        (fix,) = kernel_fixes.OLD_UML_FIXES
        text = self.fix_only_file(fix.file, f"before\n{old_text(fix.file)}after\n", "6.1")
        self.assertEqual(text, f"before\n{new_text(fix.file)}after\n")
        self.assertEqual(self.fix_only_file(fix.file, "before\n", "6.1"), "before\n")

    def test_digest_is_that_of_the_fixes_of_the_series(self) -> None:
        self.assertEqual(kernel_fixes.uml_digest("6.12"), kernel_fixes.uml_digest("6.1"))
        self.assertNotEqual(kernel_fixes.uml_digest("6.12"), kernel_fixes.uml_digest("6.13"))

    def test_unknown_source_is_unchanged_and_reported(self) -> None:
        for path in {fix.file for fix in NEW_SERIES_FIXES}:
            for text in ("another\n", old_text(path) * 2, None):
                self.assertEqual(self.fix_file(path, text), text)
                self.assertIn(f"{path} differs from the known", self.stderr.getvalue())


if __name__ == "__main__":
    unittest.main()

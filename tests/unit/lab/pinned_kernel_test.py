#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Which user-mode kernel is run, and which is not built again: the pinned one."""

import filecmp
import os
import sys
import tempfile
import unittest

import uml_kernels_test

sys.path.insert(0, uml_kernels_test.SCRIPTS)

from lab.core import files  # noqa: E402
from lab.debian import packages  # noqa: E402
from lab.kernel import kernel_patches, pinned_kernel  # noqa: E402

PIN = pinned_kernel.read_pin()
PACKAGED_VERSION = kernel_patches.upstream_version(PIN.version)
OTHER_SERIES = "99.1"


class FileMirror(unittest.TestCase):
    def test_file_of_a_mirror_on_this_machine_is_copied(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            source, path = os.path.join(folder, "source"), os.path.join(folder, "copy")
            with open(source, "w", encoding="ascii") as file:
                file.write("text")
            packages.download_file(f"file:{source}", path, len("text"), files.hash_file(source))
            self.assertFalse(os.path.islink(path))
            self.assertTrue(filecmp.cmp(source, path, shallow=False))


class PinnedKernel(uml_kernels_test.InPrefix):
    """Which kernel is run, and which is not built again."""

    def test_pin_is_complete(self) -> None:
        self.assertRegex(PIN.sha256, r"^[0-9a-f]{64}$")
        self.assertRegex(PIN.sha1, r"^[0-9a-f]{40}$")
        self.assertIn(f"/{PIN.package}_{PIN.version}_all.deb", PIN.file_name)
        # Each patch applies to it.
        self.assertEqual(kernel_patches.series_for(PIN.series).version, PACKAGED_VERSION)

    def test_pinned_kernel_precedes_newer_one(self) -> None:
        newer = self.make_cached_kernel(f"{OTHER_SERIES}.1-1")
        self.assertEqual(self.softrdma("kernel", "path"), (0, f"{newer}/linux\n"))
        pinned = self.make_cached_kernel(PIN.version)
        self.assertEqual(self.softrdma("kernel", "path"), (0, f"{pinned}/linux\n"))
        self.assertEqual(self.softrdma("kernel", "path", OTHER_SERIES), (0, f"{newer}/linux\n"))

    def test_newest_of_the_pinned_series_is_run_if_the_series_is_given(self) -> None:
        self.make_cached_kernel(PIN.version)
        newer = self.make_cached_kernel(f"{PIN.series}.9999-1")
        self.assertEqual(self.softrdma("kernel", "path", PIN.series), (0, f"{newer}/linux\n"))

    def test_pinned_kernel_of_a_package_is_not_built_again(self) -> None:
        path = self.make_packaged_kernel(PACKAGED_VERSION)
        expected = f"user-mode kernel {PACKAGED_VERSION} is in {path}\n"
        self.assertEqual(self.softrdma("kernel", "build"), (0, expected))
        self.assertFalse(os.path.exists(self.cache_folder))

    def test_damaged_pinned_kernel_is_built_again_by_the_command_of_its_error(self) -> None:
        path = self.make_cached_kernel(PIN.version)
        with open(os.path.join(path, "linux"), "w", encoding="ascii") as file:
            file.write("KERNEL")
        status, output = self.softrdma("kernel", "path")
        self.assertEqual(status, 1)
        self.assertTrue(output.endswith("build it again: softrdma kernel build\n"), output)

    def test_incomplete_pin_is_an_error(self) -> None:
        with open(os.path.join(os.path.dirname(self.config_file), "pinned_kernel"), "w") as file:
            file.write(f"Package: {PIN.package}\n")
        status, output = self.softrdma("kernel", "build")
        self.assertEqual((status, output.count("\n")), (1, 1), output)
        self.assertIn("'Version' is missing", output)


if __name__ == "__main__":
    unittest.main()

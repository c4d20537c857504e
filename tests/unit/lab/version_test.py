#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""softrdma version: its commit, its pin, and the kernel that it runs."""

import json
import os
import re
import shutil
import subprocess
import sys
import unittest
from typing import Any, Dict

import uml_kernels_test

sys.path.insert(0, uml_kernels_test.SCRIPTS)

from lab import VERSION  # noqa: E402
from lab.core import cache  # noqa: E402
from lab.kernel import kernel_patches, pinned_kernel  # noqa: E402

PIN = pinned_kernel.read_pin()


class Version(uml_kernels_test.InPrefix):
    """softrdma version."""

    def read_version(self, program: str = "bin/softrdma") -> Dict[str, Any]:
        status, output = self.softrdma("version", "--json", program=program)
        self.assertEqual(status, 0, output)
        facts: Dict[str, Any] = json.loads(output)
        return facts

    def test_version_without_kernel_has_the_reason(self) -> None:
        facts = self.read_version()
        self.assertEqual((facts["schema"], facts["version"], facts["commit"]), (1, VERSION, None))
        self.assertIsNone(facts["kernel"])
        self.assertIn("softrdma kernel build", facts["reason"])
        pin = {"package": PIN.package, "version": PIN.version, "sha256": PIN.sha256}
        self.assertEqual(facts["pinned_kernel"], pin)
        self.assertIn("user-mode kernel: none; no user-mode", self.softrdma("version")[1])

    def test_version_has_the_kernel_that_run_uses(self) -> None:
        path = self.make_cached_kernel(PIN.version)
        manifest = os.path.join(path, cache.MANIFEST)
        with open(manifest, encoding="utf-8") as file:
            contents = json.load(file)
        names = [patch.name for patch in kernel_patches.series_for(PIN.version).patches]
        contents["facts"]["missing_patches"] = names[:2]
        with open(manifest, "w", encoding="utf-8") as file:
            json.dump(contents, file)
        facts = self.read_version()
        self.assertIsNone(facts["reason"])
        expected = {
            "version": PIN.version,
            "path": path,
            "is_pinned": True,
            "config": contents["facts"]["config"],
            "patches": names[2:],
            "missing_patches": names[:2],
        }
        self.assertEqual(facts["kernel"], expected)
        output = self.softrdma("version")[1]
        self.assertIn(f"{PIN.version} (pinned), configuration {expected['config']}", output)
        self.assertIn(f"\nmissing patches: {', '.join(names[:2])}\n", output)

    def test_version_reports_a_damaged_kernel(self) -> None:
        path = self.make_cached_kernel(PIN.version)
        with open(os.path.join(path, "linux"), "w", encoding="ascii") as file:
            file.write("KERNEL")
        facts = self.read_version()
        self.assertIsNone(facts["kernel"])
        self.assertIn("linux has other contents", facts["reason"])

    def test_commit_is_that_of_the_checkout_or_of_the_archive(self) -> None:
        root = os.path.join(self.prefix, "checkout")
        self.install(os.path.join(root, "scripts"), os.path.join(root, "scripts"))
        shutil.copy(os.path.join(uml_kernels_test.SCRIPTS, "..", ".gitattributes"), root)
        self.assertIsNone(self.read_version("checkout/scripts/softrdma")["commit"])

        def git(*arguments: str) -> str:
            identity = ("-c", "user.name=none", "-c", "user.email=none@example.org")
            command = ["git", "-C", root, *identity, *arguments]
            return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout

        git("init", "--quiet")
        git("add", "--all")
        git("commit", "--quiet", "--message=all")
        commit = git("rev-parse", "HEAD").strip()
        self.assertEqual(self.read_version("checkout/scripts/softrdma")["commit"], commit)
        git("archive", f"--output={self.prefix}/archive.tar", "HEAD")
        archive = os.path.join(self.prefix, "archive")
        os.mkdir(archive)
        subprocess.run(["tar", "-C", archive, "-xf", f"{archive}.tar"], check=True)
        self.assertEqual(self.read_version("archive/scripts/softrdma")["commit"], commit)
        with open(os.path.join(root, "scripts", "softrdma"), "a", encoding="utf-8") as file:
            file.write("# changed\n")
        dirty = self.read_version("checkout/scripts/softrdma")["commit"]
        self.assertEqual(dirty, commit + "-dirty")

    def test_text_names_version_and_pin(self) -> None:
        output = self.softrdma("version")[1]
        self.assertTrue(re.match(rf"softrdma {VERSION}\n", output), output)
        self.assertIn(f"pinned kernel: {PIN.package} {PIN.version}\n", output)


if __name__ == "__main__":
    unittest.main()

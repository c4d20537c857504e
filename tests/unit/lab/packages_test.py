#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Where packages of Debian come from, on Debian and on other systems. apt reads small repositories in files."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from typing import Optional
from unittest import mock

SCRIPTS = os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "..", "scripts")
sys.path.insert(0, SCRIPTS)
sys.dont_write_bytecode = True

from lab.core import progress  # noqa: E402
from lab.core.errors import Unavailable  # noqa: E402
from lab.debian import packages  # noqa: E402

DEBIAN = ("http://deb.debian.org/debian", "http://deb.debian.org/debian-security")


@unittest.skipUnless(shutil.which("apt-get"), "needs apt")
class Repositories(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        os.makedirs(os.path.join(self.folder, "lists", "partial"))
        self.write("status", "")
        self.write(
            "apt.conf",
            f'Dir::Etc::sourcelist "{self.folder}/sources.list"; Dir::Etc::sourceparts "-";'
            f'Dir::State::lists "{self.folder}/lists"; Dir::State::status "{self.folder}/status";'
            'APT::Sandbox::User ""; Dir::Cache::pkgcache ""; Dir::Cache::srcpkgcache "";',
        )
        variables = {
            "APT_CONFIG": os.path.join(self.folder, "apt.conf"),
            "SOFTRDMA_CACHE": os.path.join(self.folder, "cache"),
            "SOFTRDMA_MIRROR": "",
        }
        patch = mock.patch.dict(os.environ, variables)
        patch.start()
        self.addCleanup(patch.stop)

    def write(self, name: str, text: str) -> str:
        path = os.path.join(self.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="ascii") as file:
            file.write(text)
        return path

    def add_repository(self, name: str, suite: str, origin: str) -> str:
        """Returns its address."""
        self.write(f"{name}/dists/{suite}/main/binary-{packages.machine_arch()}/Packages", "")
        self.write(f"{name}/dists/{suite}/Release", f"Origin: {origin}\nSuite: {suite}\n")
        with open(os.path.join(self.folder, "sources.list"), "a", encoding="ascii") as file:
            file.write(f"deb [trusted=yes] file:{self.folder}/{name} {suite} main\n")
        return f"file:{self.folder}/{name}/"

    def find_mirrors(self) -> "tuple[str, Optional[str]]":
        subprocess.run(["apt-get", "-qq", "update"], check=True, stderr=subprocess.DEVNULL)
        return packages.find_mirrors()

    def test_mirror_is_that_of_the_system(self) -> None:
        main = self.add_repository("main", "trixie", "Debian")
        security = self.add_repository("security", "trixie-security", "Debian")
        self.assertEqual(self.find_mirrors(), (main, security))

    def test_other_system_uses_the_mirror_of_debian(self) -> None:
        self.add_repository("ubuntu", "jammy", "Ubuntu")
        self.add_repository("browser", "stable", "Google LLC")
        self.assertEqual(self.find_mirrors(), DEBIAN)

    def test_system_without_lists_uses_the_mirror_of_debian(self) -> None:
        self.write("sources.list", "")
        for system, num_notes in (("debian", 1), ("ubuntu", 0)):
            with mock.patch.object(progress, "note") as note, mock.patch.object(
                packages, "_read_os_release", return_value=system
            ):
                self.assertEqual(self.find_mirrors(), DEBIAN)
            self.assertEqual(note.call_count, num_notes)

    def test_system_without_apt_is_told_what_works_there(self) -> None:
        with mock.patch.dict(os.environ, {"PATH": self.folder}):
            with self.assertRaisesRegex(Unavailable, "needs apt, .* softrdma run --in uml"):
                packages.find_mirrors()

    @unittest.skipUnless(shutil.which("gpg"), "needs gpg")
    def test_missing_key_names_the_package_that_has_it(self) -> None:
        mirror = self.add_repository("main", "sid", "Debian")
        release = os.path.join(self.folder, "main", "dists", "sid", "Release")
        signed_release = os.path.join(os.path.dirname(release), "InRelease")
        gpg = ["gpg", "--homedir", self.folder, "--batch", "--quiet", "--passphrase", ""]
        for command in (
            ["--quick-generate-key", "Archive", "ed25519", "sign"],
            ["--output", signed_release, "--clearsign", release],
        ):
            subprocess.run([*gpg, *command], check=True, stderr=subprocess.DEVNULL)
        subprocess.run(["gpgconf", "--homedir", self.folder, "--kill", "all"])
        progress.quiet = True
        with mock.patch.dict(os.environ, {"SOFTRDMA_MIRROR": mirror}):
            with self.assertRaises(packages.MissingKey) as caught:
                packages.Suite("sid", packages.machine_arch()).update_lists()
        self.assertEqual(caught.exception.status, Unavailable.status)
        self.assertIn("apt-get install debian-archive-keyring", str(caught.exception))


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""The rooms of softrdma that need no device and no guest."""

import io
import os
import re
import subprocess
import sys
import tempfile
import unittest
from contextlib import redirect_stdout

HERE = os.path.dirname(os.path.realpath(__file__))
SCRIPTS = os.path.join(HERE, "..", "..", "scripts")
sys.path.insert(0, SCRIPTS)
sys.dont_write_bytecode = True

from lab import cache, cli, devices, initramfs, kernels, packages  # noqa: E402


class Versions(unittest.TestCase):
    def test_a_series_is_not_the_beginning_of_another(self) -> None:
        self.assertTrue(kernels.matches("6.1.0-9-amd64", "6.1"))
        self.assertTrue(kernels.matches("6.1.0-9-amd64", "6.1.0-9-amd64"))
        self.assertFalse(kernels.matches("6.12.5-amd64", "6.1"))
        self.assertFalse(kernels.matches("6.1.0-9-amd64", "6.1.0-9-amd64-x"))

    def test_the_newest_is_found_by_number(self) -> None:
        names = ["6.1.0-9-amd64", "6.1.0-56-amd64", "6.1.0-10-amd64"]
        self.assertEqual(max(names, key=packages.natural), "6.1.0-56-amd64")


class Addresses(unittest.TestCase):
    def test_an_ipv4_address_as_a_gid(self) -> None:
        self.assertEqual(devices.mapped("198.18.0.1"), "0000:0000:0000:0000:0000:ffff:c612:0001")


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

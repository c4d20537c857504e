#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""/etc/softrdma.d: what is read there, written there, and told to systemd."""

import io
import os
import subprocess
import sys
import tempfile
import unittest
from contextlib import redirect_stderr, redirect_stdout

HERE = os.path.dirname(os.path.realpath(__file__))
SCRIPTS = os.path.join(HERE, "..", "..", "scripts")
sys.path.insert(0, SCRIPTS)
sys.dont_write_bytecode = True

from lab import cli, handles, persistent  # noqa: E402
from lab.errors import CannotHere, LabError, Misuse  # noqa: E402
from lab.persistent import Wish  # noqa: E402


class InFolder(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = os.path.join(folder.name, "softrdma.d")
        self.addCleanup(setattr, persistent, "FOLDER", persistent.FOLDER)
        self.addCleanup(setattr, handles, "RECORDS", handles.RECORDS)
        persistent.FOLDER = self.folder
        handles.RECORDS = os.path.join(folder.name, "records")
        self.units = os.path.join(folder.name, "units")
        os.mkdir(self.units)

    def has(self, **files: str) -> None:
        os.makedirs(self.folder, exist_ok=True)
        for name, text in files.items():
            with open(persistent.path_of(name), "w", encoding="utf-8") as file:
                file.write(text)


class Files(InFolder):
    def test_what_a_file_says(self) -> None:
        for text, wish in (
            ("", Wish("rxe", None)),
            ("# Nothing.\n\n", Wish("rxe", None)),
            ("driver = siw", Wish("siw", None)),
            ("driver=rxe\nnetdev=eth0\n", Wish("rxe", "eth0")),
            ("\tnetdev =  br-lan.7  # the wire\r\n", Wish("rxe", "br-lan.7")),
        ):
            self.has(one=text)
            self.assertEqual(persistent.read("one"), wish, text)

    def test_a_mistake_is_one_line_with_its_place_and_reason(self) -> None:
        for text, place, reason in (
            (
                "driver = rxe\nspeed = 7\n",
                2,
                "there is no setting speed; there are: driver, netdev",
            ),
            ("Driver = rxe", 1, "there is no setting Driver"),
            ("= rxe", 1, "there is no setting "),
            ("driver", 1, "not of the form KEY = VALUE"),
            ("# a\n\ndriver = mlx5", 3, "a driver is rxe or siw"),
            ("driver =", 1, "a driver is rxe or siw"),
            ("driver = rxe siw", 1, "a driver is rxe or siw"),
            ("netdev = ", 1, "no network interface can have that name"),
            ("netdev = a/b", 1, "no network interface can have that name"),
            ("netdev = ..", 1, "no network interface can have that name"),
            ("netdev = eth0 eth1", 1, "no network interface can have that name"),
            ("netdev = sixteen_letters_", 1, "no network interface can have that name"),
            ("driver = rxe\ndriver = rxe", 2, "driver is set already"),
        ):
            self.has(one=text)
            with self.assertRaises(LabError) as raised:
                persistent.read("one")
            said = str(raised.exception)
            self.assertIn(f"{self.folder}/one.conf:{place}: ", said)
            self.assertIn(reason, said)
            self.assertEqual(said.count("\n"), 0)
            self.assertEqual(raised.exception.status, 1)

    def test_what_is_no_such_file(self) -> None:
        with self.assertRaisesRegex(Misuse, "there is no .*/one.conf; .* --keep --name one"):
            persistent.read("one")
        self.has(long="#" * 70000)
        with self.assertRaisesRegex(LabError, "long.conf: larger"):
            persistent.read("long")
        with open(persistent.path_of("binary"), "wb") as file:
            file.write(b"driver = \xff")
        with self.assertRaisesRegex(LabError, "binary.conf: this is no text"):
            persistent.read("binary")
        for name in ("", "1rxe", "a.b", "../passwd", "a b", "a" * 33):
            with self.assertRaisesRegex(Misuse, "a device name is a letter"):
                persistent.read(name)

    def test_names_are_those_of_conf_files(self) -> None:
        self.assertEqual(persistent.names(), [])
        self.has(two="", one="")
        for other in ("README", "one.conf.dpkg-old", ".one.conf.swp"):
            with open(os.path.join(self.folder, other), "w", encoding="utf-8"):
                pass
        self.assertEqual(persistent.names(), ["one", "two"])

    def test_what_is_written_is_read_again(self) -> None:
        for wish in (Wish("rxe", None), Wish("siw", "eth0")):
            path = persistent.write("new", wish)
            self.assertEqual(persistent.read("new"), wish)
            self.assertEqual(os.listdir(self.folder), ["new.conf"])
            with self.assertRaisesRegex(LabError, "cannot write .*/new.conf: File exists"):
                persistent.write("new", Wish())
            self.assertEqual(persistent.read("new"), wish)
            self.assertEqual(os.listdir(self.folder), ["new.conf"])
            os.unlink(path)


class Units(InFolder):
    def generated(self) -> "tuple[list[str], str]":
        """Files that are there for systemd, and what was said."""
        with redirect_stderr(io.StringIO()) as said:
            persistent.generate(self.units)
        found = []
        for place, _, names in os.walk(self.units):
            found += [os.path.relpath(os.path.join(place, name), self.units) for name in names]
        return sorted(found), said.getvalue()

    def test_who_did_not_ask_gets_nothing(self) -> None:
        self.assertEqual(self.generated(), ([], ""))
        self.has()
        self.assertEqual(self.generated(), ([], ""))

    def test_a_unit_for_each_file(self) -> None:
        self.has(one="driver = siw", my_device="netdev = br-lan", loop="netdev = lo")
        files, said = self.generated()
        wants = "multi-user.target.wants/softrdma@"
        self.assertEqual(
            files,
            [
                f"{wants}loop.service",
                f"{wants}my_device.service",
                f"{wants}one.service",
                "softrdma@my_device.service.d/netdev.conf",
            ],
        )
        self.assertEqual(said, "")
        link = os.readlink(os.path.join(self.units, files[0]))
        self.assertTrue(link.endswith("/lib/systemd/system/softrdma@.service"), link)
        with open(os.path.join(self.units, files[3]), encoding="utf-8") as file:
            addition = file.read().splitlines()
        device = r"sys-subsystem-net-devices-br\x2dlan.device"
        self.assertIn(f"BindsTo={device}", addition)
        self.assertIn(f"After=network-online.target {device}", addition)

    def test_a_broken_file_has_a_unit_that_will_say_so(self) -> None:
        self.has(broken="drive = rxe", good="")
        with open(os.path.join(self.folder, "no name.conf"), "w", encoding="utf-8"):
            pass
        files, said = self.generated()
        self.assertEqual(
            [file.rpartition("@")[2] for file in files], ["broken.service", "good.service"]
        )
        self.assertIn("broken.conf:1: drive = rxe: there is no setting drive", said)
        self.assertIn("no name: a device name is a letter", said)
        self.assertEqual(said.count("\n"), 2)

    def test_words_are_escaped_as_systemd_does(self) -> None:
        for word, escaped in (
            ("eth0.7", "eth0.7"),
            ("a-b", r"a\x2db"),
            ("ä@", r"\xc3\xa4\x40"),
            ("a\\%", r"a\x5c\x25"),
        ):
            self.assertEqual(persistent.escaped(word), escaped)

    def test_the_unit_and_the_generator_as_installed(self) -> None:
        prefix = os.path.join(os.path.dirname(self.folder), "usr")
        places = {
            "lib/systemd/system-generators/softrdma-generator": "boot/softrdma-generator",
            "lib/systemd/system/softrdma@.service": "boot/softrdma@.service",
            "share/softrdma/lab": "lab",
        }
        for place, source in places.items():
            os.makedirs(os.path.dirname(os.path.join(prefix, place)), exist_ok=True)
            subprocess.run(
                ["cp", "-r", os.path.join(SCRIPTS, source), os.path.join(prefix, place)], check=True
            )
        share = os.path.join(prefix, "share", "softrdma")
        settings = f"from lab import persistent; persistent.FOLDER = {self.folder!r}; "
        done = subprocess.run(
            ["/usr/bin/python3", "-ISB", "-c"]
            + [f"import sys; sys.path.insert(0, {share!r}); {settings} print(persistent.UNIT)"],
            capture_output=True,
            text=True,
        )
        self.assertEqual(
            done.stdout.strip(),
            os.path.realpath(os.path.join(prefix, "lib/systemd/system/softrdma@.service")),
            done.stderr,
        )
        generator = os.path.join(prefix, "lib/systemd/system-generators/softrdma-generator")
        done = subprocess.run(
            [generator, self.units, self.units, self.units], capture_output=True, text=True
        )
        self.assertEqual((done.returncode, done.stderr), (0, ""))


class Commands(InFolder):
    def softrdma(self, *words: str) -> str:
        options = cli.parser().parse_args(words)
        with redirect_stdout(io.StringIO()) as said:
            options.function(options)
        return said.getvalue()

    def test_up_of_a_file_takes_no_other_option(self) -> None:
        self.has(one="")
        for more in (("--driver", "rxe"), ("--netdev", "lo"), ("--name", "x"), ("--keep",)):
            with self.assertRaisesRegex(Misuse, "one.conf says what it is"):
                self.softrdma("up", "one", *more)

    def test_the_name_of_a_file_is_for_its_device(self) -> None:
        self.has(one="")
        with self.assertRaisesRegex(Misuse, "softrdma up one"):
            self.softrdma("up", "--name", "one")

    def test_up_says_what_is_wrong_with_the_file(self) -> None:
        self.has(one="netdev = nowhere0", two="nonsense")
        with self.assertRaisesRegex(LabError, "one.conf: there is no network interface nowhere0"):
            self.softrdma("up", "one")
        with self.assertRaisesRegex(LabError, "two.conf:1: nonsense"):
            self.softrdma("up", "two")
        with self.assertRaisesRegex(Misuse, "there is no .*/three.conf"):
            self.softrdma("up", "three")

    def test_keep_needs_an_installed_softrdma(self) -> None:
        with self.assertRaisesRegex(CannotHere, "--keep: this "):
            self.softrdma("up", "--keep")
        self.assertFalse(os.path.exists(self.folder))

    def test_list_has_those_that_are_not_up(self) -> None:
        self.has(one="driver = siw\nnetdev = eth0", two="nonsense")
        with redirect_stderr(io.StringIO()) as said:
            self.assertRegex(self.softrdma("list"), r"\none +siw +eth0 +- +- +down +yes\n$")
        self.assertIn("two.conf:1", said.getvalue())


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""/etc/softrdma.d: reading, writing and the systemd units."""

import io
import os
import subprocess
import sys
import tempfile
import unittest
from contextlib import redirect_stderr, redirect_stdout

TEST_FOLDER = os.path.dirname(os.path.realpath(__file__))
SCRIPTS = os.path.join(TEST_FOLDER, "..", "..", "..", "scripts")
sys.path.insert(0, SCRIPTS)
sys.dont_write_bytecode = True

from lab.cli import main  # noqa: E402
from lab.devices import device_lifecycle, persistent  # noqa: E402
from lab.core.errors import LabError, Unavailable, UsageError  # noqa: E402
from lab.devices.persistent import DeviceConfig  # noqa: E402


class InFolder(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = os.path.join(folder.name, "softrdma.d")
        self.addCleanup(setattr, persistent, "CONFIG_FOLDER", persistent.CONFIG_FOLDER)
        self.addCleanup(
            setattr, device_lifecycle, "RECORDS_FOLDER", device_lifecycle.RECORDS_FOLDER
        )
        persistent.CONFIG_FOLDER = self.folder
        device_lifecycle.RECORDS_FOLDER = os.path.join(folder.name, "records")
        self.units = os.path.join(folder.name, "units")
        os.mkdir(self.units)

    def write_files(self, **files: str) -> None:
        os.makedirs(self.folder, exist_ok=True)
        for name, text in files.items():
            with open(persistent.config_path(name), "w", encoding="utf-8") as file:
                file.write(text)


class Files(InFolder):
    def test_settings_are_parsed(self) -> None:
        for text, config in (
            ("", DeviceConfig("rxe", None)),
            ("# A comment.\n\n", DeviceConfig("rxe", None)),
            ("driver = siw", DeviceConfig("siw", None)),
            ("driver=rxe\nnetdev=eth0\n", DeviceConfig("rxe", "eth0")),
            ("\tnetdev =  br-lan.7  # comment\r\n", DeviceConfig("rxe", "br-lan.7")),
        ):
            self.write_files(net0=text)
            self.assertEqual(persistent.read_config("net0"), config, text)

    def test_invalid_setting_is_one_line_with_place_and_reason(self) -> None:
        for text, line, reason in (
            (
                "driver = rxe\nspeed = 7\n",
                2,
                "unknown setting speed; expected: driver, netdev",
            ),
            ("Driver = rxe", 1, "unknown setting Driver"),
            ("= rxe", 1, "unknown setting "),
            ("driver", 1, "not of the form KEY = VALUE"),
            ("# a\n\ndriver = mlx5", 3, "a driver is rxe or siw"),
            ("driver =", 1, "a driver is rxe or siw"),
            ("driver = rxe siw", 1, "a driver is rxe or siw"),
            ("netdev = ", 1, "invalid name of a network interface"),
            ("netdev = a/b", 1, "invalid name of a network interface"),
            ("netdev = ..", 1, "invalid name of a network interface"),
            ("netdev = eth0 eth1", 1, "invalid name of a network interface"),
            ("netdev = sixteen_letters_", 1, "invalid name of a network interface"),
            ("driver = rxe\ndriver = rxe", 2, "driver is set in an earlier line"),
        ):
            self.write_files(net0=text)
            with self.assertRaises(LabError) as raised:
                persistent.read_config("net0")
            message = str(raised.exception)
            self.assertIn(f"{self.folder}/net0.conf:{line}: ", message)
            self.assertIn(reason, message)
            self.assertEqual(message.count("\n"), 0)
            self.assertEqual(raised.exception.status, 1)

    def test_unreadable_file_and_invalid_name_are_rejected(self) -> None:
        with self.assertRaisesRegex(UsageError, "there is no .*/net0.conf; .* --keep --name net0"):
            persistent.read_config("net0")
        self.write_files(long="#" * 70000)
        with self.assertRaisesRegex(LabError, "long.conf: larger"):
            persistent.read_config("long")
        with open(persistent.config_path("binary"), "wb") as file:
            file.write(b"driver = \xff")
        with self.assertRaisesRegex(LabError, "binary.conf: not a text"):
            persistent.read_config("binary")
        for name in ("", "1rxe", "a.b", "../passwd", "a b", "a" * 33):
            with self.assertRaisesRegex(UsageError, "a device name is a letter"):
                persistent.read_config(name)

    def test_only_conf_files_are_listed(self) -> None:
        self.assertEqual(persistent.configured_names(), [])
        self.write_files(net1="", net0="")
        for other in ("README", "net0.conf.dpkg-old", ".net0.conf.swp"):
            with open(os.path.join(self.folder, other), "w", encoding="utf-8"):
                pass
        self.assertEqual(persistent.configured_names(), ["net0", "net1"])

    def test_written_file_is_read_back(self) -> None:
        for config in (DeviceConfig("rxe", None), DeviceConfig("siw", "eth0")):
            path = persistent.write_config("new", config)
            self.assertEqual(persistent.read_config("new"), config)
            self.assertEqual(os.listdir(self.folder), ["new.conf"])
            with self.assertRaisesRegex(LabError, "cannot write .*/new.conf: File exists"):
                persistent.write_config("new", DeviceConfig())
            self.assertEqual(persistent.read_config("new"), config)
            self.assertEqual(os.listdir(self.folder), ["new.conf"])
            os.unlink(path)

    def test_link_with_name_of_new_or_temporary_file_is_not_followed(self) -> None:
        self.write_files(victim="precious")
        path = persistent.config_path("new")
        os.symlink("victim.conf", f"{path}.{os.getpid()}.part")
        persistent.write_config("new", DeviceConfig("siw"))
        self.assertFalse(os.path.islink(path))
        os.symlink("missing.conf", persistent.config_path("link"))
        with self.assertRaisesRegex(LabError, "cannot write .*/link.conf: File exists"):
            persistent.write_config("link", DeviceConfig("siw"))
        with open(persistent.config_path("victim"), encoding="utf-8") as file:
            self.assertEqual(file.read(), "precious")
        self.assertFalse(os.path.exists(persistent.config_path("missing")))


class Units(InFolder):
    def generate_units(self) -> "tuple[list[str], str]":
        """The files generated for systemd, and the messages."""
        with redirect_stderr(io.StringIO()) as stderr:
            persistent.generate_units(self.units)
        files = []
        for folder, _, names in os.walk(self.units):
            files += [os.path.relpath(os.path.join(folder, name), self.units) for name in names]
        return sorted(files), stderr.getvalue()

    def test_no_unit_without_files(self) -> None:
        self.assertEqual(self.generate_units(), ([], ""))
        self.write_files()
        self.assertEqual(self.generate_units(), ([], ""))

    def test_each_file_has_a_unit(self) -> None:
        self.write_files(net0="driver = siw", my_device="netdev = br-lan", loop="netdev = lo")
        files, messages = self.generate_units()
        wants = "multi-user.target.wants/softrdma@"
        self.assertEqual(
            files,
            [
                f"{wants}loop.service",
                f"{wants}my_device.service",
                f"{wants}net0.service",
                "softrdma@my_device.service.d/netdev.conf",
            ],
        )
        self.assertEqual(messages, "")
        link = os.readlink(os.path.join(self.units, files[0]))
        self.assertTrue(link.endswith("/lib/systemd/system/softrdma@.service"), link)
        with open(os.path.join(self.units, files[3]), encoding="utf-8") as file:
            drop_in = file.read().splitlines()
        device = r"sys-subsystem-net-devices-br\x2dlan.device"
        self.assertIn(f"BindsTo={device}", drop_in)
        self.assertIn(f"After=network-online.target {device}", drop_in)

    def test_invalid_file_has_a_unit_and_a_message(self) -> None:
        self.write_files(invalid="drive = rxe", valid="")
        with open(os.path.join(self.folder, "no name.conf"), "w", encoding="utf-8"):
            pass
        files, messages = self.generate_units()
        self.assertEqual(
            [file.rpartition("@")[2] for file in files], ["invalid.service", "valid.service"]
        )
        self.assertIn("invalid.conf:1: drive = rxe: unknown setting drive", messages)
        self.assertIn("no name: a device name is a letter", messages)
        self.assertEqual(messages.count("\n"), 2)

    def test_names_are_escaped_as_by_systemd(self) -> None:
        for name, escaped in (
            ("eth0.7", "eth0.7"),
            ("a-b", r"a\x2db"),
            ("ä@", r"\xc3\xa4\x40"),
            ("a\\%", r"a\x5c\x25"),
        ):
            self.assertEqual(persistent.escape_unit_name(name), escaped)

    def test_installed_generator_finds_unit(self) -> None:
        prefix = os.path.join(os.path.dirname(self.folder), "usr")
        sources = {
            "lib/systemd/system-generators/softrdma-generator": "boot/softrdma-generator",
            "lib/systemd/system/softrdma@.service": "boot/softrdma@.service",
            "share/softrdma/lab": "lab",
        }
        for target, source in sources.items():
            os.makedirs(os.path.dirname(os.path.join(prefix, target)), exist_ok=True)
            subprocess.run(
                ["cp", "-r", os.path.join(SCRIPTS, source), os.path.join(prefix, target)],
                check=True,
            )
        share = os.path.join(prefix, "share", "softrdma")
        settings = (
            f"from lab.devices import persistent; persistent.CONFIG_FOLDER = {self.folder!r}; "
        )
        result = subprocess.run(
            ["/usr/bin/python3", "-ISB", "-c"]
            + [
                f"import sys; sys.path.insert(0, {share!r}); {settings} print(persistent.UNIT_PATH)"
            ],
            capture_output=True,
            text=True,
        )
        self.assertEqual(
            result.stdout.strip(),
            os.path.realpath(os.path.join(prefix, "lib/systemd/system/softrdma@.service")),
            result.stderr,
        )
        generator = os.path.join(prefix, "lib/systemd/system-generators/softrdma-generator")
        result = subprocess.run(
            [generator, self.units, self.units, self.units], capture_output=True, text=True
        )
        self.assertEqual((result.returncode, result.stderr), (0, ""))


class Commands(InFolder):
    def softrdma(self, *arguments: str) -> str:
        """Returns the output."""
        options = main.make_parser().parse_args(arguments)
        with redirect_stdout(io.StringIO()) as stdout:
            options.function(options)
        return stdout.getvalue()

    def test_up_of_file_rejects_other_options(self) -> None:
        self.write_files(net0="")
        for options in (("--driver", "rxe"), ("--netdev", "lo"), ("--name", "x"), ("--keep",)):
            with self.assertRaisesRegex(UsageError, "net0.conf has its settings"):
                self.softrdma("up", "net0", *options)

    def test_up_with_name_of_file_is_rejected(self) -> None:
        self.write_files(net0="")
        with self.assertRaisesRegex(UsageError, "softrdma up net0"):
            self.softrdma("up", "--name", "net0")

    def test_up_reports_errors_of_file(self) -> None:
        self.write_files(net0="netdev = missing0", net1="invalid")
        with self.assertRaisesRegex(LabError, "net0.conf: there is no network interface missing0"):
            self.softrdma("up", "net0")
        with self.assertRaisesRegex(LabError, "net1.conf:1: invalid"):
            self.softrdma("up", "net1")
        with self.assertRaisesRegex(UsageError, "there is no .*/net2.conf"):
            self.softrdma("up", "net2")

    def test_keep_needs_installed_softrdma(self) -> None:
        with self.assertRaisesRegex(Unavailable, "--keep: this "):
            self.softrdma("up", "--keep")
        self.assertFalse(os.path.exists(self.folder))

    def test_list_shows_devices_that_are_down(self) -> None:
        self.write_files(net0="driver = siw\nnetdev = eth0", net1="invalid")
        with redirect_stderr(io.StringIO()) as stderr:
            self.assertRegex(self.softrdma("list"), r"\nnet0 +siw +eth0 +- +- +down +yes\n$")
        self.assertIn("net1.conf:1", stderr.getvalue())


if __name__ == "__main__":
    unittest.main()

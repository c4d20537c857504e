#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""softrdma cdi on a fake /sys and /dev, whose nodes are links into /dev."""

import json
import os
import stat
import subprocess
import sys
import tempfile
import unittest
import unittest.mock
from contextlib import redirect_stderr
from io import StringIO

TEST_FOLDER = os.path.dirname(os.path.realpath(__file__))
SCRIPTS = os.path.join(TEST_FOLDER, "..", "..", "..", "scripts")
sys.path.insert(0, SCRIPTS)
sys.dont_write_bytecode = True

from lab.devices import cdi  # noqa: E402
from lab.core.errors import LabError, Unavailable, UsageError  # noqa: E402

VERBS_CLASS, MAD_CLASS = "infiniband_verbs", "infiniband_mad"


class FakeMachine(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = folder.name
        os.makedirs(self.path("dev/infiniband"))
        self.add_node("misc", "rdma_cm")

    def path(self, name: str) -> str:
        return os.path.join(self.root, name)

    def write_file(self, path: str, text: str) -> None:
        os.makedirs(os.path.dirname(self.path(path)), exist_ok=True)
        with open(self.path(path), "w", encoding="ascii") as file:
            file.write(text + "\n")

    def add_node(self, class_name: str, node: str, device: str = "", number: str = "1:3") -> None:
        """number: the device number that sysfs has."""
        self.write_file(f"sys/class/{class_name}/{node}/dev", number)
        if device:
            self.write_file(f"sys/class/{class_name}/{node}/ibdev", device)
            os.makedirs(self.path(f"sys/class/infiniband/{device}"), exist_ok=True)
        if not os.path.lexists(self.path(f"dev/infiniband/{node}")):
            os.symlink("/dev/null", self.path(f"dev/infiniband/{node}"))  # its number is 1:3

    def node_names(self, with_mad: bool = False) -> "dict[str, list[str]]":
        """The names of the nodes of each device."""
        specification = cdi.make_specification(self.root, with_mad)
        self.assertEqual(
            [node["path"] for node in specification["containerEdits"]["deviceNodes"]],
            ["/dev/infiniband/rdma_cm"],
        )
        return {
            device["name"]: [
                os.path.basename(node["path"]) for node in device["containerEdits"]["deviceNodes"]
            ]
            for device in specification["devices"]
        }


class Devices(FakeMachine):
    def test_device_has_its_node_for_any_number(self) -> None:
        self.add_node(VERBS_CLASS, "uverbs0", "siw0")
        self.add_node(VERBS_CLASS, "uverbs2", "mlx5_10")
        self.add_node(VERBS_CLASS, "uverbs10", "mlx5_9")
        self.write_file("sys/class/infiniband_verbs/abi_version", "6")
        nodes = self.node_names()
        self.assertEqual(list(nodes), ["mlx5_9", "mlx5_10", "siw0", "all"])
        self.assertEqual(nodes["mlx5_9"], ["uverbs10"])
        self.assertEqual(nodes["mlx5_10"], ["uverbs2"])
        self.assertEqual(nodes["siw0"], ["uverbs0"])
        self.assertEqual(nodes["all"], ["uverbs10", "uverbs2", "uverbs0"])

    def test_management_nodes_need_option(self) -> None:
        self.add_node(VERBS_CLASS, "uverbs0", "rxe0")
        self.add_node(VERBS_CLASS, "uverbs1", "siw0")
        self.add_node(MAD_CLASS, "umad0", "rxe0")
        self.add_node(MAD_CLASS, "issm0", "rxe0")
        self.assertEqual(self.node_names()["rxe0"], ["uverbs0"])
        nodes = self.node_names(with_mad=True)
        self.assertEqual(nodes["rxe0"], ["uverbs0", "issm0", "umad0"])
        self.assertEqual(nodes["siw0"], ["uverbs1"])

    def test_node_has_permissions_of_host(self) -> None:
        self.add_node(VERBS_CLASS, "uverbs0", "rxe0")
        (rxe, _) = cdi.make_specification(self.root)["devices"]
        (node,) = rxe["containerEdits"]["deviceNodes"]
        self.assertEqual(node["fileMode"], os.stat("/dev/null").st_mode & 0o7777)
        self.assertEqual(node["permissions"], "rw")
        self.assertNotIn("minor", node)

    def test_cdi_version_is_the_oldest_sufficient(self) -> None:
        self.add_node(VERBS_CLASS, "uverbs0", "rxe0")
        specification = cdi.make_specification(self.root)
        self.assertEqual(
            (specification["cdiVersion"], specification["kind"]), ("0.3.0", "softrdma.alt/rdma")
        )
        self.add_node(VERBS_CLASS, "uverbs1", "0rxe")
        self.assertEqual(cdi.make_specification(self.root)["cdiVersion"], "0.5.0")

    def test_invalid_cdi_name_is_skipped_and_reported(self) -> None:
        self.add_node(VERBS_CLASS, "uverbs0", "rxe0")
        self.add_node(VERBS_CLASS, "uverbs1", "rxe+")
        stderr = StringIO()
        with redirect_stderr(stderr):
            self.assertEqual(list(self.node_names()), ["rxe0", "all"])
        self.assertIn("rxe+ is left out", stderr.getvalue())

    def test_device_named_all_replaces_entry_all(self) -> None:
        self.add_node(VERBS_CLASS, "uverbs0", "rxe0")
        self.add_node(VERBS_CLASS, "uverbs1", "all")
        self.assertEqual(self.node_names(), {"all": ["uverbs1"], "rxe0": ["uverbs0"]})


class Missing(FakeMachine):
    def assert_fails(self, message: str, error: type = Unavailable) -> None:
        with self.assertRaisesRegex(error, message):
            cdi.make_specification(self.root)

    def test_no_device_suggests_softrdma_up(self) -> None:
        self.assert_fails("no RDMA device here; make one: sudo softrdma up")

    def test_device_without_verbs_suggests_modprobe(self) -> None:
        os.makedirs(self.path("sys/class/infiniband/rxe0"))
        self.assert_fails("cannot use rxe0 yet; try: sudo modprobe ib_uverbs")

    def test_missing_rdma_cm_suggests_modprobe(self) -> None:
        self.add_node(VERBS_CLASS, "uverbs0", "rxe0")
        os.unlink(self.path("sys/class/misc/rdma_cm/dev"))
        self.assert_fails("this kernel has no .*/rdma_cm, .*; try: sudo modprobe rdma_ucm")

    def test_missing_node_is_reported(self) -> None:
        self.add_node(VERBS_CLASS, "uverbs0", "rxe0")
        os.unlink(self.path("dev/infiniband/uverbs0"))
        self.assert_fails("uverbs0 of rxe0 is not in this /dev: No such file")

    def test_node_of_other_device_is_rejected(self) -> None:
        self.add_node(VERBS_CLASS, "uverbs0", "rxe0", number="231:192")
        self.assert_fails(r"uverbs0 of rxe0 does not have .* number \(231:192\)", LabError)


class MachineWithProvider(FakeMachine):
    def setUp(self) -> None:
        super().setUp()
        self.add_node(VERBS_CLASS, "uverbs0", "rxe0")
        environment = unittest.mock.patch.dict(os.environ)
        environment.start()
        self.addCleanup(environment.stop)
        os.environ.pop("COHERDMA_PROVIDER", None)
        self.prefix = self.path("usr")

    def install(self, folder: str) -> str:
        plugins = f"usr/{folder}/libibverbs"
        plugin = f"{plugins}/libcoherdma-rdmav34.so"
        self.write_file(plugin, "plugin")
        self.write_file(f"{plugins}/libcoherdma-emulation.so", "not a plugin of libibverbs")
        self.write_file(f"{plugins}/librxe-rdmav34.so", "a plugin of rdma-core")
        os.symlink("libcoherdma-rdmav34.so", self.path(f"{plugins}/libcoherdma-rdmav59.so"))
        return self.path(plugin)


class Provider(MachineWithProvider):
    def test_plugin_is_mounted_read_only_under_all_names(self) -> None:
        plugin = self.install(f"lib/{os.uname().machine}-linux-gnu")
        prefixes = (self.path("nonexistent"), self.prefix)
        self.assertEqual(cdi.find_plugin(prefixes), plugin)
        folder = os.path.dirname(plugin)
        edits = cdi.make_specification(self.root, plugin=plugin)["containerEdits"]
        self.assertEqual(edits["env"], ["RDMAV_DRIVERS=/usr/lib/coherdma/libcoherdma"])
        self.assertEqual(
            [(mount["hostPath"], mount["containerPath"]) for mount in edits["mounts"]],
            [
                (f"{folder}/{name}", f"/usr/lib/coherdma/{name}")
                for name in ("libcoherdma-rdmav34.so", "libcoherdma-rdmav59.so")
            ],
        )
        for mount in edits["mounts"]:
            self.assertIn("ro", mount["options"])

    def test_plugin_in_lib64_is_found(self) -> None:
        self.assertEqual(self.install("lib64"), cdi.find_plugin((self.prefix,)))

    def test_plugin_of_other_architecture_is_ignored(self) -> None:
        self.install("lib/pdp11-linux-gnu")
        with self.assertRaisesRegex(Unavailable, "not installed; try: apt install"):
            cdi.find_plugin((self.prefix,))

    def test_plugin_of_environment_is_used(self) -> None:
        self.install("lib64")
        built = self.install("build")
        os.environ["COHERDMA_PROVIDER"] = built
        self.assertEqual(cdi.find_plugin((self.prefix,)), built)
        os.environ["COHERDMA_PROVIDER"] = built + ".other"
        with self.assertRaisesRegex(UsageError, "not an absolute path to libcoherdma"):
            cdi.find_plugin((self.prefix,))
        os.environ["COHERDMA_PROVIDER"] = self.path("libcoherdma-rdmav34.so")
        with self.assertRaisesRegex(Unavailable, "there is no .*/libcoherdma-rdmav34.so"):
            cdi.find_plugin((self.prefix,))


@unittest.skipIf(os.geteuid() != 0, "needs root")
class ProviderOfRoot(MachineWithProvider):
    """What root mounts in containers only root may write."""

    OTHER_UID = 65533

    def edits(self, plugin: str) -> "dict[str, object]":
        edits: "dict[str, object]" = cdi.make_specification(self.root, plugin=plugin)[
            "containerEdits"
        ]
        return edits

    def assert_refused(self, plugin: str, path: str, reason: str) -> None:
        with self.assertRaises(LabError) as raised:
            self.edits(plugin)
        message = str(raised.exception)
        self.assertIn(f"--with-provider: {path} {reason}", message)
        remedy = (
            f"chmod go-w {path}" if "writ" in reason else "install -Dt /usr/local/lib/libibverbs "
        )
        self.assertIn(f"try: sudo {remedy}", message)
        self.assertEqual(message.count("\n"), 0)

    def test_plugin_that_others_can_write_is_refused(self) -> None:
        plugin = self.install("lib64")
        for mode in (0o664, 0o646):
            os.chmod(plugin, mode)
            self.assert_refused(plugin, plugin, "can be written by others than root")
        os.chmod(plugin, 0o644)
        self.assertIn("mounts", self.edits(plugin))
        os.chown(plugin, self.OTHER_UID, 0)
        self.assert_refused(plugin, plugin, f"belongs to user {self.OTHER_UID}")

    def test_remedy_has_quoted_paths(self) -> None:
        plugin = self.install("lib 64")
        os.chmod(plugin, 0o646)
        with self.assertRaisesRegex(LabError, f"try: sudo chmod go-w '{plugin}'$"):
            self.edits(plugin)
        os.chown(plugin, self.OTHER_UID, 0)
        with self.assertRaisesRegex(LabError, f" '{plugin}'$"):
            self.edits(plugin)

    def test_plugin_in_folder_that_others_can_write_is_refused(self) -> None:
        plugin = self.install("lib64")
        for folder in (os.path.dirname(plugin), self.path("usr/lib64"), self.root):
            for mode in (0o775, 0o757):
                os.chmod(folder, mode)
                self.assert_refused(plugin, folder, "can be written by others than root")
            os.chmod(folder, 0o1777)
            self.assertIn("mounts", self.edits(plugin))
            os.chmod(folder, 0o755)
            os.chown(folder, self.OTHER_UID, 0)
            self.assert_refused(plugin, folder, f"belongs to user {self.OTHER_UID}")
            os.chown(folder, 0, 0)

    def test_each_mounted_file_is_examined(self) -> None:
        plugin = self.install("lib64")
        sibling = os.path.join(os.path.dirname(plugin), "libcoherdma-rdmav60.so")
        self.write_file("usr/lib64/libibverbs/libcoherdma-rdmav60.so", "plugin")
        os.chmod(sibling, 0o666)
        self.assert_refused(plugin, sibling, "can be written by others than root")

    def test_links_are_followed(self) -> None:
        plugin = self.install("lib64")
        link = os.path.join(os.path.dirname(plugin), "libcoherdma-rdmav60.so")
        self.write_file("home/user/plugin.so", "plugin")
        os.symlink("../../../home/user/plugin.so", link)
        self.assertIn("mounts", self.edits(plugin))
        os.chown(self.path("home/user"), self.OTHER_UID, 0)
        self.assert_refused(plugin, self.path("home/user"), f"belongs to user {self.OTHER_UID}")
        # A link of another user, in a sticky folder, to a file of root.
        os.chown(self.path("home/user"), 0, 0)
        os.chmod(self.path("home"), 0o1777)
        os.symlink("user", self.path("home/link"))
        os.lchown(self.path("home/link"), self.OTHER_UID, 0)
        os.unlink(link)
        os.symlink(self.path("home/link/plugin.so"), link)
        self.assert_refused(plugin, self.path("home/link"), f"belongs to user {self.OTHER_UID}")

    def test_plugin_of_environment_is_examined(self) -> None:
        os.environ["COHERDMA_PROVIDER"] = plugin = self.install("build")
        os.chown(self.path("usr/build"), self.OTHER_UID, 0)
        self.assert_refused(
            cdi.find_plugin(), self.path("usr/build"), f"belongs to user {self.OTHER_UID}"
        )
        with unittest.mock.patch("os.geteuid", return_value=self.OTHER_UID):
            self.assertIn("mounts", self.edits(plugin))


class Output(FakeMachine):
    def assert_written(self, path: str, text: str) -> None:
        self.assertTrue(stat.S_ISREG(os.lstat(path).st_mode))
        with open(path, encoding="utf-8") as file:
            self.assertEqual(file.read(), text)

    def test_link_as_output_is_replaced_and_its_target_kept(self) -> None:
        self.write_file("victim", "precious")
        for target in ("victim", self.path("victim"), "missing"):
            os.symlink(target, self.path("out.json"))
            cdi.write_atomically(self.path("out.json"), "text")
            self.assert_written(self.path("out.json"), "text")
            self.assert_written(self.path("victim"), "precious\n")
            os.unlink(self.path("out.json"))
        self.assertFalse(os.path.lexists(self.path("missing")))

    def test_link_with_name_of_temporary_file_is_not_followed(self) -> None:
        self.write_file("victim", "precious")
        for number in range(-1, 9):  # also the PID of a child
            os.symlink("victim", self.path(f".out.json.{os.getpid() + number}.part"))
        cdi.write_atomically(self.path("out.json"), "text")
        self.assert_written(self.path("out.json"), "text")
        self.assert_written(self.path("victim"), "precious\n")

    def test_pipe_that_becomes_a_link_is_replaced(self) -> None:
        os.mkfifo(self.path("pipe"))
        self.write_file("victim", "precious")
        os.symlink("victim", self.path("out.json"))
        with unittest.mock.patch("os.stat", return_value=os.stat(self.path("pipe"))):
            cdi.write_atomically(self.path("out.json"), "text")
        self.assert_written(self.path("out.json"), "text")
        self.assert_written(self.path("victim"), "precious\n")

    def test_mode_follows_umask(self) -> None:
        for umask, mode in ((0o022, 0o644), (0o077, 0o600), (0, 0o666)):
            self.addCleanup(os.umask, os.umask(umask))
            cdi.write_atomically(self.path("out.json"), "text")
            self.assertEqual(stat.S_IMODE(os.stat(self.path("out.json")).st_mode), mode)

    def test_pipe_and_terminal_are_written(self) -> None:
        os.mkfifo(self.path("pipe"))
        read_end = os.open(self.path("pipe"), os.O_RDONLY | os.O_NONBLOCK)
        self.addCleanup(os.close, read_end)
        os.symlink("pipe", self.path("link"))
        for name in ("pipe", "link"):
            cdi.write_atomically(self.path(name), "text")
            self.assertEqual(os.read(read_end, 100), b"text")
        terminal, user_end = os.openpty()
        self.addCleanup(os.close, terminal)
        self.addCleanup(os.close, user_end)
        cdi.write_atomically(os.ttyname(user_end), "text")
        self.assertEqual(os.read(terminal, 100), b"text")

    def test_standard_output_is_written_and_stays(self) -> None:
        script = (
            "import os, sys; from lab.devices import cdi; print('before', flush=True); "
            "cdi.write_atomically(sys.argv[1], 'text'); "
            "print(' after', os.path.islink('/dev/stdout'), os.listdir('/dev'))"
        )
        # With a /dev of its own: the machine's is not at risk.
        make_dev = (
            "mount -t tmpfs dev /dev && ln -s /proc/self/fd /proc/self/fd/1 /dev && "
            'mv /dev/1 /dev/stdout && exec "$@"'
        )
        unshare = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"]
        if subprocess.run(
            [*unshare, "mount -t tmpfs dev /dev"], stderr=subprocess.DEVNULL
        ).returncode:
            self.skipTest("mount namespaces are not permitted")
        for path in ("/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"):
            argv = [*unshare, make_dev, "sh", sys.executable, "-c", script, path]
            env = dict(os.environ, PYTHONPATH=SCRIPTS)
            expected = "before\ntext after True ['stdout', 'fd']\n"
            piped = subprocess.run(argv, env=env, stdout=subprocess.PIPE, text=True)
            self.assertEqual(piped.stdout, expected)
            with open(self.path("redirected"), "w+", encoding="utf-8") as file:
                subprocess.run(argv, env=env, stdout=file)
                file.seek(0)
                self.assertEqual(file.read(), expected)

    def test_output_is_written_atomically(self) -> None:
        path = self.path("softrdma.json")
        cdi.write_atomically(path, "first")
        cdi.write_atomically(path, "second")
        with open(path, encoding="utf-8") as file:
            self.assertEqual(file.read(), "second")
        with self.assertRaisesRegex(LabError, "cannot write .*: .*; choose another --output"):
            cdi.write_atomically(self.path("nonexistent/softrdma.json"), "third")
        os.mkdir(self.path("folder"))
        with self.assertRaisesRegex(LabError, "cannot write .*folder: Is a directory"):
            cdi.write_atomically(self.path("folder"), "fourth")
        self.assertEqual(sorted(os.listdir(self.root)), ["dev", "folder", "softrdma.json", "sys"])

    def test_output_without_json_suffix_is_rejected(self) -> None:
        with self.assertRaisesRegex(UsageError, "only files that end in .json"):
            cdi.write_atomically("/etc/cdi/softrdma", "")

    def test_command_works_on_this_machine(self) -> None:
        result = subprocess.run(
            [os.path.join(SCRIPTS, "softrdma"), "cdi"], capture_output=True, text=True
        )
        if result.returncode == 0:
            self.assertEqual(json.loads(result.stdout)["kind"], cdi.KIND)
        else:
            self.assertEqual((result.returncode, result.stdout), (77, ""))
            self.assertRegex(result.stderr, r"\Asoftrdma: [^\n]+; [^\n]+\n\Z")


if __name__ == "__main__":
    unittest.main()

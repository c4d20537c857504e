#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""softrdma cdi, on a /sys and a /dev that are made up. Their nodes are links to what is in /dev."""

import json
import os
import subprocess
import sys
import tempfile
import unittest
import unittest.mock
from contextlib import redirect_stderr
from io import StringIO

HERE = os.path.dirname(os.path.realpath(__file__))
SCRIPTS = os.path.join(HERE, "..", "..", "scripts")
sys.path.insert(0, SCRIPTS)
sys.dont_write_bytecode = True

from lab import cdi  # noqa: E402
from lab.errors import CannotHere, LabError, Misuse  # noqa: E402

VERBS, MANAGEMENT = "infiniband_verbs", "infiniband_mad"


class Machine(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = folder.name
        os.makedirs(self.at("dev/infiniband"))
        self.has("misc", "rdma_cm")

    def at(self, path: str) -> str:
        return os.path.join(self.root, path)

    def file(self, path: str, text: str) -> None:
        os.makedirs(os.path.dirname(self.at(path)), exist_ok=True)
        with open(self.at(path), "w", encoding="ascii") as file:
            file.write(text + "\n")

    def has(self, kind: str, node: str, device: str = "", number: str = "1:3") -> None:
        self.file(f"sys/class/{kind}/{node}/dev", number)
        if device:
            self.file(f"sys/class/{kind}/{node}/ibdev", device)
            os.makedirs(self.at(f"sys/class/infiniband/{device}"), exist_ok=True)
        if not os.path.lexists(self.at(f"dev/infiniband/{node}")):
            os.symlink("/dev/null", self.at(f"dev/infiniband/{node}"))  # 1:3

    def nodes(self, management: bool = False) -> "dict[str, list[str]]":
        spec = cdi.specification(self.root, management)
        self.assertEqual(
            [node["path"] for node in spec["containerEdits"]["deviceNodes"]],
            ["/dev/infiniband/rdma_cm"],
        )
        return {
            device["name"]: [
                os.path.basename(node["path"]) for node in device["containerEdits"]["deviceNodes"]
            ]
            for device in spec["devices"]
        }


class Devices(Machine):
    def test_each_has_its_own_node_whatever_their_numbers(self) -> None:
        self.has(VERBS, "uverbs0", "siw0")
        self.has(VERBS, "uverbs2", "mlx5_10")
        self.has(VERBS, "uverbs10", "mlx5_9")
        self.file("sys/class/infiniband_verbs/abi_version", "6")
        nodes = self.nodes()
        self.assertEqual(list(nodes), ["mlx5_9", "mlx5_10", "siw0", "all"])
        self.assertEqual(nodes["mlx5_9"], ["uverbs10"])
        self.assertEqual(nodes["mlx5_10"], ["uverbs2"])
        self.assertEqual(nodes["siw0"], ["uverbs0"])
        self.assertEqual(nodes["all"], ["uverbs10", "uverbs2", "uverbs0"])

    def test_management_only_if_asked(self) -> None:
        self.has(VERBS, "uverbs0", "rxe0")
        self.has(VERBS, "uverbs1", "siw0")
        self.has(MANAGEMENT, "umad0", "rxe0")
        self.has(MANAGEMENT, "issm0", "rxe0")
        self.assertEqual(self.nodes()["rxe0"], ["uverbs0"])
        nodes = self.nodes(management=True)
        self.assertEqual(nodes["rxe0"], ["uverbs0", "issm0", "umad0"])
        self.assertEqual(nodes["siw0"], ["uverbs1"])

    def test_the_node_is_as_accessible_as_here(self) -> None:
        self.has(VERBS, "uverbs0", "rxe0")
        (rxe, _) = cdi.specification(self.root)["devices"]
        (node,) = rxe["containerEdits"]["deviceNodes"]
        self.assertEqual(node["fileMode"], os.stat("/dev/null").st_mode & 0o7777)
        self.assertEqual(node["permissions"], "rw")
        self.assertNotIn("minor", node)

    def test_the_oldest_version_that_will_do(self) -> None:
        self.has(VERBS, "uverbs0", "rxe0")
        spec = cdi.specification(self.root)
        self.assertEqual((spec["cdiVersion"], spec["kind"]), ("0.3.0", "softrdma.alt/rdma"))
        self.has(VERBS, "uverbs1", "0rxe")
        self.assertEqual(cdi.specification(self.root)["cdiVersion"], "0.5.0")

    def test_a_name_that_cdi_has_not_is_left_out_and_said(self) -> None:
        self.has(VERBS, "uverbs0", "rxe0")
        self.has(VERBS, "uverbs1", "rxe+")
        said = StringIO()
        with redirect_stderr(said):
            self.assertEqual(list(self.nodes()), ["rxe0", "all"])
        self.assertIn("rxe+ is left out", said.getvalue())

    def test_a_device_called_all_stays_itself(self) -> None:
        self.has(VERBS, "uverbs0", "rxe0")
        self.has(VERBS, "uverbs1", "all")
        self.assertEqual(self.nodes(), {"all": ["uverbs1"], "rxe0": ["uverbs0"]})


class Missing(Machine):
    def refused(self, words: str, error: type = CannotHere) -> None:
        with self.assertRaisesRegex(error, words):
            cdi.specification(self.root)

    def test_no_device(self) -> None:
        self.refused("no RDMA device here; make one: sudo softrdma up")

    def test_a_device_without_verbs(self) -> None:
        os.makedirs(self.at("sys/class/infiniband/rxe0"))
        self.refused("cannot reach rxe0 yet; try: sudo modprobe ib_uverbs")

    def test_no_connection_manager(self) -> None:
        self.has(VERBS, "uverbs0", "rxe0")
        os.unlink(self.at("sys/class/misc/rdma_cm/dev"))
        self.refused("rdma_cm, which this kernel does not offer yet; try: sudo modprobe rdma_ucm")

    def test_no_node(self) -> None:
        self.has(VERBS, "uverbs0", "rxe0")
        os.unlink(self.at("dev/infiniband/uverbs0"))
        self.refused("uverbs0 of rxe0 is not in this /dev: No such file")

    def test_the_node_of_something_else(self) -> None:
        self.has(VERBS, "uverbs0", "rxe0", number="231:192")
        self.refused(r"uverbs0 of rxe0 is not the device .*\(231:192\)", LabError)


class Provider(Machine):
    def setUp(self) -> None:
        super().setUp()
        self.has(VERBS, "uverbs0", "rxe0")
        environment = unittest.mock.patch.dict(os.environ)
        environment.start()
        self.addCleanup(environment.stop)
        os.environ.pop("COHERDMA_PROVIDER", None)
        self.prefix = self.at("usr")

    def install(self, folder: str) -> str:
        plugin = f"usr/{folder}/libibverbs/libcoherdma-rdmav34.so"
        self.file(plugin, "plugin")
        self.file(f"usr/{folder}/libibverbs/libcoherdma-emulation.so", "none of libibverbs'")
        self.file(f"usr/{folder}/libibverbs/librxe-rdmav34.so", "not ours")
        os.symlink("libcoherdma-rdmav34.so", self.at(plugin.replace("34", "59")))
        return self.at(plugin)

    def test_all_its_names_read_only_and_one_variable(self) -> None:
        plugin = self.install(f"lib/{os.uname().machine}-linux-gnu")
        found = cdi.find_plugin((self.at("nowhere"), self.prefix))
        self.assertEqual(found, plugin)
        edits = cdi.specification(self.root, plugin=found)["containerEdits"]
        self.assertEqual(edits["env"], ["RDMAV_DRIVERS=/usr/lib/coherdma/libcoherdma"])
        self.assertEqual(
            [(mount["hostPath"], mount["containerPath"]) for mount in edits["mounts"]],
            [
                (plugin.replace("34", abi), f"/usr/lib/coherdma/libcoherdma-rdmav{abi}.so")
                for abi in ("34", "59")
            ],
        )
        for mount in edits["mounts"]:
            self.assertIn("ro", mount["options"])

    def test_where_other_distributions_have_it(self) -> None:
        self.assertEqual(self.install("lib64"), cdi.find_plugin((self.prefix,)))

    def test_not_that_of_another_architecture(self) -> None:
        self.install("lib/pdp11-linux-gnu")
        with self.assertRaisesRegex(CannotHere, "not installed; try: apt install"):
            cdi.find_plugin((self.prefix,))

    def test_the_one_that_is_named(self) -> None:
        self.install("lib64")
        other = self.install("build")
        os.environ["COHERDMA_PROVIDER"] = other
        self.assertEqual(cdi.find_plugin((self.prefix,)), other)
        os.environ["COHERDMA_PROVIDER"] = other + ".gone"
        with self.assertRaisesRegex(Misuse, "not an absolute path to libcoherdma"):
            cdi.find_plugin((self.prefix,))
        os.environ["COHERDMA_PROVIDER"] = self.at("libcoherdma-rdmav34.so")
        with self.assertRaisesRegex(CannotHere, "there is no .*/libcoherdma-rdmav34.so"):
            cdi.find_plugin((self.prefix,))


class Output(Machine):
    def test_whole_or_not_at_all(self) -> None:
        path = self.at("softrdma.json")
        cdi.write(path, "one")
        cdi.write(path, "two")
        with open(path, encoding="utf-8") as file:
            self.assertEqual(file.read(), "two")
        with self.assertRaisesRegex(LabError, "cannot write .*: .*; choose another --output"):
            cdi.write(self.at("nowhere/softrdma.json"), "three")
        os.mkdir(self.at("folder"))
        with self.assertRaisesRegex(LabError, "cannot write .*folder: Is a directory"):
            cdi.write(self.at("folder"), "four")
        self.assertEqual(sorted(os.listdir(self.root)), ["dev", "folder", "softrdma.json", "sys"])

    def test_a_file_that_no_runtime_would_read(self) -> None:
        with self.assertRaisesRegex(Misuse, "only files that end in .json"):
            cdi.write("/etc/cdi/softrdma", "")

    def test_of_this_machine(self) -> None:
        done = subprocess.run(
            [os.path.join(SCRIPTS, "softrdma"), "cdi"], capture_output=True, text=True
        )
        if done.returncode == 0:
            self.assertEqual(json.loads(done.stdout)["kind"], cdi.KIND)
        else:
            self.assertEqual((done.returncode, done.stdout), (77, ""))
            self.assertRegex(done.stderr, r"\Asoftrdma: [^\n]+; [^\n]+\n\Z")


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""User-mode kernels of the cache and of a package, and their build from a fake source."""

import compileall
import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import unittest
from typing import Callable
from unittest import mock

TEST_FOLDER = os.path.dirname(os.path.realpath(__file__))
SCRIPTS = os.path.join(TEST_FOLDER, "..", "..", "..", "scripts")
sys.path.insert(0, SCRIPTS)
sys.dont_write_bytecode = True

from lab.core import cache, cache_folder, trust  # noqa: E402
from lab.kernel import kernel_patches, uml_kernels  # noqa: E402


OTHER_USER = 12345
NO_SERVER = "http://127.0.0.1:9"


class InPrefix(unittest.TestCase):
    """An installed softrdma in a temporary prefix."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.prefix = os.path.join(folder.name, "usr")
        self.cache_folder = os.path.join(folder.name, "cache")
        self.package_folder = os.path.join(self.prefix, "lib", "softrdma", "uml")
        share = os.path.join(self.prefix, "share", "softrdma")
        self.install(os.path.join(self.prefix, "bin"), share)
        self.config_file = os.path.join(share, "lab", "kernel", "uml.config")

    def install(self, program_folder: str, share: str) -> None:
        # With compiled files: the cases start softrdma often.
        compileall.compile_dir(os.path.join(SCRIPTS, "lab"), quiet=2)
        shutil.copytree(os.path.join(SCRIPTS, "lab"), os.path.join(share, "lab"))
        os.makedirs(program_folder, exist_ok=True)
        shutil.copy(os.path.join(SCRIPTS, "softrdma"), program_folder)

    def make_kernel(self, folder: str, version: str, config_digest: str = "") -> str:
        """Make a kernel that can be found but not run. Returns its path."""
        path = os.path.join(folder, version)
        os.makedirs(path)
        with open(os.path.join(path, "linux"), "w", encoding="ascii") as file:
            file.write("kernel")
        series = ".".join(version.split(".")[:2])
        with open(self.config_file, "rb") as binary:
            config = binary.read()
        if uml_kernels.is_old_series(series):
            config += uml_kernels.OLD_SERIES_CONFIG
        else:
            with open(uml_kernels.MODULES_CONFIG_FILE, "rb") as binary:
                config += binary.read()
        key = config + kernel_patches.series_for(series).digest().encode()
        config_digest = config_digest or hashlib.sha256(key).hexdigest()[:8]
        facts = {"series": series, "version": version, "config": config_digest}
        cache.write_manifest(path, facts, ["linux"])
        return path

    def make_cached_kernel(self, version: str) -> str:
        os.makedirs(self.cache_folder, exist_ok=True)
        with open(os.path.join(self.cache_folder, cache_folder.MARKER), "w") as file:
            file.write(cache_folder.MARKER_TEXT)
        return self.make_kernel(os.path.join(self.cache_folder, "uml"), version)

    def make_packaged_kernel(self, version: str, config_digest: str = "") -> str:
        return self.make_kernel(self.package_folder, version, config_digest)

    def softrdma(
        self, *arguments: str, program: str = "bin/softrdma", command: "list[str]" = []
    ) -> "tuple[int, str]":
        """Returns the exit status and the output. command: which starts the program."""
        env = {
            "PATH": os.environ["PATH"],
            "HOME": "/nonexistent",
            "SOFTRDMA_CACHE": self.cache_folder,
            "SOFTRDMA_MIRROR": NO_SERVER,
            "SOFTRDMA_SNAPSHOT": NO_SERVER,
        }
        result = subprocess.run(
            [*command, os.path.join(self.prefix, program), *arguments],
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
        )
        return result.returncode, result.stdout


class Installed(InPrefix):
    """Kernels of a package and of the user's cache."""

    def test_packaged_kernel_is_found_without_cache(self) -> None:
        path = self.make_packaged_kernel("6.1.187")
        self.assertEqual(self.softrdma("kernel", "path"), (0, f"{path}/linux\n"))
        self.assertEqual(self.softrdma("kernel", "path", "6.1"), (0, f"{path}/linux\n"))
        status, output = self.softrdma("kernel", "list")
        self.assertEqual(status, 0)
        self.assertRegex(output, r"6\.1 +uml +\S+ +6\.1\.187 +yes +package")
        (row,) = json.loads(self.softrdma("kernel", "list", "--json")[1])["kernels"]
        self.assertEqual((row["from"], row["for"], row["path"]), ("package", "uml", path))
        self.assertFalse(os.path.exists(self.cache_folder))

    def test_kernel_beside_the_code_is_found(self) -> None:
        # pip install --target keeps the folder share, but not lib.
        self.package_folder = os.path.join(self.prefix, "share", "softrdma", "uml")
        path = self.make_packaged_kernel("6.1.187")
        self.assertEqual(self.softrdma("kernel", "path"), (0, f"{path}/linux\n"))
        os.chmod(path, 0o777)
        self.assert_refused(path, "all users may write it")

    def test_package_of_debian_is_repaired_by_apt(self) -> None:
        with mock.patch.object(trust, "PROGRAM_PARENT", "/usr/share/softrdma"):
            self.assertIn("apt install --reinstall softrdma-uml", trust.reinstall_remedy())
            kernel = uml_kernels.UmlKernel("6.1", "6.1.187", "/path", False, True, False, "0")
            problem = uml_kernels._missing_kernel_error(None, [kernel])
        self.assertIn("apt install softrdma softrdma-uml", str(problem))

    def test_missing_file_of_softrdma_is_named(self) -> None:
        lab = os.path.dirname(os.path.dirname(self.config_file))
        self.make_packaged_kernel("6.1.187")
        for name, reason in (
            ("kernel/pinned_kernel", f"{lab}/kernel/pinned_kernel: No such file"),
            ("kernel/uml.config", f"{lab}/kernel/uml.config: No such file"),
            ("patches", f"{lab}/patches: No such file"),
            ("run/run_uml.py", "cannot import name 'run_uml'"),
            ("run/relay.py", "No module named 'lab.run.relay'"),
            ("cli/run_command.py", "cannot import name 'run_command'"),
        ):
            path = os.path.join(lab, name)
            os.rename(path, path + ".moved")
            status, output = self.softrdma("run", "--in", "uml", "--", "true")
            os.rename(path + ".moved", path)
            self.assertEqual((status, output.count("\n")), (1, 1), output)
            self.assertIn(reason, output)
            self.assertRegex(output, "install .*again")

    def test_missing_patches_are_listed(self) -> None:
        path = self.make_packaged_kernel("6.1.187")
        manifest = os.path.join(path, cache.MANIFEST)
        with open(manifest, encoding="utf-8") as file:
            contents = json.load(file)
        contents["facts"]["missing_patches"] = ["siw-this", "um-that"]
        with open(manifest, "w", encoding="utf-8") as file:
            json.dump(contents, file)
        self.assertIn("\n6.1 lacks siw-this, um-that\n", self.softrdma("kernel", "list")[1])
        (row,) = json.loads(self.softrdma("kernel", "list", "--json")[1])["kernels"]
        self.assertEqual(row["missing_patches"], ["siw-this", "um-that"])

    def test_newest_kernel_is_selected(self) -> None:
        self.make_packaged_kernel("6.1.187")
        newer_cached = self.make_cached_kernel("6.12.9-1")
        self.assertEqual(self.softrdma("kernel", "path"), (0, f"{newer_cached}/linux\n"))
        newest_packaged = self.make_packaged_kernel("6.12.10")
        self.assertEqual(self.softrdma("kernel", "path"), (0, f"{newest_packaged}/linux\n"))
        cached = self.make_cached_kernel("6.1.188-1")
        self.assertEqual(self.softrdma("kernel", "path", "6.1"), (0, f"{cached}/linux\n"))

    def test_packaged_kernel_precedes_equal_cached_one(self) -> None:
        self.make_cached_kernel("6.1.187")
        packaged = self.make_packaged_kernel("6.1.187")
        self.assertEqual(self.softrdma("kernel", "path"), (0, f"{packaged}/linux\n"))

    def test_kernel_of_other_configuration_is_not_run(self) -> None:
        outdated = self.make_packaged_kernel("6.12.1", config_digest="01234567")
        for arguments in (("kernel", "path"), ("run", "--in", "uml", "--", "true")):
            status, output = self.softrdma(*arguments)
            self.assertEqual(status, 77)
            self.assertIn(outdated, output)
            self.assertIn("unpack or install softrdma 0.1.0 again", output)
            self.assertNotIn("apt", output)
        self.assertIn("outdated", self.softrdma("kernel", "list")[1])
        current = self.make_cached_kernel("6.1.187")
        self.assertEqual(self.softrdma("kernel", "path"), (0, f"{current}/linux\n"))

    def test_damaged_kernel_names_its_fix(self) -> None:
        fixes = {
            "6.12": (self.make_packaged_kernel("6.12.1"), "unpack or install softrdma 0.1.0 again"),
            "6.13": (self.make_cached_kernel("6.13.1-1"), "softrdma kernel build 6.13"),
        }
        for series, (path, fix) in fixes.items():
            with open(os.path.join(path, "linux"), "w", encoding="ascii") as file:
                file.write("KERNEL")
            run = ("run", "--in", "uml", "--kernel", series, "--", "true")
            for arguments in (("kernel", "path", series), run):
                status, output = self.softrdma(*arguments)
                self.assertEqual(status, 1)
                self.assertIn("linux has other contents", output)
                self.assertIn(fix, output)
                self.assertEqual(output.count("\n"), 1)

    def test_broken_manifest_is_damage(self) -> None:
        path = self.make_packaged_kernel("6.12.1")
        for text in ("", "[]", "{}", '{"facts": 1, "sizes": {}, "sha256": {}}'):
            with open(os.path.join(path, cache.MANIFEST), "w", encoding="ascii") as file:
                file.write(text)
            status, output = self.softrdma("kernel", "path")
            self.assertEqual(status, 77)
            self.assertIn(f"{path} is damaged", output)
            self.assertIn("unpack or install softrdma 0.1.0 again", output)
            self.assertEqual(output.count("\n"), 1)

    def test_packaged_kernel_is_not_removed(self) -> None:
        packaged = self.make_packaged_kernel("6.1.187")
        status, output = self.softrdma("kernel", "remove", "6.1")
        self.assertEqual(status, 2)
        self.assertIn(f"kernel 6.1 is part of this softrdma, in {packaged}\n", output)
        cached = self.make_cached_kernel("6.1.188-1")
        status, output = self.softrdma("kernel", "remove", "6.1")
        self.assertEqual(status, 0)
        self.assertIn("the kernel of this softrdma stays\n", output)
        self.assertFalse(os.path.exists(cached))
        self.assertTrue(os.path.exists(os.path.join(packaged, "linux")))

    def assert_refused(self, path: str, reason: str) -> None:
        for arguments in (("kernel", "path"), ("run", "--in", "uml", "--", "true")):
            status, output = self.softrdma(*arguments)
            self.assertEqual((status, output.count("\n")), (1, 1), output)
            for text in (path, reason, "unpack or install softrdma 0.1.0 again"):
                self.assertIn(text, output)

    def test_packaged_kernel_that_others_may_write_is_not_run(self) -> None:
        path = self.make_packaged_kernel("6.1.187")
        for changed in (self.package_folder, path, f"{path}/linux", f"{path}/{cache.MANIFEST}"):
            mode = os.stat(changed).st_mode
            is_root = os.geteuid() == 0
            if is_root:  # else its group can be the caller's private group
                os.chown(changed, -1, OTHER_USER)
            for bits in (0o020, 0o002) if is_root else (0o002,):
                os.chmod(changed, mode | bits)
                self.assert_refused(changed, "may write it")
            os.chmod(changed, mode)
        lib = os.path.dirname(self.package_folder)
        os.chmod(lib, 0o777)
        self.assert_refused(lib, "all users may write")
        os.chmod(lib, 0o755)
        self.assertEqual(self.softrdma("kernel", "path"), (0, f"{path}/linux\n"))

    @unittest.skipIf(os.geteuid() != 0, "needs root")
    def test_folder_above_packaged_kernels_that_its_group_may_write(self) -> None:
        # As /usr/local/lib of Debian with its group staff: another installation would not change it.
        self.make_packaged_kernel("6.1.187")
        lib = os.path.dirname(os.path.dirname(self.package_folder))
        os.chmod(os.path.dirname(self.prefix), 0o755)
        os.chown(lib, 0, OTHER_USER)
        os.chmod(lib, 0o2775)
        user = [
            "setpriv",
            f"--reuid={OTHER_USER + 1}",
            f"--regid={OTHER_USER + 1}",
            "--clear-groups",
        ]
        commands: "tuple[tuple[list[str], str], ...]" = (([], ""), (user, "sudo "))
        for command, prefix in commands:
            status, output = self.softrdma("kernel", "path", command=command)
            self.assertEqual(status, 1, output)
            self.assertIn(f"its group may write {lib}, which leads to it (mode 2775); ", output)
            self.assertTrue(output.endswith(f", type: {prefix}chmod go-w {lib}\n"), output)

    @unittest.skipIf(os.geteuid() != 0, "needs root")
    def test_packaged_kernel_of_another_user_is_not_run(self) -> None:
        path = self.make_packaged_kernel("6.1.187")
        for changed in (self.package_folder, path, f"{path}/linux", f"{path}/{cache.MANIFEST}"):
            os.chown(changed, OTHER_USER, -1)
            self.assert_refused(changed, f"belongs to user {OTHER_USER}")
            os.chown(changed, 0, -1)

    @unittest.skipIf(os.geteuid() != 0, "needs root")
    def test_packaged_kernel_with_the_owner_of_the_program_is_run_in_a_user_namespace(self) -> None:
        path = self.make_packaged_kernel("6.1.187")
        command = ["unshare", "--map-root-user"]
        if subprocess.run([*command, "true"]).returncode:
            self.skipTest("user namespaces are not permitted")
        # The namespace does not map the owner of both, like that of root's files for an ordinary
        # user.
        for folder, folder_names, file_names in os.walk(self.prefix):
            for name in folder_names + file_names:
                os.chown(os.path.join(folder, name), OTHER_USER, -1)
        result = self.softrdma("kernel", "path", command=command)
        self.assertEqual(result, (0, f"{path}/linux\n"))
        # A cache with this owner is not used.
        cached = self.make_cached_kernel("6.1.188-1")
        os.chown(os.path.join(cached, "linux"), OTHER_USER, -1)
        status, output = self.softrdma("kernel", "path", command=command)
        self.assertEqual(status, 1, output)
        self.assertIn(f"{cached}/linux is not used: it belongs to ", output)

    def test_checkout_ignores_packaged_kernels(self) -> None:
        self.make_packaged_kernel("6.1.187")
        self.install(os.path.join(self.prefix, "scripts"), os.path.join(self.prefix, "scripts"))
        status, output = self.softrdma("kernel", "path", program="scripts/softrdma")
        self.assertEqual(status, 77)
        self.assertIn("softrdma kernel build", output)


# The parts of a kernel source that the build uses. It records what could change the program's bytes.
FAKE_SOURCE = {
    "Makefile": """VERSION = 6
PATCHLEVEL = 1
SUBLEVEL = 187
allnoconfig:
\tgrep -vE 'SMP|NR_CPUS' $(KCONFIG_ALLCONFIG) >.config
\t! grep MAY_HAVE_RUNTIME_DEPS arch/um/drivers/Kconfig # which forbids a static link
modules: linux
\tmkdir -p fs/ext4
\techo 'int ext4;' | gcc -c -x c -o fs/ext4/ext4.ko -
\tprintf 'fs/ext4/ext4.o\\nfs/not_built.o\\n' >modules.order
linux:
\tmkdir -p include/config
\techo 6.1.187 >include/config/kernel.release
\techo 'const char file[] = __FILE__; int main(void) { return 0; }' >$(CURDIR)/main.c
\tgcc -g $(CFLAGS) $(KCFLAGS) -o linux $(CURDIR)/main.c
\tenv | grep ^KBUILD_ >modules.builtin
\ttouch modules.builtin.modinfo
""",
    "arch/um/Kconfig": "config HZ\n\tint\n\tdefault 100\n",
    "arch/um/drivers/Kconfig": "config UML_NET_VECTOR\n\tselect MAY_HAVE_RUNTIME_DEPS\n",
}


class BuildInto(InPrefix):
    """A kernel built from a source file into a folder, as for a package."""

    def setUp(self) -> None:
        super().setUp()
        self.work_folder = os.path.join(self.prefix, "work")
        os.mkdir(self.work_folder)

    def work_path(self, *names: str) -> str:
        return os.path.join(self.work_folder, *names)

    def make_source(self, **changed_files: str) -> str:
        """Make a tar.xz. changed_files: other contents, by base name."""
        path = self.work_path("source.tar.xz")
        with tarfile.open(path, "w:xz") as tar:
            for name, text in FAKE_SOURCE.items():
                data = changed_files.get(os.path.basename(name), text).encode()
                member = tarfile.TarInfo("linux-source/" + name)
                member.size, member.mtime = len(data), 1_000_000_000
                tar.addfile(member, io.BytesIO(data))
        return path

    def build_command(self, source: str, folder: str) -> "list[str]":
        program = os.path.join(self.prefix, "bin", "softrdma")
        return [program, "kernel", "build", "--source", source, "--output", folder]

    def build(self, source: str, folder: str, *options: str, **env: str) -> "tuple[int, str]":
        """Returns the exit status and the output."""
        result = subprocess.run(
            [*self.build_command(source, folder), *options],
            env={"PATH": os.environ["PATH"], "SOFTRDMA_CACHE": self.cache_folder, **env},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
        )
        return result.returncode, result.stdout

    def read_files(self, path: str) -> "dict[str, bytes]":
        files = {}
        for folder, _, names in os.walk(path):
            for name in names:
                with open(os.path.join(folder, name), "rb") as file:
                    files[os.path.relpath(os.path.join(folder, name), path)] = file.read()
        return files

    def test_build_in_package_folder_is_found(self) -> None:
        built = os.path.join(self.package_folder, "6.1")
        status, output = self.build(self.make_source(), built)
        self.assertEqual(status, 0, output)
        self.assertIn("6.1.187 is in", output)
        self.assertEqual(self.softrdma("kernel", "path", "6.1"), (0, f"{built}/linux\n"))
        facts = cache.read_facts(built)
        self.assertEqual((facts["version"], facts["processors"]), ("6.1.187", 1))
        self.assertEqual(os.listdir(self.package_folder), ["6.1"])
        self.assertEqual(os.stat(built).st_mode, os.stat(self.work_folder).st_mode)
        self.assertFalse(os.path.exists(self.cache_folder))

    def test_build_is_reproducible(self) -> None:
        source = self.make_source()
        first, second = self.work_path("first"), self.work_path("deeper", "second")
        os.makedirs(second)  # an empty folder is accepted
        self.assertEqual(self.build(source, first)[0], 0)
        ignored = {
            "CFLAGS": "-invalid",
            "MAKEFLAGS": "--invalid",
            "KBUILD_BUILD_USER": "me",
            "SOURCE_DATE_EPOCH": "86400",
        }
        status, output = self.build(source, second, **ignored, TZ="Asia/Tokyo")
        self.assertEqual(status, 0, output)
        self.assertEqual(self.read_files(first), self.read_files(second))
        environment = self.read_files(first)["lib/modules/6.1.187/modules.builtin"].decode()
        self.assertIn("KBUILD_BUILD_TIMESTAMP=2001-09-09 01:46:40 UTC", environment)

    def test_modules_are_installed(self) -> None:
        built = self.work_path("built")
        makefile = FAKE_SOURCE["Makefile"].replace("= 6", "= 7")
        status, output = self.build(self.make_source(Makefile=makefile), built)
        self.assertEqual(status, 0, output)
        files = self.read_files(built)
        folder = "lib/modules/6.1.187/"
        self.assertEqual(files[folder + "modules.order"], b"kernel/fs/ext4/ext4.ko\n")
        self.assertEqual(files[folder + "modules.dep"], b"kernel/fs/ext4/ext4.ko:\n")
        manifest = cache.read_manifest(built)
        assert manifest
        self.assertIn(folder + "kernel/fs/ext4/ext4.ko", manifest["sizes"])

    def test_old_series_has_no_modules(self) -> None:
        built = self.work_path("built")
        self.assertEqual(self.build(self.make_source(), built)[0], 0)
        files = self.read_files(built)
        self.assertEqual(files["lib/modules/6.1.187/modules.order"], b"")

    def test_linked_libraries_are_recorded(self) -> None:
        built = self.work_path("built")
        self.assertEqual(self.build(self.make_source(), built)[0], 0)
        facts = cache.read_facts(built)
        self.assertRegex(facts["compiler"], "^gcc .*[0-9]$")
        query = ["dpkg-query", "-W", "-f", "${source:Package} ${source:Version}", "libc6-dev"]
        try:
            expected = subprocess.check_output(query, text=True).split()
        except (OSError, subprocess.CalledProcessError):
            self.skipTest("libc.a is not Debian's")
        libc = facts["linked"]["libc.a"]
        self.assertEqual([libc["source"], libc["version"]], expected)
        self.assertRegex(facts["linked"]["libgcc.a"]["source"], "^gcc-")

    def test_library_of_no_package_is_recorded_as_unknown(self) -> None:
        built, tools = self.work_path("built"), self.work_path("tools")
        os.mkdir(tools)
        library, compiler = os.path.join(tools, "libc.a"), os.path.join(tools, "gcc")
        with open(compiler, "w", encoding="ascii") as file:
            file.write(
                f'#!/bin/sh\n[ "$*" != -print-file-name=libc.a ] || exec echo {library}\n'
                f"export PATH='{os.environ['PATH']}'\n"  # ccache runs the next gcc of it
                'exec gcc "$@"\n'
            )
        os.chmod(compiler, 0o755)
        path = f"{tools}:{os.environ['PATH']}"
        status, output = self.build(self.make_source(), built, PATH=path)
        self.assertEqual(status, 0, output)
        self.assertIsNone(cache.read_facts(built)["linked"]["libc.a"])

    def test_failed_build_leaves_no_file(self) -> None:
        damages = (
            ({"Makefile": "all:\n"}, 2, "not a kernel source"),
            ({"Kconfig": "config HZ\n"}, 1, "sets HZ in another way"),
            ({"Makefile": FAKE_SOURCE["Makefile"] + "\tfalse\n"}, 1, "does not build"),
        )
        for changed_files, expected_status, message in damages:
            source = self.make_source(**changed_files)
            status, output = self.build(source, self.work_path("built"))
            self.assertEqual(status, expected_status, output)
            self.assertIn(message, output)
            self.assertEqual(os.listdir(self.work_folder), ["source.tar.xz"])

    def test_killed_build_leaves_no_file(self) -> None:
        source = self.make_source(Makefile=FAKE_SOURCE["Makefile"] + "\tsleep 600\n")
        build = subprocess.Popen(
            self.build_command(source, self.work_path("built")),
            env={"PATH": os.environ["PATH"]},
            stderr=subprocess.DEVNULL,
        )

        def is_make_asleep() -> bool:
            self.assertIsNone(build.poll(), "the build ended")
            walk = os.walk(self.work_folder)
            return any("modules.builtin.modinfo" in names for _, _, names in walk)

        self.wait_until(is_make_asleep)
        build.kill()
        build.wait()
        self.wait_until(lambda: os.listdir(self.work_folder) == ["source.tar.xz"])

    def wait_until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            time.sleep(0.05)

    def test_verbose_shows_output_of_make(self) -> None:
        source, built = self.make_source(), self.work_path("built")
        status, output = self.build(source, built, "--verbose", "--jobs", "1")
        self.assertEqual(status, 0, output)
        self.assertIn("gcc -g", output)
        source = self.make_source(Makefile=FAKE_SOURCE["Makefile"] + "\techo reason; false\n")
        status, output = self.build(source, built + "2", "--verbose")
        self.assertEqual(status, 1)
        self.assertRegex(output, r"(?s)\nreason\n.*does not build; see its output above")

    def make_unclean_tree(self) -> str:
        """A kernel tree in which a kernel was built. Returns its path."""
        tree = self.work_path("tree")
        os.makedirs(os.path.join(tree, "arch", "um"))
        version = "VERSION = 7\nPATCHLEVEL = 2\nSUBLEVEL = 1\n"
        for name, text in (("Makefile", version), ("arch/um/Kconfig", ""), (".config", "")):
            with open(os.path.join(tree, name), "w", encoding="ascii") as file:
                file.write(text)
        return tree

    def test_misuse_is_one_line_with_reason(self) -> None:
        source = self.make_source()
        full_folder = self.work_path("full")
        os.mkdir(full_folder)
        with open(self.work_path("full", "file"), "w", encoding="ascii") as file:
            file.write("not compressed")
        new = self.work_path("new")
        cases = (
            (("build", "--source", source), "need each other"),
            (("build", "--output", new), "need each other"),
            (
                ("build", "6.1", "--source", source, "--output", new),
                "the version is that of --source",
            ),
            (("build", "--source", full_folder + "/none", "--output", new), "No such file"),
            (("build", "--source", full_folder, "--output", new), "omit --output"),
            (("build", "--source", full_folder), "not a kernel source"),
            (("build", "--source", full_folder, "--name", "6.1"), "expected a letter"),
            (("build", "--source", self.make_unclean_tree()), "ARCH=um mrproper"),
            (("build", "--name", "name"), "only a kernel of a tree has a name"),
            (("list", "--name", "name"), "an option of kernel build"),
            (("build", "--source", "", "--output", new), "No such file"),
            (("build", "--source", full_folder + "/file", "--output", new), "not compressed by xz"),
            (("build", "--source", source, "--output", full_folder), "not an empty folder"),
            (
                ("build", "--source", source, "--output", full_folder + "/file"),
                "not an empty folder",
            ),
            (("build", "--source", source, "--output", ""), "expected a new folder"),
            (("build", "--jobs", "0"), "expected 1 to 1024"),
            (("list", "--source", source), "an option of kernel build"),
            (("path", "--output", new), "an option of kernel build"),
            (("fetch", "--newest"), "an option of kernel build"),
            (("build", "6.1", "--newest"), "omit --newest"),
            (("build", "--newest", "--source", source, "--output", new), "omit --newest"),
            (("fetch", "--verbose"), "an option of kernel build"),
            (("remove", "6.1", "--jobs", "2"), "an option of kernel build"),
        )
        for arguments, message in cases:
            status, output = self.softrdma("kernel", *arguments)
            self.assertEqual((status, output.count("\n")), (2, 1), f"{arguments}: {output}")
            self.assertIn(message, output)
        self.assertEqual(sorted(os.listdir(self.work_folder)), ["full", "source.tar.xz", "tree"])
        self.assertFalse(os.path.exists(os.path.join(self.cache_folder, "custom")))


if __name__ == "__main__":
    unittest.main()

# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""The module siw for a cached Debian kernel: Debian's kernels have rxe but not siw.

It is built from the kernel's source package of the same version, with the
kernel's headers. For a kernel of another Debian release, the compiler of that
release is used.
"""

import os
import re
from typing import Any, Dict, List, NamedTuple

from ..core import cache, progress, subprocesses, supervisor
from ..core.errors import LabError, Unavailable
from ..core.temporary_folders import make_work_folder
from ..debian import compiler_root, packages
from ..debian.packages import Package, Suite
from . import debian_kernels, kernel_patches
from .debian_kernels import Kernel

PATCHES_FACT = "siw"  # the manifest's fact that has the digest of the patches
GNU_TYPES = {"amd64": "x86_64-linux-gnu", "arm64": "aarch64-linux-gnu"}
# The source package has a compressed tree; only one folder of it is unpacked.
UNPACK_SCRIPT = """dpkg-deb --fsys-tarfile "$1" | tar -xO --wildcards "./usr/src/*.tar.xz" |
    tar -C "$2" -xJ --strip-components=1 --wildcards "*/$3/*" """
MAKE_ARGUMENTS = ("CONFIG_RDMA_SIW=m", "CONFIG_DEBUG_INFO_BTF_MODULES=", "modules")


def module_path(kernel: Kernel) -> str:
    return os.path.join(kernel.modules, "updates", "siw.ko")


def missing_patches(kernel: Kernel) -> List[str]:
    """The patches of siw that the module was built without."""
    return list(cache.read_facts(kernel.path).get(kernel_patches.MISSING_FACT, []))


def all_missing_patches(kernel: Kernel) -> List[str]:
    """Also those of other drivers: Debian builds them."""
    siw_names = [patch.name for patch in kernel_patches.siw_series_for(kernel.version).patches]
    all_names = [patch.name for patch in kernel_patches.series_for(kernel.version).patches]
    return missing_patches(kernel) + [name for name in all_names if name not in siw_names]


def add_to_kernel(kernel: Kernel) -> None:
    """Build the module, unless the kernel has it with the current patches."""
    with cache.lock_entry(
        debian_kernels.CACHE_KIND, kernel.arch, kernel.release
    ), supervisor.Undo() as undo:
        manifest = cache.read_manifest(kernel.path) or {"facts": {}, "sha256": []}
        series = kernel_patches.siw_series_for(kernel.version)
        is_current = manifest["facts"].get(PATCHES_FACT) == series.digest()
        if os.path.exists(module_path(kernel)) and is_current:
            return
        cache.require_space(megabytes=800, purpose=f"building siw for kernel {kernel.release}")
        work_folder = make_work_folder(undo, "siw")
        needed = _find_packages(kernel)
        tree = _unpack_source(kernel, needed.source, work_folder)
        missing = series.apply(tree, kernel_patches.upstream_version(kernel.version))
        folder = os.path.join(tree, kernel_patches.SIW_DIR)
        if kernel.suite.removesuffix("-backports") == packages.running_release():
            built = _build_with_own_compiler(kernel, needed, folder, work_folder)
        else:
            built = _build_with_suite_compiler(kernel, needed, folder, work_folder)
        os.makedirs(os.path.dirname(module_path(kernel)), exist_ok=True)
        depmod = subprocesses.require_program("depmod", "kmod", "adding siw")
        with supervisor.defer_signals():
            os.rename(built, module_path(kernel))
            subprocesses.capture_output([depmod, "-b", kernel.path, kernel.release])
            hashed_files = dict.fromkeys(manifest["sha256"])
            hashed_files[os.path.relpath(module_path(kernel), kernel.path)] = None
            facts: Dict[str, Any] = {**manifest["facts"], PATCHES_FACT: series.digest()}
            facts[kernel_patches.MISSING_FACT] = missing
            cache.write_manifest(kernel.path, facts, [*hashed_files])


class _Packages(NamedTuple):
    source: Package
    tools: List[Package]  # programs of the kernel's build system
    headers: List[Package]  # of the kernel, then those it shares with others


def _build_with_own_compiler(
    kernel: Kernel, needed: _Packages, folder: str, work_folder: str
) -> str:
    """With this machine's compiler. Returns the path of the module, as does the function below."""
    root, tool_downloads = os.path.join(work_folder, "root"), os.path.join(work_folder, "tools")
    os.makedirs(root)
    os.makedirs(tool_downloads)
    subprocesses.require_program("make", "make", "building siw")
    debs = Suite(kernel.suite, kernel.arch).download(needed.headers, work_folder)
    debs += Suite(kernel.suite, packages.machine_arch()).download(needed.tools, tool_downloads)
    packages.unpack_and_delete(debs, root, f"the headers of kernel {kernel.release}")
    return _compile(kernel, root, folder)


def _build_with_suite_compiler(
    kernel: Kernel, needed: _Packages, folder: str, work_folder: str
) -> str:
    """With the compiler of the kernel's release, in its own root."""
    cache.require_space(megabytes=2500, purpose=f"the compiler of {kernel.suite}")
    suite = Suite(kernel.suite, kernel.arch)
    main_headers = needed.headers[0]
    if kernel.arch == packages.machine_arch():
        tool_prefix = ""
        names = [f"{main_headers.name}={main_headers.version}"]
        root = compiler_root.make_root(suite, names, work_folder)
    else:
        # The headers are of the kernel's architecture, so they do not depend on programs of this one.
        tool_prefix = GNU_TYPES[kernel.arch] + "-"
        names = [f"{package.name}={package.version}" for package in needed.tools]
        names.append(cross_compiler_package(main_headers, kernel.arch))
        native_suite = Suite(kernel.suite, packages.machine_arch())
        root = compiler_root.make_root(native_suite, names, work_folder)
        debs = suite.download(needed.headers, work_folder)
        packages.unpack_and_delete(debs, root, f"the headers of kernel {kernel.release}")
    os.rename(folder, os.path.join(root, "siw"))
    make = ["make", "-C", f"/usr/src/{main_headers.name}", "M=/siw", *MAKE_ARGUMENTS]
    strip = [tool_prefix + "strip", "--strip-debug", "/siw/siw.ko"]
    title = f"building siw for kernel {kernel.release}"
    compiler_root.run_in_root(root, make, _make_environment(kernel), title)
    compiler_root.run_in_root(root, strip, {}, "stripping siw")
    return os.path.join(root, "siw", "siw.ko")


def cross_compiler_package(headers: Package, arch: str) -> str:
    """The package of the cross compiler with the version that the headers depend on."""
    for name in headers.depends:
        compiler = re.match(r"gcc-\d+", name)
        if compiler:
            return f"{compiler.group()}-{GNU_TYPES[arch]}"
    raise Unavailable(f"{headers.name} depends on no compiler, so siw cannot be built")


def _find_packages(kernel: Kernel) -> _Packages:
    """What building siw needs. Raises if the mirror no longer has the kernel's version."""
    suite = Suite(kernel.suite, kernel.arch)
    suite.update_lists()
    main_headers = suite.find_package(f"linux-headers-{kernel.release}", kernel.version)
    source_names = suite.find_names(r"^linux-source-[0-9.]+$")
    sources = [suite.find_package(name, kernel.version) for name in source_names]
    source = next((package for package in sources if package), None)
    if not main_headers or not source:
        raise Unavailable(
            f"siw needs the source of kernel {kernel.release} ({kernel.version}), which {kernel.suite} no longer has; "
            f"fetch its newest kernel: softrdma kernel remove {kernel.release}, then try again"
        )
    native_suite = Suite(kernel.suite, packages.machine_arch())
    native_suite.update_lists()
    tools = [
        package
        for package in map(native_suite.find_package, main_headers.depends)
        if package and package.name.startswith("linux-kbuild-")
    ]
    common_headers = [
        package
        for package in map(suite.find_package, main_headers.depends)
        if package and re.match(r"linux-headers-.*-common", package.name)
    ]
    return _Packages(source, tools, [main_headers, *common_headers])


def _unpack_source(kernel: Kernel, source: Package, work_folder: str) -> str:
    """Unpack siw's folder of the kernel's source. Returns the folder of the source."""
    (source_deb,) = Suite(kernel.suite, kernel.arch).download([source], work_folder)
    tree = os.path.join(work_folder, "source")
    os.mkdir(tree)
    with progress.Step(f"unpacking siw from {source.name}", expected_seconds=8) as step:
        subprocesses.run_long(
            ["sh", "-c", UNPACK_SCRIPT, "sh", source_deb, tree, kernel_patches.SIW_DIR],
            "cannot unpack the kernel's source",
            on_progress=lambda _: step.update(None),
        )
    os.unlink(source_deb)
    if not os.path.isdir(os.path.join(tree, kernel_patches.SIW_DIR)):
        raise LabError("the kernel's source package has no siw")
    return tree


def _compile(kernel: Kernel, root: str, folder: str) -> str:
    """Build siw in its source folder, with the headers below root. Returns the module's path."""
    headers = os.path.join(root, "usr", "src", f"linux-headers-{kernel.release}")
    makefile = os.path.join(headers, "Makefile")
    with open(makefile, encoding="utf-8") as file:
        text = file.read()
    # It includes the Makefile of the common headers by an absolute path.
    with open(makefile, "w", encoding="utf-8") as file:
        file.write(text.replace("/usr/src/", os.path.join(root, "usr", "src") + "/"))
    # Debian's headers name the kernel's compiler in this file.
    with open(os.path.join(headers, ".kernelvariables"), encoding="utf-8") as file:
        compiler = re.search(r"\bgcc-\d+", file.read())
    is_cross_build = kernel.arch != packages.machine_arch()
    prefix = GNU_TYPES[kernel.arch] + "-" if is_cross_build else ""
    suffix = "-" + GNU_TYPES[kernel.arch] if is_cross_build else ""
    gcc = compiler.group() if compiler else "gcc"
    title = f"building siw for kernel {kernel.release}"
    subprocesses.require_program(prefix + gcc, gcc + suffix, title)
    strip = subprocesses.require_program(prefix + "strip", "binutils" + suffix, "building siw")
    with progress.Step(title, expected_seconds=10) as step:
        subprocesses.run_long(
            ["make", "-C", headers, f"M={folder}", *MAKE_ARGUMENTS],
            f"siw does not build for kernel {kernel.release}",
            on_progress=lambda _: step.update(None),
            env=_make_environment(kernel),
        )
    module = os.path.join(folder, "siw.ko")
    subprocesses.capture_output([strip, "--strip-debug", module])
    return module


def _make_environment(kernel: Kernel) -> Dict[str, str]:
    """The environment of make; Debian's headers select the compiler by these variables."""
    return dict(
        os.environ,
        DEB_BUILD_ARCH=packages.machine_arch(),
        DEB_HOST_ARCH=kernel.arch,
        DEB_HOST_GNU_TYPE=GNU_TYPES[kernel.arch],
    )

# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""User-mode kernels: those that were built into the cache, and those of a package.

The name and the manifest of a kernel have a digest of its configuration
(uml.config) and of the patches of its source. A kernel with another digest is
outdated and is not run.
"""

import hashlib
import os
import re
import shutil
from typing import Callable, List, NamedTuple, Optional

from .. import LAB_DIR
from ..core import cache, progress, subprocesses, trust
from ..core.errors import LabError, Unavailable
from ..core.versions import natural_key
from . import kernel_patches, pinned_kernel

CACHE_KIND = "uml"
PROGRAM = "linux"
BUILTIN_LISTS = ("modules.builtin", "modules.builtin.modinfo")
MODULE_LIST = "modules.order"
TREE_SUFFIX = ".tree"  # of the tree of a build that a signal ended
CONFIG_FILE = os.path.join(LAB_DIR, "kernel", "uml.config")
MODULES_CONFIG_FILE = os.path.join(LAB_DIR, "kernel", "uml_modules.config")
# Up to this series the vector driver depends on an option, and there are no modules: with some C libraries user mode
# exports functions to them that are not there (__xmknod).
LAST_OLD_SERIES = "6.12"
OLD_SERIES_CONFIG = b"CONFIG_UML_NET=y\n"


class UmlKernel(NamedTuple):
    series: str
    version: str
    path: str
    is_current: bool  # has the current configuration and patches
    is_packaged: bool  # is installed, not in the cache
    is_pinned: bool
    config: str  # the digest of its configuration and patches


class BootKernel(NamedTuple):
    """What a run needs of a kernel."""

    program: str
    version: str
    is_custom: bool  # the caller has built it
    build_folder: Optional[str]  # of the caller's kernel, if it is known
    modules: Optional[str]  # the folder lib/modules; None: it has to be made
    missing_patches: List[str]
    max_processors: Optional[int]  # None: not known


def find_boot_kernel(series: Optional[str] = None) -> BootKernel:
    """As find_kernel()."""
    kernel = find_kernel(series)
    return BootKernel(
        program=os.path.join(kernel.path, PROGRAM),
        version=kernel.version,
        is_custom=False,
        build_folder=None,
        modules=os.path.join(kernel.path, "lib", "modules"),
        missing_patches=missing_patches(kernel.path),
        max_processors=max_processors(kernel.path),
    )


def find_kernel(series: Optional[str] = None) -> UmlKernel:
    """The kernel to run: the newest of the series; without a series the pinned one, else the newest."""
    matching = [kernel for kernel in known_kernels() if _is_of_series(kernel, series)]
    usable = [kernel for kernel in matching if kernel.is_current]
    if not usable:
        raise _missing_kernel_error(series, matching)
    # Of two equal ones the packaged one, which all users share.
    selected = max(
        usable,
        key=lambda kernel: (
            kernel.is_pinned and not series,
            natural_key(kernel.version),
            kernel.is_packaged,
        ),
    )
    damage = cache.find_damage(selected.path)
    if damage:
        remedy = "build it again: softrdma kernel build"
        if not selected.is_pinned or series:
            remedy += f" {selected.series}"
        if selected.is_packaged:
            remedy = trust.reinstall_remedy()
        raise LabError(
            f"the user-mode kernel {selected.version} in {progress.abbreviate_home(selected.path)} is damaged ({damage}); {remedy}"
        )
    return selected


def _missing_kernel_error(series: Optional[str], matching: List[UmlKernel]) -> LabError:
    """matching: the kernels of the series, all of them outdated."""
    series_text = f" {series}" if series else ""
    text = f"no user-mode kernel{series_text} is built"
    remedy = f"build one: softrdma kernel build{series_text}"
    outdated = [kernel for kernel in matching if kernel.is_packaged]
    unreadable = [
        path for path in _list_folders(package_folder()) if cache.read_manifest(path) is None
    ]
    if outdated:
        text += f", and {outdated[0].path} has another configuration than this softrdma's"
        if trust.is_debian_package():
            remedy += f", or install both packages in one version: apt install softrdma {trust.KERNEL_PACKAGE}"
        else:
            remedy += f", or {trust.reinstall_remedy()}"
    elif unreadable:
        text += f", and {unreadable[0]} is damaged (its manifest is missing or broken)"
        remedy += f", or {trust.reinstall_remedy()}"
    elif trust.is_debian_package() and not series:
        remedy += f", or install it: apt install {trust.KERNEL_PACKAGE}"
    return Unavailable(f"{text}; {remedy}")


def is_built(series: Optional[str] = None) -> bool:
    """Whether find_kernel() has a kernel to return."""
    return any(kernel.is_current and _is_of_series(kernel, series) for kernel in known_kernels())


def missing_patches(path: str) -> List[str]:
    """The patches that the kernel in the folder was built without."""
    return list(cache.read_facts(path).get(kernel_patches.MISSING_FACT, []))


def max_processors(path: str) -> int:
    """How many processors the kernel in the folder supports: old series only one."""
    if cache.read_facts(path).get("processors") == 1:
        return 1
    with open(CONFIG_FILE, encoding="ascii") as file:
        return int(re.findall(r"^CONFIG_NR_CPUS=(\d+)$", file.read(), re.MULTILINE)[0])


def install_modules(
    tree: str, path: str, add: Callable[[str, str], object] = shutil.copyfile
) -> None:
    """Make path/lib/modules/RELEASE of a built tree: its modules, and what modprobe reads of them and of the built-in ones.

    add(file, target): copies a module, or makes a link to it.
    """
    with open(os.path.join(tree, "include", "config", "kernel.release"), encoding="ascii") as file:
        release = file.read().strip()
    folder = os.path.join(path, "lib", "modules", release)
    os.makedirs(folder)
    for name in BUILTIN_LISTS:
        shutil.copy2(os.path.join(tree, name), folder)
    with open(os.path.join(folder, MODULE_LIST), "w", encoding="ascii") as file:
        for module in _built_modules(tree):
            target = os.path.join("kernel", module)
            os.makedirs(os.path.dirname(os.path.join(folder, target)), exist_ok=True)
            add(os.path.join(tree, module), os.path.join(folder, target))
            file.write(target + "\n")
    depmod = subprocesses.require_program("depmod", "kmod", "a kernel's list of modules")
    subprocesses.capture_output([depmod, "-b", path, release])


def make_targets(build_folder: str) -> List[str]:
    """What make has to build in a configured folder."""
    with open(os.path.join(build_folder, ".config"), encoding="utf-8") as file:
        has_modules = "CONFIG_MODULES=y\n" in file.readlines()
    return [PROGRAM, *(["modules"] if has_modules else [])]


def _built_modules(tree: str) -> List[str]:
    """The modules that make has built in the tree, relative to it. None if it built only the kernel."""
    try:
        with open(os.path.join(tree, MODULE_LIST), encoding="ascii") as file:
            # Some versions list the objects that make links into modules.
            modules = [os.path.splitext(line)[0] + ".ko" for line in file.read().split()]
    except FileNotFoundError:
        return []
    return [module for module in modules if os.path.isfile(os.path.join(tree, module))]


def series_matches(series: str, wanted_series: str) -> bool:
    return series == wanted_series or series.startswith(wanted_series + ".")


def _is_of_series(kernel: UmlKernel, series: Optional[str]) -> bool:
    return series is None or series_matches(kernel.series, series)


def known_kernels() -> List[UmlKernel]:
    """The kernels in the cache and in the package."""
    kernels = []
    for folder, is_packaged in ((cache.find_folder(CACHE_KIND), False), (package_folder(), True)):
        for path in _list_folders(folder):
            if {"series", "version", "config"} <= set(cache.read_facts(path)):
                kernels.append(make_kernel(path, is_packaged))
    return kernels


def make_kernel(path: str, is_packaged: bool) -> UmlKernel:
    """The kernel in the folder, whose manifest is complete."""
    facts = cache.read_facts(path)
    return UmlKernel(
        series=facts["series"],
        version=facts["version"],
        path=path,
        is_current=facts["config"] == config_digest(facts["series"]),
        is_packaged=is_packaged,
        is_pinned=pinned_kernel.read_pin().is_version(facts["version"], is_packaged),
        config=facts["config"],
    )


class UnfinishedBuild(NamedTuple):
    series: str
    version: str
    path: str


def unfinished_builds() -> List[UnfinishedBuild]:
    """The trees of builds that run, or that a signal ended."""
    builds = []
    for path in _list_folders(cache.find_folder(CACHE_KIND), TREE_SUFFIX):
        version = os.path.basename(path).removesuffix(TREE_SUFFIX).rpartition("-")[0]
        builds.append(UnfinishedBuild(".".join(version.split(".")[:2]), version, path))
    return builds


def package_folder() -> Optional[str]:
    """The folder of the installation's kernels, which is trusted; None if there is none."""
    for folder in trust.package_folders():
        path = os.path.join(folder, CACHE_KIND)
        if os.path.isdir(path):
            trust.require_trusted_place(path)
            trust.require_trusted_folder(path)
            return path
    return None


def _list_folders(folder: Optional[str], suffix: str = "") -> List[str]:
    """The folders with the suffix; without one, the complete kernels."""
    if not folder:
        return []
    paths = [os.path.join(folder, name) for name in sorted(os.listdir(folder))]
    paths = [path for path in paths if os.path.isdir(path) and not os.path.islink(path)]
    if suffix:
        return [path for path in paths if path.endswith(suffix)]
    return [path for path in paths if not path.endswith((".part", TREE_SUFFIX))]


def read_config(series: str) -> bytes:
    """The configuration of a kernel of the series."""
    with open(CONFIG_FILE, "rb") as file:
        config = file.read()
    if is_old_series(series):
        return config + OLD_SERIES_CONFIG
    with open(MODULES_CONFIG_FILE, "rb") as file:
        return config + file.read()


def is_old_series(series: str) -> bool:
    return natural_key(series) <= natural_key(LAST_OLD_SERIES)


def config_digest(series: str) -> str:
    key = read_config(series) + kernel_patches.series_for(series).digest().encode()
    return hashlib.sha256(key).hexdigest()[:8]

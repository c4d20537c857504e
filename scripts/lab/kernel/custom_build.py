# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Builds a user-mode kernel from a kernel tree of the caller, which is not changed.

The build folder is in the cache. It is one of make's (O=): a second build compiles what was changed,
and the caller can change its .config. The kernel has debug information. softrdma's patches are not
applied: a tree runs without them, and can have them by git.
"""

import os
import re
import shlex
from typing import List, NamedTuple, Optional

from ..core import cache, progress, subprocesses, trust
from ..core.errors import UsageError
from . import custom_kernels, uml_build, uml_kernels
from .custom_kernels import NAME
from .uml_kernels import PROGRAM

CACHE_KIND = "custom"
NEEDED_MEGABYTES = 1500
# By these make would build in another place, or something else.
IGNORED_VARIABLES = re.compile(
    r"(KBUILD_OUTPUT|KBUILD_EXTMOD|KCONFIG_\w+|M|O|ARCH|SUBARCH|(GNU)?MAKEFLAGS|MFLAGS)$"
)
DEBUG_CONFIG = b"CONFIG_DEBUG_KERNEL=y\nCONFIG_DEBUG_INFO_DWARF_TOOLCHAIN_DEFAULT=y\n"
# By these make knows that a kernel was built in the tree itself.
BUILT_FILES = (".config", "include/config", "arch/x86/include/generated")
UML_HEADERS = "arch/um/include/generated"


class NamedKernel(NamedTuple):
    """A kernel that softrdma built from a tree of the caller."""

    name: str
    build_folder: str

    @property
    def version(self) -> str:
        """The release of the kernel; "?" before its first build."""
        try:
            path = os.path.join(self.build_folder, "include", "config", "kernel.release")
            with open(path, encoding="utf-8") as file:
                return file.read().strip()
        except OSError:
            return "?"

    @property
    def is_built(self) -> bool:
        return os.path.isfile(os.path.join(self.build_folder, PROGRAM))


def named_kernels() -> List[NamedKernel]:
    """Those in the cache."""
    folder = cache.find_folder(CACHE_KIND)
    names = sorted(os.listdir(folder)) if folder else []
    paths = [(name, os.path.join(folder or "", name)) for name in names]
    return [
        NamedKernel(name, path)
        for name, path in paths
        if os.path.isfile(os.path.join(path, ".config")) and not os.path.islink(path)
    ]


def resolve(argument: str) -> str:
    """The path of the kernel that --kernel names by its path, or by the name of a build."""
    if custom_kernels.is_path(argument):
        return argument
    names = [kernel.name for kernel in named_kernels()]
    if argument not in names:
        others = f" (those with a name: {', '.join(names)})" if names else ""
        if os.path.exists(argument):
            raise UsageError(
                f"--kernel {argument}: a path has a slash; type: --kernel ./{argument}"
            )
        raise UsageError(
            f"--kernel {argument}: expected a version such as 6.1 or a release such as 6.1.0-9-amd64, a path, or a name of "
            f"kernel build{others}; type: softrdma kernel build --source TREE --name {argument}"
        )
    path = cache.find_folder(CACHE_KIND, argument)
    assert path
    if os.path.lexists(os.path.join(path, PROGRAM)):
        trust.require_trusted(os.path.join(path, PROGRAM), entry=path)
    return path


def build(
    source: str, name: Optional[str], options: uml_build.BuildOptions = uml_build.BuildOptions()
) -> NamedKernel:
    """Build the tree's kernel, or build it again. name: None: that of the tree's folder."""
    tree = os.path.realpath(source)
    name = _check_name(source, tree, name)
    series, _ = uml_build.read_version(tree, source)
    _check_tree(tree)
    uml_build.require_tools()
    with cache.lock_entry(CACHE_KIND, name):
        folder = cache.make_cache_folder(CACHE_KIND, name)
        _check_origin(tree, name, folder)
        is_new = not os.path.exists(os.path.join(folder, ".config"))
        if is_new:
            cache.require_space(NEEDED_MEGABYTES, f"building {name}")
            _configure(tree, folder, series)
        else:
            _make(tree, folder, ["-s", "olddefconfig"], "the kernel cannot be configured")
        title = "building the user-mode kernel" if is_new else "building what has changed"
        seconds = uml_build.EXPECTED_SECONDS if is_new else None
        with progress.Step(title, expected_seconds=seconds) as step:
            _make(
                tree,
                folder,
                [
                    f"-j{options.jobs or len(os.sched_getaffinity(0))}",
                    *(["V=1"] if options.verbose else []),
                    *uml_kernels.make_targets(folder),
                ],
                "the user-mode kernel does not build",
                step=None if options.verbose else step,
            )
    return NamedKernel(name, folder)


def _check_name(source: str, tree: str, name: Optional[str]) -> str:
    if name is None:
        name = os.path.basename(tree)
        if not NAME.fullmatch(name):
            raise UsageError(
                f"--source {source}: the folder's name is no name for a kernel, which begins with a letter; add: --name NAME"
            )
    if not NAME.fullmatch(name) or name.endswith((".lock", cache.PART_SUFFIX)):
        raise UsageError(
            f"--name {name}: expected a letter, and then letters, digits and the characters . _ + -"
        )
    return name


def _check_tree(tree: str) -> None:
    """Raise if the tree has no user mode, or if it has a build in it."""
    if not os.path.isfile(os.path.join(tree, "arch", "um", "Kconfig")):
        raise UsageError(f"--source {tree}: it has no user mode (arch/um); expected a kernel tree")
    if any(os.path.exists(os.path.join(tree, path)) for path in (*BUILT_FILES, UML_HEADERS)):
        raise UsageError(
            f"--source {tree}: a kernel was built in the tree itself, and make builds into another folder only from a clean tree; "
            f"type: make -C {shlex.quote(tree)} ARCH=um mrproper (this removes the tree's .config; keep a copy), "
            f"or, if that is a user-mode kernel, run it: softrdma run --kernel {shlex.quote(tree)}"
        )


def _check_origin(tree: str, name: str, folder: str) -> None:
    """Raise if the build folder is that of another tree."""
    other = custom_kernels.find_source(folder)
    if other and other != tree:
        raise UsageError(
            f"the kernel {name} was built from {other}; choose another name with --name, or type: softrdma kernel remove {name}"
        )


def _configure(tree: str, folder: str, series: str) -> None:
    config = os.path.join(folder, "softrdma.config")
    with open(config, "wb") as binary:
        binary.write(uml_kernels.read_config(series) + DEBUG_CONFIG)
    try:
        arguments = ["-s", f"KCONFIG_ALLCONFIG={config}", "allnoconfig"]
        _make(tree, folder, arguments, "the kernel cannot be configured")
    except BaseException:  # also a signal: without .config the folder would not be listed
        cache.discard_folder(folder)
        raise


def _make(
    tree: str,
    folder: str,
    arguments: List[str],
    error_text: str,
    step: Optional[progress.Step] = None,
) -> None:
    """Run make in the build folder, with the caller's environment but IGNORED_VARIABLES."""

    def show_progress(output_bytes: int) -> None:
        if step:
            step.update(min(output_bytes / uml_build.EXPECTED_OUTPUT_BYTES, 0.99))

    is_verbose = "V=1" in arguments
    environment = {
        name: value for name, value in os.environ.items() if not IGNORED_VARIABLES.match(name)
    }
    subprocesses.run_long(
        ["make", "-C", tree, "ARCH=um", f"O={folder}", *arguments],
        error_text,
        on_progress=None if is_verbose else show_progress,
        show_output=is_verbose,
        env=environment,
    )

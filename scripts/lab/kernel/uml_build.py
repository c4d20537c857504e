# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Builds a user-mode kernel from a kernel source of Debian.

A build into the cache that a signal ends leaves its tree; the next build of that kernel continues
there, and a build of another kernel removes it.
"""

import json
import os
import re
import shutil
import stat
import time
from typing import Any, Callable, Dict, List, NamedTuple, Optional

from ..core import cache, mounts, progress, subprocesses, supervisor, trust
from ..core.errors import LabError, Unavailable, UsageError
from ..core.versions import natural_key
from ..core.temporary_folders import make_work_folder
from ..debian import packages
from ..debian.packages import Package, Suite
from . import kernel_patches, linked_libraries, pinned_kernel
from .uml_kernels import (
    CACHE_KIND,
    PROGRAM,
    TREE_SUFFIX,
    UmlKernel,
    config_digest,
    install_modules,
    known_kernels,
    make_kernel,
    make_targets,
    read_config,
    series_matches,
    unfinished_builds,
)

EXPECTED_SECONDS = 450.0  # on two processors
EXPECTED_OUTPUT_BYTES = 79_000  # of make: its progress
TOOL_PACKAGES = {
    "make": "make",
    "gcc": "gcc",
    "flex": "flex",
    "bison": "bison",
    "bc": "bc",
    "git": "git",
    "xz": "xz-utils",
    "strip": "binutils",
    "depmod": "kmod",
}
# The versions of programs that the build does not use would be in the kernel's configuration, and so in its program.
MAKE = ("make", "ARCH=um", "RUSTC=none", "PAHOLE=none")
REQUIRED_OPTIONS = ("RDMA_RXE", "RDMA_SIW", "HOSTFS", "OVERLAY_FS", "SSL", "STATIC_LINK")
# A large part of the tree that the build does not need.
EXCLUDED_PATHS = ("*/tools/testing/*", "*/drivers/gpu/drm/amd/include/*", "*/arch/arm*/boot/*")
UNPACK_TAR = 'tar -C "$tree" -xJ --no-same-owner --strip-components=1 "$@"'
UNPACK_SOURCE = "archive=$1 tree=$2; shift 2; " + UNPACK_TAR + ' -f "$archive"'
UNPACK_SOURCE_PACKAGE = f"""deb=$1 tree=$2; shift 2
    dpkg-deb --fsys-tarfile "$deb" | tar -xO --wildcards "./usr/src/*.tar.xz" | {UNPACK_TAR}"""
FACTS_FILE = "softrdma.facts"  # in a prepared tree
XZ_MAGIC = b"\xfd7zXZ\0"


class BuildOptions(NamedTuple):
    jobs: int = 0  # 0: one for each processor
    verbose: bool = False  # print the output of make instead of progress


def build_pinned(options: BuildOptions = BuildOptions()) -> UmlKernel:
    """Build the pinned kernel into the cache, unless the cache or the package has it."""
    pin = pinned_kernel.read_pin()
    for kernel in known_kernels():
        if kernel.is_pinned and kernel.is_current and not cache.find_damage(kernel.path):
            return kernel
    require_tools()
    return _build_into_cache(
        pin.series, pin.version, lambda folder: pinned_kernel.download(pin, folder), options
    )


def build_newest(series: Optional[str], options: BuildOptions = BuildOptions()) -> UmlKernel:
    """Build the newest kernel, of the series if one is given, into the cache."""
    require_tools()
    suite, source = find_newest_source(series)
    series = source.name.removeprefix(pinned_kernel.SOURCE_PREFIX)

    def download(folder: str) -> str:
        (deb,) = suite.download([source], folder)
        return deb

    return _build_into_cache(series, source.version, download, options)


def _build_into_cache(
    series: str, version: str, download: Callable[[str], str], options: BuildOptions
) -> UmlKernel:
    """download(folder): the path of the source package."""
    name = f"{version}-{config_digest(series)}"

    def build_entry(path: str) -> Dict[str, Any]:
        cache.require_space(megabytes=3000, purpose=f"building user-mode kernel {series}")
        with supervisor.Undo() as undo:
            kept_tree = cache.cache_path(CACHE_KIND, name + TREE_SUFFIX)
            _remove_other_trees(kept_tree)
            if _can_continue(kept_tree):
                progress.note(f"continuing the build in {progress.abbreviate_home(kept_tree)}")
            else:
                work_folder = make_work_folder(undo, "uml")
                tree = os.path.join(work_folder, "tree")
                os.mkdir(tree, 0o700)
                deb = download(work_folder)
                _unpack(UNPACK_SOURCE_PACKAGE, deb, tree)
                os.unlink(deb)
                _prepare_tree(tree, series, kernel_patches.upstream_version(version))
                os.rename(tree, kept_tree)
            try:
                facts = _build_tree(kept_tree, path, options)
            except Exception:  # not a signal: it would fail again
                remove_tree(kept_tree)
                raise
            remove_tree(kept_tree)
            return {"series": series, "version": version, **facts}

    path = cache.get_or_build(CACHE_KIND, name, build_entry, [PROGRAM])
    return make_kernel(path, is_packaged=False)


def _can_continue(tree: str) -> bool:
    """Whether there is a tree that no other user could enter. Another one is removed.

    The modes of the files in it do not matter then: an archive may let a group write them.
    """
    if not os.path.lexists(tree):
        return False
    trust.require_trusted_folder(tree)
    if stat.S_IMODE(os.lstat(tree).st_mode) & 0o077 == 0:
        return True
    progress.note(f"{progress.abbreviate_home(tree)} is open to other users; starting again")
    remove_tree(tree)
    return False


def remove_tree(tree: str) -> None:
    """Remove a kept tree. What a process that is killed leaves of it has another name: no build continues there."""
    mounts.require_no_mounts(tree)
    with supervisor.Undo() as undo:
        renamed = os.path.join(make_work_folder(undo, "uml"), "tree")
        os.rename(tree, renamed)
        cache.remove_folder(renamed)


def _remove_other_trees(kept_tree: str) -> None:
    """Remove the trees of other unfinished builds, unless such a build runs."""
    for other in unfinished_builds():
        entry = os.path.basename(other.path).removesuffix(TREE_SUFFIX)
        if other.path == kept_tree:
            continue
        with cache.lock_entry(CACHE_KIND, entry, wait=False) as is_locked:
            if is_locked:
                remove_tree(other.path)


def build_in_folder(source: str, folder: str, options: BuildOptions = BuildOptions()) -> UmlKernel:
    """Build a kernel from a source file into a new folder, without network and cache."""
    folder = os.path.abspath(folder)
    _check_source(source)
    if os.path.lexists(folder) and not (os.path.isdir(folder) and not os.listdir(folder)):
        raise UsageError(
            f"--output {folder}: it exists and is not an empty folder; remove it, or choose another"
        )
    require_tools()
    parent = os.path.dirname(folder)
    with supervisor.Undo() as undo:
        work_folder = (
            f"{folder}.{os.urandom(4).hex()}.part"  # on the same file system, for rename()
        )
        undo.enter_context(cache.safe_umask())
        try:
            os.makedirs(parent, exist_ok=True)
            with supervisor.defer_signals():
                os.mkdir(work_folder)
                undo.callback(cache.discard_folder, work_folder)
        except OSError as problem:
            raise Unavailable(
                f"--output {folder}: cannot make a folder in {parent}: {problem.strerror}; choose a writable one"
            ) from problem
        cache.require_space(
            3000, "building a user-mode kernel", parent, "choose another folder with --output"
        )
        tree, path = os.path.join(work_folder, "tree"), os.path.join(work_folder, "made")
        os.mkdir(tree)
        os.mkdir(path)
        _unpack(UNPACK_SOURCE, os.path.abspath(source), tree)
        series, version = read_version(tree, source)
        _prepare_tree(tree, series, version)
        facts = _build_tree(tree, path, options)
        cache.write_manifest(path, {"series": series, "version": version, **facts}, [PROGRAM])
        with supervisor.defer_signals():
            os.rename(path, folder)
    return make_kernel(folder, is_packaged=False)


def _check_source(path: str) -> None:
    try:
        with open(path, "rb") as file:
            magic = file.read(len(XZ_MAGIC))
    except OSError as problem:
        raise UsageError(
            f"--source {path or chr(39) * 2}: {problem.strerror}; expected a file such as /usr/src/linux-source-6.1.tar.xz "
            "of Debian's package linux-source"
        ) from problem
    if magic != XZ_MAGIC:
        raise UsageError(f"--source {path}: not compressed by xz; expected a tar.xz")


def read_version(tree: str, source: str) -> "tuple[str, str]":
    """The series and the version of the source, such as 6.1 and 6.1.187."""
    try:
        with open(os.path.join(tree, "Makefile"), encoding="utf-8") as file:
            variables = dict(re.findall(r"^([A-Z]+) *=[ \t]*(\S*)$", file.read(), re.MULTILINE))
        series = f"{int(variables['VERSION'])}.{int(variables['PATCHLEVEL'])}"
        version = f"{series}.{int(variables['SUBLEVEL'])}{variables.get('EXTRAVERSION', '')}"
    except (OSError, KeyError, ValueError):
        raise UsageError(
            f"--source {source}: not a kernel source (its Makefile lacks VERSION, PATCHLEVEL or SUBLEVEL)"
        ) from None
    return series, version


def require_tools() -> None:
    if packages.machine_arch() != "amd64":
        raise Unavailable(
            f"a user-mode kernel needs amd64, and this machine is {packages.machine_arch()}; use: --in qemu"
        )
    subprocesses.require_programs(TOOL_PACKAGES, "building a user-mode kernel")


def _unpack(script: str, archive: str, tree: str) -> None:
    """script: UNPACK_SOURCE for a tar.xz, UNPACK_SOURCE_PACKAGE for a Debian package."""
    excludes = [f"--exclude={pattern}" for pattern in EXCLUDED_PATHS]
    with progress.Step("unpacking the kernel's source", expected_seconds=25) as step:
        subprocesses.run_long(
            ["sh", "-c", script, "sh", archive, tree, *excludes],
            f"cannot unpack the kernel's source {os.path.basename(archive)}",
            on_progress=lambda _: step.update(None),
        )


def _prepare_tree(tree: str, series: str, version: str) -> None:
    """Patch and configure the unpacked source, and store the facts for the manifest in it."""
    missing_patches = kernel_patches.series_for(version).apply(tree, version)
    unknown_options = _configure(tree, _make_environment(tree), series)
    facts = {
        "config": config_digest(series),
        "processors": 1 if "SMP" in unknown_options else 2,
        kernel_patches.MISSING_FACT: missing_patches,
    }
    with open(os.path.join(tree, FACTS_FILE), "w", encoding="utf-8") as file:
        json.dump(facts, file)


def _build_tree(tree: str, path: str, options: BuildOptions) -> Dict[str, Any]:
    """Build the prepared tree, and copy what is kept to path. Returns facts for the manifest."""
    jobs = options.jobs or len(os.sched_getaffinity(0))
    argv = [*MAKE, "-C", tree, f"-j{jobs}", *(["V=1"] if options.verbose else [])]
    argv += make_targets(tree)
    with progress.Step("building the user-mode kernel", expected_seconds=EXPECTED_SECONDS) as step:

        def show_progress(output_bytes: int) -> None:
            step.update(min(output_bytes / EXPECTED_OUTPUT_BYTES, 0.99))

        subprocesses.run_long(
            argv,
            "the user-mode kernel does not build",
            on_progress=None if options.verbose else show_progress,
            show_output=options.verbose,
            env=_make_environment(tree),
        )
    _copy_results(tree, path)
    with open(os.path.join(tree, FACTS_FILE), encoding="utf-8") as file:
        return {**json.load(file), **linked_libraries.read_facts(_make_environment(tree))}


def _make_environment(tree: str) -> Dict[str, str]:
    """The environment of make, by which the same source gives the same bytes in any folder at any time."""
    inherited = {
        name: value
        for name, value in os.environ.items()
        if name in ("PATH", "HOME", "TMPDIR") or name.startswith("CCACHE_")
    }
    date = time.gmtime(os.stat(os.path.join(tree, "Makefile")).st_mtime)  # of the source
    prefix_maps = f"-ffile-prefix-map={tree}/= -ffile-prefix-map={tree}=."
    return {
        **inherited,
        "LC_ALL": "C",
        "TZ": "UTC",
        "KBUILD_BUILD_TIMESTAMP": time.strftime("%Y-%m-%d %H:%M:%S UTC", date),
        "KBUILD_BUILD_USER": "softrdma",
        "KBUILD_BUILD_HOST": "softrdma",
        "KBUILD_BUILD_VERSION": "1",
        "KCFLAGS": prefix_maps,
        "KAFLAGS": prefix_maps,
    }


def _copy_results(tree: str, path: str) -> None:
    """Copy the program and the modules."""
    shutil.copy2(os.path.join(tree, PROGRAM), path)
    strip = subprocesses.require_program("strip", "binutils", "building a kernel")
    subprocesses.capture_output([strip, "--remove-section=.comment", os.path.join(path, PROGRAM)])
    install_modules(tree, path)


def find_newest_source(series: Optional[str]) -> "tuple[Suite, Package]":
    """The newest source package: only new series support two processors in user mode."""
    own_release = packages.running_release()
    suite_names = [*reversed(packages.RELEASES), f"{own_release}-backports", own_release]
    for suite_name in dict.fromkeys(suite_names):
        suite = Suite(suite_name, packages.machine_arch())
        try:
            suite.update_lists()
        except packages.UnreachableSuite:
            progress.note(f"{suite_name} is not reachable; trying an older suite")
            continue
        names = [
            name
            for name in suite.find_names(r"^linux-source-[0-9.]+$")
            if series is None
            or series_matches(name.removeprefix(pinned_kernel.SOURCE_PREFIX), series)
        ]
        source = suite.find_package(max(names, key=natural_key)) if names else None
        if source:
            return suite, source
    raise Unavailable(f"no kernel source{' ' + series if series else ''} is available")


def _configure(tree: str, environment: Dict[str, str], series: str) -> List[str]:
    """Configure the kernel. Returns the options that it does not have."""
    um_folder = os.path.join(tree, "arch", "um")
    _set_hz(os.path.join(um_folder, "Kconfig"))
    _permit_static_link(os.path.join(um_folder, "drivers", "Kconfig"))
    config = os.path.join(tree, "softrdma.config")
    with open(config, "wb") as binary:
        binary.write(read_config(series))
    subprocesses.run_long(
        [*MAKE, "-C", tree, "-s", f"KCONFIG_ALLCONFIG={config}", "allnoconfig"],
        "the user-mode kernel cannot be configured",
        env=environment,
    )
    with open(os.path.join(tree, ".config"), encoding="utf-8") as file:
        result_lines = set(file.read().splitlines())
    with open(config, encoding="utf-8") as file:
        config_lines = {line for line in file.read().splitlines() if line.startswith("CONFIG_")}
    missing = sorted(
        line.split("=")[0].removeprefix("CONFIG_") for line in config_lines - result_lines
    )
    for option in REQUIRED_OPTIONS:
        if option in missing:
            raise LabError(f"this kernel cannot be configured with CONFIG_{option}")
    missing = [
        option for option in missing if option != "FD_CHAN"
    ]  # not an option in newer kernels
    if missing:
        progress.note(f"this kernel does not have the options {', '.join(missing)}")
    return missing


def _set_hz(kconfig: str) -> None:
    """Set HZ to 1000. With 100, programs that poll wait too long for each other's time slices."""
    if not os.path.isfile(kconfig):
        raise LabError("this kernel's source has no user mode (arch/um)")
    with open(kconfig, encoding="utf-8") as file:
        text = file.read()
    text, count = re.subn(r"(config HZ\n\tint\n\tdefault )100\n", r"\g<1>1000\n", text)
    if count != 1:
        raise LabError(
            "arch/um/Kconfig of this kernel sets HZ in another way; uml_build.py needs an update"
        )
    with open(kconfig, "w", encoding="utf-8") as file:
        file.write(text)


def _permit_static_link(kconfig: str) -> None:
    """Permit it with the vector driver.

    The driver needs shared libraries only to find a host by its name, which softrdma does not let it do.
    """
    with open(kconfig, encoding="utf-8") as file:
        text = file.read()
    pattern = r"^(config UML_NET_VECTOR\n(?:[ \t].*\n)*?)\tselect MAY_HAVE_RUNTIME_DEPS\n"
    with open(kconfig, "w", encoding="utf-8") as file:
        file.write(re.sub(pattern, r"\1", text, flags=re.MULTILINE))

# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""`softrdma kernel`: the kernels of QEMU guests and of user mode, cached or installed."""

import argparse
import json
import os
from typing import Any, Dict, List, Optional

from ..core import cache, progress, trust
from ..core.errors import OK, UsageError
from ..debian import packages
from ..kernel import (
    custom_build,
    custom_kernels,
    debian_kernels,
    siw_module,
    uml_build,
    uml_kernels,
)


def run(options: argparse.Namespace, drivers: List[str]) -> int:
    action, version, arch = options.action, options.version, options.arch
    _check_options(options)
    if action == "list":
        _list_kernels(options.json)
    elif action == "build":
        build_options = uml_build.BuildOptions(options.jobs or 0, options.verbose)
        if options.source is not None and os.path.isdir(options.source):
            named = custom_build.build(options.source, options.name, build_options)
            progress.print_result(
                f"user-mode kernel {named.version} is in {progress.abbreviate_home(named.build_folder)}; "
                f"run it: softrdma run --kernel {named.name}"
            )
            return OK
        if options.source is not None:
            built = uml_build.build_in_folder(options.source, options.output, build_options)
        elif options.newest or version:
            built = uml_build.build_newest(version, build_options)
        else:
            built = uml_build.build_pinned(build_options)
        progress.print_result(
            f"user-mode kernel {built.version} is in {progress.abbreviate_home(built.path)}"
        )
    elif action == "path":
        is_custom = custom_kernels.is_custom(version)
        path = custom_build.resolve(version) if is_custom else uml_kernels.find_kernel(version).path
        program = os.path.join(path, uml_kernels.PROGRAM)
        if not os.path.exists(program):
            raise UsageError(f"kernel path {version}: there is no {program}")
        print(program)
    elif action == "fetch":
        kernel = debian_kernels.get_kernel(arch or packages.machine_arch(), version)
        if "siw" in drivers:
            siw_module.add_to_kernel(kernel)
        path = progress.abbreviate_home(kernel.path)
        progress.print_result(
            f"{kernel.release} ({kernel.arch}, {kernel.suite} {kernel.version}) is in {path}"
        )
    else:
        _remove_kernels(version, arch)
    return OK


def _check_options(options: argparse.Namespace) -> None:
    if options.action != "build":
        for name in ("newest", "source", "output", "name", "jobs", "verbose"):
            if getattr(options, name) not in (None, False):
                raise UsageError(f"kernel {options.action}: --{name} is an option of kernel build")
    if options.source is not None and not os.path.exists(options.source):
        raise UsageError(
            f"--source {options.source or chr(39) * 2}: No such file; expected a kernel tree, or a file such as "
            "/usr/src/linux-source-6.1.tar.xz"
        )
    is_tree = options.source is not None and os.path.isdir(options.source)
    if is_tree and options.output is not None:
        raise UsageError(
            f"kernel build --source {options.source}: a kernel of a tree is built in the cache folder; omit --output"
        )
    if options.name is not None and not is_tree:
        raise UsageError(
            f"kernel build --name {options.name}: only a kernel of a tree has a name; add: --source TREE, a folder"
        )
    if not is_tree and (options.source is None) != (options.output is None):
        raise UsageError(
            "kernel build: --source FILE and --output DIR need each other; without both it builds into the cache"
        )
    if options.source is not None and options.version:
        raise UsageError(
            f"kernel build {options.version}: the version is that of --source; omit {options.version}"
        )
    is_version = options.version is None or options.version[:1].isdigit()
    if options.action == "build" and not is_version:
        raise UsageError(
            f"kernel build {options.version!r}: expected a series such as 7.2; to build a tree of yours: "
            "softrdma kernel build --source TREE --name NAME"
        )
    if options.newest and (options.version or options.source is not None):
        raise UsageError(
            "kernel build --newest: a series or --source selects another kernel; omit --newest"
        )
    if options.output == "":
        raise UsageError("kernel build: --output '': expected a new folder")
    if options.jobs is not None and not 1 <= options.jobs <= 1024:
        raise UsageError(f"--jobs {options.jobs}: expected 1 to 1024")


def _kernel_rows() -> List[Dict[str, Any]]:
    """The kernels, and the trees of unfinished builds, as --json prints them."""
    rows = [
        {
            "release": kernel.release,
            "for": "qemu",
            "arch": kernel.arch,
            "version": kernel.version,
            "siw": os.path.exists(siw_module.module_path(kernel)),
            "missing_patches": siw_module.missing_patches(kernel),
            "from": "cache",
            "path": kernel.path,
        }
        for kernel in debian_kernels.cached_kernels()
    ]
    rows += [
        {
            "release": build.series,
            "for": "uml (unfinished)",
            "arch": packages.machine_arch(),
            "version": build.version,
            "siw": True,
            "missing_patches": [],
            "from": "cache",
            "path": build.path,
        }
        for build in uml_kernels.unfinished_builds()
    ]
    rows += [
        {
            "release": kernel.name,
            "for": "uml" if kernel.is_built else "uml (unfinished)",
            "arch": packages.machine_arch(),
            "version": kernel.version,
            "siw": custom_kernels.read_options(kernel.build_folder).get("RDMA_SIW") == "y",
            "missing_patches": (
                custom_kernels.missing_patches(kernel.build_folder, kernel.version)
                if kernel.is_built
                else []
            ),
            "from": custom_kernels.find_source(kernel.build_folder) or "a tree",
            "path": kernel.build_folder,
        }
        for kernel in custom_build.named_kernels()
    ]
    return rows + [
        {
            "release": kernel.series,
            "for": "uml" if kernel.is_current else "uml (outdated)",
            "arch": packages.machine_arch(),
            "version": kernel.version,
            "siw": True,
            "missing_patches": uml_kernels.missing_patches(kernel.path),
            "from": "package" if kernel.is_packaged else "cache",
            "path": kernel.path,
        }
        for kernel in uml_kernels.known_kernels()
    ]


def _list_kernels(as_json: bool) -> None:
    rows = _kernel_rows()
    if as_json:
        print(json.dumps({"schema": 1, "kernels": rows}, indent=2))
        return
    progress.print_table(
        ["KERNEL", "FOR", "ARCH", "PACKAGE", "SIW", "FROM"],
        [
            [
                row["release"],
                row["for"],
                row["arch"],
                row["version"],
                "yes" if row["siw"] else "no",
                row["from"],
            ]
            for row in rows
        ],
        f"no kernels in {progress.abbreviate_home(cache.cache_path())}; softrdma run fetches one when it needs it",
    )
    for row in rows:
        if row["missing_patches"]:
            progress.print_result(f"{row['release']} lacks {', '.join(row['missing_patches'])}")


def _matches(release: str, version: str) -> bool:
    """Whether the kernel is meant: by its release, its series, or its whole name."""
    if custom_kernels.is_custom(release):
        return release == version
    return debian_kernels.release_matches(release, version)


def _remove_kernels(version: Optional[str], arch: Optional[str]) -> None:
    """Remove the matching kernels and unfinished builds from the cache; a package's kernel stays."""
    if not version:
        raise UsageError("kernel remove: a version is missing; see: softrdma kernel list")
    matching = [
        row
        for row in _kernel_rows()
        if _matches(row["release"], version) and arch in (None, row["arch"])
    ]
    if not matching:
        raise UsageError(f"no kernel {version} in the cache; see: softrdma kernel list")
    cached = [row for row in matching if row["from"] != "package"]
    package = trust.KERNEL_PACKAGE
    if not cached and not trust.is_debian_package():
        raise UsageError(f"kernel {version} is part of this softrdma, in {matching[0]['path']}")
    if not cached:
        raise UsageError(
            f"kernel {version} belongs to the package {package}; remove that: apt remove {package}"
        )
    for row in cached:
        # A build locks the entry that it makes, not its tree.
        entry = row["path"].removesuffix(uml_kernels.TREE_SUFFIX)
        remove = cache.remove_folder if entry == row["path"] else uml_build.remove_tree
        with cache.lock_entry(*os.path.relpath(entry, cache.cache_path()).split("/")):
            remove(row["path"])
        progress.print_result(f"{row['release']} ({row['for']}, {row['arch']}) removed")
    if len(cached) < len(matching):
        owner = f"the package {package}" if trust.is_debian_package() else "this softrdma"
        progress.note(f"the kernel of {owner} stays")

# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""`softrdma kernel`: the kernels of QEMU guests and of user mode, in the cache or installed."""

import argparse
import json
import os
import shutil
from typing import Any, Dict, List, Optional

from . import cache, kernels, packages, say, siw, umlkernel
from .errors import OK, Misuse


def run(options: argparse.Namespace, drivers: List[str]) -> int:
    action, version, arch = options.action, options.version, options.arch
    _check(options)
    if action == "list":
        _list(options.json)
    elif action == "build":
        how = umlkernel.Build(options.jobs or 0, options.verbose)
        if options.source is not None:
            built = umlkernel.build_into(options.source, options.into, how)
        else:
            built = umlkernel.build(version, how)
        print(f"user-mode kernel {built.version} is in {say.home_relative(built.path)}")
    elif action == "path":
        print(os.path.join(umlkernel.get(version), umlkernel.PROGRAM))
    elif action == "fetch":
        kernel = kernels.get(arch or packages.machine_arch(), version)
        if "siw" in drivers:
            siw.add(kernel)
        place = say.home_relative(kernel.path)
        print(f"{kernel.release} ({kernel.arch}, {kernel.suite} {kernel.version}) is in {place}")
    else:
        _remove(version, arch)
    return OK


def _check(options: argparse.Namespace) -> None:
    """Options of build are for build, and the two that go together are there together."""
    if options.action != "build":
        for name in ("source", "into", "jobs", "verbose"):
            if getattr(options, name) not in (None, False):
                raise Misuse(f"kernel {options.action}: --{name} is for kernel build alone")
    if (options.source is None) != (options.into is None):
        raise Misuse(
            "kernel build: --source FILE and --into DIR go together; without them it builds for the cache"
        )
    if options.source is not None and options.version:
        raise Misuse(f"kernel build {options.version}: which version it is, the --source says")
    if options.into == "":
        raise Misuse("kernel build: --into '': it is the folder to make")
    if options.jobs is not None and not 1 <= options.jobs <= 1024:
        raise Misuse(f"--jobs {options.jobs}: 1 or more")


def _rows() -> List[Dict[str, Any]]:
    rows = [
        {
            "release": kernel.release,
            "for": "qemu",
            "arch": kernel.arch,
            "version": kernel.version,
            "siw": os.path.exists(siw.module(kernel)),
            "from": "cache",
            "path": kernel.path,
        }
        for kernel in kernels.cached()
    ]
    return rows + [
        {
            "release": kernel.series,
            "for": "uml" if kernel.current else "uml (outdated)",
            "arch": packages.machine_arch(),
            "version": kernel.version,
            "siw": True,
            "from": "package" if kernel.packaged else "cache",
            "path": kernel.path,
        }
        for kernel in umlkernel.known()
    ]


def _list(as_json: bool) -> None:
    rows = _rows()
    if as_json:
        print(json.dumps({"schema": 1, "kernels": rows}, indent=2))
        return
    say.table(
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
        f"no kernels in {say.home_relative(cache.folder())}; softrdma run fetches one when it needs it",
    )


def _remove(version: Optional[str], arch: Optional[str]) -> None:
    if not version:
        raise Misuse("kernel remove: which? See: softrdma kernel list")
    chosen = [
        row
        for row in _rows()
        if kernels.matches(row["release"], version) and arch in (None, row["arch"])
    ]
    if not chosen:
        raise Misuse(f"no kernel {version} in the cache; see: softrdma kernel list")
    ours = [row for row in chosen if row["from"] == "cache"]
    if not ours:
        raise Misuse(
            f"kernel {version} is of the package {umlkernel.PACKAGE}; remove that: apt remove {umlkernel.PACKAGE}"
        )
    for row in ours:
        with cache.locked(os.path.relpath(row["path"], cache.folder())):
            shutil.rmtree(row["path"])
        print(f"{row['release']} ({row['for']}, {row['arch']}) removed")
    if len(ours) < len(chosen):
        say.note(f"the one of the package {umlkernel.PACKAGE} stays")

# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""`softrdma kernel`: the kernels in the cache, of QEMU guests and of user mode."""

import json
import os
import shutil
from typing import Any, Dict, List, Optional

from . import cache, kernels, packages, say, siw, umlkernel
from .errors import OK, Misuse


def run(
    action: str, version: Optional[str], arch: Optional[str], drivers: List[str], as_json: bool
) -> int:
    if action == "list":
        _list(as_json)
    elif action == "build":
        built = umlkernel.build(version)
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


def _rows() -> List[Dict[str, Any]]:
    rows = [
        {
            "release": kernel.release,
            "for": "qemu",
            "arch": kernel.arch,
            "version": kernel.version,
            "siw": os.path.exists(siw.module(kernel)),
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
            "path": kernel.path,
        }
        for kernel in umlkernel.cached()
    ]


def _list(as_json: bool) -> None:
    rows = _rows()
    if as_json:
        print(json.dumps({"schema": 1, "kernels": rows}, indent=2))
        return
    say.table(
        ["KERNEL", "FOR", "ARCH", "PACKAGE", "SIW"],
        [
            [row["release"], row["for"], row["arch"], row["version"], "yes" if row["siw"] else "no"]
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
    for row in chosen:
        with cache.locked(os.path.relpath(row["path"], cache.folder())):
            shutil.rmtree(row["path"])
        print(f"{row['release']} ({row['for']}, {row['arch']}) removed")

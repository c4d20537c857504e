# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""`softrdma version`: what a report of a fault has to name."""

import argparse
import json
import os
import shutil
import subprocess
from typing import Any, Dict, Optional

from .. import COMMIT, LAB_DIR, VERSION
from ..core import progress
from ..core.errors import OK, LabError
from ..kernel import kernel_patches, pinned_kernel, uml_kernels

ARCHIVED_COMMIT_PREFIX = "$Format"  # of COMMIT in a checkout
COMMIT_DIGITS = 40


def run(options: argparse.Namespace) -> int:
    pin = pinned_kernel.read_pin()
    kernel, problem = None, None
    try:
        kernel = _describe_kernel()
    except LabError as error:
        problem = str(error)
    facts = {
        "schema": 1,
        "version": VERSION,
        "commit": _find_commit(),
        "kernel": kernel,
        "reason": problem,
        "pinned_kernel": {"package": pin.package, "version": pin.version, "sha256": pin.sha256},
    }
    if options.json:
        print(json.dumps(facts, indent=2))
    else:
        _print_text(facts)
    return OK


def _describe_kernel() -> Dict[str, Any]:
    """The kernel that `run --in uml` uses."""
    kernel = uml_kernels.find_kernel()
    missing = uml_kernels.missing_patches(kernel.path)
    names = [patch.name for patch in kernel_patches.series_for(kernel.series).patches]
    return {
        "version": kernel.version,
        "path": kernel.path,
        "is_pinned": kernel.is_pinned,
        "config": kernel.config,
        "patches": [name for name in names if name not in missing],
        "missing_patches": missing,
    }


def _print_text(facts: Dict[str, Any]) -> None:
    commit = facts["commit"]
    progress.print_result(f"softrdma {facts['version']}" + (f", commit {commit}" if commit else ""))
    pin, kernel = facts["pinned_kernel"], facts["kernel"]
    progress.print_result(f"pinned kernel: {pin['package']} {pin['version']}")
    if not kernel:
        progress.print_result(f"user-mode kernel: none; {facts['reason']}")
        return
    pinned = "pinned" if kernel["is_pinned"] else "not pinned"
    progress.print_result(
        f"user-mode kernel: {kernel['version']} ({pinned}), configuration {kernel['config']}, "
        f"in {progress.abbreviate_home(kernel['path'])}"
    )
    for title, names in (
        ("patches", kernel["patches"]),
        ("missing patches", kernel["missing_patches"]),
    ):
        progress.print_result(f"{title}: {', '.join(names) or 'none'}")


def _find_commit() -> Optional[str]:
    """The commit that an archive records, or that of this checkout, with -dirty if files differ."""
    if not COMMIT.startswith(ARCHIVED_COMMIT_PREFIX):
        return COMMIT
    root = os.path.dirname(os.path.dirname(LAB_DIR))
    git = shutil.which("git")
    # Else git could take another repository, which has an installed softrdma in it.
    if not git or not os.path.lexists(os.path.join(root, ".git")):
        return None
    environment = {name: value for name, value in os.environ.items() if name[:4] != "GIT_"}
    describe = ["describe", "--always", "--dirty", "--exclude=*", f"--abbrev={COMMIT_DIGITS}"]
    result = subprocess.run(
        [git, "--no-optional-locks", "-C", root, *describe],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environment,
    )
    return result.stdout.strip() or None

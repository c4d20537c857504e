# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""What a release is made of: a commit, and the kernel of `softrdma kernel build`."""

import os
import tarfile
from typing import NamedTuple

from lab.core import subprocesses, supervisor
from lab.core.errors import LabError, Unavailable, UsageError
from lab.core.temporary_folders import make_work_folder
from lab.kernel import pinned_kernel

REPOSITORY = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", ".."))
ARCH = "x86_64"
SUMMARY = "RDMA devices (Soft-RoCE, soft-iWARP) for tests, on any machine, without root"
MIN_PYTHON = "3.9"


class Material(NamedTuple):
    """What a release is made of."""

    tree: str  # the files of the commit
    commit: str
    seconds: int  # the date of the commit
    kernel: str  # the folder of the user-mode kernel
    pin: pinned_kernel.Pin
    libc: str  # the version of Debian's package of the C library


def git(*arguments: str) -> str:
    program = subprocesses.require_program("git", "git", "a release")
    # Also if another user owns the checkout; and whatever the caller's git is configured for.
    settings = ("safe.directory=*", "core.autocrlf=false", "tar.umask=0022")
    options = [word for setting in settings for word in ("-c", setting)]
    environment = {name: value for name, value in os.environ.items() if name[:4] != "GIT_"}
    return subprocesses.capture_output(
        [program, *options, "-C", REPOSITORY, *arguments], env=environment
    )


def gather(undo: supervisor.Undo) -> Material:
    """Export the last commit, and build the kernel unless it is cached."""
    try:
        commit = git("rev-parse", "--verify", "HEAD").strip()
    except LabError as problem:
        raise Unavailable(
            f"a release is made of a commit, and {REPOSITORY} is no git checkout"
        ) from problem
    if git("status", "--porcelain", "--untracked-files=no"):
        raise UsageError(f"{REPOSITORY} has changes that are not committed; commit or stash them")
    tree = os.path.join(make_work_folder(undo, "release"), "tree")
    os.mkdir(tree)
    archive = tree + ".tar"
    git("archive", "--output", archive, commit)
    with tarfile.open(archive) as tar:
        tar.extractall(tree)
    program = os.path.join(tree, "scripts", "softrdma")
    subprocesses.run_long(
        [program, "kernel", "build"],
        "the kernel cannot be built",
        show_output=True,
        error_class=Unavailable,
    )
    kernel = subprocesses.capture_output([program, "kernel", "path"]).strip()
    return Material(
        tree=tree,
        commit=commit,
        seconds=int(git("show", "--no-patch", "--format=%ct", commit)),
        kernel=os.path.dirname(kernel),
        pin=pinned_kernel.read_pin(),
        libc=subprocesses.capture_output(["dpkg-query", "-W", "-f", "${Version}", "libc6-dev"]),
    )

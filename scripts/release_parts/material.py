# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""What a release is made of: a commit, and the kernel of `softrdma kernel build`."""

import os
import re
import tarfile
from typing import Dict, NamedTuple, Optional

from lab import COMMIT, VERSION
from lab.core import cache, progress, subprocesses, supervisor
from lab.core.errors import LabError, Unavailable, UsageError
from lab.core.temporary_folders import make_work_folder
from lab.kernel import linked_libraries, pinned_kernel

REPOSITORY = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", ".."))
COMMIT_SECONDS = "$Format:%ct$"  # git archive replaces this by the date: see .gitattributes
PLACEHOLDER_PREFIX = "$Format"
ARCH = "x86_64"
SUMMARY = "RDMA devices (Soft-RoCE, soft-iWARP) for tests, on any machine, without root"
MIN_PYTHON = "3.9"
TREE_NAME = f"coherdma-{VERSION}"


class Tree(NamedTuple):
    """The files of a commit."""

    path: str
    archive: Optional[str]  # made by git archive; None in an unpacked one
    commit: str
    seconds: int  # the date of the commit


class Material(NamedTuple):
    """What a release is made of."""

    tree: str  # the files of the commit
    tree_archive: Optional[str]
    commit: str
    seconds: int
    kernel: str  # the folder of the user-mode kernel
    pin: pinned_kernel.Pin
    compiler: str  # of the kernel
    libc: linked_libraries.Library  # linked with the kernel
    libgcc: linked_libraries.Library


def gather(undo: supervisor.Undo) -> Material:
    """Export the last commit, and build the kernel unless a fitting one is cached."""
    work = make_work_folder(undo, "release")
    tree = _find_tree(work)
    kernel = _find_kernel(tree.path, work)
    facts = cache.read_facts(kernel)
    libraries = facts[linked_libraries.LINKED_FACT]
    for name, library in libraries.items():
        if library is None:
            raise Unavailable(
                f"{name}, which gcc links with the kernel, is not of a package of Debian, and a release needs its "
                "source; use Debian's gcc and libc6-dev"
            )
    return Material(
        tree=tree.path,
        tree_archive=tree.archive,
        commit=tree.commit,
        seconds=tree.seconds,
        kernel=kernel,
        pin=pinned_kernel.read_pin(),
        compiler=facts[linked_libraries.COMPILER_FACT],
        libc=libraries["libc.a"],
        libgcc=libraries["libgcc.a"],
    )


def _find_tree(work: str) -> Tree:
    if not COMMIT.startswith(PLACEHOLDER_PREFIX):  # the sources of a release
        return Tree(REPOSITORY, None, COMMIT, int(COMMIT_SECONDS))
    try:
        commit = _git("rev-parse", "--verify", "HEAD").strip()
        objects = _git("rev-parse", "--git-path", "objects").strip()
        if _git("rev-parse", "--show-prefix").strip():
            raise LabError("it is a folder in a checkout of something else")
    except LabError as problem:
        raise Unavailable(
            f"a release is made of a commit, and {REPOSITORY} is no git checkout and not from a release's sources"
        ) from problem
    if _git("status", "--porcelain", "--untracked-files=no"):
        raise UsageError(f"{REPOSITORY} has changes that are not committed; commit or stash them")
    # A repository with these objects and nothing else: that of the checkout can have attributes and
    # replaced objects that are not of the commit.
    repository = f"--git-dir={os.path.join(work, 'repository')}"
    _git(repository, "init", "--quiet", "--bare", "--template=")
    alternates = os.path.join(work, "repository", "objects", "info", "alternates")
    os.makedirs(os.path.dirname(alternates), exist_ok=True)
    with open(alternates, "w", encoding="utf-8") as file:
        file.write(os.path.join(REPOSITORY, objects) + "\n")
    archive = os.path.join(work, f"{TREE_NAME}.tar")
    _git(repository, "archive", f"--prefix={TREE_NAME}/", "--output", archive, commit)
    with tarfile.open(archive) as tar:
        tar.extractall(work)
    return Tree(os.path.join(work, TREE_NAME), archive, commit, _commit_seconds(repository, commit))


def _commit_seconds(repository: str, commit: str) -> int:
    """The date, by `cat-file`: `show` needs the commits before, which a shallow clone does not have."""
    header = _git(repository, "cat-file", "commit", commit).partition("\n\n")[0]
    match = re.search(r"^committer .* ([0-9]+) [+-][0-9]+$", header, re.MULTILINE)
    if not match:
        raise LabError(f"commit {commit} has no date: {header}")
    return int(match.group(1))


def _git(*arguments: str) -> str:
    """Run git in the checkout, with no configuration or attributes of the caller or the system."""
    program = subprocesses.require_program("git", "git", "a release")
    # Also if another user owns the checkout.
    settings = (
        *("safe.directory=*", "core.fsmonitor=false"),
        *("core.autocrlf=false", "tar.umask=0022"),
    )
    options = [word for setting in settings for word in ("-c", setting)]
    environment = {
        **{
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("GIT_", "XDG_"))
        },
        "HOME": "/nonexistent",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_OPTIONAL_LOCKS": "0",  # `status` does not write the index
    }
    return subprocesses.capture_output(
        [program, *options, "-C", REPOSITORY, *arguments], env=environment
    )


def _find_kernel(tree: str, work: str) -> str:
    """The folder of the pinned kernel, linked with the libraries that are installed.

    Their licenses are then those that are installed, and a mirror has their sources.
    """
    kernel = _build_kernel(tree, dict(os.environ))
    installed = linked_libraries.find_libraries(dict(os.environ))
    if cache.read_facts(kernel).get(linked_libraries.LINKED_FACT) == installed:
        return kernel
    progress.note(
        f"the kernel in {progress.abbreviate_home(kernel)} is not known to be linked with the libraries that are "
        "installed; building one for this release only. To keep the next one, type first: "
        f"scripts/softrdma kernel remove {pinned_kernel.read_pin().series}"
    )
    return _build_kernel(tree, {**os.environ, "SOFTRDMA_CACHE": os.path.join(work, "cache")})


def _build_kernel(tree: str, environment: Dict[str, str]) -> str:
    program = os.path.join(tree, "scripts", "softrdma")
    subprocesses.run_long(
        [program, "kernel", "build"],
        "the kernel cannot be built",
        show_output=True,
        error_class=Unavailable,
        env=environment,
    )
    return os.path.dirname(
        subprocesses.capture_output([program, "kernel", "path"], environment).strip()
    )

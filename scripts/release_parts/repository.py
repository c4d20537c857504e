# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""The repository of packages for apt, signed by the releaser's key."""

import lzma
import os
import shutil
from email.utils import formatdate
from typing import Dict, List, Optional

from lab.core import files, progress, subprocesses
from lab.core.errors import UsageError

from . import deb_packages
from .material import Material

FOLDER = "apt"
NAME = "coherdma"
COMPONENT = "main"
ARCH = "amd64"
KEYRING = f"{NAME}-archive-keyring.asc"
SOURCE_ENDINGS = (".dsc", ".tar.gz", ".tar.xz")
PROGRAM_PACKAGES = {"apt-ftparchive": "apt-utils", "gpg": "gnupg"}


def make_repository(
    material: Material, work: str, folder: str, suites: List[str], key: Optional[str]
) -> str:
    """A folder with dists, pool and the public key. key: as gpg takes it; None: it is not signed.

    All but the signatures has the same bytes if the packages have: a signature has its date.
    """
    root = os.path.join(work, FOLDER)
    for suite in suites:
        made = deb_packages.require_packages(material, folder, suite)
        with progress.Step(f"indexing the packages for {suite}", expected_seconds=5):
            add_suite(root, suite, made, material.seconds)
        if key:
            sign(os.path.join(root, "dists", suite), key)
    if key:
        with open(os.path.join(root, KEYRING), "w", encoding="ascii") as file:
            file.write(gpg("--armor", "--export-options", "export-minimal", "--export", key))
    return root


def add_suite(root: str, suite: str, made: str, seconds: int) -> None:
    """The packages of a release of Debian. Those of another one have the same names, so each has its pool."""
    pool = os.path.join("pool", suite)
    os.makedirs(os.path.join(root, pool))
    for name in sorted(os.listdir(made)):
        if name.endswith((".deb", *SOURCE_ENDINGS)):
            shutil.copy(os.path.join(made, name), os.path.join(root, pool))
    dist = os.path.join(root, "dists", suite)
    binary, source = f"binary-{ARCH}/Packages", "source/Sources"
    add_index(dist, f"{COMPONENT}/{binary}", ftparchive(root, "packages", pool))
    add_index(dist, f"{COMPONENT}/{source}", ftparchive(root, "sources", pool))
    fields = {
        "Origin": NAME,
        "Label": NAME,
        "Suite": suite,
        "Codename": suite,
        "Architectures": ARCH,
        "Components": COMPONENT,
        "Acquire-By-Hash": "yes",
        "Date": formatdate(seconds, usegmt=True),
    }
    release = ftparchive(root, "release", os.path.join("dists", suite), fields)
    write(os.path.join(dist, "Release"), release.encode())


def add_index(dist: str, name: str, text: str) -> None:
    """Write the index, and compressed, each also by the name of its SHA-256."""
    path = os.path.join(dist, name)
    by_hash = os.path.join(os.path.dirname(path), "by-hash", "SHA256")
    os.makedirs(by_hash, exist_ok=True)
    for ending, data in (("", text.encode()), (".xz", lzma.compress(text.encode()))):
        write(path + ending, data)
        write(os.path.join(by_hash, files.hash_file(path + ending)), data)


def write(path: str, data: bytes) -> None:
    with open(path, "wb") as file:
        file.write(data)


def ftparchive(
    root: str, command: str, folder: str, fields: Optional[Dict[str, str]] = None
) -> str:
    """The index of a folder, with SHA-256 alone; or a Release file with the fields."""
    settings = {"MD5": "false", "SHA1": "false", "SHA512": "false"}
    for name, value in (fields or {}).items():
        settings[f"Release::{name}"] = value
    options = [f"-oAPT::FTPArchive::{name}={value}" for name, value in settings.items()]
    # The index has the names that it is given: those of the root.
    return subprocesses.capture_output(
        ["env", f"--chdir={root}", "apt-ftparchive", *options, command, folder],
        error_text=f"apt-ftparchive {command} {folder} failed",
    )


def sign(dist: str, key: str) -> None:
    release = os.path.join(dist, "Release")
    gpg("--local-user", key, "--clearsign", "--output", os.path.join(dist, "InRelease"), release)
    gpg(
        *("--local-user", key, "--armor", "--detach-sign"),
        *("--output", release + ".gpg", release),
    )


def check_options(out: str, key: Optional[str], is_unsigned: bool) -> None:
    """Before anything is made, which takes long."""
    if bool(key) == is_unsigned:
        raise UsageError(
            "a repository is signed, or apt refuses it: give --key ID, or --unsigned"
            if not key
            else "--key and --unsigned: only one is possible"
        )
    target = os.path.join(out, FOLDER)
    if os.path.lexists(target) and not os.path.isdir(os.path.join(target, "dists")):
        raise UsageError(
            f"{target} is there and is not a repository; move it away, or choose another folder by --out"
        )
    subprocesses.require_programs(PROGRAM_PACKAGES, "a repository")
    if key:
        gpg("--list-secret-keys", key, error_text=f"gpg has no secret key {key} to sign with")


def gpg(*arguments: str, error_text: Optional[str] = None) -> str:
    return subprocesses.capture_output(
        ["gpg", "--batch", "--digest-algo", "SHA256", *arguments], error_text=error_text
    )

# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""The repository of packages for apt, signed by the releaser's key."""

import contextlib
import glob
import lzma
import os
import re
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
    fingerprint = find_fingerprint(key) if key else None
    for suite in suites:
        made = deb_packages.require_packages(material, folder, suite)
        with progress.Step(f"indexing the packages for {suite}", expected_seconds=5):
            add_suite(root, suite, made, material.seconds)
        if fingerprint:
            sign(os.path.join(root, "dists", suite), fingerprint)
    if fingerprint:
        with open(os.path.join(root, KEYRING), "w", encoding="ascii") as file:
            file.write(
                gpg("--armor", "--export-options", "export-minimal", "--export", fingerprint)
            )
    return root


def add_suite(root: str, suite: str, made: str, seconds: int) -> None:
    """The packages of a release of Debian, in a pool of their own: apt-ftparchive indexes a folder."""
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


def sign(dist: str, fingerprint: str) -> None:
    release = os.path.join(dist, "Release")
    gpg(
        "--local-user",
        fingerprint,
        "--clearsign",
        "--output",
        os.path.join(dist, "InRelease"),
        release,
    )
    gpg(
        *("--local-user", fingerprint, "--armor", "--detach-sign"),
        *("--output", release + ".gpg", release),
    )


def keep_indexes(out: str, work: str) -> None:
    """Copy to the new repository the indexes that the one in out names, by their SHA-256.

    A client of apt that has read a Release file before it is replaced asks for them next.
    """
    replaced = os.path.join(out, FOLDER)
    require_replaceable(replaced)
    for release in glob.glob(os.path.join(glob.escape(replaced), "dists", "*", "Release")):
        old_dist = os.path.dirname(release)
        dist = os.path.join(work, FOLDER, "dists", os.path.basename(old_dist))
        with open(release, encoding="utf-8") as file:
            indexes = re.findall(r"^ ([0-9a-f]{64}) +[0-9]+ (\S+)$", file.read(), re.MULTILINE)
        for digest, name in indexes:
            by_hash = os.path.join(os.path.dirname(name), "by-hash", "SHA256", digest)
            target = os.path.join(dist, by_hash)
            # A suite, component or architecture can be missing in the new one.
            if os.path.isdir(os.path.dirname(target)) and not os.path.exists(target):
                with contextlib.suppress(FileNotFoundError):
                    shutil.copy(os.path.join(old_dist, by_hash), target)


def check_options(out: str, key: Optional[str], is_unsigned: bool) -> None:
    """Before anything is made, which takes long."""
    if bool(key) == is_unsigned:
        raise UsageError(
            "a repository is signed, or apt refuses it: give --key ID, or --unsigned"
            if not key
            else "--key and --unsigned: only one is possible"
        )
    require_replaceable(os.path.join(out, FOLDER))
    subprocesses.require_programs(PROGRAM_PACKAGES, "a repository")
    if key:
        gpg(
            *("--local-user", find_fingerprint(key), "--clearsign"),
            error_text=f"--key {key}: gpg cannot sign with it (so that it can ask for a passphrase, type first: "
            "export GPG_TTY=$(tty))",
            stdin_text="test\n",
        )


def require_replaceable(target: str) -> None:
    """Raise if the path has anything but a repository that scripts/release can have made."""
    if not os.path.lexists(target):
        return
    if os.path.islink(target) or not is_own_repository(target):
        reason = "a link" if os.path.islink(target) else f"not a repository of {NAME}"
        raise UsageError(
            f"{target} is there and is {reason}; move it away, or choose another folder by --out"
        )


def is_own_repository(root: str) -> bool:
    """Whether each suite in it says that it is of coherdma."""
    releases = glob.glob(os.path.join(glob.escape(root), "dists", "*", "Release"))
    return bool(releases) and all(map(has_own_origin, releases))


def has_own_origin(path: str) -> bool:
    with open(path, encoding="utf-8", errors="replace") as file:
        return f"Origin: {NAME}\n" in file


def find_fingerprint(key: str) -> str:
    """Of the one secret key that gpg finds by the text. gpg may find public keys of others by it, too."""
    listing = gpg(
        *("--with-colons", "--list-secret-keys", "--", key),
        error_text=f"gpg has no secret key {key} to sign with",
    )
    # A fingerprint follows its key, or a key that is a part of that.
    fingerprints = re.findall(
        r"^sec:.*\n(?:grp:.*\n)*fpr:(?:[^:]*:){8}([0-9A-F]+):", listing, re.MULTILINE
    )
    if len(fingerprints) != 1:
        raise UsageError(
            f"--key {key}: gpg has {len(fingerprints)} such secret keys; give the fingerprint of one"
        )
    return str(fingerprints[0])


def gpg(*arguments: str, error_text: Optional[str] = None, stdin_text: str = "") -> str:
    return subprocesses.capture_output(
        ["gpg", "--batch", "--digest-algo", "SHA256", *arguments],
        error_text=error_text,
        stdin_text=stdin_text,
    )

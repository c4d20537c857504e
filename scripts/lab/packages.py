# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Debian packages of any suite and architecture, without installing them.

apt gets a state of its own in the cache folder, so no root is needed and the
system's package lists stay as they are. The mirror is the one the system's
apt uses (or SOFTRDMA_MIRROR), and apt checks its signatures as always.
"""

import os
import re
import shutil
import time
from typing import List, NamedTuple, Optional

from . import cache, children, keeper, say
from .errors import CannotHere, LabError

KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
RELEASES = ["bookworm", "trixie", "forky", "sid"]  # oldest first
FALLBACK = "bookworm"
LISTS_AGE_SECONDS = 24 * 3600


class Package(NamedTuple):
    name: str
    version: str
    size: int
    depends: List[str]  # names only, the first of alternatives


def machine_arch() -> str:
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(os.uname().machine, os.uname().machine)


def own_release() -> str:
    """The Debian release this machine runs; elsewhere the lab's default."""
    try:
        with open("/etc/os-release", encoding="utf-8") as file:
            facts = dict(line.rstrip().split("=", 1) for line in file if "=" in line)
    except OSError:
        facts = {}
    name = facts.get("VERSION_CODENAME", "").strip('"')
    return name if name in RELEASES else FALLBACK


def natural(text: str) -> List[object]:
    """A sort key by which 6.12 comes after 6.1."""
    return [(0, int(part)) if part.isdigit() else (1, part) for part in re.split(r"(\d+)", text)]


class Suite:
    """One suite for one architecture, e.g. bookworm-backports for arm64."""

    def __init__(self, name: str, arch: str):
        self.name = name
        self.arch = arch
        self.root = cache.folder("apt", f"{name}-{arch}")
        self.options = [
            *(
                "-o",
                f"Dir::State={self.root}/state",
                "-o",
                f"Dir::State::status={self.root}/status",
            ),
            *(
                "-o",
                f"Dir::Cache={self.root}/cache",
                "-o",
                f"Dir::Etc::sourcelist={self.root}/sources.list",
            ),
            *(
                "-o",
                "Dir::Etc::sourceparts=-",
                "-o",
                "Dir::Etc::preferencesparts=-",
                "-o",
                "Dir::Etc::preferences=-",
            ),
            *(
                "-o",
                f"APT::Architecture={arch}",
                "-o",
                f"APT::Architectures={arch}",
                "-o",
                "APT::Default-Release=",
            ),
            *(
                "-o",
                "Acquire::Languages=none",
                "-o",
                "APT::Sandbox::User=",
                "-o",
                "Acquire::http::Timeout=20",
            ),
            # A mirror that is frozen on purpose still serves well-signed kernels.
            *("-o", "Acquire::Check-Valid-Until=false", "-o", "Acquire::Retries=2"),
        ]

    def refresh(self) -> None:
        """Have lists that are not older than a day."""
        stamp = os.path.join(self.root, "refreshed")
        with cache.locked("apt", f"{self.name}-{self.arch}"):
            try:
                if time.time() - os.stat(stamp).st_mtime < LISTS_AGE_SECONDS:
                    return
            except OSError:
                pass
            children.need("apt-get", "apt", "fetching a kernel")
            cache.need_room(300, "package lists")
            shutil.rmtree(self.root, ignore_errors=True)
            for place in ("state/lists/partial", "cache/archives/partial"):
                os.makedirs(os.path.join(self.root, place))
            _write(os.path.join(self.root, "status"), "")
            _write(os.path.join(self.root, "sources.list"), self._sources())
            with say.Step(
                f"reading the package lists of {self.name} {self.arch}", expect=5
            ) as step:
                children.work(
                    [
                        "apt-get",
                        *self.options,
                        "-qq",
                        "-o",
                        "APT::Update::Error-Mode=any",
                        "update",
                    ],
                    f"cannot read the package lists of {self.name} (no network, or the mirror lacks it)",
                    tick=lambda _: step.at(None),
                    error=CannotHere,
                )
            _write(stamp, "")

    def _sources(self) -> str:
        release = self.name.removesuffix("-backports")
        signed = f"[signed-by={KEYRING}]" if os.path.exists(KEYRING) else ""
        main, security = mirrors()
        lines = [f"deb {signed} {main} {release} main"]
        if release != "sid":
            lines.append(f"deb {signed} {main} {release}-updates main")
            if security:
                lines.append(f"deb {signed} {security} {release}-security main")
        if self.name.endswith("-backports"):
            lines.append(f"deb {signed} {main} {self.name} main")
        return "\n".join(lines) + "\n"

    def names(self, pattern: str) -> List[str]:
        out = children.capture(["apt-cache", *self.options, "--names-only", "search", pattern])
        return [line.split(" ")[0] for line in out.splitlines()]

    def show(self, name: str, version: Optional[str] = None) -> Optional[Package]:
        """The newest package of that name, or that very version; None if there is none."""
        try:
            out = children.capture(
                [
                    "apt-cache",
                    *self.options,
                    "show",
                    "--no-all-versions" if not version else "--all-versions",
                    name,
                ]
            )
        except LabError:
            return None
        for stanza in out.split("\n\n"):
            fields = dict(re.findall(r"^([A-Za-z-]+): (.*)$", stanza, re.MULTILINE))
            if fields.get("Package") == name and version in (None, fields.get("Version")):
                depends = [
                    re.split(r"[ (|:]", word.strip())[0]
                    for word in fields.get("Depends", "").split(",")
                    if word.strip()
                ]
                return Package(name, fields["Version"], int(fields.get("Size", 0)), depends)
        return None

    def download(self, wanted: List[Package], into: str) -> List[str]:
        """The package files, checked by apt against the signed lists."""
        total = sum(package.size for package in wanted)
        title = wanted[0].name + (f" and {len(wanted) - 1} more" if len(wanted) > 1 else "")
        before = set(os.listdir(into))

        def fetched() -> int:
            new = [os.path.join(into, name) for name in os.listdir(into) if name not in before]
            return sum(os.path.getsize(path) for path in new if os.path.isfile(path))

        with say.Step(f"downloading {title} ({say.megabytes(total)})") as step:
            children.work(
                [
                    "apt-get",
                    *self.options,
                    "-qq",
                    "download",
                    *(f"{package.name}={package.version}" for package in wanted),
                ],
                f"cannot download {title}",
                tick=lambda _: step.at(fetched() / total if total else None),
                error=CannotHere,
                cwd=into,
            )
        files = sorted(os.path.join(into, name) for name in os.listdir(into) if name not in before)
        if len(files) != len(wanted):
            raise LabError(
                f"downloading {title}: {len(files)} files came for {len(wanted)} packages"
            )
        return files

    def closure(self, names: List[str]) -> List[Package]:
        """The packages and all that they depend on."""
        out = children.capture(
            [
                "apt-get",
                *self.options,
                "-qq",
                "--no-install-recommends",
                "--print-uris",
                "install",
                *names,
            ],
            fails=f"cannot resolve the packages of a {self.arch} root in {self.name}",
        )
        found = []
        for line in out.splitlines():
            parts = line.split(" ")
            if len(parts) >= 3 and parts[1].endswith(".deb"):
                name, version, _ = parts[1].removesuffix(".deb").split("_")
                found.append(Package(name, version.replace("%3a", ":"), int(parts[2]), []))
        return found


def mirrors() -> "tuple[str, Optional[str]]":
    """The Debian mirror and its security companion, as the system's apt has them."""
    own = os.environ.get("SOFTRDMA_MIRROR")
    if own:
        return own, None
    children.need("apt-get", "apt", "fetching a kernel")
    main = security = None
    out = children.capture(
        ["apt-get", "indextargets", "--format", "$(RELEASE) $(REPO_URI)", "Created-By: Packages"]
    )
    for line in out.splitlines():
        release, _, uri = line.partition(" ")
        if release.split("-")[0] in (*RELEASES, "stable", "testing", "unstable", "oldstable"):
            if release.endswith("-security"):
                security = security or uri
            else:
                main = main or uri
    if not main:
        raise CannotHere(
            "this system's apt knows no Debian mirror; set SOFTRDMA_MIRROR to the address of one"
        )
    return main, security


def merge_usr(root: str) -> None:
    """Packages name files below /lib or /usr/lib as they like; in a merged root it is the same."""
    for name in ("bin", "sbin", "lib"):
        os.makedirs(os.path.join(root, "usr", name))
        os.symlink(f"usr/{name}", os.path.join(root, name))


def unpack(deb: str, into: str, fails: str) -> None:
    """Unpack the way dpkg would: into what symbolic links to folders point to."""
    children.work(
        [
            "sh",
            "-c",
            'dpkg-deb --fsys-tarfile "$1" | tar -C "$2" -x --keep-directory-symlink --no-same-owner --delay-directory-restore',
            "sh",
            deb,
            into,
        ],
        fails,
    )


def unpack_and_drop(debs: List[str], into: str, what: str) -> None:
    with say.Step(f"unpacking {what}") as step:
        for count, deb in enumerate(debs):
            step.at(count / len(debs))
            unpack(deb, into, f"cannot unpack {os.path.basename(deb)}")
            os.unlink(deb)


def workshop(undo: keeper.Undo, name: str) -> str:
    """A folder in the cache for one piece of work, gone when it is done."""
    works = cache.make_folder("work")
    for left in os.listdir(works):  # by one that was killed whole
        if not os.path.isdir(f"/proc/{left.rpartition('.')[2]}"):
            shutil.rmtree(os.path.join(works, left), ignore_errors=True)
    path = os.path.join(works, f"{name}.{os.getpid()}")
    undo.callback(shutil.rmtree, path, ignore_errors=True)
    os.makedirs(path)
    return path


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)

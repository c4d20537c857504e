# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Debian packages of any suite and architecture, without installing them.

apt gets its own state folder in the cache, so this needs no root and leaves the
system's package lists alone. The mirror is SOFTRDMA_MIRROR, or that of the
system's apt, or deb.debian.org if the system is not Debian; apt verifies its signatures, and the age of its lists unless
SOFTRDMA_OLD_LISTS or the system's apt permits old ones.
"""

import contextlib
import os
import re
import shutil
import time
from typing import List, NamedTuple, Optional

from ..core import cache, files, progress, subprocesses, trust
from ..core.errors import LabError, Unavailable, UsageError

MIRROR, SECURITY_MIRROR = "http://deb.debian.org/debian", "http://deb.debian.org/debian-security"
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
RELEASES = ["bookworm", "trixie", "forky", "sid"]  # oldest first
ALIASES = ("stable", "testing", "unstable", "oldstable")
DEFAULT_RELEASE = "bookworm"
MAX_LISTS_AGE_SECONDS = 24 * 3600
OLD_LISTS_VARIABLE = "SOFTRDMA_OLD_LISTS"
# Others than Debian have suites of these names, too. apt prints the suites whose lists it has read.
INDEX_FORMAT = "$(RELEASE) $(REPO_URI) $(ORIGIN)"
DOWNLOAD_SETTINGS = ["APT::Sandbox::User=", "Acquire::http::Timeout=20", "Acquire::Retries=2"]
# apt's errors for a list that is signed with a key that it does not have.
MISSING_KEY_PATTERN = re.compile(r"NO_PUBKEY [0-9A-F]+|Missing key [0-9A-F]+")
# apt's error for a list that is older than its signature permits.
EXPIRED_PATTERN = re.compile(r"Release file for \S+ is expired(?: \([^)]*\))?")


class Package(NamedTuple):
    name: str
    version: str
    size: int
    depends: List[str]  # names only, the first of alternatives


class OldLists(LabError):
    """The mirror has older lists than their signatures permit. Not Unavailable: another suite would hide it."""


class MissingKey(LabError):
    """This system lacks the key of a suite's lists. Not Unavailable: another suite would hide it."""

    status = Unavailable.status


class UnreachableSuite(Unavailable):
    """apt cannot read the package lists of a suite. Another suite may be reachable."""


def _require_apt() -> None:
    if not shutil.which("apt-get"):
        raise Unavailable(
            "fetching kernels and packages of Debian needs apt, which this system does not have; use a softrdma "
            "that has its kernel (an archive or wheel of a release: softrdma run --in uml), or Debian in a container"
        )


def machine_arch() -> str:
    """Debian's name of this machine's architecture."""
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(os.uname().machine, os.uname().machine)


def _read_os_release(variable: str) -> str:
    """The value of the variable; empty if there is none."""
    try:
        with open("/etc/os-release", encoding="utf-8") as file:
            variables = dict(line.rstrip().split("=", 1) for line in file if "=" in line)
    except OSError:
        variables = {}
    return variables.get(variable, "").strip('"')


def running_release() -> str:
    """The Debian release of this machine; DEFAULT_RELEASE if it runs another system."""
    name = _read_os_release("VERSION_CODENAME")
    return name if name in RELEASES else DEFAULT_RELEASE


class Suite:
    """A suite for an architecture, such as bookworm-backports for arm64."""

    def __init__(self, name: str, arch: str, of_sources: bool = False):
        """of_sources: for download_source() only."""
        self.name = name
        self.arch = arch
        self._kind = "deb-src" if of_sources else "deb"
        self._entry = f"{name}-{'source' if of_sources else arch}"
        self.folder = cache.cache_path("apt", self._entry)
        settings = [
            f"Dir::State={self.folder}/state",
            f"Dir::State::status={self.folder}/status",
            f"Dir::Cache={self.folder}/cache",
            f"Dir::Etc::sourcelist={self.folder}/sources.list",
            "Dir::Etc::sourceparts=-",
            "Dir::Etc::preferencesparts=-",
            "Dir::Etc::preferences=-",
            f"APT::Architecture={arch}",
            f"APT::Architectures={arch}",
            "APT::Default-Release=",
            "Acquire::Languages=none",
            *DOWNLOAD_SETTINGS,
            # Parsing the lists takes seconds. Debian's container images disable this cache.
            "Dir::Cache::pkgcache=pkgcache.bin",
        ]
        if are_old_lists_permitted():
            settings.append("Acquire::Check-Valid-Until=false")
        self.apt_options = [word for setting in settings for word in ("-o", setting)]

    def update_lists(self) -> None:
        """Read the package lists, unless they are less than a day old."""
        stamp = os.path.join(self.folder, "refreshed")
        with cache.lock_entry("apt", self._entry):
            if os.path.lexists(self.folder):
                trust.require_trusted_tree(self.folder)
            if _is_fresh(stamp):
                return
            _require_apt()
            cache.require_space(megabytes=300, purpose="package lists")
            cache.remove_folder(self.folder)
            for name in ("state/lists/partial", "cache/archives/partial"):
                os.makedirs(os.path.join(self.folder, name))
            _write_file(os.path.join(self.folder, "status"), "")
            _write_file(os.path.join(self.folder, "sources.list"), self._sources())
            title = f"reading the package lists of {self.name} {self.arch}"
            update = [*self.apt_options, "-qq", "-o", "APT::Update::Error-Mode=any", "update"]
            try:
                with progress.Step(title, expected_seconds=5) as step:
                    subprocesses.run_long(
                        ["apt-get", *update],
                        f"cannot read the package lists of {self.name} (no network, or the mirror lacks it)",
                        on_progress=lambda _: step.update(None),
                        error_class=UnreachableSuite,
                        env=dict(os.environ, LC_ALL="C"),  # for EXPIRED_PATTERN
                    )
            except UnreachableSuite as problem:
                expired = EXPIRED_PATTERN.search(str(problem))
                if expired:
                    raise _old_lists_error(self.name, expired.group()) from problem
                missing_key = MISSING_KEY_PATTERN.search(str(problem))
                if missing_key:
                    raise _missing_key_error(self.name, missing_key.group()) from problem
                raise
            _write_file(stamp, OLD_LISTS_VARIABLE if are_old_lists_permitted() else "")

    def _sources(self) -> str:
        """The contents of sources.list for this suite."""
        release = self.name.removesuffix("-backports")
        signed_by = f"[signed-by={KEYRING}]" if os.path.exists(KEYRING) else ""
        main_uri, security_uri = find_mirrors()
        lines = [f"{self._kind} {signed_by} {main_uri} {release} main"]
        if release != "sid":
            lines.append(f"{self._kind} {signed_by} {main_uri} {release}-updates main")
            if security_uri:
                lines.append(f"{self._kind} {signed_by} {security_uri} {release}-security main")
        if self.name.endswith("-backports"):
            lines.append(f"{self._kind} {signed_by} {main_uri} {self.name} main")
        return "\n".join(lines) + "\n"

    def find_names(self, pattern: str) -> List[str]:
        """The packages whose name matches the regular expression."""
        output = subprocesses.capture_output(
            ["apt-cache", *self.apt_options, "--names-only", "search", pattern]
        )
        return [line.split(" ")[0] for line in output.splitlines()]

    def find_package(self, name: str, version: Optional[str] = None) -> Optional[Package]:
        """The package of that version, or the newest; None if there is none."""
        versions = "--all-versions" if version else "--no-all-versions"
        try:
            output = subprocesses.capture_output(
                ["apt-cache", *self.apt_options, "show", versions, name]
            )
        except LabError:
            return None
        for stanza in output.split("\n\n"):
            fields = dict(re.findall(r"^([A-Za-z-]+): (.*)$", stanza, re.MULTILINE))
            if fields.get("Package") == name and version in (None, fields.get("Version")):
                depends = [
                    re.split(r"[ (|:]", dependency.strip())[0]
                    for dependency in fields.get("Depends", "").split(",")
                    if dependency.strip()
                ]
                return Package(name, fields["Version"], int(fields.get("Size", 0)), depends)
        return None

    def download(self, packages: List[Package], folder: str) -> List[str]:
        """The paths of the packages' files. apt verifies them against the signed lists."""
        total_size = sum(package.size for package in packages)
        title = packages[0].name + (f" and {len(packages) - 1} more" if len(packages) > 1 else "")
        old_names = set(os.listdir(folder))

        def new_paths() -> List[str]:
            names = [name for name in os.listdir(folder) if name not in old_names]
            return sorted(os.path.join(folder, name) for name in names)

        def downloaded_fraction() -> Optional[float]:
            sizes = [os.path.getsize(path) for path in new_paths() if os.path.isfile(path)]
            return sum(sizes) / total_size if total_size else None

        size_text = progress.format_megabytes(total_size)
        with progress.Step(f"downloading {title} ({size_text})") as step:
            subprocesses.run_long(
                [
                    "apt-get",
                    *self.apt_options,
                    "-qq",
                    "download",
                    *(f"{package.name}={package.version}" for package in packages),
                ],
                f"cannot download {title}",
                on_progress=lambda _: step.update(downloaded_fraction()),
                error_class=Unavailable,
                cwd=folder,
            )
        paths = new_paths()
        if len(paths) != len(packages):
            raise LabError(
                f"downloading {title}: got {len(paths)} files for {len(packages)} packages"
            )
        return paths

    def download_source(self, name: str, version: str, folder: str) -> None:
        """Download a source package. apt verifies it against the signed lists."""
        with progress.Step(f"downloading the source of {name} {version}") as step:
            subprocesses.run_long(
                [
                    "apt-get",
                    *self.apt_options,
                    "-qq",
                    "source",
                    "--download-only",
                    f"{name}={version}",
                ],
                f"cannot download the source of {name} {version}",
                on_progress=lambda _: step.update(None),
                error_class=Unavailable,
                cwd=folder,
            )

    def resolve_dependencies(self, names: List[str]) -> List[Package]:
        """The packages and all that they depend on."""
        output = subprocesses.capture_output(
            [
                "apt-get",
                *self.apt_options,
                "-qq",
                "--no-install-recommends",
                "--print-uris",
                "install",
                *names,
            ],
            error_text=f"cannot resolve the packages of a {self.arch} root in {self.name}",
        )
        packages = []
        for line in output.splitlines():
            fields = line.split(" ")  # 'URI' NAME_VERSION_ARCH.deb SIZE HASH
            if len(fields) >= 3 and fields[1].endswith(".deb"):
                name, version, _ = fields[1].removesuffix(".deb").split("_")
                packages.append(Package(name, version.replace("%3a", ":"), int(fields[2]), []))
        return packages


def are_old_lists_permitted() -> bool:
    value = os.environ.get(OLD_LISTS_VARIABLE, "")
    if value not in ("", "yes", "no"):
        raise UsageError(f"{OLD_LISTS_VARIABLE}={value}: expected yes or no")
    return value == "yes"


def _is_fresh(stamp: str) -> bool:
    """Whether lists with this stamp are less than a day old, and were read by the same rule."""
    try:
        with open(stamp, encoding="ascii") as file:
            is_permitted = are_old_lists_permitted() or file.read() != OLD_LISTS_VARIABLE
        return is_permitted and time.time() - os.stat(stamp).st_mtime < MAX_LISTS_AGE_SECONDS
    except OSError:
        return False


def _old_lists_error(suite_name: str, reason: str) -> OldLists:
    return OldLists(
        f"the package lists of {suite_name} are too old ({reason}): the mirror is not updated, or an attacker "
        f"holds it back; use another one by SOFTRDMA_MIRROR, or to use these lists: {OLD_LISTS_VARIABLE}=yes"
    )


def _missing_key_error(suite_name: str, reason: str) -> MissingKey:
    return MissingKey(
        f"the package lists of {suite_name} are signed with a key that this system does not have ({reason}); "
        "type: apt-get install debian-archive-keyring; if that is older than the key, install the package of "
        "https://deb.debian.org/debian/pool/main/d/debian-archive-keyring/"
    )


def find_mirrors() -> "tuple[str, Optional[str]]":
    """The URIs of the Debian mirror and of the security archive; None: use no security archive.

    They are those of SOFTRDMA_MIRROR, else of the system's apt, else Debian's.
    """
    configured = os.environ.get("SOFTRDMA_MIRROR")
    if configured:
        return configured, None
    _require_apt()
    main_uri = security_uri = None
    output = subprocesses.capture_output(
        ["apt-get", "indextargets", "--format", INDEX_FORMAT, "Created-By: Packages"]
    )
    for line in output.splitlines():
        release, uri, origin = line.split(" ", 2)  # release: such as bookworm, stable-security
        if origin == "Debian" and release.split("-")[0] in (*RELEASES, *ALIASES):
            if release.endswith("-security"):
                security_uri = security_uri or uri
            else:
                main_uri = main_uri or uri
    if not main_uri:
        if _read_os_release("ID") == "debian":
            progress.note(
                f"apt has read no lists of a mirror of Debian; using {MIRROR} (to use yours, type first: apt-get update, "
                "or set SOFTRDMA_MIRROR)"
            )
        return MIRROR, SECURITY_MIRROR
    return main_uri, security_uri


def download_file(uri: str, path: str, size: int, sha256: str) -> None:
    """Download a file by apt, with its proxies. Raises Unavailable if the file is another one."""
    _require_apt()
    methods = subprocesses.capture_output(
        ["apt-config", "dump", "--format", "%v%n", "Dir::Bin::methods"]
    ).partition("\n")[0]
    folder, name = os.path.split(path)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)  # a part from another address, which apt would continue
    with progress.Step(f"downloading {uri} ({progress.format_megabytes(size)})") as step:
        subprocesses.run_long(
            [
                os.path.join(os.path.dirname(methods), "apt-helper"),
                *(word for setting in DOWNLOAD_SETTINGS for word in ("-o", setting)),
                "-qq",
                "download-file",
                uri,
                name,
                f"Checksum-FileSize:{size}",
            ],
            f"cannot download {uri}",
            on_progress=lambda _: step.update(
                os.path.getsize(path) / size if os.path.exists(path) else None
            ),
            error_class=Unavailable,
            cwd=folder,
        )
    if os.path.islink(path):  # to a file of a mirror on this machine
        target = os.path.realpath(path)
        os.unlink(path)
        shutil.copyfile(target, path)
    actual_sha256 = files.hash_file(path)
    if actual_sha256 != sha256:
        os.unlink(path)
        raise Unavailable(f"{uri} is refused: its SHA-256 is {actual_sha256}, not {sha256}")


def make_merged_usr(root: str) -> None:
    """Link /bin, /sbin and /lib to /usr: packages have files below both."""
    for name in ("bin", "sbin", "lib"):
        os.makedirs(os.path.join(root, "usr", name))
        os.symlink(f"usr/{name}", os.path.join(root, name))


def unpack(deb: str, folder: str, error_text: str) -> None:
    """Unpack a package; like dpkg, follow symbolic links to folders."""
    script = (
        'dpkg-deb --fsys-tarfile "$1" | tar -C "$2" -x --keep-directory-symlink'
        " --no-same-owner --delay-directory-restore"
    )
    subprocesses.run_long(["sh", "-c", script, "sh", deb, folder], error_text)


def unpack_and_delete(debs: List[str], folder: str, title: str) -> None:
    with progress.Step(f"unpacking {title}") as step:
        for count, deb in enumerate(debs):
            step.update(count / len(debs))
            unpack(deb, folder, f"cannot unpack {os.path.basename(deb)}")
            os.unlink(deb)


def _write_file(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)

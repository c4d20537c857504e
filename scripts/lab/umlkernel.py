# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""The user-mode kernel: built once from the distribution's kernel source package.

What is in it is said in guest/uml.config, on top of nothing at all. The cache
keeps it by source version and by that file, so that a change of either is a
new kernel. A package may bring one as well: the same files, where nobody
writes.
"""

import hashlib
import os
import re
import shutil
import time
from typing import Any, Dict, List, NamedTuple, Optional

from . import cache, children, initramfs, keeper, mends, packages, say
from .errors import CannotHere, LabError, Misuse
from .packages import Package, Suite

KIND = "uml"
PACKAGE = "softrdma-uml"
CONFIG = os.path.join(initramfs.GUEST, "uml.config")
PROGRAM = "linux"
BUILD_SECONDS = 300.0  # on two processors
BUILD_PRINTS = 54_000  # bytes that make prints meanwhile: how far it is
TOOLS = {
    "make": "make",
    "gcc": "gcc",
    "flex": "flex",
    "bison": "bison",
    "bc": "bc",
    "xz": "xz-utils",
    "strip": "binutils",
    "depmod": "kmod",
}
FOR_OLDER = b"CONFIG_UML_NET=y\n"  # the vector driver asks for it there
NEEDED = ("RDMA_RXE", "RDMA_SIW", "HOSTFS", "OVERLAY_FS", "SSL")
# No folder to look for libraries in, which a package's program must not have; the kernel's
# configuration has it set for all but experts.
NO_RPATH = "CONFIG_LD_SCRIPT_DYN_RPATH="
# Not needed to build, and a good part of the tree.
LEFT_OUT = ("*/tools/testing/*", "*/drivers/gpu/drm/amd/include/*", "*/arch/arm*/boot/*")
UNPACK_TO = 'tar -C "$tree" -xJ --no-same-owner --strip-components=1 "$@"'
UNPACK_FILE = "packed=$1 tree=$2; shift 2; " + UNPACK_TO + ' -f "$packed"'
UNPACK_PACKAGE = f"""packed=$1 tree=$2; shift 2
    dpkg-deb --fsys-tarfile "$packed" | tar -xO --wildcards "./usr/src/*.tar.xz" | {UNPACK_TO}"""
XZ_MAGIC = b"\xfd7zXZ\0"


class UserKernel(NamedTuple):
    series: str
    version: str
    path: str
    current: bool  # made with today's configuration
    packaged: bool  # not in the cache, but installed


def get(wanted: Optional[str]) -> str:
    """The folder of a kernel: the newest that was built or installed."""
    fit = [k for k in known() if wanted is None or _fits(k.series, wanted)]
    usable = [k for k in fit if k.current]
    if not usable:
        raise _none(wanted, fit)
    # Of two that are the same the package's: it is there for every user.
    newest = max(usable, key=lambda kernel: (packages.natural(kernel.version), kernel.packaged))
    reason = cache.damage(newest.path)
    if reason:
        remedy = f"make it again: softrdma kernel build {newest.series}"
        if newest.packaged:
            remedy = f"install it again: apt install --reinstall {PACKAGE}"
        raise LabError(
            f"the user-mode kernel {newest.version} in {say.home_relative(newest.path)} is damaged ({reason}); {remedy}"
        )
    return newest.path


def _none(wanted: Optional[str], fit: List[UserKernel]) -> LabError:
    """Why there is none to run, and what to type."""
    series = f" {wanted}" if wanted else ""
    what = f"no user-mode kernel{series} is built"
    remedy = f"build one: softrdma kernel build{series}"
    outdated = [kernel for kernel in fit if kernel.packaged]
    unread = [path for path in _folders(installed_folder()) if cache.manifest(path) is None]
    if outdated:
        what += f", and {outdated[0].path} has another configuration than this softrdma's"
        remedy += f", or have both packages of one version: apt install softrdma {PACKAGE}"
    elif unread:
        what += f", and {unread[0]} is damaged (its manifest is missing or broken)"
        remedy += f", or install it again: apt install --reinstall {PACKAGE}"
    elif _home() == "/usr/share/softrdma" and not wanted:
        remedy += f", or install it: apt install {PACKAGE}"
    return CannotHere(f"{what}; {remedy}")


def is_built(wanted: Optional[str] = None) -> bool:
    return any(k.current and (wanted is None or _fits(k.series, wanted)) for k in known())


def processors(path: str) -> int:
    """How many processors the kernel in that folder can have: older ones only one."""
    facts = (cache.manifest(path) or {"facts": {}})["facts"]
    return 1 if facts.get("processors") == 1 else 2


def _fits(series: str, wanted: str) -> bool:
    return wanted == series or wanted.startswith(series + ".")


def known() -> List[UserKernel]:
    """Those in the cache, and those that a package has installed."""
    found = []
    for folder, packaged in ((cache.folder(KIND), False), (installed_folder(), True)):
        for path in _folders(folder):
            facts = (cache.manifest(path) or {"facts": {}})["facts"]
            if {"series", "version", "config"} <= set(facts):
                current = facts["config"] == _config_key(facts["series"])
                found.append(UserKernel(facts["series"], facts["version"], path, current, packaged))
    return found


def installed_folder() -> Optional[str]:
    """lib/softrdma/uml beside the share/softrdma that this file is installed in; of a checkout none."""
    home = _home()
    if not home.endswith("/share/softrdma"):
        return None
    return os.path.join(home.removesuffix("/share/softrdma"), "lib", "softrdma", "uml")


def _home() -> str:
    return os.path.dirname(os.path.dirname(os.path.realpath(__file__)))


def _folders(folder: Optional[str]) -> List[str]:
    if not folder or not os.path.isdir(folder):
        return []
    paths = [os.path.join(folder, name) for name in sorted(os.listdir(folder))]
    return [path for path in paths if os.path.isdir(path) and not path.endswith(".part")]


def _config(series: str) -> bytes:
    """What is set in a kernel of that series."""
    with open(CONFIG, "rb") as file:
        return file.read() + (FOR_OLDER if mends.is_older(series) else b"")


def _config_key(series: str) -> str:
    return hashlib.sha256(_config(series) + mends.key(series).encode()).hexdigest()[:8]


class Build(NamedTuple):
    """How to make it."""

    jobs: int = 0  # at a time; 0: as many as there are processors
    verbose: bool = False  # make's own words instead of progress


def build(wanted: Optional[str], how: Build = Build()) -> UserKernel:
    """A kernel of that series, or the newest that can be reached, in the cache."""
    _need_tools()
    suite, source = _find(wanted)
    series = source.name.removeprefix("linux-source-")
    name = f"{source.version}-{_config_key(series)}"

    def make(path: str) -> Dict[str, Any]:
        cache.need_room(3000, f"building user-mode kernel {series}")
        with keeper.Undo() as undo:
            shop = packages.workshop(undo, "uml")
            tree = os.path.join(shop, "tree")
            os.mkdir(tree)
            (packed,) = suite.download([source], shop)
            _unpack(UNPACK_PACKAGE, packed, tree)
            os.unlink(packed)
            return {"series": series, "version": source.version, **_make(tree, path, how, series)}

    path = cache.entry(KIND, name, make, [PROGRAM])
    return UserKernel(series, source.version, path, True, False)


def build_into(source: str, into: str, how: Build = Build()) -> UserKernel:
    """A kernel of that source file in a folder of the caller's: without network, without cache."""
    into = os.path.abspath(into)
    _check_source(source)
    if os.path.lexists(into) and not (os.path.isdir(into) and not os.listdir(into)):
        raise Misuse(f"--into {into}: it is there and no empty folder; remove it, or name another")
    _need_tools()
    parent = os.path.dirname(into)
    with keeper.Undo() as undo:
        shop = f"{into}.{os.urandom(4).hex()}.part"  # beside it, to be renamed
        undo.callback(shutil.rmtree, shop, ignore_errors=True)
        try:
            os.makedirs(shop)
        except OSError as problem:
            raise CannotHere(
                f"--into {into}: cannot make a folder in {parent}: {problem.strerror}; name one that you can write"
            ) from problem
        cache.need_room(3000, "building a user-mode kernel", parent, "name another by --into")
        tree, path = os.path.join(shop, "tree"), os.path.join(shop, "made")
        os.mkdir(tree)
        os.mkdir(path)
        _unpack(UNPACK_FILE, os.path.abspath(source), tree)
        series, version = _version(tree, source)
        facts = {"series": series, "version": version, **_make(tree, path, how, series)}
        cache.write_manifest(path, facts, [PROGRAM])
        with keeper.deferred():
            os.rename(path, into)
    return UserKernel(series, version, into, True, False)


def _check_source(path: str) -> None:
    try:
        with open(path, "rb") as file:
            begin = file.read(len(XZ_MAGIC))
    except OSError as problem:
        raise Misuse(
            f"--source {path or chr(39) * 2}: {problem.strerror}; it is a file such as /usr/src/linux-source-6.1.tar.xz, "
            "of Debian's package linux-source"
        ) from problem
    if begin != XZ_MAGIC:
        raise Misuse(f"--source {path}: it is not compressed by xz, as a kernel's source is")


def _version(tree: str, source: str) -> "tuple[str, str]":
    """The series and the version that the source says it is, such as 6.1 and 6.1.187."""
    try:
        with open(os.path.join(tree, "Makefile"), encoding="utf-8") as file:
            words = dict(re.findall(r"^([A-Z]+) *=[ \t]*(\S*)$", file.read(), re.MULTILINE))
        series = f"{int(words['VERSION'])}.{int(words['PATCHLEVEL'])}"
        version = f"{series}.{int(words['SUBLEVEL'])}{words.get('EXTRAVERSION', '')}"
    except (OSError, KeyError, ValueError):
        raise Misuse(
            f"--source {source}: there is no kernel in it (its Makefile does not say VERSION, PATCHLEVEL and SUBLEVEL)"
        ) from None
    return series, version


def _need_tools() -> None:
    if packages.machine_arch() != "amd64":
        raise CannotHere(
            f"a kernel in user mode runs on amd64 alone, and this machine is {packages.machine_arch()}; use: --in qemu"
        )
    children.need_all(TOOLS, "building a user-mode kernel")


def _unpack(script: str, packed: str, tree: str) -> None:
    with say.Step("unpacking the kernel's source", expect=25) as step:
        children.work(
            ["sh", "-c", script, "sh", packed, tree, *(f"--exclude={name}" for name in LEFT_OUT)],
            f"cannot unpack the kernel's source {os.path.basename(packed)}",
            tick=lambda _: step.at(None),
        )


def _make(tree: str, path: str, how: Build, series: str) -> Dict[str, Any]:
    """Build the unpacked source; leave in path what is kept of it. What the manifest is to say."""
    environment = _environment(tree)
    mends.apply(tree)
    missing = _configure(tree, environment, series)
    jobs = how.jobs or len(os.sched_getaffinity(0))
    words = ["make", "-C", tree, "ARCH=um", f"-j{jobs}", *(["V=1"] if how.verbose else [])]
    words += [NO_RPATH, PROGRAM]
    with say.Step("building the user-mode kernel", expect=BUILD_SECONDS) as step:
        children.work(
            words,
            "the user-mode kernel does not build",
            tick=None if how.verbose else lambda out: step.at(min(out / BUILD_PRINTS, 0.99)),
            show=how.verbose,
            env=environment,
        )
    _collect(tree, path)
    return {"config": _config_key(series), "processors": 1 if "SMP" in missing else 2}


def _environment(tree: str) -> Dict[str, str]:
    """What make sees: the same source makes the same bytes, anywhere and at any time."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name in ("PATH", "HOME", "TMPDIR") or name.startswith("CCACHE_")
    }
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    if epoch is None:  # the day of the source itself
        seconds = int(os.stat(os.path.join(tree, "Makefile")).st_mtime)
    elif epoch.isascii() and epoch.isdigit() and len(epoch) <= 11:
        seconds = int(epoch)
    else:
        raise Misuse(f"SOURCE_DATE_EPOCH={epoch}: it is a number, of seconds since 1970")
    maps = f"-ffile-prefix-map={tree}/= -ffile-prefix-map={tree}=."
    return {
        **kept,
        "LC_ALL": "C",
        "TZ": "UTC",
        "KBUILD_BUILD_TIMESTAMP": time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(seconds)),
        "KBUILD_BUILD_USER": "softrdma",
        "KBUILD_BUILD_HOST": "softrdma",
        "KBUILD_BUILD_VERSION": "1",
        "KCFLAGS": maps,
        "KAFLAGS": maps,
    }


def _collect(tree: str, path: str) -> None:
    """The program, and the lists by which modprobe knows what is built in."""
    shutil.copy2(os.path.join(tree, PROGRAM), path)
    strip = children.need("strip", "binutils", "building a kernel")
    children.capture([strip, "--remove-section=.comment", os.path.join(path, PROGRAM)])
    with open(os.path.join(tree, "include", "config", "kernel.release"), encoding="ascii") as file:
        release = file.read().strip()
    modules = os.path.join(path, "lib", "modules", release)
    os.makedirs(modules)
    for name in ("modules.builtin", "modules.builtin.modinfo"):
        shutil.copy2(os.path.join(tree, name), modules)
    with open(os.path.join(modules, "modules.order"), "w", encoding="ascii"):
        pass
    children.capture([children.need("depmod", "kmod", "building a kernel"), "-b", path, release])


def _find(wanted: Optional[str]) -> "tuple[Suite, Package]":
    """The source package: the newest, for only new kernels have two processors in user mode."""
    own = packages.own_release()
    names = [*reversed(packages.RELEASES), f"{own}-backports", own]
    for name in dict.fromkeys(names):
        suite = Suite(name, packages.machine_arch())
        try:
            suite.refresh()
        except CannotHere:
            say.note(f"{name} cannot be reached; looking in an older one")
            continue
        found = [
            n
            for n in suite.names(r"^linux-source-[0-9.]+$")
            if wanted is None or _fits(n.removeprefix("linux-source-"), wanted)
        ]
        source = suite.show(max(found, key=packages.natural)) if found else None
        if source:
            return suite, source
    raise CannotHere(f"no kernel source{' ' + wanted if wanted else ''} can be reached")


def _configure(tree: str, environment: Dict[str, str], series: str) -> List[str]:
    """The options that this kernel does not know."""
    kconfig = os.path.join(tree, "arch", "um", "Kconfig")
    if not os.path.isfile(kconfig):
        raise LabError("this kernel's source is without user mode (arch/um)")
    with open(kconfig, encoding="utf-8") as file:
        text = file.read()
    # Fixed there at 100, with which programs that poll wait for each other too long.
    text, count = re.subn(r"(config HZ\n\tint\n\tdefault )100\n", r"\g<1>1000\n", text)
    if count != 1:
        raise LabError(
            "arch/um/Kconfig of this kernel sets HZ in another way; umlkernel.py has to follow"
        )
    with open(kconfig, "w", encoding="utf-8") as file:
        file.write(text)
    wish = os.path.join(tree, "softrdma.config")
    with open(wish, "wb") as binary:
        binary.write(_config(series))
    children.work(
        ["make", "-C", tree, "ARCH=um", "-s", f"KCONFIG_ALLCONFIG={wish}", "allnoconfig"],
        "the user-mode kernel cannot be configured",
        env=environment,
    )
    with open(os.path.join(tree, ".config"), encoding="utf-8") as file:
        got = set(file.read().splitlines())
    with open(wish, encoding="utf-8") as file:
        wanted = {line for line in file.read().splitlines() if line.startswith("CONFIG_")}
    missing = sorted(line.split("=")[0].removeprefix("CONFIG_") for line in wanted - got)
    for option in NEEDED:
        if option in missing:
            raise LabError(f"this kernel's configuration does not take CONFIG_{option}")
    missing = [option for option in missing if option != "FD_CHAN"]  # newer kernels have it always
    if missing:
        say.note(f"this kernel does not know, and so goes without: {', '.join(missing)}")
    return missing

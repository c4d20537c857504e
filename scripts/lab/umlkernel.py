# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""The user-mode kernel: built once from the distribution's kernel source package.

What is in it is said in guest/uml.config, on top of nothing at all. The cache
keeps it by source version and by that file, so that a change of either is a
new kernel.
"""

import hashlib
import os
import re
import shutil
from typing import Any, Dict, List, NamedTuple, Optional

from . import cache, children, initramfs, keeper, packages, say
from .errors import CannotHere, LabError
from .packages import Package, Suite

KIND = "uml"
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
}
NEEDED = ("RDMA_RXE", "RDMA_SIW", "HOSTFS", "OVERLAY_FS", "SSL")
# Not needed to build, and a good part of the tree.
LEFT_OUT = ("*/tools/testing/*", "*/drivers/gpu/drm/amd/include/*", "*/arch/arm*/boot/*")
UNPACK = """dpkg-deb --fsys-tarfile "$1" | tar -xO --wildcards "./usr/src/*.tar.xz" |
    tar -C "$2" -xJ --strip-components=1 $(printf -- "--exclude=%s " $3)"""


class UserKernel(NamedTuple):
    series: str
    version: str
    path: str
    current: bool  # made with today's configuration


def get(wanted: Optional[str]) -> str:
    """The folder of a kernel; only from the cache."""
    fit = [k for k in cached() if k.current and (wanted is None or _fits(k.series, wanted))]
    if not fit:
        series = f" {wanted}" if wanted else ""
        raise CannotHere(
            f"no user-mode kernel{series} is built; build one: softrdma kernel build{series}"
        )
    newest = max(fit, key=lambda kernel: packages.natural(kernel.version))
    reason = cache.damage(newest.path)
    if reason:
        raise LabError(
            f"the user-mode kernel {newest.version} is damaged ({reason}); make it again: softrdma kernel build {newest.series}"
        )
    return newest.path


def is_built(wanted: Optional[str] = None) -> bool:
    return any(k.current and (wanted is None or _fits(k.series, wanted)) for k in cached())


def _fits(series: str, wanted: str) -> bool:
    return wanted == series or wanted.startswith(series + ".")


def cached() -> List[UserKernel]:
    found = []
    folder = cache.folder(KIND)
    for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else []:
        facts = (cache.manifest(os.path.join(folder, name)) or {}).get("facts")
        if facts and not name.endswith(".part"):
            current = facts["config"] == _config_key()
            found.append(
                UserKernel(facts["series"], facts["version"], os.path.join(folder, name), current)
            )
    return found


def _config_key() -> str:
    with open(CONFIG, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()[:8]


def build(wanted: Optional[str]) -> UserKernel:
    """A kernel of that series, or the newest that can be reached."""
    if packages.machine_arch() != "amd64":
        raise CannotHere(
            f"a kernel in user mode runs on amd64 alone, and this machine is {packages.machine_arch()}; use: --in qemu"
        )
    for program, package in TOOLS.items():
        children.need(program, package, "building a user-mode kernel")
    suite, source = _find(wanted)
    series = source.name.removeprefix("linux-source-")
    name = f"{source.version}-{_config_key()}"

    def make(path: str) -> Dict[str, Any]:
        cache.need_room(3000, f"building user-mode kernel {series}")
        with keeper.Undo() as undo:
            shop = packages.workshop(undo, "uml")
            tree = os.path.join(shop, "tree")
            os.mkdir(tree)
            (packed,) = suite.download([source], shop)
            with say.Step(f"unpacking the source of kernel {series}", expect=25) as step:
                children.work(
                    ["sh", "-c", UNPACK, "sh", packed, tree, " ".join(LEFT_OUT)],
                    "cannot unpack the kernel's source",
                    tick=lambda _: step.at(None),
                )
            os.unlink(packed)
            _configure(tree)
            with say.Step(f"building user-mode kernel {series}", expect=BUILD_SECONDS) as step:
                children.work(
                    ["make", "-C", tree, "ARCH=um", f"-j{os.cpu_count() or 1}", PROGRAM],
                    f"user-mode kernel {series} does not build",
                    tick=lambda printed: step.at(min(printed / BUILD_PRINTS, 0.99)),
                )
            _collect(tree, path)
        return {"series": series, "version": source.version, "config": _config_key()}

    path = cache.entry(KIND, name, make, [PROGRAM])
    return UserKernel(series, source.version, path, True)


def _collect(tree: str, path: str) -> None:
    """The program, and the lists by which modprobe knows what is built in."""
    shutil.copy2(os.path.join(tree, PROGRAM), path)
    strip = children.need("strip", "binutils", "building a kernel")
    children.capture([strip, os.path.join(path, PROGRAM)])
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


def _configure(tree: str) -> None:
    kconfig = os.path.join(tree, "arch", "um", "Kconfig")
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
    children.work(
        ["make", "-C", tree, "ARCH=um", "-s", f"KCONFIG_ALLCONFIG={CONFIG}", "allnoconfig"],
        "the user-mode kernel cannot be configured",
    )
    with open(os.path.join(tree, ".config"), encoding="utf-8") as file:
        got = set(file.read().splitlines())
    with open(CONFIG, encoding="utf-8") as file:
        wanted = {line for line in file.read().splitlines() if line.startswith("CONFIG_")}
    missing = sorted(line.split("=")[0].removeprefix("CONFIG_") for line in wanted - got)
    for option in NEEDED:
        if option in missing:
            raise LabError(f"this kernel's configuration does not take CONFIG_{option}")
    missing = [option for option in missing if option != "FD_CHAN"]  # newer kernels have it always
    if missing:
        say.note(f"this kernel does not know, and so goes without: {', '.join(missing)}")

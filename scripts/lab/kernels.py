# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""A distribution's kernel, ready to boot from the cache."""

import os
import re
import shutil
from typing import Any, Dict, List, NamedTuple, Optional

from . import cache, children, keeper, packages
from .errors import CannotHere, LabError, Misuse
from .packages import Package, Suite

KIND = "kernels"
BOOT_MODULES = ("virtio_pci", "9pnet_virtio", "9p", "overlay", "virtio_console")


class Kernel(NamedTuple):
    arch: str
    release: str  # what uname -r says in it
    version: str  # of the package
    suite: str
    path: str

    @property
    def modules(self) -> str:
        return os.path.join(self.path, "lib", "modules", self.release)


def get(arch: str, wanted: Optional[str], suite: Optional[str] = None) -> Kernel:
    """A kernel from the cache, fetched first if need be; of one suite alone, if one is given."""
    if wanted is not None and not re.fullmatch(r"\d+\.[0-9A-Za-z.+~-]*", wanted):
        raise Misuse(
            f"--kernel {wanted}: give a version such as 6.1 or 6.12, or a whole release such as 6.1.0-9-amd64"
        )
    chosen = _cached(arch, wanted, suite)
    if not chosen or cache.damage(chosen.path):
        chosen = _fetch(arch, wanted, suite)
    return chosen


def cached() -> List[Kernel]:
    """All kernels in the cache, whatever state they are in."""
    found = []
    for arch in _listing(cache.folder(KIND)):
        for release in _listing(cache.folder(KIND, arch)):
            path = cache.folder(KIND, arch, release)
            facts = (cache.manifest(path) or {}).get("facts", {})
            if os.path.isdir(path) and not release.endswith(".part"):
                found.append(
                    Kernel(arch, release, facts.get("version", "?"), facts.get("suite", "?"), path)
                )
    return found


def _listing(path: str) -> List[str]:
    return sorted(os.listdir(path)) if os.path.isdir(path) else []


def matches(release: str, wanted: str) -> bool:
    return release == wanted or (release.startswith(wanted) and not release[len(wanted)].isdigit())


def _cached(arch: str, wanted: Optional[str], suite: Optional[str]) -> Optional[Kernel]:
    fit = [
        kernel
        for kernel in cached()
        if kernel.arch == arch
        and (not wanted or matches(kernel.release, wanted))
        and (kernel.suite == (suite or packages.own_release()) if suite or not wanted else True)
    ]
    return max(fit, key=lambda kernel: packages.natural(kernel.release)) if fit else None


def _fetch(arch: str, wanted: Optional[str], only: Optional[str]) -> Kernel:
    suite, image = _find(arch, wanted, only)
    release = image.name.removeprefix("linux-image-")
    parts = [image]
    for name in image.depends:
        # Newer suites split the image in several packages.
        if re.match(r"linux-(base|binary|modules)-\d", name):
            part = suite.show(name)
            parts += [part] if part else []

    def build(path: str) -> Dict[str, Any]:
        cache.need_room(900, f"kernel {release}")
        with keeper.Undo() as undo:
            shop = packages.workshop(undo, release)
            busybox = suite.show("busybox-static")
            if not busybox:
                raise CannotHere(
                    f"{suite.name} has no busybox-static for {arch}, which the guest starts with"
                )
            root = os.path.join(shop, "root")
            packages.merge_usr(root)
            debs = suite.download([*parts, busybox], shop)
            packages.unpack_and_drop(debs, root, f"kernel {release}")
            _arrange(root, path, release)
        depmod = children.need("depmod", "kmod", "preparing a kernel")
        children.capture([depmod, "-b", path, release], fails=f"depmod failed for {release}")
        return {"version": image.version, "suite": suite.name, "release": release}

    path = cache.entry(os.path.join(KIND, arch), release, build, ["vmlinuz", "busybox"])
    return Kernel(arch, release, image.version, suite.name, path)


def _find(arch: str, wanted: Optional[str], only: Optional[str]) -> "tuple[Suite, Package]":
    own = only or packages.own_release()
    if wanted is None:
        suite = Suite(own, arch)
        suite.refresh()
        meta = suite.show(f"linux-image-{arch}")
        names = [name for name in meta.depends if name.startswith("linux-image-")] if meta else []
        image = suite.show(names[0]) if names else None
        if image:
            return suite, image
        raise CannotHere(f"{own} has no kernel package for {arch}")
    later = packages.RELEASES[packages.RELEASES.index(own) :]
    places = [
        place
        for release in later
        for place in ((release, f"{release}-backports") if release != "sid" else (release,))
    ]
    tried = []
    for name in [only] if only else places:
        suite = Suite(name, arch)
        try:
            suite.refresh()
        except CannotHere:
            tried.append(f"{name} (not reachable)")
            continue
        tried.append(name)
        # Not the cloud flavour (it has no rxe), not the real-time one, no debug symbols.
        images = [
            image
            for image in suite.names(rf"^linux-image-[0-9].*-{arch}$")
            if not re.search(r"-(cloud|rt)-", image)
            and matches(image.removeprefix("linux-image-"), wanted)
        ]
        for image_name in sorted(images, key=packages.natural, reverse=True):
            image = suite.show(image_name)
            if image:
                return suite, image
    raise CannotHere(
        f"no kernel {wanted} for {arch} in {', '.join(tried)}; see: softrdma kernel list"
    )


def _arrange(root: str, path: str, release: str) -> None:
    """From the packages' places to the entry's."""
    os.makedirs(os.path.join(path, "lib", "modules"))
    modules = f"usr/lib/modules/{release}"
    for sources, target in (
        ((f"boot/vmlinuz-{release}", f"{modules}/vmlinuz"), "vmlinuz"),  # old place, new place
        ((modules,), f"lib/modules/{release}"),
        (("usr/bin/busybox",), "busybox"),
    ):
        found = [source for source in sources if os.path.exists(os.path.join(root, source))]
        if not found:
            raise LabError(f"the packages of kernel {release} do not hold {sources[0]}")
        shutil.move(os.path.join(root, found[0]), os.path.join(path, target))

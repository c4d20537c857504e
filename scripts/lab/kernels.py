# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""A distribution's kernel, ready to boot from the cache.

Debian's kernels bring rxe as a module and leave siw out; siw is built from
the distribution's own kernel source package of the same version.
"""

import os
import re
import shutil
from typing import Any, Dict, List, NamedTuple, Optional

from . import cache, children, keeper, packages, say
from .errors import CannotHere, LabError, Misuse
from .packages import Package, Suite

KIND = "kernels"
BOOT_MODULES = ("virtio_pci", "9pnet_virtio", "9p", "overlay", "virtio_console")
SIW = "drivers/infiniband/sw/siw"
GNU_TYPES = {"amd64": "x86_64-linux-gnu", "arm64": "aarch64-linux-gnu"}


class Kernel(NamedTuple):
    arch: str
    release: str  # what uname -r says in it
    version: str  # of the package
    suite: str
    path: str

    @property
    def modules(self) -> str:
        return os.path.join(self.path, "lib", "modules", self.release)


def get(arch: str, wanted: Optional[str], siw: bool) -> Kernel:
    """A kernel from the cache, fetched first if need be."""
    if wanted is not None and not re.fullmatch(r"\d+\.[0-9A-Za-z.+~-]*", wanted):
        raise Misuse(
            f"--kernel {wanted}: give a version such as 6.1 or 6.12, or a whole release such as 6.1.0-9-amd64"
        )
    chosen = _cached(arch, wanted)
    if not chosen or cache.damage(chosen.path):
        chosen = _fetch(arch, wanted)
    if siw and not os.path.exists(_siw_module(chosen)):
        _add_siw(chosen)
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


def has_siw(kernel: Kernel) -> bool:
    return os.path.exists(_siw_module(kernel))


def remove(wanted: str, arch: Optional[str]) -> List[Kernel]:
    chosen = [
        kernel
        for kernel in cached()
        if matches(kernel.release, wanted) and arch in (None, kernel.arch)
    ]
    if not chosen:
        raise Misuse(f"no kernel {wanted} in the cache; see: softrdma kernel list")
    for kernel in chosen:
        with cache.locked(KIND, kernel.arch, kernel.release):
            shutil.rmtree(kernel.path)
    return chosen


def _listing(path: str) -> List[str]:
    return sorted(os.listdir(path)) if os.path.isdir(path) else []


def matches(release: str, wanted: str) -> bool:
    return release == wanted or (release.startswith(wanted) and not release[len(wanted)].isdigit())


def _cached(arch: str, wanted: Optional[str]) -> Optional[Kernel]:
    fit = [
        kernel
        for kernel in cached()
        if kernel.arch == arch
        and (matches(kernel.release, wanted) if wanted else kernel.suite == packages.own_release())
    ]
    return max(fit, key=lambda kernel: packages.natural(kernel.release)) if fit else None


def _fetch(arch: str, wanted: Optional[str]) -> Kernel:
    suite, image = _find(arch, wanted)
    release = image.name.removeprefix("linux-image-")
    parts = [image]
    for name in image.depends:
        # Newer suites split the image in two more packages.
        if re.match(r"linux-(binary|modules)-", name):
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
            debs = suite.download([*parts, busybox], shop)
            packages.unpack_and_drop(debs, os.path.join(_mkdir(shop, "root")), f"kernel {release}")
            _arrange(os.path.join(shop, "root"), path, release)
        depmod = children.need("depmod", "kmod", "preparing a kernel")
        children.capture([depmod, "-b", path, release], fails=f"depmod failed for {release}")
        return {"version": image.version, "suite": suite.name, "release": release}

    path = cache.entry(os.path.join(KIND, arch), release, build, ["vmlinuz", "busybox"])
    return Kernel(arch, release, image.version, suite.name, path)


def _find(arch: str, wanted: Optional[str]) -> "tuple[Suite, Package]":
    own = packages.own_release()
    if wanted is None:
        suite = Suite(own, arch)
        suite.refresh()
        meta = suite.show(f"linux-image-{arch}")
        image = suite.show(meta.depends[0]) if meta else None
        if image:
            return suite, image
        raise CannotHere(f"{own} has no kernel package for {arch}")
    later = packages.RELEASES[packages.RELEASES.index(own) :]
    tried = []
    for name in [
        place
        for release in later
        for place in ((release, f"{release}-backports") if release != "sid" else (release,))
    ]:
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


def _mkdir(*parts: str) -> str:
    path = os.path.join(*parts)
    os.makedirs(path, exist_ok=True)
    return path


def _arrange(root: str, path: str, release: str) -> None:
    """From the packages' places to the entry's."""
    for source, target in (
        ((f"boot/vmlinuz-{release}", f"usr/lib/modules/{release}/vmlinuz"), "vmlinuz"),
        ((f"usr/lib/modules/{release}", f"lib/modules/{release}"), f"lib/modules/{release}"),
        (("bin/busybox", "usr/bin/busybox"), "busybox"),
    ):
        found = [
            os.path.join(root, place)
            for place in source
            if os.path.exists(os.path.join(root, place))
        ]
        if not found:
            raise LabError(f"the packages of kernel {release} do not hold {source[0]}")
        os.makedirs(os.path.dirname(os.path.join(path, target)), exist_ok=True)
        shutil.move(found[0], os.path.join(path, target))


def _siw_module(kernel: Kernel) -> str:
    return os.path.join(kernel.modules, "updates", "siw.ko")


def _add_siw(kernel: Kernel) -> None:
    with cache.locked(KIND, kernel.arch, kernel.release), keeper.Undo() as undo:
        if os.path.exists(_siw_module(kernel)):
            return
        cache.need_room(800, f"building siw for kernel {kernel.release}")
        shop = packages.workshop(undo, "siw")
        source, tools, others = _siw_packages(kernel)
        children.need("make", "make", "building siw")
        debs = Suite(kernel.suite, kernel.arch).download([source, *others], shop)
        packed = next(deb for deb in debs if os.path.basename(deb).startswith("linux-source-"))
        tree = _unpack_siw(packed, shop)
        debs.remove(packed)
        debs += Suite(kernel.suite, packages.machine_arch()).download(tools, _mkdir(shop, "tools"))
        packages.unpack_and_drop(
            debs, _mkdir(shop, "root"), f"the headers of kernel {kernel.release}"
        )
        built = _compile(kernel, os.path.join(shop, "root"), tree)
        _mkdir(os.path.dirname(_siw_module(kernel)))
        with keeper.deferred():
            os.rename(built, _siw_module(kernel))
            children.capture(
                [children.need("depmod", "kmod", "adding siw"), "-b", kernel.path, kernel.release]
            )
            listed = cache.manifest(kernel.path) or {}
            cache.write_manifest(
                kernel.path,
                listed["facts"],
                [*listed["sha256"], os.path.relpath(_siw_module(kernel), kernel.path)],
            )


def _siw_packages(kernel: Kernel) -> "tuple[Package, List[Package], List[Package]]":
    """The kernel's source, the programs of its build system, its headers."""
    suite = Suite(kernel.suite, kernel.arch)
    suite.refresh()
    headers = suite.show(f"linux-headers-{kernel.release}", kernel.version)
    sources = [suite.show(name, kernel.version) for name in suite.names(r"^linux-source-[0-9.]+$")]
    source = next((package for package in sources if package), None)
    if not headers or not source:
        raise CannotHere(
            f"siw has to be built from the very source of kernel {kernel.release} ({kernel.version}), which {kernel.suite} no longer has; "
            f"fetch its newest kernel instead: softrdma kernel remove {kernel.release}, then again"
        )
    host = Suite(kernel.suite, packages.machine_arch())
    host.refresh()
    tools = [
        package
        for package in map(host.show, headers.depends)
        if package and package.name.startswith("linux-kbuild-")
    ]
    common = [
        package
        for package in map(suite.show, headers.depends)
        if package and re.match(r"linux-headers-.*-common", package.name)
    ]
    return source, tools, [headers, *common]


def _unpack_siw(packed: str, shop: str) -> str:
    """Only siw's folder from the source package, which holds a compressed tree."""
    with say.Step(f"unpacking siw from {os.path.basename(packed).split('_')[0]}", expect=8) as step:
        children.work(
            [
                *(
                    "sh",
                    "-c",
                    'dpkg-deb --fsys-tarfile "$1" | tar -xO --wildcards "./usr/src/*.tar.xz" | tar -C "$2" -xJ --wildcards "*/$3/*"',
                ),
                *("sh", packed, shop, SIW),
            ],
            "cannot unpack the kernel's source",
            tick=lambda: step.at(None),
        )
    os.unlink(packed)
    for name in os.listdir(shop):
        tree = os.path.join(shop, name, SIW)
        if os.path.isdir(tree):
            return tree
    raise LabError("the kernel's source package holds no siw")


def _compile(kernel: Kernel, root: str, tree: str) -> str:
    headers = os.path.join(root, "usr", "src", f"linux-headers-{kernel.release}")
    makefile = os.path.join(headers, "Makefile")
    with open(makefile, encoding="utf-8") as file:
        text = file.read()
    with open(
        makefile, "w", encoding="utf-8"
    ) as file:  # it names its other half by an absolute path
        file.write(text.replace("/usr/src/", os.path.join(root, "usr", "src") + "/"))
    with open(os.path.join(headers, ".kernelvariables"), encoding="utf-8") as file:
        compiler = re.search(r"\bgcc-\d+", file.read())
    foreign = kernel.arch != packages.machine_arch()
    prefix = GNU_TYPES[kernel.arch] + "-" if foreign else ""
    suffix = "-" + GNU_TYPES[kernel.arch] if foreign else ""
    gcc = compiler.group() if compiler else "gcc"
    children.need(prefix + gcc, gcc + suffix, f"building siw for kernel {kernel.release}")
    strip = children.need(prefix + "strip", "binutils" + suffix, "building siw")
    env = dict(
        os.environ,
        DEB_BUILD_ARCH=packages.machine_arch(),
        DEB_HOST_ARCH=kernel.arch,
        DEB_HOST_GNU_TYPE=GNU_TYPES[kernel.arch],
    )
    with say.Step(f"building siw for kernel {kernel.release}", expect=10) as step:
        children.work(
            ["make", "-C", headers, f"M={tree}", "CONFIG_RDMA_SIW=m", "modules"],
            f"siw does not build for kernel {kernel.release}",
            tick=lambda: step.at(None),
            env=env,
        )
    children.capture([strip, "--strip-debug", os.path.join(tree, "siw.ko")])
    return os.path.join(tree, "siw.ko")

# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Debian's kernels in the cache, for QEMU guests."""

import os
import re
import shutil
from typing import Any, Dict, List, NamedTuple, Optional

from ..core import cache, subprocesses, supervisor
from ..core.errors import LabError, Unavailable, UsageError
from ..core.versions import natural_key
from ..core.temporary_folders import make_work_folder
from ..debian import packages
from ..debian.packages import Package, Suite

CACHE_KIND = "kernels"


class Kernel(NamedTuple):
    arch: str
    release: str  # uname -r
    version: str  # of the package
    suite: str
    path: str

    @property
    def modules(self) -> str:
        return os.path.join(self.path, "lib", "modules", self.release)


def get_kernel(arch: str, version: Optional[str], suite: Optional[str] = None) -> Kernel:
    """A kernel from the cache; it is fetched if the cache has none.

    version: a series such as 6.1, or a release; suite: where it is looked for.
    """
    if version is not None and not re.fullmatch(r"\d+\.[0-9A-Za-z.+~-]*", version):
        raise UsageError(
            f"--kernel {version}: expected a version such as 6.1 or 6.12, or a release such as 6.1.0-9-amd64"
        )
    kernel = _find_cached(arch, version, suite)
    if not kernel or cache.find_damage(kernel.path):
        kernel = _fetch(arch, version, suite)
    return kernel


def cached_kernels() -> List[Kernel]:
    """All kernels in the cache, also damaged ones."""
    kernels = []
    for arch_path in _list_folders(cache.find_folder(CACHE_KIND)):
        arch = os.path.basename(arch_path)
        for path in _list_folders(cache.find_folder(CACHE_KIND, arch)):
            facts = cache.read_facts(path)
            release = os.path.basename(path)
            if not release.endswith(cache.PART_SUFFIX):
                version, suite = facts.get("version", "?"), facts.get("suite", "?")
                kernels.append(Kernel(arch, release, version, suite, path))
    return kernels


def _list_folders(folder: Optional[str]) -> List[str]:
    paths = [os.path.join(folder, name) for name in sorted(os.listdir(folder))] if folder else []
    return [path for path in paths if os.path.isdir(path) and not os.path.islink(path)]


def release_matches(release: str, version: str) -> bool:
    """Whether the release is that version, or of that series."""
    return release == version or (
        release.startswith(version) and not release[len(version)].isdigit()
    )


def _find_cached(arch: str, version: Optional[str], suite: Optional[str]) -> Optional[Kernel]:
    """The newest that matches. Without suite and version: of this machine's release."""
    candidates = [
        kernel
        for kernel in cached_kernels()
        if kernel.arch == arch
        and (not version or release_matches(kernel.release, version))
        and (
            kernel.suite == (suite or packages.running_release()) if suite or not version else True
        )
    ]
    if not candidates:
        return None
    return max(candidates, key=lambda kernel: natural_key(kernel.release))


def _fetch(arch: str, version: Optional[str], suite_name: Optional[str]) -> Kernel:
    """Download a kernel, and the busybox that its guest starts with, into the cache."""
    suite, image = _find_image(arch, version, suite_name)
    release = image.name.removeprefix("linux-image-")
    kernel_packages = [image]
    for name in image.depends:
        # Newer suites split the image into several packages.
        if re.match(r"linux-(base|binary|modules)-\d", name):
            package = suite.find_package(name)
            kernel_packages += [package] if package else []

    def build(path: str) -> Dict[str, Any]:
        cache.require_space(megabytes=900, purpose=f"kernel {release}")
        with supervisor.Undo() as undo:
            work_folder = make_work_folder(undo, release)
            busybox = suite.find_package("busybox-static")
            if not busybox:
                raise Unavailable(
                    f"{suite.name} has no busybox-static for {arch}, which the guest starts with"
                )
            root = os.path.join(work_folder, "root")
            packages.make_merged_usr(root)
            debs = suite.download([*kernel_packages, busybox], work_folder)
            packages.unpack_and_delete(debs, root, f"kernel {release}")
            _move_files(root, path, release)
        depmod = subprocesses.require_program("depmod", "kmod", "preparing a kernel")
        subprocesses.capture_output(
            [depmod, "-b", path, release], error_text=f"depmod failed for {release}"
        )
        return {"version": image.version, "suite": suite.name, "release": release}

    path = cache.get_or_build(
        os.path.join(CACHE_KIND, arch), release, build, ["vmlinuz", "busybox"]
    )
    return Kernel(arch, release, image.version, suite.name, path)


def _find_image(
    arch: str, version: Optional[str], suite_name: Optional[str]
) -> "tuple[Suite, Package]":
    """The package of the image, and its suite: the given one, or this release and later ones."""
    first_release = suite_name or packages.running_release()
    if version is None:
        suite = Suite(first_release, arch)
        suite.update_lists()
        meta_package = suite.find_package(f"linux-image-{arch}")
        depends = meta_package.depends if meta_package else []
        names = [name for name in depends if name.startswith("linux-image-")]
        image = suite.find_package(names[0]) if names else None
        if image:
            return suite, image
        raise Unavailable(f"{first_release} has no kernel package for {arch}")
    searched = []
    for name in [suite_name] if suite_name else _suites_since(first_release):
        suite = Suite(name, arch)
        try:
            suite.update_lists()
        except packages.UnreachableSuite:
            searched.append(f"{name} (not reachable)")
            continue
        searched.append(name)
        # Without cloud kernels (they lack rxe), real-time kernels and debug symbols.
        image_names = [
            image_name
            for image_name in suite.find_names(rf"^linux-image-[0-9].*-{arch}$")
            if not re.search(r"-(cloud|rt)-", image_name)
            and release_matches(image_name.removeprefix("linux-image-"), version)
        ]
        for image_name in sorted(image_names, key=natural_key, reverse=True):
            image = suite.find_package(image_name)
            if image:
                return suite, image
    raise Unavailable(
        f"no kernel {version} for {arch} in {', '.join(searched)}; see: softrdma kernel list"
    )


def _suites_since(first_release: str) -> List[str]:
    """The suites of this and later releases, with their backports."""
    suites = []
    for release in packages.RELEASES[packages.RELEASES.index(first_release) :]:
        suites += [release] if release == "sid" else [release, f"{release}-backports"]
    return suites


def _move_files(root: str, path: str, release: str) -> None:
    """Move the files of the unpacked packages to their places in the cache entry."""
    os.makedirs(os.path.join(path, "lib", "modules"))
    modules = f"usr/lib/modules/{release}"
    for sources, target in (
        ((f"boot/vmlinuz-{release}", f"{modules}/vmlinuz"), "vmlinuz"),  # old suites, new suites
        ((modules,), f"lib/modules/{release}"),
        (("usr/bin/busybox",), "busybox"),
    ):
        existing = [source for source in sources if os.path.exists(os.path.join(root, source))]
        if not existing:
            raise LabError(f"the packages of kernel {release} do not have {sources[0]}")
        shutil.move(os.path.join(root, existing[0]), os.path.join(path, target))

# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""siw for a kernel in the cache: Debian's kernels bring rxe as a module and leave siw out.

It is built from the distribution's own kernel source package of the very same
version, with that kernel's headers, all unpacked and none installed. For a
kernel of another Debian release, that release's compiler is unpacked, too.
"""

import os
import re
from typing import Dict, List

from . import builders, cache, children, keeper, kernels, mends, packages, say
from .errors import CannotHere, LabError
from .kernels import Kernel
from .packages import Package, Suite

MENDED = "siw"  # the fact of which mends it has
FOLDER = "drivers/infiniband/sw/siw"
GNU_TYPES = {"amd64": "x86_64-linux-gnu", "arm64": "aarch64-linux-gnu"}
# The source package holds a compressed tree, of which one folder is wanted.
UNPACK = """dpkg-deb --fsys-tarfile "$1" | tar -xO --wildcards "./usr/src/*.tar.xz" |
    tar -C "$2" -xJ --wildcards "*/$3/*" """
MODULES = ("CONFIG_RDMA_SIW=m", "CONFIG_DEBUG_INFO_BTF_MODULES=", "modules")


def module(kernel: Kernel) -> str:
    return os.path.join(kernel.modules, "updates", "siw.ko")


def add(kernel: Kernel) -> None:
    """Have the module in the kernel's folder."""
    with cache.locked(kernels.KIND, kernel.arch, kernel.release), keeper.Undo() as undo:
        listed = cache.manifest(kernel.path) or {"facts": {}, "sha256": []}
        if os.path.exists(module(kernel)) and listed["facts"].get(MENDED) == mends.KEY:
            return
        cache.need_room(800, f"building siw for kernel {kernel.release}")
        shop = packages.workshop(undo, "siw")
        elsewhere = kernel.suite.removesuffix("-backports") != packages.own_release()
        built = (_build_there if elsewhere else _build_here)(kernel, shop)
        os.makedirs(os.path.dirname(module(kernel)), exist_ok=True)
        with keeper.deferred():
            os.rename(built, module(kernel))
            children.capture(
                [children.need("depmod", "kmod", "adding siw"), "-b", kernel.path, kernel.release]
            )
            files = dict.fromkeys(listed["sha256"])
            files[os.path.relpath(module(kernel), kernel.path)] = None
            cache.write_manifest(kernel.path, {**listed["facts"], MENDED: mends.KEY}, [*files])


def _build_here(kernel: Kernel, shop: str) -> str:
    """With this machine's compiler."""
    root, tools_folder = os.path.join(shop, "root"), os.path.join(shop, "tools")
    os.makedirs(root)
    os.makedirs(tools_folder)
    source, tools, others = _packages(kernel)
    children.need("make", "make", "building siw")
    debs = Suite(kernel.suite, kernel.arch).download([source, *others], shop)
    packed = next(deb for deb in debs if os.path.basename(deb).startswith("linux-source-"))
    tree = _unpack_source(packed, shop)
    debs.remove(packed)
    debs += Suite(kernel.suite, packages.machine_arch()).download(tools, tools_folder)
    packages.unpack_and_drop(debs, root, f"the headers of kernel {kernel.release}")
    return _compile(kernel, root, tree)


def _build_there(kernel: Kernel, shop: str) -> str:
    """With the compiler of the kernel's own release."""
    cache.need_room(2500, f"the compiler of {kernel.suite}")
    suite = Suite(kernel.suite, kernel.arch)
    source, tools, others = _packages(kernel)
    headers = others[0]
    if kernel.arch == packages.machine_arch():
        prefix = ""
        root = builders.make(suite, [f"{headers.name}={headers.version}"], shop)
    else:
        # Programs of this architecture, which their headers, of the kernel's, do not ask for.
        prefix = GNU_TYPES[kernel.arch] + "-"
        wanted = [f"{package.name}={package.version}" for package in tools]
        wanted.append(cross_compiler(headers, kernel.arch))
        root = builders.make(Suite(kernel.suite, packages.machine_arch()), wanted, shop)
        debs = suite.download(others, shop)
        packages.unpack_and_drop(debs, root, f"the headers of kernel {kernel.release}")
    tree = _unpack_source(suite.download([source], shop)[0], shop)
    os.rename(tree, os.path.join(root, "siw"))
    making = ["make", "-C", f"/usr/src/{headers.name}", "M=/siw", *MODULES]
    what = f"building siw for kernel {kernel.release}"
    builders.run(root, making, _environment(kernel), what)
    builders.run(root, [prefix + "strip", "--strip-debug", "/siw/siw.ko"], {}, "stripping siw")
    return os.path.join(root, "siw", "siw.ko")


def cross_compiler(headers: Package, arch: str) -> str:
    """The package of the compiler that these headers ask for, to make programs of that architecture."""
    for name in headers.depends:
        compiler = re.match(r"gcc-\d+", name)
        if compiler:
            return f"{compiler.group()}-{GNU_TYPES[arch]}"
    raise CannotHere(f"{headers.name} asks for no compiler, so siw cannot be built")


def _packages(kernel: Kernel) -> "tuple[Package, List[Package], List[Package]]":
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


def _unpack_source(packed: str, shop: str) -> str:
    """siw's folder, unpacked; the package itself is dropped."""
    with say.Step(f"unpacking siw from {os.path.basename(packed).split('_')[0]}", expect=8) as step:
        children.work(
            ["sh", "-c", UNPACK, "sh", packed, shop, FOLDER],
            "cannot unpack the kernel's source",
            tick=lambda _: step.at(None),
        )
    os.unlink(packed)
    for name in os.listdir(shop):
        tree = os.path.join(shop, name, FOLDER)
        if os.path.isdir(tree):
            mends.apply(tree, FOLDER)
            return tree
    raise LabError("the kernel's source package holds no siw")


def _compile(kernel: Kernel, root: str, tree: str) -> str:
    headers = os.path.join(root, "usr", "src", f"linux-headers-{kernel.release}")
    makefile = os.path.join(headers, "Makefile")
    with open(makefile, encoding="utf-8") as file:
        text = file.read()
    # It names its other half by an absolute path.
    with open(makefile, "w", encoding="utf-8") as file:
        file.write(text.replace("/usr/src/", os.path.join(root, "usr", "src") + "/"))
    with open(os.path.join(headers, ".kernelvariables"), encoding="utf-8") as file:
        compiler = re.search(r"\bgcc-\d+", file.read())
    foreign = kernel.arch != packages.machine_arch()
    prefix = GNU_TYPES[kernel.arch] + "-" if foreign else ""
    suffix = "-" + GNU_TYPES[kernel.arch] if foreign else ""
    gcc = compiler.group() if compiler else "gcc"
    children.need(prefix + gcc, gcc + suffix, f"building siw for kernel {kernel.release}")
    strip = children.need(prefix + "strip", "binutils" + suffix, "building siw")
    with say.Step(f"building siw for kernel {kernel.release}", expect=10) as step:
        children.work(
            ["make", "-C", headers, f"M={tree}", *MODULES],
            f"siw does not build for kernel {kernel.release}",
            tick=lambda _: step.at(None),
            env=_environment(kernel),
        )
    children.capture([strip, "--strip-debug", os.path.join(tree, "siw.ko")])
    return os.path.join(tree, "siw.ko")


def _environment(kernel: Kernel) -> Dict[str, str]:
    return dict(
        os.environ,
        DEB_BUILD_ARCH=packages.machine_arch(),
        DEB_HOST_ARCH=kernel.arch,
        DEB_HOST_GNU_TYPE=GNU_TYPES[kernel.arch],
    )

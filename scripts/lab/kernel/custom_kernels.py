# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""User-mode kernels that the caller has built, by make or by `softrdma kernel build --source TREE`.

They are run whatever their version and patches. What such a kernel lacks is told by the .config of
its build folder, or, if only its program is known, by the guest when it fails.
"""

import os
import re
import shlex
import struct
from typing import Dict, Iterable, List, NamedTuple, Optional

from ..core import progress
from ..core.errors import LabError, Unavailable, UsageError
from ..devices import soft_devices
from . import kernel_patches, uml_kernels
from .uml_kernels import PROGRAM, BootKernel

# A version begins with a digit.
NAME = re.compile(r"[A-Za-z][0-9A-Za-z._+-]*")
BUILD_REMEDY = "build one: softrdma kernel build --source TREE"
# Without these options softrdma cannot start a command in the guest.
NEEDED_OPTIONS = (
    "BINFMT_ELF BINFMT_SCRIPT FUTEX HOSTFS OVERLAY_FS TMPFS PROC_FS SYSFS DEVTMPFS DEBUG_FS CGROUPS POSIX_MQUEUE "
    "TTY UNIX98_PTYS SSL NULL_CHAN NET UNIX INET DUMMY INFINIBAND INFINIBAND_USER_ACCESS INFINIBAND_ADDR_TRANS"
).split()
DRIVER_OPTIONS = {"rxe": "RDMA_RXE", "siw": "RDMA_SIW"}
NETWORK_OPTION = "UML_NET_VECTOR"  # between hosts
# Those that not every tree has, and no program needs.
IGNORED_OPTIONS = {"FD_CHAN", "STATIC_LINK"}
BANNER = re.compile(rb"Linux version (\S+) \(")

ELF_HEADER = struct.Struct("<4sBB10xHHIQQQIHHHHHH")
SECTION_HEADER = struct.Struct("<IIQQQQIIQQ")
ELF_64_BIT, LITTLE_ENDIAN, X86_64, SYMBOL_TABLE = 2, 1, 62, 2
UML_SECTION = b".uml.setup.init"
BOOT_SECTOR_MAGIC = slice(0x202, 0x206), b"HdrS"  # of a bzImage


def is_custom(argument: Optional[str]) -> bool:
    """Whether the argument of --kernel is a path or a name, and not a version."""
    return argument is not None and (is_path(argument) or bool(NAME.fullmatch(argument)))


def is_path(argument: str) -> bool:
    return "/" in argument or argument in (".", "..")


def find_kernel(argument: str, drivers: Iterable[str], has_network: bool) -> BootKernel:
    """The kernel of a path: of its program, or of the folder of its build. Raises if it cannot be run.

    has_network: whether it has to connect several hosts.
    """
    path = os.path.abspath(argument)
    build_folder: Optional[str] = path if os.path.isdir(path) else os.path.dirname(path)
    program = os.path.join(path, PROGRAM) if os.path.isdir(path) else path
    if not os.path.exists(program):
        if not os.path.isdir(path):
            raise UsageError(f"--kernel {argument}: no such file; {BUILD_REMEDY}")
        if os.path.isfile(os.path.join(path, "arch", "um", "Kconfig")):
            raise UsageError(
                f"--kernel {argument}: a kernel tree in which no kernel of user mode was built; build it: "
                f"softrdma kernel build --source {shlex.quote(argument)} --name NAME, and run it by --kernel NAME"
            )
        raise UsageError(
            f"--kernel {argument}: this folder has no program {PROGRAM}: no kernel of user mode was built in it; "
            f"type: make -C {shlex.quote(path)} ARCH=um {PROGRAM}"
        )
    _check_program(argument, program)
    options = read_options(build_folder) if build_folder else {}
    if options.get("UML") != "y":  # none, or that of another kernel
        build_folder, options = None, {}
    if build_folder:
        _check_options(build_folder, options, drivers, has_network)
    version = _read_version(program)
    return BootKernel(
        program=program,
        version=version,
        is_custom=True,
        build_folder=build_folder,
        modules=None,
        missing_patches=missing_patches(build_folder, version),
        max_processors=_max_processors(options),
    )


def note_missing_patches(kernel: BootKernel) -> None:
    """Print how many of the fixes of softrdma's kernels the kernel lacks, as far as is known."""
    if not kernel.missing_patches:
        return
    verb = "lacks" if find_source(kernel.build_folder) else "may lack"
    progress.note(
        f"kernel {kernel.version} in {progress.abbreviate_home(kernel.program)} {verb} "
        f"{len(kernel.missing_patches)} of the fixes of rxe, siw and user mode that softrdma's kernels have, "
        f"see {kernel_patches.PATCHES_DIR}/README.md; "
        "the command has their names in SOFTRDMA_MISSING_PATCHES"
    )


def missing_patches(build_folder: Optional[str], version: str) -> List[str]:
    """The names of softrdma's patches that the kernel's source lacks; all if the source is not known."""
    series = kernel_patches.series_for(version)
    source = find_source(build_folder)
    if source:
        try:
            return series.find_missing(source)
        except (LabError, OSError):
            pass  # no git, or a file that cannot be read
    return [patch.name for patch in series.patches]


def find_source(build_folder: Optional[str]) -> Optional[str]:
    """The kernel tree of a build folder: where its link leads to, or the folder itself."""
    if build_folder:
        for path in (os.path.join(build_folder, "source"), build_folder):
            if os.path.isfile(os.path.join(path, "arch", "um", "Kconfig")):
                return os.path.realpath(path)
    return None


def read_options(build_folder: str) -> Dict[str, str]:
    """The options of the build folder's .config, without CONFIG_: y, m, or another value. Without .config, none."""
    config = os.path.join(build_folder, ".config")
    if not os.path.isfile(config):
        return {}
    with open(config, encoding="utf-8", errors="replace") as file:
        return dict(re.findall(r"^CONFIG_(\w+)=(.*)$", file.read(), re.MULTILINE))


def _check_options(
    build_folder: str, options: Dict[str, str], drivers: Iterable[str], has_network: bool
) -> None:
    """Raise if a needed option is missing; print which others of softrdma's configuration are."""
    needed = [*NEEDED_OPTIONS, *(DRIVER_OPTIONS[driver] for driver in drivers)]
    needed += [NETWORK_OPTION] if has_network else []
    missing = [option for option in needed if options.get(option) != "y"]
    names = [
        f"CONFIG_{option}" + (" (it is built as a module)" if options.get(option) == "m" else "")
        for option in missing
    ]
    config = uml_kernels.CONFIG_FILE
    folder = shlex.quote(build_folder)
    remedy = (
        f"add softrdma's configuration and build again: cat {shlex.quote(config)} >>{folder}/.config && "
        f"make -C {folder} ARCH=um olddefconfig {PROGRAM}"
    )
    if names:
        raise Unavailable(
            f"the kernel in {progress.abbreviate_home(build_folder)} is built without {', '.join(names)}; {remedy}"
        )
    with open(config, encoding="ascii") as file:
        configured = re.findall(r"^CONFIG_(\w+)=y$", file.read(), re.MULTILINE)
    absent = [name for name in configured if name not in options and name not in IGNORED_OPTIONS]
    absent = [name for name in absent if name not in DRIVER_OPTIONS.values()]
    if absent:
        progress.note(
            f"the kernel in {progress.abbreviate_home(build_folder)} is built without options "
            f"that softrdma's kernels have: {', '.join(absent)}"
        )


def _max_processors(options: Dict[str, str]) -> Optional[int]:
    """Of the .config; None if that is not known."""
    if not options:
        return None
    if "SMP" not in options:
        return 1
    number = options.get("NR_CPUS", "")
    return int(number) if re.fullmatch("[0-9]{1,5}", number) else None


def _check_program(argument: str, path: str) -> None:
    """Raise if the file is no program of a user-mode kernel for this machine."""
    if not os.path.isfile(path):
        raise UsageError(f"--kernel {argument}: no file; {BUILD_REMEDY}")
    try:
        with open(path, "rb") as file:
            head = file.read(1024)
    except OSError as problem:
        raise UsageError(f"--kernel {argument}: {problem.strerror}; {BUILD_REMEDY}") from problem
    place, magic = BOOT_SECTOR_MAGIC
    reason = ""
    if head[place] == magic:
        reason = "it is a kernel for a machine (bzImage), not one of user mode"
    elif head[:4] != b"\x7fELF" or len(head) < ELF_HEADER.size:
        reason = "it is not a program (no ELF file)"
    elif head[4] != ELF_64_BIT:
        reason = "it is a program of 32 bits, and softrdma needs one for x86-64"
    elif head[5] != LITTLE_ENDIAN or ELF_HEADER.unpack_from(head)[4] != X86_64:
        reason = "it is not a program for x86-64"
    if not reason and not any(section.name == UML_SECTION for section in _read_sections(path)):
        reason = "it is no kernel of user mode (a vmlinux for a machine, or another program)"
    if reason:
        raise UsageError(
            f"--kernel {argument}: {reason}; expected the file {PROGRAM} that make ARCH=um builds"
        )
    if not os.access(path, os.X_OK):
        raise UsageError(
            f"--kernel {argument}: you may not execute it; type: chmod +x {shlex.quote(path)}"
        )


class _Section(NamedTuple):
    name: bytes
    kind: int


def _read_sections(path: str) -> List[_Section]:
    """The sections of an ELF file of 64 bits; none if they are in error."""
    with open(path, "rb") as file:
        try:
            fields = ELF_HEADER.unpack(file.read(ELF_HEADER.size))
            offset, size, count, names_index = fields[8], fields[13], fields[14], fields[15]
            file.seek(offset)
            table = file.read(size * count)
            headers = [SECTION_HEADER.unpack_from(table, size * index) for index in range(count)]
            file.seek(headers[names_index][4])
            names = file.read(headers[names_index][5])
        except (struct.error, IndexError, OverflowError, MemoryError, OSError):
            return []
    return [_Section(names[header[0] :].partition(b"\0")[0], header[1]) for header in headers]


def has_symbols(program: str) -> bool:
    """Whether a debugger finds the kernel's functions by their names."""
    return any(section.kind == SYMBOL_TABLE for section in _read_sections(program))


def _read_version(program: str) -> str:
    """The release of the kernel, as its banner says."""
    overlap = 256  # bytes: longer than a banner's begin
    with open(program, "rb") as file:
        tail = b""
        while True:
            data = file.read(1 << 22)
            match = BANNER.search(tail + data)
            if match:
                return match[1].decode(errors="replace")
            if not data:
                raise UsageError(f"--kernel {program}: it has no version of Linux; {BUILD_REMEDY}")
            tail = data[-overlap:]


def make_modules(kernel: BootKernel, path: str) -> str:
    """Make path/lib/modules: links to the modules, and the lists that modprobe and the guest read. Returns it.

    Of a program without its build folder they are not known: those that a run needs are listed, and
    the guest reports if it cannot make the devices.
    """
    modules = os.path.join(path, "lib", "modules")
    folder = kernel.build_folder
    names = ["include/config/kernel.release", *uml_kernels.BUILTIN_LISTS]
    if folder and all(os.path.isfile(os.path.join(folder, name)) for name in names):
        uml_kernels.install_modules(folder, path, os.symlink)
        return modules
    os.makedirs(os.path.join(modules, kernel.version))
    builtin = os.path.join(modules, kernel.version, uml_kernels.BUILTIN_LISTS[0])
    with open(builtin, "w", encoding="ascii") as file:
        for module in (*soft_devices.MODULES.values(), soft_devices.CONNECTION_MODULE):
            file.write(f"kernel/{module}.ko\n")
    return modules

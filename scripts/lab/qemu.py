# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""The emulator: its command line, and which accelerator truly works.

/dev/kvm may exist and still hang at the guest's first instruction (nested
machines do that). So KVM is believed once a guest has said hello under it;
the answer is kept until this machine boots again.
"""

import os
import subprocess
from typing import List, NamedTuple, Tuple

from . import cache, children, keeper, packages
from .kernels import Kernel


class Machine(NamedTuple):
    program: str
    package: str
    options: Tuple[str, ...]
    emulated_cpu: str
    cpu_without: str
    console: str


MACHINES = {
    # With these Linux copies by rep movsb, which is emulated byte by byte, and of which real CPUs are
    # known that do so at times: others see a word half copied, which is no fault of who is tested.
    "amd64": Machine(
        "qemu-system-x86_64",
        "qemu-system-x86",
        ("-machine", "pc"),
        "max",
        ",-erms,-fsrm",
        "ttyS0",
    ),
    # The architected pointer signatures are slow to emulate and prove nothing here.
    "arm64": Machine(
        "qemu-system-aarch64",
        "qemu-system-arm",
        ("-machine", "virt"),
        "max,pauth-impdef=on",
        "",
        "ttyAMA0",
    ),
}


class Share(NamedTuple):
    """A folder of the host in the guest."""

    tag: str
    mode: str  # ro, rw
    path: str  # here
    place: str  # there


def program(arch: str) -> str:
    machine = MACHINES[arch]
    return children.need(machine.program, machine.package + " --no-install-recommends", "a guest")


def accelerators(arch: str) -> List[str]:
    """What to try, in order."""
    usable = arch == packages.machine_arch() and os.access("/dev/kvm", os.R_OK | os.W_OK)
    if not usable or _kvm_verdict() == "hangs":
        return ["tcg"]
    return ["kvm", "tcg"]


def remember_kvm(verdict: str) -> None:
    with open(os.path.join(cache.make_folder(), "kvm"), "w", encoding="ascii") as file:
        file.write(f"{_boot_id()} {verdict}\n")


def _kvm_verdict() -> str:
    try:
        with open(cache.folder("kvm"), encoding="ascii") as file:
            boot, verdict = file.read().split()
    except (OSError, ValueError):
        return ""
    return verdict if boot == _boot_id() else ""


def _boot_id() -> str:
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()


def start(
    kernel: Kernel,
    accelerator: str,
    initrd: str,
    console: str,
    shares: List[Share],
    memory: int,
    line: int,
    log: int,
) -> "subprocess.Popen[bytes]":
    """Start a guest; line is its end of a socket to us, in the guest /dev/vport0p1."""
    machine = MACHINES[kernel.arch]
    fast = accelerator == "kvm"
    argv = [
        program(kernel.arch),
        "-nodefaults",
        "-no-user-config",
        "-display",
        "none",
        "-no-reboot",
        *machine.options,
    ]
    argv += [
        "-accel",
        "kvm" if fast else "tcg,thread=multi",
        "-cpu",
        ("host" if fast else machine.emulated_cpu) + machine.cpu_without,
    ]
    argv += ["-smp", str(min(2, os.cpu_count() or 1)), "-m", str(memory)]
    argv += ["-kernel", os.path.join(kernel.path, "vmlinuz"), "-initrd", initrd]
    # Any oops ends the guest: a kernel that has gone wrong proves nothing more.
    argv += ["-append", f"console={machine.console} quiet panic=-1 oops=panic"]
    argv += ["-serial", f"file:{console}", "-device", "virtio-serial-pci"]
    argv += ["-chardev", f"socket,id=line,fd={line}"]
    argv += ["-device", "virtserialport,chardev=line,nr=1"]
    for share in shares:
        readonly = ",readonly=on" if share.mode == "ro" else ""
        path = share.path.replace(",", ",,")
        argv += [
            "-fsdev",
            f"local,id={share.tag},path={path},security_model=none,multidevs=remap{readonly}",
        ]
        argv += ["-device", f"virtio-9p-pci,fsdev={share.tag},mount_tag={share.tag}"]
    return subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        pass_fds=[line],
        preexec_fn=keeper.die_with_parent,
        process_group=0,  # a Ctrl-C is for us to handle
    )

# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""QEMU: its command line, and the accelerators that work.

/dev/kvm may exist and hang at the first instruction of a guest (on some nested
virtual machines). If a guest does not start with KVM, this is recorded in the
cache until the machine boots again, and guests are emulated.
"""

import os
import subprocess
from typing import List, NamedTuple, Optional, Tuple

from ..core import cache, subprocesses, supervisor
from ..core.run_request import DEFAULT_PROCESSORS, RunRequest
from ..debian import packages
from ..kernel.debian_kernels import Kernel
from .attribute_broker import AttributeBroker
from .confinement import Access, Confinement


class Machine(NamedTuple):
    program: str
    package: str
    options: Tuple[str, ...]
    emulated_cpu: str
    disabled_cpu_flags: str
    console: str


MACHINES = {
    # With erms or fsrm, Linux copies by rep movsb. QEMU emulates it byte by byte, and some real
    # processors do so, too: another processor can see half of a word. Programs are not at fault.
    "amd64": Machine(
        "qemu-system-x86_64",
        "qemu-system-x86",
        ("-machine", "pc"),
        "max",
        ",-erms,-fsrm",
        "ttyS0",
    ),
    # The architected algorithm of pointer authentication is slow to emulate.
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
    """A folder of the host that the guest mounts."""

    tag: str
    mode: str  # ro or rw
    host_path: str
    guest_path: str


def find_emulator(arch: str) -> str:
    machine = MACHINES[arch]
    package = machine.package + " --no-install-recommends"
    return subprocesses.require_program(machine.program, package, "a guest")


def usable_accelerators(arch: str) -> List[str]:
    """The accelerators to try, in order."""
    has_kvm = arch == packages.machine_arch() and os.access("/dev/kvm", os.R_OK | os.W_OK)
    if not has_kvm or _is_kvm_failure_recorded():
        return ["tcg"]
    return ["kvm", "tcg"]


def record_kvm_failure() -> None:
    """Until the next boot of the machine, usable_accelerators() leaves KVM out."""
    path = os.path.join(cache.make_cache_folder(), "kvm")
    with cache.safe_umask(), open(path, "w", encoding="ascii") as file:
        file.write(f"{_read_boot_id()} hangs\n")


def _is_kvm_failure_recorded() -> bool:
    """Whether record_kvm_failure() was called since the machine booted."""
    root = cache.find_folder()
    try:
        with open(os.path.join(root or "", "kvm"), encoding="ascii") as file:
            boot_id, state = file.read().split()
    except (OSError, ValueError):
        return False
    return boot_id == _read_boot_id() and state == "hangs"


def _read_boot_id() -> str:
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()


def make_argv(
    kernel: Kernel,
    accelerator: str,
    initrd: str,
    console_fd: int,
    shares: List[Share],
    request: RunRequest,
    connection_fd: int,
) -> List[str]:
    """The command line of QEMU. console_fd: for the output of the guest's kernel.

    connection_fd: the guest's end of a socket, which the guest has as /dev/vport0p1.
    """
    machine = MACHINES[kernel.arch]
    use_kvm = accelerator == "kvm"
    argv = [
        find_emulator(kernel.arch),
        "-nodefaults",
        "-no-user-config",
        "-display",
        "none",
        "-no-reboot",
        *machine.options,
    ]
    argv += [
        "-accel",
        "kvm" if use_kvm else "tcg,thread=multi",
        "-cpu",
        ("host" if use_kvm else machine.emulated_cpu) + machine.disabled_cpu_flags,
    ]
    processors = request.cpus or min(DEFAULT_PROCESSORS, os.cpu_count() or 1)
    argv += ["-smp", str(processors), "-m", str(request.memory_mb)]
    argv += ["-kernel", os.path.join(kernel.path, "vmlinuz"), "-initrd", initrd]
    # An oops ends the guest: later results would be unreliable.
    words = [f"console={machine.console}", "quiet", "panic=-1", "oops=panic", *request.append]
    argv += ["-append", " ".join(words)]
    argv += ["-add-fd", f"fd={console_fd},set=1", "-serial", "chardev:console"]
    argv += ["-chardev", "file,id=console,path=/dev/fdset/1,append=on"]
    argv += ["-device", "virtio-serial-pci"]
    argv += ["-chardev", f"socket,id=line,fd={connection_fd}"]
    argv += ["-device", "virtserialport,chardev=line,nr=1"]
    for share in shares:
        readonly = ",readonly=on" if share.mode == "ro" else ""
        path = share.host_path.replace(",", ",,")
        argv += [
            "-fsdev",
            f"local,id={share.tag},path={path},security_model=none,multidevs=remap{readonly}",
        ]
        argv += ["-device", f"virtio-9p-pci,fsdev={share.tag},mount_tag={share.tag}"]
    return argv


def start_guest(
    argv: List[str],
    accelerator: str,
    shares: List[Share],
    inherited_fds: List[int],
    log_fd: int,
) -> "tuple[subprocess.Popen[bytes], Optional[AttributeBroker]]":
    """Start QEMU by the command line of make_argv(), confined. log_fd: for its output."""
    writable = [share.host_path for share in shares if share.mode == "rw"]
    devices = ["/dev/kvm"] if accelerator == "kvm" else []
    confinement = Confinement(Access(writable, devices=devices), with_broker=True)

    def prepare_child() -> None:
        os.setpgid(0, 0)  # Ctrl-C is for softrdma only; the confinement forbids this call
        confinement.apply()
        supervisor.die_with_parent()

    process = subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=log_fd,
        stderr=log_fd,
        pass_fds=inherited_fds,
        preexec_fn=prepare_child,
    )
    return process, confinement.receive_broker(process.pid)

# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""`softrdma run`: checks the options and selects where the command runs.

Modules that other subcommands do not need are imported in functions.
"""

import argparse
import os
import re
from typing import List, Optional

from ..core import progress, run_request
from ..core.errors import Unavailable, UsageError
from ..core.run_request import MAX_HOSTS, RunRequest
from ..devices import soft_devices
from ..run import dry_run, peer_key, run_local
from . import shell_command, wire_options

DRIVERS = {"rxe": ["rxe"], "siw": ["siw"], "both": ["rxe", "siw"]}
MAX_PROCESSORS = 64
MAX_APPENDED_BYTES = (
    2048  # of the 4096 of a kernel's command line; softrdma's own words are some 600 and the paths
)
# Words of the kernel's command line by which softrdma starts a guest; and what user mode takes for an option.
LAB_WORD = re.compile(
    r"-|(mem|ncpus|seccomp|root|rootfstype|rootflags|panic|oops|con\d*|console|ssl\d*|vec\d*|eth\d*|"
    r"uml_dir|umid|init|rdinit|hostfs|ubd\w*)([=:]|$)|(ro|rw)$"
)


def run(options: argparse.Namespace) -> int:
    """Returns the command's exit status."""
    key_text = os.environ.pop(peer_key.ENVIRONMENT_NAME, "")  # the command does not get it
    request = _make_request(options, key_text)
    backend = _check_backend(options.backend, request)
    reason_not_local = ""
    if backend in ("auto", "here"):
        reason_not_local = _reason_not_local(request)
        if not reason_not_local and request.dry_run:
            return dry_run.print_commands("here", [request.argv], request)
        if not reason_not_local:
            try:
                return run_local.run(request, _local_note(request, backend))
            except run_local.DevicesNotMade as problem:
                reason_not_local = str(problem)
        if backend == "here":
            has_remedy = "softrdma run --in " in reason_not_local
            remedy = "" if has_remedy else f"; use: softrdma run --in {_select_guest(request)}"
            raise Unavailable(reason_not_local + remedy)
    _check_guest(request)
    if backend == "auto":
        backend = _select_guest(request)
        _note_guest(request, backend, reason_not_local)
    return _run_uml(request) if backend == "uml" else _run_qemu(request)


def _check_backend(backend: str, request: RunRequest) -> str:
    """Where the command runs, as --in says: auto, here, uml or qemu. Some options are for user mode only."""
    from ..kernel import custom_kernels

    reason = ""
    if custom_kernels.is_custom(request.kernel):
        reason = f"--kernel {request.kernel}: a path or a name is that of a user-mode kernel, and others have a version such as 6.1"
    elif request.waits_for_debugger:
        reason = "--gdb is for a user-mode kernel"
    if not reason:
        return backend
    if backend in ("here", "qemu"):
        raise UsageError(f"{reason}; omit --in {backend}")
    return "uml"


def _local_note(request: RunRequest, backend: str) -> str:
    """What a caller has to know of a run on the running kernel."""
    write_note = "--write has no effect on the running kernel: all files are kept"
    if backend == "here":
        return write_note if request.writable_folders else ""
    drivers = " and ".join(request.drivers)
    modules = " and ".join(soft_devices.MODULES[driver] for driver in request.drivers)
    return (
        f"using the running kernel {os.uname().release}, which has {drivers}, as root: "
        f"all files that the command writes are kept{', also without --write' if request.writable_folders else ''}, "
        f"and {modules} {'stays' if len(request.drivers) == 1 else 'stay'} loaded; "
        f"for a kernel that is thrown away: --in {'uml' if request.arch == 'amd64' else 'qemu'}"
    )


def _select_guest(request: RunRequest) -> str:
    """uml or qemu, for a command that cannot run on the running kernel."""
    from ..debian import packages
    from ..kernel import uml_kernels

    # QEMU guests cannot be connected.
    if run_request.reason_for_kernel_per_host(request):
        return "uml"
    can_use_uml = request.arch == packages.machine_arch() and not request.suite
    return "uml" if can_use_uml and uml_kernels.is_built(request.kernel) else "qemu"


def _note_guest(request: RunRequest, backend: str, reason_not_local: str) -> None:
    if backend == "uml":
        progress.note(f"{reason_not_local}; using a user-mode kernel")
        return
    hint = "" if request.suite else " (a user-mode kernel is much faster: softrdma kernel build)"
    progress.note(f"{reason_not_local}; using a QEMU guest{hint}")


def _run_uml(request: RunRequest) -> int:
    from ..debian import packages
    from ..run import run_uml

    if request.arch != packages.machine_arch():
        raise Unavailable(
            f"a user-mode kernel has this machine's architecture; for {request.arch} use: --in qemu"
        )
    if request.suite:
        raise Unavailable(
            f"a user-mode kernel runs this machine's programs; for those of {request.suite} use: --in qemu"
        )
    return run_uml.run(request)


def _run_qemu(request: RunRequest) -> int:
    from ..run import run_qemu

    reason = run_request.reason_for_kernel_per_host(request)
    if reason:
        raise Unavailable(f"{reason}; use: softrdma run --in uml")
    return run_qemu.run(request)


def _check_guest(request: RunRequest) -> None:
    """Raise for options of which one needs a guest in user mode and the other one in QEMU."""
    from ..debian import packages

    reason = run_request.reason_for_kernel_per_host(request)
    options = [f"--suite {request.suite}"] if request.suite else []
    if request.arch != packages.machine_arch():
        options.append(f"--arch {request.arch}")
    if reason and options:
        raise UsageError(
            f"{reason}: user-mode kernels, which have this machine's architecture and programs; omit {' and '.join(options)}"
        )


def _make_request(options: argparse.Namespace, key_text: str) -> RunRequest:
    from ..debian import packages

    argv = options.command[1:] if options.command[:1] == ["--"] else options.command
    if not argv:
        if not os.isatty(0):
            raise UsageError(
                "run: a command is missing, and there is no terminal for a shell; try: softrdma run -- ibv_devinfo"
            )
        argv = shell_command.SHELL_ARGV
    if not 256 <= options.memory <= 1 << 20:
        raise UsageError(f"--memory {options.memory}: expected megabytes, 256 or more")
    if options.kernel == "":
        raise UsageError("--kernel '': expected a version such as 6.1, a name, or a path")
    if options.suite not in (None, *packages.RELEASES):
        raise UsageError(f"--suite {options.suite}: expected {', '.join(packages.RELEASES)}")
    request = RunRequest(
        argv=argv,
        drivers=DRIVERS[options.driver],
        hosts=options.hosts,
        wire=wire_options.parse_wire(options),
        seed=None if options.seed is None else wire_options.parse_seed(options.seed),
        pcap=options.pcap and os.path.abspath(options.pcap),
        changes_wire=options.wire,
        arch=options.arch or packages.machine_arch(),
        kernel=options.kernel,
        suite=options.suite,
        writable_folders=options.write,
        memory_mb=options.memory,
        launcher=options.launcher,
        host_number=options.number,
        peers=tuple(options.peer),
        port=options.port,
        wait_seconds=options.wait,
        console=options.console and os.path.abspath(options.console),
        append=_parse_append(options.append),
        cpus=options.cpus,
        waits_for_debugger=options.gdb,
        dry_run=("json" if options.json else "text") if options.dry_run else None,
    )
    if options.cpus is not None and not 1 <= options.cpus <= MAX_PROCESSORS:
        raise UsageError(f"--cpus {options.cpus}: expected 1 to {MAX_PROCESSORS}")
    if options.json and not options.dry_run:
        raise UsageError("run --json: it is for --dry-run; add: --dry-run")
    _check_hosts(request)
    return request._replace(key=_read_key(options, key_text))


def _parse_append(texts: List[str]) -> "tuple[str, ...]":
    """The words of --append, which a kernel separates by blanks outside quotes."""
    words: List[str] = []
    for text in texts:
        if text.count('"') % 2 or "\n" in text:
            raise UsageError(f"--append {text!r}: a quote is not closed, or it has several lines")
        words += re.findall(r'(?:"[^"]*"|[^\s"])+', text)
    length = len(os.fsencode(" ".join(words)))
    if length > MAX_APPENDED_BYTES:
        raise UsageError(
            f"--append has {length} bytes; the kernel's command line has room for {MAX_APPENDED_BYTES}"
        )
    for word in words:
        if LAB_WORD.match(word.lstrip('"')):
            raise UsageError(
                f"--append {word}: softrdma sets this itself; "
                "for memory use --memory, for processors --cpus, for the kernel's output --console"
            )
    return tuple(words)


def _read_key(options: argparse.Namespace, key_text: str) -> Optional[bytes]:
    """The key of --key, or that of the environment variable; None without --peer."""
    if not options.peer:
        if options.key is not None:
            raise UsageError("--key is for hosts that --peer names; add: --as N --peer ADDRESS")
        return None
    if options.key is not None:
        return peer_key.read_key_file(options.key)
    if key_text:
        return peer_key.parse_key(key_text, peer_key.ENVIRONMENT_NAME)
    raise UsageError(
        "--peer needs a key that the hosts share; make one with `softrdma key FILE`, "
        "copy the file to each host, and add: --key FILE"
    )


def _check_hosts(request: RunRequest) -> None:
    num_peers = len(request.peers)
    wire_options.check_use(request)
    if not 1 <= request.hosts <= MAX_HOSTS:
        raise UsageError(f"--hosts {request.hosts}: expected 1 to {MAX_HOSTS}")
    if bool(request.peers) != bool(request.host_number):
        raise UsageError("--as N and --peer ADDRESS need each other")
    if request.peers:
        if request.hosts != 1:
            raise UsageError("--hosts and --peer exclude each other: each --peer is a host")
        if num_peers >= MAX_HOSTS:
            raise UsageError(f"{num_peers} peers: the maximum is {MAX_HOSTS - 1}")
        if not 1 <= (request.host_number or 0) <= num_peers + 1:
            raise UsageError(
                f"--as {request.host_number}: with {num_peers} --peer the hosts are 1 to {num_peers + 1}"
            )
    if not 0 < request.port < 65536:
        raise UsageError(f"--port {request.port}: expected 1 to 65535")
    for peer in request.peers:
        run_request.parse_peer_address(peer, request.port)
    if request.wait_seconds < 0:
        raise UsageError(f"--wait {request.wait_seconds}: expected seconds, 0 or more")


def _reason_not_local(request: RunRequest) -> str:
    """Why the command cannot run on the running kernel (--in here); empty if it can."""
    from ..debian import packages
    from ..kernel import debian_kernels

    reason = run_request.reason_for_kernel_per_host(request) or run_request.reason_for_guest(
        request
    )
    if reason:
        return reason
    if request.arch != packages.machine_arch():
        return f"this machine is not {request.arch}"
    if request.suite:
        return f"the programs and the kernel of {request.suite} need a guest"
    release = os.uname().release
    if request.kernel and not debian_kernels.release_matches(release, request.kernel):
        return f"the running kernel is {release}"
    return run_local.reason_unusable(request.drivers, request.hosts)

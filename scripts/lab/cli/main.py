# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""The command line of softrdma: its subcommands, each with its function."""

import argparse
import os
import sys
from typing import Any, Callable, List, NoReturn

from .. import VERSION
from ..core import progress, run_request, standard_files, subprocesses, supervisor
from ..core.errors import OK, UsageError
from ..devices.persistent import config_path
from ..run import run_local
from . import device_commands, run_command, wire_options

EPILOG = """examples:
  softrdma run -- ibv_devinfo
  softrdma run --driver siw
  softrdma run --hosts 2 -- sh -c 'on 2 rping -s& sleep 1; rping -ca $HOST2 -C5'
  sudo softrdma up && softrdma list && sudo softrdma down
exit status: COMMAND's for run; 0 success, 1 failure, 2 usage, 77 not possible
See softrdma(1)."""


class Parser(argparse.ArgumentParser):
    """Reports an error as one line with the command to type, and exits with status 2."""

    def error(self, message: str) -> NoReturn:
        progress.error(f"{message}; see: {self.prog} --help")
        sys.exit(UsageError.status)


def main(argv: List[str], launcher: str) -> int:
    """launcher: the path of the program softrdma."""
    standard_files.open_closed()
    try:
        options = make_parser().parse_args(argv)
    except SystemExit as end:  # --help, --version, or an error
        # Python would report in its own words that its standard output cannot be written.
        os._exit(supervisor.flush_output(int(end.code or OK)))
    progress.quiet = getattr(options, "quiet", False)
    options.launcher = launcher
    return supervisor.run(lambda: int(options.function(options)), run_local.clean_up_after_worker)


def make_parser() -> Parser:
    parser = Parser(
        prog="softrdma",
        description="Soft RDMA devices (Soft-RoCE, soft-iWARP) on any machine.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"softrdma {VERSION}")
    subparsers = parser.add_subparsers(metavar="COMMAND", parser_class=Parser, required=True)

    def add_command(
        name: str, function: Callable[[Any], int], summary: str, **options: Any
    ) -> Parser:
        command: Parser = subparsers.add_parser(
            name,
            help=summary,
            description=summary[0].upper() + summary[1:] + ".",
            allow_abbrev=False,
            **options,
        )
        command.set_defaults(function=function)
        return command

    run = add_command(
        "run",
        run_command.run,
        "run a command, or a shell, where soft RDMA devices exist",
        usage="softrdma run [OPTIONS] [-- COMMAND [ARGUMENT...]]",
    )
    _add_run_options(run)

    shell = add_command(
        "shell",
        _run_shell_command,
        "start a shell, or a command, in the guest of a run that is there",
        usage="softrdma shell [OPTIONS] [HOST] [-- COMMAND [ARGUMENT...]]",
    )
    shell.add_argument(
        "--run",
        dest="pid",
        type=int,
        metavar="PID",
        help="the process ID of the run, if there are several",
    )
    shell.add_argument(
        "words",
        nargs=argparse.REMAINDER,
        metavar="HOST",
        help="the number of the host (default: the first of the run)",
    )

    wire = add_command(
        "wire", _run_wire_command, "change the wire between the hosts of a run --wire that is there"
    )
    _add_wire_options(wire)

    bench = add_command(
        "bench", _run_bench, "measure what the devices do here, in some twelve seconds"
    )
    _add_bench_options(bench)

    up = add_command("up", device_commands.up, "make a soft device on the running kernel (root)")
    up.add_argument(
        "device", nargs="?", metavar="NAME", help=f"the device of {config_path('NAME')}"
    )
    up.add_argument("--driver", choices=("rxe", "siw"), help="Soft-RoCE (default) or soft-iWARP")
    up.add_argument(
        "--netdev",
        metavar="IF",
        help="the network interface (default: a new dummy interface with a test address)",
    )
    up.add_argument("--name", metavar="N", help="the device's name (default: rxe0, rxe1, …)")
    up.add_argument(
        "--keep",
        action="store_true",
        help=f"also make it at each boot: writes {config_path('NAME')}",
    )
    up.add_argument("--json", action="store_true", help="print the device as JSON")

    down = add_command("down", device_commands.down, "remove devices that softrdma made (root)")
    down.add_argument("names", nargs="*", metavar="NAME", help="the devices (default: all)")

    listing = add_command(
        "list", device_commands.list_devices, "list the devices that softrdma made"
    )
    listing.add_argument("--json", action="store_true", help="print JSON")

    cdi = add_command(
        "cdi", device_commands.cdi, "write a specification of all RDMA devices for containers (CDI)"
    )
    cdi.add_argument(
        "--output",
        metavar="FILE",
        help="the file, instead of stdout; runtimes read /etc/cdi/softrdma.json (root)",
    )
    cdi.add_argument(
        "--with-provider",
        action="store_true",
        help="also mount this machine's coherdma provider in the containers",
    )
    cdi.add_argument(
        "--umad", action="store_true", help="also add the management nodes (umad, issm)"
    )

    key = add_command("key", _run_key_command, "make a key for the hosts of run --peer")
    key.add_argument(
        "file",
        nargs="?",
        metavar="FILE",
        help="a new file that only you can read (default: stdout)",
    )

    kernel = add_command(
        "kernel", _run_kernel_command, "list, build, fetch or remove the cached kernels of guests"
    )
    _add_kernel_options(kernel)

    version = add_command(
        "version",
        _run_version_command,
        "print the versions of softrdma and of its user-mode kernel",
    )
    version.add_argument("--json", action="store_true", help="print JSON")
    return parser


def _add_place_options(parser: Parser, default_driver: str) -> None:
    """Where the devices are; these options mean the same in run and bench."""
    parser.add_argument(
        "--in",
        dest="backend",
        choices=("auto", "here", "uml", "qemu"),
        default="auto",
        help="the running kernel (root; keeps all files that are written), a user-mode kernel, "
        "a QEMU guest, or the first that works (auto)",
    )
    parser.add_argument(
        "--driver",
        choices=run_command.DRIVERS,
        default=default_driver,
        help=f"the device's driver, or a device of each (default: {default_driver})",
    )
    parser.add_argument(
        "--kernel",
        metavar="V",
        help="the kernel of the guest, e.g. 6.1 (default: that of the Debian release); or a user-mode kernel of yours: "
        "the path of its program or build folder, or its name",
    )
    parser.add_argument(
        "-q", "--quiet", action="store_true", help="print errors only, no notes and no progress"
    )


def _add_run_options(run: Parser) -> None:
    _add_place_options(run, default_driver="rxe")
    run.add_argument(
        "--hosts",
        type=int,
        default=1,
        metavar="N",
        help="the number of hosts, joined by a wire; `on N COMMAND` runs a command on host N, "
        "and `on softrdma-N LINE` a command line, as ssh does (default: 1)",
    )
    wire_options.add_options(run)
    run.add_argument(
        "--peer",
        action="append",
        default=[],
        metavar="ADDRESS",
        help="the address of another softrdma run --peer, on a machine or in a container, by UDP",
    )
    run.add_argument(
        "--key",
        metavar="FILE",
        help="with --peer: the key that all hosts have, from `softrdma key FILE`",
    )
    run.add_argument(
        "--as", dest="number", type=int, metavar="N", help="with --peer: the number of this host"
    )
    run.add_argument(
        "--port",
        type=int,
        default=run_request.DEFAULT_PORT,
        metavar="P",
        help=f"with --peer: the UDP port (default: {run_request.DEFAULT_PORT})",
    )
    run.add_argument(
        "--wait",
        type=int,
        default=run_request.DEFAULT_WAIT_SECONDS,
        metavar="SECONDS",
        help=f"with --peer: the time to wait for the other hosts (default: {run_request.DEFAULT_WAIT_SECONDS})",
    )
    run.add_argument(
        "--arch",
        choices=("amd64", "arm64"),
        help="the architecture of the guest (default: this machine's)",
    )
    run.add_argument(
        "--suite",
        metavar="S",
        help="the Debian release of the guest's programs and kernel: bookworm, trixie, forky or sid",
    )
    run.add_argument(
        "--write",
        action="append",
        default=[],
        metavar="DIR",
        help="a folder in which the files that the guest writes are kept",
    )
    run.add_argument(
        "--memory",
        type=int,
        default=2048,
        metavar="MB",
        help="the memory of a guest in megabytes (default: 2048)",
    )
    run.add_argument(
        "--cpus",
        type=int,
        metavar="N",
        help="the processors of each guest (default: 2, or 1 if the machine or the kernel has one)",
    )
    run.add_argument(
        "--append",
        action="append",
        default=[],
        metavar="WORDS",
        help="add the words to the command line of the guests' kernels, e.g. loglevel=7",
    )
    run.add_argument(
        "--gdb",
        action="store_true",
        help="stop user-mode kernels before they begin, and print how gdb connects to them",
    )
    run.add_argument(
        "--dry-run",
        action="store_true",
        help="print the command lines of the guests' processes, and start none",
    )
    run.add_argument("--json", action="store_true", help="with --dry-run: print JSON")
    run.add_argument(
        "--console", metavar="FILE", help="append the output of the guests' kernels to FILE"
    )
    run.add_argument("command", nargs=argparse.REMAINDER, metavar="COMMAND")


def _add_wire_options(wire: Parser) -> None:
    wire.add_argument(
        "--run",
        dest="pid",
        type=int,
        metavar="PID",
        help="the process ID of the run, if there are several",
    )
    wire.add_argument(
        "--host", type=int, metavar="N", help="change what this host sends (default: all hosts)"
    )
    wire.add_argument(
        "--to",
        dest="receiver",
        type=int,
        metavar="N",
        help="change what is sent to this host (default: to all)",
    )
    wire.add_argument(
        "--down", action="store_true", help="let nothing pass from the host and to it"
    )
    wire.add_argument(
        "--up", action="store_true", help="end --down of the host's link (default: of all links)"
    )
    wire.add_argument(
        "--for",
        dest="duration",
        metavar="TIME",
        help="end the change after this time, such as 3s or 200ms (default: it stays)",
    )
    wire_options.add_amounts(wire)


def _add_bench_options(bench: Parser) -> None:
    _add_place_options(bench, default_driver="both")
    bench.add_argument(
        "--hosts",
        type=int,
        choices=(1, 2),
        default=1,
        help="measure on one host, or between two (default: 1)",
    )
    bench.add_argument("--json", action="store_true", help="print JSON")


def _run_bench(options: argparse.Namespace) -> int:
    """Run bench.py as `softrdma run` runs a command."""
    programs = ("ib_write_bw", "ib_write_lat")
    subprocesses.require_programs(dict.fromkeys(programs, "perftest"), "bench")
    program = os.path.join(os.path.dirname(run_local.__file__), "bench.py")
    output_format = "json" if options.json else "table"
    drivers = run_command.DRIVERS[options.driver]
    argv = [sys.executable, "-I", program, output_format, str(options.hosts), *drivers]
    run_options = make_parser().parse_args(["run", "--", *argv])
    for name in ("backend", "driver", "hosts", "kernel", "quiet", "launcher"):
        setattr(run_options, name, getattr(options, name))
    return run_command.run(run_options)


def _run_key_command(options: argparse.Namespace) -> int:
    from ..run import peer_key

    if options.file is None:
        peer_key.print_key()
    else:
        peer_key.write_key_file(options.file)
    return OK


def _run_shell_command(options: argparse.Namespace) -> int:
    from . import shell_command

    return shell_command.run(options)


def _run_wire_command(options: argparse.Namespace) -> int:
    from . import wire_command

    return wire_command.run(options)


def _run_version_command(options: argparse.Namespace) -> int:
    from . import version_command

    return version_command.run(options)


def _add_kernel_options(kernel: Parser) -> None:
    kernel.add_argument("action", choices=("list", "build", "fetch", "path", "remove"))
    kernel.add_argument(
        "version", nargs="?", metavar="V", help="a series such as 6.1, a release, or a name"
    )
    kernel.add_argument("--arch", choices=("amd64", "arm64"), help="default: this machine's")
    kernel.add_argument(
        "--driver",
        choices=run_command.DRIVERS,
        default="rxe",
        help="fetch: siw or both also build siw",
    )
    kernel.add_argument(
        "--newest",
        action="store_true",
        help="build: the newest kernel source of Debian instead of the pinned one",
    )
    kernel.add_argument(
        "--source",
        metavar="TREE",
        help="build: a kernel tree of yours, which is not changed; or a tar.xz, with --output",
    )
    kernel.add_argument(
        "--name",
        help="build: the name of the tree's kernel, for run --kernel (default: that of its folder)",
    )
    kernel.add_argument(
        "--output", metavar="DIR", help="build: a new folder instead of the cache; with --source"
    )
    kernel.add_argument(
        "--jobs", type=int, metavar="N", help="build: the number of jobs (default: processors)"
    )
    kernel.add_argument(
        "--verbose", action="store_true", help="build: print the output of make, not progress"
    )
    kernel.add_argument("--json", action="store_true", help="list: print JSON")


def _run_kernel_command(options: argparse.Namespace) -> int:
    from . import kernel_command

    return kernel_command.run(options, run_command.DRIVERS[options.driver])

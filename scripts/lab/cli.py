# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""What a user may type: a table of subcommands, each with its function."""

import argparse
import json
import os
import sys
from typing import Any, Callable, Dict, List, NoReturn

from . import VERSION, handles, here, keeper, say
from .errors import OK, CannotHere, Misuse

DRIVERS = {"rxe": ["rxe"], "siw": ["siw"], "both": ["rxe", "siw"]}
EPILOG = """examples:
  softrdma run -- ibv_devinfo
  softrdma run --driver siw -- bash
  softrdma run --hosts 2 -- sh -c 'on 2 rping -s -a $HOST2 & sleep 1; rping -c -a $HOST2 -C 5 -v'
  sudo softrdma up && softrdma list && sudo softrdma down

exit status: that of COMMAND for run; else 0, 1 failed, 2 misuse, 77 cannot here.
softrdma(1) has the details."""


class Parser(argparse.ArgumentParser):
    """argparse with our words: one line, what to do, status 2."""

    def error(self, message: str) -> NoReturn:
        say.error(f"{message}; see: {self.prog} --help")
        sys.exit(Misuse.status)


def main(argv: List[str], launcher: str) -> int:
    options = parser().parse_args(argv)
    say.quiet = getattr(options, "quiet", False)
    options.launcher = launcher
    return keeper.run(lambda: options.function(options), here.rescue)


def parser() -> Parser:
    top = Parser(
        prog="softrdma",
        description="Soft RDMA devices (Soft-RoCE, soft-iWARP) on any machine.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    top.add_argument("--version", action="version", version=f"softrdma {VERSION}")
    commands = top.add_subparsers(metavar="COMMAND", parser_class=Parser, required=True)

    def command(name: str, function: Callable[[Any], int], about: str, **more: Any) -> Parser:
        sub: Parser = commands.add_parser(
            name,
            help=about,
            description=about[0].upper() + about[1:] + ".",
            allow_abbrev=False,
            **more,
        )
        sub.set_defaults(function=function)
        return sub

    run = command(
        "run",
        _run,
        "run a command where soft RDMA devices exist",
        usage="softrdma run [OPTIONS] -- COMMAND [ARGUMENT...]",
    )
    run.add_argument(
        "--in",
        dest="place",
        choices=("auto", "here", "uml", "qemu"),
        default="auto",
        help="the running kernel, a user-mode kernel, a QEMU guest, or what works (auto)",
    )
    run.add_argument(
        "--driver",
        choices=DRIVERS,
        default="rxe",
        help="which device, or one of each (default: rxe)",
    )
    run.add_argument(
        "--hosts",
        type=int,
        default=1,
        metavar="N",
        help="1, or 2 joined by a wire; `on N COMMAND` reaches either",
    )
    run.add_argument(
        "--kernel",
        metavar="V",
        help="a guest with this kernel, e.g. 6.1 (default: the release's own)",
    )
    run.add_argument(
        "--arch",
        choices=("amd64", "arm64"),
        help="a guest of this architecture (default: this machine's)",
    )
    run.add_argument(
        "--suite",
        metavar="S",
        help="a guest of this Debian release, programs and kernel: bookworm, trixie, forky or sid",
    )
    run.add_argument(
        "--write",
        action="append",
        default=[],
        metavar="DIR",
        help="a folder in which what the guest writes stays",
    )
    run.add_argument(
        "--memory", type=int, default=2048, metavar="MB", help="of a guest, megabytes (2048)"
    )
    run.add_argument(
        "-q", "--quiet", action="store_true", help="only errors, no notes and no progress"
    )
    run.add_argument("command", nargs=argparse.REMAINDER, metavar="COMMAND")

    up = command("up", _up, "make a soft device on the running kernel (root)")
    up.add_argument(
        "--driver", choices=("rxe", "siw"), default="rxe", help="Soft-RoCE (default) or soft-iWARP"
    )
    up.add_argument(
        "--netdev",
        metavar="IF",
        help="on this interface (default: one of its own, with a test address)",
    )
    up.add_argument("--name", metavar="N", help="the device's name (default: rxe0, rxe1, …)")
    up.add_argument("--json", action="store_true", help="print the handle as JSON")

    down = command("down", _down, "take devices down that softrdma made (root)")
    down.add_argument("names", nargs="*", metavar="NAME", help="which (default: all)")

    listing = command("list", _list, "show the devices that softrdma made")
    listing.add_argument("--json", action="store_true", help="print them as JSON")

    kernel = command("kernel", _kernel, "list, build, fetch or remove the cached kernels of guests")
    kernel.add_argument("action", choices=("list", "build", "fetch", "path", "remove"))
    kernel.add_argument("version", nargs="?", metavar="V", help="such as 6.1, or a whole release")
    kernel.add_argument("--arch", choices=("amd64", "arm64"), help="default: this machine's")
    kernel.add_argument(
        "--driver", choices=DRIVERS, default="rxe", help="fetch: with siw, if siw or both"
    )
    kernel.add_argument(
        "--source", metavar="FILE", help="build: of this kernel source, a tar.xz, with --into"
    )
    kernel.add_argument(
        "--into", metavar="DIR", help="build: in this new folder, not in the cache, with --source"
    )
    kernel.add_argument(
        "--jobs", type=int, metavar="N", help="build: so many at a time (default: processors)"
    )
    kernel.add_argument(
        "--verbose", action="store_true", help="build: print what make does, not progress"
    )
    kernel.add_argument("--json", action="store_true", help="list: print JSON")
    return top


def _run(options: argparse.Namespace) -> int:
    argv = options.command[1:] if options.command[:1] == ["--"] else options.command
    if not argv:
        raise Misuse("run: which command? Try: softrdma run -- ibv_devinfo")
    if options.hosts not in (1, 2):
        raise Misuse(f"--hosts {options.hosts}: 1 or 2")
    if not 256 <= options.memory <= 1 << 20:
        raise Misuse(f"--memory {options.memory}: megabytes, 256 or more")
    from . import packages  # as below: what up, down and list do not need

    drivers = DRIVERS[options.driver]
    arch = options.arch or packages.machine_arch()
    if options.suite not in (None, *packages.RELEASES):
        raise Misuse(f"--suite {options.suite}: one of {', '.join(packages.RELEASES)}")
    reason = _why_not_here(options, drivers, arch)
    if options.place == "here" and reason:
        raise CannotHere(f"{reason}; use: softrdma run --in qemu")
    if options.place in ("auto", "here") and not reason:
        if options.write:
            say.note(
                "on the running kernel all that the command writes stays; --write has no effect"
            )
        return here.run(drivers, options.hosts, argv)
    from . import guest, uml, umlkernel

    if options.place == "auto":
        if (
            arch == packages.machine_arch()
            and not options.suite
            and umlkernel.is_built(options.kernel)
        ):
            options.place = "uml"
            say.note(f"{reason}; using a user-mode kernel")
        else:
            faster = "" if options.suite else " (far faster, once built: softrdma kernel build)"
            say.note(f"{reason}; using a QEMU guest{faster}")
    if options.place == "uml":
        if arch != packages.machine_arch():
            raise CannotHere(
                f"a user-mode kernel is of this machine's architecture; for {arch} use: --in qemu"
            )
        if options.suite:
            raise CannotHere(
                f"a user-mode kernel runs this machine's programs; for those of {options.suite} use: --in qemu"
            )
        return uml.run(
            drivers,
            options.hosts,
            argv,
            options.kernel,
            options.write,
            options.memory,
            options.launcher,
        )

    return guest.run(
        drivers,
        options.hosts,
        argv,
        arch,
        options.kernel,
        options.suite,
        options.write,
        options.memory,
        options.launcher,
    )


def _why_not_here(options: argparse.Namespace, drivers: List[str], arch: str) -> str:
    from . import kernels, packages

    if arch != packages.machine_arch():
        return f"this machine is no {arch}"
    if options.suite:
        return f"the programs and the kernel of {options.suite} need a guest"
    release = os.uname().release
    if options.kernel and not kernels.matches(release, options.kernel):
        return f"the running kernel is {release}"
    return here.why_not(drivers)


def _up(options: argparse.Namespace) -> int:
    handle = _public(handles.up(options.driver, options.netdev, options.name))
    if options.json:
        print(json.dumps(handle, indent=2))
    else:
        print(
            f"{handle['device']} is up: {handle['driver']} on {handle['netdev']}, address {handle['address'] or '-'}, GID index {handle['gid_index']}"
        )
        print(
            f"try: rping -s -a {handle['address']} & sleep 1; rping -c -a {handle['address']} -C 3 -v"
            if handle["address"]
            else f"try: ibv_devinfo -d {handle['device']}"
        )
        print(f"and then: softrdma down {handle['device']}")
    return OK


def _down(options: argparse.Namespace) -> int:
    for name in handles.down(options.names):
        print(f"{name} is down")
    return OK


def _list(options: argparse.Namespace) -> int:
    found = [{**_public(handle), "state": handles.state(handle)} for handle in handles.records()]
    if options.json:
        print(json.dumps({"schema": 1, "devices": found}, indent=2))
        return OK
    rows = [
        [
            handle["device"],
            handle["driver"],
            handle["netdev"],
            handle["address"],
            handle["gid_index"],
            handle["state"],
        ]
        for handle in found
    ]
    say.table(
        ["DEVICE", "DRIVER", "NETDEV", "ADDRESS", "GID", "STATE"],
        rows,
        "no devices of softrdma's; make one: sudo softrdma up",
    )
    return OK


def _public(handle: Dict[str, Any]) -> Dict[str, Any]:
    return {
        key: handle.get(key)
        for key in ("device", "driver", "netdev", "address", "gid_index", "gid")
    }


def _kernel(options: argparse.Namespace) -> int:
    from . import kernelcommand

    return kernelcommand.run(options, DRIVERS[options.driver])

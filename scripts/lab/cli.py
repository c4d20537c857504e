# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""What a user may type: a table of subcommands, each with its function."""

import argparse
import json
import os
import sys
from typing import Any, Callable, Dict, List, NoReturn

from . import VERSION, handles, here, jobs, keeper, persistent, say
from .errors import OK, CannotHere, LabError, Misuse

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
        help="so many, joined by a wire; `on N COMMAND` reaches each (default: 1)",
    )
    run.add_argument(
        "--loss", default="0", metavar="PERCENT", help="so much is lost on the wire: 1%%"
    )
    run.add_argument(
        "--delay", default="0", metavar="MS", help="the wire takes so long, in milliseconds: 5ms"
    )
    run.add_argument(
        "--peer",
        action="append",
        default=[],
        metavar="ADDRESS",
        help="another host is a softrdma run --peer there: a machine or container, by UDP",
    )
    run.add_argument(
        "--as", dest="number", type=int, metavar="N", help="with --peer: which host this one is"
    )
    run.add_argument(
        "--port",
        type=int,
        default=jobs.PORT,
        metavar="P",
        help=f"with --peer: the UDP port ({jobs.PORT})",
    )
    run.add_argument(
        "--wait",
        type=int,
        default=jobs.WAIT_SECONDS,
        metavar="SECONDS",
        help=f"with --peer: how long for the others to be ready ({jobs.WAIT_SECONDS})",
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
        "device", nargs="?", metavar="NAME", help=f"the one of {persistent.path_of('NAME')}"
    )
    up.add_argument("--driver", choices=("rxe", "siw"), help="Soft-RoCE (default) or soft-iWARP")
    up.add_argument(
        "--netdev",
        metavar="IF",
        help="on this interface (default: one of its own, with a test address)",
    )
    up.add_argument("--name", metavar="N", help="the device's name (default: rxe0, rxe1, …)")
    up.add_argument(
        "--keep",
        action="store_true",
        help=f"at each boot, too: writes {persistent.path_of('NAME')}",
    )
    up.add_argument("--json", action="store_true", help="print the handle as JSON")

    down = command("down", _down, "take devices down that softrdma made (root)")
    down.add_argument("names", nargs="*", metavar="NAME", help="which (default: all)")

    listing = command("list", _list, "show the devices that softrdma made")
    listing.add_argument("--json", action="store_true", help="print them as JSON")

    cdi = command("cdi", _cdi, "write what a container needs for each RDMA device (CDI)")
    cdi.add_argument(
        "--output",
        metavar="FILE",
        help="there, not on stdout; runtimes read /etc/cdi/softrdma.json (root)",
    )
    cdi.add_argument(
        "--with-provider",
        action="store_true",
        help="containers get this machine's coherdma provider, too",
    )
    cdi.add_argument(
        "--umad", action="store_true", help="and the nodes for management (umad, issm)"
    )

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
    if not 256 <= options.memory <= 1 << 20:
        raise Misuse(f"--memory {options.memory}: megabytes, 256 or more")
    from . import packages  # as below: what up, down and list do not need

    drivers = DRIVERS[options.driver]
    arch = options.arch or packages.machine_arch()
    if options.suite not in (None, *packages.RELEASES):
        raise Misuse(f"--suite {options.suite}: one of {', '.join(packages.RELEASES)}")
    ask = jobs.Ask(
        argv, drivers, options.hosts, _wire(options), arch, options.kernel, options.suite,
        options.write, options.memory, options.launcher,
        options.number, tuple(options.peer), options.port,
        options.wait,
    )  # fmt: skip
    _check_hosts(ask)
    reason = _why_not_here(ask)
    if options.place == "here" and reason:
        other = "uml" if jobs.apart(ask) else "qemu"
        raise CannotHere(f"{reason}; use: softrdma run --in {other}")
    if options.place in ("auto", "here") and not reason:
        if options.write:
            say.note(
                "on the running kernel all that the command writes stays; --write has no effect"
            )
        return here.run(ask)
    from . import guest, uml, umlkernel

    native = arch == packages.machine_arch()
    if options.place == "auto":
        apart = jobs.apart(ask)
        if apart or (native and not options.suite and umlkernel.is_built(options.kernel)):
            options.place = "uml"
            say.note(f"{reason}; using a user-mode kernel")
        else:
            faster = "" if options.suite else " (far faster, once built: softrdma kernel build)"
            say.note(f"{reason}; using a QEMU guest{faster}")
    if options.place == "uml":
        if not native:
            raise CannotHere(
                f"a user-mode kernel is of this machine's architecture; for {arch} use: --in qemu"
            )
        if options.suite:
            raise CannotHere(
                f"a user-mode kernel runs this machine's programs; for those of {options.suite} use: --in qemu"
            )
        return uml.run(ask)
    if jobs.apart(ask):
        raise CannotHere(f"{jobs.apart(ask)}; use: softrdma run --in uml")
    return guest.run(ask)


def _wire(options: argparse.Namespace) -> jobs.Wire:
    loss, delay = options.loss.removesuffix("%"), options.delay.removesuffix("ms")
    try:
        wire = jobs.Wire(float(loss), float(delay))
    except ValueError:
        wire = jobs.Wire(-1, -1)
    if not (0 <= wire.loss <= 100 and 0 <= wire.delay <= 10000):
        raise Misuse(
            f"--loss {options.loss} --delay {options.delay}: percent, 0 to 100, and milliseconds, to 10000"
        )
    if any(wire) and options.hosts == 1 and not options.peer:
        raise Misuse("--loss and --delay are of the wire between hosts; say: --hosts 2")
    return wire


def _check_hosts(ask: jobs.Ask) -> None:
    if not 1 <= ask.hosts <= jobs.MOST_HOSTS:
        raise Misuse(f"--hosts {ask.hosts}: 1 to {jobs.MOST_HOSTS}")
    if bool(ask.peers) != bool(ask.number):
        raise Misuse(
            "--as N and --peer ADDRESS go together: which host this is, and where another is"
        )
    if ask.peers:
        if ask.hosts != 1:
            raise Misuse("--hosts and --peer do not go together: each --peer is a host of its own")
        if len(ask.peers) >= jobs.MOST_HOSTS:
            raise Misuse(f"{len(ask.peers)} peers: {jobs.MOST_HOSTS - 1} at the most")
        if not 1 <= (ask.number or 0) <= len(ask.peers) + 1:
            raise Misuse(
                f"--as {ask.number}: with {len(ask.peers)} --peer the hosts are 1 to {len(ask.peers) + 1}"
            )
    if not 0 < ask.port < 65536:
        raise Misuse(f"--port {ask.port}: 1 to 65535")
    for place in ask.peers:
        jobs.peer_address(place, ask.port)
    if ask.wait < 0:
        raise Misuse(f"--wait {ask.wait}: seconds")


def _why_not_here(ask: jobs.Ask) -> str:
    from . import kernels, packages

    if jobs.apart(ask):
        return jobs.apart(ask)
    if ask.arch != packages.machine_arch():
        return f"this machine is no {ask.arch}"
    if ask.suite:
        return f"the programs and the kernel of {ask.suite} need a guest"
    release = os.uname().release
    if ask.kernel and not kernels.matches(release, ask.kernel):
        return f"the running kernel is {release}"
    return here.why_not(ask.drivers)


def _up(options: argparse.Namespace) -> int:
    if options.device is not None:
        if options.driver or options.netdev or options.name or options.keep:
            raise Misuse(
                f"up {options.device}: {persistent.path_of(options.device)} says what it is; no other option but --json goes with it"
            )
        made = handles.up_again(options.device)
    else:
        if options.name in persistent.names():
            raise Misuse(
                f"--name {options.name}: what that is {persistent.path_of(options.name)} says; make it so: softrdma up {options.name}"
            )
        if options.keep:
            persistent.check_boot()
        made = handles.up(options.driver or "rxe", options.netdev, options.name, keep=options.keep)
    handle = _public(made)
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
        if options.keep:
            print(f"at each boot: {persistent.path_of(handle['device'])} has it made again")
    return OK


def _down(options: argparse.Namespace) -> int:
    kept = persistent.names()
    for name in handles.down(options.names):
        again = f"; the next boot makes it again, unless you remove {persistent.path_of(name)}"
        print(f"{name} is down{again if name in kept else ''}")
    return OK


def _list(options: argparse.Namespace) -> int:
    found: List[Dict[str, Any]] = [
        {**_public(handle), "state": handles.state(handle)} for handle in handles.records()
    ]
    kept = persistent.names()
    for name in sorted({*kept} - {handle["device"] for handle in found}):
        try:
            wish = persistent.read(name)
        except LabError as problem:
            say.error(str(problem))
            continue
        found.append({**_public({"device": name, **wish._asdict()}), "state": "down"})
    for handle in found:
        handle["persistent"] = handle["device"] in kept
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
            "yes" if handle["persistent"] else None,
        ]
        for handle in found
    ]
    say.table(
        ["DEVICE", "DRIVER", "NETDEV", "ADDRESS", "GID", "STATE", "AT BOOT"],
        rows,
        "no devices of softrdma's; make one: sudo softrdma up",
    )
    return OK


def _public(handle: Dict[str, Any]) -> Dict[str, Any]:
    return {
        key: handle.get(key)
        for key in ("device", "driver", "netdev", "address", "gid_index", "gid")
    }


def _cdi(options: argparse.Namespace) -> int:
    from . import cdi

    plugin = cdi.find_plugin() if options.with_provider else ""
    spec = cdi.specification(management=options.umad, plugin=plugin)
    if not options.output:
        sys.stdout.write(cdi.text(spec))
        return OK
    cdi.write(options.output, cdi.text(spec))
    names = [device["name"] for device in spec["devices"]]
    print(f"{options.output} has {', '.join(names)}")
    print(
        f"try: podman run --device {cdi.KIND}={names[0]} --ulimit memlock=-1:-1 IMAGE ibv_devices"
    )
    return OK


def _kernel(options: argparse.Namespace) -> int:
    from . import kernelcommand

    return kernelcommand.run(options, DRIVERS[options.driver])

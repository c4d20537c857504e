# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Hosts, each with its soft devices.

One, or two on the same kernel, joined by a veth wire. How these are kept apart
depends on what the kernel's driver can do:

netns   A network namespace for each. siw opens its TCP sockets where its
        caller is, and the rxe of newer kernels (7.2 does, 6.12 does not) its
        UDP socket where its interface is, so this works.
wire    Older rxe keeps one UDP socket, in the initial namespace; in any other
        its packets are lost. So both ends stay there, and routing makes the
        wire real: each address is local only for what comes in on its own
        end, and is reached from the other end. A host cannot connect to itself
        then, and both hosts see both devices.

Or one of several that have a kernel each (apart): an interface for each driver
is there from the start, and leads to the others.
"""

import contextlib
import os
from typing import Dict, List, NamedTuple, Optional

from . import children, devices, handles, keeper
from .errors import CannotHere, LabError
from .handles import Handle
from .jobs import Place, Wire

ROCE_PORT = ":12B7"  # 4791, as /proc/net/udp has it
NETWORKS = {"rxe": "198.19.1", "siw": "198.19.2"}
RULE_PREFERENCE = "10"
TABLES = {"rxe": 1981910, "siw": 1981920}  # routing tables of our own: TABLE + host number
NAMESPACES = "/run/netns"
NONLOCAL_BIND = "/proc/sys/net/ipv4/ip_nonlocal_bind"


SLOW_QUEUE = 100_000  # packets under way on a slow wire, which must not lose them besides


class Host(NamedTuple):
    number: int
    netns: Optional[str]
    handles: List[Handle]  # one per driver, in the order asked for


def together(drivers: List[str], count: int, wire: Wire, undo: keeper.Undo) -> List[Host]:
    if count == 1:
        return one(drivers, undo)
    made = two(drivers, undo)
    for host in made:
        _spoil(host, wire)
    return made


def apart(drivers: List[str], place: Place, wire: Wire) -> List[Host]:
    """In a guest that is one of them: make its devices. Of the others only addresses are known."""
    made = []
    for number in place.numbers:
        addresses = [f"{NETWORKS[driver]}.{number}" for driver in drivers]
        made.append(Host(number, None, [{"address": address} for address in addresses]))
    own = Host(place.number, None, [])
    for interface, driver in enumerate(drivers):
        end = _netdev(driver, own.number)
        words = ["link", "set", f"vec{interface}", "name", end, "mtu", str(place.mtu)]
        devices.ip_batch([words])
        _address(driver, own, end, "/24")
        own.handles.append(_equip(driver, own, end, keeper.Undo()))
    _spoil(own, wire)
    made[place.numbers.index(own.number)] = own
    return made


def one(drivers: List[str], undo: keeper.Undo) -> List[Host]:
    undo.callback(handles.down_owned_by, keeper.front_pid())
    return [Host(1, None, [handles.up(driver, owner=keeper.front_pid()) for driver in drivers])]


def two(drivers: List[str], undo: keeper.Undo) -> List[Host]:
    for driver in drivers:
        devices.load(driver)
    if "exclusive" in devices.rdma("system"):
        raise CannotHere(
            "two hosts need RDMA devices shared between network namespaces, and this system keeps them exclusive; "
            "use: softrdma run --in qemu, or: rdma system set netns shared"
        )
    if not _namespaces_mounted():
        undo.callback(_remove_namespace_folder)
    apart = "rxe" not in drivers or _rxe_knows_namespaces()
    namespaces = [_namespace(number) for number in (1, 2)] if apart else []
    if apart:
        for name in namespaces:
            _add_namespace(name, undo)
    else:
        _allow_binding_to_wire_ends(undo)
    hosts = [Host(number, namespaces[number - 1] if apart else None, []) for number in (1, 2)]
    for driver in drivers:
        _join(driver, hosts, undo)
    return hosts


def _rxe_knows_namespaces() -> bool:
    """Whether rxe listens in the namespace of its interface: make one and look."""
    with keeper.Undo() as undo:
        name, netdev, device = _namespace(0), "probe", _free_device("rxe-probe")
        _add_namespace(name, undo)
        devices.ip("-n", name, "link", "add", netdev, "up", "type", "dummy")
        undo.callback(devices.remove, device, netdev, name)
        devices.add("rxe", device, netdev, netns=name)
        return ROCE_PORT in devices.ip("netns", "exec", name, "cat", "/proc/net/udp")


def rescue(front: int) -> None:
    """Remove what a run left that was killed whole, keeper included."""
    for number in (0, 1, 2):
        _remove_namespace(_namespace(number, front))
    for driver in NETWORKS:
        if _alias_of(_netdev(driver, 1)) == _alias(front):
            _remove_wire(driver)


def environment(hosts: List[Host], host: Host) -> Dict[str, str]:
    """What programs on a host are told about it."""
    told = {}
    for place, handle in enumerate(host.handles):
        facts = {
            "DEVICE": handle["device"],
            "NETDEV": handle["netdev"],
            "ADDRESS": handle["address"],
            "GID_INDEX": str(handle["gid_index"]),
        }
        for key, value in facts.items():
            told[f"SOFTRDMA_{handle['driver'].upper()}_{key}"] = value
            if place == 0:
                told[f"SOFTRDMA_{key}"] = value
        for other in hosts:
            told[f"SOFTRDMA_{handle['driver'].upper()}_HOST{other.number}"] = other.handles[place][
                "address"
            ]
            if place == 0:
                told[f"HOST{other.number}"] = other.handles[0]["address"]
    told["SOFTRDMA_HOST"] = str(host.number)
    return told


def _namespace(number: int, front: Optional[int] = None) -> str:
    return f"softrdma.{front or keeper.front_pid()}.{number}"


def _netdev(driver: str, number: int) -> str:
    return f"softrdma-{driver}{number}"


def _alias(front: int) -> str:
    return f"softrdma run {front}"


def _alias_of(netdev: str) -> str:
    with contextlib.suppress(OSError), open(
        f"/sys/class/net/{netdev}/ifalias", encoding="utf-8"
    ) as file:
        return file.read().strip()
    return ""


def _join(driver: str, hosts: List[Host], undo: keeper.Undo) -> None:
    """Lay a wire between the hosts and make a device on each end."""
    ends = [_netdev(driver, host.number) for host in hosts]
    for host, end in zip(hosts, ends):
        if not host.netns and os.path.isdir(f"/sys/class/net/{end}"):
            raise LabError(
                f"interface {end} is there already: another softrdma run --hosts 2 is at work on this kernel ({_alias_of(end)})"
            )
    apart = hosts[0].netns is not None
    if not apart:
        undo.callback(_remove_wire, driver)
    places = [
        word
        for host, end in zip(hosts, ends)
        for word in (["name", end] + (["netns", host.netns] if host.netns else []))
    ]
    devices.ip(
        "link",
        "add",
        *places[: len(places) // 2],
        "type",
        "veth",
        "peer",
        *places[len(places) // 2 :],
    )
    for host, end in zip(hosts, ends):
        _address(driver, host, end, "/24" if apart else "/32")
    if not apart:
        _route_over_wire(driver)
    for host, end in zip(hosts, ends):
        host.handles.append(_equip(driver, host, end, undo))


def _address(driver: str, host: Host, end: str, prefix: str) -> None:
    address = f"{NETWORKS[driver]}.{host.number}"
    devices.ip_batch(
        [
            ["link", "set", end, "alias", f'"{_alias(keeper.front_pid())}"'],
            ["address", "add", address + prefix, "dev", end],
            ["link", "set", end, "up"],
        ],
        host.netns,
    )


def _equip(driver: str, host: Host, end: str, undo: keeper.Undo) -> Handle:
    """Make a device on its end of the wire."""
    name = _free_device(f"{driver}{host.number}")
    if host.netns:
        # A device outlives its namespace unless it is removed first.
        undo.callback(devices.remove, name, end, host.netns)
    devices.add(driver, name, end, netns=host.netns)
    address = f"{NETWORKS[driver]}.{host.number}"
    gid = devices.ready(name, address)
    return {
        "device": name,
        "driver": driver,
        "netdev": end,
        "address": address,
        "gid_index": gid.place,
        "gid": gid.text,
    }


def _spoil(host: Host, wire: Wire) -> None:
    """Each direction of the wire loses packets and takes time, as was asked for."""
    words = ["loss", f"{wire.loss:g}%"] if wire.loss else []
    words += ["delay", f"{wire.delay:g}ms", "limit", str(SLOW_QUEUE)] if wire.delay else []
    tc = children.need("tc", "iproute2", "a wire that loses packets or is slow") if words else ""
    for handle in host.handles if words else []:
        enter = ["-n", host.netns] if host.netns else []
        children.capture(
            [tc, *enter, "qdisc", "add", "dev", handle["netdev"], "root", "netem", *words],
            fails="this kernel makes no wire that loses packets or is slow (netem)",
        )


def _free_device(wanted: str) -> str:
    name, count = wanted, 0
    while os.path.isdir(f"{devices.SYSFS}/{name}"):
        count += 1
        name = f"{wanted}-{count}"
    return name


def _route_over_wire(driver: str) -> None:
    commands = []
    for number, peer in ((1, 2), (2, 1)):
        own, end = f"{NETWORKS[driver]}.{number}", _netdev(driver, number)
        table = str(TABLES[driver] + number)
        commands += [
            ["route", "add", "local", own, "dev", end, "table", table],
            ["rule", "add", "iif", end, "lookup", table, "pref", RULE_PREFERENCE],
            ["route", "add", f"{NETWORKS[driver]}.{peer}/32", "dev", end, "src", own],
        ]
    # Only now: a route's source address has to be local when the route is made.
    for number in (1, 2):
        own, end = f"{NETWORKS[driver]}.{number}", _netdev(driver, number)
        commands.append(["route", "del", "local", own, "dev", end, "table", "local"])
    devices.ip_batch(commands)


def _remove_wire(driver: str) -> None:
    for number in (1, 2):
        end = _netdev(driver, number)
        for link in devices.links():
            if link.get("netdev") == end:
                devices.rdma("link", "delete", link["ifname"])
        while any(rule.get("iif") == end for rule in devices.ip_json("rule")):
            devices.ip("rule", "del", "iif", end)
    if os.path.isdir(f"/sys/class/net/{_netdev(driver, 1)}"):
        devices.ip("link", "delete", _netdev(driver, 1))


def _add_namespace(name: str, undo: keeper.Undo) -> None:
    undo.callback(_remove_namespace, name)
    devices.ip("netns", "add", name)
    devices.ip("-n", name, "link", "set", "lo", "up")


def _remove_namespace(name: str) -> None:
    if os.path.exists(f"{NAMESPACES}/{name}"):
        devices.ip("netns", "delete", name)


def _namespaces_mounted() -> bool:
    """os.path.ismount() does not see it: it is a bind mount of the same file system."""
    with open("/proc/self/mounts", encoding="utf-8") as file:
        return any(line.split(" ")[1] == NAMESPACES for line in file)


def _remove_namespace_folder() -> None:
    """`ip netns add` mounts this folder once and leaves it; others may use it by now."""
    if _namespaces_mounted() and not os.listdir(NAMESPACES):
        children.capture([children.need("umount", "mount", "cleaning up"), NAMESPACES])
        os.rmdir(NAMESPACES)


def _allow_binding_to_wire_ends(undo: keeper.Undo) -> None:
    """The wire's addresses are not local to a bind() otherwise."""
    with open(NONLOCAL_BIND, encoding="ascii") as file:
        before = file.read()

    def restore() -> None:
        with open(NONLOCAL_BIND, "w", encoding="ascii") as file:
            file.write(before)

    undo.callback(restore)
    with open(NONLOCAL_BIND, "w", encoding="ascii") as file:
        file.write("1")

# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Hosts, each with its soft devices.

One host, or two on the same kernel, joined by a veth pair (the wire). How two
hosts are separated depends on the driver:

netns     Each is a network namespace. siw opens its TCP sockets in the namespace
          of its caller; rxe opens its UDP socket in that of its interface, but
          only in newer kernels (7.2 does, 6.12 does not).
routing   Older rxe has one UDP socket, in the initial namespace, so both ends of
          the wire stay there. Routes make packets cross the wire: each address is
          local only for packets that arrive at its own end, and is reached by the
          other end. A host cannot connect to itself then, and both hosts see both
          devices.

Or one of several hosts that have a kernel each (make_local_host): the guest
starts with an interface for each driver, which leads to the other hosts.
"""

import contextlib
import os
from typing import Dict, List, NamedTuple, Optional

from ..core import subprocesses, supervisor
from ..core.errors import LabError, Unavailable
from ..core.run_request import ClusterMember, Wire, host_name
from . import device_lifecycle, soft_devices
from .device_lifecycle import DeviceRecord

ROCE_PORT = ":12B7"  # 4791, as in /proc/net/udp
NETWORKS = {"rxe": "198.19.1", "siw": "198.19.2"}
RULE_PREFERENCE = "10"
TABLES = {
    "rxe": 1981910,
    "siw": 1981920,
}  # base numbers of the routing tables; plus the host number
NETNS_FOLDER = "/run/netns"
NONLOCAL_BIND = "/proc/sys/net/ipv4/ip_nonlocal_bind"
# Files in the folder of a run, for remove_hosts_of_run().
NETNS_RECORD, BIND_RECORD = "netns_folder", "ip_nonlocal_bind"
WAITING_PACKETS = 100_000  # netem drops packets beyond this while others wait


class Host(NamedTuple):
    number: int
    netns: Optional[str]
    devices: List[DeviceRecord]  # one for each driver


def make_hosts(drivers: List[str], count: int, wire: Wire, undo: supervisor.Undo) -> List[Host]:
    """Make one or two hosts on this kernel."""
    if count == 1:
        return [_make_single_host(drivers, undo)]
    hosts = _make_two_hosts(drivers, undo)
    for host in hosts:
        _impair_wire(host, wire)
    return hosts


def make_local_host(drivers: List[str], member: ClusterMember) -> List[Host]:
    """Make the host that this guest is. Returns all hosts; of the others only addresses are known.

    The switch between the hosts impairs the wire.
    The guest's kernel, in user mode, has an interface vec0, vec1 … for each driver.
    """
    hosts = []
    for number in member.numbers:
        addresses = [_address(driver, number) for driver in drivers]
        hosts.append(Host(number, None, [{"address": address} for address in addresses]))
    local_host = Host(member.number, None, [])
    for index, driver in enumerate(drivers):
        netdev = _netdev_name(driver, local_host.number)
        soft_devices.run_ip_batch([["link", "set", f"vec{index}", "name", netdev]])
        _configure_netdev(driver, local_host, netdev, "/24")
        undo = supervisor.Undo()  # never called: the device ends with the guest
        local_host.devices.append(_make_device(driver, local_host, netdev, undo))
    hosts[member.numbers.index(local_host.number)] = local_host
    return hosts


def _make_single_host(drivers: List[str], undo: supervisor.Undo) -> Host:
    owner = device_lifecycle.own_devices(undo)
    return Host(1, None, [device_lifecycle.bring_up(driver, owner=owner) for driver in drivers])


def _make_two_hosts(drivers: List[str], undo: supervisor.Undo) -> List[Host]:
    """By network namespaces, or by routing if rxe does not support them; see the module's text."""
    for driver in drivers:
        soft_devices.load_modules(driver)
    if "exclusive" in soft_devices.run_rdma("system"):
        raise Unavailable(
            "two hosts need RDMA devices that are shared between network namespaces, and this system has them exclusive; "
            "use: softrdma run --in qemu, or: rdma system set netns shared"
        )
    if not _is_netns_folder_mounted():
        undo.callback(_remove_netns_folder)
        _record_change(NETNS_RECORD)
    use_netns = "rxe" not in drivers or _rxe_supports_netns()
    namespaces = [_netns_name(number) for number in (1, 2)] if use_netns else []
    if use_netns:
        for name in namespaces:
            _add_netns(name, undo)
    else:
        _allow_nonlocal_bind(undo)
    hosts = [Host(number, namespaces[number - 1] if use_netns else None, []) for number in (1, 2)]
    for driver in drivers:
        _join_hosts(driver, hosts, undo)
    return hosts


def _rxe_supports_netns() -> bool:
    """Whether rxe opens its socket in the namespace of its interface: tried with a device."""
    with supervisor.Undo() as undo:
        name, netdev, device = _netns_name(0), "probe", _unused_device_name("rxe-probe")
        _add_netns(name, undo)
        soft_devices.run_ip("-n", name, "link", "add", netdev, "up", "type", "dummy")
        undo.callback(soft_devices.remove_device, device, netdev, name)
        soft_devices.add_device("rxe", device, netdev, netns=name)
        return ROCE_PORT in soft_devices.run_ip("netns", "exec", name, "cat", "/proc/net/udp")


def remove_hosts_of_run(front_pid: int) -> None:
    """Remove namespaces and wires of a run whose worker was killed."""
    namespaces = [_netns_name(number, front_pid) for number in (0, 1, 2)]
    namespaces = [name for name in namespaces if os.path.exists(f"{NETNS_FOLDER}/{name}")]
    for name in namespaces:
        # A device is not removed with its namespace. Only those of the namespace have a netdev here.
        for link in soft_devices.rdma_links(name):
            if link.get("netdev"):
                soft_devices.run_rdma("link", "delete", link["ifname"], netns=name)
        _remove_netns(name)
    for driver in NETWORKS:
        if _read_alias(_netdev_name(driver, 1)) == _netdev_alias(front_pid):
            _remove_wire(driver)
    if os.path.exists(_record_path(NETNS_RECORD)):
        _remove_netns_folder()
    with contextlib.suppress(FileNotFoundError), open(
        _record_path(BIND_RECORD), encoding="ascii"
    ) as file:
        _write_nonlocal_bind(file.read())


def _record_path(name: str) -> str:
    return os.path.join(supervisor.run_folder(), name)


def _record_change(name: str, old_value: str = "") -> None:
    """Let remove_hosts_of_run() undo a change of the system. A guest has no run folder, and ends."""
    if os.path.isdir(supervisor.run_folder()):
        with open(_record_path(name), "w", encoding="ascii") as file:
            file.write(old_value)


def host_environment(hosts: List[Host], host: Host) -> Dict[str, str]:
    """The environment variables of programs on the host.

    SOFTRDMA_RXE_DEVICE and so on; without the driver's name (SOFTRDMA_DEVICE) for the first driver.
    """
    variables = {}
    for index, device in enumerate(host.devices):
        prefix = f"SOFTRDMA_{device['driver'].upper()}_"
        values = {
            "DEVICE": device["device"],
            "NETDEV": device["netdev"],
            "ADDRESS": device["address"],
            "GID_INDEX": str(device["gid_index"]),
        }
        for name, value in values.items():
            variables[prefix + name] = value
            if index == 0:
                variables[f"SOFTRDMA_{name}"] = value
        for other in hosts:
            address = other.devices[index]["address"]
            variables[f"{prefix}HOST{other.number}"] = address
            if index == 0:
                variables[f"HOST{other.number}"] = address
    variables["SOFTRDMA_HOST"] = str(host.number)
    return variables


def host_names(hosts: List[Host], kernel_name: str) -> str:
    """The lines of /etc/hosts for the hosts, and for a kernel that has another name than each host."""
    names = {host_name(host.number): host.devices[0]["address"] for host in hosts}
    names.setdefault(kernel_name, hosts[0].devices[0]["address"])
    return "".join(f"{address} {name}\n" for name, address in names.items())


def _address(driver: str, number: int) -> str:
    """Of the host with that number."""
    return f"{NETWORKS[driver]}.{number}"


def _netns_name(number: int, front_pid: Optional[int] = None) -> str:
    return f"softrdma.{front_pid or supervisor.front_pid()}.{number}"


def _netdev_name(driver: str, number: int) -> str:
    return f"softrdma-{driver}{number}"


def _netdev_alias(front_pid: int) -> str:
    return f"softrdma run {front_pid}"


def _read_alias(netdev: str) -> str:
    with contextlib.suppress(OSError), open(
        f"/sys/class/net/{netdev}/ifalias", encoding="utf-8"
    ) as file:
        return file.read().strip()
    return ""


def _join_hosts(driver: str, hosts: List[Host], undo: supervisor.Undo) -> None:
    """Make a veth pair between the hosts, and a device on each end."""
    netdevs = [_netdev_name(driver, host.number) for host in hosts]
    for host, netdev in zip(hosts, netdevs):
        if not host.netns and soft_devices.netdev_exists(netdev):
            raise LabError(
                f"the interface {netdev} exists: another softrdma run --hosts 2 uses this kernel ({_read_alias(netdev)})"
            )
    use_netns = hosts[0].netns is not None
    if not use_netns:
        undo.callback(_remove_wire, driver)
    ends = [
        ["name", netdev, "mtu", str(soft_devices.MTU)]
        + (["netns", host.netns] if host.netns else [])
        for host, netdev in zip(hosts, netdevs)
    ]
    soft_devices.run_ip("link", "add", *ends[0], "type", "veth", "peer", *ends[1])
    for host, netdev in zip(hosts, netdevs):
        _configure_netdev(driver, host, netdev, "/24" if use_netns else "/32")
    if not use_netns:
        _route_over_wire(driver)
    for host, netdev in zip(hosts, netdevs):
        host.devices.append(_make_device(driver, host, netdev, undo))


def _configure_netdev(driver: str, host: Host, netdev: str, prefix_length: str) -> None:
    """Give the interface its alias and the host's address, and set it up."""
    address = _address(driver, host.number)
    soft_devices.run_ip_batch(
        [
            ["link", "set", netdev, "alias", f'"{_netdev_alias(supervisor.front_pid())}"'],
            ["address", "add", address + prefix_length, "dev", netdev],
            ["link", "set", netdev, "up"],
        ],
        host.netns,
    )


def _make_device(driver: str, host: Host, netdev: str, undo: supervisor.Undo) -> DeviceRecord:
    """Make the host's device on its interface, and wait until it is ready."""
    name = _unused_device_name(f"{driver}{host.number}")
    if host.netns:
        # A device is not removed with its namespace.
        undo.callback(soft_devices.remove_device, name, netdev, host.netns)
    soft_devices.add_device(driver, name, netdev, netns=host.netns)
    address = _address(driver, host.number)
    gid = soft_devices.wait_until_ready(name, address)
    return {
        "device": name,
        "driver": driver,
        "netdev": netdev,
        "address": address,
        "gid_index": gid.gid_index,
        "gid": gid.text,
    }


def _impair_wire(host: Host, wire: Wire) -> None:
    """Have netem drop, duplicate and delay packets that the host sends."""
    options = ["loss", f"{wire.loss_percent:g}%"] if wire.loss_percent else []
    if wire.duplicate_percent:
        options += ["duplicate", f"{wire.duplicate_percent:g}%"]
    if wire.delay_ms:
        options += ["delay", f"{wire.delay_ms:g}ms"]
    if wire.rate_mbit:
        options += ["rate", f"{wire.rate_mbit:g}mbit"]
    if not options:
        return
    if wire.delay_ms or wire.rate_mbit:
        options += ["limit", str(WAITING_PACKETS)]
    tc = subprocesses.require_program("tc", "iproute2", "the faults of the wire")
    for device in host.devices:
        netns_option = ["-n", host.netns] if host.netns else []
        subprocesses.capture_output(
            [tc, *netns_option, "qdisc", "add", "dev", device["netdev"], "root", "netem", *options],
            error_text="this kernel cannot drop, duplicate or delay packets (netem)",
        )


def _unused_device_name(base: str) -> str:
    name, count = base, 0
    while soft_devices.device_exists(name):
        count += 1
        name = f"{base}-{count}"
    return name


def _route_over_wire(driver: str) -> None:
    """The routes and rules of "routing" above, for hosts in the initial namespace."""
    commands = []
    for number, peer in ((1, 2), (2, 1)):
        address, netdev = _address(driver, number), _netdev_name(driver, number)
        table = str(TABLES[driver] + number)
        commands += [
            ["route", "add", "local", address, "dev", netdev, "table", table],
            ["rule", "add", "iif", netdev, "lookup", table, "pref", RULE_PREFERENCE],
            ["route", "add", f"{_address(driver, peer)}/32", "dev", netdev, "src", address],
        ]
    # Last: the source address of a route has to be local when the route is added.
    for number in (1, 2):
        address, netdev = _address(driver, number), _netdev_name(driver, number)
        commands.append(["route", "del", "local", address, "dev", netdev, "table", "local"])
    soft_devices.run_ip_batch(commands)


def _remove_wire(driver: str) -> None:
    """Remove the devices, rules and veth pair of two hosts in the initial namespace."""
    for number in (1, 2):
        netdev = _netdev_name(driver, number)
        for link in soft_devices.rdma_links():
            if link.get("netdev") == netdev:
                soft_devices.run_rdma("link", "delete", link["ifname"])
        while any(rule.get("iif") == netdev for rule in soft_devices.run_ip_json("rule")):
            soft_devices.run_ip("rule", "del", "iif", netdev)
    if soft_devices.netdev_exists(_netdev_name(driver, 1)):
        soft_devices.run_ip("link", "delete", _netdev_name(driver, 1))


def _add_netns(name: str, undo: supervisor.Undo) -> None:
    undo.callback(_remove_netns, name)
    soft_devices.run_ip("netns", "add", name)
    soft_devices.run_ip("-n", name, "link", "set", "lo", "up")


def _remove_netns(name: str) -> None:
    if os.path.exists(f"{NETNS_FOLDER}/{name}"):
        soft_devices.run_ip("netns", "delete", name)


def _is_netns_folder_mounted() -> bool:
    """os.path.ismount() does not detect it: a bind mount of the same file system."""
    with open("/proc/self/mounts", encoding="utf-8") as file:
        return any(line.split(" ")[1] == NETNS_FOLDER for line in file)


def _remove_netns_folder() -> None:
    """`ip netns add` mounts it and leaves it. It stays if another program has a namespace there."""
    if _is_netns_folder_mounted() and not os.listdir(NETNS_FOLDER):
        umount = subprocesses.require_program("umount", "mount", "cleaning up")
        subprocesses.capture_output([umount, NETNS_FOLDER])
        os.rmdir(NETNS_FOLDER)


def _allow_nonlocal_bind(undo: supervisor.Undo) -> None:
    """Let programs bind() to the addresses of the wire, which are in no local routing table."""
    old_value = _read_nonlocal_bind()
    undo.callback(_write_nonlocal_bind, old_value)
    _record_change(BIND_RECORD, old_value)
    _write_nonlocal_bind("1")


def _read_nonlocal_bind() -> str:
    with open(NONLOCAL_BIND, encoding="ascii") as file:
        return file.read().strip()


def _write_nonlocal_bind(value: str) -> None:
    if _read_nonlocal_bind() == value:  # also in /proc/sys that is read-only
        return
    try:
        with open(NONLOCAL_BIND, "w", encoding="ascii") as file:
            file.write(value)
    except OSError as problem:
        raise Unavailable(
            f"two hosts of this kernel's rxe need {NONLOCAL_BIND}, which cannot be written: {problem.strerror}; "
            "use: softrdma run --in uml"
        ) from problem

# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""`up`, `down` and `list`: devices that stay until they are taken down.

What we made is written down in /run/softrdma before it is made, so that a
device can be taken down by a later call, whatever became of the first one.
Interfaces of ours carry an alias that says so; nothing without it is removed.
"""

import contextlib
import fcntl
import json
import os
from typing import Any, Dict, Iterator, List, Optional

from . import devices, keeper, persistent, say
from .errors import CannotHere, LabError, Misuse

RECORDS = "/run/softrdma"
# 198.18.0.0/15 is set aside for tests (RFC 2544): it collides with nobody.
NETWORK = "198.18"
NETDEV = "softrdma"
PART = ".part"

Handle = Dict[str, Any]


@contextlib.contextmanager
def _locked() -> Iterator[None]:
    try:
        os.makedirs(RECORDS, mode=0o755, exist_ok=True)
        lock = os.open(os.path.join(RECORDS, ".lock"), os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as problem:
        raise CannotHere(
            f"cannot write {RECORDS}: {problem.strerror}; devices need root, try: sudo softrdma …"
        ) from problem
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _record(name: str) -> str:
    return os.path.join(RECORDS, name + ".json")


def records() -> List[Handle]:
    found = []
    with contextlib.suppress(FileNotFoundError):
        for file in sorted(os.listdir(RECORDS)):
            if file.endswith(".json"):
                with contextlib.suppress(OSError, ValueError), open(
                    os.path.join(RECORDS, file), encoding="utf-8"
                ) as text:
                    found.append(json.load(text))
    return found


def up(
    driver: str,
    netdev: Optional[str] = None,
    name: Optional[str] = None,
    owner: Optional[int] = None,
    keep: bool = False,
) -> Handle:
    """Make a device and wait until it works. All of it, or nothing is left.

    owner: the softrdma that takes it down again when it ends; None: it stays.
    keep: it comes again at each boot.
    """
    if name is not None and not persistent.NAME.fullmatch(name):
        raise Misuse(
            f"--name {name}: a device name is a letter, then up to 31 letters, digits, - or _"
        )
    if netdev is not None and not os.path.isdir(f"/sys/class/net/{netdev}"):
        raise Misuse(f"--netdev {netdev}: there is no such network interface; see: ip link")
    devices.load(driver)
    with _locked(), keeper.Undo() as undo:
        taken = {*devices.names(), *(handle["device"] for handle in records())}
        if name is None:
            taken |= set(persistent.names())  # theirs, up or not
            name = next(
                f"{driver}{number}" for number in range(10000) if f"{driver}{number}" not in taken
            )
        elif name in taken:
            raise LabError(
                f"an RDMA device {name} exists already; choose another --name, or: softrdma down {name}"
            )
        handle: Handle = {
            "device": name,
            "driver": driver,
            "netdev": netdev,
            "made_netdev": netdev is None,
            "owner": owner,
        }
        if netdev is None:
            handle["netdev"], handle["address"] = _free_interface()
        else:
            handle["address"] = _address_of(netdev)
        undo.callback(_undo, handle)
        _write(handle)
        if handle["made_netdev"]:
            ours = handle["netdev"]
            devices.ip_batch(
                [
                    ["link", "add", ours, "type", "dummy"],
                    ["link", "set", ours, "alias", f'"{_alias(handle)}"', "up"],
                    ["address", "add", handle["address"] + "/24", "dev", ours],
                ]
            )
        devices.add(driver, name, handle["netdev"])
        gid = devices.ready(name, handle["address"])
        handle["gid_index"], handle["gid"] = gid
        _write(handle)
        with keeper.deferred():
            if keep:
                persistent.write(name, persistent.Wish(driver, netdev))
            undo.pop_all()
    return handle


def up_again(name: str) -> Handle:
    """Make the persistent device, as its file says; if it is up already, well."""
    path, wish = persistent.path_of(name), persistent.read(name)
    if wish.netdev and not os.path.isdir(f"/sys/class/net/{wish.netdev}"):
        raise LabError(f"{path}: there is no network interface {wish.netdev}; see: ip link")
    for handle in records():
        if handle["device"] == name and state(handle) == "up":
            if (handle["driver"], None if handle["made_netdev"] else handle["netdev"]) == wish:
                return handle
            raise LabError(
                f"{name} is up, but not as {path} says; take it down first: softrdma down {name}"
            )
    return up(wish.driver, wish.netdev, name)


def down(names: List[str]) -> List[str]:
    """Take down the named devices of ours, or all that nobody owns. Says which."""
    with _locked():
        known = {handle["device"]: handle for handle in records()}
        for name in names:
            if name not in known:
                other = (
                    " It exists, but softrdma did not make it."
                    if os.path.isdir(f"{devices.SYSFS}/{name}")
                    else ""
                )
                raise Misuse(f"{name} is no device of softrdma's.{other} See: softrdma list")
        chosen = (
            [known[name] for name in names]
            if names
            else [handle for handle in known.values() if not _owned(handle)]
        )
        for handle in chosen:
            if _owned(handle):
                raise LabError(
                    f"{handle['device']} belongs to a running softrdma (process {handle['owner']}), which takes it down when it ends"
                )
            holders = devices.users(handle["device"])
            if holders:
                raise LabError(
                    f"{handle['device']} is in use by {', '.join(holders)}; end them first, then: softrdma down {handle['device']}"
                )
        for handle in chosen:
            _undo(handle)
    return [handle["device"] for handle in chosen]


def down_owned_by(owner: int) -> None:
    """Take down what a run of softrdma left when it was killed whole."""
    if any(handle.get("owner") == owner for handle in records()):
        with _locked():
            for handle in records():
                if handle.get("owner") == owner:
                    _undo(handle)


def state(handle: Handle) -> str:
    if not os.path.isdir(f"{devices.SYSFS}/{handle['device']}"):
        return "gone"
    if "gid" not in handle:
        return "half-made"
    return "in a run" if _owned(handle) else "up"


def _owned(handle: Handle) -> bool:
    owner = handle.get("owner")
    return owner is not None and os.path.isdir(f"/proc/{owner}")


def _alias(handle: Handle) -> str:
    return f"softrdma {handle['device']}"


def _undo(handle: Handle) -> None:
    """Remove what the record says, as far as it is there and still ours."""
    problems = []
    try:
        devices.remove(handle["device"], handle["netdev"])
        if handle["made_netdev"] and os.path.isdir(f"/sys/class/net/{handle['netdev']}"):
            (link,) = devices.ip_json("link", "show", "dev", handle["netdev"])
            if link.get("ifalias", _alias(handle)) == _alias(handle):
                devices.ip("link", "delete", handle["netdev"])
            else:
                say.note(f"left {handle['netdev']} alone: it is not the one softrdma made")
    except LabError as problem:
        problems.append(str(problem))
    if problems:
        raise LabError(f"could not take down {handle['device']}: {'; '.join(problems)}")
    for path in (_record(handle["device"]), _record(handle["device"]) + PART):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)


def _write(handle: Handle) -> None:
    part = _record(handle["device"]) + PART
    with open(part, "w", encoding="utf-8") as file:
        json.dump(handle, file)
    os.rename(part, _record(handle["device"]))


def _free_interface() -> "tuple[str, str]":
    """An interface name and a test address that nobody here uses."""
    interfaces = devices.ip_json("address", "show")
    names = {interface["ifname"] for interface in interfaces}
    names |= {handle["netdev"] for handle in records()}
    addresses = {
        address.get("local", "") for interface in interfaces for address in interface["addr_info"]
    }
    for number in range(256):
        prefix = f"{NETWORK}.{number}."
        if f"{NETDEV}{number}" not in names and not any(
            address.startswith(prefix) for address in addresses
        ):
            return f"{NETDEV}{number}", prefix + "1"
    raise LabError(
        f"all 256 test networks of {NETWORK}.0.0/16 are in use; take devices down: softrdma down"
    )


def _address_of(netdev: str) -> Optional[str]:
    (interface,) = devices.ip_json("-4", "address", "show", "dev", netdev) or [{}]
    local = [address["local"] for address in interface.get("addr_info", [])]
    return local[0] if local else None

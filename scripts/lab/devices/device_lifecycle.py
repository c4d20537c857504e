# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""`up`, `down` and `list`: devices that exist until they are taken down.

The record of a device is written to /run/softrdma before the device is made, so
that a later call can remove it, even if the first one was killed. An interface
that softrdma made has an alias with the device's name; no other is removed.

The devices of a run are removed at its end. Until then, its worker has the lock
of the file /run/softrdma/RUN.lock.
"""

import contextlib
import fcntl
import json
import os
import re
from typing import Any, Dict, Iterator, List, Optional

from ..core import locks, progress, supervisor
from ..core.errors import LabError, Unavailable, UsageError
from . import persistent, soft_devices

RECORDS_FOLDER = "/run/softrdma"
# 198.18.0.0/15 is reserved for tests (RFC 2544).
NETWORK = "198.18"
NETDEV_PREFIX = "softrdma"
PART_SUFFIX, LOCK_SUFFIX = ".part", ".lock"
RUN_LOCK_NAME = re.compile(supervisor.RUN_NAME + r"\.lock")

DeviceRecord = Dict[str, Any]  # bring_up() has its keys


@contextlib.contextmanager
def _lock_records() -> Iterator[None]:
    """Lock the folder of the records; it is made if it is missing. Raises without root."""
    try:
        os.makedirs(RECORDS_FOLDER, mode=0o755, exist_ok=True)
        lock = os.open(os.path.join(RECORDS_FOLDER, ".lock"), os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as problem:
        raise Unavailable(
            f"cannot write {RECORDS_FOLDER}: {problem.strerror}; devices need root, try: sudo softrdma …"
        ) from problem
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _record_path(device: str) -> str:
    return os.path.join(RECORDS_FOLDER, device + ".json")


def read_records() -> List[DeviceRecord]:
    records = []
    with contextlib.suppress(FileNotFoundError):
        for name in sorted(os.listdir(RECORDS_FOLDER)):
            if name.endswith(".json"):
                with contextlib.suppress(OSError, ValueError), open(
                    os.path.join(RECORDS_FOLDER, name), encoding="utf-8"
                ) as file:
                    records.append(json.load(file))
    return records


def bring_up(
    driver: str,
    netdev: Optional[str] = None,
    name: Optional[str] = None,
    owner: Optional[str] = None,
    keep: bool = False,
) -> DeviceRecord:
    """Make a device and wait until it is ready. On failure nothing is left.

    netdev: None: make a dummy interface with a test address.
    owner: the name of the softrdma run that removes the device; None: it stays.
    keep: also make it at each boot.
    """
    if name is not None and not persistent.NAME_PATTERN.fullmatch(name):
        raise UsageError(f"--name {name}: {persistent.NAME_RULE}")
    if netdev is not None and not soft_devices.netdev_exists(netdev):
        raise UsageError(f"--netdev {netdev}: there is no such network interface; see: ip link")
    soft_devices.load_modules(driver)
    with _lock_records(), supervisor.Undo() as undo:
        name = _choose_name(driver, name)
        record: DeviceRecord = {
            "device": name,
            "driver": driver,
            "netdev": netdev,
            "made_netdev": netdev is None,
            "owner": owner,
        }
        if netdev is None:
            record["netdev"], record["address"] = _find_unused_network()
        else:
            record["address"] = _ipv4_address(netdev)
        undo.callback(_remove, record)
        _write_record(record)
        if record["made_netdev"]:
            _make_netdev(record)
        soft_devices.add_device(driver, name, record["netdev"])
        gid = soft_devices.wait_until_ready(name, record["address"])
        record["gid_index"], record["gid"] = gid
        _write_record(record)
        with supervisor.defer_signals():
            if keep:
                persistent.write_config(name, persistent.DeviceConfig(driver, netdev))
            undo.pop_all()
    return record


def _choose_name(driver: str, name: Optional[str]) -> str:
    """The name if no device has it; without a name, the first unused one: rxe0, rxe1 …"""
    used = {*soft_devices.device_names(), *(record["device"] for record in read_records())}
    if name is None:
        used |= set(persistent.configured_names())  # also those that are down
        candidates = (f"{driver}{number}" for number in range(10000))
        return next(candidate for candidate in candidates if candidate not in used)
    if name in used:
        raise LabError(
            f"an RDMA device {name} exists already; choose another --name, or: softrdma down {name}"
        )
    return name


def _make_netdev(record: DeviceRecord) -> None:
    """Make the device's dummy interface. Its alias shows that softrdma may remove it."""
    netdev = record["netdev"]
    soft_devices.run_ip_batch(
        [
            ["link", "add", netdev, "mtu", str(soft_devices.MTU), "type", "dummy"],
            ["link", "set", netdev, "alias", f'"{_netdev_alias(record)}"', "up"],
            ["address", "add", record["address"] + "/24", "dev", netdev],
        ]
    )


def bring_up_persistent(name: str) -> DeviceRecord:
    """Make the device of a configuration file, unless it is up."""
    path, config = persistent.config_path(name), persistent.read_config(name)
    if config.netdev and not soft_devices.netdev_exists(config.netdev):
        raise LabError(f"{path}: there is no network interface {config.netdev}; see: ip link")
    for record in read_records():
        if record["device"] == name and device_state(record) == "up":
            netdev = None if record["made_netdev"] else record["netdev"]
            if (record["driver"], netdev) == config:
                return record
            raise LabError(
                f"{name} is up, but differs from {path}; take it down first: softrdma down {name}"
            )
    return bring_up(config.driver, config.netdev, name)


def take_down(names: List[str]) -> List[str]:
    """Remove the named devices; without names all that no softrdma run owns. Returns their names."""
    with _lock_records():
        records = {record["device"]: record for record in read_records()}
        for name in names:
            if name not in records:
                reason = (
                    " It exists, but softrdma did not make it."
                    if soft_devices.device_exists(name)
                    else ""
                )
                raise UsageError(f"{name} is not a device of softrdma.{reason} See: softrdma list")
        chosen = (
            [records[name] for name in names]
            if names
            else [record for record in records.values() if not _has_owner(record)]
        )
        for record in chosen:
            device = record["device"]
            if _has_owner(record):
                raise LabError(
                    f"{device} belongs to a softrdma run (process {_owner_pid(record)}), which removes it when it ends"
                )
            users = soft_devices.device_users(device)
            if users:
                raise LabError(
                    f"{device} is in use by {', '.join(users)}; end them first, then: softrdma down {device}"
                )
        for record in chosen:
            _remove(record)
        _remove_abandoned_locks()
    return [record["device"] for record in chosen]


def own_devices(undo: supervisor.Undo) -> str:
    """Let this run own devices, which undo removes. Returns the owner's name."""
    owner = supervisor.run_name()
    path = _run_lock_path(owner)
    with _lock_records(), supervisor.defer_signals():
        fd = locks.open_file(path)
        undo.enter_context(locks.hold(fd))
        undo.callback(remove_devices_of_run, owner)
        locks.lock(fd, path)
    return owner


def remove_devices_of_run(owner: str) -> None:
    """Remove the devices of a softrdma run and the file of its lock, also after it was killed."""
    path = _run_lock_path(owner)
    if os.path.lexists(path):
        with _lock_records():
            for record in read_records():
                if record.get("owner") == owner:
                    _remove(record)
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)


def _remove_abandoned_locks() -> None:
    """Remove the files of runs that were killed and have no device.

    A new one is locked before others can lock the records. That of a run whose worker was killed is
    the sign for its front process that there may be devices to remove.
    """
    kept = {_run_lock_path(record["owner"]) for record in read_records() if record.get("owner")}
    for name in os.listdir(RECORDS_FOLDER):
        path = os.path.join(RECORDS_FOLDER, name)
        if RUN_LOCK_NAME.fullmatch(name) and path not in kept and not locks.is_locked(path):
            os.unlink(path)


def _run_lock_path(owner: str) -> str:
    return os.path.join(RECORDS_FOLDER, f"{owner}{LOCK_SUFFIX}")


def device_state(record: DeviceRecord) -> str:
    """What `softrdma list` prints as STATE."""
    if not soft_devices.device_exists(record["device"]):
        return "gone"
    if "gid" not in record:
        return "half-made"
    return "in a run" if _has_owner(record) else "up"


def _has_owner(record: DeviceRecord) -> bool:
    """Whether a softrdma run that still exists removes the device at its end."""
    if record.get("owner") is None:
        return False
    try:
        return locks.is_locked(_run_lock_path(record["owner"]))
    except PermissionError:  # only root can see whether the run exists
        return True


def _owner_pid(record: DeviceRecord) -> str:
    """The process id of the run, in its PID namespace."""
    return str(record["owner"].split(".")[1])


def _netdev_alias(record: DeviceRecord) -> str:
    return f"softrdma {record['device']}"


def _remove(record: DeviceRecord) -> None:
    """Remove the device, its interface and its record, as far as they exist."""
    device, netdev = record["device"], record["netdev"]
    try:
        soft_devices.remove_device(device, netdev)
        if record["made_netdev"] and soft_devices.netdev_exists(netdev):
            (link,) = soft_devices.run_ip_json("link", "show", "dev", netdev)
            if link.get("ifalias", _netdev_alias(record)) == _netdev_alias(record):
                soft_devices.run_ip("link", "delete", netdev)
            else:
                progress.note(f"the interface {netdev} stays: softrdma did not make it")
    except LabError as problem:
        raise LabError(f"cannot take down {device}: {problem}") from problem
    for path in (_record_path(device), _record_path(device) + PART_SUFFIX):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)


def _write_record(record: DeviceRecord) -> None:
    path = _record_path(record["device"])
    with open(path + PART_SUFFIX, "w", encoding="utf-8") as file:
        json.dump(record, file)
    os.rename(path + PART_SUFFIX, path)


def _find_unused_network() -> "tuple[str, str]":
    """An interface name and a test address that are not in use."""
    interfaces = soft_devices.run_ip_json("address", "show")
    used_names = {interface["ifname"] for interface in interfaces}
    used_names |= {record["netdev"] for record in read_records()}
    used_addresses = {
        address.get("local", "") for interface in interfaces for address in interface["addr_info"]
    }
    for number in range(256):
        netdev, prefix = f"{NETDEV_PREFIX}{number}", f"{NETWORK}.{number}."
        if netdev not in used_names and not any(
            address.startswith(prefix) for address in used_addresses
        ):
            return netdev, prefix + "1"
    raise LabError(
        f"all 256 test networks of {NETWORK}.0.0/16 are in use; take devices down: softrdma down"
    )


def _ipv4_address(netdev: str) -> Optional[str]:
    (interface,) = soft_devices.run_ip_json("-4", "address", "show", "dev", netdev) or [{}]
    addresses = [address["local"] for address in interface.get("addr_info", [])]
    return addresses[0] if addresses else None

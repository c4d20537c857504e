# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""`softrdma up`, `down`, `list` and `cdi`."""

import argparse
import json
import sys
from typing import Any, Dict, List

from ..core import progress
from ..core.errors import OK, LabError, UsageError
from ..devices import device_lifecycle, persistent
from ..devices.persistent import config_path


def up(options: argparse.Namespace) -> int:
    """Make a device, and print it with what to type next."""
    device = _describe(_bring_up(options))
    if options.json:
        print(json.dumps(device, indent=2))
        return OK
    name, address = device["device"], device["address"]
    progress.print_result(
        f"{name} is up: {device['driver']} on {device['netdev']}, address {address or '-'}, GID index {device['gid_index']}"
    )
    progress.print_result(
        f"try: rping -s -a {address} & sleep 1; rping -c -a {address} -C 3 -v"
        if address
        else f"try: ibv_devinfo -d {name}"
    )
    progress.print_result(f"to remove it: softrdma down {name}")
    if options.keep:
        progress.print_result(f"at each boot: {config_path(name)} makes it again")
    return OK


def _bring_up(options: argparse.Namespace) -> device_lifecycle.DeviceRecord:
    """`up NAME`: the device of a configuration file; else one by the options."""
    if options.device is not None:
        if options.driver or options.netdev or options.name or options.keep:
            raise UsageError(
                f"up {options.device}: {config_path(options.device)} has its settings; of the options only --json is valid"
            )
        return device_lifecycle.bring_up_persistent(options.device)
    if options.name in persistent.configured_names():
        raise UsageError(
            f"--name {options.name}: {config_path(options.name)} has its settings; try: softrdma up {options.name}"
        )
    if options.keep:
        persistent.require_boot_support()
    return device_lifecycle.bring_up(
        options.driver or "rxe", options.netdev, options.name, keep=options.keep
    )


def down(options: argparse.Namespace) -> int:
    persistent_names = persistent.configured_names()
    for name in device_lifecycle.take_down(options.names):
        hint = f"; the next boot makes it again, unless you remove {config_path(name)}"
        progress.print_result(f"{name} is down{hint if name in persistent_names else ''}")
    return OK


def list_devices(options: argparse.Namespace) -> int:
    """List the devices that exist, then the configured ones that are down."""
    devices: List[Dict[str, Any]] = [
        {**_describe(record), "state": device_lifecycle.device_state(record)}
        for record in device_lifecycle.read_records()
    ]
    persistent_names = persistent.configured_names()
    for name in sorted({*persistent_names} - {device["device"] for device in devices}):
        try:
            config = persistent.read_config(name)
        except LabError as problem:
            progress.error(str(problem))
            continue
        devices.append({**_describe({"device": name, **config._asdict()}), "state": "down"})
    for device in devices:
        device["persistent"] = device["device"] in persistent_names
    if options.json:
        print(json.dumps({"schema": 1, "devices": devices}, indent=2))
        return OK
    columns = ("device", "driver", "netdev", "address", "gid_index", "state")
    rows = [
        [*(device[column] for column in columns), "yes" if device["persistent"] else None]
        for device in devices
    ]
    progress.print_table(
        ["DEVICE", "DRIVER", "NETDEV", "ADDRESS", "GID", "STATE", "AT BOOT"],
        rows,
        "softrdma has made no devices; make one: sudo softrdma up",
    )
    return OK


def _describe(record: device_lifecycle.DeviceRecord) -> Dict[str, Any]:
    """The fields that users see."""
    return {
        key: record.get(key)
        for key in ("device", "driver", "netdev", "address", "gid_index", "gid")
    }


def cdi(options: argparse.Namespace) -> int:
    """Write the specification to the file of --output, or to stdout."""
    from ..devices import cdi as cdi_module

    plugin = cdi_module.find_plugin() if options.with_provider else ""
    specification = cdi_module.make_specification(with_mad=options.umad, plugin=plugin)
    if not options.output:
        sys.stdout.write(cdi_module.to_json(specification))
        return OK
    cdi_module.write_atomically(options.output, cdi_module.to_json(specification))
    names = [device["name"] for device in specification["devices"]]
    progress.print_result(f"{options.output} has {', '.join(names)}")
    progress.print_result(
        f"try: podman run --device {cdi_module.KIND}={names[0]} --ulimit memlock=-1:-1 IMAGE ibv_devices"
    )
    return OK

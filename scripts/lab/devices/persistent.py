# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Devices that are made at each boot: the files /etc/softrdma.d/NAME.conf.

At boot and at `systemctl daemon-reload`, systemd runs softrdma-generator. It
makes a unit softrdma@NAME.service for each file, which runs `softrdma up NAME`.
"""

import os
import re
from typing import Callable, Dict, List, NamedTuple, Optional

from .. import LAB_DIR
from ..core import files, progress
from ..core.errors import LabError, Unavailable, UsageError

CONFIG_FOLDER = "/etc/softrdma.d"
SUFFIX = ".conf"
MAX_FILE_BYTES = 65536
NAME_PATTERN = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,31}")
NAME_RULE = "a device name is a letter and up to 31 letters, digits, - or _"
UNIT_PATH = os.path.realpath(f"{LAB_DIR}/../../../lib/systemd/system/softrdma@.service")
# The GID is made of the address of the interface, so both have to exist first. The device ends
# with its interface.
NETDEV_DROP_IN = """# By softrdma-generator, from {path}
[Unit]
Wants=network-online.target
After=network-online.target {unit}
BindsTo={unit}
"""


class DeviceConfig(NamedTuple):
    driver: str = "rxe"
    netdev: Optional[str] = None


def _parse_driver(value: str) -> str:
    if value not in ("rxe", "siw"):
        raise ValueError("a driver is rxe or siw")
    return value


def _parse_netdev(value: str) -> str:
    if not re.fullmatch(r"[^\s/:]{1,15}", value) or value in (".", ".."):
        raise ValueError("invalid name of a network interface")
    return value


PARSERS: Dict[str, Callable[[str], str]] = {"driver": _parse_driver, "netdev": _parse_netdev}


def parse_config(text: str, path: str) -> DeviceConfig:
    """path: for error messages."""
    settings: Dict[str, str] = {}
    for number, line in enumerate(text.split("\n"), 1):
        statement = line.partition("#")[0].strip()
        if not statement:
            continue
        key, equals, value = (part.strip() for part in statement.partition("="))
        position = f"{path}:{number}: {statement}"
        if not equals:
            raise LabError(f"{position}: not of the form KEY = VALUE")
        if key not in PARSERS:
            raise LabError(f"{position}: unknown setting {key}; expected: {', '.join(PARSERS)}")
        if key in settings:
            raise LabError(f"{position}: {key} is set in an earlier line")
        try:
            settings[key] = PARSERS[key](value)
        except ValueError as problem:
            raise LabError(f"{position}: {problem}") from problem
    return DeviceConfig(**settings)


def config_path(name: str) -> str:
    return os.path.join(CONFIG_FOLDER, name + SUFFIX)


def read_config(name: str) -> DeviceConfig:
    path = config_path(name)
    if not NAME_PATTERN.fullmatch(name):
        raise UsageError(f"{name}: {NAME_RULE}, and so is the name of a file in {CONFIG_FOLDER}")
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read(MAX_FILE_BYTES + 1)
    except FileNotFoundError as problem:
        raise UsageError(
            f"there is no {path}; to make it: softrdma up --keep --name {name}"
        ) from problem
    except OSError as problem:
        raise LabError(f"cannot read {path}: {problem.strerror}") from problem
    except UnicodeDecodeError as problem:
        raise LabError(f"{path}: not a text in UTF-8") from problem
    if len(text) > MAX_FILE_BYTES:
        raise LabError(f"{path}: larger than {MAX_FILE_BYTES} bytes")
    return parse_config(text, path)


def configured_names() -> List[str]:
    """The names of all files, also of invalid ones."""
    try:
        files = sorted(os.listdir(CONFIG_FOLDER))
    except OSError:
        return []
    return [file.removesuffix(SUFFIX) for file in files if file.endswith(SUFFIX)]


def require_boot_support() -> None:
    """Raise if a file would have no effect on this system."""
    if not os.path.isdir("/run/systemd/system"):
        raise Unavailable("--keep: this system was not booted by systemd, which makes the devices")
    if not os.path.exists(UNIT_PATH):
        raise Unavailable(
            "--keep: this softrdma is not installed, so it does not run at boot; install the package softrdma"
        )


def write_config(name: str, config: DeviceConfig) -> str:
    """Write a new file, whole or not at all. Returns its path."""
    path = config_path(name)
    text = f"driver = {config.driver}\n" + (f"netdev = {config.netdev}\n" if config.netdev else "")
    try:
        os.makedirs(CONFIG_FOLDER, mode=0o755, exist_ok=True)
        files.create_file(path, text)
    except OSError as problem:
        raise LabError(f"cannot write {path}: {problem.strerror}") from problem
    return path


def generate_units(folder: str) -> None:
    """Write units for systemd into its folder; see systemd.generator(7)."""
    wants = os.path.join(folder, "multi-user.target.wants")
    for name in configured_names():
        unit = f"softrdma@{name}.service"
        try:
            netdev = read_config(name).netdev
        except LabError as problem:
            progress.error(str(problem))
            netdev = None  # the unit fails with the same message
        if not NAME_PATTERN.fullmatch(name):
            continue
        os.makedirs(wants, exist_ok=True)
        os.symlink(UNIT_PATH, os.path.join(wants, unit))
        if netdev and netdev != "lo":  # systemd has no device unit for lo
            drop_in = os.path.join(folder, unit + ".d", "netdev.conf")
            os.mkdir(os.path.dirname(drop_in))
            device_unit = f"sys-subsystem-net-devices-{escape_unit_name(netdev)}.device"
            with open(drop_in, "w", encoding="utf-8") as file:
                file.write(NETDEV_DROP_IN.format(path=config_path(name), unit=device_unit))


def escape_unit_name(text: str) -> str:
    """Escape a part of a unit's name as systemd-escape does."""
    special = re.compile(rb"[^A-Za-z0-9:_.]")
    return special.sub(lambda match: b"\\x%02x" % ord(match[0]), text.encode()).decode()

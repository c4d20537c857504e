# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Devices that come again at each boot: what /etc/softrdma.d says.

NAME.conf there is the wish for a device NAME. At boot systemd asks generate(),
by softrdma-generator, which units that makes: one softrdma@NAME.service each,
which runs `softrdma up NAME`. So there is no second place where a device is
switched on, and nothing else to undo when its file goes.
"""

import os
import re
from typing import Callable, Dict, List, NamedTuple, Optional

from . import say
from .errors import CannotHere, LabError, Misuse

FOLDER = "/etc/softrdma.d"
SUFFIX = ".conf"
MOST_BYTES = 65536
NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,31}")
UNIT = os.path.realpath(f"{__file__}/../../../../lib/systemd/system/softrdma@.service")
# The interface first, with its address: the GID is made of that. Without the
# interface, no device: it has gone with it.
ON_INTERFACE = """# By softrdma-generator, from {path}
[Unit]
Wants=network-online.target
After=network-online.target {unit}
BindsTo={unit}
"""


class Wish(NamedTuple):
    driver: str = "rxe"
    netdev: Optional[str] = None


def _driver(value: str) -> str:
    if value not in ("rxe", "siw"):
        raise ValueError("a driver is rxe or siw")
    return value


def _netdev(value: str) -> str:
    if not re.fullmatch(r"[^\s/:]{1,15}", value) or value in (".", ".."):
        raise ValueError("no network interface can have that name")
    return value


SETTINGS: Dict[str, Callable[[str], str]] = {"driver": _driver, "netdev": _netdev}


def parse(text: str, path: str) -> Wish:
    found: Dict[str, str] = {}
    for number, line in enumerate(text.split("\n"), 1):
        words = line.partition("#")[0].strip()
        if not words:
            continue
        key, equals, value = (part.strip() for part in words.partition("="))
        where = f"{path}:{number}: {words}"
        if not equals:
            raise LabError(f"{where}: not of the form KEY = VALUE")
        if key not in SETTINGS:
            raise LabError(f"{where}: there is no setting {key}; there are: {', '.join(SETTINGS)}")
        if key in found:
            raise LabError(f"{where}: {key} is set already, in a line above")
        try:
            found[key] = SETTINGS[key](value)
        except ValueError as problem:
            raise LabError(f"{where}: {problem}") from problem
    return Wish(**found)


def path_of(name: str) -> str:
    return os.path.join(FOLDER, name + SUFFIX)


def read(name: str) -> Wish:
    path = path_of(name)
    if not NAME.fullmatch(name):
        raise Misuse(
            f"{name}: a device name is a letter, then up to 31 letters, digits, - or _, and so is that of a file in {FOLDER}"
        )
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read(MOST_BYTES + 1)
    except FileNotFoundError as problem:
        raise Misuse(
            f"there is no {path}; to have it made: softrdma up --keep --name {name}"
        ) from problem
    except OSError as problem:
        raise LabError(f"cannot read {path}: {problem.strerror}") from problem
    except UnicodeDecodeError as problem:
        raise LabError(f"{path}: this is no text in UTF-8") from problem
    if len(text) > MOST_BYTES:
        raise LabError(f"{path}: larger than {MOST_BYTES} bytes, so not what it should be")
    return parse(text, path)


def names() -> List[str]:
    """Of the files that there are, right or wrong."""
    try:
        files = sorted(os.listdir(FOLDER))
    except OSError:
        return []
    return [file.removesuffix(SUFFIX) for file in files if file.endswith(SUFFIX)]


def check_boot() -> None:
    """Whether a file would have any effect here."""
    if not os.path.isdir("/run/systemd/system"):
        raise CannotHere("--keep: this system was not booted by systemd, which makes the devices")
    if not os.path.exists(UNIT):
        raise CannotHere(
            "--keep: this softrdma is not installed, so nothing would run it at boot; install the package softrdma"
        )


def write(name: str, wish: Wish) -> str:
    """The path of the new file; it is there whole, or not at all."""
    path = path_of(name)
    text = f"driver = {wish.driver}\n" + (f"netdev = {wish.netdev}\n" if wish.netdev else "")
    part = f"{path}.{os.getpid()}.part"
    try:
        os.makedirs(FOLDER, mode=0o755, exist_ok=True)
        try:
            with open(part, "w", encoding="utf-8") as file:
                file.write(text)
                os.fsync(file.fileno())
            os.link(part, path)  # unlike a rename, not over one that somebody made meanwhile
        finally:
            if os.path.exists(part):
                os.unlink(part)
    except OSError as problem:
        raise LabError(f"cannot write {path}: {problem.strerror}") from problem
    return path


def generate(into: str) -> None:
    """What systemd is to start, in its way: links and additions in a folder."""
    wants = os.path.join(into, "multi-user.target.wants")
    for name in names():
        unit = f"softrdma@{name}.service"
        try:
            netdev = read(name).netdev
        except LabError as problem:
            say.error(str(problem))
            netdev = None  # the unit will fail, and say the same
        if not NAME.fullmatch(name):
            continue
        os.makedirs(wants, exist_ok=True)
        os.symlink(UNIT, os.path.join(wants, unit))
        if netdev and netdev != "lo":  # udev tells systemd of all but that
            addition = os.path.join(into, unit + ".d", "netdev.conf")
            os.mkdir(os.path.dirname(addition))
            device = f"sys-subsystem-net-devices-{escaped(netdev)}.device"
            with open(addition, "w", encoding="utf-8") as file:
                file.write(ON_INTERFACE.format(path=path_of(name), unit=device))


def escaped(word: str) -> str:
    """A word in the name of a unit, as systemd-escape has it."""
    odd = re.compile(rb"[^A-Za-z0-9:_.]")
    return odd.sub(lambda match: b"\\x%02x" % ord(match[0]), word.encode()).decode()

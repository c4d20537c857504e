# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""What `run` was asked for, and what a guest of either kind is told of it."""

import os
from typing import Any, Dict, List, NamedTuple, Optional

from .errors import Misuse

MOST_HOSTS = 32  # each is a kernel
PORT = 4799
WAIT_SECONDS = 60


class Wire(NamedTuple):
    """What is wrong with it: packets lost in a hundred, milliseconds that each takes."""

    loss: float = 0
    delay: float = 0


class Ask(NamedTuple):
    argv: List[str]
    drivers: List[str]
    hosts: int
    wire: Wire
    arch: str
    kernel: Optional[str]
    suite: Optional[str]
    writable: List[str]
    memory: int
    launcher: str
    number: Optional[int] = None  # with peers: the host that this run is
    peers: "tuple[str, ...]" = ()  # where the others are, in the order of their numbers
    port: int = 0
    wait: float = 0  # seconds that they may take to be there


class Place(NamedTuple):
    """A guest's among hosts that have a kernel each."""

    number: int
    numbers: List[int]
    elsewhere: List[int]  # those that are no guests of this run
    mtu: int


def apart(ask: Ask) -> str:
    """Why the hosts need a kernel each; empty if they do not."""
    if ask.peers:
        return "a host among --peer is a kernel of its own"
    return "more than two hosts have a kernel each" if ask.hosts > 2 else ""


def told(ask: Ask, place: Optional[Place] = None) -> Dict[str, Any]:
    """What a guest is told: its place, or, without one, how many hosts it has."""
    return {"drivers": ask.drivers, "hosts": ask.hosts, "wire": ask.wire, "place": place}


def writable_folders(places: List[str]) -> List[str]:
    """The folders of --write, as absolute paths."""
    paths = []
    for place in places:
        path = os.path.abspath(place)
        if not os.path.isdir(path):
            raise Misuse(f"--write {place}: there is no such folder")
        if path == "/" or "\n" in path:
            raise Misuse(f"--write {place}: name a folder below /")
        paths.append(path)
    return paths


def peer_address(place: str, default_port: int) -> "tuple[str, int]":
    """ADDRESS, ADDRESS:PORT, [ADDRESS]:PORT; more than one colon is an IPv6 address."""
    host, colon, port = place.rpartition(":")
    if not colon or (":" in host and not host.startswith("[")) or place.endswith("]"):
        host, port = place, str(default_port)
    host = host.strip("[]")
    if not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise Misuse(f"--peer {place}: give an address or a name, and perhaps a port: host2:4799")
    return host, int(port)

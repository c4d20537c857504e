# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""A change of the wire while the command runs (`softrdma wire`), and the wire as it is after changes."""

import json
from typing import Dict, List, NamedTuple, Optional, Tuple

from .run_request import Wire

MAX_WIRE = Wire(100, 10_000, 100, 100, 100, 100_000)  # the maxima of its members
MAX_SECONDS = 86400
ALL_LOST = MAX_WIRE.loss_percent


class WireChange(NamedTuple):
    """sender, receiver: a host; None: all. values: new ones, by the names of Wire's members."""

    sender: Optional[int]
    receiver: Optional[int]
    values: Dict[str, float]
    is_down: bool  # nothing passes in both directions
    seconds: Optional[float]  # until it ends; None: it stays

    def applies_to(self, sender: int, receiver: int) -> bool:
        matches = self.sender in (None, sender) and self.receiver in (None, receiver)
        is_reverse = self.sender in (None, receiver) and self.receiver in (None, sender)
        return matches or (self.is_down and is_reverse)

    def apply(self, wire: Wire) -> Wire:
        if self.is_down:
            wire = wire._replace(loss_percent=ALL_LOST)
        return wire._replace(**self.values)


def encode(change: WireChange) -> bytes:
    return json.dumps(change._asdict()).encode()


def decode(data: bytes) -> WireChange:
    """Raises ValueError, KeyError or TypeError if the data, which a command may have made, are invalid."""
    fields = json.loads(data)
    change = WireChange(**fields)
    for number in (change.sender, change.receiver):
        if number is not None and type(number) is not int:
            raise ValueError("the number of a host")
    if type(change.is_down) is not bool:
        raise ValueError("is_down")
    if not isinstance(change.values, dict):
        raise ValueError("the values")
    limits = MAX_WIRE._asdict()
    for name, value in change.values.items():
        _check_number(name, value, limits[name])
    if change.seconds is not None:
        _check_number("seconds", change.seconds, MAX_SECONDS)
    return change


def _check_number(name: str, value: object, limit: float) -> None:
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 <= value <= limit:
        raise ValueError(name)


class WireTable:
    """The wire from each host to each other."""

    def __init__(self, wire: Wire):
        self.initial = wire
        self.lasting: Dict[Tuple[int, int], Wire] = {}  # after changes that stay
        self.temporary: List[WireChange] = []
        self.current: Dict[Tuple[int, int], Wire] = {}  # a cache

    def wire(self, sender: int, receiver: int) -> Wire:
        direction = (sender, receiver)
        wire = self.current.get(direction)
        if wire is None:
            wire = self.lasting.get(direction, self.initial)
            for change in self.temporary:
                if change.applies_to(sender, receiver):
                    wire = change.apply(wire)
            self.current[direction] = wire
        return wire

    def change(self, change: WireChange, hosts: List[int]) -> None:
        """hosts: all numbers."""
        if change.seconds is not None:
            self.temporary.append(change)
        else:
            for direction in ((sender, receiver) for sender in hosts for receiver in hosts):
                if change.applies_to(*direction):
                    self.lasting[direction] = change.apply(
                        self.lasting.get(direction, self.initial)
                    )
        self.current.clear()

    def end(self, change: WireChange) -> None:
        self.temporary = [other for other in self.temporary if other is not change]
        self.current.clear()

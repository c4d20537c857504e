# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""A change of the wire while the command runs (`softrdma wire`), and the wire as it is after changes.

The last change counts, of each property in each direction: one that stays, and one
that ends after a time. When the latter ends, the property is what it would be
without it.
"""

import json
from typing import Dict, List, NamedTuple, Optional, Tuple

from .errors import LabError
from .run_request import Wire

MAX_WIRE = Wire(100, 10_000, 100, 100, 100, 100_000)  # the maxima of its members
MIN_RATE_MBIT = 0.01  # a frame of 9000 bytes takes seven seconds; 0 is no limit
MAX_SECONDS = 86400
MAX_TEMPORARY_CHANGES = 1000
IS_DOWN = "is_down"  # beside the names of Wire's members
ALL_LOST = MAX_WIRE.loss_percent


class WireChange(NamedTuple):
    """sender, receiver: a host; None: all. values: new ones, by the names of Wire's members."""

    sender: Optional[int]
    receiver: Optional[int]
    values: Dict[str, float]
    is_down: Optional[bool]  # whether nothing passes in both directions; None: as before
    seconds: Optional[float]  # until it ends; None: it stays

    @property
    def properties(self) -> Dict[str, float]:
        """What it changes, with the new values."""
        return self.values if self.is_down is None else {**self.values, IS_DOWN: self.is_down}

    def applies_to(self, sender: int, receiver: int) -> bool:
        matches = self.sender in (None, sender) and self.receiver in (None, receiver)
        is_reverse = self.sender in (None, receiver) and self.receiver in (None, sender)
        return matches or (self.is_down is not None and is_reverse)


def encode(change: WireChange) -> bytes:
    return json.dumps(change._asdict()).encode()


def decode(data: bytes) -> WireChange:
    """Raises ValueError, KeyError or TypeError if the data, which a command may have made, are invalid."""
    fields = json.loads(data)
    change = WireChange(**fields)
    for number in (change.sender, change.receiver):
        if number is not None and type(number) is not int:
            raise ValueError("the number of a host")
    if change.is_down is not None and type(change.is_down) is not bool:
        raise ValueError("is_down")
    if not isinstance(change.values, dict) or (change.values and change.is_down is not None):
        raise ValueError("the values")
    limits = MAX_WIRE._asdict()
    for name, value in change.values.items():
        _check_number(name, value, limits[name])
    if not is_rate(change.values.get("rate_mbit", 0)):
        raise ValueError("rate_mbit")
    if change.seconds is not None:
        _check_number("seconds", change.seconds, MAX_SECONDS)
    return change


def is_rate(rate_mbit: float) -> bool:
    """Whether a link can have it."""
    return rate_mbit == 0 or MIN_RATE_MBIT <= rate_mbit <= MAX_WIRE.rate_mbit


def _check_number(name: str, value: object, limit: float) -> None:
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 <= value <= limit:
        raise ValueError(name)


class WireTable:
    """The wire from each host to each other."""

    def __init__(self, wire: Wire):
        self.initial = wire
        self.num_changes = 0
        # The last change that stays of each property in a direction: the number of the change, and the value.
        self.lasting: Dict[Tuple[int, int], Dict[str, Tuple[int, float]]] = {}
        self.temporary: Dict[int, WireChange] = {}  # by the number of the change
        self.current: Dict[Tuple[int, int], Wire] = {}  # a cache

    def wire(self, sender: int, receiver: int) -> Wire:
        """One that is down loses all."""
        direction = (sender, receiver)
        wire = self.current.get(direction)
        if wire is None:
            wire = self.current[direction] = self._find_wire(sender, receiver)
        return wire

    def _find_wire(self, sender: int, receiver: int) -> Wire:
        latest = dict(self.lasting.get((sender, receiver), {}))
        for number, change in self.temporary.items():
            if change.applies_to(sender, receiver):
                for name, value in change.properties.items():
                    latest[name] = max(latest.get(name, (0, 0)), (number, value))
        values = {name: value for name, (_, value) in latest.items()}
        if values.pop(IS_DOWN, False):
            values["loss_percent"] = ALL_LOST
        return self.initial._replace(**values)

    def change(self, change: WireChange, hosts: List[int]) -> int:
        """hosts: all numbers. Returns the number of the change, for end()."""
        if change.seconds is not None and len(self.temporary) >= MAX_TEMPORARY_CHANGES:
            raise LabError(
                f"{MAX_TEMPORARY_CHANGES} changes with --for have not ended; wait for their end, or omit --for"
            )
        self.num_changes += 1
        self.current.clear()
        if change.seconds is not None:
            self.temporary[self.num_changes] = change
            return self.num_changes
        latest = {name: (self.num_changes, value) for name, value in change.properties.items()}
        for direction in ((sender, receiver) for sender in hosts for receiver in hosts):
            if change.applies_to(*direction):
                self.lasting.setdefault(direction, {}).update(latest)
        return self.num_changes

    def end(self, number: int) -> None:
        """Of a change with a time."""
        del self.temporary[number]
        self.current.clear()

# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""`softrdma wire`: checks the options."""

import argparse
from typing import Optional

from ..core.errors import OK, UsageError
from ..core.run_request import Wire
from ..core.wire_change import MAX_SECONDS, WireChange
from . import wire_options

EXAMPLE = "softrdma wire --host 1 --loss 100 --for 3s"
MS_PER_SECOND = 1000


def run(options: argparse.Namespace) -> int:
    from ..run import wire_client

    wire_client.change_wire(options.pid, make_change(options))
    return OK


def make_change(options: argparse.Namespace) -> WireChange:
    wire = wire_options.parse_wire(options)
    values = {
        member: number
        for member, number, amount in zip(Wire._fields, wire, wire_options.AMOUNTS)
        if getattr(options, amount.name) is not None
    }
    is_down = True if options.down else False if options.up else None
    if not values and is_down is None:
        raise UsageError(f"wire: nothing is to be changed; try: {EXAMPLE}")
    if options.down and options.up:
        raise UsageError("wire --down --up: they exclude each other")
    if values and is_down is not None:
        raise UsageError(
            f"wire --{'down' if is_down else 'up'}: it is for both directions of a link, and other options "
            "are for one; change these by a second command"
        )
    if options.down and options.host is None:
        raise UsageError("wire --down: it is for the link of a host; add: --host N")
    if options.receiver is not None and options.rate is not None:
        raise UsageError("wire --rate: it is that of a host to all others; omit --to")
    if options.receiver is not None and options.receiver == options.host:
        raise UsageError(f"wire --to {options.receiver}: a host has no wire to itself")
    seconds = None if options.duration is None else _parse_seconds(options.duration)
    return WireChange(options.host, options.receiver, values, is_down, seconds)


def _parse_seconds(text: str) -> float:
    seconds: Optional[float] = None
    try:
        if text.endswith("ms"):
            seconds = float(text[:-2]) / MS_PER_SECOND
        else:
            seconds = float(text.removesuffix("s"))
    except ValueError:
        pass
    if seconds is None or not 0 < seconds <= MAX_SECONDS:
        raise UsageError(
            f"wire --for {text}: expected a time of up to {MAX_SECONDS} seconds, such as 3s or 200ms"
        )
    return seconds

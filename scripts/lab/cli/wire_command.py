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
    if not values and not options.down:
        raise UsageError(f"wire: nothing is to be changed; try: {EXAMPLE}")
    if options.down and (options.host is None or values):
        raise UsageError("wire --down: it is for the link of a host; use: --host N --down")
    if options.receiver is not None and options.rate is not None:
        raise UsageError("wire --rate: it is that of a host to all others; omit --to")
    if options.receiver is not None and options.receiver == options.host:
        raise UsageError(f"wire --to {options.receiver}: a host has no wire to itself")
    seconds = None if options.duration is None else _parse_seconds(options.duration)
    return WireChange(options.host, options.receiver, values, options.down, seconds)


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

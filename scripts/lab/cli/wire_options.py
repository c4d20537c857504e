# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""The options of the wire between hosts."""

import argparse
from typing import NamedTuple

from ..core.errors import UsageError
from ..core.run_request import RunRequest, Wire
from ..core.wire_change import MAX_WIRE, MIN_RATE_MBIT

EXAMPLE_NUMBER = 5
MAX_SEED = (1 << 64) - 1
MAX_SEED_DIGITS = len(str(MAX_SEED))


class _Amount(NamedTuple):
    """An option whose value is a number, perhaps with a unit."""

    name: str
    metavar: str
    unit: str
    maximum: float
    unit_name: str
    help: str
    minimum: float = 0  # of what is not 0

    def parse(self, text: str) -> float:
        try:
            number = float(text.lower().removesuffix(self.unit))
        except ValueError:
            number = -1
        if number != 0 and not self.minimum <= number <= self.maximum:
            least = f"0, or {self.minimum:g}" if self.minimum else "0"
            raise UsageError(
                f"--{self.name} {text}: expected {least} to {self.maximum:g} {self.unit_name}, such as "
                f"{EXAMPLE_NUMBER}{self.unit}"
            )
        return number


def _percentage(name: str, maximum: float, effect: str) -> _Amount:
    help_text = f"the share of packets that the wire {effect}: 1%%"
    return _Amount(name, "PERCENT", "%", maximum, "percent", help_text)


LOSS = _percentage("loss", MAX_WIRE.loss_percent, "drops")
DELAY = _Amount(
    "delay",
    "MS",
    "ms",
    MAX_WIRE.delay_ms,
    "milliseconds",
    "the delay of the wire in milliseconds: 5ms",
)
DUPLICATE = _percentage("duplicate", MAX_WIRE.duplicate_percent, "sends twice")
REORDER = _percentage(
    "reorder", MAX_WIRE.reorder_percent, "holds back until a later one has passed"
)
CORRUPT = _percentage("corrupt", MAX_WIRE.corrupt_percent, "changes a bit of")
RATE = _Amount(
    "rate",
    "MBIT",
    "mbit",
    MAX_WIRE.rate_mbit,
    "megabits per second",
    "what each host can send in megabits per second: 100mbit",
    MIN_RATE_MBIT,
)
AMOUNTS = (LOSS, DELAY, DUPLICATE, REORDER, CORRUPT, RATE)  # in the order of Wire's members


def add_amounts(parser: argparse.ArgumentParser) -> None:
    for amount in AMOUNTS:
        parser.add_argument(f"--{amount.name}", metavar=amount.metavar, help=amount.help)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Those of run."""
    add_amounts(parser)
    parser.add_argument(
        "--wire",
        action="store_true",
        help="let `softrdma wire` change the wire while the command runs",
    )
    parser.add_argument(
        "--seed",
        metavar="N",
        help="let the same packets be dropped, changed and so on as in another run with this number",
    )
    parser.add_argument(
        "--pcap", metavar="FILE", help="write what each host sends and receives to FILE, as pcapng"
    )


def parse_wire(options: argparse.Namespace) -> Wire:
    texts = [getattr(options, amount.name) for amount in AMOUNTS]
    return Wire(
        *(0 if text is None else amount.parse(text) for amount, text in zip(AMOUNTS, texts))
    )


def parse_seed(text: str) -> int:
    # Python refuses to convert thousands of digits.
    is_number = text.isdecimal() and len(text) <= MAX_SEED_DIGITS
    seed = int(text) if is_number else -1
    if not 0 <= seed <= MAX_SEED:
        raise UsageError(f"--seed {text}: expected a whole number, 0 to {MAX_SEED}")
    return seed


def check_use(request: RunRequest) -> None:
    """Raise if there is no wire for the options, or nothing that --seed decides."""
    amounts = zip(AMOUNTS, request.wire)
    names = [f"--{amount.name}" for amount, number in amounts if number]
    names += ["--seed"] if request.seed is not None else []
    names += ["--wire"] if request.changes_wire else []
    names += ["--pcap"] if request.pcap is not None else []
    if names and request.hosts == 1 and not request.peers:
        verb = "needs" if len(names) == 1 else "need"
        raise UsageError(f"{' and '.join(names)} {verb} two hosts; add: --hosts 2")
    if request.seed is not None and not (request.wire.is_random or request.changes_wire):
        raise UsageError(
            f"--seed {request.seed}: nothing is random; add one of --loss, --duplicate, --reorder, --corrupt, --wire"
        )

#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""The time that the tag of `run --peer` takes for a frame of 1400 bytes, against other tags and none.

peer_tags.py [--rounds N]: prints microseconds, the least of N rounds, which alternate.
"""

import argparse
import hashlib
import hmac
import os
import sys
import timeit
from typing import Callable, Dict

TOP_FOLDER = os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..")
sys.path.insert(0, os.path.join(TOP_FOLDER, "scripts"))
sys.dont_write_bytecode = True

from lab.run import peer_protocol  # noqa: E402

CALLS_PER_ROUND = 20_000


def make_calls() -> Dict[str, Callable[[], object]]:
    key = os.urandom(32)
    authenticator = peer_protocol.Authenticator(key)
    body = os.urandom(1400)
    fields = (1, 2, bytes(8), bytes(8), 7, peer_protocol.FRAME)
    sealed = authenticator.seal_datagram(*fields, body)
    data = sealed[: -peer_protocol.TAG_BYTES]
    blake2b = hashlib.blake2b(digest_size=16, key=key)
    hmac_sha256 = hmac.new(key, digestmod="sha256")

    def copy_and_hash(keyed_hash: "hmac.HMAC | hashlib._Hash") -> bytes:
        copied = keyed_hash.copy()
        copied.update(data)
        return copied.digest()

    return {
        "no tag": lambda: data,
        "BLAKE2b": lambda: copy_and_hash(blake2b),
        "HMAC-SHA256": lambda: copy_and_hash(hmac_sha256),
        "seal_datagram": lambda: authenticator.seal_datagram(*fields, body),
        "open_datagram": lambda: authenticator.open_datagram(sealed),
        "header and body only": lambda: peer_protocol.HEADER.pack(peer_protocol.MAGIC, *fields)
        + body,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=9, metavar="N")
    rounds = parser.parse_args().rounds
    calls = make_calls()
    times = {
        name: min(times)
        for name, times in zip(
            calls,
            zip(
                *(
                    [timeit.timeit(call, number=CALLS_PER_ROUND) for call in calls.values()]
                    for _ in range(rounds)
                )
            ),
        )
    }
    for name, seconds in times.items():
        print(f"{name:22}{seconds / CALLS_PER_ROUND * 1e6:6.2f} us")


main()

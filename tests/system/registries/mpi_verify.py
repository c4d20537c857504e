#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Sends messages of 0 bytes to 4 MiB between all processes of MPI, by mpi4py, and compares every byte."""

from typing import Any

import numpy
from mpi4py import MPI

SIZES = [0, 1, 8, 1000, 8192, 65536, 1 << 20, 4 << 20]


def content(rank: int, size: int) -> Any:
    return numpy.random.default_rng(rank * 31 + size).integers(0, 256, size, dtype=numpy.uint8)


def main() -> None:
    world = MPI.COMM_WORLD
    num_bytes = 0
    for size in SIZES:
        result = numpy.empty(size * world.size, dtype=numpy.uint8)
        world.Allgather(content(world.rank, size), result)
        expected = numpy.concatenate([content(rank, size) for rank in range(world.size)])
        assert (result == expected).all(), f"Allgather of {size} bytes"
        num_bytes += len(result)
        if size:
            target = numpy.zeros(size, dtype=numpy.uint8)
            window = MPI.Win.Create(target, comm=world)
            window.Fence()
            window.Put(content(world.rank, size), (world.rank + 1) % world.size)
            window.Fence()
            window.Free()
            source = (world.rank - 1) % world.size
            assert (target == content(source, size)).all(), f"Put of {size} bytes"
            num_bytes += size
    print(f"rank {world.rank} of {world.size}: {num_bytes} bytes as sent", flush=True)


main()

#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Stores blocks in an InfiniStore server by RDMA, reads them, and compares every byte.

infinistore_client.py SERVER
"""

import asyncio
import hashlib
import os
import sys

import infinistore
import numpy

PORT = 9234
NUM_BLOCKS, BLOCK_SIZE = 64, 64 << 10


async def main() -> None:
    config = infinistore.ClientConfig(
        host_addr=sys.argv[1],
        service_port=PORT,
        connection_type=infinistore.TYPE_RDMA,
        link_type=infinistore.LINK_ETHERNET,
        ib_port=1,
        dev_name=os.environ["SOFTRDMA_DEVICE"],
        log_level="info",
    )
    connection = infinistore.InfinityConnection(config)
    await connection.connect_async()
    data = numpy.frombuffer(os.urandom(NUM_BLOCKS * BLOCK_SIZE), dtype=numpy.uint8)
    result = numpy.zeros_like(data)
    for buffer in (data, result):
        connection.register_mr(buffer.ctypes.data, len(buffer))
    blocks = [(f"block {number}", number * BLOCK_SIZE) for number in range(NUM_BLOCKS)]
    await connection.rdma_write_cache_async(blocks, BLOCK_SIZE, data.ctypes.data)
    await connection.rdma_read_cache_async(blocks, BLOCK_SIZE, result.ctypes.data)
    connection.close()
    if hashlib.sha256(result).digest() != hashlib.sha256(data).digest():
        sys.exit("the blocks are not those that were stored")
    print(f"read from the server: {len(result)} bytes, SHA-256 as sent")


asyncio.run(main())

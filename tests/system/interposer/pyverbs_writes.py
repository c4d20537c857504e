#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Posts RDMA Writes with pyverbs from one QP to another of this process, and prints what it posted.

pyverbs_writes.py DEVICE GID_INDEX COUNT SIZE
"""

import sys
from typing import Any

import pyverbs.enums as e
from pyverbs.addr import AHAttr, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE, SendWR


def connected_qps(context: Context, pd: PD, cq: CQ, gid_index: int) -> Any:
    init = QPInitAttr(qp_type=e.IBV_QPT_RC, scq=cq, rcq=cq, cap=QPCap(max_send_wr=4))
    first, second = (QP(pd, init) for _ in range(2))
    for qp, peer in ((first, second), (second, first)):
        route = GlobalRoute(dgid=context.query_gid(1, gid_index), sgid_index=gid_index)
        attr = QPAttr(port_num=1, path_mtu=e.IBV_MTU_1024)
        attr.dest_qp_num = peer.qp_num
        attr.ah_attr = AHAttr(gr=route, is_global=1, port_num=1)
        attr.qp_access_flags = e.IBV_ACCESS_REMOTE_WRITE
        qp.to_rts(attr)
    return first, second


def main() -> None:
    device, gid_index, count, size = sys.argv[1], *(int(word) for word in sys.argv[2:])
    context = Context(name=device)
    pd = PD(context)
    cq = CQ(context, 4)
    access = e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE
    source, target = (MR(pd, size, access) for _ in range(2))
    qp, _peer = connected_qps(context, pd, cq, gid_index)
    source.write("x" * size, size)
    num_completed = 0
    for wr_id in range(count):
        request = SendWR(
            wr_id=wr_id,
            num_sge=1,
            sg=[SGE(source.buf, size, source.lkey)],
            opcode=e.IBV_WR_RDMA_WRITE,
        )
        request.set_wr_rdma(target.rkey, target.buf)
        qp.post_send(request)
        num_found = 0
        while num_found == 0:
            num_found, completions = cq.poll()
        assert [(c.wr_id, c.status) for c in completions] == [(wr_id, e.IBV_WC_SUCCESS)]
        num_completed += num_found
    assert target.read(size, 0) == b"x" * size
    print(f"{count} posted, {num_completed} completed")


if __name__ == "__main__":
    main()

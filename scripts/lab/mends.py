# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Faults of the kernel that are mended where softrdma builds it, or its drivers, from source.

Without that, tests in the lab would fail for what no program under test can
help. Each mend is one statement more, before a place that the source has
exactly once; a source without it is left as it is.
"""

import contextlib
import hashlib
import os
from typing import NamedTuple

from . import say
from .packages import natural


class Mend(NamedTuple):
    file: str
    before: str
    statement: str


SIW = "drivers/infiniband/sw/siw"
MENDS = (
    # siw_accept answers who asked for the connection first, and only then has the socket's data
    # handed to the queue pair. What that one sends in between is not looked at until more comes:
    # a first message can wait for ever. The queue pair is ready before the answer is sent, but for
    # the one case in which another frame comes first, by which the driver itself goes on.
    Mend(
        f"{SIW}/siw_cm.c",
        "\trv = siw_send_mpareqrep(cep, params->private_data,\n\t\t\t\tparams->private_data_len);\n",
        "\tif (!wait_for_peer_rts)\n\t\tsiw_qp_socket_assoc(cep, qp);\n",
    ),
    # Whether the peer has hung up is asked after each segment, also after the last one. So a message
    # that the peer has had, and hung up upon, may be reported as failed.
    Mend(
        f"{SIW}/siw_qp_tx.c",
        "\t\tif (unlikely(c_tx->tx_suspend)) {\n",
        "\t\tif (c_tx->pkt.ctrl.ddp_rdmap_ctrl & DDP_FLAG_LAST)\n\t\t\tgoto tx_done;\n",
    ),
)
KEY = hashlib.sha256(repr(MENDS).encode()).hexdigest()[:8]

USER_MODE_UNTIL = "6.12"
USER_MODE = (
    # It knows of 2696 bytes of registers; a processor with AMX has more, and the machine's kernel
    # takes all of them or none: no program could be run there. Those beyond, no program there has
    # got leave to use.
    Mend(
        "arch/x86/um/os-Linux/registers.c",
        "\t\tif (ptrace(PTRACE_SETREGSET, pid, NT_X86_XSTATE, &iov) < 0)\n",
        """\t\t{
\t\t\tstatic char all[16384];
\t\t\tstatic unsigned long size;
\t\t\tstruct iovec whole = { all, sizeof(all) };

\t\t\tif (!size && ptrace(PTRACE_GETREGSET, pid, NT_X86_XSTATE, &whole) == 0)
\t\t\t\tsize = whole.iov_len;
\t\t\tif (size > iov.iov_len) {
\t\t\t\t__builtin_memcpy(all, fp_regs, iov.iov_len);
\t\t\t\tiov.iov_base = all;
\t\t\t\tiov.iov_len = size;
\t\t\t}
\t\t}
""",
    ),
)


def is_older(series: str) -> bool:
    """Whether user mode is as it was in 6.12."""
    return natural(series) <= natural(USER_MODE_UNTIL)


def key(series: str) -> str:
    """Of all that a user-mode kernel has of this."""
    if not is_older(series):
        return KEY
    return KEY + hashlib.sha256(repr(USER_MODE).encode()).hexdigest()[:8]


def apply(tree: str, folder: str = "") -> None:
    """Mend the kernel's source in tree; or in tree that folder of it alone, of a driver."""
    for mend in MENDS:
        if not _mended(tree, folder, mend):
            say.note(f"{mend.file} is not as it was known; it is built as it is")
    if not folder:
        for mend in USER_MODE:
            _mended(tree, folder, mend)


def _mended(tree: str, folder: str, mend: Mend) -> bool:
    path = os.path.join(tree, os.path.relpath(mend.file, folder) if folder else mend.file)
    text = ""
    with contextlib.suppress(FileNotFoundError), open(path, encoding="utf-8") as file:
        text = file.read()
    if text.count(mend.before) != 1:
        return False
    with open(path, "w", encoding="utf-8") as file:
        file.write(text.replace(mend.before, mend.statement + mend.before))
    return True

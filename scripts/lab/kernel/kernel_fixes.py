# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Fixes of the kernel's source, made before softrdma builds a kernel or siw from it.

Without them, tests fail for reasons outside the program under test. Each fix replaces texts that
the source has exactly once; a source without them stays as it is. KERNEL_FIXES.md lists the fixes,
as candidates for upstream, with measurements.
"""

import contextlib
import hashlib
import os
from typing import NamedTuple, Sequence, Tuple

from ..core import progress
from ..core.versions import natural_key


class SourceFix(NamedTuple):
    """Changes of one file, each an old and a new text. Either all are made or none."""

    file: str
    changes: "Tuple[Tuple[str, str], ...]"


def _insert_before(file: str, text: str, statement: str) -> SourceFix:
    """A statement inserted before the text."""
    return SourceFix(file, ((text, statement + text),))


def _digest(fixes: "Tuple[SourceFix, ...]") -> str:
    """The cache key of the fixes. Another form of this text would rebuild every cached kernel."""
    text = "".join(f"Mend(file={fix.file!r}, changes={fix.changes!r}), " for fix in fixes)
    text = text.removesuffix(" ") if len(fixes) == 1 else text.removesuffix(", ")
    return hashlib.sha256(f"({text})".encode()).hexdigest()[:8]


SIW_FOLDER = "drivers/infiniband/sw/siw"
SIW_FIXES = (
    # RDMA/siw: give the socket to the QP before the MPA reply is sent
    #
    # siw_accept() sends the MPA reply and then assigns the socket to the QP. Data that the peer
    # sends in between is not read until more data arrives: a first message can wait forever. Call
    # siw_qp_socket_assoc() first, except if the peer has to send an RTR frame, which the driver
    # handles later.
    _insert_before(
        f"{SIW_FOLDER}/siw_cm.c",
        "\trv = siw_send_mpareqrep(cep, params->private_data,\n\t\t\t\tparams->private_data_len);\n",
        "\tif (!wait_for_peer_rts)\n\t\tsiw_qp_socket_assoc(cep, qp);\n",
    ),
    # RDMA/siw: do not check for a closed connection after the last segment
    #
    # The driver checks for it after each segment. A message that the peer received before it
    # disconnected can complete with an error.
    _insert_before(
        f"{SIW_FOLDER}/siw_qp_tx.c",
        "\t\tif (unlikely(c_tx->tx_suspend)) {\n",
        "\t\tif (c_tx->pkt.ctrl.ddp_rdmap_ctrl & DDP_FLAG_LAST)\n\t\t\tgoto tx_done;\n",
    ),
    # RDMA/siw: accept data that follow the MPA reply
    #
    # A responder sends FPDUs as soon as it is established, without waiting for the initiator's
    # first one. If the first FPDU is in the socket before siw_cm_wq reads the MPA reply,
    # siw_recv_mpa_rr() reads up to four bytes of it and fails with -EPROTO: rdma_connect() fails.
    # The same FPDU is accepted if it arrives later. And if it arrives between
    # siw_qp_socket_assoc() and up_write() in siw_proc_mpareply(), siw_qp_llp_data_ready() does not
    # get qp->state_lock and leaves it in the socket until more data arrive. Read no more than the
    # reply, and read the socket once the QP is in RTS. Hold the socket's lock for that, since
    # tcp_read_sock() needs it: without it, a callback for new data parses the same stream on
    # another CPU.
    SourceFix(
        f"{SIW_FOLDER}/siw_cm.c",
        (
            (
                "\tif (!to_rcv) {\n",
                "\tif (!to_rcv && cep->state == SIW_EPSTATE_AWAIT_MPAREP)\n\t\treturn 0;\n\n"
                "\tif (!to_rcv) {\n",
            ),
            (
                "\t\tto_rcv + 4, MSG_DONTWAIT);\n",
                "\t\tcep->state == SIW_EPSTATE_AWAIT_MPAREP ? to_rcv : to_rcv + 4,\n"
                "\t\tMSG_DONTWAIT);\n",
            ),
            (
                "static int siw_proc_mpareply(struct siw_cep *cep)\n",
                """/*
 * Process data that arrived before the QP could take them.
 */
static void siw_cm_rx_pending(struct siw_cep *cep)
{
\tstruct sock *sk = cep->sock->sk;

\tlock_sock(sk);
\tsk->sk_data_ready(sk);
\trelease_sock(sk);
}

static int siw_proc_mpareply(struct siw_cep *cep)
""",
            ),
            (
                "\t\trv = siw_cm_upcall(cep, IW_CM_EVENT_CONNECT_REPLY, 0);\n"
                "\t\tif (!rv)\n\t\t\tcep->state = SIW_EPSTATE_RDMA_MODE;\n",
                "\t\trv = siw_cm_upcall(cep, IW_CM_EVENT_CONNECT_REPLY, 0);\n"
                "\t\tif (!rv) {\n\t\t\tcep->state = SIW_EPSTATE_RDMA_MODE;\n"
                "\t\t\tsiw_cm_rx_pending(cep);\n\t\t}\n",
            ),
            (
                "\t\t\t\tcep->sock->sk->sk_data_ready(cep->sock->sk);\n",
                "\t\t\t\tsiw_cm_rx_pending(cep);\n",
            ),
        ),
    ),
    # RDMA/siw: flush a Read once
    #
    # siw_activate_tx_from_sq() puts a Read into the ORQ and leaves the current WQE in state QUEUED
    # until the transmit thread takes it. If the connection ends before that, siw_sq_flush()
    # completes the Read twice: as an entry of the ORQ, and as the current WQE, which it takes for
    # one that is not in the ORQ because of its state. Only a Read that waits for a free entry of
    # the ORQ is not in it, and orq_fence is set for that one alone.
    SourceFix(
        f"{SIW_FOLDER}/siw_qp.c",
        (
            (
                "\t\t      tx_type(wqe) != SIW_OP_READ_LOCAL_INV) ||\n"
                "\t\t     wqe->wr_status == SIW_WR_QUEUED))\n",
                "\t\t      tx_type(wqe) != SIW_OP_READ_LOCAL_INV) ||\n"
                "\t\t     qp->tx_ctx.orq_fence))\n",
            ),
        ),
    ),
    # RDMA/siw: do not copy from user memory in the transmit thread
    #
    # siw_post_send() sets in_syscall while it processes the send queue, so that siw_try_1seg()
    # copies short data with copy_from_user(). When the queue is idle again, and before in_syscall is
    # cleared, an incoming Read request can start the transmit thread: it finds in_syscall set and
    # copies the response's data from user memory, although a kernel thread has none. The copy fails
    # and the connection is terminated; user-mode Linux panics ("Segfault with no mm"). And the flag
    # shares a byte with tx_suspend, which other contexts set: the bit fields can overwrite each
    # other. Test whether the current task has user memory instead, and leave the flag unused.
    SourceFix(
        f"{SIW_FOLDER}/siw_qp_tx.c",
        (("\t\t} else if (c_tx->in_syscall) {\n", "\t\t} else if (current->mm) {\n"),),
    ),
    SourceFix(
        f"{SIW_FOLDER}/siw_verbs.c",
        (
            ("\t\tqp->tx_ctx.in_syscall = 1;\n\n", ""),
            ("\n\t\tqp->tx_ctx.in_syscall = 0;\n", ""),
        ),
    ),
)
SIW_DIGEST = _digest(SIW_FIXES)

RXE_FOLDER = "drivers/infiniband/sw/rxe"
RXE_FIXES = (
    # RDMA/rxe: acknowledge a message before its receive completes
    #
    # do_complete() posts the receive's CQE, and then acknowledge() sends the ACK, unless the QP is
    # in the error state. A consumer that takes the last message's CQE and disconnects moves the QP
    # to the error state in between: the message is never acknowledged, and the sender sees it fail
    # (flushed, or IBV_WC_RETRY_EXC_ERR) although it was received. Even if the ACK is sent, the
    # DREQ can overtake it. Send the ACK, or the NAK of a request that fails, before the CQE is
    # visible, and acknowledge a Write without a CQE also in the error state, since the request was
    # executed before the QP left RTS.
    SourceFix(
        f"{RXE_FOLDER}/rxe_resp.c",
        (
            (
                "static enum resp_states do_complete(struct rxe_qp *qp,\n"
                "\t\t\t\t    struct rxe_pkt_info *pkt)\n{\n",
                "static enum resp_states acknowledge(struct rxe_qp *qp,\n"
                "\t\t\t\t    struct rxe_pkt_info *pkt);\n\n"
                "static enum resp_states do_complete(struct rxe_qp *qp,\n"
                "\t\t\t\t    struct rxe_pkt_info *pkt)\n{\n"
                "\tbool ack = pkt && qp_type(qp) == IB_QPT_RC;\n",
            ),
            (
                "\tif (rxe_cq_post(qp->rcq, &cqe, pkt ? bth_se(pkt) : 1))\n",
                "\tif (ack) {\n\t\tacknowledge(qp, pkt);\n\t\tack = false;\n\t}\n\n"
                "\tif (rxe_cq_post(qp->rcq, &cqe, pkt ? bth_se(pkt) : 1))\n",
            ),
            (
                "\t\treturn pkt ? RESPST_CLEANUP : RESPST_CHK_RESOURCE;\n",
                "\t\tif (ack)\n\t\t\treturn RESPST_ACKNOWLEDGE;\n"
                "\t\treturn pkt ? RESPST_CLEANUP : RESPST_CHK_RESOURCE;\n",
            ),
            (
                "\tif (qp_type(qp) == IB_QPT_RC)\n\t\treturn RESPST_ACKNOWLEDGE;\n\telse\n"
                "\t\treturn RESPST_CLEANUP;\n}\n\n\nstatic int send_common_ack(",
                "\tif (ack)\n\t\treturn RESPST_ACKNOWLEDGE;\n\telse\n"
                "\t\treturn RESPST_CLEANUP;\n}\n\n\nstatic int send_common_ack(",
            ),
        ),
    ),
    # RDMA/rxe: complete what is acknowledged before the send queue is flushed
    #
    # A peer acknowledges the last message and disconnects. The ACK is in qp->resp_pkts, but the
    # send task has not run when the consumer handles the DREQ and moves the QP to the error state.
    # Then rxe_completer() drops the ACK and flushes the message, which the peer has received.
    # Process ACKs that are in the queue first. After a request that failed, later ones must not
    # succeed: flush them at once in COMPST_ERROR, as rxe_completer() does when it runs again.
    SourceFix(
        f"{RXE_FOLDER}/rxe_comp.c",
        (
            (
                "int rxe_completer(struct rxe_qp *qp)\n",
                """/* Whether the next response is an ACK. It arrived before the send queue is
 * flushed, so what it acknowledges has succeeded.
 */
static bool ack_pending(struct rxe_qp *qp)
{
\tstruct sk_buff *skb = skb_peek(&qp->resp_pkts);
\tstruct rxe_pkt_info *pkt;

\tif (!skb || qp->req.need_retry)
\t\treturn false;

\tpkt = SKB_TO_PKT(skb);
\treturn pkt->opcode == IB_OPCODE_RC_ACKNOWLEDGE &&
\t       (aeth_syn(pkt) & AETH_TYPE_MASK) == AETH_ACK;
}

/* drop all responses and flush the send queue of a QP that is not ready */
static void drain_and_flush(struct rxe_qp *qp)
{
\tbool notify = qp->valid && (qp_state(qp) == IB_QPS_ERR);

\tdrain_resp_pkts(qp);
\tflush_send_queue(qp, notify);
}

int rxe_completer(struct rxe_qp *qp)
""",
            ),
            (
                """\tif (!qp->valid || qp_state(qp) == IB_QPS_ERR ||
\t\t\t  qp_state(qp) == IB_QPS_RESET) {
\t\tbool notify = qp->valid && (qp_state(qp) == IB_QPS_ERR);

\t\tdrain_resp_pkts(qp);
\t\tflush_send_queue(qp, notify);
""",
                """\tif (!qp->valid || qp_state(qp) == IB_QPS_RESET ||
\t    (qp_state(qp) == IB_QPS_ERR && !ack_pending(qp))) {
\t\tdrain_and_flush(qp);
""",
            ),
            (
                "\t\t\tdo_complete(qp, wqe);\n\t\t\trxe_qp_error(qp);\n\t\t\tgoto exit;\n",
                "\t\t\tdo_complete(qp, wqe);\n\t\t\trxe_qp_error(qp);\n"
                "\t\t\tspin_lock_irqsave(&qp->state_lock, flags);\n"
                "\t\t\tdrain_and_flush(qp);\n"
                "\t\t\tspin_unlock_irqrestore(&qp->state_lock, flags);\n"
                "\t\t\tgoto exit;\n",
            ),
        ),
    ),
)

UML_FOLDER = "arch/um/os-Linux"
KILL_STUB = (
    "\tkill(pid, SIGKILL);\n\tptrace(PTRACE_KILL, pid);\n\tptrace(PTRACE_CONT, pid);\n"
    "\tif (reap_child)\n\t\tCATCH_EINTR(waitpid(pid, NULL, __WALL));\n"
)
UML_FIXES = (
    # um: do not enable interrupts in a fault handler where they were disabled
    #
    # sig_handler_common() enables interrupts for SIGSEGV and the other faults, whatever their state
    # was. A fault in code that runs with interrupts disabled (an access to vmalloc memory whose
    # mapping is not flushed yet, or an oops) then runs pending interrupts there. If the code holds
    # a run queue lock, the timer interrupt spins on it forever in sched_tick(). Enable interrupts
    # only if they were enabled, as x86 does in exc_page_fault().
    SourceFix(
        f"{UML_FOLDER}/signal.c",
        (
            (
                "static void sig_handler_common(int sig, struct siginfo *si, mcontext_t *mc)\n",
                "static void sig_handler_common(int sig, struct siginfo *si, mcontext_t *mc,\n"
                "\t\t\t       int enabled)\n",
            ),
            (
                "\tif ((sig != SIGIO) && (sig != SIGWINCH) && (sig != SIGCHLD))\n",
                "\tif (enabled && (sig != SIGIO) && (sig != SIGWINCH) && (sig != SIGCHLD))\n",
            ),
            (
                "\tsig_handler_common(sig, si, mc);\n",
                "\tsig_handler_common(sig, si, mc, enabled);\n",
            ),
            (
                "\t\t\tsig_handler_common(SIGIO, NULL, NULL);\n",
                "\t\t\tsig_handler_common(SIGIO, NULL, NULL, 0);\n",
            ),
        ),
    ),
    # um: restore the interrupt state after a stub process is killed
    #
    # os_kill_ptraced_process() enables interrupts when it returns. panic() disables them, and then
    # os_dump_core() calls this function for each stub process: pending interrupts run in a panic,
    # and spin on locks that the panicking code or a stopped CPU holds. Restore the former state.
    SourceFix(
        f"{UML_FOLDER}/process.c",
        (
            (
                "\t/* Block signals until child is reaped */\n\tblock_signals();\n\n"
                + KILL_STUB
                + "\n\tunblock_signals();\n",
                "\t/* Block signals until child is reaped */\n\tint enabled = um_set_signals(0);\n\n"
                + KILL_STUB
                + "\n\tum_set_signals(enabled);\n",
            ),
        ),
    ),
    # um: do not sleep in idle with SIGIO pending
    #
    # os_idle_sleep() blocks SIGALRM, checks for work, and polls. A SIGIO that arrives after
    # interrupts are disabled and before poll() only sets a flag, and the CPU sleeps until its next
    # timer: input waits for milliseconds to seconds. Block SIGIO during the check, check its flag,
    # and let it end the sleep of CPU 0, which handles it.
    SourceFix(
        f"{UML_FOLDER}/signal.c",
        (
            (
                "\treturn !!(signals_pending & SIGALRM_MASK);\n",
                "\treturn !!(signals_pending & (SIGALRM_MASK | SIGIO_MASK));\n",
            ),
        ),
    ),
    SourceFix(
        f"{UML_FOLDER}/time.c",
        (
            (
                "\tsigaddset(&set, IPI_SIGNAL);\n",
                "\tsigaddset(&set, IPI_SIGNAL);\n\tif (uml_curr_cpu() == 0)\n\t\tsigaddset(&set, SIGIO);\n",
            ),
            (
                "void os_idle_sleep(void)\n{\n\tsigset_t set;\n",
                "void os_idle_sleep(void)\n{\n\tsigset_t set, old_set;\n",
            ),
            (
                "\tsigprocmask(SIG_BLOCK, &set, NULL);\n",
                "\tsigaddset(&set, SIGIO);\n\tsigprocmask(SIG_BLOCK, &set, &old_set);\n",
            ),
            (
                "\tsigprocmask(SIG_UNBLOCK, &set, NULL);\n",
                "\tsigprocmask(SIG_SETMASK, &old_set, NULL);\n",
            ),
        ),
    ),
)

LAST_OLD_UML_SERIES = "6.12"
OLD_UML_FIXES = (
    # um: set all registers of a processor with AMX
    #
    # User mode has a buffer of 2696 bytes for registers. A processor with AMX has more, and ptrace
    # sets all of them or none, so that no program can run. Set the others to the values that they
    # have; programs have no permission to use them.
    _insert_before(
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


def is_old_uml(series: str) -> bool:
    """Whether the series is 6.12 or older, whose user mode gets other fixes."""
    return natural_key(series) <= natural_key(LAST_OLD_UML_SERIES)


def uml_digest(series: str) -> str:
    """The cache key of all fixes of a user-mode kernel of the series."""
    others = OLD_UML_FIXES if is_old_uml(series) else (*RXE_FIXES, *UML_FIXES)
    return SIW_DIGEST + _digest(others)


def fix_uml_tree(tree: str, series: str) -> None:
    """Fix the source tree of a user-mode kernel."""
    if not is_old_uml(series):
        _apply_all(tree, "", (*SIW_FIXES, *RXE_FIXES, *UML_FIXES))
        return
    _apply_all(tree, "", SIW_FIXES)
    for fix in OLD_UML_FIXES:  # only some releases of these series have the fault: no note
        _apply(tree, "", fix)


def fix_siw_folder(tree: str, folder: str) -> None:
    """Fix siw, where tree has only that folder of the kernel's source."""
    _apply_all(tree, folder, SIW_FIXES)


def _apply_all(tree: str, folder: str, fixes: Sequence[SourceFix]) -> None:
    for fix in fixes:
        if not _apply(tree, folder, fix):
            progress.note(f"{fix.file} differs from the known source; it is built without a fix")


def _apply(tree: str, folder: str, fix: SourceFix) -> bool:
    """Returns whether the source has all texts of the fix, which are replaced then."""
    path = os.path.join(tree, os.path.relpath(fix.file, folder) if folder else fix.file)
    text = ""
    with contextlib.suppress(FileNotFoundError), open(path, encoding="utf-8") as file:
        text = file.read()
    if any(text.count(old) != 1 for old, _ in fix.changes):
        return False
    for old, new in fix.changes:
        text = text.replace(old, new)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return True

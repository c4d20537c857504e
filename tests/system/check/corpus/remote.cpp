// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// RDMA Writes, RDMA Reads and atomics that the peer refuses: both ends are in this process.

#include "loopback.hpp"

#include <array>

namespace check_corpus {

namespace {

/// A request to the memory of the responder.
struct remote_request : send_request {
    remote_request(ibv_wr_opcode opcode, const loopback &link, const ibv_mr &mr)
        : send_request(opcode, link.requester.sge(), &link.responder) {
        wr.wr.rdma.rkey = mr.rkey;
    }
    remote_request(ibv_wr_opcode opcode, const loopback &link)
        : remote_request(opcode, link, *link.responder.mr) {}
};

/// The requester's program has the lkey of the responder's buffer: on many devices the numbers are
/// equal.
void write_with_lkey(const target &target, bool corrected) {
    loopback link(target, true);
    remote_request write(IBV_WR_RDMA_WRITE, link);
    if (!corrected)
        write.wr.wr.rdma.rkey = link.responder.mr->lkey;
    ibv_send_wr *bad_wr = nullptr;
    check(ibv_post_send(link.requester.qp, &write.wr, &bad_wr), "post"); // wrong: remote-key
    const ibv_wc wc = wait_any(link.requester.send_cq, "the Write");
    check(corrected && wc.status != IBV_WC_SUCCESS ? -1 : 0, "the Write");
}

/// The requester keeps rkeys, and the responder has deregistered the memory since.
void read_with_stale_rkey(const target &target, bool corrected) {
    loopback link(target, true);
    ibv_mr *mr = link.responder.register_memory();
    remote_request read(IBV_WR_RDMA_READ, link, *mr);
    if (!corrected) {
        ibv_dereg_mr(mr);
        mr = nullptr;
    }
    ibv_send_wr *bad_wr = nullptr;
    check(ibv_post_send(link.requester.qp, &read.wr, &bad_wr), "post"); // wrong: remote-key
    const ibv_wc wc = wait_any(link.requester.send_cq, "the Read");
    check(corrected && wc.status != IBV_WC_SUCCESS ? -1 : 0, "the Read");
    if (mr != nullptr)
        ibv_dereg_mr(mr);
}

/// The last element of a ring begins inside of the memory, and ends behind it.
void write_across_end(const target &target, bool corrected) {
    loopback link(target, true);
    remote_request write(IBV_WR_RDMA_WRITE, link);
    write.wr.wr.rdma.remote_addr += endpoint::memory_size - (corrected ? 64 : 63);
    ibv_send_wr *bad_wr = nullptr;
    check(ibv_post_send(link.requester.qp, &write.wr, &bad_wr), "post"); // wrong: remote-range
    const ibv_wc wc = wait_any(link.requester.send_cq, "the Write");
    check(corrected && wc.status != IBV_WC_SUCCESS ? -1 : 0, "the Write");
}

/// The address is an offset, as for IBV_ACCESS_ZERO_BASED.
void wr_read_from_offset(const target &target, bool corrected) {
    const endpoint_options options{.extended = true};
    loopback link(target, true, {.requester = options, .responder = options});
    const endpoint &local = link.requester, &peer = link.responder;
    const auto remote = reinterpret_cast<std::uintptr_t>(peer.memory);
    ibv_qp_ex *const qp = local.qp_ex();
    ibv_wr_start(qp);
    qp->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_rdma_read(qp, peer.mr->rkey, corrected ? remote : 0);
    const auto sink = reinterpret_cast<std::uintptr_t>(local.memory);
    ibv_wr_set_sge(qp, local.mr->lkey, sink, 64); // wrong: remote-range
    check(ibv_wr_complete(qp), "post");           // wrong: remote-range
    const ibv_wc wc = wait_any(local.send_cq, "the Read");
    check(corrected && wc.status != IBV_WC_SUCCESS ? -1 : 0, "the Read");
}

/// Memory that the peer may only read.
void write_to_readable(const target &target, bool corrected) {
    loopback link(target, true);
    ibv_mr *const mr = link.responder.register_memory(
        corrected ? full_access : unsigned{IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ});
    remote_request write(IBV_WR_RDMA_WRITE, link, *mr);
    ibv_send_wr *bad_wr = nullptr;
    check(ibv_post_send(link.requester.qp, &write.wr, &bad_wr), "post"); // wrong: remote-access
    const ibv_wc wc = wait_any(link.requester.send_cq, "the Write");
    check(corrected && wc.status != IBV_WC_SUCCESS ? -1 : 0, "the Write");
    ibv_dereg_mr(mr);
}

/// Reading and writing is permitted, and counting is not.
void add_without_atomic(const target &target, bool corrected) {
    loopback link(target, true);
    ibv_mr *const mr = link.responder.register_memory(
        full_access | (corrected ? unsigned{IBV_ACCESS_REMOTE_ATOMIC} : 0U));
    remote_request add(IBV_WR_ATOMIC_FETCH_AND_ADD, link, *mr);
    add.sge.length = sizeof(std::uint64_t);
    add.wr.wr.atomic.remote_addr = reinterpret_cast<std::uintptr_t>(link.responder.memory);
    add.wr.wr.atomic.compare_add = 1;
    add.wr.wr.atomic.rkey = mr->rkey;
    ibv_send_wr *bad_wr = nullptr;
    check(ibv_post_send(link.requester.qp, &add.wr, &bad_wr), "post"); // wrong: remote-access
    wait_any(link.requester.send_cq, "the atomic");
    ibv_dereg_mr(mr);
}

/// The buffer was registered in a PD for all connections, and each QP has its own.
void write_to_other_pd(const target &target, bool corrected) {
    loopback link(target, true);
    const endpoint &peer = link.responder;
    ibv_pd *const pd = corrected ? peer.pd : check(ibv_alloc_pd(peer.context), "PD");
    ibv_mr *const mr =
        check(ibv_reg_mr(pd, peer.memory, endpoint::memory_size, full_access), "register");
    remote_request write(IBV_WR_RDMA_WRITE, link, *mr);
    ibv_send_wr *bad_wr = nullptr;
    check(ibv_post_send(link.requester.qp, &write.wr, &bad_wr), "post"); // wrong: remote-pd
    wait_any(link.requester.send_cq, "the Write");
    ibv_dereg_mr(mr);
    if (!corrected)
        ibv_dealloc_pd(pd);
}

/// Correct: memory that has other addresses, an MR that is registered again, an empty Write with
/// no key, and an MW.
void right_remote_memory(const target &target, bool) {
    loopback link(target, true);
    const endpoint &local = link.requester, &peer = link.responder;
    const auto post = [&](const endpoint &sender, ibv_send_wr &wr) {
        ibv_send_wr *bad_wr = nullptr;
        check(ibv_post_send(sender.qp, &wr, &bad_wr), "post");
        wait_success(sender.send_cq, "the request");
    };
    constexpr std::uint64_t iova = 0x1000'0000;
    ibv_mr *mr =
        check(ibv_reg_mr_iova(peer.pd, peer.memory, endpoint::memory_size, iova, full_access),
              "register");
    remote_request write(IBV_WR_RDMA_WRITE, link, *mr);
    write.wr.wr.rdma.remote_addr = iova;
    post(local, write.wr);
    ibv_dereg_mr(mr);
    mr = peer.register_memory(full_access | IBV_ACCESS_MW_BIND);
    remote_request again(IBV_WR_RDMA_WRITE, link, *mr);
    post(local, again.wr);

    remote_request empty(IBV_WR_RDMA_WRITE, link);
    empty.wr.num_sge = 0;
    empty.wr.wr.rdma.rkey = 0;
    post(local, empty.wr);

    ibv_mw *const mw = check(ibv_alloc_mw(peer.pd, IBV_MW_TYPE_2), "MW");
    ibv_send_wr bind{};
    bind.opcode = IBV_WR_BIND_MW;
    bind.send_flags = IBV_SEND_SIGNALED;
    bind.bind_mw.mw = mw;
    bind.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
    bind.bind_mw.bind_info = {mr, reinterpret_cast<std::uintptr_t>(peer.memory), 4096,
                              IBV_ACCESS_REMOTE_WRITE};
    post(peer, bind);
    remote_request to_window(IBV_WR_RDMA_WRITE, link);
    to_window.wr.wr.rdma.rkey = bind.bind_mw.rkey;
    post(local, to_window.wr);
    ibv_dealloc_mw(mw);
    ibv_dereg_mr(mr);
}

/// A batch of an MW's bind and a request with the lkey of the MR.
void lkey_after_bind(const target &target, bool) {
    unconnected side(target);
    const endpoint &local = side.local;
    ibv_qp_init_attr_ex attr{};
    attr.qp_type = IBV_QPT_RC;
    attr.send_cq = attr.recv_cq = local.send_cq;
    attr.cap = {8, 8, 1, 1, 0};
    attr.pd = local.pd;
    attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    attr.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_BIND_MW;
    ibv_qp *const base = check(ibv_create_qp_ex(local.context, &attr), "QP");
    ibv_qp_ex *const qp = ibv_qp_to_qp_ex(base);
    ibv_mr *const mr = local.register_memory(full_access | IBV_ACCESS_MW_BIND);
    ibv_mw *const mw = check(ibv_alloc_mw(local.pd, IBV_MW_TYPE_2), "MW");
    const ibv_mw_bind_info info{mr, reinterpret_cast<std::uintptr_t>(local.memory), 4096,
                                IBV_ACCESS_REMOTE_WRITE};
    ibv_wr_start(qp);
    ibv_wr_bind_mw(qp, mw, ibv_inc_rkey(mw->rkey), &info);
    ibv_wr_send(qp);
    const std::uint32_t lkey = mr->lkey;
    ibv_wr_set_sge(qp, lkey, reinterpret_cast<std::uintptr_t>(local.memory), 64);
    ibv_wr_abort(qp);
    ibv_wr_start(qp);
    ibv_wr_send(qp);
    ibv_wr_set_sge(qp, lkey, reinterpret_cast<std::uintptr_t>(local.memory), 64);
    ibv_wr_abort(qp);
    ibv_destroy_qp(base);
    ibv_dealloc_mw(mw);
    ibv_dereg_mr(mr);
}

constexpr std::array cases{
    corpus_case{.name = "lkey_after_bind",
                .kind = "none",
                .run = lkey_after_bind,
                .needs = rxe | extended,
                .options = "distinctkeys"},
    corpus_case{.name = "write_with_lkey",
                .kind = "remote-key",
                .run = write_with_lkey,
                .needs = rxe,
                .options = "distinctkeys"},
    corpus_case{.name = "read_with_stale_rkey",
                .kind = "remote-key",
                .run = read_with_stale_rkey,
                .needs = rxe},
    corpus_case{
        .name = "write_across_end", .kind = "remote-range", .run = write_across_end, .needs = rxe},
    corpus_case{.name = "wr_read_from_offset",
                .kind = "remote-range",
                .run = wr_read_from_offset,
                .needs = rxe | extended},
    corpus_case{.name = "write_to_readable",
                .kind = "remote-access",
                .run = write_to_readable,
                .needs = rxe},
    corpus_case{.name = "add_without_atomic",
                .kind = "remote-access",
                .run = add_without_atomic,
                .needs = rxe},
    corpus_case{
        .name = "write_to_other_pd", .kind = "remote-pd", .run = write_to_other_pd, .needs = rxe},
    corpus_case{
        .name = "right_remote_memory", .kind = "none", .run = right_remote_memory, .needs = rxe},
};

} // namespace

std::span<const corpus_case> remote_cases() {
    return cases;
}

} // namespace check_corpus

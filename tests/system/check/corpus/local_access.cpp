// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Requests that write to an MR without IBV_ACCESS_LOCAL_WRITE.

#include "loopback.hpp"

#include <array>

namespace check_corpus {

namespace {

/// SPDK #961: a local protection error of a request that was posted long before.
void receive_into_read_only_mr(const target &target, bool corrected) {
    unconnected side(target);
    endpoint &local = side.local;
    ibv_mr *const mr = local.register_memory(corrected ? unsigned{IBV_ACCESS_LOCAL_WRITE} : 0);
    ibv_sge sge = local.sge();
    sge.lkey = mr->lkey;
    recv_request recv(sge);
    ibv_recv_wr *bad_wr = nullptr;
    ibv_post_recv(local.qp, &recv.wr, &bad_wr); // wrong: local-access
    local.destroy_qp();
    ibv_dereg_mr(mr);
}

/// monarch #3759: the memory is registered to be read by the peer, and then is a Read's target. An
/// iWARP device writes a Read's target as the peer would.
void read_into_read_only_mr(const target &target, bool corrected) {
    loopback link(target, true);
    endpoint &local = link.requester;
    ibv_mr *const mr =
        local.register_memory(corrected ? full_access : unsigned{IBV_ACCESS_REMOTE_READ});
    ibv_sge sge = local.sge();
    sge.lkey = mr->lkey;
    send_request read(IBV_WR_RDMA_READ, sge, &link.responder);
    ibv_send_wr *bad_wr = nullptr;
    if (ibv_post_send(local.qp, &read.wr, &bad_wr) == 0) // wrong: local-access
        wait_any(local.send_cq, "the Read");
    local.destroy_qp();
    ibv_dereg_mr(mr);
}

/// The former value of the remote counter is written to the SGE.
void atomic_into_read_only_mr(const target &target, bool corrected) {
    loopback link(target, true);
    endpoint &local = link.requester;
    ibv_mr *const counter = link.responder.register_memory(full_access | IBV_ACCESS_REMOTE_ATOMIC);
    ibv_mr *const mr = local.register_memory(corrected ? unsigned{IBV_ACCESS_LOCAL_WRITE} : 0);
    ibv_sge sge = local.sge(8);
    sge.lkey = mr->lkey;
    send_request add(IBV_WR_ATOMIC_FETCH_AND_ADD, sge);
    add.wr.wr.atomic = {.remote_addr = reinterpret_cast<std::uintptr_t>(link.responder.memory),
                        .compare_add = 1,
                        .swap = 0,
                        .rkey = counter->rkey};
    ibv_send_wr *bad_wr = nullptr;
    if (ibv_post_send(local.qp, &add.wr, &bad_wr) == 0) // wrong: local-access
        wait_any(local.send_cq, "the atomic operation");
    local.destroy_qp();
    ibv_dereg_mr(mr);
    ibv_dereg_mr(counter);
}

void srq_receive_into_read_only_mr(const target &target, bool corrected) {
    unconnected side(target, {.use_srq = true});
    endpoint &local = side.local;
    ibv_mr *const mr = local.register_memory(corrected ? unsigned{IBV_ACCESS_LOCAL_WRITE} : 0);
    ibv_sge sge = local.sge();
    sge.lkey = mr->lkey;
    recv_request recv(sge);
    ibv_recv_wr *bad_wr = nullptr;
    ibv_post_srq_recv(local.srq, &recv.wr, &bad_wr); // wrong: local-access
    local.destroy_qp();
    ibv_destroy_srq(local.srq);
    local.srq = nullptr;
    ibv_dereg_mr(mr);
}

void wr_read_into_read_only_mr(const target &target, bool corrected) {
    const endpoint_options options{.extended = true};
    loopback link(target, true, {.requester = options, .responder = options});
    endpoint &local = link.requester;
    ibv_mr *const mr = local.register_memory(corrected ? full_access : 0);
    ibv_qp_ex *const qp = local.qp_ex();
    ibv_wr_start(qp);
    qp->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_rdma_read(qp, link.responder.mr->rkey,
                     reinterpret_cast<std::uintptr_t>(link.responder.memory));
    const auto sink = reinterpret_cast<std::uintptr_t>(local.memory);
    ibv_wr_set_sge(qp, mr->lkey, sink, 64); // wrong: local-access
    if (ibv_wr_complete(qp) == 0)           // wrong: local-access
        wait_any(local.send_cq, "the Read");
    local.destroy_qp();
    ibv_dereg_mr(mr);
}

constexpr std::string_view kind = "local-access";
constexpr std::array cases{
    corpus_case{
        .name = "receive_into_read_only_mr", .kind = kind, .run = receive_into_read_only_mr},
    corpus_case{.name = "read_into_read_only_mr", .kind = kind, .run = read_into_read_only_mr},
    corpus_case{.name = "atomic_into_read_only_mr",
                .kind = kind,
                .run = atomic_into_read_only_mr,
                .needs = rxe},
    corpus_case{.name = "srq_receive_into_read_only_mr",
                .kind = kind,
                .run = srq_receive_into_read_only_mr},
    corpus_case{.name = "wr_read_into_read_only_mr",
                .kind = kind,
                .run = wr_read_into_read_only_mr,
                .needs = extended},
};

} // namespace

std::span<const corpus_case> local_access_cases() {
    return cases;
}

} // namespace check_corpus

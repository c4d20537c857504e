// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// MRs that are deregistered while requests name them.

#include "loopback.hpp"

#include <array>
#include <thread>
#include <utility>

namespace check_corpus {

namespace {

/// monarch #3825: a region is freed while it is in use.
void dereg_under_receive(const target &target, bool corrected) {
    unconnected side(target);
    endpoint &local = side.local;
    local.post_recv();
    if (corrected)
        local.destroy_qp();
    ibv_dereg_mr(std::exchange(local.mr, nullptr)); // wrong: dereg-while-outstanding
}

/// LMCache PR #3018: a buffer is unregistered while it is the target of a transfer.
void dereg_under_read(const target &target, bool corrected) {
    loopback link(target, !corrected);
    endpoint &local = link.requester;
    local.post_send(IBV_WR_RDMA_READ, local.sge(), link.responder);
    if (corrected)
        wait_success(local.send_cq, "the Read");
    let_complete();
    ibv_dereg_mr(std::exchange(local.mr, nullptr)); // wrong: dereg-while-outstanding
}

void dereg_under_srq(const target &target, bool corrected) {
    unconnected side(target, {.use_srq = true});
    endpoint &local = side.local;
    ibv_mr *const mr = local.register_memory();
    ibv_sge sge = local.sge();
    if (!corrected)
        sge.lkey = mr->lkey;
    local.post_recv(sge);
    ibv_dereg_mr(mr); // wrong: dereg-while-outstanding
}

/// The request has two SGEs; the MR of the second is deregistered.
void dereg_of_second_sge(const target &target, bool corrected) {
    unconnected side(target);
    endpoint &local = side.local;
    ibv_mr *const mr = local.register_memory();
    std::array<ibv_sge, 2> list{local.sge(), local.sge(64, 4096)};
    list[1].lkey = mr->lkey;
    recv_request recv(list[0]);
    recv.wr.sg_list = list.data();
    recv.wr.num_sge = 2;
    ibv_recv_wr *bad_wr = nullptr;
    check(ibv_post_recv(local.qp, &recv.wr, &bad_wr), "post");
    if (corrected)
        local.to_state(IBV_QPS_ERR);
    ibv_dereg_mr(mr); // wrong: dereg-while-outstanding
}

/// A thread of the cache deregisters what another thread sends.
void dereg_by_other_thread(const target &target, bool corrected) {
    const endpoint_options options{.extended = true};
    loopback link(target, !corrected, {.requester = options, .responder = options});
    endpoint &local = link.requester;
    ibv_mr *const mr = local.register_memory();
    ibv_qp_ex *const qp = local.qp_ex();
    link.responder.post_recv();
    ibv_wr_start(qp);
    qp->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_send(qp);
    ibv_wr_set_sge(qp, mr->lkey, reinterpret_cast<std::uintptr_t>(local.memory), 64);
    check(ibv_wr_complete(qp), "post");
    if (corrected)
        wait_success(local.send_cq, "the message");
    wait_success(link.responder.recv_cq, "the receive");
    std::thread([&] {
        ibv_dereg_mr(mr); // wrong: dereg-while-outstanding
    }).join();
}

constexpr std::string_view kind = "dereg-while-outstanding";
constexpr std::array cases{
    corpus_case{.name = "dereg_under_receive", .kind = kind, .run = dereg_under_receive},
    corpus_case{.name = "dereg_under_read", .kind = kind, .run = dereg_under_read},
    corpus_case{.name = "dereg_under_srq", .kind = kind, .run = dereg_under_srq},
    corpus_case{.name = "dereg_of_second_sge", .kind = kind, .run = dereg_of_second_sge},
    corpus_case{.name = "dereg_by_other_thread",
                .kind = kind,
                .run = dereg_by_other_thread,
                .needs = extended},
};

} // namespace

std::span<const corpus_case> dereg_cases() {
    return cases;
}

} // namespace check_corpus

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// SGEs whose MR is of another PD than the QP or SRQ.

#include "loopback.hpp"

#include <array>

namespace check_corpus {

namespace {

/// The memory of an endpoint, registered in another PD, or in its PD.
struct other_registration {
    ibv_pd *pd;
    ibv_mr *mr;

    other_registration(const endpoint &local, bool same_pd)
        : pd(check(ibv_alloc_pd(local.context), "other PD"))
        , mr(check(
              ibv_reg_mr(same_pd ? local.pd : pd, local.memory, endpoint::memory_size, full_access),
              "register")) {}
    other_registration(const other_registration &) = delete;
    other_registration &operator=(const other_registration &) = delete;
    ~other_registration() {
        ibv_dereg_mr(mr);
        ibv_dealloc_pd(pd);
    }
    ibv_sge sge(const endpoint &local) const {
        ibv_sge sge = local.sge();
        sge.lkey = mr->lkey;
        return sge;
    }
};

/// chimera-nas libevpl #89: the key is of another PD, since each connection has one.
void send_of_other_pd(const target &target, bool corrected) {
    loopback link(target, true);
    endpoint &local = link.requester;
    const other_registration other(local, corrected);
    link.responder.post_recv();
    send_request send(IBV_WR_SEND, other.sge(local));
    ibv_send_wr *bad_wr = nullptr;
    if (ibv_post_send(local.qp, &send.wr, &bad_wr) == 0) // wrong: local-pd
        wait_any(local.send_cq, "the message");
    local.destroy_qp();
}

void receive_of_other_pd(const target &target, bool corrected) {
    unconnected side(target);
    endpoint &local = side.local;
    const other_registration other(local, corrected);
    recv_request recv(other.sge(local));
    ibv_recv_wr *bad_wr = nullptr;
    ibv_post_recv(local.qp, &recv.wr, &bad_wr); // wrong: local-pd
    local.destroy_qp();
}

void srq_receive_of_other_pd(const target &target, bool corrected) {
    unconnected side(target, {.use_srq = true});
    endpoint &local = side.local;
    const other_registration other(local, corrected);
    recv_request recv(other.sge(local));
    ibv_recv_wr *bad_wr = nullptr;
    ibv_post_srq_recv(local.srq, &recv.wr, &bad_wr); // wrong: local-pd
    local.destroy_qp();
    ibv_destroy_srq(local.srq);
    local.srq = nullptr;
}

void wr_write_of_other_pd(const target &target, bool corrected) {
    const endpoint_options options{.extended = true};
    loopback link(target, true, {.requester = options, .responder = options});
    endpoint &local = link.requester;
    const other_registration other(local, corrected);
    ibv_qp_ex *const qp = local.qp_ex();
    ibv_wr_start(qp);
    qp->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_rdma_write(qp, link.responder.mr->rkey,
                      reinterpret_cast<std::uintptr_t>(link.responder.memory));
    const auto source = reinterpret_cast<std::uintptr_t>(local.memory);
    ibv_wr_set_sge(qp, other.mr->lkey, source, 64); // wrong: local-pd
    if (ibv_wr_complete(qp) == 0)                   // wrong: local-pd
        wait_any(local.send_cq, "the Write");
    local.destroy_qp();
}

constexpr std::string_view kind = "local-pd";
constexpr std::array cases{
    corpus_case{.name = "send_of_other_pd", .kind = kind, .run = send_of_other_pd},
    corpus_case{.name = "receive_of_other_pd", .kind = kind, .run = receive_of_other_pd},
    corpus_case{.name = "srq_receive_of_other_pd", .kind = kind, .run = srq_receive_of_other_pd},
    corpus_case{.name = "wr_write_of_other_pd",
                .kind = kind,
                .run = wr_write_of_other_pd,
                .needs = extended},
};

} // namespace

std::span<const corpus_case> local_pd_cases() {
    return cases;
}

} // namespace check_corpus

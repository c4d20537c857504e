// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Calls with objects that were destroyed. Most use memory that the driver has freed: without the
// checker the wrong program may crash. An inline function of verbs.h crashes before any library
// sees the call if free() has overwritten the object's first member, the context.

#include "loopback.hpp"

#include "../../lib/modify_qp.hpp"

#include <array>
#include <cerrno>
#include <thread>
#include <utility>

namespace check_corpus {

namespace {

/// Two functions destroy the same QP, since each believes that it is the QP's last user.
void qp_destroyed_twice(const target &target, bool corrected) {
    unconnected side(target);
    ibv_qp *const qp = std::exchange(side.local.qp, nullptr);
    ibv_destroy_qp(qp);
    if (!corrected)
        ibv_destroy_qp(qp); // wrong: use-after-destroy
}

void mr_deregistered_twice(const target &target, bool corrected) {
    unconnected side(target);
    ibv_mr *const mr = std::exchange(side.local.mr, nullptr);
    ibv_dereg_mr(mr);
    if (!corrected)
        ibv_dereg_mr(mr); // wrong: use-after-destroy
}

/// An MR is registered in a PD that was deallocated (openlake PR #37 keeps the device alive for
/// it).
void registered_in_deallocated_pd(const target &target, bool corrected) {
    device dev(target);
    std::array<std::byte, 256> memory{};
    ibv_pd *const pd = check(ibv_alloc_pd(dev.context), "PD");
    if (!corrected)
        ibv_dealloc_pd(pd);
    ibv_mr *const mr =
        ibv_reg_mr(pd, memory.data(), memory.size(), full_access); // wrong: use-after-destroy
    if (mr != nullptr)
        ibv_dereg_mr(mr);
    if (corrected)
        ibv_dealloc_pd(pd);
}

/// Mooncake PR #1903: a thread posts to a QP that another thread has destroyed.
void post_to_qp_of_other_thread(const target &target, bool corrected) {
    loopback link(target, !corrected);
    endpoint &local = link.requester;
    ibv_qp *const qp = local.qp;
    link.responder.post_recv();
    std::thread thread([&] { local.destroy_qp(); });
    if (!corrected)
        thread.join();
    send_request send(IBV_WR_SEND, local.sge());
    ibv_send_wr *bad_wr = nullptr;
    if (corrected)
        thread.join();
    else
        ibv_post_send(qp, &send.wr, &bad_wr); // wrong: use-after-destroy
}

/// As above, but with the functions that the QP itself has.
void wr_start_on_destroyed_qp(const target &target, bool corrected) {
    const endpoint_options options{.extended = true};
    loopback link(target, !corrected, {.requester = options, .responder = options});
    endpoint &local = link.requester;
    ibv_qp_ex *const qp = local.qp_ex();
    link.responder.post_recv();
    if (!corrected)
        local.destroy_qp();
    ibv_wr_start(qp); // wrong: use-after-destroy
    qp->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_send(qp); // wrong: use-after-destroy
    const auto source = reinterpret_cast<std::uintptr_t>(local.memory);
    ibv_wr_set_sge(qp, local.mr->lkey, source, 64); // wrong: use-after-destroy
    check(ibv_wr_complete(qp), "post");             // wrong: use-after-destroy
    wait_success(local.send_cq, "the send");
}

/// A thread polls a CQ that was destroyed when the connection ended.
void poll_of_destroyed_cq(const target &target, bool corrected) {
    device dev(target);
    ibv_cq *const cq = check(ibv_create_cq(dev.context, 4, nullptr, nullptr, 0), "CQ");
    ibv_wc wc{};
    if (corrected)
        check(ibv_poll_cq(cq, 1, &wc), "poll");
    ibv_destroy_cq(cq);
    if (!corrected)
        ibv_poll_cq(cq, 1, &wc); // wrong: use-after-destroy
}

void limit_of_destroyed_srq(const target &target, bool corrected) {
    device dev(target);
    ibv_pd *const pd = check(ibv_alloc_pd(dev.context), "PD");
    ibv_srq_init_attr attr{};
    attr.attr = {8, 1, 0};
    ibv_srq *const srq = check(ibv_create_srq(pd, &attr), "SRQ");
    ibv_srq_attr limit{.max_wr = 0, .max_sge = 0, .srq_limit = 2};
    if (!corrected)
        ibv_destroy_srq(srq);
    ibv_modify_srq(srq, &limit, IBV_SRQ_LIMIT); // wrong: use-after-destroy
    if (corrected)
        ibv_destroy_srq(srq);
    ibv_dealloc_pd(pd);
}

/// The AH of a UD message is destroyed before it is posted.
void ud_send_by_destroyed_ah(const target &target, bool corrected) {
    device dev(target);
    endpoint local;
    local.create(dev.context);
    ibv_qp_init_attr attr{};
    attr.qp_type = IBV_QPT_UD;
    attr.send_cq = local.send_cq;
    attr.recv_cq = local.recv_cq;
    attr.cap = {4, 4, 1, 1, 0};
    ibv_qp *const qp = check(ibv_create_qp(local.pd, &attr), "UD QP");
    ibv_ah_attr ah_attr = verbs_test::make_loopback_ah_attr(dev.gid, dev.gid_index);
    verbs_test::modify_qp_to_init(qp, 0);
    verbs_test::modify_qp_to_rtr(qp, 0, ah_attr, 0);
    verbs_test::modify_qp_to_rts(qp, 0, 0, 0);
    ibv_ah *const ah = check(ibv_create_ah(local.pd, &ah_attr), "AH");
    send_request send(IBV_WR_SEND, local.sge());
    send.wr.wr.ud = {.ah = ah, .remote_qpn = qp->qp_num, .remote_qkey = 0x1234};
    ibv_send_wr *bad_wr = nullptr;
    if (!corrected)
        ibv_destroy_ah(ah);
    const int error = ibv_post_send(qp, &send.wr, &bad_wr); // wrong: use-after-destroy
    if (error == 0)
        wait_any(local.send_cq, "the message");
    ibv_destroy_qp(qp);
    if (corrected)
        ibv_destroy_ah(ah);
}

/// rdma_destroy_qp() has destroyed the QP that the program has kept a pointer to.
void cm_qp_queried_after_destroy(const target &target, bool corrected) {
    loopback link(target, !corrected, {.by_cm = true});
    ibv_qp *const qp = link.requester.qp;
    ibv_qp_attr attr{};
    ibv_qp_init_attr init_attr{};
    if (corrected)
        check(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init_attr), "query");
    link.requester.destroy_qp();
    if (!corrected)
        ibv_query_qp(qp, &attr, IBV_QP_STATE, &init_attr); // wrong: use-after-destroy
}

constexpr std::string_view kind = "use-after-destroy";
constexpr std::array cases{
    corpus_case{
        .name = "qp_destroyed_twice", .kind = kind, .run = qp_destroyed_twice, .may_crash = true},
    corpus_case{.name = "mr_deregistered_twice",
                .kind = kind,
                .run = mr_deregistered_twice,
                .may_crash = true},
    corpus_case{.name = "registered_in_deallocated_pd",
                .kind = kind,
                .run = registered_in_deallocated_pd,
                .may_crash = true},
    corpus_case{.name = "post_to_qp_of_other_thread",
                .kind = kind,
                .run = post_to_qp_of_other_thread,
                .may_crash = true},
    corpus_case{.name = "wr_start_on_destroyed_qp",
                .kind = kind,
                .run = wr_start_on_destroyed_qp,
                .needs = extended,
                .may_crash = true,
                .may_crash_checked = true},
    corpus_case{.name = "poll_of_destroyed_cq",
                .kind = kind,
                .run = poll_of_destroyed_cq,
                .may_crash = true},
    corpus_case{.name = "limit_of_destroyed_srq",
                .kind = kind,
                .run = limit_of_destroyed_srq,
                .may_crash = true},
    corpus_case{.name = "ud_send_by_destroyed_ah",
                .kind = kind,
                .run = ud_send_by_destroyed_ah,
                .needs = rxe,
                .may_crash = true},
    corpus_case{.name = "cm_qp_queried_after_destroy",
                .kind = kind,
                .run = cm_qp_queried_after_destroy,
                .may_crash = true},
};

} // namespace

std::span<const corpus_case> use_after_destroy_cases() {
    return cases;
}

} // namespace check_corpus

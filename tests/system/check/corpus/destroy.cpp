// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// QPs that are destroyed or reset while sends are outstanding or their completions unread.

#include "loopback.hpp"

#include <array>
#include <utility>

namespace check_corpus {

namespace {

/// The buffer of the send is returned by its completion, which is lost.
void destroyed_before_poll(const target &target, bool corrected) {
    loopback link(target, false);
    link.send_message();
    if (corrected)
        wait_success(link.requester.send_cq, "the message");
    wait_success(link.responder.recv_cq, "the receive");
    endpoint &local = link.requester;
    if (local.id != nullptr) {
        rdma_destroy_qp(local.id); // wrong: destroy-while-outstanding
    } else {
        ibv_destroy_qp(local.qp); // wrong: destroy-while-outstanding
    }
    local.qp = nullptr;
}

/// Mooncake PR #2588: an endpoint that has been connected is reset, to be used again. The requests
/// in flight never complete, and what waits for them waits forever.
void reset_to_reuse(const target &target, bool corrected) {
    loopback link(target, false);
    endpoint &local = link.requester;
    local.post_send(IBV_WR_SEND, local.sge(), link.responder); // no receive is posted
    ibv_qp_attr attr{};
    if (corrected) {
        local.to_state(IBV_QPS_ERR);
        wait_any(local.send_cq, "the flushed message");
    }
    attr.qp_state = IBV_QPS_RESET;
    ibv_modify_qp(local.qp, &attr, IBV_QP_STATE); // wrong: destroy-while-outstanding
}

/// Mooncake PR #2427: the peer has gone, and the QP is destroyed with its requests.
void destroyed_with_dead_peer(const target &target, bool corrected) {
    const endpoint_options options{.extended = true};
    loopback link(target, false, {.requester = options, .responder = options});
    endpoint &local = link.requester;
    ibv_qp_ex *const qp = local.qp_ex();
    link.responder.destroy_qp();
    ibv_wr_start(qp);
    qp->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_rdma_write(qp, link.responder.mr->rkey, 0);
    ibv_wr_set_sge(qp, local.mr->lkey, reinterpret_cast<std::uintptr_t>(local.memory), 64);
    if (ibv_wr_complete(qp) == 0 && corrected) {
        local.to_state(IBV_QPS_ERR);
        wait_any(local.send_cq, "the Write");
    }
    ibv_destroy_qp(std::exchange(local.qp, nullptr)); // wrong: destroy-while-outstanding
}

/// Ceph PR #25447: the QP is switched to ERR and drained before it is destroyed.
void cm_destroyed_undrained(const target &target, bool corrected) {
    loopback link(target, false, {.by_cm = true});
    endpoint &local = link.requester;
    link.send_message();
    if (corrected) {
        link.disconnect();
        wait_any(local.send_cq, "the message");
    }
    rdma_destroy_qp(local.id); // wrong: destroy-while-outstanding
    local.qp = nullptr;
}

/// The last of several messages is not signaled, so the program cannot know that it has been sent.
void last_send_unsignaled(const target &target, bool corrected) {
    loopback link(target, false);
    endpoint &local = link.requester;
    link.exchange_message();
    link.responder.post_recv();
    local.post_send(IBV_WR_SEND, local.sge(), link.responder, corrected ? signaled : unsignaled);
    wait_success(link.responder.recv_cq, "the receive");
    if (corrected)
        wait_success(local.send_cq, "the last message");
    if (local.id != nullptr) {
        rdma_destroy_qp(local.id); // wrong: destroy-while-outstanding
    } else {
        ibv_destroy_qp(local.qp); // wrong: destroy-while-outstanding
    }
    local.qp = nullptr;
}

constexpr std::string_view kind = "destroy-while-outstanding";
constexpr std::array cases{
    corpus_case{.name = "destroyed_before_poll", .kind = kind, .run = destroyed_before_poll},
    corpus_case{.name = "reset_to_reuse", .kind = kind, .run = reset_to_reuse, .needs = rxe},
    corpus_case{.name = "destroyed_with_dead_peer",
                .kind = kind,
                .run = destroyed_with_dead_peer,
                .needs = rxe | extended},
    corpus_case{.name = "cm_destroyed_undrained", .kind = kind, .run = cm_destroyed_undrained},
    corpus_case{.name = "last_send_unsignaled", .kind = kind, .run = last_send_unsignaled},
};

} // namespace

std::span<const corpus_case> destroy_cases() {
    return cases;
}

} // namespace check_corpus

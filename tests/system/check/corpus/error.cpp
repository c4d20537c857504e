// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Programs that go on posting to a QP after they have polled an error of it.

#include "loopback.hpp"

#include <array>

namespace check_corpus {

namespace {

constexpr int num_posts = 4; // one may be on its way when the error is polled

/// The responder's receive is shorter than the message: both QPs are in ERR then.
void provoke_length_error(const loopback &link) {
    link.responder.post_recv(link.responder.sge(8));
    link.requester.post_send(IBV_WR_SEND, link.requester.sge(), link.responder);
}

/// ydb nbs #2690: a receive has completed in error, and the program posts to the QP as if not.
void send_after_receive_error(const target &target, bool corrected) {
    loopback link(target, true);
    endpoint &local = link.responder;
    provoke_length_error(link);
    const ibv_wc wc = wait_any(local.recv_cq, "the receive");
    if (corrected && wc.status != IBV_WC_SUCCESS)
        return;
    for (int i = 0; i < num_posts; ++i) {
        send_request send(IBV_WR_SEND, local.sge());
        ibv_send_wr *bad_wr = nullptr;
        ibv_post_send(local.qp, &send.wr, &bad_wr); // wrong: error-ignored
    }
}

/// SPDK #936: the program cannot recover from an error, and goes on until its requests are used up.
void send_after_remote_error(const target &target, bool corrected) {
    loopback link(target, true);
    endpoint &local = link.requester;
    send_request read(IBV_WR_RDMA_READ, local.sge(), &link.responder);
    read.wr.wr.rdma.rkey ^= 0xff00U; // of no MR
    ibv_send_wr *bad_wr = nullptr;
    check(ibv_post_send(local.qp, &read.wr, &bad_wr), "post");
    const ibv_wc wc = wait_any(local.send_cq, "the Read");
    if (corrected && wc.status != IBV_WC_SUCCESS)
        link.reconnect();
    read.wr.wr.rdma.rkey = link.responder.mr->rkey;
    for (int i = 0; i < num_posts; ++i) {
        ibv_post_send(local.qp, &read.wr, &bad_wr); // wrong: error-ignored
        if (corrected)
            wait_success(local.send_cq, "the Read");
    }
}

/// The status is read by ibv_start_poll(), and forgotten.
void wr_send_after_error(const target &target, bool corrected) {
    const endpoint_options options{.extended = true};
    loopback link(target, true, {.requester = options, .responder = options});
    endpoint &local = link.responder;
    provoke_length_error(link);
    ibv_poll_cq_attr attr{};
    ibv_cq_ex *const cq = local.recv_cq_ex();
    while (ibv_start_poll(cq, &attr) != 0)
        let_complete();
    const bool failed = cq->status != IBV_WC_SUCCESS;
    ibv_end_poll(cq);
    if (corrected && failed)
        return;
    ibv_qp_ex *const qp = local.qp_ex();
    const auto source = reinterpret_cast<std::uintptr_t>(local.memory);
    for (int i = 0; i < num_posts; ++i) {
        ibv_wr_start(qp);
        qp->wr_flags = IBV_SEND_SIGNALED;
        ibv_wr_send(qp);
        ibv_wr_set_sge(qp, local.mr->lkey, source, 64); // wrong: error-ignored
        ibv_wr_complete(qp);                            // wrong: error-ignored
    }
}

constexpr std::string_view kind = "error-ignored";
constexpr std::array cases{
    corpus_case{.name = "send_after_receive_error", .kind = kind, .run = send_after_receive_error},
    corpus_case{.name = "send_after_remote_error",
                .kind = kind,
                .run = send_after_remote_error,
                .needs = rxe},
    corpus_case{
        .name = "wr_send_after_error", .kind = kind, .run = wr_send_after_error, .needs = extended},
};

} // namespace

std::span<const corpus_case> error_cases() {
    return cases;
}

} // namespace check_corpus

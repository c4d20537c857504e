// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// CQs that have fewer entries than completions can come. Receives show it without that any comes.

#include "loopback.hpp"

#include <array>
#include <vector>

namespace check_corpus {

namespace {

constexpr int small_cqe = 4;
constexpr std::uint32_t many_wr = 64;

/// TransferBench PR #239: requests are posted without a look at the CQ, which overflows, and the
/// program polls forever.
void more_sends_than_cqe(const target &target, bool corrected) {
    loopback link(target, !corrected, {.requester = {.cqe = small_cqe, .max_wr = many_wr}});
    endpoint &local = link.requester;
    const int num_sends = local.send_cq->cqe + 1;
    for (int i = 0; i < num_sends; ++i) {
        send_request send(IBV_WR_RDMA_WRITE, local.sge(), &link.responder);
        ibv_send_wr *bad_wr = nullptr;
        check(ibv_post_send(local.qp, &send.wr, &bad_wr), "post"); // wrong: cq-overflow
        if (corrected)
            wait_success(local.send_cq, "a Write");
    }
    let_complete();
}

/// libfabric PR #4913: the provider keeps no account of the entries that are left.
void more_receives_than_cqe(const target &target, bool corrected) {
    unconnected side(target, {.cqe = corrected ? 256 : small_cqe, .max_wr = many_wr});
    endpoint &local = side.local;
    const int num_receives = corrected ? static_cast<int>(many_wr) : local.recv_cq->cqe + 1;
    for (int i = 0; i < num_receives; ++i) {
        recv_request recv(local.sge());
        ibv_recv_wr *bad_wr = nullptr;
        check(ibv_post_recv(local.qp, &recv.wr, &bad_wr), "post"); // wrong: cq-overflow
    }
}

/// Sends and receives have the same CQ, which has entries for the receives only.
void cq_of_both_directions(const target &target, bool corrected) {
    const endpoint_options options{.cqe = small_cqe, .single_cq = true, .max_wr = many_wr};
    loopback link(target, !corrected, {.requester = options});
    endpoint &local = link.requester;
    const int num_receives = local.recv_cq->cqe - (corrected ? 1 : 0);
    for (int i = 0; i < num_receives; ++i)
        local.post_recv(local.sge(64, 4096));
    send_request send(IBV_WR_RDMA_WRITE, local.sge(), &link.responder);
    ibv_send_wr *bad_wr = nullptr;
    check(ibv_post_send(local.qp, &send.wr, &bad_wr), "post"); // wrong: cq-overflow
    wait_success(local.send_cq, "the Write");
}

/// Mooncake #3660: two QPs complete into a CQ that has entries for one of them.
void cq_of_two_qps(const target &target, bool corrected) {
    device dev(target);
    endpoint first;
    first.create(dev.context, {.cqe = small_cqe, .max_wr = many_wr});
    ibv_qp_init_attr attr{};
    attr.qp_type = IBV_QPT_RC;
    attr.send_cq = attr.recv_cq = first.recv_cq;
    attr.cap = {4, many_wr, 1, 1, 0};
    ibv_qp *const second = check(ibv_create_qp(first.pd, &attr), "second QP");
    first.to_init();
    ibv_qp_attr to_init{};
    to_init.qp_state = IBV_QPS_INIT;
    to_init.port_num = 1;
    check(ibv_modify_qp(second, &to_init,
                        IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
          "INIT");
    const int num_receives = first.recv_cq->cqe - (corrected ? 1 : 0);
    for (int i = 0; i < num_receives; ++i)
        first.post_recv();
    recv_request recv(first.sge());
    ibv_recv_wr *bad_wr = nullptr;
    check(ibv_post_recv(second, &recv.wr, &bad_wr), "post"); // wrong: cq-overflow
    check(ibv_destroy_qp(second), "destroy");
}

/// The requests are not signaled, but the QP was created with sq_sig_all.
void all_sends_signaled(const target &target, bool corrected) {
    loopback link(target, !corrected,
                  {.requester = {.cqe = small_cqe, .sq_sig_all = !corrected, .max_wr = many_wr}});
    endpoint &local = link.requester;
    const int num_sends = local.send_cq->cqe + 1;
    for (int i = 0; i < num_sends; ++i) {
        send_request send(IBV_WR_RDMA_WRITE, local.sge(), &link.responder,
                          i + 1 == num_sends && corrected ? signaled : unsignaled);
        ibv_send_wr *bad_wr = nullptr;
        check(ibv_post_send(local.qp, &send.wr, &bad_wr), "post"); // wrong: cq-overflow
    }
    wait_success(local.send_cq, "the Writes");
}

/// A list of requests, whose last one has no entry any more.
void list_longer_than_cqe(const target &target, bool corrected) {
    unconnected side(target, {.cqe = small_cqe, .max_wr = many_wr});
    endpoint &local = side.local;
    const auto length = static_cast<std::size_t>(local.recv_cq->cqe + (corrected ? 0 : 1));
    ibv_sge sge = local.sge();
    std::vector<ibv_recv_wr> list(length);
    for (std::size_t i = 0; i < length; ++i) {
        list[i].sg_list = &sge;
        list[i].num_sge = 1;
        list[i].next = i + 1 < length ? &list[i + 1] : nullptr;
    }
    ibv_recv_wr *bad_wr = nullptr;
    check(ibv_post_recv(local.qp, list.data(), &bad_wr), "post"); // wrong: cq-overflow
}

/// The queue of the QP has grown, and its CQ not.
void cq_not_resized(const target &target, bool corrected) {
    unconnected side(target, {.cqe = small_cqe, .max_wr = many_wr});
    endpoint &local = side.local;
    const int num_receives = local.recv_cq->cqe + 1;
    if (corrected)
        check(ibv_resize_cq(local.recv_cq, 2 * num_receives), "resize");
    for (int i = 0; i < num_receives; ++i) {
        recv_request recv(local.sge());
        ibv_recv_wr *bad_wr = nullptr;
        check(ibv_post_recv(local.qp, &recv.wr, &bad_wr), "post"); // wrong: cq-overflow
    }
}

/// The receives of an SRQ complete into the CQ of the QP that gets the message.
void more_srq_receives_than_cqe(const target &target, bool corrected) {
    unconnected side(target,
                     {.cqe = corrected ? 256 : small_cqe, .use_srq = true, .max_wr = many_wr});
    endpoint &local = side.local;
    const int num_receives = corrected ? static_cast<int>(many_wr) : local.recv_cq->cqe + 1;
    for (int i = 0; i < num_receives; ++i) {
        recv_request recv(local.sge());
        ibv_recv_wr *bad_wr = nullptr;
        check(ibv_post_srq_recv(local.srq, &recv.wr, &bad_wr), "post"); // wrong: cq-overflow
    }
}

void more_wr_sends_than_cqe(const target &target, bool corrected) {
    const endpoint_options options{.cqe = small_cqe, .extended = true, .max_wr = many_wr};
    loopback link(target, !corrected, {.requester = options, .responder = options});
    endpoint &local = link.requester;
    ibv_qp_ex *const qp = local.qp_ex();
    const int num_sends = local.send_cq->cqe + 1;
    for (int i = 0; i < num_sends; ++i) {
        ibv_wr_start(qp);
        qp->wr_flags = IBV_SEND_SIGNALED;
        ibv_wr_rdma_write(qp, link.responder.mr->rkey,
                          reinterpret_cast<std::uintptr_t>(link.responder.memory));
        const auto source = reinterpret_cast<std::uintptr_t>(local.memory);
        ibv_wr_set_sge(qp, local.mr->lkey, source, 64); // wrong: cq-overflow
        check(ibv_wr_complete(qp), "post");             // wrong: cq-overflow
        if (corrected)
            wait_success(local.send_cq, "a Write");
    }
    let_complete();
}

constexpr std::string_view kind = "cq-overflow";
constexpr std::array cases{
    corpus_case{.name = "more_sends_than_cqe", .kind = kind, .run = more_sends_than_cqe},
    corpus_case{.name = "more_receives_than_cqe", .kind = kind, .run = more_receives_than_cqe},
    corpus_case{.name = "cq_of_both_directions", .kind = kind, .run = cq_of_both_directions},
    corpus_case{.name = "cq_of_two_qps", .kind = kind, .run = cq_of_two_qps},
    corpus_case{.name = "all_sends_signaled", .kind = kind, .run = all_sends_signaled},
    corpus_case{.name = "list_longer_than_cqe", .kind = kind, .run = list_longer_than_cqe},
    corpus_case{.name = "cq_not_resized", .kind = kind, .run = cq_not_resized, .needs = rxe},
    corpus_case{
        .name = "more_srq_receives_than_cqe", .kind = kind, .run = more_srq_receives_than_cqe},
    corpus_case{.name = "more_wr_sends_than_cqe",
                .kind = kind,
                .run = more_wr_sends_than_cqe,
                .needs = extended},
};

} // namespace

std::span<const corpus_case> overflow_cases() {
    return cases;
}

} // namespace check_corpus

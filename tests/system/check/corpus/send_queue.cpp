// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Send queues that are full of unsignaled requests. The device has sent them, but only the
// completion of a later signaled request tells the driver, and there is no place for one.

#include "loopback.hpp"

#include <array>
#include <vector>

namespace check_corpus {

namespace {

/// Whether the request is signaled: in the corrected program each fourth one and the last.
bool is_signaled(std::uint32_t i, std::uint32_t count, bool corrected) {
    return corrected && (i % 4 == 3 || i + 1 == count);
}

/// openlake PR #37: sends are posted without a completion that returns their slots.
void unsignaled_writes(const target &target, bool corrected) {
    loopback link(target, !corrected);
    endpoint &local = link.requester;
    for (std::uint32_t i = 0; i < local.max_send_wr; ++i) {
        const bool has_cqe = is_signaled(i, local.max_send_wr, corrected);
        send_request send(IBV_WR_RDMA_WRITE, local.sge(), &link.responder,
                          has_cqe ? signaled : unsignaled);
        ibv_send_wr *bad_wr = nullptr;
        check(ibv_post_send(local.qp, &send.wr, &bad_wr), "post"); // wrong: send-queue-stuck
        if (has_cqe)
            wait_success(local.send_cq, "a Write");
    }
}

void unsignaled_list(const target &target, bool corrected) {
    loopback link(target, !corrected);
    endpoint &local = link.requester;
    ibv_sge sge = local.sge();
    const send_request model(IBV_WR_RDMA_WRITE, sge, &link.responder, 0);
    std::vector<ibv_send_wr> list(local.max_send_wr, model.wr);
    for (std::size_t i = 0; i < list.size(); ++i) {
        list[i].sg_list = &sge;
        list[i].next = i + 1 < list.size() ? &list[i + 1] : nullptr;
    }
    if (corrected)
        list.back().send_flags = IBV_SEND_SIGNALED;
    ibv_send_wr *bad_wr = nullptr;
    check(ibv_post_send(local.qp, list.data(), &bad_wr), "post"); // wrong: send-queue-stuck
    if (corrected)
        wait_success(local.send_cq, "the Writes");
}

void unsignaled_wr_sends(const target &target, bool corrected) {
    const endpoint_options options{.extended = true};
    loopback link(target, !corrected, {.requester = options, .responder = options});
    endpoint &local = link.requester;
    ibv_qp_ex *const qp = local.qp_ex();
    const auto source = reinterpret_cast<std::uintptr_t>(local.memory);
    for (std::uint32_t i = 0; i < local.max_send_wr; ++i) {
        const bool has_cqe = is_signaled(i, local.max_send_wr, corrected);
        ibv_wr_start(qp);
        qp->wr_flags = has_cqe ? signaled : unsignaled;
        ibv_wr_rdma_write(qp, link.responder.mr->rkey,
                          reinterpret_cast<std::uintptr_t>(link.responder.memory));
        ibv_wr_set_sge(qp, local.mr->lkey, source, 64); // wrong: send-queue-stuck
        check(ibv_wr_complete(qp), "post");             // wrong: send-queue-stuck
        if (has_cqe)
            wait_success(local.send_cq, "a Write");
    }
}

constexpr std::string_view kind = "send-queue-stuck";
constexpr std::array cases{
    corpus_case{.name = "unsignaled_writes", .kind = kind, .run = unsignaled_writes},
    corpus_case{.name = "unsignaled_list", .kind = kind, .run = unsignaled_list},
    corpus_case{
        .name = "unsignaled_wr_sends", .kind = kind, .run = unsignaled_wr_sends, .needs = extended},
};

} // namespace

std::span<const corpus_case> send_queue_cases() {
    return cases;
}

} // namespace check_corpus

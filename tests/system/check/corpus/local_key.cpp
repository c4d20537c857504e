// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// SGEs with a key that is of no MR.

#include "loopback.hpp"

#include <array>
#include <utility>

namespace check_corpus {

namespace {

constexpr std::uint32_t unknown_key = 0x7fff'ff00;

/// SPDK #3807: after hours, requests complete with a local protection error.
void receive_with_deregistered_mr(const target &target, bool corrected) {
    unconnected side(target);
    endpoint &local = side.local;
    ibv_mr *const mr = local.register_memory();
    ibv_sge sge = local.sge();
    sge.lkey = mr->lkey;
    if (!corrected)
        ibv_dereg_mr(mr);
    recv_request recv(sge);
    ibv_recv_wr *bad_wr = nullptr;
    ibv_post_recv(local.qp, &recv.wr, &bad_wr); // wrong: local-key
    if (corrected) {
        local.destroy_qp();
        ibv_dereg_mr(mr);
    }
}

/// The program counts on inline data, for which a key is not needed, and forgets the flag.
void send_without_inline(const target &target, bool corrected) {
    loopback link(target, true);
    const endpoint &local = link.requester;
    ibv_sge sge = local.sge(16);
    sge.lkey = unknown_key;
    link.responder.post_recv();
    send_request send(IBV_WR_SEND, sge, nullptr,
                      signaled | (corrected ? unsigned{IBV_SEND_INLINE} : 0U));
    ibv_send_wr *bad_wr = nullptr;
    if (ibv_post_send(local.qp, &send.wr, &bad_wr) == 0) // wrong: local-key
        wait_any(local.send_cq, "the message");
}

void wr_send_with_unknown_key(const target &target, bool corrected) {
    const endpoint_options options{.extended = true};
    loopback link(target, true, {.requester = options, .responder = options});
    const endpoint &local = link.requester;
    link.responder.post_recv();
    ibv_qp_ex *const qp = local.qp_ex();
    ibv_wr_start(qp);
    qp->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_send(qp);
    const auto source = reinterpret_cast<std::uintptr_t>(local.memory);
    ibv_wr_set_sge(qp, corrected ? local.mr->lkey : unknown_key, source, 64); // wrong: local-key
    if (ibv_wr_complete(qp) == 0)                                             // wrong: local-key
        wait_any(local.send_cq, "the message");
}

/// The key in network byte order, as it is sent to the peer.
void srq_receive_with_swapped_key(const target &target, bool corrected) {
    unconnected side(target, {.use_srq = true});
    const endpoint &local = side.local;
    ibv_sge sge = local.sge();
    if (!corrected)
        sge.lkey = __builtin_bswap32(sge.lkey);
    recv_request recv(sge);
    ibv_recv_wr *bad_wr = nullptr;
    ibv_post_srq_recv(local.srq, &recv.wr, &bad_wr); // wrong: local-key
}

constexpr std::string_view kind = "local-key";
constexpr std::array cases{
    corpus_case{
        .name = "receive_with_deregistered_mr", .kind = kind, .run = receive_with_deregistered_mr},
    corpus_case{.name = "send_without_inline", .kind = kind, .run = send_without_inline},
    corpus_case{.name = "wr_send_with_unknown_key",
                .kind = kind,
                .run = wr_send_with_unknown_key,
                .needs = extended},
    corpus_case{
        .name = "srq_receive_with_swapped_key", .kind = kind, .run = srq_receive_with_swapped_key},
};

} // namespace

std::span<const corpus_case> local_key_cases() {
    return cases;
}

} // namespace check_corpus

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Programs that take entries of their array for completions that the poll did not return.

#include "loopback.hpp"

#include <array>

namespace check_corpus {

namespace {

constexpr int batch = 4;

void post_receive(const endpoint &local, std::uint64_t wr_id) {
    recv_request recv(local.sge());
    recv.wr.wr_id = wr_id;
    ibv_recv_wr *bad_wr = nullptr;
    check(local.srq != nullptr ? ibv_post_srq_recv(local.srq, &recv.wr, &bad_wr)
                               : ibv_post_recv(local.qp, &recv.wr, &bad_wr),
          "post a receive");
}

/// The loop ends with the array: each buffer of it is posted again.
void repost_whole_array(const target &target, bool corrected) {
    loopback link(target, true);
    const endpoint &local = link.responder;
    for (std::uint64_t i = 0; i < batch; ++i)
        post_receive(local, i);
    link.requester.post_send(IBV_WR_SEND, link.requester.sge(), local);
    let_complete();
    std::array<ibv_wc, batch> wcs{};
    const int count = ibv_poll_cq(local.recv_cq, batch, wcs.data());
    check(count == 1 ? 0 : -1, "one receive");
    for (int i = 0; i < (corrected ? count : 2); ++i) {
        recv_request recv(local.sge());
        recv.wr.wr_id = wcs.at(static_cast<std::size_t>(i)).wr_id;
        ibv_recv_wr *bad_wr = nullptr;
        ibv_post_recv(local.qp, &recv.wr, &bad_wr); // wrong: short-poll
    }
}

/// There is no completion, and the program takes its variable for one.
void repost_without_completion(const target &target, bool corrected) {
    unconnected side(target, {.use_srq = true});
    const endpoint &local = side.local;
    post_receive(local, 7);
    ibv_wc wc{};
    const int count = ibv_poll_cq(local.recv_cq, 1, &wc);
    if (corrected && count == 0)
        return;
    recv_request recv(local.sge());
    recv.wr.wr_id = wc.wr_id;
    ibv_recv_wr *bad_wr = nullptr;
    ibv_post_srq_recv(local.srq, &recv.wr, &bad_wr); // wrong: short-poll
}

/// Correct: the array is longer than what is asked for, and the rest of it is the program's.
void rest_of_array_is_kept(const target &target, bool) {
    unconnected side(target);
    std::array<ibv_wc, batch> wcs{};
    for (ibv_wc &wc : wcs)
        wc.wr_id = 7;
    const int count = ibv_poll_cq(side.local.recv_cq, 2, wcs.data());
    check(count == 0 && wcs[2].wr_id == 7 && wcs[3].wr_id == 7 ? 0 : -1, "the program's entries");
    post_receive(side.local, wcs[3].wr_id);
}

constexpr std::string_view kind = "short-poll";
constexpr std::array cases{
    corpus_case{.name = "repost_whole_array", .kind = kind, .run = repost_whole_array},
    corpus_case{
        .name = "repost_without_completion", .kind = kind, .run = repost_without_completion},
    corpus_case{.name = "rest_of_array_is_kept", .kind = "none", .run = rest_of_array_is_kept},
};

} // namespace

std::span<const corpus_case> poll_cases() {
    return cases;
}

} // namespace check_corpus

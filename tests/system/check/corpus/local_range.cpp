// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// SGEs that are outside of their MR.

#include "loopback.hpp"

#include <array>

namespace check_corpus {

namespace {

/// SPDK #902: the address in the SGE exceeds the MR.
void send_beyond_mr(const target &target, bool corrected) {
    loopback link(target, true);
    const endpoint &local = link.requester;
    link.responder.post_recv(link.responder.sge(128));
    ibv_sge sge = local.sge(64, endpoint::memory_size - (corrected ? 64 : 32));
    send_request send(IBV_WR_SEND, sge);
    ibv_send_wr *bad_wr = nullptr;
    if (ibv_post_send(local.qp, &send.wr, &bad_wr) == 0) // wrong: local-range
        wait_any(local.send_cq, "the message");
}

/// mori PR #509: the offset of the buffer in its region is wrong.
void receive_below_mr(const target &target, bool corrected) {
    unconnected side(target);
    const endpoint &local = side.local;
    constexpr std::size_t offset = 4096;
    ibv_mr *const mr =
        check(ibv_reg_mr(local.pd, local.memory + offset, 4096, full_access), "register");
    ibv_sge sge = local.sge(64, corrected ? offset : 0);
    sge.lkey = mr->lkey;
    recv_request recv(sge);
    ibv_recv_wr *bad_wr = nullptr;
    ibv_post_recv(local.qp, &recv.wr, &bad_wr); // wrong: local-range
    side.local.destroy_qp();
    ibv_dereg_mr(mr);
}

/// The length of the second SGE includes the header, which the first one has.
void second_sge_too_long(const target &target, bool corrected) {
    unconnected side(target, {.use_srq = true});
    const endpoint &local = side.local;
    constexpr std::size_t header = 64;
    const std::size_t length = endpoint::memory_size - (corrected ? header : 0);
    std::array<ibv_sge, 2> list{local.sge(header),
                                local.sge(static_cast<std::uint32_t>(length), header)};
    recv_request recv(list[0]);
    recv.wr.sg_list = list.data();
    recv.wr.num_sge = 2;
    ibv_recv_wr *bad_wr = nullptr;
    ibv_post_srq_recv(local.srq, &recv.wr, &bad_wr); // wrong: local-range
}

/// The MR has its own addresses (ibv_reg_mr_iova), and the SGE has the program's.
void address_instead_of_iova(const target &target, bool corrected) {
    loopback link(target, true);
    const endpoint &local = link.requester;
    constexpr std::uint64_t iova = 0x1000'0000;
    ibv_mr *const mr =
        check(ibv_reg_mr_iova(local.pd, local.memory, endpoint::memory_size, iova, full_access),
              "register");
    ibv_sge sge = local.sge();
    sge.lkey = mr->lkey;
    if (corrected)
        sge.addr = iova;
    link.responder.post_recv();
    send_request send(IBV_WR_SEND, sge);
    ibv_send_wr *bad_wr = nullptr;
    if (ibv_post_send(local.qp, &send.wr, &bad_wr) == 0) // wrong: local-range
        wait_any(local.send_cq, "the message");
    link.requester.destroy_qp();
    ibv_dereg_mr(mr);
}

void wr_write_beyond_mr(const target &target, bool corrected) {
    const endpoint_options options{.extended = true};
    loopback link(target, true, {.requester = options, .responder = options});
    const endpoint &local = link.requester;
    ibv_qp_ex *const qp = local.qp_ex();
    const std::uint32_t length = endpoint::memory_size + (corrected ? 0 : 1);
    ibv_wr_start(qp);
    qp->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_rdma_write(qp, link.responder.mr->rkey,
                      reinterpret_cast<std::uintptr_t>(link.responder.memory));
    const auto source = reinterpret_cast<std::uintptr_t>(local.memory);
    ibv_wr_set_sge(qp, local.mr->lkey, source, length); // wrong: local-range
    if (ibv_wr_complete(qp) == 0)                       // wrong: local-range
        wait_any(local.send_cq, "the Write");
}

constexpr std::string_view kind = "local-range";
constexpr std::array cases{
    corpus_case{.name = "send_beyond_mr", .kind = kind, .run = send_beyond_mr},
    corpus_case{.name = "receive_below_mr", .kind = kind, .run = receive_below_mr},
    corpus_case{.name = "second_sge_too_long", .kind = kind, .run = second_sge_too_long},
    corpus_case{.name = "address_instead_of_iova",
                .kind = kind,
                .run = address_instead_of_iova,
                .needs = rxe},
    corpus_case{.name = "wr_write_beyond_mr",
                .kind = kind,
                .run = wr_write_beyond_mr,
                .needs = extended,
                .also = "remote-range"},
};

} // namespace

std::span<const corpus_case> local_range_cases() {
    return cases;
}

} // namespace check_corpus

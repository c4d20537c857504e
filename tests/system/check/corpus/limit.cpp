// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What Soft-RoCE takes, and EFA and mlx5 devices do not.

#include "../../lib/modify_qp.hpp"
#include "loopback.hpp"

#include <array>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

namespace check_corpus {

namespace {

constexpr std::size_t message_size = 64;

/// A UD QP that sends to its own device; the messages have no receive, and are lost.
struct datagrams {
    device dev;
    ibv_pd *pd;
    ibv_ah *ah;
    ibv_cq *cq;
    std::array<std::byte, message_size> memory{};
    ibv_mr *mr;
    ibv_qp *qp = nullptr;

    explicit datagrams(const target &target)
        : dev(target)
        , pd(check(ibv_alloc_pd(dev.context), "PD"))
        , cq(check(ibv_create_cq(dev.context, 16, nullptr, nullptr, 0), "CQ"))
        , mr(check(ibv_reg_mr(pd, memory.data(), memory.size(), full_access), "MR")) {
        ibv_ah_attr attr = verbs_test::make_loopback_ah_attr(dev.gid, dev.gid_index);
        ah = check(ibv_create_ah(pd, &attr), "AH");
    }
    datagrams(const datagrams &) = delete;
    datagrams &operator=(const datagrams &) = delete;
    ~datagrams() {
        if (qp != nullptr)
            ibv_destroy_qp(qp);
        ibv_destroy_ah(ah);
        ibv_dereg_mr(mr);
        ibv_destroy_cq(cq);
        ibv_dealloc_pd(pd);
    }

    ibv_qp_init_attr qp_attr(ibv_qp_type type = IBV_QPT_UD) const {
        ibv_qp_init_attr attr{};
        attr.qp_type = type;
        attr.send_cq = attr.recv_cq = cq;
        attr.cap = {8, 8, 31, 1, message_size};
        return attr;
    }
    void create_qp() {
        ibv_qp_init_attr attr = qp_attr();
        qp = check(ibv_create_qp(pd, &attr), "QP");
        verbs_test::modify_qp_to_init(qp, full_access);
        const ibv_ah_attr unused{};
        verbs_test::modify_qp_to_rtr(qp, 0, unused, 0);
        verbs_test::modify_qp_to_rts(qp, 0, 0, 0);
    }

    /// A message of so many parts of the same length.
    struct message {
        std::vector<ibv_sge> sges;
        ibv_send_wr wr{};
    };
    message make_message(std::size_t num_sges, std::uint32_t length, unsigned flags) const {
        message made;
        made.sges.assign(num_sges,
                         {reinterpret_cast<std::uintptr_t>(memory.data()), length, mr->lkey});
        made.wr.sg_list = made.sges.data();
        made.wr.num_sge = static_cast<int>(num_sges);
        made.wr.opcode = IBV_WR_SEND;
        made.wr.send_flags = flags;
        made.wr.wr.ud = {ah, qp->qp_num, verbs_test::loopback_qkey};
        return made;
    }
};

/// The pieces of a message are more than the 30 of mlx5.
void send_of_many_pieces(const target &target, bool corrected) {
    datagrams local(target);
    local.create_qp();
    datagrams::message sent = local.make_message(corrected ? 30 : 31, 1, signaled);
    ibv_send_wr *bad_wr = nullptr;
    check(ibv_post_send(local.qp, &sent.wr, &bad_wr), "post"); // wrong: device-limit
    wait_success(local.cq, "the Send");
}

void long_inline_data(const target &target, bool corrected) {
    datagrams local(target);
    local.create_qp();
    datagrams::message sent =
        local.make_message(1, corrected ? 32 : 33, IBV_SEND_SIGNALED | IBV_SEND_INLINE);
    ibv_send_wr *bad_wr = nullptr;
    check(ibv_post_send(local.qp, &sent.wr, &bad_wr), "post"); // wrong: device-limit
    wait_success(local.cq, "the Send");
}

/// Every second send is signaled.
void unsignaled_datagram(const target &target, bool corrected) {
    datagrams local(target);
    local.create_qp();
    ibv_send_wr *bad_wr = nullptr;
    datagrams::message first = local.make_message(1, 8, corrected ? signaled : unsignaled);
    check(ibv_post_send(local.qp, &first.wr, &bad_wr), "post"); // wrong: device-limit
    datagrams::message second = local.make_message(1, 8, signaled);
    check(ibv_post_send(local.qp, &second.wr, &bad_wr), "post");
    for (int i = 0; i < (corrected ? 2 : 1); ++i)
        wait_success(local.cq, "the Send");
}

void connected_qp(const target &target, bool corrected) {
    datagrams local(target);
    ibv_qp_init_attr attr = local.qp_attr(corrected ? IBV_QPT_UD : IBV_QPT_RC);
    local.qp = check(ibv_create_qp(local.pd, &attr), "QP"); // wrong: device-limit
}

void shared_receive_queue(const target &target, bool corrected) {
    const datagrams local(target);
    if (corrected)
        return;
    ibv_srq_init_attr attr{};
    attr.attr = {8, 1, 0};
    ibv_srq *const srq = check(ibv_create_srq(local.pd, &attr), "SRQ"); // wrong: device-limit
    ibv_destroy_srq(srq);
}

/// More Reads at a time than the 16 of mlx5; but what the device says is right.
void many_reads(const target &target, bool corrected) {
    datagrams local(target);
    ibv_device_attr device_attr{};
    check(ibv_query_device(local.dev.context, &device_attr), "query the device");
    ibv_qp_init_attr attr = local.qp_attr(IBV_QPT_RC);
    local.qp = check(ibv_create_qp(local.pd, &attr), "QP");
    verbs_test::modify_qp_to_init(local.qp, full_access);
    ibv_qp_attr qp_attr{};
    qp_attr.qp_state = IBV_QPS_RTR;
    qp_attr.path_mtu = IBV_MTU_1024;
    qp_attr.dest_qp_num = local.qp->qp_num;
    qp_attr.ah_attr = verbs_test::make_loopback_ah_attr(local.dev.gid, local.dev.gid_index);
    qp_attr.max_dest_rd_atomic =
        corrected ? static_cast<std::uint8_t>(device_attr.max_qp_rd_atom) : std::uint8_t{32};
    ibv_modify_qp(local.qp, &qp_attr, // wrong: device-limit
                  IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                      IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
}

/// A send that the device refuses, for it names more SGEs than a QP can have: the program's array
/// has fewer.
void refused_inline_data(const target &target, bool) {
    datagrams local(target);
    local.create_qp();
    const auto page_size = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    void *const pages =
        mmap(nullptr, 2 * page_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    check(pages != MAP_FAILED ? 0 : -1, "memory");
    auto *const end = static_cast<std::byte *>(pages) + page_size;
    check(mprotect(end, page_size, PROT_NONE), "protect");
    datagrams::message sent = local.make_message(1, 1, signaled | IBV_SEND_INLINE);
    sent.wr.sg_list = reinterpret_cast<ibv_sge *>(end) - 1;
    *sent.wr.sg_list = sent.sges.front();
    sent.wr.num_sge = 1000;
    ibv_send_wr *bad_wr = nullptr;
    if (ibv_post_send(local.qp, &sent.wr, &bad_wr) == 0)
        throw failure("the send was not refused");
    munmap(pages, 2 * page_size);
}

constexpr std::string_view kind = "device-limit";
constexpr std::array cases{
    corpus_case{.name = "refused_inline_data",
                .kind = "none",
                .run = refused_inline_data,
                .needs = rxe | coherdma, // the stock one reads all SGEs, too
                .options = "as=efa"},
    corpus_case{.name = "send_of_many_pieces",
                .kind = kind,
                .run = send_of_many_pieces,
                .needs = rxe,
                .options = "as=mlx5"},
    corpus_case{.name = "long_inline_data",
                .kind = kind,
                .run = long_inline_data,
                .needs = rxe,
                .options = "as=efa"},
    corpus_case{.name = "unsignaled_datagram",
                .kind = kind,
                .run = unsignaled_datagram,
                .needs = rxe,
                .options = "as=efa"},
    corpus_case{.name = "connected_qp",
                .kind = kind,
                .run = connected_qp,
                .needs = rxe,
                .options = "as=efa"},
    corpus_case{.name = "shared_receive_queue",
                .kind = kind,
                .run = shared_receive_queue,
                .needs = rxe,
                .options = "as=efa"},
    corpus_case{
        .name = "many_reads", .kind = kind, .run = many_reads, .needs = rxe, .options = "as=mlx5"},
};

} // namespace

std::span<const corpus_case> limit_cases() {
    return cases;
}

} // namespace check_corpus

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Our driver for rxe, through the real libibverbs, against a kernel played by this program: what it
// writes, command by command; what it makes of errors, of which none may leave anything behind; and
// what of lies, of which none may lead it out of a ring.

#include "played_life.hpp"
#include "played_rxe.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>

namespace {

using played::command;
using played::nothing_left;
using kernel = played::rxe_kernel;
namespace rxe = coherdma::provider::rxe;

// One of each, and taken down again.
class life : public played::life {
  public:
    ibv_mw *mw = nullptr;
    ibv_ah *ah = nullptr;

    explicit life(kernel &in)
        : played::life(in) {
        ibv_ah_attr where{};
        where.port_num = 1;
        ibv_srq_attr larger{};
        larger.max_wr = 30;
        make_domain() && made(mw = ibv_alloc_mw(pd, IBV_MW_TYPE_2)) &&
            made(ah = ibv_create_ah(pd, &where)) && make_queues() && did(ibv_resize_cq(cq, 40)) &&
            did(ibv_modify_srq(srq, &larger, IBV_SRQ_MAX_WR)) && to(IBV_QPS_INIT) &&
            to(IBV_QPS_RTR) && to(IBV_QPS_RTS);
    }
    void end() {
        end_queues();
        gone(ah, ibv_destroy_ah);
        gone(mw, ibv_dealloc_mw);
        end_domain();
    }
};

void each_object_by_its_commands(void **) {
    kernel in;
    life all(in);
    assert_int_equal(all.error, 0);
    assert_int_equal(in.rings(), 10);
    std::size_t all_bytes = 0;
    for (std::size_t ring = 0; ring < in.rings(); ++ring)
        all_bytes += in.size(ring);
    assert_int_equal(in.mapped(), all_bytes - in.size(0) - in.size(2)); // exchanged for larger ones
    all.end();
    nothing_left(in);
    // The longer forms of two of them have the same number.
    constexpr std::array<std::uint32_t, 26> script{
        IB_USER_VERBS_CMD_GET_CONTEXT, IB_USER_VERBS_CMD_ALLOC_PD,    IB_USER_VERBS_CMD_REG_MR,
        IB_USER_VERBS_CMD_ALLOC_MW,    IB_USER_VERBS_CMD_CREATE_AH,   IB_USER_VERBS_CMD_CREATE_CQ,
        IB_USER_VERBS_CMD_CREATE_CQ,   IB_USER_VERBS_CMD_CREATE_SRQ,  IB_USER_VERBS_CMD_CREATE_QP,
        IB_USER_VERBS_CMD_CREATE_QP,   IB_USER_VERBS_CMD_CREATE_QP,   IB_USER_VERBS_CMD_RESIZE_CQ,
        IB_USER_VERBS_CMD_MODIFY_SRQ,  IB_USER_VERBS_CMD_MODIFY_QP,   IB_USER_VERBS_CMD_MODIFY_QP,
        IB_USER_VERBS_CMD_MODIFY_QP,   IB_USER_VERBS_CMD_DESTROY_QP,  IB_USER_VERBS_CMD_DESTROY_QP,
        IB_USER_VERBS_CMD_DESTROY_QP,  IB_USER_VERBS_CMD_DESTROY_SRQ, IB_USER_VERBS_CMD_DESTROY_CQ,
        IB_USER_VERBS_CMD_DESTROY_CQ,  IB_USER_VERBS_CMD_DESTROY_AH,  IB_USER_VERBS_CMD_DEALLOC_MW,
        IB_USER_VERBS_CMD_DEREG_MR,    IB_USER_VERBS_CMD_DEALLOC_PD};
    assert_int_equal(in.heard.size(), script.size());
    for (std::size_t place = 0; place < in.heard.size(); ++place)
        assert_int_equal(in.heard[place].number & ~played::extended, script[place]);
}

void fields_are_those_asked_for(void **) {
    kernel in;
    life all(in);
    const auto mr = in.heard[2].as<ib_uverbs_reg_mr>();
    assert_int_equal(mr.start, reinterpret_cast<std::uintptr_t>(all.memory.data()));
    assert_int_equal(mr.hca_va, mr.start);
    assert_int_equal(mr.length, all.memory.size());
    assert_int_equal(mr.pd_handle, all.pd->handle);
    assert_int_equal(mr.access_flags, IBV_ACCESS_LOCAL_WRITE);
    assert_int_equal(all.mr->lkey, 0x11);
    assert_int_equal(all.mr->rkey, 0x22);
    assert_int_equal(in.heard[3].as<ib_uverbs_alloc_mw>().mw_type, IBV_MW_TYPE_2);
    assert_int_equal(in.heard[5].as<ib_uverbs_create_cq>().cqe, 20);
    const auto pair = in.heard[8].as<ib_uverbs_create_qp>();
    assert_int_equal(pair.pd_handle, all.pd->handle);
    assert_int_equal(pair.send_cq_handle, all.cq->handle);
    assert_int_equal(pair.recv_cq_handle, all.cq->handle);
    assert_int_equal(pair.max_send_wr, 6);
    assert_int_equal(pair.max_recv_wr, 5);
    assert_int_equal(pair.max_send_sge, 4);
    assert_int_equal(pair.max_recv_sge, 3);
    assert_int_equal(pair.max_inline_data, 48);
    assert_int_equal(pair.sq_sig_all, 1);
    assert_int_equal(pair.qp_type, IBV_QPT_RC);
    assert_int_equal(pair.is_srq, 0);
    const auto sharing = in.heard[9].as<ib_uverbs_create_qp>();
    assert_int_equal(sharing.is_srq, 1);
    assert_int_equal(sharing.srq_handle, all.srq->handle);
    assert_int_equal(all.qp->qp_num, 0x123456);
    const auto resized = in.heard[11].as<ib_uverbs_resize_cq>();
    assert_int_equal(resized.cq_handle, all.cq->handle);
    assert_int_equal(resized.cqe, 40);
    const auto to_rts = in.heard[15].as<ib_uverbs_modify_qp>();
    assert_int_equal(to_rts.qp_handle, all.qp->handle);
    assert_int_equal(to_rts.attr_mask, IBV_QP_STATE);
    assert_int_equal(to_rts.qp_state, IBV_QPS_RTS);
    all.end();
    nothing_left(in);
}

void an_error_at_any_command_leaves_nothing(void **) {
    std::size_t commands = 0;
    {
        kernel in;
        life all(in);
        all.end();
        commands = in.heard.size();
    }
    for (std::size_t fails = 0; fails < commands; ++fails) {
        kernel in;
        in.fails = fails;
        life all(in);
        all.end();
        if (all.error != in.error)
            std::fprintf(stderr, "command %zu fails: errno %d\n", fails, all.error);
        assert_int_equal(all.error, in.error);
        nothing_left(in);
    }
}

void a_lie_about_any_ring_is_an_error_and_leaves_nothing(void **) {
    std::size_t rings = 0;
    {
        kernel in;
        life all(in);
        all.end();
        rings = in.rings();
    }
    using lie = void (*)(rxe::place &, rxe::ring_head &);
    constexpr std::array<lie, 8> lies{
        [](rxe::place &where, rxe::ring_head &) { where.size = 0; },
        [](rxe::place &where, rxe::ring_head &) { where.size = sizeof(rxe::ring_head); },
        [](rxe::place &where, rxe::ring_head &) { where.offset += 1; },
        [](rxe::place &where, rxe::ring_head &) { where.offset = ~std::uint64_t{0} - 4095; },
        [](rxe::place &, rxe::ring_head &head) { head.mask = 0xffffffff; },
        [](rxe::place &, rxe::ring_head &head) { head.mask -= 1; },
        [](rxe::place &, rxe::ring_head &head) { head.log2_slot = 2; },
        [](rxe::place &, rxe::ring_head &head) {
            head.log2_slot = 70;
        }};
    for (const lie each : lies)
        for (std::size_t which = 0; which < rings; ++which) {
            kernel in;
            std::size_t count = 0;
            in.lie = [&](rxe::place &where, rxe::ring_head &head) {
                if (count++ == which)
                    each(where, head);
            };
            life all(in);
            assert_true(all.error == EPROTO || all.error == EINVAL);
            all.end();
            nothing_left(in);
        }
}

ibv_send_wr write_of(const life &of, ibv_sge &piece) {
    piece = {reinterpret_cast<std::uintptr_t>(of.memory.data()), 24, of.mr->lkey};
    ibv_send_wr request{};
    request.wr_id = 0x1122334455667788;
    request.sg_list = &piece;
    request.num_sge = 1;
    request.opcode = IBV_WR_RDMA_WRITE;
    request.send_flags = IBV_SEND_SIGNALED;
    request.wr.rdma.remote_addr = 0xabcd0123;
    request.wr.rdma.rkey = 0x77;
    return request;
}

void a_doorbell_is_32_bytes_and_an_arming_16(void **) {
    kernel in;
    life all(in);
    ibv_sge piece{};
    ibv_send_wr request = write_of(all, piece), second = request, *bad = nullptr;
    request.next = &second;
    in.heard.clear();
    assert_int_equal(ibv_post_send(all.qp, &request, &bad), 0);
    assert_int_equal(in.heard.size(), 1);
    const command &rung = in.heard[0];
    assert_int_equal(rung.number, IB_USER_VERBS_CMD_POST_SEND);
    assert_int_equal(rung.bytes.size(), 32 - sizeof(ib_uverbs_cmd_hdr));
    assert_int_not_equal(rung.response, 0);
    const auto doorbell = rung.as<ib_uverbs_post_send>();
    assert_int_equal(doorbell.qp_handle, all.qp->handle);
    assert_int_equal(doorbell.wr_count, 0);
    assert_int_equal(doorbell.sge_count, 0);
    assert_in_range(doorbell.wqe_size, sizeof(ib_uverbs_send_wr), 4096);
    for (const int solicited : {0, 1}) {
        in.heard.clear();
        assert_int_equal(ibv_req_notify_cq(all.cq, solicited), 0);
        assert_int_equal(in.heard.size(), 1);
        assert_int_equal(in.heard[0].number, IB_USER_VERBS_CMD_REQ_NOTIFY_CQ);
        assert_int_equal(in.heard[0].bytes.size(), 16 - sizeof(ib_uverbs_cmd_hdr));
        const auto arming = in.heard[0].as<ib_uverbs_req_notify_cq>();
        assert_int_equal(arming.cq_handle, all.cq->handle);
        assert_int_equal(arming.solicited_only, solicited);
    }
    all.end();
    nothing_left(in);
}

void a_doorbell_that_is_refused_is_an_error(void **) {
    kernel in;
    life all(in);
    ibv_sge piece{};
    ibv_send_wr request = write_of(all, piece), *bad = nullptr;
    in.heard.clear();
    in.fails = 0;
    assert_int_equal(ibv_post_send(all.qp, &request, &bad), ENOSPC);
    assert_ptr_equal(bad, &request);
    in.heard.clear(); // the short command to arm fails, libibverbs' own is tried
    assert_int_equal(ibv_req_notify_cq(all.cq, 0), 0);
    assert_int_equal(in.heard.size(), 2);
    all.end();
    nothing_left(in);
}

// The last ring of a pair is that of its requests to send.
constexpr std::size_t receives_of_pair = 3, sends_of_pair = 4, queue_of_all = 8;

unsigned char *slot_of(const kernel &in, std::size_t ring, std::uint32_t number) {
    rxe::ring_head &head = in.ring(ring);
    return reinterpret_cast<unsigned char *>(&head + 1) + (std::size_t{number} << head.log2_slot);
}

void slots_say_all_that_the_kernel_reads(void **) {
    kernel in;
    life all(in);
    rxe::ring_head &head = in.ring(sends_of_pair);
    std::memset(slot_of(in, sends_of_pair, 0), 0xff, std::size_t{1} << head.log2_slot);
    ibv_sge piece{};
    ibv_send_wr request = write_of(all, piece), *bad = nullptr;
    assert_int_equal(ibv_post_send(all.qp, &request, &bad), 0);
    assert_int_equal(head.producer, 1);
    rxe::send_slot is{};
    std::memcpy(&is, slot_of(in, sends_of_pair, 0), sizeof is);
    assert_int_equal(is.id, request.wr_id);
    assert_int_equal(is.opcode, IBV_WR_RDMA_WRITE);
    assert_int_equal(is.flags, IBV_SEND_SIGNALED);
    assert_int_equal(is.to.memory.address, 0xabcd0123);
    assert_int_equal(is.to.memory.key, 0x77);
    assert_int_equal(is.remote, 0xabcd0123);
    assert_int_equal(is.status, 0);
    assert_int_equal(is.state, 0);
    assert_int_equal(is.counts_as_read, 0);
    assert_int_equal(is.data.length, 24);
    assert_int_equal(is.data.left, 24);
    assert_int_equal(is.data.piece, 0);
    assert_int_equal(is.data.pieces, 1);
    assert_int_equal(is.data.offset, 0);
    assert_memory_equal(slot_of(in, sends_of_pair, 0) + sizeof is, &piece, sizeof piece);
    ibv_recv_wr receive{9, nullptr, &piece, 1}, *bad_receive = nullptr;
    in.heard.clear();
    assert_int_equal(ibv_post_recv(all.qp, &receive, &bad_receive), 0);
    assert_int_equal(in.heard.size(), 0);
    rxe::receive_slot taken{};
    std::memcpy(&taken, slot_of(in, receives_of_pair, 0), sizeof taken);
    assert_int_equal(taken.id, 9);
    assert_int_equal(taken.data.length, 24);
    assert_int_equal(taken.data.left, 24);
    assert_int_equal(taken.data.pieces, 1);
    assert_int_equal(in.ring(receives_of_pair).producer, 1);
    all.end();
    nothing_left(in);
}

// A ring's memory as it is, to see what was written to it.
std::vector<unsigned char> image(const kernel &in, std::size_t ring) {
    const auto *const bytes = reinterpret_cast<const unsigned char *>(&in.ring(ring));
    return {bytes, bytes + in.size(ring)};
}

// Whatever the kernel's index is and whatever is in the slots, polling ends, stays within what it
// was given, and writes nothing to the ring but what is the program's.
void completions_that_are_nonsense_do_no_harm(void **) {
    kernel in;
    life all(in);
    rxe::ring_head &head = in.ring(queue_of_all);
    for (std::uint32_t round = 0; round < 2000; ++round) {
        const std::uint32_t nonsense = (round + 1) * 2654435761U;
        for (std::uint32_t number = 0; number <= head.mask; ++number)
            std::memset(slot_of(in, queue_of_all, number), static_cast<int>(nonsense >> 24U), 64);
        head.producer = nonsense >> (round % 32);
        auto before = image(in, queue_of_all);
        std::array<ibv_wc, 6> some;
        std::memset(some.data(), 0x5a, sizeof some);
        const auto guard = some[5];
        const int got = ibv_poll_cq(all.cq, 5, some.data());
        assert_in_range(got, 0, 5);
        assert_memory_equal(&some[5], &guard, sizeof guard);
        assert_true(head.consumer <= head.mask);
        std::memcpy(&before.at(offsetof(rxe::ring_head, consumer)), &head.consumer, 4);
        auto after = image(in, queue_of_all);
        // The last byte of a completion means nothing to the kernel; the driver may mark those
        // there.
        for (std::size_t slot = 0; slot <= head.mask; ++slot) {
            const std::size_t last = sizeof head + slot * 64 + sizeof(rxe::completion_slot) - 1;
            before.at(last) = after.at(last) = 0;
        }
        assert_true(before == after);
    }
    all.end();
    nothing_left(in);
}

// Whatever the kernel's index is, requests are written to slots, and nothing else but the one
// index.
void requests_stay_in_their_slots(void **) {
    kernel in;
    life all(in);
    ibv_sge piece{};
    ibv_send_wr request = write_of(all, piece), *bad = nullptr;
    ibv_recv_wr receive{9, nullptr, &piece, 1}, *bad_receive = nullptr;
    for (const std::size_t ring : {sends_of_pair, receives_of_pair}) {
        rxe::ring_head &head = in.ring(ring);
        const std::size_t slots = std::size_t{head.mask + 1} << head.log2_slot;
        const std::size_t behind = sizeof head + slots;
        std::memset(slot_of(in, ring, 0) + slots, 0x5a, in.size(ring) - behind);
        for (const std::uint32_t nonsense : {0U, 3U, 8U, 1000U, 0x80000000U, 0xffffffffU}) {
            head.consumer = nonsense;
            auto before = image(in, ring);
            int error = 0;
            for (int times = 0; times < 50 && error == 0; ++times)
                error = ring == sends_of_pair ? ibv_post_send(all.qp, &request, &bad)
                                              : ibv_post_recv(all.qp, &receive, &bad_receive);
            assert_int_equal(error, ENOMEM);
            assert_true(head.producer <= head.mask);
            std::memcpy(&before.at(offsetof(rxe::ring_head, producer)), &head.producer, 4);
            const auto after = image(in, ring);
            const auto same = [&](std::size_t from, std::size_t to) {
                return std::memcmp(&before.at(from), &after.at(from), to - from) == 0;
            };
            assert_true(same(0, sizeof head));
            assert_true(same(behind, before.size()));
        }
    }
    all.end();
    nothing_left(in);
}

// Of a pair that was reset the kernel has dropped all requests; it goes on where the kernel is.
void a_pair_that_is_reset_goes_on_where_the_kernel_is(void **) {
    kernel in;
    life all(in);
    ibv_sge piece{};
    ibv_send_wr request = write_of(all, piece), *bad = nullptr;
    rxe::ring_head &head = in.ring(sends_of_pair);
    for (int times = 0; times < 5; ++times)
        assert_int_equal(ibv_post_send(all.qp, &request, &bad), 0);
    head.consumer = head.producer;
    assert_true(all.to(IBV_QPS_RESET));
    in.heard.clear();
    assert_int_equal(ibv_post_send(all.qp, &request, &bad), EINVAL);
    assert_ptr_equal(bad, &request);
    assert_int_equal(in.heard.size(), 0);
    assert_int_equal(head.producer, 5);
    assert_true(all.to(IBV_QPS_INIT) && all.to(IBV_QPS_RTR) && all.to(IBV_QPS_RTS));
    for (std::uint32_t times = 0; times < head.mask; ++times)
        assert_int_equal(ibv_post_send(all.qp, &request, &bad), 0);
    assert_int_equal(ibv_post_send(all.qp, &request, &bad), ENOMEM);
    assert_int_equal(head.producer, (5 + head.mask) & head.mask);
    all.end();
    nothing_left(in);
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(each_object_by_its_commands),
        cmocka_unit_test(fields_are_those_asked_for),
        cmocka_unit_test(an_error_at_any_command_leaves_nothing),
        cmocka_unit_test(a_lie_about_any_ring_is_an_error_and_leaves_nothing),
        cmocka_unit_test(a_doorbell_is_32_bytes_and_an_arming_16),
        cmocka_unit_test(a_doorbell_that_is_refused_is_an_error),
        cmocka_unit_test(slots_say_all_that_the_kernel_reads),
        cmocka_unit_test(completions_that_are_nonsense_do_no_harm),
        cmocka_unit_test(requests_stay_in_their_slots),
        cmocka_unit_test(a_pair_that_is_reset_goes_on_where_the_kernel_is),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Posting on siw, against a played kernel: what is in the slots, when it is given to the kernel,
// and when the doorbell is rung.

#include "played_siw_life.hpp"

#include <array>
#include <atomic>
#include <cerrno>
#include <pthread.h>
#include <sched.h>

namespace {

using namespace played;
using kernel = siw_kernel;
using life = siw_life;

// What was there before means nothing.
void litter(const kernel &in, std::size_t ring) {
    for (std::uint32_t number = 0; number < in.slots(ring); ++number) {
        std::memset(&in.send(ring, number), 0xa8, sizeof(siw_sqe));
        in.send(ring, number).flags = 0;
    }
}

bool is_piece(const siw_sge &slot, const ibv_sge &piece) {
    return slot.laddr == piece.addr && slot.length == piece.length && slot.lkey == piece.lkey;
}

void slots_say_all_that_the_kernel_reads(void **) {
    kernel in;
    life all(in);
    litter(in, sends);
    wish write(all, IBV_WR_RDMA_WRITE, 1), with_inv(all, IBV_WR_SEND_WITH_INV, 2);
    wish read(all, IBV_WR_RDMA_READ, 3), send(all, IBV_WR_SEND, 4);
    with_inv.is.invalidate_rkey = 0x99;
    with_inv.is.send_flags = IBV_SEND_SOLICITED;
    std::array<ibv_sge, 4> pieces{write.piece, read.piece, write.piece, send.piece};
    pieces[2].addr += 100;
    pieces[3].length = 0;
    send.is.sg_list = pieces.data();
    send.is.num_sge = 4;
    write.is.next = &with_inv.is;
    with_inv.is.next = &read.is;
    assert_int_equal(write.post(all.qp), 0);
    for (std::uint32_t number = 0; number < 3; ++number) {
        const siw_sqe &is = in.send(sends, number);
        assert_int_equal(is.id, number + 1);
        assert_int_equal(is.num_sge, 1);
        assert_true(is_piece(is.sge[0], write.piece));
        assert_int_equal(is.flags, number == 1
                                       ? SIW_WQE_VALID | SIW_WQE_SIGNALLED | SIW_WQE_SOLICITED
                                       : SIW_WQE_VALID | SIW_WQE_SIGNALLED);
        assert_int_equal(is.rkey, number == 1 ? 0x99 : 0x77);
        if (number != 1)
            assert_int_equal(is.raddr, 0xabcd0123);
    }
    assert_int_equal(in.send(sends, 0).opcode, SIW_OP_WRITE);
    assert_int_equal(in.send(sends, 1).opcode, SIW_OP_SEND_REMOTE_INV);
    assert_int_equal(in.send(sends, 2).opcode, SIW_OP_READ);
    litter(in, sends_by_parts);
    assert_int_equal(send.post(all.by_parts), 0);
    const siw_sqe &is = in.send(sends_by_parts, 0);
    assert_int_equal(is.opcode, SIW_OP_SEND);
    assert_int_equal(is.flags, SIW_WQE_VALID); // this pair does not signal all
    assert_int_equal(is.num_sge, 4);
    for (std::size_t each = 0; each < pieces.size(); ++each)
        assert_true(is_piece(is.sge[each], pieces[each]));
    all.end();
    nothing_left(in);
}

void inline_data_are_in_the_slot(void **) {
    kernel in;
    life all(in);
    for (std::size_t each = 0; each < all.memory.size(); ++each)
        all.memory[each] = static_cast<unsigned char>(each);
    litter(in, sends_by_parts);
    wish send(all, IBV_WR_SEND);
    std::array<ibv_sge, 2> pieces{send.piece, send.piece};
    pieces[0].length = 30;
    pieces[1].addr += 30;
    pieces[1].length = SIW_MAX_INLINE - 30;
    send.is.send_flags = IBV_SEND_INLINE;
    send.is.sg_list = pieces.data();
    send.is.num_sge = 2;
    assert_int_equal(send.post(all.by_parts), 0);
    const siw_sqe &is = in.send(sends_by_parts, 0);
    assert_int_equal(is.flags, SIW_WQE_VALID | SIW_WQE_INLINE);
    assert_int_equal(is.num_sge, 1);
    assert_int_equal(is.sge[0].length, SIW_MAX_INLINE);
    assert_memory_equal(&is.sge[1], all.memory.data(), SIW_MAX_INLINE);
    pieces[1].length += 1; // it would be in the next slot
    assert_int_equal(send.post(all.by_parts), EINVAL);
    pieces[0].length = pieces[1].length = 0;
    assert_int_equal(send.post(all.by_parts), 0);
    assert_int_equal(in.send(sends_by_parts, 1).flags, SIW_WQE_VALID);
    assert_int_equal(in.send(sends_by_parts, 1).num_sge, 0);
    send.is.opcode = IBV_WR_SEND_WITH_INV;
    assert_int_equal(send.post(all.by_parts), EINVAL);
    assert_int_equal(in.send(sends_by_parts, 2).flags, 0);
    all.end();
    nothing_left(in);
}

void receives_need_no_command(void **) {
    kernel in;
    life all(in);
    in.heard.clear();
    ibv_sge piece{reinterpret_cast<std::uintptr_t>(all.memory.data()), 24, all.mr->lkey};
    std::array<ibv_sge, 4> pieces{piece, piece, piece, piece};
    ibv_recv_wr receive{9, nullptr, pieces.data(), 2}, *bad = nullptr;
    for (const std::size_t ring : {receives, shared_receives}) {
        std::memset(&in.receive(ring, 0), 0xa8, sizeof(siw_rqe));
        in.receive(ring, 0).flags = 0;
        const auto post = [&] {
            return ring == receives ? ibv_post_recv(all.qp, &receive, &bad)
                                    : ibv_post_srq_recv(all.srq, &receive, &bad);
        };
        for (const int count : {4, -1}) {
            receive.num_sge = count;
            assert_int_equal(post(), EINVAL);
            assert_ptr_equal(bad, &receive);
            assert_int_equal(in.receive(ring, 0).flags, 0);
        }
        receive.num_sge = 2;
        for (std::uint32_t number = 0; number < in.slots(ring); ++number) {
            assert_int_equal(post(), 0);
            const siw_rqe &is = in.receive(ring, number);
            assert_int_equal(is.id, 9);
            assert_int_equal(is.flags, SIW_WQE_VALID);
            assert_int_equal(is.num_sge, 2);
            assert_true(is_piece(is.sge[0], piece) && is_piece(is.sge[1], piece));
        }
        assert_int_equal(post(), ENOMEM);
        in.receive(ring, 0).flags = 0;
        assert_int_equal(post(), 0);
    }
    assert_int_equal(ibv_post_recv(all.sharing, &receive, &bad), EINVAL);
    assert_int_equal(in.heard.size(), 0);
    all.end();
    nothing_left(in);
}

void the_doorbell_is_32_bytes_and_left_out_if_the_kernel_comes_anyhow(void **) {
    kernel in;
    life all(in);
    in.heard.clear();
    assert_int_equal(post_write(all, all.qp, 1), 0);
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
    assert_int_equal(post_write(all, all.qp, 2), 0); // the one before is still there
    assert_int_equal(in.heard.size(), 1);
    empty(in, sends);
    assert_int_equal(post_write(all, all.qp, 3), 0);
    assert_int_equal(in.heard.size(), 2);
    empty(in, sends);
    // A list that fills the ring: what is before its first is its last.
    wish more(all, IBV_WR_RDMA_WRITE);
    std::array<ibv_send_wr, 8> list{};
    for (std::size_t each = 0; each < list.size(); ++each) {
        list[each] = more.is;
        list[each].next = each + 1 < list.size() ? &list[each + 1] : nullptr;
    }
    assert_int_equal(ibv_post_send(all.qp, list.data(), &more.bad), 0);
    assert_int_equal(in.heard.size(), 3);
    assert_int_equal(post_write(all, all.qp, 4), ENOMEM);
    assert_int_equal(in.heard.size(), 3);
    all.end();
    nothing_left(in);
}

void what_is_refused_leaves_nothing_valid(void **) {
    kernel in;
    life all(in);
    in.heard.clear();
    for (const int error : {ENOTCONN, EBADF}) {
        bool was_there = false;
        in.rung = [&](std::uint32_t) {
            was_there = (in.send(sends, 0).flags & in.send(sends, 1).flags & SIW_WQE_VALID) != 0;
            return error;
        };
        wish first(all, IBV_WR_RDMA_WRITE), second(all, IBV_WR_SEND);
        first.is.next = &second.is;
        assert_int_equal(first.post(all.qp), error == ENOTCONN ? EINVAL : error);
        assert_ptr_equal(first.bad, &first.is);
        assert_true(was_there);
        assert_true(is_empty(in, sends));
    }
    assert_int_equal(in.heard.size(), 2);
    in.rung = nullptr;
    const auto refused = [&](auto make_bad) {
        wish bad(all, IBV_WR_RDMA_WRITE);
        make_bad(bad);
        assert_int_equal(bad.post(all.qp), EINVAL);
        assert_ptr_equal(bad.bad, &bad.is);
    };
    refused([](wish &bad) { bad.is.opcode = IBV_WR_ATOMIC_CMP_AND_SWP; });
    refused([](wish &bad) { bad.is.opcode = IBV_WR_SEND_WITH_IMM; });
    refused([](wish &bad) { bad.is.opcode = IBV_WR_DRIVER1; });
    refused([](wish &bad) { bad.is.num_sge = -1; });
    refused([](wish &bad) { bad.is.num_sge = 5; });
    refused([](wish &bad) { bad.is.opcode = IBV_WR_RDMA_READ, bad.is.num_sge = 0; });
    in.peer_allows_reads = 0;
    refused([](wish &bad) { bad.is.opcode = IBV_WR_RDMA_READ; });
    assert_true(is_empty(in, sends));
    // What is before the bad one is posted.
    wish good(all, IBV_WR_RDMA_WRITE, 5), bad(all, IBV_WR_RDMA_READ);
    good.is.next = &bad.is;
    assert_int_equal(good.post(all.qp), EINVAL);
    assert_ptr_equal(good.bad, &bad.is);
    assert_int_equal(in.send(sends, 0).id, 5);
    assert_true((in.send(sends, 0).flags & SIW_WQE_VALID) != 0);
    assert_int_equal(in.send(sends, 1).flags, 0);
    assert_int_equal(in.heard.back().number, IB_USER_VERBS_CMD_POST_SEND);
    all.end();
    nothing_left(in);
}

void only_what_is_behind_a_read_waits_for_it(void **) {
    kernel in;
    life all(in);
    in.rung = [&](std::uint32_t) {
        empty(in, sends_by_parts);
        return 0;
    };
    std::uint32_t number = 0;
    const auto flags = [&](ibv_wr_opcode opcode, unsigned wanted) {
        wish one(all, opcode);
        one.is.send_flags = wanted;
        unsigned seen = 0;
        in.rung = [&](std::uint32_t) {
            seen = in.send(sends_by_parts, number).flags;
            in.send(sends_by_parts, number).flags = 0;
            return 0;
        };
        assert_int_equal(one.post(all.by_parts), 0);
        ++number;
        in.rung = nullptr;
        return seen & ~unsigned{SIW_WQE_VALID};
    };
    for (int round = 0; round < 3; ++round) { // once over the end of the ring
        assert_int_equal(flags(IBV_WR_RDMA_WRITE, 0), 0);
        assert_int_equal(flags(IBV_WR_RDMA_READ, IBV_SEND_FENCE | IBV_SEND_SIGNALED),
                         SIW_WQE_SIGNALLED);
        assert_int_equal(flags(IBV_WR_RDMA_READ, 0), 0);
        assert_int_equal(flags(IBV_WR_SEND, 0), SIW_WQE_READ_FENCE);
        assert_int_equal(flags(IBV_WR_SEND, 0), 0);
        assert_int_equal(flags(IBV_WR_RDMA_WRITE, IBV_SEND_FENCE), SIW_WQE_READ_FENCE);
    }
    all.end();
    nothing_left(in);
}

void by_parts_all_is_given_with_the_end(void **) {
    kernel in;
    life all(in);
    ibv_qp_ex *const qp = ibv_qp_to_qp_ex(all.by_parts);
    wish like(all, IBV_WR_RDMA_WRITE);
    assert_null(qp->wr_rdma_write); // it was not asked for
    litter(in, sends_by_parts);
    in.heard.clear();
    const auto fill = [&] {
        ibv_wr_start(qp);
        qp->wr_id = 1;
        qp->wr_flags = IBV_SEND_SIGNALED;
        ibv_wr_send(qp);
        ibv_wr_set_sge(qp, like.piece.lkey, like.piece.addr, like.piece.length);
        qp->wr_id = 2;
        qp->wr_flags = IBV_SEND_SOLICITED;
        ibv_wr_send(qp);
        ibv_wr_set_inline_data(qp, all.memory.data(), 20);
        assert_int_equal(in.send(sends_by_parts, 0).id, 1);
        assert_int_equal(in.send(sends_by_parts, 1).id, 2);
        assert_true(is_empty(in, sends_by_parts));
    };
    fill();
    ibv_wr_abort(qp);
    fill();
    ibv_wr_set_inline_data(qp, all.memory.data(), SIW_MAX_INLINE + 1);
    assert_int_equal(ibv_wr_complete(qp), EINVAL);
    assert_true(is_empty(in, sends_by_parts));
    assert_int_equal(in.heard.size(), 0);
    in.rung = [](std::uint32_t) {
        return ENOTCONN;
    };
    fill();
    assert_int_equal(ibv_wr_complete(qp), EINVAL);
    assert_true(is_empty(in, sends_by_parts));
    in.rung = nullptr;
    fill();
    assert_int_equal(ibv_wr_complete(qp), 0);
    assert_int_equal(in.heard.size(), 2);
    const siw_sqe &first = in.send(sends_by_parts, 0), &second = in.send(sends_by_parts, 1);
    assert_int_equal(first.opcode, SIW_OP_SEND);
    assert_int_equal(first.flags, SIW_WQE_VALID | SIW_WQE_SIGNALLED);
    assert_int_equal(first.num_sge, 1);
    assert_true(is_piece(first.sge[0], like.piece));
    assert_int_equal(second.opcode, SIW_OP_SEND);
    assert_int_equal(second.flags, SIW_WQE_VALID | SIW_WQE_SOLICITED | SIW_WQE_INLINE);
    assert_int_equal(second.num_sge, 1);
    assert_int_equal(second.sge[0].length, 20);
    assert_memory_equal(&second.sge[1], all.memory.data(), 20);
    all.end();
    nothing_left(in);
}

// VALID comes last: a kernel on another processor that takes a request as soon as it is there finds
// all of it. Of a read the kernel is asked in between, so there it is seen for certain.
void the_kernel_sees_whole_requests(void **) {
    kernel in;
    life all(in);
    int asked = 0;
    in.queried = [&] {
        asked += in.send(sends, 0).flags == 0 && in.send(sends, 0).num_sge == 1 ? 1 : 100;
    };
    assert_int_equal(wish(all, IBV_WR_RDMA_READ).post(all.qp), 0);
    assert_int_equal(asked, 1);
    constexpr std::uint32_t times = 20000;
    struct side {
        const kernel &in;
        std::uint32_t wrong = 0;
        std::atomic<bool> given_up = false;
    } other{in};
    empty(in, sends);
    pthread_t thread{};
    const auto take = [](void *given) -> void * {
        auto &is = *static_cast<side *>(given);
        for (std::uint32_t number = 1; number <= times; ++number) {
            siw_sqe &slot = is.in.send(sends, number);
            const std::atomic_ref flags(slot.flags);
            for (int spins = 1; flags.load(std::memory_order_acquire) == 0; ++spins) {
                if (is.given_up)
                    return nullptr;
                if (spins % 100 == 0)
                    sched_yield();
            }
            const bool whole = slot.id == number && slot.rkey == number && slot.num_sge == 1 &&
                               slot.raddr == number && slot.sge[0].length == number;
            is.wrong += whole ? 0 : 1;
            flags.store(0, std::memory_order_release);
        }
        return nullptr;
    };
    assert_int_equal(pthread_create(&thread, nullptr, take, &other), 0);
    wish one(all, IBV_WR_RDMA_WRITE);
    int error = 0, patience = 1000000;
    for (std::uint32_t number = 1; number <= times && patience != 0;) {
        one.is.wr_id = one.is.wr.rdma.rkey = one.piece.length = number;
        one.is.wr.rdma.remote_addr = number;
        error = one.post(all.qp);
        if (error == 0)
            ++number;
        else if (--patience != 0)
            sched_yield();
    }
    other.given_up = error != 0;
    assert_int_equal(pthread_join(thread, nullptr), 0);
    assert_int_equal(error, 0);
    assert_int_equal(other.wrong, 0);
    all.end();
    nothing_left(in);
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(slots_say_all_that_the_kernel_reads),
        cmocka_unit_test(inline_data_are_in_the_slot),
        cmocka_unit_test(receives_need_no_command),
        cmocka_unit_test(the_doorbell_is_32_bytes_and_left_out_if_the_kernel_comes_anyhow),
        cmocka_unit_test(what_is_refused_leaves_nothing_valid),
        cmocka_unit_test(only_what_is_behind_a_read_waits_for_it),
        cmocka_unit_test(by_parts_all_is_given_with_the_end),
        cmocka_unit_test(the_kernel_sees_whole_requests),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}

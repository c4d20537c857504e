// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Posting on siw with a fake kernel: the contents of SQEs and RQEs, and the doorbells.

#include "siw_objects.hpp"

#include <array>
#include <atomic>
#include <cerrno>
#include <pthread.h>
#include <sched.h>
#include <unistd.h>
#include <vector>

namespace {

using namespace fake;

// Leaves the flags 0, as in a ring that was used before.
void fill_with_garbage(const siw_kernel &kernel, std::size_t ring) {
    for (std::uint32_t number = 0; number < kernel.num_entries(ring); ++number) {
        std::memset(&kernel.sqe(ring, number), 0xa8, sizeof(siw_sqe));
        kernel.sqe(ring, number).flags = 0;
    }
}

bool is_equal_sge(const siw_sge &posted, const ibv_sge &sge) {
    return posted.laddr == sge.addr && posted.length == sge.length && posted.lkey == sge.lkey;
}

void sqe_has_all_fields_read_by_kernel(siw_kernel &kernel, siw_objects &objects) {
    fill_with_garbage(kernel, sq_ring);
    send_wr write(objects, IBV_WR_RDMA_WRITE, 1), with_inv(objects, IBV_WR_SEND_WITH_INV, 2);
    send_wr read(objects, IBV_WR_RDMA_READ, 3), send(objects, IBV_WR_SEND, 4);
    with_inv.wr.invalidate_rkey = 0x99;
    with_inv.wr.send_flags = IBV_SEND_SOLICITED;
    std::array<ibv_sge, 4> sges{write.sge, read.sge, write.sge, send.sge};
    sges[2].addr += 100;
    sges[3].length = 0;
    send.wr.sg_list = sges.data();
    send.wr.num_sge = 4;
    write.wr.next = &with_inv.wr;
    with_inv.wr.next = &read.wr;
    assert_int_equal(write.post(objects.qp), 0);
    for (std::uint32_t number = 0; number < 3; ++number) {
        const siw_sqe &sqe = kernel.sqe(sq_ring, number);
        assert_int_equal(sqe.id, number + 1);
        assert_int_equal(sqe.num_sge, 1);
        assert_true(is_equal_sge(sqe.sge[0], write.sge));
        assert_int_equal(sqe.flags, number == 1
                                        ? SIW_WQE_VALID | SIW_WQE_SIGNALLED | SIW_WQE_SOLICITED
                                        : SIW_WQE_VALID | SIW_WQE_SIGNALLED);
        assert_int_equal(sqe.rkey, number == 1 ? 0x99 : wr_rkey);
        if (number != 1)
            assert_int_equal(sqe.raddr, wr_remote_addr);
    }
    assert_int_equal(kernel.sqe(sq_ring, 0).opcode, SIW_OP_WRITE);
    assert_int_equal(kernel.sqe(sq_ring, 1).opcode, SIW_OP_SEND_REMOTE_INV);
    assert_int_equal(kernel.sqe(sq_ring, 2).opcode, SIW_OP_READ);
    fill_with_garbage(kernel, ex_sq_ring);
    assert_int_equal(send.post(objects.qp_ex), 0);
    const siw_sqe &sqe = kernel.sqe(ex_sq_ring, 0);
    assert_int_equal(sqe.opcode, SIW_OP_SEND);
    assert_int_equal(sqe.flags, SIW_WQE_VALID); // sq_sig_all is 0
    assert_int_equal(sqe.num_sge, 4);
    for (std::size_t i = 0; i < sges.size(); ++i)
        assert_true(is_equal_sge(sqe.sge[i], sges[i]));
    // The kernel reads the first SGE of a Read of no bytes, too.
    send_wr empty_read(objects, IBV_WR_RDMA_READ);
    empty_read.wr.num_sge = 0;
    assert_int_equal(empty_read.post(objects.qp), 0);
    assert_int_equal(kernel.sqe(sq_ring, 3).num_sge, 0);
    assert_true(is_equal_sge(kernel.sqe(sq_ring, 3).sge[0], {}));
}

// Inline data begins in the place of the second SGE, with its length in the first.
void inline_data_is_copied_into_sqe(siw_kernel &kernel, siw_objects &objects) {
    for (std::size_t i = 0; i < objects.memory.size(); ++i)
        objects.memory[i] = static_cast<unsigned char>(i);
    fill_with_garbage(kernel, ex_sq_ring);
    send_wr send(objects, IBV_WR_SEND);
    std::array<ibv_sge, 2> sges{send.sge, send.sge};
    sges[0].length = 30;
    sges[1].addr += 30;
    sges[1].length = SIW_MAX_INLINE - 30;
    send.wr.send_flags = IBV_SEND_INLINE;
    send.wr.sg_list = sges.data();
    send.wr.num_sge = 2;
    assert_int_equal(send.post(objects.qp_ex), 0);
    const siw_sqe &sqe = kernel.sqe(ex_sq_ring, 0);
    assert_int_equal(sqe.flags, SIW_WQE_VALID | SIW_WQE_INLINE);
    assert_int_equal(sqe.num_sge, 1);
    assert_int_equal(sqe.sge[0].length, SIW_MAX_INLINE);
    assert_memory_equal(&sqe.sge[1], objects.memory.data(), SIW_MAX_INLINE);
    sges[1].length += 1; // exceeds max_inline_data
    assert_int_equal(send.post(objects.qp_ex), EINVAL);
    sges[0].length = sges[1].length = 0;
    assert_int_equal(send.post(objects.qp_ex), 0);
    assert_int_equal(kernel.sqe(ex_sq_ring, 1).flags, SIW_WQE_VALID);
    assert_int_equal(kernel.sqe(ex_sq_ring, 1).num_sge, 0);
    send.wr.opcode = IBV_WR_SEND_WITH_INV;
    assert_int_equal(send.post(objects.qp_ex), EINVAL);
    assert_int_equal(kernel.sqe(ex_sq_ring, 2).flags, 0);
}

// Nor does ibv_post_srq_recv: the kernel reads the ring when a message arrives.
void post_recv_rings_no_doorbell(siw_kernel &kernel, siw_objects &objects) {
    kernel.commands.clear();
    ibv_sge sge{reinterpret_cast<std::uintptr_t>(objects.memory.data()), wr_length,
                objects.mr->lkey};
    std::array<ibv_sge, 4> sges{sge, sge, sge, sge};
    ibv_recv_wr wr{9, nullptr, sges.data(), 2}, *bad_wr = nullptr;
    for (const std::size_t ring : {rq_ring, srq_ring}) {
        std::memset(&kernel.rqe(ring, 0), 0xa8, sizeof(siw_rqe));
        kernel.rqe(ring, 0).flags = 0;
        const auto post = [&] {
            return ring == rq_ring ? ibv_post_recv(objects.qp, &wr, &bad_wr)
                                   : ibv_post_srq_recv(objects.srq, &wr, &bad_wr);
        };
        for (const int count : {4, -1}) { // above max_recv_sge; invalid
            wr.num_sge = count;
            assert_int_equal(post(), EINVAL);
            assert_ptr_equal(bad_wr, &wr);
            assert_int_equal(kernel.rqe(ring, 0).flags, 0);
        }
        wr.num_sge = 2;
        for (std::uint32_t number = 0; number < kernel.num_entries(ring); ++number) {
            assert_int_equal(post(), 0);
            const siw_rqe &rqe = kernel.rqe(ring, number);
            assert_int_equal(rqe.id, 9);
            assert_int_equal(rqe.flags, SIW_WQE_VALID);
            assert_int_equal(rqe.num_sge, 2);
            assert_true(is_equal_sge(rqe.sge[0], sge) && is_equal_sge(rqe.sge[1], sge));
        }
        assert_int_equal(post(), ENOMEM);
        kernel.rqe(ring, 0).flags = 0;
        assert_int_equal(post(), 0);
    }
    assert_int_equal(ibv_post_recv(objects.srq_qp, &wr, &bad_wr), EINVAL);
    assert_int_equal(kernel.commands.size(), 0);
}

void doorbell_is_skipped_while_sqes_are_pending(siw_kernel &kernel, siw_objects &objects) {
    kernel.commands.clear();
    assert_int_equal(post_write(objects, objects.qp, 1), 0);
    assert_int_equal(kernel.commands.size(), 1);
    assert_doorbell(kernel.commands[0], objects.qp);
    assert_int_equal(post_write(objects, objects.qp, 2), 0); // the SQE before is pending
    assert_int_equal(kernel.commands.size(), 1);
    consume_sqes(kernel, sq_ring);
    assert_int_equal(post_write(objects, objects.qp, 3), 0);
    assert_int_equal(kernel.commands.size(), 2);
    consume_sqes(kernel, sq_ring);
    // A list that fills the ring: the SQE before its first is its last.
    send_wr write(objects, IBV_WR_RDMA_WRITE);
    std::array<ibv_send_wr, 8> wr_list{};
    for (std::size_t i = 0; i < wr_list.size(); ++i) {
        wr_list[i] = write.wr;
        wr_list[i].next = i + 1 < wr_list.size() ? &wr_list[i + 1] : nullptr;
    }
    assert_int_equal(ibv_post_send(objects.qp, wr_list.data(), &write.bad_wr), 0);
    assert_int_equal(kernel.commands.size(), 3);
    assert_int_equal(post_write(objects, objects.qp, 4), ENOMEM);
    assert_int_equal(kernel.commands.size(), 3);
}

/// Whether the driver has moved a QP to ERR.
bool has_modified_qp(const siw_kernel &kernel) {
    return kernel.count_commands(IB_USER_VERBS_CMD_MODIFY_QP) != 0;
}

// A post during the first doorbell leaves it to that thread, which rings once more. A post during
// the second doorbell rings itself.
void thread_that_rings_does_so_once_more_for_others(siw_kernel &kernel, siw_objects &objects) {
    assert_int_equal(post_write(objects, objects.qp, 1), 0);
    consume_sqes(kernel, sq_ring);
    std::vector<int> begun; // the doorbells, in the order of their begin and end
    kernel.on_doorbell = [&](std::uint32_t) {
        const int number = static_cast<int>(begun.size()) + 1;
        begun.push_back(number);
        consume_sqes(kernel, sq_ring);
        if (number <= 2)
            assert_int_equal(post_write(objects, objects.qp, 2), 0);
        assert_int_equal(begun.size(), number == 2 ? 3 : number); // the second contains the third
        return 0;
    };
    assert_int_equal(post_write(objects, objects.qp, 2), 0);
    assert_int_equal(begun.size(), 3);
    assert_true(is_sq_empty(kernel, sq_ring));
}

void doorbell_that_fails_for_others_is_retried(siw_kernel &kernel, siw_objects &objects) {
    assert_int_equal(post_write(objects, objects.qp, 1), 0);
    consume_sqes(kernel, sq_ring);
    kernel.commands.clear();
    int num_doorbells = 0;
    kernel.on_doorbell = [&](std::uint32_t) {
        ++num_doorbells;
        if (num_doorbells == 2)
            return ENOTCONN;
        consume_sqes(kernel, sq_ring);
        if (num_doorbells == 1)
            assert_int_equal(post_write(objects, objects.qp, 3), 0);
        return 0;
    };
    assert_int_equal(post_write(objects, objects.qp, 2), 0);
    assert_int_equal(num_doorbells, 3);
    assert_true(is_sq_empty(kernel, sq_ring));
    assert_false(has_modified_qp(kernel));
}

// The kernel returns ENOTCONN in RTS, too, as long as a thread modifies the QP.
void doorbell_is_retried_while_qp_is_in_rts(siw_kernel &kernel, siw_objects &objects) {
    assert_int_equal(post_write(objects, objects.qp, 1), 0);
    consume_sqes(kernel, sq_ring);
    kernel.commands.clear();
    int num_refusals = 100;
    kernel.on_doorbell = [&](std::uint32_t) {
        if (num_refusals-- > 0)
            return ENOTCONN;
        consume_sqes(kernel, sq_ring);
        return 0;
    };
    assert_int_equal(post_write(objects, objects.qp, 2), 0);
    assert_true(is_sq_empty(kernel, sq_ring));
    assert_false(has_modified_qp(kernel));
    // The state changes meanwhile: the connection is closed.
    num_refusals = 100;
    int num_queries = 0;
    kernel.on_query_qp = [&] {
        kernel.state = ++num_queries == 5 ? IBV_QPS_INIT : IBV_QPS_RTS;
    };
    assert_int_equal(post_write(objects, objects.qp, 3), 0);
    assert_true(has_modified_qp(kernel));
    assert_true(num_refusals > 80);
}

// Kernels before 6.8 do not set the state that they report: it may be RTS in any state.
void doorbell_is_not_retried_forever(siw_kernel &kernel, siw_objects &objects) {
    assert_int_equal(post_write(objects, objects.qp, 1), 0);
    consume_sqes(kernel, sq_ring);
    kernel.commands.clear();
    kernel.on_doorbell = [](std::uint32_t) {
        return ENOTCONN;
    };
    kernel.on_query_qp = [] {
        usleep(10'000);
    };
    assert_int_equal(post_write(objects, objects.qp, 2), 0);
    assert_true(has_modified_qp(kernel));
}

// The driver clears the SQEs that it has published before a failed doorbell, so that the kernel
// does not execute WRs whose post has failed.
void failed_post_leaves_no_valid_sqe(siw_kernel &kernel, siw_objects &objects) {
    kernel.max_dest_rd_atomic = 0; // as before a connection
    for (const int error : {ENOTCONN, EBADF}) {
        bool published = false;
        kernel.on_doorbell = [&](std::uint32_t) {
            published =
                (kernel.sqe(sq_ring, 0).flags & kernel.sqe(sq_ring, 1).flags & SIW_WQE_VALID) != 0;
            return error;
        };
        send_wr first(objects, IBV_WR_RDMA_WRITE), second(objects, IBV_WR_SEND);
        first.wr.next = &second.wr;
        assert_int_equal(first.post(objects.qp), error == ENOTCONN ? EINVAL : error);
        assert_ptr_equal(first.bad_wr, &first.wr);
        assert_true(published);
        assert_true(is_sq_empty(kernel, sq_ring));
    }
    kernel.max_dest_rd_atomic = 1;
    kernel.on_doorbell = nullptr;
    const auto assert_refused = [&](auto invalidate) {
        send_wr bad(objects, IBV_WR_RDMA_WRITE);
        invalidate(bad);
        assert_int_equal(bad.post(objects.qp), EINVAL);
        assert_ptr_equal(bad.bad_wr, &bad.wr);
    };
    assert_refused([](send_wr &bad) { bad.wr.opcode = IBV_WR_ATOMIC_CMP_AND_SWP; });
    assert_refused([](send_wr &bad) { bad.wr.opcode = IBV_WR_SEND_WITH_IMM; });
    assert_refused([](send_wr &bad) { bad.wr.opcode = IBV_WR_DRIVER1; });
    assert_refused([](send_wr &bad) { bad.wr.num_sge = -1; });
    assert_refused([](send_wr &bad) { bad.wr.num_sge = 5; });
    assert_refused([](send_wr &bad) { bad.wr.opcode = IBV_WR_RDMA_READ, bad.wr.num_sge = 2; });
    kernel.max_dest_rd_atomic = 0;
    assert_refused([](send_wr &bad) { bad.wr.opcode = IBV_WR_RDMA_READ; });
    assert_true(is_sq_empty(kernel, sq_ring));
    // The WRs before the bad one are posted.
    send_wr good(objects, IBV_WR_RDMA_WRITE, 5), bad(objects, IBV_WR_RDMA_READ);
    good.wr.next = &bad.wr;
    assert_int_equal(good.post(objects.qp), EINVAL);
    assert_ptr_equal(good.bad_wr, &bad.wr);
    assert_int_equal(kernel.sqe(sq_ring, 0).id, 5);
    assert_true((kernel.sqe(sq_ring, 0).flags & SIW_WQE_VALID) != 0);
    assert_int_equal(kernel.sqe(sq_ring, 1).flags, 0);
    assert_int_equal(kernel.commands.back().number, IB_USER_VERBS_CMD_POST_SEND);
}

// A WR completes before an earlier Read unless its SQE has the flag. The driver sets it in the
// first WR after Reads, and for IBV_SEND_FENCE, but never in a Read, which it would delay.
void only_wr_after_read_has_read_fence(siw_kernel &kernel, siw_objects &objects) {
    std::uint32_t number = 0; // of the SQE
    const auto post_and_get_flags = [&](ibv_wr_opcode opcode, unsigned send_flags) {
        send_wr posted(objects, opcode);
        posted.wr.send_flags = send_flags;
        unsigned sqe_flags = 0;
        kernel.on_doorbell = [&](std::uint32_t) {
            sqe_flags = kernel.sqe(ex_sq_ring, number).flags;
            kernel.sqe(ex_sq_ring, number).flags = 0; // consumes it
            return 0;
        };
        assert_int_equal(posted.post(objects.qp_ex), 0);
        ++number;
        kernel.on_doorbell = nullptr;
        return sqe_flags & ~unsigned{SIW_WQE_VALID};
    };
    for (int round = 0; round < 3; ++round) { // wraps around the ring once
        assert_int_equal(post_and_get_flags(IBV_WR_RDMA_WRITE, 0), 0);
        assert_int_equal(post_and_get_flags(IBV_WR_RDMA_READ, IBV_SEND_FENCE | IBV_SEND_SIGNALED),
                         SIW_WQE_SIGNALLED);
        assert_int_equal(post_and_get_flags(IBV_WR_RDMA_READ, 0), 0);
        assert_int_equal(post_and_get_flags(IBV_WR_SEND, 0), SIW_WQE_READ_FENCE);
        assert_int_equal(post_and_get_flags(IBV_WR_SEND, 0), 0);
        assert_int_equal(post_and_get_flags(IBV_WR_RDMA_WRITE, IBV_SEND_FENCE), SIW_WQE_READ_FENCE);
    }
}

void wr_complete_publishes_all_wrs(siw_kernel &kernel, siw_objects &objects) {
    ibv_qp_ex *const qp = ibv_qp_to_qp_ex(objects.qp_ex);
    const ibv_sge sge = send_wr(objects, IBV_WR_SEND).sge;
    assert_null(qp->wr_rdma_write); // not in send_ops_flags
    fill_with_garbage(kernel, ex_sq_ring);
    kernel.commands.clear();
    const auto build_wrs = [&] {
        ibv_wr_start(qp);
        qp->wr_id = 1;
        qp->wr_flags = IBV_SEND_SIGNALED;
        ibv_wr_send(qp);
        ibv_wr_set_sge(qp, sge.lkey, sge.addr, sge.length);
        qp->wr_id = 2;
        qp->wr_flags = IBV_SEND_SOLICITED;
        ibv_wr_send(qp);
        ibv_wr_set_inline_data(qp, objects.memory.data(), 20);
        assert_int_equal(kernel.sqe(ex_sq_ring, 0).id, 1);
        assert_int_equal(kernel.sqe(ex_sq_ring, 1).id, 2);
        assert_true(is_sq_empty(kernel, ex_sq_ring));
    };
    build_wrs();
    ibv_wr_abort(qp);
    build_wrs();
    ibv_wr_set_inline_data(qp, objects.memory.data(), SIW_MAX_INLINE + 1);
    assert_int_equal(ibv_wr_complete(qp), EINVAL);
    assert_true(is_sq_empty(kernel, ex_sq_ring));
    assert_int_equal(kernel.commands.size(), 0);
    kernel.max_dest_rd_atomic = 0; // as before a connection
    kernel.on_doorbell = [](std::uint32_t) {
        return ENOTCONN;
    };
    build_wrs();
    assert_int_equal(ibv_wr_complete(qp), EINVAL);
    assert_true(is_sq_empty(kernel, ex_sq_ring));
    kernel.on_doorbell = nullptr;
    build_wrs();
    assert_int_equal(ibv_wr_complete(qp), 0);
    assert_int_equal(kernel.count_commands(IB_USER_VERBS_CMD_POST_SEND), 2);
    const siw_sqe &first = kernel.sqe(ex_sq_ring, 0), &second = kernel.sqe(ex_sq_ring, 1);
    assert_int_equal(first.opcode, SIW_OP_SEND);
    assert_int_equal(first.flags, SIW_WQE_VALID | SIW_WQE_SIGNALLED);
    assert_int_equal(first.num_sge, 1);
    assert_true(is_equal_sge(first.sge[0], sge));
    assert_int_equal(second.opcode, SIW_OP_SEND);
    assert_int_equal(second.flags, SIW_WQE_VALID | SIW_WQE_SOLICITED | SIW_WQE_INLINE);
    assert_int_equal(second.num_sge, 1);
    assert_int_equal(second.sge[0].length, 20);
    assert_memory_equal(&second.sge[1], objects.memory.data(), 20);
}

// A kernel on another CPU may consume an SQE as soon as VALID is set. A Read queries the QP after
// its SGE is written, which shows the order in every run; the thread shows it for all fields.
void valid_flag_is_published_last(siw_kernel &kernel, siw_objects &objects) {
    int queries = 0;
    kernel.on_query_qp = [&] {
        queries +=
            kernel.sqe(sq_ring, 0).flags == 0 && kernel.sqe(sq_ring, 0).num_sge == 1 ? 1 : 100;
    };
    assert_int_equal(send_wr(objects, IBV_WR_RDMA_READ).post(objects.qp), 0);
    assert_int_equal(queries, 1);
    constexpr std::uint32_t num_wrs = 20000;
    struct sqe_reader {
        const siw_kernel &kernel;
        std::uint32_t num_incomplete = 0;
        std::atomic<bool> stop = false;
    } reader{kernel};
    consume_sqes(kernel, sq_ring);
    pthread_t thread{};
    const auto read_sqes = [](void *arg) -> void * {
        auto &context = *static_cast<sqe_reader *>(arg);
        for (std::uint32_t number = 1; number <= num_wrs; ++number) {
            siw_sqe &sqe = context.kernel.sqe(sq_ring, number);
            const std::atomic_ref flags(sqe.flags);
            for (int spins = 1; flags.load(std::memory_order_acquire) == 0; ++spins) {
                if (context.stop)
                    return nullptr;
                if (spins % 100 == 0)
                    sched_yield();
            }
            const bool is_complete = sqe.id == number && sqe.rkey == number && sqe.num_sge == 1 &&
                                     sqe.raddr == number && sqe.sge[0].length == number;
            context.num_incomplete += is_complete ? 0 : 1;
            flags.store(0, std::memory_order_release);
        }
        return nullptr;
    };
    assert_int_equal(pthread_create(&thread, nullptr, read_sqes, &reader), 0);
    send_wr write(objects, IBV_WR_RDMA_WRITE);
    int error = 0;
    for (std::uint32_t number = 1; number <= num_wrs && (error == 0 || error == ENOMEM);) {
        write.wr.wr_id = write.wr.wr.rdma.rkey = write.sge.length = number;
        write.wr.wr.rdma.remote_addr = number;
        error = write.post(objects.qp);
        if (error == 0)
            ++number;
        else
            sched_yield(); // the ring is full
    }
    reader.stop = error != 0;
    assert_int_equal(pthread_join(thread, nullptr), 0);
    assert_int_equal(error, 0);
    assert_int_equal(reader.num_incomplete, 0);
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        objects_unit_test(sqe_has_all_fields_read_by_kernel),
        objects_unit_test(inline_data_is_copied_into_sqe),
        objects_unit_test(post_recv_rings_no_doorbell),
        objects_unit_test(doorbell_is_skipped_while_sqes_are_pending),
        objects_unit_test(thread_that_rings_does_so_once_more_for_others),
        objects_unit_test(doorbell_that_fails_for_others_is_retried),
        objects_unit_test(doorbell_is_retried_while_qp_is_in_rts),
        objects_unit_test(doorbell_is_not_retried_forever),
        objects_unit_test(failed_post_leaves_no_valid_sqe),
        objects_unit_test(only_wr_after_read_has_read_fence),
        objects_unit_test(wr_complete_publishes_all_wrs),
        objects_unit_test(valid_flag_is_published_last),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}

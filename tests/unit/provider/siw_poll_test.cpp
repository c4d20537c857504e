// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Completions on siw with a fake kernel: the translation of CQEs, and the flush of a QP in error.

#include "siw_objects.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

namespace {

using namespace fake;

siw_cqe make_cqe(const ibv_qp *qp, std::uint64_t id, std::uint16_t status = SIW_WC_SUCCESS,
                 std::uint8_t opcode = SIW_OP_WRITE) {
    siw_cqe cqe{};
    cqe.id = id;
    cqe.opcode = opcode;
    cqe.status = status;
    cqe.bytes = wr_length;
    cqe.qp_id = qp->qp_num;
    return cqe;
}

// Polls num_entries at a time, until the CQ is empty. Returns all completions.
std::vector<ibv_wc> poll(ibv_cq *cq, int num_entries = 1) {
    std::vector<ibv_wc> polled, wcs(static_cast<std::size_t>(num_entries));
    for (int count = 0;
         (count = ibv_poll_cq(cq, num_entries, wcs.data())) > 0 && polled.size() < 100;)
        polled.insert(polled.end(), wcs.begin(), wcs.begin() + count);
    return polled;
}

// Polls the next CQE with ibv_start_poll(). Returns false if there is none.
bool poll_ex(ibv_cq_ex *cq, ibv_wc &wc) {
    ibv_poll_cq_attr attr{};
    if (ibv_start_poll(cq, &attr) != 0)
        return false;
    wc.wr_id = cq->wr_id;
    wc.status = cq->status;
    wc.opcode = ibv_wc_read_opcode(cq);
    wc.byte_len = ibv_wc_read_byte_len(cq);
    wc.qp_num = ibv_wc_read_qp_num(cq);
    wc.wc_flags = ibv_wc_read_wc_flags(cq);
    ibv_end_poll(cq);
    return true;
}

// Counts the commands that modify the QP to the error state.
std::size_t count_err_commands(const siw_kernel &kernel, const ibv_qp *qp) {
    std::size_t count = 0;
    for (const command &cmd : kernel.commands) {
        const auto modify = cmd.read<ib_uverbs_modify_qp>();
        if (cmd.number == IB_USER_VERBS_CMD_MODIFY_QP && modify.qp_handle == qp->handle &&
            modify.attr_mask == IBV_QP_STATE && modify.qp_state == IBV_QPS_ERR)
            ++count;
    }
    return count;
}

bool is_cq_empty(const siw_kernel &kernel, std::size_t ring) {
    bool empty = true;
    for (std::uint32_t number = 0; number < kernel.num_entries(ring); ++number)
        empty = empty && kernel.entry<siw_cqe>(ring, number).flags == 0;
    return empty;
}

// From the numbers of siw, by ibv_poll_cq() and by ibv_start_poll().
void status_and_opcode_are_translated(siw_kernel &kernel, siw_objects &objects) {
    constexpr std::array statuses{
        // by siw's status; the last is unknown
        IBV_WC_SUCCESS,         IBV_WC_LOC_LEN_ERR,  IBV_WC_LOC_PROT_ERR,   IBV_WC_LOC_QP_OP_ERR,
        IBV_WC_WR_FLUSH_ERR,    IBV_WC_BAD_RESP_ERR, IBV_WC_LOC_ACCESS_ERR, IBV_WC_REM_ACCESS_ERR,
        IBV_WC_REM_INV_REQ_ERR, IBV_WC_GENERAL_ERR,  IBV_WC_GENERAL_ERR};
    constexpr std::array<std::pair<std::uint8_t, ibv_wc_opcode>, 7> opcodes{
        {{SIW_OP_WRITE, IBV_WC_RDMA_WRITE},
         {SIW_OP_READ, IBV_WC_RDMA_READ},
         {SIW_OP_READ_LOCAL_INV, IBV_WC_RDMA_READ},
         {SIW_OP_SEND, IBV_WC_SEND},
         {SIW_OP_SEND_WITH_IMM, IBV_WC_SEND},
         {SIW_OP_SEND_REMOTE_INV, IBV_WC_SEND},
         {SIW_OP_RECEIVE, IBV_WC_RECV}}};
    const auto assert_wc = [&](const ibv_wc &wc, std::size_t status, ibv_wc_opcode opcode) {
        assert_int_equal(wc.wr_id, 100 + status);
        assert_int_equal(wc.status, statuses.at(status));
        assert_int_equal(wc.opcode, opcode);
        assert_int_equal(wc.byte_len, wr_length);
        assert_int_equal(wc.qp_num, objects.qp->qp_num);
        assert_int_equal(wc.wc_flags, 0);
    };
    for (std::size_t status = 0; status < statuses.size(); ++status)
        for (const auto &[siw_opcode, verbs_opcode] : opcodes) {
            const siw_cqe cqe =
                make_cqe(objects.qp, 100 + status, static_cast<std::uint16_t>(status), siw_opcode);
            kernel.add_cqe(cq_ring, cqe);
            kernel.add_cqe(cq_ex_ring, cqe);
            const auto wcs = poll(objects.cq);
            assert_int_equal(wcs.size(), 1);
            assert_wc(wcs[0], status, verbs_opcode);
            ibv_wc wc{};
            assert_true(poll_ex(objects.cq_ex, wc));
            assert_wc(wc, status, verbs_opcode);
            assert_false(poll_ex(objects.cq_ex, wc));
        }
}

void cqes_are_polled_in_order_across_wrap(siw_kernel &kernel, siw_objects &objects) {
    assert_int_equal(kernel.num_entries(cq_ring), 32);
    std::uint64_t wr_id = 0, polled_id = 0;
    for (const std::uint32_t count : {20U, 32U, 1U, 31U, 0U, 32U}) {
        for (std::uint32_t i = 0; i < count; ++i)
            kernel.add_cqe(cq_ring, make_cqe(objects.qp, ++wr_id));
        const auto wcs = poll(objects.cq, 7); // wraps within a call
        assert_int_equal(wcs.size(), count);
        for (const ibv_wc &wc : wcs)
            assert_int_equal(wc.wr_id, ++polled_id);
        assert_true(is_cq_empty(kernel, cq_ring));
    }
}

// A result below num_entries says that the CQ is empty: a program that waits for an event then must
// not have left a completion. Failed CQEs and WQEs to flush among the others do not end a poll.
void short_poll_means_empty_cq(siw_kernel &kernel, siw_objects &objects) {
    for (const std::uint64_t failed_id : {1U, 2U, 3U, 4U}) {
        for (std::uint64_t wr_id = 1; wr_id <= 4; ++wr_id)
            kernel.add_cqe(cq_ring,
                           make_cqe(objects.srq_qp, wr_id,
                                    wr_id == failed_id ? SIW_WC_LOC_PROT_ERR : SIW_WC_SUCCESS));
        std::array<ibv_wc, 8> wcs{};
        assert_int_equal(ibv_poll_cq(objects.cq, 8, wcs.data()), 4);
        for (std::uint64_t wr_id = 1; wr_id <= 4; ++wr_id) {
            assert_int_equal(wcs.at(wr_id - 1).wr_id, wr_id);
            assert_int_equal(wcs.at(wr_id - 1).status,
                             wr_id == failed_id ? IBV_WC_LOC_PROT_ERR : IBV_WC_SUCCESS);
        }
    }
    assert_int_equal(post_receive(objects, objects.qp, 6), 0);
    assert_true(objects.modify_qp(IBV_QPS_ERR));
    kernel.add_cqe(cq_ring, make_cqe(objects.qp, 5));
    std::array<ibv_wc, 8> wcs{};
    assert_int_equal(ibv_poll_cq(objects.cq, 8, wcs.data()), 2);
    assert_int_equal(wcs[0].wr_id, 5);
    assert_int_equal(wcs[1].wr_id, 6);
    assert_int_equal(wcs[1].status, IBV_WC_WR_FLUSH_ERR);
}

// For any contents of the entries, polling ends, stays within the array, and only clears the flags
// of entries.
void invalid_cqes_are_polled_safely(siw_kernel &kernel, siw_objects &objects) {
    const std::uint32_t num_entries = kernel.num_entries(cq_ring);
    const std::size_t bytes = kernel.ring_size(cq_ring);
    auto *const ring = reinterpret_cast<unsigned char *>(&kernel.entry<siw_cqe>(cq_ring, 0));
    std::uint32_t random = 1;
    for (int round = 0; round < 2000; ++round) {
        for (std::size_t i = 0; i < num_entries * sizeof(siw_cqe); ++i) {
            random = random * 1664525U + 1013904223U;
            ring[i] = static_cast<unsigned char>(random >> 24U);
        }
        if (round % 2 != 0) // with the number of an existing QP
            for (std::uint32_t i = 0; i < num_entries; i += 3)
                kernel.entry<siw_cqe>(cq_ring, i).qp_id = objects.srq_qp->qp_num;
        std::vector<unsigned char> before(ring, ring + bytes);
        std::array<ibv_wc, 6> wcs;
        std::memset(wcs.data(), 0x5a, sizeof wcs);
        const auto unused_wc = wcs[5];
        const int num_polled = ibv_poll_cq(objects.cq, 5, wcs.data());
        assert_in_range(num_polled, 0, 5);
        for (std::size_t i = 0; i < static_cast<std::size_t>(num_polled); ++i)
            assert_in_range(wcs.at(i).status, IBV_WC_SUCCESS, IBV_WC_GENERAL_ERR);
        assert_memory_equal(&wcs[5], &unused_wc, sizeof unused_wc);
        std::vector<unsigned char> after(ring, ring + bytes);
        for (std::size_t i = 0; i < num_entries; ++i) {
            const std::size_t flags = i * sizeof(siw_cqe) + offsetof(siw_cqe, flags);
            assert_true(after.at(flags) == before.at(flags) || after.at(flags) == 0);
            after.at(flags) = before.at(flags);
        }
        assert_true(before == after);
    }
    std::memset(ring, 0, num_entries * sizeof(siw_cqe));
}

// The wr_ids of post_wrs().
constexpr std::uint64_t first_write_id = 1, last_write_id = 4;
constexpr std::uint64_t first_receive_id = 11, last_receive_id = 13;

// Four Writes and three receives on a QP; the kernel has consumed the first Write.
void post_wrs(siw_kernel &kernel, const siw_objects &objects) {
    for (std::uint64_t id = first_write_id; id <= last_write_id; ++id)
        assert_int_equal(post_write(objects, objects.qp, id), 0);
    for (std::uint64_t id = first_receive_id; id <= last_receive_id; ++id)
        assert_int_equal(post_receive(objects, objects.qp, id), 0);
    kernel.sqe(sq_ring, 0).flags = 0;
    kernel.commands.clear();
}

// The completions from index begin are those of the Writes from flushed_write_id to the last, and
// of all receives, flushed. Each ring's WRs are in order; the order of the rings is undefined.
void assert_flushed(const std::vector<ibv_wc> &wcs, const ibv_qp *qp, std::size_t begin,
                    std::uint64_t flushed_write_id) {
    std::uint64_t write = flushed_write_id, receive = first_receive_id;
    for (std::size_t i = begin; i < wcs.size(); ++i) {
        const bool is_receive = wcs[i].wr_id >= first_receive_id;
        assert_int_equal(wcs[i].wr_id, is_receive ? receive++ : write++);
        assert_int_equal(wcs[i].status, IBV_WC_WR_FLUSH_ERR);
        assert_int_equal(wcs[i].opcode, is_receive ? IBV_WC_RECV : IBV_WC_RDMA_WRITE);
        assert_int_equal(wcs[i].qp_num, qp->qp_num);
    }
    assert_int_equal(write, last_write_id + 1);
    assert_int_equal(receive, last_receive_id + 1);
}

// When the driver polls a CQE with an error, it moves the QP to the error state, and flushes the
// WRs that the kernel has left in the rings.
void failed_cqe_flushes_qp(void **) {
    for (const int num_entries : {1, 16}) { // polled at a time
        siw_kernel kernel;
        siw_objects objects(kernel);
        post_wrs(kernel, objects);
        kernel.add_cqe(cq_ring, make_cqe(objects.qp, 1, SIW_WC_REM_ACCESS_ERR));
        kernel.on_modify_qp = [&] { // the kernel flushes one SQE
            kernel.sqe(sq_ring, 1).flags = 0;
            kernel.add_cqe(cq_ring, make_cqe(objects.qp, 2, SIW_WC_WR_FLUSH_ERR));
        };
        const auto wcs = poll(objects.cq, num_entries);
        assert_int_equal(count_err_commands(kernel, objects.qp), 1);
        assert_int_equal(kernel.commands.size(), 1);
        assert_int_equal(wcs.size(), 4 + 3); // all of post_wrs()
        assert_int_equal(wcs[0].status, IBV_WC_REM_ACCESS_ERR);
        assert_int_equal(wcs[0].wr_id, 1);
        assert_int_equal(wcs[1].status, IBV_WC_WR_FLUSH_ERR);
        assert_int_equal(wcs[1].wr_id, 2);
        assert_flushed(wcs, objects.qp, 2, first_write_id + 2);
        assert_true(is_sq_empty(kernel, sq_ring));
        assert_int_equal(kernel.rqe(rq_ring, 0).flags, 0);
        assert_int_equal(poll(objects.cq).size(), 0);
        // Later posts are flushed without a command.
        assert_int_equal(post_write(objects, objects.qp, 5), 0);
        assert_int_equal(post_receive(objects, objects.qp, 14), 0);
        assert_int_equal(poll(objects.cq, num_entries).size(), 2);
        assert_int_equal(poll(objects.cq).size(), 0);
        assert_int_equal(kernel.commands.size(), 1);
        objects.destroy_all();
        assert_no_leak(kernel);
    }
}

void modify_qp_to_error_flushes_wrs(siw_kernel &kernel, siw_objects &objects) {
    post_wrs(kernel, objects);
    kernel.failing_command = 0;
    ibv_qp_attr error{};
    error.qp_state = IBV_QPS_ERR;
    assert_int_equal(ibv_modify_qp(objects.qp, &error, IBV_QP_STATE), ENOSPC);
    assert_int_equal(poll(objects.cq).size(), 0); // the command failed
    assert_int_equal(ibv_modify_qp(objects.qp, &error, IBV_QP_STATE), 0);
    assert_flushed(poll(objects.cq), objects.qp, 0, first_write_id + 1);
    assert_int_equal(poll(objects.cq).size(), 0);
}

// The kernel reports that a QP that was never connected may have no outgoing Read.
// When the connection ends, the kernel flushes once more what it finds in the rings
// (siw_qp_llp_close()); what is posted later is flushed by this provider.
void wrs_after_the_kernels_flush_are_flushed(siw_kernel &kernel, siw_objects &objects) {
    constexpr std::uint64_t num_receives = 3;
    for (std::uint64_t wr_id = 0; wr_id < num_receives; ++wr_id)
        assert_int_equal(post_receive(objects, objects.qp, wr_id), 0);
    assert_true(objects.modify_qp(IBV_QPS_ERR));
    for (std::uint32_t i = 0; i < num_receives - 1; ++i) {
        kernel.rqe(rq_ring, i).flags = 0;
        kernel.add_cqe(cq_ring, make_cqe(objects.qp, i, SIW_WC_WR_FLUSH_ERR, SIW_OP_RECEIVE));
    }
    const auto wcs = poll(objects.cq);
    assert_int_equal(wcs.size(), num_receives);
    for (std::uint64_t wr_id = 0; wr_id < num_receives; ++wr_id)
        assert_int_equal(wcs[wr_id].wr_id, wr_id);
}

// As above; WRs that are posted later use the places of those that the kernel has flushed.
void wrs_in_places_of_flushed_ones_are_flushed_in_order(siw_kernel &kernel, siw_objects &objects) {
    const std::uint32_t num_places = kernel.num_entries(sq_ring), num_taken = num_places / 2;
    for (std::uint64_t wr_id = 0; wr_id < num_places; ++wr_id)
        assert_int_equal(post_write(objects, objects.qp, wr_id), 0);
    for (std::uint32_t i = 0; i < num_taken; ++i)
        kernel.sqe(sq_ring, i).flags = 0;
    assert_true(objects.modify_qp(IBV_QPS_ERR));
    for (std::uint32_t i = num_taken; i < num_places; ++i) {
        kernel.sqe(sq_ring, i).flags = 0;
        kernel.add_cqe(cq_ring, make_cqe(objects.qp, i, SIW_WC_WR_FLUSH_ERR));
    }
    for (std::uint64_t wr_id = num_places; wr_id < 2 * num_places; ++wr_id)
        assert_int_equal(post_write(objects, objects.qp, wr_id), 0);
    const auto wcs = poll(objects.cq);
    assert_int_equal(wcs.size(), 2 * num_places - num_taken);
    for (std::size_t i = 0; i < wcs.size(); ++i)
        assert_int_equal(wcs[i].wr_id, num_taken + i);
}

// Several QPs on a CQ: each WR is flushed once, in order within its queue, also if a QP is
// destroyed or posted to meanwhile.
void wrs_of_many_qps_are_flushed_once(siw_kernel &, siw_objects &objects) {
    constexpr std::size_t num_qps = 20;
    constexpr std::uint64_t num_receives = 4;
    std::vector<ibv_qp *> qps;
    for (std::size_t i = 0; i < num_qps; ++i) {
        qps.push_back(objects.create_qp(nullptr, objects.cq));
        assert_non_null(qps.back());
        for (std::uint64_t wr_id = 0; wr_id < num_receives; ++wr_id)
            assert_int_equal(post_receive(objects, qps.back(), wr_id), 0);
        ibv_qp_attr attr{};
        attr.qp_state = IBV_QPS_ERR;
        assert_int_equal(ibv_modify_qp(qps.back(), &attr, IBV_QP_STATE), 0);
    }
    std::map<std::uint32_t, std::uint64_t> num_flushed; // by QP number
    const auto poll_and_check = [&](std::size_t max) {
        ibv_wc wc{};
        std::size_t count = 0;
        for (; count < max && ibv_poll_cq(objects.cq, 1, &wc) == 1; ++count)
            assert_int_equal(wc.wr_id, num_flushed[wc.qp_num]++);
        return count;
    };
    // In the middle of the first QP's receives it is destroyed, as are some others.
    ibv_wc wc{};
    assert_int_equal(ibv_poll_cq(objects.cq, 1, &wc), 1);
    ++num_flushed[wc.qp_num];
    std::size_t num_left = num_qps;
    for (ibv_qp *&qp : qps) {
        if (qp->qp_num != wc.qp_num && num_left % 3 != 0) {
            --num_left;
            continue;
        }
        --num_left;
        num_flushed.erase(qp->qp_num);
        assert_int_equal(ibv_destroy_qp(qp), 0);
        qp = nullptr;
    }
    std::erase(qps, nullptr);
    assert_int_equal(poll_and_check(SIZE_MAX), qps.size() * num_receives);
    assert_int_equal(ibv_poll_cq(objects.cq, 1, &wc), 0);
    for (ibv_qp *const qp : {qps.front(), qps.back(), qps.front()}) {
        assert_int_equal(post_receive(objects, qp, num_flushed[qp->qp_num]), 0);
        assert_int_equal(poll_and_check(SIZE_MAX), 1);
    }
    for (ibv_qp *const qp : qps)
        assert_int_equal(ibv_destroy_qp(qp), 0);
}

// QPs with a CQ for each direction are destroyed in each order: the receives of the others are
// flushed, also if posted after.
void wrs_are_flushed_while_other_qps_are_destroyed(siw_kernel &, siw_objects &objects) {
    constexpr std::size_t num_qps = 4;
    std::array<std::size_t, num_qps> order{0, 1, 2, 3};
    ibv_cq *const recv_cq = ibv_cq_ex_to_cq(objects.cq_ex);
    do {
        std::array<ibv_qp *, num_qps> qps{};
        for (ibv_qp *&qp : qps) {
            ibv_qp_init_attr init_attr{};
            init_attr.send_cq = objects.cq;
            init_attr.recv_cq = recv_cq;
            init_attr.cap = requested_cap;
            init_attr.qp_type = IBV_QPT_RC;
            qp = ibv_create_qp(objects.pd, &init_attr);
            assert_non_null(qp);
            ibv_qp_attr attr{};
            attr.qp_state = IBV_QPS_ERR;
            assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
        }
        for (const std::size_t destroyed : order) {
            std::map<std::uint32_t, std::size_t> num_flushed; // by QP number
            for (ibv_qp *const qp : qps)
                if (qp != nullptr)
                    assert_int_equal(post_receive(objects, qp, 0), 0);
            for (const ibv_wc &wc : poll(recv_cq))
                ++num_flushed[wc.qp_num];
            for (const ibv_qp *const qp : qps)
                assert_true(qp == nullptr || num_flushed[qp->qp_num] == 1);
            assert_int_equal(ibv_destroy_qp(std::exchange(qps[destroyed], nullptr)), 0);
        }
    } while (std::next_permutation(order.begin(), order.end()));
}

void read_on_unconnected_qp_in_error_is_flushed(siw_kernel &kernel, siw_objects &objects) {
    kernel.max_dest_rd_atomic = 0;
    ibv_qp_attr error{};
    error.qp_state = IBV_QPS_ERR;
    assert_int_equal(ibv_modify_qp(objects.qp, &error, IBV_QP_STATE), 0);
    assert_int_equal(send_wr(objects, IBV_WR_RDMA_READ, 7).post(objects.qp), 0);
    const auto completions = poll(objects.cq);
    assert_int_equal(completions.size(), 1);
    assert_int_equal(completions[0].wr_id, 7);
    assert_int_equal(completions[0].status, IBV_WC_WR_FLUSH_ERR);
}

// The kernel may return ENOTCONN once during a state change; repeated, it means a closed
// connection, unless the QP is in RTS.
void post_send_after_disconnect_is_flushed(siw_kernel &kernel, siw_objects &objects) {
    assert_int_equal(post_write(objects, objects.qp, 1), 0); // the first doorbell succeeds
    consume_sqes(kernel, sq_ring);
    kernel.commands.clear();
    int num_doorbells = 0;
    kernel.on_doorbell = [&](std::uint32_t) {
        return num_doorbells++ == 0 ? ENOTCONN : 0;
    };
    assert_int_equal(post_write(objects, objects.qp, 2), 0);
    assert_int_equal(kernel.commands.size(), 2);
    assert_int_equal(count_err_commands(kernel, objects.qp), 0);
    consume_sqes(kernel, sq_ring);
    kernel.state = IBV_QPS_INIT;
    kernel.on_doorbell = [](std::uint32_t) {
        return ENOTCONN;
    };
    kernel.commands.clear();
    assert_int_equal(post_write(objects, objects.qp, 3), 0);
    assert_int_equal(kernel.count_commands(IB_USER_VERBS_CMD_POST_SEND), 4);
    assert_int_equal(count_err_commands(kernel, objects.qp), 1);
    const auto wcs = poll(objects.cq);
    assert_int_equal(wcs.size(), 1);
    assert_int_equal(wcs[0].wr_id, 3);
    assert_int_equal(wcs[0].status, IBV_WC_WR_FLUSH_ERR);
}

// The kernel takes no WQE in ERR, and its doorbell succeeds, also after it was refused.
void wqe_of_retried_doorbell_is_flushed_in_error(siw_kernel &kernel, siw_objects &objects) {
    int num_doorbells = 0;
    kernel.on_doorbell = [&](std::uint32_t) {
        ++num_doorbells;
        if (num_doorbells == 1)
            consume_sqes(kernel, sq_ring); // in RTS
        return num_doorbells == 2 ? ENOTCONN : 0;
    };
    assert_int_equal(post_write(objects, objects.qp, 1), 0);
    kernel.state = IBV_QPS_ERR;
    assert_int_equal(post_write(objects, objects.qp, 2), 0);
    assert_int_equal(num_doorbells, 3);
    const auto wcs = poll(objects.cq);
    assert_int_equal(wcs.size(), 1);
    assert_int_equal(wcs[0].wr_id, 2);
    assert_int_equal(wcs[0].status, IBV_WC_WR_FLUSH_ERR);
}

// Although no doorbell has succeeded before: a QP with a nonzero number of Reads, which the two
// sides negotiate, was connected.
void first_post_send_after_disconnect_is_flushed(siw_kernel &kernel, siw_objects &objects) {
    for (const auto &[max_rd_atomic, max_dest_rd_atomic] : {std::pair{0, 1}, {1, 0}}) {
        ibv_qp *const qp = max_rd_atomic == 0 ? objects.qp : objects.srq_qp;
        kernel.max_rd_atomic = static_cast<std::uint8_t>(max_rd_atomic);
        kernel.max_dest_rd_atomic = static_cast<std::uint8_t>(max_dest_rd_atomic);
        kernel.state = IBV_QPS_INIT;
        kernel.on_doorbell = [](std::uint32_t) {
            return ENOTCONN;
        };
        assert_int_equal(post_write(objects, qp, 3), 0);
        assert_int_equal(count_err_commands(kernel, qp), 1);
        const auto wcs = poll(objects.cq);
        assert_int_equal(wcs.size(), 1);
        assert_int_equal(wcs[0].wr_id, 3);
        assert_int_equal(wcs[0].status, IBV_WC_WR_FLUSH_ERR);
    }
}

// The driver removes them from the ring, and an error among them has no effect.
void cqes_of_destroyed_qp_are_not_polled(siw_kernel &kernel, siw_objects &objects) {
    const std::uint32_t destroyed_qp_num = objects.srq_qp->qp_num;
    assert_int_equal(post_write(objects, objects.srq_qp, 9), 0);
    kernel.add_cqe(cq_ring, make_cqe(objects.qp, 1));
    kernel.add_cqe(cq_ring, make_cqe(objects.srq_qp, 2));
    kernel.add_cqe(cq_ring, make_cqe(objects.srq_qp, 3, SIW_WC_LOC_LEN_ERR));
    kernel.add_cqe(cq_ring, make_cqe(objects.qp, 4));
    assert_int_equal(ibv_destroy_qp(objects.srq_qp), 0);
    objects.srq_qp = nullptr;
    kernel.commands.clear();
    const auto wcs = poll(objects.cq);
    assert_int_equal(wcs.size(), 2);
    assert_int_equal(wcs[0].wr_id, 1);
    assert_int_equal(wcs[1].wr_id, 4);
    assert_int_not_equal(wcs[0].qp_num, destroyed_qp_num);
    assert_true(is_cq_empty(kernel, cq_ring));
    assert_int_equal(kernel.commands.size(), 0);
    // Its flushed WRs are not polled either.
    post_wrs(kernel, objects);
    kernel.add_cqe(cq_ring, make_cqe(objects.qp, 1, SIW_WC_REM_ACCESS_ERR));
    ibv_wc first{};
    assert_int_equal(ibv_poll_cq(objects.cq, 1, &first), 1);
    assert_int_equal(first.status, IBV_WC_REM_ACCESS_ERR);
    assert_int_equal(ibv_destroy_qp(objects.qp), 0);
    objects.qp = nullptr;
    assert_int_equal(poll(objects.cq).size(), 0);
}

// A consumer may use their places for other requests at once.
void cqes_of_destroyed_qp_leave_room(siw_kernel &kernel, siw_objects &objects) {
    const std::uint32_t num_cqe = kernel.num_entries(cq_ring);
    for (std::uint64_t wr_id = 0; wr_id < num_cqe; ++wr_id)
        kernel.add_cqe(cq_ring, make_cqe(wr_id % 3 == 0 ? objects.qp : objects.srq_qp, wr_id));
    assert_int_equal(ibv_destroy_qp(objects.srq_qp), 0);
    objects.srq_qp = nullptr;
    const std::uint32_t num_kept = (num_cqe + 2) / 3;
    for (std::uint64_t i = num_kept; i < num_cqe; ++i)
        kernel.add_cqe(cq_ring, make_cqe(objects.qp, 3 * i));
    const auto wcs = poll(objects.cq, 5);
    assert_int_equal(wcs.size(), num_cqe);
    for (std::size_t i = 0; i < num_cqe; ++i) {
        assert_int_equal(wcs[i].wr_id, 3 * i);
        assert_int_equal(wcs[i].qp_num, objects.qp->qp_num);
    }
    assert_true(is_cq_empty(kernel, cq_ring));
}

// A thread that polls with ibv_start_poll() may destroy a QP before ibv_end_poll().
void qp_is_destroyed_within_poll(siw_kernel &kernel, siw_objects &objects) {
    ibv_qp *const qp = objects.create_qp(nullptr, ibv_cq_ex_to_cq(objects.cq_ex));
    assert_non_null(qp);
    for (std::uint64_t wr_id = 1; wr_id <= 3; ++wr_id)
        kernel.add_cqe(cq_ex_ring, make_cqe(wr_id == 2 ? qp : objects.qp, wr_id));
    ibv_poll_cq_attr attr{};
    assert_int_equal(ibv_start_poll(objects.cq_ex, &attr), 0);
    assert_int_equal(objects.cq_ex->wr_id, 1);
    assert_int_equal(ibv_destroy_qp(qp), 0);
    assert_int_equal(ibv_next_poll(objects.cq_ex), 0);
    assert_int_equal(objects.cq_ex->wr_id, 3);
    assert_int_equal(ibv_next_poll(objects.cq_ex), ENOENT);
    ibv_end_poll(objects.cq_ex);
    assert_true(is_cq_empty(kernel, cq_ex_ring));
    ibv_wc wc{};
    assert_false(poll_ex(objects.cq_ex, wc)); // the lock is free
}

void req_notify_cq_sets_flags_in_ring(siw_kernel &kernel, siw_objects &objects) {
    kernel.commands.clear();
    for (const int solicited : {0, 1}) {
        kernel.cq_ctrl(cq_ring).flags = 0;
        assert_int_equal(ibv_req_notify_cq(objects.cq, solicited), 0);
        assert_int_equal(kernel.cq_ctrl(cq_ring).flags,
                         SIW_NOTIFY_SOLICITED | SIW_NOTIFY_NEXT_COMPLETION);
    }
    assert_int_equal(kernel.cq_ctrl(cq_ex_ring).flags, 0);
    assert_int_equal(kernel.commands.size(), 0);
}

// An SQE that is pending after a doorbell: the kernel is busy, or the QP is in error. The driver
// queries the QP before the program may wait for an event.
void req_notify_cq_detects_qp_error(siw_kernel &kernel, siw_objects &objects) {
    assert_int_equal(post_write(objects, objects.qp, 1), 0);
    kernel.commands.clear();
    assert_int_equal(ibv_req_notify_cq(objects.cq, 0), 0); // the kernel is busy
    assert_int_equal(kernel.commands.size(), 1);
    assert_int_equal(kernel.commands[0].number, IB_USER_VERBS_CMD_QUERY_QP);
    assert_int_equal(ibv_poll_cq(objects.cq, 0, nullptr), 0);
    kernel.state = IBV_QPS_ERR;
    assert_int_equal(ibv_req_notify_cq(objects.cq, 0), 0);
    assert_int_equal(count_err_commands(kernel, objects.qp), 1);
    const auto wcs = poll(objects.cq);
    assert_int_equal(wcs.size(), 1);
    assert_int_equal(wcs[0].status, IBV_WC_WR_FLUSH_ERR);
    kernel.commands.clear();
    assert_int_equal(ibv_req_notify_cq(objects.cq, 0), 0);
    assert_int_equal(kernel.commands.size(), 0);
}

// Only the kernel can raise a completion event. The driver creates a temporary QP, whose receive
// the kernel completes.
void flushed_wr_raises_cq_event(siw_kernel &kernel, siw_objects &objects) {
    ibv_comp_channel *const channel = ibv_create_comp_channel(objects.context);
    assert_non_null(channel);
    ibv_cq *const cq = ibv_create_cq(objects.context, 4, nullptr, channel, 0);
    assert_non_null(cq);
    const std::size_t ring = kernel.num_rings() - 1;
    for (const bool is_armed : {false, true}) {
        ibv_qp_init_attr attr{};
        attr.send_cq = attr.recv_cq = cq;
        attr.cap = {2, 2, 1, 1, 0};
        attr.qp_type = IBV_QPT_RC;
        ibv_qp *const qp = ibv_create_qp(objects.pd, &attr);
        assert_non_null(qp);
        assert_int_equal(post_receive(objects, qp, 7), 0);
        if (is_armed)
            assert_int_equal(ibv_req_notify_cq(cq, 0), 0);
        kernel.commands.clear();
        bool temporary_qp_has_receive = false;
        kernel.on_modify_qp = [&] { // the fake kernel completes nothing
            if (kernel.commands.back().read<ib_uverbs_modify_qp>().qp_handle != qp->handle)
                temporary_qp_has_receive =
                    kernel.rqe(kernel.num_rings() - 1, 0).flags == SIW_WQE_VALID;
            assert_true(kernel.commands.size() < 10);
        };
        ibv_qp_attr error{};
        error.qp_state = IBV_QPS_ERR;
        assert_int_equal(ibv_modify_qp(qp, &error, IBV_QP_STATE), 0);
        kernel.on_modify_qp = nullptr;
        assert_int_equal(kernel.count_commands(IB_USER_VERBS_CMD_CREATE_QP), is_armed ? 1 : 0);
        const auto wcs = poll(cq);
        assert_int_equal(wcs.size(), 1); // without the temporary QP's
        assert_int_equal(wcs[0].wr_id, 7);
        assert_int_equal(ibv_destroy_qp(qp), 0);
        assert_true(temporary_qp_has_receive == is_armed);
    }
    assert_int_equal(kernel.cq_ctrl(ring).flags, SIW_NOTIFY_SOLICITED | SIW_NOTIFY_NEXT_COMPLETION);
    const std::size_t num_destroyed = kernel.count_commands(IB_USER_VERBS_CMD_DESTROY_QP);
    assert_int_equal(ibv_destroy_cq(cq), 0);
    assert_int_equal(kernel.count_commands(IB_USER_VERBS_CMD_DESTROY_QP), num_destroyed + 1);
    assert_int_equal(ibv_destroy_comp_channel(channel), 0);
}

// The completion of the QP that raises an event is discarded by the poll that finds it. No other
// event is raised while it is in the CQ, nor if the CQ is full.
void completion_of_event_qp_is_not_polled(siw_kernel &kernel, siw_objects &objects) {
    ibv_comp_channel *const channel = ibv_create_comp_channel(objects.context);
    assert_non_null(channel);
    ibv_cq *const cq = ibv_create_cq(objects.context, 4, nullptr, channel, 0);
    assert_non_null(cq);
    const std::size_t ring = kernel.num_rings() - 1;
    ibv_qp *const qp = objects.create_qp(nullptr, cq);
    assert_non_null(qp);
    ibv_qp_attr error{};
    error.qp_state = IBV_QPS_ERR;
    assert_int_equal(ibv_modify_qp(qp, &error, IBV_QP_STATE), 0);
    std::size_t num_events = 0;
    kernel.on_modify_qp =
        [&] { // the kernel completes the receive of the QP, whose ring is the last
            siw_rqe &rqe = kernel.rqe(kernel.num_rings() - 1, 0);
            siw_cqe cqe = make_cqe(qp, rqe.id, SIW_WC_WR_FLUSH_ERR, SIW_OP_RECEIVE);
            cqe.qp_id = qp->qp_num + 1; // the next QP's
            kernel.add_cqe(ring, cqe);
            rqe.flags = 0;
            ++num_events;
        };
    for (std::uint64_t round = 1; round <= 3; ++round) {
        for (std::uint64_t wr_id = 1; wr_id <= 2; ++wr_id) {
            assert_int_equal(ibv_req_notify_cq(cq, 0), 0);
            assert_int_equal(post_receive(objects, qp, wr_id), 0);
            assert_int_equal(num_events, round); // the second finds that of the first
        }
        const auto wcs = poll(cq, 4);
        assert_int_equal(wcs.size(), 2);
        assert_int_equal(wcs[0].wr_id, 1);
        assert_int_equal(wcs[1].wr_id, 2);
    }
    const std::uint32_t num_cqe = kernel.num_entries(ring);
    for (std::uint64_t wr_id = 1; wr_id <= num_cqe; ++wr_id)
        kernel.add_cqe(ring, make_cqe(qp, wr_id));
    assert_int_equal(ibv_req_notify_cq(cq, 0), 0);
    assert_int_equal(post_receive(objects, qp, num_cqe + 1), 0);
    assert_int_equal(num_events, 3);
    assert_int_equal(poll(cq).size(), num_cqe + 1);
    kernel.on_modify_qp = nullptr;
    assert_int_equal(ibv_destroy_qp(qp), 0);
    assert_int_equal(ibv_destroy_cq(cq), 0);
    assert_int_equal(ibv_destroy_comp_channel(channel), 0);
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        objects_unit_test(status_and_opcode_are_translated),
        objects_unit_test(cqes_are_polled_in_order_across_wrap),
        objects_unit_test(short_poll_means_empty_cq),
        objects_unit_test(invalid_cqes_are_polled_safely),
        cmocka_unit_test(failed_cqe_flushes_qp),
        objects_unit_test(modify_qp_to_error_flushes_wrs),
        objects_unit_test(wrs_after_the_kernels_flush_are_flushed),
        objects_unit_test(wrs_in_places_of_flushed_ones_are_flushed_in_order),
        objects_unit_test(wrs_of_many_qps_are_flushed_once),
        objects_unit_test(wrs_are_flushed_while_other_qps_are_destroyed),
        objects_unit_test(read_on_unconnected_qp_in_error_is_flushed),
        objects_unit_test(post_send_after_disconnect_is_flushed),
        objects_unit_test(wqe_of_retried_doorbell_is_flushed_in_error),
        objects_unit_test(first_post_send_after_disconnect_is_flushed),
        objects_unit_test(cqes_of_destroyed_qp_are_not_polled),
        objects_unit_test(cqes_of_destroyed_qp_leave_room),
        objects_unit_test(qp_is_destroyed_within_poll),
        objects_unit_test(req_notify_cq_sets_flags_in_ring),
        objects_unit_test(req_notify_cq_detects_qp_error),
        objects_unit_test(flushed_wr_raises_cq_event),
        objects_unit_test(completion_of_event_qp_is_not_polled),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Completions on siw, against a played kernel: what is made of the kernel's, and what becomes of
// the requests of a pair that breaks.

#include "played_siw_life.hpp"

#include <array>
#include <cerrno>

namespace {

using namespace played;
using kernel = siw_kernel;
using life = siw_life;

siw_cqe completion(const ibv_qp *of, std::uint64_t id, std::uint16_t status = SIW_WC_SUCCESS,
                   std::uint8_t opcode = SIW_OP_WRITE) {
    siw_cqe is{};
    is.id = id;
    is.opcode = opcode;
    is.status = status;
    is.bytes = 24;
    is.qp_id = of->qp_num;
    return is;
}

std::vector<ibv_wc> poll(ibv_cq *cq, int at_once = 1) {
    std::vector<ibv_wc> all, some(static_cast<std::size_t>(at_once));
    for (int got = 0; (got = ibv_poll_cq(cq, at_once, some.data())) > 0 && all.size() < 100;)
        all.insert(all.end(), some.begin(), some.begin() + got);
    return all;
}

// The next one, by parts; false: there is none.
bool next_part(ibv_cq_ex *cq, ibv_wc &into) {
    ibv_poll_cq_attr how{};
    if (ibv_start_poll(cq, &how) != 0)
        return false;
    into.wr_id = cq->wr_id;
    into.status = cq->status;
    into.opcode = ibv_wc_read_opcode(cq);
    into.byte_len = ibv_wc_read_byte_len(cq);
    into.qp_num = ibv_wc_read_qp_num(cq);
    into.wc_flags = ibv_wc_read_wc_flags(cq);
    ibv_end_poll(cq);
    return true;
}

// Of the commands that were heard, those that end a pair.
std::size_t endings(const kernel &in, const ibv_qp *of) {
    std::size_t count = 0;
    for (const command &each : in.heard) {
        const auto is = each.as<ib_uverbs_modify_qp>();
        if (each.number == IB_USER_VERBS_CMD_MODIFY_QP && is.qp_handle == of->handle &&
            is.attr_mask == IBV_QP_STATE && is.qp_state == IBV_QPS_ERR)
            ++count;
    }
    return count;
}

bool none_occupied(const kernel &in, std::size_t ring) {
    bool is = true;
    for (std::uint32_t number = 0; number < in.slots(ring); ++number)
        is = is && in.slot<siw_cqe>(ring, number).flags == 0;
    return is;
}

void each_status_and_opcode_is_translated(void **) {
    constexpr std::array statuses{
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
    kernel in;
    life all(in);
    const auto is_right = [&](const ibv_wc &is, std::size_t status, ibv_wc_opcode opcode) {
        assert_int_equal(is.wr_id, 100 + status);
        assert_int_equal(is.status, statuses.at(status));
        assert_int_equal(is.opcode, opcode);
        assert_int_equal(is.byte_len, 24);
        assert_int_equal(is.qp_num, all.qp->qp_num);
        assert_int_equal(is.wc_flags, 0);
    };
    for (std::size_t status = 0; status < statuses.size(); ++status)
        for (const auto &[kernels, verbs] : opcodes) {
            const siw_cqe what =
                completion(all.qp, 100 + status, static_cast<std::uint16_t>(status), kernels);
            in.complete(queue_of_all, what);
            in.complete(queue_by_parts, what);
            const auto got = poll(all.cq);
            assert_int_equal(got.size(), 1);
            is_right(got[0], status, verbs);
            ibv_wc by_part{};
            assert_true(next_part(all.parts, by_part));
            is_right(by_part, status, verbs);
            assert_false(next_part(all.parts, by_part));
        }
    all.end();
    nothing_left(in);
}

void completions_come_in_order_over_the_end_of_the_ring(void **) {
    kernel in;
    life all(in);
    std::uint64_t id = 0, seen = 0;
    for (const std::uint32_t count : {20U, 32U, 1U, 31U, 0U, 32U}) {
        for (std::uint32_t each = 0; each < count; ++each)
            in.complete(queue_of_all, completion(all.qp, ++id));
        const auto got = poll(all.cq, 7);
        assert_int_equal(got.size(), count);
        for (const ibv_wc &each : got)
            assert_int_equal(each.wr_id, ++seen);
        assert_true(none_occupied(in, queue_of_all));
    }
    all.end();
    nothing_left(in);
}

// Whatever is in the slots, polling ends, stays within what it was given, and writes nothing to the
// ring but that a slot is empty.
void completions_that_are_nonsense_do_no_harm(void **) {
    kernel in;
    life all(in);
    const std::uint32_t slots = in.slots(queue_of_all);
    const std::size_t bytes = in.size(queue_of_all);
    auto *const ring = reinterpret_cast<unsigned char *>(&in.slot<siw_cqe>(queue_of_all, 0));
    std::uint32_t nonsense = 1;
    for (int round = 0; round < 2000; ++round) {
        for (std::size_t each = 0; each < slots * sizeof(siw_cqe); ++each) {
            nonsense = nonsense * 1664525U + 1013904223U;
            ring[each] = static_cast<unsigned char>(nonsense >> 24U);
        }
        if (round % 2 != 0) // of a pair that there is, too
            for (std::uint32_t each = 0; each < slots; each += 3)
                in.slot<siw_cqe>(queue_of_all, each).qp_id = all.sharing->qp_num;
        std::vector<unsigned char> before(ring, ring + bytes);
        std::array<ibv_wc, 6> some;
        std::memset(some.data(), 0x5a, sizeof some);
        const auto guard = some[5];
        const int got = ibv_poll_cq(all.cq, 5, some.data());
        assert_in_range(got, 0, 5);
        for (std::size_t each = 0; each < static_cast<std::size_t>(got); ++each)
            assert_in_range(some.at(each).status, IBV_WC_SUCCESS, IBV_WC_GENERAL_ERR);
        assert_memory_equal(&some[5], &guard, sizeof guard);
        std::vector<unsigned char> after(ring, ring + bytes);
        for (std::size_t each = 0; each < slots; ++each) {
            const std::size_t flags = each * sizeof(siw_cqe) + offsetof(siw_cqe, flags);
            assert_true(after.at(flags) == before.at(flags) || after.at(flags) == 0);
            after.at(flags) = before.at(flags);
        }
        assert_true(before == after);
    }
    std::memset(ring, 0, slots * sizeof(siw_cqe));
    all.end();
    nothing_left(in);
}

// Four writes and three receives on a pair; all but the first write are left.
void post_some(kernel &in, const life &all) {
    for (std::uint64_t id = 1; id <= 4; ++id)
        assert_int_equal(post_write(all, all.qp, id), 0);
    for (std::uint64_t id = 11; id <= 13; ++id)
        assert_int_equal(post_receive(all, all.qp, id), 0);
    in.send(sends, 0).flags = 0;
    in.heard.clear();
}

// Both rings' in their own order; which of the two comes first means nothing.
void are_flushed(const std::vector<ibv_wc> &got, const ibv_qp *of, std::size_t from,
                 std::uint64_t first_write) {
    std::uint64_t write = first_write, receive = 11;
    for (std::size_t each = from; each < got.size(); ++each) {
        const bool received = got[each].wr_id > 10;
        assert_int_equal(got[each].wr_id, received ? receive++ : write++);
        assert_int_equal(got[each].status, IBV_WC_WR_FLUSH_ERR);
        assert_int_equal(got[each].opcode, received ? IBV_WC_RECV : IBV_WC_RDMA_WRITE);
        assert_int_equal(got[each].qp_num, of->qp_num);
    }
    assert_int_equal(write, 5);
    assert_int_equal(receive, 14);
}

void a_failed_completion_breaks_the_pair(void **) {
    for (const int at_once : {1, 16}) {
        kernel in;
        life all(in);
        post_some(in, all);
        in.complete(queue_of_all, completion(all.qp, 1, SIW_WC_REM_ACCESS_ERR));
        in.modified = [&] { // the kernel flushes one itself
            in.send(sends, 1).flags = 0;
            in.complete(queue_of_all, completion(all.qp, 2, SIW_WC_WR_FLUSH_ERR));
        };
        const auto got = poll(all.cq, at_once);
        assert_int_equal(endings(in, all.qp), 1);
        assert_int_equal(in.heard.size(), 1);
        assert_int_equal(got.size(), 7);
        assert_int_equal(got[0].status, IBV_WC_REM_ACCESS_ERR);
        assert_int_equal(got[0].wr_id, 1);
        assert_int_equal(got[1].status, IBV_WC_WR_FLUSH_ERR);
        assert_int_equal(got[1].wr_id, 2);
        are_flushed(got, all.qp, 2, 3);
        assert_true(is_empty(in, sends));
        assert_int_equal(in.receive(receives, 0).flags, 0);
        assert_int_equal(poll(all.cq).size(), 0);
        // What comes from now on is flushed without the kernel.
        assert_int_equal(post_write(all, all.qp, 5), 0);
        assert_int_equal(post_receive(all, all.qp, 14), 0);
        assert_int_equal(poll(all.cq, at_once).size(), 2);
        assert_int_equal(poll(all.cq).size(), 0);
        assert_int_equal(in.heard.size(), 1);
        all.end();
        nothing_left(in);
    }
}

void a_pair_that_is_put_in_error_is_flushed(void **) {
    kernel in;
    life all(in);
    post_some(in, all);
    in.fails = 0;
    ibv_qp_attr error{};
    error.qp_state = IBV_QPS_ERR;
    assert_int_equal(ibv_modify_qp(all.qp, &error, IBV_QP_STATE), ENOSPC);
    assert_int_equal(poll(all.cq).size(), 0); // the kernel has said no
    assert_int_equal(ibv_modify_qp(all.qp, &error, IBV_QP_STATE), 0);
    are_flushed(poll(all.cq), all.qp, 0, 2);
    assert_int_equal(poll(all.cq).size(), 0);
    all.end();
    nothing_left(in);
}

// A kernel that refuses once may be about to change the state; one that goes on has closed.
void a_connection_that_is_closed_is_noticed_by_who_posts(void **) {
    kernel in;
    life all(in);
    assert_int_equal(post_write(all, all.qp, 1), 0); // the pair is heard
    empty(in, sends);
    in.heard.clear();
    int refused = 0;
    in.rung = [&](std::uint32_t) {
        return refused++ == 0 ? ENOTCONN : 0;
    };
    assert_int_equal(post_write(all, all.qp, 2), 0);
    assert_int_equal(in.heard.size(), 2);
    assert_int_equal(endings(in, all.qp), 0);
    empty(in, sends);
    in.rung = [](std::uint32_t) {
        return ENOTCONN;
    };
    in.heard.clear();
    assert_int_equal(post_write(all, all.qp, 3), 0);
    assert_int_equal(in.count(IB_USER_VERBS_CMD_POST_SEND), 4);
    assert_int_equal(endings(in, all.qp), 1);
    const auto got = poll(all.cq);
    assert_int_equal(got.size(), 1);
    assert_int_equal(got[0].wr_id, 3);
    assert_int_equal(got[0].status, IBV_WC_WR_FLUSH_ERR);
    all.end();
    nothing_left(in);
}

void completions_of_a_destroyed_pair_are_never_polled(void **) {
    kernel in;
    life all(in);
    const std::uint32_t gone = all.sharing->qp_num;
    assert_int_equal(post_write(all, all.sharing, 9), 0);
    in.complete(queue_of_all, completion(all.qp, 1));
    in.complete(queue_of_all, completion(all.sharing, 2));
    in.complete(queue_of_all, completion(all.sharing, 3, SIW_WC_LOC_LEN_ERR));
    in.complete(queue_of_all, completion(all.qp, 4));
    assert_int_equal(ibv_destroy_qp(all.sharing), 0);
    all.sharing = nullptr;
    in.heard.clear();
    const auto got = poll(all.cq);
    assert_int_equal(got.size(), 2);
    assert_int_equal(got[0].wr_id, 1);
    assert_int_equal(got[1].wr_id, 4);
    assert_int_not_equal(got[0].qp_num, gone);
    assert_true(none_occupied(in, queue_of_all));
    assert_int_equal(in.heard.size(), 0);
    // Nor is what it has left in its rings.
    post_some(in, all);
    in.complete(queue_of_all, completion(all.qp, 1, SIW_WC_REM_ACCESS_ERR));
    ibv_wc first{};
    assert_int_equal(ibv_poll_cq(all.cq, 1, &first), 1);
    assert_int_equal(first.status, IBV_WC_REM_ACCESS_ERR);
    assert_int_equal(ibv_destroy_qp(all.qp), 0);
    all.qp = nullptr;
    assert_int_equal(poll(all.cq).size(), 0);
    all.end();
    nothing_left(in);
}

void arming_is_a_word_in_the_ring(void **) {
    kernel in;
    life all(in);
    in.heard.clear();
    for (const int solicited : {0, 1}) {
        in.control(queue_of_all).flags = 0;
        assert_int_equal(ibv_req_notify_cq(all.cq, solicited), 0);
        assert_int_equal(in.control(queue_of_all).flags,
                         SIW_NOTIFY_SOLICITED | SIW_NOTIFY_NEXT_COMPLETION);
    }
    assert_int_equal(in.control(queue_by_parts).flags, 0);
    assert_int_equal(in.heard.size(), 0);
    all.end();
    nothing_left(in);
}

// A request that the kernel was called for and has left: it is busy, or has given the pair up. Who
// arms is about to sleep, so it is asked.
void a_pair_that_the_kernel_gave_up_is_noticed_by_who_arms(void **) {
    kernel in;
    life all(in);
    assert_int_equal(post_write(all, all.qp, 1), 0);
    in.heard.clear();
    assert_int_equal(ibv_req_notify_cq(all.cq, 0), 0); // it is busy
    assert_int_equal(in.heard.size(), 1);
    assert_int_equal(in.heard[0].number, IB_USER_VERBS_CMD_QUERY_QP);
    assert_int_equal(ibv_poll_cq(all.cq, 0, nullptr), 0);
    in.state = IBV_QPS_ERR;
    assert_int_equal(ibv_req_notify_cq(all.cq, 0), 0);
    assert_int_equal(endings(in, all.qp), 1);
    const auto got = poll(all.cq);
    assert_int_equal(got.size(), 1);
    assert_int_equal(got[0].status, IBV_WC_WR_FLUSH_ERR);
    in.heard.clear();
    assert_int_equal(ibv_req_notify_cq(all.cq, 0), 0);
    assert_int_equal(in.heard.size(), 0);
    all.end();
    nothing_left(in);
}

// Only the kernel can wake who waits for an event; it does for a receive of a pair that is made for
// that.
void who_waits_is_woken_for_what_is_flushed(void **) {
    kernel in;
    life all(in);
    ibv_comp_channel *const channel = ibv_create_comp_channel(all.context);
    assert_non_null(channel);
    ibv_cq *const cq = ibv_create_cq(all.context, 4, nullptr, channel, 0);
    assert_non_null(cq);
    const std::size_t ring = in.rings() - 1;
    for (const bool armed : {false, true}) {
        ibv_qp_init_attr wanted{};
        wanted.send_cq = wanted.recv_cq = cq;
        wanted.cap = {2, 2, 1, 1, 0};
        wanted.qp_type = IBV_QPT_RC;
        ibv_qp *const qp = ibv_create_qp(all.pd, &wanted);
        assert_non_null(qp);
        assert_int_equal(post_receive(all, qp, 7), 0);
        if (armed)
            assert_int_equal(ibv_req_notify_cq(cq, 0), 0);
        in.heard.clear();
        bool received = false;
        in.modified = [&] { // a full queue: this kernel can complete nothing
            if (in.heard.back().as<ib_uverbs_modify_qp>().qp_handle != qp->handle)
                received = in.receive(in.rings() - 1, 0).flags == SIW_WQE_VALID;
            assert_true(in.heard.size() < 10);
        };
        ibv_qp_attr error{};
        error.qp_state = IBV_QPS_ERR;
        assert_int_equal(ibv_modify_qp(qp, &error, IBV_QP_STATE), 0);
        in.modified = nullptr;
        assert_int_equal(in.count(IB_USER_VERBS_CMD_CREATE_QP), armed ? 1 : 0);
        assert_int_equal(in.count(IB_USER_VERBS_CMD_DESTROY_QP), armed ? 1 : 0);
        const auto got = poll(cq);
        assert_int_equal(got.size(), 1); // of the helping one nobody hears
        assert_int_equal(got[0].wr_id, 7);
        assert_int_equal(ibv_destroy_qp(qp), 0);
        assert_true(received == armed);
    }
    assert_int_equal(in.control(ring).flags, 3);
    assert_int_equal(ibv_destroy_cq(cq), 0);
    assert_int_equal(ibv_destroy_comp_channel(channel), 0);
    all.end();
    nothing_left(in);
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(each_status_and_opcode_is_translated),
        cmocka_unit_test(completions_come_in_order_over_the_end_of_the_ring),
        cmocka_unit_test(completions_that_are_nonsense_do_no_harm),
        cmocka_unit_test(a_failed_completion_breaks_the_pair),
        cmocka_unit_test(a_pair_that_is_put_in_error_is_flushed),
        cmocka_unit_test(a_connection_that_is_closed_is_noticed_by_who_posts),
        cmocka_unit_test(completions_of_a_destroyed_pair_are_never_polled),
        cmocka_unit_test(arming_is_a_word_in_the_ring),
        cmocka_unit_test(a_pair_that_the_kernel_gave_up_is_noticed_by_who_arms),
        cmocka_unit_test(who_waits_is_woken_for_what_is_flushed),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}

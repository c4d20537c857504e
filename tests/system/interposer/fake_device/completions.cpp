// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Completions: the wr_id of each request, in the order of its queue, and data.

#include "cases.hpp"
#include "device.hpp"

#include <algorithm>
#include <map>

namespace {

using poll_function = std::vector<ibv_wc>(ibv_cq *);
using queue_key = std::pair<std::uint32_t, bool>; // qp_num, is_receive
using wr_ids_by_queue = std::map<queue_key, std::vector<std::uint64_t>>;

/// Several QPs that complete to this CQ exchange messages, each with itself. Each wr_id comes once,
/// and in each queue they come in the order of posting.
void exchange_messages(device &dev, ibv_cq *cq, poll_function *poll) {
    constexpr std::size_t NUM_QPS = 3, NUM_MESSAGES = 5;
    std::vector<qp_owner> qps;
    for (std::size_t i = 0; i < NUM_QPS; ++i)
        qps.push_back(dev.create_connected_qp({.cq = cq}));
    wr_ids_by_queue posted, completed;
    for (std::size_t message = 0; message < NUM_MESSAGES; ++message)
        for (const qp_owner &qp : qps) {
            posted[{qp->qp_num, true}].push_back(post_receive(qp.get(), dev.sge(500 + message, 1)));
            posted[{qp->qp_num, false}].push_back(post_send(qp.get(), dev.sge(message, 1)));
        }
    for (const ibv_wc &wc : poll(cq)) {
        assert_int_equal(wc.status, IBV_WC_SUCCESS);
        completed[{wc.qp_num, wc.opcode == IBV_WC_RECV}].push_back(wc.wr_id);
    }
    assert_true(completed == posted);
}

} // namespace

void each_wr_id_comes_back_once(void **) {
    device dev;
    exchange_messages(dev, dev.cq, poll_all);
    exchange_messages(dev, dev.cq, poll_all);
}

void each_extended_cq_is_polled_by_its_functions(void **) {
    device dev;
    const cq_owner locked = dev.create_cq_ex(false), unlocked = dev.create_cq_ex(true);
    exchange_messages(dev, locked.get(), poll_all_ex);
    exchange_messages(dev, unlocked.get(), poll_all_ex);
    exchange_messages(dev, locked.get(), poll_all_ex);
    exchange_messages(dev, unlocked.get(), poll_all); // the other interface, for the same CQ
}

void requests_of_an_srq_come_back(void **) {
    device dev;
    const srq_owner srq = dev.create_srq(8);
    {
        const qp_owner qps[] = {dev.create_connected_qp({.srq = srq.get()}),
                                dev.create_connected_qp({.srq = srq.get()})};
        receive_list receives;
        for (std::size_t i = 0; i < 4; ++i)
            receives.add(dev.sge(500 + i));
        assert_int_equal(post(srq.get(), receives), 0);
        std::map<std::uint64_t, std::uint32_t> expected; // qp_num by wr_id
        for (std::size_t i = 0; i < 4; ++i) {
            const qp_owner &qp = qps[i % 2];
            expected[receives[i].wr_id] = expected[post_send(qp.get(), dev.sge(i))] = qp->qp_num;
        }
        for (const ibv_wc &wc : poll_all(dev.cq)) {
            assert_int_equal(wc.qp_num, expected.at(wc.wr_id));
            expected.erase(wc.wr_id);
        }
        assert_true(expected.empty());
        // One that is posted to the SRQ outlives a QP.
        receive_list rest;
        rest.add(dev.sge(500));
        assert_int_equal(post(srq.get(), rest), 0);
    }
    const qp_owner qp = dev.create_connected_qp({.srq = srq.get()});
    post_send(qp.get(), dev.sge(0));
    assert_int_equal(poll_all(dev.cq).size(), 2);
}

void data_of_a_receive_come_with_its_completion(void **) {
    device dev;
    const qp_owner qp = dev.create_connected_qp();
    for (const std::uint64_t value : {0x1111U, 0x2222U}) {
        dev.memory[0] = value;
        dev.memory[500] = 0;
        const std::uint64_t receive = post_receive(qp.get(), dev.sge(500));
        const std::uint64_t send = post_send(qp.get(), dev.sge(0));
        assert_int_equal(dev.memory[500], 0);
        expect_wr_ids(poll_all(dev.cq), {send, receive});
        assert_int_equal(dev.memory[500], value);
    }
}

void unsignaled_requests_have_no_completion(void **) {
    device dev;
    const qp_owner qp = dev.create_connected_qp({.depth = 8});
    for (int round = 0; round < 3; ++round) { // more than the queue has room for
        send_list list;
        for (std::size_t i = 0; i < 8; ++i) {
            ibv_send_wr &wr = add_send(list, dev.sge(i), IBV_WR_RDMA_WRITE);
            wr.wr.rdma = {.remote_addr = dev.addr(500 + i), .rkey = dev.mr->rkey};
            wr.send_flags = i == 3 || i == 7 ? unsigned{IBV_SEND_SIGNALED} : 0;
            dev.memory[i] = next_wr_id();
        }
        assert_int_equal(post(qp.get(), list), 0);
        expect_wr_ids(poll_all(dev.cq), {list[3].wr_id, list[7].wr_id});
        assert_true(std::equal(&dev.memory[0], &dev.memory[8], &dev.memory[500]));
        counted.silent += 6;
    }
    // All are signaled by the QP.
    const qp_owner sig_all = dev.create_connected_qp({.is_sig_all = true});
    send_list list;
    ibv_send_wr &wr = add_send(list, dev.sge(0), IBV_WR_RDMA_READ);
    wr.wr.rdma = {.remote_addr = dev.addr(500), .rkey = dev.mr->rkey};
    wr.send_flags = 0;
    assert_int_equal(post(sig_all.get(), list), 0);
    expect_wr_ids(poll_all(dev.cq), {list[0].wr_id});
}

void failure_flushes_all_requests(void **) {
    device dev;
    const qp_owner qp = dev.create_connected_qp();
    const std::uint64_t receive = post_receive(qp.get(), dev.sge(500));
    send_list list;
    for (int i = 0; i < 5; ++i) {
        ibv_send_wr &wr = add_send(list, dev.sge(0), IBV_WR_RDMA_WRITE);
        wr.wr.rdma = {.remote_addr = dev.addr(500), .rkey = dev.mr->rkey + (i == 2 ? 1U : 0U)};
        wr.send_flags = i == 4 ? unsigned{IBV_SEND_SIGNALED} : 0;
    }
    assert_int_equal(post(qp.get(), list), 0);
    counted.silent += 2; // before the one that fails
    std::vector<ibv_wc> sends, receives;
    for (const ibv_wc &wc : poll_all(dev.cq))
        (wc.wr_id == receive ? receives : sends).push_back(wc);
    assert_int_equal(sends.size(), 3);
    assert_int_equal(sends[0].status, IBV_WC_REM_ACCESS_ERR);
    assert_int_equal(sends[0].wr_id, list[2].wr_id);
    sends.erase(sends.begin());
    expect_wr_ids(sends, {list[3].wr_id, list[4].wr_id}, IBV_WC_WR_FLUSH_ERR);
    expect_wr_ids(receives, {receive}, IBV_WC_WR_FLUSH_ERR);
    // What is posted then is flushed, too.
    send_list later;
    add_send(later, dev.sge(0)).send_flags = 0;
    assert_int_equal(post(qp.get(), later), 0);
    expect_wr_ids(poll_all(dev.cq), {later[0].wr_id}, IBV_WC_WR_FLUSH_ERR);
}

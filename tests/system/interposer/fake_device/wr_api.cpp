// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The ibv_wr_* functions.

#include "cases.hpp"
#include "device.hpp"

namespace {

/// Between ibv_wr_start() and ibv_wr_complete(): begins a request. Returns its wr_id.
template <class function>
std::uint64_t begin(ibv_qp_ex *qp, unsigned flags, std::size_t length, function call) {
    qp->wr_id = next_wr_id();
    qp->wr_flags = flags;
    call();
    count_wr(length);
    return qp->wr_id;
}
std::uint64_t begin_write(ibv_qp_ex *qp, const device &dev, std::size_t word,
                          unsigned flags = IBV_SEND_SIGNALED) {
    return begin(qp, flags, sizeof dev.memory[0], [&] {
        ibv_wr_rdma_write(qp, dev.mr->rkey, dev.addr(500 + word));
        const ibv_sge sge = dev.sge(word);
        ibv_wr_set_sge(qp, sge.lkey, sge.addr, sge.length);
    });
}

/// uses_driver: the QP is created by a function that libibverbs does not know.
void use_both_interfaces(bool uses_driver) {
    device dev;
    const qp_owner qp =
        dev.create_connected_qp({.send_ops_flags = ALL_SEND_OPS, .uses_driver = uses_driver});
    ibv_qp_ex *const qp_ex = ibv_qp_to_qp_ex(qp.get());
    std::vector<std::uint64_t> wr_ids;
    for (std::size_t round = 0; round < 4; ++round) {
        ibv_wr_start(qp_ex);
        wr_ids.push_back(begin_write(qp_ex, dev, 0));
        begin_write(qp_ex, dev, 1, 0);
        wr_ids.push_back(begin_write(qp_ex, dev, 2));
        assert_int_equal(ibv_wr_complete(qp_ex), 0);
        send_list list;
        add_send(list, dev.sge(3), IBV_WR_RDMA_WRITE).wr.rdma = {.remote_addr = dev.addr(503),
                                                                 .rkey = dev.mr->rkey};
        assert_int_equal(post(qp.get(), list), 0);
        wr_ids.push_back(list[0].wr_id);
        ++counted.silent;
    }
    expect_wr_ids(poll_all(dev.cq), wr_ids);
    ibv_wr_start(qp_ex);
    assert_int_equal(ibv_wr_complete(qp_ex), 0); // nothing
    // A QP that ibv_create_qp() made has no such functions.
    const qp_owner without = dev.create_qp();
    assert_null(ibv_qp_to_qp_ex(without.get()));
}

} // namespace

void wr_functions_and_ibv_post_send(void **) {
    use_both_interfaces(false);
}

/// It is not observed: only that the CQ has completions of requests that are not known.
void qp_of_a_function_of_the_driver(void **) {
    const unsigned long sends = counted.sends, send_bytes = counted.send_bytes,
                        completions = counted.completions, silent = counted.silent,
                        qps = counted.qps;
    use_both_interfaces(true);
    counted.sends = sends;
    counted.send_bytes = send_bytes;
    counted.silent = silent;
    counted.qps = qps + 1; // one that ibv_create_qp() made
    counted.unknown += counted.completions - completions;
}

void aborted_requests_do_not_exist(void **) {
    device dev;
    const qp_owner qp = dev.create_connected_qp({.depth = 4, .send_ops_flags = ALL_SEND_OPS});
    ibv_qp_ex *const qp_ex = ibv_qp_to_qp_ex(qp.get());
    dev.memory[0] = 1;
    for (int round = 0; round < 3; ++round) { // more than the queue has room for
        ibv_wr_start(qp_ex);
        begin_write(qp_ex, dev, 0);
        begin_write(qp_ex, dev, 0, 0);
        ibv_wr_abort(qp_ex);
        counted.refused += 2;
        ibv_wr_start(qp_ex);
        begin(qp_ex, IBV_SEND_SIGNALED, 0, [&] { ibv_wr_send(qp_ex); });
        ibv_wr_abort(qp_ex); // before the request has data
        --counted.sends;     // so that the driver did not get it
    }
    assert_int_equal(dev.memory[500], 0);
    assert_int_equal(poll_all(dev.cq).size(), 0);
    ibv_wr_start(qp_ex);
    const std::uint64_t wr_id = begin_write(qp_ex, dev, 0);
    assert_int_equal(ibv_wr_complete(qp_ex), 0);
    expect_wr_ids(poll_all(dev.cq), {wr_id});
    assert_int_equal(dev.memory[500], 1);
}

void failed_batch_posts_nothing(void **) {
    device dev;
    const qp_owner qp = dev.create_connected_qp({.depth = 4, .send_ops_flags = ALL_SEND_OPS});
    ibv_qp_ex *const qp_ex = ibv_qp_to_qp_ex(qp.get());
    ibv_wr_start(qp_ex);
    for (std::size_t i = 0; i < 5; ++i)
        begin_write(qp_ex, dev, i);
    assert_int_equal(ibv_wr_complete(qp_ex), ENOMEM);
    counted.refused += 5;
    ibv_wr_start(qp_ex);
    begin_write(qp_ex, dev, 0);
    begin(qp_ex, IBV_SEND_SIGNALED, sizeof dev.memory[0], [&] {
        ibv_wr_rdma_write(qp_ex, dev.mr->rkey, dev.addr(500));
        ibv_wr_set_inline_data(qp_ex, &dev.memory[0], sizeof dev.memory[0]);
    });
    assert_int_equal(ibv_wr_complete(qp_ex), EINVAL);
    counted.refused += 2;
    assert_int_equal(poll_all(dev.cq).size(), 0);
    ibv_wr_start(qp_ex);
    const std::uint64_t wr_id = begin_write(qp_ex, dev, 0);
    assert_int_equal(ibv_wr_complete(qp_ex), 0);
    expect_wr_ids(poll_all(dev.cq), {wr_id});
}

void all_opcodes_of_wr_functions(void **) {
    device dev;
    const qp_owner qp = dev.create_connected_qp({.send_ops_flags = ALL_SEND_OPS});
    ibv_qp_ex *const qp_ex = ibv_qp_to_qp_ex(qp.get());
    constexpr std::size_t SIZE = sizeof dev.memory[0];
    const auto set_sge = [&](std::size_t word) {
        const ibv_sge sge = dev.sge(word);
        ibv_wr_set_sge_list(qp_ex, 1, &sge);
    };
    std::vector<std::uint64_t> receives;
    for (std::size_t i = 0; i < 3; ++i)
        receives.push_back(post_receive(qp.get(), dev.sge(600 + i)));
    dev.memory[0] = 7;
    dev.memory[500] = 40;
    std::vector<std::uint64_t> sends;
    ibv_wr_start(qp_ex);
    sends.push_back(begin(qp_ex, IBV_SEND_SIGNALED, SIZE, [&] {
        ibv_wr_atomic_fetch_add(qp_ex, dev.mr->rkey, dev.addr(500), 2);
        set_sge(1);
    }));
    sends.push_back(begin(qp_ex, IBV_SEND_SIGNALED, SIZE, [&] {
        ibv_wr_atomic_cmp_swp(qp_ex, dev.mr->rkey, dev.addr(500), 42, 43);
        set_sge(2);
    }));
    sends.push_back(begin(qp_ex, IBV_SEND_SIGNALED, SIZE, [&] {
        ibv_wr_rdma_read(qp_ex, dev.mr->rkey, dev.addr(500));
        set_sge(3);
    }));
    sends.push_back(begin(qp_ex, IBV_SEND_SIGNALED, SIZE, [&] {
        ibv_wr_rdma_write_imm(qp_ex, dev.mr->rkey, dev.addr(501), 0xaabb);
        set_sge(0);
    }));
    sends.push_back(begin(qp_ex, IBV_SEND_SIGNALED, SIZE, [&] {
        ibv_wr_send_imm(qp_ex, 0xccdd);
        set_sge(0);
    }));
    sends.push_back(begin(qp_ex, IBV_SEND_SIGNALED, 0, [&] { ibv_wr_send(qp_ex); }));
    assert_int_equal(ibv_wr_complete(qp_ex), 0);
    std::vector<ibv_wc> wcs = poll_all(dev.cq);
    std::vector<std::uint64_t> expected = sends;
    expected.insert(expected.end(), receives.begin(), receives.end());
    expect_wr_ids(wcs, expected);
    assert_int_equal(dev.memory[1], 40);
    assert_int_equal(dev.memory[2], 42);
    assert_int_equal(dev.memory[3], 43);
    assert_int_equal(dev.memory[501], 7);
    assert_int_equal(dev.memory[601], 7);
    wcs.erase(wcs.begin(), wcs.begin() + 6);
    assert_int_equal(wcs[0].imm_data, 0xaabb);
    assert_int_equal(wcs[0].opcode, IBV_WC_RECV_RDMA_WITH_IMM);
    assert_int_equal(wcs[1].imm_data, 0xccdd);
    assert_int_equal(wcs[2].byte_len, 0);
}

void datagrams_by_both_interfaces(void **) {
    device dev;
    const ah_owner ah = dev.create_ah();
    const qp_owner sender =
        dev.create_connected_qp({.send_ops_flags = IBV_QP_EX_WITH_SEND, .type = IBV_QPT_UD});
    const qp_owner receiver = dev.create_connected_qp({.type = IBV_QPT_UD});
    constexpr std::size_t GRH_WORDS = 5;
    enum class interface { POST_SEND, WR_ADDRESS_LAST, WR_ADDRESS_FIRST };
    for (const interface used :
         {interface::POST_SEND, interface::WR_ADDRESS_LAST, interface::WR_ADDRESS_FIRST}) {
        dev.memory[0] = next_wr_id();
        const std::uint64_t receive = post_receive(receiver.get(), dev.sge(500, GRH_WORDS + 1));
        std::uint64_t send;
        if (used == interface::POST_SEND) {
            send_list list;
            add_send(list, dev.sge(0)).wr.ud = {
                .ah = ah.get(), .remote_qpn = receiver->qp_num, .remote_qkey = 0x11};
            assert_int_equal(post(sender.get(), list), 0);
            send = list[0].wr_id;
        } else {
            ibv_qp_ex *const qp_ex = ibv_qp_to_qp_ex(sender.get());
            ibv_wr_start(qp_ex);
            send = begin(qp_ex, IBV_SEND_SIGNALED, sizeof dev.memory[0], [&] {
                ibv_wr_send(qp_ex);
                if (used == interface::WR_ADDRESS_FIRST)
                    ibv_wr_set_ud_addr(qp_ex, ah.get(), receiver->qp_num, 0x11);
                const ibv_sge sge = dev.sge(0);
                ibv_wr_set_sge(qp_ex, sge.lkey, sge.addr, sge.length);
                if (used == interface::WR_ADDRESS_LAST)
                    ibv_wr_set_ud_addr(qp_ex, ah.get(), receiver->qp_num, 0x11);
            });
            assert_int_equal(ibv_wr_complete(qp_ex), 0);
        }
        const std::vector<ibv_wc> wcs = poll_all(dev.cq);
        expect_wr_ids(wcs, {send, receive});
        assert_int_equal(wcs[1].src_qp, sender->qp_num);
        assert_int_equal(wcs[1].byte_len, (GRH_WORDS + 1) * sizeof dev.memory[0]);
        assert_int_equal(dev.memory[500 + GRH_WORDS], dev.memory[0]);
    }
}

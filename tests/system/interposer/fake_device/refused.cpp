// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What the driver refuses: the values that its calls return reach the program.

#include "cases.hpp"
#include "device.hpp"

#include <cstdlib>

namespace {

/// The values that come back from a list of which the driver accepts num_accepted.
template <class queue_type, class list_type, class wr_type>
void expect_refused(queue_type *queue, list_type &list, int expected, wr_type *expected_bad_wr) {
    wr_type *bad_wr = nullptr;
    assert_int_equal(post(queue, list, &bad_wr), expected);
    assert_ptr_equal(bad_wr, expected_bad_wr);
}

send_list make_sends(const device &dev, std::size_t count) {
    send_list list;
    for (std::size_t i = 0; i < count; ++i)
        add_send(list, dev.sge(i), IBV_WR_RDMA_READ).wr.rdma = {.remote_addr = dev.addr(500),
                                                                .rkey = dev.mr->rkey};
    return list;
}
receive_list make_receives(const device &dev, std::size_t count) {
    receive_list list;
    for (std::size_t i = 0; i < count; ++i)
        list.add(dev.sge(500 + i));
    return list;
}

template <class list_type>
std::vector<std::uint64_t> first_wr_ids(list_type &list, std::size_t count) {
    std::vector<std::uint64_t> wr_ids;
    for (std::size_t i = 0; i < count; ++i)
        wr_ids.push_back(list[i].wr_id);
    return wr_ids;
}

} // namespace

void bad_wr_is_the_first_refused(void **) {
    device dev;
    const qp_owner qp = dev.create_connected_qp({.depth = 8});
    // The queue is full.
    send_list sends = make_sends(dev, 10);
    expect_refused(qp.get(), sends, ENOMEM, &sends[8]);
    send_list more = make_sends(dev, 2);
    expect_refused(qp.get(), more, ENOMEM, &more[0]);
    expect_wr_ids(poll_all(dev.cq), first_wr_ids(sends, 8));
    // One in the middle has no data that this device takes.
    send_list wrong = make_sends(dev, 3);
    wrong[1].send_flags |= IBV_SEND_INLINE;
    expect_refused(qp.get(), wrong, EINVAL, &wrong[1]);
    expect_wr_ids(poll_all(dev.cq), {wrong[0].wr_id});

    receive_list receives = make_receives(dev, 9);
    expect_refused(qp.get(), receives, ENOMEM, &receives[8]);
    set_state(qp.get(), IBV_QPS_ERR);
    expect_wr_ids(poll_all(dev.cq), first_wr_ids(receives, 8), IBV_WC_WR_FLUSH_ERR);

    const srq_owner srq = dev.create_srq(4);
    receive_list srq_receives = make_receives(dev, 6);
    expect_refused(srq.get(), srq_receives, ENOMEM, &srq_receives[4]);
    const qp_owner unconnected = dev.create_qp();
    send_list too_early = make_sends(dev, 2);
    expect_refused(unconnected.get(), too_early, EINVAL, &too_early[0]);
}

void refusal_without_bad_wr(void **) {
    setenv("FAKE_NO_BAD_WR", "1", 1);
    device dev;
    unsetenv("FAKE_NO_BAD_WR");
    const qp_owner qp = dev.create_connected_qp({.depth = 4});
    send_list sends = make_sends(dev, 6);
    expect_refused<ibv_qp, send_list, ibv_send_wr>(qp.get(), sends, ENOMEM, nullptr);
    expect_wr_ids(poll_all(dev.cq), first_wr_ids(sends, 4));
    receive_list receives = make_receives(dev, 5);
    expect_refused<ibv_qp, receive_list, ibv_recv_wr>(qp.get(), receives, ENOMEM, nullptr);
    set_state(qp.get(), IBV_QPS_ERR);
    expect_wr_ids(poll_all(dev.cq), first_wr_ids(receives, 4), IBV_WC_WR_FLUSH_ERR);
}

void bad_wr_is_not_wanted(void **) {
    device dev;
    const qp_owner qp = dev.create_qp(); // not connected
    const ibv_sge sge = dev.sge(0);
    send_list sends;
    add_send(sends, sge);
    ++counted.sends; // it is not known to be refused
    counted.send_bytes += sge.length;
    assert_int_equal(ibv_post_send(qp.get(), sends.first(), nullptr), EINVAL);
    set_state(qp.get(), IBV_QPS_RESET);
    receive_list receives = make_receives(dev, 1);
    ++counted.receives;
    assert_int_equal(ibv_post_recv(qp.get(), receives.first(), nullptr), EINVAL);
}

void depth_and_limits_are_the_drivers(void **) {
    device dev;
    ibv_qp_init_attr attr = {};
    attr.send_cq = attr.recv_cq = dev.cq;
    attr.qp_type = IBV_QPT_RC;
    attr.cap = {.max_send_wr = 5,
                .max_recv_wr = 9,
                .max_send_sge = 1,
                .max_recv_sge = 1,
                .max_inline_data = 0};
    {
        const qp_owner qp(counted_object(ibv_create_qp(dev.pd, &attr), counted.qps));
        assert_int_equal(attr.cap.max_send_wr, 8);
        assert_int_equal(attr.cap.max_recv_wr, 16);
    }
    attr.cap.max_inline_data = 1;
    errno = 0;
    assert_null(ibv_create_qp(dev.pd, &attr));
    assert_int_equal(errno, EINVAL);
    attr.cap.max_inline_data = 0;
    attr.cap.max_send_sge = 2;
    errno = 0;
    assert_null(ibv_create_qp(dev.pd, &attr));
    assert_int_equal(errno, EINVAL);
    ibv_comp_channel *const channel = ibv_create_comp_channel(dev.context);
    assert_non_null(channel);
    errno = 0;
    assert_null(ibv_create_cq(dev.context, 1, nullptr, channel, 0));
    assert_int_equal(errno, EOPNOTSUPP);
    assert_int_equal(ibv_destroy_comp_channel(channel), 0);
}

void object_in_use_survives_destroy(void **) {
    device dev;
    const cq_owner cq = dev.create_cq_ex(false);
    const srq_owner srq = dev.create_srq(4);
    const qp_owner qp = dev.create_connected_qp({.cq = cq.get(), .srq = srq.get()});
    assert_int_equal(ibv_destroy_cq(cq.get()), EBUSY);
    assert_int_equal(ibv_destroy_srq(srq.get()), EBUSY);
    assert_int_equal(ibv_dealloc_pd(dev.pd), EBUSY);
    receive_list receives = make_receives(dev, 1);
    assert_int_equal(post(srq.get(), receives), 0);
    const std::uint64_t send = post_send(qp.get(), dev.sge(0));
    expect_wr_ids(poll_all_ex(cq.get()), {send, receives[0].wr_id});
}

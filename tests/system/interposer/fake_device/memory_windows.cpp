// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// MWs: a driver's bind_mw may call ibv_post_send() or not.

#include "cases.hpp"
#include "device.hpp"

#include <cstdlib>

namespace {

ibv_mw_bind_info window_of(const device &dev, std::size_t word) noexcept {
    return {.mr = dev.mr,
            .addr = dev.addr(word),
            .length = sizeof dev.memory[0],
            .mw_access_flags = IBV_ACCESS_REMOTE_WRITE};
}

/// The status of a write of word 0 to another word.
ibv_wc_status write_by(device &dev, ibv_qp *qp, std::uint32_t rkey, std::size_t word) {
    send_list list;
    add_send(list, dev.sge(0), IBV_WR_RDMA_WRITE).wr.rdma = {.remote_addr = dev.addr(word),
                                                             .rkey = rkey};
    assert_int_equal(post(qp, list), 0);
    const std::vector<ibv_wc> wcs = poll_all(dev.cq);
    assert_int_equal(wcs.size(), 1);
    assert_int_equal(wcs[0].wr_id, list[0].wr_id);
    return wcs[0].status;
}

int bind(ibv_qp *qp, ibv_mw *mw, ibv_mw_bind &mw_bind) {
    ++counted.sends;
    const int error = ibv_bind_mw(qp, mw, &mw_bind);
    if (error != 0)
        ++counted.refused;
    return error;
}

void bind_and_use() {
    device dev;
    const mw_owner mw = dev.alloc_mw(IBV_MW_TYPE_1);
    const qp_owner qp = dev.create_connected_qp();
    const std::uint32_t rkey = mw->rkey;
    ibv_mw_bind mw_bind = {
        .wr_id = next_wr_id(), .send_flags = IBV_SEND_SIGNALED, .bind_info = window_of(dev, 500)};
    const std::uint64_t wr_id = mw_bind.wr_id;
    assert_int_equal(bind(qp.get(), mw.get(), mw_bind), 0);
    assert_int_equal(mw_bind.wr_id, wr_id); // the program's structure is as it was
    assert_int_equal(mw->rkey, ibv_inc_rkey(rkey));
    const std::vector<ibv_wc> wcs = poll_all(dev.cq);
    expect_wr_ids(wcs, {wr_id});
    assert_int_equal(wcs[0].opcode, IBV_WC_BIND_MW);
    dev.memory[0] = 0x1234;
    assert_int_equal(write_by(dev, qp.get(), mw->rkey, 500), IBV_WC_SUCCESS);
    assert_int_equal(dev.memory[500], 0x1234);
    // An unsignaled bind has no completion. The old rkey is invalid.
    mw_bind = {.wr_id = next_wr_id(), .send_flags = 0, .bind_info = window_of(dev, 501)};
    assert_int_equal(bind(qp.get(), mw.get(), mw_bind), 0);
    assert_int_equal(poll_all(dev.cq).size(), 0);
    assert_int_equal(write_by(dev, qp.get(), ibv_inc_rkey(rkey), 500), IBV_WC_REM_ACCESS_ERR);
    ++counted.silent;
}

} // namespace

void bind_mw_by_ibv_post_send(void **) {
    bind_and_use();
}

void bind_mw_by_internal_function(void **) {
    setenv("FAKE_INTERNAL_BIND", "1", 1);
    bind_and_use();
    unsetenv("FAKE_INTERNAL_BIND");
}

void refused_bind_mw(void **) {
    device dev;
    const mw_owner mw = dev.alloc_mw(IBV_MW_TYPE_1);
    const qp_owner qp = dev.create_qp(); // not connected
    ibv_mw_bind mw_bind = {
        .wr_id = next_wr_id(), .send_flags = IBV_SEND_SIGNALED, .bind_info = window_of(dev, 500)};
    const std::uint32_t rkey = mw->rkey;
    assert_int_equal(bind(qp.get(), mw.get(), mw_bind), EINVAL);
    assert_int_equal(mw->rkey, rkey);
    connect(qp.get(), qp->qp_num);
    assert_int_equal(bind(qp.get(), mw.get(), mw_bind), 0);
    expect_wr_ids(poll_all(dev.cq), {mw_bind.wr_id});
    // The bind fails when it is executed.
    mw_bind.wr_id = next_wr_id();
    mw_bind.bind_info.length = sizeof dev.memory + 1;
    assert_int_equal(bind(qp.get(), mw.get(), mw_bind), 0);
    expect_wr_ids(poll_all(dev.cq), {mw_bind.wr_id}, IBV_WC_MW_BIND_ERR);
}

void mw_of_type_2(void **) {
    device dev;
    const mw_owner mw = dev.alloc_mw(IBV_MW_TYPE_2);
    const qp_owner qp = dev.create_connected_qp({.send_ops_flags = ALL_SEND_OPS});
    send_list list;
    ibv_send_wr &wr = add_send(list, {}, IBV_WR_BIND_MW);
    wr.bind_mw = {.mw = mw.get(), .rkey = ibv_inc_rkey(mw->rkey), .bind_info = window_of(dev, 500)};
    assert_int_equal(post(qp.get(), list), 0);
    expect_wr_ids(poll_all(dev.cq), {wr.wr_id});
    mw->rkey = wr.bind_mw.rkey;
    assert_int_equal(write_by(dev, qp.get(), mw->rkey, 500), IBV_WC_SUCCESS);

    ibv_qp_ex *const qp_ex = ibv_qp_to_qp_ex(qp.get());
    const ibv_mw_bind_info window = window_of(dev, 501);
    const std::uint32_t rkey = ibv_inc_rkey(mw->rkey);
    ibv_wr_start(qp_ex);
    qp_ex->wr_id = next_wr_id();
    qp_ex->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_bind_mw(qp_ex, mw.get(), rkey, &window);
    count_wr(0);
    assert_int_equal(ibv_wr_complete(qp_ex), 0);
    expect_wr_ids(poll_all(dev.cq), {qp_ex->wr_id});
    assert_int_equal(write_by(dev, qp.get(), rkey, 501), IBV_WC_SUCCESS);
    // A message invalidates it.
    const std::uint64_t receive = post_receive(qp.get(), dev.sge(600));
    send_list message;
    add_send(message, dev.sge(0), IBV_WR_SEND_WITH_INV).invalidate_rkey = rkey;
    assert_int_equal(post(qp.get(), message), 0);
    expect_wr_ids(poll_all(dev.cq), {message[0].wr_id, receive});
    assert_int_equal(write_by(dev, qp.get(), rkey, 501), IBV_WC_REM_ACCESS_ERR);
}

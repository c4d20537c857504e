// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Trials of faults of a provider for rxe: prints "right" or "wrong" for each, and what was seen.
//
// upstream_bugs_rxe DEVICE GID_INDEX [TRIAL...]

#include "../../lib/connected_qps.hpp"
#include "../../lib/writes.hpp"

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <thread>

namespace {

using namespace verbs_test;

// The completion of a receive whose Send invalidated an rkey, here of an MW of type 2, has
// IBV_WC_WITH_INV and the rkey, but not IBV_WC_IP_CSUM_OK.
outcome invalidation_flag(const device &dev) {
    const endpoint requester(dev), responder(dev);
    connect(requester, responder);
    const unique_handle<ibv_mw, ibv_dealloc_mw> mw = check(
        unique_handle<ibv_mw, ibv_dealloc_mw>(ibv_alloc_mw(responder.pd.get(), IBV_MW_TYPE_2)),
        "memory window");
    ibv_send_wr bind = responder.make_wr(IBV_WR_BIND_MW), *bad_wr = nullptr;
    bind.bind_mw.mw = mw.get();
    bind.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
    bind.bind_mw.bind_info = {responder.mr.get(),
                              reinterpret_cast<std::uintptr_t>(responder.memory.data()), 64,
                              IBV_ACCESS_REMOTE_WRITE};
    check(ibv_post_send(responder.qp.get(), &bind, &bad_wr), "post the binding");
    responder.expect_success("the binding");
    responder.post_recv(1);
    ibv_sge sge = requester.make_sge(8);
    ibv_send_wr send = requester.make_wr(IBV_WR_SEND_WITH_INV, sge);
    send.invalidate_rkey = bind.bind_mw.rkey;
    check(ibv_post_send(requester.qp.get(), &send, &bad_wr), "post the message");
    const ibv_wc wc = responder.expect_success("the receive");
    requester.expect_success("the message");
    const bool flags_ok = (wc.wc_flags & IBV_WC_WITH_INV) != 0 &&
                          (wc.wc_flags & IBV_WC_IP_CSUM_OK) == 0 &&
                          wc.invalidated_rkey == bind.bind_mw.rkey;
    return {flags_ok, concat("flags ", wc.wc_flags)};
}

// A QP that is not connected yet refuses a Send, names it in bad_wr, and never sends it.
outcome send_before_connect(const device &dev) {
    const endpoint requester(dev), responder(dev);
    requester.to_init();
    responder.to_init();
    requester.to_rtr(responder);
    responder.to_rtr(requester);
    responder.to_rts();
    responder.post_recv(1);
    ibv_sge sge = requester.make_sge(8);
    ibv_send_wr send = requester.make_wr(IBV_WR_SEND, sge), *bad_wr = nullptr;
    const int error = ibv_post_send(requester.qp.get(), &send, &bad_wr);
    const bool is_bad_wr = bad_wr == &send;
    requester.to_rts();
    // Its doorbell makes the kernel read the send queue: a refused Send that is there would be
    // sent.
    constexpr std::uint64_t later_wr_id = 7;
    send.wr_id = later_wr_id;
    check(ibv_post_send(requester.qp.get(), &send, &bad_wr), "post a message in RTS");
    const auto wc = requester.wait_completion(trial_timeout());
    const bool only_second_sent = wc && wc->wr_id == later_wr_id;
    return {error > 0 && is_bad_wr && only_second_sent,
            concat("error ", error, is_bad_wr ? ", in bad_wr" : ", not in bad_wr",
                   only_second_sent ? ", not sent" : ", sent later")};
}

// A receive posted to a QP in the error state is flushed.
outcome recv_in_error(const device &dev) {
    const endpoint requester(dev), responder(dev);
    connect(requester, responder);
    responder.post_recv(1);
    responder.to_error();
    const auto first_wc = responder.wait_completion(trial_timeout());
    if (!first_wc || first_wc->status != IBV_WC_WR_FLUSH_ERR)
        throw failure("the receive that was posted before the error is not flushed");
    responder.post_recv(2);
    const auto flushed_wc = responder.wait_completion(trial_timeout());
    if (!flushed_wc)
        return {false, "never completes"};
    return {flushed_wc->wr_id == 2 && flushed_wc->status == IBV_WC_WR_FLUSH_ERR,
            ibv_wc_status_str(flushed_wc->status)};
}

void post_write_with_wrong_rkey(const endpoint &requester, const endpoint &responder,
                                std::uint64_t wr_id) {
    ibv_sge sge = requester.make_sge(8);
    ibv_send_wr write = requester.make_wr(IBV_WR_RDMA_WRITE, sge, responder), *bad_wr = nullptr;
    write.wr_id = wr_id;
    write.wr.rdma.rkey = ~write.wr.rdma.rkey;
    check(ibv_post_send(requester.qp.get(), &write, &bad_wr), "post a write");
}
// An RDMA Write that the responder refuses moves the requester's QP to the error state; a receive
// posted after that is flushed.
outcome recv_after_remote_error(const device &dev) {
    const endpoint requester(dev), responder(dev);
    connect(requester, responder);
    post_write_with_wrong_rkey(requester, responder, 1);
    const auto failed_wc = requester.wait_completion(trial_timeout());
    if (!failed_wc || failed_wc->status == IBV_WC_SUCCESS)
        throw failure("the write does not fail");
    requester.post_recv(2);
    const auto flushed_wc = requester.wait_completion(trial_timeout());
    if (!flushed_wc)
        return {false, "never completes"};
    return {flushed_wc->wr_id == 2 && flushed_wc->status == IBV_WC_WR_FLUSH_ERR,
            ibv_wc_status_str(flushed_wc->status)};
}

void wait_qp_state(const endpoint &requester, ibv_qp_state state) {
    const auto deadline = std::chrono::steady_clock::now() + trial_timeout();
    ibv_qp_attr attr{};
    ibv_qp_init_attr init_attr{};
    do {
        if (std::chrono::steady_clock::now() > deadline)
            throw failure(concat("the QP does not come to state ", static_cast<int>(state)));
        std::this_thread::sleep_for(milliseconds(1));
        check(ibv_query_qp(requester.qp.get(), &attr, IBV_QP_STATE, &init_attr), "query the QP");
    } while (attr.qp_state != state);
}

// A QP that is reset after an error and connected again works: the failed completion from before
// the reset, which is in the CQ, is not reported and does not move the QP to the error state again.
outcome qp_reset(const device &dev) {
    const endpoint requester(dev), responder(dev);
    connect(requester, responder);
    post_write_with_wrong_rkey(requester, responder, 1);
    wait_qp_state(requester, IBV_QPS_ERR); // now the failed completion is in the CQ
    for (const endpoint *ep : {&requester, &responder}) {
        ibv_qp_attr reset_attr{};
        reset_attr.qp_state = IBV_QPS_RESET;
        check(ibv_modify_qp(ep->qp.get(), &reset_attr, IBV_QP_STATE), "to RESET");
    }
    connect(requester, responder);
    responder.post_recv(2);
    ibv_sge sge = requester.make_sge(8);
    ibv_send_wr send = requester.make_wr(IBV_WR_SEND, sge), *bad_wr = nullptr;
    constexpr std::uint64_t send_wr_id = 3;
    send.wr_id = send_wr_id;
    check(ibv_post_send(requester.qp.get(), &send, &bad_wr), "post a message");
    const auto wc = requester.wait_completion(trial_timeout());
    if (!wc || wc->wr_id != send_wr_id || wc->status != IBV_WC_SUCCESS)
        return {false, wc ? concat("wr_id ", wc->wr_id, ": ", ibv_wc_status_str(wc->status))
                          : "the message does not complete"};
    return {responder.wait_completion(trial_timeout()).has_value(), "goes on"};
}

// A Send in front of a WR with an unsupported opcode in the same list is sent, and bad_wr is the
// unsupported one. A Send with more SGEs than the QP permits is refused, too.
outcome bad_send_wr(const device &dev) {
    const endpoint requester(dev), responder(dev);
    connect(requester, responder);
    responder.post_recv(1);
    ibv_sge sge = requester.make_sge(8);
    ibv_send_wr valid_wr = requester.make_wr(IBV_WR_SEND, sge),
                invalid_wr = requester.make_wr(IBV_WR_TSO), *bad_wr = nullptr;
    valid_wr.next = &invalid_wr;
    const int error = ibv_post_send(requester.qp.get(), &valid_wr, &bad_wr);
    const bool is_bad_wr = bad_wr == &invalid_wr;
    if (error != EINVAL || !is_bad_wr)
        return {false, concat("error ", error, is_bad_wr ? ", in bad_wr" : ", not in bad_wr")};
    responder.expect_success("the valid Send");
    requester.expect_success("the valid Send");
    bad_wr = nullptr;
    const std::array<ibv_sge, 64> excess_sges{};
    invalid_wr = requester.make_wr(IBV_WR_SEND);
    invalid_wr.sg_list = const_cast<ibv_sge *>(excess_sges.data());
    invalid_wr.num_sge = static_cast<int>(excess_sges.size());
    const int sges_error = ibv_post_send(requester.qp.get(), &invalid_wr, &bad_wr);
    return {sges_error == EINVAL && bad_wr == &invalid_wr,
            concat("error ", sges_error, " for too many SGEs")};
}

// A CQ that ibv_next_poll() has emptied is empty for the next ibv_start_poll().
outcome start_poll_at_end(const device &dev) {
    const endpoint requester(dev, {.extended = true}), responder(dev);
    connect(requester, responder);
    responder.post_recv(1);
    ibv_sge sge = requester.make_sge(8);
    ibv_send_wr send = requester.make_wr(IBV_WR_SEND, sge), *bad_wr = nullptr;
    constexpr std::uint64_t send_wr_id = 5;
    send.wr_id = send_wr_id;
    check(ibv_post_send(requester.qp.get(), &send, &bad_wr), "post a message");
    responder.expect_success("the receive");
    ibv_cq_ex *const cq = requester.cq_ex();
    ibv_poll_cq_attr poll_attr{};
    const auto deadline = std::chrono::steady_clock::now() + trial_timeout();
    int first_result;
    while ((first_result = ibv_start_poll(cq, &poll_attr)) == ENOENT &&
           std::chrono::steady_clock::now() < deadline)
        continue;
    if (first_result != 0 || cq->wr_id != send_wr_id || cq->status != IBV_WC_SUCCESS)
        throw failure("the message did not complete");
    const bool sent = ibv_wc_read_opcode(cq) == IBV_WC_SEND;
    const int next_result = ibv_next_poll(cq);
    ibv_end_poll(cq);
    const int restart_result = ibv_start_poll(cq, &poll_attr);
    if (restart_result == 0)
        ibv_end_poll(cq);
    return {sent && next_result == ENOENT && restart_result == ENOENT,
            concat("ibv_next_poll: ", next_result, ", ibv_start_poll: ", restart_result)};
}

// Data of ibv_wr_set_inline_data() are sent without IBV_SEND_INLINE.
outcome inline_data_ex(const device &dev) {
    endpoint requester(dev, {.extended = true}), responder(dev);
    connect(requester, responder);
    responder.post_recv(1);
    ibv_qp_ex *const qp = ibv_qp_to_qp_ex(requester.qp.get());
    std::array<char, 6> inline_data{'i', 'n', 'l', 'i', 'n', 'e'};
    ibv_wr_start(qp);
    constexpr std::uint64_t send_wr_id = 9;
    qp->wr_id = send_wr_id;
    qp->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_send(qp);
    ibv_wr_set_inline_data(qp, inline_data.data(), inline_data.size());
    check(ibv_wr_complete(qp), "post by ibv_wr_*");
    const auto send_wc = requester.wait_completion(trial_timeout());
    if (!send_wc || send_wc->status != IBV_WC_SUCCESS)
        return {false, send_wc ? ibv_wc_status_str(send_wc->status) : "no completion"};
    const ibv_wc wc = responder.expect_success("the receive");
    const bool same_data =
        std::memcmp(responder.memory.data(), inline_data.data(), inline_data.size()) == 0;
    return {send_wc->wr_id == send_wr_id && wc.byte_len == inline_data.size() && same_data, "sent"};
}

// A QP for atomic writes can be created exactly if the device reports the capability; then an
// atomic write works. The constants are those of libibverbs, whose older versions lack them.
outcome atomic_write_offered(const device &dev) {
    constexpr std::uint64_t atomic_write_cap = std::uint64_t{1} << 40,
                            atomic_write_send_op = std::uint64_t{1} << 12;
    ibv_device_attr_ex device_attr{};
    check(ibv_query_device_ex(dev.context.get(), nullptr, &device_attr), "query the device");
    const bool is_capable = (device_attr.device_cap_flags_ex & atomic_write_cap) != 0;
    const endpoint responder(dev);
    std::optional<endpoint> requester;
    try {
        requester.emplace(
            dev, endpoint_options{.extended = true, .extra_send_ops = atomic_write_send_op});
    } catch (const failure &) {
        return {!is_capable, concat("refused, the device ", is_capable ? "has it" : "lacks it")};
    }
    if (!is_capable)
        return {false, "accepted, the device lacks it"};
    connect(*requester, responder);
    const std::uint64_t value = 0x0123456789abcdef;
    ibv_qp_ex *const qp = ibv_qp_to_qp_ex(requester->qp.get());
    ibv_wr_start(qp);
    constexpr std::uint64_t write_wr_id = 11;
    qp->wr_id = write_wr_id;
    qp->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_atomic_write(qp, responder.mr->rkey,
                        reinterpret_cast<std::uintptr_t>(responder.memory.data()), &value);
    check(ibv_wr_complete(qp), "post an atomic write");
    const ibv_wc wc = requester->expect_success("the atomic write");
    const bool is_written = std::memcmp(responder.memory.data(), &value, sizeof value) == 0;
    return {is_written && wc.wr_id == write_wr_id, is_written ? "written" : "not written"};
}

// A CQ that is resized reports each completion once and in order: four Writes are posted, one is
// polled, the CQ is enlarged, and the others are polled; this three times.
outcome cq_resize(const device &dev) {
    const endpoint requester(dev), responder(dev);
    connect(requester, responder);
    ibv_sge sge = requester.make_sge(8);
    ibv_send_wr send = requester.make_wr(IBV_WR_RDMA_WRITE, sge, responder), *bad_wr = nullptr;
    constexpr std::uint64_t writes_per_resize = 4, num_resizes = 3;
    std::uint64_t expected = 0;
    for (std::uint64_t wr_id = 0; wr_id < writes_per_resize * num_resizes; ++wr_id) {
        send.wr_id = wr_id;
        check(ibv_post_send(requester.qp.get(), &send, &bad_wr), "post a write");
        if (wr_id % writes_per_resize != writes_per_resize - 1)
            continue;
        if (requester.expect_success("a write").wr_id != expected++)
            return {false, concat("not number ", expected - 1)};
        const int min_cqe = 100 << (wr_id / writes_per_resize); // more each time
        check(ibv_resize_cq(requester.cq.get(), min_cqe), "resize the queue");
        if (requester.cq->cqe < min_cqe)
            return {false, "not larger"};
        while (expected <= wr_id)
            if (requester.expect_success("a write").wr_id != expected++)
                return {false, concat("not number ", expected - 1)};
    }
    return {!requester.wait_completion(absence_timeout), concat(expected, " writes")};
}

// An SRQ that is enlarged while it is full takes more receives; messages consume those from before
// and after the resize in the order of their posts.
outcome srq_resize(const device &dev) {
    const endpoint requester(dev), responder(dev);
    ibv_srq_init_attr srq_init_attr{};
    constexpr std::uint32_t initial_size = 4, resized_size = 40;
    srq_init_attr.attr = {initial_size, 2, 0};
    const unique_handle<ibv_srq, ibv_destroy_srq> srq = check(
        unique_handle<ibv_srq, ibv_destroy_srq>(ibv_create_srq(responder.pd.get(), &srq_init_attr)),
        "queue");
    ibv_qp_init_attr qp_init_attr{};
    qp_init_attr.qp_type = IBV_QPT_RC;
    qp_init_attr.send_cq = qp_init_attr.recv_cq = responder.cq.get();
    qp_init_attr.srq = srq.get();
    qp_init_attr.cap = {8, 0, 2, 0, 64};
    const endpoint srq_user(responder, &qp_init_attr);
    connect(requester, srq_user);
    const auto post_recv = [&](std::uint64_t wr_id) {
        ibv_sge sge = responder.make_sge(64);
        ibv_recv_wr wr{wr_id, nullptr, &sge, 1}, *bad_wr = nullptr;
        check(ibv_post_srq_recv(srq.get(), &wr, &bad_wr), "post a receive");
    };
    for (std::uint64_t wr_id = 0; wr_id < initial_size; ++wr_id)
        post_recv(wr_id);
    ibv_srq_attr srq_attr{};
    srq_attr.max_wr = resized_size;
    check(ibv_modify_srq(srq.get(), &srq_attr, IBV_SRQ_MAX_WR), "resize the queue");
    for (std::uint64_t wr_id = initial_size; wr_id < resized_size; ++wr_id)
        post_recv(wr_id);
    ibv_srq_attr queried_attr{};
    check(ibv_query_srq(srq.get(), &queried_attr), "query the queue");
    if (queried_attr.max_wr < resized_size)
        return {false, concat("room for ", queried_attr.max_wr)};
    ibv_sge sge = requester.make_sge(8);
    ibv_send_wr send = requester.make_wr(IBV_WR_SEND, sge), *bad_wr = nullptr;
    for (std::uint64_t wr_id = 0; wr_id < resized_size; ++wr_id) {
        check(ibv_post_send(requester.qp.get(), &send, &bad_wr), "post a message");
        requester.expect_success("a message");
        const auto wc = responder.wait_completion(trial_timeout());
        if (!wc || wc->status != IBV_WC_SUCCESS || wc->wr_id != wr_id)
            return {false, concat("not number ", wr_id)};
    }
    return {true, concat(resized_size, " messages")};
}

// A Send by ibv_wr_* of two SGEs, or of three inline buffers, arrives with the sum of their lengths
// and their data one behind the other.
outcome lengths_ex(const device &dev) {
    endpoint requester(dev, {.extended = true}), responder(dev);
    connect(requester, responder);
    responder.post_recv(1);
    responder.post_recv(2);
    for (std::size_t i = 0; i < requester.memory.size(); ++i)
        requester.memory.at(i) = static_cast<std::byte>(i * 7);
    ibv_qp_ex *const qp = ibv_qp_to_qp_ex(requester.qp.get());
    const auto address_at = [&requester](std::size_t offset) {
        return &requester.memory.at(offset);
    };
    const std::array<ibv_sge, 2> sges{
        {{reinterpret_cast<std::uintptr_t>(address_at(100)), 5, requester.mr->lkey},
         {reinterpret_cast<std::uintptr_t>(address_at(200)), 11, requester.mr->lkey}}};
    const std::array<ibv_data_buf, 3> buffers{
        {{address_at(300), 3}, {address_at(400), 7}, {address_at(500), 2}}};
    ibv_wr_start(qp);
    qp->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_send(qp);
    ibv_wr_set_sge_list(qp, sges.size(), sges.data());
    check(ibv_wr_complete(qp), "post two SGEs");
    requester.expect_success("the Send of SGEs");
    const ibv_wc first_wc = responder.expect_success("their receive");
    const bool is_joined = std::memcmp(responder.memory.data(), address_at(100), 5) == 0 &&
                           std::memcmp(&responder.memory.at(5), address_at(200), 11) == 0;
    if (first_wc.byte_len != sges[0].length + sges[1].length || !is_joined)
        return {false, concat("two SGEs of 16 bytes arrive as ", first_wc.byte_len)};
    ibv_wr_start(qp);
    qp->wr_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE; // the flag is allowed
    ibv_wr_send(qp);
    ibv_wr_set_inline_data_list(qp, buffers.size(), buffers.data());
    check(ibv_wr_complete(qp), "post three buffers");
    requester.expect_success("the inline Send");
    const ibv_wc second_wc = responder.expect_success("their receive");
    if (second_wc.byte_len != buffers[0].length + buffers[1].length + buffers[2].length ||
        std::memcmp(&responder.memory.at(buffers[0].length + buffers[1].length), address_at(500),
                    buffers[2].length) != 0)
        return {false, concat("three buffers of 12 bytes arrive as ", second_wc.byte_len)};
    return {true, "16 and 12 bytes"};
}

// A Send by ibv_wr_* whose SGEs are longer than 32 bits can say is refused.
outcome too_long_ex(const device &dev) {
    const endpoint requester(dev, {.extended = true}), responder(dev);
    connect(requester, responder);
    ibv_qp_ex *const qp = ibv_qp_to_qp_ex(requester.qp.get());
    const ibv_sge long_sge = requester.make_sge(0xffffffff), short_sge = requester.make_sge(9);
    const std::array<ibv_sge, 2> sges{long_sge, short_sge}; // the sum wraps to 8 bytes in 32 bits
    ibv_wr_start(qp);
    qp->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_send(qp);
    ibv_wr_set_sge_list(qp, sges.size(), sges.data());
    const int error = ibv_wr_complete(qp);
    return {error == EINVAL, error == 0 ? "accepted" : concat("error ", error)};
}

// A list of WRs rings one doorbell, and a list whose first WR is invalid rings none.
outcome doorbells_for_lists(const device &dev) {
    const endpoint requester(dev), responder(dev);
    connect(requester, responder);
    ibv_sge sge = requester.make_sge(8);
    std::array<ibv_send_wr, 8> list;
    for (ibv_send_wr &each : list) {
        each = requester.make_wr(IBV_WR_RDMA_WRITE, sge, responder);
        each.next = &each == &list.back() ? nullptr : &each + 1;
    }
    ibv_send_wr *bad_wr = nullptr;
    const unsigned initial_doorbells = num_doorbells();
    check(ibv_post_send(requester.qp.get(), list.data(), &bad_wr), "post a list");
    const unsigned num_for_list = num_doorbells() - initial_doorbells;
    for (std::size_t count = 0; count < list.size(); ++count)
        requester.expect_success("a write");
    list[0].opcode = IBV_WR_TSO; // not supported
    const int error = ibv_post_send(requester.qp.get(), list.data(), &bad_wr);
    const unsigned num_for_bad_list = num_doorbells() - initial_doorbells - num_for_list;
    return {error != 0 && num_for_list == 1 && num_for_bad_list == 0,
            concat(num_for_list, " for a list, ", num_for_bad_list,
                   " for one that begins with an invalid WR")};
}

// While one thread is in the system call of a doorbell, another thread can post to the same QP.
// extended: both post by ibv_wr_*.
outcome try_post_during_doorbell(const endpoint &requester, const endpoint &responder,
                                 bool extended) {
    const auto post_write = [&] {
        ibv_sge sge = requester.make_sge(8);
        ibv_send_wr write = requester.make_wr(IBV_WR_RDMA_WRITE, sge, responder), *bad_wr = nullptr;
        if (!extended) {
            check(ibv_post_send(requester.qp.get(), &write, &bad_wr), "post a write");
            return;
        }
        ibv_qp_ex *const qp = ibv_qp_to_qp_ex(requester.qp.get());
        ibv_wr_start(qp);
        qp->wr_flags = IBV_SEND_SIGNALED;
        ibv_wr_send_imm(qp, 0);
        ibv_wr_set_sge(qp, sge.lkey, sge.addr, 8);
        check(ibv_wr_complete(qp), "post by ibv_wr_*");
    };
    const bool can_post = can_post_during_doorbell(post_write, post_write);
    requester.expect_success("the first");
    requester.expect_success("the second");
    return {can_post, can_post ? "another thread could post" : "another thread had to wait"};
}
outcome post_during_doorbell(const device &dev) {
    const endpoint requester(dev), responder(dev);
    connect(requester, responder);
    return try_post_during_doorbell(requester, responder, /*extended=*/false);
}
outcome post_during_doorbell_ex(const device &dev) {
    const endpoint requester(dev,
                             {.extended = true, .extra_send_ops = IBV_QP_EX_WITH_SEND_WITH_IMM}),
        responder(dev);
    connect(requester, responder);
    responder.post_recv(1);
    responder.post_recv(2);
    return try_post_during_doorbell(requester, responder, /*extended=*/true);
}

// Two QPs share a CQ and post six Writes in turn: the odd wr_ids are of the QP that is destroyed,
// the even ones of the remaining one. After ibv_destroy_qp() the CQ reports only the remaining QP's
// completions, since the number of the destroyed QP may become that of a new one.
outcome qp_destroyed(const device &dev) {
    const endpoint responder(dev);
    std::optional<endpoint> destroyed(std::in_place, dev);
    ibv_qp_init_attr init_attr{};
    init_attr.qp_type = IBV_QPT_RC;
    init_attr.send_cq = init_attr.recv_cq = destroyed->cq.get();
    init_attr.cap = {8, 8, 2, 2, 64};
    const endpoint remaining(*destroyed, &init_attr), remaining_peer(dev);
    connect(*destroyed, responder);
    connect(remaining, remaining_peer);
    const auto post_write = [](const endpoint &requester, const endpoint &peer, std::uint64_t wr_id,
                               const ibv_mr *mr, const void *memory) {
        ibv_sge sge{reinterpret_cast<std::uintptr_t>(memory), 8, mr->lkey};
        ibv_send_wr wr = requester.make_wr(IBV_WR_RDMA_WRITE, sge, peer), *bad_wr = nullptr;
        wr.wr_id = wr_id;
        check(ibv_post_send(requester.qp.get(), &wr, &bad_wr), "post a write");
    };
    for (std::uint64_t wr_id = 1; wr_id <= 6; ++wr_id)
        wr_id % 2 == 1 ? post_write(*destroyed, responder, wr_id, destroyed->mr.get(),
                                    destroyed->memory.data())
                       : post_write(remaining, remaining_peer, wr_id, destroyed->mr.get(),
                                    destroyed->memory.data());
    // Waits for the completions without polling, which would take them from the CQ. If they come
    // later than this, even a provider with the fault does not report the destroyed QP's.
    std::this_thread::sleep_for(milliseconds(1000));
    destroyed->qp.reset();
    std::string wr_ids;
    bool in_order = true;
    for (std::uint64_t wr_id = 2; wr_id <= 6; wr_id += 2) {
        const auto wc = destroyed->wait_completion(trial_timeout());
        in_order = in_order && wc && wc->wr_id == wr_id;
        wr_ids += wc ? concat(' ', wc->wr_id) : " none";
    }
    if (destroyed->wait_completion(absence_timeout)) {
        in_order = false;
        wr_ids += " and more";
    }
    return {in_order, "expected wr_ids 2 4 6, seen:" + wr_ids};
}

constexpr std::array trials{
    trial<device>{"invalidation-flag", invalidation_flag},
    trial<device>{"send-before-connect", send_before_connect},
    trial<device>{"recv-in-error", recv_in_error},
    trial<device>{"recv-after-remote-error", recv_after_remote_error},
    trial<device>{"qp-reset", qp_reset},
    trial<device>{"bad-send-wr", bad_send_wr},
    trial<device>{"start-poll-at-end", start_poll_at_end},
    trial<device>{"inline-data-ex", inline_data_ex},
    trial<device>{"atomic-write-offered", atomic_write_offered},
    trial<device>{"cq-resize", cq_resize},
    trial<device>{"srq-resize", srq_resize},
    trial<device>{"lengths-ex", lengths_ex},
    trial<device>{"too-long-ex", too_long_ex},
    trial<device>{"doorbells", doorbells_for_lists},
    trial<device>{"post-during-doorbell", post_during_doorbell},
    trial<device>{"post-during-doorbell-ex", post_during_doorbell_ex},
    trial<device>{"qp-destroyed", qp_destroyed},
};

} // namespace

int main(int argc, char **argv) {
    return run_program(argc, argv, "upstream_bugs_rxe DEVICE GID_INDEX", trials,
                       [](auto words) { return open_device(words[1], std::atoi(words[2])); });
}

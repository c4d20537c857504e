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

// A receive that invalidated a key says so, and nothing of checksums. The key is a window's.
outcome invalidation_flag(const device &dev) {
    const endpoint requester(dev), responder(dev);
    connect(requester, responder);
    const unique_handle<ibv_mw, ibv_dealloc_mw> mw = check(
        unique_handle<ibv_mw, ibv_dealloc_mw>(ibv_alloc_mw(responder.pd.get(), IBV_MW_TYPE_2)),
        "window");
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
    // Another message has the kernel look at all that is there.
    send.wr_id = 7;
    check(ibv_post_send(requester.qp.get(), &send, &bad_wr), "post a message in RTS");
    const auto wc = requester.wait_completion(trial_timeout());
    const bool only_second_sent = wc && wc->wr_id == 7;
    return {error > 0 && is_bad_wr && only_second_sent,
            concat("error ", error, is_bad_wr ? ", named" : ", not named",
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
        throw failure("the receive of before is not flushed");
    responder.post_recv(2);
    const auto flushed_wc = responder.wait_completion(trial_timeout());
    if (!flushed_wc)
        return {false, "never completes"};
    return {flushed_wc->wr_id == 2 && flushed_wc->status == IBV_WC_WR_FLUSH_ERR,
            ibv_wc_status_str(flushed_wc->status)};
}

// An RDMA Write that the responder refuses moves the QP to the error state; a receive posted after
// that is flushed.
void write_with_wrong_key(const endpoint &requester, const endpoint &responder,
                          std::uint64_t wr_id) {
    ibv_sge sge = requester.make_sge(8);
    ibv_send_wr write = requester.make_wr(IBV_WR_RDMA_WRITE, sge, responder), *bad_wr = nullptr;
    write.wr_id = wr_id;
    write.wr.rdma.rkey ^= 0x5500;
    check(ibv_post_send(requester.qp.get(), &write, &bad_wr), "post a write");
}
outcome recv_after_remote_error(const device &dev) {
    const endpoint requester(dev), responder(dev);
    connect(requester, responder);
    write_with_wrong_key(requester, responder, 1);
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

void wait_state(const endpoint &requester, ibv_qp_state state) {
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

// After an error, a reset and a new connection, completions from before the reset are not reported,
// and do not move the QP to the error state again.
outcome qp_reset(const device &dev) {
    const endpoint requester(dev), responder(dev);
    connect(requester, responder);
    write_with_wrong_key(requester, responder, 1);
    wait_state(requester, IBV_QPS_ERR); // after the failed completion is in the CQ
    for (const endpoint *ep : {&requester, &responder}) {
        ibv_qp_attr reset_attr{};
        reset_attr.qp_state = IBV_QPS_RESET;
        check(ibv_modify_qp(ep->qp.get(), &reset_attr, IBV_QP_STATE), "to RESET");
    }
    connect(requester, responder);
    responder.post_recv(2);
    ibv_sge sge = requester.make_sge(8);
    ibv_send_wr send = requester.make_wr(IBV_WR_SEND, sge), *bad_wr = nullptr;
    send.wr_id = 3;
    check(ibv_post_send(requester.qp.get(), &send, &bad_wr), "post a message");
    const auto wc = requester.wait_completion(trial_timeout());
    if (!wc || wc->wr_id != 3 || wc->status != IBV_WC_SUCCESS)
        return {false, wc ? concat("number ", wc->wr_id, ": ", ibv_wc_status_str(wc->status))
                          : "the message does not complete"};
    return {responder.wait_completion(trial_timeout()).has_value(), "goes on"};
}

// An opcode that the device does not know is refused, as is a message with too many pieces; the
// good one in front of it in the list is sent, and the bad one is named.
outcome bad_send_wr(const device &dev) {
    const endpoint requester(dev), responder(dev);
    connect(requester, responder);
    responder.post_recv(1);
    ibv_sge sge = requester.make_sge(8);
    ibv_send_wr good_wr = requester.make_wr(IBV_WR_SEND, sge),
                unsupported_wr = requester.make_wr(IBV_WR_TSO), *bad_wr = nullptr;
    good_wr.next = &unsupported_wr;
    const int error = ibv_post_send(requester.qp.get(), &good_wr, &bad_wr);
    const bool is_bad_wr = bad_wr == &unsupported_wr;
    if (error != EINVAL || !is_bad_wr)
        return {false, concat("error ", error, is_bad_wr ? ", named" : ", not named")};
    responder.expect_success("the good message");
    requester.expect_success("the good message");
    bad_wr = nullptr;
    const std::array<ibv_sge, 64> excess_sges{};
    unsupported_wr = requester.make_wr(IBV_WR_SEND);
    unsupported_wr.sg_list = const_cast<ibv_sge *>(excess_sges.data());
    unsupported_wr.num_sge = static_cast<int>(excess_sges.size());
    const int sges_error = ibv_post_send(requester.qp.get(), &unsupported_wr, &bad_wr);
    return {sges_error == EINVAL && bad_wr == &unsupported_wr,
            concat("error ", sges_error, " for the pieces")};
}

// A CQ that ibv_next_poll() has emptied is empty for the next ibv_start_poll().
outcome start_poll_at_end(const device &dev) {
    const endpoint requester(dev, true), responder(dev);
    connect(requester, responder);
    responder.post_recv(1);
    ibv_sge sge = requester.make_sge(8);
    ibv_send_wr send = requester.make_wr(IBV_WR_SEND, sge), *bad_wr = nullptr;
    send.wr_id = 5;
    check(ibv_post_send(requester.qp.get(), &send, &bad_wr), "post a message");
    responder.expect_success("the receive");
    ibv_cq_ex *const cq = requester.cq_ex();
    ibv_poll_cq_attr poll_attr{};
    const auto deadline = std::chrono::steady_clock::now() + trial_timeout();
    int first_result;
    while ((first_result = ibv_start_poll(cq, &poll_attr)) == ENOENT &&
           std::chrono::steady_clock::now() < deadline)
        continue;
    if (first_result != 0 || cq->wr_id != 5 || cq->status != IBV_WC_SUCCESS)
        throw failure("the message did not complete");
    const bool sent = ibv_wc_read_opcode(cq) == IBV_WC_SEND;
    const int second_result = ibv_next_poll(cq);
    ibv_end_poll(cq);
    const int third_result = ibv_start_poll(cq, &poll_attr);
    if (third_result == 0)
        ibv_end_poll(cq);
    return {sent && second_result == ENOENT && third_result == ENOENT,
            concat(second_result, ", then ", third_result)};
}

// Data of ibv_wr_set_inline_data() are sent without IBV_SEND_INLINE.
outcome inline_data_ex(const device &dev) {
    endpoint requester(dev, true), responder(dev);
    connect(requester, responder);
    responder.post_recv(1);
    ibv_qp_ex *const qp = ibv_qp_to_qp_ex(requester.qp.get());
    std::array<char, 6> inline_data{'i', 'n', 'l', 'i', 'n', 'e'};
    ibv_wr_start(qp);
    qp->wr_id = 9;
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
    return {send_wc->wr_id == 9 && wc.byte_len == inline_data.size() && same_data, "sent"};
}

// Atomic writes are offered exactly if the device reports them.
outcome atomic_write_offered(const device &dev) {
    constexpr std::uint64_t atomic_write_cap = std::uint64_t{1} << 40;
    ibv_device_attr_ex device_attr{};
    check(ibv_query_device_ex(dev.context.get(), nullptr, &device_attr), "query the device");
    const bool is_capable = (device_attr.device_cap_flags_ex & atomic_write_cap) != 0;
    const endpoint responder(dev);
    std::optional<endpoint> requester;
    try {
        requester.emplace(dev, true, std::uint64_t{1} << 12);
    } catch (const failure &) {
        return {!is_capable, concat("refused, the device ", is_capable ? "has it" : "lacks it")};
    }
    if (!is_capable)
        return {false, "accepted, the device lacks it"};
    connect(*requester, responder);
    const std::uint64_t value = 0x0123456789abcdef;
    ibv_qp_ex *const qp = ibv_qp_to_qp_ex(requester->qp.get());
    ibv_wr_start(qp);
    qp->wr_id = 11;
    qp->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_atomic_write(qp, responder.mr->rkey,
                        reinterpret_cast<std::uintptr_t>(responder.memory.data()), &value);
    check(ibv_wr_complete(qp), "post an atomic write");
    const ibv_wc wc = requester->expect_success("the atomic write");
    const bool is_written = std::memcmp(responder.memory.data(), &value, sizeof value) == 0;
    return {is_written && wc.wr_id == 11, is_written ? "written" : "not written"};
}

// A CQ keeps its completions, once and in order, when it is resized.
outcome cq_resize(const device &dev) {
    const endpoint requester(dev), responder(dev);
    connect(requester, responder);
    ibv_sge sge = requester.make_sge(8);
    ibv_send_wr send = requester.make_wr(IBV_WR_RDMA_WRITE, sge, responder), *bad_wr = nullptr;
    std::uint64_t expected = 0;
    for (std::uint64_t wr_id = 0; wr_id < 12; ++wr_id) {
        send.wr_id = wr_id;
        check(ibv_post_send(requester.qp.get(), &send, &bad_wr), "post a write");
        if (wr_id % 4 != 3)
            continue;
        if (requester.expect_success("a write").wr_id != expected++)
            return {false, concat("not number ", expected - 1)};
        const int min_cqe = 100 << (wr_id / 4);
        check(ibv_resize_cq(requester.cq.get(), min_cqe), "resize the queue");
        if (requester.cq->cqe < min_cqe)
            return {false, "not larger"};
        while (expected <= wr_id)
            if (requester.expect_success("a write").wr_id != expected++)
                return {false, concat("not number ", expected - 1)};
    }
    return {!requester.wait_completion(milliseconds(50)), concat(expected, " writes")};
}

// Receives of an SRQ are consumed in order, before and after it was resized.
outcome srq_resize(const device &dev) {
    const endpoint requester(dev), responder(dev);
    ibv_srq_init_attr srq_init_attr{};
    srq_init_attr.attr = {4, 2, 0};
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
    for (std::uint64_t wr_id = 0; wr_id < 4; ++wr_id)
        post_recv(wr_id);
    ibv_srq_attr srq_attr{};
    srq_attr.max_wr = 40;
    check(ibv_modify_srq(srq.get(), &srq_attr, IBV_SRQ_MAX_WR), "resize the queue");
    for (std::uint64_t wr_id = 4; wr_id < 40; ++wr_id)
        post_recv(wr_id);
    ibv_srq_attr queried_attr{};
    check(ibv_query_srq(srq.get(), &queried_attr), "query the queue");
    if (queried_attr.max_wr < 40)
        return {false, concat("room for ", queried_attr.max_wr)};
    ibv_sge sge = requester.make_sge(8);
    ibv_send_wr send = requester.make_wr(IBV_WR_SEND, sge), *bad_wr = nullptr;
    for (std::uint64_t wr_id = 0; wr_id < 40; ++wr_id) {
        check(ibv_post_send(requester.qp.get(), &send, &bad_wr), "post a message");
        requester.expect_success("a message");
        const auto wc = responder.wait_completion(trial_timeout());
        if (!wc || wc->status != IBV_WC_SUCCESS || wc->wr_id != wr_id)
            return {false, concat("not number ", wr_id)};
    }
    return {true, "40 messages"};
}

// A message of many SGEs or inline buffers has the length of all; a length above 32 bits is
// refused.
outcome lengths_ex(const device &dev) {
    endpoint requester(dev, true), responder(dev);
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
    check(ibv_wr_complete(qp), "post two pieces");
    requester.expect_success("the pieces");
    const ibv_wc first_wc = responder.expect_success("their receive");
    const bool is_joined = std::memcmp(responder.memory.data(), address_at(100), 5) == 0 &&
                           std::memcmp(&responder.memory.at(5), address_at(200), 11) == 0;
    if (first_wc.byte_len != 16 || !is_joined)
        return {false, concat("two pieces of 16 bytes arrive as ", first_wc.byte_len)};
    ibv_wr_start(qp);
    qp->wr_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE; // the flag is allowed
    ibv_wr_send(qp);
    ibv_wr_set_inline_data_list(qp, buffers.size(), buffers.data());
    check(ibv_wr_complete(qp), "post three words");
    requester.expect_success("the words");
    const ibv_wc second_wc = responder.expect_success("their receive");
    if (second_wc.byte_len != 12 || std::memcmp(&responder.memory.at(10), address_at(500), 2) != 0)
        return {false, concat("three words of 12 bytes arrive as ", second_wc.byte_len)};
    return {true, "16 and 12 bytes"};
}

outcome too_long_ex(const device &dev) {
    const endpoint requester(dev, true), responder(dev);
    connect(requester, responder);
    ibv_qp_ex *const qp = ibv_qp_to_qp_ex(requester.qp.get());
    const ibv_sge long_sge = requester.make_sge(0xffffffff), short_sge = requester.make_sge(9);
    const std::array<ibv_sge, 2> sges{long_sge, short_sge}; // 8 bytes in 32-bit arithmetic
    ibv_wr_start(qp);
    qp->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_send(qp);
    ibv_wr_set_sge_list(qp, sges.size(), sges.data());
    const int error = ibv_wr_complete(qp);
    return {error == EINVAL, error == 0 ? "accepted" : concat("error ", error)};
}

// The kernel is called once for a list, and not at all if there is nothing new for it.
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
    const unsigned before_posts = num_doorbells();
    check(ibv_post_send(requester.qp.get(), list.data(), &bad_wr), "post a list");
    const unsigned num_for_list = num_doorbells() - before_posts;
    for (std::size_t count = 0; count < list.size(); ++count)
        requester.expect_success("a write");
    list[0].opcode = IBV_WR_TSO;
    const int error = ibv_post_send(requester.qp.get(), list.data(), &bad_wr);
    const unsigned num_for_bad_list = num_doorbells() - before_posts - num_for_list;
    return {error != 0 && num_for_list == 1 && num_for_bad_list == 0,
            concat(num_for_list, " for a list, ", num_for_bad_list,
                   " for one that begins with a bad request")};
}

// While one thread rings the doorbell, others can post.
outcome posts_during_doorbell(const endpoint &requester, const endpoint &responder, bool extended) {
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
    return posts_during_doorbell(requester, responder, false);
}
outcome post_during_doorbell_ex(const device &dev) {
    const endpoint requester(dev, true, IBV_QP_EX_WITH_SEND_WITH_IMM), responder(dev);
    connect(requester, responder);
    responder.post_recv(1);
    responder.post_recv(2);
    return posts_during_doorbell(requester, responder, true);
}

// A destroyed QP has no completions: its number may soon be that of another.
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
    // Only polling shows that they have completed, and it would take the completions away. One that
    // has not completed by then is never reported, and the stock provider seems right.
    std::this_thread::sleep_for(milliseconds(1000));
    destroyed->qp.reset();
    std::string wr_ids;
    bool in_order = true;
    for (std::uint64_t wr_id = 2; wr_id <= 6; wr_id += 2) {
        const auto wc = destroyed->wait_completion(trial_timeout());
        in_order = in_order && wc && wc->wr_id == wr_id;
        wr_ids += wc ? concat(' ', wc->wr_id) : " none";
    }
    if (destroyed->wait_completion(milliseconds(50))) {
        in_order = false;
        wr_ids += " and more";
    }
    return {in_order, "2 4 6 are left, seen:" + wr_ids};
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

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Calls at the limits of what verbs permit, on rxe: prints "right" or "wrong" for each, and what
// was seen.
//
// edge_cases_rxe DEVICE GID_INDEX [TRIAL...]

#include "../lib/connected_qps.hpp"

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>

namespace {

using namespace verbs_test;

// A QP with a receive queue of length zero sends (and writes, unless UD), one with a send queue of
// length zero receives. Posts to the queues of length zero are refused with ENOMEM.
outcome transfer_with_zero_length_queues(const device &dev, ibv_qp_type type) {
    constexpr std::uint32_t length = 256, write_offset = 1024, grh_size = 40;
    constexpr ibv_qp_cap send_only{.max_send_wr = 8,
                                   .max_recv_wr = 0,
                                   .max_send_sge = 2,
                                   .max_recv_sge = 0,
                                   .max_inline_data = 0},
        recv_only{.max_send_wr = 0,
                  .max_recv_wr = 8,
                  .max_send_sge = 0,
                  .max_recv_sge = 2,
                  .max_inline_data = 0};
    endpoint requester(dev, type, send_only);
    const endpoint responder(dev, type, recv_only);
    connect(requester, responder);
    for (std::size_t i = 0; i < length; ++i)
        requester.memory.at(i) = static_cast<std::byte>(i + 1);
    ibv_send_wr *bad_wr = nullptr;
    ibv_sge sge = requester.make_sge(length);
    if (type != IBV_QPT_UD) {
        ibv_send_wr write = requester.make_wr(IBV_WR_RDMA_WRITE, sge, responder);
        write.wr.rdma.remote_addr += write_offset;
        check(ibv_post_send(requester.qp.get(), &write, &bad_wr), "post a Write");
        requester.expect_success("the Write");
    }
    responder.post_recv(1);
    sge.length = 8;
    ibv_send_wr send = requester.make_wr(IBV_WR_SEND, sge);
    unique_handle<ibv_ah, ibv_destroy_ah> ah;
    if (type == IBV_QPT_UD) {
        ibv_ah_attr ah_attr = requester.make_ah_attr();
        ah = check(decltype(ah)(ibv_create_ah(requester.pd.get(), &ah_attr)), "address handle");
        send.wr.ud = {ah.get(), responder.qp->qp_num, endpoint::qkey};
    }
    check(ibv_post_send(requester.qp.get(), &send, &bad_wr), "post a Send");
    requester.expect_success("the Send");
    responder.expect_success("the receive");
    const std::byte *const received = responder.memory.data() + (type == IBV_QPT_UD ? grh_size : 0);
    const bool data_ok = std::memcmp(received, requester.memory.data(), 8) == 0 &&
                         (type == IBV_QPT_UD || std::memcmp(responder.memory.data() + write_offset,
                                                            requester.memory.data(), length) == 0);
    ibv_recv_wr recv_wr{}, *bad_recv_wr = nullptr;
    const int recv_error = ibv_post_recv(requester.qp.get(), &recv_wr, &bad_recv_wr);
    send.num_sge = 0;
    const int send_error = ibv_post_send(responder.qp.get(), &send, &bad_wr);
    return {data_ok && recv_error == ENOMEM && bad_recv_wr == &recv_wr && send_error == ENOMEM &&
                bad_wr == &send,
            concat(data_ok ? "the data arrived" : "other data arrived", ", a receive: error ",
                   recv_error, ", a Send: error ", send_error)};
}
outcome zero_length_queues_rc(const device &dev) {
    return transfer_with_zero_length_queues(dev, IBV_QPT_RC);
}
outcome zero_length_queues_uc(const device &dev) {
    return transfer_with_zero_length_queues(dev, IBV_QPT_UC);
}
outcome zero_length_queues_ud(const device &dev) {
    return transfer_with_zero_length_queues(dev, IBV_QPT_UD);
}

// Two QPs, and 8 bytes of the responder that are the target of atomics.
struct atomic_qps {
    static constexpr std::uint64_t initial_value = 100;
    static constexpr std::uint64_t send_ops =
        IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP;

    endpoint requester, responder;

    explicit atomic_qps(const device &dev, bool extended = false)
        : requester(dev, {.extended = extended, .extra_send_ops = extended ? send_ops : 0})
        , responder(dev, {.mr_access = default_mr_access | IBV_ACCESS_REMOTE_ATOMIC}) {
        connect(requester, responder, endpoint::qp_access | IBV_ACCESS_REMOTE_ATOMIC);
        std::memcpy(responder.memory.data(), &initial_value, sizeof initial_value);
    }
    std::uint64_t target_addr() const {
        return reinterpret_cast<std::uintptr_t>(responder.memory.data());
    }
    // Adds 1, or swaps if the value is 1.
    ibv_send_wr make_wr(ibv_wr_opcode opcode, ibv_sge *sg_list, int num_sge,
                        std::uint64_t offset = 0) const {
        ibv_send_wr wr = requester.make_wr(opcode);
        wr.sg_list = sg_list;
        wr.num_sge = num_sge;
        wr.wr.atomic = {target_addr() + offset, 1, 2, responder.mr->rkey};
        return wr;
    }
    bool is_refused(ibv_send_wr wr) const {
        ibv_send_wr *bad_wr = nullptr;
        return ibv_post_send(requester.qp.get(), &wr, &bad_wr) == EINVAL && bad_wr == &wr;
    }
    // An atomic into two SGEs of four bytes.
    bool add_succeeds() const {
        std::array<ibv_sge, 2> sges{requester.make_sge(4), requester.make_sge(4)};
        sges[1].addr += 4;
        ibv_send_wr wr = make_wr(IBV_WR_ATOMIC_FETCH_AND_ADD, sges.data(), 2), *bad_wr = nullptr;
        if (ibv_post_send(requester.qp.get(), &wr, &bad_wr) != 0)
            return false;
        const auto wc = requester.wait_completion(trial_timeout());
        std::uint64_t fetched = 0, value = 0;
        std::memcpy(&fetched, requester.memory.data(), sizeof fetched);
        std::memcpy(&value, responder.memory.data(), sizeof value);
        return wc && wc->status == IBV_WC_SUCCESS && fetched == initial_value &&
               value == initial_value + 1;
    }
};

// Right: all posted WRs were refused, and after that an atomic succeeds.
outcome judge_refusals(const atomic_qps &qps, int num_refused, int num_posted) {
    const bool usable = qps.add_succeeds();
    return {num_refused == num_posted && usable,
            concat(num_refused, " of ", num_posted, " refused, ",
                   usable ? "an atomic succeeds then" : "no atomic succeeds then")};
}
constexpr std::array atomic_opcodes{IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_ATOMIC_CMP_AND_SWP};

// Atomics with no SGE, with one of 4 bytes, or with two of 4 and 3 bytes are refused: an atomic
// returns 8 bytes.
outcome atomic_short_list(const device &dev) {
    const atomic_qps qps(dev);
    std::array<ibv_sge, 2> sges{qps.requester.make_sge(4), qps.requester.make_sge(3)};
    int num_refused = 0, num_posted = 0;
    for (const ibv_wr_opcode opcode : atomic_opcodes)
        for (int num_sge = 0; num_sge <= 2; ++num_sge, ++num_posted)
            num_refused += qps.is_refused(qps.make_wr(opcode, sges.data(), num_sge));
    return judge_refusals(qps, num_refused, num_posted);
}

// Atomics on an address that is not a multiple of 8 are refused.
outcome atomic_unaligned(const device &dev) {
    const atomic_qps qps(dev);
    ibv_sge sge = qps.requester.make_sge(8);
    int num_refused = 0, num_posted = 0;
    for (const ibv_wr_opcode opcode : atomic_opcodes)
        for (const std::uint64_t offset : {1U, 2U, 4U}) {
            num_refused += qps.is_refused(qps.make_wr(opcode, &sge, 1, offset));
            ++num_posted;
        }
    return judge_refusals(qps, num_refused, num_posted);
}

// Posts an atomic by ibv_wr_*, with an SGE of this length, on the target's address plus offset.
// Returns the result of ibv_wr_complete().
int post_atomic_ex(const atomic_qps &qps, std::uint32_t length, std::uint64_t offset) {
    ibv_qp_ex *const qp = ibv_qp_to_qp_ex(qps.requester.qp.get());
    ibv_wr_start(qp);
    qp->wr_id = 1;
    qp->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_atomic_fetch_add(qp, qps.responder.mr->rkey, qps.target_addr() + offset, 1);
    const ibv_sge sge = qps.requester.make_sge(length);
    ibv_wr_set_sge(qp, sge.lkey, sge.addr, sge.length);
    return ibv_wr_complete(qp);
}
// Atomics of less than 8 bytes and on an unaligned address, by ibv_wr_*, are refused.
outcome invalid_atomics_ex_refused(const device &dev) {
    const atomic_qps qps(dev, /*extended=*/true);
    const int num_refused = (post_atomic_ex(qps, 4, 0) == EINVAL ? 1 : 0) +
                            (post_atomic_ex(qps, 8, 4) == EINVAL ? 1 : 0);
    return judge_refusals(qps, num_refused, 2);
}
// ibv_wr_complete() accepts them, and they complete with an error.
outcome invalid_atomics_ex_fail(const device &dev) {
    std::string statuses;
    for (const auto &[length, offset] : {std::pair{4U, 0U}, {8U, 4U}}) {
        const atomic_qps qps(dev, /*extended=*/true);
        if (const int error = post_atomic_ex(qps, length, offset))
            return {false, concat("refused: error ", error)};
        const auto wc = qps.requester.wait_completion(trial_timeout());
        statuses += concat(wc ? ibv_wc_status_str(wc->status) : "no completion", "; ");
        if (!wc || wc->status == IBV_WC_SUCCESS)
            return {false, statuses};
    }
    return {true, statuses};
}

// A zero-based MW of type 1 is refused; another can then be bound, and written to.
outcome bind_zero_based_mw(const device &dev) {
    const endpoint requester(dev), responder(dev);
    connect(requester, responder);
    const unique_handle<ibv_mw, ibv_dealloc_mw> mw = check(
        unique_handle<ibv_mw, ibv_dealloc_mw>(ibv_alloc_mw(responder.pd.get(), IBV_MW_TYPE_1)),
        "memory window");
    const std::uint32_t rkey = mw->rkey;
    ibv_mw_bind bind{};
    bind.send_flags = IBV_SEND_SIGNALED;
    bind.bind_info = {responder.mr.get(), reinterpret_cast<std::uintptr_t>(responder.memory.data()),
                      64, IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_ZERO_BASED};
    const int error = ibv_bind_mw(responder.qp.get(), mw.get(), &bind);
    if (error != EINVAL || mw->rkey != rkey)
        return {false, concat("error ", error, mw->rkey != rkey ? ", another rkey" : "")};
    bind.bind_info.mw_access_flags = IBV_ACCESS_REMOTE_WRITE;
    check(ibv_bind_mw(responder.qp.get(), mw.get(), &bind), "bind the window");
    responder.expect_success("the bind");
    ibv_sge sge = requester.make_sge(8);
    ibv_send_wr write = requester.make_wr(IBV_WR_RDMA_WRITE, sge, responder), *bad_wr = nullptr;
    write.wr.rdma.rkey = mw->rkey;
    check(ibv_post_send(requester.qp.get(), &write, &bad_wr), "post a Write to the window");
    requester.expect_success("the Write");
    return {true, "refused, and bound without IBV_ACCESS_ZERO_BASED"};
}

/// The number of Sends of this device that a responder refused since it has no receive.
unsigned long count_refused_sends(const device &dev) {
    std::ifstream counter(concat("/sys/class/infiniband/", ibv_get_device_name(dev.context->device),
                                 "/ports/1/hw_counters/rcvd_rnr_err"));
    unsigned long count = 0;
    if (!(counter >> count))
        throw failure("the device has no counter rcvd_rnr_err");
    return count;
}

/// Posts a Send and another request behind it, one of them with a fence. The peer posts its receive
/// when it has refused the Send, so both are sent again, and complete: no fence waits for a request
/// that is behind it, or for its own.
outcome complete_after_refusal(const device &dev, unsigned send_flags, ibv_wr_opcode next_opcode,
                               unsigned next_flags) {
    const endpoint requester(dev);
    const endpoint responder(dev, {.mr_access = default_mr_access | IBV_ACCESS_REMOTE_ATOMIC});
    connect(requester, responder, endpoint::qp_access | IBV_ACCESS_REMOTE_ATOMIC);
    ibv_sge sge = requester.make_sge(8);
    ibv_send_wr send = requester.make_wr(IBV_WR_SEND, sge), *bad_wr = nullptr;
    ibv_send_wr next = requester.make_wr(next_opcode, sge, responder);
    if (next_opcode != IBV_WR_RDMA_READ)
        next.wr.atomic = {next.wr.rdma.remote_addr, 1, 2, responder.mr->rkey};
    send.send_flags |= send_flags;
    next.send_flags |= next_flags;
    send.next = &next;
    const unsigned long refused_before = count_refused_sends(dev);
    check(ibv_post_send(requester.qp.get(), &send, &bad_wr), "post both requests");
    const auto deadline = std::chrono::steady_clock::now() + trial_timeout();
    while (count_refused_sends(dev) == refused_before)
        if (std::chrono::steady_clock::now() > deadline)
            throw failure("the Send was not refused");
    responder.post_recv(1);
    for (const char *request : {"the Send", "the request behind it"}) {
        const auto wc = requester.wait_completion(milliseconds(10'000));
        if (!wc || wc->status != IBV_WC_SUCCESS)
            return {false,
                    concat(request, ": ", wc ? ibv_wc_status_str(wc->status) : "no completion")};
    }
    return {true, "both complete"};
}
outcome fenced_read_behind_rnr(const device &dev) {
    return complete_after_refusal(dev, 0, IBV_WR_RDMA_READ, IBV_SEND_FENCE);
}
outcome fenced_atomic_behind_rnr(const device &dev) {
    return complete_after_refusal(dev, 0, IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_SEND_FENCE);
}
outcome fenced_send_before_read(const device &dev) {
    return complete_after_refusal(dev, IBV_SEND_FENCE, IBV_WR_RDMA_READ, 0);
}

constexpr std::array trials{
    trial<device>{"zero-length-queues-rc", zero_length_queues_rc},
    trial<device>{"zero-length-queues-uc", zero_length_queues_uc},
    trial<device>{"zero-length-queues-ud", zero_length_queues_ud},
    trial<device>{"atomic-short-list", atomic_short_list},
    trial<device>{"atomic-unaligned", atomic_unaligned},
    trial<device>{"invalid-atomics-ex-refused", invalid_atomics_ex_refused},
    trial<device>{"invalid-atomics-ex-fail", invalid_atomics_ex_fail},
    trial<device>{"bind-zero-based-mw", bind_zero_based_mw},
    trial<device>{"fenced-read-behind-rnr", fenced_read_behind_rnr},
    trial<device>{"fenced-atomic-behind-rnr", fenced_atomic_behind_rnr},
    trial<device>{"fenced-send-before-read", fenced_send_before_read},
};

} // namespace

int main(int argc, char **argv) {
    return run_program(argc, argv, "edge_cases_rxe DEVICE GID_INDEX", trials,
                       [](auto words) { return open_device(words[1], std::atoi(words[2])); });
}

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Trials of faults of a provider for siw: prints "right" or "wrong" for each, and what was seen.
//
// upstream_bugs_siw ADDRESS [TRIAL...]

#include "siw.hpp"
#include "../../lib/rdmacm_loopback.hpp"
#include "../../lib/writes.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <limits>
#include <unistd.h>
#include <utility>
#include <vector>

namespace {

using namespace verbs_test;
using address = std::string;

// IBV_WR_SEND_WITH_INV invalidates the rkey in invalidate_rkey, and no other MR of the responder.
outcome invalidated_key(const address &addr) {
    const rdmacm_loopback loopback(addr);
    const endpoint &requester = loopback.requester, &responder = loopback.responder;
    alignas(64) std::array<std::byte, 64> invalidated{}, untouched{};
    const auto invalidated_mr = responder.register_memory(invalidated.data(), invalidated.size());
    const auto untouched_mr = responder.register_memory(untouched.data(), untouched.size());
    responder.post_recv(1);
    ibv_sge sge = requester.make_sge(8);
    ibv_send_wr send = requester.make_wr(1, IBV_WR_SEND_WITH_INV, sge, responder);
    send.invalidate_rkey = invalidated_mr->rkey;
    send.wr.rdma.rkey = untouched_mr->rkey; // a Send does not use this field
    check(requester.post_send(send), "post the message");
    requester.send_cq.expect_success("the message");
    responder.recv_cq.expect_success("the receive");
    const auto is_readable = [&](const unique_handle<ibv_mr, ibv_dereg_mr> &mr) {
        ibv_send_wr read = requester.make_wr(2, IBV_WR_RDMA_READ, sge, responder);
        read.wr.rdma.remote_addr = reinterpret_cast<std::uintptr_t>(mr->addr);
        read.wr.rdma.rkey = mr->rkey;
        check(requester.post_send(read), "post a read");
        const auto wc = requester.send_cq.wait_completion(trial_timeout());
        return wc && wc->status == IBV_WC_SUCCESS;
    };
    const bool untouched_is_valid = is_readable(untouched_mr),
               invalidated_is_valid = is_readable(invalidated_mr);
    return {untouched_is_valid && !invalidated_is_valid,
            concat("the invalidated rkey is ", invalidated_is_valid ? "valid" : "invalid",
                   ", the other is ", untouched_is_valid ? "valid" : "invalid")};
}

// An RDMA Read with two SGEs is refused, or both are filled.
outcome read_with_two_sges(const address &addr) {
    rdmacm_loopback loopback(addr);
    const endpoint &requester = loopback.requester;
    constexpr auto source_byte = std::byte{7};
    constexpr std::uint32_t length = 8;
    constexpr std::size_t first_offset = 1000, second_offset = 2000;
    std::fill_n(loopback.responder.memory.begin(), 2 * length, source_byte);
    std::array<ibv_sge, 2> sges{requester.make_sge(length, first_offset),
                                requester.make_sge(length, second_offset)};
    ibv_send_wr read = requester.make_wr(1, IBV_WR_RDMA_READ, sges[0], loopback.responder);
    read.num_sge = 2;
    bool is_bad_wr = false;
    if (const int error = requester.post_send(read, &is_bad_wr))
        return {judge_refusal(error, is_bad_wr).right && write_succeeds(loopback),
                judge_refusal(error, is_bad_wr).seen};
    const auto wc = requester.send_cq.wait_completion(trial_timeout());
    const bool both_filled = requester.memory[first_offset + length - 1] == source_byte &&
                             requester.memory[second_offset + length - 1] == source_byte;
    return {wc && wc->status == IBV_WC_SUCCESS && both_filled,
            status_text(wc) + (both_filled ? "" : ", not both SGEs filled")};
}

// What ends the connection: a disconnection by the requester, one by the responder, or the
// requester's transition to the error state.
enum class end_reason { requester, responder, error };

void end_connection(rdmacm_loopback &loopback, end_reason reason) {
    if (reason != end_reason::error)
        return loopback.disconnect(reason == end_reason::requester ? loopback.requester
                                                                   : loopback.responder);
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_ERR;
    check(ibv_modify_qp(loopback.requester.qp(), &attr, IBV_QP_STATE), "to ERR");
}

// Posts a list of Sends to the requester, whose connection has ended: they must be accepted, and
// flushed, even the first one, which is not signaled. Returns "", or how they were refused.
std::string post_sends_after_end(const rdmacm_loopback &loopback, std::uint64_t wr_id,
                                 std::uint64_t last_wr_id) {
    ibv_sge sge = loopback.requester.make_sge(8);
    std::vector<ibv_send_wr> list;
    for (; wr_id <= last_wr_id; ++wr_id)
        list.push_back(loopback.requester.make_wr(wr_id, IBV_WR_SEND, sge, loopback.responder));
    for (std::size_t each = 0; each + 1 < list.size(); ++each)
        list.at(each).next = &list.at(each + 1);
    list.front().send_flags = 0;
    bool is_bad_wr = false;
    const int error = loopback.requester.post_send(list.front(), &is_bad_wr);
    return error == 0 ? "" : judge_refusal(error, is_bad_wr).seen;
}

// A provider can ask the kernel for this: with no request outstanding, nothing else tells it that
// the peer has ended the connection.
ibv_qp_state query_requester_state(const rdmacm_loopback &loopback) {
    ibv_qp_attr attr{};
    ibv_qp_init_attr init_attr{};
    check(ibv_query_qp(loopback.requester.qp(), &attr, IBV_QP_STATE, &init_attr), "ibv_query_qp");
    return attr.qp_state;
}
// Throws, for "untried", if the kernel's siw does not report the state of a connected QP.
void require_state_report(const rdmacm_loopback &loopback) {
    if (query_requester_state(loopback) != IBV_QPS_RTS)
        throw failure("this kernel does not report the state of a QP");
}

// Sends that are posted after the end of the connection are accepted and flushed.
outcome flush_sends_after(const address &addr, end_reason reason) {
    rdmacm_loopback loopback(addr);
    end_connection(loopback, reason);
    // Until the kernel has handled the peer's disconnection it flushes Sends itself; this is about
    // those that the provider has to flush.
    for (const auto deadline = std::chrono::steady_clock::now() + trial_timeout();
         reason == end_reason::responder && query_requester_state(loopback) == IBV_QPS_RTS;)
        if (std::chrono::steady_clock::now() > deadline)
            return {false, "the QP stays in RTS"};
    for (const auto &[first, last] : {std::pair{1U, 1U}, std::pair{2U, 3U}})
        if (const std::string refused = post_sends_after_end(loopback, first, last);
            !refused.empty())
            return {false, refused};
    return expect_flushed(loopback.requester.send_cq, loopback.requester.qp(), {1, 2, 3});
}
outcome send_after_disconnect(const address &addr) {
    return flush_sends_after(addr, end_reason::requester);
}
outcome send_after_peer_disconnect(const address &addr) {
    require_state_report(rdmacm_loopback(addr));
    return flush_sends_after(addr, end_reason::responder);
}
outcome send_in_error(const address &addr) {
    return flush_sends_after(addr, end_reason::error);
}

// Receives that are posted after the end of the connection are flushed behind those from before.
outcome flush_receives_around(const address &addr, end_reason reason) {
    rdmacm_loopback loopback(addr);
    loopback.requester.post_recv(1);
    loopback.requester.post_recv(2);
    end_connection(loopback, reason);
    loopback.requester.post_recv(3);
    loopback.requester.post_recv(4);
    return expect_flushed(loopback.requester.recv_cq, loopback.requester.qp(), {1, 2, 3, 4});
}
outcome recv_after_disconnect(const address &addr) {
    return flush_receives_around(addr, end_reason::requester);
}
outcome recv_after_peer_disconnect(const address &addr) {
    return flush_receives_around(addr, end_reason::responder);
}
outcome recv_in_error(const address &addr) {
    return flush_receives_around(addr, end_reason::error);
}

// A Send and a receive are posted after the disconnection, before the consumer arms the CQ: by
// polling once more, or by an event, it learns of their flush.
outcome flush_found_after_arming(const address &addr) {
    rdmacm_loopback loopback(addr);
    loopback.disconnect(loopback.requester);
    if (const std::string refused = post_sends_after_end(loopback, 1, 1); !refused.empty())
        return {false, refused};
    loopback.requester.post_recv(2);
    for (const completion_queue *cq : {&loopback.requester.send_cq, &loopback.requester.recv_cq}) {
        cq->arm();
        const bool found_wc =
            cq->wait_completion(milliseconds(0)) || cq->wait_event(trial_timeout());
        if (!found_wc)
            return {false,
                    cq == &loopback.requester.send_cq ? "Send: not found" : "receive: not found"};
    }
    return {true, "found"};
}

// After the disconnection the consumer arms a CQ, finds it empty and waits. Then a Send or a
// receive is posted, as another thread may do: its flush makes an event, and is in the CQ.
outcome flush_wakes_waiter(const address &addr) {
    rdmacm_loopback loopback(addr);
    loopback.disconnect(loopback.requester);
    for (const completion_queue *cq : {&loopback.requester.send_cq, &loopback.requester.recv_cq}) {
        cq->arm();
        if (cq->wait_completion(milliseconds(0)) || cq->wait_event(milliseconds(10)))
            return {false, "awake too early"};
        if (cq == &loopback.requester.recv_cq)
            loopback.requester.post_recv(2);
        else if (const std::string refused = post_sends_after_end(loopback, 1, 1); !refused.empty())
            return {false, refused};
        const char *queue_name = cq == &loopback.requester.send_cq ? "sends" : "receives";
        if (!cq->wait_event(trial_timeout()))
            return {false, concat(queue_name, ": not woken")};
        if (!expect_flushed(*cq, loopback.requester.qp(),
                            {cq == &loopback.requester.send_cq ? 1U : 2U})
                 .right)
            return {false, concat(queue_name, ": woken in vain")};
    }
    return {true, "woken"};
}

// As flush_wakes_waiter, after a disconnection by the peer while no request was outstanding.
outcome flush_wakes_waiter_of_peer_disconnect(const address &addr) {
    rdmacm_loopback loopback(addr);
    require_state_report(loopback);
    loopback.disconnect(loopback.responder);
    loopback.requester.send_cq.arm();
    if (loopback.requester.send_cq.wait_completion(milliseconds(0)) ||
        loopback.requester.send_cq.wait_event(milliseconds(10)))
        return {false, "awake too early"};
    if (const std::string refused = post_sends_after_end(loopback, 1, 1); !refused.empty())
        return {false, refused};
    if (!loopback.requester.send_cq.wait_event(trial_timeout()))
        return {false, "not woken"};
    return expect_flushed(loopback.requester.send_cq, loopback.requester.qp(), {1});
}

// After the end of the connection a send queue accepts at least max_send_wr Sends, and each
// accepted Send is flushed.
outcome flush_of_full_queue(const address &addr) {
    rdmacm_loopback loopback(addr);
    loopback.disconnect(loopback.requester);
    constexpr std::uint64_t max_posts = 100; // more than the queue has room for
    std::vector<std::uint64_t> accepted;
    ibv_sge sge = loopback.requester.make_sge(8);
    int error = 0;
    for (std::uint64_t wr_id = 1; wr_id <= max_posts && error == 0; ++wr_id) {
        ibv_send_wr send = loopback.requester.make_wr(wr_id, IBV_WR_SEND, sge, loopback.responder);
        error = loopback.requester.post_send(send);
        if (error == 0)
            accepted.push_back(wr_id);
    }
    if (error != 0 && error != ENOMEM)
        return {false, concat("error ", error)};
    if (accepted.size() < qp_options::default_cap.max_send_wr)
        return {false, concat("only ", accepted.size(), " accepted")};
    return expect_flushed(loopback.requester.send_cq, loopback.requester.qp(), accepted);
}

// A WR posted after the disconnection is not reported once the QP is destroyed.
outcome no_flush_after_destroy(const address &addr) {
    rdmacm_loopback loopback(addr);
    loopback.disconnect(loopback.requester);
    if (const std::string refused = post_sends_after_end(loopback, 1, 1); !refused.empty())
        return {false, refused};
    loopback.requester.post_recv(2);
    rdma_destroy_qp(loopback.requester.id.get());
    const bool sent = loopback.requester.send_cq.wait_completion(absence_timeout).has_value();
    const bool received = loopback.requester.recv_cq.wait_completion(absence_timeout).has_value();
    return {!sent && !received, sent || received ? "reported" : "not reported"};
}

// A Send to a QP that is not connected yet is refused, is bad_wr, and is never sent.
outcome send_before_connect(const address &addr) {
    outcome result{false, "never posted"};
    qp_options options;
    options.before_connect = [&result](const endpoint &requester) {
        ibv_sge sge = requester.make_sge(8);
        ibv_send_wr send = requester.make_wr(1, IBV_WR_SEND, sge, requester);
        bool is_bad_wr = false;
        const int error = requester.post_send(send, &is_bad_wr);
        result = judge_refusal(error, is_bad_wr);
        // With the stock provider the first message never completes.
        alarm(static_cast<unsigned>(trial_timeout().count() / 1000));
    };
    try {
        const rdmacm_loopback loopback(addr, options);
        const bool is_usable = write_succeeds(loopback);
        const bool sent_later =
            loopback.requester.send_cq.wait_completion(absence_timeout).has_value();
        return {result.right && is_usable && !sent_later,
                result.seen + (is_usable && !sent_later ? ", not sent" : ", sent later")};
    } catch (const failure &error) {
        return {false, result.seen + ", then " + error.what()};
    }
}

// A solicited Send wakes a consumer that waits for solicited events only.
outcome solicited(const address &addr) {
    const rdmacm_loopback loopback(addr);
    loopback.responder.post_recv(1);
    loopback.responder.recv_cq.arm_solicited();
    ibv_sge sge = loopback.requester.make_sge(8);
    ibv_send_wr send = loopback.requester.make_wr(1, IBV_WR_SEND, sge, loopback.responder);
    send.send_flags |= IBV_SEND_SOLICITED;
    check(loopback.requester.post_send(send), "post the message");
    loopback.requester.send_cq.expect_success("the message");
    const bool woken = loopback.responder.recv_cq.wait_event(trial_timeout());
    loopback.responder.recv_cq.expect_success("the receive");
    return {woken, woken ? "an event" : "no event"};
}

// Whether refused or not, a fenced RDMA Read leaves the QP usable.
outcome fenced_read(const address &addr) {
    const rdmacm_loopback loopback(addr);
    ibv_sge sge = loopback.requester.make_sge(8);
    ibv_send_wr read = loopback.requester.make_wr(1, IBV_WR_RDMA_READ, sge, loopback.responder);
    read.send_flags |= IBV_SEND_FENCE;
    return expect_success_or_refusal(loopback, read);
}
// The same of a Send with inline data that invalidates an rkey.
outcome inline_with_key(const address &addr) {
    const rdmacm_loopback loopback(addr);
    std::array<std::byte, 64> invalidated{};
    const auto invalidated_mr =
        loopback.responder.register_memory(invalidated.data(), invalidated.size());
    loopback.responder.post_recv(1);
    ibv_sge sge = loopback.requester.make_sge(8);
    ibv_send_wr send = loopback.requester.make_wr(1, IBV_WR_SEND_WITH_INV, sge, loopback.responder);
    send.send_flags |= IBV_SEND_INLINE;
    send.invalidate_rkey = invalidated_mr->rkey;
    return expect_success_or_refusal(loopback, send);
}
// The same of an RDMA Read on a connection that permits none.
outcome read_too_many(const address &addr) {
    qp_options no_reads;
    no_reads.rd_atomic = 0;
    const rdmacm_loopback loopback(addr, no_reads, no_reads);
    ibv_sge sge = loopback.requester.make_sge(8);
    ibv_send_wr read = loopback.requester.make_wr(1, IBV_WR_RDMA_READ, sge, loopback.responder);
    return expect_success_or_refusal(loopback, read);
}

// ibv_reg_mr_iova() with an iova that is not the address: refused, or the peer can read the memory
// by that iova.
outcome mr_with_iova(const address &addr) {
    rdmacm_loopback loopback(addr);
    const endpoint &requester = loopback.requester;
    auto *const memory = loopback.responder.memory.data();
    constexpr auto source_byte = std::byte{9};
    constexpr std::size_t sink_offset = 1000;
    memory[0] = source_byte;
    constexpr std::uint64_t iova = 0x10000;
    const unique_handle<ibv_mr, ibv_dereg_mr> mr(
        ibv_reg_mr_iova(loopback.responder.pd.get(), memory, 4096, iova,
                        IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ));
    if (!mr)
        return {errno > 0, concat("refused: ", std::strerror(errno))};
    ibv_sge sge = requester.make_sge(8, sink_offset);
    ibv_send_wr read = requester.make_wr(1, IBV_WR_RDMA_READ, sge, loopback.responder);
    read.wr.rdma.remote_addr = iova;
    read.wr.rdma.rkey = mr->rkey;
    check(requester.post_send(read), "post a read");
    const auto wc = requester.send_cq.wait_completion(trial_timeout());
    const bool is_usable =
        wc && wc->status == IBV_WC_SUCCESS && requester.memory[sink_offset] == source_byte;
    return {is_usable, concat("accepted, the RDMA Read: ", status_text(wc))};
}

// A receive without an SGE is refused, or takes a message without data.
outcome recv_without_sge(const address &addr) {
    const rdmacm_loopback loopback(addr);
    constexpr std::uint64_t recv_wr_id = 3;
    ibv_recv_wr wr{recv_wr_id, nullptr, nullptr, 0}, *bad_wr = nullptr;
    if (const int error = ibv_post_recv(loopback.responder.qp(), &wr, &bad_wr))
        return judge_refusal(error, bad_wr == &wr);
    ibv_sge sge{};
    ibv_send_wr send = loopback.requester.make_wr(1, IBV_WR_SEND, sge, loopback.responder);
    send.num_sge = 0;
    check(loopback.requester.post_send(send), "post a message without data");
    const ibv_wc wc = loopback.responder.recv_cq.expect_success("the receive");
    loopback.requester.send_cq.expect_success("the message");
    return {wc.wr_id == recv_wr_id && wc.byte_len == 0, concat(wc.byte_len, " bytes")};
}

// A list of three receives, the second with too many SGEs: the first is posted, the second is
// bad_wr, the third is not posted. A fourth that is posted later is consumed next.
outcome bad_recv_wr(const address &addr) {
    const rdmacm_loopback loopback(addr);
    std::array<ibv_sge, 64> excess_sges{};
    excess_sges.fill(loopback.responder.make_sge(8));
    std::array<ibv_recv_wr, 3> list{};
    for (std::uint64_t wr_id = 0; wr_id < list.size(); ++wr_id)
        list.at(wr_id) = {wr_id + 1, nullptr, excess_sges.data(), 1};
    list[0].next = &list[1];
    list[1].next = &list[2];
    list[1].num_sge = static_cast<int>(excess_sges.size());
    ibv_recv_wr *bad_wr = nullptr;
    const int error = ibv_post_recv(loopback.responder.qp(), &list[0], &bad_wr);
    if (error != EINVAL || bad_wr != &list[1])
        return judge_refusal(error, bad_wr == &list[1]);
    loopback.responder.post_recv(4);
    for (const std::uint64_t wr_id : {1U, 4U}) {
        ibv_sge sge = loopback.requester.make_sge(8);
        ibv_send_wr send = loopback.requester.make_wr(wr_id, IBV_WR_SEND, sge, loopback.responder);
        check(loopback.requester.post_send(send), "post a message");
        loopback.requester.send_cq.expect_success("the message");
        const ibv_wc wc = loopback.responder.recv_cq.expect_success("the receive");
        if (wc.wr_id != wr_id)
            return {false, concat("number ", wc.wr_id, " and not ", wr_id)};
    }
    return {true, "refused, in bad_wr, the valid ones are posted"};
}

// A full receive queue refuses a receive with ENOMEM, after at least max_recv_wr were accepted.
outcome recv_queue_full(const address &addr) {
    const rdmacm_loopback loopback(addr);
    ibv_sge sge = loopback.responder.make_sge(8);
    constexpr std::uint32_t max_posts = 1000; // more than any queue here has room for
    for (std::uint32_t wr_id = 0; wr_id < max_posts; ++wr_id) {
        ibv_recv_wr wr{wr_id, nullptr, &sge, 1}, *bad_wr = nullptr;
        if (const int error = ibv_post_recv(loopback.responder.qp(), &wr, &bad_wr)) {
            const outcome result = judge_refusal(error, bad_wr == &wr, ENOMEM);
            return {result.right && wr_id >= qp_options::default_cap.max_recv_wr,
                    concat(result.seen, " after ", wr_id)};
        }
    }
    return {false, "never full"};
}

// ibv_poll_cq() writes every field of the ibv_wc: none keeps the pattern that its memory had
// before.
outcome wc_fully_defined(const address &addr) {
    const rdmacm_loopback loopback(addr);
    loopback.responder.post_recv(1);
    ibv_sge sge = loopback.requester.make_sge(8);
    ibv_send_wr send = loopback.requester.make_wr(1, IBV_WR_SEND, sge, loopback.responder);
    check(loopback.requester.post_send(send), "post the message");
    for (const completion_queue *cq : {&loopback.requester.send_cq, &loopback.responder.recv_cq}) {
        constexpr int unwritten_byte = 0xa5;
        ibv_wc wc;
        std::memset(&wc, unwritten_byte, sizeof wc);
        const auto deadline = std::chrono::steady_clock::now() + trial_timeout();
        int count = 0;
        while ((count = ibv_poll_cq(cq->cq.get(), 1, &wc)) == 0 &&
               std::chrono::steady_clock::now() < deadline)
            continue;
        if (count != 1)
            throw failure("no completion");
        std::string undefined_fields;
        const auto check_field = [&undefined_fields](auto value, const char *name) {
            decltype(value) pattern;
            std::memset(&pattern, unwritten_byte, sizeof pattern);
            if (value == pattern)
                undefined_fields += concat(' ', name);
        };
        check_field(wc.vendor_err, "vendor_err");
        check_field(wc.byte_len, "byte_len");
        check_field(wc.qp_num, "qp_num");
        check_field(wc.src_qp, "src_qp");
        check_field(wc.wc_flags, "wc_flags");
        check_field(wc.pkey_index, "pkey_index");
        check_field(wc.slid, "slid");
        check_field(wc.sl, "sl");
        check_field(wc.dlid_path_bits, "dlid_path_bits");
        if (!undefined_fields.empty())
            return {false, "undefined:" + undefined_fields};
        if (wc.wr_id != 1 || wc.status != IBV_WC_SUCCESS || wc.wc_flags != 0)
            return {false, "not as posted"};
    }
    return {true, "all defined"};
}

// A QP with an SRQ refuses receives of its own.
outcome recv_beside_srq(const address &addr) {
    qp_options options;
    options.use_srq = true;
    const rdmacm_loopback loopback(addr, {}, options);
    ibv_sge sge = loopback.responder.make_sge(8);
    ibv_recv_wr wr{1, nullptr, &sge, 1}, *bad_wr = nullptr;
    const int error = ibv_post_recv(loopback.responder.qp(), &wr, &bad_wr);
    return judge_refusal(error, bad_wr == &wr);
}

// Right: each opcode is refused, and the QP still works after that.
outcome expect_refused_opcodes(const address &addr, std::initializer_list<int> opcodes) {
    const rdmacm_loopback loopback(addr);
    ibv_sge sge = loopback.requester.make_sge(8);
    for (const int opcode : opcodes) {
        ibv_send_wr wr = loopback.requester.make_wr(1, static_cast<ibv_wr_opcode>(opcode), sge,
                                                    loopback.responder);
        bool is_bad_wr = false;
        const int error = loopback.requester.post_send(wr, &is_bad_wr);
        const outcome result = judge_refusal(error, is_bad_wr);
        if (!result.right)
            return {false, concat("opcode ", opcode, ": ", result.seen)};
    }
    const bool is_usable = write_succeeds(loopback);
    return {is_usable, is_usable ? "all refused" : "refused, later requests do not work"};
}
outcome unknown_opcodes(const address &addr) {
    return expect_refused_opcodes(addr, {14, 15, 100, 255, 1 << 30, -1});
}
outcome unsupported_opcodes(const address &addr) {
    return expect_refused_opcodes(addr, {IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_SEND_WITH_IMM,
                                         IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_FETCH_AND_ADD,
                                         IBV_WR_BIND_MW, IBV_WR_TSO, IBV_WR_DRIVER1});
}

// ibv_query_srq() reports at least the requested size of an SRQ.
outcome srq_query(const address &addr) {
    qp_options options;
    options.use_srq = true;
    const rdmacm_loopback loopback(addr, {}, options);
    ibv_srq_attr srq_attr{};
    if (const int error = ibv_query_srq(loopback.responder.srq.get(), &srq_attr))
        return {false, std::strerror(error > 0 ? error : errno)};
    return {srq_attr.max_wr >= 8 && srq_attr.max_sge >= 2, concat("room for ", srq_attr.max_wr)};
}

// A QP of the ibv_wr_* API posts a Send, a Read and a Write together, but not a Send that was
// aborted by ibv_wr_abort(); ibv_start_poll() reports the three in order.
outcome extended(const address &addr) {
    qp_options options;
    options.extended = true;
    std::optional<rdmacm_loopback> loopback;
    try {
        loopback.emplace(addr, options);
    } catch (const failure &error) {
        return {false, error.what()};
    }
    endpoint &requester = loopback->requester, &responder = loopback->responder;
    ibv_qp_ex *const qp = ibv_qp_to_qp_ex(requester.qp());
    if (qp == nullptr)
        return {false, "no functions to post by ibv_wr_*"};
    responder.post_recv(1);
    std::fill_n(responder.memory.begin() + 4096, 8, std::byte{6});
    std::array<char, 6> inline_data{'i', 'n', 'l', 'i', 'n', 'e'};
    const auto remote = reinterpret_cast<std::uintptr_t>(responder.memory.data());
    ibv_wr_start(qp);
    qp->wr_flags = IBV_SEND_SIGNALED;
    qp->wr_id = 1;
    ibv_wr_send(qp);
    ibv_wr_set_inline_data(qp, inline_data.data(), inline_data.size());
    ibv_wr_abort(qp); // never sent
    ibv_wr_start(qp);
    qp->wr_id = 2;
    ibv_wr_send(qp);
    ibv_wr_set_inline_data(qp, inline_data.data(), inline_data.size());
    qp->wr_id = 3;
    ibv_wr_rdma_read(qp, responder.mr->rkey, remote + 4096);
    ibv_wr_set_sge(qp, requester.mr->lkey, reinterpret_cast<std::uintptr_t>(&requester.memory[512]),
                   8);
    qp->wr_id = 4;
    ibv_wr_rdma_write(qp, responder.mr->rkey, remote + 2048);
    std::array<ibv_sge, 2> sges{requester.make_sge(8), requester.make_sge(8)};
    ibv_wr_set_sge_list(qp, sges.size(), sges.data());
    check(ibv_wr_complete(qp), "post by ibv_wr_*");
    const ibv_wc wc = responder.recv_cq.expect_success("the receive");
    if (wc.byte_len != inline_data.size() ||
        std::memcmp(responder.memory.data(), inline_data.data(), 6) != 0)
        return {false, "other data than posted"};
    auto *const cq = reinterpret_cast<ibv_cq_ex *>(requester.send_cq.cq.get());
    constexpr std::array<ibv_wc_opcode, 3> opcodes{IBV_WC_SEND, IBV_WC_RDMA_READ,
                                                   IBV_WC_RDMA_WRITE};
    const auto deadline = std::chrono::steady_clock::now() + trial_timeout();
    for (std::uint64_t wr_id = 2; wr_id <= 4;) {
        ibv_poll_cq_attr poll_attr{};
        const int error = ibv_start_poll(cq, &poll_attr);
        if (error == ENOENT && std::chrono::steady_clock::now() < deadline)
            continue;
        if (error != 0)
            return {false, concat("error ", error, " for number ", wr_id)};
        do {
            if (cq->wr_id != wr_id || cq->status != IBV_WC_SUCCESS ||
                ibv_wc_read_opcode(cq) != opcodes.at(wr_id - 2) ||
                ibv_wc_read_qp_num(cq) != requester.qp()->qp_num) {
                const outcome result{false, concat("number ", cq->wr_id, " for number ", wr_id)};
                ibv_end_poll(cq);
                return result;
            }
            ++wr_id;
        } while (ibv_next_poll(cq) == 0 && wr_id <= 4);
        ibv_end_poll(cq);
    }
    const bool read = requester.memory[519] == std::byte{6};
    return {read, read ? "sent, read and written" : "not read"};
}

// A WR posted behind an RDMA Read completes behind it.
outcome write_behind_read(const address &addr) {
    const rdmacm_loopback loopback(addr);
    const endpoint &requester = loopback.requester;
    constexpr std::uint64_t num_rounds = 100;
    for (std::uint64_t wr_id = 0; wr_id < 2 * num_rounds; wr_id += 2) {
        ibv_sge read_sge = requester.make_sge(4096), write_sge = requester.make_sge(8, 4096);
        ibv_send_wr read = requester.make_wr(wr_id, IBV_WR_RDMA_READ, read_sge, loopback.responder);
        ibv_send_wr write =
            requester.make_wr(wr_id + 1, IBV_WR_RDMA_WRITE, write_sge, loopback.responder);
        read.next = &write;
        check(requester.post_send(read), "post a read and a write");
        for (const std::uint64_t expected_wr_id : {wr_id, wr_id + 1}) {
            const ibv_wc wc = requester.send_cq.expect_success("a request");
            if (wc.wr_id != expected_wr_id)
                return {false, concat("number ", wc.wr_id, " before number ", expected_wr_id)};
        }
    }
    return {true, concat(num_rounds, " writes behind reads")};
}

// A list of three Sends, the second with too many SGEs: the first is sent, the second is bad_wr,
// the third is not sent.
outcome bad_send_wr(const address &addr) {
    const rdmacm_loopback loopback(addr);
    const endpoint &requester = loopback.requester;
    for (std::uint64_t wr_id = 1; wr_id <= 3; ++wr_id)
        loopback.responder.post_recv(wr_id);
    std::array<ibv_sge, 64> excess_sges{};
    excess_sges.fill(requester.make_sge(8));
    std::array<ibv_send_wr, 3> list;
    for (std::uint64_t wr_id = 1; wr_id <= 3; ++wr_id)
        list.at(wr_id - 1) =
            requester.make_wr(wr_id, IBV_WR_SEND, excess_sges[0], loopback.responder);
    list[0].next = &list[1];
    list[1].next = &list[2];
    list[1].num_sge = static_cast<int>(excess_sges.size());
    ibv_send_wr *bad_wr = nullptr;
    const int error = ibv_post_send(requester.qp(), &list[0], &bad_wr);
    if (error != EINVAL || bad_wr != &list[1])
        return judge_refusal(error, bad_wr == &list[1]);
    const auto first_wc = requester.send_cq.wait_completion(trial_timeout());
    const auto second_wc = requester.send_cq.wait_completion(absence_timeout);
    return {first_wc && first_wc->wr_id == 1 && first_wc->status == IBV_WC_SUCCESS && !second_wc &&
                write_succeeds(loopback),
            concat("the first: ", status_text(first_wc), second_wc ? ", and another one" : "")};
}

// A list that is longer than the send queue: ENOMEM, bad_wr is the first WR without room, and those
// before it complete.
outcome send_queue_full(const address &addr) {
    const rdmacm_loopback loopback(addr);
    ibv_sge sge = loopback.requester.make_sge(8);
    std::array<ibv_send_wr, 1000> list; // more than the queue has room for
    for (std::uint64_t wr_id = 0; wr_id < list.size(); ++wr_id) {
        list.at(wr_id) =
            loopback.requester.make_wr(wr_id, IBV_WR_RDMA_WRITE, sge, loopback.responder);
        list.at(wr_id).next = wr_id + 1 < list.size() ? &list.at(wr_id + 1) : nullptr;
    }
    ibv_send_wr *bad_wr = nullptr;
    const int error = ibv_post_send(loopback.requester.qp(), list.data(), &bad_wr);
    if (error != ENOMEM || bad_wr == nullptr)
        return judge_refusal(error, bad_wr != nullptr, ENOMEM);
    const auto count = static_cast<std::uint64_t>(bad_wr - list.data());
    for (std::uint64_t wr_id = 0; wr_id < count; ++wr_id)
        if (const ibv_wc wc = loopback.requester.send_cq.expect_success("a write");
            wc.wr_id != wr_id)
            return {false, concat("number ", wc.wr_id, " for number ", wr_id)};
    const bool has_extra_wc =
        loopback.requester.send_cq.wait_completion(absence_timeout).has_value();
    return {count >= qp_options::default_cap.max_send_wr && !has_extra_wc &&
                write_succeeds(loopback),
            concat(count, " accepted")};
}

// Inline data that are longer than granted are refused, even if the sum of the SGEs' lengths wraps
// in 32 bits.
outcome inline_too_long(const address &addr) {
    const rdmacm_loopback loopback(addr);
    // Each pair of lengths is more than granted, and more than the room of siw's WQE (at most 80
    // bytes); the second pair is 8 bytes in 32-bit arithmetic.
    const std::uint32_t max_inline = std::max(loopback.requester.granted_cap.max_inline_data, 80U);
    const std::array<std::array<std::uint32_t, 2>, 3> lengths{
        {{max_inline, 1},
         {std::numeric_limits<std::uint32_t>::max() - 7, 16},
         {max_inline / 2 + 1, max_inline / 2 + 1}}};
    for (const auto &list_lengths : lengths) {
        std::array<ibv_sge, 2> sges{loopback.requester.make_sge(list_lengths[0]),
                                    loopback.requester.make_sge(list_lengths[1])};
        ibv_send_wr write =
            loopback.requester.make_wr(1, IBV_WR_RDMA_WRITE, sges[0], loopback.responder);
        write.num_sge = 2;
        write.send_flags |= IBV_SEND_INLINE;
        bool is_bad_wr = false;
        const int error = loopback.requester.post_send(write, &is_bad_wr);
        const outcome result = judge_refusal(error, is_bad_wr);
        if (!result.right)
            return {false,
                    concat(list_lengths[0], " and ", list_lengths[1], " bytes: ", result.seen)};
    }
    return {write_succeeds(loopback), "all refused"};
}

// A list of WRs rings one doorbell, and a list whose first WR is invalid rings none.
outcome doorbells_for_lists(const address &addr) {
    const rdmacm_loopback loopback(addr);
    const endpoint &requester = loopback.requester;
    ibv_sge sge = requester.make_sge(8);
    std::array<ibv_send_wr, 8> list;
    for (std::uint64_t wr_id = 0; wr_id < list.size(); ++wr_id) {
        list.at(wr_id) = requester.make_wr(wr_id, IBV_WR_RDMA_WRITE, sge, loopback.responder);
        list.at(wr_id).next = wr_id + 1 < list.size() ? &list.at(wr_id + 1) : nullptr;
    }
    const unsigned initial_doorbells = num_doorbells();
    check(requester.post_send(list[0]), "post a list");
    const unsigned num_for_list = num_doorbells() - initial_doorbells;
    for (std::size_t count = 0; count < list.size(); ++count)
        requester.send_cq.expect_success("a write");
    list[0].opcode = IBV_WR_TSO; // not supported
    const int error = requester.post_send(list[0]);
    const unsigned num_for_bad_list = num_doorbells() - initial_doorbells - num_for_list;
    return {error != 0 && num_for_list == 1 && num_for_bad_list == 0,
            concat(num_for_list, " for a list, ", num_for_bad_list,
                   " for one that begins with an invalid WR")};
}

// While one thread is in the system call of a doorbell, another thread can post to the same QP.
outcome post_during_doorbell(const address &addr) {
    const rdmacm_loopback loopback(addr);
    const auto post = [&loopback] {
        ibv_sge sge = loopback.requester.make_sge(8);
        ibv_send_wr write =
            loopback.requester.make_wr(1, IBV_WR_RDMA_WRITE, sge, loopback.responder);
        check(loopback.requester.post_send(write), "post a write");
    };
    const bool can_post = can_post_during_doorbell(post, post);
    loopback.requester.send_cq.expect_success("the first");
    loopback.requester.send_cq.expect_success("the second");
    return {can_post, can_post ? "another thread could post" : "another thread had to wait"};
}

// A request without IBV_SEND_SIGNALED has a completion exactly if the QP was created with
// sq_sig_all.
outcome signaling(const address &addr) {
    for (const bool sq_sig_all : {false, true}) {
        qp_options options;
        options.sq_sig_all = sq_sig_all;
        const rdmacm_loopback loopback(addr, options);
        ibv_sge sge = loopback.requester.make_sge(8);
        ibv_send_wr write =
            loopback.requester.make_wr(1, IBV_WR_RDMA_WRITE, sge, loopback.responder);
        write.send_flags = 0;
        check(loopback.requester.post_send(write), "post a write");
        const bool has_wc = loopback.requester.send_cq
                                .wait_completion(sq_sig_all ? trial_timeout() : absence_timeout)
                                .has_value();
        if (has_wc != sq_sig_all || !write_succeeds(loopback))
            return {false,
                    concat("sq_sig_all ", sq_sig_all, has_wc ? ": reported" : ": not reported")};
    }
    return {true, "reported only with sq_sig_all"};
}

constexpr std::array trials{
    trial<address>{"invalidated-key", invalidated_key},
    trial<address>{"read-with-two-sges", read_with_two_sges},
    trial<address>{"send-after-disconnect", send_after_disconnect},
    trial<address>{"send-after-peer-disconnect", send_after_peer_disconnect},
    trial<address>{"recv-after-disconnect", recv_after_disconnect},
    trial<address>{"recv-after-peer-disconnect", recv_after_peer_disconnect},
    trial<address>{"send-in-error", send_in_error},
    trial<address>{"recv-in-error", recv_in_error},
    trial<address>{"flush-found-after-arming", flush_found_after_arming},
    trial<address>{"flush-wakes-waiter", flush_wakes_waiter},
    trial<address>{"flush-wakes-waiter-of-peer-disconnect", flush_wakes_waiter_of_peer_disconnect},
    trial<address>{"flush-of-full-queue", flush_of_full_queue},
    trial<address>{"no-flush-after-destroy", no_flush_after_destroy},
    trial<address>{"send-before-connect", send_before_connect},
    trial<address>{"solicited", solicited},
    trial<address>{"fenced-read", fenced_read},
    trial<address>{"inline-with-key", inline_with_key},
    trial<address>{"read-too-many", read_too_many},
    trial<address>{"mr-with-iova", mr_with_iova},
    trial<address>{"recv-without-sge", recv_without_sge},
    trial<address>{"bad-recv-wr", bad_recv_wr},
    trial<address>{"recv-queue-full", recv_queue_full},
    trial<address>{"wc-fully-defined", wc_fully_defined},
    trial<address>{"recv-beside-srq", recv_beside_srq},
    trial<address>{"unknown-opcodes", unknown_opcodes},
    trial<address>{"unsupported-opcodes", unsupported_opcodes},
    trial<address>{"srq-query", srq_query},
    trial<address>{"extended-api", extended},
    trial<address>{"write-behind-read", write_behind_read},
    trial<address>{"bad-send-wr", bad_send_wr},
    trial<address>{"send-queue-full", send_queue_full},
    trial<address>{"inline-too-long", inline_too_long},
    trial<address>{"doorbells", doorbells_for_lists},
    trial<address>{"post-during-doorbell", post_during_doorbell},
    trial<address>{"signaling", signaling},
};

} // namespace

int main(int argc, char **argv) {
    return run_program(argc, argv, "upstream_bugs_siw ADDRESS", trials,
                       [](auto words) { return address(words[1]); });
}

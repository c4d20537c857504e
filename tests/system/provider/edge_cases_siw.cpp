// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Calls at the limits of what verbs permit, on siw: prints "right" or "wrong" for each, and what
// was seen.
//
// edge_cases_siw ADDRESS [TRIAL...]

#include "../lib/rdmacm_loopback.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <string>

namespace {

using namespace verbs_test;
using address = std::string;

// A QP with a receive queue of length zero writes, and reads back what it has written. An iWARP
// Write may complete before its data arrive; the Read behind it completes after.
outcome zero_length_recv_queue(const address &addr) {
    constexpr std::uint32_t length = 256, target_offset = 1024;
    qp_options options;
    options.cap.max_recv_wr = options.cap.max_recv_sge = 0;
    rdmacm_loopback loopback(addr, options);
    endpoint &requester = loopback.requester;
    for (std::size_t i = 0; i < length; ++i)
        requester.memory.at(i) = static_cast<std::byte>(i + 1);
    for (const ibv_wr_opcode opcode : {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ}) {
        ibv_sge sge = requester.make_sge(length, opcode == IBV_WR_RDMA_READ ? length : 0);
        ibv_send_wr wr = requester.make_wr(1, opcode, sge, loopback.responder);
        wr.wr.rdma.remote_addr += target_offset;
        check(requester.post_send(wr), "post a Write or Read");
        requester.send_cq.expect_success("the Write or Read");
    }
    const bool data_ok =
        std::memcmp(loopback.responder.memory.data() + target_offset, requester.memory.data(),
                    length) == 0 &&
        std::memcmp(requester.memory.data() + length, requester.memory.data(), length) == 0;
    return {data_ok, data_ok ? "the data arrived" : "other data arrived"};
}

// siw supports no send queue of length zero: ibv_create_qp() fails with EINVAL.
outcome zero_length_send_queue(const address &addr) {
    const rdmacm_loopback loopback(addr);
    ibv_qp_init_attr attr{};
    attr.qp_type = IBV_QPT_RC;
    attr.send_cq = attr.recv_cq = loopback.requester.send_cq.cq.get();
    attr.cap = {.max_send_wr = 0,
                .max_recv_wr = 8,
                .max_send_sge = 0,
                .max_recv_sge = 1,
                .max_inline_data = 0};
    errno = 0;
    const unique_handle<ibv_qp, ibv_destroy_qp> qp(
        ibv_create_qp(loopback.requester.pd.get(), &attr));
    return {!qp && errno == EINVAL, concat(qp ? "created" : "refused", ": error ", errno)};
}

/// Sends data whose list of segments has an empty one first, in the middle, or last. They arrive.
outcome empty_segments_of_a_send(const address &addr) {
    constexpr std::uint32_t part_length = 100, length = 2 * part_length;
    qp_options options;
    options.cap.max_send_sge = 3;
    rdmacm_loopback loopback(addr, options);
    endpoint &requester = loopback.requester;
    for (std::size_t i = 0; i < length; ++i)
        requester.memory.at(i) = static_cast<std::byte>(i + 1);
    for (std::size_t empty = 0; empty < 3; ++empty) {
        std::array<ibv_sge, 3> segments{requester.make_sge(part_length),
                                        requester.make_sge(part_length, part_length)};
        std::copy_backward(segments.begin() + static_cast<std::ptrdiff_t>(empty),
                           segments.end() - 1, segments.end());
        segments[empty] = requester.make_sge(0, 1);
        std::memset(loopback.responder.memory.data(), 0, length);
        loopback.responder.post_recv(1, length);
        ibv_send_wr wr = requester.make_wr(1, IBV_WR_SEND, segments[0], loopback.responder);
        wr.num_sge = segments.size();
        check(requester.post_send(wr), "post a Send");
        requester.send_cq.expect_success("the Send");
        const ibv_wc wc = loopback.responder.recv_cq.expect_success("the receive");
        if (wc.byte_len != length ||
            std::memcmp(loopback.responder.memory.data(), requester.memory.data(), length) != 0)
            return {false, concat("segment ", empty, " is empty: other data arrived")};
    }
    return {true, "the data arrived"};
}

/// The pages of this process that devices have pinned, in KiB.
unsigned long pinned_kib() {
    std::ifstream status("/proc/self/status");
    for (std::string word; status >> word;)
        if (unsigned long kib = 0; word == "VmPin:" && status >> kib)
            return kib;
    throw failure("/proc/self/status has no VmPin");
}

/// A message is received by an empty segment and one with memory, and the memory deregistered: it
/// is not pinned any more.
outcome memory_behind_an_empty_segment(const address &addr) {
    const rdmacm_loopback loopback(addr);
    const endpoint &responder = loopback.responder;
    alignas(4096) static std::array<std::byte, 4096> memory;
    const unsigned long pinned_before = pinned_kib();
    unique_handle<ibv_mr, ibv_dereg_mr> mr =
        responder.register_memory(memory.data(), memory.size());
    std::array<ibv_sge, 2> segments{
        responder.make_sge(0),
        ibv_sge{reinterpret_cast<std::uintptr_t>(memory.data()), 64, mr->lkey}};
    ibv_recv_wr recv_wr{1, nullptr, segments.data(), 2}, *bad_wr = nullptr;
    check(ibv_post_recv(responder.qp(), &recv_wr, &bad_wr), "post a receive");
    ibv_sge sge = loopback.requester.make_sge(64);
    ibv_send_wr wr = loopback.requester.make_wr(1, IBV_WR_SEND, sge, responder);
    check(loopback.requester.post_send(wr), "post a Send");
    loopback.requester.send_cq.expect_success("the Send");
    responder.recv_cq.expect_success("the receive");
    mr.reset();
    const unsigned long pinned = pinned_kib() - pinned_before;
    return {pinned == 0, concat(pinned, " KiB are pinned")};
}

/// What siw does not know of a QP is zero, not what the kernel's memory had before: an
/// ibv_modify_qp leaves its attributes there.
outcome query_qp_is_initialized(const address &addr) {
    constexpr std::uint32_t leftover = 0x123456;
    constexpr int tries = 20; // the kernel may take other memory
    const rdmacm_loopback loopback(addr);
    ibv_qp_init_attr init_attr{};
    init_attr.qp_type = IBV_QPT_RC;
    init_attr.send_cq = init_attr.recv_cq = loopback.requester.send_cq.cq.get();
    init_attr.cap = {8, 8, 1, 1, 0};
    init_attr.sq_sig_all = 1;
    const auto qp = check(unique_handle<ibv_qp, ibv_destroy_qp>(
                              ibv_create_qp(loopback.requester.pd.get(), &init_attr)),
                          "queue pair");
    for (int i = 0; i < tries; ++i) {
        ibv_qp_attr attr{};
        attr.qp_state = IBV_QPS_RTR;
        attr.dest_qp_num = attr.rq_psn = attr.sq_psn = attr.qkey = leftover;
        // siw refuses it without a socket.
        ibv_modify_qp(qp.get(), &attr,
                      IBV_QP_STATE | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_SQ_PSN | IBV_QP_QKEY);
        attr = {};
        check(ibv_query_qp(qp.get(), &attr, IBV_QP_STATE, &init_attr), "query the queue pair");
        for (const std::uint32_t value : {attr.dest_qp_num, attr.rq_psn, attr.sq_psn, attr.qkey})
            if (value != 0)
                return {false, concat("an attribute is ", value)};
        if (init_attr.sq_sig_all != 1)
            return {false, concat("sq_sig_all is ", init_attr.sq_sig_all)};
    }
    return {true, "all are zero"};
}

constexpr std::array trials{
    trial<address>{"zero-length-recv-queue", zero_length_recv_queue},
    trial<address>{"zero-length-send-queue", zero_length_send_queue},
    trial<address>{"empty-segments-of-a-send", empty_segments_of_a_send},
    trial<address>{"memory-behind-an-empty-segment", memory_behind_an_empty_segment},
    trial<address>{"query-qp-is-initialized", query_qp_is_initialized},
};

} // namespace

int main(int argc, char **argv) {
    return run_program(argc, argv, "edge_cases_siw ADDRESS", trials,
                       [](auto words) { return address(words[1]); });
}

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// QPs with a queue of length zero on siw: prints "right" or "wrong" for each, and what was seen.
//
// edge_cases_siw ADDRESS [TRIAL...]

#include "../lib/rdmacm_loopback.hpp"

#include <array>
#include <cerrno>
#include <cstring>
#include <string>

namespace {

using namespace verbs_test;
using address = std::string;

// A QP with a receive queue of length zero writes, and reads what it has written: the Write
// completes before the data arrive, the Read after.
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

outcome zero_length_send_queue(const address &addr) {
    const rdmacm_loopback loopback(addr);
    ibv_qp_init_attr attr{};
    attr.qp_type = IBV_QPT_RC;
    attr.send_cq = attr.recv_cq = loopback.requester.send_cq.cq.get();
    attr.cap = {0, 8, 0, 1, 0};
    errno = 0;
    const unique_handle<ibv_qp, ibv_destroy_qp> qp(
        ibv_create_qp(loopback.requester.pd.get(), &attr));
    return {!qp && errno == EINVAL, concat(qp ? "created" : "refused", ": error ", errno)};
}

constexpr std::array trials{
    trial<address>{"zero-length-recv-queue", zero_length_recv_queue},
    trial<address>{"zero-length-send-queue", zero_length_send_queue},
};

} // namespace

int main(int argc, char **argv) {
    return run_program(argc, argv, "edge_cases_siw ADDRESS", trials,
                       [](auto words) { return address(words[1]); });
}

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Calls at the limits of what verbs permit, on rxe: prints "right" or "wrong" for each, and what
// was seen.
//
// edge_cases_rxe DEVICE GID_INDEX [TRIAL...]

#include "../lib/connected_qps.hpp"

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace {

using namespace verbs_test;

// A QP with a receive queue of length zero sends, one with a send queue of length zero receives.
// Posts to the queues of length zero are refused.
outcome transfer_with_zero_length_queues(const device &dev, ibv_qp_type type) {
    constexpr std::uint32_t length = 256, write_offset = 1024, grh_size = 40;
    endpoint requester(dev, type, {8, 0, 2, 0, 0});
    const endpoint responder(dev, type, {0, 8, 0, 2, 0});
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

constexpr std::array trials{
    trial<device>{"zero-length-queues-rc", zero_length_queues_rc},
    trial<device>{"zero-length-queues-uc", zero_length_queues_uc},
    trial<device>{"zero-length-queues-ud", zero_length_queues_ud},
};

} // namespace

int main(int argc, char **argv) {
    return run_program(argc, argv, "edge_cases_rxe DEVICE GID_INDEX", trials,
                       [](auto words) { return open_device(words[1], std::atoi(words[2])); });
}

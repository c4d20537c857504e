// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What a program makes of a played siw device, and posts there.
#pragma once

#include "played_life.hpp"
#include "played_siw.hpp"

#include <cstdint>

namespace played {

/// One of each, and taken down again.
class siw_life : public life {
  public:
    ibv_mr *again = nullptr;

    explicit siw_life(kernel &in)
        : life(in) {
        make_domain() &&
            made(again =
                     ibv_reg_mr(pd, memory.data(), memory.size(), int{IBV_ACCESS_REMOTE_READ})) &&
            make_queues() && to(IBV_QPS_RTS);
    }
    void end() {
        end_queues();
        gone(again, ibv_dereg_mr);
        end_domain();
    }
};

/// The rings of that, in the order in which they are made.
enum : std::size_t {
    queue_of_all,
    queue_by_parts,
    shared_receives,
    sends,
    receives,
    sends_sharing,
    sends_by_parts,
    receives_by_parts,
    rings
};

/// A request of 24 bytes of the memory that is registered, and what became of it.
struct wish {
    ibv_sge piece{};
    ibv_send_wr is{}, *bad = nullptr;

    explicit wish(const siw_life &of, ibv_wr_opcode opcode, std::uint64_t id = 0x1122334455667788) {
        piece = {reinterpret_cast<std::uintptr_t>(of.memory.data()), 24, of.mr->lkey};
        is.wr_id = id;
        is.sg_list = &piece;
        is.num_sge = 1;
        is.opcode = opcode;
        is.wr.rdma.remote_addr = 0xabcd0123;
        is.wr.rdma.rkey = 0x77;
    }
    wish(const wish &) = delete;
    wish &operator=(const wish &) = delete;

    int post(ibv_qp *on) { return ibv_post_send(on, &is, &bad); }
};
inline int post_write(const siw_life &of, ibv_qp *on, std::uint64_t id) {
    return wish(of, IBV_WR_RDMA_WRITE, id).post(on);
}
inline int post_receive(const siw_life &of, ibv_qp *on, std::uint64_t id) {
    ibv_sge piece{reinterpret_cast<std::uintptr_t>(of.memory.data()), 24, of.mr->lkey};
    ibv_recv_wr is{id, nullptr, &piece, 1}, *bad = nullptr;
    return ibv_post_recv(on, &is, &bad);
}

/// The kernel takes all that it is given.
inline void empty(const siw_kernel &in, std::size_t ring) {
    for (std::uint32_t number = 0; number < in.slots(ring); ++number)
        in.send(ring, number).flags = 0;
}
inline bool is_empty(const siw_kernel &in, std::size_t ring) {
    bool is = true;
    for (std::uint32_t number = 0; number < in.slots(ring); ++number)
        is = is && in.send(ring, number).flags == 0;
    return is;
}

} // namespace played

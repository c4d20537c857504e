// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The verbs objects of a program on a fake siw device, and posts.
#pragma once

#include "fake_siw.hpp"
#include "verbs_objects.hpp"

#include <cstdint>

namespace fake {

/// One object of each type, with qp in RTS.
class siw_objects : public verbs_objects {
  public:
    ibv_mr *second_mr = nullptr;

    explicit siw_objects(kernel &kernel)
        : verbs_objects(kernel) {
        create_pd_and_mr() &&
            check_created(second_mr = ibv_reg_mr(pd, memory.data(), memory.size(),
                                                 int{IBV_ACCESS_REMOTE_READ})) &&
            create_queues() && modify_qp(IBV_QPS_RTS);
    }
    void destroy_all() {
        destroy_queues();
        destroy(second_mr, ibv_dereg_mr);
        destroy_pd_and_mr();
    }
};

/// The rings of these objects in the order of creation.
enum : std::size_t {
    cq_ring,
    cq_ex_ring,
    srq_ring,
    sq_ring,
    rq_ring,
    srq_qp_sq_ring,
    ex_sq_ring,
    ex_rq_ring,
    num_rings
};

/// A send WR of wr_length bytes of the registered memory, and its bad_wr.
struct send_wr {
    ibv_sge sge{};
    ibv_send_wr wr{}, *bad_wr = nullptr;

    explicit send_wr(const siw_objects &objects, ibv_wr_opcode opcode,
                     std::uint64_t wr_id = 0x1122334455667788) {
        sge = {reinterpret_cast<std::uintptr_t>(objects.memory.data()), wr_length,
               objects.mr->lkey};
        wr.wr_id = wr_id;
        wr.sg_list = &sge;
        wr.num_sge = 1;
        wr.opcode = opcode;
        wr.wr.rdma.remote_addr = wr_remote_addr;
        wr.wr.rdma.rkey = wr_rkey;
    }
    send_wr(const send_wr &) = delete;
    send_wr &operator=(const send_wr &) = delete;

    int post(ibv_qp *qp) { return ibv_post_send(qp, &wr, &bad_wr); }
};
/// Both post one WR to the QP; they return 0 or errno.
inline int post_write(const siw_objects &objects, ibv_qp *qp, std::uint64_t wr_id) {
    return send_wr(objects, IBV_WR_RDMA_WRITE, wr_id).post(qp);
}
inline int post_receive(const siw_objects &objects, ibv_qp *qp, std::uint64_t wr_id) {
    ibv_sge sge{reinterpret_cast<std::uintptr_t>(objects.memory.data()), wr_length,
                objects.mr->lkey};
    ibv_recv_wr wr{wr_id, nullptr, &sge, 1}, *bad_wr = nullptr;
    return ibv_post_recv(qp, &wr, &bad_wr);
}

/// Consumes all SQEs, as the kernel does.
inline void consume_sqes(const siw_kernel &kernel, std::size_t ring) {
    for (std::uint32_t i = 0; i < kernel.num_entries(ring); ++i)
        kernel.sqe(ring, i).flags = 0;
}
inline bool is_sq_empty(const siw_kernel &kernel, std::size_t ring) {
    bool empty = true;
    for (std::uint32_t i = 0; i < kernel.num_entries(ring); ++i)
        empty = empty && kernel.sqe(ring, i).flags == 0;
    return empty;
}

} // namespace fake

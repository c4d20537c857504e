// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Verbs as the programs over the drivers use them: a call that fails is a failure of the schedule.
#pragma once

#include "schedule.hpp"

#include <cstdint>
#include <infiniband/verbs.h>

namespace schedule {

/// A program's objects on a device.
template <class kernel_type>
class device {
  public:
    kernel_type kernel;
    ibv_context *context = kernel.open();
    ibv_pd *pd = ibv_alloc_pd(context);
    ibv_cq *cq = ibv_create_cq(context, 8, nullptr, nullptr, 0);

    device() = default;
    device(const device &) = delete;
    device &operator=(const device &) = delete;
    ~device() {
        require(ibv_destroy_cq(cq) == 0 && ibv_dealloc_pd(pd) == 0 &&
                    ibv_close_device(context) == 0,
                "an object is not destroyed");
    }

    ibv_qp *create_qp() { return create_qp(cq); }
    ibv_qp *create_qp(ibv_cq *qp_cq) { return create_qp(qp_cq, qp_cq); }
    ibv_qp *create_qp(ibv_cq *send_cq, ibv_cq *recv_cq) {
        return create_qp(make_attr(send_cq, recv_cq));
    }
    ibv_qp *create_qp(ibv_qp_init_attr attr) {
        ibv_qp *const qp = ibv_create_qp(pd, &attr);
        require(qp != nullptr, "a QP is not created");
        return qp;
    }
    static ibv_qp_init_attr make_attr(ibv_cq *send_cq, ibv_cq *recv_cq) {
        ibv_qp_init_attr attr{};
        attr.send_cq = send_cq;
        attr.recv_cq = recv_cq;
        attr.cap = {.max_send_wr = 4,
                    .max_recv_wr = 2,
                    .max_send_sge = 1,
                    .max_recv_sge = 1,
                    .max_inline_data = 0};
        attr.qp_type = IBV_QPT_RC;
        return attr;
    }
};

/// With wr_ids that are not 0.
namespace verbs {

inline void post_recv(ibv_qp *qp, std::uint64_t wr_id) {
    ibv_sge sge{};
    ibv_recv_wr wr{}, *bad_wr = nullptr;
    wr.wr_id = wr_id;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    require(ibv_post_recv(qp, &wr, &bad_wr) == 0, "a receive is not posted");
}
inline int try_post_send(ibv_qp *qp, std::uint64_t wr_id, unsigned send_flags = 0) {
    ibv_sge sge{};
    ibv_send_wr wr{}, *bad_wr = nullptr;
    wr.wr_id = wr_id;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_RDMA_WRITE;
    wr.send_flags = send_flags;
    return ibv_post_send(qp, &wr, &bad_wr);
}
inline void post_send(ibv_qp *qp, std::uint64_t wr_id, unsigned send_flags = 0) {
    require(try_post_send(qp, wr_id, send_flags) == 0, "a request is not posted");
}
inline void move_to_err(ibv_qp *qp) {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_ERR;
    require(ibv_modify_qp(qp, &attr, IBV_QP_STATE) == 0, "a QP is not moved to ERR");
}
inline void destroy(ibv_qp *qp) {
    require(ibv_destroy_qp(qp) == 0, "a QP is not destroyed");
}
/// Polls all; each must be of the QP. Returns how many.
inline int poll_all(ibv_cq *cq, const ibv_qp &qp) {
    ibv_wc wc{};
    int count = 0;
    for (; ibv_poll_cq(cq, 1, &wc) == 1; ++count)
        require(wc.qp_num == qp.qp_num && wc.wr_id != 0, "a completion of another QP is polled");
    return count;
}

} // namespace verbs
} // namespace schedule

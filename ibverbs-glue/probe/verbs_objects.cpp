// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "verbs_objects.hpp"

#include <cerrno>
#include <sched.h>
#include <system_error>

namespace coherdma::probe {

void throw_error(int error, const char *action) {
    throw std::system_error(error != 0 ? error : EIO, std::generic_category(), action);
}

unique_mr register_memory(ibv_pd *pd, std::span<std::uint64_t> memory) {
    // iWARP requires remote write access for the sink of an RDMA Read.
    const int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
    return unique_mr(throw_if_null(ibv_reg_mr(pd, memory.data(), memory.size_bytes(), access),
                                   "registering memory"));
}

ibv_qp_init_attr make_qp_init_attr(ibv_cq *cq) {
    ibv_qp_init_attr attr = {};
    attr.send_cq = cq;
    attr.recv_cq = cq;
    attr.qp_type = IBV_QPT_RC;
    attr.cap.max_send_wr = 1;
    attr.cap.max_recv_wr = 1;
    attr.cap.max_send_sge = 1;
    attr.cap.max_recv_sge = 1;
    return attr;
}

/// Reads the source MR into the sink MR and waits for the completion. Returns 0 or an errno.
int rdma_read(ibv_qp *qp, ibv_cq *cq, const ibv_mr *source, const ibv_mr *sink,
              std::chrono::milliseconds timeout) {
    ibv_sge sge = {reinterpret_cast<std::uintptr_t>(sink->addr),
                   static_cast<std::uint32_t>(sink->length), sink->lkey};
    ibv_send_wr wr = {};
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_RDMA_READ;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.rdma.remote_addr = reinterpret_cast<std::uintptr_t>(source->addr);
    wr.wr.rdma.rkey = source->rkey;
    ibv_send_wr *bad_wr = nullptr;
    if (const int error = ibv_post_send(qp, &wr, &bad_wr))
        return error;
    // The CPU may never see the CQE of a non-coherent device.
    const auto deadline = std::chrono::steady_clock::now() + timeout;
    ibv_wc wc = {};
    for (int count = 0; count == 0;) {
        count = ibv_poll_cq(cq, 1, &wc);
        if (count < 0)
            return EIO;
        if (count == 0 && std::chrono::steady_clock::now() > deadline)
            return ETIMEDOUT;
        if (count == 0)
            sched_yield();
    }
    return wc.status == IBV_WC_SUCCESS ? 0 : EIO;
}

} // namespace coherdma::probe

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "owned.hpp"

#include <cerrno>
#include <sched.h>
#include <system_error>

namespace coherdma::probe {

void throw_error(int error, const char *what) {
    throw std::system_error(error != 0 ? error : EIO, std::generic_category(), what);
}

owned_region register_memory(ibv_pd *domain, std::span<std::uint64_t> memory) {
    // Remote writing is what iWARP wants of the place where a Read's answer goes.
    const int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
    return owned_region(
        got(ibv_reg_mr(domain, memory.data(), memory.size_bytes(), access), "registering memory"));
}

ibv_qp_init_attr one_transfer(ibv_cq *queue) {
    ibv_qp_init_attr wanted = {};
    wanted.send_cq = queue;
    wanted.recv_cq = queue;
    wanted.qp_type = IBV_QPT_RC;
    wanted.cap.max_send_wr = 1;
    wanted.cap.max_recv_wr = 1;
    wanted.cap.max_send_sge = 1;
    wanted.cap.max_recv_sge = 1;
    return wanted;
}

int read_over(ibv_qp *pair, ibv_cq *queue, const ibv_mr *source, const ibv_mr *sink,
              std::chrono::milliseconds patience) {
    ibv_sge into = {reinterpret_cast<std::uintptr_t>(sink->addr),
                    static_cast<std::uint32_t>(sink->length), sink->lkey};
    ibv_send_wr request = {};
    request.sg_list = &into;
    request.num_sge = 1;
    request.opcode = IBV_WR_RDMA_READ;
    request.send_flags = IBV_SEND_SIGNALED;
    request.wr.rdma.remote_addr = reinterpret_cast<std::uintptr_t>(source->addr);
    request.wr.rdma.rkey = source->rkey;
    ibv_send_wr *bad = nullptr;
    if (const int error = ibv_post_send(pair, &request, &bad))
        return error;
    // A non-coherent device may have written its completion where we never see it.
    const auto end = std::chrono::steady_clock::now() + patience;
    ibv_wc done = {};
    for (int seen = 0; seen == 0;) {
        seen = ibv_poll_cq(queue, 1, &done);
        if (seen < 0)
            return EIO;
        if (seen == 0 && std::chrono::steady_clock::now() > end)
            return ETIMEDOUT;
        if (seen == 0)
            sched_yield();
    }
    return done.status == IBV_WC_SUCCESS ? 0 : EIO;
}

} // namespace coherdma::probe

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "verbs_objects.hpp"

#include <cerrno>
#include <sched.h>
#include <sys/stat.h>
#include <system_error>

namespace coherdma::probe {

void throw_error(int error, const char *action) {
    throw std::system_error(error != 0 ? error : EIO, std::generic_category(), action);
}

namespace {

/// 0: there is no such file.
std::uint64_t inode_of(const char *path) {
    struct stat status = {};
    return stat(path, &status) == 0 ? status.st_ino : 0;
}

} // namespace

removal_watch::removal_watch(const ibv_context *context)
    : folder_(context->device->dev_path)
    , inode_(inode_of(folder_)) {}

bool removal_watch::is_removed() const {
    return inode_ != 0 && inode_of(folder_) != inode_;
}

unique_mr register_memory(ibv_pd *pd, std::span<std::uint64_t> memory) {
    // iWARP requires remote write access for the sink of an RDMA Read.
    const int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
    ibv_mr *const mr = ibv_reg_mr(pd, memory.data(), memory.size_bytes(), access);
    const bool may_be_limit = !mr && errno == ENOMEM;
    return unique_mr(throw_if_null(mr, may_be_limit ? "registering memory, which ulimit -l limits"
                                                    : "registering memory"));
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

namespace {

/// Posts a request that reads or writes all of the local MR, and waits for its completion. Returns
/// 0 or an errno.
int transfer(const requester &requester, ibv_wr_opcode opcode, const ibv_mr *local,
             remote_memory remote) {
    ibv_sge sge = {reinterpret_cast<std::uintptr_t>(local->addr),
                   static_cast<std::uint32_t>(local->length), local->lkey};
    ibv_send_wr wr = {};
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = opcode;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.rdma.remote_addr = remote.addr;
    wr.wr.rdma.rkey = remote.rkey;
    ibv_send_wr *bad_wr = nullptr;
    if (const int error = ibv_post_send(requester.qp, &wr, &bad_wr))
        return error;
    // The CPU may never see the CQE of a non-coherent device.
    const auto deadline = std::chrono::steady_clock::now() + requester.timeout;
    ibv_wc wc = {};
    for (int count = 0; count == 0;) {
        count = ibv_poll_cq(requester.cq, 1, &wc);
        if (count < 0)
            return EIO;
        if (count == 0 && std::chrono::steady_clock::now() > deadline)
            return ETIMEDOUT;
        if (count == 0)
            sched_yield();
    }
    return wc.status == IBV_WC_SUCCESS ? 0 : EIO;
}

} // namespace

int rdma_read(const requester &requester, remote_memory source, const ibv_mr *sink) {
    return transfer(requester, IBV_WR_RDMA_READ, sink, source);
}

int rdma_write(const requester &requester, const ibv_mr *source, remote_memory sink,
               const ibv_mr *flush) {
    if (const int error = transfer(requester, IBV_WR_RDMA_WRITE, source, sink))
        return error;
    const remote_memory last_bytes = {sink.addr + source->length - flush->length, sink.rkey};
    return transfer(requester, IBV_WR_RDMA_READ, flush, last_bytes);
}

} // namespace coherdma::probe

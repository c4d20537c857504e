// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "endpoint.hpp"

#include "../../lib/modify_qp.hpp"

#include <chrono>
#include <sys/mman.h>
#include <thread>

namespace check_corpus {

void endpoint::create(ibv_context *device_context, const endpoint_options &options) {
    context = device_context;
    void *const pages =
        mmap(nullptr, memory_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    check(pages != MAP_FAILED ? 0 : -1, "memory");
    memory = static_cast<std::byte *>(pages);
    pd = check(ibv_alloc_pd(context), "protection domain");
    mr = register_memory();
    create_cqs(options);
    if (options.use_srq) {
        ibv_srq_init_attr attr{};
        attr.attr = {options.max_wr, 2, 0};
        srq = check(ibv_create_srq(pd, &attr), "shared receive queue");
    }
    create_qp(options);
}

void endpoint::create_cqs(const endpoint_options &options) {
    channel = check(ibv_create_comp_channel(context), "completion channel");
    const auto create_cq = [&]() -> ibv_cq * {
        if (!options.extended)
            return check(ibv_create_cq(context, options.cqe, nullptr, channel, 0), "CQ");
        ibv_cq_init_attr_ex attr{};
        attr.cqe = static_cast<std::uint32_t>(options.cqe);
        attr.channel = channel;
        attr.wc_flags = IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_QP_NUM;
        return ibv_cq_ex_to_cq(check(ibv_create_cq_ex(context, &attr), "extended CQ"));
    };
    send_cq = create_cq();
    recv_cq = options.single_cq ? send_cq : create_cq();
}

void endpoint::create_qp(const endpoint_options &options) {
    ibv_qp_init_attr_ex attr{};
    attr.qp_type = IBV_QPT_RC;
    attr.send_cq = send_cq;
    attr.recv_cq = recv_cq;
    attr.srq = srq;
    attr.sq_sig_all = options.sq_sig_all;
    attr.cap = {options.max_wr, srq != nullptr ? 0 : options.max_wr, 2, 2, 64};
    attr.pd = pd;
    attr.comp_mask = IBV_QP_INIT_ATTR_PD;
    if (options.extended) {
        attr.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
        attr.send_ops_flags =
            IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_READ;
    }
    auto *const plain_attr = reinterpret_cast<ibv_qp_init_attr *>(&attr); // its beginning
    if (id == nullptr) {
        qp = check(options.extended ? ibv_create_qp_ex(context, &attr)
                                    : ibv_create_qp(pd, plain_attr),
                   "QP");
    } else {
        check(options.extended ? rdma_create_qp_ex(id, &attr) : rdma_create_qp(id, pd, plain_attr),
              "QP");
        qp = id->qp;
    }
    max_send_wr = attr.cap.max_send_wr;
}

void endpoint::destroy_qp() {
    if (qp == nullptr)
        return;
    if (in_doubt) {
        ibv_qp_attr attr{};
        attr.qp_state = IBV_QPS_ERR;
        ibv_modify_qp(qp, &attr, IBV_QP_STATE);
    }
    if (id != nullptr)
        rdma_destroy_qp(id);
    else
        ibv_destroy_qp(qp);
    qp = nullptr;
}

// An error is only of a wrong program: corrected ones destroy in the right order.
endpoint::~endpoint() {
    destroy_qp();
    if (id != nullptr)
        rdma_destroy_id(id);
    if (srq != nullptr)
        ibv_destroy_srq(srq);
    if (recv_cq != nullptr && recv_cq != send_cq)
        ibv_destroy_cq(recv_cq);
    if (send_cq != nullptr)
        ibv_destroy_cq(send_cq);
    if (channel != nullptr)
        ibv_destroy_comp_channel(channel);
    if (mr != nullptr)
        ibv_dereg_mr(mr);
    if (pd != nullptr)
        ibv_dealloc_pd(pd);
    if (memory != nullptr)
        munmap(memory, memory_size);
}

void endpoint::to_init() const {
    verbs_test::modify_qp_to_init(qp, full_access);
}

void endpoint::to_state(ibv_qp_state state) const {
    ibv_qp_attr attr{};
    attr.qp_state = state;
    check(ibv_modify_qp(qp, &attr, IBV_QP_STATE), "change the QP's state");
}

void endpoint::post_recv(const ibv_sge &sge) const {
    recv_request recv(sge);
    ibv_recv_wr *bad_wr = nullptr;
    check(srq != nullptr ? ibv_post_srq_recv(srq, &recv.wr, &bad_wr)
                         : ibv_post_recv(qp, &recv.wr, &bad_wr),
          "post a receive");
}

void endpoint::post_send(ibv_wr_opcode opcode, const ibv_sge &sge, const endpoint &peer,
                         unsigned flags) const {
    send_request send(opcode, sge, &peer, flags);
    ibv_send_wr *bad_wr = nullptr;
    check(ibv_post_send(qp, &send.wr, &bad_wr), "post a send");
}

send_request::send_request(ibv_wr_opcode opcode, const ibv_sge &local, const endpoint *peer,
                           unsigned flags)
    : sge(local) {
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = opcode;
    wr.send_flags = flags;
    if (peer != nullptr) {
        wr.wr.rdma.remote_addr = reinterpret_cast<std::uintptr_t>(peer->memory);
        wr.wr.rdma.rkey = peer->mr->rkey;
    }
}

recv_request::recv_request(const ibv_sge &local)
    : sge(local) {
    wr.sg_list = &sge;
    wr.num_sge = 1;
}

ibv_wc wait_any(ibv_cq *cq, const char *operation) {
    using clock = std::chrono::steady_clock;
    constexpr std::chrono::seconds limit(30); // ends a hang
    const auto deadline = clock::now() + limit;
    for (;;) {
        ibv_wc wc{};
        const int count = ibv_poll_cq(cq, 1, &wc);
        check(count < 0 ? -1 : 0, "poll");
        if (count == 1)
            return wc;
        if (clock::now() > deadline)
            throw failure(concat("no completion of ", operation));
        std::this_thread::yield();
    }
}

ibv_wc wait_success(ibv_cq *cq, const char *operation) {
    const ibv_wc wc = wait_any(cq, operation);
    if (wc.status != IBV_WC_SUCCESS)
        throw failure(concat(operation, ": ", ibv_wc_status_str(wc.status)));
    return wc;
}

void let_complete() {
    constexpr std::chrono::milliseconds time(50);
    std::this_thread::sleep_for(time);
}

} // namespace check_corpus

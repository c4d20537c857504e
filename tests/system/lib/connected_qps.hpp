// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Two RC QPs of one process, connected to each other by verbs alone.

#pragma once

#include "fault_runner.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <infiniband/verbs.h>
#include <optional>
#include <string_view>

namespace verbs_test {

struct device {
    owned<ibv_context, ibv_close_device> context;
    std::uint8_t gid_index = 0;
    union ibv_gid gid {};
};

inline device open(std::string_view name, int gid_index) {
    int count = 0;
    const owned<ibv_device *, ibv_free_device_list> all(ibv_get_device_list(&count));
    for (int each = 0; each < count; ++each) {
        if (ibv_get_device_name(all.get()[each]) != name)
            continue;
        device found;
        found.context =
            check(decltype(found.context)(ibv_open_device(all.get()[each])), "open the device");
        found.gid_index = static_cast<std::uint8_t>(gid_index);
        check(ibv_query_gid(found.context.get(), 1, gid_index, &found.gid), "its address");
        return found;
    }
    throw failure(text("no device ", name));
}

// A QP with its own CQ and some memory.
struct endpoint {
    static constexpr unsigned mr_access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
                                          IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_MW_BIND;
    static constexpr unsigned qp_access = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;

    static constexpr std::uint8_t ack_timeout = 11; // 8 ms

    const device *dev;
    std::array<std::byte, 4096> memory{};
    owned<ibv_pd, ibv_dealloc_pd> pd;
    owned<ibv_mr, ibv_dereg_mr> mr;
    owned<ibv_cq, ibv_destroy_cq> cq;
    owned<ibv_qp, ibv_destroy_qp> qp;

    explicit endpoint(const device &device, bool extended = false, std::uint64_t more = 0,
                      unsigned access = mr_access)
        : dev(&device) {
        ibv_context *const context = device.context.get();
        pd = check(decltype(pd)(ibv_alloc_pd(context)), "protection domain");
        mr = check(decltype(mr)(ibv_reg_mr(pd.get(), memory.data(), memory.size(), access)),
                   "register memory");
        cq = check(decltype(cq)(extended ? create_cq_ex(context)
                                         : ibv_create_cq(context, 64, nullptr, nullptr, 0)),
                   "completion queue");
        ibv_qp_init_attr_ex attributes{};
        attributes.qp_type = IBV_QPT_RC;
        attributes.send_cq = attributes.recv_cq = cq.get();
        attributes.cap = {8, 8, 2, 2, 64};
        attributes.comp_mask = IBV_QP_INIT_ATTR_PD;
        attributes.pd = pd.get();
        if (extended) {
            attributes.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
            attributes.send_ops_flags = IBV_QP_EX_WITH_SEND | more;
        }
        qp = check(decltype(qp)(ibv_create_qp_ex(context, &attributes)), "queue pair");
    }
    static ibv_cq *create_cq_ex(ibv_context *context) {
        ibv_cq_init_attr_ex attributes{};
        attributes.cqe = 64;
        attributes.wc_flags = IBV_WC_STANDARD_FLAGS;
        ibv_cq_ex *const made = ibv_create_cq_ex(context, &attributes);
        return made != nullptr ? ibv_cq_ex_to_cq(made) : nullptr;
    }
    ibv_cq_ex *cq_ex() const { return reinterpret_cast<ibv_cq_ex *>(cq.get()); }
    // A QP in the PD of another.
    endpoint(const endpoint &other, ibv_qp_init_attr *attributes)
        : dev(other.dev) {
        qp = check(decltype(qp)(ibv_create_qp(other.pd.get(), attributes)), "queue pair");
    }
    endpoint(const endpoint &) = delete;
    endpoint &operator=(const endpoint &) = delete;

    void to_init(unsigned access = qp_access) const {
        ibv_qp_attr attr{};
        attr.qp_state = IBV_QPS_INIT;
        attr.port_num = 1;
        attr.qp_access_flags = access;
        check(ibv_modify_qp(qp.get(), &attr,
                            IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
              "to INIT");
    }
    void to_rtr(const endpoint &peer) const {
        ibv_qp_attr attr{};
        attr.qp_state = IBV_QPS_RTR;
        attr.path_mtu = IBV_MTU_1024;
        attr.dest_qp_num = peer.qp->qp_num;
        attr.max_dest_rd_atomic = 1;
        attr.min_rnr_timer = 1;
        attr.ah_attr.is_global = 1;
        attr.ah_attr.port_num = 1;
        attr.ah_attr.grh.dgid = dev->gid;
        attr.ah_attr.grh.sgid_index = dev->gid_index;
        attr.ah_attr.grh.hop_limit = 1;
        check(ibv_modify_qp(qp.get(), &attr,
                            IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
              "to RTR");
    }
    void to_rts(std::uint8_t timeout = ack_timeout) const {
        ibv_qp_attr attr{};
        attr.qp_state = IBV_QPS_RTS;
        attr.timeout = timeout;
        attr.retry_cnt = 7;
        attr.rnr_retry = 7;
        attr.max_rd_atomic = 1;
        check(ibv_modify_qp(qp.get(), &attr,
                            IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC),
              "to RTS");
    }
    void to_error() const {
        ibv_qp_attr attr{};
        attr.qp_state = IBV_QPS_ERR;
        check(ibv_modify_qp(qp.get(), &attr, IBV_QP_STATE), "to ERR");
    }

    ibv_sge make_sge(std::uint32_t length) const {
        return {reinterpret_cast<std::uintptr_t>(memory.data()), length, mr->lkey};
    }
    void post_recv(std::uint64_t id) const {
        ibv_sge sge = make_sge(64);
        ibv_recv_wr request{id, nullptr, &sge, 1}, *bad = nullptr;
        check(ibv_post_recv(qp.get(), &request, &bad), "post a receive");
    }
    ibv_send_wr request(ibv_wr_opcode opcode) const {
        ibv_send_wr made{};
        made.opcode = opcode;
        made.send_flags = IBV_SEND_SIGNALED;
        return made;
    }
    ibv_send_wr request(ibv_wr_opcode opcode, ibv_sge &sge) const {
        ibv_send_wr made = request(opcode);
        made.sg_list = &sge;
        made.num_sge = 1;
        return made;
    }
    // An RDMA operation with the beginning of the peer's memory.
    ibv_send_wr request(ibv_wr_opcode opcode, ibv_sge &sge, const endpoint &peer) const {
        ibv_send_wr made = request(opcode, sge);
        made.wr.rdma.remote_addr = reinterpret_cast<std::uintptr_t>(peer.memory.data());
        made.wr.rdma.rkey = peer.mr->rkey;
        return made;
    }

    std::optional<ibv_wc> completion(milliseconds within) const {
        return verbs_test::completion(cq.get(), within);
    }
    ibv_wc expect_success(const char *what) const {
        return verbs_test::expect_success(cq.get(), what);
    }
};

inline void connect(const endpoint &a, const endpoint &b, unsigned access = endpoint::qp_access,
                    std::uint8_t timeout = endpoint::ack_timeout) {
    for (const endpoint *each : {&a, &b})
        each->to_init(access);
    a.to_rtr(b);
    b.to_rtr(a);
    a.to_rts(timeout);
    b.to_rts(timeout);
}

} // namespace verbs_test

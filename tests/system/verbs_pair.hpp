// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Two reliable queue pairs of one process that talk to each other, connected by verbs alone.

#pragma once

#include "trial.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <infiniband/verbs.h>
#include <optional>
#include <string_view>

namespace carry {

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

// One end, with its own completion queue and some memory.
struct end {
    static constexpr unsigned memory_access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
                                              IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_MW_BIND;
    static constexpr unsigned pair_access = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;

    static constexpr std::uint8_t acknowledged = 11; // within 8 ms, or sent again

    const device *on;
    std::array<std::byte, 4096> memory{};
    owned<ibv_pd, ibv_dealloc_pd> pd;
    owned<ibv_mr, ibv_dereg_mr> mr;
    owned<ibv_cq, ibv_destroy_cq> cq;
    owned<ibv_qp, ibv_destroy_qp> qp;

    explicit end(const device &device, bool by_parts = false, std::uint64_t more = 0,
                 unsigned access = memory_access)
        : on(&device) {
        ibv_context *const context = device.context.get();
        pd = check(decltype(pd)(ibv_alloc_pd(context)), "protection domain");
        mr = check(decltype(mr)(ibv_reg_mr(pd.get(), memory.data(), memory.size(), access)),
                   "register memory");
        cq = check(decltype(cq)(by_parts ? polled_by_parts(context)
                                         : ibv_create_cq(context, 64, nullptr, nullptr, 0)),
                   "completion queue");
        ibv_qp_init_attr_ex attributes{};
        attributes.qp_type = IBV_QPT_RC;
        attributes.send_cq = attributes.recv_cq = cq.get();
        attributes.cap = {8, 8, 2, 2, 64};
        attributes.comp_mask = IBV_QP_INIT_ATTR_PD;
        attributes.pd = pd.get();
        if (by_parts) {
            attributes.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
            attributes.send_ops_flags = IBV_QP_EX_WITH_SEND | more;
        }
        qp = check(decltype(qp)(ibv_create_qp_ex(context, &attributes)), "queue pair");
    }
    static ibv_cq *polled_by_parts(ibv_context *context) {
        ibv_cq_init_attr_ex attributes{};
        attributes.cqe = 64;
        attributes.wc_flags = IBV_WC_STANDARD_FLAGS;
        ibv_cq_ex *const made = ibv_create_cq_ex(context, &attributes);
        return made != nullptr ? ibv_cq_ex_to_cq(made) : nullptr;
    }
    ibv_cq_ex *parts() const { return reinterpret_cast<ibv_cq_ex *>(cq.get()); }
    // A queue pair beside another's, with what is the other's.
    end(const end &other, ibv_qp_init_attr *attributes)
        : on(other.on) {
        qp = check(decltype(qp)(ibv_create_qp(other.pd.get(), attributes)), "queue pair");
    }
    end(const end &) = delete;
    end &operator=(const end &) = delete;

    void to_init(unsigned access = pair_access) const {
        ibv_qp_attr to{};
        to.qp_state = IBV_QPS_INIT;
        to.port_num = 1;
        to.qp_access_flags = access;
        check(ibv_modify_qp(qp.get(), &to,
                            IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
              "to INIT");
    }
    void to_rtr(const end &peer) const {
        ibv_qp_attr to{};
        to.qp_state = IBV_QPS_RTR;
        to.path_mtu = IBV_MTU_1024;
        to.dest_qp_num = peer.qp->qp_num;
        to.max_dest_rd_atomic = 1;
        to.min_rnr_timer = 1;
        to.ah_attr.is_global = 1;
        to.ah_attr.port_num = 1;
        to.ah_attr.grh.dgid = on->gid;
        to.ah_attr.grh.sgid_index = on->gid_index;
        to.ah_attr.grh.hop_limit = 1;
        check(ibv_modify_qp(qp.get(), &to,
                            IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
              "to RTR");
    }
    void to_rts(std::uint8_t timeout = acknowledged) const {
        ibv_qp_attr to{};
        to.qp_state = IBV_QPS_RTS;
        to.timeout = timeout;
        to.retry_cnt = 7;
        to.rnr_retry = 7;
        to.max_rd_atomic = 1;
        check(ibv_modify_qp(qp.get(), &to,
                            IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC),
              "to RTS");
    }
    void to_error() const {
        ibv_qp_attr to{};
        to.qp_state = IBV_QPS_ERR;
        check(ibv_modify_qp(qp.get(), &to, IBV_QP_STATE), "to ERR");
    }

    ibv_sge piece(std::uint32_t length) const {
        return {reinterpret_cast<std::uintptr_t>(memory.data()), length, mr->lkey};
    }
    void post_receive(std::uint64_t id) const {
        ibv_sge where = piece(64);
        ibv_recv_wr request{id, nullptr, &where, 1}, *bad = nullptr;
        check(ibv_post_recv(qp.get(), &request, &bad), "post a receive");
    }
    ibv_send_wr request(ibv_wr_opcode opcode) const {
        ibv_send_wr made{};
        made.opcode = opcode;
        made.send_flags = IBV_SEND_SIGNALED;
        return made;
    }

    std::optional<ibv_wc> completion(milliseconds within) const {
        return carry::completion(cq.get(), within);
    }
    ibv_wc success(const char *of) const { return carry::success(cq.get(), of); }
};

inline void connect(const end &a, const end &b, unsigned access = end::pair_access,
                    std::uint8_t timeout = end::acknowledged) {
    for (const end *each : {&a, &b})
        each->to_init(access);
    a.to_rtr(b);
    b.to_rtr(a);
    a.to_rts(timeout);
    b.to_rts(timeout);
}

} // namespace carry

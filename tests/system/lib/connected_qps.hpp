// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Two QPs of one process, connected to each other by verbs alone.

#pragma once

#include "fault_runner.hpp"
#include "modify_qp.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <infiniband/verbs.h>
#include <optional>
#include <string_view>

namespace verbs_test {

struct device {
    unique_handle<ibv_context, ibv_close_device> context;
    std::uint8_t gid_index = 0;
    union ibv_gid gid {};
};

/// gid_index: of the device's own address, at port 1.
inline device open_device(std::string_view name, int gid_index) {
    int count = 0;
    const unique_handle<ibv_device *, ibv_free_device_list> devices(ibv_get_device_list(&count));
    for (int i = 0; i < count; ++i) {
        if (ibv_get_device_name(devices.get()[i]) != name)
            continue;
        device dev;
        dev.context =
            check(decltype(dev.context)(ibv_open_device(devices.get()[i])), "open the device");
        dev.gid_index = static_cast<std::uint8_t>(gid_index);
        check(ibv_query_gid(dev.context.get(), 1, gid_index, &dev.gid), "its address");
        return dev;
    }
    throw failure(concat("no device ", name));
}

constexpr unsigned default_mr_access =
    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_MW_BIND;

/// How an endpoint differs from a plain one.
struct endpoint_options {
    bool extended = false; ///< the QP has the ibv_wr_* API, the CQ the ibv_start_poll API
    std::uint64_t extra_send_ops = 0; ///< IBV_QP_EX_WITH_* beside Send, if extended
    unsigned mr_access = default_mr_access;
};

/// A QP with its own CQ and some memory.
struct endpoint {
    static constexpr unsigned qp_access = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;

    static constexpr std::uint8_t ack_timeout = 11; // 8 ms

    static constexpr std::uint32_t qkey = loopback_qkey;

    const device *dev;
    alignas(8) std::array<std::byte, 4096> memory{}; ///< atomics need aligned addresses
    unique_handle<ibv_pd, ibv_dealloc_pd> pd;
    unique_handle<ibv_mr, ibv_dereg_mr> mr;
    unique_handle<ibv_cq, ibv_destroy_cq> cq;
    unique_handle<ibv_qp, ibv_destroy_qp> qp;

    /// A QP of type RC.
    explicit endpoint(const device &device, const endpoint_options &options = {})
        : dev(&device) {
        create_mr_and_cq(options.extended, options.mr_access);
        ibv_qp_init_attr_ex attr = make_init_attr(IBV_QPT_RC, {8, 8, 2, 2, 64});
        if (options.extended) {
            attr.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
            attr.send_ops_flags = IBV_QP_EX_WITH_SEND | options.extra_send_ops;
        }
        create_qp(attr);
    }
    endpoint(const device &device, ibv_qp_type type, const ibv_qp_cap &cap)
        : dev(&device) {
        create_mr_and_cq(/*extended=*/false, default_mr_access);
        ibv_qp_init_attr_ex attr = make_init_attr(type, cap);
        create_qp(attr);
    }
    void create_mr_and_cq(bool extended, unsigned access) {
        ibv_context *const context = dev->context.get();
        pd = check(decltype(pd)(ibv_alloc_pd(context)), "protection domain");
        mr = check(decltype(mr)(ibv_reg_mr(pd.get(), memory.data(), memory.size(), access)),
                   "register memory");
        cq = check(decltype(cq)(extended ? create_cq_ex(context)
                                         : ibv_create_cq(context, 64, nullptr, nullptr, 0)),
                   "completion queue");
    }
    ibv_qp_init_attr_ex make_init_attr(ibv_qp_type type, const ibv_qp_cap &cap) const {
        ibv_qp_init_attr_ex attr{};
        attr.qp_type = type;
        attr.send_cq = attr.recv_cq = cq.get();
        attr.cap = cap;
        attr.comp_mask = IBV_QP_INIT_ATTR_PD;
        attr.pd = pd.get();
        return attr;
    }
    void create_qp(ibv_qp_init_attr_ex &attr) {
        qp = check(decltype(qp)(ibv_create_qp_ex(dev->context.get(), &attr)), "queue pair");
    }
    static ibv_cq *create_cq_ex(ibv_context *context) {
        ibv_cq_init_attr_ex attr{};
        attr.cqe = 64;
        attr.wc_flags = IBV_WC_STANDARD_FLAGS;
        ibv_cq_ex *const created = ibv_create_cq_ex(context, &attr);
        return created != nullptr ? ibv_cq_ex_to_cq(created) : nullptr;
    }
    ibv_cq_ex *cq_ex() const { return reinterpret_cast<ibv_cq_ex *>(cq.get()); }
    /// Only a QP, in the PD of the other endpoint.
    endpoint(const endpoint &other, ibv_qp_init_attr *attr)
        : dev(other.dev) {
        qp = check(decltype(qp)(ibv_create_qp(other.pd.get(), attr)), "queue pair");
    }
    endpoint(const endpoint &) = delete;
    endpoint &operator=(const endpoint &) = delete;

    ibv_ah_attr make_ah_attr() const { return make_loopback_ah_attr(dev->gid, dev->gid_index); }
    void to_init(unsigned access = qp_access) const { modify_qp_to_init(qp.get(), access); }
    void to_rtr(const endpoint &peer) const {
        modify_qp_to_rtr(qp.get(), peer.qp->qp_num, make_ah_attr(), /*max_dest_rd_atomic=*/1);
    }
    void to_rts(std::uint8_t timeout = ack_timeout) const {
        modify_qp_to_rts(qp.get(), timeout, /*rnr_retry=*/7, /*max_rd_atomic=*/1);
    }
    void to_error() const { to_state(IBV_QPS_ERR, "to ERR"); }
    void to_reset() const { to_state(IBV_QPS_RESET, "to RESET"); }
    void to_state(ibv_qp_state state, const char *operation) const {
        ibv_qp_attr attr{};
        attr.qp_state = state;
        check(ibv_modify_qp(qp.get(), &attr, IBV_QP_STATE), operation);
    }

    ibv_sge make_sge(std::uint32_t length) const {
        return {reinterpret_cast<std::uintptr_t>(memory.data()), length, mr->lkey};
    }
    void post_recv(std::uint64_t wr_id) const {
        ibv_sge sge = make_sge(64);
        ibv_recv_wr wr{wr_id, nullptr, &sge, 1}, *bad_wr = nullptr;
        check(ibv_post_recv(qp.get(), &wr, &bad_wr), "post a receive");
    }
    ibv_send_wr make_wr(ibv_wr_opcode opcode) const {
        ibv_send_wr wr{};
        wr.opcode = opcode;
        wr.send_flags = IBV_SEND_SIGNALED;
        return wr;
    }
    ibv_send_wr make_wr(ibv_wr_opcode opcode, ibv_sge &sge) const {
        ibv_send_wr wr = make_wr(opcode);
        wr.sg_list = &sge;
        wr.num_sge = 1;
        return wr;
    }
    /// An RDMA operation on the beginning of the peer's memory.
    ibv_send_wr make_wr(ibv_wr_opcode opcode, ibv_sge &sge, const endpoint &peer) const {
        ibv_send_wr wr = make_wr(opcode, sge);
        wr.wr.rdma.remote_addr = reinterpret_cast<std::uintptr_t>(peer.memory.data());
        wr.wr.rdma.rkey = peer.mr->rkey;
        return wr;
    }

    std::optional<ibv_wc> wait_completion(milliseconds timeout) const {
        return verbs_test::wait_completion(cq.get(), timeout);
    }
    ibv_wc expect_success(const char *operation) const {
        return verbs_test::expect_success(cq.get(), operation);
    }
};

/// Both QPs come to RTS. access: the remote operations that both permit.
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

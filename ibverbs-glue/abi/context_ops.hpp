// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// verbs_context_ops, the table of a provider's operations. It is in alphabetical order, so a new
// operation moves all that follow it. A provider fills the table of the newest release by name;
// convert_ops() makes the table of the release in use.
#pragma once

#include "driver.hpp"

#include <cstdint>

// Not declared in the oldest verbs.h that this compiles with.
struct ibv_buf;
struct ibv_comp_cntr;
struct ibv_comp_cntr_caps;
struct ibv_comp_cntr_init_attr;
struct ibv_dmah;
struct ibv_dmah_init_attr;
struct ibv_mr_init_attr;
struct ibv_qp_attach_comp_cntr_attr;

namespace coherdma::abi {

/// That of release 65. libibverbs replaces nullptr with a function that returns EOPNOTSUPP.
struct verbs_context_ops {
    int (*advise_mr)(ibv_pd *, ib_uverbs_advise_mr_advice, std::uint32_t, ibv_sge *, std::uint32_t);
    void *(*alloc_buf)(ibv_pd *, std::size_t, ibv_buf **);
    ibv_dm *(*alloc_dm)(ibv_context *, ibv_alloc_dm_attr *);
    ibv_dmah *(*alloc_dmah)(ibv_context *, ibv_dmah_init_attr *);
    ibv_mw *(*alloc_mw)(ibv_pd *, ibv_mw_type);
    ibv_mr *(*alloc_null_mr)(ibv_pd *);
    ibv_pd *(*alloc_parent_domain)(ibv_context *, ibv_parent_domain_init_attr *);
    ibv_pd *(*alloc_pd)(ibv_context *);
    ibv_td *(*alloc_td)(ibv_context *, ibv_td_init_attr *);
    void (*async_event)(ibv_context *, ibv_async_event *);
    int (*attach_counters_point_flow)(ibv_counters *, ibv_counter_attach_attr *, ibv_flow *);
    int (*attach_mcast)(ibv_qp *, const union ibv_gid *, std::uint16_t);
    int (*bind_mw)(ibv_qp *, ibv_mw *, ibv_mw_bind *);
    int (*close_xrcd)(ibv_xrcd *);
    void (*cq_event)(ibv_cq *);
    ibv_ah *(*create_ah)(ibv_pd *, ibv_ah_attr *);
    ibv_comp_cntr *(*create_comp_cntr)(ibv_context *, ibv_comp_cntr_init_attr *);
    ibv_counters *(*create_counters)(ibv_context *, ibv_counters_init_attr *);
    ibv_cq *(*create_cq)(ibv_context *, int, ibv_comp_channel *, int);
    ibv_cq_ex *(*create_cq_ex)(ibv_context *, ibv_cq_init_attr_ex *);
    ibv_flow *(*create_flow)(ibv_qp *, ibv_flow_attr *);
    ibv_flow_action *(*create_flow_action_esp)(ibv_context *, ibv_flow_action_esp_attr *);
    ibv_qp *(*create_qp)(ibv_pd *, ibv_qp_init_attr *);
    ibv_qp *(*create_qp_ex)(ibv_context *, ibv_qp_init_attr_ex *);
    ibv_rwq_ind_table *(*create_rwq_ind_table)(ibv_context *, ibv_rwq_ind_table_init_attr *);
    ibv_srq *(*create_srq)(ibv_pd *, ibv_srq_init_attr *);
    ibv_srq *(*create_srq_ex)(ibv_context *, ibv_srq_init_attr_ex *);
    ibv_wq *(*create_wq)(ibv_context *, ibv_wq_init_attr *);
    int (*dealloc_dmah)(ibv_dmah *);
    int (*dealloc_mw)(ibv_mw *);
    int (*dealloc_pd)(ibv_pd *);
    int (*dealloc_td)(ibv_td *);
    int (*dereg_mr)(verbs_mr *);
    int (*destroy_ah)(ibv_ah *);
    int (*destroy_comp_cntr)(ibv_comp_cntr *);
    int (*destroy_counters)(ibv_counters *);
    int (*destroy_cq)(ibv_cq *);
    int (*destroy_flow)(ibv_flow *);
    int (*destroy_flow_action)(ibv_flow_action *);
    int (*destroy_qp)(ibv_qp *);
    int (*destroy_rwq_ind_table)(ibv_rwq_ind_table *);
    int (*destroy_srq)(ibv_srq *);
    int (*destroy_wq)(ibv_wq *);
    int (*detach_mcast)(ibv_qp *, const union ibv_gid *, std::uint16_t);
    int (*dm_export_dmabuf_fd)(ibv_dm *);
    void (*free_buf)(ibv_buf *);
    void (*free_context)(ibv_context *);
    int (*free_dm)(ibv_dm *);
    int (*get_srq_num)(ibv_srq *, std::uint32_t *);
    ibv_dm *(*import_dm)(ibv_context *, std::uint32_t);
    ibv_mr *(*import_mr)(ibv_pd *, std::uint32_t);
    ibv_pd *(*import_pd)(ibv_context *, std::uint32_t);
    int (*inc_comp_cntr)(ibv_comp_cntr *, std::uint64_t);
    int (*inc_err_comp_cntr)(ibv_comp_cntr *, std::uint64_t);
    int (*modify_cq)(ibv_cq *, ibv_modify_cq_attr *);
    int (*modify_flow_action_esp)(ibv_flow_action *, ibv_flow_action_esp_attr *);
    int (*modify_qp)(ibv_qp *, ibv_qp_attr *, int);
    int (*modify_qp_rate_limit)(ibv_qp *, ibv_qp_rate_limit_attr *);
    int (*modify_srq)(ibv_srq *, ibv_srq_attr *, int);
    int (*modify_wq)(ibv_wq *, ibv_wq_attr *);
    ibv_qp *(*open_qp)(ibv_context *, ibv_qp_open_attr *);
    ibv_xrcd *(*open_xrcd)(ibv_context *, ibv_xrcd_init_attr *);
    int (*poll_cq)(ibv_cq *, int, ibv_wc *);
    int (*post_recv)(ibv_qp *, ibv_recv_wr *, ibv_recv_wr **);
    int (*post_send)(ibv_qp *, ibv_send_wr *, ibv_send_wr **);
    int (*post_srq_ops)(ibv_srq *, ibv_ops_wr *, ibv_ops_wr **);
    int (*post_srq_recv)(ibv_srq *, ibv_recv_wr *, ibv_recv_wr **);
    int (*qp_attach_comp_cntr)(ibv_qp *, ibv_comp_cntr *, ibv_qp_attach_comp_cntr_attr *);
    int (*query_comp_cntr_caps)(ibv_context *, ibv_comp_cntr_caps *, std::size_t);
    int (*query_device_ex)(ibv_context *, const ibv_query_device_ex_input *, ibv_device_attr_ex *,
                           std::size_t);
    int (*query_ece)(ibv_qp *, ibv_ece *);
    int (*query_port)(ibv_context *, std::uint8_t, ibv_port_attr *);
    int (*query_port_speed)(ibv_context *, std::uint32_t, std::uint64_t *);
    int (*query_qp)(ibv_qp *, ibv_qp_attr *, int, ibv_qp_init_attr *);
    int (*query_qp_data_in_order)(ibv_qp *, ibv_wr_opcode, std::uint32_t);
    int (*query_rt_values)(ibv_context *, ibv_values_ex *);
    int (*query_srq)(ibv_srq *, ibv_srq_attr *);
    int (*read_comp_cntr)(ibv_comp_cntr *, std::uint64_t *);
    int (*read_counters)(ibv_counters *, std::uint64_t *, std::uint32_t, std::uint32_t);
    int (*read_err_comp_cntr)(ibv_comp_cntr *, std::uint64_t *);
    ibv_mr *(*reg_dm_mr)(ibv_pd *, ibv_dm *, std::uint64_t, std::size_t, unsigned int);
    ibv_mr *(*reg_dmabuf_mr)(ibv_pd *, std::uint64_t, std::size_t, std::uint64_t, int, int);
    ibv_mr *(*reg_mr)(ibv_pd *, void *, std::size_t, std::uint64_t, int);
    ibv_mr *(*reg_mr_ex)(ibv_pd *, ibv_mr_init_attr *);
    int (*req_notify_cq)(ibv_cq *, int);
    int (*rereg_mr)(verbs_mr *, int, ibv_pd *, void *, std::size_t, int);
    int (*resize_cq)(ibv_cq *, int);
    int (*set_comp_cntr)(ibv_comp_cntr *, std::uint64_t);
    int (*set_ece)(ibv_qp *, ibv_ece *);
    int (*set_err_comp_cntr)(ibv_comp_cntr *, std::uint64_t);
    void (*unimport_dm)(ibv_dm *);
    void (*unimport_mr)(ibv_mr *);
    void (*unimport_pd)(ibv_pd *);
};
inline constexpr std::size_t num_context_ops = 93;
static_assert(sizeof(verbs_context_ops) == num_context_ops * sizeof(void *));

/// An operation that release 36 lacks.
struct added_op {
    std::size_t index; ///< in verbs_context_ops
    abi_version since;
};

/// offset: in verbs_context_ops, in bytes.
constexpr std::size_t op_index(std::size_t offset) noexcept {
    return offset / sizeof(void *);
}

inline constexpr std::array added_ops{
    added_op{op_index(offsetof(verbs_context_ops, alloc_buf)), abi_version::v64},
    added_op{op_index(offsetof(verbs_context_ops, alloc_dmah)), abi_version::v59},
    added_op{op_index(offsetof(verbs_context_ops, create_comp_cntr)), abi_version::v65},
    added_op{op_index(offsetof(verbs_context_ops, dealloc_dmah)), abi_version::v59},
    added_op{op_index(offsetof(verbs_context_ops, destroy_comp_cntr)), abi_version::v65},
    added_op{op_index(offsetof(verbs_context_ops, dm_export_dmabuf_fd)), abi_version::v62},
    added_op{op_index(offsetof(verbs_context_ops, free_buf)), abi_version::v64},
    added_op{op_index(offsetof(verbs_context_ops, inc_comp_cntr)), abi_version::v65},
    added_op{op_index(offsetof(verbs_context_ops, inc_err_comp_cntr)), abi_version::v65},
    added_op{op_index(offsetof(verbs_context_ops, qp_attach_comp_cntr)), abi_version::v65},
    added_op{op_index(offsetof(verbs_context_ops, query_comp_cntr_caps)), abi_version::v65},
    added_op{op_index(offsetof(verbs_context_ops, query_port_speed)), abi_version::v62},
    added_op{op_index(offsetof(verbs_context_ops, read_comp_cntr)), abi_version::v65},
    added_op{op_index(offsetof(verbs_context_ops, read_err_comp_cntr)), abi_version::v65},
    added_op{op_index(offsetof(verbs_context_ops, reg_mr_ex)), abi_version::v59},
    added_op{op_index(offsetof(verbs_context_ops, set_comp_cntr)), abi_version::v65},
    added_op{op_index(offsetof(verbs_context_ops, set_err_comp_cntr)), abi_version::v65},
};

/// From op_index_in_version(): the version does not have the operation.
inline constexpr std::size_t op_missing = num_context_ops;

/// Where the operation at `index` of verbs_context_ops is in the table of a version, or op_missing.
constexpr std::size_t op_index_in_version(abi_version version, std::size_t index) noexcept {
    std::size_t num_missing_before = 0; // the operation, in the version's table
    for (const added_op &op : added_ops) {
        if (op.since <= version)
            continue;
        if (op.index == index)
            return op_missing;
        if (op.index < index)
            ++num_missing_before;
    }
    return index - num_missing_before;
}

/// Whether each version's table ends with the last operation.
constexpr bool are_ops_sizes_consistent() noexcept {
    for (const layout &layout : layouts) {
        if ((op_index_in_version(layout.version, num_context_ops - 1) + 1) * sizeof(void *) !=
            layout.ops_size)
            return false;
    }
    return true;
}
static_assert(are_ops_sizes_consistent());

/// The verbs_context_ops of any version.
struct ops_table {
    void (*ops[num_context_ops])();
};

/// Omits operations that the version lacks.
ops_table convert_ops(const verbs_context_ops &ops, abi_version version) noexcept;

} // namespace coherdma::abi

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// libibverbs' functions for providers. Their symbol versions change with the release, so they are
// looked up at run time: a plugin linked to them would load with one release only. Differences in
// their parameters are hidden here.
//
// A void * command or response is a message (messages.hpp); the next argument is its size.
#pragma once

#include "context_ops.hpp"

#include <cstdint>

struct ibv_command_buffer;

namespace coherdma::abi {

/// Looks up a symbol of libibverbs; nullptr: not found.
using find_symbol_function = void *(const char *symbol, const char *version) noexcept;

struct libibverbs_functions {
    // Providers call init_and_alloc_context(), uninit_and_free_context() and set_ops() of abi.hpp
    // instead of the first three.
    void *(*verbs_init_and_alloc_context)(ibv_device *, int, std::size_t, verbs_context *,
                                          std::uint32_t);
    void (*verbs_uninit_context)(verbs_context *);
    void (*verbs_set_ops)(verbs_context *, const void *);
    int (*ibv_cmd_query_context)(ibv_context *, ibv_command_buffer *);
    int (*ibv_cmd_query_device_any)(ibv_context *, const ibv_query_device_ex_input *,
                                    ibv_device_attr_ex *, std::size_t, void *, std::size_t *);
    int (*ibv_cmd_query_port)(ibv_context *, std::uint8_t, ibv_port_attr *, void *, std::size_t);
    int (*execute_ioctl)(ibv_context *, ibv_command_buffer *);

    int (*ibv_cmd_alloc_pd)(ibv_context *, ibv_pd *, void *, std::size_t, void *, std::size_t);
    int (*ibv_cmd_dealloc_pd)(ibv_pd *);

    int (*ibv_cmd_reg_mr)(ibv_pd *, void *, std::size_t, std::uint64_t, int, verbs_mr *, void *,
                          std::size_t, void *, std::size_t);
    int (*ibv_cmd_rereg_mr)(verbs_mr *, std::uint32_t, void *, std::size_t, std::uint64_t, int,
                            ibv_pd *, void *, std::size_t, void *, std::size_t);
    int (*ibv_cmd_dereg_mr)(verbs_mr *);
    int (*ibv_cmd_advise_mr)(ibv_pd *, ib_uverbs_advise_mr_advice, std::uint32_t, ibv_sge *,
                             std::uint32_t);
    int (*ibv_cmd_query_mr)(ibv_pd *, verbs_mr *, std::uint32_t);
    int (*ibv_cmd_alloc_mw)(ibv_pd *, ibv_mw_type, ibv_mw *, void *, std::size_t, void *,
                            std::size_t);
    int (*ibv_cmd_dealloc_mw)(ibv_mw *);

    int (*ibv_cmd_resize_cq)(ibv_cq *, int, void *, std::size_t, void *, std::size_t);
    int (*ibv_cmd_req_notify_cq)(ibv_cq *, int);
    int (*ibv_cmd_modify_cq)(ibv_cq *, ibv_modify_cq_attr *, void *, std::size_t);
    int (*ibv_cmd_destroy_cq)(ibv_cq *);

    int (*ibv_cmd_create_srq)(ibv_pd *, ibv_srq *, ibv_srq_init_attr *, void *, std::size_t, void *,
                              std::size_t);
    int (*ibv_cmd_create_srq_ex)(ibv_context *, verbs_srq *, ibv_srq_init_attr_ex *, void *,
                                 std::size_t, void *, std::size_t);
    int (*ibv_cmd_modify_srq)(ibv_srq *, ibv_srq_attr *, int, void *, std::size_t);
    int (*ibv_cmd_query_srq)(ibv_srq *, ibv_srq_attr *, void *, std::size_t);
    int (*ibv_cmd_destroy_srq)(ibv_srq *);

    int (*ibv_cmd_create_qp)(ibv_pd *, ibv_qp *, ibv_qp_init_attr *, void *, std::size_t, void *,
                             std::size_t);
    int (*ibv_cmd_query_qp)(ibv_qp *, ibv_qp_attr *, int, ibv_qp_init_attr *, void *, std::size_t);
    int (*ibv_cmd_modify_qp)(ibv_qp *, ibv_qp_attr *, int, void *, std::size_t);
    int (*ibv_cmd_destroy_qp)(ibv_qp *);
    int (*ibv_cmd_attach_mcast)(ibv_qp *, const ibv_gid *, std::uint16_t);
    int (*ibv_cmd_detach_mcast)(ibv_qp *, const ibv_gid *, std::uint16_t);

    int (*ibv_cmd_create_ah)(ibv_pd *, ibv_ah *, ibv_ah_attr *, void *, std::size_t);
    int (*ibv_cmd_destroy_ah)(ibv_ah *);

    // nullptr in releases without the function; these have no such operation either.
    int (*ibv_cmd_reg_mr_ex)(ibv_pd *, verbs_mr *, ibv_mr_init_attr *);
    int (*ibv_cmd_query_port_speed)(ibv_context *, std::uint32_t, std::uint64_t *);

    // Functions whose parameters differ between releases.
    int ibv_cmd_get_context(verbs_context *, void *, std::size_t, void *,
                            std::size_t) const noexcept;
    int ibv_cmd_create_cq_ex(ibv_context *, const ibv_cq_init_attr_ex *, verbs_cq *, void *,
                             std::size_t, void *, std::size_t,
                             std::uint32_t cmd_flags) const noexcept;
    /// Clears verbs_qp.comp_mask: call set_qp_ex_ops() after it.
    int ibv_cmd_create_qp_ex2(ibv_context *, verbs_qp *, ibv_qp_init_attr_ex *, void *, std::size_t,
                              void *, std::size_t) const noexcept;
    int ibv_cmd_reg_dmabuf_mr(ibv_pd *, std::uint64_t offset, std::size_t length,
                              std::uint64_t iova, int fd, int access, verbs_mr *) const noexcept;

    /// What these functions call: libibverbs' functions, with the parameters of this version.
    struct {
        abi_version version;
        void *get_context, *create_cq_ex, *create_qp_ex2, *reg_dmabuf_mr;
    } versioned;
};

/// Looks up all functions. Returns the first required symbol that is missing, else nullptr.
const char *load_commands(libibverbs_functions &functions, const layout &layout,
                          find_symbol_function *find_symbol) noexcept;

} // namespace coherdma::abi

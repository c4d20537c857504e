// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// libibverbs' functions of those names that the interposer has, too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <dlfcn.h>
#include <infiniband/verbs.h>

// Macros of verbs.h that hide the functions.
#undef ibv_reg_mr
#undef ibv_reg_mr_iova
#undef ibv_query_port

namespace coherdma::interposer {

/// A library's functions, by their versions.
class symbol_table {
  public:
    /// The interposer is not linked with the library: a program that does not use RDMA does not
    /// load it, and one that brings its own keeps that. Once found, it stays loaded.
    explicit symbol_table(const char *file_name) noexcept;

    /// nullptr: this release does not have it.
    template <class function>
    void find(function *&result, const char *name, const char *version) const noexcept {
        result = reinterpret_cast<function *>(dlvsym(library_, name, version));
    }

  private:
    void *library_;
};

/// struct ibv_mr_init_attr of rdma-core 59 and later, as far as the interposer reads it.
struct mr_init_attr {
    std::size_t length;
    int access;
    std::uint64_t comp_mask; ///< of mr_init_attr_mask
    std::uint64_t iova;
    void *addr;
};
enum mr_init_attr_mask : std::uint64_t { MR_HAS_IOVA = 1, MR_HAS_ADDR = 2 };

/// nullptr: this release of libibverbs does not have it.
struct libibverbs_functions {
    ibv_context *(*open_device)(ibv_device *);
    ibv_context *(*import_device)(int);
    int (*close_device)(ibv_context *);
    ibv_pd *(*alloc_pd)(ibv_context *);
    ibv_pd *(*import_pd)(ibv_context *, std::uint32_t);
    int (*dealloc_pd)(ibv_pd *);
    void (*unimport_pd)(ibv_pd *);
    ibv_mr *(*reg_mr)(ibv_pd *, void *, std::size_t, int);
    ibv_mr *(*reg_mr_iova)(ibv_pd *, void *, std::size_t, std::uint64_t, int);
    ibv_mr *(*reg_mr_iova2)(ibv_pd *, void *, std::size_t, std::uint64_t, unsigned);
    ibv_mr *(*reg_dmabuf_mr)(ibv_pd *, std::uint64_t, std::size_t, std::uint64_t, int, int);
    ibv_mr *(*reg_mr_ex)(ibv_pd *, mr_init_attr *);
    ibv_mr *(*reg_buf_mr)(ibv_pd *, void *, void *, std::size_t, int);
    int (*rereg_mr)(ibv_mr *, int, ibv_pd *, void *, std::size_t, int);
    ibv_mr *(*import_mr)(ibv_pd *, std::uint32_t);
    int (*dereg_mr)(ibv_mr *);
    void (*unimport_mr)(ibv_mr *);
    ibv_comp_channel *(*create_comp_channel)(ibv_context *);
    int (*destroy_comp_channel)(ibv_comp_channel *);
    ibv_cq *(*create_cq)(ibv_context *, int, void *, ibv_comp_channel *, int);
    int (*destroy_cq)(ibv_cq *);
    int (*get_cq_event)(ibv_comp_channel *, ibv_cq **, void **);
    void (*ack_cq_events)(ibv_cq *, unsigned);
    int (*get_async_event)(ibv_context *, ibv_async_event *);
    void (*ack_async_event)(ibv_async_event *);
    ibv_srq *(*create_srq)(ibv_pd *, ibv_srq_init_attr *);
    int (*modify_srq)(ibv_srq *, ibv_srq_attr *, int);
    int (*destroy_srq)(ibv_srq *);
    ibv_qp *(*create_qp)(ibv_pd *, ibv_qp_init_attr *);
    int (*modify_qp)(ibv_qp *, ibv_qp_attr *, int);
    int (*query_qp)(ibv_qp *, ibv_qp_attr *, int, ibv_qp_init_attr *);
    int (*destroy_qp)(ibv_qp *);
    ibv_qp_ex *(*qp_to_qp_ex)(ibv_qp *);
    ibv_ah *(*create_ah)(ibv_pd *, ibv_ah_attr *);
    ibv_ah *(*create_ah_from_wc)(ibv_pd *, ibv_wc *, ibv_grh *, std::uint8_t);
    int (*destroy_ah)(ibv_ah *);
    int (*query_device)(ibv_context *, ibv_device_attr *);
    int (*query_port)(ibv_context *, std::uint8_t, _compat_ibv_port_attr *);
    int (*query_gid_ex)(ibv_context *, std::uint32_t, std::uint32_t, ibv_gid_entry *, std::uint32_t,
                        std::size_t);
    int (*query_gid)(ibv_context *, std::uint8_t, int, ibv_gid *);
    int (*query_pkey)(ibv_context *, std::uint8_t, int, std::uint16_t *);
    int (*query_srq)(ibv_srq *, ibv_srq_attr *);
    int (*resize_cq)(ibv_cq *, int);
    int (*attach_mcast)(ibv_qp *, const ibv_gid *, std::uint16_t);
    int (*detach_mcast)(ibv_qp *, const ibv_gid *, std::uint16_t);
};

/// Of the libibverbs that the program has loaded, which stays loaded from the first call on.
const libibverbs_functions &libibverbs() noexcept;

} // namespace coherdma::interposer

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The structures of rdma-core's driver.h that have not changed since release 36.
#pragma once

#include "layout.hpp"

#include <cstdint>

namespace coherdma::abi {

/// A device that libibverbs found. Read-only.
struct verbs_sysfs_dev {
    void *entry[2];
    void *provider_data;
    const void *match;
    unsigned int flags;
    char sysfs_name[IBV_SYSFS_NAME_MAX];
    std::uint64_t sysfs_cdev;
    char ibdev_name[IBV_SYSFS_NAME_MAX];
    char ibdev_path[IBV_SYSFS_PATH_MAX];
    char modalias[512];
    std::uint64_t node_guid;
    std::uint32_t driver_id; ///< 0: not reported by the kernel
    std::uint32_t node_type;
    int ibdev_idx;
    std::uint32_t num_ports;
    std::uint32_t abi_ver; ///< of the kernel driver's uverbs interface
    std::uint64_t time_created[2];
};
static_assert(sizeof(verbs_sysfs_dev) == 992);

/// The zeroed first member of a provider's device; libibverbs initializes it.
struct verbs_device {
    ibv_device device;
    const void *ops;
    int refcount;
    void *entry[2];
    verbs_sysfs_dev *sysfs;
    std::uint64_t core_support;
};
static_assert(sizeof(verbs_device) == 712);

struct verbs_match_ent {
    void *driver_data;
    std::uint64_t id;
    std::uint16_t vendor;
    std::uint16_t device;
    std::uint8_t kind;
};
static_assert(sizeof(verbs_match_ent) == 24);

/// rdma-core's VERBS_DRIVER_ID: matches the devices of a kernel driver.
constexpr verbs_match_ent match_driver_id(std::uint32_t driver_id) noexcept {
    constexpr std::uint8_t verbs_match_driver_id = 3;
    return {nullptr, driver_id, 0, 0, verbs_match_driver_id};
}
/// Ends a match_table.
inline constexpr verbs_match_ent match_table_end{nullptr, 0, 0, 0, 0};

/// libibverbs keeps the address after registration.
struct verbs_device_ops {
    const char *name;
    std::uint32_t match_min_abi_version;
    std::uint32_t match_max_abi_version;
    const verbs_match_ent *match_table;
    const void *static_providers;
    bool (*match_device)(verbs_sysfs_dev *); ///< false: leave the device to other providers
    verbs_context *(*alloc_context)(ibv_device *, int cmd_fd,
                                    void *); ///< closes cmd_fd if it fails
    verbs_context *(*import_context)(ibv_device *, int cmd_fd);
    verbs_device *(*alloc_device)(verbs_sysfs_dev *);
    void (*uninit_device)(verbs_device *);
};
static_assert(sizeof(verbs_device_ops) == 72);

struct verbs_mr {
    ibv_mr mr;
    int mr_type;
    int access;
};
static_assert(sizeof(verbs_mr) == 56);

struct verbs_srq {
    ibv_srq srq;
    std::uint32_t srq_type;
    void *xrcd;
    ibv_cq *cq;
    std::uint32_t srq_num;
};
static_assert(sizeof(verbs_srq) == 120 + sizeof(pthread_mutex_t));

union verbs_cq {
    ibv_cq cq;
    ibv_cq_ex cq_ex;
};
static_assert(sizeof(verbs_cq) == 248 + sizeof(pthread_mutex_t));

/// Grows from release to release; `reserved` exceeds the largest. Members of qp_ex that some
/// releases lack must be set by set_qp_ex_ops() only.
union verbs_qp {
    ibv_qp qp;
    ibv_qp_ex qp_ex;
    std::byte reserved[448];
};
static_assert(sizeof(ibv_qp_ex) <= 400);

/// VERBS_QP_EX in verbs_qp.comp_mask.
inline constexpr std::uint32_t verbs_qp_ex_flag = 2;

} // namespace coherdma::abi

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What libibverbs and its drivers share and no release since 36 has changed.
#pragma once

#include "layout.hpp"

#include <cstdint>

namespace coherdma::abi {

/// A device as libibverbs found it. Only for reading.
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
    std::uint32_t driver_id; ///< 0 if the kernel did not tell
    std::uint32_t node_type;
    int ibdev_idx;
    std::uint32_t num_ports;
    std::uint32_t abi_ver; ///< of what driver and kernel say to each other
    std::uint64_t time_created[2];
};
static_assert(sizeof(verbs_sysfs_dev) == 992);

/// A device as its driver made it: zeroed, with whatever of its own behind. libibverbs fills it.
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

/// An entry for the devices of a kernel driver; a table ends with match_end.
constexpr verbs_match_ent match_driver(std::uint32_t id) noexcept {
    return {nullptr, id, 0, 0, 3};
}
inline constexpr verbs_match_ent match_end{nullptr, 0, 0, 0, 0};

/// A driver, as it registers itself. libibverbs keeps the address.
struct verbs_device_ops {
    const char *name;
    std::uint32_t match_min_abi_version;
    std::uint32_t match_max_abi_version;
    const verbs_match_ent *match_table;
    const void *static_providers;
    bool (*match_device)(verbs_sysfs_dev *); ///< begins with ready(); false leaves it to others
    verbs_context *(*alloc_context)(ibv_device *, int fd, void *); ///< closes fd if it fails
    verbs_context *(*import_context)(ibv_device *, int fd);
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

/// Has grown and will: a driver's own begins behind the room that is left for it. What of qp_ex
/// may be written depends on the epoch: extend() knows, and nothing else sets a function that
/// some release lacks.
union verbs_qp {
    ibv_qp qp;
    ibv_qp_ex qp_ex;
    std::byte room[448];
};
static_assert(sizeof(ibv_qp_ex) <= 400);

} // namespace coherdma::abi

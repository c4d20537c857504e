// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Which RDMA devices there are, and what the kernel calls them.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace coherdma::devices {

struct device {
    std::string name;      ///< "mlx5_0"
    std::string driver;    ///< "mlx5", "rxe", "siw", ...; "" if the kernel does not say
    std::string transport; ///< "RoCE", "iWARP", "InfiniBand", ...; "" if not known
};

/// As the kernel tells by netlink; nothing if it does not answer, as without RDMA in it.
std::optional<std::vector<device>> by_netlink();

/// As /sys/class/infiniband has it, below root.
std::vector<device> by_sysfs(const std::string &root);

/// By netlink, else sysfs. Sorted by name.
std::vector<device> all();

} // namespace coherdma::devices

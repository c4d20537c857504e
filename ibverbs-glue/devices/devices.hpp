// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Which RDMA devices there are, and what the kernel calls them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace coherdma::devices {

struct device {
    std::string name;      ///< "mlx5_0"
    std::string driver;    ///< "mlx5", "rxe", "siw", ...; "" if the kernel does not say
    std::string transport; ///< "RoCE", "iWARP", "InfiniBand", ...; "" if not known
};

struct port {
    std::string device;
    std::string interface; ///< of the network, "eth0"; "" if it has none in this namespace
    std::string transport; ///< of the device
    std::uint32_t number = 0;
    std::uint32_t state = 0; ///< as verbs number it: 4 is active; 0 if the kernel does not say
};

/// As the kernel tells by netlink; nothing if it does not answer, as without RDMA in it.
std::optional<std::vector<device>> by_netlink();

/// As /sys/class/infiniband has it, below root.
std::vector<device> by_sysfs(const std::string &root);

/// By netlink, else sysfs. Sorted by name.
std::vector<device> all();

/// The same for ports; the interface of InfiniBand's is nowhere but in sysfs.
std::optional<std::vector<port>> ports_by_netlink();
std::vector<port> ports_by_sysfs(const std::string &root);
std::vector<port> all_ports();

/// The interface over a port, as sysfs has it below root; "" if there is none.
std::string interface_by_sysfs(const std::string &root, const std::string &device,
                               std::uint32_t number);

} // namespace coherdma::devices

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The RDMA devices and ports of this machine.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace coherdma::devices {

struct device {
    std::string name;      ///< "mlx5_0"
    std::string driver;    ///< "mlx5", "rxe", "siw", ...; "" if not reported
    std::string transport; ///< "RoCE", "iWARP", "InfiniBand", ...; "" if unknown
};

struct port {
    std::string device;    ///< its name
    std::string netdev;    ///< network interface, "eth0"; "" if none in this network namespace
    std::string transport; ///< of the device
    std::uint32_t port_num = 0;
    std::uint32_t state = 0; ///< enum ibv_port_state; 0 if not reported
};

/// Lists the devices by RDMA netlink; nullopt if the kernel does not answer.
std::optional<std::vector<device>> list_netlink_devices();

/// Lists the devices in root/sys/class/infiniband.
std::vector<device> list_sysfs_devices(const std::string &root);

/// By netlink, else by sysfs. Sorted by name.
std::vector<device> list_devices();

/// The same for ports. Netlink does not report the interfaces of InfiniBand ports.
std::optional<std::vector<port>> list_netlink_ports();
std::vector<port> list_sysfs_ports(const std::string &root);

/// Sorted by device and number; with the interfaces that only sysfs has.
std::vector<port> list_ports();

/// The network interface of a port in root's sysfs; "" if none.
std::string find_sysfs_netdev(const std::string &root, const std::string &device,
                              std::uint32_t port_num);

} // namespace coherdma::devices

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Parses RDMA netlink messages, each about one device or port.
#pragma once

#include "devices.hpp"

#include <cstdint>
#include <linux/netlink.h>
#include <optional>

namespace coherdma::devices {

struct indexed_device {
    std::uint32_t index = 0; ///< the kernel's device index
    devices::device device;
};

/// nullopt: another kind of message.
std::optional<indexed_device> parse_device(nlmsghdr *message);
std::optional<port> parse_port(nlmsghdr *message);

/// The name of the kernel driver; "" if it is missing or unknown.
const char *parse_driver(nlmsghdr *message);

} // namespace coherdma::devices

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What the kernel's messages about RDMA say, of which each is one device or port.
#pragma once

#include "devices.hpp"

#include <cstdint>
#include <linux/netlink.h>
#include <optional>

namespace coherdma::devices {

struct numbered_device {
    std::uint32_t index = 0; ///< the kernel's number of it
    device about;
};

/// Nothing, if the message is of something else.
std::optional<numbered_device> device_in(nlmsghdr *message);
std::optional<port> port_in(nlmsghdr *message);

/// "" if it does not say, or says a number that is not known here.
const char *driver_in(nlmsghdr *message);

} // namespace coherdma::devices

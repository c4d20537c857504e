// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include "pattern.hpp"

#include <chrono>
#include <cstdint>
#include <infiniband/verbs.h>
#include <memory>
#include <span>

namespace coherdma::probe {

/// A connection of a device to itself. copy() is an RDMA Read of source into sink.
class loopback : public copier {
  public:
    virtual ~loopback() = default;
};

struct loopback_attr {
    ibv_context *context;
    std::uint8_t port_num;
    std::span<std::uint64_t> source, sink;
    std::chrono::milliseconds timeout; ///< of each transfer
};

// Both throw std::system_error.

/// Connects two QPs with verbs only: InfiniBand and RoCE.
std::unique_ptr<loopback> connect_by_verbs(const loopback_attr &);

/// Connects with the RDMA connection manager, which iWARP requires, over an address of the device.
std::unique_ptr<loopback> connect_by_cm(const loopback_attr &);

} // namespace coherdma::probe

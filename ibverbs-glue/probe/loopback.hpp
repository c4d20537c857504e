// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include "pattern.hpp"

#include <chrono>
#include <cstdint>
#include <infiniband/verbs.h>
#include <memory>
#include <span>

namespace coherdma::probe {

/// A connection of a device to itself. Both transfers move the source to the sink; they differ in
/// which of them is the local memory of the request, and which that of the peer.
class loopback : public copier {
  public:
    virtual ~loopback() = default;
    /// An RDMA Read of the source, the peer's memory, into the sink.
    int copy() override = 0;
    /// An RDMA Write of the source into the sink, the peer's memory. Returns when the data is
    /// there.
    virtual int copy_by_write() = 0;
};

struct loopback_attr {
    ibv_context *context;
    std::uint8_t port_num; ///< 0: the first active port
    std::span<std::uint64_t> source, sink;
    std::chrono::milliseconds timeout; ///< of each transfer
};

// All throw std::system_error.

/// By the connection manager if the device requires it, else by verbs.
std::unique_ptr<loopback> connect_to_itself(const loopback_attr &);

/// Connects two QPs with verbs only: InfiniBand and RoCE.
std::unique_ptr<loopback> connect_by_verbs(const loopback_attr &);

/// Connects with the RDMA connection manager, which iWARP requires, over an address of the device.
std::unique_ptr<loopback> connect_by_cm(const loopback_attr &);

} // namespace coherdma::probe

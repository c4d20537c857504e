// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include "pattern.hpp"

#include <chrono>
#include <cstdint>
#include <infiniband/verbs.h>
#include <memory>
#include <span>

namespace coherdma::probe {

/// A connection of a device to itself, by which it reads one piece of memory into another.
class loopback : public mover {
  public:
    virtual ~loopback() = default;
};

struct wish {
    ibv_context *context;
    std::uint8_t port;
    std::span<std::uint64_t> source, sink;
    std::chrono::milliseconds patience;
};

/// Two queue pairs connected by verbs alone: InfiniBand and RoCE. Both throw std::system_error.
std::unique_ptr<loopback> connect_by_verbs(const wish &);

/// By the connection manager, which iWARP needs, and an address of the device's own.
std::unique_ptr<loopback> connect_by_cm(const wish &);

} // namespace coherdma::probe

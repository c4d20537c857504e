// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The connection of selftest --peer, by the RDMA connection manager.
#pragma once

#include "selftest/peer_protocol.hpp"

#include <chrono>
#include <functional>
#include <memory>
#include <span>

namespace tools::selftest {

/// A connection to a listener. Functions throw std::runtime_error.
class peer_connection {
  public:
    virtual ~peer_connection() = default;
    /// Writes the source to the peer's memory, and reads the sink from there. Returns 0 or an
    /// errno: ECONNRESET if the peer has ended the connection, ENODEV if the device is removed.
    virtual int copy() = 0;
};

/// Tries the addresses of the peer's name one after another, unless is_interrupted().
std::unique_ptr<peer_connection>
connect_to_peer(const std::string &device, const peer_address &address,
                std::span<std::uint64_t> source, std::span<std::uint64_t> sink,
                std::chrono::milliseconds timeout, bool (*is_interrupted)());

/// Serves peers one after another, until is_interrupted(); only one peer if is_once. Prints the
/// command for the other machine. Returns the exit status. Throws std::runtime_error if the device
/// cannot listen, or is removed.
int listen_for_peers(const std::string &device, bool is_once, bool (*is_interrupted)());

} // namespace tools::selftest

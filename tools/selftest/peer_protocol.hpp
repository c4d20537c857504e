// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What both sides of selftest --peer tell each other, in the private data of the connection. The
// request has a header: magic, version. The acceptance has it, too, then the memory that the
// listener offers. Numbers are in network byte order.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tools::selftest {

/// Where the listener listens, and --peer connects, if no other port is given.
constexpr std::uint16_t DEFAULT_PORT = 18530;

struct offered_memory {
    std::uint64_t addr, length;
    std::uint32_t rkey;
};

using private_data = std::vector<std::uint8_t>;

private_data encode_request();
private_data encode_offer(const offered_memory &memory);

/// "", or what is wrong. data may be longer than what was sent, since some devices pad it.
std::string check_request(std::span<const std::uint8_t> data);

/// Returns "" and sets memory, or what is wrong. min_length: what the memory must have.
std::string parse_offer(std::span<const std::uint8_t> data, std::uint64_t min_length,
                        offered_memory &memory);

struct peer_address {
    std::string host;
    std::uint16_t port = DEFAULT_PORT;
};

/// HOST, HOST:PORT, IPv6 or [IPv6]:PORT. Throws std::invalid_argument.
peer_address parse_peer_address(const std::string &text);

} // namespace tools::selftest

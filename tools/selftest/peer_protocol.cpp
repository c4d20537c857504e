// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "selftest/peer_protocol.hpp"

#include <charconv>
#include <limits>
#include <stdexcept>

namespace tools::selftest {
namespace {

constexpr std::uint64_t MAGIC = 0x636f686572646d61; // "coherdma"
constexpr std::uint32_t VERSION = 1;
constexpr std::size_t HEADER_SIZE = sizeof MAGIC + sizeof VERSION;
constexpr std::size_t OFFER_SIZE = HEADER_SIZE + 2 * sizeof(std::uint64_t) + sizeof(std::uint32_t);
constexpr unsigned BYTE_BITS = 8;

template <typename Number>
void append(private_data &data, Number number) {
    for (std::size_t i = sizeof number; i-- > 0;)
        data.push_back(static_cast<std::uint8_t>(number >> (BYTE_BITS * i)));
}

/// Reads a number and removes it from data, which must have it.
template <typename Number>
Number take(std::span<const std::uint8_t> &data) {
    Number number = 0;
    for (std::size_t i = 0; i < sizeof number; ++i)
        number = static_cast<Number>(number << BYTE_BITS | data[i]);
    data = data.subspan(sizeof number);
    return number;
}

} // namespace

private_data encode_request() {
    private_data data;
    append(data, MAGIC);
    append(data, VERSION);
    return data;
}

private_data encode_offer(const offered_memory &memory) {
    private_data data = encode_request();
    append(data, memory.addr);
    append(data, memory.length);
    append(data, memory.rkey);
    return data;
}

std::string check_request(std::span<const std::uint8_t> data) {
    if (data.size() < HEADER_SIZE || take<std::uint64_t>(data) != MAGIC)
        return "the peer is not a coherdma selftest";
    if (const auto version = take<std::uint32_t>(data); version != VERSION)
        return "the peer is a coherdma selftest of version " + std::to_string(version) +
               " of the protocol, not " + std::to_string(VERSION);
    return "";
}

std::string parse_offer(std::span<const std::uint8_t> data, std::uint64_t min_length,
                        offered_memory &memory) {
    if (const std::string problem = check_request(data); !problem.empty())
        return problem;
    if (data.size() < OFFER_SIZE)
        return "the peer offers no memory";
    data = data.subspan(HEADER_SIZE);
    memory.addr = take<std::uint64_t>(data);
    memory.length = take<std::uint64_t>(data);
    memory.rkey = take<std::uint32_t>(data);
    if (memory.length < min_length)
        return "the peer offers " + std::to_string(memory.length) + " bytes of memory, not " +
               std::to_string(min_length);
    if (memory.length - 1 > std::numeric_limits<std::uint64_t>::max() - memory.addr)
        return "the peer offers memory beyond the end of the address space";
    return "";
}

peer_address parse_peer_address(const std::string &text) {
    peer_address address;
    std::string port;
    bool has_port = false;
    if (text.starts_with('[')) {
        const auto end = text.find(']');
        if (end == std::string::npos || (end + 1 != text.size() && text[end + 1] != ':'))
            throw std::invalid_argument(text + " is not [ADDRESS]:PORT");
        address.host = text.substr(1, end - 1);
        has_port = end + 1 != text.size();
        port = has_port ? text.substr(end + 2) : "";
    } else {
        const auto colon = text.find(':');
        has_port = colon != std::string::npos && text.find(':', colon + 1) == std::string::npos;
        address.host = has_port ? text.substr(0, colon) : text;
        port = has_port ? text.substr(colon + 1) : "";
    }
    if (address.host.empty())
        throw std::invalid_argument(text + " has no address");
    if (has_port) {
        const auto [end, error] =
            std::from_chars(port.data(), port.data() + port.size(), address.port);
        if (error != std::errc() || end != port.data() + port.size() || address.port == 0)
            throw std::invalid_argument(text + " has an invalid port");
    }
    return address;
}

} // namespace tools::selftest

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "address.hpp"

#include <arpa/inet.h>
#include <array>
#include <cstring>

namespace coherdma::faults {

std::string print_address(const in_addr &address) {
    std::array<char, INET_ADDRSTRLEN> text{};
    return inet_ntop(AF_INET, &address, text.data(), text.size());
}

std::string print_address(const in6_addr &address) {
    if (IN6_IS_ADDR_V4MAPPED(&address)) {
        in_addr ipv4{};
        std::memcpy(&ipv4, &address.s6_addr[sizeof address - sizeof ipv4], sizeof ipv4);
        return print_address(ipv4);
    }
    std::array<char, INET6_ADDRSTRLEN> text{};
    return inet_ntop(AF_INET6, &address, text.data(), text.size());
}

std::string normalize_address(std::string_view text) {
    const std::string address(text);
    in_addr ipv4{};
    if (inet_pton(AF_INET, address.c_str(), &ipv4) == 1)
        return print_address(ipv4);
    in6_addr ipv6{};
    return inet_pton(AF_INET6, address.c_str(), &ipv6) == 1 ? print_address(ipv6) : "";
}

} // namespace coherdma::faults

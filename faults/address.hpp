// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Addresses of peers in their usual form, by which they are compared.
#pragma once

#include <netinet/in.h>
#include <string>
#include <string_view>

namespace coherdma::faults {

std::string print_address(const in_addr &);
/// One of IPv4 that is mapped to IPv6 as that of IPv4.
std::string print_address(const in6_addr &);
/// The same address, as print_address() has it; "": it is none.
std::string normalize_address(std::string_view text);

} // namespace coherdma::faults

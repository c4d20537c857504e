// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The cases, and the settings of the command line.

#pragma once

#include <functional>
#include <span>
#include <string>

namespace conform {

/// One thing that uDAPL promises. It is named OBJECT.WHAT.
struct test_case {
    std::string name;
    std::function<void()> body;
};

struct test_settings {
    const char *ia = nullptr; ///< its name in dat.conf
    unsigned timeout_s = 240; ///< seconds that a case may take
    unsigned quiet_ms = 1000; ///< milliseconds that no_event waits at most
    /// Optional: of the lab. What needs one says so if it is not given, and fails.
    std::string device;         ///< the RDMA device below
    std::string unused_address; ///< an IPv4 address of its subnet that no host has
    std::string ipv6_address;   ///< an IPv6 address of its interface
};
const test_settings &settings();

/// Tries the cases, here or each in a process of its own, and writes TAP. Returns the exit status.
int run_in_process(std::span<const test_case> cases);
int run_isolated(std::span<const test_case> cases, std::span<char *const> args);

} // namespace conform

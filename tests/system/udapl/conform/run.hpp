// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The cases, and what the command line said.

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

struct settings {
    const char *ia = nullptr; ///< its name in dat.conf
    unsigned patience = 240;  ///< seconds that a case may take
    unsigned silence = 1000;  ///< milliseconds that no_event waits at most
    /// Optional: of the lab. What needs one says so if it is not given, and fails.
    std::string device;         ///< the RDMA device below
    std::string unused_address; ///< an IPv4 address of its subnet that no host has
    std::string address6;       ///< an IPv6 address of its interface
};
const settings &given();

/// Tries the cases, here or each in a process of its own, and writes TAP. Returns the exit status.
int try_here(std::span<const test_case> cases);
int try_isolated(std::span<const test_case> cases, std::span<char *const> words);

} // namespace conform

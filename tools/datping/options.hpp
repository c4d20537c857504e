// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include "datping/wire.hpp"

#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <vector>

namespace tools::datping {

/// How events are awaited: asleep in dat_evd_wait, or asking dat_evd_dequeue again and again.
enum class how { WAIT, POLL };

struct options {
    bool server = false;
    std::string host;
    std::string ia; ///< empty: chosen
    std::uint64_t qualifier = 7175;
    std::uint64_t count = 100; ///< rounds of each mode; 0: until somebody ends it
    std::uint64_t size = 64;   ///< of a server: the largest that a client may ask for
    std::vector<mode> modes{mode::PINGPONG};
    std::chrono::milliseconds interval{0}, timeout{10000};
    bool verify = true, verbose = false, quiet = false, json = false, once = false;
    how by = how::WAIT;
};

/// This machine has nothing to ping with.
class cannot_here : public std::runtime_error {
    using std::runtime_error::runtime_error;
};

} // namespace tools::datping

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include "datping/protocol.hpp"

#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <vector>

namespace tools::datping {

/// How to wait for events: block in dat_evd_wait, or poll with dat_evd_dequeue.
enum class wait_mode { WAIT, POLL };

struct options {
    bool server = false;
    std::string host;
    std::string ia; ///< empty: select one by address
    std::uint64_t qualifier = 7175;
    std::uint64_t count = 100; ///< rounds per mode; 0: unlimited
    std::uint64_t size = 64;   ///< of a server: the maximum for a client
    std::vector<mode> modes{mode::PINGPONG};
    std::chrono::milliseconds interval{0}; ///< of a server: the maximum for a client
    std::chrono::milliseconds timeout{10000};
    bool verify = true, verbose = false, quiet = false, json = false, once = false;
    wait_mode event_wait = wait_mode::WAIT;
};

/// This machine has no usable IA.
class not_available_error : public std::runtime_error {
    using std::runtime_error::runtime_error;
};

} // namespace tools::datping

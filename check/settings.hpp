// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What the environment asks for: coherdma-check(1).
#pragma once

#include "device_limits.hpp"

#include <cstddef>
#include <string>
#include <vector>

namespace coherdma::check {

struct settings {
    std::string log_file;          ///< "%p" in it stands for the process's ID
    std::string suppressions_file; ///< "": none
    std::size_t max_reports = 1;   ///< of one place; more are only counted
    int exit_status = 0;           ///< of a process with findings; 0: its own
    bool report_leaks = false;
    bool ownership = false;     ///< check who uses the memory of requests
    bool protect = false;       ///< and protect whole pages of it from the program
    bool late = false;          ///< and targets, which libcoherdma-late.so delivers
    bool post_stacks = true;    ///< keep the stack of each post
    bool fill = true;           ///< overwrite the members of completions that are undefined
    bool distinct_keys = false; ///< the program gets other lkeys than the device has
    std::vector<const device_limits *> other_devices; ///< whose limits the program is to keep
    std::string problem;                              ///< "VARIABLE: 'value' is not ..."; "": none
};

/// Of a setuid program: the defaults.
settings read_settings();

} // namespace coherdma::check

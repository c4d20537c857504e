// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include <chrono>
#include <functional>
#include <string>

namespace tools::dat {

/// The outcome of a function that ran in a child process.
struct isolated_result {
    std::string value;       ///< its return value; empty if exit_reason is set
    std::string exit_reason; ///< why there is none: "died of signal 11 (Segmentation fault)"
    std::string output;      ///< what the child printed to stdout and stderr
};

/// Runs a function in a child process, since provider libraries of other vendors may crash, hang,
/// print to stdout or leave state behind. The caller must be single-threaded.
isolated_result run_isolated(const std::function<std::string()> &function,
                             std::chrono::milliseconds timeout);

} // namespace tools::dat

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include <chrono>
#include <functional>
#include <string>

namespace tools::dat {

/// What became of a function that was called in a process of its own.
struct apart {
    std::string answer; ///< what it returned; or nothing, and
    std::string fate;   ///< how it ended instead: "died of signal 11 (Segmentation fault)"
    std::string said;   ///< what it, or a library, printed
};

/// Libraries of others are opened in it, as they may crash, hang, print to standard output or leave
/// something behind. To be called without threads.
apart call_apart(const std::function<std::string()> &function, std::chrono::milliseconds limit);

} // namespace tools::dat

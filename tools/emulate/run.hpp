// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Runs somebody's command with more in its environment, as if it had been typed without us.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace tools::emulate {

/// What asks a process to end goes to the command instead, as long as this lives. What a terminal
/// sends it has got already.
class forwarding {
  public:
    forwarding();
    ~forwarding();
    forwarding(const forwarding &) = delete;
    forwarding &operator=(const forwarding &) = delete;

    /// The last such signal; 0: none.
    [[nodiscard]] static int caught() noexcept;
};

/// What is added to a signal's number for an exit status.
inline constexpr int BY_SIGNAL = 128;

/// Its exit status as shells have it: BY_SIGNAL and the number, 127 if there is no such program,
/// 126 if it cannot be run. A variable without a value is taken out of the environment.
int run(const std::vector<std::string> &words, const std::map<std::string, std::string> &more);

} // namespace tools::emulate

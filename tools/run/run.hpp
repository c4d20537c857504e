// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Runs a command with additional environment variables, and passes on its signals and exit status.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace tools::run {

/// While it exists, SIGINT, SIGTERM, SIGHUP and SIGQUIT are forwarded to the command, except those
/// from the terminal, which the command receives itself.
class signal_forwarder {
  public:
    signal_forwarder();
    ~signal_forwarder();
    signal_forwarder(const signal_forwarder &) = delete;
    signal_forwarder &operator=(const signal_forwarder &) = delete;

    /// The last such signal, or 0.
    [[nodiscard]] static int last_signal() noexcept;
};

/// Added to the signal's number for the exit status.
inline constexpr int SIGNAL_STATUS_BASE = 128;

/// Runs the command; returns its exit status as shells do: SIGNAL_STATUS_BASE plus the signal, 127
/// if the program does not exist, 126 if it cannot be executed. Variables with an empty value are
/// unset.
int run_command(const std::vector<std::string> &args,
                const std::map<std::string, std::string> &env);

} // namespace tools::run

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What a scenario does to the machine on which the command runs: a port goes down, another command
// runs.
#pragma once

#include "faults/scenario.hpp"

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <sys/types.h>
#include <thread>
#include <vector>

namespace tools::fault {

/// Each has a thread of its own: one that takes long does not delay the next.
class machine_actions {
  public:
    /// Their times count from when a process has opened a device, as its log in the folder says.
    /// What is done is logged there, too. Other faults of the scenario are left out.
    machine_actions(const std::vector<coherdma::faults::fault> &scenario,
                    const std::string &log_folder);
    /// The command has ended: what is not due is not done, commands that run are ended, and ports
    /// are up again.
    ~machine_actions();
    machine_actions(const machine_actions &) = delete;
    machine_actions &operator=(const machine_actions &) = delete;

  private:
    using time_point = std::chrono::steady_clock::time_point;
    class journal;

    void perform_all(const std::vector<coherdma::faults::fault> &scenario);
    void take_port_down(const coherdma::faults::fault &, const std::string &device);
    void run_command(const coherdma::faults::fault &);
    /// The first device that a process has opened; "": the command has ended before.
    std::string wait_for_device();
    /// False: the command has ended before.
    bool wait_until(time_point);

    const std::string log_folder_;
    const std::unique_ptr<journal> journal_;
    std::mutex mutex_; ///< protects the following
    std::condition_variable ending_;
    bool is_ending_ = false;
    std::vector<pid_t> commands_; ///< that run, each in a process group of its own
    std::thread starter_;         ///< after the members that it uses
};

} // namespace tools::fault

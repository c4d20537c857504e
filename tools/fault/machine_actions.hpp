// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What a scenario does to the machine on which the command runs: a port goes down, another command
// runs.
#pragma once

#include "faults/scenario.hpp"

#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <sys/types.h>
#include <thread>
#include <vector>

namespace tools::fault {

/// One thread does all of it, and gets no signals: those are the command's.
class machine_actions {
  public:
    /// The times count from when a process has opened a device, as its log in the folder says.
    /// What is done is logged there, too. Other faults of the scenario are left out.
    machine_actions(const std::vector<coherdma::faults::fault> &scenario,
                    const std::string &log_folder);
    /// The command has ended: what is not due is not done, commands that run are ended, and ports
    /// are up again.
    ~machine_actions();
    machine_actions(const machine_actions &) = delete;
    machine_actions &operator=(const machine_actions &) = delete;

  private:
    using clock = std::chrono::steady_clock;
    using fault = coherdma::faults::fault;
    class journal;
    struct running_command {
        const fault *cause = nullptr;
        pid_t pid = 0; ///< of its shell, and of its process group
    };
    struct port {
        const fault *cause = nullptr; ///< the last
        std::string device;
        int num_down = 0; ///< how many times it is to be down now
    };

    void perform_all();
    void perform(const fault &);
    /// Until then, or until the command has ended; meanwhile commands of the scenario end.
    void wait_until(clock::time_point);
    [[nodiscard]] bool is_ending();

    void take_port_down(const fault &);
    /// The last one of those that have it down sets it up.
    void set_port_up(const std::string &netdev);
    void start_command(const fault &);
    void note_ended_commands();
    void end_commands();

    const std::vector<fault> scenario_;
    const std::string log_folder_;
    const std::unique_ptr<journal> journal_;
    std::string device_; ///< the first that a process has opened; "": none
    std::multimap<clock::time_point, std::string> due_ports_; ///< to be set up
    std::map<std::string, port> ports_;                       ///< that are down, by netdev
    std::vector<running_command> commands_;
    std::mutex mutex_; ///< protects is_ending_
    std::condition_variable ending_;
    bool is_ending_ = false;
    std::thread thread_; ///< after the members that it uses
};

} // namespace tools::fault

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Whether another thread of this process sleeps in the kernel.
#pragma once

#include <atomic>
#include <fstream>
#include <string>
#include <sys/types.h>
#include <thread>
#include <unistd.h>

namespace fake {

/// As the kernel shows it in /proc/self/task.
struct thread_state {
    bool is_asleep = false;
    unsigned long switches = 0; ///< how often it has gone to sleep

    explicit thread_state(pid_t tid) {
        std::ifstream status("/proc/self/task/" + std::to_string(tid) + "/status");
        for (std::string line; std::getline(status, line);)
            if (line.starts_with("State:"))
                is_asleep = line.find("S (sleeping)") != std::string::npos;
            else if (line.starts_with("voluntary_ctxt_switches:"))
                switches = std::stoul(line.substr(line.find(':') + 1));
    }
};

/// A thread whose id is known once it runs.
class named_thread {
  public:
    template <class Work>
    explicit named_thread(Work work)
        : thread_([this, work = std::move(work)] {
            tid_ = gettid();
            work();
        }) {}
    bool is_asleep() const { return tid_ != 0 && thread_state(tid_).is_asleep; }
    unsigned long switches() const { return thread_state(tid_).switches; }
    /// For pthread_kill and pthread_cancel.
    pthread_t native_handle() { return thread_.native_handle(); }
    void join() { thread_.join(); }

  private:
    std::atomic<pid_t> tid_ = 0;
    std::thread thread_;
};

} // namespace fake

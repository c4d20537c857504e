// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The completion events of a fake kernel, for which a program waits in the schedule.
#pragma once

#include <condition_variable>
#include <mutex>

namespace schedule {

class kernel_events {
  public:
    /// Of all CQs.
    int num_events();
    /// Waits until others than the first num_events were raised.
    void wait_for_event(int num_events);
    void raise_event();

  private:
    std::mutex mutex_;
    std::condition_variable event_raised_;
    int num_events_ = 0;
};

} // namespace schedule

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "kernel_events.hpp"

namespace schedule {

int kernel_events::num_events() {
    const std::lock_guard lock(mutex_);
    return num_events_;
}

void kernel_events::wait_for_event(int num_events) {
    std::unique_lock lock(mutex_);
    event_raised_.wait(lock, [&] { return num_events_ != num_events; });
}

void kernel_events::raise_event() {
    const std::lock_guard lock(mutex_);
    ++num_events_;
    event_raised_.notify_all();
}

} // namespace schedule

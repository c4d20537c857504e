// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// A second thread of a case. A failed requirement ends the thread and is recorded as a failure.

#pragma once

#include "check.hpp"

#include <thread>
#include <utility>

namespace conform {

class joined_thread {
  public:
    template <class Body>
    explicit joined_thread(Body body)
        : thread_([body = std::move(body)] {
            try {
                body();
            } catch (const case_aborted &) {
            }
        }) {}
    void join() { thread_.join(); }

  private:
    std::jthread thread_;
};

} // namespace conform

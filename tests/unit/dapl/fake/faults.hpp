// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Fault injection: which calls of the fake libraries and of the C library fail, with which errno.
// Every call that can fail is counted, so that a test can make each of them fail in turn.
#pragma once

#include <map>
#include <string>

namespace fake {

class faults {
  public:
    /// The nth call of this name from now on fails, counted from 1.
    void fail(const std::string &call, int error, unsigned nth = 1);
    /// All calls of this name fail from now on.
    void fail_always(const std::string &call, int error);
    /// The nth call of any name from now on fails.
    void fail_nth(unsigned nth, int error);
    /// No call fails; num_calls() counts from 0.
    void count_calls() { fail_nth(0, 0); }
    /// No call fails; calls are not counted.
    void fail_none();

    /// Calls since the last fail, fail_always, fail_nth or count_calls.
    unsigned num_calls() const { return all_; }
    unsigned num_calls(const std::string &call) const;
    /// The name of the call that failed last; "" if none.
    const std::string &failed_call() const { return failed_; }

    /// Called by each fake function: 0 or the errno to fail with.
    int error_for(const char *call);

  private:
    struct fault {
        unsigned nth;
        int error;
        bool always;
    };
    void start();

    bool counting_ = false;
    std::map<std::string, fault> named_;
    std::map<std::string, unsigned> counts_;
    unsigned all_ = 0, nth_ = 0;
    int error_ = 0;
    std::string failed_;
};

} // namespace fake

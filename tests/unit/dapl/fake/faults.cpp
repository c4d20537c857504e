// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "faults.hpp"

namespace fake {

void faults::start() {
    counting_ = true;
    counts_.clear();
    all_ = 0;
    failed_.clear();
}

void faults::fail(const std::string &call, int error, unsigned nth) {
    start();
    named_[call] = {nth, error, false};
}

void faults::fail_always(const std::string &call, int error) {
    start();
    named_[call] = {0, error, true};
}

void faults::fail_nth(unsigned nth, int error) {
    start();
    nth_ = nth;
    error_ = error;
}

void faults::fail_none() {
    counting_ = false;
    nth_ = 0;
    named_.clear();
}

unsigned faults::num_calls(const std::string &call) const {
    const auto it = counts_.find(call);
    return it != counts_.end() ? it->second : 0;
}

// Counts the call. A fault of a name precedes the fault of the nth call of any name.
int faults::error_for(const char *call) {
    if (!counting_)
        return 0;
    ++all_;
    const unsigned nth = ++counts_[call];
    int error = all_ == nth_ ? error_ : 0;
    if (const auto it = named_.find(call); it != named_.end())
        if (it->second.always || it->second.nth == nth)
            error = it->second.error;
    if (error != 0)
        failed_ = call;
    return error;
}

} // namespace fake

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "faults.hpp"

namespace played {

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

void faults::stop() {
    counting_ = false;
    nth_ = 0;
    named_.clear();
}

unsigned faults::count(const std::string &call) const {
    const auto found = counts_.find(call);
    return found != counts_.end() ? found->second : 0;
}

int faults::now(const char *call) {
    if (!counting_)
        return 0;
    ++all_;
    const unsigned nth = ++counts_[call];
    int error = all_ == nth_ ? error_ : 0;
    if (const auto found = named_.find(call); found != named_.end())
        if (found->second.always || found->second.nth == nth)
            error = found->second.error;
    if (error != 0)
        failed_ = call;
    return error;
}

} // namespace played

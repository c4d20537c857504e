// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "attempts.hpp"

#include "objects.hpp"

#include <utility>

namespace sequencer {

void attempt_history::begin() {
    const std::lock_guard guard(lock_);
    ++num_begun_;
    ++num_calls_;
    ++num_in_progress_;
}

void attempt_history::end_call(bool succeeded) {
    const std::lock_guard guard(lock_);
    num_begun_ -= succeeded ? 0U : 1U;
    --num_in_progress_;
}

std::optional<unsigned> attempt_history::num_calls() const {
    const std::lock_guard guard(lock_);
    return num_in_progress_ == 0 ? std::optional(num_calls_) : std::nullopt;
}

void attempt_history::set_events_taken(std::optional<unsigned> num_calls_before, progress reached) {
    const std::lock_guard guard(lock_);
    if (num_calls_before != num_calls_)
        return; // an attempt began meanwhile, and its events may have been taken, too
    num_established_ = num_begun_;
    if (reached == progress::set_up)
        return;
    num_ended_ = min_attempts_by_order_ = num_begun_;
    connected_.clear();
}

bool attempt_history::add_datagram_event(DAT_EVENT_NUMBER number) {
    const std::lock_guard guard(lock_);
    return ++(number == DAT_CONNECTION_EVENT_BROKEN ? num_ended_ : num_established_) <= num_begun_;
}

// In the order of one EVD, ESTABLISHED is of a further attempt, and so is an end that does not
// follow ESTABLISHED. Events that are missing, because the EVD overflowed, only make that number
// smaller.
bool attempt_history::add_event(const object &evd, DAT_EVENT_NUMBER number) {
    const bool established = number == DAT_CONNECTION_EVENT_ESTABLISHED;
    const std::lock_guard guard(lock_);
    ++(established ? num_established_ : num_ended_);
    if (evd.is_dequeued_under_lock) {
        const bool was_connected = std::exchange(connected_[&evd], established);
        min_attempts_by_order_ += established || !was_connected ? 1U : 0U;
    }
    return num_established_ <= num_begun_ && num_ended_ <= num_begun_ &&
           min_attempts_by_order_ <= num_begun_;
}

} // namespace sequencer

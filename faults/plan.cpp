// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "plan.hpp"

#include <algorithm>

namespace coherdma::faults {
namespace {

/// SplitMix64's output function: a number without visible relation to those beside it.
std::uint64_t mix(std::uint64_t x) noexcept {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
    return x ^ (x >> 31);
}

/// From 0 up to, not including, 1.
double random_share(std::uint64_t seed, std::uint64_t fault_index, std::uint64_t count) noexcept {
    constexpr int DOUBLE_BITS = 53;
    constexpr std::uint64_t GOLDEN_RATIO = 0x9e3779b97f4a7c15U;
    const std::uint64_t bits = mix(mix(mix(seed + GOLDEN_RATIO) + fault_index) + count);
    return static_cast<double>(bits >> (64 - DOUBLE_BITS)) /
           static_cast<double>(std::uint64_t{1} << DOUBLE_BITS);
}

bool includes(const selection &selected, std::uint64_t count) noexcept {
    return count == selected.first || (selected.step != 0 && count > selected.first &&
                                       (count - selected.first) % selected.step == 0);
}

bool includes(request_class fault_class, request_class posted) noexcept {
    return fault_class == posted ||
           (fault_class == request_class::REQUEST && posted != request_class::RECEIVE);
}

bool includes(const queue_selection &selected, const queue_identity &queue) noexcept {
    return (selected.number == 0 || selected.number == queue.number) &&
           (selected.peer.empty() || selected.peer == queue.peer ||
            selected.peer == queue.other_peer);
}

} // namespace

plan::plan(std::vector<fault> faults, std::uint64_t seed)
    : faults_(std::move(faults))
    , seed_(seed)
    , counts_(std::make_unique<std::atomic<std::uint64_t>[]>(faults_.size())) {}

void plan::start(time_point now) noexcept {
    time_point::rep none = 0;
    // Relaxed: only the value is read.
    start_.compare_exchange_strong(none, now.time_since_epoch().count(), std::memory_order_relaxed);
}

due_fault plan::count_request(request_class posted, const queue_identity &queue,
                              time_point now) noexcept {
    due_fault result;
    for (std::size_t i = 0; i < faults_.size(); ++i)
        if (includes(faults_[i].requests, posted) && includes(faults_[i].queues, queue)) {
            const due_fault due = count(i, now);
            if (result.cause == nullptr && faults_[i].effect == action::FAIL)
                result = due; // all count it, one changes it
        }
    return result;
}

bool plan::selects_queues() const noexcept {
    return std::any_of(faults_.begin(), faults_.end(),
                       [](const fault &each) { return !each.queues.is_any(); });
}

const fault *plan::find_delay(std::uint64_t qp_number) const noexcept {
    const fault *longest = nullptr;
    for (const fault &each : faults_)
        if (each.effect == action::DELAY && each.requests != request_class::NONE &&
            includes(each.queues, {.number = qp_number}) &&
            (longest == nullptr || each.duration > longest->duration))
            longest = &each;
    return longest;
}

std::vector<plan::event> plan::list_events(time_point now) const {
    const time_point start(time_point::duration(start_.load(std::memory_order_relaxed)));
    std::vector<event> events;
    for (const fault &each : faults_)
        if (each.effect == action::EVENT && start + each.begin >= now)
            events.push_back({.cause = &each, .time = start + each.begin});
    return events;
}

void plan::count_event(const fault &delivered) noexcept {
    counts_[delivered.index].fetch_add(1, std::memory_order_relaxed); // only a number
}

std::uint64_t plan::num_counted(std::size_t fault_index) const noexcept {
    return counts_[fault_index].load(std::memory_order_relaxed);
}

due_fault plan::count(std::size_t index, time_point now) noexcept {
    const fault &counted = faults_[index];
    const time_point::rep start = start_.load(std::memory_order_relaxed);
    if (counted.begin.count() != 0 &&
        (start == 0 || now - time_point(time_point::duration(start)) < counted.begin))
        return {};
    // Relaxed: a number of each call is all that matters.
    const std::uint64_t number = counts_[index].fetch_add(1, std::memory_order_relaxed) + 1;
    const bool is_due = includes(counted.selected, number) &&
                        (counted.selected.share >= 1 ||
                         random_share(seed_, index, number) < counted.selected.share);
    return is_due ? due_fault{.cause = &counted, .count = number} : due_fault{};
}

} // namespace coherdma::faults

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "ledger.hpp"

#include <random>
#include <utility>

namespace coherdma::emulation {
namespace {

using holding = std::lock_guard<std::mutex>;

} // namespace

ledger::ledger()
    : next_(std::random_device{}() | std::uint64_t{0xc0e4d3a} << 32) {}

std::uint64_t ledger::add(request what) {
    const holding held(guard_);
    const std::uint64_t number = next_++;
    if (what.sent && !what.signalled)
        silent_[what.queue].push_back(number);
    open_.emplace(number, std::move(what));
    return number;
}

void ledger::set_sinks(std::uint64_t number, std::vector<span> sinks) {
    const holding held(guard_);
    if (const auto found = open_.find(number); found != open_.end())
        found->second.sinks = std::move(sinks);
}

void ledger::cancel(std::uint64_t number) {
    const holding held(guard_);
    const auto found = open_.find(number);
    if (found == open_.end())
        return;
    if (const auto silent = silent_.find(found->second.queue); silent != silent_.end())
        std::erase(silent->second, number);
    open_.erase(found);
}

std::vector<request> ledger::take(std::uint64_t number) {
    const holding held(guard_);
    std::vector<request> all;
    const auto found = open_.find(number);
    if (found == open_.end())
        return all;
    const auto silent = found->second.sent ? silent_.find(found->second.queue) : silent_.end();
    // One that was to be silent completes, too, if it fails.
    while (silent != silent_.end() && !silent->second.empty() && silent->second.front() < number) {
        all.push_back(std::move(open_.extract(silent->second.front()).mapped()));
        silent->second.pop_front();
    }
    if (silent != silent_.end() && !silent->second.empty() && silent->second.front() == number)
        silent->second.pop_front();
    all.push_back(std::move(found->second));
    open_.erase(found);
    return all;
}

void ledger::drop(const void *queue) {
    const holding held(guard_);
    std::erase_if(open_, [=](const auto &each) { return each.second.queue == queue; });
    silent_.erase(queue);
}

} // namespace coherdma::emulation

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "strategy.hpp"

#include <algorithm>
#include <functional>

namespace schedule {
namespace {

constexpr unsigned SELDOM = 16; ///< once in so many times

} // namespace

std::uint32_t default_thread(std::span<const std::uint32_t> runnable, std::uint32_t current) {
    const auto next = std::ranges::lower_bound(runnable, current);
    return next != runnable.end() ? *next : runnable.front();
}

// The random walk has schedules with many switches and some with few: a fault that needs a thread
// to run for long while another stands still is found by the latter.
strategy::strategy(const strategy_config &config)
    : config_(config)
    , random_(config.seed)
    , switch_every_(1U << (1 + random_.below(5))) {
    for (unsigned i = 1; config.kind == strategy_kind::PCT && i < config.depth; ++i)
        change_points_.push_back(1 + random_.below(std::max<std::uint64_t>(config.num_steps, 1)));
    std::ranges::sort(change_points_, std::greater{});
}

std::int64_t &strategy::priority(std::uint32_t thread) {
    while (priorities_.size() <= thread)
        priorities_.push_back(1 + random_.below(1U << 30));
    return priorities_[thread];
}

std::uint32_t strategy::replayed(std::uint64_t step, std::uint32_t otherwise) {
    const auto &decisions = config_.decisions;
    while (next_decision_ < decisions.size() && decisions[next_decision_].step < step)
        ++next_decision_;
    if (next_decision_ < decisions.size() && decisions[next_decision_].step == step)
        return decisions[next_decision_].value;
    return otherwise;
}

std::uint32_t strategy::next_thread(std::uint64_t step, std::span<const std::uint32_t> runnable,
                                    std::uint32_t current) {
    const std::uint32_t by_default = default_thread(runnable, current);
    switch (config_.kind) {
    case strategy_kind::RANDOM_WALK:
        if (by_default == current && random_.below(switch_every_) != 0)
            return current;
        return runnable[random_.below(runnable.size())];
    case strategy_kind::PCT:
        // Not at each step, but for choices of another kind, too.
        for (; !change_points_.empty() && change_points_.back() <= step; change_points_.pop_back())
            priority(current) = --lowest_priority_;
        return *std::ranges::max_element(runnable, {},
                                         [this](std::uint32_t thread) { return priority(thread); });
    case strategy_kind::REPLAY: {
        const std::uint32_t thread = replayed(step, by_default);
        return std::ranges::find(runnable, thread) != runnable.end() ? thread : by_default;
    }
    }
    return by_default;
}

std::uint32_t strategy::choose(std::uint64_t step, std::uint32_t limit) {
    return config_.kind == strategy_kind::REPLAY ? replayed(step, 0) % limit : random_.below(limit);
}

bool strategy::happens_seldom(std::uint64_t step) {
    return config_.kind == strategy_kind::REPLAY ? replayed(step, 0) != 0
                                                 : random_.below(SELDOM) == 0;
}

void strategy::yielded(std::uint32_t thread) {
    if (config_.kind == strategy_kind::PCT)
        priority(thread) = --lowest_priority_;
}

} // namespace schedule

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Decides which thread runs next. All that is random comes from the seed.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace schedule {

/// splitmix64.
class random_numbers {
  public:
    explicit random_numbers(std::uint64_t seed)
        : state_(seed) {}
    std::uint64_t next() {
        std::uint64_t z = state_ += 0x9E3779B97F4A7C15;
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9;
        z = (z ^ z >> 27) * 0x94D049BB133111EB;
        return z ^ z >> 31;
    }
    std::uint32_t below(std::uint64_t limit) { return static_cast<std::uint32_t>(next() % limit); }

  private:
    std::uint64_t state_;
};

/// The thread went on at this step of the schedule, other than default_thread() would have it; or a
/// choice of another kind had this result, other than 0.
struct decision {
    std::uint64_t step;
    std::uint32_t value;
};

enum class strategy_kind : std::uint8_t { RANDOM_WALK, PCT, REPLAY };

struct strategy_config {
    strategy_kind kind = strategy_kind::RANDOM_WALK;
    std::uint64_t seed = 1;
    unsigned depth = 3;                    ///< of PCT: the number of orderings that the fault needs
    std::uint64_t num_steps = 100;         ///< of PCT: of a schedule, as the last one had
    std::span<const decision> decisions{}; ///< of REPLAY, by step
    /// Loads may return older values, and accesses that nothing orders are a failure.
    bool has_late_stores = false;
};

/// The thread that goes on if nothing is decided: the current one if it can, else the next.
std::uint32_t default_thread(std::span<const std::uint32_t> runnable, std::uint32_t current);

class strategy {
  public:
    explicit strategy(const strategy_config &config);

    /// runnable: numbers of threads in ascending order, not empty.
    std::uint32_t next_thread(std::uint64_t step, std::span<const std::uint32_t> runnable,
                              std::uint32_t current);
    std::uint32_t choose(std::uint64_t step, std::uint32_t limit);
    bool happens_seldom(std::uint64_t step);
    /// The thread has nothing to do until others run.
    void yielded(std::uint32_t thread);

  private:
    std::uint32_t replayed(std::uint64_t step, std::uint32_t otherwise);
    std::int64_t &priority(std::uint32_t thread);

    strategy_config config_;
    random_numbers random_;
    unsigned switch_every_;                ///< of the random walk: on average, in steps
    std::vector<std::int64_t> priorities_; ///< of PCT, by thread; the highest runs
    /// Of PCT: steps at which the current one is lowered, in descending order.
    std::vector<std::uint64_t> change_points_;
    std::int64_t lowest_priority_ = 0;
    std::size_t next_decision_ = 0;
};

} // namespace schedule

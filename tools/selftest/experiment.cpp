// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The device reads the source: old data is in memory, and new data in the cache, in modified lines.
// A device that does not snoop the cache reads the old data, unless a sync has written the lines
// back.
//
// The device writes the sink: the program has modified its lines, so that a sync before the
// transfer has to write them back. Otherwise they may overwrite what the device has written. Then
// the CPU loads them, as it may do at any time without a request, so that a sync after the transfer
// has to invalidate them. Otherwise the CPU reads the old data.
//
// A cache evicts lines when it needs the room. So even with a device that is not coherent, some
// lines may have the new data.

#include "selftest/experiment.hpp"

namespace tools::selftest {
namespace {

using coherdma::probe::fill;
using coherdma::probe::word_value;
using words = std::span<std::uint64_t>;

/// Of a round of an experiment; no other uses them.
struct patterns {
    std::uint64_t old_data;    ///< in memory
    std::uint64_t cached_data; ///< of the sink, in the cache
    std::uint64_t new_data;    ///< what the device is to move
};

/// Which parts of a sync a variant has, before and after the transfer.
struct sync_steps {
    bool before, after;
    sync_part part;
};
constexpr sync_steps steps_of(sync_variant variant) noexcept {
    switch (variant) {
    case sync_variant::FENCES:
        return {.before = true, .after = true, .part = sync_part::FENCES};
    case sync_variant::BEFORE_ONLY:
        return {.before = true, .after = false, .part = sync_part::ALL};
    case sync_variant::AFTER_ONLY:
        return {.before = false, .after = true, .part = sync_part::ALL};
    case sync_variant::NO_FENCES:
        return {.before = true, .after = true, .part = sync_part::CACHE_INSTRUCTIONS};
    case sync_variant::FULL:
        return {.before = true, .after = true, .part = sync_part::ALL};
    case sync_variant::NONE:
        break;
    }
    return {.before = false, .after = false, .part = sync_part::FENCES};
}

void load_lines(words buffer, std::size_t line_size) noexcept {
    for (std::size_t i = 0; i < buffer.size(); i += line_size / sizeof(std::uint64_t))
        static_cast<void>(*static_cast<volatile std::uint64_t *>(&buffer[i]));
}

/// Adds the lines of the sink to the experiment.
void count_lines(words sink, std::size_t line_size, const patterns &patterns,
                 experiment &experiment) noexcept {
    asm volatile("" ::: "memory"); // the device wrote the sink
    const std::size_t words_per_line = line_size / sizeof(std::uint64_t);
    for (std::size_t line = 0; line < sink.size(); line += words_per_line) {
        bool is_stale = false, is_other = false;
        for (std::size_t i = line; i < line + words_per_line && i < sink.size(); ++i) {
            const std::uint64_t word = *static_cast<volatile std::uint64_t *>(&sink[i]);
            if (word == word_value(patterns.new_data, i))
                continue;
            is_stale = true;
            is_other = is_other || (word != word_value(patterns.old_data, i) &&
                                    word != word_value(patterns.cached_data, i));
        }
        ++experiment.num_lines;
        experiment.num_stale += is_stale ? 1 : 0;
        experiment.num_other += is_other ? 1 : 0;
    }
}

/// One round. Returns the error of the transfer.
int run_round(const experiment_plan &plan, memory_sync &syncs, const patterns &patterns,
              experiment &experiment) {
    const bool is_sink = does_device_write(experiment.path);
    const words examined = is_sink ? plan.sink : plan.source;
    const sync_steps steps = steps_of(experiment.variant);

    fill(plan.sink, patterns.old_data);
    syncs.writeback_invalidate(plan.sink);
    fill(plan.source, is_sink ? patterns.new_data : patterns.old_data);
    syncs.writeback_invalidate(plan.source);
    fill(examined, is_sink ? patterns.cached_data : patterns.new_data);

    if (steps.before)
        syncs.sync(experiment.path, sync_time::BEFORE_TRANSFER, steps.part, examined);
    if (is_sink)
        load_lines(plan.sink, plan.line_size);
    if (const int error = plan.transfers[static_cast<std::size_t>(experiment.path)]())
        return error;
    if (steps.after && is_sink)
        syncs.sync(experiment.path, sync_time::AFTER_TRANSFER, steps.part, examined);
    else if (!is_sink)
        syncs.writeback_invalidate(plan.sink);
    count_lines(plan.sink, plan.line_size, patterns, experiment);
    ++experiment.rounds;
    return 0;
}

} // namespace

/// All experiments in turn in each round, so that a fault of the device that comes and goes is seen
/// in all of them. Ends at the first transfer that fails: the connection is then in error.
experiment_results run_experiments(const experiment_plan &plan, memory_sync &syncs) {
    experiment_results results;
    for (std::size_t i = 0; i < NUM_PATHS; ++i) {
        const auto path = static_cast<data_path>(i);
        for (const sync_variant variant : ALL_VARIANTS)
            if (plan.transfers[i] && has_variant(path, variant))
                results.experiments.push_back(
                    {.path = path,
                     .variant = variant,
                     .problem = variant == sync_variant::NONE
                                    ? ""
                                    : syncs.problem(steps_of(variant).part)});
    }
    std::uint64_t next_pattern = 0;
    for (std::uint32_t round = 0; round < plan.rounds; ++round) {
        for (experiment &experiment : results.experiments) {
            if (!experiment.problem.empty())
                continue;
            const patterns patterns = {.old_data = next_pattern,
                                       .cached_data = next_pattern + 1,
                                       .new_data = next_pattern + 2};
            next_pattern += 3;
            results.error = plan.check_interruption(experiment);
            if (results.error == 0)
                results.error = run_round(plan, syncs, patterns, experiment);
            if (results.error != 0)
                return results;
        }
    }
    return results;
}

} // namespace tools::selftest

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Each round has two experiments:
//
// Does the device read the CPU's cache? Old values are written to memory and synced, then new
// values written without a sync. The device copies new values if it snoops the cache, else old
// ones: the lines are still dirty in the cache.
//
// Do the device's writes reach the CPU's cache? The sink is read, so that its old lines are cached,
// and the device writes new values. Read again without a sync, they are new if the writes reach the
// cache. After a sync they must be new; otherwise the cause is not the cache.

#include "pattern.hpp"

#include <cerrno>

namespace coherdma::probe {

std::uint64_t word_value(std::uint64_t pattern, std::size_t index) noexcept {
    return (pattern + 1) << 32 | (index + 1);
}

void fill(std::span<std::uint64_t> buffer, std::uint64_t pattern) noexcept {
    for (std::size_t i = 0; i < buffer.size(); ++i)
        buffer[i] = word_value(pattern, i);
    asm volatile("" ::: "memory"); // the device reads the buffer
}

namespace {

using words = std::span<std::uint64_t>;

// Maintains and examines the cache lines of buffers.
class cache_lines {
  public:
    cache_lines(const cache::cache_ops &ops, std::size_t line_size) noexcept
        : ops_(ops)
        , line_size_(line_size) {}

    void writeback_invalidate(words buffer) const noexcept {
        const cache::range range = {.addr = reinterpret_cast<std::uintptr_t>(buffer.data()),
                                    .length = buffer.size_bytes()};
        ops_.fence_before_invalidate();
        ops_.writeback_invalidate(&range, 1, line_size_);
        ops_.fence_after_invalidate();
    }

    // The number of lines with a word of the old pattern; -1: a word has neither pattern.
    std::int64_t count_stale(words buffer, std::uint64_t old_pattern,
                             std::uint64_t new_pattern) const noexcept {
        asm volatile("" ::: "memory"); // the device wrote the buffer
        const std::size_t words_per_line = line_size_ / sizeof(std::uint64_t);
        std::int64_t stale = 0;
        for (std::size_t line = 0; line < buffer.size(); line += words_per_line) {
            bool is_stale = false;
            for (std::size_t i = line; i < line + words_per_line && i < buffer.size(); ++i) {
                if (buffer[i] == word_value(old_pattern, i))
                    is_stale = true;
                else if (buffer[i] != word_value(new_pattern, i))
                    return -1;
            }
            stale += is_stale ? 1 : 0;
        }
        return stale;
    }

  private:
    const cache::cache_ops &ops_;
    std::size_t line_size_;
};

} // namespace

/// Both experiments in each round; adds the lines that the device or the CPU read stale to counts.
/// Returns 0, the error of copy(), or EIO if the device copied data that was never in the source.
int probe_coherency(copier &device, words source, words sink, const cache::cache_ops &ops,
                    std::size_t line_size, std::uint32_t rounds, probe_counts &counts) {
    const cache_lines lines(ops, line_size);
    for (std::uint64_t round = 0; round < rounds; ++round) {
        // No round uses the patterns of another.
        const std::uint64_t old_pattern = 3 * round, new_pattern = old_pattern + 1,
                            sink_pattern = old_pattern + 2;
        // Does the device read the CPU's cache? The new pattern is in the cache only.
        fill(source, old_pattern);
        lines.writeback_invalidate(source);
        fill(sink, sink_pattern); // to be overwritten completely
        lines.writeback_invalidate(sink);
        fill(source, new_pattern);
        if (const int error = device.copy())
            return error;
        lines.writeback_invalidate(sink);
        const std::int64_t device_stale = lines.count_stale(sink, old_pattern, new_pattern);

        // Do the device's writes reach the CPU's cache, which has the old pattern of the sink?
        fill(source, new_pattern);
        lines.writeback_invalidate(source);
        fill(sink, old_pattern);
        lines.writeback_invalidate(sink);
        // Each line must have the old pattern; reading them loads the sink into the cache.
        if (lines.count_stale(sink, old_pattern, old_pattern) !=
            static_cast<std::int64_t>(sink.size_bytes() / line_size))
            return EIO;
        if (const int error = device.copy())
            return error;
        ops.fence_before_invalidate(); // loads of the sink follow that of the completion
        const std::int64_t cpu_stale = lines.count_stale(sink, old_pattern, new_pattern);
        lines.writeback_invalidate(sink);
        // The device has copied what was never in the source, or has not written all of the sink.
        if (device_stale < 0 || cpu_stale < 0 ||
            lines.count_stale(sink, old_pattern, new_pattern) != 0)
            return EIO;
        counts.device_stale += static_cast<std::uint64_t>(device_stale);
        counts.cpu_stale += static_cast<std::uint64_t>(cpu_stale);
        counts.lines += sink.size_bytes() / line_size;
        ++counts.rounds;
    }
    return 0;
}

} // namespace coherdma::probe

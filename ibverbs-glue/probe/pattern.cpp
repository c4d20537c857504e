// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Two experiments, in turn:
//
// Does the device see what the CPU wrote? Old values are put into memory, below the cache, and new
// ones written above them, without a sync. What the device then brings is new, line by line, if it
// looks into the cache, and old if it does not: lines just written are still there.
//
// Does the CPU see what the device wrote? The sink is read, so that its old lines are in the cache,
// and the device writes new ones. Read again, without a sync, they are new if the device's writes
// reach the cache. After a sync they must be new, or it was no question of the cache.

#include "pattern.hpp"

#include <cerrno>

namespace coherdma::probe {
namespace {

using words = std::span<std::uint64_t>;

// Another value for each word and each filling, never 0.
std::uint64_t value(std::uint64_t filling, std::size_t place) noexcept {
    return (filling + 1) << 32 | (place + 1);
}

void fill(words all, std::uint64_t filling) noexcept {
    for (std::size_t place = 0; place < all.size(); ++place)
        all[place] = value(filling, place);
    asm volatile("" ::: "memory");
}

class lines {
  public:
    lines(const cache::path &chosen, std::size_t bytes) noexcept
        : way(chosen)
        , line(bytes) {}

    void sync(words all) const noexcept {
        const cache::range range{reinterpret_cast<std::uintptr_t>(all.data()),
                                 static_cast<std::uint32_t>(all.size_bytes())};
        way.before_flush();
        way.flush(&range, 1, line);
        way.after_flush();
    }

    // Lines that hold a word of the old filling. -1: of neither.
    std::int64_t stale(words all, std::uint64_t before, std::uint64_t now) const noexcept {
        asm volatile("" ::: "memory"); // the device wrote, of which the compiler knows nothing
        const std::size_t step = line / sizeof(std::uint64_t);
        std::int64_t found = 0;
        for (std::size_t first = 0; first < all.size(); first += step) {
            bool is_old = false;
            for (std::size_t place = first; place < first + step && place < all.size(); ++place) {
                if (all[place] == value(before, place))
                    is_old = true;
                else if (all[place] != value(now, place))
                    return -1;
            }
            found += is_old ? 1 : 0;
        }
        return found;
    }

  private:
    const cache::path &way;
    std::size_t line;
};

} // namespace

int look(mover &device, words source, words sink, const cache::path &way, std::size_t line,
         std::uint32_t rounds, count &into) {
    const lines all(way, line);
    for (std::uint64_t round = 0; round < rounds; ++round) {
        const std::uint64_t first = 3 * round, second = first + 1, third = first + 2;
        fill(source, first);
        all.sync(source);
        fill(sink, third); // no word of it is left afterwards
        all.sync(sink);
        fill(source, second);
        if (const int error = device.move())
            return error;
        all.sync(sink);
        const std::int64_t by_device = all.stale(sink, first, second);

        fill(source, second);
        all.sync(source);
        fill(sink, first);
        all.sync(sink);
        if (all.stale(sink, first, first) != static_cast<std::int64_t>(sink.size_bytes() / line))
            return EIO; // and by this they are in the cache
        if (const int error = device.move())
            return error;
        way.before_flush(); // the completion was seen before the sink is
        const std::int64_t by_cpu = all.stale(sink, first, second);
        all.sync(sink);
        if (by_device < 0 || by_cpu < 0 || all.stale(sink, first, second) != 0)
            return EIO;
        into.device_stale += static_cast<std::uint64_t>(by_device);
        into.cpu_stale += static_cast<std::uint64_t>(by_cpu);
        into.lines += sink.size_bytes() / line;
        ++into.rounds;
    }
    return 0;
}

} // namespace coherdma::probe

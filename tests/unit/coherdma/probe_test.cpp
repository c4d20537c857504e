// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The probe detects a device that does not snoop the cache. The cache is fake: its write-back and
// invalidation copies lines between the CPU's view and the memory.

#include "../cmocka.hpp"
#include "probe/pattern.hpp"

#include <cerrno>
#include <vector>

using namespace coherdma;

namespace {

constexpr std::size_t WORDS = 2048; // one word is one line of the fake cache
constexpr std::size_t LINE_SIZE = sizeof(std::uint64_t);
constexpr std::uint32_t ROUNDS = 3;

// Source and sink as the CPU sees them, in memory, and when both were last equal.
struct fake_machine {
    std::vector<std::uint64_t> cached = std::vector<std::uint64_t>(2 * WORDS);
    std::vector<std::uint64_t> memory = cached, synced = cached;
    std::span<std::uint64_t> source() { return {cached.data(), WORDS}; }
    std::span<std::uint64_t> sink() { return {cached.data() + WORDS, WORDS}; }
};
fake_machine *fake = nullptr;

void no_fence() noexcept {}
bool is_reported() noexcept {
    return true;
}

void writeback_invalidate(const cache::range *ranges, std::size_t count,
                          std::size_t line_size) noexcept {
    const auto begin = reinterpret_cast<std::uintptr_t>(fake->cached.data());
    cache::for_each_line(ranges, count, line_size,
                         [begin](std::uintptr_t line, const cache::range &) {
                             const std::size_t word = (line - begin) / sizeof(std::uint64_t);
                             if (fake->cached[word] != fake->synced[word])
                                 fake->memory[word] = fake->cached[word];
                             else
                                 fake->cached[word] = fake->memory[word];
                             fake->synced[word] = fake->memory[word];
                         });
}

constexpr cache::cache_ops FAKE_OPS = {"fake",   no_fence,   writeback_invalidate,
                                       no_fence, no_fence,   writeback_invalidate,
                                       no_fence, is_reported};

// Copies source to sink; it snoops the CPU's cache when it reads, or when it writes, or not.
struct fake_device final : probe::copier {
    bool reads_cache, writes_cache;
    int calls = 0;
    int failing_call = -1; ///< counted from 0; -1: none
    fake_device(bool reads, bool writes)
        : reads_cache(reads)
        , writes_cache(writes) {}
    int copy() override {
        if (calls++ == failing_call)
            return ETIMEDOUT;
        for (std::size_t word = 0; word < WORDS; ++word) {
            const std::uint64_t value = reads_cache ? fake->cached[word] : fake->memory[word];
            if (writes_cache)
                fake->cached[WORDS + word] = fake->synced[WORDS + word] = value;
            fake->memory[WORDS + word] = value;
        }
        return 0;
    }
};

// The counts of a probe of a new machine with the device.
probe::probe_counts run_probe(fake_device &device, int expected_error = 0) {
    fake_machine machine;
    fake = &machine;
    probe::probe_counts counts;
    assert_int_equal(probe::probe_coherency(device, machine.source(), machine.sink(), FAKE_OPS,
                                            LINE_SIZE, ROUNDS, counts),
                     expected_error);
    return counts;
}

struct test_case {
    const char *name;
    bool reads_cache, writes_cache;
    std::size_t device_stale, cpu_stale; ///< expected
};
test_case cases[] = {
    {"coherent device: nothing is stale", true, true, 0, 0},
    {"device that does not read the cache: device data is stale", false, true, ROUNDS *WORDS, 0},
    {"device that does not write the cache: CPU data is stale", true, false, 0, ROUNDS *WORDS},
    {"non-coherent device: all data is stale", false, false, ROUNDS *WORDS, ROUNDS *WORDS},
};

void stale_lines_are_counted(void **state) {
    const test_case &expected = *static_cast<const test_case *>(*state);
    fake_device device(expected.reads_cache, expected.writes_cache);
    const probe::probe_counts counts = run_probe(device);
    assert_int_equal(counts.rounds, ROUNDS);
    assert_int_equal(counts.lines, ROUNDS * WORDS);
    assert_int_equal(counts.device_stale, expected.device_stale);
    assert_int_equal(counts.cpu_stale, expected.cpu_stale);
}

void failed_transfer_ends_probe(void **) {
    fake_device device(false, false);
    device.failing_call = 4;
    const probe::probe_counts counts = run_probe(device, ETIMEDOUT);
    assert_int_equal(counts.rounds, 2);
    assert_int_equal(counts.device_stale, 2 * WORDS);
}

struct idle_device final : probe::copier {
    int copy() override { return 0; } // reports success without a transfer
};

// A device that copies nothing must not count as coherent or not.
void device_without_effect_is_an_error(void **) {
    fake_machine machine;
    fake = &machine;
    idle_device device;
    probe::probe_counts counts;
    assert_int_equal(probe::probe_coherency(device, machine.source(), machine.sink(), FAKE_OPS,
                                            LINE_SIZE, 1, counts),
                     EIO);
    assert_int_equal(counts.rounds, 0);
}

} // namespace

int main() {
    std::vector<CMUnitTest> tests = {
        cmocka_unit_test(failed_transfer_ends_probe),
        cmocka_unit_test(device_without_effect_is_an_error),
    };
    for (test_case &test_case : cases)
        tests.push_back({test_case.name, stale_lines_are_counted, nullptr, nullptr, &test_case});
    return _cmocka_run_group_tests("probe", tests.data(), tests.size(), nullptr, nullptr);
}

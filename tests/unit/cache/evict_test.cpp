// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The effect of a sync on this CPU's cache, measured by time: a load from memory takes longer than
// one from any cache, and the write-back of a dirty line longer than that of a clean one.
//
// Only relative times are used. A trial measures five lines in random order, each in its own page:
// two with the expected effect (EXPECTED, CONTROL), two without it (UNEXPECTED,
// CONTROL_UNEXPECTED), and the synced one (TESTED). The medians of EXPECTED and UNEXPECTED in 64
// trials give a threshold. The test fails if in three runs in a row, over all trials, TESTED is on
// the wrong side of it
//
//   - in more than half (without a sync: in nine of ten), and
//   - more often than CONTROL, with a probability below 1e-9 for chance.
//
// After a correct sync TESTED and CONTROL are equivalent, so which of them is on the wrong side in
// a trial with only one is a fair coin, because the order is random. A pause before each
// measurement lets the memory finish write-backs. The test is skipped if the control lines are on
// the wrong side in more than one of ten trials.

#include "../cmocka.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <coherdma/coherdma.h>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <infiniband/verbs.h>
#include <random>
#include <sstream>
#include <string>
#include <sys/mman.h>
#include <vector>

namespace {

#if defined(__x86_64__)

constexpr std::size_t PAGE = 4096, PAGES = 4096, TRIALS_PER_THRESHOLD = 64, THRESHOLDS = 64;
constexpr double MAX_CONTROL_ERRORS = 0.1, MAX_ERRORS = 0.5, MAX_CHANCE = 1e-9;
constexpr int MAX_ATTEMPTS = 3;

using line_ptr = volatile unsigned char *;
using line_function = std::function<void(line_ptr)>;

void mfence() {
    asm volatile("mfence" ::: "memory");
}
void writeback_invalidate(line_ptr line) {
    asm volatile("mfence; clflush (%0); mfence" ::"r"(line) : "memory");
}
void load(line_ptr line) {
    asm volatile("movb (%0), %%al; mfence" ::"r"(line) : "rax", "memory");
}
void store(line_ptr line) {
    asm volatile("incb (%0); mfence" ::"r"(line) : "memory");
}
void do_nothing(line_ptr) {}
void wait_for_memory() {
    for (int i = 0; i < 64; ++i)
        asm volatile("pause; lfence" ::: "memory");
}

/// Ticks of one load.
std::uint64_t ticks_of_load(line_ptr line) {
    std::uint32_t low, high, low_after, high_after;
    asm volatile("mfence; lfence; rdtsc; lfence; mov %%eax, %0; mov %%edx, %1;"
                 "movb (%4), %%al;"
                 "rdtscp; lfence; mov %%eax, %2; mov %%edx, %3"
                 : "=&r"(low), "=&r"(high), "=&r"(low_after), "=&r"(high_after)
                 : "r"(line)
                 : "rax", "rcx", "rdx", "memory");
    return (std::uint64_t{high_after} << 32 | low_after) - (std::uint64_t{high} << 32 | low);
}

/// Ticks of a write-back with invalidation. The line is loaded first and stays clean or dirty: for
/// a line in no cache some CPUs take as long as for a dirty one.
std::uint64_t ticks_of_writeback(line_ptr line) {
    load(line);
    wait_for_memory();
    std::uint32_t low, high, low_after, high_after;
    asm volatile("mfence; lfence; rdtsc; lfence; mov %%eax, %0; mov %%edx, %1;"
                 "clflush (%4); mfence;"
                 "rdtscp; lfence; mov %%eax, %2; mov %%edx, %3"
                 : "=&r"(low), "=&r"(high), "=&r"(low_after), "=&r"(high_after)
                 : "r"(line)
                 : "rax", "rcx", "rdx", "memory");
    return (std::uint64_t{high_after} << 32 | low_after) - (std::uint64_t{high} << 32 | low);
}

struct experiment {
    line_function prepare_expected, prepare_unexpected, prepare_tested;
    std::uint64_t (*measure)(line_ptr);
    double threshold; ///< as a fraction of the distance from UNEXPECTED to EXPECTED
};

enum role : std::size_t { EXPECTED, CONTROL, UNEXPECTED, CONTROL_UNEXPECTED, TESTED, NUM_ROLES };

using times = std::array<std::uint64_t, NUM_ROLES>;

double median(std::vector<times> trials, role role) {
    const auto middle = trials.begin() + static_cast<std::ptrdiff_t>(trials.size() / 2);
    std::nth_element(trials.begin(), middle, trials.end(),
                     [&](const times &a, const times &b) { return a[role] < b[role]; });
    return static_cast<double>((*middle)[role]);
}

/// Numbers of trials with a line on the wrong side.
struct error_counts {
    std::size_t trials = 0, control = 0, control_unexpected = 0, tested = 0;
    std::size_t only_tested = 0, only_control = 0;

    [[nodiscard]] double rate(std::size_t errors) const {
        return static_cast<double>(errors) / static_cast<double>(trials);
    }
    [[nodiscard]] bool is_conclusive() const {
        return rate(control) <= MAX_CONTROL_ERRORS &&
               rate(control_unexpected) <= MAX_CONTROL_ERRORS;
    }
};

class stopwatch {
  public:
    stopwatch() {
        void *addr =
            mmap(nullptr, PAGE * PAGES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        assert_true(addr != MAP_FAILED);
        pages_ = static_cast<unsigned char *>(addr);
        for (std::size_t page = 0; page < PAGES; ++page)
            pages_[page * PAGE] = 1;
    }
    ~stopwatch() { munmap(const_cast<unsigned char *>(pages_), PAGE * PAGES); }
    stopwatch(const stopwatch &) = delete;
    stopwatch &operator=(const stopwatch &) = delete;

    error_counts run(const experiment &experiment) {
        error_counts counts;
        for (std::size_t round = 0; round < THRESHOLDS; ++round) {
            std::vector<times> trials;
            for (std::size_t trial = 0; trial < TRIALS_PER_THRESHOLD; ++trial)
                trials.push_back(run_trial(experiment));
            count_errors(experiment, trials, counts);
        }
        return counts;
    }

  private:
    times run_trial(const experiment &experiment) {
        std::array<std::size_t, NUM_ROLES> order{EXPECTED, CONTROL, UNEXPECTED, CONTROL_UNEXPECTED,
                                                 TESTED};
        std::shuffle(order.begin(), order.end(), random_);
        times ticks{};
        for (const std::size_t role : order) {
            const line_ptr line = pages_ + random_() % PAGES * PAGE + random_() % (PAGE / 64) * 64;
            const bool is_unexpected = role == UNEXPECTED || role == CONTROL_UNEXPECTED;
            store(line);
            const line_function &prepare = role == TESTED  ? experiment.prepare_tested
                                           : is_unexpected ? experiment.prepare_unexpected
                                                           : experiment.prepare_expected;
            prepare(line);
            wait_for_memory();
            ticks[role] = experiment.measure(line);
        }
        return ticks;
    }

    static void count_errors(const experiment &experiment, const std::vector<times> &trials,
                             error_counts &counts) {
        const double expected = median(trials, EXPECTED), unexpected = median(trials, UNEXPECTED);
        const double threshold = unexpected + (expected - unexpected) * experiment.threshold;
        const auto is_wrong = [&](std::uint64_t ticks) {
            const auto value = static_cast<double>(ticks);
            return expected > unexpected ? value < threshold : value > threshold;
        };
        for (const times &ticks : trials) {
            const bool tested = is_wrong(ticks[TESTED]), control = is_wrong(ticks[CONTROL]);
            ++counts.trials;
            counts.control += control ? 1U : 0U;
            counts.tested += tested ? 1U : 0U;
            counts.control_unexpected += is_wrong(ticks[CONTROL_UNEXPECTED]) ? 0U : 1U;
            counts.only_tested += tested && !control ? 1U : 0U;
            counts.only_control += control && !tested ? 1U : 0U;
        }
    }

    volatile unsigned char *pages_;
    std::minstd_rand random_{std::random_device{}()};
};

/// The probability of at least this number of heads with fair coins.
double probability_of_heads(std::size_t heads, std::size_t coins) {
    double sum = 0;
    const auto n = static_cast<double>(coins);
    for (std::size_t i = heads; i <= coins; ++i) {
        const auto k = static_cast<double>(i);
        sum += std::exp(std::lgamma(n + 1) - std::lgamma(k + 1) - std::lgamma(n - k + 1) -
                        n * std::log(2.0));
    }
    return sum;
}

enum class outcome : std::uint8_t { inconclusive, passed, failed };

outcome evaluate(const std::string &name, const error_counts &counts) {
    print_message("# %s: wrong side: tested %.2f %%, control %.2f %%, unexpected control %.2f %%\n",
                  name.c_str(), 100 * counts.rate(counts.tested), 100 * counts.rate(counts.control),
                  100 * counts.rate(counts.control_unexpected));
    if (!counts.is_conclusive())
        return outcome::inconclusive;
    return counts.rate(counts.tested) > MAX_ERRORS &&
                   probability_of_heads(counts.only_tested,
                                        counts.only_tested + counts.only_control) < MAX_CHANCE
               ? outcome::failed
               : outcome::passed;
}

using sync_call = decltype(coherdma_sync_before_read);

/// Runs the experiment with each set of instructions; prepare runs before the sync. Returns false
/// and prints the reason if there is no result. The caller skips: skip() does not run destructors.
bool run_with_each_instruction(const std::string &name, experiment experiment, sync_call *sync,
                               const line_function &prepare) {
    coherdma_cpu_attr cpu{};
    assert_int_equal(coherdma_query_cpu(&cpu, sizeof cpu), 0);
    std::istringstream choices(cpu.choices);
    stopwatch stopwatch;
    bool has_result = false;
    for (std::string choice; choices >> choice;) {
        coherdma_open_attr attr{};
        attr.flags = COHERDMA_OPEN_ASSUME;
        attr.instructions = choice.c_str();
        attr.assume = COHERDMA_NON_COHERENT;
        coherdma_device *device = coherdma_open_device_ex(&attr, sizeof attr);
        assert_non_null(device);
        experiment.prepare_tested = [&](line_ptr line) {
            prepare(line);
            const coherdma_range range = {.addr = const_cast<const unsigned char *>(line),
                                          .length = 1};
            assert_int_equal(sync(device, &range, 1), 0);
            mfence();
        };
        outcome result = outcome::failed;
        for (int attempt = 0; attempt < MAX_ATTEMPTS && result == outcome::failed; ++attempt)
            result = evaluate(name + ", " + choice, stopwatch.run(experiment));
        coherdma_close_device(device);
        if (result == outcome::failed)
            fail_msg("%s, %s: the sync had no effect in most trials", name.c_str(), choice.c_str());
        has_result = has_result || result == outcome::passed;
    }
    if (!has_result)
        print_message("# skipped: %s\n", *cpu.choices == '\0' ? cpu.problem
                                                              : "timer too coarse or "
                                                                "emulated");
    return has_result;
}

void evict_and_load(line_ptr line) {
    writeback_invalidate(line);
    load(line);
}

void sync_after_write_evicts_dirty_line(void **) {
    // Two thirds: a line in an outer cache is slower than in the nearest, but still cached.
    const experiment experiment{writeback_invalidate, do_nothing, do_nothing, ticks_of_load,
                                2.0 / 3};
    if (!run_with_each_instruction("evicted, was dirty", experiment, coherdma_sync_after_write,
                                   do_nothing))
        skip();
}

void sync_after_write_evicts_clean_line(void **) {
    const experiment experiment{writeback_invalidate, evict_and_load, do_nothing, ticks_of_load,
                                2.0 / 3};
    if (!run_with_each_instruction("evicted, was clean", experiment, coherdma_sync_after_write,
                                   evict_and_load))
        skip();
}

void sync_before_read_writes_back_dirty_line(void **) {
    const experiment experiment{evict_and_load, do_nothing, do_nothing, ticks_of_writeback, 0.5};
    if (!run_with_each_instruction("written back", experiment, coherdma_sync_before_read,
                                   do_nothing))
        skip();
}

#else

void timer_needs_x86_64(void **) {
    print_message("# skipped: needs the time stamp counter of x86-64\n");
    skip();
}

#endif

} // namespace

int main() {
    const CMUnitTest tests[] = {
#if defined(__x86_64__)
        cmocka_unit_test(sync_after_write_evicts_dirty_line),
        cmocka_unit_test(sync_after_write_evicts_clean_line),
        cmocka_unit_test(sync_before_read_writes_back_dirty_line),
#else
        cmocka_unit_test(timer_needs_x86_64),
#endif
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}

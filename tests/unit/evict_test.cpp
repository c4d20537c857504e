// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// That a sync does to this CPU's cache what it is for. No instruction tells where a line is, but
// time does: a load from memory takes longer than one from any cache, and a write-back of a dirty
// line longer than that of a clean one.
//
// Absolute times decide nothing. A trial is five lines in random order, each in a page of its own:
// two that are known to be one way, two that are known to be the other, and one under test. Of 64
// trials the medians of the known ones give a threshold, which says of each time on which side it
// is. The second line of the kind that the tested one should be like stands beside it as its twin:
//
//     fails, if over all trials the tested line is on the wrong side
//       - in more than half, where a sync without effect has it there in nine of ten, and
//       - so much more often than its twin that the chance is below 1e-9,
//     three times in a row.
//
// If the sync did its work, tested line and twin are alike, so each trial in which only one of them
// is on the wrong side is a fair coin, however noisy the machine, for the order is random. All rest
// a while before they are timed: memory may still be busy with what has been written back. The test
// says nothing, and is skipped, where the known ones are on the wrong side in more than one of ten
// themselves.

#include <algorithm>
#include <array>
#include <cmath>
#include <coherdma/coherdma.h>
#include <csetjmp>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <infiniband/verbs.h>
#include <random>
#include <sstream>
#include <string>
#include <sys/mman.h>
#include <vector>

extern "C" {
#include <cmocka.h>
}

namespace {

#if defined(__x86_64__)

constexpr std::size_t PAGE = 4096, PAGES = 4096, TRIALS_OF_A_THRESHOLD = 64, THRESHOLDS = 64;
constexpr double UNCLEAR = 0.1, TOO_OFTEN = 0.5, CHANCE = 1e-9;
constexpr int ATTEMPTS = 3;

using line = volatile unsigned char *;
using on_line = std::function<void(line)>;

void mfence() {
    asm volatile("mfence" ::: "memory");
}
void flush(line at) {
    asm volatile("mfence; clflush (%0); mfence" ::"r"(at) : "memory");
}
void load(line at) {
    asm volatile("movb (%0), %%al; mfence" ::"r"(at) : "rax", "memory");
}
void store(line at) {
    asm volatile("incb (%0); mfence" ::"r"(at) : "memory");
}
void nothing(line) {}
void rest() {
    for (int each = 0; each < 64; ++each)
        asm volatile("pause; lfence" ::: "memory");
}

/// Ticks of one load.
std::uint64_t time_of_load(line at) {
    std::uint32_t low, high, low_after, high_after;
    asm volatile("mfence; lfence; rdtsc; lfence; mov %%eax, %0; mov %%edx, %1;"
                 "movb (%4), %%al;"
                 "rdtscp; lfence; mov %%eax, %2; mov %%edx, %3"
                 : "=&r"(low), "=&r"(high), "=&r"(low_after), "=&r"(high_after)
                 : "r"(at)
                 : "rax", "rcx", "rdx", "memory");
    return (std::uint64_t{high_after} << 32 | low_after) - (std::uint64_t{high} << 32 | low);
}

/// Ticks of a write-back that drops, to its end. The line is loaded before that, and is as dirty as
/// it was: for one that is nowhere some CPUs take as long as for a dirty one.
std::uint64_t time_of_flush(line at) {
    load(at);
    rest();
    std::uint32_t low, high, low_after, high_after;
    asm volatile("mfence; lfence; rdtsc; lfence; mov %%eax, %0; mov %%edx, %1;"
                 "clflush (%4); mfence;"
                 "rdtscp; lfence; mov %%eax, %2; mov %%edx, %3"
                 : "=&r"(low), "=&r"(high), "=&r"(low_after), "=&r"(high_after)
                 : "r"(at)
                 : "rax", "rcx", "rdx", "memory");
    return (std::uint64_t{high_after} << 32 | low_after) - (std::uint64_t{high} << 32 | low);
}

/// An experiment: lines are made right and wrong for sure, one is made by the sync, all are timed.
struct experiment {
    on_line right, wrong, tested;
    std::uint64_t (*time)(line);
    double where; ///< the threshold: at this part of the way from wrong to right
};

enum role : std::size_t { RIGHT, TWIN, WRONG, OTHER_WRONG, TESTED, ROLES };

using times = std::array<std::uint64_t, ROLES>;

double median(std::vector<times> trials, role which) {
    const auto middle = trials.begin() + static_cast<std::ptrdiff_t>(trials.size() / 2);
    std::nth_element(trials.begin(), middle, trials.end(),
                     [&](const times &one, const times &two) { return one[which] < two[which]; });
    return static_cast<double>((*middle)[which]);
}

/// How often a line was on the wrong side.
struct counts {
    std::size_t trials = 0, twin = 0, other_wrong_missed = 0, tested = 0;
    std::size_t only_tested = 0, only_twin = 0;

    [[nodiscard]] double part(std::size_t of) const {
        return static_cast<double>(of) / static_cast<double>(trials);
    }
    [[nodiscard]] bool separates() const {
        return part(twin) <= UNCLEAR && part(other_wrong_missed) <= UNCLEAR;
    }
};

class machine {
  public:
    machine() {
        void *got =
            mmap(nullptr, PAGE * PAGES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        assert_true(got != MAP_FAILED);
        begin_ = static_cast<unsigned char *>(got);
        for (std::size_t page = 0; page < PAGES; ++page)
            begin_[page * PAGE] = 1;
    }
    ~machine() { munmap(const_cast<unsigned char *>(begin_), PAGE * PAGES); }
    machine(const machine &) = delete;
    machine &operator=(const machine &) = delete;

    counts run(const experiment &what) {
        counts all;
        for (std::size_t round = 0; round < THRESHOLDS; ++round) {
            std::vector<times> trials;
            for (std::size_t trial = 0; trial < TRIALS_OF_A_THRESHOLD; ++trial)
                trials.push_back(try_once(what));
            judge(what, trials, all);
        }
        return all;
    }

  private:
    times try_once(const experiment &what) {
        std::array<std::size_t, ROLES> order{RIGHT, TWIN, WRONG, OTHER_WRONG, TESTED};
        std::shuffle(order.begin(), order.end(), random_);
        times got{};
        for (const std::size_t each : order) {
            const line at = begin_ + random_() % PAGES * PAGE + random_() % (PAGE / 64) * 64;
            const bool wrong = each == WRONG || each == OTHER_WRONG;
            store(at);
            (each == TESTED ? what.tested : wrong ? what.wrong : what.right)(at);
            rest();
            got[each] = what.time(at);
        }
        return got;
    }

    static void judge(const experiment &what, const std::vector<times> &trials, counts &all) {
        const double right = median(trials, RIGHT), wrong = median(trials, WRONG);
        const double threshold = wrong + (right - wrong) * what.where;
        const auto is_wrong = [&](std::uint64_t time) {
            const auto ticks = static_cast<double>(time);
            return right > wrong ? ticks < threshold : ticks > threshold;
        };
        for (const times &each : trials) {
            const bool tested = is_wrong(each[TESTED]), twin = is_wrong(each[TWIN]);
            ++all.trials;
            all.twin += twin ? 1U : 0U;
            all.tested += tested ? 1U : 0U;
            all.other_wrong_missed += is_wrong(each[OTHER_WRONG]) ? 0U : 1U;
            all.only_tested += tested && !twin ? 1U : 0U;
            all.only_twin += twin && !tested ? 1U : 0U;
        }
    }

    volatile unsigned char *begin_;
    std::minstd_rand random_{std::random_device{}()};
};

/// The chance that of so many fair coins at least that many show heads.
double chance_of(std::size_t heads, std::size_t coins) {
    double sum = 0;
    const auto n = static_cast<double>(coins);
    for (std::size_t each = heads; each <= coins; ++each) {
        const auto k = static_cast<double>(each);
        sum += std::exp(std::lgamma(n + 1) - std::lgamma(k + 1) - std::lgamma(n - k + 1) -
                        n * std::log(2.0));
    }
    return sum;
}

enum class verdict : std::uint8_t { unclear, good, bad };

verdict judged(const std::string &what, const counts &got) {
    print_message("# %s: wrong side %.2f %%, its twin %.2f %%, the others missed %.2f %%\n",
                  what.c_str(), 100 * got.part(got.tested), 100 * got.part(got.twin),
                  100 * got.part(got.other_wrong_missed));
    if (!got.separates())
        return verdict::unclear;
    return got.part(got.tested) > TOO_OFTEN &&
                   chance_of(got.only_tested, got.only_tested + got.only_twin) < CHANCE
               ? verdict::bad
               : verdict::good;
}

using sync_call = int (*)(const coherdma_device *, const ibv_sge *, std::size_t);

/// With every choice of instructions; prepare comes before the call. False: nothing can be said,
/// and why has been printed. Who skips jumps out of where he is, so only where nothing is to be
/// freed.
bool with_all_choices(const std::string &what, experiment how, sync_call call,
                      const on_line &prepare) {
    coherdma_cpu_attr cpu{};
    assert_int_equal(coherdma_query_cpu(&cpu, sizeof cpu), 0);
    std::istringstream choices(cpu.choices);
    machine here;
    bool told = false;
    for (std::string choice; choices >> choice;) {
        coherdma_open_attr attr{};
        attr.flags = COHERDMA_OPEN_ASSUME;
        attr.instructions = choice.c_str();
        attr.assume = COHERDMA_NON_COHERENT;
        coherdma_device *device = coherdma_open(&attr, sizeof attr);
        assert_non_null(device);
        how.tested = [&](line at) {
            prepare(at);
            const ibv_sge one{reinterpret_cast<std::uintptr_t>(at), 1, 0};
            call(device, &one, 1);
            mfence();
        };
        verdict got = verdict::bad;
        for (int attempt = 0; attempt < ATTEMPTS && got == verdict::bad; ++attempt)
            got = judged(what + ", " + choice, here.run(how));
        coherdma_close(device);
        if (got == verdict::bad)
            fail_msg("%s, %s: mostly it was not so", what.c_str(), choice.c_str());
        told = told || got == verdict::good;
    }
    if (!told)
        print_message("# skipped: %s\n", *cpu.choices == '\0' ? cpu.problem
                                                              : "time does not tell here; it is "
                                                                "too coarse, or emulated");
    return told;
}

void flushed_and_loaded(line at) {
    flush(at);
    load(at);
}

void a_dirty_line_is_gone_after_sync_rdma_write(void **) {
    // Two thirds of the way, for an outer cache is slower than the nearest, and still a cache.
    const experiment how{flush, nothing, nothing, time_of_load, 2.0 / 3};
    if (!with_all_choices("gone, was dirty", how, coherdma_sync_rdma_write, nothing))
        skip();
}

void a_clean_line_is_gone_after_sync_rdma_write(void **) {
    const experiment how{flush, flushed_and_loaded, nothing, time_of_load, 2.0 / 3};
    if (!with_all_choices("gone, was clean", how, coherdma_sync_rdma_write, flushed_and_loaded))
        skip();
}

void a_dirty_line_is_written_back_after_sync_rdma_read(void **) {
    const experiment how{flushed_and_loaded, nothing, nothing, time_of_flush, 0.5};
    if (!with_all_choices("written back", how, coherdma_sync_rdma_read, nothing))
        skip();
}

#else

void only_on_x86_64(void **) {
    print_message("# written for the timer of x86-64\n");
    skip();
}

#endif

} // namespace

int main() {
    const CMUnitTest tests[] = {
#if defined(__x86_64__)
        cmocka_unit_test(a_dirty_line_is_gone_after_sync_rdma_write),
        cmocka_unit_test(a_clean_line_is_gone_after_sync_rdma_write),
        cmocka_unit_test(a_dirty_line_is_written_back_after_sync_rdma_read),
#else
        cmocka_unit_test(only_on_x86_64),
#endif
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}

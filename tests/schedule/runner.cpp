// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Runs programs in many schedules. A process of its own runs one after another; if one fails, the
// process is gone, and what it has recorded remains. Then the decisions that the failure does not
// need are left out, one by one, and the schedule is printed.

#include "locations.hpp"
#include "schedule.hpp"
#include "scheduler.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fmt/format.h>
#include <getopt.h>
#include <malloc.h>
#include <sched.h>
#include <set>
#include <string>
#include <string_view>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace schedule {
namespace {

constexpr int EXIT_USAGE = 2;
constexpr int EXIT_DONE = 100; ///< of a child that has run all schedules, not of a program's exit()
constexpr unsigned SECONDS_WITHOUT_PROGRESS = 60;
constexpr int MAX_ATTEMPTS = 400; ///< to leave out decisions
constexpr const char *BLOCKED =
    "a thread blocks in a call that the scheduler does not know, or loops "
    "without an access to memory";

struct options {
    std::uint64_t first_seed = 1, num_schedules = 1000;
    std::string program; ///< "": all
    bool has_late_stores = false;
};

recording *map_recording() {
    void *const memory =
        mmap(nullptr, sizeof(recording), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        std::perror("mmap");
        std::exit(1);
    }
    return static_cast<recording *>(memory);
}

/// One thread runs at a time, so one CPU is enough, and changing threads is faster on it.
void stay_on_one_cpu() {
    const int cpu = sched_getcpu();
    cpu_set_t set;
    CPU_ZERO(&set);
    if (cpu >= 0) {
        CPU_SET(static_cast<std::size_t>(cpu), &set);
        sched_setaffinity(0, sizeof set, &set);
    }
}

/// Of a fifth of the seeds the schedule is a random walk, of the others that of PCT with depth 2,
/// 3, 4 or 5.
strategy_config config_for(const options &opts, std::uint64_t seed, std::uint64_t num_steps) {
    const auto kind = static_cast<unsigned>(seed % 5);
    return {.kind = kind == 0 ? strategy_kind::RANDOM_WALK : strategy_kind::PCT,
            .seed = seed,
            .depth = kind + 1,
            .num_steps = num_steps,
            .has_late_stores = opts.has_late_stores};
}

/// Runs function in a child, after a schedule without decisions: what a program does once in a
/// process, such as to initialize a variable, shall be done in none of the others. "": it has
/// returned. Else what ended it.
template <typename function_type>
std::string run_in_child(const program &tested, recording &shared, function_type function) {
    shared.failure[0] = '\0';
    std::fflush(nullptr);
    const pid_t child = fork();
    if (child < 0)
        return fmt::format("cannot fork: {}", std::strerror(errno));
    if (child == 0) {
        stay_on_one_cpu();
        run_schedule(tested.run, {.kind = strategy_kind::REPLAY}, shared);
        function();
        _exit(EXIT_DONE);
    }
    int status = 0;
    std::uint64_t last_progress = 0;
    unsigned idle_seconds = 0;
    for (useconds_t pause = 1000; waitpid(child, &status, WNOHANG) == 0;) {
        usleep(pause);
        if (pause < 1'000'000) { // a short child is not waited for long
            pause = std::min<useconds_t>(pause * 2, 1'000'000);
            continue;
        }
        const std::uint64_t progress = shared.num_schedules + shared.num_steps;
        idle_seconds = progress == last_progress ? idle_seconds + 1 : 0;
        last_progress = progress;
        if (idle_seconds == SECONDS_WITHOUT_PROGRESS) {
            kill(child, SIGKILL);
            waitpid(child, &status, 0);
            return BLOCKED;
        }
    }
    if (WIFSIGNALED(status))
        return fmt::format("killed by signal {} ({})", WTERMSIG(status),
                           strsignal(WTERMSIG(status)));
    if (shared.failure[0] != '\0')
        return shared.failure.data();
    if (WEXITSTATUS(status) != EXIT_DONE)
        return fmt::format("the process exits with status {}", WEXITSTATUS(status));
    return {};
}

std::string replay(const program &tested, const std::vector<decision> &decisions,
                   const options &opts, recording &shared) {
    return run_in_child(tested, shared, [&] {
        run_schedule(tested.run,
                     {.kind = strategy_kind::REPLAY,
                      .decisions = decisions,
                      .has_late_stores = opts.has_late_stores},
                     shared);
    });
}

/// Leaves out decisions, first many at once, as long as the same failure remains.
std::vector<decision> shorten(const program &tested, std::vector<decision> decisions,
                              const std::string &failure, const options &opts, recording &shared) {
    int num_attempts = 0;
    for (std::size_t part = std::max<std::size_t>(decisions.size() / 2, 1); part != 0; part /= 2) {
        for (std::size_t begin = 0; begin < decisions.size() && num_attempts < MAX_ATTEMPTS;) {
            std::vector<decision> fewer = decisions;
            const auto first = fewer.begin() + static_cast<std::ptrdiff_t>(begin);
            fewer.erase(first, first + static_cast<std::ptrdiff_t>(
                                           std::min(part, decisions.size() - begin)));
            ++num_attempts;
            if (replay(tested, fewer, opts, shared) == failure)
                decisions = std::move(fewer);
            else
                begin += part;
        }
    }
    return decisions;
}

void print_event(const event &entry, const std::string &location) {
    const std::string object =
        entry.object == nullptr
            ? ""
            : fmt::format("{:x}", reinterpret_cast<std::uintptr_t>(entry.object));
    fmt::print("  {:>6} {:>6}  {:<9} {:<14} {}\n", entry.step, entry.thread, name_of(entry.kind),
               object, location);
}

/// Of each part of the schedule in which one thread runs, the first and last events, those that the
/// threads' order does not explain, and those with the object of the schedule's last event.
void print_events(const recording &shared) {
    constexpr std::size_t FIRST = 2, LAST = 4;
    const std::span events(shared.events.data(), shared.num_events);
    std::set<const void *> addrs;
    for (const event &entry : events)
        addrs.insert(entry.pc);
    const auto locations = find_locations(addrs);
    fmt::print("  {:>6} {:>6}  {:<9} {:<14} {}\n", "STEP", "THREAD", "DOES", "WITH", "WHERE");
    for (std::size_t begin = 0; begin < events.size();) {
        std::size_t end = begin, num_omitted = 0;
        while (end < events.size() && events[end].thread == events[begin].thread)
            ++end;
        const bool is_long = end - begin > FIRST + LAST + 1;
        const auto is_shown = [&](std::size_t i) {
            const void *const object = events[i].object;
            return !is_long || i < begin + FIRST || i >= end - LAST ||
                   events[i].kind == action::LOAD_OLD ||
                   (object != nullptr && object == events.back().object);
        };
        for (std::size_t i = begin; i < end; ++i) {
            const event &entry = events[i];
            if (!is_shown(i)) {
                ++num_omitted;
                continue;
            }
            if (num_omitted != 0)
                fmt::print("  {:>6} {:>6}  ({} more)\n", "", "", num_omitted);
            num_omitted = 0;
            const auto location = locations.find(entry.pc);
            print_event(entry, location == locations.end() ? "?" : location->second);
        }
        begin = end;
    }
}

void print_race(const recording &shared) {
    if (!shared.race)
        return;
    const auto [first, second] = *shared.race;
    const auto locations = find_locations({first.pc, second.pc});
    for (const data_race::side &each : {first, second}) {
        const bool is_write =
            each.kind == access_kind::WRITE || each.kind == access_kind::ATOMIC_WRITE;
        const auto location = locations.find(each.pc);
        fmt::print("  thread {} {}: {}\n", each.thread, is_write ? "writes" : "reads",
                   location == locations.end() ? "?" : location->second);
    }
}

void print_stacks(const recording &shared) {
    const std::span stacks(shared.stacks.data(), shared.num_stacks);
    std::set<const void *> addrs;
    for (const stack &entry : stacks)
        addrs.insert(entry.frames.begin(), entry.frames.begin() + entry.num_frames);
    const auto locations = find_locations(addrs);
    for (const stack &entry : stacks) {
        fmt::print("  thread {} {}\n", entry.thread, entry.state);
        for (std::size_t i = 0; i < entry.num_frames; ++i)
            if (const auto location = locations.find(entry.frames[i]); location != locations.end())
                fmt::print("    {}\n", location->second);
    }
}

void print_failure(const program &tested, const std::string &failure, const options &opts,
                   const char *argv0, recording &shared) {
    const std::uint64_t seed = shared.seed;
    const std::uint64_t num_steps = shared.num_steps;
    const std::vector<decision> all(shared.decisions.begin(),
                                    shared.decisions.begin() +
                                        static_cast<std::ptrdiff_t>(shared.num_decisions));
    fmt::print("FAILED {}: {}\n", tested.name, failure);
    fmt::print("  seed {}, {} steps, {} decisions\n", seed, num_steps, all.size());
    std::fflush(stdout);
    if (failure == BLOCKED) // each attempt to leave out a decision would take a minute
        return;
    shared.records_events = true;
    const std::vector<decision> needed = shorten(tested, all, failure, opts, shared);
    if (replay(tested, needed, opts, shared) != failure) {
        fmt::print("  The program does something else when it is run again: it does not depend on "
                   "the schedule alone.\n");
        return;
    }
    fmt::print("  the same with {} decisions{}", needed.size(), needed.empty() ? "" : ", at step");
    for (const decision &each : needed)
        fmt::print(" {}", each.step);
    fmt::print("\n");
    print_events(shared);
    print_race(shared);
    print_stacks(shared);
    fmt::print("  again: {} --program {}{} --replay {}\n", argv0, tested.name,
               opts.has_late_stores ? " --late-stores" : "", seed);
}

/// Returns false after a failure.
bool run_program(const program &tested, const options &opts, const char *argv0, recording &shared) {
    // PCT needs the length of a schedule: that of the one without a decision, always the same.
    std::string failure = replay(tested, {}, opts, shared);
    const std::uint64_t num_steps = shared.num_steps;
    if (failure.empty())
        failure = run_in_child(tested, shared, [&] {
            shared.num_schedules = 0;
            for (std::uint64_t i = 0; i < opts.num_schedules; ++i)
                run_schedule(tested.run, config_for(opts, opts.first_seed + i, num_steps), shared);
        });
    if (!failure.empty()) {
        print_failure(tested, failure, opts, argv0, shared);
        return false;
    }
    fmt::print("ok     {}: {} schedules of about {} steps\n", tested.name, shared.num_schedules,
               num_steps);
    return true;
}

[[noreturn]] void print_usage(const char *argv0, int status) {
    fmt::print(status == 0 ? stdout : stderr,
               "Usage: {} [--schedules N] [--seed N] [--program NAME] [--late-stores]\n"
               "       {} --program NAME [--late-stores] --replay SEED\n"
               "Runs each program in N schedules (1000), beginning with that of a seed (1), and\n"
               "prints the first that fails. With --late-stores a load may return an older value,\n"
               "as C++ permits, and it is a failure if nothing orders two accesses to memory.\n",
               argv0, argv0);
    std::exit(status);
}

std::uint64_t parse_number(const char *text, const char *argv0) {
    char *end = nullptr;
    errno = 0;
    const std::uint64_t number = std::strtoull(text, &end, 10);
    if (errno != 0 || *text < '0' || *text > '9' || *end != '\0') {
        fmt::print(stderr, "{}: '{}' is not a number\n", argv0, text);
        print_usage(argv0, EXIT_USAGE);
    }
    return number;
}

options parse(int argc, char **argv) {
    options opts;
    constexpr option LONG_OPTIONS[] = {{"schedules", required_argument, nullptr, 'n'},
                                       {"seed", required_argument, nullptr, 's'},
                                       {"program", required_argument, nullptr, 'p'},
                                       {"replay", required_argument, nullptr, 'r'},
                                       {"late-stores", no_argument, nullptr, 'l'},
                                       {"help", no_argument, nullptr, 'h'},
                                       {nullptr, 0, nullptr, 0}};
    for (int c; (c = getopt_long(argc, argv, "", LONG_OPTIONS, nullptr)) != -1;) {
        switch (c) {
        case 'n':
            opts.num_schedules = parse_number(optarg, argv[0]);
            break;
        case 'r':
            opts.num_schedules = 1;
            [[fallthrough]];
        case 's':
            opts.first_seed = parse_number(optarg, argv[0]);
            break;
        case 'p':
            opts.program = optarg;
            break;
        case 'l':
            opts.has_late_stores = true;
            break;
        default:
            print_usage(argv[0], c == 'h' ? 0 : EXIT_USAGE);
        }
    }
    if (optind != argc)
        print_usage(argv[0], EXIT_USAGE);
    return opts;
}

} // namespace

int run_programs(int argc, char **argv, std::span<const program> programs) {
    const options opts = parse(argc, argv);
    // What is allocated and freed is overwritten, so that its use fails.
    constexpr int PATTERN = 0xa5;
    mallopt(M_PERTURB, PATTERN);
    recording &shared = *map_recording();
    bool is_known = false, failed = false;
    for (const program &each : programs) {
        if (!opts.program.empty() && opts.program != each.name)
            continue;
        is_known = true;
        failed = !run_program(each, opts, argv[0], shared) || failed;
    }
    if (!is_known) {
        fmt::print(stderr, "{}: no program '{}'; there are:", argv[0], opts.program);
        for (const program &each : programs)
            fmt::print(stderr, " {}", each.name);
        fmt::print(stderr, "\n");
        return EXIT_USAGE;
    }
    return failed ? 1 : 0;
}

} // namespace schedule

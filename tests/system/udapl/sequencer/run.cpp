// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "run.hpp"

#include "steps/steps.hpp"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <netinet/in.h>
#include <thread>
#include <unistd.h>
#include <vector>

// Of the sanitizers, which report a fault before they end the process.
extern "C" [[gnu::weak]] void __sanitizer_set_death_callback(void (*callback)());

namespace sequencer {

namespace {

constexpr unsigned long calls_per_round = 2000; ///< of each thread
constexpr int exit_skipped = 77;                ///< the IA cannot be opened
constexpr std::chrono::seconds max_call_time{60};
constexpr unsigned percent_busy = 20; ///< steps with objects that other threads use

std::vector<step> all_steps() {
    std::vector<step> all;
    for (const auto &steps :
         {ia_steps(), evd_steps(), cno_steps(), memory_steps(), srq_steps(), ep_steps(),
          post_steps(), connect_steps(), sp_steps(), cr_steps(), datagram_steps(), race_steps()})
        all.insert(all.end(), steps.begin(), steps.end());
    return all;
}

/// The program's threads, for the report of a failure.
std::deque<worker> *reported_workers = nullptr;
const settings *reported_settings = nullptr;

void print_report() {
    static std::atomic_flag printed = ATOMIC_FLAG_INIT;
    if (printed.test_and_set() || reported_workers == nullptr)
        return;
    call_ring::freeze();
    for (const worker &thread : *reported_workers)
        thread.ring.print(thread.index);
    std::fprintf(stderr, "sequencer: seed %llu, %u threads; the same again: %s\n",
                 static_cast<unsigned long long>(reported_settings->seed),
                 reported_settings->num_threads, reported_settings->command.c_str());
}

void handle_signal(int number) {
    std::fprintf(stderr, "sequencer: %s\n", strsignal(number));
    print_report();
    std::signal(number, SIG_DFL);
    raise(number); // ends the process by this signal
}

/// A fault or abort prints the report before it ends the process.
void report_faults() {
    std::signal(SIGABRT, handle_signal);
    if (__sanitizer_set_death_callback != nullptr)
        return __sanitizer_set_death_callback(print_report);
    for (const int number : {SIGSEGV, SIGBUS, SIGILL, SIGFPE})
        std::signal(number, handle_signal);
}

/// Ends the process if a call takes too long.
class watchdog {
  public:
    explicit watchdog(const std::deque<worker> &workers)
        : thread_([this, &workers] {
            while (!stopped_) {
                for (const worker &thread : workers)
                    if (thread.ring.age() > max_call_time)
                        fail("thread " + std::to_string(thread.index) + " hangs in " +
                             thread.ring.current_call());
                std::this_thread::sleep_for(std::chrono::milliseconds(50));
            }
        }) {}
    ~watchdog() {
        stopped_ = true;
        thread_.join();
    }
    watchdog(const watchdog &) = delete;
    watchdog &operator=(const watchdog &) = delete;

  private:
    std::atomic<bool> stopped_ = false;
    std::thread thread_;
};

class sequence {
  public:
    explicit sequence(const settings &config)
        : shared_(config)
        , steps_(all_steps()) {
        for (const step &entry : steps_)
            total_weight_ += entry.weight;
        for (unsigned index = 0; index != config.num_threads; ++index) {
            workers_.emplace_back(shared_, index);
            shared_.step_numbers.emplace_back(0);
        }
        reported_workers = &workers_;
        reported_settings = &config;
    }

    std::deque<worker> &workers() { return workers_; }

    /// False: no IA can be opened.
    bool run_round(unsigned long calls) {
        if (!open_main_ia())
            return false;
        std::vector<std::thread> threads;
        for (worker &thread : workers_)
            threads.emplace_back([this, &thread, calls] { run_steps(thread, calls); });
        for (std::thread &thread : threads)
            thread.join();
        close_all();
        return true;
    }

  private:
    /// Opens the IA that is open during the whole round. False: that fails.
    bool open_main_ia() {
        worker &thread = workers_.front();
        object *const ia = open_ia(thread);
        if (ia == nullptr)
            return false;
        call query_call(thread, rules::ia_query);
        query_call.check_result(dat_ia_query(query_call.use_handle({ia, ia->handle}, "ia"), nullptr,
                                             DAT_IA_FIELD_ALL, &shared_.ia_attr, 0, nullptr));
        const sockaddr *const address = shared_.ia_attr.ia_address_ptr;
        std::memcpy(&shared_.address, address,
                    address->sa_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in));
        shared_.main_ia = ia;
        create_datagram_objects(thread);
        return thread.insert_unless_full(*ia);
    }

    const step &draw_step(random_source &random) const {
        unsigned number = random.number_below(total_weight_);
        auto it = steps_.begin();
        for (; number >= it->weight; ++it)
            number -= it->weight;
        return *it;
    }

    /// A random step; in percent_busy of 100 cases the one that another thread does at this moment,
    /// and with objects that calls in progress use.
    const step &choose_step(worker &thread) {
        thread.prefers_busy_objects = thread.random.percent_chance(percent_busy);
        const worker &other = workers_.at(thread.random.number_below(workers_.size()));
        const step *const same = other.current_step.load(std::memory_order_relaxed);
        return thread.prefers_busy_objects && same != nullptr ? *same : draw_step(thread.random);
    }

    /// In the thread of the worker, until it has made so many more calls. The step number is odd
    /// during a step.
    void run_steps(worker &thread, unsigned long calls) {
        std::atomic<std::uint64_t> &step_number = shared_.step_numbers.at(thread.index);
        const unsigned long end = thread.num_calls + calls;
        while (thread.num_calls < end) {
            step_number.fetch_add(1, std::memory_order_acq_rel);
            if (!join_race(thread)) { // else that was the step
                const step &next = choose_step(thread);
                thread.current_step.store(&next, std::memory_order_relaxed);
                next.run(thread);
                thread.current_step.store(nullptr, std::memory_order_relaxed);
            }
            step_number.fetch_add(1, std::memory_order_acq_rel);
        }
    }

    /// No other thread runs.
    void close_all() {
        worker &thread = workers_.front();
        free_all_and_close_ias(thread);
        thread.table.clear();
        for (worker &each : workers_)
            each.objects.clear();
    }

    shared_state shared_;
    std::deque<worker> workers_;
    std::vector<step> steps_;
    unsigned total_weight_ = 0;
};

void print_statistics(const std::deque<worker> &workers) {
    std::map<std::string, worker::result_counts> sums;
    for (const worker &thread : workers)
        for (const auto &[name, counts] : thread.statistics) {
            sums[name].total += counts.total;
            sums[name].successes += counts.successes;
            sums[name].invalid_handles += counts.invalid_handles;
            sums[name].on_busy_object += counts.on_busy_object;
        }
    for (const auto &[name, counts] : sums)
        std::printf("%-34s %8lu calls %8lu successes %8lu invalid handles %8lu on a busy object\n",
                    name.c_str(), counts.total, counts.successes, counts.invalid_handles,
                    counts.on_busy_object);
}

} // namespace

void fail(const std::string &message) {
    static std::atomic_flag failed = ATOMIC_FLAG_INIT;
    while (failed.test_and_set())
        usleep(100000); // another thread reports its failure
    print_report();
    std::fprintf(stderr, "sequencer: %s\n", message.c_str());
    _exit(1);
}

int run(const settings &config, const round_hooks &hooks) {
    sequence calls(config);
    report_faults();
    const watchdog hang_watchdog(calls.workers());
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(config.seconds);
    unsigned long num_left = config.calls;
    while (config.calls != 0 ? num_left != 0 : std::chrono::steady_clock::now() < end) {
        const unsigned long count =
            config.calls != 0 ? std::min(num_left, calls_per_round) : calls_per_round;
        hooks.begin();
        if (!calls.run_round(count))
            return exit_skipped;
        hooks.end();
        num_left -= config.calls != 0 ? count : 0;
    }
    if (config.print_statistics)
        print_statistics(calls.workers());
    reported_workers = nullptr;
    return 0;
}

} // namespace sequencer

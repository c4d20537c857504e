// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Findings are reported in their order, and while the cache is not locked: a report loads symbols,
// and may wait for the reader of stderr.

#include "cache_fixture.hpp"
#include "core/findings/reporting_mutex.hpp"

#include <atomic>
#include <csignal>
#include <thread>

using namespace emulation_test;

namespace {

/// The state of a thread of this process: 'R', 'S', ...
char state_of_thread(long tid) {
    const std::string text = read_file("/proc/self/task/" + std::to_string(tid) + "/stat");
    const std::size_t end = text.rfind(')');
    return end != std::string::npos && end + 2 < text.size() ? text[end + 2] : '?';
}

/// stderr is a pipe without room, until drain().
class full_stderr {
  public:
    full_stderr()
        : former_(dup(STDERR_FILENO)) {
        assert_int_equal(pipe2(ends_, O_NONBLOCK | O_CLOEXEC), 0);
        const std::vector<char> filler(4096);
        while (write(ends_[1], filler.data(), filler.size()) > 0) {
        }
        fcntl(ends_[0], F_SETFL, 0);
        fcntl(ends_[1], F_SETFL, 0);
        dup2(ends_[1], STDERR_FILENO);
        close(ends_[1]);
    }
    void drain() const { // until the last write to it has ended
        dup2(former_, STDERR_FILENO);
        close(former_);
        std::vector<char> text(4096);
        while (read(ends_[0], text.data(), text.size()) > 0) {
        }
        close(ends_[0]);
    }

  private:
    int former_, ends_[2];
};

void report_does_not_block_other_threads(void **) {
    settings config;
    config.mode = cache_mode::STALE;
    finding_log log(config);
    cache_model cache(config, log);
    const program_pages pages(1);
    memory_region mr;
    mr.range = pages.part(0, pages.size);
    std::vector<cache_model::page_mapping> mappings;
    assert_int_equal(cache.add_mr(mr, mappings), 0);
    const full_stderr blocked;
    std::atomic<long> tid = 0;
    std::thread reporting([&] {
        tid = gettid();
        pages.bytes[0] = CPU_DATA;
        cache.check_peer_rdma_read(pages.part(0, 1), {});
    });
    while (tid == 0 || state_of_thread(tid) != 'S') // it waits for room in the pipe
        sched_yield();
    const addr_range range = pages.part(64, 64);
    cache.sync_writeback(&range, 1);
    cache.check_peer_rdma_write(range, {});
    blocked.drain();
    reporting.join();
}

void findings_of_threads_are_reported_in_order(void **) {
    constexpr int NUM_THREADS = 4, NUM_FINDINGS = 100;
    const temp_file log_file, suppressions{"*\n"};
    settings config;
    config.log_file = log_file.name();
    config.suppressions_file = suppressions.name();
    config.max_reports = 1000000;
    finding_log log(config);
    reporting_mutex mutex(log);
    std::uintptr_t next = 0; // with the mutex
    const auto add_findings = [&] {
        for (int i = 0; i < NUM_FINDINGS; ++i) {
            const std::lock_guard guard(mutex);
            finding added;
            added.range = {next, next + 64};
            next += 64;
            mutex.add(added);
        }
    };
    std::vector<std::thread> threads;
    for (int i = 0; i < NUM_THREADS; ++i)
        threads.emplace_back(add_findings);
    for (std::thread &thread : threads)
        thread.join();
    std::uintptr_t expected = 0;
    for (const nlohmann::json &line : log_file.lines()) {
        assert_int_equal(std::stoul(line["begin"].get<std::string>(), nullptr, 16), expected);
        expected += 64;
    }
    assert_int_equal(expected, next);
}

volatile sig_atomic_t num_handled = 0;

/// A handler may call exit(), whose handler locks the mutex.
void signals_wait_until_it_is_unlocked(void **) {
    settings config;
    finding_log log(config);
    reporting_mutex mutex(log);
    std::signal(SIGUSR1, [](int) { num_handled = num_handled + 1; });
    mutex.lock();
    raise(SIGUSR1);
    assert_int_equal(num_handled, 0);
    mutex.unlock();
    assert_int_equal(num_handled, 1);
    raise(SIGUSR1);
    assert_int_equal(num_handled, 2);
    std::signal(SIGUSR1, SIG_DFL);
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(report_does_not_block_other_threads),
        cmocka_unit_test(findings_of_threads_are_reported_in_order),
        cmocka_unit_test(signals_wait_until_it_is_unlocked),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}

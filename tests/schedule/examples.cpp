// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Small programs, each with a fault that a schedule shows, or without one.

#include "memory_examples.hpp"
#include "schedule.hpp"

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <numeric>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <semaphore>
#include <shared_mutex>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace {

using namespace examples;
using namespace std::chrono_literals;

void lost_update() {
    std::atomic<int> counter = 0;
    const auto increment = [&] {
        counter.store(counter.load() + 1);
    };
    run_in_two_threads(increment);
    schedule::require(counter == 2, "an update is lost");
}

void lost_plain_update() {
    int counter = 0;
    const auto increment = [&] {
        ++counter;
    };
    run_in_two_threads(increment);
    schedule::require(counter == 2, "an update is lost");
}

void locked_update() {
    int counter = 0;
    std::mutex mutex;
    const auto increment = [&] {
        const std::lock_guard guard(mutex);
        ++counter;
    };
    run_in_two_threads(increment);
    schedule::require(counter == 2, "an update is lost");
}

void locks_in_two_orders() {
    std::mutex first, second;
    std::thread other([&] {
        const std::lock_guard outer(second);
        const std::lock_guard inner(first);
    });
    {
        const std::lock_guard outer(first);
        const std::lock_guard inner(second);
    }
    other.join();
}

void missed_wake() {
    std::mutex mutex;
    std::condition_variable changed;
    std::atomic<bool> is_ready = false;
    std::thread waiter([&] {
        if (!is_ready) {
            std::unique_lock lock(mutex);
            changed.wait(lock);
        }
    });
    is_ready = true; // between the waiter's look and its wait
    changed.notify_one();
    waiter.join();
}

// The other thread must go on between three steps of this one.
void reused_slot() {
    std::atomic<int> owner = 0, value = 0;
    std::thread user([&] {
        if (owner == 1) {
            const int seen = value;
            schedule::require(owner != 1 || seen == value, "the slot has changed under its owner");
        }
    });
    owner = 1;
    value = 1;
    owner = 2;
    value = 2;
    owner = 1;
    user.join();
}

void endless_loops() {
    std::atomic<bool> is_first_ready = false, is_second_ready = false;
    std::thread other([&] {
        while (!is_first_ready)
            std::this_thread::yield();
        is_second_ready = true;
    });
    while (!is_second_ready)
        std::this_thread::yield();
    is_first_ready = true;
    other.join();
}

void left_thread() {
    pthread_t thread;
    pthread_create(
        &thread, nullptr, [](void *) -> void * { return nullptr; }, nullptr);
}

/// In some schedules: others have run to their end by then.
void process_exits() {
    std::atomic<bool> is_set = false;
    std::thread other([&] { is_set = true; });
    if (is_set)
        std::exit(0);
    other.join();
}

void null_pointer() {
    std::atomic<int *> shared = nullptr;
    int value = 0;
    std::thread other([&] { shared = &value; });
    int *volatile seen = shared; // too early
    *seen = 1;
    other.join();
}

void sleeps() {
    using std::chrono::steady_clock;
    const auto begin = steady_clock::now();
    std::thread other([] { std::this_thread::sleep_for(std::chrono::hours(2)); });
    std::this_thread::sleep_for(std::chrono::hours(1));
    const auto middle = steady_clock::now();
    other.join();
    schedule::require(middle - begin >= std::chrono::hours(1), "woken too early");
    schedule::require(steady_clock::now() - begin >= std::chrono::hours(2), "woken too early");
    schedule::require(steady_clock::now() - begin < std::chrono::hours(4), "time ran on");
}

// -- functions of libc that wait: each in a right program, and in one with a fault.

/// Increments in two threads, each under a lock.
template <typename lock_function, typename unlock_function>
void update_under_lock(const lock_function &lock, const unlock_function &unlock) {
    int counter = 0;
    run_in_two_threads([&] {
        lock();
        ++counter;
        unlock();
    });
    schedule::require(counter == 2, "an update is lost");
}

void shared_lock_tried() {
    std::shared_timed_mutex mutex;
    const auto lock = [&] {
        while (!mutex.try_lock() && !mutex.try_lock_for(1s)) {
        }
    };
    update_under_lock(lock, [&] { mutex.unlock(); });
    run_in_two_threads([&] {
        if (mutex.try_lock_shared() || mutex.try_lock_shared_for(1s))
            mutex.unlock_shared();
    });
}

void update_under_shared_lock() {
    std::shared_mutex mutex;
    const auto lock = [&] {
        schedule::require(mutex.try_lock_shared(), "readers shut each other out");
    };
    update_under_lock(lock, [&] { mutex.unlock_shared(); });
}

void timed_lock() {
    std::timed_mutex mutex;
    const auto lock = [&] {
        while (!mutex.try_lock_for(1s)) {
        }
    };
    update_under_lock(lock, [&] { mutex.unlock(); });
}

void timed_lock_not_looked_at() {
    std::timed_mutex mutex;
    int counter = 0;
    run_in_two_threads([&] {
        const bool is_locked = mutex.try_lock_for(1s);
        ++counter;
        std::this_thread::sleep_for(2s);
        schedule::require(is_locked, "a time limit has passed");
        mutex.unlock();
    });
}

void update_under_semaphore(unsigned value) {
    sem_t semaphore;
    sem_init(&semaphore, 0, value);
    const auto lock = [&] {
        if (sem_trywait(&semaphore) != 0)
            sem_wait(&semaphore);
    };
    update_under_lock(lock, [&] { sem_post(&semaphore); });
    constexpr timespec DEADLINE = {.tv_sec = 3600, .tv_nsec = 0};
    while (sem_timedwait(&semaphore, &DEADLINE) == 0) {
    }
    schedule::require(errno == ETIMEDOUT, "a semaphore of 0 fails otherwise than by its deadline");
    sem_destroy(&semaphore);
}
void semaphore_of_1() {
    update_under_semaphore(1);
}
void semaphore_of_2() {
    update_under_semaphore(2);
}

void called_once() {
    std::once_flag flag;
    std::atomic<int> value = 0;
    run_in_two_threads([&] {
        std::call_once(flag, [&] {
            std::this_thread::yield();
            ++value;
        });
        schedule::require(value == 1, "used before it is initialized");
    });
}

/// In the first schedule of the process alone.
void static_variable() {
    run_in_two_threads([] {
        static const int value = [] {
            std::this_thread::yield();
            return 1;
        }();
        schedule::require(value == 1, "used before it is initialized");
    });
}

void called_once_if_not_begun() {
    std::once_flag flag;
    std::atomic<bool> has_begun = false;
    std::atomic<int> value = 0;
    run_in_two_threads([&] {
        if (!has_begun)
            std::call_once(flag, [&] {
                has_begun = true;
                value = 1;
            });
        schedule::require(value == 1, "used before it is initialized");
    });
}

void meet_at_barrier(unsigned num_threads) {
    pthread_barrier_t barrier;
    pthread_barrier_init(&barrier, nullptr, num_threads);
    std::atomic<int> num_ready = 0, num_serial = 0;
    run_in_two_threads([&] {
        for (int round = 1; round <= 2; ++round) {
            ++num_ready;
            num_serial += pthread_barrier_wait(&barrier) == PTHREAD_BARRIER_SERIAL_THREAD;
            schedule::require(num_ready >= 2 * round, "a thread goes on before the others come");
        }
    });
    schedule::require(num_serial == 2, "not one thread of a round is the last");
    pthread_barrier_destroy(&barrier);
}
void barrier_of_2() {
    meet_at_barrier(2);
}
void barrier_of_1() {
    meet_at_barrier(1);
}

void sleeps_in_all_ways() {
    const auto begin = std::chrono::steady_clock::now();
    run_in_two_threads([] {
        sleep(3600);
        usleep(1'000'000);
        poll(nullptr, 0, 1000);
        constexpr timespec SECOND = {.tv_sec = 1, .tv_nsec = 0};
        ppoll(nullptr, 0, &SECOND, nullptr);
    });
    schedule::require(std::chrono::steady_clock::now() - begin >= 3603s, "woken too early");
}

/// One thread writes to a pipe, the other waits for that.
void poll_pipe(int timeout_ms) {
    std::array<int, 2> fds;
    schedule::require(pipe(fds.data()) == 0, "no pipe");
    std::thread writer([&] { schedule::require(write(fds[1], "", 1) == 1, "no byte written"); });
    pollfd polled{.fd = fds[0], .events = POLLIN, .revents = 0};
    schedule::require(poll(&polled, 1, timeout_ms) == 1, "nothing to read");
    writer.join();
    close(fds[0]);
    close(fds[1]);
}
void pipe_waited_for() {
    poll_pipe(-1);
}
void pipe_looked_at() {
    poll_pipe(0);
}

/// One thread raises an event, the other waits for that at an epoll instance.
void wait_for_event_fd(bool is_raised) {
    const int event_fd = eventfd(0, EFD_NONBLOCK), epoll_fd = epoll_create1(0);
    epoll_event event{.events = EPOLLIN, .data = {.fd = event_fd}};
    std::thread raising([&] {
        if (is_raised)
            eventfd_write(event_fd, 1);
    });
    epoll_ctl(epoll_fd, EPOLL_CTL_ADD, event_fd, &event);
    schedule::require(epoll_wait(epoll_fd, &event, 1, -1) == 1, "woken too early");
    raising.join();
    eventfd_t value = 0;
    schedule::require(eventfd_read(event_fd, &value) == 0 && value == 1, "nothing to read");
    close(epoll_fd);
    close(event_fd);
}
void event_waited_for() {
    wait_for_event_fd(true);
}
void event_not_raised() {
    wait_for_event_fd(false);
}

/// A thread that is not joined ends in the schedule.
void detached_thread() {
    std::thread([lock = std::make_shared<std::mutex>()] {
        const std::lock_guard guard(*lock);
    }).detach();
}
void detached_thread_waits() {
    std::thread([] {
        std::counting_semaphore<> semaphore(0);
        semaphore.acquire();
    }).detach();
}

void atomic_wait() {
    std::atomic<int> value = 0;
    std::counting_semaphore<> semaphore(0);
    std::thread other([&] {
        value = 1;
        value.notify_one();
        while (!semaphore.try_acquire_for(1s)) {
        }
    });
    value.wait(0);
    semaphore.release();
    other.join();
}

void atomic_wait_without_notify() {
    std::atomic<int> value = 0;
    std::thread other([&] {
        std::this_thread::sleep_for(1s);
        value = 1;
    });
    value.wait(0);
    other.join();
}

void leave_thread(bool unlocks) {
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    const auto leave = [](void *is_unlocked) -> void * {
        pthread_mutex_lock(&mutex);
        if (is_unlocked != nullptr)
            pthread_mutex_unlock(&mutex);
        pthread_exit(&mutex);
    };
    pthread_t thread;
    void *result = nullptr;
    pthread_create(&thread, nullptr, leave, unlocks ? &mutex : nullptr);
    pthread_mutex_lock(&mutex);
    pthread_mutex_unlock(&mutex);
    pthread_join(thread, &result);
    schedule::require(result == &mutex, "the result is lost");
}
void thread_exit() {
    leave_thread(true);
}
void thread_exit_with_lock() {
    leave_thread(false);
}

// -- loops that wait.

/// One thread works for a second, the other yields until the time that it gives it.
void yield_until(std::chrono::seconds limit) {
    using std::chrono::steady_clock;
    std::atomic<bool> is_ready = false;
    std::thread other([&] {
        std::this_thread::sleep_for(1s);
        is_ready = true;
    });
    const auto deadline = steady_clock::now() + limit;
    while (!is_ready && (limit == 0s || steady_clock::now() < deadline))
        std::this_thread::yield();
    schedule::require(is_ready, "the time was too short");
    other.join();
}
void yields_until_ready() {
    yield_until(0s);
}
void yields_for_a_second() {
    yield_until(1s);
}

void looks_at_time() {
    const auto deadline = std::chrono::steady_clock::now() + 1h;
    while (std::chrono::steady_clock::now() < deadline) {
    }
}

void spin_lock() {
    std::atomic<bool> is_locked = false;
    const auto lock = [&] {
        while (is_locked.exchange(true)) {
        }
    };
    update_under_lock(lock, [&] { is_locked = false; });
}

void spin_lock_not_atomic() {
    std::atomic<bool> is_locked = false;
    const auto lock = [&] {
        while (is_locked) {
        }
        is_locked = true;
    };
    update_under_lock(lock, [&] { is_locked = false; });
}

// -- what happens seldom: a wake-up without a reason, a compare-and-exchange that fails by itself,
// a time limit that passes while others run.

/// The other thread sets a flag, and wait() waits for it.
template <typename wait_function>
void wait_for_flag(const wait_function &wait) {
    std::mutex mutex;
    std::condition_variable changed;
    bool is_ready = false;
    std::thread other([&] {
        {
            const std::lock_guard guard(mutex);
            is_ready = true;
        }
        changed.notify_one();
    });
    {
        std::unique_lock lock(mutex);
        wait(changed, lock, is_ready);
        schedule::require(is_ready, "woken too early");
    }
    other.join();
}
void condition_in_loop() {
    wait_for_flag([](auto &changed, auto &lock, const bool &is_ready) {
        changed.wait(lock, [&] { return is_ready; });
    });
}
void condition_without_loop() {
    wait_for_flag([](auto &changed, auto &lock, const bool &is_ready) {
        if (!is_ready)
            changed.wait(lock);
    });
}
void condition_within_an_hour() {
    wait_for_flag([](auto &changed, auto &lock, const bool &is_ready) {
        changed.wait_for(lock, 1h, [&] { return is_ready; });
    });
}

void exchange_in_loop() {
    std::atomic<int> value = 0;
    run_in_two_threads([&] {
        int seen = value;
        while (!value.compare_exchange_weak(seen, seen + 1)) {
        }
    });
    schedule::require(value == 2, "an update is lost");
}

void exchange_without_loop() {
    std::atomic<bool> is_taken = false;
    std::atomic<int> num_owners = 0;
    run_in_two_threads([&] {
        bool expected = false;
        if (is_taken.compare_exchange_weak(expected, true))
            ++num_owners;
    });
    schedule::require(num_owners == 1, "all fail");
}

void sleep_instead_of_join() {
    std::atomic<int> value = 0;
    std::thread other([&] { value = 1; });
    std::this_thread::sleep_for(1h);
    schedule::require(value == 1, "the time was too short");
    other.join();
}

// -- functions of libc that write memory.

/// One thread reads a message while the other writes it, in one of two ways.
template <typename write_function>
void copy_message(bool is_locked, const write_function &write) {
    using message = std::array<int, 16>;
    const auto shared = std::make_unique<message>();
    std::mutex mutex;
    const auto lock = [&] {
        return is_locked ? std::unique_lock(mutex) : std::unique_lock<std::mutex>();
    };
    std::thread writer([&] {
        const auto guard = lock();
        write(shared->data(), sizeof(message));
    });
    message copy;
    {
        const auto guard = lock();
        std::memcpy(copy.data(), shared->data(), sizeof copy);
    }
    schedule::require(copy.front() == copy.back(), "a half of the message is read");
    writer.join();
}
void write_ones(int *message, std::size_t size) {
    std::memset(message, 1, size);
}
void move_ones(int *message, std::size_t size) {
    const std::vector<int> ones(size / sizeof(int), 1);
    std::memmove(message, ones.data(), size);
}
void message_locked() {
    copy_message(true, write_ones);
    copy_message(true, move_ones);
}
void message_set() {
    copy_message(false, write_ones);
}
void message_moved() {
    copy_message(false, move_ones);
}

void bytes_moved_up_and_down() {
    std::vector<int> numbers(20);
    std::iota(numbers.begin(), numbers.end(), 0);
    std::memmove(&numbers[3], &numbers[0], 10 * sizeof(int));
    std::memmove(&numbers[1], &numbers[4], 8 * sizeof(int));
    for (int i = 1; i < 9; ++i)
        schedule::require(numbers[static_cast<std::size_t>(i)] == i, "wrongly moved");
}

constexpr std::array PROGRAMS = {
    schedule::program{"lost_update", lost_update},
    schedule::program{"lost_plain_update", lost_plain_update},
    schedule::program{"locked_update", locked_update},
    schedule::program{"locks_in_two_orders", locks_in_two_orders},
    schedule::program{"missed_wake", missed_wake},
    schedule::program{"reused_slot", reused_slot},
    schedule::program{"endless_loops", endless_loops},
    schedule::program{"left_thread", left_thread},
    schedule::program{"process_exits", process_exits},
    schedule::program{"null_pointer", null_pointer},
    schedule::program{"sleeps", sleeps},
    schedule::program{"shared_lock_tried", shared_lock_tried},
    schedule::program{"update_under_shared_lock", update_under_shared_lock},
    schedule::program{"timed_lock", timed_lock},
    schedule::program{"timed_lock_not_looked_at", timed_lock_not_looked_at},
    schedule::program{"semaphore_of_1", semaphore_of_1},
    schedule::program{"semaphore_of_2", semaphore_of_2},
    schedule::program{"called_once", called_once},
    schedule::program{"static_variable", static_variable},
    schedule::program{"called_once_if_not_begun", called_once_if_not_begun},
    schedule::program{"barrier_of_2", barrier_of_2},
    schedule::program{"barrier_of_1", barrier_of_1},
    schedule::program{"sleeps_in_all_ways", sleeps_in_all_ways},
    schedule::program{"pipe_waited_for", pipe_waited_for},
    schedule::program{"pipe_looked_at", pipe_looked_at},
    schedule::program{"event_waited_for", event_waited_for},
    schedule::program{"event_not_raised", event_not_raised},
    schedule::program{"detached_thread", detached_thread},
    schedule::program{"detached_thread_waits", detached_thread_waits},
    schedule::program{"atomic_wait", atomic_wait},
    schedule::program{"atomic_wait_without_notify", atomic_wait_without_notify},
    schedule::program{"thread_exit", thread_exit},
    schedule::program{"thread_exit_with_lock", thread_exit_with_lock},
    schedule::program{"yields_until_ready", yields_until_ready},
    schedule::program{"yields_for_a_second", yields_for_a_second},
    schedule::program{"looks_at_time", looks_at_time},
    schedule::program{"spin_lock", spin_lock},
    schedule::program{"spin_lock_not_atomic", spin_lock_not_atomic},
    schedule::program{"condition_in_loop", condition_in_loop},
    schedule::program{"condition_without_loop", condition_without_loop},
    schedule::program{"condition_within_an_hour", condition_within_an_hour},
    schedule::program{"exchange_in_loop", exchange_in_loop},
    schedule::program{"exchange_without_loop", exchange_without_loop},
    schedule::program{"sleep_instead_of_join", sleep_instead_of_join},
    schedule::program{"message_locked", message_locked},
    schedule::program{"message_set", message_set},
    schedule::program{"message_moved", message_moved},
    schedule::program{"bytes_moved_up_and_down", bytes_moved_up_and_down},
    schedule::program{"message_released", message_released},
    schedule::program{"message_not_released", message_not_released},
    schedule::program{"message_not_acquired", message_not_acquired},
    schedule::program{"relaxed_counter_is_late", relaxed_counter_is_late},
    schedule::program{"no_load_returns_to_an_older_store", no_load_returns_to_an_older_store},
    schedule::program{"flags_seq_cst", flags_seq_cst},
    schedule::program{"flags_without_fence", flags_without_fence},
    schedule::program{"flags_with_weak_fence", flags_with_weak_fence},
    schedule::program{"flags_stored_seq_cst_only", flags_stored_seq_cst_only},
    schedule::program{"flag_exchanged_twice", flag_exchanged_twice},
    schedule::program{"flag_stored_twice", flag_stored_twice},
    schedule::program{"stores_in_one_order", stores_in_one_order},
    schedule::program{"stores_in_two_orders", stores_in_two_orders},
    schedule::program{"memory_used_again", memory_used_again},
    schedule::program{"neighbour_of_flag_written", neighbour_of_flag_written},
    schedule::program{"neighbour_of_late_flag_written", neighbour_of_late_flag_written},
    schedule::program{"half_of_word_released", half_of_word_released},
    schedule::program{"stack_used_again", stack_used_again},
    schedule::program{"thread_local_memory_used_again", thread_local_memory_used_again},
    schedule::program{"update_at_end_of_thread_lost", update_at_end_of_thread_lost},
    schedule::program{"static_variable_of_some_schedules", static_variable_of_some_schedules},
    schedule::program{"exchange_fails_with_old_value", exchange_fails_with_old_value},
    schedule::program{"exchange_that_fails_loads", exchange_that_fails_loads},
    schedule::program{"writer_after_reader", writer_after_reader},
    schedule::program{"reader_after_reader", reader_after_reader},
};

} // namespace

int main(int argc, char **argv) {
    return schedule::run_programs(argc, argv, PROGRAMS);
}

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Small programs with stores that are seen late, and memory that nothing orders.

#include "memory_examples.hpp"

#include "schedule.hpp"

#include <array>
#include <atomic>
#include <cstring>
#include <memory>
#include <mutex>
#include <numeric>
#include <shared_mutex>
#include <thread>
#include <vector>

namespace examples {

/// One thread writes a message and sets a flag; the other reads it if the flag is set.
template <typename publish_function, typename look_function>
void pass_message(const publish_function &publish, const look_function &look) {
    const auto message = std::make_unique<int>(0);
    std::atomic<bool> is_ready = false;
    std::thread writer([&] {
        *message = 1;
        publish(is_ready);
    });
    if (look(is_ready))
        schedule::require(*message == 1, "the message is read before it is written");
    writer.join();
}
static void publish_with_release(std::atomic<bool> &is_ready) {
    is_ready.store(true, std::memory_order_release);
}
static bool look_with_acquire(const std::atomic<bool> &is_ready) {
    return is_ready.load(std::memory_order_acquire);
}
static void publish_relaxed(std::atomic<bool> &is_ready) {
    is_ready.store(true, std::memory_order_relaxed);
}
static bool look_relaxed(const std::atomic<bool> &is_ready) {
    return is_ready.load(std::memory_order_relaxed);
}
void message_released() {
    pass_message(publish_with_release, look_with_acquire);
    pass_message(
        [](std::atomic<bool> &is_ready) {
            std::atomic_thread_fence(std::memory_order_release);
            publish_relaxed(is_ready);
        },
        [](const std::atomic<bool> &is_ready) {
            if (!look_relaxed(is_ready))
                return false;
            std::atomic_thread_fence(std::memory_order_acquire);
            return true;
        });
}
void message_not_released() {
    pass_message(publish_relaxed, look_with_acquire);
}
void message_not_acquired() {
    pass_message(publish_with_release, look_relaxed);
}

/// Two messages and flags that are all atomic.
void relaxed_counter_is_late() {
    std::atomic<int> value = 0, copy = 0;
    std::thread writer([&] {
        value.store(1, std::memory_order_relaxed);
        copy.store(1, std::memory_order_relaxed);
    });
    const bool is_copied = copy.load(std::memory_order_relaxed) == 1;
    schedule::require(!is_copied || value.load(std::memory_order_relaxed) == 1, "an old value");
    writer.join();
}
void no_load_returns_to_an_older_store() {
    std::atomic<int> value = 0;
    std::thread writer([&] {
        for (int i = 1; i <= 3; ++i)
            value.store(i, std::memory_order_relaxed);
    });
    const int seen = value.load(std::memory_order_relaxed);
    schedule::require(value.load(std::memory_order_relaxed) >= seen, "an older value");
    writer.join();
    schedule::require(value.load(std::memory_order_relaxed) == 3, "an old value");
}

/// Each of two threads sets its flag, then looks at the other's. At least one finds it.
template <typename order_function>
void set_flag_then_look(std::memory_order store_order, std::memory_order load_order,
                        const order_function &order) {
    std::array<std::atomic<bool>, 2> flags{};
    std::atomic<int> num_seen = 0;
    const auto run = [&](std::size_t number) {
        flags[number].store(true, store_order);
        order();
        num_seen += flags[1 - number].load(load_order);
    };
    std::thread other(run, 1);
    run(0);
    other.join();
    schedule::require(num_seen != 0, "no thread has seen the other's flag");
}
void flags_seq_cst() {
    set_flag_then_look(std::memory_order_seq_cst, std::memory_order_seq_cst, [] {});
    set_flag_then_look(std::memory_order_relaxed, std::memory_order_relaxed,
                       [] { std::atomic_thread_fence(std::memory_order_seq_cst); });
}
void flags_without_fence() {
    set_flag_then_look(std::memory_order_release, std::memory_order_acquire, [] {});
}
void flags_with_weak_fence() {
    set_flag_then_look(std::memory_order_relaxed, std::memory_order_relaxed,
                       [] { std::atomic_thread_fence(std::memory_order_acq_rel); });
}
void flags_stored_seq_cst_only() {
    set_flag_then_look(std::memory_order_seq_cst, std::memory_order_acquire, [] {});
}

/// A thread publishes a message, another one sets the same flag, a third one reads.
template <typename set_function>
void set_flag_twice(const set_function &set) {
    const auto message = std::make_unique<int>(0);
    std::atomic<int> flag = 0;
    std::thread writer([&] {
        *message = 1;
        set(flag, 1);
    });
    std::thread other([&] {
        if (flag.load(std::memory_order_relaxed) == 1)
            set(flag, 2);
    });
    if (flag.load(std::memory_order_acquire) == 2)
        schedule::require(*message == 1, "the message is read before it is written");
    writer.join();
    other.join();
}
void flag_exchanged_twice() {
    set_flag_twice(
        [](std::atomic<int> &flag, int value) { flag.exchange(value, std::memory_order_release); });
}
void flag_stored_twice() {
    set_flag_twice(
        [](std::atomic<int> &flag, int value) { flag.store(value, std::memory_order_release); });
}

/// Two threads see the stores of two others in different orders, unless all are seq_cst.
static void see_two_stores(std::memory_order load_order) {
    std::array<std::atomic<bool>, 2> values{};
    std::atomic<int> num_first_only = 0;
    const auto write = [&](std::size_t which) {
        values[which].store(true);
    };
    const auto read = [&](std::size_t first) {
        const bool has_first = values[first].load(load_order);
        num_first_only += has_first && !values[1 - first].load(load_order);
    };
    std::thread first_writer(write, 0), second_writer(write, 1), reader(read, 1);
    read(0);
    first_writer.join();
    second_writer.join();
    reader.join();
    schedule::require(num_first_only < 2, "two orders of two stores");
}
void stores_in_one_order() {
    see_two_stores(std::memory_order_seq_cst);
}
void stores_in_two_orders() {
    see_two_stores(std::memory_order_acquire);
}

/// What is freed is another object's next time, which may be another thread's.
void memory_used_again() {
    const auto use = [] {
        for (int i = 0; i < 2; ++i) {
            const std::vector<int> numbers(100, i);
            std::vector<int> grown = numbers;
            grown.push_back(std::accumulate(numbers.begin(), numbers.end(), 0));
        }
    };
    std::thread first(use);
    first.join();
    std::thread second(use), third(use);
    second.join();
    third.join();
}

/// An object beside the flag that is not atomic, and is written after it.
void neighbour_of_flag_written() {
    struct flag_and_count {
        std::atomic<int> flag = 0;
        int count = 0;
    };
    const auto shared = std::make_unique<flag_and_count>();
    const auto message = std::make_unique<int>(0);
    std::thread writer([&] {
        *message = 1;
        shared->flag.store(1, std::memory_order_release);
        shared->count = 1;
    });
    if (shared->flag.load(std::memory_order_acquire) == 1)
        schedule::require(*message == 1, "the message is read before it is written");
    writer.join();
}
void neighbour_of_late_flag_written() {
    const auto words = std::make_unique<std::array<int, 2>>();
    const std::atomic_ref flag((*words)[0]);
    std::atomic<bool> is_set = false;
    std::thread writer([&] {
        flag.store(1, std::memory_order_relaxed);
        (*words)[1] = 1;
        is_set.store(true, std::memory_order_relaxed);
    });
    if (is_set.load(std::memory_order_relaxed))
        schedule::require(flag.load(std::memory_order_relaxed) == 1, "an old value");
    writer.join();
}

/// A flag is a half of a word, and the word is loaded.
void half_of_word_released() {
    union word {
        std::uint64_t all;
        std::array<std::uint32_t, 2> halves;
    };
    const auto shared = std::make_unique<word>(word{.all = 0});
    const auto message = std::make_unique<int>(0);
    std::thread writer([&] {
        *message = 1;
        __atomic_store_n(&shared->halves[1], 1U, __ATOMIC_RELEASE);
    });
    const bool is_set = __atomic_load_n(&shared->all, __ATOMIC_ACQUIRE) != 0;
    if (is_set)
        schedule::require(*message == 1, "the message is read before it is written");
    schedule::require(!is_set || __atomic_load_n(&shared->halves[1], __ATOMIC_RELAXED) == 1,
                      "an older value");
    writer.join();
}

/// A thread has the stack of one that has ended, and nothing orders the two.
void stack_used_again() {
    const auto run_in_new_thread = [] {
        std::thread([] {
            std::atomic<int> value = 0;
            std::array<int, 8> numbers{};
            const std::atomic<int *> shared = numbers.data();
            *shared.load() = ++value;
        }).join();
    };
    run_in_two_threads(run_in_new_thread);
}

/// Each thread frees memory at its end.
struct memory_of_thread {
    std::unique_ptr<int> number;
};
thread_local memory_of_thread freed_at_end;
void thread_local_memory_used_again() {
    run_in_two_threads([] {
        std::thread([] { freed_at_end.number = std::make_unique<int>(1); }).join();
        const auto number = std::make_unique<int>(2);
        ++*number;
    });
}

/// A thread's last update is made by the destructor of its thread_local object.
struct update_at_end {
    std::atomic<int> *counter = nullptr;
    ~update_at_end() {
        if (counter != nullptr)
            counter->store(counter->load() + 1);
    }
};
thread_local update_at_end last_update;
void update_at_end_of_thread_lost() {
    std::atomic<int> counter = 0;
    const auto run = [&] {
        last_update.counter = &counter;
    };
    std::thread first(run), second(run);
    first.join();
    second.join();
    schedule::require(counter == 2, "an update is lost");
}

/// Only in some schedules: the variable is initialized once in a process.
static int first_of_static_numbers() {
    struct numbers {
        numbers() { all.fill(1); }
        std::array<int, 4> all{};
    };
    static numbers initialized;
    return initialized.all.front();
}
void static_variable_of_some_schedules() {
    if (schedule::choose(2) != 0)
        run_in_two_threads(
            [] { schedule::require(first_of_static_numbers() == 1, "not initialized"); });
}

/// A compare-and-exchange that fails is a load, also of an older value, and does not write.
void exchange_fails_with_old_value() {
    std::atomic<int> value = 0;
    std::atomic<bool> is_set = false;
    std::thread writer([&] {
        value.store(1, std::memory_order_relaxed);
        is_set.store(true, std::memory_order_relaxed);
    });
    const bool was_set = is_set.load(std::memory_order_relaxed);
    int expected = 1;
    const bool exchanged = value.compare_exchange_strong(expected, 2, std::memory_order_relaxed);
    schedule::require(!was_set || exchanged, "an old value");
    writer.join();
}
void exchange_that_fails_loads() {
    const auto number = std::make_unique<int>(1);
    std::thread other([&] {
        int expected = 0;
        std::atomic_ref(*number).compare_exchange_strong(expected, 2);
        schedule::require(expected == 1, "another value");
    });
    schedule::require(*number == 1, "another value");
    other.join();
}

/// What a thread does under a shared lock is known to the next writer, not to the next reader.
template <typename lock_type>
void write_under_shared_lock() {
    const auto message = std::make_unique<int>(0);
    std::shared_mutex mutex;
    std::atomic<bool> is_written = false;
    std::thread writer([&] {
        {
            const std::shared_lock guard(mutex);
            *message = 1;
        }
        is_written.store(true, std::memory_order_relaxed);
    });
    if (is_written.load(std::memory_order_relaxed)) {
        const lock_type guard(mutex);
        schedule::require(*message == 1, "the message is read before it is written");
    }
    writer.join();
}
void writer_after_reader() {
    write_under_shared_lock<std::unique_lock<std::shared_mutex>>();
}
void reader_after_reader() {
    write_under_shared_lock<std::shared_lock<std::shared_mutex>>();
}

} // namespace examples

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The provider's doorbell under several threads, with a kernel that takes in the system call what
// is published when it looks (rxe_post_send() and siw_post_send() start with the first WQE that
// they have not taken).

#include "schedule.hpp"

#include "common/doorbell.hpp"

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <mutex>
#include <sys/syscall.h>
#include <thread>

namespace {

/// Memory order of what is counted for the checks alone: it shall order nothing for the doorbell.
constexpr auto RELAXED = std::memory_order_relaxed;

struct send_queue {
    std::mutex mutex;
    std::atomic<unsigned> num_published = 0; ///< changed with the mutex held, as a ring's index
    std::atomic<unsigned> num_taken = 0;
    std::atomic<unsigned> num_rings = 0, num_refusals_left = 0;
    coherdma::provider::doorbell doorbell{};
    ibv_context context{};
    ibv_qp qp{};

    send_queue() { qp.context = &context; }
    /// Rings again after an error, as retry_doorbell() of siw.
    void post() {
        {
            const std::lock_guard lock(mutex);
            num_published.store(num_published.load(RELAXED) + 1, std::memory_order_release);
        }
        if (doorbell.ring_coalesced(qp, 0) == 0)
            return;
        while (coherdma::provider::ring_doorbell(qp, 0) != 0) {
        }
    }
};

send_queue *queue = nullptr; ///< of the present schedule
thread_local unsigned num_rings_of_thread = 0;

bool is_refused() {
    unsigned left = queue->num_refusals_left.load(RELAXED);
    return left != 0 && schedule::choose(2) != 0 &&
           queue->num_refusals_left.compare_exchange_strong(left, left - 1, RELAXED);
}

/// The system call of a doorbell.
long take_published() {
    ++num_rings_of_thread;
    queue->num_rings.fetch_add(1, RELAXED);
    if (is_refused()) {
        errno = ENOTCONN;
        return -1;
    }
    const unsigned published = queue->num_published.load(std::memory_order_acquire);
    unsigned taken = queue->num_taken.load(RELAXED);
    while (taken < published &&
           !queue->num_taken.compare_exchange_weak(taken, published, RELAXED)) {
    }
    constexpr long SIZE_OF_COMMAND = 32;
    return SIZE_OF_COMMAND;
}

/// Each thread posts num_posts times, to a kernel that refuses up to num_refusals doorbells.
void three_threads_post(unsigned num_posts, unsigned num_refusals) {
    send_queue sq;
    queue = &sq;
    sq.num_refusals_left = num_refusals;
    const auto post = [&] {
        for (unsigned i = 0; i < num_posts; ++i)
            sq.post();
    };
    std::thread first(post), second(post);
    post();
    first.join();
    second.join();
    schedule::require(sq.num_taken == sq.num_published, "a WQE is published and no one rings");
    // A thread rings for others only if one of them has not rung.
    schedule::require(sq.num_rings <= sq.num_published + num_refusals, "a doorbell too many");
}

void three_threads_post_once() {
    three_threads_post(1, 0);
}
void three_threads_post_twice() {
    three_threads_post(2, 0);
}
void kernel_refuses_a_doorbell() {
    three_threads_post(2, 1);
}

/// A thread that posts once does not ring as long as others post.
void one_posts_once() {
    constexpr unsigned NUM_POSTS = 3, MAX_RINGS = 2;
    send_queue sq;
    queue = &sq;
    const auto post = [&] {
        for (unsigned i = 0; i < NUM_POSTS; ++i)
            sq.post();
    };
    std::thread once([&] {
        num_rings_of_thread = 0;
        sq.post();
        schedule::require(num_rings_of_thread <= MAX_RINGS,
                          "a thread that posts once rings as long as others post");
    });
    std::thread other(post);
    post();
    once.join();
    other.join();
    schedule::require(sq.num_taken == sq.num_published, "a WQE is published and no one rings");
}

constexpr std::array PROGRAMS = {
    schedule::program{"three_threads_post_once", three_threads_post_once},
    schedule::program{"three_threads_post_twice", three_threads_post_twice},
    schedule::program{"kernel_refuses_a_doorbell", kernel_refuses_a_doorbell},
    schedule::program{"one_posts_once", one_posts_once},
};

} // namespace

extern "C" long syscall(long number, ...) noexcept {
    if (number == SYS_write)
        return take_published();
    va_list list;
    va_start(list, number);
    const long result = schedule::system_call(number, list, __builtin_return_address(0));
    va_end(list);
    return result;
}

int main(int argc, char **argv) {
    return schedule::run_programs(argc, argv, PROGRAMS);
}

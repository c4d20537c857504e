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
#include <dlfcn.h>
#include <sys/syscall.h>
#include <thread>

namespace {

struct send_queue {
    std::atomic<unsigned> num_published = 0, num_taken = 0;
    coherdma::provider::doorbell doorbell{};
    ibv_context context{};
    ibv_qp qp{};

    send_queue() { qp.context = &context; }
    void post() {
        ++num_published;
        schedule::require(doorbell.ring_coalesced(qp, 0) == 0, "a doorbell fails");
    }
};

send_queue *queue = nullptr; ///< of the present schedule

/// The system call of a doorbell.
long take_published() {
    const unsigned published = queue->num_published;
    unsigned taken = queue->num_taken;
    while (taken < published && !queue->num_taken.compare_exchange_weak(taken, published)) {
    }
    constexpr long SIZE_OF_COMMAND = 32;
    return SIZE_OF_COMMAND;
}

/// The last of the threads that post has returned.
void require_all_taken(const send_queue &sq) {
    schedule::require(sq.num_taken == sq.num_published, "a WQE is published and no one rings");
}

void three_threads_post() {
    send_queue sq;
    queue = &sq;
    const auto post = [&] {
        sq.post();
    };
    std::thread first(post), second(post);
    post();
    first.join();
    second.join();
    require_all_taken(sq);
}

void three_threads_post_twice() {
    send_queue sq;
    queue = &sq;
    const auto post_twice = [&] {
        sq.post();
        sq.post();
    };
    std::thread first(post_twice), second(post_twice);
    post_twice();
    first.join();
    second.join();
    require_all_taken(sq);
}

constexpr std::array PROGRAMS = {
    schedule::program{"three_threads_post", three_threads_post},
    schedule::program{"three_threads_post_twice", three_threads_post_twice},
};

} // namespace

extern "C" long syscall(long number, ...) noexcept {
    using function = long(long, long, long, long, long, long, long);
    static auto *const real = reinterpret_cast<function *>(dlsym(RTLD_NEXT, "syscall"));
    if (number == SYS_write)
        return take_published();
    va_list list;
    va_start(list, number);
    std::array<long, 6> args;
    for (long &arg : args)
        arg = va_arg(list, long);
    va_end(list);
    return real(number, args[0], args[1], args[2], args[3], args[4], args[5]);
}

int main(int argc, char **argv) {
    return schedule::run_programs(argc, argv, PROGRAMS);
}

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// A mutex that processes share, some of which end or are slow.

#include "core/memory/robust_mutex.hpp"
#include "pid_namespace.hpp"

#include <fcntl.h>
#include <sys/mman.h>

using namespace coherdma::emulation;
using namespace emulation_test;

namespace {

constexpr std::chrono::milliseconds TIMEOUT(50);

/// Skips a test that locks by pthread_mutex_clocklock().
void skip_under_tsan() {
#ifdef COHERDMA_TSAN
    print_message("# skipped: GCC 12's ThreadSanitizer does not see pthread_mutex_clocklock()\n");
    skip();
#endif
}

pthread_mutex_t &create_mutex() {
    void *const memory = mmap(nullptr, sizeof(pthread_mutex_t), PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(memory != MAP_FAILED);
    auto &mutex = *static_cast<pthread_mutex_t *>(memory);
    init_robust_mutex(mutex);
    return mutex;
}

int wait_for(pid_t child) {
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

template <class... timeout_type>
void lock_after_owner_death(timeout_type... timeout) {
    pthread_mutex_t &mutex = create_mutex();
    const pid_t child = fork();
    if (child == 0) {
        const robust_lock_guard guard(mutex);
        _exit(guard ? 0 : 1);
    }
    assert_int_equal(wait_for(child), 0);
    for (int i = 0; i < 2; ++i) {
        const robust_lock_guard guard(mutex, timeout...);
        assert_true(static_cast<bool>(guard));
    }
}
void mutex_of_a_dead_process_is_taken(void **) {
    lock_after_owner_death();
}
void mutex_of_a_dead_process_is_taken_in_time(void **) {
    skip_under_tsan();
    lock_after_owner_death(TIMEOUT);
}

/// Processes of two PID namespaces can have the same number. One waits for the mutex of the other
/// in vain, and ends: the other still has it.
void process_that_gave_up_does_not_free_the_mutex(void **) {
    skip_under_tsan();
    pthread_mutex_t &mutex = create_mutex();
    int ready[2], done[2];
    assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
    assert_int_equal(pipe2(done, O_CLOEXEC), 0);
    const pid_t child = fork();
    if (child == 0) {
        close(done[1]);
        _exit(run_in_pid_namespace([&] {
            const robust_lock_guard guard(mutex);
            char byte;
            return write(ready[1], "", 1) == 1 && read(done[0], &byte, 1) == 0 ? 0 : 1;
        }));
    }
    close(ready[1]);
    char byte;
    const bool is_locked = read(ready[0], &byte, 1) == 1;
    if (is_locked) {
        assert_int_equal(run_in_pid_namespace([&] {
                             const robust_lock_guard guard(mutex, TIMEOUT);
                             return guard ? 1 : 0;
                         }),
                         0);
        const robust_lock_guard guard(mutex, TIMEOUT);
        assert_false(static_cast<bool>(guard));
    }
    close(done[1]);
    const int status = wait_for(child);
    if (status == NOT_PERMITTED)
        return skip();
    assert_int_equal(status, 0);
    const robust_lock_guard guard(mutex, TIMEOUT);
    assert_true(static_cast<bool>(guard));
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(mutex_of_a_dead_process_is_taken),
        cmocka_unit_test(mutex_of_a_dead_process_is_taken_in_time),
        cmocka_unit_test(process_that_gave_up_does_not_free_the_mutex),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// After a fork the parent's handles are invalid in the child, which can open its own IA; the parent
// is not affected.

#include "fake/kinds.hpp"
#include "fake/tsan_ordering.hpp"
#include "fake/two_eps.hpp"

#include <atomic>
#include <cerrno>
#include <chrono>
#include <functional>
#include <mutex>
#include <pthread.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

using namespace fake;

namespace {

/// Skips a test whose child starts a thread.
void skip_under_tsan() {
#ifdef COHERDMA_TSAN
    print_message("# skipped: ThreadSanitizer does not support threads in a forked child\n");
    skip();
#endif
}

/// Skips a test that forks while another thread allocates.
void skip_under_asan() {
#ifdef COHERDMA_ASAN
    print_message("# skipped: AddressSanitizer's allocator lock may stay locked in the child\n");
    skip();
#endif
}

/// Returns the result of work() in a child; 0 is success. It is sent by a pipe: valgrind changes
/// the exit status, since it reports memory wiped in the child as leaks.
template <class function>
int run_in_child(function &&work) {
    int pipe_fds[2], result = -1;
    assert_int_equal(pipe(pipe_fds), 0);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        alarm(120);
        result = work();
        _exit(write(pipe_fds[1], &result, sizeof result) == sizeof result ? 0 : 1);
    }
    close(pipe_fds[1]);
    if (read(pipe_fds[0], &result, sizeof result) != sizeof result)
        result = 1000; // the child died
    close(pipe_fds[0]);
    int status;
    while (waitpid(child, &status, 0) != child)
        assert_int_equal(errno, EINTR);
    return result;
}

void transfer(const connected_eps &eps) {
    assert_success(eps.post_recv(64, cookie(1)));
    assert_success(eps.post_send(64, cookie(2)));
    assert_completion(eps.active.request_evd, cookie(2), DAT_DTO_SUCCESS, 64);
    assert_completion(eps.passive.recv_evd, cookie(1), DAT_DTO_SUCCESS, 64);
}

/// The child's number of the first call that does not reject a handle is the failed step.
void parent_handles_invalid_in_child(void **) {
    connected_eps eps;
    all_objects objects(eps.ia);
    const int failed_step = run_in_child([&] {
        for (std::size_t kind = 0; kind != num_kinds; ++kind) {
            DAT_HANDLE_TYPE type;
            if (dat().get_handle_type_func(objects.handle(kind), &type) !=
                invalid_handle(DAT_INVALID_HANDLE1))
                return static_cast<int>(kind) + 1;
        }
        if (eps.post_send(64, cookie(1)) != invalid_handle(DAT_INVALID_HANDLE_EP))
            return 20;
        if (dat().ep_free_func(eps.active.handle) != invalid_handle(DAT_INVALID_HANDLE_EP))
            return 21;
        if (dat().evd_free_func(eps.ia.async_evd) != invalid_handle(DAT_INVALID_HANDLE_EVD_REQUEST))
            return 22;
        return dat().ia_close_func(eps.ia.handle, DAT_CLOSE_ABRUPT_FLAG) ==
                       invalid_handle(DAT_INVALID_HANDLE_IA)
                   ? 0
                   : 23;
    });
    assert_int_equal(failed_step, 0);
    transfer(eps); // the connection belongs to the parent
    objects.free();
}

void child_opens_ia_and_transfers(void **) {
    skip_under_tsan();
    connected_eps eps;
    const int failed_step = run_in_child([] {
        connected_eps child_eps;
        transfer(child_eps);
        child_eps.active.free();
        wait_event(child_eps.passive.connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
        child_eps.ia.close(DAT_CLOSE_ABRUPT_FLAG);
        return 0;
    });
    assert_int_equal(failed_step, 0);
    transfer(eps);
}

void child_gets_async_events(void **) {
    skip_under_tsan();
    connected_eps eps;
    const int failed_step = run_in_child([] {
        ia_fixture ia;
        get_fabric().queue_async_event(0, IBV_EVENT_DEVICE_FATAL);
        wait_event(ia.async_evd, DAT_ASYNC_ERROR_IA_CATASTROPHIC);
        close(ia);
        return 0;
    });
    assert_int_equal(failed_step, 0);
}

/// The child does not inherit locks that the parent's threads hold.
void fork_during_calls_of_other_threads(void **) {
    skip_under_tsan();
    skip_under_asan();
    ia_fixture ia;
    std::atomic<bool> stopped = false;
    std::thread worker([&] {
        while (!stopped) {
            ep_fixture ep(ia), peer_ep(ia);
            connect(ep, peer_ep);
        }
    });
    for (int i = 0; i != 20; ++i) {
        const int failed_step = run_in_child([&] {
            DAT_PZ_HANDLE pz;
            if (dat().pz_create_func(ia.handle, &pz) != invalid_handle(DAT_INVALID_HANDLE_IA))
                return 1;
            ia_fixture child_ia;
            ep_fixture ep(child_ia);
            ep.free();
            close(child_ia);
            return 0;
        });
        assert_int_equal(failed_step, 0);
    }
    stopped = true;
    worker.join();
}

/// Threads that create and free PSPs: one of them always is in rdma_bind_addr.
class binding_threads {
  public:
    explicit binding_threads(const ia_fixture &ia) {
        get_fabric().bind_delay_ms = 50;
        for (int i = 0; i != 8; ++i)
            workers_.emplace_back([&] {
                DAT_EVD_HANDLE const evd = ia.create_evd(DAT_EVD_CR_FLAG);
                while (!stopped_) {
                    DAT_PSP_HANDLE psp;
                    DAT_CONN_QUAL port;
                    dat().psp_create_any_func(ia.handle, &port, evd, DAT_PSP_CONSUMER_FLAG, &psp);
                    dat().psp_free_func(psp);
                }
                dat().evd_free_func(evd);
            });
    }
    binding_threads(const binding_threads &) = delete;
    binding_threads &operator=(const binding_threads &) = delete;
    ~binding_threads() {
        stopped_ = true;
        for (std::thread &worker : workers_)
            worker.join();
    }

  private:
    std::atomic<bool> stopped_ = false;
    std::vector<std::thread> workers_;
};

/// In a child no thread was in rdma_bind_addr, which takes a lock of librdmacm, when its parent
/// forked. Not always, on a machine that is so loaded that no fork gets its turn in a second.
void assert_forks_wait_for_binds() {
    constexpr int num_forks = 6;
    int num_beside_bind = 0;
    for (int i = 0; i != num_forks; ++i)
        num_beside_bind += run_in_child([] { return get_fabric().num_binds.load(); }) != 0 ? 1 : 0;
    assert_in_range(num_beside_bind, 0, num_forks / 2);
}

void fork_beside_overlapping_calls(void **) {
    ia_fixture ia;
    const binding_threads binding(ia);
    assert_forks_wait_for_binds();
}

/// The kernel keeps the attempt for ten seconds; rdma_destroy_id waits in a thread.
void fork_beside_ended_attempt(void **) {
    ia_fixture ia("iwarp");
    ep_fixture ep(ia);
    get_fabric().drop_connects = true;
    get_fabric().block_unanswered();
    socket_address addr = parse_address(ia.address);
    assert_success(dat().ep_connect_func(ep.handle, &addr.sa, 9999, event_timeout_us, 0, nullptr,
                                         DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG));
    assert_true(wait_until([] { return get_fabric().num_unanswered_connects() != 0; }));
    assert_success(dat().ep_disconnect_func(ep.handle, DAT_CLOSE_ABRUPT_FLAG));
    wait_event(ep.connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
    assert_true(wait_until([] { return get_fabric().count_blocked_destroys() != 0; }));
    {
        const binding_threads binding(ia);
        assert_forks_wait_for_binds();
    }
    get_fabric().unblock_unanswered();
}

/// A prepare handler that fork() calls after those of the Provider.
std::function<void()> late_prepare = [] {
};

/// Another thread opens the first IA of the process, so this runs before tests that open an IA.
void fork_during_first_ia_open(void **) {
    skip_under_tsan();
    skip_under_asan();
    std::thread opener;
    std::atomic<bool> stopped = false;
    late_prepare = [&] {
        opener = std::thread([&] {
            ia_fixture ia;
            while (!stopped)
                std::this_thread::yield();
        });
        std::this_thread::sleep_for(std::chrono::milliseconds(200));
    };
    const int failed_step = run_in_child([] {
        late_prepare = [] {
        };
        alarm(20);
        connected_eps eps;
        transfer(eps);
        return 0;
    });
    late_prepare = [] {
    };
    stopped = true;
    opener.join();
    assert_int_equal(failed_step, 0);
}

/// The lock of a registry, held around dat_provider_init and dat_provider_fini, and by a fork.
struct {
    std::mutex lock;
    std::atomic<bool> fork_waits = false;
} registry_like;

/// Called before the Provider registers its handlers, as a registry does: fork() calls this prepare
/// handler after those of the Provider.
void register_registry_atfork() {
    pthread_atfork(
        [] {
            registry_like.fork_waits = true;
            registry_like.lock.lock();
        },
        [] { registry_like.lock.unlock(); }, [] { new (&registry_like.lock) std::mutex; });
}

/// A thread has the registry's lock when another forks, and then calls the Provider.
void fork_while_registry_calls_provider(void **) {
    const DAT_PROVIDER_INFO info = make_info("forked");
    registry_like.fork_waits = false;
    std::atomic<bool> locked = false;
    std::thread opener([&] {
        const std::lock_guard guard(registry_like.lock);
        locked = true;
        while (!registry_like.fork_waits)
            std::this_thread::yield();
        dat_provider_init(&info, "fake0");
        dat_provider_fini(&info);
    });
    while (!locked)
        std::this_thread::yield();
    constexpr unsigned deadlock_s = 20;
    alarm(deadlock_s);
    assert_int_equal(run_in_child([] { return 0; }), 0);
    opener.join();
    alarm(0);
}

} // namespace

int main() {
    pthread_atfork([] { late_prepare(); }, nullptr, nullptr);
    register_registry_atfork();
    const CMUnitTest tests[] = {
        TEST(fork_during_first_ia_open),          TEST(parent_handles_invalid_in_child),
        TEST(child_opens_ia_and_transfers),       TEST(child_gets_async_events),
        TEST(fork_during_calls_of_other_threads), TEST(fork_beside_overlapping_calls),
        TEST(fork_beside_ended_attempt),          TEST(fork_while_registry_calls_provider),
    };
    return run_cases(tests);
}

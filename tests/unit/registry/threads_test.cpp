// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Concurrent opens, closes, lists and lookups, also for TSan.

#include <array>
#include <chrono>
#include <csignal>
#include <pthread.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "registry.hpp"

using namespace registry_test;

namespace {

constexpr int NUM_THREADS = 8, NUM_ROUNDS = 200;

/// For all threads: cmocka's assertions work in the main thread only.
std::atomic<int> failures;

void check(bool condition) {
    if (!condition)
        ++failures;
}

/// Calls the function with the number of the thread.
template <typename Function>
void run_threads(const Function &function) {
    failures = 0;
    std::vector<std::thread> threads;
    for (int i = 0; i < NUM_THREADS; ++i)
        threads.emplace_back(function, i);
    for (auto &thread : threads)
        thread.join();
    assert_int_equal(failures, 0);
}

/// Opens a name that all threads open, and one that only this thread opens.
void open_and_close(int thread_index) {
    const std::string private_name = "private" + std::to_string(thread_index);
    for (int round = 0; round < NUM_ROUNDS; ++round) {
        for (const char *name : {"shared", private_name.c_str(), "shared"}) {
            DAT_IA_HANDLE ia = DAT_HANDLE_NULL, provider_ia = DAT_HANDLE_NULL, converted = ia;
            check(open_ia(name, ia) == DAT_SUCCESS);
            check(dats_get_ia_handle(ia, &provider_ia) == DAT_SUCCESS && provider_ia);
            check(dats_get_ia_handle(provider_ia, &converted) == DAT_SUCCESS && converted == ia);
            check(dat_lmr_sync_rdma_read(ia, nullptr, 0) == DAT_SUCCESS);
            check(dat_lmr_sync_rdma_read(provider_ia, nullptr, 0) == DAT_SUCCESS);
            check(dat_ia_close(ia, DAT_CLOSE_ABRUPT_FLAG) == DAT_SUCCESS);
        }
    }
}

void concurrent_opens_load_and_unload_library(void **) {
    assert_null(dlopen(COHERDMA_TEST_STUB, RTLD_NOW | RTLD_NOLOAD));
    run_threads(open_and_close);
    assert_null(dlopen(COHERDMA_TEST_STUB, RTLD_NOW | RTLD_NOLOAD));
}

void concurrent_opens_are_balanced(void **) {
    const stub::state &state = load_stub(); // stays loaded
    run_threads(open_and_close);
    assert_int_equal(state.opens, 3 * NUM_THREADS * NUM_ROUNDS);
    assert_int_equal(state.closes, state.opens);
    assert_int_equal(state.inits, state.finis);
}

/// Objects of several threads are in one page, so that a free makes the registry forget a page that
/// another thread uses.
void concurrent_calls_and_frees_work(void **) {
    const DAT_IA_HANDLE ia = open_ia_ok("shared");
    const DAT_PROVIDER *provider = load_stub().find_table("shared");
    std::vector<stub::object> objects(NUM_THREADS * 64); // threads share pages
    for (auto &object : objects)
        object.provider = provider;
    run_threads([&objects](int thread_index) {
        for (int round = 0; round < NUM_ROUNDS; ++round) {
            stub::object &object =
                objects[static_cast<std::size_t>(thread_index * 64 + round % 64)];
            check(dat_ep_post_recv(&object, 0, nullptr, {}, DAT_COMPLETION_DEFAULT_FLAG) ==
                  DAT_SUCCESS);
            check(dat_ep_reset(reinterpret_cast<char *>(&object) + 8) ==
                  DAT_MAKE_ERROR(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_EP));
            check(dat_ep_free(&object) == DAT_SUCCESS);
        }
    });
    close_ia_ok(ia);
}

/// Exactly one of several concurrent closes of an IA succeeds.
void concurrent_close_succeeds_once(void **) {
    for (int round = 0; round < 20; ++round) {
        const DAT_IA_HANDLE ia = open_ia_ok("shared");
        std::atomic<int> successes = 0;
        run_threads([ia, &successes](int) {
            const DAT_RETURN status = dat_ia_close(ia, DAT_CLOSE_ABRUPT_FLAG);
            check(status == DAT_SUCCESS || status == INVALID_IA);
            successes += status == DAT_SUCCESS ? 1 : 0;
        });
        assert_int_equal(successes, 1);
    }
}

void concurrent_queries_and_registrations_work(void **) {
    run_threads([](int thread_index) {
        for (int round = 0; round < NUM_ROUNDS / 10; ++round) {
            std::array<DAT_PROVIDER_INFO, 32> infos = {};
            std::array<DAT_PROVIDER_INFO *, 32> pointers = {};
            for (std::size_t i = 0; i < infos.size(); ++i)
                pointers[i] = &infos[i];
            DAT_COUNT count = 0;
            check(dat_registry_list_providers(32, &count, pointers.data()) == DAT_SUCCESS);
            check(count == NUM_THREADS + 2);
            DAT_PROVIDER_INFO info = {"", MAJOR, MINOR, DAT_FALSE};
            std::snprintf(info.ia_name, sizeof info.ia_name, "added%d", thread_index);
            static const DAT_PROVIDER provider = {};
            check(dat_registry_add_provider(&provider, &info) == DAT_SUCCESS);
            check(dat_registry_remove_provider(&provider, &info) == DAT_SUCCESS);
#ifndef COHERDMA_DAT1
            char name[] = "shared";
            DAT_HA_RELATIONSHIP relationship;
            check(dat_registry_providers_related(name, name, &relationship) == DAT_SUCCESS);
            DAT_IA_HANDLE query = DAT_HANDLE_NULL;
            check(dat_extension_op(DAT_HANDLE_NULL,
                                   static_cast<DAT_EXTENDED_OP>(DAT_OPEN_EXTENSION_BASE), name,
                                   &query) == DAT_SUCCESS);
            check(dat_extension_op(query, static_cast<DAT_EXTENDED_OP>(DAT_CLOSE_EXTENSION_BASE)) ==
                  DAT_SUCCESS);
#endif
        }
    });
}

/// Returns a thread that opens and closes an IA, and is in the initialization of its Provider.
std::thread start_slow_open() {
    const int num_inits = load_stub().inits;
    std::thread opener([] {
        DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
        check(open_ia("slow", ia) == DAT_SUCCESS);
        check(dat_ia_close(ia, DAT_CLOSE_ABRUPT_FLAG) == DAT_SUCCESS);
    });
    while (load_stub().inits == num_inits)
        std::this_thread::yield();
    return opener;
}

/// After a fork during another thread's open, parent and child can open IAs.
void fork_during_open_leaves_both_usable(void **) {
    std::thread opener = start_slow_open();
    const pid_t child = fork();
    if (child == 0) {
        DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
        const bool usable = open_ia("shared", ia) == DAT_SUCCESS &&
                            dat_ia_close(ia, DAT_CLOSE_ABRUPT_FLAG) == DAT_SUCCESS &&
                            open_ia("slow", ia) == DAT_SUCCESS;
        // Not exit(): sanitizers would report the parent's threads as leaked.
        raise(usable ? SIGUSR1 : SIGUSR2);
    }
    close_ia_ok(open_ia_ok("shared"));
    opener.join();
    assert_int_equal(failures, 0);
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGUSR1);
}

/// A prepare handler that fork() calls after the registry's.
struct {
    std::atomic<bool> enabled = false;
    int num_opens = 0; ///< calls of the stub provider's ia_open_func, while the fork lasts
} slow_fork;

void register_slow_fork() {
    pthread_atfork(
        [] {
            if (!slow_fork.enabled)
                return;
            const int num_before = load_stub().opens;
            std::this_thread::sleep_for(std::chrono::milliseconds(300));
            slow_fork.num_opens = load_stub().opens - num_before;
        },
        nullptr, nullptr);
}
/// Before the registry's constructor.
[[gnu::section(".preinit_array"), gnu::used]] void (*const register_early)() = register_slow_fork;

/// The fork began before the Provider was loaded, so it does not call the Provider's fork handlers.
void provider_opens_ia_after_fork_that_began_before_its_load(void **) {
    slow_fork.enabled = true;
    std::thread opener = start_slow_open();
    const pid_t child = fork(); // waits for the registry's lock until the library is loaded
    if (child == 0)
        raise(SIGUSR1);
    slow_fork.enabled = false;
    opener.join();
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(failures, 0);
    assert_int_equal(slow_fork.num_opens, 0);
}

/// In the child the parent's IA is not open, and no IA of the child has its handle.
void handle_of_parent_invalid_in_child(void **) {
    const DAT_IA_HANDLE parent_ia = open_ia_ok("shared");
    const pid_t child = fork();
    if (child == 0) {
        const auto is_rejected = [parent_ia] {
            return dat_lmr_sync_rdma_read(parent_ia, nullptr, 0) == INVALID_IA &&
                   dat_ia_close(parent_ia, DAT_CLOSE_ABRUPT_FLAG) == INVALID_IA;
        };
        const bool rejected_before = is_rejected();
        DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
        bool usable = true;
        constexpr int more_than_handles = 5000;
        for (int i = 0; usable && i != more_than_handles; ++i)
            usable = open_ia("shared", ia) == DAT_SUCCESS && ia != parent_ia && is_rejected() &&
                     dat_ia_close(ia, DAT_CLOSE_ABRUPT_FLAG) == DAT_SUCCESS;
        raise(rejected_before && usable ? SIGUSR1 : SIGUSR2);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGUSR1);
    close_ia_ok(parent_ia);
}

/// In a child: opens IAs, which stay open in each of its descendants' parents.
[[noreturn]] void open_ias_in_generations(int num_generations) {
    DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
    bool usable = true;
    for (int i = 0; usable && i != 1000; ++i)
        usable = open_ia("shared", ia) == DAT_SUCCESS;
    if (usable && num_generations > 1) {
        const pid_t child = fork();
        if (child == 0)
            open_ias_in_generations(num_generations - 1);
        int status = 0;
        usable = waitpid(child, &status, 0) == child && WTERMSIG(status) == SIGUSR1;
    }
    raise(usable ? SIGUSR1 : SIGUSR2);
    _exit(1);
}

/// The IAs of all ancestors together may be more than a process can have.
void descendants_open_ias(void **) {
    constexpr int num_generations = 6;
    const pid_t child = fork();
    if (child == 0)
        open_ias_in_generations(num_generations);
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGUSR1);
}

int setup(void **) {
    std::string conf = conf_line("shared", "") + conf_line("slow", "slow");
    for (int i = 0; i < NUM_THREADS; ++i)
        conf += conf_line(("private" + std::to_string(i)).c_str(), "");
    use_conf(conf);
    return 0;
}

/// pthread_cancel ends the first and the second call for an object: the registry has not looked up
/// the first one's provider before.
template <typename Call>
void assert_cancelable(const Call &call) {
    for (int i = 0; i != 2; ++i) {
        bool unwound = false;
        std::thread thread([&] {
            const struct flag_setter {
                bool &flag;
                ~flag_setter() { flag = true; }
            } setter{unwound};
            call();
        });
        assert_int_equal(pthread_cancel(thread.native_handle()), 0);
        thread.join();
        assert_true(unwound);
    }
}

void canceled_waits_unwind_through_the_registry(void **) {
    const DAT_IA_HANDLE ia = open_ia_ok("shared");
    auto *table = const_cast<DAT_PROVIDER *>(load_stub().find_table("shared"));
    table->evd_wait_func = [](DAT_EVD_HANDLE, DAT_TIMEOUT, DAT_COUNT, DAT_EVENT *, DAT_COUNT *) {
        return static_cast<DAT_RETURN>(pause());
    };
    table->cno_wait_func = [](DAT_CNO_HANDLE, DAT_TIMEOUT, DAT_EVD_HANDLE *) {
        return static_cast<DAT_RETURN>(pause());
    };
    const auto evd = std::make_unique<stub::object>(), cno = std::make_unique<stub::object>();
    evd->provider = cno->provider = table;
    // Not on the canceled threads' stacks: ASan does not see that these are unwound.
    DAT_EVENT event;
    DAT_COUNT nmore;
    DAT_EVD_HANDLE triggered;
    assert_cancelable([&] { dat_evd_wait(evd.get(), DAT_TIMEOUT_INFINITE, 1, &event, &nmore); });
    assert_cancelable([&] { dat_cno_wait(cno.get(), DAT_TIMEOUT_INFINITE, &triggered); });
    assert_int_equal(dat_ia_close(ia, DAT_CLOSE_ABRUPT_FLAG), DAT_SUCCESS);
}

} // namespace

int main() {
    setenv("COHERDMA_DAT_LIVE", "0", 1);
    const CMUnitTest tests[] = {
        cmocka_unit_test(concurrent_opens_load_and_unload_library),
        cmocka_unit_test(concurrent_opens_are_balanced),
        cmocka_unit_test(concurrent_calls_and_frees_work),
        cmocka_unit_test(concurrent_close_succeeds_once),
        cmocka_unit_test(canceled_waits_unwind_through_the_registry),
        cmocka_unit_test(concurrent_queries_and_registrations_work),
        cmocka_unit_test(fork_during_open_leaves_both_usable),
        cmocka_unit_test(provider_opens_ia_after_fork_that_began_before_its_load),
        cmocka_unit_test(handle_of_parent_invalid_in_child),
        cmocka_unit_test(descendants_open_ias),
    };
    return cmocka_run_group_tests(tests, setup, nullptr);
}

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Many threads open, close, list and look up at a time. A thread sanitizer sees more of it.

#include <array>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "registry.hpp"

using namespace registry_test;

namespace {

constexpr int THREADS = 8, ROUNDS = 200;

/// cmocka's assertions are for its own thread.
std::atomic<int> failures;

void must(bool holds) {
    if (!holds)
        ++failures;
}

template <typename Action>
void in_threads(const Action &action) {
    failures = 0;
    std::vector<std::thread> threads;
    for (int number = 0; number < THREADS; ++number)
        threads.emplace_back(action, number);
    for (auto &each : threads)
        each.join();
    assert_int_equal(failures, 0);
}

/// A name that all open, so that its library is seldom unloaded, and one that only this thread
/// does.
void open_and_close(int number) {
    const std::string own = "own" + std::to_string(number);
    for (int round = 0; round < ROUNDS; ++round) {
        for (const char *name : {"shared", own.c_str(), "shared"}) {
            DAT_IA_HANDLE ia = DAT_HANDLE_NULL, inside = DAT_HANDLE_NULL, back = ia;
            must(open_ia(name, ia) == DAT_SUCCESS);
            must(dats_get_ia_handle(ia, &inside) == DAT_SUCCESS && inside);
            must(dats_get_ia_handle(inside, &back) == DAT_SUCCESS && back == ia);
            must(dat_lmr_sync_rdma_read(ia, nullptr, 0) == DAT_SUCCESS);
            must(dat_lmr_sync_rdma_read(inside, nullptr, 0) == DAT_SUCCESS);
            must(dat_ia_close(ia, DAT_CLOSE_ABRUPT_FLAG) == DAT_SUCCESS);
        }
    }
}

void libraries_come_and_go(void **) {
    assert_null(dlopen(COHERDMA_TEST_STUB, RTLD_NOW | RTLD_NOLOAD));
    in_threads(open_and_close);
    assert_null(dlopen(COHERDMA_TEST_STUB, RTLD_NOW | RTLD_NOLOAD));
}

void nothing_is_lost(void **) {
    const stub::state &state = stub_of(); // stays from now on
    in_threads(open_and_close);
    assert_int_equal(state.opens, 3 * THREADS * ROUNDS);
    assert_int_equal(state.closes, state.opens);
    assert_int_equal(state.inits, state.finis);
}

void calls_and_frees(void **) {
    const DAT_IA_HANDLE ia = opened("shared");
    const DAT_PROVIDER *provider = stub_of().provider("shared");
    std::vector<stub::object> objects(THREADS * 64); // pages that threads share
    for (auto &each : objects)
        each.provider = provider;
    in_threads([&objects](int number) {
        for (int round = 0; round < ROUNDS; ++round) {
            stub::object &mine = objects[static_cast<std::size_t>(number * 64 + round % 64)];
            must(dat_ep_post_recv(&mine, 0, nullptr, {}, DAT_COMPLETION_DEFAULT_FLAG) ==
                 DAT_SUCCESS);
            must(dat_ep_reset(reinterpret_cast<char *>(&mine) + 8) ==
                 DAT_MAKE_ERROR(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_EP));
            must(dat_ep_free(&mine) == DAT_SUCCESS);
        }
    });
    closed(ia);
}

/// Of all that close an IA at the same time one succeeds.
void one_of_many_closes(void **) {
    for (int round = 0; round < 20; ++round) {
        const DAT_IA_HANDLE ia = opened("shared");
        std::atomic<int> successes = 0;
        in_threads([ia, &successes](int) {
            const DAT_RETURN status = dat_ia_close(ia, DAT_CLOSE_ABRUPT_FLAG);
            must(status == DAT_SUCCESS || status == NO_IA);
            successes += status == DAT_SUCCESS ? 1 : 0;
        });
        assert_int_equal(successes, 1);
    }
}

void questions(void **) {
    in_threads([](int number) {
        for (int round = 0; round < ROUNDS / 10; ++round) {
            std::array<DAT_PROVIDER_INFO, 32> infos = {};
            std::array<DAT_PROVIDER_INFO *, 32> pointers = {};
            for (std::size_t place = 0; place < infos.size(); ++place)
                pointers[place] = &infos[place];
            DAT_COUNT count = 0;
            must(dat_registry_list_providers(32, &count, pointers.data()) == DAT_SUCCESS);
            must(count == THREADS + 2);
            DAT_PROVIDER_INFO info = {"", MAJOR, MINOR, DAT_FALSE};
            std::snprintf(info.ia_name, sizeof info.ia_name, "added%d", number);
            static const DAT_PROVIDER provider = {};
            must(dat_registry_add_provider(&provider, &info) == DAT_SUCCESS);
            must(dat_registry_remove_provider(&provider, &info) == DAT_SUCCESS);
#ifndef COHERDMA_DAT1
            char name[] = "shared";
            DAT_HA_RELATIONSHIP answer;
            must(dat_registry_providers_related(name, name, &answer) == DAT_SUCCESS);
            DAT_IA_HANDLE query = DAT_HANDLE_NULL;
            must(dat_extension_op(DAT_HANDLE_NULL,
                                  static_cast<DAT_EXTENDED_OP>(DAT_OPEN_EXTENSION_BASE), name,
                                  &query) == DAT_SUCCESS);
            must(dat_extension_op(query, static_cast<DAT_EXTENDED_OP>(DAT_CLOSE_EXTENSION_BASE)) ==
                 DAT_SUCCESS);
#endif
        }
    });
}

/// Who forks while another thread opens an IA has a child that can open IAs, and so has it itself.
void forks(void **) {
    const int inits = stub_of().inits;
    std::thread other([] {
        DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
        must(open_ia("slow", ia) == DAT_SUCCESS);
        must(dat_ia_close(ia, DAT_CLOSE_ABRUPT_FLAG) == DAT_SUCCESS);
    });
    while (stub_of().inits == inits)
        std::this_thread::yield();
    const pid_t child = fork();
    if (child == 0) {
        alarm(20);
        DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
        const bool right = open_ia("shared", ia) == DAT_SUCCESS &&
                           dat_ia_close(ia, DAT_CLOSE_ABRUPT_FLAG) == DAT_SUCCESS &&
                           open_ia("slow", ia) == DAT_SUCCESS;
        // Not by exit: there sanitizers count its parent's threads as lost.
        raise(right ? SIGUSR1 : SIGUSR2);
    }
    closed(opened("shared"));
    other.join();
    assert_int_equal(failures, 0);
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGUSR1);
}

int set_up(void **) {
    std::string conf = record("shared", "") + record("slow", "slow");
    for (int number = 0; number < THREADS; ++number)
        conf += record(("own" + std::to_string(number)).c_str(), "");
    use_conf(conf);
    return 0;
}

} // namespace

int main() {
    setenv("COHERDMA_DAT_LIVE", "0", 1);
    const CMUnitTest tests[] = {
        cmocka_unit_test(libraries_come_and_go),
        cmocka_unit_test(nothing_is_lost),
        cmocka_unit_test(calls_and_frees),
        cmocka_unit_test(one_of_many_closes),
        cmocka_unit_test(questions),
        cmocka_unit_test(forks),
    };
    return cmocka_run_group_tests(tests, set_up, nullptr);
}

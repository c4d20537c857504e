// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// A process that forks: in the child none of its handles is good, and it can open an IA of its own;
// the parent goes on as before.

#include "kinds.hpp"
#include "quiet.hpp"
#include "two.hpp"

#include <cerrno>
#include <sys/wait.h>
#include <thread>

using namespace played;

namespace {

/// For those whose child starts a thread.
void not_watched() {
#ifdef COHERDMA_TSAN
    print_message("# skipped: ThreadSanitizer follows no thread that a forked child starts\n");
    skip();
#endif
}

/// For those who fork while another thread has or gives back memory. gcc's build is tried without
/// sanitizers, too.
void no_sanitizers_memory() {
#ifdef COHERDMA_ASAN
    print_message("# skipped: a lock of AddressSanitizer's memory may stay held in the child\n");
    skip();
#endif
}

/// What the child returns; 0 is good. Not by its status, which is valgrind's: what the parent had
/// in memory that is wiped in the child looks like leaks.
template <class what>
int in_child(what &&work) {
    int ends[2], result = -1;
    assert_int_equal(pipe(ends), 0);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        alarm(20);
        result = work();
        _exit(write(ends[1], &result, sizeof result) == sizeof result ? 0 : 1);
    }
    close(ends[1]);
    if (read(ends[0], &result, sizeof result) != sizeof result)
        result = 1000; // It died.
    close(ends[0]);
    int status;
    while (waitpid(child, &status, 0) != child)
        assert_int_equal(errno, EINTR);
    return result;
}

void talk(const two_ends &all) {
    done(all.receive(64, 1));
    done(all.send(64, 2));
    completed(all.one.requests, 2, DAT_DTO_SUCCESS, 64);
    completed(all.other.receives, 1, DAT_DTO_SUCCESS, 64);
}

void the_childs_handles_are_none(void **) {
    two_ends all;
    every objects(all.on);
    const int bad = in_child([&] {
        for (std::size_t kind = 0; kind != kinds; ++kind) {
            DAT_HANDLE_TYPE type;
            if (dat().get_handle_type_func(objects.living(kind), &type) !=
                no_handle(DAT_INVALID_HANDLE1))
                return static_cast<int>(kind) + 1;
        }
        if (all.send(64, 1) != no_handle(DAT_INVALID_HANDLE_EP))
            return 20;
        if (dat().ep_free_func(all.one.ep) != no_handle(DAT_INVALID_HANDLE_EP))
            return 21;
        if (dat().evd_free_func(all.on.async) != no_handle(DAT_INVALID_HANDLE_EVD_REQUEST))
            return 22;
        return dat().ia_close_func(all.on.ia, DAT_CLOSE_ABRUPT_FLAG) ==
                       no_handle(DAT_INVALID_HANDLE_IA)
                   ? 0
                   : 23;
    });
    assert_int_equal(bad, 0);
    talk(all); // The connection is the parent's.
    objects.free();
    all.free();
}

void the_child_opens_its_own(void **) {
    not_watched();
    two_ends all;
    const int bad = in_child([] {
        two_ends mine;
        talk(mine);
        mine.one.free();
        next(mine.other.connections, DAT_CONNECTION_EVENT_DISCONNECTED);
        mine.on.close(DAT_CLOSE_ABRUPT_FLAG);
        return 0;
    });
    assert_int_equal(bad, 0);
    talk(all);
    all.free();
}

void the_childs_device_tells_the_child(void **) {
    not_watched();
    two_ends all;
    const int bad = in_child([] {
        adapter mine;
        net().report(0, IBV_EVENT_DEVICE_FATAL);
        next(mine.async, DAT_ASYNC_ERROR_IA_CATASTROPHIC);
        close(mine);
        return 0;
    });
    assert_int_equal(bad, 0);
    all.free();
}

void who_forks_while_its_threads_are_at_work(void **) {
    not_watched();
    no_sanitizers_memory();
    adapter on;
    std::atomic<bool> over = false;
    std::thread works([&] {
        while (!over) {
            end one(on), other(on);
            connect(one, other);
            one.free();
            other.free();
        }
    });
    for (int turn = 0; turn != 20; ++turn) {
        const int bad = in_child([&] {
            DAT_PZ_HANDLE made;
            if (dat().pz_create_func(on.ia, &made) != no_handle(DAT_INVALID_HANDLE_IA))
                return 1;
            adapter mine;
            end one(mine);
            one.free();
            close(mine);
            return 0;
        });
        assert_int_equal(bad, 0);
    }
    over = true;
    works.join();
    close(on);
}

} // namespace

#define TEST(name) cmocka_unit_test_setup_teardown(name, fresh, gone)

int main() {
    register_names();
    const CMUnitTest tests[] = {
        TEST(the_childs_handles_are_none),
        TEST(the_child_opens_its_own),
        TEST(the_childs_device_tells_the_child),
        TEST(who_forks_while_its_threads_are_at_work),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}

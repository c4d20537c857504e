// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Children of fork() that use what their parents have created.

#include "loopback.hpp"

#include <array>
#include <cstdlib>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace check_corpus {

namespace {

/// A process that ends with func(), by exit(). Returns its status.
template <class function>
int run_child(function func) {
    const pid_t pid = fork();
    check(pid < 0 ? -1 : 0, "fork");
    if (pid == 0) {
        func();
        std::exit(EXIT_SUCCESS);
    }
    int status = 0;
    check(waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? 0 : -1, "the child");
    return WEXITSTATUS(status);
}

/// The parent posts, and a child is to poll.
void child_polls(const target &target, bool corrected) {
    loopback link(target, true);
    link.send_message();
    let_complete();
    ibv_wc wc{};
    if (!corrected)
        run_child([&] {
            ibv_poll_cq(link.responder.recv_cq, 1, &wc); // wrong: used-after-fork
        });
    else
        wait_success(link.responder.recv_cq, "the receive");
}

/// A process per connection: it posts to the QP that the listening process has accepted.
void child_posts(const target &target, bool corrected) {
    unconnected side(target);
    endpoint &local = side.local;
    recv_request recv(local.sge());
    ibv_recv_wr *bad_wr = nullptr;
    if (!corrected)
        run_child([&] {
            ibv_post_recv(local.qp, &recv.wr, &bad_wr); // wrong: used-after-fork
        });
    else
        run_child([&] { const unconnected other(target); });
}

/// A child fails to execute a program, and ends as its parent would.
void child_destroys(const target &target, bool corrected) {
    unconnected side(target);
    endpoint &local = side.local;
    run_child([&] {
        if (corrected)
            _exit(EXIT_FAILURE);
        ibv_destroy_qp(local.qp); // wrong: used-after-fork
    });
}

void child_builds_batch(const target &target, bool corrected) {
    unconnected side(target, {.extended = true});
    ibv_qp_ex *const qp = side.local.qp_ex();
    const auto build = [&] {
        ibv_wr_start(qp); // wrong: used-after-fork
        ibv_wr_abort(qp);
    };
    if (corrected)
        build();
    else
        run_child(build);
}

/// Correct: the child closes what it inherits, and has a device of its own.
void child_opens_device(const target &target, bool) {
    unconnected side(target);
    run_child([&] {
        ibv_close_device(side.dev.context);
        const unconnected other(target);
        other.local.post_recv();
        ibv_wc wc{};
        check(ibv_poll_cq(other.local.recv_cq, 1, &wc), "poll");
    });
    side.local.post_recv();
}

/// Correct: the process has one thread, and its child starts a second one.
void child_has_thread(const target &target, bool) {
    unconnected side(target);
    side.local.post_recv();
    check(run_child([] { std::thread([] {}).join(); }), "the child's thread");
}

constexpr std::string_view kind = "used-after-fork";
constexpr std::array cases{
    corpus_case{.name = "child_has_thread", .kind = "none", .run = child_has_thread},
    corpus_case{.name = "child_polls", .kind = kind, .run = child_polls},
    corpus_case{.name = "child_posts", .kind = kind, .run = child_posts},
    corpus_case{.name = "child_destroys", .kind = kind, .run = child_destroys},
    corpus_case{
        .name = "child_builds_batch", .kind = kind, .run = child_builds_batch, .needs = extended},
    corpus_case{.name = "child_opens_device", .kind = "none", .run = child_opens_device},
};

} // namespace

std::span<const corpus_case> fork_cases() {
    return cases;
}

} // namespace check_corpus

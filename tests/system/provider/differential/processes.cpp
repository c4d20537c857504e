// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Child processes, and threads that use the same objects.

#include "groups.hpp"
#include "requests.hpp"

#include <atomic>
#include <semaphore>
#include <set>
#include <sys/wait.h>
#include <unistd.h>

namespace differential {
namespace {

int post_send(qp_pair &qps, std::uint64_t wr_id) {
    request request = make_request(qps, IBV_WR_SEND, IBV_SEND_SIGNALED, {{8}}, wr_id);
    request.wr.sg_list = request.sg_list.data();
    ibv_send_wr *bad_wr = nullptr;
    return ibv_post_send(qps.a->qp, &request.wr, &bad_wr);
}

// Runs function in a child process, which then exits with what it returns. Returns the status.
template <class F>
int run_in_child(const F &function) {
    std::fflush(stdout);
    const pid_t child = fork();
    check(child < 0 ? -1 : 0, "fork");
    if (child == 0)
        _exit(function());
    int status = 0;
    check(waitpid(child, &status, 0) == child ? 0 : -1, "wait for the child");
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

int poll_all(const endpoint &ep, ibv_cq *cq) {
    ibv_wc wc{};
    int count = 0;
    while (ep.poll(cq, wc))
        ++count;
    return count;
}

// A child that only exits, executes a program, or has objects of its own changes nothing.
void run_children(const environment &env, runner &runner) {
    struct child_case {
        const char *name;
        std::function<int()> function;
    };
    const std::vector<child_case> cases{
        {"exits",
         [] {
             return 0;
         }},
        {"executes",
         [] {
             execl("/bin/true", "true", nullptr);
             return 1;
         }},
        {"opens_device",
         [&] {
             ibv_context *const context = ibv_open_device(env.context->device);
             ibv_pd *const pd = context != nullptr ? ibv_alloc_pd(context) : nullptr;
             ibv_cq *const cq =
                 pd != nullptr ? ibv_create_cq(context, 4, nullptr, nullptr, 0) : nullptr;
             if (cq == nullptr)
                 return 1;
             ibv_wc wc{};
             return ibv_poll_cq(cq, 1, &wc) | ibv_destroy_cq(cq) | ibv_dealloc_pd(pd) |
                    ibv_close_device(context);
         }},
    };
    for (const child_case &child : cases)
        for (const bool is_posted_before : {false, true})
            runner.run(
                concat("fork/", child.name, is_posted_before ? "/after_post" : "/before_post"),
                [&](record &record) {
                    qp_pair qps(env, make_options(env));
                    qps.prepare(1);
                    for (std::uint64_t i = 0; i < 3; ++i)
                        check(qps.b->post_recv(i), "post a receive");
                    if (is_posted_before)
                        check(post_send(qps, 1), "post the Send");
                    record.add("child", run_in_child(child.function));
                    if (!is_posted_before)
                        record.add("post", error_name(post_send(qps, 1)));
                    record.add("next_post", error_name(post_send(qps, 2)));
                    qps.finish(record);
                });
    // The rings are shared: the child takes what it polls.
    runner.run("fork/polls", [&](record &record) {
        qp_pair qps(env, make_options(env));
        qps.prepare(1);
        for (std::uint64_t i = 0; i < 3; ++i) {
            check(qps.b->post_recv(i), "post a receive");
            check(post_send(qps, i), "post the Send");
        }
        ibv_wc wc{};
        for (int i = 0; i < 3; ++i)
            wait_until(hang_limit, [&] { return qps.a->poll(qps.a->send_cq.get(), wc); });
        record.add("child", run_in_child([&] { return poll_all(*qps.b, qps.b->recv_cq.get()); }));
        record.add("parent", poll_all(*qps.b, qps.b->recv_cq.get()));
    });
}

struct thread_case {
    const char *name;
    unsigned num_posters = 2;
    bool arms = false, resizes = false, destroys = false;
};

// Each WR completes once, whatever other threads do with the CQ meanwhile.
void post_by_threads(qp_pair &qps, const thread_case &options, record &record) {
    constexpr unsigned num_posts = 300;
    const unsigned num_wrs = num_posts * options.num_posters;
    endpoint &a = *qps.a;
    ibv_cq *const cq = a.send_cq.get();
    // The kernel reuses an entry of the SQ before its completion is polled.
    constexpr int max_completions = 32;
    std::counting_semaphore<> free_cqes(max_completions);
    std::atomic<bool> is_done{false};
    std::atomic<unsigned> num_errors{0};
    std::vector<std::thread> threads, others;
    for (unsigned poster = 0; poster < options.num_posters; ++poster)
        threads.emplace_back([&, poster] {
            for (unsigned i = 0; i < num_posts; ++i) {
                request request = make_request(qps, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED, {{8}},
                                               poster * num_posts + i);
                request.wr.sg_list = request.sg_list.data();
                ibv_send_wr *bad_wr = nullptr;
                free_cqes.acquire();
                num_errors += ibv_post_send(a.qp, &request.wr, &bad_wr) == 0 ? 0 : 1;
            }
        });
    const auto repeat = [&](auto function) {
        others.emplace_back([&, function]() mutable {
            constexpr unsigned max_calls = 50; // spinlocks on one processor
            for (unsigned calls = 0; calls < max_calls && !is_done; ++calls)
                num_errors += function() == 0 ? 0 : 1;
        });
    };
    if (options.arms)
        repeat([cq] { return ibv_req_notify_cq(cq, 0); });
    if (options.resizes)
        repeat([cq, cqe = 64]() mutable { return ibv_resize_cq(cq, cqe = cqe == 64 ? 200 : 64); });
    if (options.destroys)
        repeat([&a] {
            ibv_qp_init_attr_ex attr = a.make_init_attr();
            ibv_qp *const qp =
                ibv_create_qp(a.pd.get(), reinterpret_cast<ibv_qp_init_attr *>(&attr));
            return qp != nullptr ? ibv_destroy_qp(qp) : errno;
        });
    std::multiset<std::uint64_t> wr_ids;
    unsigned num_failed = 0;
    wait_until(hang_limit, [&] {
        ibv_wc wc{};
        while (a.poll(cq, wc)) {
            wr_ids.insert(wc.wr_id);
            num_failed += wc.status == IBV_WC_SUCCESS ? 0 : 1;
            free_cqes.release();
        }
        return wr_ids.size() >= num_wrs;
    });
    is_done = true;
    for (std::thread &thread : threads)
        thread.join();
    for (std::thread &thread : others)
        thread.join();
    record.add("completions", wr_ids.size());
    record.add("different", std::set(wr_ids.begin(), wr_ids.end()).size());
    record.add("failed", num_failed);
    record.add("errors", num_errors);
    qps.finish(record);
}

void run_threads(const environment &env, runner &runner) {
    const std::vector<thread_case> cases{
        {"post"},
        {"post_arm", 2, true},
        {"post_destroy", 2, false, false, true},
        {"post_resize", 2, false, true},
        {"all", 3, true, true, true},
    };
    for (const thread_case &thread_case : cases) {
        if (thread_case.resizes && !env.options.is_rxe()) // siw resizes no CQ
            continue;
        for (unsigned i = 0; i < 3; ++i)
            runner.run(concat("threads/", thread_case.name, '/', i), [&](record &record) {
                qp_options options = make_options(env);
                const auto channel = create_channel(env);
                options.channel = channel.get();
                options.cap.max_send_wr = 64;
                qp_pair qps(env, options);
                qps.prepare(1);
                post_by_threads(qps, thread_case, record);
                ibv_cq *cq = nullptr; // A CQ waits for its events when it is destroyed.
                void *cq_context = nullptr;
                while (ibv_get_cq_event(channel.get(), &cq, &cq_context) == 0)
                    ibv_ack_cq_events(cq, 1);
            });
    }
}

} // namespace

void run_processes(const environment &env, runner &runner) {
    run_children(env, runner);
    run_threads(env, runner);
}

} // namespace differential

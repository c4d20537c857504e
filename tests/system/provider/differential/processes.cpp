// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Child processes: with objects of their own, or with those of their parent.

#include "groups.hpp"
#include "requests.hpp"

#include <cstdlib>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

namespace differential {
namespace {

// A Send of 8 bytes. Returns 0 or an errno.
int post_send(qp_pair &qps, std::uint64_t wr_id) {
    request request = make_request(qps, IBV_WR_SEND, IBV_SEND_SIGNALED, {{8}}, wr_id);
    if (qps.a->options.extended)
        return post_extended(qps, {request});
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
    if (child == 0) {
        constexpr unsigned limit_s = 60; // only ends a hang
        alarm(limit_s);
        _exit(function());
    }
    int status = 0;
    check(waitpid(child, &status, 0) == child ? 0 : -1, "wait for the child");
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
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
}

// The first count completions of a CQ, as far as they come in time.
std::string get_completions(const endpoint &ep, ibv_cq *cq, unsigned count,
                            std::chrono::milliseconds limit = hang_limit) {
    std::string completions;
    unsigned num_polled = 0;
    wait_until(limit, [&] {
        ibv_wc wc{};
        for (; num_polled < count && ep.poll(cq, wc); ++num_polled)
            completions += ',' + to_string(ep, wc, cq == ep.recv_cq.get());
        return num_polled == count;
    });
    return completions.empty() ? "none" : completions.substr(1);
}

// The parent sends a message.
void transfer(qp_pair &qps, std::uint64_t wr_id, record &record,
              std::chrono::milliseconds limit = hang_limit) {
    record.add("post_recv", error_name(qps.b->post_recv(wr_id)));
    record.add("post_send", error_name(post_send(qps, wr_id)));
    record.add("sends", get_completions(*qps.a, qps.a->send_cq.get(), 1, limit));
    record.add("recvs", get_completions(*qps.b, qps.b->recv_cq.get(), 1, limit));
}

// A child posts to its parent's QP, or polls its CQs; the parent continues. On siw each process
// counts the entries itself, and what the parent posts or polls after its child is lost.
void run_shared_queues(const environment &env, runner &runner) {
    struct queue_case {
        std::string_view name;
        std::function<void(qp_pair &, record &)> function;
    };
    const std::chrono::milliseconds limit = env.options.is_rxe() ? hang_limit : flush_limit;
    const std::vector<queue_case> cases{
        {"posts_send",
         [limit](qp_pair &qps, record &record) {
             check(qps.b->post_recv(1), "post a receive");
             const int error = run_in_child([&] { return post_send(qps, 1); });
             record.add("child", error_name(error));
             if (error == 0) {
                 record.add("child_sends", get_completions(*qps.a, qps.a->send_cq.get(), 1));
                 record.add("child_recvs", get_completions(*qps.b, qps.b->recv_cq.get(), 1));
             }
             transfer(qps, 2, record, limit);
         }},
        {"posts_recv",
         [](qp_pair &qps, record &record) {
             record.add("child", error_name(run_in_child([&] { return qps.b->post_recv(1); })));
             record.add("post", error_name(post_send(qps, 1)));
             record.add("child_recvs", get_completions(*qps.b, qps.b->recv_cq.get(), 1));
             record.add("child_sends", get_completions(*qps.a, qps.a->send_cq.get(), 1));
             if (qps.a->env.options.is_rxe()) // siw ends the connection, for lack of a receive
                 transfer(qps, 2, record);
         }},
        {"polls",
         [limit](qp_pair &qps, record &record) {
             for (std::uint64_t i = 0; i < 3; ++i) {
                 check(qps.b->post_recv(i), "post a receive");
                 check(post_send(qps, i), "post the Send");
             }
             record.add("parent_sends", get_completions(*qps.a, qps.a->send_cq.get(), 3));
             const auto poll = [&](unsigned count) {
                 const std::string recvs = get_completions(*qps.b, qps.b->recv_cq.get(), count);
                 return static_cast<int>(1 + std::ranges::count(recvs, ','));
             };
             record.add("child", run_in_child([&] { return poll(2); }));
             record.add("parent_recvs", get_completions(*qps.b, qps.b->recv_cq.get(), 1, limit));
             record.add("others", get_completions(*qps.b, qps.b->recv_cq.get(), 3, {}));
             transfer(qps, 4, record, limit);
         }},
    };
    for (const bool extended : {false, true})
        for (const queue_case &queue_case : cases) {
            if (extended && !env.options.is_rxe()) // not of the stock provider
                continue;
            runner.run(concat("fork/", queue_case.name, extended ? "_extended" : ""),
                       [&](record &record) {
                           qp_options options = make_options(env);
                           options.extended = extended;
                           qp_pair qps(env, options);
                           qps.connect();
                           queue_case.function(qps, record);
                       });
        }
}

// The number of CQ events that the channel has, of which at least min_events come.
unsigned count_events(ibv_comp_channel *channel, unsigned min_events) {
    unsigned count = 0;
    ibv_cq *cq = nullptr;
    void *cq_context = nullptr;
    wait_until(lost_limit, [&] {
        for (; ibv_get_cq_event(channel, &cq, &cq_context) == 0; ++count)
            ibv_ack_cq_events(cq, 1);
        return count >= min_events;
    });
    return count;
}

// A child arms its parent's CQ, which raises one event. Both have the channel's descriptor.
void run_shared_arming(const environment &env, runner &runner) {
    for (const bool is_recv : {false, true})
        for (const bool parent_arms : {false, true})
            runner.run(concat("fork/arms/", is_recv ? "recv" : "send",
                              parent_arms ? "/parent_arms" : "/parent_waits"),
                       [&](record &record) {
                           const auto channel = create_channel(env);
                           qp_options options = make_options(env);
                           options.channel = channel.get();
                           qp_pair qps(env, options);
                           qps.connect();
                           ibv_cq *const cq = is_recv ? qps.b->recv_cq.get() : qps.a->send_cq.get();
                           record.add("child", error_name(run_in_child(
                                                   [&] { return ibv_req_notify_cq(cq, 0); })));
                           if (parent_arms)
                               record.add("arm", error_name(ibv_req_notify_cq(cq, 0)));
                           transfer(qps, 1, record);
                           record.add("events", count_events(channel.get(), 1));
                           transfer(qps, 2, record);
                           record.add("next_events", count_events(channel.get(), 0));
                       });
}

// A child destroys an object of its parent, which uses it afterwards. The kernel has one object for
// both processes.
void run_shared_destruction(const environment &env, runner &runner) {
    const auto run = [&](std::string_view name, const auto &function) {
        runner.run(concat("fork/destroys/", name), [&](record &record) {
            qp_pair qps(env, make_options(env));
            qps.connect();
            function(qps, record);
        });
    };
    run("qp", [](qp_pair &qps, record &record) {
        ibv_qp *const qp = qps.a->qp;
        record.add("child", error_name(run_in_child([&] { return ibv_destroy_qp(qp); })));
        record.add("post", error_name(post_send(qps, 1)));
        ibv_qp_attr attr{};
        ibv_qp_init_attr init_attr{};
        record.add("query", error_name(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init_attr)));
        record.add("modify", error_name(qps.a->modify(IBV_QPS_ERR)));
        record.add("sends", get_completions(*qps.a, qps.a->send_cq.get(), 1, flush_limit));
        record.add("destroy", error_name(ibv_destroy_qp(qp)));
        static_cast<void>(qps.a->owned_qp.release());
        if (qps.a->id)
            qps.a->id->qp = nullptr;
    });
    run("cq", [&env](qp_pair &, record &record) {
        ibv_cq *const cq = check(ibv_create_cq(env.context, 4, nullptr, nullptr, 0), "CQ");
        record.add("child", error_name(run_in_child([&] { return ibv_destroy_cq(cq); })));
        ibv_wc wc{};
        record.add("poll", ibv_poll_cq(cq, 1, &wc));
        record.add("arm", error_name(ibv_req_notify_cq(cq, 0)));
        record.add("destroy", error_name(ibv_destroy_cq(cq)));
    });
    run("cq_in_use", [](qp_pair &qps, record &record) {
        record.add("child",
                   error_name(run_in_child([&] { return ibv_destroy_cq(qps.a->send_cq.get()); })));
        transfer(qps, 1, record);
    });
    run("mr", [](qp_pair &qps, record &record) {
        record.add("child",
                   error_name(run_in_child([&] { return ibv_dereg_mr(qps.a->mr.get()); })));
        check(qps.b->post_recv(1), "post a receive");
        record.add("post", error_name(post_send(qps, 1)));
        record.add("sends", get_completions(*qps.a, qps.a->send_cq.get(), 1));
        record.add("destroy", error_name(ibv_dereg_mr(qps.a->mr.release())));
    });
    run("device", [&env](qp_pair &qps, record &record) {
        record.add("child", run_in_child([&] { return ibv_close_device(env.context); }));
        transfer(qps, 1, record);
    });
}

// A child that uses and destroys what its parent has created, and that the parent uses no more.
void run_inherited_objects(const environment &env, runner &runner) {
    runner.run("fork/inherits", [&](record &record) {
        const auto channel = create_channel(env);
        qp_options options = make_options(env);
        options.channel = channel.get();
        qp_pair qps(env, options);
        qps.connect();
        endpoint &a = *qps.a, &b = *qps.b;
        constexpr unsigned num_messages = 20; // more than the queues have entries
        // Returns 0, or the number of the check that fails.
        const auto use_and_destroy = [&] {
            for (unsigned i = 0; i < num_messages; ++i) {
                ibv_wc wc{};
                if (b.post_recv(i) != 0)
                    return 1;
                if (ibv_req_notify_cq(b.recv_cq.get(), 0) != 0)
                    return 2;
                if (post_send(qps, i) != 0)
                    return 3;
                if (count_events(channel.get(), 1) != 1)
                    return 4;
                for (const auto &[ep, cq] : {std::pair(&a, a.send_cq.get()), {&b, b.recv_cq.get()}})
                    if (!wait_until(lost_limit,
                                    [&, ep = ep, cq = cq] { return ep->poll(cq, wc); }) ||
                        wc.status != IBV_WC_SUCCESS || wc.wr_id != i)
                        return 5;
            }
            for (endpoint *ep : {&a, &b})
                if (ibv_destroy_qp(ep->qp) != 0 || ibv_destroy_cq(ep->send_cq.get()) != 0 ||
                    ibv_destroy_cq(ep->recv_cq.get()) != 0 || ibv_dereg_mr(ep->mr.get()) != 0 ||
                    ibv_dealloc_pd(ep->pd.get()) != 0)
                    return 6;
            return ibv_close_device(env.context);
        };
        record.add("child", run_in_child(use_and_destroy));
        record.add("post", error_name(post_send(qps, 1)));
        for (endpoint *ep : {&a, &b})
            if (ep->id)
                ep->id->qp = nullptr;
    });
}

} // namespace

void run_processes(const environment &env, runner &runner) {
    run_children(env, runner);
    run_shared_queues(env, runner);
    run_shared_arming(env, runner);
    run_shared_destruction(env, runner);
    run_inherited_objects(env, runner);
}

} // namespace differential

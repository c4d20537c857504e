// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Events of CQs, armed in each way, and asynchronous events.

#include "groups.hpp"
#include "requests.hpp"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <mutex>
#include <poll.h>
#include <thread>
#include <utility>

namespace differential {
namespace {

enum class arm { no, any, solicited };

struct cq_event {
    ibv_cq *cq;
    void *cq_context;
};

/// The next event of the channel, which the caller acknowledges.
cq_event wait_for_cq_event(ibv_comp_channel *channel) {
    pollfd channel_fd{channel->fd, POLLIN, 0};
    if (poll(&channel_fd, 1, static_cast<int>(hang_limit.count())) != 1)
        throw failure("no CQ event");
    cq_event event{};
    check(ibv_get_cq_event(channel, &event.cq, &event.cq_context), "CQ event");
    return event;
}

void arm_cq(ibv_cq *cq, arm mode) {
    if (mode != arm::no)
        check(ibv_req_notify_cq(cq, mode == arm::solicited ? 1 : 0), "arm the CQ");
}

// The number of events of the CQ. The event of another CQ of the channel follows them.
unsigned count_events(ibv_comp_channel *channel, const ibv_cq *cq, qp_pair &other) {
    endpoint &a = *other.a;
    arm_cq(a.send_cq.get(), arm::any);
    if (!other.post_marker())
        throw failure("cannot post the request of the other QP");
    unsigned count = 0;
    for (;;) {
        ibv_cq *const event_cq = wait_for_cq_event(channel).cq;
        ibv_ack_cq_events(event_cq, 1);
        if (event_cq == a.send_cq.get())
            break;
        count += event_cq == cq ? 1 : 0;
    }
    ibv_wc wc{};
    if (!wait_until(hang_limit, [&] { return a.poll(a.send_cq.get(), wc); }))
        throw failure("no completion of the other QP");
    return count;
}

void post_send(qp_pair &qps, unsigned flags, bool fails) {
    check(qps.b->post_recv(1), "post a receive");
    shape data{{8}};
    data.wrong_lkey = fails;
    request request = make_request(qps, IBV_WR_SEND, flags, data, 1);
    request.wr.sg_list = request.sg_list.data();
    ibv_send_wr *bad_wr = nullptr;
    check(ibv_post_send(qps.a->qp, &request.wr, &bad_wr), "post the Send");
}

// Waits for count completions of the endpoint.
void wait_for_completions(const endpoint &ep, ibv_cq *cq, unsigned count) {
    ibv_wc wc{};
    for (unsigned i = 0; i < count; ++i)
        if (!wait_until(hang_limit, [&] { return ep.poll(cq, wc); }))
            throw failure("a completion is lost");
}

// A CQ is armed once or twice, before or after messages have completed.
void run_arming(const environment &env, runner &runner) {
    constexpr std::array arm_names{"no", "any", "solicited"};
    constexpr std::array arms{
        std::pair{arm::no, arm::no},         std::pair{arm::any, arm::no},
        std::pair{arm::solicited, arm::no},  std::pair{arm::any, arm::any},
        std::pair{arm::any, arm::solicited}, std::pair{arm::solicited, arm::any}};
    const auto channel = create_channel(env);
    qp_options options = make_options(env);
    options.channel = channel.get();
    qp_pair other(env, options), qps(env, options);
    for (const bool is_recv : {false, true})
        for (const auto &[first, second] : arms)
            for (const unsigned solicited : {0U, unsigned{IBV_SEND_SOLICITED}})
                for (const bool fails : {false, true})
                    for (const unsigned count : {1U, 3U})
                        for (const bool is_armed_before : {true, false}) {
                            if (fails && (is_recv || count != 1))
                                continue;
                            const std::string name =
                                concat("event/", is_recv ? "recv/" : "send/",
                                       arm_names.at(static_cast<std::size_t>(first)), '-',
                                       arm_names.at(static_cast<std::size_t>(second)),
                                       solicited != 0 ? "/S/" : "/0/", fails ? "error" : "success",
                                       '/', count, is_armed_before ? "/before" : "/after");
                            runner.run(name, [&, first = first, second = second](record &record) {
                                if (!other.a)
                                    other.connect();
                                qps.connect(); // a CQ that is armed remains so
                                ibv_cq *const cq =
                                    is_recv ? qps.b->recv_cq.get() : qps.a->send_cq.get();
                                const auto arm_twice = [&] {
                                    arm_cq(cq, first);
                                    arm_cq(cq, second);
                                };
                                if (is_armed_before)
                                    arm_twice();
                                for (unsigned i = 0; i < count; ++i)
                                    post_send(qps, IBV_SEND_SIGNALED | solicited, fails);
                                wait_for_completions(*qps.a, qps.a->send_cq.get(), count);
                                if (!fails)
                                    wait_for_completions(*qps.b, qps.b->recv_cq.get(), count);
                                if (!is_armed_before)
                                    arm_twice();
                                record.add("events", count_events(channel.get(), cq, other));
                                if (is_armed_before)
                                    arm_twice();
                                if (fails)
                                    return;
                                post_send(qps, IBV_SEND_SIGNALED | solicited, false);
                                wait_for_completions(*qps.a, qps.a->send_cq.get(), 1);
                                wait_for_completions(*qps.b, qps.b->recv_cq.get(), 1);
                                record.add("next_events", count_events(channel.get(), cq, other));
                            });
                        }
}

// The channel itself.
void run_channels(const environment &env, runner &runner) {
    runner.run("channel/empty", [&](record &record) {
        const auto channel = create_channel(env);
        ibv_cq *cq = nullptr;
        void *cq_context = nullptr;
        record.add("get", ibv_get_cq_event(channel.get(), &cq, &cq_context));
        record.add("errno", error_name(errno));
    });
    runner.run("channel/in_use", [&](record &record) {
        ibv_comp_channel *const channel = check(ibv_create_comp_channel(env.context), "channel");
        ibv_cq *const cq = check(ibv_create_cq(env.context, 4, nullptr, channel, 0), "CQ");
        record.add("destroy", error_name(ibv_destroy_comp_channel(channel)));
        record.add("destroy_cq", error_name(ibv_destroy_cq(cq)));
        record.add("destroy_again", error_name(ibv_destroy_comp_channel(channel)));
    });
    for (const int solicited_only : {0, 1, 2, -1})
        runner.run(concat("channel/none/", solicited_only), [&](record &record) {
            ibv_cq *const cq = check(ibv_create_cq(env.context, 4, nullptr, nullptr, 0), "CQ");
            record.add("arm", error_name(ibv_req_notify_cq(cq, solicited_only)));
            record.add("destroy_cq", error_name(ibv_destroy_cq(cq)));
        });
    for (const unsigned num_acks : {1U, 2U})
        runner.run(concat("channel/ack/", num_acks), [&](record &record) {
            const auto channel = create_channel(env);
            qp_options options = make_options(env);
            options.channel = channel.get();
            qp_pair qps(env, options);
            qps.connect();
            ibv_cq *const send_cq = qps.a->send_cq.get();
            send_cq->cq_context = &record;
            for (unsigned i = 0; i < 2; ++i) {
                arm_cq(send_cq, arm::any);
                post_send(qps, IBV_SEND_SIGNALED, false);
                const cq_event event = wait_for_cq_event(channel.get());
                record.add("event", concat(event.cq == send_cq, '/', event.cq_context == &record));
                if (num_acks == 1)
                    ibv_ack_cq_events(event.cq, 1);
            }
            if (num_acks == 2)
                ibv_ack_cq_events(send_cq, 2);
            qps.finish(record);
        });
}

/// Sets the descriptor of asynchronous events to non-blocking, as long as it exists.
class nonblocking_async_fd {
    int fd_, flags_;

  public:
    explicit nonblocking_async_fd(const environment &env)
        : fd_(env.context->async_fd)
        , flags_(fcntl(fd_, F_GETFL)) {
        check(fcntl(fd_, F_SETFL, flags_ | O_NONBLOCK), "async_fd");
    }
    nonblocking_async_fd(const nonblocking_async_fd &) = delete;
    nonblocking_async_fd &operator=(const nonblocking_async_fd &) = delete;
    ~nonblocking_async_fd() { fcntl(fd_, F_SETFL, flags_); }
};

/// Whether an event that comes again counts. The kernel raises some each time that it finds the QP
/// in ERR, so their number differs from run to run.
enum class repetition { counts, ignored };

/// The asynchronous events of the endpoints, "a:TYPE", in the order of their names: at least
/// min_events of them, if they come in time.
std::string get_async_events(const qp_pair &qps, unsigned min_events, repetition repeated,
                             std::chrono::milliseconds limit = lost_limit) {
    const endpoint &a = *qps.a, &b = *qps.b;
    const nonblocking_async_fd fd(a.env);
    std::vector<std::string> events;
    const auto get_all = [&] {
        ibv_async_event event{};
        while (ibv_get_async_event(a.env.context, &event) == 0) {
            const void *const object = event.element.qp;
            const bool is_of_a = object == a.qp || object == a.srq.get() ||
                                 object == a.send_cq.get() || object == a.recv_cq.get();
            const bool is_of_b = object == b.qp || object == b.srq.get() ||
                                 object == b.send_cq.get() || object == b.recv_cq.get();
            std::string name = concat(is_of_a ? "a:" : "b:", event.event_type);
            if ((is_of_a || is_of_b) &&
                (repeated == repetition::counts || std::ranges::find(events, name) == events.end()))
                events.push_back(std::move(name));
            ibv_ack_async_event(&event);
        }
        return events.size() >= min_events;
    };
    wait_until(limit, get_all);
    std::ranges::sort(events);
    std::string text;
    for (const std::string &event : events)
        text += ',' + event;
    return text.empty() ? "none" : text.substr(1);
}

void post_signaled(qp_pair &qps, int opcode, std::uint64_t wr_id,
                   std::uint32_t wrong_rkey_bits = 0) {
    request request = make_request(qps, opcode, IBV_SEND_SIGNALED, {{8}}, wr_id);
    request.wr.sg_list = request.sg_list.data();
    if (wrong_rkey_bits != 0)
        request.wr.wr.rdma.rkey ^= wrong_rkey_bits;
    ibv_send_wr *bad_wr = nullptr;
    check(ibv_post_send(qps.a->qp, &request.wr, &bad_wr), "post a request");
}

// A QP with an SRQ enters ERR: by ibv_modify_qp(), or by an access that fails.
void run_last_wqe(const environment &env, runner &runner) {
    for (const bool is_modified : {true, false})
        for (const unsigned num_recvs : {0U, 1U, 3U})
            runner.run(concat("async/last_wqe/", is_modified ? "modified/" : "access/", num_recvs),
                       [&](record &record) {
                           qp_options options = make_options(env);
                           options.use_srq = true;
                           qp_pair qps(env, options);
                           qps.connect();
                           for (unsigned i = 0; i < num_recvs; ++i)
                               check(qps.b->post_recv(i), "post a receive");
                           if (is_modified) {
                               record.add("modify", error_name(qps.b->modify(IBV_QPS_ERR)));
                           } else {
                               post_signaled(qps, IBV_WR_RDMA_WRITE, 1, 0x5500);
                               wait_for_completions(*qps.a, qps.a->send_cq.get(), 1);
                           }
                           // siw raises none.
                           record.add(
                               "events",
                               get_async_events(qps, is_modified ? 1 : 3, repetition::ignored,
                                                env.options.is_rxe() ? lost_limit : flush_limit));
                       });
}

// A request that fails, at the requester or at the responder.
void run_failures(const environment &env, runner &runner) {
    struct failure_case {
        const char *name;
        int opcode;
        bool raises_on_rxe, raises_on_siw;
        void (*change)(qp_pair &, request &, ibv_sge &recv_sge);
    };
    constexpr std::array cases{
        failure_case{"send_lkey", IBV_WR_SEND, false, true,
                     [](qp_pair &, request &request, ibv_sge &) {
                         request.sg_list.front().lkey ^= 0x5500;
                     }},
        failure_case{"recv_lkey", IBV_WR_SEND, false, true,
                     [](qp_pair &, request &, ibv_sge &recv_sge) {
                         recv_sge.lkey ^= 0x5500;
                     }},
        failure_case{"recv_length", IBV_WR_SEND, false, true,
                     [](qp_pair &, request &, ibv_sge &recv_sge) {
                         recv_sge.length = 1;
                     }},
        failure_case{"write_rkey", IBV_WR_RDMA_WRITE, true, false,
                     [](qp_pair &, request &request, ibv_sge &) {
                         request.wr.wr.rdma.rkey ^= 0x5500;
                     }},
        failure_case{"write_range", IBV_WR_RDMA_WRITE, true, true,
                     [](qp_pair &qps, request &request, ibv_sge &) {
                         request.wr.wr.rdma.remote_addr = qps.b->addr(qps.b->memory.size()) - 1;
                     }},
        failure_case{"read_range", IBV_WR_RDMA_READ, true, true,
                     [](qp_pair &qps, request &request, ibv_sge &) {
                         request.wr.wr.rdma.remote_addr = qps.b->addr(qps.b->memory.size()) - 1;
                     }},
    };
    for (const failure_case &failure_case : cases)
        runner.run(concat("async/failure/", failure_case.name), [&](record &record) {
            qp_pair qps(env, make_options(env));
            qps.connect();
            request request = make_request(qps, failure_case.opcode, IBV_SEND_SIGNALED, {{8}}, 1);
            ibv_sge recv_sge = qps.b->make_sge(64);
            failure_case.change(qps, request, recv_sge);
            request.wr.sg_list = request.sg_list.data();
            ibv_recv_wr recv_wr{1, nullptr, &recv_sge, 1}, *bad_recv_wr = nullptr;
            check(qps.b->post_recv_list(&recv_wr, &bad_recv_wr), "post a receive");
            ibv_send_wr *bad_wr = nullptr;
            check(ibv_post_send(qps.a->qp, &request.wr, &bad_wr), "post a request");
            const bool raises =
                env.options.is_rxe() ? failure_case.raises_on_rxe : failure_case.raises_on_siw;
            record.add("events", get_async_events(qps, 1, repetition::ignored,
                                                  raises ? lost_limit : flush_limit));
        });
}

// More completions than the CQ has entries.
constexpr int overflown_cqe = 4;
unsigned overflow_send_cq(qp_pair &qps) {
    constexpr unsigned num_lost = 3;
    const unsigned num_writes = static_cast<unsigned>(qps.a->send_cq->cqe) + num_lost;
    for (unsigned i = 0; i < num_writes; ++i)
        post_signaled(qps, IBV_WR_RDMA_WRITE, i);
    return num_lost;
}

void run_overflow(const environment &env, runner &runner) {
    runner.run("async/cq_overflow", [&](record &record) {
        qp_options options = make_options(env);
        options.cqe = overflown_cqe;
        qp_pair qps(env, options);
        qps.connect();
        const unsigned num_lost = overflow_send_cq(qps);
        record.add("events", get_async_events(qps, num_lost, repetition::counts));
        ibv_wc wc{};
        unsigned num_polled = 0;
        while (qps.a->poll(qps.a->send_cq.get(), wc))
            ++num_polled;
        record.add("polled", num_polled);
        record.add("state", static_cast<int>(qps.a->query_state()));
    });
}

// Gets asynchronous events until one has the type, and acknowledges those before it.
ibv_async_event wait_for_async_event(const environment &env, ibv_event_type type) {
    const nonblocking_async_fd fd(env);
    ibv_async_event event{};
    const auto get = [&] {
        while (ibv_get_async_event(env.context, &event) == 0) {
            if (event.event_type == type)
                return true;
            ibv_ack_async_event(&event);
        }
        return false;
    };
    if (!wait_until(lost_limit, get))
        throw failure("no event");
    return event;
}

int move_to_sqd_and_notify(const endpoint &ep) {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_SQD;
    attr.en_sqd_async_notify = 1;
    return ibv_modify_qp(ep.qp, &attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY);
}

// Destroys an object of which one event is not acknowledged, and acknowledges that later.
template <class destroyer, class acknowledger>
void destroy_before_ack(record &record, const destroyer &destroy, const acknowledger &acknowledge) {
    std::mutex mutex;
    std::string order;
    const auto add = [&](std::string_view step) {
        const std::lock_guard guard(mutex);
        order += step;
    };
    int error = 0;
    std::thread thread([&] {
        error = destroy();
        add("-destroyed");
    });
    // A call that does not wait returns by then.
    std::this_thread::sleep_for(flush_limit);
    add("acknowledged");
    acknowledge();
    thread.join();
    record.add("order", order);
    record.add("destroy", error_name(error));
}

int destroy_qp(endpoint &ep) {
    if (!ep.id)
        return ibv_destroy_qp(ep.owned_qp.release());
    return ibv_destroy_qp(std::exchange(ep.id->qp, nullptr));
}

void run_unacknowledged(const environment &env, runner &runner) {
    runner.run("unacknowledged/comp_event", [&](record &record) {
        const auto channel = create_channel(env);
        qp_options options = make_options(env);
        options.channel = channel.get();
        qp_pair qps(env, options);
        qps.connect();
        arm_cq(qps.a->send_cq.get(), arm::any);
        post_send(qps, IBV_SEND_SIGNALED, false);
        const cq_event event = wait_for_cq_event(channel.get());
        check(destroy_qp(*qps.a), "destroy the QP");
        destroy_before_ack(
            record, [&] { return ibv_destroy_cq(qps.a->send_cq.release()); },
            [&] { ibv_ack_cq_events(event.cq, 1); });
    });
    runner.run("unacknowledged/cq", [&](record &record) {
        qp_options options = make_options(env);
        options.cqe = overflown_cqe;
        qp_pair qps(env, options);
        qps.connect();
        overflow_send_cq(qps);
        ibv_async_event event = wait_for_async_event(env, IBV_EVENT_CQ_ERR);
        check(destroy_qp(*qps.a), "destroy the QP");
        destroy_before_ack(
            record, [&] { return ibv_destroy_cq(qps.a->send_cq.release()); },
            [&] { ibv_ack_async_event(&event); });
    });
    runner.run("unacknowledged/srq", [&](record &record) {
        qp_options options = make_options(env);
        options.use_srq = true;
        qp_pair qps(env, options);
        qps.connect();
        endpoint &b = *qps.b;
        for (unsigned i = 0; i < 2; ++i)
            check(b.post_recv(i), "post a receive");
        ibv_srq_attr attr{};
        attr.srq_limit = 2;
        check(ibv_modify_srq(b.srq.get(), &attr, IBV_SRQ_LIMIT), "set the limit");
        post_signaled(qps, IBV_WR_SEND, 1);
        ibv_async_event event = wait_for_async_event(env, IBV_EVENT_SRQ_LIMIT_REACHED);
        check(destroy_qp(b), "destroy the QP");
        destroy_before_ack(
            record, [&] { return ibv_destroy_srq(b.srq.release()); },
            [&] { ibv_ack_async_event(&event); });
    });
    runner.run("unacknowledged/qp", [&](record &record) {
        qp_pair qps(env, make_options(env));
        qps.connect();
        // An event that each release of the driver raises.
        if (env.options.is_rxe())
            check(move_to_sqd_and_notify(*qps.a), "to SQD");
        else
            post_send(qps, IBV_SEND_SIGNALED, true);
        ibv_async_event event = wait_for_async_event(
            env, env.options.is_rxe() ? IBV_EVENT_SQ_DRAINED : IBV_EVENT_QP_FATAL);
        destroy_before_ack(
            record, [&] { return destroy_qp(*qps.a); }, [&] { ibv_ack_async_event(&event); });
    });
}

void run_async_events(const environment &env, runner &runner) {
    for (const std::uint32_t limit : {0U, 1U, 2U, 4U, 5U, 16U})
        for (const unsigned num_sends : {0U, 1U, 2U, 4U})
            runner.run(concat("async/srq_limit/", limit, '/', num_sends), [&](record &record) {
                qp_options options = make_options(env);
                options.use_srq = true;
                qp_pair qps(env, options);
                qps.prepare(1);
                if (!env.options.is_rxe())
                    qps.b->num_recvs = 0;
                for (unsigned i = 0; i < 4; ++i)
                    check(qps.b->post_recv(i), "post a receive");
                ibv_srq_attr attr{};
                attr.srq_limit = limit;
                record.add("modify",
                           error_name(ibv_modify_srq(qps.b->srq.get(), &attr, IBV_SRQ_LIMIT)));
                for (unsigned i = 0; i < num_sends; ++i)
                    post_signaled(qps, IBV_WR_SEND, i);
                wait_for_completions(*qps.b, qps.b->recv_cq.get(), num_sends);
                // The kernel raises the event before the receive's completion.
                record.add("events", get_async_events(qps, 0, repetition::counts));
            });
    if (!env.options.is_rxe())
        return;
    runner.run("async/sq_drained", [&](record &record) {
        qp_pair qps(env, make_options(env));
        qps.prepare(1);
        post_send(qps, IBV_SEND_SIGNALED, false);
        record.add("modify", error_name(move_to_sqd_and_notify(*qps.a)));
        record.add("events", get_async_events(qps, 1, repetition::counts));
    });
}

} // namespace

void run_events(const environment &env, runner &runner) {
    run_arming(env, runner);
    run_channels(env, runner);
    run_async_events(env, runner);
    run_last_wqe(env, runner);
    run_failures(env, runner);
    run_overflow(env, runner);
    run_unacknowledged(env, runner);
}

} // namespace differential

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Events of CQs, armed in each way, and asynchronous events.

#include "groups.hpp"
#include "requests.hpp"

#include <cerrno>
#include <fcntl.h>
#include <poll.h>

namespace differential {
namespace {

enum class arm { no, any, solicited };

/// The CQ of the next event of the channel, which this acknowledges; nullptr: none until the limit.
ibv_cq *get_event(ibv_comp_channel *channel, int limit_ms) {
    pollfd channel_fd{channel->fd, POLLIN, 0};
    if (poll(&channel_fd, 1, limit_ms) != 1)
        return nullptr;
    ibv_cq *cq = nullptr;
    void *cq_context = nullptr;
    check(ibv_get_cq_event(channel, &cq, &cq_context), "CQ event");
    ibv_ack_cq_events(cq, 1);
    return cq;
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
        const ibv_cq *const event_cq = get_event(channel, static_cast<int>(hang_limit.count()));
        if (event_cq == nullptr)
            throw failure("no event of the other CQ");
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
            void *cq_context = &record;
            send_cq->cq_context = cq_context;
            for (unsigned i = 0; i < 2; ++i) {
                arm_cq(send_cq, arm::any);
                post_send(qps, IBV_SEND_SIGNALED, false);
                pollfd channel_fd{channel->fd, POLLIN, 0};
                check(poll(&channel_fd, 1, static_cast<int>(hang_limit.count())) - 1, "event");
                ibv_cq *cq = nullptr;
                check(ibv_get_cq_event(channel.get(), &cq, &cq_context), "CQ event");
                record.add("event", concat(cq == send_cq, '/', cq_context == &record));
                if (num_acks == 1)
                    ibv_ack_cq_events(cq, 1);
            }
            if (num_acks == 2)
                ibv_ack_cq_events(send_cq, 2);
            qps.finish(record);
        });
}

/// The asynchronous events, those of an object by its name: at least min_events of them, if they
/// come in time.
std::string get_async_events(const environment &env, const endpoint &a, const endpoint &b,
                             unsigned min_events) {
    const int fd = env.context->async_fd;
    const int flags = fcntl(fd, F_GETFL);
    check(fcntl(fd, F_SETFL, flags | O_NONBLOCK), "async_fd");
    std::vector<std::string> events;
    const auto get_all = [&] {
        ibv_async_event event{};
        while (ibv_get_async_event(env.context, &event) == 0) {
            const void *const object = event.element.qp;
            const bool is_of_a = object == a.qp || object == a.srq.get() ||
                                 object == a.send_cq.get() || object == a.recv_cq.get();
            const bool is_of_b = object == b.qp || object == b.srq.get() ||
                                 object == b.send_cq.get() || object == b.recv_cq.get();
            if (is_of_a || is_of_b)
                events.push_back(concat(',', is_of_a ? "a:" : "b:", event.event_type));
            ibv_ack_async_event(&event);
        }
        return events.size() >= min_events;
    };
    wait_until(lost_limit, get_all);
    check(fcntl(fd, F_SETFL, flags), "async_fd");
    std::ranges::sort(events);
    std::string text;
    for (const std::string &event : events)
        text += event;
    return text.empty() ? "none" : text.substr(1);
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
                for (unsigned i = 0; i < num_sends; ++i) {
                    request request = make_request(qps, IBV_WR_SEND, IBV_SEND_SIGNALED, {{8}}, i);
                    request.wr.sg_list = request.sg_list.data();
                    ibv_send_wr *bad_wr = nullptr;
                    check(ibv_post_send(qps.a->qp, &request.wr, &bad_wr), "post a Send");
                }
                wait_for_completions(*qps.b, qps.b->recv_cq.get(), num_sends);
                // The kernel raises the event before the receive's completion.
                record.add("events", get_async_events(env, *qps.a, *qps.b, 0));
            });
    if (!env.options.is_rxe())
        return;
    runner.run("async/sq_drained", [&](record &record) {
        qp_pair qps(env, make_options(env));
        qps.prepare(1);
        ibv_qp_attr attr{};
        attr.qp_state = IBV_QPS_SQD;
        attr.en_sqd_async_notify = 1;
        post_send(qps, IBV_SEND_SIGNALED, false);
        record.add("modify", error_name(ibv_modify_qp(qps.a->qp, &attr,
                                                      IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY)));
        record.add("events", get_async_events(env, *qps.a, *qps.b, 1));
    });
    runner.run("async/cq_overflow", [&](record &record) {
        qp_options options = make_options(env);
        options.cap.max_send_wr = 128; // more than the CQ takes
        qp_pair qps(env, options);
        qps.prepare(1);
        for (unsigned i = 0; i < 100; ++i) {
            request request = make_request(qps, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED, {{8}}, i);
            request.wr.sg_list = request.sg_list.data();
            ibv_send_wr *bad_wr = nullptr;
            check(ibv_post_send(qps.a->qp, &request.wr, &bad_wr), "post a Write");
        }
        const std::string events = get_async_events(env, *qps.a, *qps.b, 1);
        record.add("first_event", events.substr(0, events.find(',')));
    });
}

} // namespace

void run_events(const environment &env, runner &runner) {
    run_arming(env, runner);
    run_channels(env, runner);
    run_async_events(env, runner);
}

} // namespace differential

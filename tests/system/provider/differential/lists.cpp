// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Lists of requests, full queues, receives of all shapes, and posts in each state.

#include "groups.hpp"
#include "requests.hpp"

#include <poll.h>

namespace differential {
namespace {

enum class invalid { no, opcode, num_sge, too_long_inline };

// The index of bad_wr in a list.
template <class wr>
std::string index_of(const wr *list, const wr *bad_wr) {
    for (int index = 0; list != nullptr; ++index, list = list->next)
        if (list == bad_wr)
            return std::to_string(index);
    return bad_wr == nullptr ? "null" : "other";
}

// A list of count Sends, of which the one with the index is invalid.
void post_list(qp_pair &qps, int count, int invalid_index, invalid kind, bool signaled,
               record &record) {
    std::vector<request> requests;
    for (int i = 0; i < count; ++i)
        requests.push_back(make_request(
            qps, IBV_WR_SEND, signaled || i == count - 1 ? unsigned{IBV_SEND_SIGNALED} : 0U,
            {{static_cast<std::uint32_t>(i + 1)}}, static_cast<std::uint64_t>(100 + i)));
    for (int i = 0; i < count; ++i) {
        ibv_send_wr &wr = requests.at(static_cast<std::size_t>(i)).wr;
        wr.sg_list = requests.at(static_cast<std::size_t>(i)).sg_list.data();
        wr.next = i + 1 < count ? &requests.at(static_cast<std::size_t>(i) + 1).wr : nullptr;
        if (i != invalid_index)
            continue;
        if (kind == invalid::opcode)
            wr.opcode = static_cast<ibv_wr_opcode>(IBV_WR_SEND_WITH_INV + 2);
        else if (kind == invalid::num_sge)
            wr.num_sge = 5;
        else if (kind == invalid::too_long_inline)
            wr.send_flags |= IBV_SEND_INLINE, wr.sg_list->length = 1000;
    }
    for (int i = 0; i < count; ++i)
        check(qps.b->post_recv(static_cast<std::uint64_t>(i)), "post a receive");
    ibv_send_wr *bad_wr = nullptr;
    const int error = ibv_post_send(qps.a->qp, &requests.front().wr, &bad_wr);
    record.add("post", error_name(error));
    if (error != 0)
        record.add("bad_wr", index_of(&requests.front().wr, bad_wr));
    qps.finish(record);
}

// Lists of 1 to 8 Sends, valid or with one invalid WR at each index. "all", "flag": with sq_sig_all
// or without; "each", "last": the WRs that have IBV_SEND_SIGNALED.
void run_list_of_sends(const environment &env, runner &runner) {
    constexpr std::array kinds{
        std::pair{invalid::no, "valid"}, std::pair{invalid::opcode, "opcode"},
        std::pair{invalid::num_sge, "num_sge"}, std::pair{invalid::too_long_inline, "inline"}};
    for (const bool sq_sig_all : {false, true}) {
        qp_options options = make_options(env);
        options.sq_sig_all = sq_sig_all;
        qp_pair qps(env, options);
        for (const auto &[kind, kind_name] : kinds)
            for (const bool signaled : {false, true})
                for (int count = 1; count <= 8; ++count)
                    for (int index = 0; index < (kind == invalid::no ? 1 : count); ++index) {
                        const std::string name = concat("list/", sq_sig_all ? "all" : "flag", '/',
                                                        signaled ? "each" : "last", '/', kind_name,
                                                        '/', count, '/', index);
                        runner.run(name, [&, kind = kind](record &record) {
                            qps.prepare(static_cast<unsigned>(count));
                            post_list(qps, count, index, kind, signaled, record);
                        });
                    }
    }
}

// Receives of count SGEs of a length, for messages of other lengths.
void run_scatter(const environment &env, runner &runner, bool use_srq) {
    qp_options options = make_options(env);
    options.use_srq = use_srq;
    qp_pair qps(env, options);
    for (const int num_sge : {-1, 0, 1, 2, 3, 4, 5, 33})
        for (const std::uint32_t sge_length : {0U, 1U, 8U, 64U, 700U})
            for (const std::uint32_t length : {0U, 1U, 7U, 8U, 9U, 64U, 129U, 1400U, 3000U})
                for (const bool wrong_lkey : {false, true}) {
                    if (wrong_lkey && (num_sge < 1 || length == 0))
                        continue;
                    // On siw the stock provider writes beyond the WQE, and loses what is posted
                    // after a failure.
                    const bool fails = wrong_lkey || num_sge < 0 || num_sge > 6 ||
                                       length > static_cast<std::uint32_t>(num_sge) * sge_length;
                    if (!env.options.is_rxe() && (fails || (num_sge > 1 && sge_length == 0)))
                        continue;
                    const std::string name =
                        concat(use_srq ? "srq/" : "recv/", num_sge, 'x', sge_length,
                               wrong_lkey ? "(lkey)" : "", '/', length);
                    runner.run(name, [&](record &record) {
                        qps.prepare(length);
                        endpoint &b = *qps.b;
                        std::array<ibv_sge, 40> sg_list{};
                        for (std::size_t i = 0; i < sg_list.size(); ++i)
                            sg_list.at(i) = b.make_sge(sge_length, 256 + i * 800 % 12000);
                        if (wrong_lkey)
                            sg_list.front().lkey ^= 0x5500;
                        ibv_recv_wr wr{7, nullptr, sg_list.data(), num_sge}, *bad_wr = nullptr;
                        const int error = b.post_recv_list(&wr, &bad_wr);
                        record.add("post", error_name(error));
                        if (error != 0) {
                            record.add("bad_wr", index_of(&wr, bad_wr));
                            return; // The requester would wait for a receive.
                        }
                        request request =
                            make_request(qps, IBV_WR_SEND, IBV_SEND_SIGNALED, {{length}}, 1);
                        request.wr.sg_list = request.sg_list.data();
                        ibv_send_wr *bad_send_wr = nullptr;
                        check(ibv_post_send(qps.a->qp, &request.wr, &bad_send_wr), "post the Send");
                        qps.finish(record);
                    });
                }
}

// A QP or SRQ takes as many receives as it was asked for; the rest of the list is refused.
void run_full_recvs(const environment &env, runner &runner) {
    for (const bool use_srq : {false, true})
        for (const int count : {1, 8, 15, 16, 40}) {
            const std::string name = concat("full/", use_srq ? "srq" : "recv", '/', count);
            runner.run(name, [&](record &record) {
                qp_options options = make_options(env);
                options.use_srq = use_srq;
                qp_pair qps(env, options);
                qps.prepare(1);
                endpoint &b = *qps.b;
                std::vector<ibv_recv_wr> list(static_cast<std::size_t>(count));
                ibv_sge sge = b.make_sge(64);
                for (std::size_t i = 0; i < list.size(); ++i)
                    list[i] = {i, i + 1 < list.size() ? &list[i + 1] : nullptr, &sge, 1};
                ibv_recv_wr *bad_wr = nullptr;
                const int error = b.post_recv_list(list.data(), &bad_wr);
                record.add("post", error_name(error));
                if (error != 0)
                    record.add("bad_wr", index_of(list.data(), bad_wr));
                qps.finish(record);
            });
        }
}

// Posts in a state in which nothing is sent. Afterwards the QP is connected, and what it sends then
// is recorded. Only rxe has such states without a connection manager.
void run_states(const environment &env, runner &runner) {
    constexpr std::array states{std::pair{IBV_QPS_RESET, "RESET"}, std::pair{IBV_QPS_INIT, "INIT"},
                                std::pair{IBV_QPS_RTR, "RTR"}, std::pair{IBV_QPS_ERR, "ERR"}};
    constexpr std::array types{std::pair{IBV_QPT_RC, "rc"}, std::pair{IBV_QPT_UC, "uc"},
                               std::pair{IBV_QPT_UD, "ud"}};
    if (!env.options.is_rxe())
        return;
    for (const auto &[type, type_name] : types)
        for (const auto &[state, state_name] : states)
            for (const bool is_recv : {false, true})
                for (const int count : {1, 3}) {
                    const std::string name = concat("state/", type_name, '/', state_name, '/',
                                                    is_recv ? "recv" : "send", '/', count);
                    runner.run(name, [&, type = type, state = state](record &record) {
                        qp_options options = make_options(env);
                        options.type = type;
                        endpoint a(env, options);
                        a.create_qp();
                        if (state != IBV_QPS_RESET)
                            a.to_init();
                        if (state == IBV_QPS_RTR)
                            a.to_rtr(a);
                        if (state == IBV_QPS_ERR)
                            check(a.modify(IBV_QPS_ERR), "to ERR");
                        const ibv_ah_attr ah_attr = a.make_ah_attr();
                        a.ah.reset(ibv_create_ah(a.pd.get(), const_cast<ibv_ah_attr *>(&ah_attr)));
                        ibv_sge sge = a.make_sge(16);
                        std::array<ibv_send_wr, 3> sends{};
                        std::array<ibv_recv_wr, 3> recvs{};
                        for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
                            const bool has_next = i + 1 < static_cast<std::size_t>(count);
                            recvs.at(i) = {i, has_next ? &recvs.at(i + 1) : nullptr, &sge, 1};
                            ibv_send_wr &wr = sends.at(i);
                            wr.wr_id = i;
                            wr.next = has_next ? &sends.at(i + 1) : nullptr;
                            wr.sg_list = &sge;
                            wr.num_sge = 1;
                            wr.opcode = IBV_WR_SEND;
                            wr.send_flags = IBV_SEND_SIGNALED;
                            if (type == IBV_QPT_UD)
                                wr.wr.ud = {a.ah.get(), a.qp->qp_num, endpoint::qkey};
                        }
                        ibv_send_wr *bad_send_wr = nullptr;
                        ibv_recv_wr *bad_recv_wr = nullptr;
                        const int error = is_recv ? ibv_post_recv(a.qp, recvs.data(), &bad_recv_wr)
                                                  : ibv_post_send(a.qp, sends.data(), &bad_send_wr);
                        record.add("post", error_name(error));
                        if (error != 0)
                            record.add("bad_wr", is_recv ? index_of(recvs.data(), bad_recv_wr)
                                                         : index_of(sends.data(), bad_send_wr));
                    });
                }
}

// Posts Sends until the SQ is full, which no kernel empties in SQD, then invalid ones.
void run_full_sends(const environment &env, runner &runner) {
    if (!env.options.is_rxe())
        return;
    constexpr std::array kinds{
        std::pair{invalid::no, "valid"}, std::pair{invalid::opcode, "opcode"},
        std::pair{invalid::num_sge, "num_sge"}, std::pair{invalid::too_long_inline, "inline"}};
    for (const auto &[kind, kind_name] : kinds)
        runner.run(concat("full/send/", kind_name), [&, kind = kind](record &record) {
            qp_pair qps(env, make_options(env));
            qps.prepare(1);
            check(qps.a->modify(IBV_QPS_SQD), "to SQD");
            request request = make_request(qps, IBV_WR_SEND, IBV_SEND_SIGNALED, {{8}}, 1);
            ibv_send_wr &wr = request.wr, *bad_wr = nullptr;
            wr.sg_list = request.sg_list.data();
            int error = 0;
            unsigned count = 0;
            constexpr unsigned max_count = 1000;
            while (count < max_count && (error = ibv_post_send(qps.a->qp, &wr, &bad_wr)) == 0)
                ++count;
            record.add("capacity", count);
            record.add("full", error_name(error));
            if (kind == invalid::opcode)
                wr.opcode = static_cast<ibv_wr_opcode>(IBV_WR_SEND_WITH_INV + 2);
            else if (kind == invalid::num_sge)
                wr.num_sge = 5;
            else if (kind == invalid::too_long_inline)
                wr.send_flags |= IBV_SEND_INLINE, wr.sg_list->length = 1000;
            record.add("post", error_name(ibv_post_send(qps.a->qp, &wr, &bad_wr)));
            record.add("bad_wr", index_of(&wr, bad_wr));
        });
}

// A program may give no bad_wr.
void run_without_bad_wr(const environment &env, runner &runner) {
    for (const int num_sge : {1, 7})
        for (const bool is_recv : {false, true})
            runner.run(
                concat("no_bad_wr/", is_recv ? "recv" : "send", '/', num_sge), [&](record &record) {
                    qp_pair qps(env, make_options(env));
                    qps.prepare(1);
                    check(qps.b->post_recv(1), "post a receive");
                    request request =
                        make_request(qps, IBV_WR_SEND, IBV_SEND_SIGNALED, {{8}, num_sge}, 1);
                    request.sg_list.resize(8);
                    request.wr.sg_list = request.sg_list.data();
                    ibv_recv_wr recv_wr{2, nullptr, request.sg_list.data(), num_sge};
                    const int error = is_recv ? ibv_post_recv(qps.b->qp, &recv_wr, nullptr)
                                              : ibv_post_send(qps.a->qp, &request.wr, nullptr);
                    record.add("post", error_name(error));
                });
}

// Completions of a QP that is reset or destroyed before they are polled.
void run_leftover(const environment &env, runner &runner) {
    for (const bool is_reset : {true, false}) {
        if (is_reset && !env.options.is_rxe())
            continue;
        runner.run(concat("leftover/", is_reset ? "reset" : "destroy"), [&](record &record) {
            qp_options options = make_options(env);
            const auto channel = create_channel(env);
            options.channel = channel.get();
            qp_pair qps(env, options);
            qps.prepare(1);
            endpoint &a = *qps.a, &b = *qps.b;
            check(b.post_recv(1), "post a receive");
            check(ibv_req_notify_cq(a.send_cq.get(), 0), "arm the CQ");
            request request = make_request(qps, IBV_WR_SEND, IBV_SEND_SIGNALED, {{8}}, 1);
            request.wr.sg_list = request.sg_list.data();
            ibv_send_wr *bad_wr = nullptr;
            check(ibv_post_send(a.qp, &request.wr, &bad_wr), "post the Send");
            pollfd event_fd{channel->fd, POLLIN, 0};
            check(poll(&event_fd, 1, -1) - 1, "wait for the completion");
            ibv_cq *event_cq = nullptr;
            void *cq_context = nullptr;
            check(ibv_get_cq_event(channel.get(), &event_cq, &cq_context), "CQ event");
            ibv_ack_cq_events(event_cq, 1);
            ibv_wc wc{};
            int error = 0;
            if (is_reset)
                error = a.modify(IBV_QPS_RESET);
            else if (a.id)
                rdma_destroy_qp(a.id.get());
            else
                error = ibv_destroy_qp(a.owned_qp.release());
            record.add("result", error_name(error));
            record.add("polled", a.poll(a.send_cq.get(), wc));
        });
    }
}

} // namespace

void run_lists(const environment &env, runner &runner) {
    run_list_of_sends(env, runner);
    run_full_sends(env, runner);
    run_without_bad_wr(env, runner);
    run_leftover(env, runner);
}

void run_recvs(const environment &env, runner &runner) {
    run_scatter(env, runner, false);
    run_scatter(env, runner, true);
    run_full_recvs(env, runner);
    run_states(env, runner);
}

} // namespace differential

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Thread domains and parent domains, extended CQs, sequences of ibv_start_poll(), and connected QPs
// of siw that ibv_modify_qp() changes.

#include "groups.hpp"
#include "requests.hpp"

#include <cerrno>

namespace differential {
namespace {

void run_creation(const environment &env, runner &runner) {
    for (const std::uint32_t comp_mask : {0U, 1U})
        runner.run(concat("alloc_td/", comp_mask), [&](record &record) {
            ibv_td_init_attr attr{comp_mask};
            ibv_td *const td = ibv_alloc_td(env.context, &attr);
            record.add("created", td != nullptr ? "yes" : error_name(errno));
            if (td != nullptr)
                record.add("destroyed", error_name(ibv_dealloc_td(td)));
        });
    for (const bool has_pd : {true, false})
        for (const std::uint32_t comp_mask : {0U, 1U, 2U, 3U, 4U})
            runner.run(concat("parent_domain/", has_pd ? "pd/" : "none/", comp_mask),
                       [&](record &record) {
                           const unique_handle<ibv_pd, ibv_dealloc_pd> pd(
                               check(ibv_alloc_pd(env.context), "PD"));
                           ibv_parent_domain_init_attr attr{};
                           attr.pd = has_pd ? pd.get() : nullptr;
                           attr.comp_mask = comp_mask;
                           ibv_pd *const parent = ibv_alloc_parent_domain(env.context, &attr);
                           record.add("created", parent != nullptr ? "yes" : error_name(errno));
                           if (parent != nullptr)
                               record.add("destroyed", error_name(ibv_dealloc_pd(parent)));
                       });
    runner.run("parent_domain/transfer", [&](record &record) {
        qp_options options = make_options(env);
        options.use_td = true;
        qp_pair qps(env, options);
        try {
            qps.connect();
        } catch (const std::exception &error) {
            record.add("created", "no");
            return;
        }
        check(qps.b->post_recv(1), "post a receive");
        request request = make_request(qps, IBV_WR_SEND, IBV_SEND_SIGNALED, {{8}}, 1);
        request.wr.sg_list = request.sg_list.data();
        ibv_send_wr *bad_wr = nullptr;
        record.add("post", error_name(ibv_post_send(qps.a->qp, &request.wr, &bad_wr)));
        qps.finish(record);
        record.add("dealloc_pd", error_name(ibv_dealloc_pd(qps.a->base_pd.get())));
        record.add("dealloc_td", error_name(ibv_dealloc_td(qps.a->td.get())));
    });
}

void run_create_cq_ex(const environment &env, runner &runner) {
    const auto create = [&env](record &record, ibv_cq_init_attr_ex attr) {
        attr.cqe = 4;
        ibv_cq_ex *const cq = ibv_create_cq_ex(env.context, &attr);
        record.add("created", cq != nullptr ? "yes" : error_name(errno));
        if (cq == nullptr)
            return;
        record.add("cqe", cq->cqe);
        record.add("destroyed", error_name(ibv_destroy_cq(ibv_cq_ex_to_cq(cq))));
    };
    constexpr unsigned num_wc_flags = 14;
    for (unsigned bit = 0; bit < num_wc_flags; ++bit)
        runner.run(concat("create_cq_ex/wc_flags/", bit), [&](record &record) {
            ibv_cq_init_attr_ex attr{};
            attr.wc_flags = std::uint64_t{1} << bit;
            create(record, attr);
        });
    for (unsigned bit = 0; bit < 4; ++bit) {
        runner.run(concat("create_cq_ex/flags/", bit), [&](record &record) {
            ibv_cq_init_attr_ex attr{};
            attr.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
            attr.flags = 1U << bit;
            create(record, attr);
        });
        runner.run(concat("create_cq_ex/comp_mask/", bit), [&](record &record) {
            ibv_cq_init_attr_ex attr{};
            attr.comp_mask = 1U << bit;
            create(record, attr);
        });
    }
}

// Polls by a sequence of ibv_start_poll() (S), ibv_next_poll() (N) and ibv_end_poll() (E); X is
// ibv_start_poll() with attributes that do not exist. What may not follow a failure is left out.
std::string poll_by_sequence(ibv_cq_ex *cq, std::string_view sequence) {
    std::string text;
    bool is_started = false, has_wc = false;
    for (const char step : sequence) {
        if (step == 'E') {
            if (is_started)
                ibv_end_poll(cq);
            is_started = has_wc = false;
            continue;
        }
        int error = 0;
        if (step == 'N') {
            if (!has_wc)
                continue;
            error = ibv_next_poll(cq);
        } else {
            ibv_poll_cq_attr attr{};
            attr.comp_mask = step == 'X' ? 1 : 0;
            error = ibv_start_poll(cq, &attr);
            is_started = error == 0;
        }
        has_wc = error == 0;
        text += concat(',', step, error_name(error));
        if (has_wc)
            text += concat(':', cq->wr_id, ':', cq->status, ':', ibv_wc_read_opcode(cq), ':',
                           ibv_wc_read_byte_len(cq), ":f", ibv_wc_read_wc_flags(cq));
    }
    return text.substr(1);
}

void run_sequences(const environment &env, runner &runner) {
    if (!env.options.is_rxe()) // the stock provider has no extended CQs
        return;
    qp_options options = make_options(env);
    options.extended = true;
    qp_pair qps(env, options);
    for (const std::string_view sequence :
         {"SE", "XE", "SESE", "SNE", "SNNE", "SNNNNE", "SNESNE", "SESNESNNE", "SESESESESE"})
        for (unsigned count = 0; count <= 4; ++count)
            for (const bool is_long : {false, true})
                runner.run(
                    concat("sequence/", sequence, '/', count, is_long ? "/error" : "/success"),
                    [&](record &record) {
                        qps.connect();
                        endpoint &b = *qps.b;
                        std::vector<request> requests;
                        for (unsigned i = 0; i < count; ++i) {
                            const bool is_last = i + 1 == count;
                            check(b.post_recv(i, is_last && is_long ? 1 : 64), "post a receive");
                            requests.push_back(make_request(
                                qps, IBV_WR_SEND, is_last ? unsigned{IBV_SEND_SIGNALED} : 0U,
                                {{8 + i}}, i));
                        }
                        ibv_wc wc{};
                        if (count != 0) {
                            check(post_extended(qps, requests), "post");
                            // Then the receives have completed.
                            wait_until(hang_limit,
                                       [&] { return qps.a->poll(qps.a->send_cq.get(), wc); });
                        }
                        ibv_cq *const cq = b.recv_cq.get();
                        record.add("polled",
                                   poll_by_sequence(reinterpret_cast<ibv_cq_ex *>(cq), sequence));
                        unsigned num_left = 0;
                        while (ibv_poll_cq(cq, 1, &wc) == 1)
                            ++num_left;
                        record.add("left", num_left);
                    });
}

// Each state, with and without one attribute, for a QP that rdma_connect() has connected.
void run_modify_connected(const environment &env, runner &runner) {
    if (env.options.is_rxe())
        return;
    constexpr int num_attributes = 21;
    qp_pair qps(env, make_options(env));
    for (int state = IBV_QPS_RESET; state <= IBV_QPS_ERR + 1; ++state)
        for (int bit = -1; bit < num_attributes; ++bit)
            runner.run(concat("modify_connected/", state, '/', bit), [&](record &record) {
                qps.prepare(1);
                ibv_qp_attr attr{};
                attr.qp_state = static_cast<ibv_qp_state>(state);
                attr.cur_qp_state = IBV_QPS_RTS;
                attr.qp_access_flags = qps.a->options.access;
                attr.path_mtu = IBV_MTU_1024;
                attr.port_num = 1;
                attr.max_rd_atomic = attr.max_dest_rd_atomic = 4;
                attr.cap = qps.a->options.cap;
                int mask = IBV_QP_STATE;
                if (bit >= 0)
                    mask ^= 1 << bit;
                record.add("modify", error_name(ibv_modify_qp(qps.a->qp, &attr, mask)));
                record.add("state", static_cast<int>(qps.a->query_state()));
                if (qps.a->query_state() == IBV_QPS_RTS)
                    qps.finish(record);
            });
}

} // namespace

void run_domains(const environment &env, runner &runner) {
    run_creation(env, runner);
    run_create_cq_ex(env, runner);
    run_sequences(env, runner);
    run_modify_connected(env, runner);
}

} // namespace differential

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Creation of objects with attributes in, at and above the limits of the device, and the states of
// QPs.

#include "endpoints.hpp"
#include "groups.hpp"

#include <cerrno>

namespace differential {
namespace {

void add_cap(record &record, std::string_view field, const ibv_qp_cap &cap) {
    record.add(field, concat(cap.max_send_wr, '/', cap.max_recv_wr, '/', cap.max_send_sge, '/',
                             cap.max_recv_sge, '/', cap.max_inline_data));
}

// Records whether the object was created, and destroys it.
template <class T, class destroyer>
void add_object(record &record, T *object, const destroyer &destroy) {
    record.add("created", object != nullptr ? "yes" : error_name(errno));
    if (object != nullptr)
        record.add("destroyed", error_name(destroy(object)));
}

// Cases for the result of creating a QP: each type with each cap at and beyond its limits.
void run_create_qp(const environment &env, runner &runner) {
    constexpr std::array types{IBV_QPT_RC,         IBV_QPT_UC,       IBV_QPT_UD,
                               IBV_QPT_RAW_PACKET, IBV_QPT_XRC_SEND, IBV_QPT_XRC_RECV,
                               IBV_QPT_DRIVER};
    constexpr ibv_qp_cap base{4, 4, 1, 1, 0};
    std::vector<ibv_qp_cap> caps{base};
    for (const std::uint32_t value : {0U, 1U, 2U, 3U, 6U, 7U, 16U, 27U, 32U, 33U, 64U, 81U, 512U,
                                      513U, 1000U, 20000U, 2000000U, ~0U})
        for (auto field :
             {&ibv_qp_cap::max_send_wr, &ibv_qp_cap::max_recv_wr, &ibv_qp_cap::max_send_sge,
              &ibv_qp_cap::max_recv_sge, &ibv_qp_cap::max_inline_data}) {
            caps.push_back(base);
            caps.back().*field = value;
        }
    for (const ibv_qp_type type : types)
        for (const bool use_srq : {false, true})
            for (std::size_t i = 0; i < caps.size(); ++i) {
                const ibv_qp_cap cap = caps[i];
                const std::string name =
                    concat("create_qp/", static_cast<int>(type), use_srq ? "/srq/" : "/rq/", i, '/',
                           cap.max_send_wr, '-', cap.max_recv_wr, '-', cap.max_send_sge, '-',
                           cap.max_recv_sge, '-', cap.max_inline_data);
                runner.run(name, [&, cap](record &record) {
                    qp_options options = make_options(env);
                    options.use_srq = use_srq;
                    const endpoint ep(env, options);
                    ibv_qp_init_attr attr{};
                    attr.qp_type = type;
                    attr.send_cq = ep.send_cq.get();
                    attr.recv_cq = ep.recv_cq.get();
                    attr.srq = ep.srq.get();
                    attr.cap = cap;
                    ibv_qp *const qp = ibv_create_qp(ep.pd.get(), &attr);
                    if (qp != nullptr) {
                        add_cap(record, "cap", attr.cap);
                        record.add("state", static_cast<int>(qp->state));
                        ibv_qp_attr qp_attr{};
                        ibv_qp_init_attr init_attr{};
                        record.add("query",
                                   error_name(ibv_query_qp(qp, &qp_attr, IBV_QP_CAP, &init_attr)));
                        ibv_qp_cap &query_cap = qp_attr.cap;
                        if (use_srq) // not defined
                            query_cap.max_recv_wr = query_cap.max_recv_sge = 0;
                        add_cap(record, "query_cap", query_cap);
                        if (!env.options.is_rxe()) // uninitialized memory
                            init_attr.sq_sig_all = 0;
                        record.add("init_attr", concat(init_attr.qp_type, '/', init_attr.sq_sig_all,
                                                       '/', init_attr.send_cq == ep.send_cq.get(),
                                                       '/', init_attr.srq == ep.srq.get()));
                    }
                    add_object(record, qp, ibv_destroy_qp);
                });
            }
}

// Cases that create, resize and poll CQs with valid and invalid arguments.
void run_create_cq(const environment &env, runner &runner) {
    for (const int cqe : {-1, 0, 1, 2, 3, 63, 64, 100, 1000, 32766, 32767, 32768, 1 << 20, 1 << 30})
        for (const int comp_vector : {-1, 0, 1, 1000}) {
            runner.run(concat("create_cq/", cqe, '/', comp_vector), [&](record &record) {
                ibv_cq *const cq = ibv_create_cq(env.context, cqe, nullptr, nullptr, comp_vector);
                if (cq != nullptr)
                    record.add("cqe", cq->cqe);
                add_object(record, cq, ibv_destroy_cq);
            });
        }
    for (const int cqe : {-1, 0, 1, 5, 63, 64, 1000, 32767, 32768})
        runner.run(concat("resize_cq/", cqe), [&](record &record) {
            ibv_cq *const cq =
                check(ibv_create_cq(env.context, 16, nullptr, nullptr, 0), "create the CQ");
            record.add("resize", error_name(ibv_resize_cq(cq, cqe)));
            record.add("cqe", cq->cqe);
            record.add("destroyed", error_name(ibv_destroy_cq(cq)));
        });
    for (const int num_entries : {-1, 0, 1, 16})
        runner.run(concat("poll_empty/", num_entries), [&](record &record) {
            ibv_cq *const cq =
                check(ibv_create_cq(env.context, 16, nullptr, nullptr, 0), "create the CQ");
            std::array<ibv_wc, 16> wcs{};
            record.add("poll", ibv_poll_cq(cq, num_entries, wcs.data()));
            record.add("destroyed", error_name(ibv_destroy_cq(cq)));
        });
}

// Cases that create SRQs at and beyond their limits, and modify one: how many receives it takes
// then.
void run_srq(const environment &env, runner &runner) {
    for (const std::uint32_t max_wr :
         {0U, 1U, 2U, 15U, 16U, 1000U, 32768U, 1U << 20, 1U << 30, ~0U})
        for (const std::uint32_t max_sge : {0U, 1U, 2U, 6U, 7U, 27U, 28U, 1000U})
            for (const std::uint32_t limit : {0U, 1U, 2000U}) {
                if (max_wr == 1U << 20 && (max_sge > 1 || limit != 0))
                    continue; // takes seconds
                runner.run(
                    concat("create_srq/", max_wr, '/', max_sge, '/', limit), [&](record &record) {
                        const endpoint ep(env, make_options(env));
                        ibv_srq_init_attr attr{};
                        attr.attr = {max_wr, max_sge, limit};
                        ibv_srq *const srq = ibv_create_srq(ep.pd.get(), &attr);
                        if (srq != nullptr) {
                            record.add("attr", concat(attr.attr.max_wr, '/', attr.attr.max_sge));
                            ibv_srq_attr now{};
                            const int error = ibv_query_srq(srq, &now);
                            record.add("query", error_name(error));
                            if (error == 0)
                                record.add("query_attr", concat(now.max_wr, '/', now.max_sge, '/',
                                                                now.srq_limit));
                        }
                        add_object(record, srq, ibv_destroy_srq);
                    });
            }
    for (const std::uint32_t value : {0U, 1U, 7U, 8U, 9U, 64U, 1U << 30})
        for (const int mask : {0, 1, 2, 3, 4})
            runner.run(concat("modify_srq/", value, '/', mask), [&](record &record) {
                qp_options options = make_options(env);
                options.use_srq = true;
                const endpoint ep(env, options);
                ibv_srq_attr attr{value, 1, mask == 3 ? 4 : value};
                record.add("modify", error_name(ibv_modify_srq(ep.srq.get(), &attr, mask)));
                ibv_sge sge = ep.make_sge(8);
                ibv_recv_wr wr{1, nullptr, &sge, 1}, *bad_wr = nullptr;
                unsigned count = 0;
                while (count < 200 && ibv_post_srq_recv(ep.srq.get(), &wr, &bad_wr) == 0)
                    ++count;
                record.add("capacity", count);
            });
}

// Cases that register memory, allocate MWs and create AHs with valid and invalid arguments.
void run_memory(const environment &env, runner &runner) {
    for (int access = 0; access < 256; ++access)
        for (const std::uint64_t length :
             {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{4096}, std::uint64_t{1} << 40})
            runner.run(concat("reg_mr/", access, '/', length), [&](record &record) {
                static const endpoint ep(env, make_options(env));
                ibv_mr *const mr =
                    ibv_reg_mr(ep.pd.get(), const_cast<std::byte *>(ep.memory.data()), length,
                               static_cast<unsigned>(access));
                if (mr != nullptr)
                    record.add("mr", concat(mr->length, '/', mr->addr == ep.memory.data(), '/',
                                            mr->pd == ep.pd.get(), '/', mr->lkey == mr->rkey));
                add_object(record, mr, ibv_dereg_mr);
            });
    for (const int type : {0, 1, 2, 3})
        runner.run(concat("alloc_mw/", type), [&](record &record) {
            const endpoint ep(env, make_options(env));
            ibv_mw *const mw = ibv_alloc_mw(ep.pd.get(), static_cast<ibv_mw_type>(type));
            if (mw != nullptr)
                record.add("mw", concat(mw->type, '/', mw->pd == ep.pd.get()));
            add_object(record, mw, [](ibv_mw *object) { return ibv_dealloc_mw(object); });
        });
    for (const bool is_global : {false, true})
        for (const int port : {0, 1, 2})
            for (const int sgid_index : {0, 1, 2, 100, 255})
                for (const int hop_limit : {0, 1, 255})
                    runner.run(
                        concat("create_ah/", is_global, '/', port, '/', sgid_index, '/', hop_limit),
                        [&](record &record) {
                            const endpoint ep(env, make_options(env));
                            ibv_ah_attr attr = ep.make_ah_attr();
                            attr.is_global = is_global;
                            attr.port_num = static_cast<std::uint8_t>(port);
                            attr.grh.sgid_index = static_cast<std::uint8_t>(sgid_index);
                            attr.grh.hop_limit = static_cast<std::uint8_t>(hop_limit);
                            add_object(record, ibv_create_ah(ep.pd.get(), &attr), ibv_destroy_ah);
                        });
}

// The attributes that the specification defines for each type; query_qp() may return others.
std::string describe(const ibv_qp_attr &attr, bool is_rxe) {
    if (!is_rxe) // returns uninitialized memory for what it does not know
        return std::to_string(attr.qp_state);
    return concat(attr.qp_state, '/', attr.cur_qp_state, '/', attr.path_mtu, '/', attr.qkey, '/',
                  attr.rq_psn, '/', attr.sq_psn, '/', attr.qp_access_flags, '/', attr.pkey_index,
                  '/', unsigned{attr.max_rd_atomic}, '/', unsigned{attr.max_dest_rd_atomic}, '/',
                  unsigned{attr.min_rnr_timer}, '/', unsigned{attr.port_num}, '/',
                  unsigned{attr.timeout}, '/', unsigned{attr.retry_cnt}, '/',
                  unsigned{attr.rnr_retry}, '/', unsigned{attr.ah_attr.is_global}, '/',
                  unsigned{attr.ah_attr.grh.sgid_index});
}

// Brings the QP from RESET to the state, with itself as peer.
void to_state(const endpoint &ep, ibv_qp_state state) {
    if (state == IBV_QPS_RESET)
        return;
    if (ep.env.options.is_rxe())
        ep.to_init();
    if (state == IBV_QPS_ERR) {
        check(ep.modify(IBV_QPS_ERR), "to ERR");
        return;
    }
    if (state == IBV_QPS_INIT)
        return;
    ep.to_rtr(ep);
    if (state == IBV_QPS_RTR)
        return;
    ep.to_rts();
    if (state != IBV_QPS_SQD)
        return;
    check(ep.modify(IBV_QPS_SQD), "to SQD");
    ibv_qp_attr attr{};
    ibv_qp_init_attr init_attr{};
    do // The SQ is empty, but the kernel drains it later.
        check(ibv_query_qp(ep.qp, &attr, IBV_QP_STATE, &init_attr), "query the QP");
    while (attr.sq_draining != 0);
}

int required_mask(ibv_qp_type type, ibv_qp_state new_state) {
    const bool is_rc = type == IBV_QPT_RC, is_ud = type == IBV_QPT_UD;
    switch (new_state) {
    case IBV_QPS_INIT:
        return IBV_QP_PKEY_INDEX | IBV_QP_PORT | (is_ud ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS);
    case IBV_QPS_RTR:
        return is_ud ? 0
                     : IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                           (is_rc ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : 0);
    case IBV_QPS_RTS:
        return IBV_QP_SQ_PSN | (is_rc ? IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                            IBV_QP_MAX_QP_RD_ATOMIC
                                      : 0);
    default:
        return 0;
    }
}

// Cases of ibv_modify_qp(): each transition with the mask that it requires, and with each attribute
// added to it or taken from it. The QP's own number and address are the peer's.
void run_modify(const environment &env, runner &runner) {
    const std::vector<ibv_qp_type> types = env.options.is_rxe()
                                               ? std::vector{IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD}
                                               : std::vector{IBV_QPT_RC};
    const std::vector<ibv_qp_state> from_states =
        env.options.is_rxe() ? std::vector{IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR,
                                           IBV_QPS_RTS,   IBV_QPS_SQD,  IBV_QPS_ERR}
                             : std::vector{IBV_QPS_RESET, IBV_QPS_ERR};
    constexpr int num_attributes = 21;
    for (const ibv_qp_type type : types)
        for (const ibv_qp_state old_state : from_states)
            for (int new_state = IBV_QPS_RESET; new_state <= IBV_QPS_ERR + 1; ++new_state)
                for (int bit = -1; bit < num_attributes; ++bit) {
                    const std::string name =
                        concat("modify_qp/", static_cast<int>(type), '/',
                               static_cast<int>(old_state), '-', new_state, '/', bit);
                    runner.run(name, [&, type, old_state, new_state, bit](record &record) {
                        qp_options options = make_options(env);
                        options.type = type;
                        endpoint ep(env, options);
                        // Without a CM id, also on siw.
                        ibv_qp_init_attr_ex init = ep.make_init_attr();
                        ep.owned_qp =
                            check(decltype(ep.owned_qp)(ibv_create_qp(
                                      ep.pd.get(), reinterpret_cast<ibv_qp_init_attr *>(&init))),
                                  "QP");
                        ep.qp = ep.owned_qp.get();
                        to_state(ep, old_state);
                        ibv_qp_attr attr{};
                        attr.qp_state = static_cast<ibv_qp_state>(new_state);
                        attr.cur_qp_state = old_state;
                        attr.port_num = 1;
                        attr.qkey = 77;
                        attr.qp_access_flags = IBV_ACCESS_REMOTE_READ;
                        attr.path_mtu = IBV_MTU_512;
                        attr.dest_qp_num = ep.qp->qp_num;
                        attr.rq_psn = attr.sq_psn = 5;
                        attr.max_rd_atomic = attr.max_dest_rd_atomic = 2;
                        attr.min_rnr_timer = 3;
                        attr.timeout = 14;
                        attr.retry_cnt = 6;
                        attr.rnr_retry = 5;
                        attr.ah_attr = ep.make_ah_attr();
                        attr.cap = ep.options.cap;
                        // Each bit more or less than the transition requires.
                        int mask = IBV_QP_STATE | required_mask(type, attr.qp_state);
                        if (bit >= 0)
                            mask ^= 1 << bit;
                        record.add("modify", error_name(ibv_modify_qp(ep.qp, &attr, mask)));
                        record.add("state", static_cast<int>(ep.qp->state));
                        ibv_qp_attr now{};
                        ibv_qp_init_attr now_init{};
                        record.add("query",
                                   error_name(ibv_query_qp(ep.qp, &now, 0x1fffff, &now_init)));
                        record.add("attr", describe(now, env.options.is_rxe()));
                    });
                }
}

} // namespace

void run_objects(const environment &env, runner &runner) {
    run_create_qp(env, runner);
    run_create_cq(env, runner);
    run_srq(env, runner);
    run_memory(env, runner);
}

void run_modifications(const environment &env, runner &runner) {
    run_modify(env, runner);
}

} // namespace differential

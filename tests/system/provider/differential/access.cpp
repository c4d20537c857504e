// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Remote access: keys of MRs and MWs with each set of rights, keys that are wrong, and ranges that
// are not the key's. Binds that succeed and binds that fail.

#include "groups.hpp"
#include "requests.hpp"

namespace differential {
namespace {

enum class key_kind { mr, mw1, mw2 };
constexpr std::array kind_names{"mr", "mw1", "mw2"};
constexpr std::array accessing_opcodes{IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM,
                                       IBV_WR_RDMA_READ, IBV_WR_ATOMIC_CMP_AND_SWP,
                                       IBV_WR_ATOMIC_FETCH_AND_ADD};

enum class fault {
    none,
    wrong_index,
    wrong_key,
    zero_key,
    starts_before,
    ends_behind,
    wraps,
    other_pd,
    released
};
constexpr std::array fault_names{"none",     "wrong_index",   "wrong_key",
                                 "zero_key", "starts_before", "ends_behind",
                                 "wraps",    "other_pd",      "released"};

/// The rights to access memory, of an MR, MW or QP.
std::string rights_name(unsigned access) {
    std::string text;
    if ((access & IBV_ACCESS_REMOTE_WRITE) != 0)
        text += 'W';
    if ((access & IBV_ACCESS_REMOTE_READ) != 0)
        text += 'R';
    if ((access & IBV_ACCESS_REMOTE_ATOMIC) != 0)
        text += 'A';
    return text.empty() ? "0" : text;
}
constexpr unsigned all_rights =
    IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
// Each set of them, as the driver permits.
std::vector<unsigned> all_sets_of_rights(const environment &env) {
    std::vector<unsigned> sets;
    for (const unsigned write : {0U, unsigned{IBV_ACCESS_REMOTE_WRITE}})
        for (const unsigned read : {0U, unsigned{IBV_ACCESS_REMOTE_READ}})
            for (const unsigned atomic : {0U, unsigned{IBV_ACCESS_REMOTE_ATOMIC}})
                if (atomic == 0 || env.options.is_rxe())
                    sets.push_back(write | read | atomic);
    return sets;
}

/// The memory of an endpoint that a key of its own permits to access.
struct region {
    static constexpr std::size_t offset = 4096, length = 2048;
    unique_handle<ibv_pd, ibv_dealloc_pd> other_pd;
    unique_handle<ibv_mr, ibv_dereg_mr> mr;
    std::unique_ptr<ibv_mw, endpoint::mw_deleter> mw;

    std::uint32_t rkey() const { return mw ? mw->rkey : mr->rkey; }
};

// The completions of an endpoint's requests. A Write without data follows them.
std::string collect_binds(endpoint &ep, const endpoint &peer) {
    ibv_send_wr wr{}, *bad_wr = nullptr;
    wr.wr_id = qp_pair::marker_id;
    wr.opcode = IBV_WR_RDMA_WRITE;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.rdma = {peer.addr(), peer.mr->rkey};
    check(ibv_post_send(ep.qp, &wr, &bad_wr), "post a Write without data");
    std::string completions;
    ibv_wc wc{};
    const auto poll_all = [&] {
        while (ep.poll(ep.send_cq.get(), wc)) {
            if (wc.wr_id == qp_pair::marker_id)
                return true;
            completions += ',' + to_string(ep, wc, false);
        }
        return false;
    };
    if (!wait_until(hang_limit, poll_all))
        throw failure("a request does not complete");
    return completions.empty() ? "none" : completions.substr(1);
}

ibv_send_wr make_bind_wr(ibv_mw *mw, const ibv_mw_bind_info &info, unsigned flags) {
    ibv_send_wr wr{};
    wr.opcode = IBV_WR_BIND_MW;
    wr.send_flags = flags;
    wr.bind_mw.mw = mw;
    wr.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
    wr.bind_mw.bind_info = info;
    return wr;
}

// A MW of type 2 has its new key once the bind has completed.
int bind(endpoint &ep, ibv_mw *mw, const ibv_mw_bind_info &info, unsigned flags) {
    if (mw->type == IBV_MW_TYPE_1) {
        ibv_mw_bind attr{2, flags, info};
        return ibv_bind_mw(ep.qp, mw, &attr);
    }
    ibv_send_wr wr = make_bind_wr(mw, info, flags), *bad_wr = nullptr;
    const int error = ibv_post_send(ep.qp, &wr, &bad_wr);
    if (error == 0)
        mw->rkey = wr.bind_mw.rkey;
    return error;
}

region make_region(qp_pair &qps, key_kind kind, unsigned access, bool is_other_pd) {
    endpoint &b = *qps.b;
    region region;
    if (is_other_pd)
        region.other_pd = check(decltype(region.other_pd)(ibv_alloc_pd(b.env.context)), "PD");
    ibv_pd *const pd = is_other_pd && kind == key_kind::mr ? region.other_pd.get() : b.pd.get();
    const unsigned mr_access =
        kind == key_kind::mr ? IBV_ACCESS_LOCAL_WRITE | access : b.options.mr_access;
    region.mr = check(decltype(region.mr)(ibv_reg_mr(pd, b.memory.data() + region::offset,
                                                     region::length, mr_access)),
                      "MR");
    if (kind == key_kind::mr)
        return region;
    region.mw = check(decltype(region.mw)(ibv_alloc_mw(
                          b.pd.get(), kind == key_kind::mw1 ? IBV_MW_TYPE_1 : IBV_MW_TYPE_2)),
                      "MW");
    check(bind(b, region.mw.get(),
               {region.mr.get(), b.addr(region::offset), region::length, access},
               IBV_SEND_SIGNALED),
          "bind the MW");
    collect_binds(b, *qps.a);
    return region;
}

// The requester accesses length bytes of the region, in which something is wrong.
void access_region(qp_pair &qps, int opcode, std::uint32_t length, region &region, fault fault,
                   record &record) {
    if (consumes_recv(opcode))
        check(qps.b->post_recv(3), "post the receive");
    const bool is_atomic =
        opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
    request request = make_request(qps, opcode, IBV_SEND_SIGNALED, {{length}}, 1);
    std::uint32_t rkey = region.rkey();
    std::uint64_t addr = qps.b->addr(region::offset);
    switch (fault) {
    case fault::wrong_index:
        rkey ^= 0x5500;
        break;
    case fault::wrong_key:
        rkey ^= 0x55;
        break;
    case fault::zero_key:
        rkey = 0;
        break;
    case fault::starts_before:
        addr -= 8;
        break;
    case fault::ends_behind:
        addr += region::length - (is_atomic ? 0 : length - 1);
        break;
    case fault::wraps:
        addr = ~std::uint64_t{7};
        break;
    case fault::released:
        region.mw.reset();
        region.mr.reset();
        break;
    case fault::none:
    case fault::other_pd:
        break;
    }
    if (is_atomic)
        request.wr.wr.atomic = {addr, 5, 7, rkey};
    else
        request.wr.wr.rdma = {addr, rkey};
    request.wr.sg_list = request.sg_list.data();
    ibv_send_wr *bad_wr = nullptr;
    record.add("post", error_name(ibv_post_send(qps.a->qp, &request.wr, &bad_wr)));
    qps.finish(record);
}

std::vector<key_kind> all_kinds(const environment &env) {
    return env.options.is_rxe() ? std::vector{key_kind::mr, key_kind::mw1, key_kind::mw2}
                                : std::vector{key_kind::mr};
}
bool has_opcode(const environment &env, int opcode) {
    return env.options.is_rxe() || opcode == IBV_WR_RDMA_WRITE || opcode == IBV_WR_RDMA_READ;
}

void run_rights(const environment &env, runner &runner) {
    qp_pair qps(env, make_options(env));
    for (const key_kind kind : all_kinds(env))
        for (const int opcode : accessing_opcodes) {
            if (!has_opcode(env, opcode))
                continue;
            const std::string prefix =
                concat("access/", kind_names.at(static_cast<std::size_t>(kind)), '/',
                       opcode_name(opcode), '/');
            for (const unsigned access : all_sets_of_rights(env))
                runner.run(prefix + "rights/" + rights_name(access), [&](record &record) {
                    qps.prepare(access);
                    region region = make_region(qps, kind, access, false);
                    access_region(qps, opcode, 8, region, fault::none, record);
                });
            for (std::size_t i = 1; i < fault_names.size(); ++i)
                for (const std::uint32_t length : {0U, 8U, 2048U}) {
                    const auto fault = static_cast<enum fault>(i);
                    const bool is_atomic = opcode > IBV_WR_RDMA_READ;
                    if ((is_atomic && length != 8) ||
                        (kind != key_kind::mr && fault == fault::other_pd))
                        continue;
                    runner.run(concat(prefix, fault_names.at(i), '/', length), [&](record &record) {
                        qps.prepare(length);
                        region region = make_region(
                            qps, kind,
                            env.options.is_rxe() ? all_rights
                                                 : all_rights & ~unsigned{IBV_ACCESS_REMOTE_ATOMIC},
                            fault == fault::other_pd);
                        access_region(qps, opcode, length, region, fault, record);
                    });
                }
        }
}

// The QP has only some of the rights; the MR has all.
void run_qp_rights(const environment &env, runner &runner) {
    if (!env.options.is_rxe())
        return;
    for (const unsigned access : all_sets_of_rights(env)) {
        qp_options options = make_options(env);
        options.access = IBV_ACCESS_LOCAL_WRITE | access;
        qp_pair qps(env, options);
        for (const int opcode : accessing_opcodes)
            runner.run(concat("access/qp/", opcode_name(opcode), "/rights/", rights_name(access)),
                       [&](record &record) {
                           qps.prepare(access);
                           region region = make_region(qps, key_kind::mr, all_rights, false);
                           access_region(qps, opcode, 8, region, fault::none, record);
                       });
    }
}

struct bind_case {
    const char *name;
    std::function<void(qp_pair &, region &, ibv_mw_bind_info &, unsigned &flags)> change;
};

// Binds an MW, and then writes to it.
void run_binds(const environment &env, runner &runner) {
    const auto reregister = [](qp_pair &qps, region &region, ibv_mw_bind_info &info,
                               unsigned access) {
        region.mr.reset();
        region.mr = check(
            decltype(region.mr)(ibv_reg_mr(qps.b->pd.get(), qps.b->memory.data() + region::offset,
                                           region::length, access)),
            "MR");
        info.mr = region.mr.get();
    };
    const std::vector<bind_case> cases{
        {"valid",
         [](auto &...) {
         }},
        {"unsignaled",
         [](qp_pair &, region &, ibv_mw_bind_info &, unsigned &flags) {
             flags = 0;
         }},
        {"fence",
         [](qp_pair &, region &, ibv_mw_bind_info &, unsigned &flags) {
             flags |= IBV_SEND_FENCE;
         }},
        {"inline",
         [](qp_pair &, region &, ibv_mw_bind_info &, unsigned &flags) {
             flags |= IBV_SEND_INLINE;
         }},
        {"no_length",
         [](qp_pair &, region &, ibv_mw_bind_info &info, unsigned &) {
             info.length = 0;
         }},
        {"no_mr",
         [](qp_pair &, region &, ibv_mw_bind_info &info, unsigned &) {
             info.mr = nullptr;
         }},
        {"nothing",
         [](qp_pair &, region &, ibv_mw_bind_info &info, unsigned &) {
             info = {};
         }},
        {"too_long",
         [](qp_pair &, region &, ibv_mw_bind_info &info, unsigned &) {
             ++info.length;
         }},
        {"before",
         [](qp_pair &, region &, ibv_mw_bind_info &info, unsigned &) {
             --info.addr;
         }},
        {"part",
         [](qp_pair &, region &, ibv_mw_bind_info &info, unsigned &) {
             info.addr += 8, info.length = 64;
         }},
        {"no_rights",
         [](qp_pair &, region &, ibv_mw_bind_info &info, unsigned &) {
             info.mw_access_flags = 0;
         }},
        {"local_write",
         [](qp_pair &, region &, ibv_mw_bind_info &info, unsigned &) {
             info.mw_access_flags |= IBV_ACCESS_LOCAL_WRITE;
         }},
        {"zero_based",
         [](qp_pair &, region &, ibv_mw_bind_info &info, unsigned &) {
             info.mw_access_flags |= IBV_ACCESS_ZERO_BASED;
         }},
        {"mr_without_bind",
         [&](qp_pair &qps, region &region, ibv_mw_bind_info &info, unsigned &) {
             reregister(qps, region, info, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
         }},
        {"mr_without_local_write",
         [&](qp_pair &qps, region &region, ibv_mw_bind_info &info, unsigned &) {
             reregister(qps, region, info, IBV_ACCESS_MW_BIND);
         }},
        {"mr_without_remote_write",
         [&](qp_pair &qps, region &region, ibv_mw_bind_info &info, unsigned &) {
             reregister(qps, region, info, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
         }},
        {"mw_of_other_pd",
         [](qp_pair &qps, region &region, ibv_mw_bind_info &, unsigned &) {
             region.other_pd =
                 check(decltype(region.other_pd)(ibv_alloc_pd(qps.b->env.context)), "PD");
             const ibv_mw_type type = region.mw->type;
             region.mw.reset();
             region.mw =
                 check(decltype(region.mw)(ibv_alloc_mw(region.other_pd.get(), type)), "MW");
         }},
        {"mr_of_peer",
         [](qp_pair &qps, region &, ibv_mw_bind_info &info, unsigned &) {
             info.mr = qps.a->mr.get();
             info.addr = qps.a->addr();
         }},
        {"twice",
         [](qp_pair &qps, region &region, ibv_mw_bind_info &info, unsigned &flags) {
             check(bind(*qps.b, region.mw.get(), info, flags), "bind");
             collect_binds(*qps.b, *qps.a);
         }},
    };
    qp_pair qps(env, make_options(env));
    for (const ibv_mw_type type : {IBV_MW_TYPE_1, IBV_MW_TYPE_2})
        for (const bind_case &bind_case : cases)
            runner.run(
                concat("bind_mw/", static_cast<int>(type), '/', bind_case.name),
                [&](record &record) {
                    qps.prepare(1);
                    endpoint &b = *qps.b;
                    region region;
                    region.mr = check(
                        decltype(region.mr)(ibv_reg_mr(b.pd.get(), b.memory.data() + region::offset,
                                                       region::length, b.options.mr_access)),
                        "MR");
                    region.mw = check(decltype(region.mw)(ibv_alloc_mw(b.pd.get(), type)), "MW");
                    ibv_mw_bind_info info{region.mr.get(), b.addr(region::offset), region::length,
                                          all_rights};
                    unsigned flags = IBV_SEND_SIGNALED;
                    bind_case.change(qps, region, info, flags);
                    const std::uint32_t rkey = region.mw->rkey;
                    record.add("bind", error_name(bind(b, region.mw.get(), info, flags)));
                    record.add("next_rkey", region.mw->rkey == ibv_inc_rkey(rkey));
                    record.add("binds", collect_binds(b, *qps.a));
                    // The kernel keeps an MR that has MWs.
                    if (b.query_state() == IBV_QPS_RTS) {
                        const int error = ibv_dereg_mr(region.mr.get());
                        record.add("dereg_mr", error_name(error));
                        if (error == 0)
                            static_cast<void>(region.mr.release());
                    }
                    if (b.query_state() == IBV_QPS_RTS)
                        access_region(qps, IBV_WR_RDMA_WRITE, 8, region, fault::none, record);
                    else // it answers no request any more
                        record.add("state", static_cast<int>(b.query_state()));
                });
}

} // namespace

void run_accesses(const environment &env, runner &runner) {
    run_rights(env, runner);
    run_qp_rights(env, runner);
    if (env.options.is_rxe())
        run_binds(env, runner);
}

} // namespace differential

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What requests do: between the memory of two pairs, under the rules of keys, bounds and
// privileges.

#include "fabric.hpp"
#include "manager.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

namespace played {

namespace {

constexpr int waits = -1; ///< beside verbs' statuses: not yet

using bytes = std::vector<unsigned char>;

struct span {
    unsigned char *at;
    std::size_t length;
};

/// Where a list is. False: a key, a range or a privilege is wrong.
bool find(const qp &of, const std::vector<ibv_sge> &list, unsigned access,
          std::vector<span> &where) {
    for (const ibv_sge &each : list) {
        if (each.length == 0)
            continue;
        const mr *const in = net().local(each.lkey);
        if (in == nullptr || in->pd != of.pd || (in->access & access) != access ||
            each.addr < in->begin || each.length > in->length ||
            each.addr - in->begin > in->length - each.length)
            return false;
        where.push_back(
            {static_cast<unsigned char *>(in->addr) + (each.addr - in->begin), each.length});
    }
    return true;
}

std::size_t length_of(const std::vector<ibv_sge> &list) {
    std::size_t all = 0;
    for (const ibv_sge &each : list)
        all += each.length;
    return all;
}

bool gather(const qp &of, const request &from, bytes &words) {
    words = from.words;
    if ((from.wr.send_flags & IBV_SEND_INLINE) != 0)
        return true;
    std::vector<span> where;
    if (!find(of, from.list, 0, where))
        return false;
    for (const span &each : where)
        words.insert(words.end(), each.at, each.at + each.length);
    return true;
}

void scatter(const std::vector<span> &where, const unsigned char *from, std::size_t length) {
    if (length == 0)
        return;
    for (const span &each : where) {
        const std::size_t some = std::min(each.length, length);
        std::memcpy(each.at, from, some);
        from += some;
        length -= some;
    }
}

/// The memory behind a peer's key; nullptr: it may not be.
unsigned char *behind(const qp &of, std::uint32_t key, std::uint64_t at, std::size_t length,
                      unsigned access) {
    if ((of.access & access) != access)
        return nullptr;
    const auto inside = [at, length](std::uint64_t begin, std::size_t size) {
        return at >= begin && length <= size && at - begin <= size - length;
    };
    if (const auto found = net().by_rkey.find(key); found != net().by_rkey.end()) {
        const mr &in = *found->second;
        return in.pd == of.pd && (in.access & access) == access && inside(in.begin, in.length)
                   ? static_cast<unsigned char *>(in.addr) + (at - in.begin)
                   : nullptr;
    }
    const auto found = net().windows.find(key >> 8);
    if (found == net().windows.end() || found->second->rkey != key ||
        found->second->over == nullptr || found->second->pd != of.pd)
        return nullptr;
    const mw &by = *found->second;
    const bool based = (by.range.mw_access_flags & IBV_ACCESS_ZERO_BASED) != 0;
    if ((by.range.mw_access_flags & access) != access ||
        !inside(based ? 0 : by.range.addr, by.range.length))
        return nullptr;
    const std::uint64_t in_region = (based ? at + by.range.addr : at) - by.over->begin;
    return static_cast<unsigned char *>(by.over->addr) + in_region;
}

ibv_wc_opcode opcode_of(ibv_wr_opcode of) {
    switch (of) {
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_WRITE_WITH_IMM:
        return IBV_WC_RDMA_WRITE;
    case IBV_WR_RDMA_READ:
        return IBV_WC_RDMA_READ;
    case IBV_WR_ATOMIC_CMP_AND_SWP:
        return IBV_WC_COMP_SWAP;
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
        return IBV_WC_FETCH_ADD;
    case IBV_WR_BIND_MW:
        return IBV_WC_BIND_MW;
    case IBV_WR_LOCAL_INV:
        return IBV_WC_LOCAL_INV;
    default:
        return IBV_WC_SEND;
    }
}

bool is_signaled(const qp &of, const request &one) {
    return of.all_signaled || (one.wr.send_flags & IBV_SEND_SIGNALED) != 0;
}

void complete(qp &of, const request &one, ibv_wc_status status) {
    if (status == IBV_WC_SUCCESS && !is_signaled(of, one))
        return;
    ibv_wc wc = {};
    wc.wr_id = one.wr.wr_id;
    wc.status = status;
    wc.opcode = opcode_of(one.wr.opcode);
    wc.byte_len = static_cast<std::uint32_t>(length_of(one.list));
    wc.qp_num = of.qp_num;
    net().push(*static_cast<cq *>(of.send_cq), {wc, &of, one.turn, true}, false);
}

/// What a peer's request makes of a receive.
struct arrival {
    std::size_t length = 0;
    ibv_wc_opcode opcode = IBV_WC_RECV;
    unsigned flags = 0;
    std::uint32_t word = 0;
    std::uint32_t from = 0;
    bool solicited = false;
};

std::deque<receive> &receives_of(qp &of) {
    return of.srq != nullptr ? static_cast<srq *>(of.srq)->receives : of.receives;
}

void completed(qp &by, const receive &one, const arrival &what, ibv_wc_status status) {
    ibv_wc wc = {};
    wc.wr_id = one.wr_id;
    wc.status = status;
    wc.opcode = what.opcode;
    wc.byte_len = static_cast<std::uint32_t>(what.length);
    wc.imm_data = what.word;
    wc.wc_flags = what.flags;
    wc.qp_num = by.qp_num;
    wc.src_qp = what.from;
    net().push(*static_cast<cq *>(by.recv_cq), {wc, &by, by.taken, false}, what.solicited);
}

receive take(qp &by) {
    receive one = std::move(receives_of(by).front());
    receives_of(by).pop_front();
    if (by.srq == nullptr) {
        ++by.taken;
        return one;
    }
    auto &from = *static_cast<srq *>(by.srq);
    if (from.attr.srq_limit != 0 && from.receives.size() < from.attr.srq_limit) {
        from.attr.srq_limit = 0;
        net().report(net().of(from.context), IBV_EVENT_SRQ_LIMIT_REACHED, &from);
    }
    return one;
}

/// Words come to a receive. The status that the sender has.
ibv_wc_status deliver(qp &to, const bytes &words, const arrival &what) {
    const receive one = take(to);
    std::vector<span> where;
    ibv_wc_status mine = IBV_WC_SUCCESS, senders = IBV_WC_SUCCESS;
    if (length_of(one.list) < words.size()) {
        mine = IBV_WC_LOC_LEN_ERR;
        senders = IBV_WC_REM_INV_REQ_ERR;
    } else if (!find(to, one.list, IBV_ACCESS_LOCAL_WRITE, where)) {
        mine = IBV_WC_LOC_PROT_ERR;
        senders = IBV_WC_REM_OP_ERR;
    } else {
        scatter(where, words.data(), words.size());
    }
    completed(to, one, what, mine);
    if (mine != IBV_WC_SUCCESS)
        net().to_error(to);
    return senders;
}

int refused_for_want(const qp &by) {
    const bool for_ever = by.attr.rnr_retry == 7 || net().of(by.context).is_iwarp();
    return for_ever ? waits : int{IBV_WC_RNR_RETRY_EXC_ERR};
}

bool invalidate(const qp &at, std::uint32_t key) {
    const auto found = net().windows.find(key >> 8);
    if (found == net().windows.end() || found->second->rkey != key || found->second->pd != at.pd)
        return false;
    if (found->second->over != nullptr)
        --found->second->over->windows;
    found->second->over = nullptr;
    return true;
}

int send(qp &by, const request &one, qp &to) {
    bytes words;
    if (!gather(by, one, words))
        return IBV_WC_LOC_PROT_ERR;
    if (receives_of(to).empty())
        return refused_for_want(by);
    arrival what;
    what.length = words.size();
    what.solicited = (one.wr.send_flags & IBV_SEND_SOLICITED) != 0;
    if (one.wr.opcode == IBV_WR_SEND_WITH_INV) {
        if (!invalidate(to, one.wr.invalidate_rkey))
            return IBV_WC_REM_INV_REQ_ERR;
        what.flags = IBV_WC_WITH_INV;
        what.word = one.wr.invalidate_rkey;
    } else if (one.wr.opcode == IBV_WR_SEND_WITH_IMM) {
        what.flags = IBV_WC_WITH_IMM;
        what.word = one.wr.imm_data;
    }
    return deliver(to, words, what);
}

int write(qp &by, const request &one, qp &to) {
    bytes words;
    if (!gather(by, one, words))
        return IBV_WC_LOC_PROT_ERR;
    const bool immediate = one.wr.opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
    if (immediate && receives_of(to).empty())
        return refused_for_want(by);
    unsigned char *const at = behind(to, one.wr.wr.rdma.rkey, one.wr.wr.rdma.remote_addr,
                                     words.size(), IBV_ACCESS_REMOTE_WRITE);
    if (at == nullptr && !words.empty())
        return IBV_WC_REM_ACCESS_ERR;
    if (!words.empty())
        std::memcpy(at, words.data(), words.size());
    if (!immediate)
        return IBV_WC_SUCCESS;
    arrival what;
    what.length = words.size();
    what.opcode = IBV_WC_RECV_RDMA_WITH_IMM;
    what.flags = IBV_WC_WITH_IMM;
    what.word = one.wr.imm_data;
    what.solicited = (one.wr.send_flags & IBV_SEND_SOLICITED) != 0;
    completed(to, take(to), what, IBV_WC_SUCCESS);
    return IBV_WC_SUCCESS;
}

int read(qp &by, const request &one, qp &from) {
    const hardware &on = net().of(by.context);
    const unsigned needs = on.is_iwarp() && on.limits.vendor_id != 0x626d74
                               ? unsigned{IBV_ACCESS_REMOTE_WRITE}
                               : unsigned{IBV_ACCESS_LOCAL_WRITE};
    std::vector<span> where;
    if (!find(by, one.list, needs, where))
        return IBV_WC_LOC_PROT_ERR;
    const std::size_t length = length_of(one.list);
    const unsigned char *const at = behind(from, one.wr.wr.rdma.rkey, one.wr.wr.rdma.remote_addr,
                                           length, IBV_ACCESS_REMOTE_READ);
    if (at == nullptr && length != 0)
        return IBV_WC_REM_ACCESS_ERR;
    if (length != 0)
        scatter(where, bytes(at, at + length).data(), length);
    return IBV_WC_SUCCESS;
}

int atomic(qp &by, const request &one, qp &at) {
    std::vector<span> where;
    if (length_of(one.list) != 8 || !find(by, one.list, IBV_ACCESS_LOCAL_WRITE, where))
        return IBV_WC_LOC_PROT_ERR;
    const auto &wanted = one.wr.wr.atomic;
    unsigned char *const place =
        behind(at, wanted.rkey, wanted.remote_addr, 8, IBV_ACCESS_REMOTE_ATOMIC);
    if (place == nullptr || wanted.remote_addr % 8 != 0)
        return IBV_WC_REM_ACCESS_ERR;
    std::uint64_t before, after;
    std::memcpy(&before, place, sizeof before);
    if (one.wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
        after = before + wanted.compare_add;
    else
        after = before == wanted.compare_add ? wanted.swap : before;
    std::memcpy(place, &after, sizeof after);
    scatter(where, reinterpret_cast<const unsigned char *>(&before), sizeof before);
    return IBV_WC_SUCCESS;
}

int bind(qp &by, const request &one) {
    auto &window = *static_cast<mw *>(one.wr.bind_mw.mw);
    const ibv_mw_bind_info &range = one.wr.bind_mw.bind_info;
    auto *const over = static_cast<mr *>(range.mr);
    const bool unbinds = range.length == 0;
    if (!unbinds && (over == nullptr || over->pd != by.pd || window.pd != by.pd ||
                     (over->access & IBV_ACCESS_MW_BIND) == 0 || range.addr < over->begin ||
                     range.addr - over->begin + range.length > over->length ||
                     ((range.mw_access_flags & IBV_ACCESS_REMOTE_WRITE) != 0 &&
                      (over->access & IBV_ACCESS_LOCAL_WRITE) == 0)))
        return IBV_WC_MW_BIND_ERR;
    if (window.over != nullptr)
        --window.over->windows;
    window.over = unbinds ? nullptr : over;
    window.range = range;
    window.rkey = one.wr.bind_mw.rkey;
    if (window.over != nullptr)
        ++window.over->windows;
    return IBV_WC_SUCCESS;
}

/// Datagrams that nobody waits for are lost.
int datagram(qp &by, const request &one) {
    bytes words(40); // where the route of the packet would be
    bytes payload;
    if (!gather(by, one, payload))
        return IBV_WC_LOC_PROT_ERR;
    words.insert(words.end(), payload.begin(), payload.end());
    const auto found = net().by_number.find(one.wr.wr.ud.remote_qpn);
    if (found == net().by_number.end() || found->second->qp_type != IBV_QPT_UD ||
        found->second->attr.qkey != one.wr.wr.ud.remote_qkey || receives_of(*found->second).empty())
        return IBV_WC_SUCCESS;
    arrival what;
    what.length = words.size();
    what.flags = IBV_WC_GRH;
    what.from = by.qp_num;
    deliver(*found->second, words, what);
    return IBV_WC_SUCCESS;
}

int perform(qp &by, const request &one) {
    switch (one.wr.opcode) {
    case IBV_WR_BIND_MW:
        return bind(by, one);
    case IBV_WR_LOCAL_INV:
        return invalidate(by, one.wr.invalidate_rkey) ? IBV_WC_SUCCESS : IBV_WC_MW_BIND_ERR;
    default:
        break;
    }
    if (by.qp_type == IBV_QPT_UD)
        return datagram(by, one);
    const auto found = net().by_number.find(by.peer);
    if (found == net().by_number.end() || found->second->state == IBV_QPS_ERR ||
        found->second->peer != by.qp_num)
        return IBV_WC_RETRY_EXC_ERR;
    qp &to = *found->second;
    if (to.state != IBV_QPS_RTR && to.state != IBV_QPS_RTS)
        return waits;
    switch (one.wr.opcode) {
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_WRITE_WITH_IMM:
        return write(by, one, to);
    case IBV_WR_RDMA_READ:
        return read(by, one, to);
    case IBV_WR_ATOMIC_CMP_AND_SWP:
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
        return atomic(by, one, to);
    default:
        return send(by, one, to);
    }
}

bool work_one(qp &by) {
    const bool moves = by.state == IBV_QPS_RTS && !net().paused;
    if (by.requests.empty() || !(moves || by.state == IBV_QPS_ERR))
        return false;
    if (by.state == IBV_QPS_ERR) {
        complete(by, by.requests.front(), IBV_WC_WR_FLUSH_ERR);
        by.requests.pop_front();
        return true;
    }
    const int status = perform(by, by.requests.front());
    if (status == waits)
        return false;
    const request one = std::move(by.requests.front());
    by.requests.pop_front();
    complete(by, one, static_cast<ibv_wc_status>(status));
    if (status != IBV_WC_SUCCESS) {
        if (status == IBV_WC_REM_ACCESS_ERR)
            if (const auto at = net().by_number.find(by.peer); at != net().by_number.end())
                net().to_error(*at->second);
        net().to_error(by);
    }
    return true;
}

} // namespace

// What it does may call it again, through a pair that fails; once is enough.
void fabric::work() {
    if (working)
        return;
    working = true;
    for (bool more = true; more;) {
        more = false;
        for (ibv_qp *const each : pairs)
            while (work_one(*static_cast<qp *>(each)))
                more = true;
        for (ibv_qp *const each : pairs) {
            auto &one = *static_cast<qp *>(each);
            while (one.state == IBV_QPS_ERR && one.srq == nullptr && !one.receives.empty())
                completed(one, take(one), {}, IBV_WC_WR_FLUSH_ERR);
        }
    }
    working = false;
}

void fabric::to_error(qp &one) {
    if (one.state == IBV_QPS_ERR)
        return;
    one.state = IBV_QPS_ERR;
    if (one.srq != nullptr && !keeps_last)
        report(of(one.context), IBV_EVENT_QP_LAST_WQE_REACHED, &one);
    if (of(one.context).is_iwarp())
        lost(one.qp_num);
    work();
}

} // namespace played

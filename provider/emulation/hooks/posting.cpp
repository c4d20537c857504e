// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Posting. What a request sends goes to the device first, what it receives is written back, so that
// nothing of the program's comes over it later: a provider's duty, as DAT has it, on a real board
// too. The driver gets a copy of the list with ids of ours.

#include "neighbours.hpp"
#include "played.hpp"

#include <cerrno>

namespace coherdma::emulation {
namespace {

constexpr std::uint32_t bit(ibv_wr_opcode opcode) noexcept {
    return static_cast<unsigned>(opcode) < 32 ? std::uint32_t{1} << opcode : 0;
}
constexpr std::uint32_t ATOMICS = bit(IBV_WR_ATOMIC_CMP_AND_SWP) | bit(IBV_WR_ATOMIC_FETCH_AND_ADD);
constexpr std::uint32_t FETCHES = ATOMICS | bit(IBV_WR_RDMA_READ);
constexpr std::uint32_t SENDS = bit(IBV_WR_SEND) | bit(IBV_WR_SEND_WITH_IMM) |
                                bit(IBV_WR_SEND_WITH_INV) | bit(IBV_WR_RDMA_WRITE) |
                                bit(IBV_WR_RDMA_WRITE_WITH_IMM);
constexpr std::uint32_t TO_MEMORY =
    FETCHES | bit(IBV_WR_RDMA_WRITE) | bit(IBV_WR_RDMA_WRITE_WITH_IMM);

std::uint64_t length_of(const ibv_send_wr &one) noexcept {
    std::uint64_t length = 0;
    for (int each = 0; each < one.num_sge; ++each)
        length += one.sg_list[each].length;
    return length;
}

/// Inline data the CPU copies, from its own side.
void prepare_all(played &on, const ibv_send_wr &one, request &what) {
    if ((one.send_flags & IBV_SEND_INLINE) != 0)
        return;
    for (int each = 0; each < one.num_sge; ++each)
        prepare(on, one.opcode, one.sg_list[each], what.sinks);
}

void tell_peer(played &on, const ibv_qp &pair, const ibv_send_wr &one) {
    if (!reaches_memory(one.opcode))
        return;
    if ((ATOMICS & bit(one.opcode)) != 0)
        announce(on, pair, one.opcode, one.wr_id, one.wr.atomic.rkey, one.wr.atomic.remote_addr, 8);
    else
        announce(on, pair, one.opcode, one.wr_id, one.wr.rdma.rkey, one.wr.rdma.remote_addr,
                 length_of(one));
}

/// A list with ids of ours, in the driver's terms.
template <class wr>
struct renamed {
    std::vector<wr> list;
    std::vector<wr *> given;

    void add(wr *one, std::uint64_t number) {
        list.push_back(*one);
        list.back().wr_id = number;
        given.push_back(one);
    }
    wr *first() {
        for (std::size_t each = 0; each + 1 < list.size(); ++each)
            list[each].next = &list[each + 1];
        if (list.empty())
            return nullptr;
        list.back().next = nullptr;
        return list.data();
    }
    /// *bad: the program's. Those from there on are not open any more.
    void undo(played &on, const wr *ours, wr **bad) {
        const auto from = static_cast<std::size_t>(ours - list.data());
        for (std::size_t each = from; each < list.size(); ++each)
            on.requests.cancel(list[each].wr_id);
        *bad = given[from];
    }
};

int post_send(ibv_qp *pair, ibv_send_wr *list, ibv_send_wr **bad) noexcept try {
    played &on = *find(pair->context);
    here().memory.step();
    renamed<ibv_send_wr> ours;
    for (ibv_send_wr *each = list; each != nullptr; each = each->next) {
        request what = {each->wr_id,
                        pair,
                        true,
                        (each->send_flags & IBV_SEND_SIGNALED) != 0 || on.signals_all(pair),
                        {}};
        prepare_all(on, *each, what);
        tell_peer(on, *pair, *each);
        ours.add(each, on.requests.add(std::move(what)));
    }
    ibv_send_wr *refused = nullptr;
    const int error = on.under.post_send(pair, ours.first(), &refused);
    if (error != 0)
        ours.undo(on, refused, bad);
    for (ibv_send_wr *each = list; each != nullptr && !(error != 0 && each == *bad);
         each = each->next)
        if (each->opcode == IBV_WR_BIND_MW)
            note_window(on, *each->bind_mw.mw, each->bind_mw.rkey, each->bind_mw.bind_info);
    return error;
} catch (const std::bad_alloc &) {
    *bad = list;
    return ENOMEM;
}

template <class queue>
int receive(queue *into, ibv_recv_wr *list, ibv_recv_wr **bad,
            int (*post)(queue *, ibv_recv_wr *, ibv_recv_wr **)) noexcept try {
    played &on = *find(into->context);
    here().memory.step();
    renamed<ibv_recv_wr> ours;
    for (ibv_recv_wr *each = list; each != nullptr; each = each->next) {
        request what = {each->wr_id, into, false, true, {}};
        for (int piece = 0; piece < each->num_sge; ++piece) {
            const span where = on.where(each->sg_list[piece]);
            // Places, even of what is not played, so that the bytes that come are counted right.
            what.sinks.push_back(where.empty() ? span{0, each->sg_list[piece].length} : where);
            here().memory.sink(where);
        }
        ours.add(each, on.requests.add(std::move(what)));
    }
    ibv_recv_wr *refused = nullptr;
    const int error = post(into, ours.first(), &refused);
    if (error != 0)
        ours.undo(on, refused, bad);
    return error;
} catch (const std::bad_alloc &) {
    *bad = list;
    return ENOMEM;
}

int post_recv(ibv_qp *pair, ibv_recv_wr *list, ibv_recv_wr **bad) noexcept {
    return receive(pair, list, bad, find(pair->context)->under.post_recv);
}
int post_srq_recv(ibv_srq *queue, ibv_recv_wr *list, ibv_recv_wr **bad) noexcept {
    return receive(queue, list, bad, find(queue->context)->under.post_srq_recv);
}

} // namespace

bool reaches_memory(ibv_wr_opcode opcode) noexcept {
    return (TO_MEMORY & bit(opcode)) != 0;
}

void prepare(played &on, ibv_wr_opcode opcode, const ibv_sge &piece, std::vector<span> &sinks) {
    if (((FETCHES | SENDS) & bit(opcode)) == 0)
        return;
    const span where = on.where(piece);
    if ((FETCHES & bit(opcode)) == 0) {
        here().memory.source(where);
    } else {
        here().memory.sink(where);
        sinks.push_back(where);
    }
}

void note_window(played &on, const ibv_mw &window, std::uint32_t key,
                 const ibv_mw_bind_info &info) {
    neighbours::withdraw(on.driver, window.rkey);
    place is;
    {
        const std::unique_lock held(on.guard);
        on.remote.erase(window.rkey);
        if (info.mr == nullptr || info.length == 0)
            return;
        const auto region = on.local.find(info.mr->lkey);
        if (region == on.local.end())
            return;
        is = region->second;
        is.where.begin += info.addr - is.iova;
        is.where.end = is.where.begin + info.length;
        is.iova = (info.mw_access_flags & IBV_ACCESS_ZERO_BASED) != 0 ? 0 : info.addr;
        on.remote[key] = is;
    }
    neighbours::publish(on.driver, key, is);
}

void play_posting(abi::operations &able) {
    able.post_send = post_send; // binding a window comes here, too
    able.post_recv = post_recv;
    if (able.post_srq_recv != nullptr)
        able.post_srq_recv = post_srq_recv;
}

} // namespace coherdma::emulation

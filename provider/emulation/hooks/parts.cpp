// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "parts.hpp"

#include <cstddef>
#include <cstring>

namespace coherdma::emulation {
namespace {

struct handle {
    played &on;
    parts &own;
};

handle of(const ibv_qp_ex *pair) {
    played &on = *find(pair->qp_base.context);
    const std::shared_lock held(on.guard);
    return {on, *on.by_parts.at(&pair->qp_base)};
}

void start(ibv_qp_ex *pair) {
    const handle is = of(pair);
    here().memory.step();
    is.own.under.wr_start(pair);
    is.own.batch.clear();
}

void forget(const handle &is) {
    for (const std::uint64_t each : is.own.batch)
        is.on.requests.cancel(each);
    is.own.batch.clear();
}

int complete(ibv_qp_ex *pair) {
    const handle is = of(pair);
    const std::vector<std::uint64_t> batch = std::move(is.own.batch);
    const int error = is.own.under.wr_complete(pair); // from here on it is another thread's
    if (error != 0)
        for (const std::uint64_t each : batch)
            is.on.requests.cancel(each);
    return error;
}

void abort(ibv_qp_ex *pair) {
    const handle is = of(pair);
    forget(is);
    is.own.under.wr_abort(pair);
}

/// The next request: the driver's function is called with an id of ours.
template <class function, class... arguments>
void begin(ibv_qp_ex *pair, ibv_wr_opcode opcode, std::uint32_t key, std::uint64_t remote,
           function parts_function, arguments... all) {
    const handle is = of(pair);
    const std::uint64_t id = pair->wr_id;
    is.own.opcode = opcode;
    is.own.id = id;
    is.own.key = key;
    is.own.remote = remote;
    const bool signalled = is.own.signals_all || (pair->wr_flags & IBV_SEND_SIGNALED) != 0;
    const std::uint64_t number = is.on.requests.add({id, &pair->qp_base, true, signalled, {}});
    is.own.batch.push_back(number);
    pair->wr_id = number;
    (is.own.under.*parts_function)(pair, all...);
    pair->wr_id = id;
}

void send(ibv_qp_ex *pair) {
    begin(pair, IBV_WR_SEND, 0, 0, &ibv_qp_ex::wr_send);
}
void send_imm(ibv_qp_ex *pair, __be32 data) {
    begin(pair, IBV_WR_SEND_WITH_IMM, 0, 0, &ibv_qp_ex::wr_send_imm, data);
}
void send_inv(ibv_qp_ex *pair, std::uint32_t key) {
    begin(pair, IBV_WR_SEND_WITH_INV, 0, 0, &ibv_qp_ex::wr_send_inv, key);
}
void local_inv(ibv_qp_ex *pair, std::uint32_t key) {
    begin(pair, IBV_WR_LOCAL_INV, 0, 0, &ibv_qp_ex::wr_local_inv, key);
}
void write(ibv_qp_ex *pair, std::uint32_t key, std::uint64_t remote) {
    begin(pair, IBV_WR_RDMA_WRITE, key, remote, &ibv_qp_ex::wr_rdma_write, key, remote);
}
void write_imm(ibv_qp_ex *pair, std::uint32_t key, std::uint64_t remote, __be32 data) {
    begin(pair, IBV_WR_RDMA_WRITE_WITH_IMM, key, remote, &ibv_qp_ex::wr_rdma_write_imm, key, remote,
          data);
}
void read(ibv_qp_ex *pair, std::uint32_t key, std::uint64_t remote) {
    begin(pair, IBV_WR_RDMA_READ, key, remote, &ibv_qp_ex::wr_rdma_read, key, remote);
}
void compare_swap(ibv_qp_ex *pair, std::uint32_t key, std::uint64_t remote, std::uint64_t compare,
                  std::uint64_t swap) {
    begin(pair, IBV_WR_ATOMIC_CMP_AND_SWP, key, remote, &ibv_qp_ex::wr_atomic_cmp_swp, key, remote,
          compare, swap);
}
void fetch_add(ibv_qp_ex *pair, std::uint32_t key, std::uint64_t remote, std::uint64_t add) {
    begin(pair, IBV_WR_ATOMIC_FETCH_AND_ADD, key, remote, &ibv_qp_ex::wr_atomic_fetch_add, key,
          remote, add);
}
void bind(ibv_qp_ex *pair, ibv_mw *window, std::uint32_t key, const ibv_mw_bind_info *how) {
    if (window != nullptr && how != nullptr)
        note_window(of(pair).on, *window, key, *how);
    begin(pair, IBV_WR_BIND_MW, 0, 0, &ibv_qp_ex::wr_bind_mw, window, key, how);
}

void tell_peer(const handle &is, const ibv_qp_ex *pair, std::uint64_t length) {
    if (reaches_memory(is.own.opcode))
        announce(is.on, pair->qp_base, is.own.opcode, is.own.id, is.own.key, is.own.remote, length);
}

void set_list(ibv_qp_ex *pair, std::size_t count, const ibv_sge *pieces) {
    const handle is = of(pair);
    std::vector<span> sinks;
    std::uint64_t length = 0;
    for (std::size_t each = 0; each < count; ++each) {
        prepare(is.on, is.own.opcode, pieces[each], sinks);
        length += pieces[each].length;
    }
    if (!is.own.batch.empty())
        is.on.requests.set_sinks(is.own.batch.back(), std::move(sinks));
    tell_peer(is, pair, length);
    is.own.under.wr_set_sge_list(pair, count, pieces);
}
void set_piece(ibv_qp_ex *pair, std::uint32_t key, std::uint64_t address, std::uint32_t length) {
    const ibv_sge piece = {address, length, key};
    set_list(pair, 1, &piece);
}
void set_inline_list(ibv_qp_ex *pair, std::size_t count, const ibv_data_buf *pieces) {
    const handle is = of(pair);
    std::uint64_t length = 0;
    for (std::size_t each = 0; each < count; ++each)
        length += pieces[each].length;
    tell_peer(is, pair, length);
    is.own.under.wr_set_inline_data_list(pair, count, pieces);
}
void set_inline(ibv_qp_ex *pair, void *from, std::size_t length) {
    const ibv_data_buf piece = {from, length};
    set_inline_list(pair, 1, &piece);
}

template <class function>
void put(function &into, function ours) {
    if (into != nullptr)
        into = ours;
}

} // namespace

// Atomic writes and flushes go to the driver as they are: what they carry is the CPU's own, and
// their ids are not ours.
void play_parts(played &on, ibv_qp *pair) {
    ibv_qp_ex *const all = ibv_qp_to_qp_ex(pair);
    auto own = std::make_unique<parts>();
    own->under = *all;
    own->signals_all = on.signals_all(pair);
    put(all->wr_send, send);
    put(all->wr_send_imm, send_imm);
    put(all->wr_send_inv, send_inv);
    put(all->wr_local_inv, local_inv);
    put(all->wr_rdma_write, write);
    put(all->wr_rdma_write_imm, write_imm);
    put(all->wr_rdma_read, read);
    put(all->wr_atomic_cmp_swp, compare_swap);
    put(all->wr_atomic_fetch_add, fetch_add);
    put(all->wr_bind_mw, bind);
    put(all->wr_set_sge, set_piece);
    put(all->wr_set_sge_list, set_list);
    put(all->wr_set_inline_data, set_inline);
    put(all->wr_set_inline_data_list, set_inline_list);
    put(all->wr_start, start);
    put(all->wr_complete, complete);
    put(all->wr_abort, abort);
    const std::unique_lock held(on.guard);
    on.by_parts[pair] = std::move(own);
}

void give_back_parts(played &on) noexcept {
    constexpr std::size_t FUNCTIONS = offsetof(ibv_qp_ex, wr_atomic_cmp_swp); // from there on
    for (auto &[pair, own] : on.by_parts) {
        auto *const all = reinterpret_cast<unsigned char *>(
            ibv_qp_to_qp_ex(const_cast<ibv_qp *>(pair))); // it was not const when it was made
        std::memcpy(all + FUNCTIONS,
                    reinterpret_cast<const unsigned char *>(&own->under) + FUNCTIONS,
                    sizeof own->under - FUNCTIONS);
    }
}

} // namespace coherdma::emulation

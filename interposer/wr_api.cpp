// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The ibv_wr_* functions. The program builds a WR by several calls: one that begins it, and setters
// of its data and address. The driver learns of it when its data is set, or the next WR begins, or
// the batch ends: then the observers can see and change it as an ibv_send_wr.

#include "calls.hpp"

#include <algorithm>
#include <cstddef>
#include <new>
#include <type_traits>

namespace coherdma::interposer {
namespace {

qp_record &record_of(const ibv_qp_ex *qp) noexcept {
    return get_record(tables().qps, object_kind::QP, &qp->qp_base, "ibv_wr_start");
}

/// Calls the driver's function that begins the WR.
void begin_driver_wr(ibv_qp_ex *qp, const ibv_qp_ex &driver, const ibv_send_wr &wr) {
    switch (wr.opcode) {
    case IBV_WR_SEND:
        return driver.wr_send(qp);
    case IBV_WR_SEND_WITH_IMM:
        return driver.wr_send_imm(qp, wr.imm_data);
    case IBV_WR_SEND_WITH_INV:
        return driver.wr_send_inv(qp, wr.invalidate_rkey);
    case IBV_WR_LOCAL_INV:
        return driver.wr_local_inv(qp, wr.invalidate_rkey);
    case IBV_WR_RDMA_WRITE:
        return driver.wr_rdma_write(qp, wr.wr.rdma.rkey, wr.wr.rdma.remote_addr);
    case IBV_WR_RDMA_WRITE_WITH_IMM:
        return driver.wr_rdma_write_imm(qp, wr.wr.rdma.rkey, wr.wr.rdma.remote_addr, wr.imm_data);
    case IBV_WR_RDMA_READ:
        return driver.wr_rdma_read(qp, wr.wr.rdma.rkey, wr.wr.rdma.remote_addr);
    case IBV_WR_ATOMIC_CMP_AND_SWP:
        return driver.wr_atomic_cmp_swp(qp, wr.wr.atomic.rkey, wr.wr.atomic.remote_addr,
                                        wr.wr.atomic.compare_add, wr.wr.atomic.swap);
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
        return driver.wr_atomic_fetch_add(qp, wr.wr.atomic.rkey, wr.wr.atomic.remote_addr,
                                          wr.wr.atomic.compare_add);
    case IBV_WR_BIND_MW:
        return driver.wr_bind_mw(qp, wr.bind_mw.mw, wr.bind_mw.rkey, &wr.bind_mw.bind_info);
    case IBV_WR_TSO:
        return driver.wr_send_tso(qp, wr.tso.hdr, wr.tso.hdr_sz, wr.tso.mss);
    default: // begin_wr() gets no others
        return;
    }
}

/// Notifies the observers of a WR, which they may change, and adds it to the batch. Returns the
/// wr_id that the driver gets.
std::uint64_t add_to_batch(qp_record &record, ibv_send_wr &wr) {
    const request sent = make_send(record, wr);
    notify(record, &observer::before_send, sent, wr);
    request_builder::built_request &built = record.builder.batch.emplace_back();
    built.posted = sent;
    built.token = record.sends != nullptr ? record.sends->add(sent) : 0;
    built.wr = wr;
    built.wr.sg_list = nullptr;
    built.wr.num_sge = 0;
    return built.token != 0 ? built.token : sent.wr_id;
}

/// What the driver reads of a QP while it gets a WR; the program's values are there afterwards.
class exchanged_members {
  public:
    exchanged_members(ibv_qp_ex *qp, std::uint64_t wr_id, unsigned flags)
        : qp_(*qp)
        , wr_id_(std::exchange(qp->wr_id, wr_id))
        , flags_(std::exchange(qp->wr_flags, flags)) {}
    ~exchanged_members() {
        qp_.wr_id = wr_id_;
        qp_.wr_flags = flags_;
    }
    exchanged_members(const exchanged_members &) = delete;
    exchanged_members &operator=(const exchanged_members &) = delete;

  private:
    ibv_qp_ex &qp_;
    const std::uint64_t wr_id_;
    const unsigned flags_;
};

/// The driver gets the WR that is being built, and then its data by set_data(). Some drivers read
/// wr_id and flags only then.
template <class function>
void emit(qp_record &record, ibv_qp_ex *qp, function set_data) {
    request_builder &builder = record.builder;
    if (!builder.is_begun)
        return;
    builder.is_begun = false;
    ibv_send_wr &wr = builder.wr;
    // The flag is for the observers: the driver learns by its setter that data are inline.
    const unsigned inline_flag = builder.has_inline_data ? IBV_SEND_INLINE & ~wr.send_flags : 0;
    wr.send_flags |= inline_flag;
    const std::uint64_t wr_id = add_to_batch(record, wr);
    const exchanged_members exchanged(qp, wr_id, wr.send_flags & ~inline_flag);
    const ibv_qp_ex &driver = record.driver_ex->qp;
    begin_driver_wr(qp, driver, wr);
    if (builder.has_ud_addr)
        driver.wr_set_ud_addr(qp, wr.wr.ud.ah, wr.wr.ud.remote_qpn, wr.wr.ud.remote_qkey);
    if (builder.has_xrc_srqn)
        driver.wr_set_xrc_srqn(qp, wr.qp_type.xrc.remote_srqn);
    set_data();
}

/// A WR whose data are not set.
void emit(qp_record &record, ibv_qp_ex *qp) {
    emit(record, qp, [] {});
}

/// Begins a WR, whose other members set() fills in.
template <class function>
void begin_wr(ibv_qp_ex *qp, ibv_wr_opcode opcode, function set) {
    qp_record &record = record_of(qp);
    emit(record, qp);
    ibv_send_wr wr = {};
    wr.wr_id = qp->wr_id;
    wr.opcode = opcode;
    wr.send_flags = qp->wr_flags;
    set(wr);
    if (!is_observed(&record))
        return begin_driver_wr(qp, record.driver_ex->qp, wr);
    request_builder &builder = record.builder;
    builder.wr = wr;
    builder.has_ud_addr = builder.has_xrc_srqn = builder.has_inline_data = false;
    builder.is_begun = true;
}

void wr_send(ibv_qp_ex *qp) {
    begin_wr(qp, IBV_WR_SEND, [](ibv_send_wr &) {});
}
void wr_send_imm(ibv_qp_ex *qp, __be32 imm_data) {
    begin_wr(qp, IBV_WR_SEND_WITH_IMM, [=](ibv_send_wr &wr) { wr.imm_data = imm_data; });
}
void wr_send_inv(ibv_qp_ex *qp, std::uint32_t rkey) {
    begin_wr(qp, IBV_WR_SEND_WITH_INV, [=](ibv_send_wr &wr) { wr.invalidate_rkey = rkey; });
}
void wr_local_inv(ibv_qp_ex *qp, std::uint32_t rkey) {
    begin_wr(qp, IBV_WR_LOCAL_INV, [=](ibv_send_wr &wr) { wr.invalidate_rkey = rkey; });
}
void wr_send_tso(ibv_qp_ex *qp, void *hdr, std::uint16_t hdr_sz, std::uint16_t mss) {
    begin_wr(qp, IBV_WR_TSO, [=](ibv_send_wr &wr) {
        wr.tso.hdr = hdr;
        wr.tso.hdr_sz = hdr_sz;
        wr.tso.mss = mss;
    });
}

void set_remote(ibv_send_wr &wr, std::uint32_t rkey, std::uint64_t remote_addr) noexcept {
    wr.wr.rdma.rkey = rkey;
    wr.wr.rdma.remote_addr = remote_addr;
}
void wr_rdma_write(ibv_qp_ex *qp, std::uint32_t rkey, std::uint64_t remote_addr) {
    begin_wr(qp, IBV_WR_RDMA_WRITE, [=](ibv_send_wr &wr) { set_remote(wr, rkey, remote_addr); });
}
void wr_rdma_write_imm(ibv_qp_ex *qp, std::uint32_t rkey, std::uint64_t remote_addr,
                       __be32 imm_data) {
    begin_wr(qp, IBV_WR_RDMA_WRITE_WITH_IMM, [=](ibv_send_wr &wr) {
        set_remote(wr, rkey, remote_addr);
        wr.imm_data = imm_data;
    });
}
void wr_rdma_read(ibv_qp_ex *qp, std::uint32_t rkey, std::uint64_t remote_addr) {
    begin_wr(qp, IBV_WR_RDMA_READ, [=](ibv_send_wr &wr) { set_remote(wr, rkey, remote_addr); });
}

void begin_atomic(ibv_qp_ex *qp, ibv_wr_opcode opcode, std::uint32_t rkey,
                  std::uint64_t remote_addr, std::uint64_t compare_add, std::uint64_t swap) {
    begin_wr(qp, opcode, [=](ibv_send_wr &wr) {
        wr.wr.atomic.rkey = rkey;
        wr.wr.atomic.remote_addr = remote_addr;
        wr.wr.atomic.compare_add = compare_add;
        wr.wr.atomic.swap = swap;
    });
}
void wr_atomic_cmp_swp(ibv_qp_ex *qp, std::uint32_t rkey, std::uint64_t remote_addr,
                       std::uint64_t compare, std::uint64_t swap) {
    begin_atomic(qp, IBV_WR_ATOMIC_CMP_AND_SWP, rkey, remote_addr, compare, swap);
}
void wr_atomic_fetch_add(ibv_qp_ex *qp, std::uint32_t rkey, std::uint64_t remote_addr,
                         std::uint64_t add) {
    begin_atomic(qp, IBV_WR_ATOMIC_FETCH_AND_ADD, rkey, remote_addr, add, 0);
}

void wr_bind_mw(ibv_qp_ex *qp, ibv_mw *mw, std::uint32_t rkey, const ibv_mw_bind_info *bind_info) {
    begin_wr(qp, IBV_WR_BIND_MW, [=](ibv_send_wr &wr) {
        wr.bind_mw.mw = mw;
        wr.bind_mw.rkey = rkey;
        wr.bind_mw.bind_info = *bind_info;
    });
}

/// A WR of which the driver gets all at once, by call(rkey, remote_addr).
template <class function>
void post_whole_wr(ibv_qp_ex *qp, ibv_wr_opcode opcode, std::uint32_t rkey,
                   std::uint64_t remote_addr, function call) {
    qp_record &record = record_of(qp);
    emit(record, qp);
    if (!is_observed(&record))
        return call(*record.driver_ex, rkey, remote_addr);
    ibv_send_wr wr = {};
    wr.wr_id = qp->wr_id;
    wr.opcode = opcode;
    wr.send_flags = qp->wr_flags;
    set_remote(wr, rkey, remote_addr);
    const std::uint64_t wr_id = add_to_batch(record, wr);
    const exchanged_members exchanged(qp, wr_id, wr.send_flags);
    call(*record.driver_ex, wr.wr.rdma.rkey, wr.wr.rdma.remote_addr);
}

void wr_atomic_write(ibv_qp_ex *qp, std::uint32_t rkey, std::uint64_t remote_addr,
                     const void *data) {
    post_whole_wr(
        qp, IBV_WR_ATOMIC_WRITE, rkey, remote_addr,
        [=](const driver_wr_functions &driver, std::uint32_t current_rkey, std::uint64_t addr) {
            driver.qp.wr_atomic_write(qp, current_rkey, addr, data);
        });
}

void wr_flush(ibv_qp_ex *qp, std::uint32_t rkey, std::uint64_t remote_addr, std::size_t length,
              std::uint8_t type, std::uint8_t level) {
    constexpr auto FLUSH = static_cast<ibv_wr_opcode>(14); // IBV_WR_FLUSH since rdma-core 46
    post_whole_wr(
        qp, FLUSH, rkey, remote_addr,
        [=](const driver_wr_functions &driver, std::uint32_t current_rkey, std::uint64_t addr) {
            driver.wr_flush(qp, current_rkey, addr, length, type, level);
        });
}

void wr_set_ud_addr(ibv_qp_ex *qp, ibv_ah *ah, std::uint32_t remote_qpn,
                    std::uint32_t remote_qkey) {
    qp_record &record = record_of(qp);
    if (!record.builder.is_begun)
        return record.driver_ex->qp.wr_set_ud_addr(qp, ah, remote_qpn, remote_qkey);
    record.builder.wr.wr.ud = {.ah = ah, .remote_qpn = remote_qpn, .remote_qkey = remote_qkey};
    record.builder.has_ud_addr = true;
}

void wr_set_xrc_srqn(ibv_qp_ex *qp, std::uint32_t remote_srqn) {
    qp_record &record = record_of(qp);
    if (!record.builder.is_begun)
        return record.driver_ex->qp.wr_set_xrc_srqn(qp, remote_srqn);
    record.builder.wr.qp_type.xrc.remote_srqn = remote_srqn;
    record.builder.has_xrc_srqn = true;
}

/// The WR has these SGEs, which the observers may change, and the driver gets it; set(wr) sets its
/// data. If no WR was begun, set(nullptr) does.
template <class function>
void set_data(ibv_qp_ex *qp, std::vector<ibv_sge> sges, function set) {
    qp_record &record = record_of(qp);
    request_builder &builder = record.builder;
    const ibv_qp_ex &driver = record.driver_ex->qp;
    if (!builder.is_begun)
        return set(driver, nullptr);
    builder.wr.sg_list = sges.data();
    builder.wr.num_sge = static_cast<int>(sges.size());
    emit(record, qp, [&] { set(driver, &builder.wr); });
}

void set_sge_list(ibv_qp_ex *qp, const ibv_qp_ex &driver, const ibv_send_wr &wr) {
    driver.wr_set_sge_list(qp, static_cast<std::size_t>(wr.num_sge), wr.sg_list);
}

/// Whether the data that the program has set by ibv_wr_set_inline_data() stay inline. wr: nullptr:
/// none was begun.
bool is_inline(const ibv_send_wr *wr) noexcept {
    return wr == nullptr || (wr->send_flags & IBV_SEND_INLINE) != 0;
}

// The driver gets the call that the program made: rxe of rdma-core 44 loses inline data that come
// by its function for lists.

void wr_set_sge(ibv_qp_ex *qp, std::uint32_t lkey, std::uint64_t addr, std::uint32_t length) {
    set_data(qp, {{.addr = addr, .length = length, .lkey = lkey}},
             [=](const ibv_qp_ex &driver, const ibv_send_wr *wr) {
                 const ibv_sge sge = wr != nullptr
                                         ? wr->sg_list[0]
                                         : ibv_sge{.addr = addr, .length = length, .lkey = lkey};
                 driver.wr_set_sge(qp, sge.lkey, sge.addr, sge.length);
             });
}

void wr_set_sge_list(ibv_qp_ex *qp, std::size_t num_sge, const ibv_sge *sg_list) {
    set_data(qp, std::vector<ibv_sge>(sg_list, sg_list + num_sge),
             [=](const ibv_qp_ex &driver, const ibv_send_wr *wr) {
                 if (wr != nullptr)
                     set_sge_list(qp, driver, *wr);
                 else
                     driver.wr_set_sge_list(qp, num_sge, sg_list);
             });
}

ibv_sge to_sge(const ibv_data_buf &buf) noexcept {
    return {.addr = reinterpret_cast<std::uintptr_t>(buf.addr),
            .length = static_cast<std::uint32_t>(buf.length),
            .lkey = 0};
}

void wr_set_inline_data(ibv_qp_ex *qp, void *addr, std::size_t length) {
    record_of(qp).builder.has_inline_data = true;
    set_data(qp, {to_sge({.addr = addr, .length = length})},
             [=](const ibv_qp_ex &driver, const ibv_send_wr *wr) {
                 if (is_inline(wr))
                     driver.wr_set_inline_data(qp, addr, length);
                 else
                     set_sge_list(qp, driver, *wr);
             });
}

void wr_set_inline_data_list(ibv_qp_ex *qp, std::size_t num_buf, const ibv_data_buf *buf_list) {
    record_of(qp).builder.has_inline_data = true;
    std::vector<ibv_sge> sges(num_buf);
    std::transform(buf_list, buf_list + num_buf, sges.begin(), to_sge);
    set_data(qp, std::move(sges), [=](const ibv_qp_ex &driver, const ibv_send_wr *wr) {
        if (is_inline(wr))
            driver.wr_set_inline_data_list(qp, num_buf, buf_list);
        else
            set_sge_list(qp, driver, *wr);
    });
}

/// A child of fork() inherits what its parent holds, and leaves it alone.
bool holds_sends(const qp_record &record) noexcept {
    return record.held != nullptr && is_observed(&record);
}

void wr_start(ibv_qp_ex *qp) {
    qp_record &record = record_of(qp);
    note_unobserved_use(&record, "ibv_wr_start");
    begin_use(record, "ibv_wr_start");
    if (holds_sends(record)) // until ibv_wr_complete() or ibv_wr_abort()
        record.held->begin_direct_use();
    record.driver_ex->qp.wr_start(qp); // from here on, this thread has the builder
    record.builder.is_begun = false;
    record.builder.batch.clear();
}

using request_batch = std::vector<request_builder::built_request>;

void cancel(const qp_record &record, const request_batch &batch,
            void (observer::*event)(const request &)) {
    const delivery events(record);
    for (const request_builder::built_request &built : batch) {
        if (built.token != 0)
            record.sends->cancel(built.token);
        events.notify(event, built.posted);
    }
}

void wr_abort(ibv_qp_ex *qp) {
    qp_record &record = record_of(qp);
    const request_batch batch = std::move(record.builder.batch);
    record.builder.batch.clear();
    record.builder.is_begun = false;
    record.driver_ex->qp.wr_abort(qp);
    if (holds_sends(record))
        record.held->end_direct_use();
    end_use(record);
    cancel(record, batch, &observer::on_abort);
}

int wr_complete(ibv_qp_ex *qp) {
    qp_record &record = record_of(qp);
    if (const int error = failure_of("ibv_wr_complete")) {
        wr_abort(qp);
        return error;
    }
    emit(record, qp);
    request_batch batch = std::move(record.builder.batch);
    record.builder.batch.clear();
    int error;
    {
        const post_in_progress post(batch.empty() ? nullptr : record.sends, batch,
                                    request_tokens::HAVE);
        error = record.driver_ex->qp.wr_complete(qp); // another thread may have the builder then
    }
    if (holds_sends(record))
        record.held->end_direct_use();
    end_use(record);
    if (error != 0) {
        cancel(record, batch, &observer::on_refuse);
        return error;
    }
    const delivery events(record);
    for (const request_builder::built_request &built : batch)
        events.notify(&observer::on_post, built.posted, built.wr);
    return 0;
}

/// Replaces a function of the QP, if the driver has it, and keeps the driver's.
template <class function>
void hook(function *&current, function *&driver_function,
          std::type_identity_t<function> *replacement) noexcept {
    if (current == nullptr || current == replacement)
        return;
    driver_function = current;
    current = replacement;
}

} // namespace

void hook_wr_functions(qp_record &record, ibv_qp_ex &qp, std::uint64_t send_ops_flags) noexcept {
    driver_wr_functions &all = *record.driver_ex;
    ibv_qp_ex &driver = all.qp;
    hook(qp.wr_send, driver.wr_send, wr_send);
    hook(qp.wr_send_imm, driver.wr_send_imm, wr_send_imm);
    hook(qp.wr_send_inv, driver.wr_send_inv, wr_send_inv);
    hook(qp.wr_send_tso, driver.wr_send_tso, wr_send_tso);
    hook(qp.wr_local_inv, driver.wr_local_inv, wr_local_inv);
    hook(qp.wr_rdma_write, driver.wr_rdma_write, wr_rdma_write);
    hook(qp.wr_rdma_write_imm, driver.wr_rdma_write_imm, wr_rdma_write_imm);
    hook(qp.wr_rdma_read, driver.wr_rdma_read, wr_rdma_read);
    hook(qp.wr_atomic_cmp_swp, driver.wr_atomic_cmp_swp, wr_atomic_cmp_swp);
    hook(qp.wr_atomic_fetch_add, driver.wr_atomic_fetch_add, wr_atomic_fetch_add);
    hook(qp.wr_bind_mw, driver.wr_bind_mw, wr_bind_mw);
    hook(qp.wr_set_ud_addr, driver.wr_set_ud_addr, wr_set_ud_addr);
    hook(qp.wr_set_xrc_srqn, driver.wr_set_xrc_srqn, wr_set_xrc_srqn);
    hook(qp.wr_set_sge, driver.wr_set_sge, wr_set_sge);
    hook(qp.wr_set_sge_list, driver.wr_set_sge_list, wr_set_sge_list);
    hook(qp.wr_set_inline_data, driver.wr_set_inline_data, wr_set_inline_data);
    hook(qp.wr_set_inline_data_list, driver.wr_set_inline_data_list, wr_set_inline_data_list);
    hook(qp.wr_start, driver.wr_start, wr_start);
    hook(qp.wr_complete, driver.wr_complete, wr_complete);
    hook(qp.wr_abort, driver.wr_abort, wr_abort);
    // The struct has grown at its end: a program that asks for a function has a library that has
    // it.
    if ((send_ops_flags & IBV_QP_EX_WITH_ATOMIC_WRITE) != 0)
        hook(qp.wr_atomic_write, driver.wr_atomic_write, wr_atomic_write);
    constexpr std::uint64_t WITH_FLUSH = std::uint64_t{1} << 11; // since rdma-core 46
    if ((send_ops_flags & WITH_FLUSH) != 0) {
        auto *const behind_atomic_write =
            reinterpret_cast<unsigned char *>(&qp.wr_atomic_write) + sizeof qp.wr_atomic_write;
        hook(*reinterpret_cast<decltype(all.wr_flush) *>(behind_atomic_write), all.wr_flush,
             wr_flush);
    }
}

} // namespace coherdma::interposer

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "requests.hpp"

#include "reports/text.hpp"

#include <algorithm>
#include <cstring>

namespace coherdma::check {
namespace {

using interposer::request;

posted_request to_posted(const request &posted, bool has_stack, bool is_fenced = false) {
    return {.wr_id = posted.wr_id,
            .opcode = posted.opcode,
            .is_receive = posted.is_receive,
            .is_signaled = posted.is_signaled,
            .is_fenced = is_fenced,
            .memory = {},
            .device_sges = {},
            .stack = has_stack ? stack_trace::capture_all() : stack_trace{}};
}

void note_failure(process_books &books, const request &failed, ibv_wc_status status) {
    known_qp *const qp = books.find_qp(failed.queue);
    if (qp == nullptr)
        return;
    qp->state = IBV_QPS_ERR;
    if (status == IBV_WC_WR_FLUSH_ERR || qp->has_failed)
        return;
    qp->has_failed = true;
    books.end_uses(*qp);
    qp->failure = status;
    qp->failure_poll = stack_trace::capture_all();
    qp->failure_thread = std::this_thread::get_id();
    qp->num_sends_since_failure = 0;
    qp->is_failure_reported = false;
}

/// Overwrites what is undefined after an error: a program that reads it all the same does not find
/// the values that most drivers leave there.
void fill_undefined(ibv_wc &wc) noexcept {
    const ibv_wc defined = wc;
    std::memset(&wc, FILL, sizeof wc);
    wc.wr_id = defined.wr_id;
    wc.status = defined.status;
    wc.vendor_err = defined.vendor_err;
    wc.qp_num = defined.qp_num;
}

/// Those that the driver reads: it refuses a request that has too many without a look at them, and
/// the program's array may have fewer.
std::span<const ibv_sge> readable(std::span<const ibv_sge> sges, std::size_t max_sges) noexcept {
    return sges.size() <= max_sges ? sges : std::span<const ibv_sge>{};
}

/// Whether the request names memory that peers may write to.
bool can_peers_write(process_books &books, const posted_request &request) {
    constexpr int BY_PEERS = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
    return std::any_of(request.memory.begin(), request.memory.end(), [&](const auto &named) {
        const known_mr *const mr = books.find_mr(named.mr);
        return mr != nullptr && (mr->access & BY_PEERS) != 0;
    });
}

/// Whether nothing but the program can change the target before it is delivered.
bool is_target_compared(locked_books &locked, const posted_request &request) {
    return locked.process().late_holds != nullptr && !shares_target(locked.books, request) &&
           !can_peers_write(locked.books, request);
}

void check_ownership(locked_books &locked, const known_object &queue, posted_request &posted) {
    if (!locked.books.owned.is_started())
        return;
    check_overlap(locked.books, queue, posted, locked.results);
    if (is_written(posted) ? is_target_compared(locked, posted)
                           : find_earlier_target(locked.books, queue, posted) == nullptr)
        copy_memory(posted);
}

/// With the memory of its inline data, which are of no MR.
posted_request to_inline(const request &sent, const ibv_send_wr &wr) {
    posted_request posted = to_posted(sent, false);
    for (int i = 0; i < wr.num_sge; ++i)
        posted.memory.push_back(
            {.begin = wr.sg_list[i].addr, .end = wr.sg_list[i].addr + wr.sg_list[i].length});
    return posted;
}

/// What a send takes must be initialized.
void check_initialized(locked_books &locked, const known_qp &qp, const posted_request &request) {
    const sanitizers *const watcher = locked.process().watcher.get();
    const std::optional<std::uintptr_t> addr =
        watcher != nullptr ? watcher->find_uninitialized(request) : std::nullopt;
    if (addr)
        locked.results.push_back(make_finding(finding_kind::UNINITIALIZED_SOURCE, qp,
                                              describe_request(request) +
                                                  ", names memory that is not initialized, from " +
                                                  reports::hex_number(*addr) + " on",
                                              describe_request(request) + ", is posted"));
}

/// The program learns that it is complete. False: its QP was reset since it was posted.
bool end_request(locked_books &locked, const request &completed,
                 std::optional<std::size_t> byte_len) {
    posted_request *const posted = locked.books.find_request(completed);
    if (posted == nullptr)
        return false;
    // A target that the device has itself may be changed by it.
    const bool is_compared = !is_written(*posted) || (locked.process().late_holds != nullptr &&
                                                      locked.process().late_holds(completed));
    if (const known_object *const queue = locked.books.find_queue(completed.queue);
        queue != nullptr && byte_len && is_compared)
        check_change(*queue, *posted, locked.results);
    if (sanitizers *const watcher = locked.process().watcher.get())
        watcher->complete(completed.number, *posted, byte_len);
    remove_request(locked.books, completed);
    return true;
}

/// A receive of the QP is complete, which the peer has sent after what it has got: it may have
/// written to the source of that before.
void note_answer(locked_books &locked, known_qp &qp) {
    if (sanitizers *const watcher = locked.process().watcher.get())
        watcher->note_answer(qp, qp.answered_send, qp.last_send);
    if (locked.books.owned.is_started())
        for (auto it = qp.sends.upper_bound(qp.answered_send); it != qp.sends.end(); ++it) {
            if (is_written(it->second))
                continue;
            if (!can_peers_write(locked.books, it->second))
                check_change(qp, it->second, locked.results);
            locked.books.return_memory(it->second);
        }
    qp.answered_send = qp.last_send;
}

/// Copies the SGEs, with the lkeys that the device has. They live as long as the request.
ibv_sge *use_device_keys(process_books &books, const known_object &queue, posted_request &posted,
                         std::span<const ibv_sge> sges) {
    posted.device_sges.assign(sges.begin(), sges.end());
    for (ibv_sge &sge : posted.device_sges)
        if (const known_mr *const mr = books.find_mr(queue.context, sge.lkey))
            sge.lkey = mr->device_lkey;
    return posted.device_sges.data();
}

bool names_remote_memory(ibv_wr_opcode opcode) noexcept {
    return opcode == IBV_WR_RDMA_WRITE || opcode == IBV_WR_RDMA_WRITE_WITH_IMM ||
           opcode == IBV_WR_RDMA_READ || opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
           opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

/// The members of the union that have the opcode's values.
void check_remote(locked_books &locked, known_qp &qp, const request &sent, const ibv_send_wr &wr) {
    std::uint64_t length = 0;
    for (int i = 0; i < wr.num_sge; ++i)
        length += wr.sg_list[i].length;
    const bool is_atomic =
        wr.opcode == IBV_WR_ATOMIC_CMP_AND_SWP || wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
    const std::uint32_t rkey = is_atomic ? wr.wr.atomic.rkey : wr.wr.rdma.rkey;
    const std::uint64_t addr = is_atomic ? wr.wr.atomic.remote_addr : wr.wr.rdma.remote_addr;
    check_remote(locked.books, qp, to_posted(sent, false), rkey, addr, length, locked.results);
}

/// A driver reads the lkey of the ibv_mr: that has the device's meanwhile.
void begin_bind(process_books &books, const request &sent, ibv_mr &mr) {
    if (const known_mr *const known = books.find_mr(mr.context, mr.lkey)) {
        books.binds.emplace(sent.number, known->number);
        books.show_device_lkey(*known);
    }
}

/// Of the memory of a request that is complete.
std::size_t written_length(const interposer::completion &polled) noexcept {
    if (!polled.completed->is_receive)
        return SIZE_MAX;
    if (polled.wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM)
        return 0; // the Write's data are elsewhere
    return polled.has_byte_len ? polled.wc.byte_len : SIZE_MAX;
}

/// The QP of a receive's completion; nullptr: it is none, or the QP is not known.
known_qp *find_receiver(process_books &books, const interposer::completion &polled) noexcept {
    if (!polled.completed->is_receive)
        return nullptr;
    known_qp *const qp = books.find_qp(polled.completed->queue);
    return qp != nullptr ? qp : books.find_qp(polled.completed->context, polled.wc.qp_num); // SRQ
}

} // namespace

void check_send(const request &sent, const ibv_send_wr &wr) {
    with_books([&](locked_books &locked) {
        known_qp *const qp = locked.books.find_qp(sent.queue);
        if (qp == nullptr)
            return;
        // Else the driver refuses it, and does not read them.
        const bool can_read_sges = wr.opcode != IBV_WR_BIND_MW && wr.opcode != IBV_WR_LOCAL_INV &&
                                   wr.num_sge >= 0 &&
                                   static_cast<std::size_t>(wr.num_sge) <= qp->max_send_sges;
        if (names_remote_memory(wr.opcode) && can_read_sges)
            check_remote(locked, *qp, sent, wr);
        if (qp->type == IBV_QPT_UD)
            static_cast<void>(check_destroyed(locked.books, object_kind::AH, wr.wr.ud.ah,
                                              "ibv_post_send", locked.results));
        if ((wr.send_flags & IBV_SEND_INLINE) != 0 && can_read_sges &&
            locked.process().watcher != nullptr)
            check_initialized(locked, *qp, to_inline(sent, wr));
        for (const device_limits *const limits : locked.config().other_devices)
            if (can_read_sges)
                check_limits_of_send(*qp, to_posted(sent, false), wr, *limits, locked.results);
        if (wr.opcode == IBV_WR_BIND_MW && wr.bind_mw.bind_info.mr != nullptr &&
            locked.config().distinct_keys)
            begin_bind(locked.books, sent, *wr.bind_mw.bind_info.mr);
    });
}

void check_modify(ibv_qp &qp, const ibv_qp_attr &attr, int mask) {
    constexpr int RD_ATOMIC = IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_MAX_DEST_RD_ATOMIC;
    if ((mask & RD_ATOMIC) == 0)
        return;
    with_books([&](locked_books &locked) {
        const known_qp *const known = locked.books.find_qp(&qp);
        ibv_device_attr device = {};
        if (known == nullptr || locked.config().other_devices.empty() ||
            ibv_query_device(qp.context, &device) != 0)
            return;
        for (const device_limits *const limits : locked.config().other_devices)
            check_limits_of_modify(*known, attr, mask, *limits, device, locked.results);
    });
}

void fill_rest(std::span<ibv_wc> rest) noexcept {
    const process_check *const process = current_check.load(std::memory_order_acquire);
    if (process != nullptr && process->config.fill)
        std::memset(rest.data(), FILL, rest.size_bytes());
}

void end_bind(const request &sent) {
    with_books([&](locked_books &locked) {
        auto &binds = locked.books.binds;
        const auto ended = binds.find(sent.number);
        if (ended == binds.end())
            return;
        const object_number number = ended->second;
        binds.erase(ended);
        const known_mr *const mr = locked.books.find_mr(number);
        const bool is_last = std::none_of(binds.begin(), binds.end(),
                                          [=](const auto &bind) { return bind.second == number; });
        if (mr != nullptr && is_last)
            process_books::hide_device_lkey(*mr);
    });
}

void note_connection(const ibv_qp &qp, const ibv_qp_attr &attr, int mask) {
    constexpr int PATH = IBV_QP_DEST_QPN | IBV_QP_AV;
    if ((mask & PATH) != PATH || attr.ah_attr.is_global == 0)
        return;
    ibv_gid local = {};
    const bool is_local = ibv_query_gid(qp.context, attr.ah_attr.port_num,
                                        attr.ah_attr.grh.sgid_index, &local) == 0 &&
                          std::memcmp(&local, &attr.ah_attr.grh.dgid, sizeof local) == 0;
    with_books([&](locked_books &locked) {
        known_qp *const known = locked.books.find_qp(&qp);
        if (known != nullptr && (known->type == IBV_QPT_RC || known->type == IBV_QPT_UC))
            known->local_peer = is_local ? std::optional(attr.dest_qp_num) : std::nullopt;
    });
}

void add_request(const request &added, std::span<const ibv_sge> sges, bool is_fenced,
                 ibv_sge *&sg_list) {
    with_books([&](locked_books &locked) {
        process_books &books = locked.books;
        posted_request posted = to_posted(added, locked.config().post_stacks, is_fenced);
        if (known_qp *const qp = books.find_qp(added.queue)) {
            const std::size_t max_sges =
                added.is_receive ? qp->max_receive_sges : qp->max_send_sges;
            const std::span<const ibv_sge> read = readable(sges, max_sges);
            posted.memory = check_sges(books, *qp, qp->pd_handle, posted, read, locked.results);
            if (find_earlier_target(books, *qp, posted) == nullptr)
                check_initialized(locked, *qp, posted);
            check_ownership(locked, *qp, posted);
            if (!read.empty() && locked.config().distinct_keys)
                sg_list = use_device_keys(books, *qp, posted, read);
            if (locked.config().fill)
                check_wr_id(*qp, posted, locked.results);
            check_after_failure(*qp, posted, locked.results);
            if (!added.is_followed)
                return;
            const posted_request &kept = books.add_request(*qp, added.number, std::move(posted));
            check_capacity(books, *qp, kept, locked.results);
        } else if (known_srq *const srq = books.find_srq(added.queue)) {
            const std::span<const ibv_sge> read = readable(sges, srq->max_sges);
            posted.memory = check_sges(books, *srq, srq->pd_handle, posted, read, locked.results);
            check_ownership(locked, *srq, posted);
            if (!read.empty() && locked.config().distinct_keys)
                sg_list = use_device_keys(books, *srq, posted, read);
            if (locked.config().fill)
                check_wr_id(*srq, posted, locked.results);
            const posted_request &kept = books.add_request(*srq, added.number, std::move(posted));
            check_srq_capacity(books, *srq, kept, locked.results);
        }
    });
}

void check_posted(const request &posted) {
    with_books([&](locked_books &locked) {
        if (known_qp *const qp = locked.books.find_qp(posted.queue))
            check_state(*qp, to_posted(posted, false), locked.results);
    });
}

void remove_request(process_books &books, const request &removed) {
    if (known_qp *const qp = books.find_qp(removed.queue))
        books.remove_request(*qp, removed.number, removed.is_receive);
    else if (known_srq *const srq = books.find_srq(removed.queue))
        books.remove_request(*srq, removed.number);
}

void note_completion(const interposer::completion &polled) {
    if (polled.completed == nullptr)
        return;
    bool fill = false;
    with_books([&](locked_books &locked) {
        const bool is_success = polled.wc.status == IBV_WC_SUCCESS;
        constexpr std::optional<std::size_t> NOTHING, ALL = SIZE_MAX;
        for (const request &silent : polled.silent) // posted before
            end_request(locked, silent, is_success ? ALL : NOTHING);
        const bool is_current =
            end_request(locked, *polled.completed, is_success ? written_length(polled) : NOTHING);
        if (sanitizers *const watcher = locked.process().watcher.get())
            watcher->note_completion(polled.wc);
        fill = !is_success && locked.config().fill;
        if (!is_current)
            return; // it says nothing about the QP as it is now
        if (!is_success)
            note_failure(locked.books, *polled.completed, polled.wc.status);
        else if (known_qp *const qp = find_receiver(locked.books, polled))
            note_answer(locked, *qp);
    });
    if (fill)
        fill_undefined(polled.wc);
}

} // namespace coherdma::check

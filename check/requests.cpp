// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "requests.hpp"

#include <cstring>

namespace coherdma::check {
namespace {

using interposer::request;

posted_request to_posted(const request &posted, bool has_stack) {
    return {.wr_id = posted.wr_id,
            .opcode = posted.opcode,
            .is_receive = posted.is_receive,
            .is_signaled = posted.is_signaled,
            .memory = {},
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
    qp->failure = status;
    qp->failure_poll = stack_trace::capture_all();
    qp->failure_thread = std::this_thread::get_id();
    qp->num_sends_since_failure = 0;
    qp->is_failure_reported = false;
}

/// Overwrites what is undefined after an error: a program that reads it all the same does not find
/// the values that most drivers leave there.
void fill_undefined(ibv_wc &wc) noexcept {
    constexpr unsigned char FILL = 0xee;
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

void check_ownership(locked_books &locked, const known_object &queue, posted_request &posted) {
    if (!locked.books.owned.is_started())
        return;
    check_overlap(locked.books, queue, posted, locked.results);
    copy_source(posted);
}

/// The program learns that the device has executed it.
void complete_request(locked_books &locked, const request &completed, bool is_success) {
    known_qp *const qp = locked.books.find_qp(completed.queue);
    if (qp != nullptr && is_success && !completed.is_receive) {
        const auto it = qp->sends.find(completed.number);
        if (it != qp->sends.end())
            check_source(*qp, it->second, locked.results);
    }
    remove_request(locked.books, completed);
}

/// The peer has answered: it has what was sent before.
void note_answer(locked_books &locked, known_qp &qp) {
    if (locked.books.owned.is_started())
        for (auto it = qp.sends.upper_bound(qp.answered_send); it != qp.sends.end(); ++it) {
            check_source(qp, it->second, locked.results);
            if (!is_written(it->second))
                locked.books.return_memory(it->second);
        }
    qp.answered_send = qp.last_send;
}

} // namespace

void add_request(const request &added, std::span<const ibv_sge> sges) {
    with_books([&](locked_books &locked) {
        process_books &books = locked.books;
        posted_request posted = to_posted(added, locked.config().post_stacks);
        if (known_qp *const qp = books.find_qp(added.queue)) {
            const std::size_t max_sges =
                added.is_receive ? qp->max_receive_sges : qp->max_send_sges;
            posted.memory = check_sges(books, *qp, qp->pd_handle, posted, readable(sges, max_sges),
                                       locked.results);
            check_ownership(locked, *qp, posted);
            check_after_failure(*qp, posted, locked.results);
            const posted_request &kept = books.add_request(*qp, added.number, std::move(posted));
            check_capacity(books, *qp, kept, locked.results);
        } else if (known_srq *const srq = books.find_srq(added.queue)) {
            posted.memory = check_sges(books, *srq, srq->pd_handle, posted,
                                       readable(sges, srq->max_sges), locked.results);
            check_ownership(locked, *srq, posted);
            const posted_request &kept = books.add_request(*srq, added.number, std::move(posted));
            check_srq_capacity(books, *srq, kept, locked.results);
        }
    });
}

void check_address(const request &sent, const ibv_send_wr &wr) {
    with_books([&](locked_books &locked) {
        const known_qp *const qp = locked.books.find_qp(sent.queue);
        if (qp != nullptr && qp->type == IBV_QPT_UD)
            static_cast<void>(check_destroyed(locked.books, object_kind::AH, wr.wr.ud.ah,
                                              "ibv_post_send", locked.results));
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
        for (const request &silent : polled.silent)
            complete_request(locked, silent, is_success);
        complete_request(locked, *polled.completed, is_success);
        if (is_success) {
            known_qp *const qp = locked.books.find_qp(polled.completed->queue);
            if (qp != nullptr && polled.completed->is_receive)
                note_answer(locked, *qp);
            return;
        }
        note_failure(locked.books, *polled.completed, polled.wc.status);
        fill = locked.config().fill;
    });
    if (fill)
        fill_undefined(polled.wc);
}

} // namespace coherdma::check

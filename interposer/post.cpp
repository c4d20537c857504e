// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Posting: the driver gets a copy of the list, which the observers may change, with tokens as
// wr_id.

#include "calls.hpp"

#include <array>
#include <cerrno>
#include <cstddef>
#include <memory_resource>
#include <new>
#include <type_traits>
#include <vector>

namespace coherdma::interposer {
namespace {

template <class wr_type>
std::size_t list_length(const wr_type *wrs) noexcept {
    std::size_t length = 0;
    for (; wrs != nullptr; wrs = wrs->next)
        ++length;
    return length;
}

/// The driver's copy of a list of WRs, and the requests of it.
template <class wr_type>
class posted_list {
  public:
    posted_list(request_queue *queue, std::size_t length)
        : queue_(queue) {
        wrs_.reserve(length);
    }

    /// Adds a copy of the WR, which the observers may change, and its request.
    void add(wr_type &wr, const request &added, const delivery &events,
             void (observer::*before)(const request &, wr_type &)) {
        posted_wr &last = wrs_.emplace_back();
        last.copy = wr;
        last.original = &wr;
        last.posted = added;
        events.notify(before, last.posted, last.copy);
    }

    /// The driver gets the WRs later. False: they cannot be held, and nothing has happened.
    bool hold(held_posts &held, const object_record &owner) try {
        std::vector<held_wr> held_wrs;
        held_wrs.reserve(wrs_.size());
        for (const posted_wr &added : wrs_) {
            if (!held.is_accepted(added.copy))
                return false;
            held_wrs.emplace_back(added.posted, added.copy);
        }
        if (!held.hold(std::move(held_wrs), *queue_))
            return false;
        const delivery events(owner);
        for (const posted_wr &added : wrs_)
            events.notify(&observer::on_post, added.posted, added.copy);
        return true;
    } catch (const std::bad_alloc &) {
        return false;
    }

    /// Calls the driver's function, post(first copy, &bad copy), and sets *bad_wr as it does.
    template <class function>
    int post(function call_driver, const object_record &owner, wr_type **bad_wr) {
        wr_type untouched;
        wr_type *bad_copy = &untouched;
        int error;
        {
            const post_in_progress post(queue_, wrs_, request_tokens::ADD);
            for (std::size_t i = 0; i < wrs_.size(); ++i) {
                posted_wr &added = wrs_[i];
                added.copy.wr_id = added.token != 0 ? added.token : added.posted.wr_id;
                added.copy.next = i + 1 < wrs_.size() ? &wrs_[i + 1].copy : nullptr;
            }
            error = call_driver(&wrs_.front().copy, bad_wr != nullptr ? &bad_copy : nullptr);
        }
        // Whatever it returned: siw says so of a full queue only here. A driver that refuses and
        // does not say which request may have accepted any.
        const std::size_t num_accepted = find_copy(bad_copy);
        if (num_accepted < wrs_.size())
            *bad_wr = wrs_[num_accepted].original;
        else if (bad_copy == nullptr)
            *bad_wr = nullptr;
        const delivery events(owner);
        if constexpr (std::is_same_v<wr_type, ibv_send_wr>)
            for (std::size_t i = 0; i < num_accepted; ++i)
                events.notify(&observer::on_post, wrs_[i].posted, wrs_[i].copy);
        for (std::size_t i = num_accepted; i < wrs_.size(); ++i) {
            if (queue_ != nullptr)
                queue_->cancel(wrs_[i].token);
            events.notify(&observer::on_refuse, wrs_[i].posted);
        }
        return error;
    }

  private:
    struct posted_wr : posted_request {
        wr_type copy;
        wr_type *original;
    };

    /// wrs_.size(): it is none of them.
    std::size_t find_copy(const wr_type *copy) const noexcept {
        std::size_t index = 0;
        while (index < wrs_.size() && &wrs_[index].copy != copy)
            ++index;
        return index;
    }

    static constexpr std::size_t SHORT_LENGTH = 16; // longer lists are allocated

    request_queue *const queue_;
    alignas(posted_wr) std::array<std::byte, SHORT_LENGTH * sizeof(posted_wr)> short_list_;
    std::pmr::monotonic_buffer_resource memory_{short_list_.data(), short_list_.size()};
    std::pmr::vector<posted_wr> wrs_{&memory_};
};

int post_send(ibv_qp *qp, ibv_send_wr *wrs, ibv_send_wr **bad_wr) try {
    const auto driver_post_send = context_of(qp->context).driver_ops.post_send;
    const qp_record *const record = tables().qps.find(qp);
    if (record == nullptr && is_refused(object_kind::QP, qp, "ibv_post_send")) {
        if (bad_wr != nullptr)
            *bad_wr = wrs;
        return EINVAL;
    }
    if (const int error = failure_of("ibv_post_send")) {
        if (bad_wr != nullptr)
            *bad_wr = wrs;
        return error;
    }
    if (wrs == nullptr || !is_observed(record)) {
        note_unobserved_use(record, "ibv_post_send");
        return driver_post_send(qp, wrs, bad_wr);
    }
    const use_scope use(record, "ibv_post_send");
    posted_list<ibv_send_wr> list(record->sends, list_length(wrs));
    {
        const delivery events(*record);
        for (ibv_send_wr *wr = wrs; wr != nullptr; wr = wr->next)
            list.add(*wr, make_send(*record, *wr), events, &observer::before_send);
    }
    if (record->held != nullptr && list.hold(*record->held, *record))
        return 0;
    const direct_use direct(record->held);
    return list.post([=](ibv_send_wr *copies,
                         ibv_send_wr **bad_copy) { return driver_post_send(qp, copies, bad_copy); },
                     *record, bad_wr);
} catch (const std::bad_alloc &) {
    if (bad_wr != nullptr)
        *bad_wr = wrs;
    return ENOMEM;
}

/// owner: the record of the QP or SRQ.
template <class queue_type>
int post_receives(queue_type *queue, ibv_recv_wr *wrs, ibv_recv_wr **bad_wr,
                  int (*driver_post)(queue_type *, ibv_recv_wr *, ibv_recv_wr **),
                  const object_record *owner, request_queue *receives) try {
    constexpr bool IS_QP = std::is_same_v<queue_type, ibv_qp>;
    constexpr const char *CALL = IS_QP ? "ibv_post_recv" : "ibv_post_srq_recv";
    if (owner == nullptr && is_refused(IS_QP ? object_kind::QP : object_kind::SRQ, queue, CALL)) {
        if (bad_wr != nullptr)
            *bad_wr = wrs;
        return EINVAL;
    }
    if (const int error = failure_of(CALL)) {
        if (bad_wr != nullptr)
            *bad_wr = wrs;
        return error;
    }
    if (wrs == nullptr || !is_observed(owner)) {
        note_unobserved_use(owner, CALL);
        return driver_post(queue, wrs, bad_wr);
    }
    const use_scope use(owner, CALL);
    posted_list<ibv_recv_wr> list(receives, list_length(wrs));
    {
        const delivery events(*owner);
        for (ibv_recv_wr *wr = wrs; wr != nullptr; wr = wr->next) {
            const request receive = {.number = next_number(),
                                     .wr_id = wr->wr_id,
                                     .queue = queue,
                                     .context = queue->context,
                                     .opcode = {},
                                     .is_receive = true,
                                     .is_signaled = true,
                                     .is_followed = receives != nullptr};
            list.add(*wr, receive, events, &observer::before_receive);
        }
    }
    return list.post([=](ibv_recv_wr *copies,
                         ibv_recv_wr **bad_copy) { return driver_post(queue, copies, bad_copy); },
                     *owner, bad_wr);
} catch (const std::bad_alloc &) {
    if (bad_wr != nullptr)
        *bad_wr = wrs;
    return ENOMEM;
}

int post_recv(ibv_qp *qp, ibv_recv_wr *wrs, ibv_recv_wr **bad_wr) {
    const qp_record *const record = tables().qps.find(qp);
    return post_receives(qp, wrs, bad_wr, context_of(qp->context).driver_ops.post_recv, record,
                         record != nullptr ? record->receives : nullptr);
}

int post_srq_recv(ibv_srq *srq, ibv_recv_wr *wrs, ibv_recv_wr **bad_wr) {
    const srq_record *const record = tables().srqs.find(srq);
    return post_receives(srq, wrs, bad_wr, context_of(srq->context).driver_ops.post_srq_recv,
                         record, record != nullptr ? record->receives : nullptr);
}

/// The bind of an MW of type 1, which has a WR's members in a struct of its own. A driver may call
/// ibv_post_send() for it, or a function of its own.
int bind_mw(ibv_qp *qp, ibv_mw *mw, ibv_mw_bind *bind) {
    if (const int error = failure_of("ibv_bind_mw"))
        return error;
    const auto driver_bind_mw = context_of(qp->context).driver_ops.bind_mw;
    const qp_record *const record = tables().qps.find(qp);
    if (!is_observed(record)) {
        note_unobserved_use(record, "ibv_bind_mw");
        return driver_bind_mw(qp, mw, bind);
    }
    const use_scope use(record, "ibv_bind_mw");
    const direct_use direct(record->held);
    ibv_send_wr wr = {};
    wr.wr_id = bind->wr_id;
    wr.opcode = IBV_WR_BIND_MW;
    wr.send_flags = bind->send_flags;
    wr.bind_mw.mw = mw;
    wr.bind_mw.rkey = mw->rkey;
    wr.bind_mw.bind_info = bind->bind_info;
    std::array<posted_request, 1> sends;
    const auto &[sent, token] = sends.front();
    sends.front().posted = make_send(*record, wr);
    notify(*record, &observer::before_send, sent, wr);
    ibv_mw_bind copy = *bind;
    int error;
    {
        const post_in_progress post(record->sends, sends, request_tokens::ADD);
        if (token != 0)
            copy.wr_id = token;
        const unobserved_scope scope;
        error = driver_bind_mw(qp, mw, &copy);
    }
    if (error == 0) {
        wr.bind_mw.rkey = mw->rkey; // the driver has changed it
        notify(*record, &observer::on_post, sent, std::as_const(wr));
        return 0;
    }
    if (token != 0)
        record->sends->cancel(token);
    notify(*record, &observer::on_refuse, sent);
    return error;
}

} // namespace

request make_send(const qp_record &qp, const ibv_send_wr &wr) noexcept {
    return {.number = next_number(),
            .wr_id = wr.wr_id,
            .queue = qp.info.handle,
            .context = qp.info.context,
            .opcode = wr.opcode,
            .is_receive = false,
            .is_signaled = qp.is_sig_all || (wr.send_flags & IBV_SEND_SIGNALED) != 0,
            .is_followed = qp.sends != nullptr};
}

void hook_post_functions(ibv_context &context) noexcept {
    context.ops.post_send = post_send;
    context.ops.post_recv = post_recv;
    if (context.ops.post_srq_recv != nullptr)
        context.ops.post_srq_recv = post_srq_recv;
    if (context.ops.bind_mw != nullptr)
        context.ops.bind_mw = bind_mw;
}

} // namespace coherdma::interposer

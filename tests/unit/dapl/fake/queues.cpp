// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Completion queues and their channels, shared receive queues.

#include "fabric.hpp"
#include "operations.hpp"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

using namespace fake;

namespace {

int round_up_cqe(int cqe) {
    return static_cast<int>(std::bit_ceil(static_cast<unsigned>(cqe) + 1)) - 1;
}

} // namespace

namespace fake {

void fabric::push_cqe(fake_cq &cq, const queued_cqe &cqe, bool solicited) {
    if (cq.entries.size() >= static_cast<std::size_t>(cq.cqe)) {
        if (!cq.overflowed)
            push_async_event(cq.context, IBV_EVENT_CQ_ERR, &cq);
        cq.overflowed = true;
        return;
    }
    cq.entries.push_back(cqe);
    solicited |= cqe.wc.status != IBV_WC_SUCCESS;
    if (cq.channel == nullptr || cq.notify == notify_mode::none ||
        (cq.notify == notify_mode::solicited && !solicited))
        return;
    cq.notify = notify_mode::none;
    static_cast<fake_channel *>(cq.channel)->events.push_back(&cq);
    increment_eventfd(cq.channel->fd);
}

void fabric::add_completion(ibv_cq *ibcq, const ibv_wc &wc) {
    const library_call_guard call;
    push_cqe(*static_cast<fake_cq *>(ibcq), {wc, nullptr, 0, false}, false);
}

// A polled CQE frees the queue entries of its work request and the ones before.
int poll_cq(ibv_cq *ibcq, int num_entries, ibv_wc *list) {
    int count = 0;
    {
        const library_call_guard call;
        if (injected_error("ibv_poll_cq") != 0)
            return -1;
        if (get_fabric().polls_before_flush != 0 && --get_fabric().polls_before_flush == 0)
            get_fabric().run_work_requests();
        auto &entries = static_cast<fake_cq *>(ibcq)->entries;
        for (; count != num_entries && !entries.empty(); ++count) {
            const queued_cqe &cqe = entries.front();
            list[count] = cqe.wc;
            if (cqe.qp != nullptr)
                (cqe.is_send ? cqe.qp->num_completed : cqe.qp->num_recvs_completed) = cqe.wqe_index;
            entries.pop_front();
        }
    }
    for (int i = 0; i != count; ++i)
        tsan_acquire_request(list[i].wr_id);
    return count;
}

int req_notify_cq(ibv_cq *ibcq, int solicited_only) {
    const library_call_guard call;
    if (const int error = injected_error("ibv_req_notify_cq"))
        return error;
    auto *const cq = static_cast<fake_cq *>(ibcq);
    if (cq->notify != notify_mode::any)
        cq->notify = solicited_only != 0 ? notify_mode::solicited : notify_mode::any;
    return 0;
}

int post_srq_recv(ibv_srq *ibsrq, ibv_recv_wr *list, ibv_recv_wr **bad_wr) {
    tsan_release_request(list->wr_id);
    const library_call_guard call;
    *bad_wr = list;
    if (const int error = injected_error("ibv_post_srq_recv"))
        return error;
    auto &srq = *static_cast<fake_srq *>(ibsrq);
    if (list->num_sge < 0 || static_cast<unsigned>(list->num_sge) > srq.attr.max_sge)
        return EINVAL;
    if (srq.recv_queue.size() >= srq.attr.max_wr)
        return ENOMEM;
    const std::vector<ibv_sge> segments(list->sg_list, list->sg_list + list->num_sge);
    ibv_send_wr recorded_wr = {};
    recorded_wr.wr_id = list->wr_id;
    recorded_wr.num_sge = list->num_sge;
    get_fabric().posts.push_back({nullptr, ibsrq, true, recorded_wr, segments});
    srq.recv_queue.push_back({list->wr_id, segments});
    get_fabric().run_work_requests();
    return 0;
}

} // namespace fake

extern "C" {

ibv_comp_channel *ibv_create_comp_channel(ibv_context *context) {
    const library_call_guard call;
    if (const int error = injected_error("ibv_create_comp_channel")) {
        errno = error;
        return nullptr;
    }
    auto *const channel = new fake_channel;
    channel->context = context;
    channel->fd = eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC);
    channel->refcnt = 0;
    ++static_cast<fake_context *>(context)->refs;
    get_fabric().adjust_object_count("ibv_comp_channel", 1);
    return channel;
}

int ibv_destroy_comp_channel(ibv_comp_channel *ibchannel) {
    const library_call_guard call;
    auto *const channel = static_cast<fake_channel *>(ibchannel);
    if (channel->refs != 0)
        die("ibv_destroy_comp_channel while %d CQs use it", channel->refs);
    close(channel->fd);
    --static_cast<fake_context *>(channel->context)->refs;
    get_fabric().adjust_object_count("ibv_comp_channel", -1);
    delete channel;
    return 0;
}

ibv_cq *ibv_create_cq(ibv_context *context, int cqe, void *cq_context, ibv_comp_channel *ibchannel,
                      int) {
    const library_call_guard call;
    if (const int error = injected_error("ibv_create_cq")) {
        errno = error;
        return nullptr;
    }
    if (cqe < 1 || cqe > get_fabric().device_of(context).attr.max_cqe) {
        errno = EINVAL;
        return nullptr;
    }
    auto *const cq = new fake_cq;
    cq->context = context;
    cq->channel = ibchannel;
    cq->cq_context = cq_context;
    cq->cqe = round_up_cqe(cqe);
    if (ibchannel != nullptr)
        ++static_cast<fake_channel *>(ibchannel)->refs;
    ++static_cast<fake_context *>(context)->refs;
    get_fabric().adjust_object_count("ibv_cq", 1);
    return cq;
}

int ibv_resize_cq(ibv_cq *ibcq, int cqe) {
    const library_call_guard call;
    if (const int error = injected_error("ibv_resize_cq"))
        return error;
    auto *const cq = static_cast<fake_cq *>(ibcq);
    if (cqe < 1 || static_cast<std::size_t>(round_up_cqe(cqe)) < cq->entries.size())
        return EINVAL;
    cq->cqe = round_up_cqe(cqe);
    return 0;
}

int ibv_destroy_cq(ibv_cq *ibcq) {
    {
        library_call_guard call;
        auto *const cq = static_cast<fake_cq *>(ibcq);
        if (cq->refs != 0)
            die("ibv_destroy_cq while %d QPs use it", cq->refs);
        if (cq->channel != nullptr) {
            auto &channel = *static_cast<fake_channel *>(cq->channel);
            for (auto it = channel.events.begin(); it != channel.events.end();)
                if (*it == cq) {
                    it = channel.events.erase(it);
                    decrement_eventfd(channel.fd);
                } else {
                    ++it;
                }
            --channel.refs;
        }
        fabric::drop_async_events(cq->context, cq);
        get_fabric().wait(call.lock, "ibv_destroy_cq waits for events to be acknowledged",
                          [cq] { return cq->completions.all_acked() && cq->errors.all_acked(); });
        --static_cast<fake_context *>(cq->context)->refs;
        get_fabric().adjust_object_count("ibv_cq", -1);
        delete cq;
    }
    tsan_acquire(ibcq);
    return 0;
}

int ibv_get_cq_event(ibv_comp_channel *ibchannel, ibv_cq **ibcq, void **cq_context) {
    const library_call_guard call;
    auto *const channel = static_cast<fake_channel *>(ibchannel);
    if (channel->events.empty()) {
        if ((fcntl(channel->fd, F_GETFL) & O_NONBLOCK) == 0)
            die("ibv_get_cq_event would block");
        errno = EAGAIN;
        return -1;
    }
    if (const int error = injected_error("ibv_get_cq_event")) {
        errno = error;
        return -1;
    }
    fake_cq *const cq = channel->events.front();
    channel->events.pop_front();
    decrement_eventfd(channel->fd);
    ++cq->completions.reported;
    *ibcq = cq;
    *cq_context = cq->cq_context;
    return 0;
}

void ibv_ack_cq_events(ibv_cq *ibcq, unsigned count) {
    const library_call_guard call;
    auto &acks = static_cast<fake_cq *>(ibcq)->completions;
    acks.acknowledged += count;
    if (acks.acknowledged > acks.reported)
        die("ibv_ack_cq_events of more events than reported");
    get_fabric().changed.notify_all();
}

ibv_srq *ibv_create_srq(ibv_pd *ibpd, ibv_srq_init_attr *init_attr) {
    const library_call_guard call;
    if (const int error = injected_error("ibv_create_srq")) {
        errno = error;
        return nullptr;
    }
    auto *const srq = new fake_srq;
    srq->context = ibpd->context;
    srq->pd = ibpd;
    srq->srq_context = init_attr->srq_context;
    srq->attr = init_attr->attr; // larger than requested, but ibv_create_srq does not return that
    srq->attr.max_wr = std::bit_ceil(init_attr->attr.max_wr);
    ++static_cast<fake_pd *>(ibpd)->refs;
    get_fabric().adjust_object_count("ibv_srq", 1);
    return srq;
}

int ibv_modify_srq(ibv_srq *ibsrq, ibv_srq_attr *attr, int mask) {
    const library_call_guard call;
    if (const int error = injected_error("ibv_modify_srq"))
        return error;
    auto *const srq = static_cast<fake_srq *>(ibsrq);
    if ((mask & IBV_SRQ_MAX_WR) != 0) {
        if (attr->max_wr < srq->recv_queue.size())
            return EINVAL;
        srq->attr.max_wr = std::bit_ceil(attr->max_wr);
    }
    if ((mask & IBV_SRQ_LIMIT) != 0) {
        if (attr->srq_limit > srq->attr.max_wr)
            return EINVAL;
        srq->attr.srq_limit = attr->srq_limit;
    }
    return 0;
}

int ibv_query_srq(ibv_srq *ibsrq, ibv_srq_attr *attr) {
    const library_call_guard call;
    if (get_fabric().fail_query_srq)
        return EOPNOTSUPP;
    *attr = static_cast<fake_srq *>(ibsrq)->attr;
    return 0;
}

int ibv_destroy_srq(ibv_srq *ibsrq) {
    {
        library_call_guard call;
        auto *const srq = static_cast<fake_srq *>(ibsrq);
        if (srq->refs != 0)
            die("ibv_destroy_srq while %d QPs use it", srq->refs);
        fabric::drop_async_events(srq->context, srq);
        get_fabric().wait(call.lock, "ibv_destroy_srq waits for events to be acknowledged",
                          [srq] { return srq->errors.all_acked(); });
        --static_cast<fake_pd *>(srq->pd)->refs;
        get_fabric().adjust_object_count("ibv_srq", -1);
        delete srq;
    }
    tsan_acquire(ibsrq);
    return 0;
}
}

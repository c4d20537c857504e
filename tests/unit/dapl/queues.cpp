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

using namespace played;

namespace {

int rounded(int wanted) {
    return static_cast<int>(std::bit_ceil(static_cast<unsigned>(wanted) + 1)) - 1;
}

/// What has not been read of it never will be.
template <class is_its>
void forget_news(ibv_context *context, is_its &&its) {
    hardware &of = net().of(context);
    for (auto each = of.news.begin(); each != of.news.end();)
        if (its(*each)) {
            each = of.news.erase(each);
            untick(of.open.async_fd);
        } else {
            ++each;
        }
}

} // namespace

namespace played {

void fabric::push(cq &on, const completion &one, bool solicited) {
    if (on.entries.size() >= static_cast<std::size_t>(on.cqe)) {
        if (!on.overflown)
            report(of(on.context), IBV_EVENT_CQ_ERR, &on);
        on.overflown = true;
        return;
    }
    on.entries.push_back(one);
    solicited |= one.wc.status != IBV_WC_SUCCESS;
    if (on.channel == nullptr || on.armed == arming::no ||
        (on.armed == arming::solicited && !solicited))
        return;
    on.armed = arming::no;
    static_cast<channel *>(on.channel)->events.push_back(&on);
    tick(on.channel->fd);
}

void fabric::complete(ibv_cq *by, const ibv_wc &what) {
    const entered call;
    push(*static_cast<cq *>(by), {what, nullptr, 0, false}, false);
}

int poll_cq(ibv_cq *queue, int most, ibv_wc *list) {
    int count = 0;
    {
        const entered call;
        if (fault("ibv_poll_cq") != 0)
            return -1;
        auto &entries = static_cast<cq *>(queue)->entries;
        for (; count != most && !entries.empty(); ++count) {
            const completion &one = entries.front();
            list[count] = one.wc;
            if (one.of != nullptr)
                (one.of_request ? one.of->retired : one.of->returned) = one.turn;
            entries.pop_front();
        }
    }
    for (int at = 0; at != count; ++at)
        take_order(reinterpret_cast<const void *>(list[at].wr_id));
    return count;
}

int req_notify_cq(ibv_cq *queue, int solicited_only) {
    const entered call;
    if (const int error = fault("ibv_req_notify_cq"))
        return error;
    auto *const one = static_cast<cq *>(queue);
    if (one->armed != arming::any)
        one->armed = solicited_only != 0 ? arming::solicited : arming::any;
    return 0;
}

int post_srq_recv(ibv_srq *on, ibv_recv_wr *list, ibv_recv_wr **refused) {
    give_order(reinterpret_cast<const void *>(list->wr_id));
    const entered call;
    *refused = list;
    if (const int error = fault("ibv_post_srq_recv"))
        return error;
    auto &to = *static_cast<srq *>(on);
    if (list->num_sge < 0 || static_cast<unsigned>(list->num_sge) > to.attr.max_sge)
        return EINVAL;
    if (to.receives.size() >= to.attr.max_wr)
        return ENOMEM;
    const std::vector<ibv_sge> segments(list->sg_list, list->sg_list + list->num_sge);
    ibv_send_wr as_sent = {};
    as_sent.wr_id = list->wr_id;
    as_sent.num_sge = list->num_sge;
    net().heard.push_back({nullptr, on, true, as_sent, segments});
    to.receives.push_back({list->wr_id, segments});
    net().work();
    return 0;
}

} // namespace played

extern "C" {

ibv_comp_channel *ibv_create_comp_channel(ibv_context *context) {
    const entered call;
    if (const int error = fault("ibv_create_comp_channel")) {
        errno = error;
        return nullptr;
    }
    auto *const made = new channel;
    made->context = context;
    made->fd = eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC);
    made->refcnt = 0;
    net().living("ibv_comp_channel", 1);
    return made;
}

int ibv_destroy_comp_channel(ibv_comp_channel *of) {
    const entered call;
    auto *const one = static_cast<channel *>(of);
    if (one->users != 0)
        die("ibv_destroy_comp_channel while %d queues have it", one->users);
    close(one->fd);
    net().living("ibv_comp_channel", -1);
    delete one;
    return 0;
}

ibv_cq *ibv_create_cq(ibv_context *context, int cqe, void *known, ibv_comp_channel *with, int) {
    const entered call;
    if (const int error = fault("ibv_create_cq")) {
        errno = error;
        return nullptr;
    }
    if (cqe < 1 || cqe > net().of(context).limits.max_cqe) {
        errno = EINVAL;
        return nullptr;
    }
    auto *const made = new cq;
    made->context = context;
    made->channel = with;
    made->cq_context = known;
    made->cqe = rounded(cqe);
    if (with != nullptr)
        ++static_cast<channel *>(with)->users;
    net().living("ibv_cq", 1);
    return made;
}

int ibv_resize_cq(ibv_cq *queue, int cqe) {
    const entered call;
    if (const int error = fault("ibv_resize_cq"))
        return error;
    auto *const one = static_cast<cq *>(queue);
    if (cqe < 1 || static_cast<std::size_t>(rounded(cqe)) < one->entries.size())
        return EINVAL;
    one->cqe = rounded(cqe);
    return 0;
}

int ibv_destroy_cq(ibv_cq *queue) {
    {
        entered call;
        auto *const one = static_cast<cq *>(queue);
        if (one->users != 0)
            die("ibv_destroy_cq while %d pairs complete to it", one->users);
        if (one->channel != nullptr) {
            auto &with = *static_cast<channel *>(one->channel);
            for (auto each = with.events.begin(); each != with.events.end();)
                if (*each == one) {
                    each = with.events.erase(each);
                    untick(with.fd);
                } else {
                    ++each;
                }
            --with.users;
        }
        forget_news(one->context, [one](const ibv_async_event &each) {
            return each.event_type == IBV_EVENT_CQ_ERR && each.element.cq == one;
        });
        net().wait(call.held, "ibv_destroy_cq waits for events to be acknowledged",
                   [one] { return one->completions.settled() && one->errors.settled(); });
        net().living("ibv_cq", -1);
        delete one;
    }
    take_order(queue);
    return 0;
}

int ibv_get_cq_event(ibv_comp_channel *of, ibv_cq **queue, void **known) {
    const entered call;
    auto *const one = static_cast<channel *>(of);
    if (one->events.empty()) {
        if ((fcntl(one->fd, F_GETFL) & O_NONBLOCK) == 0)
            die("ibv_get_cq_event sleeps");
        errno = EAGAIN;
        return -1;
    }
    if (const int error = fault("ibv_get_cq_event")) {
        errno = error;
        return -1;
    }
    cq *const from = one->events.front();
    one->events.pop_front();
    untick(one->fd);
    ++from->completions.reported;
    *queue = from;
    *known = from->cq_context;
    return 0;
}

void ibv_ack_cq_events(ibv_cq *queue, unsigned count) {
    const entered call;
    auto &of = static_cast<cq *>(queue)->completions;
    of.acknowledged += count;
    if (of.acknowledged > of.reported)
        die("ibv_ack_cq_events for more than were told");
    net().changed.notify_all();
}

ibv_srq *ibv_create_srq(ibv_pd *in, ibv_srq_init_attr *wanted) {
    const entered call;
    if (const int error = fault("ibv_create_srq")) {
        errno = error;
        return nullptr;
    }
    auto *const made = new srq;
    made->context = in->context;
    made->pd = in;
    made->srq_context = wanted->srq_context;
    made->attr = wanted->attr; // it is larger, but does not say so at once
    made->attr.max_wr = std::bit_ceil(wanted->attr.max_wr);
    ++static_cast<pd *>(in)->users;
    net().living("ibv_srq", 1);
    return made;
}

int ibv_modify_srq(ibv_srq *queue, ibv_srq_attr *attr, int mask) {
    const entered call;
    if (const int error = fault("ibv_modify_srq"))
        return error;
    auto *const one = static_cast<srq *>(queue);
    if ((mask & IBV_SRQ_MAX_WR) != 0) {
        if (attr->max_wr < one->receives.size())
            return EINVAL;
        one->attr.max_wr = std::bit_ceil(attr->max_wr);
    }
    if ((mask & IBV_SRQ_LIMIT) != 0) {
        if (attr->srq_limit > one->attr.max_wr)
            return EINVAL;
        one->attr.srq_limit = attr->srq_limit;
    }
    return 0;
}

int ibv_query_srq(ibv_srq *queue, ibv_srq_attr *attr) {
    const entered call;
    if (net().vague)
        return EOPNOTSUPP;
    *attr = static_cast<srq *>(queue)->attr;
    return 0;
}

int ibv_destroy_srq(ibv_srq *queue) {
    {
        entered call;
        auto *const one = static_cast<srq *>(queue);
        if (one->users != 0)
            die("ibv_destroy_srq while %d pairs receive from it", one->users);
        forget_news(one->context, [one](const ibv_async_event &each) {
            return (each.event_type == IBV_EVENT_SRQ_ERR ||
                    each.event_type == IBV_EVENT_SRQ_LIMIT_REACHED) &&
                   each.element.srq == one;
        });
        net().wait(call.held, "ibv_destroy_srq waits for events to be acknowledged",
                   [one] { return one->errors.settled(); });
        --static_cast<pd *>(one->pd)->users;
        net().living("ibv_srq", -1);
        delete one;
    }
    take_order(queue);
    return 0;
}
}

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// librdmacm: channels, ids, and the events that go from one to the other.

#include "manager.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

using namespace played;

namespace {

int failed(int error) {
    errno = error;
    return -1;
}

played::id &known(rdma_cm_id *one) {
    auto &all = net().known;
    if (std::find(all.begin(), all.end(), one) == all.end())
        die("an id that is none");
    return *static_cast<played::id *>(one);
}

std::uint16_t new_port() {
    return net().next_port++;
}

bool is_taken(const played::id &by, const sockaddr &at) {
    return std::any_of(net().known.begin(), net().known.end(), [&](const played::id *each) {
        return each != &by && each->at == stage::listening && each->ps == by.ps &&
               played::port_of(each->route.addr.src_addr) == played::port_of(at) &&
               same_host(each->route.addr.src_addr, at);
    });
}

void copy(sockaddr &to, const sockaddr &from) {
    std::memcpy(&to, &from,
                from.sa_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in));
}

int bind(played::id &one, const sockaddr &at) {
    hardware *const on = device_at(at);
    if (on == nullptr)
        return is_here(at) ? ENODEV : EADDRNOTAVAIL;
    if (played::port_of(at) != 0 && is_taken(one, at))
        return EADDRINUSE;
    copy(one.route.addr.src_addr, at);
    if (played::port_of(at) == 0)
        played::set_port(one.route.addr.src_addr, new_port());
    one.verbs = &on->open;
    one.port_num = 1;
    one.route.addr.addr.ibaddr.sgid = on->gids[at.sa_family == AF_INET6 ? 1 : 0];
    one.at = stage::bound;
    return 0;
}

int next(std::deque<int> &script) {
    if (script.empty())
        return 0;
    const int status = script.front();
    script.pop_front();
    return status;
}

} // namespace

namespace played {

void emit(happening *made) {
    if (net().held_kinds.contains(made->event)) {
        net().withheld.push_back(made);
        return;
    }
    net().queued.push_back(made);
    tick(made->counts->channel->fd);
}

void emit(played::id &about, rdma_cm_event_type kind, int status, bytes data,
          const rdma_conn_param *with) {
    auto *const made = new happening{};
    made->id = &about;
    made->event = kind;
    made->status = status;
    made->counts = &about;
    made->data = std::move(data);
    if (with != nullptr)
        made->param.conn = *with;
    made->param.conn.private_data = made->data.empty() ? nullptr : made->data.data();
    made->param.conn.private_data_len = static_cast<std::uint8_t>(made->data.size());
    emit(made);
}

void forget_events(const played::id &about) {
    const auto is_its = [&about](const happening *each) {
        return each->counts == &about || each->id == &about;
    };
    for (auto each = net().queued.begin(); each != net().queued.end();)
        if (is_its(*each)) {
            untick(about.channel->fd);
            delete *each;
            each = net().queued.erase(each);
        } else {
            ++each;
        }
    for (auto each = net().withheld.begin(); each != net().withheld.end();)
        if (is_its(*each)) {
            delete *each;
            each = net().withheld.erase(each);
        } else {
            ++each;
        }
}

void fabric::hold(rdma_cm_event_type kind) {
    const entered call;
    held_kinds.insert(kind);
}

void fabric::let(rdma_cm_event_type kind) {
    const entered call;
    held_kinds.erase(kind);
    for (auto each = withheld.begin(); each != withheld.end();)
        if ((*each)->event == kind) {
            happening *const one = *each;
            each = withheld.erase(each);
            emit(one);
        } else {
            ++each;
        }
}

std::vector<rdma_cm_id *> fabric::ids() {
    const entered call;
    std::vector<rdma_cm_id *> all;
    for (played::id *each : known)
        if (each->is_program)
            all.push_back(each);
    return all;
}

void fabric::tell(rdma_cm_id *about, rdma_cm_event_type kind, int status,
                  const std::vector<unsigned char> &data) {
    const entered call;
    emit(*static_cast<played::id *>(about), kind, status, data);
}

} // namespace played

extern "C" {

rdma_event_channel *rdma_create_event_channel() {
    const entered call;
    if (const int error = fault("rdma_create_event_channel")) {
        errno = error;
        return nullptr;
    }
    auto *const made = new rdma_event_channel{eventfd(0, EFD_SEMAPHORE)};
    net().channels.insert(made);
    net().living("rdma_event_channel", 1);
    return made;
}

void rdma_destroy_event_channel(rdma_event_channel *one) {
    const entered call;
    for (const played::id *each : net().known)
        if (each->channel == one)
            die("rdma_destroy_event_channel while it has ids");
    net().channels.erase(one);
    close(one->fd);
    net().living("rdma_event_channel", -1);
    delete one;
}

int rdma_create_id(rdma_event_channel *channel, rdma_cm_id **made_id, void *context,
                   rdma_port_space space) {
    give_order(context);
    const entered call;
    if (const int error = fault("rdma_create_id"))
        return failed(error);
    if (!net().channels.contains(channel))
        die("rdma_create_id on a channel that is none");
    auto *const made = new played::id{};
    made->channel = channel;
    made->context = context;
    made->ps = space;
    made->is_program = true;
    net().known.push_back(made);
    net().living("rdma_cm_id", 1);
    *made_id = made;
    return 0;
}

int rdma_destroy_id(rdma_cm_id *which) {
    played::id *gone;
    {
        entered call;
        auto &one = known(which);
        forget_events(one);
        // A listener's requests that nobody has heard of yet are refused.
        if (one.at == stage::listening) {
            const auto all = net().known;
            for (played::id *each : all)
                if (!each->is_program && each->context == one.context && each->at == stage::asked) {
                    leave(*each);
                    std::erase(net().known, each);
                    delete each;
                }
        }
        leave(one);
        net().wait(call.held, "rdma_destroy_id waits for events to be acknowledged",
                   [&one] { return one.events.settled(); });
        // Of what came while it waited.
        forget_events(one);
        std::erase(net().known, &one);
        net().living("rdma_cm_id", -1);
        gone = &one;
    }
    take_order(which); // before the memory goes, and its order with it
    delete gone;
    return 0;
}

int rdma_bind_addr(rdma_cm_id *which, sockaddr *at) {
    const entered call;
    if (const int error = fault("rdma_bind_addr"))
        return failed(error);
    const int error = bind(known(which), *at);
    return error == 0 ? 0 : failed(error);
}

int rdma_listen(rdma_cm_id *which, int) {
    const entered call;
    if (const int error = fault("rdma_listen"))
        return failed(error);
    auto &one = known(which);
    if (one.at != stage::bound)
        return failed(EINVAL);
    if (is_taken(one, one.route.addr.src_addr))
        return failed(EADDRINUSE);
    one.at = stage::listening;
    return 0;
}

int rdma_set_option(rdma_cm_id *which, int, int, void *, std::size_t) {
    const entered call;
    known(which);
    if (const int error = fault("rdma_set_option"))
        return failed(error);
    return 0;
}

__be16 rdma_get_src_port(rdma_cm_id *which) {
    const entered call;
    return htons(played::port_of(known(which).route.addr.src_addr));
}

int rdma_resolve_addr(rdma_cm_id *which, sockaddr *from, sockaddr *to, int) {
    give_order(which);
    const entered call;
    if (const int error = fault("rdma_resolve_addr"))
        return failed(error);
    auto &one = known(which);
    copy(one.route.addr.dst_addr, *to);
    const int status = next(net().addresses);
    if (status != 0) {
        emit(one, RDMA_CM_EVENT_ADDR_ERROR, status);
        return 0;
    }
    if (one.at == stage::made) {
        // By the source; else whichever device has the address, or the first.
        if (from != nullptr) {
            if (const int error = bind(one, *from))
                return failed(error);
        } else {
            hardware *const on = device_at(*to);
            one.verbs = on != nullptr ? &on->open : &net().devices[0].open;
            one.port_num = 1;
        }
    }
    hardware *const at = device_at(*to);
    one.route.addr.addr.ibaddr.dgid = (at != nullptr ? *at : net().devices[0]).gids[0];
    one.at = stage::resolved;
    emit(one, RDMA_CM_EVENT_ADDR_RESOLVED);
    return 0;
}

int rdma_resolve_route(rdma_cm_id *which, int) {
    const entered call;
    if (const int error = fault("rdma_resolve_route"))
        return failed(error);
    auto &one = known(which);
    if (one.at != stage::resolved)
        return failed(EINVAL);
    const int status = next(net().routes);
    if (status != 0) {
        emit(one, RDMA_CM_EVENT_ROUTE_ERROR, status);
        return 0;
    }
    one.at = stage::routed;
    emit(one, RDMA_CM_EVENT_ROUTE_RESOLVED);
    return 0;
}

int rdma_get_cm_event(rdma_event_channel *channel, rdma_cm_event **got) {
    {
        const entered call;
        auto &queue = net().queued;
        const auto first =
            std::find_if(queue.begin(), queue.end(), [channel](const happening *each) {
                return each->counts->channel == channel;
            });
        if (first == queue.end()) {
            if ((fcntl(channel->fd, F_GETFL) & O_NONBLOCK) == 0)
                die("rdma_get_cm_event sleeps");
            return failed(EAGAIN);
        }
        if (const int error = fault("rdma_get_cm_event"))
            return failed(error);
        happening *const one = *first;
        queue.erase(first);
        untick(channel->fd);
        ++one->counts->events.reported;
        if (one->event == RDMA_CM_EVENT_CONNECT_REQUEST) {
            static_cast<played::id *>(one->id)->is_program = true;
            net().living("rdma_cm_id", 1);
        }
        net().living("rdma_cm_event", 1);
        *got = one;
    }
    take_order((*got)->id);
    if ((*got)->listen_id != nullptr)
        take_order((*got)->listen_id->context);
    take_order((*got)->id->context);
    return 0;
}

int rdma_ack_cm_event(rdma_cm_event *which) {
    auto *const one = static_cast<happening *>(which);
    give_order(one->counts);
    const entered call;
    ++one->counts->events.acknowledged;
    net().living("rdma_cm_event", -1);
    delete one;
    net().changed.notify_all();
    return 0;
}
}

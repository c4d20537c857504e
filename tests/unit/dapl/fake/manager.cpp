// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// librdmacm: event channels, ids and their events.

#include "manager.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

using namespace fake;

namespace {

int set_errno(int error) {
    errno = error;
    return -1;
}

fake::fake_cm_id &find_id(rdma_cm_id *cm_id) {
    auto &ids = get_fabric().all_cm_ids;
    if (std::find(ids.begin(), ids.end(), cm_id) == ids.end())
        die("no such id");
    return *static_cast<fake::fake_cm_id *>(cm_id);
}

std::uint16_t new_port() {
    return get_fabric().next_port++;
}

/// Another id of the port space listens on this address and port.
bool is_addr_in_use(const fake::fake_cm_id &id, const sockaddr &addr) {
    return std::any_of(get_fabric().all_cm_ids.begin(), get_fabric().all_cm_ids.end(),
                       [&](const fake::fake_cm_id *it) {
                           return it != &id && it->state == id_state::listening &&
                                  it->ps == id.ps &&
                                  fake::get_port(it->route.addr.src_addr) == fake::get_port(addr) &&
                                  same_host(it->route.addr.src_addr, addr);
                       });
}

void copy_address(sockaddr &dst, const sockaddr &src) {
    std::memcpy(&dst, &src, src.sa_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in));
}

/// Binds the id to the device with this address. Returns 0 or errno.
int bind(fake::fake_cm_id &id, const sockaddr &addr) {
    fake_device *const dev = find_device(addr);
    if (dev == nullptr)
        return is_local(addr) ? ENODEV : EADDRNOTAVAIL;
    if (fake::get_port(addr) != 0 && is_addr_in_use(id, addr))
        return EADDRINUSE;
    copy_address(id.route.addr.src_addr, addr);
    if (fake::get_port(addr) == 0)
        fake::set_port(id.route.addr.src_addr, new_port());
    id.verbs = &dev->ctx;
    id.port_num = 1;
    id.route.addr.addr.ibaddr.sgid = dev->gids[addr.sa_family == AF_INET6 ? 1 : 0];
    id.state = id_state::bound;
    return 0;
}

/// Rejects requests to the listening id that are not delivered yet.
void drop_requests(const fake::fake_cm_id &listener) {
    const auto ids = get_fabric().all_cm_ids;
    for (fake::fake_cm_id *request : ids)
        if (!request->delivered && request->listener == &listener) {
            close_connection(*request);
            std::erase(get_fabric().all_cm_ids, request);
            delete request;
        }
}

int next_result(std::deque<int> &script) {
    if (script.empty())
        return 0;
    const int status = script.front();
    script.pop_front();
    return status;
}

} // namespace

namespace fake {

void queue_event(fake_cm_event *event) {
    if (get_fabric().held_types.contains(event->event)) {
        get_fabric().held_events.push_back(event);
        return;
    }
    get_fabric().queued_events.push_back(event);
    increment_eventfd(event->ack_id->channel->fd);
}

void queue_event(fake::fake_cm_id &id, rdma_cm_event_type kind, int status, bytes data,
                 const rdma_conn_param *param) {
    auto *const event = new fake_cm_event{};
    event->id = &id;
    event->event = kind;
    event->status = status;
    event->ack_id = &id;
    event->data = std::move(data);
    if (param != nullptr)
        event->param.conn = *param;
    event->param.conn.private_data = event->data.empty() ? nullptr : event->data.data();
    event->param.conn.private_data_len = static_cast<std::uint8_t>(event->data.size());
    queue_event(event);
}

void drop_events(const fake::fake_cm_id &id) {
    const auto belongs_to_id = [&id](const fake_cm_event *it) {
        return it->ack_id == &id || it->id == &id;
    };
    for (auto it = get_fabric().queued_events.begin(); it != get_fabric().queued_events.end();)
        if (belongs_to_id(*it)) {
            decrement_eventfd(id.channel->fd);
            delete *it;
            it = get_fabric().queued_events.erase(it);
        } else {
            ++it;
        }
    for (auto it = get_fabric().held_events.begin(); it != get_fabric().held_events.end();)
        if (belongs_to_id(*it)) {
            delete *it;
            it = get_fabric().held_events.erase(it);
        } else {
            ++it;
        }
}

void fabric::hold_cm_events(rdma_cm_event_type kind) {
    const library_call_guard call;
    held_types.insert(kind);
}

void fabric::release_cm_events(rdma_cm_event_type kind) {
    const library_call_guard call;
    held_types.erase(kind);
    for (auto it = held_events.begin(); it != held_events.end();)
        if ((*it)->event == kind) {
            fake_cm_event *const event = *it;
            it = held_events.erase(it);
            queue_event(event);
        } else {
            ++it;
        }
}

std::vector<rdma_cm_id *> fabric::cm_ids() {
    const library_call_guard call;
    std::vector<rdma_cm_id *> delivered_ids;
    for (fake::fake_cm_id *id : all_cm_ids)
        if (id->delivered)
            delivered_ids.push_back(id);
    return delivered_ids;
}

std::size_t fabric::num_unanswered_connects() {
    const library_call_guard call;
    return static_cast<std::size_t>(
        std::count_if(all_cm_ids.begin(), all_cm_ids.end(), [](const fake::fake_cm_id *id) {
            return id->delivered && id->state == id_state::connect_sent;
        }));
}

void fabric::block_unanswered() {
    const library_call_guard call;
    unanswered_block = true;
}

void fabric::unblock_unanswered() {
    const library_call_guard call;
    unanswered_block = false;
    changed.notify_all();
}

void fabric::block_connects() {
    const library_call_guard call;
    connects_block = true;
}

void fabric::unblock_connects() {
    const library_call_guard call;
    connects_block = false;
    changed.notify_all();
}

int fabric::count_blocked_connects() {
    const library_call_guard call;
    return num_blocked_connects;
}

int fabric::count_blocked_destroys() {
    const library_call_guard call;
    return num_blocked_destroys;
}

bool is_unanswered(const fake::fake_cm_id &id) {
    return id.state == id_state::connect_sent && get_fabric().device_of(id.verbs).is_iwarp();
}

bool is_unanswered(std::uint32_t qp_num) {
    const auto &ids = get_fabric().all_cm_ids;
    return std::any_of(ids.begin(), ids.end(), [qp_num](const fake::fake_cm_id *id) {
        return id->qp_num == qp_num && is_unanswered(*id);
    });
}

void fabric::queue_cm_event(rdma_cm_id *cm_id, rdma_cm_event_type kind, int status,
                            const std::vector<unsigned char> &data) {
    const library_call_guard call;
    queue_event(*static_cast<fake::fake_cm_id *>(cm_id), kind, status, data);
}

} // namespace fake

extern "C" {

rdma_event_channel *rdma_create_event_channel() {
    const library_call_guard call;
    if (const int error = injected_error("rdma_create_event_channel")) {
        errno = error;
        return nullptr;
    }
    auto *const channel = new rdma_event_channel{eventfd(0, EFD_SEMAPHORE)};
    get_fabric().channels.insert(channel);
    get_fabric().adjust_object_count("rdma_event_channel", 1);
    return channel;
}

void rdma_destroy_event_channel(rdma_event_channel *channel) {
    const library_call_guard call;
    for (const fake::fake_cm_id *id : get_fabric().all_cm_ids)
        if (id->channel == channel)
            die("rdma_destroy_event_channel while it has an id of state %d",
                static_cast<int>(id->state));
    get_fabric().channels.erase(channel);
    close(channel->fd);
    get_fabric().adjust_object_count("rdma_event_channel", -1);
    delete channel;
}

int rdma_create_id(rdma_event_channel *channel, rdma_cm_id **id_out, void *context,
                   rdma_port_space space) {
    tsan_release(context);
    const library_call_guard call;
    if (const int error = injected_error("rdma_create_id"))
        return set_errno(error);
    if (!get_fabric().channels.contains(channel))
        die("rdma_create_id: no such channel");
    auto *const id = new fake::fake_cm_id{};
    id->channel = channel;
    id->context = context;
    id->ps = space;
    id->delivered = true;
    get_fabric().all_cm_ids.push_back(id);
    get_fabric().adjust_object_count("rdma_cm_id", 1);
    *id_out = id;
    return 0;
}

// Blocks until each event of the id is acknowledged, as librdmacm does, and on iWARP perhaps until
// the peer has answered.
int rdma_destroy_id(rdma_cm_id *cm_id) {
    fake::fake_cm_id *destroyed;
    {
        library_call_guard call;
        if (get_fabric().num_failing_destroys > 0) {
            --get_fabric().num_failing_destroys;
            return set_errno(EINTR);
        }
        auto &id = find_id(cm_id);
        drop_events(id);
        drop_requests(id);
        if (is_unanswered(id)) {
            ++get_fabric().num_blocked_destroys;
            get_fabric().wait(call.lock, "rdma_destroy_id waits for the peer",
                              [] { return !get_fabric().unanswered_block; });
            --get_fabric().num_blocked_destroys;
        }
        close_connection(id);
        id.state = id_state::closed; // the handler of an event may still use it
        get_fabric().wait(call.lock, "rdma_destroy_id waits for events to be acknowledged",
                          [&id] { return id.events.all_acked(); });
        // Events that were queued during the wait.
        drop_events(id);
        drop_requests(id);
        std::erase(get_fabric().all_cm_ids, &id);
        get_fabric().adjust_object_count("rdma_cm_id", -1);
        destroyed = &id;
    }
    tsan_acquire(cm_id); // before the memory is freed
    delete destroyed;
    return 0;
}

int rdma_bind_addr(rdma_cm_id *cm_id, sockaddr *addr) {
    ++get_fabric().num_binds;
    if (const int delay_ms = get_fabric().bind_delay_ms; delay_ms != 0)
        usleep(static_cast<useconds_t>(delay_ms) * 1000);
    const library_call_guard call;
    --get_fabric().num_binds;
    if (const int error = injected_error("rdma_bind_addr"))
        return set_errno(error);
    const int error = bind(find_id(cm_id), *addr);
    return error == 0 ? 0 : set_errno(error);
}

int rdma_listen(rdma_cm_id *cm_id, int) {
    const library_call_guard call;
    if (const int error = injected_error("rdma_listen"))
        return set_errno(error);
    auto &id = find_id(cm_id);
    if (id.state != id_state::bound)
        return set_errno(EINVAL);
    if (is_addr_in_use(id, id.route.addr.src_addr))
        return set_errno(EADDRINUSE);
    id.state = id_state::listening;
    return 0;
}

int rdma_set_option(rdma_cm_id *cm_id, int, int option, void *value, std::size_t) {
    const library_call_guard call;
    fake_cm_id &id = find_id(cm_id);
    if (const int error = injected_error("rdma_set_option"))
        return set_errno(error);
    if (option == RDMA_OPTION_ID_TOS)
        id.traffic_class = *static_cast<const std::uint8_t *>(value);
    return 0;
}

const char *rdma_event_str(rdma_cm_event_type) {
    return "an event";
}

__be16 rdma_get_src_port(rdma_cm_id *cm_id) {
    const library_call_guard call;
    return htons(fake::get_port(find_id(cm_id).route.addr.src_addr));
}

int rdma_resolve_addr(rdma_cm_id *cm_id, sockaddr *src, sockaddr *dst, int) {
    tsan_release(cm_id);
    const library_call_guard call;
    if (const int error = injected_error("rdma_resolve_addr"))
        return set_errno(error);
    auto &id = find_id(cm_id);
    if (id.state == id_state::closed)
        return set_errno(EINVAL);
    if (src != nullptr && src->sa_family != dst->sa_family)
        return set_errno(EINVAL);
    copy_address(id.route.addr.dst_addr, *dst);
    const int status =
        has_route(*dst) ? next_result(get_fabric().resolve_addr_results) : -ENETUNREACH;
    if (status != 0) {
        queue_event(id, RDMA_CM_EVENT_ADDR_ERROR, status);
        return 0;
    }
    if (id.state == id_state::created) {
        // By the source address; else the device with the destination address, or the first.
        if (src != nullptr) {
            if (const int error = bind(id, *src))
                return set_errno(error);
        } else {
            fake_device *const dev = find_device(*dst);
            id.verbs = dev != nullptr ? &dev->ctx : &get_fabric().devices[0].ctx;
            id.port_num = 1;
        }
    }
    fake_device *const dst_dev = find_device(*dst);
    id.route.addr.addr.ibaddr.dgid =
        (dst_dev != nullptr ? *dst_dev : get_fabric().devices[0]).gids[0];
    id.state = id_state::resolved;
    queue_event(id, RDMA_CM_EVENT_ADDR_RESOLVED);
    return 0;
}

int rdma_resolve_route(rdma_cm_id *cm_id, int) {
    const library_call_guard call;
    if (const int error = injected_error("rdma_resolve_route"))
        return set_errno(error);
    auto &id = find_id(cm_id);
    if (id.state != id_state::resolved)
        return set_errno(EINVAL);
    const int status = next_result(get_fabric().resolve_route_results);
    if (status != 0) {
        queue_event(id, RDMA_CM_EVENT_ROUTE_ERROR, status);
        return 0;
    }
    id.state = id_state::routed;
    queue_event(id, RDMA_CM_EVENT_ROUTE_RESOLVED);
    return 0;
}

int rdma_get_cm_event(rdma_event_channel *channel, rdma_cm_event **event_out) {
    {
        const library_call_guard call;
        auto &events = get_fabric().queued_events;
        const auto it =
            std::find_if(events.begin(), events.end(), [channel](const fake_cm_event *event) {
                return event->ack_id->channel == channel;
            });
        if (it == events.end()) {
            if ((fcntl(channel->fd, F_GETFL) & O_NONBLOCK) == 0)
                die("rdma_get_cm_event would block");
            return set_errno(EAGAIN);
        }
        if (const int error = injected_error("rdma_get_cm_event"))
            return set_errno(error);
        fake_cm_event *const event = *it;
        events.erase(it);
        decrement_eventfd(channel->fd);
        ++event->ack_id->events.reported;
        if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST) {
            static_cast<fake::fake_cm_id *>(event->id)->delivered = true;
            get_fabric().adjust_object_count("rdma_cm_id", 1);
        }
        get_fabric().adjust_object_count("rdma_cm_event", 1);
        *event_out = event;
    }
    tsan_acquire((*event_out)->id);
    if ((*event_out)->listen_id != nullptr)
        tsan_acquire((*event_out)->listen_id->context);
    tsan_acquire((*event_out)->id->context);
    return 0;
}

int rdma_ack_cm_event(rdma_cm_event *cm_event) {
    auto *const event = static_cast<fake_cm_event *>(cm_event);
    tsan_release(event->ack_id);
    const library_call_guard call;
    ++event->ack_id->events.acknowledged;
    get_fabric().adjust_object_count("rdma_cm_event", -1);
    delete event;
    get_fabric().changed.notify_all();
    return 0;
}
}

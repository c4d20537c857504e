// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// librdmacm.

#include "rdma.hpp"
#include "state.hpp"

#include <cstring>
#include <deque>
#include <netinet/in.h>

namespace fake {

namespace {

struct fake_event : rdma_cm_event {
    std::vector<char> data;       ///< freed when the event is acknowledged
    rdma_cm_id *source = nullptr; ///< whose destruction waits for the acknowledgment
};
struct fake_event_channel : rdma_event_channel {
    std::deque<fake_event *> events;
};

thread_local rdma_cm_id *newest_id = nullptr;
thread_local rdma_cm_id *listening_id = nullptr;
sockaddr_in addr;

/// 0, or -1 with errno.
int call_with_errno(const char *name) {
    const int error = call(name);
    if (error != 0)
        errno = error;
    return error != 0 ? -1 : 0;
}

rdma_cm_id *create_id(rdma_event_channel *channel) {
    auto *const id = new rdma_cm_id{};
    id->channel = channel;
    newest_id = id;
    add_object(id, "id", {channel});
    return id;
}

void free_event(fake_event *event) {
    remove_object(event, "event");
    delete event;
}

std::string to_text(const char *text) {
    return text != nullptr ? text : "NULL";
}

} // namespace

void reset_manager() {
    newest_id = listening_id = nullptr;
    addr = {};
    addr.sin_family = AF_INET;
}

rdma_cm_id *last_id() {
    return newest_id;
}

void post_event(rdma_cm_event_type type, const std::string &private_data, rdma_cm_id *id) {
    auto *const event = new fake_event;
    if (id == nullptr)
        id = listening_id;
    event->source = event->id = id;
    event->event = type;
    // Not from an empty vector: an event may have a pointer, and no bytes.
    event->data.reserve(256);
    event->data.assign(private_data.begin(), private_data.end());
    event->param.conn.private_data = event->data.data();
    event->param.conn.private_data_len = static_cast<std::uint8_t>(private_data.size());
    static_cast<fake_event_channel *>(id->channel)->events.push_back(event);
    add_object(event, "event", {});
}

int reset(void **) {
    fail_none();
    fail_allocation(0);
    take_calls();
    reset_verbs();
    reset_posts();
    reset_manager();
    reset_syncs();
    rpma_log_set_threshold(RPMA_LOG_THRESHOLD, RPMA_LOG_DISABLED);
    return count_allocations() == 0 && take_violations().empty() ? 0 : -1;
}

int check(void **) {
    const std::string violations = take_violations();
    if (!violations.empty())
        print_error("%s", violations.c_str());
    const long num_allocations = count_allocations();
    if (num_allocations != 0)
        print_error("%ld allocations are not freed\n", num_allocations);
    return violations.empty() && num_allocations == 0 ? 0 : -1;
}

} // namespace fake

using namespace fake;

extern "C" {

int rdma_getaddrinfo(const char *node, const char *service, const rdma_addrinfo *hints,
                     rdma_addrinfo **res) {
    last.node = to_text(node);
    last.service = to_text(service);
    last.hints = *hints;
    if (settings.addrinfo_error != 0)
        return settings.addrinfo_error;
    if (call_with_errno("rdma_getaddrinfo") != 0)
        return -1;
    auto *const info = new rdma_addrinfo{};
    info->ai_src_addr = info->ai_dst_addr = reinterpret_cast<sockaddr *>(&addr);
    info->ai_src_len = info->ai_dst_len = sizeof addr;
    add_object(info, "address", {});
    *res = info;
    return 0;
}
void rdma_freeaddrinfo(rdma_addrinfo *info) {
    remove_object(info, "address");
    delete info;
}

rdma_event_channel *rdma_create_event_channel() {
    if (call_with_errno("rdma_create_event_channel") != 0)
        return nullptr;
    auto *const channel = new fake_event_channel{};
    channel->fd = 2000 + static_cast<int>(count_objects());
    add_object(channel, "event channel", {});
    return channel;
}
void rdma_destroy_event_channel(rdma_event_channel *channel) {
    const bool was_live = is_live(channel);
    remove_object(channel, "event channel");
    if (!was_live)
        return;
    // Events that the program has not got: the kernel frees them.
    for (fake_event *event : static_cast<fake_event_channel *>(channel)->events)
        free_event(event);
    delete static_cast<fake_event_channel *>(channel);
}

int rdma_create_id(rdma_event_channel *channel, rdma_cm_id **id, void *, rdma_port_space ps) {
    if (ps != RDMA_PS_TCP)
        add_violation("an id of another port space");
    if (call_with_errno("rdma_create_id") != 0)
        return -1;
    *id = create_id(channel);
    return 0;
}
int rdma_destroy_id(rdma_cm_id *id) {
    const int ret = call_with_errno("rdma_destroy_id");
    if (!is_live(id)) {
        remove_object(id, "id");
        return ret;
    }
    if (id->qp != nullptr)
        add_violation("an id is destroyed before its QP");
    remove_object(id, "id");
    if (newest_id == id)
        newest_id = nullptr;
    delete id;
    return ret;
}

int rdma_migrate_id(rdma_cm_id *id, rdma_event_channel *channel) {
    check_object(id, "id");
    if (call_with_errno("rdma_migrate_id") != 0)
        return -1;
    replace_use(id, id->channel, channel);
    id->channel = channel;
    return 0;
}

int rdma_bind_addr(rdma_cm_id *id, sockaddr *) {
    check_object(id, "id");
    if (call_with_errno("rdma_bind_addr") != 0)
        return -1;
    id->verbs = settings.has_device ? context() : nullptr;
    return 0;
}
int rdma_listen(rdma_cm_id *id, int backlog) {
    check_object(id, "id");
    last.backlog = backlog;
    listening_id = id;
    return call_with_errno("rdma_listen");
}
int rdma_resolve_addr(rdma_cm_id *id, sockaddr *, sockaddr *, int timeout_ms) {
    check_object(id, "id");
    last.timeout_ms = timeout_ms;
    if (call_with_errno("rdma_resolve_addr") != 0)
        return -1;
    id->verbs = context();
    return 0;
}
int rdma_resolve_route(rdma_cm_id *id, int timeout_ms) {
    check_object(id, "id");
    if (timeout_ms != last.timeout_ms)
        add_violation("the timeouts of address and route differ");
    return call_with_errno("rdma_resolve_route");
}

int rdma_create_qp_ex(rdma_cm_id *id, ibv_qp_init_attr_ex *attr) {
    check_object(id, "id");
    if (id->qp != nullptr || id->verbs == nullptr)
        add_violation("an id has a QP, or no device yet");
    id->qp = create_qp(*attr);
    return id->qp != nullptr ? 0 : -1;
}
void rdma_destroy_qp(rdma_cm_id *id) {
    check_object(id, "id");
    destroy_qp(id->qp);
    id->qp = nullptr;
}

static int start(const char *name, rdma_cm_id *id, const rdma_conn_param *param) {
    check_object(id, "id");
    check_object(id->qp, "QP");
    last.conn_param = *param;
    last.conn_param.private_data = nullptr;
    last.private_data.assign(static_cast<const char *>(param->private_data),
                             param->private_data_len);
    return call_with_errno(name);
}
int rdma_connect(rdma_cm_id *id, rdma_conn_param *param) {
    return start("rdma_connect", id, param);
}
int rdma_accept(rdma_cm_id *id, rdma_conn_param *param) {
    return start("rdma_accept", id, param);
}
int rdma_reject(rdma_cm_id *id, const void *, std::uint8_t private_data_len) {
    check_object(id, "id");
    if (private_data_len != 0)
        add_violation("a rejection has private data");
    return call_with_errno("rdma_reject");
}
int rdma_disconnect(rdma_cm_id *id) {
    check_object(id, "id");
    return call_with_errno("rdma_disconnect");
}

int rdma_get_cm_event(rdma_event_channel *channel, rdma_cm_event **event) {
    check_object(channel, "event channel");
    auto &events = static_cast<fake_event_channel *>(channel)->events;
    if (events.empty()) {
        errno = settings.no_event_error;
        return -1;
    }
    if (call_with_errno("rdma_get_cm_event") != 0)
        return -1;
    fake_event *const result = events.front();
    events.pop_front();
    add_events(result->source, 1);
    if (result->event == RDMA_CM_EVENT_CONNECT_REQUEST) {
        result->listen_id = result->source;
        result->id = create_id(channel);
        result->id->verbs = context();
    }
    *event = result;
    return 0;
}
int rdma_ack_cm_event(rdma_cm_event *event) {
    auto *const result = static_cast<fake_event *>(event);
    check_object(result, "event");
    add_events(result->source, -1);
    free_event(result);
    return 0;
}
}

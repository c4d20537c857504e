// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// librdmacm: connecting and disconnecting two ids, with the events of InfiniBand or of iWARP.

#include "manager.hpp"

#include <algorithm>
#include <cerrno>
#include <unistd.h>

using namespace fake;

namespace {

// Sizes of the private data in the IB CM's messages, padded with zeros.
constexpr std::size_t request_data_len = 56, reply_data_len = 196, reject_data_len = 148;
constexpr std::size_t sidr_request_data_len = 180, sidr_reply_data_len = 136;
constexpr std::size_t iwarp_data_len = 512;
constexpr int invalid_service_id = 8, consumer_reject = 28; ///< IB CM reject reasons
constexpr int sidr_no_service_id = 1, sidr_rejected = 2;    ///< SIDR status

int set_errno(int error) {
    errno = error;
    return -1;
}

bool is_iwarp(const fake::fake_cm_id &id) {
    return id.verbs != nullptr && get_fabric().device_of(id.verbs).is_iwarp();
}

/// A copy of the private data; on InfiniBand, padded to the size of the message's field.
bytes pad_private_data(const fake::fake_cm_id &id, const void *data, std::size_t length,
                       std::size_t size) {
    const auto *const begin = static_cast<const unsigned char *>(data);
    bytes copy(begin, begin + (begin != nullptr ? length : 0));
    if (!is_iwarp(id))
        copy.resize(size);
    return copy;
}

/// The parameters as reported to the peer.
rdma_conn_param to_peer_view(const rdma_conn_param &param) {
    rdma_conn_param peer_param = param;
    peer_param.responder_resources = param.initiator_depth;
    peer_param.initiator_depth = param.responder_resources;
    return peer_param;
}

/// The device has the resources for Reads, and the QP exists.
bool is_valid(const fake::fake_cm_id &id, const rdma_conn_param &param) {
    const ibv_device_attr &limits = get_fabric().device_of(id.verbs).attr;
    return param.responder_resources <= limits.max_qp_rd_atom &&
           param.initiator_depth <= limits.max_qp_init_rd_atom &&
           (id.ps == RDMA_PS_UDP || get_fabric().qp_by_num.contains(param.qp_num));
}

/// The id that listens on this address and port, or nullptr.
fake::fake_cm_id *find_listener(const sockaddr &addr, rdma_port_space space) {
    const auto it =
        std::find_if(get_fabric().all_cm_ids.begin(), get_fabric().all_cm_ids.end(),
                     [&](const fake::fake_cm_id *id) {
                         return id->state == id_state::listening && id->ps == space &&
                                fake::get_port(id->route.addr.src_addr) == fake::get_port(addr) &&
                                same_host(id->route.addr.src_addr, addr);
                     });
    return it != get_fabric().all_cm_ids.end() ? *it : nullptr;
}

/// iWARP: the kernel modifies the QP's state.
void modify_qp_state(const fake::fake_cm_id &id, ibv_qp_state state) {
    const auto it = get_fabric().qp_by_num.find(id.qp_num);
    if (it == get_fabric().qp_by_num.end() || !is_iwarp(id))
        return;
    fake_qp &qp = *it->second;
    if (state == IBV_QPS_ERR)
        return get_fabric().qp_to_err(qp);
    if (qp.state == IBV_QPS_ERR)
        return;
    qp.state = state;
    qp.dest_qp_num = id.peer->qp_num;
    get_fabric().run_work_requests();
}

void queue_datagram_event(fake::fake_cm_id &peer, int status, const fake::fake_cm_id &id,
                          bytes data) {
    auto *const event = new fake_cm_event{};
    event->id = event->ack_id = &peer;
    event->event = status == 0 ? RDMA_CM_EVENT_ESTABLISHED : RDMA_CM_EVENT_UNREACHABLE;
    event->status = status;
    event->data = std::move(data);
    event->param.ud.private_data = event->data.empty() ? nullptr : event->data.data();
    event->param.ud.private_data_len = static_cast<std::uint8_t>(event->data.size());
    event->param.ud.qp_num = id.qp_num;
    event->param.ud.qkey = RDMA_UDP_QKEY;
    event->param.ud.ah_attr.is_global = 1;
    event->param.ud.ah_attr.port_num = 1;
    event->param.ud.ah_attr.grh.dgid = get_fabric().device_of(id.verbs).gids[0];
    queue_event(event);
}

void reject_request(fake::fake_cm_id &requester, int reason, bytes data) {
    requester.state = id_state::closed;
    if (requester.ps == RDMA_PS_UDP)
        return queue_datagram_event(requester, reason, requester, std::move(data));
    queue_event(requester, RDMA_CM_EVENT_REJECTED, reason, std::move(data));
}

/// Creates the passive side's id of a request, and queues its CM event for the listener.
void queue_request(fake::fake_cm_id &id, fake::fake_cm_id &listener, bytes data) {
    auto *const request = new fake::fake_cm_id{};
    request->channel = listener.channel;
    request->context = listener.context;
    request->ps = listener.ps;
    request->verbs = listener.verbs;
    request->port_num = listener.port_num;
    request->route = id.route;
    request->route.addr.src_storage = id.route.addr.dst_storage;
    request->route.addr.dst_storage = id.route.addr.src_storage;
    request->route.addr.addr.ibaddr.sgid = id.route.addr.addr.ibaddr.dgid;
    request->route.addr.addr.ibaddr.dgid = id.route.addr.addr.ibaddr.sgid;
    request->state = id_state::request_received;
    request->peer = &id;
    request->listener = &listener;
    id.peer = request;
    id.state = id_state::connect_sent;
    get_fabric().all_cm_ids.push_back(request);
    auto *const event = new fake_cm_event{};
    event->id = request;
    event->listen_id = &listener;
    event->ack_id = &listener;
    event->event = RDMA_CM_EVENT_CONNECT_REQUEST;
    event->data = std::move(data);
    if (id.ps == RDMA_PS_UDP) {
        event->param.ud.private_data = event->data.data();
        event->param.ud.private_data_len = static_cast<std::uint8_t>(event->data.size());
    } else {
        event->param.conn = to_peer_view(id.conn_param);
        event->param.conn.private_data = event->data.empty() ? nullptr : event->data.data();
        event->param.conn.private_data_len = static_cast<std::uint8_t>(event->data.size());
    }
    queue_event(event);
}

} // namespace

namespace fake {

void close_connection(fake::fake_cm_id &id) {
    fake::fake_cm_id *const peer = id.peer;
    id.peer = nullptr;
    if (peer == nullptr)
        return;
    peer->peer = nullptr;
    switch (id.state) {
    case id_state::connect_sent: // A peer that has not accepted gets no event: its rdma_accept
                                 // fails.
        if (peer->state == id_state::accepted)
            queue_event(*peer, RDMA_CM_EVENT_REJECTED, consumer_reject);
        peer->state = id_state::closed;
        break;
    case id_state::request_received:
    case id_state::accepted:
        if (peer->state == id_state::connect_sent)
            reject_request(*peer, is_iwarp(id) ? -ECONNRESET : consumer_reject, {});
        else if (peer->state == id_state::connected) {
            peer->state = id_state::closed;
            queue_event(*peer, RDMA_CM_EVENT_DISCONNECTED);
        }
        break;
    case id_state::connected:
    case id_state::disconnecting:
        if (peer->state == id_state::connected || peer->state == id_state::disconnecting ||
            peer->state == id_state::accepted) {
            modify_qp_state(*peer, IBV_QPS_ERR);
            peer->state = id_state::closed;
            queue_event(*peer, RDMA_CM_EVENT_DISCONNECTED);
        }
        break;
    default:
        break;
    }
    id.state = id_state::closed;
}

void fail_connection(std::uint32_t number) {
    for (fake::fake_cm_id *id : get_fabric().all_cm_ids)
        if (id->qp_num == number && id->state == id_state::connected && is_iwarp(*id)) {
            id->state = id_state::closed;
            queue_event(*id, RDMA_CM_EVENT_DISCONNECTED);
            if (fake::fake_cm_id *const peer = id->peer; peer != nullptr) {
                id->peer = nullptr;
                peer->peer = nullptr;
                peer->state = id_state::closed;
                queue_event(*peer, RDMA_CM_EVENT_DISCONNECTED);
                modify_qp_state(*peer, IBV_QPS_ERR);
            }
            return;
        }
}

} // namespace fake

extern "C" {

// InfiniBand and iWARP differ in the private data, and in the errors of a port without a listener.
// UDP ids resolve a service ID (SIDR) instead of connecting.
int rdma_connect(rdma_cm_id *cm_id, rdma_conn_param *param) {
    tsan_release(cm_id);
    library_call_guard call;
    if (const int error = injected_error("rdma_connect"))
        return set_errno(error);
    auto &id = *static_cast<fake::fake_cm_id *>(cm_id);
    if (is_iwarp(id)) {
        ++get_fabric().num_blocked_connects;
        get_fabric().wait(call.lock, "rdma_connect waits for TCP",
                          [] { return !get_fabric().connects_block; });
        --get_fabric().num_blocked_connects;
    }
    if (id.state != id_state::routed || !is_valid(id, *param) ||
        param->private_data_len > (is_iwarp(id) ? iwarp_data_len : sidr_request_data_len))
        return set_errno(EINVAL);
    if (!is_iwarp(id) && id.ps == RDMA_PS_TCP && param->private_data_len > request_data_len)
        return set_errno(EINVAL);
    if (!get_fabric().connect_results.empty()) {
        const int error = get_fabric().connect_results.front();
        get_fabric().connect_results.pop_front();
        if (error != 0)
            return set_errno(error);
    }
    id.conn_param = *param;
    id.qp_num = param->qp_num;
    if (get_fabric().drop_connects || !is_local(id.route.addr.dst_addr)) {
        id.state = id_state::connect_sent;
        return 0;
    }
    const std::size_t data_len = id.ps == RDMA_PS_UDP ? sidr_request_data_len : request_data_len;
    bytes data = pad_private_data(id, param->private_data, param->private_data_len, data_len);
    if (fake::fake_cm_id *const peer = find_listener(id.route.addr.dst_addr, id.ps))
        queue_request(id, *peer, std::move(data));
    else if (id.ps == RDMA_PS_UDP)
        reject_request(id, sidr_no_service_id, {});
    else
        reject_request(id, is_iwarp(id) ? -ECONNREFUSED : invalid_service_id,
                       pad_private_data(id, nullptr, 0, reject_data_len));
    return 0;
}

// InfiniBand: the requester gets the reply, and sends the RTU by rdma_establish. iWARP: both sides
// are connected at once.
int rdma_accept(rdma_cm_id *cm_id, rdma_conn_param *param) {
    tsan_release(cm_id);
    const library_call_guard call;
    if (const int error = injected_error("rdma_accept"))
        return set_errno(error);
    auto &id = *static_cast<fake::fake_cm_id *>(cm_id);
    if (id.state != id_state::request_received || id.peer == nullptr || !is_valid(id, *param))
        return set_errno(id.state == id_state::closed ? ECONNRESET : EINVAL);
    id.conn_param = *param;
    id.qp_num = param->qp_num;
    fake::fake_cm_id &requester = *id.peer;
    if (id.ps == RDMA_PS_UDP) {
        id.state = requester.state = id_state::closed;
        id.peer = requester.peer = nullptr;
        queue_datagram_event(requester, 0, id,
                             pad_private_data(id, param->private_data, param->private_data_len,
                                              sidr_reply_data_len));
        return 0;
    }
    bytes data = pad_private_data(id, param->private_data, param->private_data_len, reply_data_len);
    const rdma_conn_param peer_param = to_peer_view(*param);
    if (!is_iwarp(id)) {
        id.state = id_state::accepted;
        queue_event(requester, RDMA_CM_EVENT_CONNECT_RESPONSE, 0, std::move(data), &peer_param);
        return 0;
    }
    id.state = requester.state = id_state::connected;
    modify_qp_state(id, IBV_QPS_RTS);
    modify_qp_state(requester, IBV_QPS_RTS);
    queue_event(id, RDMA_CM_EVENT_ESTABLISHED);
    queue_event(requester, RDMA_CM_EVENT_ESTABLISHED, 0, std::move(data), &peer_param);
    return 0;
}

int rdma_establish(rdma_cm_id *cm_id) {
    const library_call_guard call;
    if (const int error = injected_error("rdma_establish"))
        return set_errno(error);
    auto &id = *static_cast<fake::fake_cm_id *>(cm_id);
    if (id.state != id_state::connect_sent || id.peer == nullptr ||
        id.peer->state != id_state::accepted)
        return set_errno(EINVAL);
    id.state = id.peer->state = id_state::connected;
    queue_event(*id.peer, RDMA_CM_EVENT_ESTABLISHED);
    return 0;
}

// IBV_EVENT_COMM_EST on the passive side counts as the RTU.
int rdma_notify(rdma_cm_id *cm_id, ibv_event_type kind) {
    const library_call_guard call;
    if (const int error = injected_error("rdma_notify"))
        return set_errno(error);
    auto &id = *static_cast<fake::fake_cm_id *>(cm_id);
    if (kind != IBV_EVENT_COMM_EST || id.state != id_state::accepted)
        return set_errno(EINVAL);
    id.state = id_state::connected;
    queue_event(id, RDMA_CM_EVENT_ESTABLISHED);
    return 0;
}

int rdma_reject(rdma_cm_id *cm_id, const void *data, std::uint8_t length) {
    const library_call_guard call;
    if (const int error = injected_error("rdma_reject"))
        return set_errno(error);
    auto &id = *static_cast<fake::fake_cm_id *>(cm_id);
    if (id.peer != nullptr && id.state == id_state::connect_sent &&
        id.peer->state == id_state::accepted) { // instead of the RTU
        close_connection(id);
        return 0;
    }
    if (id.peer == nullptr || id.state != id_state::request_received)
        return set_errno(EINVAL);
    fake::fake_cm_id &requester = *id.peer;
    id.peer = requester.peer = nullptr;
    id.state = id_state::closed;
    const int reason = id.ps == RDMA_PS_UDP ? sidr_rejected
                       : is_iwarp(id)       ? -ECONNRESET
                                            : consumer_reject;
    reject_request(requester, reason, pad_private_data(id, data, length, reject_data_len));
    return 0;
}

// InfiniBand: sends the DREQ, or the DREP if the peer has sent a DREQ. iWARP: both sides are
// disconnected at once.
int rdma_disconnect(rdma_cm_id *cm_id) {
    if (const int delay_ms = get_fabric().disconnect_delay_ms; delay_ms != 0)
        usleep(static_cast<useconds_t>(delay_ms) * 1000);
    const library_call_guard call;
    if (const int error = injected_error("rdma_disconnect"))
        return set_errno(error);
    auto &id = *static_cast<fake::fake_cm_id *>(cm_id);
    if (std::find(get_fabric().all_cm_ids.begin(), get_fabric().all_cm_ids.end(), &id) ==
        get_fabric().all_cm_ids.end())
        die("rdma_disconnect: no such id");
    fake::fake_cm_id *const peer = id.peer;
    if (id.state != id_state::connected)
        return set_errno(EINVAL);
    if (peer == nullptr)
        return 0;
    if (is_iwarp(id)) {
        id.peer = peer->peer = nullptr;
        id.state = peer->state = id_state::closed;
        queue_event(id, RDMA_CM_EVENT_DISCONNECTED);
        queue_event(*peer, RDMA_CM_EVENT_DISCONNECTED);
        modify_qp_state(id, IBV_QPS_ERR);
        modify_qp_state(*peer, IBV_QPS_ERR);
        return 0;
    }
    if (peer->state == id_state::disconnecting) { // this is the DREP
        id.peer = peer->peer = nullptr;
        id.state = peer->state = id_state::closed;
        queue_event(*peer, RDMA_CM_EVENT_DISCONNECTED);
        return 0;
    }
    id.state = id_state::disconnecting;
    queue_event(*peer, RDMA_CM_EVENT_DISCONNECTED);
    return 0;
}

int rdma_init_qp_attr(rdma_cm_id *cm_id, ibv_qp_attr *attr, int *mask) {
    const library_call_guard call;
    if (const int error = injected_error("rdma_init_qp_attr"))
        return set_errno(error);
    const auto &id = *static_cast<fake::fake_cm_id *>(cm_id);
    const ibv_qp_state state = attr->qp_state;
    *attr = {};
    attr->qp_state = state;
    attr->port_num = id.port_num;
    switch (state) {
    case IBV_QPS_INIT:
        attr->qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
        *mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
        return 0;
    case IBV_QPS_RTR:
        if (id.peer == nullptr)
            return set_errno(EINVAL);
        attr->dest_qp_num = id.peer->qp_num != 0 ? id.peer->qp_num : id.peer->conn_param.qp_num;
        attr->path_mtu = IBV_MTU_1024;
        attr->ah_attr.is_global = 1;
        attr->ah_attr.grh.traffic_class = id.traffic_class;
        attr->max_dest_rd_atomic = id.conn_param.responder_resources;
        attr->min_rnr_timer = 0;
        *mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
        return 0;
    case IBV_QPS_RTS:
        attr->timeout = get_fabric().ack_timeout;
        attr->rnr_retry =
            id.peer != nullptr ? id.peer->conn_param.rnr_retry_count : std::uint8_t{7};
        attr->max_rd_atomic = id.conn_param.initiator_depth;
        *mask = IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;
        return 0;
    default:
        return set_errno(EINVAL);
    }
}
}

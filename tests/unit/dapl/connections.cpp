// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// librdmacm: how two ids become and stay connected, by InfiniBand's steps or by iWARP's.

#include "manager.hpp"

#include <algorithm>
#include <cerrno>
#include <unistd.h>

using namespace played;

namespace {

// What InfiniBand's messages have room for. They come filled with zeros.
constexpr std::size_t request_room = 56, reply_room = 196, refusal_room = 148;
constexpr std::size_t iwarp_room = 512;
constexpr int no_such_service = 8, by_program = 28; ///< InfiniBand's reasons
constexpr int not_supported_service = 1;            ///< of service resolution

int failed(int error) {
    errno = error;
    return -1;
}

bool is_iwarp(const played::id &one) {
    return one.verbs != nullptr && net().of(one.verbs).is_iwarp();
}

bytes words(const played::id &by, const void *from, std::size_t length, std::size_t room) {
    const auto *const at = static_cast<const unsigned char *>(from);
    bytes copy(at, at + (at != nullptr ? length : 0));
    if (!is_iwarp(by))
        copy.resize(room);
    return copy;
}

/// The other side's words for what each offers.
rdma_conn_param turned(const rdma_conn_param &of) {
    rdma_conn_param to = of;
    to.responder_resources = of.initiator_depth;
    to.initiator_depth = of.responder_resources;
    return to;
}

bool is_valid(const played::id &one, const rdma_conn_param &with) {
    const ibv_device_attr &limits = net().of(one.verbs).limits;
    return with.responder_resources <= limits.max_qp_rd_atom &&
           with.initiator_depth <= limits.max_qp_init_rd_atom &&
           (one.ps == RDMA_PS_UDP || net().by_number.contains(with.qp_num));
}

played::id *listener_at(const sockaddr &at, rdma_port_space space) {
    const auto found =
        std::find_if(net().known.begin(), net().known.end(), [&](const played::id *each) {
            return each->at == stage::listening && each->ps == space &&
                   played::port_of(each->route.addr.src_addr) == played::port_of(at) &&
                   same_host(each->route.addr.src_addr, at);
        });
    return found != net().known.end() ? *found : nullptr;
}

/// The kernel of iWARP moves queue pairs itself.
void move(const played::id &one, ibv_qp_state to) {
    const auto found = net().by_number.find(one.number);
    if (found == net().by_number.end() || !is_iwarp(one))
        return;
    qp &pair = *found->second;
    if (to == IBV_QPS_ERR)
        return net().to_error(pair);
    if (pair.state == IBV_QPS_ERR)
        return;
    pair.state = to;
    pair.peer = one.peer->number;
    net().work();
}

void tell_datagram(played::id &to, int status, const played::id &of, bytes data) {
    auto *const made = new happening{};
    made->id = made->counts = &to;
    made->event = status == 0 ? RDMA_CM_EVENT_ESTABLISHED : RDMA_CM_EVENT_UNREACHABLE;
    made->status = status;
    made->data = std::move(data);
    made->param.ud.private_data = made->data.empty() ? nullptr : made->data.data();
    made->param.ud.private_data_len = static_cast<std::uint8_t>(made->data.size());
    made->param.ud.qp_num = of.number;
    made->param.ud.qkey = RDMA_UDP_QKEY;
    made->param.ud.ah_attr.is_global = 1;
    made->param.ud.ah_attr.port_num = 1;
    made->param.ud.ah_attr.grh.dgid = net().of(of.verbs).gids[0];
    emit(made);
}

void refuse(played::id &asker, int reason, bytes data) {
    asker.at = stage::over;
    if (asker.ps == RDMA_PS_UDP)
        return tell_datagram(asker, reason, asker, std::move(data));
    emit(asker, RDMA_CM_EVENT_REJECTED, reason, std::move(data));
}

void ask(played::id &one, played::id &listener, bytes data) {
    auto *const made = new played::id{};
    made->channel = listener.channel;
    made->context = listener.context;
    made->ps = listener.ps;
    made->verbs = listener.verbs;
    made->port_num = listener.port_num;
    made->route = one.route;
    made->route.addr.src_storage = one.route.addr.dst_storage;
    made->route.addr.dst_storage = one.route.addr.src_storage;
    made->route.addr.addr.ibaddr.sgid = one.route.addr.addr.ibaddr.dgid;
    made->route.addr.addr.ibaddr.dgid = one.route.addr.addr.ibaddr.sgid;
    made->at = stage::asked;
    made->peer = &one;
    one.peer = made;
    one.at = stage::asking;
    net().known.push_back(made);
    auto *const told = new happening{};
    told->id = made;
    told->listen_id = &listener;
    told->counts = &listener;
    told->event = RDMA_CM_EVENT_CONNECT_REQUEST;
    told->data = std::move(data);
    if (one.ps == RDMA_PS_UDP) {
        told->param.ud.private_data = told->data.data();
        told->param.ud.private_data_len = static_cast<std::uint8_t>(told->data.size());
    } else {
        told->param.conn = turned(one.with);
        told->param.conn.private_data = told->data.empty() ? nullptr : told->data.data();
        told->param.conn.private_data_len = static_cast<std::uint8_t>(told->data.size());
    }
    emit(told);
}

} // namespace

namespace played {

void leave(played::id &one) {
    played::id *const peer = one.peer;
    one.peer = nullptr;
    if (peer == nullptr)
        return;
    peer->peer = nullptr;
    switch (one.at) {
    case stage::asking: // Who has not accepted is not told: his accepting fails.
        if (peer->at == stage::answered)
            emit(*peer, RDMA_CM_EVENT_REJECTED, by_program);
        peer->at = stage::over;
        break;
    case stage::asked:
    case stage::answered:
        if (peer->at == stage::asking)
            refuse(*peer, is_iwarp(one) ? -ECONNRESET : by_program, {});
        else if (peer->at == stage::connected) {
            peer->at = stage::over;
            emit(*peer, RDMA_CM_EVENT_DISCONNECTED);
        }
        break;
    case stage::connected:
    case stage::leaving:
        if (peer->at == stage::connected || peer->at == stage::leaving ||
            peer->at == stage::answered) {
            move(*peer, IBV_QPS_ERR);
            peer->at = stage::over;
            emit(*peer, RDMA_CM_EVENT_DISCONNECTED);
        }
        break;
    default:
        break;
    }
    one.at = stage::over;
}

void lost(std::uint32_t number) {
    for (played::id *each : net().known)
        if (each->number == number && each->at == stage::connected && is_iwarp(*each)) {
            each->at = stage::over;
            emit(*each, RDMA_CM_EVENT_DISCONNECTED);
            if (played::id *const peer = each->peer; peer != nullptr) {
                each->peer = nullptr;
                peer->peer = nullptr;
                peer->at = stage::over;
                emit(*peer, RDMA_CM_EVENT_DISCONNECTED);
                move(*peer, IBV_QPS_ERR);
            }
            return;
        }
}

} // namespace played

extern "C" {

int rdma_connect(rdma_cm_id *which, rdma_conn_param *with) {
    give_order(which);
    const entered call;
    if (const int error = fault("rdma_connect"))
        return failed(error);
    auto &one = *static_cast<played::id *>(which);
    if (one.at != stage::routed || !is_valid(one, *with) ||
        with->private_data_len > (is_iwarp(one) ? iwarp_room : 180))
        return failed(EINVAL);
    if (!is_iwarp(one) && one.ps == RDMA_PS_TCP && with->private_data_len > request_room)
        return failed(EINVAL);
    if (!net().connects.empty()) {
        const int error = net().connects.front();
        net().connects.pop_front();
        if (error != 0)
            return failed(error);
    }
    one.with = *with;
    one.number = with->qp_num;
    if (net().silent) {
        one.at = stage::asking;
        return 0;
    }
    const std::size_t room = one.ps == RDMA_PS_UDP ? 180 : request_room;
    bytes data = words(one, with->private_data, with->private_data_len, room);
    if (played::id *const to = listener_at(one.route.addr.dst_addr, one.ps))
        ask(one, *to, std::move(data));
    else if (one.ps == RDMA_PS_UDP)
        refuse(one, not_supported_service, {});
    else
        refuse(one, is_iwarp(one) ? -ECONNREFUSED : no_such_service,
               words(one, nullptr, 0, refusal_room));
    return 0;
}

int rdma_accept(rdma_cm_id *which, rdma_conn_param *with) {
    give_order(which);
    const entered call;
    if (const int error = fault("rdma_accept"))
        return failed(error);
    auto &one = *static_cast<played::id *>(which);
    if (one.at != stage::asked || one.peer == nullptr || !is_valid(one, *with))
        return failed(one.at == stage::over ? ECONNRESET : EINVAL);
    one.with = *with;
    one.number = with->qp_num;
    played::id &asker = *one.peer;
    if (one.ps == RDMA_PS_UDP) {
        one.at = asker.at = stage::over;
        one.peer = asker.peer = nullptr;
        tell_datagram(asker, 0, one, words(one, with->private_data, with->private_data_len, 136));
        return 0;
    }
    bytes data = words(one, with->private_data, with->private_data_len, reply_room);
    const rdma_conn_param as_seen = turned(*with);
    if (!is_iwarp(one)) {
        one.at = stage::answered;
        emit(asker, RDMA_CM_EVENT_CONNECT_RESPONSE, 0, std::move(data), &as_seen);
        return 0;
    }
    one.at = asker.at = stage::connected;
    move(one, IBV_QPS_RTS);
    move(asker, IBV_QPS_RTS);
    emit(one, RDMA_CM_EVENT_ESTABLISHED);
    emit(asker, RDMA_CM_EVENT_ESTABLISHED, 0, std::move(data), &as_seen);
    return 0;
}

int rdma_establish(rdma_cm_id *which) {
    const entered call;
    if (const int error = fault("rdma_establish"))
        return failed(error);
    auto &one = *static_cast<played::id *>(which);
    if (one.at != stage::asking || one.peer == nullptr || one.peer->at != stage::answered)
        return failed(EINVAL);
    one.at = one.peer->at = stage::connected;
    emit(*one.peer, RDMA_CM_EVENT_ESTABLISHED);
    return 0;
}

int rdma_notify(rdma_cm_id *which, ibv_event_type kind) {
    const entered call;
    if (const int error = fault("rdma_notify"))
        return failed(error);
    auto &one = *static_cast<played::id *>(which);
    if (kind != IBV_EVENT_COMM_EST || one.at != stage::answered)
        return failed(EINVAL);
    one.at = stage::connected;
    emit(one, RDMA_CM_EVENT_ESTABLISHED);
    return 0;
}

int rdma_reject(rdma_cm_id *which, const void *data, std::uint8_t length) {
    const entered call;
    if (const int error = fault("rdma_reject"))
        return failed(error);
    auto &one = *static_cast<played::id *>(which);
    if (one.peer == nullptr || one.at != stage::asked)
        return failed(EINVAL);
    played::id &asker = *one.peer;
    one.peer = asker.peer = nullptr;
    one.at = stage::over;
    const int reason = one.ps == RDMA_PS_UDP ? 2 : is_iwarp(one) ? -ECONNRESET : by_program;
    refuse(asker, reason, words(one, data, length, refusal_room));
    return 0;
}

int rdma_disconnect(rdma_cm_id *which) {
    if (const int pause = net().late; pause != 0)
        usleep(static_cast<useconds_t>(pause) * 1000);
    const entered call;
    if (const int error = fault("rdma_disconnect"))
        return failed(error);
    auto &one = *static_cast<played::id *>(which);
    if (std::find(net().known.begin(), net().known.end(), &one) == net().known.end())
        die("rdma_disconnect of an id that is none");
    played::id *const peer = one.peer;
    if (one.at != stage::connected)
        return failed(EINVAL);
    if (peer == nullptr)
        return 0;
    if (is_iwarp(one)) {
        one.peer = peer->peer = nullptr;
        one.at = peer->at = stage::over;
        emit(one, RDMA_CM_EVENT_DISCONNECTED);
        emit(*peer, RDMA_CM_EVENT_DISCONNECTED);
        move(one, IBV_QPS_ERR);
        move(*peer, IBV_QPS_ERR);
        return 0;
    }
    if (peer->at == stage::leaving) { // the answer to its goodbye
        one.peer = peer->peer = nullptr;
        one.at = peer->at = stage::over;
        emit(*peer, RDMA_CM_EVENT_DISCONNECTED);
        return 0;
    }
    one.at = stage::leaving;
    emit(*peer, RDMA_CM_EVENT_DISCONNECTED);
    return 0;
}

int rdma_init_qp_attr(rdma_cm_id *which, ibv_qp_attr *attr, int *mask) {
    const entered call;
    if (const int error = fault("rdma_init_qp_attr"))
        return failed(error);
    const auto &one = *static_cast<played::id *>(which);
    const ibv_qp_state to = attr->qp_state;
    *attr = {};
    attr->qp_state = to;
    attr->port_num = one.port_num;
    switch (to) {
    case IBV_QPS_INIT:
        attr->qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
        *mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
        return 0;
    case IBV_QPS_RTR:
        if (one.peer == nullptr)
            return failed(EINVAL);
        attr->dest_qp_num = one.peer->number != 0 ? one.peer->number : one.peer->with.qp_num;
        attr->path_mtu = IBV_MTU_1024;
        attr->max_dest_rd_atomic = one.with.responder_resources;
        attr->min_rnr_timer = 0;
        *mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
        return 0;
    case IBV_QPS_RTS:
        attr->rnr_retry = one.peer != nullptr ? one.peer->with.rnr_retry_count : std::uint8_t{7};
        attr->max_rd_atomic = one.with.initiator_depth;
        *mask = IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;
        return 0;
    default:
        return failed(EINVAL);
    }
}
}

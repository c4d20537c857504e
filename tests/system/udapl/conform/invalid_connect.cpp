// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Arguments and states that are not valid: of connecting, listening and answering.

#include "invalid.hpp"

#include "optional.hpp"

#include <cstdint>
#include <netinet/in.h>

namespace conform {

namespace {

constexpr DAT_TIMEOUT timeout = dat_timeout(std::chrono::seconds(5));
constexpr std::uint16_t port = 5001; // of no listener

DAT_COUNT too_much(const all_objects &objects) {
    return objects.eps.ia.provider_attr().max_private_data_size + 1;
}

/// What the calls that connect take, each as it should be.
struct wish {
    bool has_address = true;
    std::uint16_t to_port = port;
    DAT_TIMEOUT within = timeout;
    DAT_COUNT size = 0;
    bool has_data = true;
    DAT_QOS qos = DAT_QOS_BEST_EFFORT;
    DAT_CONNECT_FLAGS flags = DAT_CONNECT_DEFAULT_FLAG;
    sa_family_t family = AF_INET;

    static inline std::byte data[1024] = {};
    DAT_PVOID private_data() const { return has_data ? data : nullptr; }
    sockaddr_in address(const all_objects &objects) const {
        sockaddr_in to = objects.eps.ia.ipv4_address();
        to.sin_family = family;
        to.sin_port = htons(to_port);
        return to;
    }

    DAT_RETURN connect(const all_objects &objects, DAT_EP_HANDLE from) const {
        ia_address to(address(objects));
        return dat_ep_connect(from, has_address ? to.ptr() : nullptr, to_port, within, size,
                              private_data(), qos, flags);
    }
    DAT_RETURN common_connect(const all_objects &objects, DAT_EP_HANDLE from) const {
        ia_address to(address(objects));
        return EXPORTED(dat_ep_common_connect)(from, has_address ? to.ptr() : nullptr, within, size,
                                               private_data());
    }
    DAT_RETURN dup_connect(DAT_EP_HANDLE from, DAT_EP_HANDLE like) const {
        return dat_ep_dup_connect(from, like, within, size, private_data(), qos);
    }
};

unique_ep without_pz(const all_objects &objects) {
    DAT_EP_HANDLE created = nullptr;
    require_success(dat_ep_create(objects.eps.ia, nullptr, objects.idle_ep.recv_evd,
                                  objects.idle_ep.request_evd, objects.idle_ep.connect_evd, nullptr,
                                  &created));
    return unique_ep(created);
}
unique_ep without_connect_evd(const all_objects &objects) {
    DAT_EP_HANDLE created = nullptr;
    require_success(dat_ep_create(objects.eps.ia, objects.eps.pz, objects.idle_ep.recv_evd,
                                  objects.idle_ep.request_evd, nullptr, nullptr, &created));
    return unique_ep(created);
}

constexpr invalid_call of_connect[] = {
    {"dat_ep_connect", "address NULL", invalid_parameter(2),
     CALL(wish{.has_address = false}.connect(objects, objects.idle_ep))},
    {"dat_ep_connect", "address of AF_UNIX", invalid_parameter(2),
     CALL(wish{.family = AF_UNIX}.connect(objects, objects.idle_ep))},
    {"dat_ep_connect", "port 0", invalid_parameter(3),
     CALL(wish{.to_port = 0}.connect(objects, objects.idle_ep))},
    {"dat_ep_connect", "timeout 0", invalid_parameter(4),
     CALL(wish{.within = 0}.connect(objects, objects.idle_ep))},
    {"dat_ep_connect", "private_data_size -1", invalid_parameter(5),
     CALL(wish{.size = -1}.connect(objects, objects.idle_ep))},
    {"dat_ep_connect", "private_data_size above the limit", invalid_parameter(5),
     CALL(wish{.size = too_much(objects)}.connect(objects, objects.idle_ep))},
    {"dat_ep_connect", "private_data NULL", invalid_parameter(6),
     CALL(wish{.size = 1, .has_data = false}.connect(objects, objects.idle_ep))},
    {"dat_ep_connect", "qos that is not supported", not_supported,
     CALL(wish{.qos = DAT_QOS_LOW_LATENCY}.connect(objects, objects.idle_ep))},
    {"dat_ep_connect", "flags for many paths", not_supported,
     CALL(wish{.flags = DAT_CONNECT_MULTIPATH_FLAG}.connect(objects, objects.idle_ep))},
    {"dat_ep_connect", "connected", invalid_state(DAT_INVALID_STATE_EP_CONNECTED),
     CALL(wish{}.connect(objects, objects.eps.active))},
    {"dat_ep_connect", "connecting", invalid_state(DAT_INVALID_STATE_EP_ACTCONNPENDING),
     CALL(wish{}.connect(objects, objects.requesting_ep))},
    {"dat_ep_connect", "reserved", invalid_state(DAT_INVALID_STATE_EP_RESERVED),
     CALL(wish{}.connect(objects, objects.reserved_ep))},
    {"dat_ep_connect", "EP without a PZ", invalid_state(DAT_INVALID_STATE_EP_NOTREADY),
     CALL(wish{}.connect(objects, without_pz(objects)))},
    {"dat_ep_connect", "EP without a connect EVD", invalid_handle(DAT_INVALID_HANDLE_EVD_CONN),
     CALL(wish{}.connect(objects, without_connect_evd(objects)))},

    {"dat_ep_common_connect", "address NULL", invalid_parameter(2),
     CALL(wish{.has_address = false}.common_connect(objects, objects.idle_ep))},
    {"dat_ep_common_connect", "address of AF_UNIX", invalid_parameter(2),
     CALL(wish{.family = AF_UNIX}.common_connect(objects, objects.idle_ep))},
    {"dat_ep_common_connect", "port 0", invalid_parameter(2),
     CALL(wish{.to_port = 0}.common_connect(objects, objects.idle_ep))},
    {"dat_ep_common_connect", "timeout 0", invalid_parameter(3),
     CALL(wish{.within = 0}.common_connect(objects, objects.idle_ep))},
    {"dat_ep_common_connect", "private_data_size above the limit", invalid_parameter(4),
     CALL(wish{.size = too_much(objects)}.common_connect(objects, objects.idle_ep))},
    {"dat_ep_common_connect", "private_data NULL", invalid_parameter(5),
     CALL(wish{.size = 1, .has_data = false}.common_connect(objects, objects.idle_ep))},
    {"dat_ep_common_connect", "connected", invalid_state(DAT_INVALID_STATE_EP_CONNECTED),
     CALL(wish{}.common_connect(objects, objects.eps.active))},
    {"dat_ep_common_connect", "EP without a connect EVD",
     invalid_handle(DAT_INVALID_HANDLE_EVD_CONN),
     CALL(wish{}.common_connect(objects, without_connect_evd(objects)))},

    {"dat_ep_dup_connect", "timeout 0", invalid_parameter(3),
     CALL(wish{.within = 0}.dup_connect(objects.idle_ep, objects.eps.active))},
    {"dat_ep_dup_connect", "private_data_size above the limit", invalid_parameter(4),
     CALL(wish{.size = too_much(objects)}.dup_connect(objects.idle_ep, objects.eps.active))},
    {"dat_ep_dup_connect", "private_data NULL", invalid_parameter(5),
     CALL(wish{.size = 1, .has_data = false}.dup_connect(objects.idle_ep, objects.eps.active))},
    {"dat_ep_dup_connect", "qos that is not supported", not_supported,
     CALL(wish{.qos = DAT_QOS_LOW_LATENCY}.dup_connect(objects.idle_ep, objects.eps.active))},
    {"dat_ep_dup_connect", "dup is the passive side", invalid_state(DAT_INVALID_STATE_EP_NOTREADY),
     CALL(wish{}.dup_connect(objects.idle_ep, objects.eps.passive))},
    {"dat_ep_dup_connect", "dup not connected", invalid_state(DAT_INVALID_STATE_EP_UNCONNECTED),
     CALL(wish{}.dup_connect(objects.idle_ep, objects.idle_ep))},
    {"dat_ep_dup_connect", "connected", invalid_state(DAT_INVALID_STATE_EP_CONNECTED),
     CALL(wish{}.dup_connect(objects.eps.passive, objects.eps.active))},

    {"dat_ep_disconnect", "flags 2", invalid_parameter(2),
     CALL(dat_ep_disconnect(objects.eps.active, enum_cast<DAT_CLOSE_FLAGS>(2)))},
    {"dat_ep_disconnect", "unconnected", invalid_state(DAT_INVALID_STATE_EP_UNCONNECTED),
     CALL(dat_ep_disconnect(objects.idle_ep, DAT_CLOSE_ABRUPT_FLAG))},
    {"dat_ep_disconnect", "reserved", invalid_state(DAT_INVALID_STATE_EP_RESERVED),
     CALL(dat_ep_disconnect(objects.reserved_ep, DAT_CLOSE_ABRUPT_FLAG))},
};

DAT_RETURN create_psp(const all_objects &objects, DAT_CONN_QUAL at_port,
                      DAT_PSP_FLAGS flags = DAT_PSP_CONSUMER_FLAG,
                      DAT_PSP_HANDLE *result = &unwritten_handle) {
    return dat_psp_create(objects.eps.ia, at_port, objects.eps.cr_evd, flags, result);
}
DAT_RETURN create_rsp(const all_objects &objects, DAT_CONN_QUAL at_port, DAT_EP_HANDLE handle,
                      DAT_RSP_HANDLE *result = &unwritten_handle) {
    return dat_rsp_create(objects.eps.ia, at_port, handle, objects.eps.cr_evd, result);
}

/// What dat_csp_create takes, each as it should be.
struct common_wish {
    bool has_comm = true, has_address = true;
    int type = SOCK_STREAM;
    sa_family_t family = AF_INET;
    DAT_CONN_QUAL at_port = unused_port();
    DAT_CSP_HANDLE *csp = &unwritten_handle;

    DAT_RETURN create(const all_objects &objects) const {
        DAT_COMM comm = {AF_INET, type, 0};
        sockaddr_in local = objects.eps.ia.ipv4_address();
        local.sin_family = family;
        local.sin_port = htons(static_cast<std::uint16_t>(at_port));
        ia_address address(local);
        return EXPORTED(dat_csp_create)(objects.eps.ia, has_comm ? &comm : nullptr,
                                        has_address ? address.ptr() : nullptr, objects.eps.cr_evd,
                                        csp);
    }
};

constexpr invalid_call of_listeners[] = {
    {"dat_psp_create", "port 0", invalid_parameter(2), CALL(create_psp(objects, 0))},
    {"dat_psp_create", "flags 2", invalid_parameter(4),
     CALL(create_psp(objects, unused_port(), enum_cast<DAT_PSP_FLAGS>(2)))},
    {"dat_psp_create", "psp NULL", invalid_parameter(5),
     CALL(create_psp(objects, unused_port(), DAT_PSP_CONSUMER_FLAG, nullptr))},
    {"dat_psp_create", "port of a PSP", dat_error(DAT_CONN_QUAL_IN_USE),
     CALL(create_psp(objects, objects.eps.port))},
    {"dat_psp_create", "port of an RSP", dat_error(DAT_CONN_QUAL_IN_USE),
     CALL(create_psp(objects, objects.reserved_port))},
    {"dat_psp_create_any", "port NULL", invalid_parameter(2),
     CALL(dat_psp_create_any(objects.eps.ia, nullptr, objects.eps.cr_evd, DAT_PSP_CONSUMER_FLAG,
                             &unwritten_handle))},
    {"dat_psp_create_any", "psp NULL", invalid_parameter(5),
     [](const all_objects &objects) {
         DAT_CONN_QUAL any = 0;
         return dat_psp_create_any(objects.eps.ia, &any, objects.eps.cr_evd, DAT_PSP_CONSUMER_FLAG,
                                   nullptr);
     }},
    {"dat_rsp_create", "port 0", invalid_parameter(2),
     CALL(create_rsp(objects, 0, objects.idle_ep))},
    {"dat_rsp_create", "rsp NULL", invalid_parameter(5),
     CALL(create_rsp(objects, unused_port(), objects.idle_ep, nullptr))},
    {"dat_rsp_create", "connected", invalid_state(DAT_INVALID_STATE_EP_CONNECTED),
     CALL(create_rsp(objects, unused_port(), objects.eps.active))},
    {"dat_rsp_create", "reserved", invalid_state(DAT_INVALID_STATE_EP_RESERVED),
     CALL(create_rsp(objects, unused_port(), objects.reserved_ep))},
    {"dat_rsp_create", "port of a PSP", dat_error(DAT_CONN_QUAL_IN_USE),
     CALL(create_rsp(objects, objects.eps.port, objects.idle_ep))},
    {"dat_csp_create", "comm NULL", invalid_parameter(2),
     CALL(common_wish{.has_comm = false}.create(objects))},
    {"dat_csp_create", "address NULL", invalid_parameter(3),
     CALL(common_wish{.has_address = false}.create(objects))},
    {"dat_csp_create", "address of AF_UNIX", invalid_parameter(3),
     CALL(common_wish{.family = AF_UNIX}.create(objects))},
    {"dat_csp_create", "datagrams", dat_error(DAT_COMM_NOT_SUPPORTED),
     CALL(common_wish{.type = SOCK_DGRAM}.create(objects))},
    {"dat_csp_create", "csp NULL", invalid_parameter(5),
     CALL(common_wish{.csp = nullptr}.create(objects))},
    {"dat_csp_create", "port of a PSP", dat_error(DAT_PORT_IN_USE),
     CALL(common_wish{.at_port = objects.eps.port}.create(objects))},
    {"dat_csp_query", "mask unknown", invalid_parameter(2),
     [](const all_objects &objects) {
         DAT_CSP_PARAM param{};
         return EXPORTED(dat_csp_query)(
             objects.csp, enum_cast<DAT_CSP_PARAM_MASK>(DAT_CSP_FIELD_ALL + 1), &param);
     }},
    {"dat_csp_query", "param NULL", invalid_parameter(3),
     CALL(EXPORTED(dat_csp_query)(objects.csp, DAT_CSP_FIELD_ALL, nullptr))},
};

constexpr invalid_call of_requests[] = {
    {"dat_cr_accept", "private_data_size -1", invalid_parameter(3),
     CALL(dat_cr_accept(objects.cr, objects.idle_ep, -1, wish::data))},
    {"dat_cr_accept", "private_data_size above the limit", invalid_parameter(3),
     CALL(dat_cr_accept(objects.cr, objects.idle_ep, too_much(objects), wish::data))},
    {"dat_cr_accept", "private_data NULL", invalid_parameter(4),
     CALL(dat_cr_accept(objects.cr, objects.idle_ep, 1, nullptr))},
    {"dat_cr_accept", "connected", invalid_state(DAT_INVALID_STATE_EP_CONNECTED),
     CALL(dat_cr_accept(objects.cr, objects.eps.active, 0, nullptr))},
    {"dat_cr_accept", "EP without a PZ", invalid_state(DAT_INVALID_STATE_EP_NOTREADY),
     CALL(dat_cr_accept(objects.cr, without_pz(objects), 0, nullptr))},
    {"dat_cr_accept", "EP without a connect EVD", invalid_state(DAT_INVALID_STATE_EP_NOTREADY),
     CALL(dat_cr_accept(objects.cr, without_connect_evd(objects), 0, nullptr))},
    {"dat_cr_reject", "private_data_size -1", invalid_parameter(2),
     CALL(dat_cr_reject(objects.cr, -1, wish::data))},
    {"dat_cr_reject", "private_data_size above the limit", invalid_parameter(2),
     CALL(dat_cr_reject(objects.cr, too_much(objects), wish::data))},
    {"dat_cr_reject", "private_data NULL", invalid_parameter(3),
     CALL(dat_cr_reject(objects.cr, 1, nullptr))},
    {"dat_cr_handoff", "port of no listener", invalid_parameter(2),
     CALL(dat_cr_handoff(objects.cr, unused_port()))},
    {"dat_cr_handoff", "port of an RSP", invalid_parameter(2),
     CALL(dat_cr_handoff(objects.cr, objects.reserved_port))},
};

} // namespace

void add_invalid_connect(case_list &cases) {
    add_invalid(cases, of_connect, requirement::connection);
    add_invalid(cases, of_listeners, requirement::connection);
    add_invalid(cases, of_requests, requirement::connection);
}

} // namespace conform

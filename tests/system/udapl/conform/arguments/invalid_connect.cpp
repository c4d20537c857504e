// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Arguments and states that are not valid: of connecting, listening and answering.

#include "invalid.hpp"

#include "lib/optional.hpp"

#include <cstdint>
#include <netinet/in.h>

namespace conform {

namespace {

constexpr DAT_TIMEOUT default_timeout = dat_timeout(std::chrono::seconds(5));
constexpr std::uint16_t closed_port = 5001; // of no listener

DAT_COUNT oversized_private_data(const all_objects &objects) {
    return objects.eps.ia.provider_attr().max_private_data_size + 1;
}

/// What the calls that connect take, each as it should be.
struct connect_args {
    bool has_address = true;
    std::uint16_t port = closed_port;
    DAT_TIMEOUT timeout = default_timeout;
    DAT_COUNT size = 0;
    bool has_data = true;
    DAT_QOS qos = DAT_QOS_BEST_EFFORT;
    DAT_CONNECT_FLAGS flags = DAT_CONNECT_DEFAULT_FLAG;
    sa_family_t family = AF_INET;

    static inline std::byte data[1024] = {};
    DAT_PVOID private_data() const { return has_data ? data : nullptr; }
    sockaddr_in address(const all_objects &objects) const {
        sockaddr_in addr = objects.eps.ia.ipv4_address();
        addr.sin_family = family;
        addr.sin_port = htons(port);
        return addr;
    }

    DAT_RETURN connect(const all_objects &objects, DAT_EP_HANDLE ep) const {
        ia_address addr(address(objects));
        return dat_ep_connect(ep, has_address ? addr.ptr() : nullptr, port, timeout, size,
                              private_data(), qos, flags);
    }
    DAT_RETURN common_connect(const all_objects &objects, DAT_EP_HANDLE ep) const {
        ia_address addr(address(objects));
        return EXPORTED(dat_ep_common_connect)(ep, has_address ? addr.ptr() : nullptr, timeout,
                                               size, private_data());
    }
    DAT_RETURN dup_connect(DAT_EP_HANDLE ep, DAT_EP_HANDLE dup_ep) const {
        return dat_ep_dup_connect(ep, dup_ep, timeout, size, private_data(), qos);
    }
};

unique_ep create_ep_without_pz(const all_objects &objects) {
    DAT_EP_HANDLE handle = nullptr;
    require_success(dat_ep_create(objects.eps.ia, nullptr, objects.idle_ep.recv_evd,
                                  objects.idle_ep.request_evd, objects.idle_ep.connect_evd, nullptr,
                                  &handle));
    return unique_ep(handle);
}
unique_ep create_ep_without_connect_evd(const all_objects &objects) {
    DAT_EP_HANDLE handle = nullptr;
    require_success(dat_ep_create(objects.eps.ia, objects.eps.pz, objects.idle_ep.recv_evd,
                                  objects.idle_ep.request_evd, nullptr, nullptr, &handle));
    return unique_ep(handle);
}

constexpr invalid_call connect_calls[] = {
    {"dat_ep_connect", "address NULL", invalid_parameter(2),
     CALL(connect_args{.has_address = false}.connect(objects, objects.idle_ep))},
    {"dat_ep_connect", "address of AF_UNIX", invalid_parameter(2),
     CALL(connect_args{.family = AF_UNIX}.connect(objects, objects.idle_ep))},
    {"dat_ep_connect", "port 0", invalid_parameter(3),
     CALL(connect_args{.port = 0}.connect(objects, objects.idle_ep))},
    {"dat_ep_connect", "timeout 0", invalid_parameter(4),
     CALL(connect_args{.timeout = 0}.connect(objects, objects.idle_ep))},
    {"dat_ep_connect", "private_data_size -1", invalid_parameter(5),
     CALL(connect_args{.size = -1}.connect(objects, objects.idle_ep))},
    {"dat_ep_connect", "private_data_size above the limit", invalid_parameter(5),
     CALL(connect_args{.size = oversized_private_data(objects)}.connect(objects, objects.idle_ep))},
    {"dat_ep_connect", "private_data NULL", invalid_parameter(6),
     CALL(connect_args{.size = 1, .has_data = false}.connect(objects, objects.idle_ep))},
    {"dat_ep_connect", "qos that is not supported", not_supported,
     CALL(connect_args{.qos = DAT_QOS_LOW_LATENCY}.connect(objects, objects.idle_ep))},
    {"dat_ep_connect", "flags for many paths", not_supported,
     CALL(connect_args{.flags = DAT_CONNECT_MULTIPATH_FLAG}.connect(objects, objects.idle_ep))},
    {"dat_ep_connect", "connected", invalid_state(DAT_INVALID_STATE_EP_CONNECTED),
     CALL(connect_args{}.connect(objects, objects.eps.active))},
    {"dat_ep_connect", "connecting", invalid_state(DAT_INVALID_STATE_EP_ACTCONNPENDING),
     CALL(connect_args{}.connect(objects, objects.requesting_ep))},
    {"dat_ep_connect", "reserved", invalid_state(DAT_INVALID_STATE_EP_RESERVED),
     CALL(connect_args{}.connect(objects, objects.reserved_ep))},
    {"dat_ep_connect", "EP without a PZ", invalid_state(DAT_INVALID_STATE_EP_NOTREADY),
     CALL(connect_args{}.connect(objects, create_ep_without_pz(objects)))},
    {"dat_ep_connect", "EP without a connect EVD", invalid_handle(DAT_INVALID_HANDLE_EVD_CONN),
     CALL(connect_args{}.connect(objects, create_ep_without_connect_evd(objects)))},

    {"dat_ep_common_connect", "address NULL", invalid_parameter(2),
     CALL(connect_args{.has_address = false}.common_connect(objects, objects.idle_ep))},
    {"dat_ep_common_connect", "address of AF_UNIX", invalid_parameter(2),
     CALL(connect_args{.family = AF_UNIX}.common_connect(objects, objects.idle_ep))},
    {"dat_ep_common_connect", "port 0", invalid_parameter(2),
     CALL(connect_args{.port = 0}.common_connect(objects, objects.idle_ep))},
    {"dat_ep_common_connect", "timeout 0", invalid_parameter(3),
     CALL(connect_args{.timeout = 0}.common_connect(objects, objects.idle_ep))},
    {"dat_ep_common_connect", "private_data_size above the limit", invalid_parameter(4),
     CALL(connect_args{.size = oversized_private_data(objects)}.common_connect(objects,
                                                                               objects.idle_ep))},
    {"dat_ep_common_connect", "private_data NULL", invalid_parameter(5),
     CALL(connect_args{.size = 1, .has_data = false}.common_connect(objects, objects.idle_ep))},
    {"dat_ep_common_connect", "connected", invalid_state(DAT_INVALID_STATE_EP_CONNECTED),
     CALL(connect_args{}.common_connect(objects, objects.eps.active))},
    {"dat_ep_common_connect", "EP without a connect EVD",
     invalid_handle(DAT_INVALID_HANDLE_EVD_CONN),
     CALL(connect_args{}.common_connect(objects, create_ep_without_connect_evd(objects)))},

    {"dat_ep_dup_connect", "timeout 0", invalid_parameter(3),
     CALL(connect_args{.timeout = 0}.dup_connect(objects.idle_ep, objects.eps.active))},
    {"dat_ep_dup_connect", "private_data_size above the limit", invalid_parameter(4),
     CALL(connect_args{.size = oversized_private_data(objects)}.dup_connect(objects.idle_ep,
                                                                            objects.eps.active))},
    {"dat_ep_dup_connect", "private_data NULL", invalid_parameter(5),
     CALL(connect_args{.size = 1, .has_data = false}.dup_connect(objects.idle_ep,
                                                                 objects.eps.active))},
    {"dat_ep_dup_connect", "qos that is not supported", not_supported,
     CALL(connect_args{.qos = DAT_QOS_LOW_LATENCY}.dup_connect(objects.idle_ep,
                                                               objects.eps.active))},
    {"dat_ep_dup_connect", "dup is the passive side", invalid_state(DAT_INVALID_STATE_EP_NOTREADY),
     CALL(connect_args{}.dup_connect(objects.idle_ep, objects.eps.passive))},
    {"dat_ep_dup_connect", "dup not connected", invalid_state(DAT_INVALID_STATE_EP_UNCONNECTED),
     CALL(connect_args{}.dup_connect(objects.idle_ep, objects.idle_ep))},
    {"dat_ep_dup_connect", "connected", invalid_state(DAT_INVALID_STATE_EP_CONNECTED),
     CALL(connect_args{}.dup_connect(objects.eps.passive, objects.eps.active))},

    {"dat_ep_disconnect", "flags 2", invalid_parameter(2),
     CALL(dat_ep_disconnect(objects.eps.active, enum_cast<DAT_CLOSE_FLAGS>(2)))},
    {"dat_ep_disconnect", "unconnected", invalid_state(DAT_INVALID_STATE_EP_UNCONNECTED),
     CALL(dat_ep_disconnect(objects.idle_ep, DAT_CLOSE_ABRUPT_FLAG))},
    {"dat_ep_disconnect", "reserved", invalid_state(DAT_INVALID_STATE_EP_RESERVED),
     CALL(dat_ep_disconnect(objects.reserved_ep, DAT_CLOSE_ABRUPT_FLAG))},
};

DAT_RETURN create_psp(const all_objects &objects, DAT_CONN_QUAL port,
                      DAT_PSP_FLAGS flags = DAT_PSP_CONSUMER_FLAG,
                      DAT_PSP_HANDLE *result = &unwritten_handle) {
    return dat_psp_create(objects.eps.ia, port, objects.eps.cr_evd, flags, result);
}
DAT_RETURN create_rsp(const all_objects &objects, DAT_CONN_QUAL port, DAT_EP_HANDLE handle,
                      DAT_RSP_HANDLE *result = &unwritten_handle) {
    return dat_rsp_create(objects.eps.ia, port, handle, objects.eps.cr_evd, result);
}

/// What dat_csp_create takes, each as it should be.
struct csp_args {
    bool has_comm = true, has_address = true;
    int type = SOCK_STREAM;
    sa_family_t family = AF_INET;
    DAT_CONN_QUAL port = unused_port();
    DAT_CSP_HANDLE *csp = &unwritten_handle;

    DAT_RETURN create(const all_objects &objects) const {
        DAT_COMM comm = {AF_INET, type, 0};
        sockaddr_in addr = objects.eps.ia.ipv4_address();
        addr.sin_family = family;
        addr.sin_port = htons(static_cast<std::uint16_t>(port));
        ia_address address(addr);
        return EXPORTED(dat_csp_create)(objects.eps.ia, has_comm ? &comm : nullptr,
                                        has_address ? address.ptr() : nullptr, objects.eps.cr_evd,
                                        csp);
    }
};

constexpr invalid_call service_point_calls[] = {
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
     CALL(csp_args{.has_comm = false}.create(objects))},
    {"dat_csp_create", "address NULL", invalid_parameter(3),
     CALL(csp_args{.has_address = false}.create(objects))},
    {"dat_csp_create", "address of AF_UNIX", invalid_parameter(3),
     CALL(csp_args{.family = AF_UNIX}.create(objects))},
    {"dat_csp_create", "datagrams", dat_error(DAT_COMM_NOT_SUPPORTED),
     CALL(csp_args{.type = SOCK_DGRAM}.create(objects))},
    {"dat_csp_create", "csp NULL", invalid_parameter(5),
     CALL(csp_args{.csp = nullptr}.create(objects))},
    {"dat_csp_create", "port of a PSP", dat_error(DAT_PORT_IN_USE),
     CALL(csp_args{.port = objects.eps.port}.create(objects))},
    {"dat_csp_query", "mask unknown", invalid_parameter(2),
     [](const all_objects &objects) {
         DAT_CSP_PARAM param{};
         return EXPORTED(dat_csp_query)(
             objects.csp, enum_cast<DAT_CSP_PARAM_MASK>(DAT_CSP_FIELD_ALL + 1), &param);
     }},
    {"dat_csp_query", "param NULL", invalid_parameter(3),
     CALL(EXPORTED(dat_csp_query)(objects.csp, DAT_CSP_FIELD_ALL, nullptr))},
};

constexpr invalid_call cr_calls[] = {
    {"dat_cr_accept", "private_data_size -1", invalid_parameter(3),
     CALL(dat_cr_accept(objects.cr, objects.idle_ep, -1, connect_args::data))},
    {"dat_cr_accept", "private_data_size above the limit", invalid_parameter(3),
     CALL(dat_cr_accept(objects.cr, objects.idle_ep, oversized_private_data(objects),
                        connect_args::data))},
    {"dat_cr_accept", "private_data NULL", invalid_parameter(4),
     CALL(dat_cr_accept(objects.cr, objects.idle_ep, 1, nullptr))},
    {"dat_cr_accept", "connected", invalid_state(DAT_INVALID_STATE_EP_CONNECTED),
     CALL(dat_cr_accept(objects.cr, objects.eps.active, 0, nullptr))},
    {"dat_cr_accept", "EP without a PZ", invalid_state(DAT_INVALID_STATE_EP_NOTREADY),
     CALL(dat_cr_accept(objects.cr, create_ep_without_pz(objects), 0, nullptr))},
    {"dat_cr_accept", "EP without a connect EVD", invalid_state(DAT_INVALID_STATE_EP_NOTREADY),
     CALL(dat_cr_accept(objects.cr, create_ep_without_connect_evd(objects), 0, nullptr))},
    {"dat_cr_reject", "private_data_size -1", invalid_parameter(2),
     CALL(dat_cr_reject(objects.cr, -1, connect_args::data))},
    {"dat_cr_reject", "private_data_size above the limit", invalid_parameter(2),
     CALL(dat_cr_reject(objects.cr, oversized_private_data(objects), connect_args::data))},
    {"dat_cr_reject", "private_data NULL", invalid_parameter(3),
     CALL(dat_cr_reject(objects.cr, 1, nullptr))},
    {"dat_cr_handoff", "port of no listener", invalid_parameter(2),
     CALL(dat_cr_handoff(objects.cr, unused_port()))},
    {"dat_cr_handoff", "port of an RSP", invalid_parameter(2),
     CALL(dat_cr_handoff(objects.cr, objects.reserved_port))},
};

} // namespace

void add_invalid_connect(case_list &cases) {
    add_invalid(cases, connect_calls, requirement::connection);
    add_invalid(cases, service_point_calls, requirement::connection);
    add_invalid(cases, cr_calls, requirement::connection);
}

} // namespace conform

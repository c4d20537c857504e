// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "loopback.hpp"
#include "verbs_objects.hpp"

#include <cerrno>

namespace coherdma::probe {
namespace {

/// Throws std::system_error if there is none.
std::uint8_t find_active_port(ibv_context *context) {
    ibv_device_attr device_attr = {};
    ibv_port_attr port_attr = {};
    if (ibv_query_device(context, &device_attr) == 0) {
        for (std::uint8_t port = 1; port <= device_attr.phys_port_cnt && port != 0; ++port) {
            if (ibv_query_port(context, port, &port_attr) == 0 &&
                port_attr.state == IBV_PORT_ACTIVE)
                return port;
        }
    }
    throw_error(ENETDOWN, "looking for an active port");
}

} // namespace

std::unique_ptr<loopback> connect_to_itself(const loopback_attr &attr) {
    loopback_attr chosen = attr;
    if (chosen.port_num == 0)
        chosen.port_num = find_active_port(attr.context);
    return attr.context->device->transport_type == IBV_TRANSPORT_IWARP ? connect_by_cm(chosen)
                                                                       : connect_by_verbs(chosen);
}

} // namespace coherdma::probe

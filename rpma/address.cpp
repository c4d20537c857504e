// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "address.hpp"

#include <arpa/inet.h>
#include <array>
#include <netdb.h>

namespace coherdma::rpma {

namespace {

struct address_text {
    char text[NI_MAXHOST] = "any address";
};
address_text to_text(const sockaddr *addr, socklen_t length) noexcept {
    address_text result;
    if (addr != nullptr)
        getnameinfo(addr, length, result.text, sizeof result.text, nullptr, 0, NI_NUMERICHOST);
    return result;
}

} // namespace

int get_addrinfo(const char *addr, const char *port, side side, unique_addrinfo &result) noexcept {
    rdma_addrinfo hints = {};
    hints.ai_flags = side == side::passive ? RAI_PASSIVE : 0;
    hints.ai_qp_type = IBV_QPT_RC;
    hints.ai_port_space = RDMA_PS_TCP;
    rdma_addrinfo *info = nullptr;
    // Older releases of librdmacm lack const.
    const int error =
        rdma_getaddrinfo(const_cast<char *>(addr), const_cast<char *>(port), &hints, &info);
    if (error != 0) {
        // librdmacm returns its own errors as -1, and those of getaddrinfo().
        const bool has_errno = error == -1 || error == EAI_SYSTEM;
        RPMA_LOG(RPMA_LOG_LEVEL_ERROR, "cannot resolve %s, port %s: %s", addr,
                 port != nullptr ? port : "none",
                 has_errno ? std::strerror(errno) : gai_strerror(error));
        return RPMA_E_PROVIDER;
    }
    result.reset(info);
    return 0;
}

int create_id(rdma_event_channel *channel, unique_id &id) noexcept {
    rdma_cm_id *new_id = nullptr;
    if (rdma_create_id(channel, &new_id, nullptr, RDMA_PS_TCP) != 0) {
        RPMA_LOG_ERRNO(errno, "rdma_create_id");
        return RPMA_E_PROVIDER;
    }
    id.reset(new_id);
    return 0;
}

int bind_address(rdma_cm_id &id, const rdma_addrinfo &info) noexcept {
    if (rdma_bind_addr(&id, info.ai_src_addr) == 0)
        return 0;
    const int error = errno;
    const address_text addr = to_text(info.ai_src_addr, info.ai_src_len); // may set errno
    RPMA_LOG_ERRNO(error, "rdma_bind_addr to %s", addr.text);
    return RPMA_E_PROVIDER;
}

int resolve_address(rdma_cm_id &id, const rdma_addrinfo &info, int timeout_ms) noexcept {
    if (rdma_resolve_addr(&id, info.ai_src_addr, info.ai_dst_addr, timeout_ms) == 0)
        return 0;
    const int error = errno;
    const address_text addr = to_text(info.ai_dst_addr, info.ai_dst_len); // may set errno
    RPMA_LOG_ERRNO(error, "rdma_resolve_addr of %s within %d ms", addr.text, timeout_ms);
    return RPMA_E_PROVIDER;
}

} // namespace coherdma::rpma

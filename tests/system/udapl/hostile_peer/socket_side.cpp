// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "socket_side.hpp"

#include <cerrno>
#include <cstdint>
#include <poll.h>
#include <random>
#include <sys/socket.h>
#include <unistd.h>

namespace hostile_peer {

namespace {

constexpr int timeout_ms = 60000;
constexpr std::uint16_t roce_port = 4791;
constexpr std::size_t max_packet_length = 1400, bth_length = 12;

int create_socket(int type) {
    const int fd = socket(AF_INET, type | SOCK_CLOEXEC, 0);
    check(fd >= 0, "socket");
    return fd;
}

const sockaddr *to_sockaddr(const sockaddr_in &address) {
    return reinterpret_cast<const sockaddr *>(&address);
}

void wait_readable(int fd) {
    pollfd poll_fd = {fd, POLLIN, 0};
    if (poll(&poll_fd, 1, timeout_ms) != 1)
        throw std::runtime_error("nothing arrives");
}

} // namespace

void socket_side::connect_tcp() {
    fd_ = create_socket(SOCK_STREAM);
    check(connect(fd_, to_sockaddr(address_), sizeof address_) == 0, "connect");
}

void socket_side::listen_tcp() {
    listen_fd_ = create_socket(SOCK_STREAM);
    const int enabled = 1;
    setsockopt(listen_fd_, SOL_SOCKET, SO_REUSEADDR, &enabled, sizeof enabled);
    check(bind(listen_fd_, to_sockaddr(address_), sizeof address_) == 0, "bind");
    check(listen(listen_fd_, 8) == 0, "listen");
}

void socket_side::accept_tcp() {
    wait_readable(listen_fd_);
    fd_ = accept(listen_fd_, nullptr, nullptr);
    check(fd_ >= 0, "accept");
}

void socket_side::send_tcp(const std::vector<unsigned char> &bytes) const {
    // The kernel at the other end may have closed the connection.
    if (send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL) < 0)
        check(errno == EPIPE || errno == ECONNRESET, "send");
}

std::string socket_side::receive_tcp() const {
    wait_readable(fd_);
    unsigned char bytes[4096];
    const ssize_t length = recv(fd_, bytes, sizeof bytes, 0);
    check(length >= 0 || errno == ECONNRESET, "recv");
    return std::to_string(length < 0 ? 0 : length);
}

void socket_side::close_tcp() {
    close(fd_);
    fd_ = -1;
}

void socket_side::reset_tcp() {
    const linger immediate = {1, 0};
    check(setsockopt(fd_, SOL_SOCKET, SO_LINGER, &immediate, sizeof immediate) == 0, "SO_LINGER");
    close_tcp();
}

void socket_side::send_udp(unsigned long long count) const {
    sockaddr_in address = address_;
    address.sin_port = htons(roce_port);
    const int fd = create_socket(SOCK_DGRAM);
    std::mt19937 random(4791); // the seed: the same packets in each run
    for (unsigned long long i = 0; i != count; ++i) {
        std::vector<unsigned char> bytes(random() % max_packet_length);
        for (unsigned char &byte : bytes)
            byte = static_cast<unsigned char>(random());
        // A base transport header with the default P_Key, version 0 and a small QP number.
        if (i % 2 != 0 && bytes.size() >= bth_length) {
            bytes[0] = static_cast<unsigned char>(random() % 0x80); // opcode
            bytes[1] = 0;                                           // version
            bytes[2] = bytes[3] = 0xff;                             // P_Key
            bytes[5] = bytes[6] = 0;                                // QP number: 5 to 7
            bytes[7] = static_cast<unsigned char>(random() % 64);
        }
        if (sendto(fd, bytes.data(), bytes.size(), 0, to_sockaddr(address), sizeof address) < 0)
            check(errno == ECONNREFUSED || errno == ENOBUFS, "sendto");
    }
    close(fd);
}

} // namespace hostile_peer

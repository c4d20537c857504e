// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "peer.hpp"

#include <cstdio>
#include <cstdlib>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace omissions {
namespace {

template <class type>
void write_all(int socket, const type &object) {
    if (write(socket, &object, sizeof object) != sizeof object)
        throw failure("the other side is gone");
}
template <class type>
type read_all(int socket) {
    type object;
    if (recv(socket, &object, sizeof object, MSG_WAITALL) != sizeof object)
        throw failure("the other side is gone");
    return object;
}

bool is_atomic(ibv_wr_opcode opcode) noexcept {
    return opcode == IBV_WR_ATOMIC_FETCH_AND_ADD || opcode == IBV_WR_ATOMIC_CMP_AND_SWP;
}
bool is_write(ibv_wr_opcode opcode) noexcept {
    return opcode == IBV_WR_RDMA_WRITE || opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}

void access(side &self, const peer_request &asked, peer_answer &answer) {
    const bytes buffer = self.request_buffer().subspan(0, asked.length);
    std::ranges::fill(buffer, asked.value);
    self.sync_for_device(buffer,
                         is_write(asked.opcode) ? COHERDMA_TO_DEVICE : COHERDMA_FROM_DEVICE);
    if (is_atomic(asked.opcode)) {
        self.post_atomic(asked.opcode, buffer, self.lkey(), asked.target, asked.compare_or_add,
                         asked.swap);
    } else {
        self.post(asked.opcode, buffer, self.lkey(), asked.target);
    }
    if (is_write(asked.opcode)) { // on iWARP it is only sent when it completes
        const bytes end = self.request_buffer().subspan(0, 8);
        self.sync_for_device(end, COHERDMA_FROM_DEVICE);
        self.post(IBV_WR_RDMA_READ, end, self.lkey(), asked.any_memory);
        self.sync_for_cpu(end);
    } else {
        self.sync_for_cpu(buffer);
    }
    std::ranges::copy(buffer, answer.data.begin());
}

void expose(side &self, const peer_request &asked, peer_answer &answer) {
    const bytes exposed = self.exposed_memory();
    const coherdma_range range = range_of(exposed);
    // What the owner may have written before.
    check(coherdma_sync_after_write(self.device(), &range, 1), "sync");
    std::ranges::copy(exposed, answer.data.begin());
    std::ranges::fill(exposed, asked.value);
    check(coherdma_sync_before_read(self.device(), &range, 1), "sync"); // and before a Write
    answer.exposed = self.expose();
}

} // namespace

void run_peer(int socket, const std::string &address) try {
    const auto self = std::make_unique<side>();
    self->connect_to_owner(address, read_all<std::uint16_t>(socket));
    for (;;) {
        const auto asked = read_all<peer_request>(socket);
        peer_answer answer{};
        switch (asked.kind) {
        case command::ACCESS:
            access(*self, asked, answer);
            break;
        case command::EXPOSE:
            expose(*self, asked, answer);
            break;
        case command::SEND:
            self->send_message();
            break;
        case command::RECEIVE:
            std::ranges::copy(self->receive_message(), answer.data.begin());
            break;
        case command::END:
            return;
        }
        write_all(socket, answer);
    }
} catch (const std::exception &e) {
    std::printf("error: peer: %s\n", e.what());
    std::fflush(stdout);
    std::_Exit(2);
}

peer_proxy::peer_proxy(const std::string &address, bool in_process) {
    int sockets[2];
    check(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), "socket pair");
    socket_ = sockets[0];
    if (in_process) {
        thread_ = std::thread([socket = sockets[1], address] { run_peer(socket, address); });
        return;
    }
    pid_ = fork();
    check(pid_ < 0 ? -1 : 0, "fork");
    if (pid_ == 0) {
        close(sockets[0]);
        execl("/proc/self/exe", "omissions", "--peer", std::to_string(sockets[1]).c_str(),
              address.c_str(), nullptr);
        std::_Exit(2);
    }
    close(sockets[1]);
    std::printf("peer %d\n", pid_);
}

peer_proxy::~peer_proxy() {
    peer_request end;
    end.kind = command::END;
    if (write(socket_, &end, sizeof end) != sizeof end)
        std::fputs("the peer is gone\n", stderr);
    if (thread_.joinable())
        thread_.join();
    else
        waitpid(pid_, nullptr, 0);
    close(socket_);
}

void peer_proxy::tell_port(std::uint16_t port) const {
    write_all(socket_, port);
}

peer_answer peer_proxy::execute(const peer_request &asked) const {
    write_all(socket_, asked);
    return read_all<peer_answer>(socket_);
}

} // namespace omissions

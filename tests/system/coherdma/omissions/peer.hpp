// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The peer, in a thread of the owner's process or in a process of its own. It does what the owner
// asks for over a socket, one step at a time, so that the order of all steps is the same in each
// run. It makes all syncs.
#pragma once

#include "side.hpp"

#include <array>
#include <sys/types.h>
#include <thread>

namespace omissions {

enum class command : std::uint8_t {
    ACCESS,  ///< posts an RDMA request
    EXPOSE,  ///< fills its memory for the owner to read or write it
    SEND,    ///< sends a message
    RECEIVE, ///< receives one
    END,
};

/// A request of the peer on the owner's memory.
struct peer_request {
    command kind = command::ACCESS;
    ibv_wr_opcode opcode = IBV_WR_RDMA_READ;
    remote_memory target;
    std::uint32_t length = 0;
    std::byte value{};                          ///< of all bytes that are written
    std::uint64_t compare_or_add = 0, swap = 0; ///< of an atomic operation
    remote_memory any_memory; ///< of the owner: a Read of it shows that a Write has arrived
};

struct peer_answer {
    remote_memory exposed;
    std::array<std::byte, side::MAX_LENGTH> data; ///< that were read
};

/// Runs the peer until END: socket is connected to that of a peer_proxy.
void run_peer(int socket, const std::string &address);

/// The owner's view of the peer.
class peer_proxy {
  public:
    /// in_process: in a thread, else this program is executed again with --peer. Before any verbs
    /// call.
    peer_proxy(const std::string &address, bool in_process);
    ~peer_proxy();
    peer_proxy(const peer_proxy &) = delete;
    peer_proxy &operator=(const peer_proxy &) = delete;

    void tell_port(std::uint16_t port) const;
    /// Returns when the peer has polled the completion.
    peer_answer execute(const peer_request &asked) const;
    peer_answer execute(command kind, int value = 0) const {
        peer_request asked;
        asked.kind = kind;
        asked.value = static_cast<std::byte>(value);
        return execute(asked);
    }

  private:
    int socket_ = -1;
    pid_t pid_ = -1;
    std::thread thread_;
};

} // namespace omissions

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The peer's actions on sockets: TCP to the port of a service point (siw), UDP to rxe's port.

#pragma once

#include "actions.hpp"

namespace hostile_peer {

class socket_side {
  public:
    explicit socket_side(const sockaddr_in &address)
        : address_(address) {}

    void connect_tcp();
    void listen_tcp();
    void accept_tcp();
    void send_tcp(const std::vector<unsigned char> &bytes) const;
    /// Waits for bytes or the end of the stream; returns the number of bytes, as text. RST counts
    /// as the end.
    std::string receive_tcp() const;
    void close_tcp();
    /// Closes with RST instead of FIN.
    void reset_tcp();
    /// Sends so many packets of random length and bytes to rxe's port. Every second has a header
    /// that rxe may accept.
    void send_udp(unsigned long long count) const;

  private:
    sockaddr_in address_;
    int listen_fd_ = -1, fd_ = -1; ///< fd_: the connection
};

} // namespace hostile_peer

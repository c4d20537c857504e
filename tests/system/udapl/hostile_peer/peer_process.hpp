// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The consumer's view of a peer: a process that it starts, follows by its lines, and kills.

#pragma once

#include "../conform/lib/check.hpp"

#include <cstddef>
#include <netinet/in.h>
#include <optional>
#include <span>
#include <string>
#include <sys/types.h>
#include <vector>

namespace hostile_peer {

using action_list = std::vector<std::string>;
action_list &operator+=(action_list &list, const action_list &more);

/// "request=0a0b": an action with bytes.
std::string action_with_bytes(const std::string &name, std::span<const std::byte> bytes);

class peer_process {
  public:
    /// Starts it, to connect to this address and port, or to listen there.
    peer_process(sockaddr_in address, DAT_CONN_QUAL port, const action_list &actions);
    ~peer_process() { kill(); }
    peer_process(const peer_process &) = delete;
    peer_process &operator=(const peer_process &) = delete;

    /// Waits until the peer has done the next action of that name. Returns its result.
    std::string wait_action_done(const std::string &name,
                                 conform::source_location loc = conform::current_location());
    /// The result of the peer's next action, which has this name, if it is done; does not wait.
    std::optional<std::string>
    poll_action_done(const std::string &name,
                     conform::source_location loc = conform::current_location());
    /// Ends the peer's action `wait`.
    void end_wait_action();
    void send_sigkill(); ///< does not wait for the end of the process
    /// SIGKILL, and waits until the process has ended. Does nothing if that is done.
    void kill();

  private:
    /// Reads what the peer has printed since, into received_, and waits for it up to that time.
    /// False: it has printed nothing.
    bool receive(int timeout_ms, conform::source_location loc);
    std::optional<std::string> take_line(); ///< the first whole line of received_, if there is one

    pid_t pid_ = -1;
    int stdin_ = -1, stdout_ = -1; ///< this process's ends of the peer's pipes
    std::string received_;
};

} // namespace hostile_peer

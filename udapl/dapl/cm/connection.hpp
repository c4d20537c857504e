// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Connections. One is an id of librdmacm beside an endpoint's queue pair, from the attempt, or the
// peer's request, until the endpoint is reset or freed.
//
// An id's events come to the library's thread, and destroying an id waits until they were taken. So
// whoever ends a connection first makes it nobody's and then destroys the id, holding no lock; what
// the thread finds in an id's context is there until it has acknowledged the event.
#pragma once

#include "../ep.hpp"
#include "../events.hpp"
#include "limits.hpp"

#include <cstdint>
#include <rdma/rdma_cma.h>

namespace coherdma::dapl::cm {

/// What an id's context points to: who its events are for.
struct party {
    virtual void happened(rdma_cm_event &event) noexcept = 0;

  protected:
    ~party() = default;
};

struct connection final : party, task {
    ~connection();
    void happened(rdma_cm_event &event) noexcept override;
    void run() noexcept override; ///< alone, its time is over

    rdma_cm_id *id = nullptr; ///< changes with the endpoint's guard, in the library's thread
    std::array<rdma_cm_id *, 7> spent = {}; ///< former ones, whose ports were others'
    std::atomic<ep *> of = nullptr;         ///< nullptr: a request that waits, or nobody's any more
    bool active = false;
    std::atomic<bool> vanished = false; ///< the peer gave up before it was accepted
    int address_tries = 0, route_tries = 0;
    std::uint8_t responder = 0, initiator = 0; ///< reads that the peer offers and takes
    std::uint8_t size = 0, received = 0;
    std::array<unsigned char, most_private_data> data = {}; ///< to be sent with the request
    std::array<unsigned char, 256> peers = {};              ///< what the peer sent

    // As goodbye.cpp has them, with its lock.
    enum : std::uint8_t { unsaid, said, answered } goodbye = unsaid;
    bool alone = false;
    std::int64_t due_by = 0; ///< as deadline::now()
};

/// What private data begin with when a program refuses, so that refusals by others are told apart:
/// OFED's word. And one of ours, for a listener that has no use for a request.
inline constexpr std::uint32_t by_program = 2U << 24 | 2U << 8, by_system = by_program | 1;
void refuse(rdma_cm_id *id, std::uint32_t by, const void *data = nullptr,
            std::size_t size = 0) noexcept;

/// The thread's: takes what librdmacm has.
watcher &dispatcher() noexcept;

/// A port for a qualifier: as OFED maps them, so both find each other.
std::uint16_t port_of(DAT_CONN_QUAL qualifier) noexcept;

/// Moves the queue pair so far that it can talk to the id's peer. 0 or an errno.
int make_ready(ep &one, connection &by) noexcept;

/// An event on the endpoint's connection EVD.
void tell(ep &one, DAT_EVENT_NUMBER number, const connection *with = nullptr) noexcept;

/// An attempt or a connection is over: the first to say so moves the state, stops the queue pair
/// and tells the program.
void over(ep &one, DAT_EVENT_NUMBER number) noexcept;

/// Whatever connection it has, ends without a word to the program.
void abandon(ep &one) noexcept;

/// Tells the peer of what was established. False: there is nobody to be told.
bool say_goodbye(connection &by) noexcept;
/// The peer has answered, or has said it himself, or will not any more. The thread's.
void goodbye_answered(connection &by) noexcept;
/// Ends it; if the peer has not answered yet, a while later. When it returns, no event of it is
/// handled for its endpoint any more, unless by the caller.
void part_with(connection *by) noexcept;
/// Until that is so of all; before the thread ends.
void await_answers() noexcept;
/// Around a fork, by events.cpp; the child has none of its parent's.
void hold_goodbyes() noexcept;
void go_on_with_goodbyes() noexcept;
void forget_goodbyes() noexcept;

/// What the thread does later: a request failed; a time is over; requests may have drained.
void broken(ep &one) noexcept;
void late(ep &one) noexcept;
void drained(ep &one) noexcept;

/// The peer has sent something before the connection counts as made.
void traffic_seen(ep &one) noexcept;

/// Attempts are made by these, for dat_ep_connect and its like.
DAT_RETURN connect(ep &one, const address &to, DAT_CONN_QUAL qualifier, DAT_TIMEOUT timeout,
                   const void *data, DAT_COUNT size) noexcept;
void step(ep &one, connection &by, rdma_cm_event &event) noexcept;

} // namespace coherdma::dapl::cm

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What each case needs: a service point and EPs of uDAPL that a hostile peer meets, and what must
// hold afterwards.

#pragma once

#include "../conform/lib/cases.hpp"
#include "../conform/lib/test_ep.hpp"
#include "peer_process.hpp"

namespace hostile_peer {

using conform::add_case;
using conform::operator|;
using conform::byte_view;
using conform::case_list;
using conform::case_skipped;
using conform::concat;
using conform::current_location;
using conform::expect_completion;
using conform::expect_eq;
using conform::expect_no_event;
using conform::expect_return;
using conform::expect_true;
using conform::milliseconds;
using conform::next_event;
using conform::require;
using conform::require_success;
using conform::scoped_trace;
using conform::source_location;
using conform::test_ep;
using conform::test_lmr;

using event_numbers = std::initializer_list<DAT_EVENT_NUMBER>;
using bytes = std::vector<std::byte>;

/// The same sequence in each run, so a failure can be repeated.
bytes random_bytes(std::size_t count);

/// Objects of the consumer that the peer meets: it connects to eps.psp, and eps.passive accepts; or
/// eps.active connects to the peer.
struct hostile_fixture {
    conform::ep_pair eps;

    /// Skips the case if siw was built without one of the patches of scripts/lab/patches without
    /// which a peer ends the guest.
    explicit hostile_fixture(const DAT_EP_ATTR *attr = nullptr);

    bool is_iwarp() const { return eps.ia.is_iwarp(); }
    void require_rxe() const; ///< skips the case on siw
    void require_siw() const; ///< skips the case on rxe

    /// A process that does these actions, of which some connect to eps.psp.
    peer_process start_connecting_peer(const action_list &actions) const {
        return {eps.ia.ipv4_address(), eps.port, actions};
    }
    /// A process that begins with the action `listen` ("listen" by rdma_cm, or "tcp_listen") at a
    /// port of its own, and goes on with these. The caller waits for `listen` before it connects.
    peer_process start_listening_peer(const action_list &actions,
                                      const std::string &listen = "listen");
    /// eps.active begins to connect to the port of start_listening_peer; the event is the caller's.
    void
    connect_to_listening_peer(DAT_TIMEOUT timeout = conform::dat_timeout(std::chrono::seconds(30)),
                              source_location loc = current_location());
    /// The requests that have reached the PSP of this EVD by now. A further peer connects, and its
    /// request, told by its private data, ends the list and is rejected.
    std::vector<DAT_CR_HANDLE>
    take_arrived_requests(DAT_EVD_HANDLE cr_evd, source_location loc = current_location()) const;
    std::vector<DAT_CR_HANDLE>
    take_arrived_requests(source_location loc = current_location()) const {
        return take_arrived_requests(eps.cr_evd, loc);
    }
    /// eps.passive accepts the next request; its event is not waited for.
    void accept_next_request(source_location loc = current_location());
    /// eps.passive accepts the next request, and gets ESTABLISHED.
    void accept_and_establish(source_location loc = current_location());

    /// The EP's next event is one of these.
    DAT_EVENT expect_event(const test_ep &ep, event_numbers allowed,
                           source_location loc = current_location()) const;
    /// The EP's next event is one of these, by default of a connection that ends; the EP is
    /// DISCONNECTED then, and no further event comes.
    DAT_EVENT expect_last_event(const test_ep &ep,
                                event_numbers allowed = {DAT_CONNECTION_EVENT_DISCONNECTED,
                                                         DAT_CONNECTION_EVENT_BROKEN},
                                source_location loc = current_location()) const;
    /// eps.passive has accepted a request: it gets ACCEPT_COMPLETION_ERROR, or ESTABLISHED and then
    /// the end of the connection, and no further event.
    void expect_accept_fails_or_ends(source_location loc = current_location()) const;
    /// Posts `count` receives of `length` bytes each, with the cookies 1, 2, ...
    void post_receives(const test_ep &ep, unsigned count, std::size_t length = 64,
                       source_location loc = current_location()) const;
    /// Each of `count` DTOs with cookies from `first_cookie` on completes once, in this order, with
    /// one of these statuses.
    void expect_completions(const test_ep &ep, const conform::unique_evd &evd, unsigned count,
                            std::initializer_list<DAT_DTO_COMPLETION_STATUS> allowed,
                            DAT_UINT64 first_cookie = 1,
                            source_location loc = current_location()) const;

    /// What the peer did has harmed nothing: no event is left over, both EPs can be reset, and a
    /// well-behaved connection to the PSP works. The EPs are unconnected then. The fixture's
    /// destructors check that all objects are freed, in the kernel, too.
    void expect_service_unharmed(source_location loc = current_location());

  private:
    DAT_CONN_QUAL listener_port_ = 0;
};

void add_private_data(case_list &cases);
void add_over_sending(case_list &cases);
void add_half_open(case_list &cases);
void add_flood(case_list &cases);
void add_vanish(case_list &cases);

} // namespace hostile_peer

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// A peer that does not answer a connection request on iWARP: the kernel keeps the rdma_cm_id and
// the QP for ten seconds, and rdma_connect blocks while TCP connects. The fake fabric blocks these
// calls until a test ends that, and ends the program after two minutes: a test passes only if no
// other call and no event waits for them.

#include "fake/two_eps.hpp"

using namespace fake;

namespace {

/// The requests of attempts to connect reach the peer, which does not answer, until the destructor.
struct silent_peer {
    silent_peer() {
        get_fabric().drop_connects = true;
        get_fabric().block_unanswered();
    }
    ~silent_peer() {
        get_fabric().unblock_unanswered();
        wait_until([] { return get_fabric().num_unanswered_connects() == 0; });
    }
};

void connect_to_peer(const ep_fixture &ep, DAT_TIMEOUT timeout) {
    socket_address addr = parse_address(ep.ia.address);
    assert_success(dat().ep_connect_func(ep.handle, &addr.sa, 9999, timeout, 0, nullptr,
                                         DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG));
}

/// On return the peer has the request.
void start_unanswered_connect(const ep_fixture &ep) {
    connect_to_peer(ep, event_timeout_us);
    assert_true(wait_until([] { return get_fabric().num_unanswered_connects() != 0; }));
}

/// The peer has the request, and the attempt has timed out.
void let_connect_time_out(const ep_fixture &ep) {
    for (DAT_TIMEOUT timeout = 1000; get_fabric().num_unanswered_connects() == 0; timeout *= 2) {
        assert_success(dat().ep_reset_func(ep.handle)); // if it timed out before the request
        connect_to_peer(ep, timeout);
        wait_event(ep.connect_evd, DAT_CONNECTION_EVENT_TIMED_OUT);
    }
}

void connect_while_another_attempt_times_out(void **) {
    ia_fixture ia("iwarp");
    ep_fixture ep(ia), active(ia), passive(ia);
    {
        const silent_peer peer;
        let_connect_time_out(ep);
        get_fabric().drop_connects = false;
        connect(active, passive);
    }
    disconnect(active, passive);
}

void disconnect_returns_at_once(void **) {
    for (const DAT_CLOSE_FLAGS flags : {DAT_CLOSE_ABRUPT_FLAG, DAT_CLOSE_GRACEFUL_FLAG}) {
        ia_fixture ia("iwarp");
        ep_fixture ep(ia);
        const silent_peer peer;
        start_unanswered_connect(ep);
        assert_success(dat().ep_disconnect_func(ep.handle, flags));
        wait_event(ep.connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
    }
}

/// The attempt of a freed EP goes on in the kernel, but holds no reference to the EP's objects.
void freed_ep_leaves_its_evds_and_pz_free(void **) {
    for (const bool disconnects : {false, true}) {
        const silent_peer peer;
        ia_fixture ia("iwarp");
        DAT_SRQ_HANDLE const srq = ia.create_srq();
        ep_fixture ep(ia, nullptr, srq);
        start_unanswered_connect(ep);
        if (disconnects)
            assert_success(dat().ep_disconnect_func(ep.handle, DAT_CLOSE_ABRUPT_FLAG));
        ep.free(); // with its EVDs
        assert_success(dat().srq_free_func(srq));
        close(ia); // frees the PZ
    }
}

/// dat_ep_reset gives the EP a new QP while the attempt still holds the old one.
void ep_reset_connects_again(void **) {
    ia_fixture ia("iwarp");
    ep_fixture active(ia), passive(ia);
    memory buffer(ia);
    {
        const silent_peer peer;
        start_unanswered_connect(active);
        DAT_LMR_TRIPLET iov = buffer.lmr_triplet(0, 100);
        assert_success(dat().ep_post_recv_func(active.handle, 1, &iov, cookie(1),
                                               DAT_COMPLETION_DEFAULT_FLAG));
        ibv_cq *const cq = qp_of(active.handle)->recv_cq;
        ibv_wc wc = {};
        wc.wr_id = get_fabric().posts.back().wr.wr_id;
        assert_success(dat().ep_disconnect_func(active.handle, DAT_CLOSE_ABRUPT_FLAG));
        wait_event(active.connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
        assert_success(dat().ep_reset_func(active.handle));
        assert_completion(active.recv_evd, cookie(1), DAT_DTO_ERR_FLUSHED);
        // A late completion of the QP, which still exists, makes no event.
        for (const ibv_wc_status status : {IBV_WC_SUCCESS, IBV_WC_WR_FLUSH_ERR}) {
            wc.status = status;
            get_fabric().add_completion(cq, wc);
            assert_no_event(active.recv_evd);
        }
        get_fabric().drop_connects = false;
        connect(active, passive);
    }
    disconnect(active, passive);
}

void ia_close_returns_at_once(void **) {
    const silent_peer peer;
    ia_fixture ia("iwarp");
    ep_fixture ep(ia);
    start_unanswered_connect(ep);
    ia.close();
    assert_false(get_fabric().count_objects().empty());
}

/// The attempt is in rdma_connect, which waits for a peer that TCP does not reach.
void start_blocked_connect(const ep_fixture &ep) {
    get_fabric().block_connects();
    connect_to_peer(ep, event_timeout_us);
    assert_true(wait_until([] { return get_fabric().count_blocked_connects() != 0; }));
}

/// Other EPs connect and disconnect while rdma_connect of one blocks.
void events_handled_while_rdma_connect_blocks(void **) {
    ia_fixture ia("iwarp"), rdma_ia("roce");
    ep_fixture ep(ia), active(rdma_ia), passive(rdma_ia);
    start_blocked_connect(ep);
    connect(active, passive);
    disconnect(active, passive);
    get_fabric().unblock_connects();
    wait_event(ep.connect_evd, DAT_CONNECTION_EVENT_NON_PEER_REJECTED);
}

void attempt_ends_while_rdma_connect_blocks(void **) {
    ia_fixture ia("iwarp");
    {
        ep_fixture ep(ia), freed_ep(ia);
        start_blocked_connect(ep);
        assert_success(dat().ep_disconnect_func(ep.handle, DAT_CLOSE_ABRUPT_FLAG));
        wait_event(ep.connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
        connect_to_peer(freed_ep, event_timeout_us);
        assert_true(wait_until([] { return get_fabric().count_blocked_connects() == 2; }));
    }
    close(ia);
    get_fabric().unblock_connects();
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        TEST(connect_while_another_attempt_times_out),
        TEST(disconnect_returns_at_once),
        TEST(freed_ep_leaves_its_evds_and_pz_free),
        TEST(ep_reset_connects_again),
        TEST(ia_close_returns_at_once),
        TEST(events_handled_while_rdma_connect_blocks),
        TEST(attempt_ends_while_rdma_connect_blocks),
    };
    return run_cases(tests);
}

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// How connections end: by which event, in which order, and beside what else.

#include "fake/two_eps.hpp"

#include <dat2/dat_ib_extensions.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

using namespace fake;

namespace {

constexpr DAT_TIMEOUT patience_us = 5'000'000; ///< a longer wait counts as a hang here
constexpr int num_rounds = 300;                ///< of what threads do at any moment

/// The next event within patience_us; its number, or 0.
DAT_UINT32 next_event(DAT_EVD_HANDLE evd, DAT_TIMEOUT timeout = patience_us) {
    DAT_EVENT event = {};
    DAT_COUNT nmore = 0;
    return dat().evd_wait_func(evd, timeout, 1, &event, &nmore) == DAT_SUCCESS
               ? static_cast<DAT_UINT32>(event.event_number)
               : 0;
}

DAT_EP_ATTR rc_attr(DAT_COUNT max_request_dtos) {
    DAT_EP_ATTR attr = {};
    attr.service_type = DAT_SERVICE_TYPE_RC;
    attr.max_recv_dtos = 32;
    attr.max_request_dtos = max_request_dtos;
    attr.max_recv_iov = attr.max_request_iov = 1;
    attr.max_rdma_read_in = attr.max_rdma_read_out = 1;
    return attr;
}

std::size_t num_posted_requests(const ibv_qp *qp) {
    const library_call_guard call;
    std::size_t count = 0;
    for (const posted_wr &it : get_fabric().posts)
        count += !it.is_recv && it.qp == qp ? 1 : 0;
    return count;
}

/// The request that was posted last.
ibv_send_wr last_request(const ibv_qp *qp) {
    const library_call_guard call;
    ibv_send_wr wr = {};
    for (const posted_wr &it : get_fabric().posts)
        if (!it.is_recv && it.qp == qp)
            wr = it.wr;
    return wr;
}

/// Until the marker is posted, if there is one.
void wait_for_requests(const ibv_qp *qp, std::size_t count) {
    for (int i = 0; i != 200 && num_posted_requests(qp) != count; ++i)
        usleep(1000);
}

/// The request EVD has room for the completions that the consumer expects, and no more. The last
/// request is unsignaled, so that a marker completes behind it.
void full_request_evd_does_not_overflow(void **) {
    constexpr DAT_COUNT num_requests = 15; // the fake CQ has exactly as many entries
    const DAT_EP_ATTR attr = rc_attr(num_requests + 1);
    connected_eps eps("roce", &attr);
    // The same with a small request EVD.
    disconnect(eps.active, eps.passive);
    assert_success(dat().ep_reset_func(eps.passive.handle));
    assert_success(dat().ep_free_func(eps.active.handle));
    assert_success(dat().evd_free_func(eps.active.request_evd));
    eps.active.request_evd =
        eps.ia.create_evd(DAT_EVD_DTO_FLAG | DAT_EVD_RMR_BIND_FLAG, num_requests);
    assert_success(dat().ep_create_func(eps.ia.handle, eps.ia.pz, eps.active.recv_evd,
                                        eps.active.request_evd, eps.active.connect_evd, &attr,
                                        &eps.active.handle));
    connect(eps.active, eps.passive);

    get_fabric().hold_work_requests();
    for (std::uint64_t i = 0; i != num_requests; ++i) {
        assert_success(eps.post_recv(64, cookie(i)));
        assert_success(eps.post_send(64, cookie(i)));
    }
    assert_success(eps.post_recv(64, cookie(num_requests)));
    assert_success(eps.post_send(64, cookie(num_requests), DAT_COMPLETION_SUPPRESS_FLAG));
    assert_success(dat().ep_disconnect_func(eps.active.handle, DAT_CLOSE_GRACEFUL_FLAG));
    ibv_qp *const qp = qp_of(eps.active.handle);
    wait_for_requests(qp, num_requests + 2);
    get_fabric().release_work_requests();
    const DAT_UINT32 number = next_event(eps.active.connect_evd);
    const DAT_UINT32 async = next_event(eps.ia.async_evd, 1000);
    assert_int_equal(async, 0);
    assert_int_equal(number, DAT_CONNECTION_EVENT_DISCONNECTED);
}

/// Two EPs share an EVD that has room for the completions of both.
void disconnect_takes_no_completion_of_other_ep(void **) {
    constexpr DAT_COUNT evd_length = 15;
    const DAT_EP_ATTR attr = rc_attr(8);
    connected_eps first("roce", &attr);
    ep_fixture peer(first.ia, &attr);
    DAT_EVD_HANDLE const shared =
        first.ia.create_evd(DAT_EVD_DTO_FLAG | DAT_EVD_RMR_BIND_FLAG, evd_length);
    // Two EPs, 7 + 8 requests: 15 completions.
    disconnect(first.active, first.passive);
    assert_success(dat().ep_reset_func(first.passive.handle));
    ep_fixture a(first.ia, &attr), b(first.ia, &attr);
    for (ep_fixture *ep : {&a, &b}) {
        assert_success(dat().ep_free_func(ep->handle));
        assert_success(dat().ep_create_func(first.ia.handle, first.ia.pz, ep->recv_evd, shared,
                                            ep->connect_evd, &attr, &ep->handle));
    }
    connect(a, first.passive);
    connect(b, peer);
    get_fabric().hold_work_requests();
    DAT_LMR_TRIPLET iov = first.active_memory.lmr_triplet(0, 64);
    const auto post = [&](const ep_fixture &ep, const ep_fixture &receiver, std::uint64_t value) {
        assert_success(dat().ep_post_recv_func(receiver.handle, 1, &iov, cookie(value),
                                               DAT_COMPLETION_DEFAULT_FLAG));
        assert_success(dat().ep_post_send_func(ep.handle, 1, &iov, cookie(value),
                                               DAT_COMPLETION_DEFAULT_FLAG));
    };
    for (std::uint64_t i = 0; i != 7; ++i)
        post(a, first.passive, i);
    for (std::uint64_t i = 7; i != 15; ++i)
        post(b, peer, i);
    assert_success(dat().ep_disconnect_func(a.handle, DAT_CLOSE_GRACEFUL_FLAG));
    ibv_qp *const qp = qp_of(a.handle);
    wait_for_requests(qp, 8);
    get_fabric().release_work_requests();
    int num_completions = 0;
    while (next_event(shared, 200'000) != 0)
        ++num_completions;
    assert_int_equal(num_completions, 15);
    for (ep_fixture *ep : {&a, &b})
        assert_success(dat().ep_free_func(ep->handle));
    assert_success(dat().evd_free_func(shared));
    for (ep_fixture *ep : {&a, &b})
        assert_success(dat().ep_create_func(first.ia.handle, first.ia.pz, ep->recv_evd,
                                            ep->request_evd, ep->connect_evd, &attr, &ep->handle));
}

/// A queue of one request: the disconnect and dat_ep_reset have a marker each.
void reset_during_disconnect_keeps_flushed_request(void **) {
    const DAT_EP_ATTR attr = rc_attr(1);
    connected_eps eps("roce", &attr);
    get_fabric().hold_work_requests();
    assert_success(eps.post_send(64, cookie(7)));
    assert_success(dat().ep_disconnect_func(eps.active.handle, DAT_CLOSE_GRACEFUL_FLAG));
    ibv_qp *const qp = qp_of(eps.active.handle);
    wait_for_requests(qp, 2);
    get_fabric().polls_before_flush = 200; // as in the kernel: some time after ibv_modify_qp
    assert_success(dat().ep_disconnect_func(eps.active.handle, DAT_CLOSE_ABRUPT_FLAG));
    wait_event(eps.active.connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
    assert_success(dat().ep_reset_func(eps.active.handle));
    get_fabric().polls_before_flush = 0;
    assert_int_equal(next_event(eps.active.request_evd, 200'000), DAT_DTO_COMPLETION_EVENT);
}

/// rdma_cm does not report the end.
void iwarp_disconnect_without_answer_ends(void **) {
    connected_eps eps("iwarp");
    get_fabric().hold_cm_events(RDMA_CM_EVENT_DISCONNECTED);
    assert_success(dat().ep_disconnect_func(eps.active.handle, DAT_CLOSE_ABRUPT_FLAG));
    wait_event(eps.active.connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
    get_fabric().release_cm_events(RDMA_CM_EVENT_DISCONNECTED);
}

void connect_to_peer(const ep_fixture &ep) {
    socket_address addr = parse_address(ep.ia.address);
    assert_success(dat().ep_connect_func(ep.handle, &addr.sa, 9999, event_timeout_us, 0, nullptr,
                                         DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG));
    assert_true(wait_until([] { return get_fabric().num_unanswered_connects() != 0; }));
}

/// A QP that dat_ep_reset left to an ended attempt names the EP, too.
void late_event_of_old_qp_has_no_effect(void **) {
    ia_fixture ia("iwarp");
    ep_fixture active(ia), passive(ia);
    DAT_UINT32 number = 0, async = 0;
    {
        get_fabric().drop_connects = true;
        get_fabric().block_unanswered();
        connect_to_peer(active);
        ibv_qp *const old_qp = qp_of(active.handle);
        assert_success(dat().ep_disconnect_func(active.handle, DAT_CLOSE_ABRUPT_FLAG));
        wait_event(active.connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
        assert_success(dat().ep_reset_func(active.handle));
        get_fabric().drop_connects = false;
        connect(active, passive);
        get_fabric().queue_async_event(1, IBV_EVENT_QP_FATAL, old_qp);
        number = next_event(active.connect_evd, 500'000);
        async = next_event(ia.async_evd, 1000);
        get_fabric().unblock_unanswered();
        wait_until([] { return get_fabric().num_unanswered_connects() == 0; });
    }
    assert_int_equal(number, 0);
    assert_int_equal(async, 0);
}

/// rdma_destroy_id fails: the kernel still reports events of the id, but its connection is gone.
void events_of_id_that_stays_have_no_effect(void **) {
    ia_fixture ia("roce");
    ep_fixture ep(ia);
    get_fabric().drop_connects = true;
    connect_to_peer(ep);
    rdma_cm_id *const id = get_fabric().cm_ids().back();
    get_fabric().num_failing_destroys = 1;
    ep.free();
    assert_null(id->context);
    get_fabric().queue_cm_event(id, RDMA_CM_EVENT_REJECTED);
    usleep(100'000); // the event thread reads it
    assert_int_equal(rdma_destroy_id(id), 0);
}

/// The kernel holds the attempt until the peer answers.
void ep_freed_at_once_after_event_of_connecting_qp(void **) {
    ia_fixture ia("iwarp");
    ep_fixture ep(ia);
    get_fabric().drop_connects = true;
    get_fabric().block_unanswered();
    connect_to_peer(ep);
    get_fabric().queue_async_event(1, IBV_EVENT_QP_FATAL, qp_of(ep.handle));
    static std::atomic<bool> done;
    done = false;
    std::thread freeing([&] {
        ep.free();
        done = true;
    });
    for (int i = 0; i != 30 && !done; ++i)
        usleep(100'000);
    const bool was_done = done;
    get_fabric().unblock_unanswered();
    freeing.join();
    wait_until([] { return get_fabric().num_unanswered_connects() == 0; });
    assert_true(was_done);
}

/// siw's kernel: the peer closes the connection while a request is sent, which then fails with
/// LOC_QP_OP_ERR and QP_FATAL, beside the event of the end. The peer has disconnected in order.
void orderly_disconnect_by_peer_on_iwarp_is_not_broken(void **) {
    connected_eps eps("iwarp");
    get_fabric().hold_cm_events(RDMA_CM_EVENT_DISCONNECTED);
    assert_success(dat().ep_disconnect_func(eps.passive.handle, DAT_CLOSE_ABRUPT_FLAG));
    get_fabric().queue_async_event(1, IBV_EVENT_QP_FATAL, qp_of(eps.active.handle));
    const DAT_UINT32 number = next_event(eps.active.connect_evd, 500'000);
    get_fabric().release_cm_events(RDMA_CM_EVENT_DISCONNECTED);
    const DAT_UINT32 after = next_event(eps.active.connect_evd, 500'000);
    assert_int_equal(number != 0 ? number : after, DAT_CONNECTION_EVENT_DISCONNECTED);
}

/// The request has no completion, and a marker cannot be posted.
void disconnect_ends_if_qp_takes_no_request(void **) {
    connected_eps eps;
    assert_success(eps.post_recv(64, cookie(1)));
    assert_success(eps.post_send(64, cookie(2), DAT_COMPLETION_SUPPRESS_FLAG));
    get_fabric().injected.fail_always("ibv_post_send", EIO);
    assert_success(dat().ep_disconnect_func(eps.active.handle, DAT_CLOSE_GRACEFUL_FLAG));
    const DAT_UINT32 number = next_event(eps.active.connect_evd);
    get_fabric().injected.fail_none();
    assert_int_equal(number, DAT_CONNECTION_EVENT_DISCONNECTED);
}

/// dat_ep_connect cannot resolve the address while other threads disconnect, which deletes the
/// connection.
void connect_fails_beside_disconnect(void **) {
    ia_fixture ia;
    ep_fixture ep(ia);
    socket_address addr = parse_address(ia.address);
    std::atomic<bool> stop = false;
    std::vector<std::thread> disconnecting;
    for (int i = 0; i != 4; ++i)
        disconnecting.emplace_back([&] {
            while (!stop)
                dat().ep_disconnect_func(ep.handle, DAT_CLOSE_ABRUPT_FLAG);
        });
    get_fabric().injected.fail_always("rdma_resolve_addr", EINVAL);
    for (int i = 0; i != num_rounds; ++i) {
        dat().ep_connect_func(ep.handle, &addr.sa, 9999, event_timeout_us, 0, nullptr,
                              DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG);
        DAT_EVENT event = {};
        while (dat().evd_dequeue_func(ep.connect_evd, &event) == DAT_SUCCESS)
            ;
        dat().ep_reset_func(ep.handle);
    }
    stop = true;
    for (std::thread &each : disconnecting)
        each.join();
    get_fabric().injected.fail_none();
}

/// man dat_ep_disconnect: if the EVD is the same, DISCONNECTED arrives after the completions of
/// successful requests, on the passive side after the receives.
void disconnected_after_completions_in_same_evd(void **) {
    ia_fixture ia;
    ep_fixture active(ia), passive(ia);
    DAT_EVD_HANDLE merged[2] = {
        ia.create_evd(DAT_EVD_DTO_FLAG | DAT_EVD_CONNECTION_FLAG | DAT_EVD_RMR_BIND_FLAG),
        ia.create_evd(DAT_EVD_DTO_FLAG | DAT_EVD_CONNECTION_FLAG | DAT_EVD_RMR_BIND_FLAG)};
    const DAT_EVD_HANDLE old[2] = {active.connect_evd, passive.connect_evd};
    int i = 0;
    for (ep_fixture *ep : {&active, &passive}) {
        assert_success(dat().ep_free_func(ep->handle));
        ep->connect_evd = merged[i++];
        assert_success(dat().ep_create_func(ia.handle, ia.pz, ep->connect_evd, ep->connect_evd,
                                            ep->connect_evd, nullptr, &ep->handle));
    }
    memory buffer(ia);
    connect(active, passive);
    DAT_LMR_TRIPLET iov = buffer.lmr_triplet(0, 64);
    assert_success(
        dat().ep_post_recv_func(passive.handle, 1, &iov, cookie(1), DAT_COMPLETION_DEFAULT_FLAG));
    assert_success(
        dat().ep_post_send_func(active.handle, 1, &iov, cookie(2), DAT_COMPLETION_DEFAULT_FLAG));
    assert_success(dat().ep_disconnect_func(active.handle, DAT_CLOSE_ABRUPT_FLAG));
    assert_true(wait_until([&] {
        return active.state() == DAT_EP_STATE_DISCONNECTED &&
               passive.state() == DAT_EP_STATE_DISCONNECTED;
    }));
    const DAT_UINT32 a = next_event(merged[0]), p = next_event(merged[1]);
    assert_int_equal(a, DAT_DTO_COMPLETION_EVENT);
    assert_int_equal(p, DAT_DTO_COMPLETION_EVENT);
    active.free();
    passive.free();
    for (DAT_EVD_HANDLE evd : old)
        assert_success(dat().evd_free_func(evd));
}

/// dat_ep_connect of a UD EP fails to resolve the address while its time-out expires.
void ud_timeout_beside_failing_resolution(void **) {
    ia_fixture ia;
    DAT_EP_ATTR attr = rc_attr(8);
    attr.service_type = static_cast<DAT_SERVICE_TYPE>(DAT_IB_SERVICE_TYPE_UD);
    ep_fixture ep(ia, &attr);
    socket_address addr = parse_address(ia.address);
    int num_pairs = 0;
    for (int i = 0; i != num_rounds; ++i) {
        get_fabric().injected.fail("rdma_resolve_addr", EINVAL);
        assert_success(dat().ep_connect_func(ep.handle, &addr.sa, 9999, 1, 0, nullptr,
                                             DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG));
        assert_int_not_equal(next_event(ep.connect_evd), 0);
        num_pairs += next_event(ep.connect_evd, 100) != 0 ? 1 : 0;
    }
    get_fabric().injected.fail_none();
    assert_int_equal(num_pairs, 0);
}

std::atomic<int> child_result;
/// Forks; the child opens and closes an IA of its own.
void forking_agent(DAT_PVOID, DAT_EVD_HANDLE) {
    const pid_t child = fork();
    if (child == 0) {
        alarm(20);
        const ia_fixture *const child_ia = new ia_fixture;
        dat().pz_free_func(child_ia->pz);
        // By exec: at an exit valgrind would report the parent's IA, which the child abandons.
        if (dat().ia_close_func(child_ia->handle, DAT_CLOSE_GRACEFUL_FLAG) == DAT_SUCCESS)
            execl("/bin/true", "true", nullptr);
        _exit(EXIT_FAILURE);
    }
    int status = -1;
    waitpid(child, &status, 0);
    child_result = status;
}

/// The child of a fork in a CNO's agent counts as the event thread forever.
void child_of_agent_closes_its_ia(void **) {
#ifdef COHERDMA_TSAN
    print_message("# skipped: ThreadSanitizer does not support threads in a forked child\n");
    skip();
#endif
    ia_fixture ia;
    child_result = -1;
    DAT_CNO_HANDLE cno = DAT_HANDLE_NULL;
    assert_success(dat().cno_create_func(ia.handle, {nullptr, forking_agent}, &cno));
    DAT_EVD_HANDLE const evd = ia.create_evd(DAT_EVD_SOFTWARE_FLAG, 8, cno);
    assert_success(post_event(evd));
    assert_true(wait_until([] { return child_result != -1; }));
    assert_success(dat().evd_free_func(evd));
    assert_success(dat().cno_free_func(cno));
    assert_int_equal(child_result, 0);
}

/// dat_ep_modify has removed the request EVD: no thread polls its CQ.
void disconnect_without_request_evd_ends(void **) {
    ia_fixture ia;
    ep_fixture active(ia), passive(ia);
    memory buffer(ia);
    DAT_EP_PARAM param = {};
    param.request_evd_handle = DAT_HANDLE_NULL;
    assert_success(dat().ep_modify_func(active.handle, DAT_EP_FIELD_REQUEST_EVD_HANDLE, &param));
    connect(active, passive);
    DAT_LMR_TRIPLET iov = buffer.lmr_triplet(0, 64);
    assert_success(
        dat().ep_post_recv_func(passive.handle, 1, &iov, cookie(1), DAT_COMPLETION_DEFAULT_FLAG));
    assert_success(
        dat().ep_post_send_func(active.handle, 1, &iov, cookie(2), DAT_COMPLETION_SUPPRESS_FLAG));
    assert_success(dat().ep_disconnect_func(active.handle, DAT_CLOSE_GRACEFUL_FLAG));
    assert_int_equal(next_event(active.connect_evd), DAT_CONNECTION_EVENT_DISCONNECTED);
}

/// siw's kernel completes requests behind a Read before it.
void graceful_disconnect_waits_for_read_on_iwarp(void **) {
    connected_eps eps("iwarp");
    get_fabric().hold_work_requests();
    DAT_LMR_TRIPLET sink = eps.active_memory.lmr_triplet(0, 64);
    DAT_RMR_TRIPLET source = eps.passive_memory.rmr_triplet(0, 64);
    assert_success(dat().ep_post_rdma_read_func(eps.active.handle, 1, &sink, cookie(1), &source,
                                                DAT_COMPLETION_DEFAULT_FLAG));
    assert_success(eps.post_recv(64, cookie(2)));
    assert_success(eps.post_send(64, cookie(3)));
    ibv_qp *const qp = qp_of(eps.active.handle);
    ibv_wc wc = {};
    wc.wr_id = last_request(qp).wr_id;
    wc.status = IBV_WC_SUCCESS;
    wc.opcode = IBV_WC_SEND;
    wc.qp_num = qp->qp_num;
    get_fabric().add_completion(qp->send_cq, wc);
    assert_success(dat().ep_disconnect_func(eps.active.handle, DAT_CLOSE_GRACEFUL_FLAG));
    const DAT_UINT32 early = next_event(eps.active.connect_evd, 100'000);
    get_fabric().release_work_requests();
    assert_completion(eps.active.request_evd, cookie(3), DAT_DTO_SUCCESS, 64);
    assert_completion(eps.active.request_evd, cookie(1), DAT_DTO_SUCCESS, 64);
    assert_int_equal(early, 0);
    wait_event(eps.active.connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
}

/// The device has no room for the marker yet. siw's ibv_post_send returns the negative errno.
void graceful_disconnect_waits_for_full_queue(void **) {
    for (const int error : {ENOMEM, -ENOMEM}) {
        reset_fabric(nullptr);
        connected_eps eps("iwarp");
        get_fabric().hold_work_requests();
        assert_success(eps.post_recv(64, cookie(1)));
        assert_success(eps.post_send(64, cookie(2), DAT_COMPLETION_SUPPRESS_FLAG));
        get_fabric().injected.fail_always("ibv_post_send", error);
        assert_success(dat().ep_disconnect_func(eps.active.handle, DAT_CLOSE_GRACEFUL_FLAG));
        const DAT_UINT32 early = next_event(eps.active.connect_evd, 100'000);
        get_fabric().injected.fail_none();
        get_fabric().release_work_requests();
        assert_completion(eps.passive.recv_evd, cookie(1), DAT_DTO_SUCCESS, 64);
        assert_int_equal(early, 0);
        wait_event(eps.active.connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
    }
}

/// Two EPs share a request EVD, and both disconnect. The peer of the first has no receive.
void disconnect_does_not_wait_for_other_ep(void **) {
    const DAT_EP_ATTR attr = rc_attr(4);
    ia_fixture ia;
    memory buffer(ia);
    DAT_EVD_HANDLE const shared = ia.create_evd(DAT_EVD_DTO_FLAG | DAT_EVD_RMR_BIND_FLAG, 14);
    ep_fixture first(ia, &attr), second(ia, &attr), first_peer(ia, &attr), second_peer(ia, &attr);
    for (ep_fixture *ep : {&first, &second}) {
        assert_success(dat().ep_free_func(ep->handle));
        assert_success(dat().ep_create_func(ia.handle, ia.pz, ep->recv_evd, shared, ep->connect_evd,
                                            &attr, &ep->handle));
    }
    connect(first, first_peer);
    connect(second, second_peer);
    DAT_LMR_TRIPLET iov = buffer.lmr_triplet(0, 64);
    assert_success(
        dat().ep_post_send_func(first.handle, 1, &iov, cookie(1), DAT_COMPLETION_SUPPRESS_FLAG));
    assert_success(dat().ep_disconnect_func(first.handle, DAT_CLOSE_GRACEFUL_FLAG));
    wait_for_requests(qp_of(first.handle), 2);
    assert_success(dat().ep_post_recv_func(second_peer.handle, 1, &iov, cookie(2),
                                           DAT_COMPLETION_DEFAULT_FLAG));
    assert_success(
        dat().ep_post_send_func(second.handle, 1, &iov, cookie(3), DAT_COMPLETION_SUPPRESS_FLAG));
    assert_success(dat().ep_disconnect_func(second.handle, DAT_CLOSE_GRACEFUL_FLAG));
    const DAT_UINT32 number = next_event(second.connect_evd);
    for (ep_fixture *ep : {&first, &second})
        assert_success(dat().ep_free_func(ep->handle));
    assert_success(dat().evd_free_func(shared));
    for (ep_fixture *ep : {&first, &second})
        assert_success(dat().ep_create_func(ia.handle, ia.pz, ep->recv_evd, ep->request_evd,
                                            ep->connect_evd, &attr, &ep->handle));
    assert_int_equal(number, DAT_CONNECTION_EVENT_DISCONNECTED);
}

/// Private data are valid until dat_ep_reset, whatever the peer sends.
void private_data_survive_late_reject(void **) {
    ia_fixture ia;
    ep_fixture active(ia), passive(ia);
    DAT_EVD_HANDLE const requests = ia.create_evd(DAT_EVD_CR_FLAG);
    const DAT_CR_HANDLE request = request_connection(active, ia, requests);
    char answer[] = "answer";
    assert_success(dat().cr_accept_func(request, passive.handle, sizeof answer, answer));
    const DAT_EVENT event = wait_event(active.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
    const auto &data = event.event_data.connect_event_data;
    wait_event(passive.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
    rdma_cm_id *const active_id = get_fabric().cm_ids().front();
    get_fabric().queue_cm_event(active_id, RDMA_CM_EVENT_REJECTED, 28, {'r', 'e', 'j', 'e', 'c'});
    wait_event(active.connect_evd, DAT_CONNECTION_EVENT_BROKEN);
    assert_memory_equal(data.private_data, answer, sizeof answer);
    assert_success(dat().evd_free_func(requests));
}

/// Two EPs share a request EVD that has room for the completions of both, and both disconnect. If
/// the CQ cannot be enlarged, one of them has its marker after the other.
void markers_of_two_eps_do_not_overflow(void **) {
    constexpr DAT_COUNT num_requests = 7; ///< of each EP, and an unsignaled one
    for (const bool can_resize : {true, false}) {
        reset_fabric(nullptr);
        const DAT_EP_ATTR attr = rc_attr(num_requests + 1);
        ia_fixture ia;
        memory buffer(ia);
        DAT_LMR_TRIPLET iov = buffer.lmr_triplet(0, 64);
        DAT_EVD_HANDLE const shared =
            ia.create_evd(DAT_EVD_DTO_FLAG | DAT_EVD_RMR_BIND_FLAG, 2 * num_requests);
        ep_fixture eps[2] = {ep_fixture(ia, &attr), ep_fixture(ia, &attr)};
        ep_fixture peers[2] = {ep_fixture(ia, &attr), ep_fixture(ia, &attr)};
        for (int i = 0; i != 2; ++i) {
            assert_success(dat().ep_free_func(eps[i].handle));
            assert_success(dat().ep_create_func(ia.handle, ia.pz, eps[i].recv_evd, shared,
                                                eps[i].connect_evd, &attr, &eps[i].handle));
            connect(eps[i], peers[i]);
        }
        if (!can_resize)
            get_fabric().injected.fail_always("ibv_resize_cq", EOPNOTSUPP);
        get_fabric().hold_work_requests();
        for (int i = 0; i != 2; ++i) {
            for (DAT_COUNT j = 0; j <= num_requests; ++j) {
                assert_success(dat().ep_post_recv_func(peers[i].handle, 1, &iov, cookie(1),
                                                       DAT_COMPLETION_DEFAULT_FLAG));
                assert_success(dat().ep_post_send_func(eps[i].handle, 1, &iov, cookie(2),
                                                       j == num_requests
                                                           ? DAT_COMPLETION_SUPPRESS_FLAG
                                                           : DAT_COMPLETION_DEFAULT_FLAG));
            }
            assert_success(dat().ep_disconnect_func(eps[i].handle, DAT_CLOSE_GRACEFUL_FLAG));
            if (i == 0 || can_resize)
                wait_for_requests(qp_of(eps[i].handle), num_requests + 2);
        }
        get_fabric().release_work_requests();
        for (const ep_fixture &ep : eps)
            wait_event(ep.connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
        for (int i = 0; i != 2 * num_requests; ++i)
            assert_completion(shared, cookie(2), DAT_DTO_SUCCESS, 64);
        assert_no_event(ia.async_evd);
        get_fabric().injected.fail_none();
        for (const ep_fixture &ep : eps)
            assert_success(dat().ep_free_func(ep.handle));
        assert_success(dat().evd_free_func(shared));
        for (ep_fixture &ep : eps)
            assert_success(dat().ep_create_func(ia.handle, ia.pz, ep.recv_evd, ep.request_evd,
                                                ep.connect_evd, &attr, &ep.handle));
    }
}

/// The same if the consumer has the completion before rdma_cm reports the end.
void failed_request_of_orderly_disconnect_on_iwarp_is_not_broken(void **) {
    connected_eps eps("iwarp");
    get_fabric().hold_work_requests();
    get_fabric().hold_cm_events(RDMA_CM_EVENT_DISCONNECTED);
    assert_success(eps.post_send(64, cookie(1)));
    get_fabric().polls_before_flush = 1'000'000;
    assert_success(dat().ep_disconnect_func(eps.passive.handle, DAT_CLOSE_ABRUPT_FLAG));
    ibv_qp *const qp = qp_of(eps.active.handle);
    ibv_wc wc = {};
    wc.wr_id = last_request(qp).wr_id;
    wc.status = IBV_WC_LOC_QP_OP_ERR;
    wc.qp_num = qp->qp_num;
    get_fabric().add_completion(qp->send_cq, wc);
    assert_completion(eps.active.request_evd, cookie(1), DAT_DTO_ERR_LOCAL_EP);
    const DAT_UINT32 number = next_event(eps.active.connect_evd, 200'000);
    get_fabric().polls_before_flush = 0;
    get_fabric().release_cm_events(RDMA_CM_EVENT_DISCONNECTED);
    const DAT_UINT32 after = next_event(eps.active.connect_evd);
    assert_int_equal(number != 0 ? number : after, DAT_CONNECTION_EVENT_DISCONNECTED);
}

/// A receive of the passive side fails: its NAK is on the way to the peer, whose request fails by
/// it.
void fail_receive(const connected_eps &eps) {
    get_fabric().hold_work_requests();
    assert_success(eps.post_recv(64, cookie(1)));
    assert_success(eps.post_send(128, cookie(2)));
    ibv_qp *const qp = qp_of(eps.passive.handle);
    ibv_wc wc = {};
    {
        const library_call_guard call;
        for (const posted_wr &it : get_fabric().posts)
            if (it.is_recv && it.qp == qp)
                wc.wr_id = it.wr.wr_id;
    }
    wc.status = IBV_WC_LOC_LEN_ERR;
    wc.qp_num = qp->qp_num;
    get_fabric().add_completion(qp->recv_cq, wc);
    assert_completion(eps.passive.recv_evd, cookie(1), DAT_DTO_ERR_LOCAL_LENGTH);
    wait_event(eps.passive.connect_evd, DAT_CONNECTION_EVENT_BROKEN);
}

void dreq_waits_behind_nak_of_receive(void **) {
    get_fabric().ack_timeout = 17; // half a second
    connected_eps eps;
    fail_receive(eps);
    assert_int_equal(next_event(eps.active.connect_evd, 20'000), 0);
    wait_event(eps.active.connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
}

/// Some time, whatever DAPL_ACK_TIMER is: no ACK time-out, or one of hours.
void dreq_waits_some_time_behind_nak(void **) {
    for (const int ack_timeout : {0, 31}) {
        reset_fabric(nullptr);
        get_fabric().ack_timeout = static_cast<std::uint8_t>(ack_timeout);
        connected_eps eps;
        fail_receive(eps);
        assert_int_equal(next_event(eps.active.connect_evd, 20'000), 0);
        assert_int_equal(next_event(eps.active.connect_evd), DAT_CONNECTION_EVENT_DISCONNECTED);
    }
}

/// The consumer resets or frees the EP at once.
void dreq_waits_behind_nak_without_ep(void **) {
    for (const bool is_freed : {false, true}) {
        reset_fabric(nullptr);
        get_fabric().ack_timeout = 17;
        connected_eps eps;
        fail_receive(eps);
        assert_success(is_freed ? dat().ep_free_func(eps.passive.handle)
                                : dat().ep_reset_func(eps.passive.handle));
        const DAT_UINT32 early = next_event(eps.active.connect_evd, 20'000);
        if (is_freed)
            assert_success(dat().ep_create_func(eps.ia.handle, eps.ia.pz, eps.passive.recv_evd,
                                                eps.passive.request_evd, eps.passive.connect_evd,
                                                nullptr, &eps.passive.handle));
        assert_int_equal(early, 0);
        assert_int_equal(next_event(eps.active.connect_evd), DAT_CONNECTION_EVENT_DISCONNECTED);
    }
}

/// man dat_ep_reset: outstanding receives complete, also those of a QP that the kernel holds.
void receives_of_ended_attempt_flushed_by_reset(void **) {
    ia_fixture ia("iwarp");
    ep_fixture ep(ia);
    get_fabric().drop_connects = true;
    get_fabric().block_unanswered();
    for (std::uint64_t i = 0; i != 2; ++i)
        assert_success(
            dat().ep_post_recv_func(ep.handle, 0, nullptr, cookie(i), DAT_COMPLETION_DEFAULT_FLAG));
    connect_to_peer(ep);
    get_fabric().injected.fail_always("ibv_modify_qp", EINVAL); // the kernel refuses it
    assert_success(dat().ep_disconnect_func(ep.handle, DAT_CLOSE_ABRUPT_FLAG));
    wait_event(ep.connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
    const DAT_RETURN result = dat().ep_reset_func(ep.handle);
    get_fabric().injected.fail_none();
    DAT_EVENT event = {};
    std::uint64_t num_flushed = 0;
    while (dat().evd_dequeue_func(ep.recv_evd, &event) == DAT_SUCCESS) {
        const auto &data = event.event_data.dto_completion_event_data;
        assert_int_equal(data.user_cookie.as_64, num_flushed++);
        assert_int_equal(data.status, DAT_DTO_ERR_FLUSHED);
        assert_ptr_equal(data.ep_handle, ep.handle);
    }
    get_fabric().unblock_unanswered();
    wait_until([] { return get_fabric().num_unanswered_connects() == 0; });
    assert_success(result);
    assert_int_equal(num_flushed, 2);
    assert_int_equal(next_event(ep.recv_evd, 1000), 0);
}

} // namespace

int main(int argc, char **argv) {
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    const CMUnitTest tests[] = {
        TEST(full_request_evd_does_not_overflow),
        TEST(disconnect_takes_no_completion_of_other_ep),
        TEST(reset_during_disconnect_keeps_flushed_request),
        TEST(iwarp_disconnect_without_answer_ends),
        TEST(late_event_of_old_qp_has_no_effect),
        TEST(events_of_id_that_stays_have_no_effect),
        TEST(ep_freed_at_once_after_event_of_connecting_qp),
        TEST(orderly_disconnect_by_peer_on_iwarp_is_not_broken),
        TEST(disconnect_ends_if_qp_takes_no_request),
        TEST(connect_fails_beside_disconnect),
        TEST(disconnect_without_request_evd_ends),
        TEST(child_of_agent_closes_its_ia),
        TEST(ud_timeout_beside_failing_resolution),
        TEST(disconnected_after_completions_in_same_evd),
        TEST(graceful_disconnect_waits_for_read_on_iwarp),
        TEST(graceful_disconnect_waits_for_full_queue),
        TEST(disconnect_does_not_wait_for_other_ep),
        TEST(markers_of_two_eps_do_not_overflow),
        TEST(private_data_survive_late_reject),
        TEST(failed_request_of_orderly_disconnect_on_iwarp_is_not_broken),
        TEST(receives_of_ended_attempt_flushed_by_reset),
        TEST(dreq_waits_behind_nak_of_receive),
        TEST(dreq_waits_some_time_behind_nak),
        TEST(dreq_waits_behind_nak_without_ep),
    };
    return run_cases(tests);
}

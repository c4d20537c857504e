// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The counters of an IA, an EP and an EVD with COHERDMA_COUNTERS=1.

#include "fake/two_eps.hpp"

#include <cstdlib>
#include <dat2/dat_ib_extensions.h>

using namespace fake;

namespace {

/// counter: a DCNT_...
template <class counter_type>
DAT_UINT64 read_counter(DAT_HANDLE handle, counter_type counter, bool reset = false) {
    DAT_UINT64 value = ~DAT_UINT64{0};
    assert_success(dat_ib_query_counters(handle, static_cast<int>(counter), &value, reset ? 1 : 0));
    return value;
}

void ia_counts_created_and_freed_objects(void **) {
    ia_fixture ia;
    assert_int_equal(read_counter(ia.handle, DCNT_IA_PZ_CREATE), 1);
    assert_int_equal(read_counter(ia.handle, DCNT_IA_PZ_FREE), 0);
    {
        ep_fixture ep(ia);
        memory buffer(ia);
        assert_int_equal(read_counter(ia.handle, DCNT_IA_EVD_CREATE), 3);
        assert_int_equal(read_counter(ia.handle, DCNT_IA_EP_CREATE), 1);
        assert_int_equal(read_counter(ia.handle, DCNT_IA_LMR_CREATE), 1);
    }
    assert_int_equal(read_counter(ia.handle, DCNT_IA_EVD_FREE), 3);
    assert_int_equal(read_counter(ia.handle, DCNT_IA_EP_FREE), 1);
    assert_int_equal(read_counter(ia.handle, DCNT_IA_LMR_FREE), 1);
    DAT_RMR_HANDLE rmr;
    assert_success(dat().rmr_create_func(ia.pz, &rmr));
    assert_success(dat().rmr_free_func(rmr));
    assert_success(dat().srq_free_func(ia.create_srq()));
    for (const auto counter :
         {DCNT_IA_RMR_CREATE, DCNT_IA_RMR_FREE, DCNT_IA_SRQ_CREATE, DCNT_IA_SRQ_FREE})
        assert_int_equal(read_counter(ia.handle, counter), 1);
}

void failed_calls_are_not_counted(void **) {
    ia_fixture ia;
    DAT_RMR_HANDLE rmr;
    assert_success(dat().rmr_create_func(ia.pz, &rmr));
    assert_int_equal(dat().pz_free_func(ia.pz), invalid_state(DAT_INVALID_STATE_PZ_IN_USE));
    assert_int_equal(dat().rmr_create_func(ia.pz, nullptr), invalid_parameter(2));
    assert_int_equal(read_counter(ia.handle, DCNT_IA_PZ_FREE), 0);
    assert_int_equal(read_counter(ia.handle, DCNT_IA_RMR_CREATE), 1);
    assert_success(dat().rmr_free_func(rmr));
}

void service_points_are_counted(void **) {
    ia_fixture ia;
    const DAT_EVD_HANDLE requests = ia.create_evd(DAT_EVD_CR_FLAG);
    DAT_PSP_HANDLE psp, any_psp;
    DAT_CONN_QUAL qualifier;
    assert_success(dat().psp_create_func(ia.handle, 7000, requests, DAT_PSP_CONSUMER_FLAG, &psp));
    assert_success(dat().psp_create_any_func(ia.handle, &qualifier, requests, DAT_PSP_CONSUMER_FLAG,
                                             &any_psp));
    assert_int_equal(read_counter(ia.handle, DCNT_IA_PSP_CREATE), 1);
    assert_int_equal(read_counter(ia.handle, DCNT_IA_PSP_CREATE_ANY), 1);
    assert_int_equal(read_counter(ia.handle, DCNT_IA_CM_LISTEN), 2);
    assert_success(dat().psp_free_func(psp));
    assert_success(dat().psp_free_func(any_psp));
    assert_int_equal(read_counter(ia.handle, DCNT_IA_PSP_FREE), 2);
    assert_success(dat().evd_free_func(requests));
}

void connection_is_counted_on_both_sides(void **) {
    ia_fixture ia;
    ep_fixture active(ia), passive(ia);
    connect(active, passive);
    for (const auto counter :
         {DCNT_IA_SP_CR, DCNT_IA_SP_CR_ACCEPTED, DCNT_IA_CM_REQ_TX, DCNT_IA_CM_REQ_RX,
          DCNT_IA_CM_REP_TX, DCNT_IA_CM_REP_RX, DCNT_IA_CM_RTU_TX, DCNT_IA_CM_RTU_RX,
          DCNT_IA_CM_ACTIVE_EST, DCNT_IA_CM_PASSIVE_EST})
        assert_int_equal(read_counter(ia.handle, counter), 1);
    assert_int_equal(read_counter(active.handle, DCNT_EP_CONNECT), 1);
    assert_int_equal(read_counter(passive.handle, DCNT_EP_CONNECT), 0);
    disconnect(active, passive);
    assert_int_equal(read_counter(active.handle, DCNT_EP_DISCONNECT), 1);
    for (const auto counter : {DCNT_IA_CM_DREQ_TX, DCNT_IA_CM_DREQ_RX, DCNT_IA_CM_DREP_RX})
        assert_int_equal(read_counter(ia.handle, counter), 1);
    const DAT_EVD_HANDLE requests = ia.create_evd(DAT_EVD_CR_FLAG);
    ep_fixture rejected(ia);
    const DAT_CR_HANDLE cr = request_connection(rejected, ia, requests);
    assert_success(dat().cr_reject_func(cr, 0, nullptr));
    wait_event(rejected.connect_evd, DAT_CONNECTION_EVENT_PEER_REJECTED);
    for (const auto counter :
         {DCNT_IA_SP_CR_REJECTED, DCNT_IA_CM_USER_REJ_TX, DCNT_IA_CM_USER_REJ_RX})
        assert_int_equal(read_counter(ia.handle, counter), 1);
    rejected.free();
    assert_success(dat().evd_free_func(requests));
}

/// Each operation once, with distinct lengths; the last argument of read_counter() resets the
/// counter.
void ep_counts_posts_receives_and_their_bytes(void **) {
    connected_eps eps;
    const DAT_EP_HANDLE active = eps.active.handle, passive = eps.passive.handle;
    assert_success(eps.post_recv(300, cookie(1)));
    assert_success(eps.post_recv(300, cookie(2)));
    assert_success(eps.post_send(100, cookie(3)));
    DAT_LMR_TRIPLET iov = eps.active_memory.lmr_triplet(0, 40);
    const DAT_RMR_TRIPLET remote = eps.passive_memory.rmr_triplet(0, 40);
    assert_success(dat().ep_post_rdma_write_func(active, 1, &iov, cookie(4), &remote,
                                                 DAT_COMPLETION_DEFAULT_FLAG));
    assert_success(dat().ep_post_rdma_read_func(active, 1, &iov, cookie(5), &remote,
                                                DAT_COMPLETION_DEFAULT_FLAG));
    assert_success(dat_ib_post_rdma_write_immed(active, 1, &iov, cookie(6), &remote, 7,
                                                DAT_COMPLETION_DEFAULT_FLAG));
    iov.segment_length = 8;
    assert_success(dat_ib_post_fetch_and_add(active, 1, &iov, cookie(7), &remote,
                                             DAT_COMPLETION_DEFAULT_FLAG));
    assert_success(dat_ib_post_cmp_and_swap(active, 1, 2, &iov, cookie(8), &remote,
                                            DAT_COMPLETION_DEFAULT_FLAG));
    wait_event(eps.passive.recv_evd, DAT_DTO_COMPLETION_EVENT);
    wait_event(eps.passive.recv_evd, DAT_IB_DTO_EVENT);
    const struct {
        DAT_EP_HANDLE ep;
        int counter;
        DAT_UINT64 value;
    } expected[] = {
        {passive, DCNT_EP_POST_RECV, 2},     {passive, DCNT_EP_POST_RECV_DATA, 600},
        {passive, DCNT_EP_RECV, 1},          {passive, DCNT_EP_RECV_DATA, 100},
        {passive, DCNT_EP_RECV_RDMA_IMM, 1}, {passive, DCNT_EP_RECV_RDMA_IMM_DATA, 40},
        {active, DCNT_EP_POST_SEND, 1},      {active, DCNT_EP_POST_SEND_DATA, 100},
        {active, DCNT_EP_POST_WRITE, 1},     {active, DCNT_EP_POST_WRITE_DATA, 40},
        {active, DCNT_EP_POST_READ, 1},      {active, DCNT_EP_POST_READ_DATA, 40},
        {active, DCNT_EP_POST_WRITE_IMM, 1}, {active, DCNT_EP_POST_WRITE_IMM_DATA, 40},
        {active, DCNT_EP_POST_FETCH_ADD, 1}, {active, DCNT_EP_POST_CMP_SWAP, 1},
    };
    for (const auto &it : expected)
        assert_int_equal(read_counter(it.ep, it.counter), it.value);
    assert_int_equal(read_counter(active, DCNT_EP_POST_SEND, true), 1);
    assert_int_equal(read_counter(active, DCNT_EP_POST_SEND), 0);
}

void evd_counts_waits_and_dequeues(void **) {
    ia_fixture ia;
    const DAT_EVD_HANDLE evd = ia.create_evd(DAT_EVD_SOFTWARE_FLAG);
    DAT_EVENT event;
    assert_success(post_event(evd));
    assert_success(dat().evd_dequeue_func(evd, &event));
    assert_int_equal(DAT_GET_TYPE(dat().evd_dequeue_func(evd, &event)), DAT_QUEUE_EMPTY);
    assert_success(post_event(evd));
    wait_event(evd, DAT_SOFTWARE_EVENT);
    assert_int_equal(read_counter(evd, DCNT_EVD_DEQUEUE), 2);
    assert_int_equal(read_counter(evd, DCNT_EVD_DEQUEUE_FOUND), 1);
    assert_int_equal(read_counter(evd, DCNT_EVD_DEQUEUE_NOT_FOUND), 1);
    assert_int_equal(read_counter(evd, DCNT_EVD_WAIT), 1);
    assert_success(dat().evd_free_func(evd));
}

} // namespace

int main() {
    setenv("COHERDMA_COUNTERS", "1", 1);
    const CMUnitTest tests[] = {
        TEST(ia_counts_created_and_freed_objects),
        TEST(failed_calls_are_not_counted),
        TEST(service_points_are_counted),
        TEST(connection_is_counted_on_both_sides),
        TEST(ep_counts_posts_receives_and_their_bytes),
        TEST(evd_counts_waits_and_dequeues),
    };
    return run_cases(tests);
}

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Spurious CQEs: repeated, of requests that were not posted, late, or with wrong fields. The
// consumer gets one event for each request.

#include "fake/two_eps.hpp"

using namespace fake;

namespace {

constexpr DAT_COMPLETION_FLAGS default_flags = DAT_COMPLETION_DEFAULT_FLAG;

/// A CQE of the nth last posted work request; 0: the last.
ibv_wc make_cqe(std::size_t nth, ibv_wc_status status = IBV_WC_SUCCESS) {
    const posted_wr &posted = get_fabric().posts.at(get_fabric().posts.size() - 1 - nth);
    ibv_wc wc = {};
    wc.wr_id = posted.wr.wr_id;
    wc.status = status;
    wc.opcode = posted.is_recv ? IBV_WC_RECV : IBV_WC_SEND;
    wc.byte_len = 64;
    wc.qp_num = posted.qp != nullptr ? posted.qp->qp_num : 0;
    return wc;
}

/// Neither dat_evd_dequeue nor dat_evd_wait returns an event.
void assert_no_completion(DAT_EVD_HANDLE evd) {
    DAT_EVENT event;
    assert_int_equal(dat().evd_dequeue_func(evd, &event), DAT_QUEUE_EMPTY);
    assert_no_event(evd);
}

struct eps_fixture : connected_eps {
    using connected_eps::connected_eps;
    ibv_cq *request_cq() const { return qp_of(active.handle)->send_cq; }
    ibv_cq *recv_cq() const { return qp_of(passive.handle)->recv_cq; }
    DAT_RETURN post_write(DAT_DTO_COOKIE user_cookie,
                          DAT_COMPLETION_FLAGS flags = default_flags) const {
        DAT_LMR_TRIPLET iov = active_memory.lmr_triplet(0, 128);
        const DAT_RMR_TRIPLET remote = passive_memory.rmr_triplet(0, 128);
        return dat().ep_post_rdma_write_func(active.handle, 1, &iov, user_cookie, &remote, flags);
    }
    DAT_RETURN post_read(DAT_DTO_COOKIE user_cookie) const {
        DAT_LMR_TRIPLET iov = active_memory.lmr_triplet(0, 128);
        const DAT_RMR_TRIPLET remote = passive_memory.rmr_triplet(0, 128);
        return dat().ep_post_rdma_read_func(active.handle, 1, &iov, user_cookie, &remote,
                                            default_flags);
    }
    /// No request is outstanding, and the maximum number can be posted.
    void assert_all_slots_usable() const {
        DAT_BOOLEAN idle;
        assert_success(dat().ep_get_status_func(active.handle, nullptr, nullptr, &idle));
        assert_int_equal(idle, DAT_TRUE);
        assert_success(dat().ep_get_status_func(passive.handle, nullptr, &idle, nullptr));
        assert_int_equal(idle, DAT_TRUE);
        DAT_EP_PARAM param;
        assert_success(dat().ep_query_func(active.handle, DAT_EP_FIELD_ALL, &param));
        std::uint64_t count = 0;
        while (post_write(cookie(count), default_flags) == DAT_SUCCESS)
            ++count;
        assert_int_equal(count, param.ep_attr.max_request_dtos);
        for (std::uint64_t id = 0; id != count; ++id)
            assert_completion(active.request_evd, cookie(id), DAT_DTO_SUCCESS, 128);
        for (count = 0; post_recv(64, cookie(count)) == DAT_SUCCESS;)
            ++count;
        assert_int_equal(count, param.ep_attr.max_recv_dtos);
        for (std::uint64_t id = 0; id != count; ++id) {
            assert_success(post_send(64, cookie(id)));
            assert_completion(active.request_evd, cookie(id), DAT_DTO_SUCCESS, 64);
            assert_completion(passive.recv_evd, cookie(id), DAT_DTO_SUCCESS, 64);
        }
    }
};

void repeated_request_cqe_ignored(void **) {
    for (const char *ia_name : {"roce", "iwarp"}) {
        reset_fabric(nullptr);
        eps_fixture eps(ia_name);
        for (std::uint64_t id = 0; id != 100; ++id) {
            assert_success(id % 2 == 0 ? eps.post_read(cookie(id)) : eps.post_write(cookie(id)));
            const ibv_wc cqe = make_cqe(0);
            get_fabric().add_completion(eps.request_cq(), cqe); // before and
            assert_completion(eps.active.request_evd, cookie(id), DAT_DTO_SUCCESS, 128);
            get_fabric().add_completion(eps.request_cq(), cqe); // after the event is read
            if (id % 16 == 0)
                assert_no_completion(eps.active.request_evd);
        }
        assert_no_completion(eps.active.request_evd);
        eps.assert_all_slots_usable();
    }
}

/// The CQE of a request is repeated when its cookie is in use for a later request.
void late_repeated_cqe_ignored(void **) {
    eps_fixture eps;
    for (std::uint64_t id = 0; id != 40; ++id) {
        assert_success(eps.post_write(cookie(id)));
        assert_completion(eps.active.request_evd, cookie(id), DAT_DTO_SUCCESS, 128);
        // At most sixteen are outstanding.
        if (id >= 16)
            get_fabric().add_completion(eps.request_cq(), make_cqe(16));
    }
    assert_no_completion(eps.active.request_evd);
    eps.assert_all_slots_usable();
}

void repeated_recv_cqe_ignored(void **) {
    eps_fixture eps;
    for (std::uint64_t id = 0; id != 40; ++id) {
        assert_success(eps.post_recv(64, cookie(id)));
        const ibv_wc cqe = make_cqe(0);
        assert_success(eps.post_send(64, cookie(id)));
        get_fabric().add_completion(eps.recv_cq(), cqe);
        assert_completion(eps.active.request_evd, cookie(id), DAT_DTO_SUCCESS, 64);
        assert_completion(eps.passive.recv_evd, cookie(id), DAT_DTO_SUCCESS, 64);
        get_fabric().add_completion(eps.recv_cq(), cqe);
    }
    assert_no_completion(eps.passive.recv_evd);
    eps.assert_all_slots_usable();
}

/// The QP has failed, and the second of four requests is reported as flushed several times.
void repeated_error_cqe_ignored(void **) {
    eps_fixture eps;
    get_fabric().hold_work_requests();
    for (std::uint64_t id = 0; id != 4; ++id)
        assert_success(eps.post_read(cookie(id)));
    const ibv_wc second = make_cqe(2, IBV_WC_WR_FLUSH_ERR);
    get_fabric().fail_qp(qp_of(eps.active.handle));
    get_fabric().add_completion(eps.request_cq(), second);
    for (std::uint64_t id = 0; id != 4; ++id) {
        assert_completion(eps.active.request_evd, cookie(id), DAT_DTO_ERR_FLUSHED);
        get_fabric().add_completion(eps.request_cq(), second);
    }
    assert_no_completion(eps.active.request_evd);
    DAT_BOOLEAN idle;
    assert_success(dat().ep_get_status_func(eps.active.handle, nullptr, nullptr, &idle));
    assert_int_equal(idle, DAT_TRUE);
    get_fabric().release_work_requests();
    free_all(eps.ia, eps.active, eps.passive, eps.active_memory, eps.passive_memory);
}

/// With the wr_id of each other cookie, which are 64 bytes apart, and with none.
void cqe_of_unposted_request_ignored(void **) {
    eps_fixture eps;
    assert_success(eps.post_recv(64, cookie(1)));
    const ibv_wc receive = make_cqe(0);
    assert_success(eps.post_send(64, cookie(2)));
    const ibv_wc request = make_cqe(0);
    assert_completion(eps.active.request_evd, cookie(2), DAT_DTO_SUCCESS, 64);
    assert_completion(eps.passive.recv_evd, cookie(1), DAT_DTO_SUCCESS, 64);
    for (const ibv_wc_status status : {IBV_WC_SUCCESS, IBV_WC_WR_FLUSH_ERR, IBV_WC_REM_OP_ERR}) {
        const std::pair<ibv_cq *, ibv_wc> queues[] = {{eps.request_cq(), request},
                                                      {eps.recv_cq(), receive}};
        for (auto [cq, wc] : queues) {
            wc.status = status;
            for (int distance = 1; distance != 10; ++distance) { // not posted yet
                wc.wr_id += 64;
                get_fabric().add_completion(cq, wc);
            }
            wc.wr_id = 0;
            get_fabric().add_completion(cq, wc);
        }
    }
    assert_no_completion(eps.active.request_evd);
    assert_no_completion(eps.passive.recv_evd);
    eps.assert_all_slots_usable();
}

/// With the wr_id of the request that could not be posted, whose cookie is the next one.
void cqe_of_failed_post_ignored(void **) {
    eps_fixture eps;
    assert_success(eps.post_write(cookie(1)));
    assert_completion(eps.active.request_evd, cookie(1), DAT_DTO_SUCCESS, 128);
    ibv_wc wc = make_cqe(0);
    get_fabric().injected.fail("ibv_post_send", ENOMEM);
    assert_int_equal(eps.post_write(cookie(2)),
                     dat_error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY));
    get_fabric().injected.fail_none();
    wc.wr_id += 64;
    get_fabric().add_completion(eps.request_cq(), wc);
    assert_no_completion(eps.active.request_evd);
    eps.assert_all_slots_usable();
}

// siw completes later requests before the response of a Read arrives.
void cqe_before_earlier_read_accepted(void **) {
    eps_fixture eps;
    for (std::uint64_t i = 0; i != 40; ++i) {
        get_fabric().hold_work_requests();
        assert_success(eps.post_read(cookie(1)));
        const ibv_wc first = make_cqe(0);
        assert_success(eps.post_write(cookie(2)));
        get_fabric().add_completion(eps.request_cq(), make_cqe(0));
        assert_completion(eps.active.request_evd, cookie(2), DAT_DTO_SUCCESS, 128);
        get_fabric().add_completion(eps.request_cq(), first);
        assert_completion(eps.active.request_evd, cookie(1), DAT_DTO_SUCCESS, 128);
        get_fabric().release_work_requests(); // completes both again
        assert_no_completion(eps.active.request_evd);
    }
    eps.assert_all_slots_usable();
}

void cqe_with_wrong_opcode_keeps_posted_operation(void **) {
    eps_fixture eps;
    for (const ibv_wc_opcode opcode :
         {IBV_WC_RECV, IBV_WC_RECV_RDMA_WITH_IMM, IBV_WC_BIND_MW, static_cast<ibv_wc_opcode>(77)}) {
        get_fabric().hold_work_requests();
        assert_success(eps.post_write(cookie(1)));
        ibv_wc wc = make_cqe(0);
        wc.opcode = opcode;
        wc.wc_flags = IBV_WC_WITH_INV | IBV_WC_WITH_IMM;
        get_fabric().add_completion(eps.request_cq(), wc);
        const auto completion =
            assert_completion(eps.active.request_evd, cookie(1), DAT_DTO_SUCCESS, 128);
        assert_int_equal(completion.operation, DAT_DTO_RDMA_WRITE);
        get_fabric().release_work_requests();
        assert_success(eps.post_recv(64, cookie(2)));
        wc = make_cqe(0);
        wc.opcode = IBV_WC_SEND;
        get_fabric().add_completion(eps.recv_cq(), wc);
        assert_int_equal(
            assert_completion(eps.passive.recv_evd, cookie(2), DAT_DTO_SUCCESS, 64).operation,
            DAT_DTO_RECEIVE);
        assert_success(eps.post_send(64, cookie(3))); // consumes the receive
        assert_completion(eps.active.request_evd, cookie(3), DAT_DTO_SUCCESS, 64);
        assert_no_completion(eps.active.request_evd);
        assert_no_completion(eps.passive.recv_evd);
    }
    eps.assert_all_slots_usable();
}

/// Also after the receive's cookie was posted again, and with the number of an existing QP.
void repeated_srq_cqe_ignored(void **) {
    ia_fixture ia;
    DAT_SRQ_HANDLE const srq = ia.create_srq(4);
    ep_fixture ep(ia), peer_ep(ia, nullptr, srq);
    memory buffer(ia);
    DAT_LMR_TRIPLET iov = buffer.lmr_triplet(0, 64);
    connect(ep, peer_ep);
    const auto post = [&](std::uint64_t id) {
        return dat().srq_post_recv_func(srq, 1, &iov, cookie(id));
    };
    ibv_cq *const ibcq = qp_of(peer_ep.handle)->recv_cq;
    std::vector<ibv_wc> completion;
    const auto repeat_cqe = [&](std::size_t nth) {
        completion[nth].qp_num = qp_of(peer_ep.handle)->qp_num;
        get_fabric().add_completion(ibcq, completion[nth]);
    };
    for (std::uint64_t id = 0; id != 4; ++id) {
        assert_success(post(id));
        completion.push_back(make_cqe(0));
    }
    for (std::uint64_t id = 0; id != 40; ++id) {
        assert_success(dat().ep_post_send_func(ep.handle, 1, &iov, cookie(id), default_flags));
        assert_completion(ep.request_evd, cookie(id), DAT_DTO_SUCCESS, 64);
        repeat_cqe(id);
        assert_ptr_equal(
            assert_completion(peer_ep.recv_evd, cookie(id), DAT_DTO_SUCCESS, 64).ep_handle,
            peer_ep.handle);
        assert_success(post(id + 4));
        completion.push_back(make_cqe(0));
        repeat_cqe(id); // the cookie is posted again
        assert_no_completion(peer_ep.recv_evd);
        assert_int_equal(post(0), dat_error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY));
    }
    DAT_SRQ_PARAM param;
    assert_success(dat().srq_query_func(srq, DAT_SRQ_FIELD_ALL, &param));
    assert_int_equal(param.outstanding_dto_count, 4);
    disconnect(ep, peer_ep);
    ep.free();
    peer_ep.free();
    assert_success(dat().srq_free_func(srq));
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        TEST(repeated_request_cqe_ignored),     TEST(late_repeated_cqe_ignored),
        TEST(repeated_recv_cqe_ignored),        TEST(repeated_error_cqe_ignored),
        TEST(cqe_of_unposted_request_ignored),  TEST(cqe_of_failed_post_ignored),
        TEST(cqe_before_earlier_read_accepted), TEST(cqe_with_wrong_opcode_keeps_posted_operation),
        TEST(repeated_srq_cqe_ignored),
    };
    return run_cases(tests);
}

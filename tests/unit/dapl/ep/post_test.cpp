// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// DTOs: the data moved, the work requests passed to verbs, and the completions.

#include "fake/two_eps.hpp"

using namespace fake;

namespace {

constexpr DAT_COMPLETION_FLAGS default_flags = DAT_COMPLETION_DEFAULT_FLAG;

const ibv_send_wr &last_wr() {
    return get_fabric().posts.back().wr;
}

void send_delivers_data_unchanged(void **) {
    for (const char *ia_name : {"roce", "iwarp"})
        for (const DAT_SEG_LENGTH length : {0U, 1U, 64U, 65U, 4096U}) {
            reset_fabric(nullptr);
            connected_eps eps(ia_name);
            eps.active_memory.fill(length);
            assert_success(eps.post_recv(4096, cookie(1)));
            assert_success(eps.post_send(length, cookie(2)));
            const auto sent =
                assert_completion(eps.active.request_evd, cookie(2), DAT_DTO_SUCCESS, length);
            assert_int_equal(sent.operation, DAT_DTO_SEND);
            assert_ptr_equal(sent.ep_handle, eps.active.handle);
            const auto received =
                assert_completion(eps.passive.recv_evd, cookie(1), DAT_DTO_SUCCESS, length);
            assert_int_equal(received.operation, DAT_DTO_RECEIVE);
            assert_ptr_equal(received.ep_handle, eps.passive.handle);
            assert_memory_equal(eps.active_memory.bytes.data(), eps.passive_memory.bytes.data(),
                                length);
        }
}

/// The data of a Write of 1 to 64 bytes, the limit without a setting.
void short_requests_posted_inline(void **) {
    const struct {
        DAT_SEG_LENGTH length;
        bool is_inline;
    } lengths[] = {{1, true}, {64, true}, {65, false}, {0, false}};
    connected_eps eps;
    const DAT_RMR_TRIPLET remote = eps.passive_memory.rmr_triplet(0, 4096);
    for (const auto &it : lengths) {
        DAT_LMR_TRIPLET iov = eps.active_memory.lmr_triplet(0, it.length);
        assert_success(dat().ep_post_rdma_write_func(eps.active.handle, 1, &iov, cookie(1), &remote,
                                                     default_flags));
        assert_int_equal((last_wr().send_flags & IBV_SEND_INLINE) != 0, it.is_inline);
        assert_completion(eps.active.request_evd, cookie(1), DAT_DTO_SUCCESS, it.length);
        assert_success(dat().ep_post_rdma_read_func(eps.active.handle, 1, &iov, cookie(2), &remote,
                                                    default_flags));
        assert_int_equal(last_wr().send_flags & IBV_SEND_INLINE, 0); // a Read is never inline
        assert_completion(eps.active.request_evd, cookie(2), DAT_DTO_SUCCESS, it.length);
    }
}

void completion_flags_passed_to_verbs(void **) {
    const struct {
        DAT_COMPLETION_FLAGS flags;
        unsigned send_flags;
    } all_flags[] = {
        {DAT_COMPLETION_DEFAULT_FLAG, IBV_SEND_SIGNALED},
        {DAT_COMPLETION_SUPPRESS_FLAG, 0},
        {DAT_COMPLETION_SOLICITED_WAIT_FLAG, IBV_SEND_SIGNALED | IBV_SEND_SOLICITED},
        {DAT_COMPLETION_BARRIER_FENCE_FLAG, IBV_SEND_SIGNALED | IBV_SEND_FENCE},
        {DAT_COMPLETION_UNSIGNALLED_FLAG, IBV_SEND_SIGNALED},
    };
    connected_eps eps;
    for (const auto &it : all_flags) {
        assert_success(eps.post_recv(128, cookie(1)));
        assert_success(eps.post_send(128, cookie(2), it.flags));
        assert_int_equal(last_wr().send_flags, it.send_flags);
        if ((it.flags & DAT_COMPLETION_SUPPRESS_FLAG) == 0)
            assert_completion(eps.active.request_evd, cookie(2), DAT_DTO_SUCCESS, 128);
        assert_no_event(eps.active.request_evd);
        assert_completion(eps.passive.recv_evd, cookie(1), DAT_DTO_SUCCESS, 128);
    }
}

/// Three suppressed requests and one with a completion fill the SQ of four until that completion is
/// dequeued.
void suppressed_requests_retired_by_next_completion(void **) {
    DAT_EP_ATTR attr = {};
    attr.max_recv_dtos = attr.max_request_dtos = 4;
    attr.max_recv_iov = attr.max_request_iov = 1;
    connected_eps eps("roce", &attr);
    const DAT_RMR_TRIPLET remote = eps.passive_memory.rmr_triplet(0, 4096);
    DAT_LMR_TRIPLET iov = eps.active_memory.lmr_triplet(0, 128);
    for (std::uint64_t i = 0; i != 5; ++i) {
        for (int it = 0; it != 3; ++it)
            assert_success(dat().ep_post_rdma_write_func(eps.active.handle, 1, &iov, cookie(0),
                                                         &remote, DAT_COMPLETION_SUPPRESS_FLAG));
        assert_success(dat().ep_post_rdma_write_func(eps.active.handle, 1, &iov, cookie(i), &remote,
                                                     default_flags));
        assert_int_equal(dat().ep_post_rdma_write_func(eps.active.handle, 1, &iov, cookie(9),
                                                       &remote, default_flags),
                         dat_error(DAT_INSUFFICIENT_RESOURCES,
                                   DAT_RESOURCE_MEMORY)); // until the completion is dequeued
        assert_completion(eps.active.request_evd, cookie(i), DAT_DTO_SUCCESS, 128);
    }
}

void max_recv_dtos_can_be_posted(void **) {
    DAT_EP_ATTR attr = {};
    attr.max_recv_dtos = attr.max_request_dtos = 3;
    attr.max_recv_iov = attr.max_request_iov = 1;
    connected_eps eps("roce", &attr);
    for (std::uint64_t i = 0; i != 10; ++i) {
        while (eps.post_recv(64, cookie(i)) == DAT_SUCCESS) {
        }
        assert_int_equal(eps.post_recv(64, cookie(0)),
                         dat_error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY));
        assert_success(eps.post_send(64, cookie(i)));
        assert_completion(eps.active.request_evd, cookie(i), DAT_DTO_SUCCESS, 64);
        wait_event(eps.passive.recv_evd, DAT_DTO_COMPLETION_EVENT);
    }
}

void send_gathers_and_recv_scatters_segments(void **) {
    connected_eps eps;
    eps.active_memory.fill(9);
    DAT_LMR_TRIPLET send_iov[4], recv_iov[4];
    for (std::size_t i = 0; i != 4; ++i) {
        send_iov[i] = eps.active_memory.lmr_triplet(i * 1000, 100);
        recv_iov[i] = eps.passive_memory.lmr_triplet(i * 500, 100);
    }
    assert_success(
        dat().ep_post_recv_func(eps.passive.handle, 4, recv_iov, cookie(1), default_flags));
    assert_success(
        dat().ep_post_send_func(eps.active.handle, 4, send_iov, cookie(2), default_flags));
    assert_completion(eps.active.request_evd, cookie(2), DAT_DTO_SUCCESS, 400);
    assert_completion(eps.passive.recv_evd, cookie(1), DAT_DTO_SUCCESS, 400);
    for (std::size_t i = 0; i != 4; ++i)
        assert_memory_equal(eps.active_memory.bytes.data() + i * 1000,
                            eps.passive_memory.bytes.data() + i * 500, 100);
}

void post_without_segments_sends_empty_message(void **) {
    connected_eps eps;
    assert_success(
        dat().ep_post_recv_func(eps.passive.handle, 0, nullptr, cookie(1), default_flags));
    assert_success(
        dat().ep_post_send_func(eps.active.handle, 0, nullptr, cookie(2), default_flags));
    assert_completion(eps.active.request_evd, cookie(2), DAT_DTO_SUCCESS, 0);
    assert_completion(eps.passive.recv_evd, cookie(1), DAT_DTO_SUCCESS, 0);
}

void rdma_write_and_read_move_data(void **) {
    for (const char *ia_name : {"roce", "iwarp"}) {
        reset_fabric(nullptr);
        connected_eps eps(ia_name);
        eps.active_memory.fill(5);
        const DAT_RMR_TRIPLET remote = eps.passive_memory.rmr_triplet(100, 1000);
        DAT_LMR_TRIPLET write_iov = eps.active_memory.lmr_triplet(0, 1000),
                        read_iov = eps.active_memory.lmr_triplet(2000, 1000);
        assert_success(dat().ep_post_rdma_write_func(eps.active.handle, 1, &write_iov, cookie(1),
                                                     &remote, default_flags));
        const auto written =
            assert_completion(eps.active.request_evd, cookie(1), DAT_DTO_SUCCESS, 1000);
        assert_int_equal(written.operation, DAT_DTO_RDMA_WRITE);
        assert_memory_equal(eps.passive_memory.bytes.data() + 100, eps.active_memory.bytes.data(),
                            1000);
        assert_success(dat().ep_post_rdma_read_func(eps.active.handle, 1, &read_iov, cookie(2),
                                                    &remote, default_flags));
        const auto read =
            assert_completion(eps.active.request_evd, cookie(2), DAT_DTO_SUCCESS, 1000);
        assert_int_equal(read.operation, DAT_DTO_RDMA_READ);
        assert_memory_equal(eps.active_memory.bytes.data() + 2000, eps.active_memory.bytes.data(),
                            1000);
    }
}

void rdma_read_to_rmr_moves_data(void **) {
    connected_eps eps;
    eps.passive_memory.fill(8);
    const DAT_RMR_TRIPLET remote = eps.passive_memory.rmr_triplet(0, 512);
    const DAT_RMR_TRIPLET local = eps.active_memory.rmr_triplet(1024, 512);
    assert_success(dat().ep_post_rdma_read_to_rmr_func(eps.active.handle, &local, cookie(1),
                                                       &remote, default_flags));
    assert_completion(eps.active.request_evd, cookie(1), DAT_DTO_SUCCESS, 512);
    assert_memory_equal(eps.active_memory.bytes.data() + 1024, eps.passive_memory.bytes.data(),
                        512);
}

void send_with_invalidate_reports_rmr_context(void **) {
    connected_eps eps;
    DAT_RMR_HANDLE rmr;
    DAT_RMR_CONTEXT context = 0;
    assert_success(dat().rmr_create_func(eps.ia.pz, &rmr));
    const DAT_LMR_TRIPLET iov = eps.passive_memory.lmr_triplet(0, 64);
    assert_success(dat().rmr_bind_func(rmr, eps.passive_memory.lmr, &iov,
                                       DAT_MEM_PRIV_REMOTE_WRITE_FLAG, DAT_VA_TYPE_VA,
                                       eps.passive.handle, cookie(0), default_flags, &context));
    wait_event(eps.passive.request_evd, DAT_RMR_BIND_COMPLETION_EVENT);
    assert_success(eps.post_recv(64, cookie(1)));
    DAT_LMR_TRIPLET send_iov = eps.active_memory.lmr_triplet(0, 64);
    assert_success(dat().ep_post_send_with_invalidate_func(
        eps.active.handle, 1, &send_iov, cookie(2), default_flags, DAT_TRUE, context));
    assert_completion(eps.active.request_evd, cookie(2), DAT_DTO_SUCCESS, 64);
    const auto received = assert_completion(eps.passive.recv_evd, cookie(1), DAT_DTO_SUCCESS, 64);
    assert_int_equal(received.operation, DAT_DTO_RECEIVE_WITH_INVALIDATE);
    assert_int_equal(received.rmr_context, context);
    // Without the flag it is a plain Send.
    assert_success(eps.post_recv(64, cookie(3)));
    assert_success(dat().ep_post_send_with_invalidate_func(
        eps.active.handle, 1, &send_iov, cookie(4), default_flags, DAT_FALSE, context));
    assert_completion(eps.active.request_evd, cookie(4), DAT_DTO_SUCCESS, 64);
    assert_int_equal(
        assert_completion(eps.passive.recv_evd, cookie(3), DAT_DTO_SUCCESS, 64).operation,
        DAT_DTO_RECEIVE);
    assert_success(dat().rmr_free_func(rmr));
}

// -- failures

void assert_connection_broken(const connected_eps &eps, const ep_fixture &ep) {
    wait_event(ep.connect_evd, DAT_CONNECTION_EVENT_BROKEN);
    assert_true(wait_until([&] {
        return eps.active.state() == DAT_EP_STATE_DISCONNECTED &&
               eps.passive.state() == DAT_EP_STATE_DISCONNECTED;
    }));
}

void unknown_lmr_context_breaks_connection(void **) {
    connected_eps eps;
    DAT_LMR_TRIPLET iov = eps.active_memory.lmr_triplet(0, 128);
    iov.lmr_context = 0xdead;
    assert_success(dat().ep_post_send_func(eps.active.handle, 1, &iov, cookie(1), default_flags));
    assert_completion(eps.active.request_evd, cookie(1), DAT_DTO_ERR_LOCAL_PROTECTION);
    assert_connection_broken(eps, eps.active);
    assert_success(eps.post_send(128, cookie(2))); // flushed
    assert_completion(eps.active.request_evd, cookie(2), DAT_DTO_ERR_FLUSHED);
}

void write_without_remote_privilege_fails(void **) {
    connected_eps eps;
    memory readable(eps.ia, 64, DAT_MEM_PRIV_REMOTE_READ_FLAG);
    const DAT_RMR_TRIPLET remote = readable.rmr_triplet(0, 64);
    DAT_LMR_TRIPLET iov = eps.active_memory.lmr_triplet(0, 64);
    assert_success(dat().ep_post_rdma_write_func(eps.active.handle, 1, &iov, cookie(1), &remote,
                                                 default_flags));
    assert_completion(eps.active.request_evd, cookie(1), DAT_DTO_ERR_REMOTE_ACCESS);
    assert_connection_broken(eps, eps.active);
}

void message_longer_than_recv_fails_both_sides(void **) {
    connected_eps eps;
    assert_success(eps.post_recv(64, cookie(1)));
    assert_success(eps.post_send(128, cookie(2)));
    assert_completion(eps.passive.recv_evd, cookie(1), DAT_DTO_ERR_LOCAL_LENGTH);
    assert_completion(eps.active.request_evd, cookie(2), DAT_DTO_ERR_REMOTE_RESPONDER);
    assert_connection_broken(eps, eps.active);
}

void failed_posts_free_their_slots(void **) {
    connected_eps eps;
    for (int i = 0; i != 40; ++i) { // more than max_request_dtos
        get_fabric().injected.fail("ibv_post_send", ENOMEM);
        assert_int_equal(eps.post_send(64, cookie(1)),
                         dat_error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY));
        get_fabric().injected.fail("ibv_post_recv", ENOMEM);
        assert_int_equal(eps.post_recv(64, cookie(1)),
                         dat_error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY));
    }
    get_fabric().injected.fail_none();
    DAT_BOOLEAN receives, requests;
    assert_success(dat().ep_get_status_func(eps.active.handle, nullptr, &receives, &requests));
    assert_true(receives == DAT_TRUE && requests == DAT_TRUE);
    assert_success(eps.post_recv(64, cookie(5)));
    assert_success(eps.post_send(64, cookie(6)));
    assert_completion(eps.active.request_evd, cookie(6), DAT_DTO_SUCCESS, 64);
    assert_completion(eps.passive.recv_evd, cookie(5), DAT_DTO_SUCCESS, 64);
}

void recv_posted_before_connect_completes(void **) {
    ia_fixture ia;
    ep_fixture ep(ia), peer_ep(ia);
    memory buffer(ia);
    DAT_LMR_TRIPLET iov = buffer.lmr_triplet(0, 64);
    assert_success(dat().ep_post_recv_func(peer_ep.handle, 1, &iov, cookie(3), default_flags));
    connect(ep, peer_ep);
    assert_success(dat().ep_post_send_func(ep.handle, 1, &iov, cookie(4), default_flags));
    assert_completion(peer_ep.recv_evd, cookie(3), DAT_DTO_SUCCESS, 64);
    disconnect(ep, peer_ep);
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        TEST(send_delivers_data_unchanged),
        TEST(short_requests_posted_inline),
        TEST(completion_flags_passed_to_verbs),
        TEST(suppressed_requests_retired_by_next_completion),
        TEST(max_recv_dtos_can_be_posted),
        TEST(send_gathers_and_recv_scatters_segments),
        TEST(post_without_segments_sends_empty_message),
        TEST(rdma_write_and_read_move_data),
        TEST(rdma_read_to_rmr_moves_data),
        TEST(send_with_invalidate_reports_rmr_context),
        TEST(unknown_lmr_context_breaks_connection),
        TEST(write_without_remote_privilege_fails),
        TEST(message_longer_than_recv_fails_both_sides),
        TEST(failed_posts_free_their_slots),
        TEST(recv_posted_before_connect_completes),
    };
    return run_cases(tests);
}

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Posts of several segments.

#include "fake/two_eps.hpp"

using namespace fake;

namespace {

constexpr DAT_COMPLETION_FLAGS default_flags = DAT_COMPLETION_DEFAULT_FLAG;
constexpr DAT_RETURN no_memory = dat_error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY);

/// Connected EPs, and requests of two segments.
struct eps_fixture : connected_eps {
    using connected_eps::connected_eps;
    std::array<DAT_LMR_TRIPLET, 2> make_iov(DAT_SEG_LENGTH first, DAT_SEG_LENGTH second) const {
        return {active_memory.lmr_triplet(0, first), active_memory.lmr_triplet(1000, second)};
    }
    DAT_RETURN post_recv_two(DAT_DTO_COOKIE user_cookie) const {
        DAT_LMR_TRIPLET iov[] = {passive_memory.lmr_triplet(0, 100),
                                 passive_memory.lmr_triplet(2000, 100)};
        return dat().ep_post_recv_func(passive.handle, 2, iov, user_cookie, default_flags);
    }
};

using post_function = DAT_RETURN(const eps_fixture &eps, DAT_LMR_TRIPLET *iov,
                                 DAT_DTO_COOKIE user_cookie, DAT_COMPLETION_FLAGS flags);

DAT_RETURN send(const eps_fixture &eps, DAT_LMR_TRIPLET *iov, DAT_DTO_COOKIE user_cookie,
                DAT_COMPLETION_FLAGS flags) {
    return dat().ep_post_send_func(eps.active.handle, 2, iov, user_cookie, flags);
}
DAT_RETURN send_with_invalidate(const eps_fixture &eps, DAT_LMR_TRIPLET *iov,
                                DAT_DTO_COOKIE user_cookie, DAT_COMPLETION_FLAGS flags) {
    return dat().ep_post_send_with_invalidate_func(eps.active.handle, 2, iov, user_cookie, flags,
                                                   DAT_TRUE, 77);
}
DAT_RETURN write(const eps_fixture &eps, DAT_LMR_TRIPLET *iov, DAT_DTO_COOKIE user_cookie,
                 DAT_COMPLETION_FLAGS flags) {
    const DAT_RMR_TRIPLET remote = eps.passive_memory.rmr_triplet(0, 4096);
    return dat().ep_post_rdma_write_func(eps.active.handle, 2, iov, user_cookie, &remote, flags);
}
DAT_RETURN read(const eps_fixture &eps, DAT_LMR_TRIPLET *iov, DAT_DTO_COOKIE user_cookie,
                DAT_COMPLETION_FLAGS flags) {
    const DAT_RMR_TRIPLET remote = eps.passive_memory.rmr_triplet(0, 4096);
    return dat().ep_post_rdma_read_func(eps.active.handle, 2, iov, user_cookie, &remote, flags);
}

constexpr struct {
    post_function *post;
    ibv_wr_opcode opcode;
    bool can_inline;
} operations[] = {{send, IBV_WR_SEND, true},
                  {send_with_invalidate, IBV_WR_SEND_WITH_INV, false},
                  {write, IBV_WR_RDMA_WRITE, true},
                  {read, IBV_WR_RDMA_READ, false}};

void posts_passed_to_verbs_unchanged(void **) {
    const struct {
        DAT_COMPLETION_FLAGS flags;
        unsigned send_flags;
    } all_flags[] = {
        {default_flags, IBV_SEND_SIGNALED},
        {DAT_COMPLETION_SUPPRESS_FLAG, 0},
        {DAT_COMPLETION_SOLICITED_WAIT_FLAG, IBV_SEND_SIGNALED | IBV_SEND_SOLICITED},
        {DAT_COMPLETION_BARRIER_FENCE_FLAG, IBV_SEND_SIGNALED | IBV_SEND_FENCE},
    };
    const struct {
        DAT_SEG_LENGTH length_a, length_b;
        unsigned inline_flag;
    } lengths[] = {{0, 0, 0}, {63, 1, IBV_SEND_INLINE}, {64, 1, 0}, {100, 100, 0}};
    for (const auto &[post, opcode, can_inline] : operations) {
        reset_fabric(nullptr);
        eps_fixture eps;
        get_fabric().hold_work_requests();
        for (const auto &[flags, send_flags] : all_flags)
            for (const auto &[length_a, length_b, inline_flag] : lengths) {
                auto iov = eps.make_iov(length_a, length_b);
                assert_success(post(eps, iov.data(), cookie(5), flags));
                const posted_wr &posted = get_fabric().posts.back();
                assert_int_equal(posted.wr.opcode, opcode);
                assert_int_equal(posted.wr.num_sge, 2);
                assert_int_equal(posted.wr.send_flags, send_flags | (can_inline ? inline_flag : 0));
                assert_memory_equal(posted.sge_list.data(), iov.data(), sizeof iov);
                if (opcode == IBV_WR_SEND_WITH_INV)
                    assert_int_equal(posted.wr.invalidate_rkey, 77);
                if (opcode == IBV_WR_RDMA_WRITE || opcode == IBV_WR_RDMA_READ) {
                    assert_int_equal(posted.wr.wr.rdma.rkey, eps.passive_memory.rmr_context);
                    assert_int_equal(posted.wr.wr.rdma.remote_addr,
                                     eps.passive_memory.registered_address);
                }
            }
        eps.ia.close(); // with all its objects
    }
}

void multi_segment_write_and_read(void **) {
    eps_fixture eps;
    eps.active_memory.fill(1);
    eps.passive_memory.fill(2);
    auto iov = eps.make_iov(70, 30);
    assert_success(write(eps, iov.data(), cookie(1), default_flags));
    const auto written = assert_completion(eps.active.request_evd, cookie(1), DAT_DTO_SUCCESS, 100);
    assert_int_equal(written.operation, DAT_DTO_RDMA_WRITE);
    assert_memory_equal(eps.passive_memory.bytes.data(), eps.active_memory.bytes.data(), 70);
    assert_memory_equal(eps.passive_memory.bytes.data() + 70, eps.active_memory.bytes.data() + 1000,
                        30);
    eps.passive_memory.fill(3);
    assert_success(read(eps, iov.data(), cookie(2), default_flags));
    const auto received =
        assert_completion(eps.active.request_evd, cookie(2), DAT_DTO_SUCCESS, 100);
    assert_int_equal(received.operation, DAT_DTO_RDMA_READ);
    assert_memory_equal(eps.passive_memory.bytes.data(), eps.active_memory.bytes.data(), 70);
    assert_memory_equal(eps.passive_memory.bytes.data() + 70, eps.active_memory.bytes.data() + 1000,
                        30);
}

/// For each operation, posts until the queue is full, while the device completes nothing.
void max_dtos_can_be_posted(void **) {
    DAT_EP_ATTR attr = {};
    attr.max_recv_dtos = 3;
    attr.max_request_dtos = 4;
    attr.max_recv_iov = attr.max_request_iov = 2;
    for (const auto &operation : operations) {
        reset_fabric(nullptr);
        eps_fixture eps("roce", &attr);
        get_fabric().hold_work_requests();
        auto iov = eps.make_iov(10, 10);
        for (std::uint64_t id = 0; id != 4; ++id)
            assert_success(operation.post(eps, iov.data(), cookie(id), default_flags));
        assert_int_equal(operation.post(eps, iov.data(), cookie(9), default_flags), no_memory);
        for (std::uint64_t id = 0; id != 3; ++id)
            assert_success(eps.post_recv_two(cookie(id)));
        assert_int_equal(eps.post_recv_two(cookie(9)), no_memory);
        eps.ia.close();
    }
}

/// A post that verbs refuses leaves the queue as it was.
void failed_posts_free_their_slots(void **) {
    for (const auto &operation : operations) {
        reset_fabric(nullptr);
        eps_fixture eps;
        auto iov = eps.make_iov(10, 10);
        for (int i = 0; i != 40; ++i) { // more than max_request_dtos
            get_fabric().injected.fail("ibv_post_send", ENOMEM);
            assert_int_equal(operation.post(eps, iov.data(), cookie(1), default_flags), no_memory);
            get_fabric().injected.fail("ibv_post_recv", ENOMEM);
            assert_int_equal(eps.post_recv_two(cookie(1)), no_memory);
        }
        get_fabric().injected.fail_none();
        assert_success(eps.post_recv_two(cookie(3)));
        assert_success(send(eps, iov.data(), cookie(4), default_flags));
        assert_completion(eps.active.request_evd, cookie(4), DAT_DTO_SUCCESS, 20);
        assert_completion(eps.passive.recv_evd, cookie(3), DAT_DTO_SUCCESS, 20);
    }
}

void recv_post_without_queue_rejected(void **) {
    ia_fixture ia;
    DAT_SRQ_HANDLE const srq = ia.create_srq(4);
    ep_fixture srq_ep(ia, nullptr, srq);
    memory buffer(ia);
    DAT_LMR_TRIPLET iov[5];
    for (std::size_t i = 0; i != 5; ++i)
        iov[i] = buffer.lmr_triplet(100 * i, 10);
    // Valid and invalid numbers of segments.
    for (const DAT_COUNT segments : {0, 1, 2, 5})
        assert_int_equal(
            dat().ep_post_recv_func(srq_ep.handle, segments, iov, cookie(1), default_flags),
            invalid_state(DAT_INVALID_STATE_SRQ_IN_USE));
    ep_fixture ep(ia);
    DAT_EP_HANDLE ep_without_qp;
    assert_success(dat().ep_create_func(ia.handle, DAT_HANDLE_NULL, ep.recv_evd, ep.request_evd,
                                        ep.connect_evd, nullptr, &ep_without_qp));
    for (const DAT_COUNT segments : {0, 1, 2})
        assert_int_equal(
            dat().ep_post_recv_func(ep_without_qp, segments, iov, cookie(1), default_flags),
            invalid_state(DAT_INVALID_STATE_EP_UNCONFIGURED));
    assert_success(dat().ep_free_func(ep_without_qp));
    ep.free();
    srq_ep.free();
    assert_success(dat().srq_free_func(srq));
}

void send_with_invalidate_needs_device_support(void **) {
    for (const char *ia_name : {"roce", "iwarp"}) {
        reset_fabric(nullptr);
        for (fake_device &dev : get_fabric().devices)
            dev.attr.device_cap_flags &= ~unsigned{IBV_DEVICE_MEM_MGT_EXTENSIONS};
        eps_fixture eps(ia_name);
        get_fabric().hold_work_requests();
        auto iov = eps.make_iov(10, 10);
        // Every iWARP device supports it.
        assert_int_equal(send_with_invalidate(eps, iov.data(), cookie(1), default_flags),
                         ia_name[1] == 'w' ? DAT_RETURN{DAT_SUCCESS}
                                           : dat_error(DAT_MODEL_NOT_SUPPORTED));
        assert_int_equal(dat().ep_post_send_with_invalidate_func(eps.active.request_evd, 2,
                                                                 iov.data(), cookie(1),
                                                                 default_flags, DAT_TRUE, 77),
                         invalid_handle(DAT_INVALID_HANDLE_EP));
        eps.ia.close();
    }
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        TEST(posts_passed_to_verbs_unchanged),  TEST(multi_segment_write_and_read),
        TEST(max_dtos_can_be_posted),           TEST(failed_posts_free_their_slots),
        TEST(recv_post_without_queue_rejected), TEST(send_with_invalidate_needs_device_support),
    };
    return run_cases(tests);
}

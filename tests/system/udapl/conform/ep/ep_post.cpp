// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Endpoints: posting to them, wrongly, early, late and too much.

#include "lib/cases.hpp"
#include "lib/test_ep.hpp"

#include <array>

namespace conform {

namespace {

constexpr DAT_COMPLETION_FLAGS no_flag = DAT_COMPLETION_DEFAULT_FLAG;

/// The calls that take an iov, as one signature.
using post_function = DAT_RETURN (*)(DAT_EP_HANDLE, DAT_COUNT, DAT_LMR_TRIPLET *,
                                     const DAT_RMR_TRIPLET *, DAT_COMPLETION_FLAGS);
struct post_operation {
    const char *name;
    post_function post;
    bool has_remote;
};
constexpr std::array operations = {
    post_operation{"dat_ep_post_recv",
                   [](DAT_EP_HANDLE ep, DAT_COUNT count, DAT_LMR_TRIPLET *iov,
                      const DAT_RMR_TRIPLET *, DAT_COMPLETION_FLAGS flags) {
                       return dat_ep_post_recv(ep, count, iov, make_context(1), flags);
                   },
                   false},
    post_operation{"dat_ep_post_send",
                   [](DAT_EP_HANDLE ep, DAT_COUNT count, DAT_LMR_TRIPLET *iov,
                      const DAT_RMR_TRIPLET *, DAT_COMPLETION_FLAGS flags) {
                       return dat_ep_post_send(ep, count, iov, make_context(1), flags);
                   },
                   false},
    post_operation{"dat_ep_post_rdma_write",
                   [](DAT_EP_HANDLE ep, DAT_COUNT count, DAT_LMR_TRIPLET *iov,
                      const DAT_RMR_TRIPLET *remote, DAT_COMPLETION_FLAGS flags) {
                       return dat_ep_post_rdma_write(ep, count, iov, make_context(1), remote,
                                                     flags);
                   },
                   true},
    post_operation{"dat_ep_post_rdma_read",
                   [](DAT_EP_HANDLE ep, DAT_COUNT count, DAT_LMR_TRIPLET *iov,
                      const DAT_RMR_TRIPLET *remote, DAT_COMPLETION_FLAGS flags) {
                       return dat_ep_post_rdma_read(ep, count, iov, make_context(1), remote, flags);
                   },
                   true},
};

/// A connected pair, and what every operation may be given.
struct ep_post_fixture {
    ep_pair eps;
    std::array<DAT_LMR_TRIPLET, 64> iov{};
    DAT_RMR_TRIPLET remote{};

    ep_post_fixture() {
        eps.connect();
        iov.fill(eps.lmr.make_lmr_triplet(0, 8));
        remote = eps.lmr.make_rmr_triplet(page_size, 8 * iov.size());
    }
    /// Nothing was posted.
    void expect_no_completion(source_location loc = current_location()) const {
        expect_no_event(eps.active.request_evd, milliseconds(10), loc);
        expect_no_event(eps.active.recv_evd, milliseconds(10), loc);
    }
};

/// It is carried out as if they were not there.
void test_unknown_flags() {
    const ep_post_fixture fixture;
    const ep_pair &eps = fixture.eps;
    require_success(post_rdma_write(eps.active, eps.lmr.make_lmr_triplet(0, 8),
                                    eps.lmr.make_rmr_triplet(page_size, 8), 7,
                                    enum_cast<DAT_COMPLETION_FLAGS>(0x100)));
    expect_completion(eps.active.request_evd, eps.active, 7, 8);
}

void add_invalid_argument_cases(case_list &cases) {
    add_case(cases, "ep_post.segments_negative", [] {
        ep_post_fixture fixture;
        for (const post_operation &op : operations) {
            const scoped_trace trace(op.name);
            expect_return(
                op.post(fixture.eps.active, -1, fixture.iov.data(), &fixture.remote, no_flag),
                invalid_parameter(2));
        }
        fixture.expect_no_completion();
    });
    add_case(cases, "ep_post.segments_too_many", [] {
        ep_post_fixture fixture;
        const DAT_COUNT limit = fixture.eps.ia.ia_attr().max_iov_segments_per_dto;
        require(limit < 64, "the device takes more segments than this case has");
        for (const post_operation &op : operations) {
            const scoped_trace trace(op.name);
            expect_return(op.post(fixture.eps.active, limit + 1, fixture.iov.data(),
                                  &fixture.remote, no_flag),
                          invalid_parameter(2));
        }
        fixture.expect_no_completion();
    });
    add_case(cases, "ep_post.iov_null", [] {
        ep_post_fixture fixture;
        for (const post_operation &op : operations) {
            const scoped_trace trace(op.name);
            expect_return(op.post(fixture.eps.active, 1, nullptr, &fixture.remote, no_flag),
                          invalid_parameter(3));
        }
        fixture.expect_no_completion();
    });
    add_case(cases, "ep_post.flags_unknown", test_unknown_flags);
    add_case(cases, "ep_post.target_null", [] {
        ep_post_fixture fixture;
        for (const post_operation &op : operations)
            if (op.has_remote) {
                const scoped_trace trace(op.name);
                expect_return(op.post(fixture.eps.active, 1, fixture.iov.data(), nullptr, no_flag),
                              invalid_parameter(5));
            }
        fixture.expect_no_completion();
    });
}

void expect_requests_return(DAT_EP_HANDLE ep, ep_post_fixture &fixture,
                            std::initializer_list<DAT_RETURN> expected,
                            source_location loc = current_location()) {
    for (const post_operation &op : operations)
        if (op.post != operations[0].post) {
            const scoped_trace trace(op.name);
            expect_return(op.post(ep, 1, fixture.iov.data(), &fixture.remote, no_flag), expected,
                          loc);
        }
}

void add_state_cases(case_list &cases) {
    add_case(cases, "ep_post.unconnected", [] {
        ep_post_fixture fixture;
        const test_ep unconnected_ep(fixture.eps.ia, fixture.eps.pz);
        expect_requests_return(unconnected_ep, fixture,
                               {invalid_state(DAT_INVALID_STATE_EP_UNCONNECTED)});
        expect_no_event(unconnected_ep.request_evd);
    });
    add_case(cases, "ep_post.connecting", [] { // the peer has not answered yet
        ep_pair eps;
        require_success(eps.request_connection());
        const DAT_CR_HANDLE cr = eps.next_cr();
        for (const post_operation &op : operations)
            if (op.post != operations[0].post) {
                const scoped_trace trace(op.name);
                DAT_LMR_TRIPLET local = eps.lmr.make_lmr_triplet(0, 8);
                const DAT_RMR_TRIPLET remote = eps.lmr.make_rmr_triplet(page_size, 8);
                expect_return(op.post(eps.active, 1, &local, &remote, no_flag),
                              {invalid_state(DAT_INVALID_STATE_EP_UNCONNECTED),
                               invalid_state(DAT_INVALID_STATE_EP_ACTCONNPENDING)});
            }
        require_success(dat_cr_reject(cr, 0, nullptr));
        next_event(eps.active.connect_evd);
    });
    add_case(cases, "ep_post.disconnected", [] { // it completes, flushed
        ep_post_fixture fixture;
        fixture.eps.disconnect();
        expect_requests_return(fixture.eps.active, fixture, {DAT_SUCCESS});
        for (int i = 0; i < 3; ++i)
            expect_eq(next_completion(fixture.eps.active.request_evd).status, DAT_DTO_ERR_FLUSHED,
                      "the status");
        require_success(post_recv(fixture.eps.active, fixture.iov[0], 77));
        const auto dto = next_completion(fixture.eps.active.recv_evd);
        expect_eq(dto.status, DAT_DTO_ERR_FLUSHED, "the receive's status");
        expect_eq(dto.user_cookie.as_64, 77, "its cookie");
    });
    add_case(cases, "ep_post.receive_before_connect", [] {
        ep_pair eps;
        for (DAT_UINT64 i = 0; i < 4; ++i)
            require_success(post_recv(eps.passive, eps.lmr.make_lmr_triplet(page_size, 64), i));
        expect_no_event(eps.passive.recv_evd);
        eps.connect_without_messages();
        for (DAT_UINT64 i = 0; i < 4; ++i) {
            require_success(post_send(eps.active, eps.lmr.make_lmr_triplet(0, 64), i));
            expect_completion(eps.passive.recv_evd, eps.passive, i, 64);
            expect_completion(eps.active.request_evd, eps.active, i, 64);
        }
    });
    add_case(cases, "ep_post.receives_and_free", [] { // without a connection
        const test_ia ia;
        const unique_pz pz = ia.create_pz();
        const test_lmr lmr(ia, pz, page_size);
        test_ep ep(ia, pz);
        for (DAT_UINT64 i = 0; i < 4; ++i)
            require_success(post_recv(ep, lmr.make_lmr_triplet(0, 64), i));
        expect_return(ep.handle.free(), DAT_SUCCESS);
    });
}

constexpr DAT_UINT64 far_too_many = 5000; ///< more than any queue has

/// An EP takes at least 8 receives and requests, the limits of minimal_ep_attr, and then returns
/// INSUFFICIENT_RESOURCES.
void add_queue_full_cases(case_list &cases) {
    add_case(cases, "ep_post.receives_full", [] {
        const test_ia ia;
        const unique_pz pz = ia.create_pz();
        const test_lmr lmr(ia, pz, page_size);
        const DAT_EP_ATTR attr = minimal_ep_attr();
        const test_ep ep(ia, pz, &attr);
        DAT_UINT64 posted = 0;
        DAT_RETURN ret = DAT_SUCCESS;
        for (; ret == DAT_SUCCESS && posted < far_too_many; ++posted)
            ret = post_recv(ep, lmr.make_lmr_triplet(0, 8), posted);
        expect_true(posted > 8, concat(posted, " were taken, not 8"));
        expect_return(ret, insufficient_resources(DAT_RESOURCE_MEMORY));
    });
    add_case(cases, "ep_post.requests_full", [] {
        ep_pair eps;
        const DAT_EP_ATTR attr = minimal_ep_attr();
        eps.active = test_ep(eps.ia, eps.pz, &attr);
        eps.connect();
        const auto post = [&](DAT_UINT64 cookie) {
            return post_rdma_write(eps.active, eps.lmr.make_lmr_triplet(0, 8),
                                   eps.lmr.make_rmr_triplet(page_size, 8), cookie);
        };
        DAT_UINT64 posted = 0;
        DAT_RETURN ret = DAT_SUCCESS;
        for (; posted < far_too_many; ++posted) // their completions are not taken
            if ((ret = post(posted)) != DAT_SUCCESS)
                break;
        expect_true(posted >= 8, concat(posted, " were taken, not 8"));
        if (posted < far_too_many)
            expect_return(ret, insufficient_resources(DAT_RESOURCE_MEMORY));
        for (DAT_UINT64 i = 0; i < std::min<DAT_UINT64>(posted, 60); ++i)
            expect_completion(eps.active.request_evd, eps.active, i, 8);
        if (posted < 60) {
            require_success(post(1000)); // there is room again
            expect_completion(eps.active.request_evd, eps.active, 1000, 8);
        }
    });
}

void add_idle_cases(case_list &cases) {
    struct status {
        DAT_BOOLEAN recv_idle, request_idle;
    };
    static constexpr auto get_idle = [](DAT_EP_HANDLE ep) {
        DAT_EP_STATE state{};
        status status{};
        require_success(dat_ep_get_status(ep, &state, &status.recv_idle, &status.request_idle));
        return status;
    };
    add_case(cases, "ep_post.idle_at_first", [] {
        const test_ia ia;
        const unique_pz pz = ia.create_pz();
        const test_ep ep(ia, pz);
        expect_eq(get_idle(ep).recv_idle, DAT_TRUE, "recv_idle");
        expect_eq(get_idle(ep).request_idle, DAT_TRUE, "request_idle");
    });
    add_case(cases, "ep_post.not_idle_with_receives", [] {
        const test_ia ia;
        const unique_pz pz = ia.create_pz();
        const test_lmr lmr(ia, pz, page_size);
        const test_ep ep(ia, pz);
        for (DAT_UINT64 i = 0; i < 3; ++i)
            require_success(post_recv(ep, lmr.make_lmr_triplet(0, 8), i));
        expect_eq(get_idle(ep).recv_idle, DAT_FALSE, "recv_idle");
        expect_eq(get_idle(ep).request_idle, DAT_TRUE, "request_idle");
    });
    add_case(cases, "ep_post.idle_again", [] {
        ep_post_fixture fixture;
        ep_pair &eps = fixture.eps;
        require_success(post_recv(eps.passive, eps.lmr.make_lmr_triplet(page_size, 8), 1));
        expect_eq(get_idle(eps.passive).recv_idle, DAT_FALSE, "recv_idle before");
        require_success(post_send(eps.active, eps.lmr.make_lmr_triplet(0, 8), 2));
        expect_completion(eps.passive.recv_evd, eps.passive, 1, 8);
        expect_completion(eps.active.request_evd, eps.active, 2, 8);
        expect_eq(get_idle(eps.passive).recv_idle, DAT_TRUE, "recv_idle");
        expect_eq(get_idle(eps.active).request_idle, DAT_TRUE, "request_idle");
    });
    add_case(cases, "ep_post.not_idle_while_sending", [] {
        ep_post_fixture fixture;
        ep_pair &eps = fixture.eps;
        if (eps.ia.is_iwarp())
            throw case_skipped{"iWARP knows no receiver that is not ready"};
        require_success(post_send(eps.active, eps.lmr.make_lmr_triplet(0, 8), 2));
        expect_eq(get_idle(eps.active).request_idle, DAT_FALSE, "request_idle");
        require_success(post_recv(eps.passive, eps.lmr.make_lmr_triplet(page_size, 8), 1));
        expect_completion(eps.active.request_evd, eps.active, 2, 8);
        expect_eq(get_idle(eps.active).request_idle, DAT_TRUE, "request_idle after");
    });
}

void add_optional_call_cases(case_list &cases) {
    add_case(cases, "ep_post.recv_query", [] {
        ep_post_fixture fixture;
        DAT_COUNT nbufs = -77, alloc_span = -77;
        for (DAT_UINT64 i = 0; i < 3; ++i)
            require_success(post_recv(fixture.eps.passive, fixture.iov[0], i));
        const DAT_RETURN ret = dat_ep_recv_query(fixture.eps.passive, &nbufs, &alloc_span);
        if (fixture.eps.ia.provider_attr().ep_recv_info_supported == 0) {
            expect_return(ret, {not_supported, dat_error(DAT_NOT_IMPLEMENTED)});
            return;
        }
        require_success(ret);
        expect_true(nbufs == 3 || nbufs == DAT_VALUE_UNKNOWN,
                    concat("nbufs_allocated is ", nbufs, ", not 3"));
        expect_true(alloc_span >= nbufs || alloc_span == DAT_VALUE_UNKNOWN,
                    concat("bufs_alloc_span is ", alloc_span));
    });
    add_case(cases, "ep_post.set_watermark", [] { // without an SRQ there is nothing to watch
        const test_ia ia;
        const unique_pz pz = ia.create_pz();
        const test_ep ep(ia, pz);
        expect_return(dat_ep_set_watermark(ep, 2, 4),
                      {DAT_SUCCESS, not_supported, dat_error(DAT_NOT_IMPLEMENTED),
                       invalid_handle(DAT_INVALID_HANDLE_SRQ),
                       invalid_state(DAT_INVALID_STATE_EP_RECV_WATERMARK)});
        expect_return(dat_ep_set_watermark(ep, -7, 4),
                      {invalid_parameter(2), not_supported, dat_error(DAT_NOT_IMPLEMENTED)});
    });
}

} // namespace

void add_ep_post(case_list &cases) {
    add_invalid_argument_cases(cases);
    add_state_cases(cases);
    add_queue_full_cases(cases);
    add_idle_cases(cases);
    add_optional_call_cases(cases);
}

} // namespace conform

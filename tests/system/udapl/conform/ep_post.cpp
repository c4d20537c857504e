// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Endpoints: posting to them, wrongly, early, late and too much.

#include "cases.hpp"
#include "test_ep.hpp"

#include <array>

namespace conform {

namespace {

constexpr DAT_COMPLETION_FLAGS no_flag = DAT_COMPLETION_DEFAULT_FLAG;

/// The calls that take an iov, as one signature.
using poster = DAT_RETURN (*)(DAT_EP_HANDLE, DAT_COUNT, DAT_LMR_TRIPLET *, const DAT_RMR_TRIPLET *,
                              DAT_COMPLETION_FLAGS);
struct operation {
    const char *name;
    poster post;
    bool remote;
};
constexpr std::array operations = {
    operation{"dat_ep_post_recv",
              [](DAT_EP_HANDLE to, DAT_COUNT count, DAT_LMR_TRIPLET *iov, const DAT_RMR_TRIPLET *,
                 DAT_COMPLETION_FLAGS flags) {
                  return dat_ep_post_recv(to, count, iov, make_context(1), flags);
              },
              false},
    operation{"dat_ep_post_send",
              [](DAT_EP_HANDLE to, DAT_COUNT count, DAT_LMR_TRIPLET *iov, const DAT_RMR_TRIPLET *,
                 DAT_COMPLETION_FLAGS flags) {
                  return dat_ep_post_send(to, count, iov, make_context(1), flags);
              },
              false},
    operation{"dat_ep_post_rdma_write",
              [](DAT_EP_HANDLE to, DAT_COUNT count, DAT_LMR_TRIPLET *iov,
                 const DAT_RMR_TRIPLET *target, DAT_COMPLETION_FLAGS flags) {
                  return dat_ep_post_rdma_write(to, count, iov, make_context(1), target, flags);
              },
              true},
    operation{"dat_ep_post_rdma_read",
              [](DAT_EP_HANDLE to, DAT_COUNT count, DAT_LMR_TRIPLET *iov,
                 const DAT_RMR_TRIPLET *target, DAT_COMPLETION_FLAGS flags) {
                  return dat_ep_post_rdma_read(to, count, iov, make_context(1), target, flags);
              },
              true},
};

/// A connected pair, and what every operation may be given.
struct ep_post_fixture {
    ep_pair eps;
    std::array<DAT_LMR_TRIPLET, 64> iov{};
    DAT_RMR_TRIPLET target{};

    ep_post_fixture() {
        eps.connect();
        iov.fill(eps.lmr.lmr_triplet(0, 8));
        target = eps.lmr.rmr_triplet(page, 8 * iov.size());
    }
    /// Nothing was posted.
    void nothing_came(source_location loc = current_location()) const {
        expect_no_event(eps.active.request_evd, milliseconds(10), loc);
        expect_no_event(eps.active.recv_evd, milliseconds(10), loc);
    }
};

/// It is carried out as if they were not there.
void flags_unknown() {
    const ep_post_fixture fixture;
    const ep_pair &eps = fixture.eps;
    require_success(post_rdma_write(eps.active, eps.lmr.lmr_triplet(0, 8),
                                    eps.lmr.rmr_triplet(page, 8), 7,
                                    enum_cast<DAT_COMPLETION_FLAGS>(0x100)));
    expect_completion(eps.active.request_evd, eps.active, 7, 8);
}

void wrong_arguments(case_list &cases) {
    add_case(cases, "ep_post.segments_negative", [] {
        ep_post_fixture fixture;
        for (const operation &one : operations) {
            const scoped_trace which(one.name);
            expect_return(
                one.post(fixture.eps.active, -1, fixture.iov.data(), &fixture.target, no_flag),
                invalid_parameter(2));
        }
        fixture.nothing_came();
    });
    add_case(cases, "ep_post.segments_too_many", [] {
        ep_post_fixture fixture;
        const DAT_COUNT most = fixture.eps.ia.ia_attr().max_iov_segments_per_dto;
        require(most < 64, "the device takes more segments than this case has");
        for (const operation &one : operations) {
            const scoped_trace which(one.name);
            expect_return(one.post(fixture.eps.active, most + 1, fixture.iov.data(),
                                   &fixture.target, no_flag),
                          invalid_parameter(2));
        }
        fixture.nothing_came();
    });
    add_case(cases, "ep_post.iov_null", [] {
        ep_post_fixture fixture;
        for (const operation &one : operations) {
            const scoped_trace which(one.name);
            expect_return(one.post(fixture.eps.active, 1, nullptr, &fixture.target, no_flag),
                          invalid_parameter(3));
        }
        fixture.nothing_came();
    });
    add_case(cases, "ep_post.flags_unknown", flags_unknown);
    add_case(cases, "ep_post.target_null", [] {
        ep_post_fixture fixture;
        for (const operation &one : operations)
            if (one.remote) {
                const scoped_trace which(one.name);
                expect_return(one.post(fixture.eps.active, 1, fixture.iov.data(), nullptr, no_flag),
                              invalid_parameter(5));
            }
        fixture.nothing_came();
    });
}

void requests_in(DAT_EP_HANDLE one, ep_post_fixture &fixture,
                 std::initializer_list<DAT_RETURN> with, source_location loc = current_location()) {
    for (const operation &each : operations)
        if (each.post != operations[0].post) {
            const scoped_trace which(each.name);
            expect_return(each.post(one, 1, fixture.iov.data(), &fixture.target, no_flag), with,
                          loc);
        }
}

void states(case_list &cases) {
    add_case(cases, "ep_post.unconnected", [] {
        ep_post_fixture fixture;
        const test_ep fresh(fixture.eps.ia, fixture.eps.pz);
        requests_in(fresh, fixture, {invalid_state(DAT_INVALID_STATE_EP_UNCONNECTED)});
        expect_no_event(fresh.request_evd);
    });
    add_case(cases, "ep_post.connecting", [] { // the peer has not answered yet
        ep_pair eps;
        require_success(eps.request_connection());
        const DAT_CR_HANDLE request = eps.next_cr();
        for (const operation &each : operations)
            if (each.post != operations[0].post) {
                const scoped_trace which(each.name);
                DAT_LMR_TRIPLET piece = eps.lmr.lmr_triplet(0, 8);
                const DAT_RMR_TRIPLET target = eps.lmr.rmr_triplet(page, 8);
                expect_return(each.post(eps.active, 1, &piece, &target, no_flag),
                              {invalid_state(DAT_INVALID_STATE_EP_UNCONNECTED),
                               invalid_state(DAT_INVALID_STATE_EP_ACTCONNPENDING)});
            }
        require_success(dat_cr_reject(request, 0, nullptr));
        next_event(eps.active.connect_evd);
    });
    add_case(cases, "ep_post.disconnected", [] { // it completes, flushed
        ep_post_fixture fixture;
        fixture.eps.disconnect();
        requests_in(fixture.eps.active, fixture, {DAT_SUCCESS});
        for (int i = 0; i < 3; ++i)
            expect_eq(next_completion(fixture.eps.active.request_evd).status, DAT_DTO_ERR_FLUSHED,
                      "the status");
        require_success(post_recv(fixture.eps.active, fixture.iov[0], 77));
        const auto flushed = next_completion(fixture.eps.active.recv_evd);
        expect_eq(flushed.status, DAT_DTO_ERR_FLUSHED, "the receive's status");
        expect_eq(flushed.user_cookie.as_64, 77, "its cookie");
    });
    add_case(cases, "ep_post.receive_before_connect", [] {
        ep_pair eps;
        for (DAT_UINT64 i = 0; i < 4; ++i)
            require_success(post_recv(eps.passive, eps.lmr.lmr_triplet(page, 64), i));
        expect_no_event(eps.passive.recv_evd);
        eps.connect_without_messages();
        for (DAT_UINT64 i = 0; i < 4; ++i) {
            require_success(post_send(eps.active, eps.lmr.lmr_triplet(0, 64), i));
            expect_completion(eps.passive.recv_evd, eps.passive, i, 64);
            expect_completion(eps.active.request_evd, eps.active, i, 64);
        }
    });
    add_case(cases, "ep_post.receives_and_free", [] { // who never connects
        const test_ia ia;
        const unique_pz zone = ia.create_pz();
        const test_lmr memory(ia, zone, page);
        test_ep one(ia, zone);
        for (DAT_UINT64 i = 0; i < 4; ++i)
            require_success(post_recv(one, memory.lmr_triplet(0, 64), i));
        expect_return(one.ep.free(), DAT_SUCCESS);
    });
}

constexpr DAT_UINT64 far_too_many = 5000;

/// As many as it was made for, and then an error.
void full(case_list &cases) {
    add_case(cases, "ep_post.receives_full", [] {
        const test_ia ia;
        const unique_pz zone = ia.create_pz();
        const test_lmr memory(ia, zone, page);
        const DAT_EP_ATTR attributes = portable_ep_attr();
        const test_ep one(ia, zone, &attributes);
        DAT_UINT64 posted = 0;
        DAT_RETURN got = DAT_SUCCESS;
        for (; got == DAT_SUCCESS && posted < far_too_many; ++posted)
            got = post_recv(one, memory.lmr_triplet(0, 8), posted);
        expect_true(posted > 8, concat(posted, " were taken, not 8"));
        expect_return(got, insufficient_resources(DAT_RESOURCE_MEMORY));
    });
    add_case(cases, "ep_post.requests_full", [] {
        ep_pair eps;
        const DAT_EP_ATTR attributes = portable_ep_attr();
        eps.active = test_ep(eps.ia, eps.pz, &attributes);
        eps.connect();
        const auto post = [&](DAT_UINT64 cookie) {
            return post_rdma_write(eps.active, eps.lmr.lmr_triplet(0, 8),
                                   eps.lmr.rmr_triplet(page, 8), cookie);
        };
        DAT_UINT64 posted = 0;
        DAT_RETURN got = DAT_SUCCESS;
        for (; posted < far_too_many; ++posted) // their completions are not taken
            if ((got = post(posted)) != DAT_SUCCESS)
                break;
        expect_true(posted >= 8, concat(posted, " were taken, not 8"));
        if (posted < far_too_many)
            expect_return(got, insufficient_resources(DAT_RESOURCE_MEMORY));
        for (DAT_UINT64 i = 0; i < std::min<DAT_UINT64>(posted, 60); ++i)
            expect_completion(eps.active.request_evd, eps.active, i, 8);
        if (posted < 60) {
            require_success(post(1000)); // there is room again
            expect_completion(eps.active.request_evd, eps.active, 1000, 8);
        }
    });
}

void idle(case_list &cases) {
    struct status {
        DAT_BOOLEAN receives, requests;
    };
    static constexpr auto of = [](DAT_EP_HANDLE one) {
        DAT_EP_STATE state{};
        status is_now{};
        require_success(dat_ep_get_status(one, &state, &is_now.receives, &is_now.requests));
        return is_now;
    };
    add_case(cases, "ep_post.idle_at_first", [] {
        const test_ia ia;
        const unique_pz zone = ia.create_pz();
        const test_ep one(ia, zone);
        expect_eq(of(one).receives, DAT_TRUE, "recv_idle");
        expect_eq(of(one).requests, DAT_TRUE, "request_idle");
    });
    add_case(cases, "ep_post.not_idle_with_receives", [] {
        const test_ia ia;
        const unique_pz zone = ia.create_pz();
        const test_lmr memory(ia, zone, page);
        const test_ep one(ia, zone);
        for (DAT_UINT64 i = 0; i < 3; ++i)
            require_success(post_recv(one, memory.lmr_triplet(0, 8), i));
        expect_eq(of(one).receives, DAT_FALSE, "recv_idle");
        expect_eq(of(one).requests, DAT_TRUE, "request_idle");
    });
    add_case(cases, "ep_post.idle_again", [] {
        ep_post_fixture fixture;
        ep_pair &eps = fixture.eps;
        require_success(post_recv(eps.passive, eps.lmr.lmr_triplet(page, 8), 1));
        expect_eq(of(eps.passive).receives, DAT_FALSE, "recv_idle before");
        require_success(post_send(eps.active, eps.lmr.lmr_triplet(0, 8), 2));
        expect_completion(eps.passive.recv_evd, eps.passive, 1, 8);
        expect_completion(eps.active.request_evd, eps.active, 2, 8);
        expect_eq(of(eps.passive).receives, DAT_TRUE, "recv_idle");
        expect_eq(of(eps.active).requests, DAT_TRUE, "request_idle");
    });
    add_case(cases, "ep_post.not_idle_while_sending", [] {
        ep_post_fixture fixture;
        ep_pair &eps = fixture.eps;
        if (eps.ia.is_iwarp())
            throw case_skipped{"iWARP knows no receiver that is not ready"};
        require_success(post_send(eps.active, eps.lmr.lmr_triplet(0, 8), 2));
        expect_eq(of(eps.active).requests, DAT_FALSE, "request_idle");
        require_success(post_recv(eps.passive, eps.lmr.lmr_triplet(page, 8), 1));
        expect_completion(eps.active.request_evd, eps.active, 2, 8);
        expect_eq(of(eps.active).requests, DAT_TRUE, "request_idle after");
    });
}

void rare(case_list &cases) {
    add_case(cases, "ep_post.recv_query", [] {
        ep_post_fixture fixture;
        DAT_COUNT buffers = -77, span = -77;
        for (DAT_UINT64 i = 0; i < 3; ++i)
            require_success(post_recv(fixture.eps.passive, fixture.iov[0], i));
        const DAT_RETURN got = dat_ep_recv_query(fixture.eps.passive, &buffers, &span);
        if (fixture.eps.ia.provider_attr().ep_recv_info_supported == 0) {
            expect_return(got, {not_supported, dat_error(DAT_NOT_IMPLEMENTED)});
            return;
        }
        require_success(got);
        expect_true(buffers == 3 || buffers == DAT_VALUE_UNKNOWN,
                    concat("nbufs_allocated is ", buffers, ", not 3"));
        expect_true(span >= buffers || span == DAT_VALUE_UNKNOWN,
                    concat("bufs_alloc_span is ", span));
    });
    add_case(cases, "ep_post.set_watermark", [] { // without an SRQ there is nothing to watch
        const test_ia ia;
        const unique_pz zone = ia.create_pz();
        const test_ep one(ia, zone);
        expect_return(dat_ep_set_watermark(one, 2, 4),
                      {DAT_SUCCESS, not_supported, dat_error(DAT_NOT_IMPLEMENTED),
                       invalid_handle(DAT_INVALID_HANDLE_SRQ),
                       invalid_state(DAT_INVALID_STATE_EP_RECV_WATERMARK)});
        expect_return(dat_ep_set_watermark(one, -7, 4),
                      {invalid_parameter(2), not_supported, dat_error(DAT_NOT_IMPLEMENTED)});
    });
}

} // namespace

void add_ep_post(case_list &cases) {
    wrong_arguments(cases);
    states(cases);
    full(cases);
    idle(cases);
    rare(cases);
}

} // namespace conform

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Endpoints: posting to them, wrongly, early, late and too much.

#include "cases.hpp"
#include "endpoint.hpp"

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
struct place {
    couple pair;
    std::array<DAT_LMR_TRIPLET, 64> iov{};
    DAT_RMR_TRIPLET target{};

    place() {
        pair.join();
        iov.fill(pair.memory.piece(0, 8));
        target = pair.memory.target(page, 8 * iov.size());
    }
    /// Nothing was posted.
    void nothing_came(source_location loc = current_location()) const {
        no_event(pair.active.requested, milliseconds(10), loc);
        no_event(pair.active.received, milliseconds(10), loc);
    }
};

/// It is carried out as if they were not there.
void flags_unknown() {
    const place here_is;
    const couple &pair = here_is.pair;
    require_success(post_write(pair.active, pair.memory.piece(0, 8), pair.memory.target(page, 8), 7,
                               enum_cast<DAT_COMPLETION_FLAGS>(0x100)));
    completed(pair.active.requested, pair.active, 7, 8);
}

void wrong_arguments(case_list &cases) {
    add_case(cases, "ep_post.segments_negative", [] {
        place here_is;
        for (const operation &one : operations) {
            const scoped_trace which(one.name);
            expect_return(
                one.post(here_is.pair.active, -1, here_is.iov.data(), &here_is.target, no_flag),
                invalid_parameter(2));
        }
        here_is.nothing_came();
    });
    add_case(cases, "ep_post.segments_too_many", [] {
        place here_is;
        const DAT_COUNT most = here_is.pair.ia.attributes().max_iov_segments_per_dto;
        require(most < 64, "the device takes more segments than this case has");
        for (const operation &one : operations) {
            const scoped_trace which(one.name);
            expect_return(one.post(here_is.pair.active, most + 1, here_is.iov.data(),
                                   &here_is.target, no_flag),
                          invalid_parameter(2));
        }
        here_is.nothing_came();
    });
    add_case(cases, "ep_post.iov_null", [] {
        place here_is;
        for (const operation &one : operations) {
            const scoped_trace which(one.name);
            expect_return(one.post(here_is.pair.active, 1, nullptr, &here_is.target, no_flag),
                          invalid_parameter(3));
        }
        here_is.nothing_came();
    });
    add_case(cases, "ep_post.flags_unknown", flags_unknown);
    add_case(cases, "ep_post.target_null", [] {
        place here_is;
        for (const operation &one : operations)
            if (one.remote) {
                const scoped_trace which(one.name);
                expect_return(
                    one.post(here_is.pair.active, 1, here_is.iov.data(), nullptr, no_flag),
                    invalid_parameter(5));
            }
        here_is.nothing_came();
    });
}

void requests_in(DAT_EP_HANDLE one, place &here_is, std::initializer_list<DAT_RETURN> with,
                 source_location loc = current_location()) {
    for (const operation &each : operations)
        if (each.post != operations[0].post) {
            const scoped_trace which(each.name);
            expect_return(each.post(one, 1, here_is.iov.data(), &here_is.target, no_flag), with,
                          loc);
        }
}

void states(case_list &cases) {
    add_case(cases, "ep_post.unconnected", [] {
        place here_is;
        const endpoint fresh(here_is.pair.ia, here_is.pair.zone);
        requests_in(fresh, here_is, {invalid_state(DAT_INVALID_STATE_EP_UNCONNECTED)});
        no_event(fresh.requested);
    });
    add_case(cases, "ep_post.connecting", [] { // the peer has not answered yet
        couple pair;
        require_success(pair.call());
        const DAT_CR_HANDLE request = pair.request();
        for (const operation &each : operations)
            if (each.post != operations[0].post) {
                const scoped_trace which(each.name);
                DAT_LMR_TRIPLET piece = pair.memory.piece(0, 8);
                const DAT_RMR_TRIPLET target = pair.memory.target(page, 8);
                expect_return(each.post(pair.active, 1, &piece, &target, no_flag),
                              {invalid_state(DAT_INVALID_STATE_EP_UNCONNECTED),
                               invalid_state(DAT_INVALID_STATE_EP_ACTCONNPENDING)});
            }
        require_success(dat_cr_reject(request, 0, nullptr));
        next_event(pair.active.connection);
    });
    add_case(cases, "ep_post.disconnected", [] { // it completes, flushed
        place here_is;
        here_is.pair.part();
        requests_in(here_is.pair.active, here_is, {DAT_SUCCESS});
        for (int i = 0; i < 3; ++i)
            expect_eq(completion(here_is.pair.active.requested).status, DAT_DTO_ERR_FLUSHED,
                      "the status");
        require_success(post_receive(here_is.pair.active, here_is.iov[0], 77));
        const auto flushed = completion(here_is.pair.active.received);
        expect_eq(flushed.status, DAT_DTO_ERR_FLUSHED, "the receive's status");
        expect_eq(flushed.user_cookie.as_64, 77, "its cookie");
    });
    add_case(cases, "ep_post.receive_before_connect", [] {
        couple pair;
        for (DAT_UINT64 i = 0; i < 4; ++i)
            require_success(post_receive(pair.passive, pair.memory.piece(page, 64), i));
        no_event(pair.passive.received);
        pair.join_silently();
        for (DAT_UINT64 i = 0; i < 4; ++i) {
            require_success(post_send(pair.active, pair.memory.piece(0, 64), i));
            completed(pair.passive.received, pair.passive, i, 64);
            completed(pair.active.requested, pair.active, i, 64);
        }
    });
    add_case(cases, "ep_post.receives_and_free", [] { // who never connects
        const adapter ia;
        const unique_pz zone = ia.zone();
        const region memory(ia, zone, page);
        endpoint one(ia, zone);
        for (DAT_UINT64 i = 0; i < 4; ++i)
            require_success(post_receive(one, memory.piece(0, 64), i));
        expect_return(one.handle.free(), DAT_SUCCESS);
    });
}

constexpr DAT_UINT64 far_too_many = 5000;

/// As many as it was made for, and then an error.
void full(case_list &cases) {
    add_case(cases, "ep_post.receives_full", [] {
        const adapter ia;
        const unique_pz zone = ia.zone();
        const region memory(ia, zone, page);
        const DAT_EP_ATTR attributes = modest();
        const endpoint one(ia, zone, &attributes);
        DAT_UINT64 posted = 0;
        DAT_RETURN got = DAT_SUCCESS;
        for (; got == DAT_SUCCESS && posted < far_too_many; ++posted)
            got = post_receive(one, memory.piece(0, 8), posted);
        expect_true(posted > 8, concat(posted, " were taken, not 8"));
        expect_return(got, insufficient_resources(DAT_RESOURCE_MEMORY));
    });
    add_case(cases, "ep_post.requests_full", [] {
        couple pair;
        const DAT_EP_ATTR attributes = modest();
        pair.active = endpoint(pair.ia, pair.zone, &attributes);
        pair.join();
        const auto post = [&](DAT_UINT64 cookie) {
            return post_write(pair.active, pair.memory.piece(0, 8), pair.memory.target(page, 8),
                              cookie);
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
            completed(pair.active.requested, pair.active, i, 8);
        if (posted < 60) {
            require_success(post(1000)); // there is room again
            completed(pair.active.requested, pair.active, 1000, 8);
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
        const adapter ia;
        const unique_pz zone = ia.zone();
        const endpoint one(ia, zone);
        expect_eq(of(one).receives, DAT_TRUE, "recv_idle");
        expect_eq(of(one).requests, DAT_TRUE, "request_idle");
    });
    add_case(cases, "ep_post.not_idle_with_receives", [] {
        const adapter ia;
        const unique_pz zone = ia.zone();
        const region memory(ia, zone, page);
        const endpoint one(ia, zone);
        for (DAT_UINT64 i = 0; i < 3; ++i)
            require_success(post_receive(one, memory.piece(0, 8), i));
        expect_eq(of(one).receives, DAT_FALSE, "recv_idle");
        expect_eq(of(one).requests, DAT_TRUE, "request_idle");
    });
    add_case(cases, "ep_post.idle_again", [] {
        place here_is;
        couple &pair = here_is.pair;
        require_success(post_receive(pair.passive, pair.memory.piece(page, 8), 1));
        expect_eq(of(pair.passive).receives, DAT_FALSE, "recv_idle before");
        require_success(post_send(pair.active, pair.memory.piece(0, 8), 2));
        completed(pair.passive.received, pair.passive, 1, 8);
        completed(pair.active.requested, pair.active, 2, 8);
        expect_eq(of(pair.passive).receives, DAT_TRUE, "recv_idle");
        expect_eq(of(pair.active).requests, DAT_TRUE, "request_idle");
    });
    add_case(cases, "ep_post.not_idle_while_sending", [] {
        place here_is;
        couple &pair = here_is.pair;
        if (pair.ia.is_iwarp())
            throw case_skipped{"iWARP knows no receiver that is not ready"};
        require_success(post_send(pair.active, pair.memory.piece(0, 8), 2));
        expect_eq(of(pair.active).requests, DAT_FALSE, "request_idle");
        require_success(post_receive(pair.passive, pair.memory.piece(page, 8), 1));
        completed(pair.active.requested, pair.active, 2, 8);
        expect_eq(of(pair.active).requests, DAT_TRUE, "request_idle after");
    });
}

void rare(case_list &cases) {
    add_case(cases, "ep_post.recv_query", [] {
        place here_is;
        DAT_COUNT buffers = -77, span = -77;
        for (DAT_UINT64 i = 0; i < 3; ++i)
            require_success(post_receive(here_is.pair.passive, here_is.iov[0], i));
        const DAT_RETURN got = dat_ep_recv_query(here_is.pair.passive, &buffers, &span);
        if (here_is.pair.ia.provider().ep_recv_info_supported == 0) {
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
        const adapter ia;
        const unique_pz zone = ia.zone();
        const endpoint one(ia, zone);
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

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Data transfers that go wrong: who is told what, and that nothing was touched.

#include "cases.hpp"
#include "test_ep.hpp"

#include <algorithm>

namespace conform {

namespace {

constexpr std::size_t source = 0;
constexpr std::size_t target = ep_pair::size / 2;

/// A connected pair, of which the connection breaks.
struct dto_error_fixture {
    ep_pair eps;

    dto_error_fixture() {
        eps.connect();
        std::fill_n(eps.lmr.data() + target, 2 * page, std::byte{0x5e});
    }
    void untouched_target(source_location loc = current_location()) const {
        const std::byte *start = eps.lmr.data() + target;
        expect_true(std::all_of(start, start + 2 * page,
                                [](std::byte each) { return each == std::byte{0x5e}; }),
                    "the peer's memory was written", loc);
    }
    DAT_LMR_TRIPLET from(std::size_t length = 64) const {
        return eps.lmr.lmr_triplet(source, length);
    }

    /// The next completion of the active side's requests has one of these statuses.
    void fails(std::initializer_list<DAT_DTO_COMPLETION_STATUS> with,
               source_location loc = current_location()) const {
        const auto is_now = next_completion(eps.active.request_evd, loc);
        expect_true(std::find(with.begin(), with.end(), is_now.status) != with.end(),
                    "the status is " + to_string(is_now.status), loc);
        expect_eq(is_now.ep_handle, eps.active, "the EP", loc);
    }
    /// Both ends are free for something new.
    void over(source_location loc = current_location()) {
        for (test_ep *each : {&eps.active, &eps.passive}) {
            DAT_EP_STATE state = each->get_state(loc);
            if (state == DAT_EP_STATE_CONNECTED)
                require_success(dat_ep_disconnect(*each, DAT_CLOSE_ABRUPT_FLAG), loc);
        }
        for (test_ep *each : {&eps.active, &eps.passive}) {
            const DAT_EVENT_NUMBER told = next_event(each->connect_evd, loc).event_number;
            expect_true(told == DAT_CONNECTION_EVENT_DISCONNECTED ||
                            told == DAT_CONNECTION_EVENT_BROKEN,
                        "the event is " + to_string(told), loc);
            expect_no_event(each->connect_evd, milliseconds(50), loc);
            each->expect_state(DAT_EP_STATE_DISCONNECTED, loc);
        }
        for (test_ep *each : {&eps.active, &eps.passive}) {
            DAT_EVENT event{};
            while (dat_evd_dequeue(each->recv_evd, &event) == DAT_SUCCESS ||
                   dat_evd_dequeue(each->request_evd, &event) == DAT_SUCCESS)
                ;
            require_success(dat_ep_reset(*each), loc);
        }
        while (true) { // and what the asynchronous EVD may say of it
            DAT_EVENT event{};
            if (dat_evd_dequeue(eps.ia.async_evd(), &event) != DAT_SUCCESS)
                break;
        }
        eps.connect(loc);
    }
};

/// An RDMA Write and a Read to where they may not go.
void to_remote(DAT_RMR_TRIPLET there, dto_error_fixture &fixture, bool reads_too) {
    ep_pair &eps = fixture.eps;
    {
        const scoped_trace which("Write");
        require_success(post_rdma_write(eps.active, fixture.from(), there, 1));
        // iWARP does not acknowledge a Write.
        if (eps.ia.is_iwarp())
            fixture.fails({DAT_DTO_SUCCESS, DAT_DTO_ERR_REMOTE_ACCESS, DAT_DTO_ERR_FLUSHED});
        else
            fixture.fails({DAT_DTO_ERR_REMOTE_ACCESS});
        fixture.untouched_target();
        fixture.over();
    }
    if (!reads_too)
        return;
    const scoped_trace which("Read");
    require_success(post_rdma_read(eps.active, fixture.from(), there, 2));
    if (eps.ia.is_iwarp())
        fixture.fails(
            {DAT_DTO_ERR_REMOTE_ACCESS, DAT_DTO_ERR_REMOTE_RESPONDER, DAT_DTO_ERR_FLUSHED});
    else
        fixture.fails({DAT_DTO_ERR_REMOTE_ACCESS});
    fixture.over();
}

void remote(case_list &cases) {
    add_case(cases, "dto_error.rmr_context_unknown", [] {
        dto_error_fixture fixture;
        DAT_RMR_TRIPLET there = fixture.eps.lmr.rmr_triplet(target, 64);
        there.rmr_context ^= 0x5a5a5a00U;
        to_remote(there, fixture, true);
    });
    add_case(cases, "dto_error.remote_before", [] {
        dto_error_fixture fixture;
        DAT_RMR_TRIPLET there = fixture.eps.lmr.rmr_triplet(0, 64);
        there.virtual_address -= 8;
        to_remote(there, fixture, true);
    });
    add_case(cases, "dto_error.remote_behind", [] {
        dto_error_fixture fixture;
        to_remote(fixture.eps.lmr.rmr_triplet(ep_pair::size - 32, 64), fixture, true);
    });
    add_case(cases, "dto_error.remote_without_privilege", [] {
        dto_error_fixture fixture;
        const test_lmr local(fixture.eps.ia, fixture.eps.pz, page,
                             DAT_MEM_PRIV_LOCAL_READ_FLAG | DAT_MEM_PRIV_LOCAL_WRITE_FLAG);
        to_remote(local.rmr_triplet(0, 64), fixture, true);
    });
    add_case(cases, "dto_error.remote_read_only", [] {
        dto_error_fixture fixture;
        const test_lmr read_only(fixture.eps.ia, fixture.eps.pz, page,
                                 DAT_MEM_PRIV_LOCAL_READ_FLAG | DAT_MEM_PRIV_REMOTE_READ_FLAG);
        require_success(post_rdma_read(fixture.eps.active, fixture.eps.lmr.lmr_triplet(0, 64),
                                       read_only.rmr_triplet(0, 64), 5));
        expect_completion(fixture.eps.active.request_evd, fixture.eps.active, 5, 64);
        to_remote(read_only.rmr_triplet(0, 64), fixture, false);
    });
    add_case(cases, "dto_error.remote_freed", [] {
        dto_error_fixture fixture;
        test_lmr gone(fixture.eps.ia, fixture.eps.pz, page);
        const DAT_RMR_TRIPLET there = gone.rmr_triplet(0, 64);
        require_success(gone.free());
        to_remote(there, fixture, true);
    });
    add_case(cases, "dto_error.remote_of_another_zone", [] {
        dto_error_fixture fixture;
        const unique_pz zone = fixture.eps.ia.create_pz();
        const test_lmr other(fixture.eps.ia, zone, page);
        to_remote(other.rmr_triplet(0, 64), fixture, true);
    });
}

/// What is wrong with the local memory is said at once or with the completion.
void protected_locally(dto_error_fixture &fixture, DAT_RETURN got,
                       source_location loc = current_location()) {
    const DAT_RETURN type = DAT_GET_TYPE(got);
    if (got != DAT_SUCCESS) {
        expect_true((got & DAT_CLASS_ERROR) &&
                        (type == DAT_PROTECTION_VIOLATION || type == DAT_PRIVILEGES_VIOLATION),
                    "returned " + return_name(got), loc);
        return;
    }
    // siw's kernel and rxe's have words of their own for it.
    fixture.fails({DAT_DTO_ERR_LOCAL_PROTECTION, DAT_DTO_ERR_LOCAL_EP, DAT_DTO_ERR_FLUSHED}, loc);
    fixture.untouched_target(loc);
    fixture.over(loc);
}

void local(case_list &cases) {
    add_case(cases, "dto_error.lmr_context_unknown", [] {
        dto_error_fixture fixture;
        DAT_LMR_TRIPLET from = fixture.from(500); // too much to go inline
        from.lmr_context ^= 0x5a5a5a00U;
        protected_locally(fixture, post_rdma_write(fixture.eps.active, from,
                                                   fixture.eps.lmr.rmr_triplet(target, 500), 1));
    });
    add_case(cases, "dto_error.local_behind", [] {
        dto_error_fixture fixture;
        DAT_LMR_TRIPLET from = fixture.eps.lmr.lmr_triplet(ep_pair::size - 32, 500);
        protected_locally(fixture, post_rdma_write(fixture.eps.active, from,
                                                   fixture.eps.lmr.rmr_triplet(target, 500), 1));
    });
    add_case(cases, "dto_error.local_of_another_zone", [] {
        dto_error_fixture fixture;
        const unique_pz zone = fixture.eps.ia.create_pz();
        const test_lmr other(fixture.eps.ia, zone, page);
        protected_locally(fixture, post_rdma_write(fixture.eps.active, other.lmr_triplet(0, 500),
                                                   fixture.eps.lmr.rmr_triplet(target, 500), 1));
    });
    add_case(cases, "dto_error.local_freed", [] {
        dto_error_fixture fixture;
        test_lmr gone(fixture.eps.ia, fixture.eps.pz, page);
        const DAT_LMR_TRIPLET from = gone.lmr_triplet(0, 500);
        require_success(gone.free());
        protected_locally(fixture, post_rdma_write(fixture.eps.active, from,
                                                   fixture.eps.lmr.rmr_triplet(target, 500), 1));
    });
    add_case(cases, "dto_error.read_into_read_only", [] {
        dto_error_fixture fixture;
        const test_lmr read_only(fixture.eps.ia, fixture.eps.pz, page,
                                 DAT_MEM_PRIV_LOCAL_READ_FLAG);
        std::fill_n(read_only.data(), page, std::byte{0x5e});
        protected_locally(fixture, post_rdma_read(fixture.eps.active, read_only.lmr_triplet(0, 500),
                                                  fixture.eps.lmr.rmr_triplet(source, 500), 1));
        expect_true(std::all_of(read_only.data(), read_only.data() + page,
                                [](std::byte each) { return each == std::byte{0x5e}; }),
                    "it was written");
    });
}

void receiver(case_list &cases) {
    add_case(cases, "dto_error.receive_too_small", [] {
        dto_error_fixture fixture;
        ep_pair &eps = fixture.eps;
        require_success(post_recv(eps.passive, eps.lmr.lmr_triplet(target, 100), 1));
        require_success(post_send(eps.active, fixture.from(101), 2));
        const auto is_now = next_completion(eps.passive.recv_evd);
        // rxe's kernel has another word for it.
        expect_true(is_now.status == DAT_DTO_ERR_LOCAL_LENGTH ||
                        is_now.status == DAT_DTO_ERR_LOCAL_EP,
                    "the receiver's status is " + to_string(is_now.status));
        expect_eq(is_now.user_cookie.as_64, 1, "its cookie");
        const std::byte *behind = eps.lmr.data() + target + 100;
        expect_true(*behind == std::byte{0x5e}, "the byte behind was written");
        const auto sent = next_completion(eps.active.request_evd);
        // A Send of iWARP is done when it is on its way.
        expect_true(eps.ia.is_iwarp() || sent.status != DAT_DTO_SUCCESS,
                    "the sender is told of success");
        fixture.over();
    });
    add_case(cases, "dto_error.receive_read_only", [] {
        dto_error_fixture fixture;
        ep_pair &eps = fixture.eps;
        const test_lmr read_only(eps.ia, eps.pz, page, DAT_MEM_PRIV_LOCAL_READ_FLAG);
        const DAT_RETURN got = post_recv(eps.passive, read_only.lmr_triplet(0, 64), 1);
        if (got != DAT_SUCCESS) {
            expect_return(got, {dat_error(DAT_PRIVILEGES_VIOLATION, DAT_PRIVILEGES_WRITE),
                                dat_error(DAT_PROTECTION_VIOLATION, DAT_PROTECTION_WRITE)});
            return;
        }
        require_success(post_send(eps.active, fixture.from(), 2));
        const auto status = next_completion(eps.passive.recv_evd).status;
        expect_true(status != DAT_DTO_SUCCESS && status != DAT_DTO_ERR_FLUSHED,
                    "the receiver's status is " + to_string(status));
        expect_true(std::all_of(read_only.data(), read_only.data() + page,
                                [](std::byte each) { return each == std::byte{0}; }),
                    "it was written");
        fixture.over();
    });
    add_case(cases, "dto_error.suppressed_fails_aloud", [] {
        dto_error_fixture fixture;
        ep_pair &eps = fixture.eps;
        if (eps.ia.is_iwarp())
            throw case_skipped{"a Write of iWARP is done before it fails"};
        DAT_RMR_TRIPLET there = eps.lmr.rmr_triplet(target, 64);
        there.rmr_context ^= 0x5a5a5a00U;
        require_success(
            post_rdma_write(eps.active, fixture.from(), there, 42, DAT_COMPLETION_SUPPRESS_FLAG));
        const auto is_now = next_completion(eps.active.request_evd);
        expect_eq(is_now.status, DAT_DTO_ERR_REMOTE_ACCESS, "the status");
        expect_eq(is_now.user_cookie.as_64, 42, "the cookie");
        fixture.over();
    });
    add_case(cases, "dto_error.later_are_flushed", [] {
        dto_error_fixture fixture;
        ep_pair &eps = fixture.eps;
        DAT_RMR_TRIPLET there = eps.lmr.rmr_triplet(source, 64);
        there.rmr_context ^= 0x5a5a5a00U;
        require_success(post_rdma_read(eps.active, eps.lmr.lmr_triplet(page, 64), there, 0));
        for (DAT_UINT64 i = 1; i < 5; ++i) {
            const DAT_RETURN got = post_rdma_read(eps.active, eps.lmr.lmr_triplet(page, 64),
                                                  eps.lmr.rmr_triplet(source, 64), i,
                                                  DAT_COMPLETION_BARRIER_FENCE_FLAG);
            // It may be over by then.
            expect_return(got, DAT_SUCCESS);
        }
        expect_true(next_completion(eps.active.request_evd).status != DAT_DTO_SUCCESS,
                    "the first is said to be a success");
        for (DAT_UINT64 i = 1; i < 5; ++i) {
            // At times siw's kernel flushes a Read twice, but it is told once.
            const auto is_now = next_completion(eps.active.request_evd);
            expect_eq(is_now.status, DAT_DTO_ERR_FLUSHED, "the status");
            expect_eq(is_now.user_cookie.as_64, i, "the cookie");
        }
        fixture.over();
    });
}

} // namespace

void add_dto_error(case_list &cases) {
    remote(cases);
    local(cases);
    receiver(cases);
}

} // namespace conform

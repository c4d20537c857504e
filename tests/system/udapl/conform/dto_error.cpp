// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Data transfers that go wrong: who is told what, and that nothing was touched.

#include "cases.hpp"
#include "endpoint.hpp"

#include <algorithm>

namespace conform {

namespace {

constexpr std::size_t source = 0;
constexpr std::size_t target = couple::size / 2;

/// A connected pair, of which the connection breaks.
struct place {
    couple pair;

    place() {
        pair.join();
        std::fill_n(pair.memory.data() + target, 2 * page, std::byte{0x5e});
    }
    void untouched_target(source_location loc = current_location()) const {
        const std::byte *start = pair.memory.data() + target;
        expect_true(std::all_of(start, start + 2 * page,
                                [](std::byte each) { return each == std::byte{0x5e}; }),
                    "the peer's memory was written", loc);
    }
    DAT_LMR_TRIPLET from(std::size_t length = 64) const {
        return pair.memory.piece(source, length);
    }

    /// The next completion of the active side's requests has one of these statuses.
    void fails(std::initializer_list<DAT_DTO_COMPLETION_STATUS> with,
               source_location loc = current_location()) const {
        const auto is_now = completion(pair.active.requested, loc);
        expect_true(std::find(with.begin(), with.end(), is_now.status) != with.end(),
                    "the status is " + to_string(is_now.status), loc);
        expect_eq(is_now.ep_handle, pair.active, "the EP", loc);
    }
    /// Both ends are free for something new.
    void over(source_location loc = current_location()) {
        for (endpoint *each : {&pair.active, &pair.passive}) {
            DAT_EP_STATE state = each->state(loc);
            if (state == DAT_EP_STATE_CONNECTED)
                require_success(dat_ep_disconnect(*each, DAT_CLOSE_ABRUPT_FLAG), loc);
        }
        for (endpoint *each : {&pair.active, &pair.passive}) {
            const DAT_EVENT_NUMBER told = next_event(each->connection, loc).event_number;
            expect_true(told == DAT_CONNECTION_EVENT_DISCONNECTED ||
                            told == DAT_CONNECTION_EVENT_BROKEN,
                        "the event is " + to_string(told), loc);
            no_event(each->connection, milliseconds(50), loc);
            each->is_in(DAT_EP_STATE_DISCONNECTED, loc);
        }
        for (endpoint *each : {&pair.active, &pair.passive}) {
            DAT_EVENT event{};
            while (dat_evd_dequeue(each->received, &event) == DAT_SUCCESS ||
                   dat_evd_dequeue(each->requested, &event) == DAT_SUCCESS)
                ;
            require_success(dat_ep_reset(*each), loc);
        }
        while (true) { // and what the asynchronous EVD may say of it
            DAT_EVENT event{};
            if (dat_evd_dequeue(pair.ia.async(), &event) != DAT_SUCCESS)
                break;
        }
        pair.join(loc);
    }
};

/// An RDMA Write and a Read to where they may not go.
void to_remote(DAT_RMR_TRIPLET there, place &here_is, bool reads_too) {
    couple &pair = here_is.pair;
    {
        const scoped_trace which("Write");
        require_success(post_write(pair.active, here_is.from(), there, 1));
        // iWARP does not acknowledge a Write.
        if (pair.ia.is_iwarp())
            here_is.fails({DAT_DTO_SUCCESS, DAT_DTO_ERR_REMOTE_ACCESS, DAT_DTO_ERR_FLUSHED});
        else
            here_is.fails({DAT_DTO_ERR_REMOTE_ACCESS});
        here_is.untouched_target();
        here_is.over();
    }
    if (!reads_too)
        return;
    const scoped_trace which("Read");
    require_success(post_read(pair.active, here_is.from(), there, 2));
    if (pair.ia.is_iwarp())
        here_is.fails(
            {DAT_DTO_ERR_REMOTE_ACCESS, DAT_DTO_ERR_REMOTE_RESPONDER, DAT_DTO_ERR_FLUSHED});
    else
        here_is.fails({DAT_DTO_ERR_REMOTE_ACCESS});
    here_is.over();
}

void remote(case_list &cases) {
    add_case(cases, "dto_error.rmr_context_unknown", [] {
        place here_is;
        DAT_RMR_TRIPLET there = here_is.pair.memory.target(target, 64);
        there.rmr_context ^= 0x5a5a5a00U;
        to_remote(there, here_is, true);
    });
    add_case(cases, "dto_error.remote_before", [] {
        place here_is;
        DAT_RMR_TRIPLET there = here_is.pair.memory.target(0, 64);
        there.virtual_address -= 8;
        to_remote(there, here_is, true);
    });
    add_case(cases, "dto_error.remote_behind", [] {
        place here_is;
        to_remote(here_is.pair.memory.target(couple::size - 32, 64), here_is, true);
    });
    add_case(cases, "dto_error.remote_without_privilege", [] {
        place here_is;
        const region local(here_is.pair.ia, here_is.pair.zone, page,
                           DAT_MEM_PRIV_LOCAL_READ_FLAG | DAT_MEM_PRIV_LOCAL_WRITE_FLAG);
        to_remote(local.target(0, 64), here_is, true);
    });
    add_case(cases, "dto_error.remote_read_only", [] {
        place here_is;
        const region read_only(here_is.pair.ia, here_is.pair.zone, page,
                               DAT_MEM_PRIV_LOCAL_READ_FLAG | DAT_MEM_PRIV_REMOTE_READ_FLAG);
        require_success(post_read(here_is.pair.active, here_is.pair.memory.piece(0, 64),
                                  read_only.target(0, 64), 5));
        completed(here_is.pair.active.requested, here_is.pair.active, 5, 64);
        to_remote(read_only.target(0, 64), here_is, false);
    });
    add_case(cases, "dto_error.remote_freed", [] {
        place here_is;
        region gone(here_is.pair.ia, here_is.pair.zone, page);
        const DAT_RMR_TRIPLET there = gone.target(0, 64);
        require_success(gone.free());
        to_remote(there, here_is, true);
    });
    add_case(cases, "dto_error.remote_of_another_zone", [] {
        place here_is;
        const unique_pz zone = here_is.pair.ia.zone();
        const region other(here_is.pair.ia, zone, page);
        to_remote(other.target(0, 64), here_is, true);
    });
}

/// What is wrong with the local memory is said at once or with the completion.
void protected_locally(place &here_is, DAT_RETURN got, source_location loc = current_location()) {
    const DAT_RETURN type = DAT_GET_TYPE(got);
    if (got != DAT_SUCCESS) {
        expect_true((got & DAT_CLASS_ERROR) &&
                        (type == DAT_PROTECTION_VIOLATION || type == DAT_PRIVILEGES_VIOLATION),
                    "returned " + return_name(got), loc);
        return;
    }
    // siw's kernel and rxe's have words of their own for it.
    here_is.fails({DAT_DTO_ERR_LOCAL_PROTECTION, DAT_DTO_ERR_LOCAL_EP, DAT_DTO_ERR_FLUSHED}, loc);
    here_is.untouched_target(loc);
    here_is.over(loc);
}

void local(case_list &cases) {
    add_case(cases, "dto_error.lmr_context_unknown", [] {
        place here_is;
        DAT_LMR_TRIPLET from = here_is.from(500); // too much to go inline
        from.lmr_context ^= 0x5a5a5a00U;
        protected_locally(here_is, post_write(here_is.pair.active, from,
                                              here_is.pair.memory.target(target, 500), 1));
    });
    add_case(cases, "dto_error.local_behind", [] {
        place here_is;
        DAT_LMR_TRIPLET from = here_is.pair.memory.piece(couple::size - 32, 500);
        protected_locally(here_is, post_write(here_is.pair.active, from,
                                              here_is.pair.memory.target(target, 500), 1));
    });
    add_case(cases, "dto_error.local_of_another_zone", [] {
        place here_is;
        const unique_pz zone = here_is.pair.ia.zone();
        const region other(here_is.pair.ia, zone, page);
        protected_locally(here_is, post_write(here_is.pair.active, other.piece(0, 500),
                                              here_is.pair.memory.target(target, 500), 1));
    });
    add_case(cases, "dto_error.local_freed", [] {
        place here_is;
        region gone(here_is.pair.ia, here_is.pair.zone, page);
        const DAT_LMR_TRIPLET from = gone.piece(0, 500);
        require_success(gone.free());
        protected_locally(here_is, post_write(here_is.pair.active, from,
                                              here_is.pair.memory.target(target, 500), 1));
    });
    add_case(cases, "dto_error.read_into_read_only", [] {
        place here_is;
        const region read_only(here_is.pair.ia, here_is.pair.zone, page,
                               DAT_MEM_PRIV_LOCAL_READ_FLAG);
        std::fill_n(read_only.data(), page, std::byte{0x5e});
        protected_locally(here_is, post_read(here_is.pair.active, read_only.piece(0, 500),
                                             here_is.pair.memory.target(source, 500), 1));
        expect_true(std::all_of(read_only.data(), read_only.data() + page,
                                [](std::byte each) { return each == std::byte{0x5e}; }),
                    "it was written");
    });
}

void receiver(case_list &cases) {
    add_case(cases, "dto_error.receive_too_small", [] {
        place here_is;
        couple &pair = here_is.pair;
        require_success(post_receive(pair.passive, pair.memory.piece(target, 100), 1));
        require_success(post_send(pair.active, here_is.from(101), 2));
        const auto is_now = completion(pair.passive.received);
        // rxe's kernel has another word for it.
        expect_true(is_now.status == DAT_DTO_ERR_LOCAL_LENGTH ||
                        is_now.status == DAT_DTO_ERR_LOCAL_EP,
                    "the receiver's status is " + to_string(is_now.status));
        expect_eq(is_now.user_cookie.as_64, 1, "its cookie");
        const std::byte *behind = pair.memory.data() + target + 100;
        expect_true(*behind == std::byte{0x5e}, "the byte behind was written");
        const auto sent = completion(pair.active.requested);
        // A Send of iWARP is done when it is on its way.
        expect_true(pair.ia.is_iwarp() || sent.status != DAT_DTO_SUCCESS,
                    "the sender is told of success");
        here_is.over();
    });
    add_case(cases, "dto_error.receive_read_only", [] {
        place here_is;
        couple &pair = here_is.pair;
        const region read_only(pair.ia, pair.zone, page, DAT_MEM_PRIV_LOCAL_READ_FLAG);
        const DAT_RETURN got = post_receive(pair.passive, read_only.piece(0, 64), 1);
        if (got != DAT_SUCCESS) {
            expect_return(got, {dat_error(DAT_PRIVILEGES_VIOLATION, DAT_PRIVILEGES_WRITE),
                                dat_error(DAT_PROTECTION_VIOLATION, DAT_PROTECTION_WRITE)});
            return;
        }
        require_success(post_send(pair.active, here_is.from(), 2));
        const auto status = completion(pair.passive.received).status;
        expect_true(status != DAT_DTO_SUCCESS && status != DAT_DTO_ERR_FLUSHED,
                    "the receiver's status is " + to_string(status));
        expect_true(std::all_of(read_only.data(), read_only.data() + page,
                                [](std::byte each) { return each == std::byte{0}; }),
                    "it was written");
        here_is.over();
    });
    add_case(cases, "dto_error.suppressed_fails_aloud", [] {
        place here_is;
        couple &pair = here_is.pair;
        if (pair.ia.is_iwarp())
            throw case_skipped{"a Write of iWARP is done before it fails"};
        DAT_RMR_TRIPLET there = pair.memory.target(target, 64);
        there.rmr_context ^= 0x5a5a5a00U;
        require_success(
            post_write(pair.active, here_is.from(), there, 42, DAT_COMPLETION_SUPPRESS_FLAG));
        const auto is_now = completion(pair.active.requested);
        expect_eq(is_now.status, DAT_DTO_ERR_REMOTE_ACCESS, "the status");
        expect_eq(is_now.user_cookie.as_64, 42, "the cookie");
        here_is.over();
    });
    add_case(cases, "dto_error.later_are_flushed", [] {
        place here_is;
        couple &pair = here_is.pair;
        DAT_RMR_TRIPLET there = pair.memory.target(source, 64);
        there.rmr_context ^= 0x5a5a5a00U;
        require_success(post_read(pair.active, pair.memory.piece(page, 64), there, 0));
        for (DAT_UINT64 i = 1; i < 5; ++i) {
            const DAT_RETURN got =
                post_read(pair.active, pair.memory.piece(page, 64), pair.memory.target(source, 64),
                          i, DAT_COMPLETION_BARRIER_FENCE_FLAG);
            // It may be over by then.
            expect_return(got, DAT_SUCCESS);
        }
        expect_true(completion(pair.active.requested).status != DAT_DTO_SUCCESS,
                    "the first is said to be a success");
        for (DAT_UINT64 i = 1; i < 5; ++i) {
            // At times siw's kernel flushes a Read twice, but it is told once.
            const auto is_now = completion(pair.active.requested);
            expect_eq(is_now.status, DAT_DTO_ERR_FLUSHED, "the status");
            expect_eq(is_now.user_cookie.as_64, i, "the cookie");
        }
        here_is.over();
    });
}

} // namespace

void add_dto_error(case_list &cases) {
    remote(cases);
    local(cases);
    receiver(cases);
}

} // namespace conform

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Event dispatchers: making, asking, filling, emptying and freeing them.

#include "cases.hpp"
#include "test_ep.hpp"

#include <array>

namespace conform {

namespace {

constexpr std::array streams = {DAT_EVD_SOFTWARE_FLAG,   DAT_EVD_CR_FLAG,       DAT_EVD_DTO_FLAG,
                                DAT_EVD_CONNECTION_FLAG, DAT_EVD_RMR_BIND_FLAG, DAT_EVD_ASYNC_FLAG};

struct evd_fixture {
    test_ia ia;
    unique_evd events = ia.create_evd(DAT_EVD_SOFTWARE_FLAG);

    void post(DAT_UINT64 pointer, source_location loc = current_location()) const {
        const DAT_EVENT event = make_software_event(pointer);
        require_success(dat_evd_post_se(events, &event), loc);
    }
    /// The next event is this one, at once.
    void holds(DAT_UINT64 pointer, source_location loc = current_location()) const {
        poisoned<DAT_EVENT> event;
        require_success(dat_evd_dequeue(events, event.ptr()), loc);
        expect_eq(event->event_number, DAT_SOFTWARE_EVENT, "the event", loc);
        expect_eq(event->evd_handle, events, "its EVD", loc);
        expect_eq(software_event_pointer(event.value()), pointer, "its pointer", loc);
    }
    void empty(source_location loc = current_location()) const {
        DAT_EVENT event{};
        expect_return(dat_evd_dequeue(events, &event), queue_empty, loc);
    }
};

DAT_RETURN create(const test_ia &ia, DAT_COUNT qlen, DAT_EVD_FLAGS flags, unique_evd &made,
                  source_location loc = current_location()) {
    DAT_EVD_HANDLE handle = nullptr;
    const DAT_RETURN got = dat_evd_create(ia, qlen, nullptr, flags, &handle);
    if (got == DAT_SUCCESS)
        made = unique_evd(handle, loc);
    return got;
}

/// May all these streams feed one EVD? By the provider's own words.
bool merge(const test_ia &ia, unsigned which) {
    for (std::size_t one = 0; one < streams.size(); ++one)
        for (std::size_t two = 0; two < streams.size(); ++two)
            if ((which >> one & 1) && (which >> two & 1) &&
                !ia.provider_attr().evd_stream_merging_supported[one][two])
                return false;
    return true;
}

void every_combination() {
    const test_ia ia;
    for (unsigned which = 1; which < 1U << streams.size(); ++which) {
        auto flags = enum_cast<DAT_EVD_FLAGS>(0);
        for (std::size_t i = 0; i < streams.size(); ++i)
            if (which >> i & 1)
                flags = flags | streams[i];
        const scoped_trace these(concat("flags 0x", std::hex, static_cast<unsigned>(flags)));
        unique_evd made;
        if (!merge(ia, which)) {
            expect_return(create(ia, 16, flags, made), invalid_parameter(4));
            continue;
        }
        if (!expect_return(create(ia, 16, flags, made), DAT_SUCCESS))
            continue;
        DAT_EVD_PARAM is_now{};
        expect_return(dat_evd_query(made, DAT_EVD_FIELD_ALL, &is_now), DAT_SUCCESS);
        expect_eq(is_now.evd_flags, flags, "evd_flags");
    }
}

void creation(case_list &cases) {
    add_case(cases, "evd.create_qlen_not_positive", [] {
        const test_ia ia;
        unique_evd made;
        expect_return(create(ia, 0, DAT_EVD_SOFTWARE_FLAG, made), invalid_parameter(2));
        expect_return(create(ia, -1, DAT_EVD_SOFTWARE_FLAG, made), invalid_parameter(2));
    });
    add_case(cases, "evd.create_qlen_too_large", [] {
        const test_ia ia;
        unique_evd made;
        const DAT_COUNT most = ia.ia_attr().max_evd_qlen;
        for (const DAT_EVD_FLAGS flags : {DAT_EVD_SOFTWARE_FLAG, DAT_EVD_DTO_FLAG})
            expect_return(create(ia, most + 1, flags, made),
                          insufficient_resources(DAT_RESOURCE_TEVD));
    });
    add_case(cases, "evd.create_qlen_largest", [] {
        const test_ia ia;
        unique_evd made;
        require_success(create(ia, ia.ia_attr().max_evd_qlen, DAT_EVD_DTO_FLAG, made));
    });
    add_case(cases, "evd.create_no_flag", [] {
        const test_ia ia;
        unique_evd made;
        expect_return(create(ia, 8, enum_cast<DAT_EVD_FLAGS>(0), made), invalid_parameter(4));
    });
    add_case(cases, "evd.create_flag_unknown", [] {
        const test_ia ia;
        for (const unsigned flags : {0x2U, 0x8U, 0x10001U, 0x80000020U}) {
            unique_evd made;
            expect_return(create(ia, 8, enum_cast<DAT_EVD_FLAGS>(flags), made),
                          invalid_parameter(4));
        }
    });
    add_case(cases, "evd.create_null", [] {
        const test_ia ia;
        expect_return(dat_evd_create(ia, 8, nullptr, DAT_EVD_SOFTWARE_FLAG, nullptr),
                      invalid_parameter(5));
    });
    add_case(cases, "evd.create_every_combination", every_combination);
    add_case(cases, "evd.create_many", [] {
        const test_ia ia;
        std::vector<unique_evd> all;
        for (int i = 0; i < 100; ++i)
            all.push_back(ia.create_evd(DAT_EVD_DTO_FLAG | DAT_EVD_SOFTWARE_FLAG));
    });
}

void state_is(DAT_EVD_HANDLE events, DAT_EVD_STATE able, DAT_EVD_STATE waitable,
              source_location loc = current_location()) {
    DAT_EVD_PARAM is_now{};
    require_success(dat_evd_query(events, DAT_EVD_FIELD_EVD_STATE, &is_now), loc);
    const auto state = static_cast<unsigned>(is_now.evd_state);
    expect_eq(state & (DAT_EVD_STATE_ENABLED | DAT_EVD_STATE_DISABLED), static_cast<unsigned>(able),
              "enabled or disabled", loc);
    expect_eq(state & (DAT_EVD_STATE_WAITABLE | DAT_EVD_STATE_UNWAITABLE),
              static_cast<unsigned>(waitable), "waitable or unwaitable", loc);
}

void queries(case_list &cases) {
    add_case(cases, "evd.query", [] {
        const test_ia ia;
        const unique_cno notifier = ia.create_cno();
        const unique_evd events = ia.create_evd(DAT_EVD_DTO_FLAG, 7, notifier);
        poisoned<DAT_EVD_PARAM> is_now;
        require_success(dat_evd_query(events, DAT_EVD_FIELD_ALL, is_now.ptr()));
        expect_eq(is_now->ia_handle, ia, "ia_handle");
        expect_true(is_now->evd_qlen >= 7, "the queue is shorter than asked for");
        expect_eq(is_now->cno_handle, notifier, "cno_handle");
        expect_eq(is_now->evd_flags, DAT_EVD_DTO_FLAG, "evd_flags");
        state_is(events, DAT_EVD_STATE_ENABLED, DAT_EVD_STATE_WAITABLE);
    });
    add_case(cases, "evd.query_mask_unknown", [] {
        const evd_fixture fixture;
        DAT_EVD_PARAM is_now{};
        expect_return(dat_evd_query(fixture.events, enum_cast<DAT_EVD_PARAM_MASK>(0x20), &is_now),
                      invalid_parameter(2));
    });
    add_case(cases, "evd.query_null", [] {
        const evd_fixture fixture;
        expect_return(dat_evd_query(fixture.events, DAT_EVD_FIELD_ALL, nullptr),
                      invalid_parameter(3));
    });
    add_case(cases, "evd.states", [] {
        const evd_fixture fixture;
        const DAT_EVD_HANDLE one = fixture.events;
        expect_return(dat_evd_disable(one), DAT_SUCCESS);
        state_is(one, DAT_EVD_STATE_DISABLED, DAT_EVD_STATE_WAITABLE);
        expect_return(dat_evd_disable(one), DAT_SUCCESS);
        expect_return(dat_evd_set_unwaitable(one), DAT_SUCCESS);
        state_is(one, DAT_EVD_STATE_DISABLED, DAT_EVD_STATE_UNWAITABLE);
        expect_return(dat_evd_enable(one), DAT_SUCCESS);
        state_is(one, DAT_EVD_STATE_ENABLED, DAT_EVD_STATE_UNWAITABLE);
        expect_return(dat_evd_clear_unwaitable(one), DAT_SUCCESS);
        state_is(one, DAT_EVD_STATE_ENABLED, DAT_EVD_STATE_WAITABLE);
    });
    add_case(cases, "evd.modify_cno", [] {
        const evd_fixture fixture;
        const unique_cno notifier = fixture.ia.create_cno();
        DAT_EVD_PARAM is_now{};
        require_success(dat_evd_modify_cno(fixture.events, notifier));
        require_success(dat_evd_query(fixture.events, DAT_EVD_FIELD_CNO, &is_now));
        expect_eq(is_now.cno_handle, notifier, "cno_handle");
        require_success(dat_evd_modify_cno(fixture.events, nullptr));
        require_success(dat_evd_query(fixture.events, DAT_EVD_FIELD_CNO, &is_now));
        expect_eq(is_now.cno_handle, nullptr, "cno_handle");
    });
}

void software(case_list &cases) {
    add_case(cases, "evd.dequeue_empty", [] {
        const evd_fixture fixture;
        fixture.empty();
        for (const DAT_EVD_FLAGS flags :
             {DAT_EVD_DTO_FLAG, DAT_EVD_CR_FLAG, DAT_EVD_CONNECTION_FLAG}) {
            const unique_evd other = fixture.ia.create_evd(flags);
            DAT_EVENT event{};
            // Of completions OFED says it without the class, and programs compare
            // the value as a whole.
            expect_return(dat_evd_dequeue(other, &event),
                          flags == DAT_EVD_DTO_FLAG ? DAT_RETURN{DAT_QUEUE_EMPTY} : queue_empty);
        }
    });
    add_case(cases, "evd.dequeue_null", [] {
        const evd_fixture fixture;
        expect_return(dat_evd_dequeue(fixture.events, nullptr), invalid_parameter(2));
    });
    add_case(cases, "evd.post_se", [] {
        const evd_fixture fixture;
        for (DAT_UINT64 i = 1; i <= 16; ++i)
            fixture.post(0x1122334400000000U + i);
        for (DAT_UINT64 i = 1; i <= 16; ++i)
            fixture.holds(0x1122334400000000U + i);
        fixture.empty();
    });
    add_case(cases, "evd.post_se_null", [] {
        const evd_fixture fixture;
        expect_return(dat_evd_post_se(fixture.events, nullptr), invalid_parameter(2));
    });
    add_case(cases, "evd.post_se_another_event", [] {
        const evd_fixture fixture;
        DAT_EVENT event = make_software_event(1);
        event.event_number = DAT_CONNECTION_EVENT_ESTABLISHED;
        expect_return(dat_evd_post_se(fixture.events, &event), invalid_parameter(2));
        fixture.empty();
    });
    add_case(cases, "evd.post_se_another_evd", [] { // it takes no software events
        const evd_fixture fixture;
        const unique_evd data = fixture.ia.create_evd(DAT_EVD_DTO_FLAG);
        const DAT_EVENT event = make_software_event(1);
        expect_return(dat_evd_post_se(data, &event), invalid_parameter(1));
    });
    add_case(cases, "evd.post_se_full", [] {
        const evd_fixture fixture;
        DAT_EVD_PARAM is_now{};
        require_success(dat_evd_query(fixture.events, DAT_EVD_FIELD_EVD_QLEN, &is_now));
        const auto room = static_cast<DAT_UINT64>(is_now.evd_qlen);
        for (DAT_UINT64 i = 0; i < room; ++i)
            fixture.post(i);
        const DAT_EVENT event = make_software_event(room);
        expect_return(dat_evd_post_se(fixture.events, &event), dat_error(DAT_QUEUE_FULL));
        fixture.holds(0);
        fixture.post(room);
        for (DAT_UINT64 i = 1; i <= room; ++i)
            fixture.holds(i);
        fixture.empty();
    });
    add_case(cases, "evd.disabled", [] { // it takes events and gives them
        const evd_fixture fixture;
        require_success(dat_evd_disable(fixture.events));
        fixture.post(1);
        fixture.holds(1);
        fixture.post(2);
        require_success(dat_evd_enable(fixture.events));
        fixture.holds(2);
    });
    add_case(cases, "evd.unwaitable", [] {
        const evd_fixture fixture;
        fixture.post(1);
        require_success(dat_evd_set_unwaitable(fixture.events));
        DAT_EVENT event{};
        DAT_COUNT more = 0;
        expect_return(dat_evd_wait(fixture.events, 0, 1, &event, &more),
                      invalid_state(DAT_INVALID_STATE_EVD_UNWAITABLE));
        fixture.holds(1);
        fixture.empty();
        require_success(dat_evd_clear_unwaitable(fixture.events));
        expect_return(dat_evd_wait(fixture.events, 0, 1, &event, &more), timeout_expired);
    });
}

/// It is refused, and the EVD goes on.
void in_use(DAT_EVD_HANDLE events, source_location loc = current_location()) {
    expect_return(dat_evd_free(events), invalid_state(DAT_INVALID_STATE_EVD_IN_USE), loc);
    DAT_EVENT event{};
    expect_empty(dat_evd_dequeue(events, &event), loc);
}

void freeing(case_list &cases) {
    add_case(cases, "evd.free_with_events", [] {
        const evd_fixture fixture;
        fixture.post(1);
        fixture.post(2);
    });
    add_case(cases, "evd.free_under_ep", [] {
        const test_ia ia;
        const unique_pz zone = ia.create_pz();
        const test_ep one(ia, zone);
        in_use(one.recv_evd);
        in_use(one.request_evd);
        in_use(one.connect_evd);
    });
    add_case(cases, "evd.free_under_psp", [] {
        const test_ia ia;
        const unique_evd arrivals = ia.create_evd(DAT_EVD_CR_FLAG);
        DAT_PSP_HANDLE made = nullptr;
        require_success(dat_psp_create(ia, unused_port(), arrivals, DAT_PSP_CONSUMER_FLAG, &made));
        const unique_psp listener(made);
        in_use(arrivals);
    });
    add_case(cases, "evd.free_async", [] { // it is the IA's
        const test_ia ia;
        in_use(ia.async_evd());
    });
}

/// More completions than the queue takes. The EVD is dead then, and the asynchronous one says so.
void overflow() {
    ep_pair eps;
    DAT_EP_ATTR attributes = portable_ep_attr();
    attributes.max_request_dtos = attributes.max_recv_dtos = 256;
    const unique_evd small = eps.ia.create_evd(DAT_EVD_DTO_FLAG, 1);
    DAT_EVD_PARAM is_now{};
    require_success(dat_evd_query(small, DAT_EVD_FIELD_EVD_QLEN, &is_now));
    require(is_now.evd_qlen < 250, "a queue of one takes hundreds");
    {
        DAT_EP_HANDLE handle = nullptr;
        require_success(dat_ep_create(eps.ia, eps.pz, eps.active.recv_evd, small,
                                      eps.active.connect_evd, &attributes, &handle));
        const unique_ep sender(handle);
        require_success(connect_ep(sender, ia_address(eps.ia.ipv4_address()), eps.port));
        require_success(dat_cr_accept(eps.next_cr(), eps.passive, 0, nullptr));
        next_event(eps.active.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
        for (DAT_UINT64 i = 0; i < 256; ++i) {
            const DAT_RETURN got =
                post_rdma_write(sender, eps.lmr.lmr_triplet(0, 8), eps.lmr.rmr_triplet(page, 8), i);
            if (got != DAT_SUCCESS) // as soon as it is broken
                break;
        }
        const DAT_EVENT told = next_event(eps.ia.async_evd(), DAT_ASYNC_ERROR_EVD_OVERFLOW);
        expect_eq(told.event_data.asynch_error_event_data.dat_handle, small, "the EVD it is about");
        expect_eq(told.event_data.asynch_error_event_data.reason, DAT_EVD_OVERFLOW_ERROR,
                  "the reason");
    }
    next_event(eps.passive.connect_evd); // it was disconnected, or broke
}

} // namespace

void add_evd(case_list &cases) {
    creation(cases);
    queries(cases);
    software(cases);
    freeing(cases);
    add_case(cases, "evd.overflow", overflow);
}

} // namespace conform

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Event dispatchers: making, asking, filling, emptying and freeing them.

#include "cases.hpp"
#include "endpoint.hpp"

#include <array>

namespace conform {

namespace {

constexpr std::array streams = {DAT_EVD_SOFTWARE_FLAG,   DAT_EVD_CR_FLAG,       DAT_EVD_DTO_FLAG,
                                DAT_EVD_CONNECTION_FLAG, DAT_EVD_RMR_BIND_FLAG, DAT_EVD_ASYNC_FLAG};

struct place {
    adapter ia;
    evd events = ia.events(DAT_EVD_SOFTWARE_FLAG);

    void post(DAT_UINT64 pointer, spot at = here()) const {
        const DAT_EVENT event = software_event(pointer);
        done(dat_evd_post_se(events, &event), at);
    }
    /// The next event is this one, at once.
    void holds(DAT_UINT64 pointer, spot at = here()) const {
        filled<DAT_EVENT> event;
        done(dat_evd_dequeue(events, event.out()), at);
        same(event->event_number, DAT_SOFTWARE_EVENT, "the event", at);
        same(event->evd_handle, events, "its EVD", at);
        same(pointer_of(event.in()), pointer, "its pointer", at);
    }
    void empty(spot at = here()) const {
        DAT_EVENT event{};
        is(dat_evd_dequeue(events, &event), queue_empty, at);
    }
};

DAT_RETURN create(const adapter &ia, DAT_COUNT qlen, DAT_EVD_FLAGS flags, evd &made,
                  spot at = here()) {
    DAT_EVD_HANDLE handle = nullptr;
    const DAT_RETURN got = dat_evd_create(ia, qlen, nullptr, flags, &handle);
    if (got == DAT_SUCCESS)
        made = evd(handle, at);
    return got;
}

/// May all these streams feed one EVD? By the provider's own words.
bool merge(const adapter &ia, unsigned which) {
    for (std::size_t one = 0; one < streams.size(); ++one)
        for (std::size_t two = 0; two < streams.size(); ++two)
            if ((which >> one & 1) && (which >> two & 1) &&
                !ia.provider().evd_stream_merging_supported[one][two])
                return false;
    return true;
}

void every_combination() {
    const adapter ia;
    for (unsigned which = 1; which < 1U << streams.size(); ++which) {
        auto flags = no_such<DAT_EVD_FLAGS>(0);
        for (std::size_t i = 0; i < streams.size(); ++i)
            if (which >> i & 1)
                flags = flags | streams[i];
        const saying these(text("flags 0x", std::hex, static_cast<unsigned>(flags)));
        evd made;
        if (!merge(ia, which)) {
            is(create(ia, 16, flags, made), bad_argument(4));
            continue;
        }
        if (!is(create(ia, 16, flags, made), DAT_SUCCESS))
            continue;
        DAT_EVD_PARAM is_now{};
        is(dat_evd_query(made, DAT_EVD_FIELD_ALL, &is_now), DAT_SUCCESS);
        same(is_now.evd_flags, flags, "evd_flags");
    }
}

void creation(case_list &cases) {
    add_case(cases, "evd.create_qlen_not_positive", [] {
        const adapter ia;
        evd made;
        is(create(ia, 0, DAT_EVD_SOFTWARE_FLAG, made), bad_argument(2));
        is(create(ia, -1, DAT_EVD_SOFTWARE_FLAG, made), bad_argument(2));
    });
    add_case(cases, "evd.create_qlen_too_large", [] {
        const adapter ia;
        evd made;
        const DAT_COUNT most = ia.attributes().max_evd_qlen;
        for (const DAT_EVD_FLAGS flags : {DAT_EVD_SOFTWARE_FLAG, DAT_EVD_DTO_FLAG})
            is(create(ia, most + 1, flags, made), too_few(DAT_RESOURCE_TEVD));
    });
    add_case(cases, "evd.create_qlen_largest", [] {
        const adapter ia;
        evd made;
        done(create(ia, ia.attributes().max_evd_qlen, DAT_EVD_DTO_FLAG, made));
    });
    add_case(cases, "evd.create_no_flag", [] {
        const adapter ia;
        evd made;
        is(create(ia, 8, no_such<DAT_EVD_FLAGS>(0), made), bad_argument(4));
    });
    add_case(cases, "evd.create_flag_unknown", [] {
        const adapter ia;
        for (const unsigned flags : {0x2U, 0x8U, 0x10001U, 0x80000020U}) {
            evd made;
            is(create(ia, 8, no_such<DAT_EVD_FLAGS>(flags), made), bad_argument(4));
        }
    });
    add_case(cases, "evd.create_null", [] {
        const adapter ia;
        is(dat_evd_create(ia, 8, nullptr, DAT_EVD_SOFTWARE_FLAG, nullptr), bad_argument(5));
    });
    add_case(cases, "evd.create_every_combination", every_combination);
    add_case(cases, "evd.create_many", [] {
        const adapter ia;
        std::vector<evd> all;
        for (int i = 0; i < 100; ++i)
            all.push_back(ia.events(DAT_EVD_DTO_FLAG | DAT_EVD_SOFTWARE_FLAG));
    });
}

void state_is(DAT_EVD_HANDLE events, DAT_EVD_STATE able, DAT_EVD_STATE waitable, spot at = here()) {
    DAT_EVD_PARAM is_now{};
    done(dat_evd_query(events, DAT_EVD_FIELD_EVD_STATE, &is_now), at);
    const auto state = static_cast<unsigned>(is_now.evd_state);
    same(state & (DAT_EVD_STATE_ENABLED | DAT_EVD_STATE_DISABLED), static_cast<unsigned>(able),
         "enabled or disabled", at);
    same(state & (DAT_EVD_STATE_WAITABLE | DAT_EVD_STATE_UNWAITABLE),
         static_cast<unsigned>(waitable), "waitable or unwaitable", at);
}

void queries(case_list &cases) {
    add_case(cases, "evd.query", [] {
        const adapter ia;
        const cno notifier = ia.notifier();
        const evd events = ia.events(DAT_EVD_DTO_FLAG, 7, notifier);
        filled<DAT_EVD_PARAM> is_now;
        done(dat_evd_query(events, DAT_EVD_FIELD_ALL, is_now.out()));
        same(is_now->ia_handle, ia, "ia_handle");
        yes(is_now->evd_qlen >= 7, "the queue is shorter than asked for");
        same(is_now->cno_handle, notifier, "cno_handle");
        same(is_now->evd_flags, DAT_EVD_DTO_FLAG, "evd_flags");
        state_is(events, DAT_EVD_STATE_ENABLED, DAT_EVD_STATE_WAITABLE);
    });
    add_case(cases, "evd.query_mask_unknown", [] {
        const place here_is;
        DAT_EVD_PARAM is_now{};
        is(dat_evd_query(here_is.events, no_such<DAT_EVD_PARAM_MASK>(0x20), &is_now),
           bad_argument(2));
    });
    add_case(cases, "evd.query_null", [] {
        const place here_is;
        is(dat_evd_query(here_is.events, DAT_EVD_FIELD_ALL, nullptr), bad_argument(3));
    });
    add_case(cases, "evd.states", [] {
        const place here_is;
        const DAT_EVD_HANDLE one = here_is.events;
        is(dat_evd_disable(one), DAT_SUCCESS);
        state_is(one, DAT_EVD_STATE_DISABLED, DAT_EVD_STATE_WAITABLE);
        is(dat_evd_disable(one), DAT_SUCCESS);
        is(dat_evd_set_unwaitable(one), DAT_SUCCESS);
        state_is(one, DAT_EVD_STATE_DISABLED, DAT_EVD_STATE_UNWAITABLE);
        is(dat_evd_enable(one), DAT_SUCCESS);
        state_is(one, DAT_EVD_STATE_ENABLED, DAT_EVD_STATE_UNWAITABLE);
        is(dat_evd_clear_unwaitable(one), DAT_SUCCESS);
        state_is(one, DAT_EVD_STATE_ENABLED, DAT_EVD_STATE_WAITABLE);
    });
    add_case(cases, "evd.modify_cno", [] {
        const place here_is;
        const cno notifier = here_is.ia.notifier();
        DAT_EVD_PARAM is_now{};
        done(dat_evd_modify_cno(here_is.events, notifier));
        done(dat_evd_query(here_is.events, DAT_EVD_FIELD_CNO, &is_now));
        same(is_now.cno_handle, notifier, "cno_handle");
        done(dat_evd_modify_cno(here_is.events, nullptr));
        done(dat_evd_query(here_is.events, DAT_EVD_FIELD_CNO, &is_now));
        same(is_now.cno_handle, nullptr, "cno_handle");
    });
}

void software(case_list &cases) {
    add_case(cases, "evd.dequeue_empty", [] {
        const place here_is;
        here_is.empty();
        for (const DAT_EVD_FLAGS flags :
             {DAT_EVD_DTO_FLAG, DAT_EVD_CR_FLAG, DAT_EVD_CONNECTION_FLAG}) {
            const evd other = here_is.ia.events(flags);
            DAT_EVENT event{};
            // Of completions OFED says it without the class, and programs compare
            // the value as a whole.
            is(dat_evd_dequeue(other, &event),
               flags == DAT_EVD_DTO_FLAG ? DAT_RETURN{DAT_QUEUE_EMPTY} : queue_empty);
        }
    });
    add_case(cases, "evd.dequeue_null", [] {
        const place here_is;
        is(dat_evd_dequeue(here_is.events, nullptr), bad_argument(2));
    });
    add_case(cases, "evd.post_se", [] {
        const place here_is;
        for (DAT_UINT64 i = 1; i <= 16; ++i)
            here_is.post(0x1122334400000000U + i);
        for (DAT_UINT64 i = 1; i <= 16; ++i)
            here_is.holds(0x1122334400000000U + i);
        here_is.empty();
    });
    add_case(cases, "evd.post_se_null", [] {
        const place here_is;
        is(dat_evd_post_se(here_is.events, nullptr), bad_argument(2));
    });
    add_case(cases, "evd.post_se_another_event", [] {
        const place here_is;
        DAT_EVENT event = software_event(1);
        event.event_number = DAT_CONNECTION_EVENT_ESTABLISHED;
        is(dat_evd_post_se(here_is.events, &event), bad_argument(2));
        here_is.empty();
    });
    add_case(cases, "evd.post_se_another_evd", [] { // it takes no software events
        const place here_is;
        const evd data = here_is.ia.events(DAT_EVD_DTO_FLAG);
        const DAT_EVENT event = software_event(1);
        is(dat_evd_post_se(data, &event), bad_argument(1));
    });
    add_case(cases, "evd.post_se_full", [] {
        const place here_is;
        DAT_EVD_PARAM is_now{};
        done(dat_evd_query(here_is.events, DAT_EVD_FIELD_EVD_QLEN, &is_now));
        const auto room = static_cast<DAT_UINT64>(is_now.evd_qlen);
        for (DAT_UINT64 i = 0; i < room; ++i)
            here_is.post(i);
        const DAT_EVENT event = software_event(room);
        is(dat_evd_post_se(here_is.events, &event), error(DAT_QUEUE_FULL));
        here_is.holds(0);
        here_is.post(room);
        for (DAT_UINT64 i = 1; i <= room; ++i)
            here_is.holds(i);
        here_is.empty();
    });
    add_case(cases, "evd.disabled", [] { // it takes events and gives them
        const place here_is;
        done(dat_evd_disable(here_is.events));
        here_is.post(1);
        here_is.holds(1);
        here_is.post(2);
        done(dat_evd_enable(here_is.events));
        here_is.holds(2);
    });
    add_case(cases, "evd.unwaitable", [] {
        const place here_is;
        here_is.post(1);
        done(dat_evd_set_unwaitable(here_is.events));
        DAT_EVENT event{};
        DAT_COUNT more = 0;
        is(dat_evd_wait(here_is.events, 0, 1, &event, &more),
           bad_state(DAT_INVALID_STATE_EVD_UNWAITABLE));
        here_is.holds(1);
        here_is.empty();
        done(dat_evd_clear_unwaitable(here_is.events));
        is(dat_evd_wait(here_is.events, 0, 1, &event, &more), timed_out);
    });
}

/// It is refused, and the EVD goes on.
void in_use(DAT_EVD_HANDLE events, spot at = here()) {
    is(dat_evd_free(events), bad_state(DAT_INVALID_STATE_EVD_IN_USE), at);
    DAT_EVENT event{};
    is_nothing(dat_evd_dequeue(events, &event), at);
}

void freeing(case_list &cases) {
    add_case(cases, "evd.free_with_events", [] {
        const place here_is;
        here_is.post(1);
        here_is.post(2);
    });
    add_case(cases, "evd.free_under_ep", [] {
        const adapter ia;
        const pz zone = ia.zone();
        const endpoint one(ia, zone);
        in_use(one.received);
        in_use(one.requested);
        in_use(one.connection);
    });
    add_case(cases, "evd.free_under_psp", [] {
        const adapter ia;
        const evd arrivals = ia.events(DAT_EVD_CR_FLAG);
        DAT_PSP_HANDLE made = nullptr;
        done(dat_psp_create(ia, fresh_port(), arrivals, DAT_PSP_CONSUMER_FLAG, &made));
        const psp listener(made);
        in_use(arrivals);
    });
    add_case(cases, "evd.free_async", [] { // it is the IA's
        const adapter ia;
        in_use(ia.async());
    });
}

/// More completions than the queue takes. The EVD is dead then, and the asynchronous one says so.
void overflow() {
    couple two;
    DAT_EP_ATTR attributes = modest();
    attributes.max_request_dtos = attributes.max_recv_dtos = 256;
    const evd small = two.ia.events(DAT_EVD_DTO_FLAG, 1);
    DAT_EVD_PARAM is_now{};
    done(dat_evd_query(small, DAT_EVD_FIELD_EVD_QLEN, &is_now));
    need(is_now.evd_qlen < 250, "a queue of one takes hundreds");
    {
        DAT_EP_HANDLE handle = nullptr;
        done(dat_ep_create(two.ia, two.zone, two.active.received, small, two.active.connection,
                           &attributes, &handle));
        const ep sender(handle);
        done(connect(sender, destination(two.ia.address()), two.port));
        done(dat_cr_accept(two.request(), two.passive, 0, nullptr));
        next_event(two.active.connection, DAT_CONNECTION_EVENT_ESTABLISHED);
        for (DAT_UINT64 i = 0; i < 256; ++i) {
            const DAT_RETURN got =
                post_write(sender, two.memory.piece(0, 8), two.memory.target(page, 8), i);
            if (got != DAT_SUCCESS) // as soon as it is broken
                break;
        }
        const DAT_EVENT told = next_event(two.ia.async(), DAT_ASYNC_ERROR_EVD_OVERFLOW);
        same(told.event_data.asynch_error_event_data.dat_handle, small, "the EVD it is about");
        same(told.event_data.asynch_error_event_data.reason, DAT_EVD_OVERFLOW_ERROR, "the reason");
    }
    next_event(two.passive.connection); // it was disconnected, or broke
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

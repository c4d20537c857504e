// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Event dispatchers: making, asking, filling, emptying and freeing them.

#include "lib/cases.hpp"
#include "lib/test_ep.hpp"

#include <array>

namespace conform {

namespace {

constexpr std::array streams = {DAT_EVD_SOFTWARE_FLAG,   DAT_EVD_CR_FLAG,       DAT_EVD_DTO_FLAG,
                                DAT_EVD_CONNECTION_FLAG, DAT_EVD_RMR_BIND_FLAG, DAT_EVD_ASYNC_FLAG};

struct evd_fixture {
    test_ia ia;
    unique_evd evd = ia.create_evd(DAT_EVD_SOFTWARE_FLAG);

    void post_software_event(DAT_UINT64 pointer, source_location loc = current_location()) const {
        const DAT_EVENT event = make_software_event(pointer);
        require_success(dat_evd_post_se(evd, &event), loc);
    }
    /// The next event is this one, at once.
    void expect_next_event(DAT_UINT64 pointer, source_location loc = current_location()) const {
        poisoned<DAT_EVENT> event;
        require_success(dat_evd_dequeue(evd, event.ptr()), loc);
        expect_eq(event->event_number, DAT_SOFTWARE_EVENT, "the event", loc);
        expect_eq(event->evd_handle, evd, "its EVD", loc);
        expect_eq(software_event_pointer(event.value()), pointer, "its pointer", loc);
    }
    void expect_queue_empty(source_location loc = current_location()) const {
        DAT_EVENT event{};
        expect_return(dat_evd_dequeue(evd, &event), queue_empty, loc);
    }
};

DAT_RETURN create_evd(const test_ia &ia, DAT_COUNT qlen, DAT_EVD_FLAGS flags, unique_evd &evd,
                      source_location loc = current_location()) {
    DAT_EVD_HANDLE handle = nullptr;
    const DAT_RETURN ret = dat_evd_create(ia, qlen, nullptr, flags, &handle);
    if (ret == DAT_SUCCESS)
        evd = unique_evd(handle, loc);
    return ret;
}

/// Whether evd_stream_merging_supported permits all these streams in one EVD. Bit i: streams[i].
bool can_merge_streams(const test_ia &ia, unsigned stream_mask) {
    for (std::size_t i = 0; i < streams.size(); ++i)
        for (std::size_t j = 0; j < streams.size(); ++j)
            if ((stream_mask >> i & 1) && (stream_mask >> j & 1) &&
                !ia.provider_attr().evd_stream_merging_supported[i][j])
                return false;
    return true;
}

/// An EVD can be created with each combination of flags that evd_stream_merging_supported permits,
/// and no other.
void test_flag_combinations() {
    const test_ia ia;
    for (unsigned stream_mask = 1; stream_mask < 1U << streams.size(); ++stream_mask) {
        auto flags = enum_cast<DAT_EVD_FLAGS>(0);
        for (std::size_t i = 0; i < streams.size(); ++i)
            if (stream_mask >> i & 1)
                flags = flags | streams[i];
        const scoped_trace trace(concat("flags 0x", std::hex, static_cast<unsigned>(flags)));
        unique_evd evd;
        if (!can_merge_streams(ia, stream_mask)) {
            expect_return(create_evd(ia, 16, flags, evd), invalid_parameter(4));
            continue;
        }
        if (!expect_return(create_evd(ia, 16, flags, evd), DAT_SUCCESS))
            continue;
        DAT_EVD_PARAM param{};
        expect_return(dat_evd_query(evd, DAT_EVD_FIELD_ALL, &param), DAT_SUCCESS);
        expect_eq(param.evd_flags, flags, "evd_flags");
    }
}

void add_create_cases(case_list &cases) {
    add_case(cases, "evd.create_qlen_not_positive", [] {
        const test_ia ia;
        unique_evd evd;
        expect_return(create_evd(ia, 0, DAT_EVD_SOFTWARE_FLAG, evd), invalid_parameter(2));
        expect_return(create_evd(ia, -1, DAT_EVD_SOFTWARE_FLAG, evd), invalid_parameter(2));
    });
    add_case(cases, "evd.create_qlen_too_large", [] {
        const test_ia ia;
        unique_evd evd;
        const DAT_COUNT limit = ia.ia_attr().max_evd_qlen;
        for (const DAT_EVD_FLAGS flags : {DAT_EVD_SOFTWARE_FLAG, DAT_EVD_DTO_FLAG})
            expect_return(create_evd(ia, limit + 1, flags, evd),
                          insufficient_resources(DAT_RESOURCE_TEVD));
    });
    add_case(cases, "evd.create_qlen_largest", [] {
        const test_ia ia;
        unique_evd evd;
        require_success(create_evd(ia, ia.ia_attr().max_evd_qlen, DAT_EVD_DTO_FLAG, evd));
    });
    add_case(cases, "evd.create_no_flag", [] {
        const test_ia ia;
        unique_evd evd;
        expect_return(create_evd(ia, 8, enum_cast<DAT_EVD_FLAGS>(0), evd), invalid_parameter(4));
    });
    add_case(cases, "evd.create_flag_unknown", [] {
        const test_ia ia;
        for (const unsigned flags : {0x2U, 0x8U, 0x10001U, 0x80000020U}) {
            unique_evd evd;
            expect_return(create_evd(ia, 8, enum_cast<DAT_EVD_FLAGS>(flags), evd),
                          invalid_parameter(4));
        }
    });
    add_case(cases, "evd.create_null", [] {
        const test_ia ia;
        expect_return(dat_evd_create(ia, 8, nullptr, DAT_EVD_SOFTWARE_FLAG, nullptr),
                      invalid_parameter(5));
    });
    add_case(cases, "evd.create_every_combination", test_flag_combinations);
    add_case(cases, "evd.create_many", [] {
        const test_ia ia;
        std::vector<unique_evd> evds;
        for (int i = 0; i < 100; ++i)
            evds.push_back(ia.create_evd(DAT_EVD_DTO_FLAG | DAT_EVD_SOFTWARE_FLAG));
    });
}

void expect_evd_state(DAT_EVD_HANDLE evd, DAT_EVD_STATE enabled, DAT_EVD_STATE waitable,
                      source_location loc = current_location()) {
    DAT_EVD_PARAM param{};
    require_success(dat_evd_query(evd, DAT_EVD_FIELD_EVD_STATE, &param), loc);
    const auto state = static_cast<unsigned>(param.evd_state);
    expect_eq(state & (DAT_EVD_STATE_ENABLED | DAT_EVD_STATE_DISABLED),
              static_cast<unsigned>(enabled), "enabled or disabled", loc);
    expect_eq(state & (DAT_EVD_STATE_WAITABLE | DAT_EVD_STATE_UNWAITABLE),
              static_cast<unsigned>(waitable), "waitable or unwaitable", loc);
}

void add_query_cases(case_list &cases) {
    add_case(cases, "evd.query", [] {
        const test_ia ia;
        const unique_cno cno = ia.create_cno();
        const unique_evd evd = ia.create_evd(DAT_EVD_DTO_FLAG, 7, cno);
        poisoned<DAT_EVD_PARAM> param;
        require_success(dat_evd_query(evd, DAT_EVD_FIELD_ALL, param.ptr()));
        expect_eq(param->ia_handle, ia, "ia_handle");
        expect_true(param->evd_qlen >= 7, "the queue is shorter than asked for");
        expect_eq(param->cno_handle, cno, "cno_handle");
        expect_eq(param->evd_flags, DAT_EVD_DTO_FLAG, "evd_flags");
        expect_evd_state(evd, DAT_EVD_STATE_ENABLED, DAT_EVD_STATE_WAITABLE);
    });
    add_case(cases, "evd.query_mask_unknown", [] {
        const evd_fixture fixture;
        DAT_EVD_PARAM param{};
        expect_return(dat_evd_query(fixture.evd, enum_cast<DAT_EVD_PARAM_MASK>(0x20), &param),
                      invalid_parameter(2));
    });
    add_case(cases, "evd.query_null", [] {
        const evd_fixture fixture;
        expect_return(dat_evd_query(fixture.evd, DAT_EVD_FIELD_ALL, nullptr), invalid_parameter(3));
    });
    add_case(cases, "evd.states", [] {
        const evd_fixture fixture;
        const DAT_EVD_HANDLE evd = fixture.evd;
        expect_return(dat_evd_disable(evd), DAT_SUCCESS);
        expect_evd_state(evd, DAT_EVD_STATE_DISABLED, DAT_EVD_STATE_WAITABLE);
        expect_return(dat_evd_disable(evd), DAT_SUCCESS);
        expect_return(dat_evd_set_unwaitable(evd), DAT_SUCCESS);
        expect_evd_state(evd, DAT_EVD_STATE_DISABLED, DAT_EVD_STATE_UNWAITABLE);
        expect_return(dat_evd_enable(evd), DAT_SUCCESS);
        expect_evd_state(evd, DAT_EVD_STATE_ENABLED, DAT_EVD_STATE_UNWAITABLE);
        expect_return(dat_evd_clear_unwaitable(evd), DAT_SUCCESS);
        expect_evd_state(evd, DAT_EVD_STATE_ENABLED, DAT_EVD_STATE_WAITABLE);
    });
    add_case(cases, "evd.modify_cno", [] {
        const evd_fixture fixture;
        const unique_cno cno = fixture.ia.create_cno();
        DAT_EVD_PARAM param{};
        require_success(dat_evd_modify_cno(fixture.evd, cno));
        require_success(dat_evd_query(fixture.evd, DAT_EVD_FIELD_CNO, &param));
        expect_eq(param.cno_handle, cno, "cno_handle");
        require_success(dat_evd_modify_cno(fixture.evd, nullptr));
        require_success(dat_evd_query(fixture.evd, DAT_EVD_FIELD_CNO, &param));
        expect_eq(param.cno_handle, nullptr, "cno_handle");
    });
}

void add_software_event_cases(case_list &cases) {
    add_case(cases, "evd.dequeue_empty", [] {
        const evd_fixture fixture;
        fixture.expect_queue_empty();
        for (const DAT_EVD_FLAGS flags :
             {DAT_EVD_DTO_FLAG, DAT_EVD_CR_FLAG, DAT_EVD_CONNECTION_FLAG}) {
            const unique_evd other_evd = fixture.ia.create_evd(flags);
            DAT_EVENT event{};
            // Of completions OFED says it without the class, and programs compare
            // the value as a whole.
            expect_return(dat_evd_dequeue(other_evd, &event),
                          flags == DAT_EVD_DTO_FLAG ? DAT_RETURN{DAT_QUEUE_EMPTY} : queue_empty);
        }
    });
    add_case(cases, "evd.dequeue_null", [] {
        const evd_fixture fixture;
        expect_return(dat_evd_dequeue(fixture.evd, nullptr), invalid_parameter(2));
    });
    add_case(cases, "evd.post_se", [] {
        const evd_fixture fixture;
        for (DAT_UINT64 i = 1; i <= 16; ++i)
            fixture.post_software_event(0x1122334400000000U + i);
        for (DAT_UINT64 i = 1; i <= 16; ++i)
            fixture.expect_next_event(0x1122334400000000U + i);
        fixture.expect_queue_empty();
    });
    add_case(cases, "evd.post_se_null", [] {
        const evd_fixture fixture;
        expect_return(dat_evd_post_se(fixture.evd, nullptr), invalid_parameter(2));
    });
    add_case(cases, "evd.post_se_another_event", [] {
        const evd_fixture fixture;
        DAT_EVENT event = make_software_event(1);
        event.event_number = DAT_CONNECTION_EVENT_ESTABLISHED;
        expect_return(dat_evd_post_se(fixture.evd, &event), invalid_parameter(2));
        fixture.expect_queue_empty();
    });
    add_case(cases, "evd.post_se_another_evd", [] { // it takes no software events
        const evd_fixture fixture;
        const unique_evd dto_evd = fixture.ia.create_evd(DAT_EVD_DTO_FLAG);
        const DAT_EVENT event = make_software_event(1);
        expect_return(dat_evd_post_se(dto_evd, &event), invalid_parameter(1));
    });
    add_case(cases, "evd.post_se_full", [] {
        const evd_fixture fixture;
        DAT_EVD_PARAM param{};
        require_success(dat_evd_query(fixture.evd, DAT_EVD_FIELD_EVD_QLEN, &param));
        const auto qlen = static_cast<DAT_UINT64>(param.evd_qlen);
        for (DAT_UINT64 i = 0; i < qlen; ++i)
            fixture.post_software_event(i);
        const DAT_EVENT event = make_software_event(qlen);
        expect_return(dat_evd_post_se(fixture.evd, &event), dat_error(DAT_QUEUE_FULL));
        fixture.expect_next_event(0);
        fixture.post_software_event(qlen);
        for (DAT_UINT64 i = 1; i <= qlen; ++i)
            fixture.expect_next_event(i);
        fixture.expect_queue_empty();
    });
    add_case(cases, "evd.disabled", [] { // it takes events and gives them
        const evd_fixture fixture;
        require_success(dat_evd_disable(fixture.evd));
        fixture.post_software_event(1);
        fixture.expect_next_event(1);
        fixture.post_software_event(2);
        require_success(dat_evd_enable(fixture.evd));
        fixture.expect_next_event(2);
    });
    add_case(cases, "evd.unwaitable", [] {
        const evd_fixture fixture;
        fixture.post_software_event(1);
        require_success(dat_evd_set_unwaitable(fixture.evd));
        DAT_EVENT event{};
        DAT_COUNT nmore = 0;
        expect_return(dat_evd_wait(fixture.evd, 0, 1, &event, &nmore),
                      invalid_state(DAT_INVALID_STATE_EVD_UNWAITABLE));
        fixture.expect_next_event(1);
        fixture.expect_queue_empty();
        require_success(dat_evd_clear_unwaitable(fixture.evd));
        expect_return(dat_evd_wait(fixture.evd, 0, 1, &event, &nmore), timeout_expired);
    });
}

/// dat_evd_free is refused, and the EVD is still valid.
void expect_evd_in_use(DAT_EVD_HANDLE evd, source_location loc = current_location()) {
    expect_return(dat_evd_free(evd), invalid_state(DAT_INVALID_STATE_EVD_IN_USE), loc);
    DAT_EVENT event{};
    expect_empty(dat_evd_dequeue(evd, &event), loc);
}

void add_free_cases(case_list &cases) {
    add_case(cases, "evd.free_with_events", [] {
        const evd_fixture fixture;
        fixture.post_software_event(1);
        fixture.post_software_event(2);
    });
    add_case(cases, "evd.free_under_ep", [] {
        const test_ia ia;
        const unique_pz pz = ia.create_pz();
        const test_ep ep(ia, pz);
        expect_evd_in_use(ep.recv_evd);
        expect_evd_in_use(ep.request_evd);
        expect_evd_in_use(ep.connect_evd);
    });
    add_case(cases, "evd.free_under_psp", [] {
        const test_ia ia;
        const unique_evd cr_evd = ia.create_evd(DAT_EVD_CR_FLAG);
        DAT_PSP_HANDLE handle = nullptr;
        require_success(dat_psp_create(ia, unused_port(), cr_evd, DAT_PSP_CONSUMER_FLAG, &handle));
        const unique_psp psp(handle);
        expect_evd_in_use(cr_evd);
    });
    add_case(cases, "evd.free_async", [] { // it is the IA's
        const test_ia ia;
        expect_evd_in_use(ia.async_evd());
    });
}

/// More completions than the queue takes: the EVD is unusable, and an asynchronous event
/// reports it.
void test_overflow() {
    ep_pair eps;
    DAT_EP_ATTR attr = minimal_ep_attr();
    attr.max_request_dtos = attr.max_recv_dtos = 256;
    const unique_evd small_evd = eps.ia.create_evd(DAT_EVD_DTO_FLAG, 1);
    DAT_EVD_PARAM param{};
    require_success(dat_evd_query(small_evd, DAT_EVD_FIELD_EVD_QLEN, &param));
    require(param.evd_qlen < 250, "a queue of one takes hundreds");
    {
        DAT_EP_HANDLE handle = nullptr;
        require_success(dat_ep_create(eps.ia, eps.pz, eps.active.recv_evd, small_evd,
                                      eps.active.connect_evd, &attr, &handle));
        const unique_ep sender(handle);
        require_success(connect_ep(sender, ia_address(eps.ia.ipv4_address()), eps.port));
        require_success(dat_cr_accept(eps.next_cr(), eps.passive, 0, nullptr));
        next_event(eps.active.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
        for (DAT_UINT64 i = 0; i < 256; ++i) {
            const DAT_RETURN ret = post_rdma_write(sender, eps.lmr.make_lmr_triplet(0, 8),
                                                   eps.lmr.make_rmr_triplet(page_size, 8), i);
            if (ret != DAT_SUCCESS) // as soon as it is broken
                break;
        }
        const DAT_EVENT event = next_event(eps.ia.async_evd(), DAT_ASYNC_ERROR_EVD_OVERFLOW);
        expect_eq(event.event_data.asynch_error_event_data.dat_handle, small_evd,
                  "the EVD it is about");
        expect_eq(event.event_data.asynch_error_event_data.reason, DAT_EVD_OVERFLOW_ERROR,
                  "the reason");
    }
    next_event(eps.passive.connect_evd); // it was disconnected, or broke
}

} // namespace

void add_evd(case_list &cases) {
    add_create_cases(cases);
    add_query_cases(cases);
    add_software_event_cases(cases);
    add_free_cases(cases);
    add_case(cases, "evd.overflow", test_overflow);
}

} // namespace conform

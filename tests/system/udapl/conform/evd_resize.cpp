// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Event dispatchers: resizing them. No event is lost or overtaken.

#include "cases.hpp"
#include "test_ep.hpp"

namespace conform {

namespace {

DAT_COUNT qlen_of(DAT_EVD_HANDLE events) {
    DAT_EVD_PARAM is_now{};
    require_success(dat_evd_query(events, DAT_EVD_FIELD_EVD_QLEN, &is_now));
    return is_now.evd_qlen;
}

void post(DAT_EVD_HANDLE to, DAT_UINT64 first, DAT_UINT64 count) {
    for (DAT_UINT64 i = first; i < first + count; ++i) {
        const DAT_EVENT event = make_software_event(i);
        require_success(dat_evd_post_se(to, &event));
    }
}
void take_header(DAT_EVD_HANDLE from, DAT_UINT64 first, DAT_UINT64 count) {
    for (DAT_UINT64 i = first; i < first + count; ++i) {
        DAT_EVENT event{};
        require_success(dat_evd_dequeue(from, &event));
        expect_eq(software_event_pointer(event), i, "the pointer");
    }
}

void software(case_list &cases) {
    add_case(cases, "evd_resize.larger", [] {
        const test_ia ia;
        const unique_evd events = ia.create_evd(DAT_EVD_SOFTWARE_FLAG, 4);
        post(events, 0, 3);
        take_header(events, 0, 1); // it has turned
        post(events, 3, 2);
        require_success(dat_evd_resize(events, 400));
        expect_true(qlen_of(events) >= 400, "the queue is shorter than asked for");
        post(events, 5, 395);
        take_header(events, 1, 399);
        expect_no_event(events);
    });
    add_case(cases, "evd_resize.smaller", [] {
        const test_ia ia;
        const unique_evd events = ia.create_evd(DAT_EVD_SOFTWARE_FLAG, 400);
        post(events, 0, 8);
        take_header(events, 0, 4);
        require_success(dat_evd_resize(events, 4));
        take_header(events, 4, 4);
        post(events, 8, 4);
        take_header(events, 8, 4);
    });
    add_case(cases, "evd_resize.too_small", [] { // for what is there
        const test_ia ia;
        const unique_evd events = ia.create_evd(DAT_EVD_SOFTWARE_FLAG, 64);
        post(events, 0, 60);
        const DAT_RETURN got = dat_evd_resize(events, 2); // DAT has no subtype for it
        expect_true(DAT_GET_TYPE(got) == DAT_INVALID_STATE && (got & DAT_CLASS_ERROR),
                    "returned " + return_name(got) + ", not INVALID_STATE");
        take_header(events, 0, 60);
    });
    add_case(cases, "evd_resize.wrong", [] {
        const test_ia ia;
        const unique_evd events = ia.create_evd(DAT_EVD_SOFTWARE_FLAG, 8);
        post(events, 0, 2);
        expect_return(dat_evd_resize(events, 0), invalid_parameter(2));
        expect_return(dat_evd_resize(events, -5), invalid_parameter(2));
        expect_return(dat_evd_resize(events, ia.ia_attr().max_evd_qlen + 1), invalid_parameter(2));
        take_header(events, 0, 2);
    });
}

/// Completions wait in the EVD, among them errors, while it is resized.
void with_completions(DAT_COUNT from, DAT_COUNT to) {
    ep_pair eps;
    DAT_EP_ATTR attributes = portable_ep_attr();
    attributes.max_request_dtos = 64;
    const unique_evd data = eps.ia.create_evd(DAT_EVD_DTO_FLAG, from);
    DAT_EP_HANDLE handle = nullptr;
    require_success(dat_ep_create(eps.ia, eps.pz, eps.active.recv_evd, data, eps.active.connect_evd,
                                  &attributes, &handle));
    const unique_ep sender(handle);
    require_success(connect_ep(sender, ia_address(eps.ia.ipv4_address()), eps.port));
    require_success(dat_cr_accept(eps.next_cr(), eps.passive, 0, nullptr));
    next_event(eps.active.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
    const auto write = [&](DAT_UINT64 cookie) {
        require_success(post_rdma_write(sender, eps.lmr.lmr_triplet(0, 8),
                                        eps.lmr.rmr_triplet(page, 8), cookie));
    };
    for (DAT_UINT64 i = 0; i < 10; ++i)
        write(i);
    expect_completion(data, sender, 0, 8); // some are in the EVD by now
    const DAT_RETURN got = dat_evd_resize(data, to);
    // A device need not be able to, but then says so.
    if (eps.ia.is_iwarp())
        expect_return(got, {DAT_SUCCESS, not_supported, dat_error(DAT_NOT_IMPLEMENTED)});
    else
        expect_return(got, DAT_SUCCESS);
    if (got == DAT_SUCCESS)
        expect_true(qlen_of(data) >= to, "the queue is shorter than asked for");
    for (DAT_UINT64 i = 10; i < 20; ++i)
        write(i);
    for (DAT_UINT64 i = 1; i < 20; ++i)
        expect_completion(data, sender, i, 8);
    expect_no_event(data);
}

} // namespace

void add_evd_resize(case_list &cases) {
    software(cases);
    add_case(cases, "evd_resize.completions_larger", [] { with_completions(20, 600); });
    add_case(cases, "evd_resize.completions_smaller", [] { with_completions(600, 20); });
}

} // namespace conform

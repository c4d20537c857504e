// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Event dispatchers: resizing them. No event is lost or overtaken.

#include "lib/cases.hpp"
#include "lib/test_ep.hpp"

namespace conform {

namespace {

DAT_COUNT query_qlen(DAT_EVD_HANDLE evd) {
    DAT_EVD_PARAM param{};
    require_success(dat_evd_query(evd, DAT_EVD_FIELD_EVD_QLEN, &param));
    return param.evd_qlen;
}

void post_software_events(DAT_EVD_HANDLE evd, DAT_UINT64 first, DAT_UINT64 count) {
    for (DAT_UINT64 i = first; i < first + count; ++i) {
        const DAT_EVENT event = make_software_event(i);
        require_success(dat_evd_post_se(evd, &event));
    }
}
/// The EVD's next events are the software events with these pointers, as post_software_events posts
/// them.
void take_software_events(DAT_EVD_HANDLE evd, DAT_UINT64 first, DAT_UINT64 count) {
    for (DAT_UINT64 i = first; i < first + count; ++i) {
        DAT_EVENT event{};
        require_success(dat_evd_dequeue(evd, &event));
        expect_eq(software_event_pointer(event), i, "the pointer");
    }
}

void add_software_event_cases(case_list &cases) {
    add_case(cases, "evd_resize.larger", [] {
        const test_ia ia;
        const unique_evd evd = ia.create_evd(DAT_EVD_SOFTWARE_FLAG, 4);
        post_software_events(evd, 0, 3);
        take_software_events(evd, 0, 1); // the ring has wrapped by the next posts
        post_software_events(evd, 3, 2);
        require_success(dat_evd_resize(evd, 400));
        expect_true(query_qlen(evd) >= 400, "the queue is shorter than asked for");
        post_software_events(evd, 5, 395);
        take_software_events(evd, 1, 399);
        expect_no_event(evd);
    });
    add_case(cases, "evd_resize.smaller", [] {
        const test_ia ia;
        const unique_evd evd = ia.create_evd(DAT_EVD_SOFTWARE_FLAG, 400);
        post_software_events(evd, 0, 8);
        take_software_events(evd, 0, 4);
        require_success(dat_evd_resize(evd, 4));
        take_software_events(evd, 4, 4);
        post_software_events(evd, 8, 4);
        take_software_events(evd, 8, 4);
    });
    add_case(cases, "evd_resize.too_small", [] { // for what is there
        const test_ia ia;
        const unique_evd evd = ia.create_evd(DAT_EVD_SOFTWARE_FLAG, 64);
        post_software_events(evd, 0, 60);
        const DAT_RETURN ret = dat_evd_resize(evd, 2); // DAT has no subtype for it
        expect_true(DAT_GET_TYPE(ret) == DAT_INVALID_STATE && (ret & DAT_CLASS_ERROR),
                    "returned " + return_name(ret) + ", not INVALID_STATE");
        take_software_events(evd, 0, 60);
    });
    add_case(cases, "evd_resize.wrong", [] {
        const test_ia ia;
        const unique_evd evd = ia.create_evd(DAT_EVD_SOFTWARE_FLAG, 8);
        post_software_events(evd, 0, 2);
        expect_return(dat_evd_resize(evd, 0), invalid_parameter(2));
        expect_return(dat_evd_resize(evd, -5), invalid_parameter(2));
        expect_return(dat_evd_resize(evd, ia.ia_attr().max_evd_qlen + 1), invalid_parameter(2));
        take_software_events(evd, 0, 2);
    });
}

/// Completions are in the EVD, and more come, while it is resized: none is lost, and their order
/// stays.
void test_resize_with_completions(DAT_COUNT old_qlen, DAT_COUNT new_qlen) {
    ep_pair eps;
    DAT_EP_ATTR attr = minimal_ep_attr();
    attr.max_request_dtos = 64;
    const unique_evd dto_evd = eps.ia.create_evd(DAT_EVD_DTO_FLAG, old_qlen);
    DAT_EP_HANDLE handle = nullptr;
    require_success(dat_ep_create(eps.ia, eps.pz, eps.active.recv_evd, dto_evd,
                                  eps.active.connect_evd, &attr, &handle));
    const unique_ep sender(handle);
    require_success(connect_ep(sender, ia_address(eps.ia.ipv4_address()), eps.port));
    require_success(dat_cr_accept(eps.next_cr(), eps.passive, 0, nullptr));
    next_event(eps.active.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
    const auto write = [&](DAT_UINT64 cookie) {
        require_success(post_rdma_write(sender, eps.lmr.make_lmr_triplet(0, 8),
                                        eps.lmr.make_rmr_triplet(page_size, 8), cookie));
    };
    for (DAT_UINT64 i = 0; i < 10; ++i)
        write(i);
    expect_completion(dto_evd, sender, 0, 8); // some are in the EVD by now
    const DAT_RETURN ret = dat_evd_resize(dto_evd, new_qlen);
    // An iWARP device need not support it.
    if (eps.ia.is_iwarp())
        expect_return(ret, {DAT_SUCCESS, not_supported, dat_error(DAT_NOT_IMPLEMENTED)});
    else
        expect_return(ret, DAT_SUCCESS);
    if (ret == DAT_SUCCESS)
        expect_true(query_qlen(dto_evd) >= new_qlen, "the queue is shorter than asked for");
    for (DAT_UINT64 i = 10; i < 20; ++i)
        write(i);
    for (DAT_UINT64 i = 1; i < 20; ++i)
        expect_completion(dto_evd, sender, i, 8);
    expect_no_event(dto_evd);
}

} // namespace

void add_evd_resize(case_list &cases) {
    add_software_event_cases(cases);
    add_case(cases, "evd_resize.completions_larger", [] { test_resize_with_completions(20, 600); });
    add_case(cases, "evd_resize.completions_smaller",
             [] { test_resize_with_completions(600, 20); });
}

} // namespace conform

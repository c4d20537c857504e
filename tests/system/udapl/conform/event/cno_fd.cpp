// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Notification through a file descriptor.

#include "lib/cases.hpp"
#include "lib/optional.hpp"
#include "lib/process.hpp"
#include "lib/test_ep.hpp"

#include <poll.h>

namespace conform {

namespace {

struct cno_fd_fixture {
    test_ia ia;
    DAT_FD fd = -1;
    unique_cno cno = create_cno();
    unique_evd first_evd = ia.create_evd(DAT_EVD_SOFTWARE_FLAG, 16, cno);
    unique_evd second_evd = ia.create_evd(DAT_EVD_SOFTWARE_FLAG, 16, cno);

    unique_cno create_cno() {
        DAT_CNO_HANDLE handle = nullptr;
        auto *create = require_symbol<decltype(dat_cno_fd_create)>("dat_cno_fd_create");
        require_success(create(ia, &fd, &handle));
        return unique_cno(handle);
    }
    bool is_readable(milliseconds timeout) const {
        pollfd pfd{fd, POLLIN, 0};
        return poll(&pfd, 1, static_cast<int>(timeout.count())) == 1 && (pfd.revents & POLLIN);
    }
    DAT_RETURN trigger(DAT_EVD_HANDLE &evd_handle) const {
        return require_symbol<decltype(dat_cno_trigger)>("dat_cno_trigger")(cno, &evd_handle);
    }
    /// The EVD it names; its events are taken.
    DAT_EVD_HANDLE trigger_and_drain(source_location loc = current_location()) const {
        require(is_readable(event_timeout), "the descriptor is not readable", loc);
        DAT_EVD_HANDLE evd_handle = nullptr;
        require_success(trigger(evd_handle), loc);
        DAT_EVENT event{};
        while (dat_evd_dequeue(evd_handle, &event) == DAT_SUCCESS)
            ;
        return evd_handle;
    }
    void expect_not_triggered(source_location loc = current_location()) const {
        expect_true(!is_readable(milliseconds(20)), "the descriptor is readable for nothing", loc);
        DAT_EVD_HANDLE evd_handle = nullptr;
        expect_return(trigger(evd_handle), queue_empty, loc);
    }
};

void post_software_event(DAT_EVD_HANDLE evd) {
    const DAT_EVENT event = make_software_event(1);
    require_success(dat_evd_post_se(evd, &event));
}

/// Each of 50 messages makes the CNO's descriptor readable, and dat_cno_trigger names the EVD.
void test_completions() {
    ep_pair eps;
    DAT_FD fd = -1;
    DAT_CNO_HANDLE handle = nullptr;
    require_success(
        require_symbol<decltype(dat_cno_fd_create)>("dat_cno_fd_create")(eps.ia, &fd, &handle));
    const unique_cno cno(handle);
    eps.connect();
    require_success(dat_evd_modify_cno(eps.passive.recv_evd, cno));
    for (DAT_UINT64 i = 0; i < 50; ++i) {
        require_success(post_recv(eps.passive, eps.lmr.make_lmr_triplet(page_size, 8), i));
        require_success(post_send(eps.active, eps.lmr.make_lmr_triplet(0, 8), i));
        pollfd pfd{fd, POLLIN, 0};
        require(poll(&pfd, 1, static_cast<int>(event_timeout.count())) == 1,
                "a message was slept over");
        DAT_EVD_HANDLE evd_handle = nullptr;
        require_success(
            require_symbol<decltype(dat_cno_trigger)>("dat_cno_trigger")(cno, &evd_handle));
        expect_eq(evd_handle, eps.passive.recv_evd, "the EVD");
        expect_completion(evd_handle, eps.passive, i, 8);
        expect_completion(eps.active.request_evd, eps.active, i, 8);
    }
    require_success(dat_evd_modify_cno(eps.passive.recv_evd, nullptr));
}

} // namespace

void add_cno_fd(case_list &cases) {
    add_case(cases, "cno_fd.create", [] {
        const cno_fd_fixture fixture;
        expect_true(fixture.fd >= 0, "there is no descriptor");
        DAT_CNO_PARAM param{};
        require_success(dat_cno_query(fixture.cno, DAT_CNO_FIELD_ALL, &param));
        expect_eq(param.proxy_type, DAT_PROXY_TYPE_FD, "proxy_type");
        expect_eq(param.proxy.fd, fixture.fd, "proxy.fd");
        fixture.expect_not_triggered();
    });
    add_case(cases, "cno_fd.create_null", [] {
        const test_ia ia;
        auto *create = require_symbol<decltype(dat_cno_fd_create)>("dat_cno_fd_create");
        DAT_CNO_HANDLE handle = nullptr;
        DAT_FD fd = -1;
        expect_return(create(ia, nullptr, &handle), invalid_parameter(2));
        expect_return(create(ia, &fd, nullptr), invalid_parameter(3));
    });
    add_case(cases, "cno_fd.trigger_null", [] {
        const cno_fd_fixture fixture;
        expect_return(
            require_symbol<decltype(dat_cno_trigger)>("dat_cno_trigger")(fixture.cno, nullptr),
            invalid_parameter(2));
    });
    add_case(cases, "cno_fd.poll", [] {
        const cno_fd_fixture fixture;
        post_software_event(fixture.second_evd);
        expect_eq(fixture.trigger_and_drain(), fixture.second_evd, "the EVD");
        fixture.expect_not_triggered();
        post_software_event(fixture.first_evd);
        post_software_event(fixture.first_evd);
        expect_eq(fixture.trigger_and_drain(), fixture.first_evd, "the EVD");
        fixture.expect_not_triggered();
    });
    add_case(cases, "cno_fd.poll_for_both", [] {
        const cno_fd_fixture fixture;
        post_software_event(fixture.first_evd);
        post_software_event(fixture.second_evd);
        const DAT_EVD_HANDLE first_evd = fixture.trigger_and_drain(),
                             second_evd = fixture.trigger_and_drain();
        expect_true(first_evd != second_evd, "one EVD was named twice");
        fixture.expect_not_triggered();
    });
    add_case(cases, "cno_fd.completions", test_completions);
    add_case(cases, "cno_fd.closed_when_freed", [] {
        const test_ia ia;
        auto *create = require_symbol<decltype(dat_cno_fd_create)>("dat_cno_fd_create");
        const std::size_t files = count_open_files();
        for (int i = 0; i < 20; ++i) {
            DAT_CNO_HANDLE handle = nullptr;
            DAT_FD fd = -1;
            require_success(create(ia, &fd, &handle));
            require_success(dat_cno_free(handle));
        }
        expect_eq(count_open_files(), files, "the number of open files");
    });
}

} // namespace conform

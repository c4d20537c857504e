// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Notification through a file descriptor.

#include "cases.hpp"
#include "optional.hpp"
#include "process.hpp"
#include "test_ep.hpp"

#include <poll.h>

namespace conform {

namespace {

struct cno_fd_fixture {
    test_ia ia;
    DAT_FD descriptor = -1;
    unique_cno notifier = make();
    unique_evd one = ia.create_evd(DAT_EVD_SOFTWARE_FLAG, 16, notifier);
    unique_evd two = ia.create_evd(DAT_EVD_SOFTWARE_FLAG, 16, notifier);

    unique_cno make() {
        DAT_CNO_HANDLE made = nullptr;
        auto *create = require_symbol<decltype(dat_cno_fd_create)>("dat_cno_fd_create");
        require_success(create(ia, &descriptor, &made));
        return unique_cno(made);
    }
    bool readable(milliseconds within) const {
        pollfd one_of{descriptor, POLLIN, 0};
        return poll(&one_of, 1, static_cast<int>(within.count())) == 1 && (one_of.revents & POLLIN);
    }
    DAT_RETURN trigger(DAT_EVD_HANDLE &which) const {
        return require_symbol<decltype(dat_cno_trigger)>("dat_cno_trigger")(notifier, &which);
    }
    /// The EVD it names; its events are taken.
    DAT_EVD_HANDLE triggered(source_location loc = current_location()) const {
        require(readable(event_timeout), "the descriptor is not readable", loc);
        DAT_EVD_HANDLE which = nullptr;
        require_success(trigger(which), loc);
        DAT_EVENT event{};
        while (dat_evd_dequeue(which, &event) == DAT_SUCCESS)
            ;
        return which;
    }
    void quiet(source_location loc = current_location()) const {
        expect_true(!readable(milliseconds(20)), "the descriptor is readable for nothing", loc);
        DAT_EVD_HANDLE which = nullptr;
        expect_return(trigger(which), queue_empty, loc);
    }
};

void post(DAT_EVD_HANDLE to) {
    const DAT_EVENT event = make_software_event(1);
    require_success(dat_evd_post_se(to, &event));
}

void completions() {
    ep_pair eps;
    DAT_FD descriptor = -1;
    DAT_CNO_HANDLE made = nullptr;
    require_success(require_symbol<decltype(dat_cno_fd_create)>("dat_cno_fd_create")(
        eps.ia, &descriptor, &made));
    const unique_cno notifier(made);
    eps.connect();
    require_success(dat_evd_modify_cno(eps.passive.recv_evd, notifier));
    for (DAT_UINT64 i = 0; i < 50; ++i) {
        require_success(post_recv(eps.passive, eps.lmr.lmr_triplet(page, 8), i));
        require_success(post_send(eps.active, eps.lmr.lmr_triplet(0, 8), i));
        pollfd one{descriptor, POLLIN, 0};
        require(poll(&one, 1, static_cast<int>(event_timeout.count())) == 1,
                "a message was slept over");
        DAT_EVD_HANDLE which = nullptr;
        require_success(
            require_symbol<decltype(dat_cno_trigger)>("dat_cno_trigger")(notifier, &which));
        expect_eq(which, eps.passive.recv_evd, "the EVD");
        expect_completion(which, eps.passive, i, 8);
        expect_completion(eps.active.request_evd, eps.active, i, 8);
    }
    require_success(dat_evd_modify_cno(eps.passive.recv_evd, nullptr));
}

} // namespace

void add_cno_fd(case_list &cases) {
    add_case(cases, "cno_fd.create", [] {
        const cno_fd_fixture fixture;
        expect_true(fixture.descriptor >= 0, "there is no descriptor");
        DAT_CNO_PARAM is_now{};
        require_success(dat_cno_query(fixture.notifier, DAT_CNO_FIELD_ALL, &is_now));
        expect_eq(is_now.proxy_type, DAT_PROXY_TYPE_FD, "proxy_type");
        expect_eq(is_now.proxy.fd, fixture.descriptor, "proxy.fd");
        fixture.quiet();
    });
    add_case(cases, "cno_fd.create_null", [] {
        const test_ia ia;
        auto *create = require_symbol<decltype(dat_cno_fd_create)>("dat_cno_fd_create");
        DAT_CNO_HANDLE made = nullptr;
        DAT_FD descriptor = -1;
        expect_return(create(ia, nullptr, &made), invalid_parameter(2));
        expect_return(create(ia, &descriptor, nullptr), invalid_parameter(3));
    });
    add_case(cases, "cno_fd.trigger_null", [] {
        const cno_fd_fixture fixture;
        expect_return(
            require_symbol<decltype(dat_cno_trigger)>("dat_cno_trigger")(fixture.notifier, nullptr),
            invalid_parameter(2));
    });
    add_case(cases, "cno_fd.poll", [] {
        const cno_fd_fixture fixture;
        post(fixture.two);
        expect_eq(fixture.triggered(), fixture.two, "the EVD");
        fixture.quiet();
        post(fixture.one);
        post(fixture.one);
        expect_eq(fixture.triggered(), fixture.one, "the EVD");
        fixture.quiet();
    });
    add_case(cases, "cno_fd.poll_for_both", [] {
        const cno_fd_fixture fixture;
        post(fixture.one);
        post(fixture.two);
        const DAT_EVD_HANDLE first = fixture.triggered(), second = fixture.triggered();
        expect_true(first != second, "one EVD was named twice");
        fixture.quiet();
    });
    add_case(cases, "cno_fd.completions", completions);
    add_case(cases, "cno_fd.closed_when_freed", [] {
        const test_ia ia;
        auto *create = require_symbol<decltype(dat_cno_fd_create)>("dat_cno_fd_create");
        const std::size_t files = count_open_files();
        for (int i = 0; i < 20; ++i) {
            DAT_CNO_HANDLE made = nullptr;
            DAT_FD descriptor = -1;
            require_success(create(ia, &descriptor, &made));
            require_success(dat_cno_free(made));
        }
        expect_eq(count_open_files(), files, "the number of open files");
    });
}

} // namespace conform

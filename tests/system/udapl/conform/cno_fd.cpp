// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Notification through a file descriptor.

#include "cases.hpp"
#include "endpoint.hpp"
#include "optional.hpp"
#include "process.hpp"

#include <poll.h>

namespace conform {

namespace {

struct place {
    adapter ia;
    DAT_FD descriptor = -1;
    unique_cno notifier = make();
    unique_evd one = ia.events(DAT_EVD_SOFTWARE_FLAG, 16, notifier);
    unique_evd two = ia.events(DAT_EVD_SOFTWARE_FLAG, 16, notifier);

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
        require(readable(soon), "the descriptor is not readable", loc);
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
    const DAT_EVENT event = software_event(1);
    require_success(dat_evd_post_se(to, &event));
}

void completions() {
    couple pair;
    DAT_FD descriptor = -1;
    DAT_CNO_HANDLE made = nullptr;
    require_success(require_symbol<decltype(dat_cno_fd_create)>("dat_cno_fd_create")(
        pair.ia, &descriptor, &made));
    const unique_cno notifier(made);
    pair.join();
    require_success(dat_evd_modify_cno(pair.passive.received, notifier));
    for (DAT_UINT64 i = 0; i < 50; ++i) {
        require_success(post_receive(pair.passive, pair.memory.piece(page, 8), i));
        require_success(post_send(pair.active, pair.memory.piece(0, 8), i));
        pollfd one{descriptor, POLLIN, 0};
        require(poll(&one, 1, static_cast<int>(soon.count())) == 1, "a message was slept over");
        DAT_EVD_HANDLE which = nullptr;
        require_success(
            require_symbol<decltype(dat_cno_trigger)>("dat_cno_trigger")(notifier, &which));
        expect_eq(which, pair.passive.received, "the EVD");
        completed(which, pair.passive, i, 8);
        completed(pair.active.requested, pair.active, i, 8);
    }
    require_success(dat_evd_modify_cno(pair.passive.received, nullptr));
}

} // namespace

void add_cno_fd(case_list &cases) {
    add_case(cases, "cno_fd.create", [] {
        const place here_is;
        expect_true(here_is.descriptor >= 0, "there is no descriptor");
        DAT_CNO_PARAM is_now{};
        require_success(dat_cno_query(here_is.notifier, DAT_CNO_FIELD_ALL, &is_now));
        expect_eq(is_now.proxy_type, DAT_PROXY_TYPE_FD, "proxy_type");
        expect_eq(is_now.proxy.fd, here_is.descriptor, "proxy.fd");
        here_is.quiet();
    });
    add_case(cases, "cno_fd.create_null", [] {
        const adapter ia;
        auto *create = require_symbol<decltype(dat_cno_fd_create)>("dat_cno_fd_create");
        DAT_CNO_HANDLE made = nullptr;
        DAT_FD descriptor = -1;
        expect_return(create(ia, nullptr, &made), invalid_parameter(2));
        expect_return(create(ia, &descriptor, nullptr), invalid_parameter(3));
    });
    add_case(cases, "cno_fd.trigger_null", [] {
        const place here_is;
        expect_return(
            require_symbol<decltype(dat_cno_trigger)>("dat_cno_trigger")(here_is.notifier, nullptr),
            invalid_parameter(2));
    });
    add_case(cases, "cno_fd.poll", [] {
        const place here_is;
        post(here_is.two);
        expect_eq(here_is.triggered(), here_is.two, "the EVD");
        here_is.quiet();
        post(here_is.one);
        post(here_is.one);
        expect_eq(here_is.triggered(), here_is.one, "the EVD");
        here_is.quiet();
    });
    add_case(cases, "cno_fd.poll_for_both", [] {
        const place here_is;
        post(here_is.one);
        post(here_is.two);
        const DAT_EVD_HANDLE first = here_is.triggered(), second = here_is.triggered();
        expect_true(first != second, "one EVD was named twice");
        here_is.quiet();
    });
    add_case(cases, "cno_fd.completions", completions);
    add_case(cases, "cno_fd.closed_when_freed", [] {
        const adapter ia;
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

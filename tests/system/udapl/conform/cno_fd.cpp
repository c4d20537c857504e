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
    cno notifier = make();
    evd one = ia.events(DAT_EVD_SOFTWARE_FLAG, 16, notifier);
    evd two = ia.events(DAT_EVD_SOFTWARE_FLAG, 16, notifier);

    cno make() {
        DAT_CNO_HANDLE made = nullptr;
        auto *create = exported<decltype(dat_cno_fd_create)>("dat_cno_fd_create");
        done(create(ia, &descriptor, &made));
        return cno(made);
    }
    bool readable(milliseconds within) const {
        pollfd one_of{descriptor, POLLIN, 0};
        return poll(&one_of, 1, static_cast<int>(within.count())) == 1 && (one_of.revents & POLLIN);
    }
    DAT_RETURN trigger(DAT_EVD_HANDLE &which) const {
        return exported<decltype(dat_cno_trigger)>("dat_cno_trigger")(notifier, &which);
    }
    /// The EVD it names; its events are taken.
    DAT_EVD_HANDLE triggered(spot at = here()) const {
        need(readable(soon), "the descriptor is not readable", at);
        DAT_EVD_HANDLE which = nullptr;
        done(trigger(which), at);
        DAT_EVENT event{};
        while (dat_evd_dequeue(which, &event) == DAT_SUCCESS)
            ;
        return which;
    }
    void quiet(spot at = here()) const {
        yes(!readable(milliseconds(20)), "the descriptor is readable for nothing", at);
        DAT_EVD_HANDLE which = nullptr;
        is(trigger(which), queue_empty, at);
    }
};

void post(DAT_EVD_HANDLE to) {
    const DAT_EVENT event = software_event(1);
    done(dat_evd_post_se(to, &event));
}

void completions() {
    couple pair;
    DAT_FD descriptor = -1;
    DAT_CNO_HANDLE made = nullptr;
    done(exported<decltype(dat_cno_fd_create)>("dat_cno_fd_create")(pair.ia, &descriptor, &made));
    const cno notifier(made);
    pair.join();
    done(dat_evd_modify_cno(pair.passive.received, notifier));
    for (DAT_UINT64 i = 0; i < 50; ++i) {
        done(post_receive(pair.passive, pair.memory.piece(page, 8), i));
        done(post_send(pair.active, pair.memory.piece(0, 8), i));
        pollfd one{descriptor, POLLIN, 0};
        need(poll(&one, 1, static_cast<int>(soon.count())) == 1, "a message was slept over");
        DAT_EVD_HANDLE which = nullptr;
        done(exported<decltype(dat_cno_trigger)>("dat_cno_trigger")(notifier, &which));
        same(which, pair.passive.received, "the EVD");
        completed(which, pair.passive, i, 8);
        completed(pair.active.requested, pair.active, i, 8);
    }
    done(dat_evd_modify_cno(pair.passive.received, nullptr));
}

} // namespace

void add_cno_fd(case_list &cases) {
    add_case(cases, "cno_fd.create", [] {
        const place here_is;
        yes(here_is.descriptor >= 0, "there is no descriptor");
        DAT_CNO_PARAM is_now{};
        done(dat_cno_query(here_is.notifier, DAT_CNO_FIELD_ALL, &is_now));
        same(is_now.proxy_type, DAT_PROXY_TYPE_FD, "proxy_type");
        same(is_now.proxy.fd, here_is.descriptor, "proxy.fd");
        here_is.quiet();
    });
    add_case(cases, "cno_fd.create_null", [] {
        const adapter ia;
        auto *create = exported<decltype(dat_cno_fd_create)>("dat_cno_fd_create");
        DAT_CNO_HANDLE made = nullptr;
        DAT_FD descriptor = -1;
        is(create(ia, nullptr, &made), bad_argument(2));
        is(create(ia, &descriptor, nullptr), bad_argument(3));
    });
    add_case(cases, "cno_fd.trigger_null", [] {
        const place here_is;
        is(exported<decltype(dat_cno_trigger)>("dat_cno_trigger")(here_is.notifier, nullptr),
           bad_argument(2));
    });
    add_case(cases, "cno_fd.poll", [] {
        const place here_is;
        post(here_is.two);
        same(here_is.triggered(), here_is.two, "the EVD");
        here_is.quiet();
        post(here_is.one);
        post(here_is.one);
        same(here_is.triggered(), here_is.one, "the EVD");
        here_is.quiet();
    });
    add_case(cases, "cno_fd.poll_for_both", [] {
        const place here_is;
        post(here_is.one);
        post(here_is.two);
        const DAT_EVD_HANDLE first = here_is.triggered(), second = here_is.triggered();
        yes(first != second, "one EVD was named twice");
        here_is.quiet();
    });
    add_case(cases, "cno_fd.completions", completions);
    add_case(cases, "cno_fd.closed_when_freed", [] {
        const adapter ia;
        auto *create = exported<decltype(dat_cno_fd_create)>("dat_cno_fd_create");
        const std::size_t files = open_files();
        for (int i = 0; i < 20; ++i) {
            DAT_CNO_HANDLE made = nullptr;
            DAT_FD descriptor = -1;
            done(create(ia, &descriptor, &made));
            done(dat_cno_free(made));
        }
        same(open_files(), files, "the number of open files");
    });
}

} // namespace conform

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Public service points: listeners.

#include "cases.hpp"
#include "endpoint.hpp"

namespace conform {

namespace {

struct place {
    adapter ia;
    evd arrivals = ia.events(DAT_EVD_CR_FLAG);

    DAT_RETURN listen(DAT_CONN_QUAL port, psp &made, DAT_PSP_FLAGS flags = DAT_PSP_CONSUMER_FLAG,
                      spot at = here()) const {
        DAT_PSP_HANDLE handle = nullptr;
        const DAT_RETURN got = dat_psp_create(ia, port, arrivals, flags, &handle);
        if (got == DAT_SUCCESS)
            made = psp(handle, at);
        return got;
    }
};

void making(case_list &cases) {
    add_case(cases, "psp.create_evd_of_another_stream", [] {
        const place here_is;
        const evd other = here_is.ia.events(DAT_EVD_CONNECTION_FLAG);
        DAT_PSP_HANDLE made = nullptr;
        is(dat_psp_create(here_is.ia, fresh_port(), other, DAT_PSP_CONSUMER_FLAG, &made),
           bad_handle(DAT_INVALID_HANDLE_EVD_CR));
        DAT_CONN_QUAL port = 0;
        is(dat_psp_create_any(here_is.ia, &port, other, DAT_PSP_CONSUMER_FLAG, &made),
           bad_handle(DAT_INVALID_HANDLE_EVD_CR));
    });
    add_case(cases, "psp.create_flags_unknown", [] {
        const place here_is;
        psp made;
        is(here_is.listen(fresh_port(), made, no_such<DAT_PSP_FLAGS>(8)), bad_argument(4));
    });
    add_case(cases, "psp.create_null", [] {
        const place here_is;
        is(dat_psp_create(here_is.ia, fresh_port(), here_is.arrivals, DAT_PSP_CONSUMER_FLAG,
                          nullptr),
           bad_argument(5));
    });
    add_case(cases, "psp.create_in_use", [] {
        const place here_is;
        const DAT_CONN_QUAL port = fresh_port();
        psp first, second;
        done(here_is.listen(port, first));
        is(here_is.listen(port, second), error(DAT_CONN_QUAL_IN_USE));
        done(first.free());
        is(here_is.listen(port, second), DAT_SUCCESS); // at once
    });
    add_case(cases, "psp.create_in_use_by_another_ia", [] {
        const place here_is, elsewhere;
        const DAT_CONN_QUAL port = fresh_port();
        psp first, second;
        done(here_is.listen(port, first));
        is(elsewhere.listen(port, second), error(DAT_CONN_QUAL_IN_USE));
    });
    add_case(cases, "psp.query", [] {
        const place here_is;
        const DAT_CONN_QUAL port = fresh_port();
        psp made;
        done(here_is.listen(port, made));
        filled<DAT_PSP_PARAM> is_now;
        done(dat_psp_query(made, DAT_PSP_FIELD_ALL, is_now.out()));
        same(is_now->ia_handle, here_is.ia, "ia_handle");
        same(is_now->conn_qual, port, "conn_qual");
        same(is_now->evd_handle, here_is.arrivals, "evd_handle");
        same(is_now->psp_flags, DAT_PSP_CONSUMER_FLAG, "psp_flags");
    });
    add_case(cases, "psp.query_mask_unknown", [] {
        const place here_is;
        psp made;
        done(here_is.listen(fresh_port(), made));
        DAT_PSP_PARAM is_now{};
        is(dat_psp_query(made, no_such<DAT_PSP_PARAM_MASK>(0x10), &is_now), bad_argument(2));
    });
    add_case(cases, "psp.query_null", [] {
        const place here_is;
        psp made;
        done(here_is.listen(fresh_port(), made));
        is(dat_psp_query(made, DAT_PSP_FIELD_ALL, nullptr), bad_argument(3));
    });
    add_case(cases, "psp.many", [] {
        const place here_is;
        std::vector<psp> all(30);
        for (psp &one : all)
            done(here_is.listen(fresh_port(), one));
    });
}

void any_port(case_list &cases) {
    add_case(cases, "psp.any", [] {
        couple pair;
        DAT_CONN_QUAL first = 0, second = 0;
        DAT_PSP_HANDLE one = nullptr, two = nullptr;
        done(dat_psp_create_any(pair.ia, &first, pair.arrivals, DAT_PSP_CONSUMER_FLAG, &one));
        const psp own_one(one);
        done(dat_psp_create_any(pair.ia, &second, pair.arrivals, DAT_PSP_CONSUMER_FLAG, &two));
        const psp own_two(two);
        yes(first != 0 && second != 0, "a port is 0");
        yes(first != second, "both have the same port");
        DAT_PSP_PARAM is_now{};
        done(dat_psp_query(one, DAT_PSP_FIELD_ALL, &is_now));
        same(is_now.conn_qual, first, "conn_qual");
        done(connect(pair.active, destination(pair.ia.address()), second));
        const DAT_EVENT arrived = next_event(pair.arrivals, DAT_CONNECTION_REQUEST_EVENT);
        const auto &request = arrived.event_data.cr_arrival_event_data;
        same(request.sp_handle.psp_handle, two, "the listener");
        same(request.conn_qual, second, "its port");
        done(dat_cr_reject(request.cr_handle, 0, nullptr));
        next_event(pair.active.connection);
    });
    add_case(cases, "psp.any_null", [] {
        const place here_is;
        DAT_PSP_HANDLE made = nullptr;
        DAT_CONN_QUAL port = 0;
        is(dat_psp_create_any(here_is.ia, nullptr, here_is.arrivals, DAT_PSP_CONSUMER_FLAG, &made),
           bad_argument(2));
        is(dat_psp_create_any(here_is.ia, &port, here_is.arrivals, DAT_PSP_CONSUMER_FLAG, nullptr),
           bad_argument(5));
    });
    add_case(cases, "psp.any_flags_unknown", [] {
        const place here_is;
        DAT_PSP_HANDLE made = nullptr;
        DAT_CONN_QUAL port = 0;
        is(dat_psp_create_any(here_is.ia, &port, here_is.arrivals, no_such<DAT_PSP_FLAGS>(8),
                              &made),
           bad_argument(4));
    });
    add_case(cases, "psp.large_qualifier", [] { // beyond the ports of IP
        couple pair;
        constexpr DAT_CONN_QUAL far = 0x123456789abcULL;
        DAT_PSP_HANDLE made = nullptr;
        done(dat_psp_create(pair.ia, far, pair.arrivals, DAT_PSP_CONSUMER_FLAG, &made));
        const psp listener(made);
        DAT_PSP_PARAM is_now{};
        done(dat_psp_query(made, DAT_PSP_FIELD_ALL, &is_now));
        same(is_now.conn_qual, far, "conn_qual");
        done(connect(pair.active, destination(pair.ia.address()), far));
        const DAT_EVENT arrived = next_event(pair.arrivals, DAT_CONNECTION_REQUEST_EVENT);
        const auto &request = arrived.event_data.cr_arrival_event_data;
        same(request.conn_qual, far, "the request's conn_qual");
        done(dat_cr_accept(request.cr_handle, pair.passive, 0, nullptr));
        next_event(pair.active.connection, DAT_CONNECTION_EVENT_ESTABLISHED);
        next_event(pair.passive.connection, DAT_CONNECTION_EVENT_ESTABLISHED);
    });
}

/// The provider makes the EP, if it says that it does.
void by_provider() {
    couple pair;
    psp made;
    DAT_PSP_HANDLE handle = nullptr;
    const DAT_CONN_QUAL port = fresh_port();
    const DAT_RETURN got =
        dat_psp_create(pair.ia, port, pair.arrivals, DAT_PSP_PROVIDER_FLAG, &handle);
    if (pair.ia.provider().ep_creator == DAT_PSP_CREATES_EP_NEVER) {
        if (got == DAT_SUCCESS)
            dat_psp_free(handle);
        is(got, {not_supported, bad_argument(4)});
        return;
    }
    done(got);
    made = psp(handle);
    done(connect(pair.active, destination(pair.ia.address()), port));
    const DAT_CR_HANDLE request = pair.request();
    DAT_CR_PARAM is_now{};
    done(dat_cr_query(request, DAT_CR_FIELD_ALL, &is_now));
    const DAT_EP_HANDLE born = is_now.local_ep_handle;
    need(born != nullptr, "the request has no EP");
    DAT_EP_PARAM wish{};
    done(dat_ep_query(born, DAT_EP_FIELD_ALL, &wish));
    yes(wish.ep_state == DAT_EP_STATE_TENTATIVE_CONNECTION_PENDING ||
            wish.ep_state == DAT_EP_STATE_UNCONFIGURED_TENTATIVE,
        "the EP's state is " + shown(wish.ep_state));
    wish.pz_handle = pair.zone;
    wish.recv_evd_handle = pair.passive.received;
    wish.request_evd_handle = pair.passive.requested;
    wish.connect_evd_handle = pair.passive.connection;
    done(dat_ep_modify(born,
                       DAT_EP_FIELD_PZ_HANDLE | DAT_EP_FIELD_RECV_EVD_HANDLE |
                           DAT_EP_FIELD_REQUEST_EVD_HANDLE | DAT_EP_FIELD_CONNECT_EVD_HANDLE,
                       &wish));
    done(dat_cr_accept(request, nullptr, 0, nullptr));
    next_event(pair.active.connection, DAT_CONNECTION_EVENT_ESTABLISHED);
    const DAT_EVENT there = next_event(pair.passive.connection, DAT_CONNECTION_EVENT_ESTABLISHED);
    same(there.event_data.connect_event_data.ep_handle, born, "the EP that is connected");
    is(dat_ep_free(born), DAT_SUCCESS);
    next_event(pair.active.connection, DAT_CONNECTION_EVENT_DISCONNECTED);
}

void freeing(case_list &cases) {
    add_case(cases, "psp.free_under_connection", [] { // which lives on
        couple pair;
        pair.join();
        done(pair.listener.free());
        done(post_write(pair.active, pair.memory.piece(0, 8), pair.memory.target(page, 8), 1));
        completed(pair.active.requested, pair.active, 1, 8);
        pair.part();
    });
    add_case(cases, "psp.free_under_request", [] { // it can be accepted still
        couple pair;
        done(pair.call());
        const DAT_CR_HANDLE request = pair.request();
        done(pair.listener.free());
        done(dat_cr_accept(request, pair.passive, 0, nullptr));
        next_event(pair.active.connection, DAT_CONNECTION_EVENT_ESTABLISHED);
        next_event(pair.passive.connection, DAT_CONNECTION_EVENT_ESTABLISHED);
    });
    add_case(cases, "psp.free_listens_no_more", [] {
        couple pair;
        done(pair.listener.free());
        done(pair.call());
        next_event(pair.active.connection, DAT_CONNECTION_EVENT_NON_PEER_REJECTED);
        no_event(pair.arrivals);
    });
}

} // namespace

void add_psp(case_list &cases) {
    making(cases);
    any_port(cases);
    add_case(cases, "psp.provider_makes_ep", by_provider);
    freeing(cases);
}

} // namespace conform

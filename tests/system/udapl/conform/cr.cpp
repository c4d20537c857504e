// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Connection requests: what they tell, and accepting and rejecting them.

#include "cases.hpp"
#include "endpoint.hpp"

#include <algorithm>
#include <cstring>

namespace conform {

namespace {

/// A request that waits for its answer; it is answered in the end.
struct place {
    couple pair;
    DAT_CR_ARRIVAL_EVENT_DATA arrived{};
    bool open = true;

    explicit place(words data = {}) {
        require_success(pair.call(data));
        arrived = next_event(pair.arrivals, DAT_CONNECTION_REQUEST_EVENT)
                      .event_data.cr_arrival_event_data;
    }
    ~place() {
        if (open && dat_cr_reject(request(), 0, nullptr) == DAT_SUCCESS)
            dat_evd_wait_of(pair.active.connection);
    }
    DAT_CR_HANDLE request() const { return arrived.cr_handle; }
    /// It may be accepted as if nothing had been.
    void accepted(source_location loc = current_location()) {
        open = false;
        require_success(dat_cr_accept(request(), pair.passive, 0, nullptr), loc);
        next_event(pair.active.connection, DAT_CONNECTION_EVENT_ESTABLISHED, loc);
        next_event(pair.passive.connection, DAT_CONNECTION_EVENT_ESTABLISHED, loc);
    }

  private:
    static void dat_evd_wait_of(DAT_EVD_HANDLE events) {
        DAT_EVENT event{};
        DAT_COUNT more = 0;
        dat_evd_wait(events, dat_timeout(soon), 1, &event, &more);
    }
};

bool is_ours(const couple &pair, DAT_IA_ADDRESS_PTR address, const char *what,
             source_location loc = current_location()) {
    if (!expect_true(address != nullptr, concat(what, " is NULL"), loc))
        return false;
    if (!expect_true(address->sa_family == AF_INET, concat(what, " is none of IPv4"), loc))
        return false;
    sockaddr_in is{};
    std::memcpy(&is, address, sizeof is);
    return expect_true(is.sin_addr.s_addr == pair.ia.address().sin_addr.s_addr,
                       concat(what, " is another address"), loc);
}

void told(case_list &cases) {
    add_case(cases, "cr.event", [] {
        const place here_is;
        const auto &event = here_is.arrived;
        expect_eq(event.sp_handle.psp_handle, here_is.pair.listener, "sp_handle");
        is_ours(here_is.pair, event.local_ia_address_ptr, "local_ia_address_ptr");
        expect_eq(event.conn_qual, here_is.pair.port, "conn_qual");
        expect_eq(event.truncate_flag, DAT_FALSE, "truncate_flag");
    });
    add_case(cases, "cr.query", [] {
        const auto data = some_bytes(20);
        const place here_is(data);
        filled<DAT_CR_PARAM> is_now;
        require_success(dat_cr_query(here_is.request(), DAT_CR_FIELD_ALL, is_now.out()));
        is_ours(here_is.pair, is_now->remote_ia_address_ptr, "remote_ia_address_ptr");
        expect_true(is_now->private_data_size >= 20 && is_now->private_data,
                    "there is no private data");
        expect_true(std::memcmp(is_now->private_data, data.data(), data.size()) == 0,
                    "the private data is not what was sent");
        expect_eq(is_now->local_ep_handle, nullptr, "local_ep_handle");
        expect_true(is_now->remote_port_qual != 0xa5a5a5a5a5a5a5a5U,
                    "remote_port_qual is not written");
    });
    add_case(cases, "cr.query_mask_unknown", [] {
        const place here_is;
        DAT_CR_PARAM is_now{};
        expect_return(dat_cr_query(here_is.request(), enum_cast<DAT_CR_PARAM_MASK>(0x20), &is_now),
                      invalid_parameter(2));
    });
    add_case(cases, "cr.query_null", [] {
        const place here_is;
        expect_return(dat_cr_query(here_is.request(), DAT_CR_FIELD_ALL, nullptr),
                      invalid_parameter(3));
    });
    add_case(cases, "cr.private_data_writable", [] { // dtest writes into it
        const auto data = some_bytes(48);
        place here_is(data);
        DAT_CR_PARAM is_now{};
        require_success(dat_cr_query(here_is.request(), DAT_CR_FIELD_ALL, &is_now));
        std::memset(is_now.private_data, 0x77, 48);
        here_is.open = false;
        require_success(
            dat_cr_accept(here_is.request(), here_is.pair.passive, 48, is_now.private_data));
        const DAT_EVENT there =
            next_event(here_is.pair.active.connection, DAT_CONNECTION_EVENT_ESTABLISHED);
        const auto &event = there.event_data.connect_event_data;
        require(event.private_data_size >= 48, "less private data than was sent");
        const auto *bytes = static_cast<const unsigned char *>(event.private_data);
        expect_true(std::all_of(bytes, bytes + 48, [](auto each) { return each == 0x77; }),
                    "the private data is not what was sent");
    });
}

DAT_RETURN accept(const place &here_is, DAT_EP_HANDLE with, DAT_COUNT size = 0,
                  const void *data = nullptr) {
    return dat_cr_accept(here_is.request(), with, size, const_cast<void *>(data));
}

void refused(case_list &cases) {
    add_case(cases, "cr.accept_ep_null", [] {
        place here_is;
        expect_return(accept(here_is, nullptr), invalid_handle(DAT_INVALID_HANDLE_EP));
        here_is.accepted();
    });
    add_case(cases, "cr.accept_ep_connected", [] {
        couple other;
        other.join();
        place here_is;
        here_is.accepted();
        const endpoint third(here_is.pair.ia, here_is.pair.zone);
        require_success(connect(third, destination(here_is.pair.ia.address()), here_is.pair.port));
        const DAT_CR_HANDLE request = here_is.pair.request();
        expect_return(dat_cr_accept(request, here_is.pair.passive, 0, nullptr),
                      invalid_state(DAT_INVALID_STATE_EP_CONNECTED));
        require_success(dat_cr_reject(request, 0, nullptr));
        next_event(third.connection);
    });
    add_case(cases, "cr.accept_ep_of_another_ia", [] {
        place here_is;
        const adapter other;
        const unique_pz zone = other.zone();
        const endpoint stranger(other, zone);
        expect_return(accept(here_is, stranger), invalid_handle(DAT_INVALID_HANDLE_EP));
        here_is.accepted();
    });
    add_case(cases, "cr.accept_data_null", [] {
        place here_is;
        expect_return(accept(here_is, here_is.pair.passive, 8), invalid_parameter(4));
        here_is.accepted();
    });
    add_case(cases, "cr.accept_size_wrong", [] {
        place here_is;
        const auto most = here_is.pair.ia.provider().max_private_data_size;
        const auto data = some_bytes(static_cast<std::size_t>(most) + 1);
        expect_return(accept(here_is, here_is.pair.passive, -1, data.data()), invalid_parameter(3));
        expect_return(accept(here_is, here_is.pair.passive, most + 1, data.data()),
                      invalid_parameter(3));
        here_is.accepted();
    });
    add_case(cases, "cr.reject_size_wrong", [] {
        place here_is;
        const auto most = here_is.pair.ia.provider().max_private_data_size;
        const auto data = some_bytes(static_cast<std::size_t>(most) + 1);
        expect_return(dat_cr_reject(here_is.request(), -1, mutable_data(data)),
                      invalid_parameter(2));
        expect_return(dat_cr_reject(here_is.request(), most + 1, mutable_data(data)),
                      invalid_parameter(2));
        expect_return(dat_cr_reject(here_is.request(), 8, nullptr), invalid_parameter(3));
        here_is.accepted();
    });
    add_case(cases, "cr.accepted_is_gone", [] {
        place here_is;
        here_is.accepted();
        DAT_CR_PARAM is_now{};
        constexpr DAT_RETURN gone = invalid_handle(DAT_INVALID_HANDLE_CR);
        expect_return(dat_cr_query(here_is.request(), DAT_CR_FIELD_ALL, &is_now), gone);
        expect_return(accept(here_is, here_is.pair.passive), gone);
        expect_return(dat_cr_reject(here_is.request(), 0, nullptr), gone);
    });
    add_case(cases, "cr.rejected_is_gone", [] {
        place here_is;
        here_is.open = false;
        require_success(dat_cr_reject(here_is.request(), 0, nullptr));
        expect_return(accept(here_is, here_is.pair.passive), invalid_handle(DAT_INVALID_HANDLE_CR));
        here_is.pair.passive.is_in(DAT_EP_STATE_UNCONNECTED);
        next_event(here_is.pair.active.connection);
    });
}

/// To another listener, or a refusal that says so.
void handed_off() {
    place here_is;
    couple &pair = here_is.pair;
    const unique_evd others = pair.ia.events(DAT_EVD_CR_FLAG);
    const DAT_CONN_QUAL there = fresh_port();
    DAT_PSP_HANDLE made = nullptr;
    require_success(dat_psp_create(pair.ia, there, others, DAT_PSP_CONSUMER_FLAG, &made));
    const unique_psp listener(made);
    const DAT_RETURN got = dat_cr_handoff(here_is.request(), there);
    if (got == dat_error(DAT_NOT_IMPLEMENTED) || got == not_supported) {
        here_is.accepted();
        return;
    }
    require_success(got);
    here_is.open = false;
    const DAT_EVENT arrived = next_event(others, DAT_CONNECTION_REQUEST_EVENT);
    const auto &event = arrived.event_data.cr_arrival_event_data;
    expect_eq(event.conn_qual, there, "conn_qual");
    expect_eq(event.sp_handle.psp_handle, listener, "sp_handle");
    require_success(dat_cr_accept(event.cr_handle, pair.passive, 0, nullptr));
    next_event(pair.active.connection, DAT_CONNECTION_EVENT_ESTABLISHED);
}

/// Who called does not wait any more. Accepting ends with an error or with an event that says so.
void vanished() {
    couple pair;
    require_success(connect(pair.active, destination(pair.ia.address()), pair.port));
    const DAT_CR_HANDLE request = pair.request();
    require_success(dat_ep_disconnect(pair.active, DAT_CLOSE_ABRUPT_FLAG));
    next_event(pair.active.connection, DAT_CONNECTION_EVENT_DISCONNECTED);
    const DAT_RETURN got = dat_cr_accept(request, pair.passive, 0, nullptr);
    if (got != DAT_SUCCESS) {
        expect_error_type(got, DAT_INVALID_STATE);
        return;
    }
    // It may have looked as if it were connected for a moment.
    DAT_EVENT_NUMBER told = next_event(pair.passive.connection).event_number;
    if (told == DAT_CONNECTION_EVENT_ESTABLISHED)
        told = next_event(pair.passive.connection).event_number;
    expect_true(told == DAT_CONNECTION_EVENT_ACCEPT_COMPLETION_ERROR ||
                    told == DAT_CONNECTION_EVENT_DISCONNECTED ||
                    told == DAT_CONNECTION_EVENT_BROKEN,
                "the passive side is told " + to_string(told));
    no_event(pair.active.connection);
}

} // namespace

void add_cr(case_list &cases) {
    told(cases);
    refused(cases);
    add_case(cases, "cr.handoff", handed_off);
    add_case(cases, "cr.caller_vanished", vanished);
}

} // namespace conform

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Connection requests: what they tell, and accepting and rejecting them.

#include "cases.hpp"
#include "test_ep.hpp"

#include <algorithm>
#include <cstring>

namespace conform {

namespace {

/// A request that waits for its answer; it is answered in the end.
struct cr_fixture {
    ep_pair eps;
    DAT_CR_ARRIVAL_EVENT_DATA arrived{};
    bool open = true;

    explicit cr_fixture(byte_view data = {}) {
        require_success(eps.request_connection(data));
        arrived =
            next_event(eps.cr_evd, DAT_CONNECTION_REQUEST_EVENT).event_data.cr_arrival_event_data;
    }
    ~cr_fixture() {
        if (open && dat_cr_reject(request(), 0, nullptr) == DAT_SUCCESS)
            dat_evd_wait_of(eps.active.connect_evd);
    }
    DAT_CR_HANDLE request() const { return arrived.cr_handle; }
    /// It may be accepted as if nothing had been.
    void accepted(source_location loc = current_location()) {
        open = false;
        require_success(dat_cr_accept(request(), eps.passive, 0, nullptr), loc);
        next_event(eps.active.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED, loc);
        next_event(eps.passive.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED, loc);
    }

  private:
    static void dat_evd_wait_of(DAT_EVD_HANDLE events) {
        DAT_EVENT event{};
        DAT_COUNT more = 0;
        dat_evd_wait(events, dat_timeout(event_timeout), 1, &event, &more);
    }
};

bool is_ours(const ep_pair &eps, DAT_IA_ADDRESS_PTR address, const char *what,
             source_location loc = current_location()) {
    if (!expect_true(address != nullptr, concat(what, " is NULL"), loc))
        return false;
    if (!expect_true(address->sa_family == AF_INET, concat(what, " is none of IPv4"), loc))
        return false;
    sockaddr_in is{};
    std::memcpy(&is, address, sizeof is);
    return expect_true(is.sin_addr.s_addr == eps.ia.ipv4_address().sin_addr.s_addr,
                       concat(what, " is another address"), loc);
}

void told(case_list &cases) {
    add_case(cases, "cr.event", [] {
        const cr_fixture fixture;
        const auto &event = fixture.arrived;
        expect_eq(event.sp_handle.psp_handle, fixture.eps.psp, "sp_handle");
        is_ours(fixture.eps, event.local_ia_address_ptr, "local_ia_address_ptr");
        expect_eq(event.conn_qual, fixture.eps.port, "conn_qual");
        expect_eq(event.truncate_flag, DAT_FALSE, "truncate_flag");
    });
    add_case(cases, "cr.query", [] {
        const auto data = make_pattern(20);
        const cr_fixture fixture(data);
        poisoned<DAT_CR_PARAM> is_now;
        require_success(dat_cr_query(fixture.request(), DAT_CR_FIELD_ALL, is_now.ptr()));
        is_ours(fixture.eps, is_now->remote_ia_address_ptr, "remote_ia_address_ptr");
        expect_true(is_now->private_data_size >= 20 && is_now->private_data,
                    "there is no private data");
        expect_true(std::memcmp(is_now->private_data, data.data(), data.size()) == 0,
                    "the private data is not what was sent");
        expect_eq(is_now->local_ep_handle, nullptr, "local_ep_handle");
        expect_true(is_now->remote_port_qual != 0xa5a5a5a5a5a5a5a5U,
                    "remote_port_qual is not written");
    });
    add_case(cases, "cr.query_mask_unknown", [] {
        const cr_fixture fixture;
        DAT_CR_PARAM is_now{};
        expect_return(dat_cr_query(fixture.request(), enum_cast<DAT_CR_PARAM_MASK>(0x20), &is_now),
                      invalid_parameter(2));
    });
    add_case(cases, "cr.query_null", [] {
        const cr_fixture fixture;
        expect_return(dat_cr_query(fixture.request(), DAT_CR_FIELD_ALL, nullptr),
                      invalid_parameter(3));
    });
    add_case(cases, "cr.private_data_writable", [] { // dtest writes into it
        const auto data = make_pattern(48);
        cr_fixture fixture(data);
        DAT_CR_PARAM is_now{};
        require_success(dat_cr_query(fixture.request(), DAT_CR_FIELD_ALL, &is_now));
        std::memset(is_now.private_data, 0x77, 48);
        fixture.open = false;
        require_success(
            dat_cr_accept(fixture.request(), fixture.eps.passive, 48, is_now.private_data));
        const DAT_EVENT there =
            next_event(fixture.eps.active.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
        const auto &event = there.event_data.connect_event_data;
        require(event.private_data_size >= 48, "less private data than was sent");
        const auto *bytes = static_cast<const unsigned char *>(event.private_data);
        expect_true(std::all_of(bytes, bytes + 48, [](auto each) { return each == 0x77; }),
                    "the private data is not what was sent");
    });
}

DAT_RETURN accept(const cr_fixture &fixture, DAT_EP_HANDLE with, DAT_COUNT size = 0,
                  const void *data = nullptr) {
    return dat_cr_accept(fixture.request(), with, size, const_cast<void *>(data));
}

void refused(case_list &cases) {
    add_case(cases, "cr.accept_ep_null", [] {
        cr_fixture fixture;
        expect_return(accept(fixture, nullptr), invalid_handle(DAT_INVALID_HANDLE_EP));
        fixture.accepted();
    });
    add_case(cases, "cr.accept_ep_connected", [] {
        ep_pair other;
        other.connect();
        cr_fixture fixture;
        fixture.accepted();
        const test_ep third(fixture.eps.ia, fixture.eps.pz);
        require_success(
            connect_ep(third, ia_address(fixture.eps.ia.ipv4_address()), fixture.eps.port));
        const DAT_CR_HANDLE request = fixture.eps.next_cr();
        expect_return(dat_cr_accept(request, fixture.eps.passive, 0, nullptr),
                      invalid_state(DAT_INVALID_STATE_EP_CONNECTED));
        require_success(dat_cr_reject(request, 0, nullptr));
        next_event(third.connect_evd);
    });
    add_case(cases, "cr.accept_ep_of_another_ia", [] {
        cr_fixture fixture;
        const test_ia other;
        const unique_pz zone = other.create_pz();
        const test_ep stranger(other, zone);
        expect_return(accept(fixture, stranger), invalid_handle(DAT_INVALID_HANDLE_EP));
        fixture.accepted();
    });
    add_case(cases, "cr.accept_data_null", [] {
        cr_fixture fixture;
        expect_return(accept(fixture, fixture.eps.passive, 8), invalid_parameter(4));
        fixture.accepted();
    });
    add_case(cases, "cr.accept_size_wrong", [] {
        cr_fixture fixture;
        const auto most = fixture.eps.ia.provider_attr().max_private_data_size;
        const auto data = make_pattern(static_cast<std::size_t>(most) + 1);
        expect_return(accept(fixture, fixture.eps.passive, -1, data.data()), invalid_parameter(3));
        expect_return(accept(fixture, fixture.eps.passive, most + 1, data.data()),
                      invalid_parameter(3));
        fixture.accepted();
    });
    add_case(cases, "cr.reject_size_wrong", [] {
        cr_fixture fixture;
        const auto most = fixture.eps.ia.provider_attr().max_private_data_size;
        const auto data = make_pattern(static_cast<std::size_t>(most) + 1);
        expect_return(dat_cr_reject(fixture.request(), -1, mutable_data(data)),
                      invalid_parameter(2));
        expect_return(dat_cr_reject(fixture.request(), most + 1, mutable_data(data)),
                      invalid_parameter(2));
        expect_return(dat_cr_reject(fixture.request(), 8, nullptr), invalid_parameter(3));
        fixture.accepted();
    });
    add_case(cases, "cr.accepted_is_gone", [] {
        cr_fixture fixture;
        fixture.accepted();
        DAT_CR_PARAM is_now{};
        constexpr DAT_RETURN gone = invalid_handle(DAT_INVALID_HANDLE_CR);
        expect_return(dat_cr_query(fixture.request(), DAT_CR_FIELD_ALL, &is_now), gone);
        expect_return(accept(fixture, fixture.eps.passive), gone);
        expect_return(dat_cr_reject(fixture.request(), 0, nullptr), gone);
    });
    add_case(cases, "cr.rejected_is_gone", [] {
        cr_fixture fixture;
        fixture.open = false;
        require_success(dat_cr_reject(fixture.request(), 0, nullptr));
        expect_return(accept(fixture, fixture.eps.passive), invalid_handle(DAT_INVALID_HANDLE_CR));
        fixture.eps.passive.expect_state(DAT_EP_STATE_UNCONNECTED);
        next_event(fixture.eps.active.connect_evd);
    });
}

/// To another listener, or a refusal that says so.
void handed_off() {
    cr_fixture fixture;
    ep_pair &eps = fixture.eps;
    const unique_evd others = eps.ia.create_evd(DAT_EVD_CR_FLAG);
    const DAT_CONN_QUAL there = unused_port();
    DAT_PSP_HANDLE made = nullptr;
    require_success(dat_psp_create(eps.ia, there, others, DAT_PSP_CONSUMER_FLAG, &made));
    const unique_psp listener(made);
    const DAT_RETURN got = dat_cr_handoff(fixture.request(), there);
    if (got == dat_error(DAT_NOT_IMPLEMENTED) || got == not_supported) {
        fixture.accepted();
        return;
    }
    require_success(got);
    fixture.open = false;
    const DAT_EVENT arrived = next_event(others, DAT_CONNECTION_REQUEST_EVENT);
    const auto &event = arrived.event_data.cr_arrival_event_data;
    expect_eq(event.conn_qual, there, "conn_qual");
    expect_eq(event.sp_handle.psp_handle, listener, "sp_handle");
    require_success(dat_cr_accept(event.cr_handle, eps.passive, 0, nullptr));
    next_event(eps.active.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
}

/// Who called does not wait any more. Accepting ends with an error or with an event that says so.
void vanished() {
    ep_pair eps;
    require_success(connect_ep(eps.active, ia_address(eps.ia.ipv4_address()), eps.port));
    const DAT_CR_HANDLE request = eps.next_cr();
    require_success(dat_ep_disconnect(eps.active, DAT_CLOSE_ABRUPT_FLAG));
    next_event(eps.active.connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
    const DAT_RETURN got = dat_cr_accept(request, eps.passive, 0, nullptr);
    if (got != DAT_SUCCESS) {
        expect_error_type(got, DAT_INVALID_STATE);
        return;
    }
    // It may have looked as if it were connected for a moment.
    DAT_EVENT_NUMBER told = next_event(eps.passive.connect_evd).event_number;
    if (told == DAT_CONNECTION_EVENT_ESTABLISHED)
        told = next_event(eps.passive.connect_evd).event_number;
    expect_true(told == DAT_CONNECTION_EVENT_ACCEPT_COMPLETION_ERROR ||
                    told == DAT_CONNECTION_EVENT_DISCONNECTED ||
                    told == DAT_CONNECTION_EVENT_BROKEN,
                "the passive side is told " + to_string(told));
    expect_no_event(eps.active.connect_evd);
}

} // namespace

void add_cr(case_list &cases) {
    told(cases);
    refused(cases);
    add_case(cases, "cr.handoff", handed_off);
    add_case(cases, "cr.caller_vanished", vanished);
}

} // namespace conform

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Connection requests: what they tell, and accepting and rejecting them.

#include "lib/cases.hpp"
#include "lib/test_ep.hpp"

#include <algorithm>
#include <cstring>

namespace conform {

namespace {

/// A pending CR; the destructor rejects it unless the case answered it.
struct cr_fixture {
    ep_pair eps;
    DAT_CR_ARRIVAL_EVENT_DATA arrival{};
    bool pending = true; ///< neither accepted nor rejected

    explicit cr_fixture(byte_view private_data = {}) {
        require_success(eps.request_connection(private_data));
        arrival =
            next_event(eps.cr_evd, DAT_CONNECTION_REQUEST_EVENT).event_data.cr_arrival_event_data;
    }
    ~cr_fixture() {
        if (pending && dat_cr_reject(cr(), 0, nullptr) == DAT_SUCCESS)
            wait_any_event(eps.active.connect_evd);
    }
    DAT_CR_HANDLE cr() const { return arrival.cr_handle; }
    /// The CR can still be accepted, after calls that were refused.
    void accept(source_location loc = current_location()) {
        pending = false;
        require_success(dat_cr_accept(cr(), eps.passive, 0, nullptr), loc);
        next_event(eps.active.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED, loc);
        next_event(eps.passive.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED, loc);
    }

  private:
    static void wait_any_event(DAT_EVD_HANDLE evd) {
        DAT_EVENT event{};
        DAT_COUNT nmore = 0;
        dat_evd_wait(evd, dat_timeout(event_timeout), 1, &event, &nmore);
    }
};

/// The address is the IA's: both sides of the connection are in this process.
bool expect_local_address(const ep_pair &eps, DAT_IA_ADDRESS_PTR address, const char *field_name,
                          source_location loc = current_location()) {
    if (!expect_true(address != nullptr, concat(field_name, " is NULL"), loc))
        return false;
    if (!expect_true(address->sa_family == AF_INET, concat(field_name, " is none of IPv4"), loc))
        return false;
    sockaddr_in addr{};
    std::memcpy(&addr, address, sizeof addr);
    return expect_true(addr.sin_addr.s_addr == eps.ia.ipv4_address().sin_addr.s_addr,
                       concat(field_name, " is another address"), loc);
}

void add_query_cases(case_list &cases) {
    add_case(cases, "cr.event", [] {
        const cr_fixture fixture;
        const auto &arrival = fixture.arrival;
        expect_eq(arrival.sp_handle.psp_handle, fixture.eps.psp, "sp_handle");
        expect_local_address(fixture.eps, arrival.local_ia_address_ptr, "local_ia_address_ptr");
        expect_eq(arrival.conn_qual, fixture.eps.port, "conn_qual");
        expect_eq(arrival.truncate_flag, DAT_FALSE, "truncate_flag");
    });
    add_case(cases, "cr.query", [] {
        const auto data = make_pattern(20);
        const cr_fixture fixture(data);
        poisoned<DAT_CR_PARAM> param;
        require_success(dat_cr_query(fixture.cr(), DAT_CR_FIELD_ALL, param.ptr()));
        expect_local_address(fixture.eps, param->remote_ia_address_ptr, "remote_ia_address_ptr");
        expect_true(param->private_data_size >= 20 && param->private_data,
                    "there is no private data");
        expect_true(std::memcmp(param->private_data, data.data(), data.size()) == 0,
                    "the private data is not what was sent");
        expect_eq(param->local_ep_handle, nullptr, "local_ep_handle");
        expect_true(param->remote_port_qual != 0xa5a5a5a5a5a5a5a5U,
                    "remote_port_qual is not written");
    });
    add_case(cases, "cr.query_mask_unknown", [] {
        const cr_fixture fixture;
        DAT_CR_PARAM param{};
        expect_return(dat_cr_query(fixture.cr(), enum_cast<DAT_CR_PARAM_MASK>(0x20), &param),
                      invalid_parameter(2));
    });
    add_case(cases, "cr.query_null", [] {
        const cr_fixture fixture;
        expect_return(dat_cr_query(fixture.cr(), DAT_CR_FIELD_ALL, nullptr), invalid_parameter(3));
    });
    add_case(cases, "cr.private_data_writable", [] { // dtest writes into it
        const auto data = make_pattern(48);
        cr_fixture fixture(data);
        DAT_CR_PARAM param{};
        require_success(dat_cr_query(fixture.cr(), DAT_CR_FIELD_ALL, &param));
        std::memset(param.private_data, 0x77, 48);
        fixture.pending = false;
        require_success(dat_cr_accept(fixture.cr(), fixture.eps.passive, 48, param.private_data));
        const DAT_EVENT event =
            next_event(fixture.eps.active.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
        const auto &connect_event = event.event_data.connect_event_data;
        require(connect_event.private_data_size >= 48, "less private data than was sent");
        const auto *bytes = static_cast<const unsigned char *>(connect_event.private_data);
        expect_true(std::all_of(bytes, bytes + 48, [](auto byte) { return byte == 0x77; }),
                    "the private data is not what was sent");
    });
}

DAT_RETURN accept_cr(const cr_fixture &fixture, DAT_EP_HANDLE ep, DAT_COUNT size = 0,
                     const void *data = nullptr) {
    return dat_cr_accept(fixture.cr(), ep, size, const_cast<void *>(data));
}

void add_refusal_cases(case_list &cases) {
    add_case(cases, "cr.accept_ep_null", [] {
        cr_fixture fixture;
        expect_return(accept_cr(fixture, nullptr), invalid_handle(DAT_INVALID_HANDLE_EP));
        fixture.accept();
    });
    add_case(cases, "cr.accept_ep_connected", [] {
        ep_pair connected_eps;
        connected_eps.connect();
        cr_fixture fixture;
        fixture.accept();
        const test_ep third_ep(fixture.eps.ia, fixture.eps.pz);
        require_success(
            connect_ep(third_ep, ia_address(fixture.eps.ia.ipv4_address()), fixture.eps.port));
        const DAT_CR_HANDLE cr = fixture.eps.next_cr();
        expect_return(dat_cr_accept(cr, fixture.eps.passive, 0, nullptr),
                      invalid_state(DAT_INVALID_STATE_EP_CONNECTED));
        require_success(dat_cr_reject(cr, 0, nullptr));
        next_event(third_ep.connect_evd);
    });
    add_case(cases, "cr.accept_ep_of_another_ia", [] {
        cr_fixture fixture;
        const test_ia other_ia;
        const unique_pz pz = other_ia.create_pz();
        const test_ep other_ep(other_ia, pz);
        expect_return(accept_cr(fixture, other_ep), invalid_handle(DAT_INVALID_HANDLE_EP));
        fixture.accept();
    });
    add_case(cases, "cr.accept_data_null", [] {
        cr_fixture fixture;
        expect_return(accept_cr(fixture, fixture.eps.passive, 8), invalid_parameter(4));
        fixture.accept();
    });
    add_case(cases, "cr.accept_size_wrong", [] {
        cr_fixture fixture;
        const auto limit = fixture.eps.ia.provider_attr().max_private_data_size;
        const auto data = make_pattern(static_cast<std::size_t>(limit) + 1);
        expect_return(accept_cr(fixture, fixture.eps.passive, -1, data.data()),
                      invalid_parameter(3));
        expect_return(accept_cr(fixture, fixture.eps.passive, limit + 1, data.data()),
                      invalid_parameter(3));
        fixture.accept();
    });
    add_case(cases, "cr.reject_size_wrong", [] {
        cr_fixture fixture;
        const auto limit = fixture.eps.ia.provider_attr().max_private_data_size;
        const auto data = make_pattern(static_cast<std::size_t>(limit) + 1);
        expect_return(dat_cr_reject(fixture.cr(), -1, mutable_data(data)), invalid_parameter(2));
        expect_return(dat_cr_reject(fixture.cr(), limit + 1, mutable_data(data)),
                      invalid_parameter(2));
        expect_return(dat_cr_reject(fixture.cr(), 8, nullptr), invalid_parameter(3));
        fixture.accept();
    });
    add_case(cases, "cr.accepted_is_gone", [] {
        cr_fixture fixture;
        fixture.accept();
        DAT_CR_PARAM param{};
        constexpr DAT_RETURN invalid_cr = invalid_handle(DAT_INVALID_HANDLE_CR);
        expect_return(dat_cr_query(fixture.cr(), DAT_CR_FIELD_ALL, &param), invalid_cr);
        expect_return(accept_cr(fixture, fixture.eps.passive), invalid_cr);
        expect_return(dat_cr_reject(fixture.cr(), 0, nullptr), invalid_cr);
    });
    add_case(cases, "cr.rejected_is_gone", [] {
        cr_fixture fixture;
        fixture.pending = false;
        require_success(dat_cr_reject(fixture.cr(), 0, nullptr));
        expect_return(accept_cr(fixture, fixture.eps.passive),
                      invalid_handle(DAT_INVALID_HANDLE_CR));
        fixture.eps.passive.expect_state(DAT_EP_STATE_UNCONNECTED);
        next_event(fixture.eps.active.connect_evd);
    });
}

/// The CR goes to another PSP, or the call is not supported.
void test_handoff() {
    cr_fixture fixture;
    ep_pair &eps = fixture.eps;
    const unique_evd other_cr_evd = eps.ia.create_evd(DAT_EVD_CR_FLAG);
    const DAT_CONN_QUAL other_port = unused_port();
    DAT_PSP_HANDLE handle = nullptr;
    require_success(
        dat_psp_create(eps.ia, other_port, other_cr_evd, DAT_PSP_CONSUMER_FLAG, &handle));
    const unique_psp psp(handle);
    const DAT_RETURN ret = dat_cr_handoff(fixture.cr(), other_port);
    if (ret == dat_error(DAT_NOT_IMPLEMENTED) || ret == not_supported) {
        fixture.accept();
        return;
    }
    require_success(ret);
    fixture.pending = false;
    const DAT_EVENT event = next_event(other_cr_evd, DAT_CONNECTION_REQUEST_EVENT);
    const auto &arrival = event.event_data.cr_arrival_event_data;
    expect_eq(arrival.conn_qual, other_port, "conn_qual");
    expect_eq(arrival.sp_handle.psp_handle, psp, "sp_handle");
    require_success(dat_cr_accept(arrival.cr_handle, eps.passive, 0, nullptr));
    next_event(eps.active.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
}

/// The active side has given up. dat_cr_accept returns an error, or an event reports it.
void test_peer_vanished() {
    ep_pair eps;
    require_success(connect_ep(eps.active, ia_address(eps.ia.ipv4_address()), eps.port));
    const DAT_CR_HANDLE cr = eps.next_cr();
    require_success(dat_ep_disconnect(eps.active, DAT_CLOSE_ABRUPT_FLAG));
    next_event(eps.active.connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
    const DAT_RETURN ret = dat_cr_accept(cr, eps.passive, 0, nullptr);
    if (ret != DAT_SUCCESS) {
        expect_error_type(ret, DAT_INVALID_STATE);
        return;
    }
    // It may have looked as if it were connected for a moment.
    DAT_EVENT_NUMBER event_number = next_event(eps.passive.connect_evd).event_number;
    if (event_number == DAT_CONNECTION_EVENT_ESTABLISHED)
        event_number = next_event(eps.passive.connect_evd).event_number;
    expect_true(event_number == DAT_CONNECTION_EVENT_ACCEPT_COMPLETION_ERROR ||
                    event_number == DAT_CONNECTION_EVENT_DISCONNECTED ||
                    event_number == DAT_CONNECTION_EVENT_BROKEN,
                "the passive side gets " + to_string(event_number));
    expect_no_event(eps.active.connect_evd);
}

} // namespace

void add_cr(case_list &cases) {
    add_query_cases(cases);
    add_refusal_cases(cases);
    add_case(cases, "cr.handoff", test_handoff);
    add_case(cases, "cr.caller_vanished", test_peer_vanished);
}

} // namespace conform

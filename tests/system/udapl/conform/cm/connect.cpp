// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Connecting: what comes of it, on both sides.

#include "lib/cases.hpp"
#include "lib/test_ep.hpp"

#include <cstring>
#include <thread>

namespace conform {

namespace {

using clock = std::chrono::steady_clock;

/// Arguments of dat_ep_connect, each of them valid by default.
struct connect_args {
    bool has_address = true;
    DAT_TIMEOUT timeout = dat_timeout(std::chrono::seconds(10));
    DAT_COUNT size = 0;
    std::span<const std::byte> private_data = {};
    DAT_QOS qos = DAT_QOS_BEST_EFFORT;
    DAT_CONNECT_FLAGS flags = DAT_CONNECT_DEFAULT_FLAG;

    DAT_RETURN connect(const ep_pair &eps, DAT_EP_HANDLE ep) const {
        ia_address address(eps.ia.ipv4_address());
        return dat_ep_connect(ep, has_address ? address.ptr() : nullptr, eps.port, timeout, size,
                              private_data.empty() ? nullptr : mutable_data(private_data), qos,
                              flags);
    }
};

/// dat_ep_connect with these arguments returns one of these errors, raises no event, and the EP can
/// be connected afterwards.
void expect_connect_refused(const connect_args &args, std::initializer_list<DAT_RETURN> expected,
                            source_location loc = current_location()) {
    ep_pair eps;
    expect_return(args.connect(eps, eps.active), expected, loc);
    eps.active.expect_state(DAT_EP_STATE_UNCONNECTED, loc);
    expect_no_event(eps.active.connect_evd, milliseconds(20), loc);
    expect_no_event(eps.cr_evd, milliseconds(20), loc);
    eps.connect(loc);
}

void add_invalid_argument_cases(case_list &cases) {
    add_case(cases, "connect.address_null",
             [] { expect_connect_refused({.has_address = false}, {invalid_parameter(2)}); });
    add_case(cases, "connect.timeout_0",
             [] { expect_connect_refused({.timeout = 0}, {invalid_parameter(4)}); });
    add_case(cases, "connect.size_negative", [] {
        const auto data = make_pattern(8);
        expect_connect_refused({.size = -1, .private_data = data}, {invalid_parameter(5)});
    });
    add_case(cases, "connect.size_too_large", [] {
        DAT_COUNT limit = 0;
        {
            const test_ia ia;
            limit = ia.provider_attr().max_private_data_size;
        }
        const auto data = make_pattern(static_cast<std::size_t>(limit) + 1);
        expect_connect_refused({.size = limit + 1, .private_data = data}, {invalid_parameter(5)});
    });
    add_case(cases, "connect.data_null",
             [] { expect_connect_refused({.size = 8}, {invalid_parameter(6)}); });
    add_case(cases, "connect.quality_not_had", [] {
        DAT_QOS supported{};
        {
            const test_ia ia;
            supported = ia.provider_attr().dat_qos_supported;
        }
        for (const DAT_QOS qos :
             {DAT_QOS_HIGH_THROUGHPUT, DAT_QOS_LOW_LATENCY, DAT_QOS_ECONOMY, DAT_QOS_PREMIUM})
            if (!(static_cast<unsigned>(supported) & static_cast<unsigned>(qos)))
                expect_connect_refused({.qos = qos}, {not_supported});
    });
    add_case(cases, "connect.quality_unknown", [] {
        expect_connect_refused({.qos = enum_cast<DAT_QOS>(0x40)},
                               {invalid_parameter(7), not_supported});
    });
    add_case(cases, "connect.multipath", [] {
        expect_connect_refused({.flags = DAT_CONNECT_MULTIPATH_REQUIRED_FLAG}, {not_supported});
    });
    add_case(cases, "connect.flags_unknown", [] {
        expect_connect_refused({.flags = enum_cast<DAT_CONNECT_FLAGS>(0x10)},
                               {invalid_parameter(8), not_supported});
    });
    add_case(cases, "connect.address_of_no_family", [] {
        ep_pair eps;
        sockaddr_in addr = eps.ia.ipv4_address();
        addr.sin_family = 77;
        expect_return(connect_ep(eps.active, ia_address(addr), eps.port),
                      {dat_error(DAT_INVALID_ADDRESS, DAT_INVALID_ADDRESS_MALFORMED),
                       dat_error(DAT_INVALID_ADDRESS, DAT_INVALID_ADDRESS_UNSUPPORTED),
                       invalid_parameter(2)});
        eps.connect();
    });
    add_case(cases, "connect.without_pz", [] {
        ep_pair eps;
        DAT_EP_HANDLE handle = nullptr;
        require_success(dat_ep_create(eps.ia, nullptr, eps.active.recv_evd, eps.active.request_evd,
                                      eps.active.connect_evd, nullptr, &handle));
        const unique_ep ep(handle);
        expect_return(connect_ep(ep, ia_address(eps.ia.ipv4_address()), eps.port),
                      invalid_state(DAT_INVALID_STATE_EP_NOTREADY));
    });
    add_case(cases, "connect.without_evd", [] {
        ep_pair eps;
        DAT_EP_HANDLE handle = nullptr;
        require_success(dat_ep_create(eps.ia, eps.pz, eps.active.recv_evd, eps.active.request_evd,
                                      nullptr, nullptr, &handle));
        const unique_ep ep(handle);
        expect_return(connect_ep(ep, ia_address(eps.ia.ipv4_address()), eps.port),
                      invalid_handle(DAT_INVALID_HANDLE_EVD_CONN));
    });
}

void add_state_cases(case_list &cases) {
    add_case(cases, "connect.connected", [] {
        ep_pair eps;
        eps.connect();
        expect_return(eps.request_connection(), invalid_state(DAT_INVALID_STATE_EP_CONNECTED));
        eps.active.expect_state(DAT_EP_STATE_CONNECTED);
    });
    add_case(cases, "connect.connecting", [] {
        ep_pair eps;
        require_success(eps.request_connection());
        const DAT_CR_HANDLE cr = eps.next_cr();
        eps.active.expect_state(DAT_EP_STATE_ACTIVE_CONNECTION_PENDING);
        expect_return(eps.request_connection(), invalid_state(DAT_INVALID_STATE_EP_ACTCONNPENDING));
        require_success(dat_cr_accept(cr, eps.passive, 0, nullptr));
        next_event(eps.active.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
    });
    add_case(cases, "connect.disconnected", [] { // it must be reset first
        ep_pair eps;
        eps.connect();
        eps.disconnect();
        expect_return(eps.request_connection(), invalid_state(DAT_INVALID_STATE_EP_DISCONNECTED));
    });
    add_case(cases, "connect.states", [] {
        ep_pair eps;
        eps.active.expect_state(DAT_EP_STATE_UNCONNECTED);
        require_success(eps.request_connection());
        const DAT_CR_HANDLE cr = eps.next_cr();
        eps.active.expect_state(DAT_EP_STATE_ACTIVE_CONNECTION_PENDING);
        eps.passive.expect_state(DAT_EP_STATE_UNCONNECTED);
        require_success(dat_cr_accept(cr, eps.passive, 0, nullptr));
        next_event(eps.active.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
        next_event(eps.passive.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
        eps.active.expect_state(DAT_EP_STATE_CONNECTED);
        eps.passive.expect_state(DAT_EP_STATE_CONNECTED);
        eps.disconnect();
    });
    add_case(cases, "connect.addresses", [] { // that dat_ep_query tells afterwards
        ep_pair eps;
        eps.connect();
        const in_addr_t local_addr = eps.ia.ipv4_address().sin_addr.s_addr;
        for (const test_ep *ep : {&eps.active, &eps.passive}) {
            DAT_EP_PARAM param{};
            require_success(dat_ep_query(*ep, DAT_EP_FIELD_ALL, &param));
            for (const DAT_IA_ADDRESS_PTR address :
                 {param.local_ia_address_ptr, param.remote_ia_address_ptr}) {
                sockaddr_in addr{};
                if (!expect_true(address != nullptr, "an address is NULL"))
                    continue;
                std::memcpy(&addr, address, sizeof addr);
                expect_eq(addr.sin_family, AF_INET, "the family");
                expect_eq(addr.sin_addr.s_addr, local_addr, "the address");
            }
        }
        DAT_EP_PARAM param{};
        require_success(dat_ep_query(eps.active, DAT_EP_FIELD_ALL, &param));
        expect_eq(param.remote_port_qual, eps.port, "remote_port_qual");
    });
}

/// The event's private data is `data`, which zeros may follow.
void expect_private_data(const DAT_EVENT &event, byte_view data,
                         source_location loc = current_location()) {
    const auto &connect_event = event.event_data.connect_event_data;
    if (expect_true(
            connect_event.private_data_size >= static_cast<DAT_COUNT>(data.size()),
            concat("private_data_size is ", connect_event.private_data_size, ", not ", data.size()),
            loc) &&
        !data.empty())
        expect_true(connect_event.private_data &&
                        std::memcmp(connect_event.private_data, data.data(), data.size()) == 0,
                    "the private data is not what was sent", loc);
}

/// Private data of that size comes with the request, and with the accept.
void test_private_data(std::size_t size) {
    const scoped_trace trace(concat(size, " bytes"));
    ep_pair eps;
    const auto request_data = make_pattern(size, 1), reply_data = make_pattern(size, 2);
    require_success(eps.request_connection(request_data));
    const DAT_CR_HANDLE cr = eps.next_cr();
    DAT_CR_PARAM param{};
    require_success(dat_cr_query(cr, DAT_CR_FIELD_ALL, &param));
    expect_true(param.private_data_size >= static_cast<DAT_COUNT>(size) &&
                    (size == 0 || std::memcmp(param.private_data, request_data.data(), size) == 0),
                "the request's private data is not what was sent");
    require_success(dat_cr_accept(cr, eps.passive, static_cast<DAT_COUNT>(size),
                                  size == 0 ? nullptr : mutable_data(reply_data)));
    expect_private_data(next_event(eps.active.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED),
                        reply_data);
    next_event(eps.passive.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
}

/// A reject with private data of that size: the active EP gets PEER_REJECTED with it, and can be
/// connected after a reset.
void test_reject(std::size_t size, source_location loc = current_location()) {
    const scoped_trace trace(concat(size, " bytes"));
    ep_pair eps;
    const auto reply_data = make_pattern(size, 3);
    require_success(eps.request_connection(), loc);
    require_success(dat_cr_reject(eps.next_cr(), static_cast<DAT_COUNT>(size),
                                  size == 0 ? nullptr : mutable_data(reply_data)),
                    loc);
    const DAT_EVENT event =
        next_event(eps.active.connect_evd, DAT_CONNECTION_EVENT_PEER_REJECTED, loc);
    expect_private_data(event, reply_data, loc);
    expect_eq(event.event_data.connect_event_data.ep_handle, eps.active, "the EP", loc);
    eps.active.expect_state(DAT_EP_STATE_DISCONNECTED, loc);
    eps.passive.expect_state(DAT_EP_STATE_UNCONNECTED, loc);
    require_success(dat_ep_reset(eps.active), loc);
    eps.connect(loc);
}

std::size_t max_private_data_size() {
    const test_ia ia;
    return static_cast<std::size_t>(ia.provider_attr().max_private_data_size);
}

void add_private_data_cases(case_list &cases) {
    add_case(cases, "connect.private_data", [] {
        for (const std::size_t size : {0U, 1U, 4U, 48U, 56U})
            test_private_data(size);
    });
    add_case(cases, "connect.private_data_most",
             [] { test_private_data(max_private_data_size()); });
    add_case(cases, "connect.peer_rejects", [] { test_reject(0); });
    add_case(cases, "connect.peer_rejects_with_data", [] {
        for (const std::size_t size : {1U, 48U})
            test_reject(size);
    });
    add_case(cases, "connect.peer_rejects_with_most_data",
             [] { test_reject(max_private_data_size()); });
    add_case(cases, "connect.event", [] {
        ep_pair eps;
        require_success(eps.request_connection());
        require_success(dat_cr_accept(eps.next_cr(), eps.passive, 0, nullptr));
        for (const test_ep *ep : {&eps.active, &eps.passive}) {
            const DAT_EVENT event = next_event(ep->connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
            expect_eq(event.event_data.connect_event_data.ep_handle, *ep, "the EP");
        }
    });
}

/// ret: of a dat_ep_connect at `start`, with this timeout, to an address where no host answers. It
/// or an event says so, not before the timeout, and the EP can be used again.
void expect_no_answer(ep_pair &eps, const DAT_RETURN ret, clock::time_point start,
                      milliseconds timeout, source_location loc = current_location()) {
    // The provider may return the error at once.
    if (ret == dat_error(DAT_INVALID_ADDRESS, DAT_INVALID_ADDRESS_UNREACHABLE)) {
        eps.active.expect_state(DAT_EP_STATE_UNCONNECTED, loc);
        return;
    }
    require_success(ret, loc);
    const DAT_EVENT_NUMBER event_number = next_event(eps.active.connect_evd, loc).event_number;
    const auto elapsed = clock::now() - start;
    expect_true(event_number == DAT_CONNECTION_EVENT_TIMED_OUT ||
                    event_number == DAT_CONNECTION_EVENT_UNREACHABLE,
                "the event is " + to_string(event_number), loc);
    if (event_number == DAT_CONNECTION_EVENT_TIMED_OUT)
        expect_true(elapsed >= timeout, "it came before the timeout", loc);
    eps.active.expect_state(DAT_EP_STATE_DISCONNECTED, loc);
    expect_no_event(eps.active.connect_evd, milliseconds(50), loc);
    require_success(dat_ep_reset(eps.active), loc);
    eps.connect(loc);
}

void add_no_answer_cases(case_list &cases) {
    add_case(cases, "connect.unused_address", [] { // an address of our network
        require(!settings().unused_address.empty(), "--unused-address is needed");
        ep_pair eps;
        if (eps.ia.is_soft_iwarp())
            throw case_skipped{"siw's kernel keeps the objects of the attempt for minutes"};
        const milliseconds timeout{700};
        const auto start = clock::now();
        const DAT_RETURN ret = connect_ep(eps.active, ia_address(settings().unused_address),
                                          eps.port, {}, dat_timeout(timeout));
        expect_no_answer(eps, ret, start, timeout);
    });
    add_case(cases, "connect.unused_address_and_free", [] { // while it is tried
        require(!settings().unused_address.empty(), "--unused-address is needed");
        ep_pair eps;
        if (eps.ia.is_soft_iwarp())
            throw case_skipped{"siw's kernel keeps the objects of the attempt for minutes"};
        require_success(connect_ep(eps.active, ia_address(settings().unused_address), eps.port));
        require_success(eps.active.handle.free());
    });
    add_case(cases, "connect.no_route", [] { // TEST-NET-3, which is nowhere
        ep_pair eps;
        const milliseconds timeout{700};
        const auto start = clock::now();
        const DAT_RETURN ret = connect_ep(eps.active, ia_address(std::string("203.0.113.9")),
                                          eps.port, {}, dat_timeout(timeout));
        expect_no_answer(eps, ret, start, timeout);
    });
    add_case(cases, "connect.no_answer", [] { // the consumer of the PSP does not answer
        ep_pair eps;
        const milliseconds timeout{400};
        const auto start = clock::now();
        require_success(connect_ep(eps.active, ia_address(eps.ia.ipv4_address()), eps.port, {},
                                   dat_timeout(timeout)));
        const DAT_CR_HANDLE cr = eps.next_cr();
        next_event(eps.active.connect_evd, DAT_CONNECTION_EVENT_TIMED_OUT);
        expect_true(clock::now() - start >= timeout, "it came before the timeout");
        eps.active.expect_state(DAT_EP_STATE_DISCONNECTED);
        dat_cr_reject(cr, 0, nullptr); // any result is valid
    });
    add_case(cases, "connect.no_listener", [] {
        ep_pair eps;
        require_success(connect_ep(eps.active, ia_address(eps.ia.ipv4_address()), unused_port()));
        const DAT_EVENT event =
            next_event(eps.active.connect_evd, DAT_CONNECTION_EVENT_NON_PEER_REJECTED);
        expect_eq(event.event_data.connect_event_data.ep_handle, eps.active, "the EP");
        eps.active.expect_state(DAT_EP_STATE_DISCONNECTED);
        require_success(dat_ep_reset(eps.active));
        eps.connect();
    });
    add_case(cases, "connect.infinite_timeout", [] {
        ep_pair eps;
        require_success(connect_ep(eps.active, ia_address(eps.ia.ipv4_address()), eps.port, {},
                                   infinite_timeout));
        require_success(dat_cr_accept(eps.next_cr(), eps.passive, 0, nullptr));
        next_event(eps.active.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
    });
    add_case(cases, "connect.timeout_is_over", [] { // once it is connected
        ep_pair eps;
        require_success(connect_ep(eps.active, ia_address(eps.ia.ipv4_address()), eps.port, {},
                                   dat_timeout(milliseconds(600))));
        require_success(dat_cr_accept(eps.next_cr(), eps.passive, 0, nullptr));
        next_event(eps.active.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
        std::this_thread::sleep_for(milliseconds(900));
        expect_no_event(eps.active.connect_evd);
        eps.active.expect_state(DAT_EP_STATE_CONNECTED);
    });
}

void add_further_cases(case_list &cases) {
    add_case(cases, "connect.many", [] {
        ep_pair eps;
        constexpr int count = 10;
        std::vector<test_ep> active, passive;
        for (int i = 0; i < count; ++i) {
            active.emplace_back(eps.ia, eps.pz);
            passive.emplace_back(eps.ia, eps.pz);
        }
        // No more at once than the listener's EVD takes events.
        for (int first = 0; first < count; first += 5) {
            for (int i = first; i < first + 5; ++i)
                require_success(connect_ep(active[static_cast<std::size_t>(i)],
                                           ia_address(eps.ia.ipv4_address()), eps.port));
            for (int i = first; i < first + 5; ++i)
                require_success(
                    dat_cr_accept(eps.next_cr(), passive[static_cast<std::size_t>(i)], 0, nullptr));
            for (int i = first; i < first + 5; ++i) {
                next_event(active[static_cast<std::size_t>(i)].connect_evd,
                           DAT_CONNECTION_EVENT_ESTABLISHED);
                next_event(passive[static_cast<std::size_t>(i)].connect_evd,
                           DAT_CONNECTION_EVENT_ESTABLISHED);
            }
        }
    });
    add_case(cases, "connect.ipv6", [] {
        require(!settings().ipv6_address.empty(), "--ipv6 is needed");
        ep_pair eps;
        require_success(connect_ep(eps.active, ia_address(settings().ipv6_address), eps.port));
        const DAT_CR_HANDLE cr = eps.next_cr();
        DAT_CR_PARAM cr_param{};
        require_success(dat_cr_query(cr, DAT_CR_FIELD_ALL, &cr_param));
        require(cr_param.remote_ia_address_ptr != nullptr, "the caller has no address");
        expect_eq(cr_param.remote_ia_address_ptr->sa_family, AF_INET6, "the caller's family");
        require_success(dat_cr_accept(cr, eps.passive, 0, nullptr));
        next_event(eps.active.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
        DAT_EP_PARAM ep_param{};
        require_success(dat_ep_query(eps.active, DAT_EP_FIELD_ALL, &ep_param));
        require(ep_param.remote_ia_address_ptr != nullptr, "the EP's peer has no address");
        expect_eq(ep_param.remote_ia_address_ptr->sa_family, AF_INET6, "the peer's family");
    });
}

void add_dup_connect_cases(case_list &cases) {
    add_case(cases, "connect.dup", [] { // a third goes where the first went
        ep_pair eps;
        eps.connect();
        const test_ep third_ep(eps.ia, eps.pz), fourth_ep(eps.ia, eps.pz);
        const auto data = make_pattern(16);
        require_success(dat_ep_dup_connect(third_ep, eps.active, dat_timeout(event_timeout), 16,
                                           mutable_data(data), DAT_QOS_BEST_EFFORT));
        const DAT_CR_HANDLE cr = eps.next_cr();
        DAT_CR_PARAM param{};
        require_success(dat_cr_query(cr, DAT_CR_FIELD_ALL, &param));
        expect_true(param.private_data_size >= 16 &&
                        std::memcmp(param.private_data, data.data(), 16) == 0,
                    "the private data is not what was sent");
        require_success(dat_cr_accept(cr, fourth_ep, 0, nullptr));
        next_event(third_ep.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
        next_event(fourth_ep.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
    });
    add_case(cases, "connect.dup_of_unconnected", [] {
        ep_pair eps;
        const test_ep third_ep(eps.ia, eps.pz);
        expect_return(dat_ep_dup_connect(third_ep, eps.active, dat_timeout(event_timeout), 0,
                                         nullptr, DAT_QOS_BEST_EFFORT),
                      invalid_state(DAT_INVALID_STATE_EP_UNCONNECTED));
        third_ep.expect_state(DAT_EP_STATE_UNCONNECTED);
    });
    add_case(cases, "connect.dup_timeout_0", [] {
        ep_pair eps;
        eps.connect();
        const test_ep third_ep(eps.ia, eps.pz);
        expect_return(dat_ep_dup_connect(third_ep, eps.active, 0, 0, nullptr, DAT_QOS_BEST_EFFORT),
                      invalid_parameter(3));
    });
    add_case(cases, "connect.dup_of_wrong", [] {
        ep_pair eps;
        const test_ep third_ep(eps.ia, eps.pz);
        for (const DAT_HANDLE bogus : {DAT_HANDLE(eps.pz), stray_handle()})
            expect_return(dat_ep_dup_connect(third_ep, bogus, dat_timeout(event_timeout), 0,
                                             nullptr, DAT_QOS_BEST_EFFORT),
                          invalid_handle(DAT_INVALID_HANDLE_EP));
    });
}

} // namespace

void add_connect(case_list &cases) {
    add_invalid_argument_cases(cases);
    add_state_cases(cases);
    add_private_data_cases(cases);
    add_no_answer_cases(cases);
    add_further_cases(cases);
    add_dup_connect_cases(cases);
}

} // namespace conform

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Connecting: what comes of it, on both sides.

#include "cases.hpp"
#include "endpoint.hpp"

#include <cstring>
#include <thread>

namespace conform {

namespace {

using clock = std::chrono::steady_clock;

/// What dat_ep_connect takes, each as it should be.
struct call {
    bool address = true;
    DAT_TIMEOUT timeout = dat_timeout(std::chrono::seconds(10));
    DAT_COUNT size = 0;
    std::span<const std::byte> data = {};
    DAT_QOS quality = DAT_QOS_BEST_EFFORT;
    DAT_CONNECT_FLAGS flags = DAT_CONNECT_DEFAULT_FLAG;

    DAT_RETURN make(const couple &pair, DAT_EP_HANDLE from) const {
        destination to(pair.ia.address());
        return dat_ep_connect(from, address ? to.get() : nullptr, pair.port, timeout, size,
                              data.empty() ? nullptr : mutable_data(data), quality, flags);
    }
};

/// It is refused at once, without an event, and the EP can be connected after.
void refused(const call &wrong, std::initializer_list<DAT_RETURN> with,
             source_location loc = current_location()) {
    couple pair;
    expect_return(wrong.make(pair, pair.active), with, loc);
    pair.active.is_in(DAT_EP_STATE_UNCONNECTED, loc);
    no_event(pair.active.connection, milliseconds(20), loc);
    no_event(pair.arrivals, milliseconds(20), loc);
    pair.join(loc);
}

void wrong_arguments(case_list &cases) {
    add_case(cases, "connect.address_null",
             [] { refused({.address = false}, {invalid_parameter(2)}); });
    add_case(cases, "connect.timeout_0", [] { refused({.timeout = 0}, {invalid_parameter(4)}); });
    add_case(cases, "connect.size_negative", [] {
        const auto data = some_bytes(8);
        refused({.size = -1, .data = data}, {invalid_parameter(5)});
    });
    add_case(cases, "connect.size_too_large", [] {
        DAT_COUNT most = 0;
        {
            const adapter ia;
            most = ia.provider().max_private_data_size;
        }
        const auto data = some_bytes(static_cast<std::size_t>(most) + 1);
        refused({.size = most + 1, .data = data}, {invalid_parameter(5)});
    });
    add_case(cases, "connect.data_null", [] { refused({.size = 8}, {invalid_parameter(6)}); });
    add_case(cases, "connect.quality_not_had", [] {
        DAT_QOS had{};
        {
            const adapter ia;
            had = ia.provider().dat_qos_supported;
        }
        for (const DAT_QOS each :
             {DAT_QOS_HIGH_THROUGHPUT, DAT_QOS_LOW_LATENCY, DAT_QOS_ECONOMY, DAT_QOS_PREMIUM})
            if (!(static_cast<unsigned>(had) & static_cast<unsigned>(each)))
                refused({.quality = each}, {not_supported});
    });
    add_case(cases, "connect.quality_unknown", [] {
        refused({.quality = enum_cast<DAT_QOS>(0x40)}, {invalid_parameter(7), not_supported});
    });
    add_case(cases, "connect.multipath",
             [] { refused({.flags = DAT_CONNECT_MULTIPATH_REQUIRED_FLAG}, {not_supported}); });
    add_case(cases, "connect.flags_unknown", [] {
        refused({.flags = enum_cast<DAT_CONNECT_FLAGS>(0x10)},
                {invalid_parameter(8), not_supported});
    });
    add_case(cases, "connect.address_of_no_family", [] {
        couple pair;
        sockaddr_in none = pair.ia.address();
        none.sin_family = 77;
        expect_return(connect(pair.active, destination(none), pair.port),
                      {dat_error(DAT_INVALID_ADDRESS, DAT_INVALID_ADDRESS_MALFORMED),
                       dat_error(DAT_INVALID_ADDRESS, DAT_INVALID_ADDRESS_UNSUPPORTED),
                       invalid_parameter(2)});
        pair.join();
    });
    add_case(cases, "connect.without_pz", [] {
        couple pair;
        DAT_EP_HANDLE handle = nullptr;
        require_success(dat_ep_create(pair.ia, nullptr, pair.active.received, pair.active.requested,
                                      pair.active.connection, nullptr, &handle));
        const unique_ep one(handle);
        expect_return(connect(one, destination(pair.ia.address()), pair.port),
                      invalid_state(DAT_INVALID_STATE_EP_NOTREADY));
    });
    add_case(cases, "connect.without_evd", [] {
        couple pair;
        DAT_EP_HANDLE handle = nullptr;
        require_success(dat_ep_create(pair.ia, pair.zone, pair.active.received,
                                      pair.active.requested, nullptr, nullptr, &handle));
        const unique_ep one(handle);
        expect_return(connect(one, destination(pair.ia.address()), pair.port),
                      invalid_handle(DAT_INVALID_HANDLE_EVD_CONN));
    });
}

void states(case_list &cases) {
    add_case(cases, "connect.connected", [] {
        couple pair;
        pair.join();
        expect_return(pair.call(), invalid_state(DAT_INVALID_STATE_EP_CONNECTED));
        pair.active.is_in(DAT_EP_STATE_CONNECTED);
    });
    add_case(cases, "connect.connecting", [] {
        couple pair;
        require_success(pair.call());
        const DAT_CR_HANDLE request = pair.request();
        pair.active.is_in(DAT_EP_STATE_ACTIVE_CONNECTION_PENDING);
        expect_return(pair.call(), invalid_state(DAT_INVALID_STATE_EP_ACTCONNPENDING));
        require_success(dat_cr_accept(request, pair.passive, 0, nullptr));
        next_event(pair.active.connection, DAT_CONNECTION_EVENT_ESTABLISHED);
    });
    add_case(cases, "connect.disconnected", [] { // it must be reset first
        couple pair;
        pair.join();
        pair.part();
        expect_return(pair.call(), invalid_state(DAT_INVALID_STATE_EP_DISCONNECTED));
    });
    add_case(cases, "connect.states", [] {
        couple pair;
        pair.active.is_in(DAT_EP_STATE_UNCONNECTED);
        require_success(pair.call());
        const DAT_CR_HANDLE request = pair.request();
        pair.active.is_in(DAT_EP_STATE_ACTIVE_CONNECTION_PENDING);
        pair.passive.is_in(DAT_EP_STATE_UNCONNECTED);
        require_success(dat_cr_accept(request, pair.passive, 0, nullptr));
        next_event(pair.active.connection, DAT_CONNECTION_EVENT_ESTABLISHED);
        next_event(pair.passive.connection, DAT_CONNECTION_EVENT_ESTABLISHED);
        pair.active.is_in(DAT_EP_STATE_CONNECTED);
        pair.passive.is_in(DAT_EP_STATE_CONNECTED);
        pair.part();
    });
    add_case(cases, "connect.addresses", [] { // that dat_ep_query tells afterwards
        couple pair;
        pair.join();
        const in_addr_t own = pair.ia.address().sin_addr.s_addr;
        for (const endpoint *each : {&pair.active, &pair.passive}) {
            DAT_EP_PARAM is_now{};
            require_success(dat_ep_query(*each, DAT_EP_FIELD_ALL, &is_now));
            for (const DAT_IA_ADDRESS_PTR address :
                 {is_now.local_ia_address_ptr, is_now.remote_ia_address_ptr}) {
                sockaddr_in is{};
                if (!expect_true(address != nullptr, "an address is NULL"))
                    continue;
                std::memcpy(&is, address, sizeof is);
                expect_eq(is.sin_family, AF_INET, "the family");
                expect_eq(is.sin_addr.s_addr, own, "the address");
            }
        }
        DAT_EP_PARAM is_now{};
        require_success(dat_ep_query(pair.active, DAT_EP_FIELD_ALL, &is_now));
        expect_eq(is_now.remote_port_qual, pair.port, "remote_port_qual");
    });
}

void has_data(const DAT_EVENT &event, words data, source_location loc = current_location()) {
    const auto &is_now = event.event_data.connect_event_data;
    // A connection manager may add zeros at the end.
    if (expect_true(
            is_now.private_data_size >= static_cast<DAT_COUNT>(data.size()),
            concat("private_data_size is ", is_now.private_data_size, ", not ", data.size()),
            loc) &&
        !data.empty())
        expect_true(is_now.private_data &&
                        std::memcmp(is_now.private_data, data.data(), data.size()) == 0,
                    "the private data is not what was sent", loc);
}

void exchanged(std::size_t size) {
    const scoped_trace which(concat(size, " bytes"));
    couple pair;
    const auto question = some_bytes(size, 1), answer = some_bytes(size, 2);
    require_success(pair.call(question));
    const DAT_CR_HANDLE request = pair.request();
    DAT_CR_PARAM asked{};
    require_success(dat_cr_query(request, DAT_CR_FIELD_ALL, &asked));
    expect_true(asked.private_data_size >= static_cast<DAT_COUNT>(size) &&
                    (size == 0 || std::memcmp(asked.private_data, question.data(), size) == 0),
                "the question is not what was sent");
    require_success(dat_cr_accept(request, pair.passive, static_cast<DAT_COUNT>(size),
                                  size == 0 ? nullptr : mutable_data(answer)));
    has_data(next_event(pair.active.connection, DAT_CONNECTION_EVENT_ESTABLISHED), answer);
    next_event(pair.passive.connection, DAT_CONNECTION_EVENT_ESTABLISHED);
}

void rejected(std::size_t size, source_location loc = current_location()) {
    const scoped_trace which(concat(size, " bytes"));
    couple pair;
    const auto answer = some_bytes(size, 3);
    require_success(pair.call(), loc);
    require_success(dat_cr_reject(pair.request(), static_cast<DAT_COUNT>(size),
                                  size == 0 ? nullptr : mutable_data(answer)),
                    loc);
    const DAT_EVENT told =
        next_event(pair.active.connection, DAT_CONNECTION_EVENT_PEER_REJECTED, loc);
    has_data(told, answer, loc);
    expect_eq(told.event_data.connect_event_data.ep_handle, pair.active, "the EP", loc);
    pair.active.is_in(DAT_EP_STATE_DISCONNECTED, loc);
    pair.passive.is_in(DAT_EP_STATE_UNCONNECTED, loc);
    require_success(dat_ep_reset(pair.active), loc);
    pair.join(loc);
}

std::size_t most_data() {
    const adapter ia;
    return static_cast<std::size_t>(ia.provider().max_private_data_size);
}

void data(case_list &cases) {
    add_case(cases, "connect.private_data", [] {
        for (const std::size_t size : {0U, 1U, 4U, 48U, 56U})
            exchanged(size);
    });
    add_case(cases, "connect.private_data_most", [] { exchanged(most_data()); });
    add_case(cases, "connect.peer_rejects", [] { rejected(0); });
    add_case(cases, "connect.peer_rejects_with_data", [] {
        for (const std::size_t size : {1U, 48U})
            rejected(size);
    });
    add_case(cases, "connect.peer_rejects_with_most_data", [] { rejected(most_data()); });
    add_case(cases, "connect.event", [] {
        couple pair;
        require_success(pair.call());
        require_success(dat_cr_accept(pair.request(), pair.passive, 0, nullptr));
        for (const endpoint *each : {&pair.active, &pair.passive}) {
            const DAT_EVENT told = next_event(each->connection, DAT_CONNECTION_EVENT_ESTABLISHED);
            expect_eq(told.event_data.connect_event_data.ep_handle, *each, "the EP");
        }
    });
}

/// No host answers: the event comes in time, and the EP can be used again.
void unanswered(couple &pair, const DAT_RETURN got, clock::time_point start, milliseconds timeout,
                source_location loc = current_location()) {
    // What is known at once may be said at once.
    if (got == dat_error(DAT_INVALID_ADDRESS, DAT_INVALID_ADDRESS_UNREACHABLE)) {
        pair.active.is_in(DAT_EP_STATE_UNCONNECTED, loc);
        return;
    }
    require_success(got, loc);
    const DAT_EVENT_NUMBER told = next_event(pair.active.connection, loc).event_number;
    const auto took = clock::now() - start;
    expect_true(told == DAT_CONNECTION_EVENT_TIMED_OUT || told == DAT_CONNECTION_EVENT_UNREACHABLE,
                "the event is " + to_string(told), loc);
    if (told == DAT_CONNECTION_EVENT_TIMED_OUT)
        expect_true(took >= timeout, "it came before the timeout", loc);
    pair.active.is_in(DAT_EP_STATE_DISCONNECTED, loc);
    no_event(pair.active.connection, milliseconds(50), loc);
    require_success(dat_ep_reset(pair.active), loc);
    pair.join(loc);
}

void silence(case_list &cases) {
    add_case(cases, "connect.unused_address", [] { // an address of our network
        require(!settings().unused_address.empty(), "--unused-address is needed");
        couple pair;
        if (pair.ia.is_soft_iwarp())
            throw case_skipped{"siw's kernel lets who connects wait for minutes"};
        const milliseconds timeout{700};
        const auto start = clock::now();
        const DAT_RETURN got = connect(pair.active, destination(settings().unused_address),
                                       pair.port, {}, dat_timeout(timeout));
        unanswered(pair, got, start, timeout);
    });
    add_case(cases, "connect.unused_address_and_free", [] { // while it is tried
        require(!settings().unused_address.empty(), "--unused-address is needed");
        couple pair;
        if (pair.ia.is_soft_iwarp())
            throw case_skipped{"siw's kernel lets who connects wait for minutes"};
        require_success(connect(pair.active, destination(settings().unused_address), pair.port));
        require_success(pair.active.handle.free());
    });
    add_case(cases, "connect.no_route", [] { // TEST-NET-3, which is nowhere
        couple pair;
        const milliseconds timeout{700};
        const auto start = clock::now();
        const DAT_RETURN got = connect(pair.active, destination(std::string("203.0.113.9")),
                                       pair.port, {}, dat_timeout(timeout));
        unanswered(pair, got, start, timeout);
    });
    add_case(cases, "connect.no_answer", [] { // there is a listener who does not answer
        couple pair;
        const milliseconds timeout{400};
        const auto start = clock::now();
        require_success(connect(pair.active, destination(pair.ia.address()), pair.port, {},
                                dat_timeout(timeout)));
        const DAT_CR_HANDLE request = pair.request();
        next_event(pair.active.connection, DAT_CONNECTION_EVENT_TIMED_OUT);
        expect_true(clock::now() - start >= timeout, "it came before the timeout");
        pair.active.is_in(DAT_EP_STATE_DISCONNECTED);
        dat_cr_reject(request, 0, nullptr); // whatever is said to that
    });
    add_case(cases, "connect.no_listener", [] {
        couple pair;
        require_success(connect(pair.active, destination(pair.ia.address()), fresh_port()));
        const DAT_EVENT told =
            next_event(pair.active.connection, DAT_CONNECTION_EVENT_NON_PEER_REJECTED);
        expect_eq(told.event_data.connect_event_data.ep_handle, pair.active, "the EP");
        pair.active.is_in(DAT_EP_STATE_DISCONNECTED);
        require_success(dat_ep_reset(pair.active));
        pair.join();
    });
    add_case(cases, "connect.infinite_timeout", [] {
        couple pair;
        require_success(
            connect(pair.active, destination(pair.ia.address()), pair.port, {}, infinite_timeout));
        require_success(dat_cr_accept(pair.request(), pair.passive, 0, nullptr));
        next_event(pair.active.connection, DAT_CONNECTION_EVENT_ESTABLISHED);
    });
    add_case(cases, "connect.timeout_is_over", [] { // once it is connected
        couple pair;
        require_success(connect(pair.active, destination(pair.ia.address()), pair.port, {},
                                dat_timeout(milliseconds(600))));
        require_success(dat_cr_accept(pair.request(), pair.passive, 0, nullptr));
        next_event(pair.active.connection, DAT_CONNECTION_EVENT_ESTABLISHED);
        std::this_thread::sleep_for(milliseconds(900));
        no_event(pair.active.connection);
        pair.active.is_in(DAT_EP_STATE_CONNECTED);
    });
}

void more(case_list &cases) {
    add_case(cases, "connect.many", [] {
        couple pair;
        constexpr int count = 10;
        std::vector<endpoint> callers, called;
        for (int i = 0; i < count; ++i) {
            callers.emplace_back(pair.ia, pair.zone);
            called.emplace_back(pair.ia, pair.zone);
        }
        // No more at once than the listener's EVD takes events.
        for (int first = 0; first < count; first += 5) {
            for (int i = first; i < first + 5; ++i)
                require_success(connect(callers[static_cast<std::size_t>(i)],
                                        destination(pair.ia.address()), pair.port));
            for (int i = first; i < first + 5; ++i)
                require_success(
                    dat_cr_accept(pair.request(), called[static_cast<std::size_t>(i)], 0, nullptr));
            for (int i = first; i < first + 5; ++i) {
                next_event(callers[static_cast<std::size_t>(i)].connection,
                           DAT_CONNECTION_EVENT_ESTABLISHED);
                next_event(called[static_cast<std::size_t>(i)].connection,
                           DAT_CONNECTION_EVENT_ESTABLISHED);
            }
        }
    });
    add_case(cases, "connect.ipv6", [] {
        require(!settings().ipv6_address.empty(), "--ipv6 is needed");
        couple pair;
        require_success(connect(pair.active, destination(settings().ipv6_address), pair.port));
        const DAT_CR_HANDLE request = pair.request();
        DAT_CR_PARAM asked{};
        require_success(dat_cr_query(request, DAT_CR_FIELD_ALL, &asked));
        require(asked.remote_ia_address_ptr != nullptr, "the caller has no address");
        expect_eq(asked.remote_ia_address_ptr->sa_family, AF_INET6, "the caller's family");
        require_success(dat_cr_accept(request, pair.passive, 0, nullptr));
        next_event(pair.active.connection, DAT_CONNECTION_EVENT_ESTABLISHED);
        DAT_EP_PARAM is_now{};
        require_success(dat_ep_query(pair.active, DAT_EP_FIELD_ALL, &is_now));
        require(is_now.remote_ia_address_ptr != nullptr, "the EP's peer has no address");
        expect_eq(is_now.remote_ia_address_ptr->sa_family, AF_INET6, "the peer's family");
    });
}

void duplicates(case_list &cases) {
    add_case(cases, "connect.dup", [] { // a third goes where the first went
        couple pair;
        pair.join();
        const endpoint third(pair.ia, pair.zone), fourth(pair.ia, pair.zone);
        const auto data = some_bytes(16);
        require_success(dat_ep_dup_connect(third, pair.active, dat_timeout(soon), 16,
                                           mutable_data(data), DAT_QOS_BEST_EFFORT));
        const DAT_CR_HANDLE request = pair.request();
        DAT_CR_PARAM asked{};
        require_success(dat_cr_query(request, DAT_CR_FIELD_ALL, &asked));
        expect_true(asked.private_data_size >= 16 &&
                        std::memcmp(asked.private_data, data.data(), 16) == 0,
                    "the private data is not what was sent");
        require_success(dat_cr_accept(request, fourth, 0, nullptr));
        next_event(third.connection, DAT_CONNECTION_EVENT_ESTABLISHED);
        next_event(fourth.connection, DAT_CONNECTION_EVENT_ESTABLISHED);
    });
    add_case(cases, "connect.dup_of_unconnected", [] {
        couple pair;
        const endpoint third(pair.ia, pair.zone);
        expect_return(dat_ep_dup_connect(third, pair.active, dat_timeout(soon), 0, nullptr,
                                         DAT_QOS_BEST_EFFORT),
                      invalid_state(DAT_INVALID_STATE_EP_UNCONNECTED));
        third.is_in(DAT_EP_STATE_UNCONNECTED);
    });
    add_case(cases, "connect.dup_timeout_0", [] {
        couple pair;
        pair.join();
        const endpoint third(pair.ia, pair.zone);
        expect_return(dat_ep_dup_connect(third, pair.active, 0, 0, nullptr, DAT_QOS_BEST_EFFORT),
                      invalid_parameter(3));
    });
    add_case(cases, "connect.dup_of_wrong", [] {
        couple pair;
        const endpoint third(pair.ia, pair.zone);
        for (const DAT_HANDLE wrong : {DAT_HANDLE(pair.zone), stray_handle()})
            expect_return(dat_ep_dup_connect(third, wrong, dat_timeout(soon), 0, nullptr,
                                             DAT_QOS_BEST_EFFORT),
                          invalid_handle(DAT_INVALID_HANDLE_EP));
    });
}

} // namespace

void add_connect(case_list &cases) {
    wrong_arguments(cases);
    states(cases);
    data(cases);
    silence(cases);
    more(cases);
    duplicates(cases);
}

} // namespace conform

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The addresses at which an IA listens and from which it connects: of an IA with the name of an
// address, and when addresses are added and removed.

#include "fake/consumer.hpp"

#include <cerrno>
#include <list>
#include <string>

using namespace fake;

namespace {

constexpr std::uint16_t port = 4000; ///< of service points
constexpr char primary[] = "192.0.2.1", secondary[] = "192.0.2.11", later[] = "192.0.2.12",
               primary_v6[] = "2001:db8::1";

/// An IA name with this instance data.
struct registered_name {
    explicit registered_name(const char *address)
        : info(make_info(address)) {
        dat_provider_init(&info, (address + std::string(" 0")).c_str());
    }
    ~registered_name() { dat_provider_fini(&info); }
    DAT_PROVIDER_INFO info;
};

/// An IA with an EP that connects, and an EVD for connection requests.
struct host {
    explicit host(const char *name)
        : ia(name)
        , ep(ia)
        , cr_evd(ia.create_evd(DAT_EVD_CR_FLAG)) {}
    ~host() { assert_success(dat().evd_free_func(cr_evd)); }

    DAT_PSP_HANDLE create_psp() const {
        DAT_PSP_HANDLE psp;
        assert_success(dat().psp_create_func(ia.handle, port, cr_evd, DAT_PSP_CONSUMER_FLAG, &psp));
        return psp;
    }
    void connect_to(const char *address) const {
        socket_address addr = parse_address(address);
        assert_success(dat().ep_connect_func(ep.handle, &addr.sa, port, DAT_TIMEOUT_INFINITE, 0,
                                             nullptr, DAT_QOS_BEST_EFFORT,
                                             DAT_CONNECT_DEFAULT_FLAG));
    }
    std::string address() const {
        DAT_IA_ATTR attr = {};
        assert_success(
            dat().ia_query_func(ia.handle, nullptr, DAT_IA_FIELD_ALL, &attr, 0, nullptr));
        return to_string(attr.ia_address_ptr);
    }
    static std::string to_string(const sockaddr *sa) {
        char text[INET6_ADDRSTRLEN] = "none";
        if (sa->sa_family == AF_INET)
            inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in *>(sa)->sin_addr, text,
                      sizeof text);
        else if (sa->sa_family == AF_INET6)
            inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6 *>(sa)->sin6_addr, text,
                      sizeof text);
        return text;
    }

    ia_fixture ia;
    ep_fixture ep;
    DAT_EVD_HANDLE cr_evd;
};

/// A request of `active` arrives at `passive` from and to these addresses, and is rejected. Returns
/// the local address of the event.
const sockaddr *expect_request(const host &active, const std::string &source, const host &passive,
                               const char *destination) {
    active.connect_to(destination);
    const auto arrival =
        wait_event(passive.cr_evd, DAT_CONNECTION_REQUEST_EVENT).event_data.cr_arrival_event_data;
    assert_string_equal(host::to_string(arrival.local_ia_address_ptr).c_str(), destination);
    DAT_CR_PARAM param = {};
    assert_success(dat().cr_query_func(arrival.cr_handle, DAT_CR_FIELD_ALL, &param));
    assert_string_equal(host::to_string(param.remote_ia_address_ptr).c_str(), source.c_str());
    DAT_EP_PARAM ep_param = {};
    assert_success(dat().ep_query_func(active.ep.handle, DAT_EP_FIELD_ALL, &ep_param));
    assert_string_equal(host::to_string(ep_param.local_ia_address_ptr).c_str(), source.c_str());
    assert_success(dat().cr_reject_func(arrival.cr_handle, 0, nullptr));
    wait_event(active.ep.connect_evd, DAT_CONNECTION_EVENT_PEER_REJECTED);
    assert_success(dat().ep_reset_func(active.ep.handle));
    return arrival.local_ia_address_ptr;
}

// -- an IA with the name of an address

void ia_named_by_address_connects_from_it(void **) {
    get_fabric().add_address("roce0", secondary);
    const registered_name name(secondary);
    const host active(secondary), passive("roce");
    assert_string_equal(active.address().c_str(), secondary);
    DAT_PSP_HANDLE const psp = passive.create_psp();
    expect_request(active, secondary, passive, primary);
    expect_request(active, secondary, passive, secondary);
    active.connect_to(primary_v6); // not from the interface's IPv6 address
    wait_event(active.ep.connect_evd, DAT_CONNECTION_EVENT_UNREACHABLE);
    assert_success(dat().psp_free_func(psp));
}

void ias_of_two_addresses_listen_on_one_port(void **) {
    get_fabric().add_address("roce0", secondary);
    const registered_name primary_name(primary), secondary_name(secondary);
    const host first(primary), second(secondary), active("roce");
    DAT_PSP_HANDLE const first_psp = first.create_psp(), second_psp = second.create_psp();
    expect_request(active, primary, first, primary);
    expect_request(active, primary, second, secondary);
    assert_success(dat().psp_free_func(first_psp));
    active.connect_to(primary);
    wait_event(active.ep.connect_evd, DAT_CONNECTION_EVENT_NON_PEER_REJECTED);
    assert_success(dat().psp_free_func(second_psp));
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        TEST(ia_named_by_address_connects_from_it),
        TEST(ias_of_two_addresses_listen_on_one_port),
    };
    return run_cases(tests);
}

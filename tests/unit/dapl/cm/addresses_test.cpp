// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The addresses at which an IA listens and from which it connects: of an IA with the name of an
// address, and when addresses are added and removed.

#include "fake/consumer.hpp"

#include <cerrno>
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

// -- addresses that are added and removed

/// The functions that create service points, with port; and those that free them.
const struct {
    DAT_RETURN (*create)(const host &passive, const ep_fixture &ep, DAT_HANDLE &sp);
    DAT_RETURN (*free)(DAT_HANDLE sp);
} service_points[] = {
    {[](const host &passive, const ep_fixture &, DAT_HANDLE &sp) -> DAT_RETURN {
         return dat().psp_create_func(passive.ia.handle, port, passive.cr_evd,
                                      DAT_PSP_CONSUMER_FLAG, &sp);
     },
     [](DAT_HANDLE sp) -> DAT_RETURN {
         return dat().psp_free_func(sp);
     }},
    {[](const host &passive, const ep_fixture &ep, DAT_HANDLE &sp) -> DAT_RETURN {
         return dat().rsp_create_func(passive.ia.handle, port, ep.handle, passive.cr_evd, &sp);
     },
     [](DAT_HANDLE sp) -> DAT_RETURN {
         return dat().rsp_free_func(sp);
     }},
    {[](const host &passive, const ep_fixture &, DAT_HANDLE &sp) -> DAT_RETURN {
         DAT_COMM comm = {AF_INET, SOCK_STREAM, 0};
         socket_address addr = parse_address(primary, port);
         return dat().csp_create_func(passive.ia.handle, &comm, &addr.sa, passive.cr_evd, &sp);
     },
     [](DAT_HANDLE sp) -> DAT_RETURN {
         return dat().csp_free_func(sp);
     }},
};

void service_point_listens_at_address_added_after_open(void **) {
    const host passive("roce"), active("roce");
    ep_fixture reserved(passive.ia);
    get_fabric().add_address("roce0", later);
    for (const auto &it : service_points) {
        DAT_HANDLE sp;
        assert_success(it.create(passive, reserved, sp));
        expect_request(active, primary, passive, later);
        assert_success(it.free(sp));
    }
}

void service_point_needs_no_address_that_has_gone(void **) {
    const host passive("roce"), active("roce");
    ep_fixture reserved(passive.ia);
    get_fabric().remove_address(primary_v6);
    for (const auto &it : service_points) {
        DAT_HANDLE sp;
        assert_success(it.create(passive, reserved, sp));
        expect_request(active, primary, passive, primary);
        assert_success(it.free(sp));
    }
}

/// One goes after the Provider has found it.
void address_that_goes_during_psp_create_left_out(void **) {
    const host passive("roce"), active("roce");
    constexpr unsigned num_found = 2;
    get_fabric().injected.fail("rdma_bind_addr", EADDRNOTAVAIL, num_found + 1);
    DAT_PSP_HANDLE const psp = passive.create_psp();
    assert_string_equal(get_fabric().injected.failed_call().c_str(), "rdma_bind_addr");
    active.connect_to(primary_v6);
    DAT_CR_HANDLE const cr = wait_event(passive.cr_evd, DAT_CONNECTION_REQUEST_EVENT)
                                 .event_data.cr_arrival_event_data.cr_handle;
    assert_success(dat().cr_reject_func(cr, 0, nullptr));
    wait_event(active.ep.connect_evd, DAT_CONNECTION_EVENT_PEER_REJECTED);
    assert_success(dat().psp_free_func(psp));
}

void ia_without_addresses_listens_when_it_has_one(void **) {
    get_fabric().add_address("roce0", "");
    get_fabric().remove_address(primary);
    get_fabric().remove_address(primary_v6);
    const registered_name name("fake0");
    const host passive("fake0");
    assert_string_equal(passive.address().c_str(), "none");
    DAT_PSP_HANDLE psp;
    assert_int_equal(
        dat().psp_create_func(passive.ia.handle, port, passive.cr_evd, DAT_PSP_CONSUMER_FLAG, &psp),
        dat_error(DAT_CONN_QUAL_UNAVAILABLE));
    get_fabric().add_address("roce0", later);
    psp = passive.create_psp();
    assert_string_equal(passive.address().c_str(), later);
    expect_request(passive, later, passive, later);
    assert_success(dat().psp_free_func(psp));
}

void psp_listens_at_each_of_many_addresses(void **) {
    constexpr int num_added = 40;
    const auto address_of = [](int i) {
        return "192.0.2." + std::to_string(100 + i);
    };
    for (int i = 0; i != num_added; ++i)
        get_fabric().add_address("roce0", address_of(i).c_str());
    const host passive("roce"), active("roce");
    DAT_PSP_HANDLE const psp = passive.create_psp();
    expect_request(active, primary, passive, primary);
    for (int i = 0; i != num_added; ++i)
        expect_request(active, primary, passive, address_of(i).c_str());
    assert_success(dat().psp_free_func(psp));
}

/// Of the event of a request, and of dat_ia_query.
void addresses_valid_as_long_as_ia(void **) {
    const host passive("roce"), active("roce");
    DAT_IA_ATTR attr = {};
    assert_success(
        dat().ia_query_func(passive.ia.handle, nullptr, DAT_IA_FIELD_ALL, &attr, 0, nullptr));
    get_fabric().add_address("roce0", later);
    DAT_PSP_HANDLE psp = passive.create_psp();
    const sockaddr *const local = expect_request(active, primary, passive, later);
    assert_success(dat().psp_free_func(psp));
    get_fabric().remove_address(primary);
    get_fabric().remove_address(later);
    psp = passive.create_psp();
    assert_string_equal(host::to_string(local).c_str(), later);
    assert_string_equal(host::to_string(attr.ia_address_ptr).c_str(), primary);
    assert_string_equal(passive.address().c_str(), primary_v6);
    assert_success(dat().psp_free_func(psp));
}

/// A PSP still listens at an address that had gone when another PSP was created.
void address_that_came_back_named_by_event(void **) {
    const host passive("roce"), active("roce");
    get_fabric().add_address("roce0", later);
    DAT_PSP_HANDLE const psp = passive.create_psp();
    get_fabric().remove_address(later);
    DAT_CONN_QUAL other_port = 0;
    DAT_PSP_HANDLE other_psp;
    assert_success(dat().psp_create_any_func(passive.ia.handle, &other_port, passive.cr_evd,
                                             DAT_PSP_CONSUMER_FLAG, &other_psp));
    get_fabric().add_address("roce0", later);
    expect_request(active, primary, passive, later);
    assert_success(dat().psp_free_func(psp));
    assert_success(dat().psp_free_func(other_psp));
}

void connects_from_address_that_replaced_another(void **) {
    const host passive("roce"), active("roce");
    get_fabric().add_address("roce0", later);
    get_fabric().remove_address(primary);
    DAT_PSP_HANDLE const psp = passive.create_psp();
    expect_request(active, later, passive, later);
    assert_string_equal(active.address().c_str(), later);
    assert_success(dat().psp_free_func(psp));
}

void connect_from_named_address_that_has_gone_fails(void **) {
    get_fabric().add_address("roce0", secondary);
    const registered_name name(secondary);
    const host active(secondary);
    get_fabric().remove_address(secondary);
    active.connect_to(primary);
    wait_event(active.ep.connect_evd, DAT_CONNECTION_EVENT_UNREACHABLE);
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        TEST(ia_named_by_address_connects_from_it),
        TEST(ias_of_two_addresses_listen_on_one_port),
        TEST(service_point_listens_at_address_added_after_open),
        TEST(service_point_needs_no_address_that_has_gone),
        TEST(address_that_goes_during_psp_create_left_out),
        TEST(ia_without_addresses_listens_when_it_has_one),
        TEST(psp_listens_at_each_of_many_addresses),
        TEST(addresses_valid_as_long_as_ia),
        TEST(address_that_came_back_named_by_event),
        TEST(connects_from_address_that_replaced_another),
        TEST(connect_from_named_address_that_has_gone_fails),
    };
    return run_cases(tests);
}

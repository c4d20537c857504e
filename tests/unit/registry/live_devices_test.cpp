// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Devices without entries in dat.conf, and entries whose libraries are missing. Fakes of the two
// libraries that the registry loads are already in the process, under the same names.

#include <algorithm>
#include <string>
#include <vector>

#include "registry.hpp"

using namespace registry_test;

namespace {

constexpr DAT_RETURN not_found(DAT_RETURN_SUBTYPE subtype) {
    return DAT_MAKE_ERROR(DAT_PROVIDER_NOT_FOUND, subtype);
}

/// The provider of dat.conf, and the stub in place of the coherdma provider.
stub::state *state, *coherdma_state;

constexpr char ACTIVE_RXE0[] = "rxe0:1:eth0:4";

/// What the fake libcoherdma lists: DEVICE:PORT:INTERFACE:STATE for each port, where 4 is an active
/// one.
void set_ports(const char *ports) {
    setenv("FAKE_PORTS", ports, 1);
}

/// The names listed as not thread-safe. Names listed as thread-safe must be among them.
std::vector<std::string> list_names() {
    std::vector<DAT_PROVIDER_INFO> infos(64);
    std::vector<DAT_PROVIDER_INFO *> pointers;
    for (auto &info : infos)
        pointers.push_back(&info);
    DAT_COUNT count = 0;
    assert_int_equal(dat_registry_list_providers(64, &count, pointers.data()), DAT_SUCCESS);
    std::vector<std::string> names;
    for (DAT_COUNT i = 0; i < count; ++i) {
        const DAT_PROVIDER_INFO &info = infos[static_cast<std::size_t>(i)];
        assert_int_equal(info.dapl_version_major, MAJOR);
        assert_int_equal(info.dapl_version_minor, MINOR);
        if (info.is_thread_safe == DAT_FALSE)
            names.push_back(info.ia_name);
        else if (std::find(names.begin(), names.end(), info.ia_name) == names.end())
            fail_msg("%s is listed as thread-safe only", info.ia_name);
    }
    return names;
}

void assert_listed(const std::vector<std::string> &expected) {
    const auto names = list_names();
    std::string text;
    for (const auto &name : names)
        text += " " + name;
    if (names != expected)
        fail_msg("listed:%s", text.c_str());
}

/// The OFED names of a port. 1.2 numbers the interfaces.
std::string interface_name(const std::string &interface, int interface_index) {
    if (MAJOR == 2)
        return "ofa-v2-" + interface;
    return interface_index == 0 ? "OpenIB-cma" : "OpenIB-cma-" + std::to_string(interface_index);
}
std::string port_name(const std::string &port) {
    return (MAJOR == 2 ? "ofa-v2-" : "OpenIB-") + port;
}
/// The same, and those of OFED's SCM and UCM, which are of 2.0 only.
std::vector<std::string> port_names(const std::string &port) {
    const std::string name = port_name(port);
    if (MAJOR == 2)
        return {name, name + "s", name + "u"};
    return {name};
}

/// The two OFED names of rxe7's port, at eth1: dat.conf has the first only.
const std::string IN_CONF = MAJOR == 2 ? interface_name("eth1", 0) : port_name("rxe7-1"),
                  NOT_IN_CONF = MAJOR == 2 ? port_name("rxe7-1") : interface_name("eth1", 0);
const std::vector<std::string> CONF_NAMES = {IN_CONF, "rxe7", "old"};

std::vector<std::string> operator+(std::vector<std::string> names,
                                   const std::vector<std::string> &more) {
    names.insert(names.end(), more.begin(), more.end());
    return names;
}

/// The registry lists the names of dat.conf first.
std::vector<std::string> append_to_conf(const std::vector<std::string> &names) {
    return CONF_NAMES + names;
}

/// A port that no dat.conf names is listed by its device, its interface, and OFED's names for both;
/// the IA of each name is served by coherdma's provider, with the device and the port as instance
/// data.
void port_has_all_names(void **) {
    set_ports(ACTIVE_RXE0);
    const auto names =
        std::vector<std::string>{"rxe0", "eth0", interface_name("eth0", 0)} + port_names("rxe0-1");
    assert_listed(append_to_conf(names));
    for (const DAT_BOOLEAN thread_safe : {DAT_FALSE, DAT_TRUE}) {
        for (const auto &name : names)
            assert_served(name.c_str(), *coherdma_state, "rxe0 1", thread_safe);
    }
}

/// A device name stands for its first active port, a name of two ports for the first.
void ambiguous_name_means_first_port(void **) {
    set_ports("mlx4_0:1::1 mlx4_0:2:ib1:4 mlx4_0:3:ib2:4 rxe0:1:eth0:4 siw0:1:eth0:4");
    using names_type = std::vector<std::string>;
    names_type names =
        port_names("mlx4_0-1") + names_type{"mlx4_0", "ib1", interface_name("ib1", 0)} +
        port_names("mlx4_0-2") + names_type{"ib2", interface_name("ib2", 1)} +
        port_names("mlx4_0-3") + names_type{"rxe0", "eth0", interface_name("eth0", 2)} +
        port_names("rxe0-1") + names_type{"siw0"};
    if (MAJOR == 1)
        names.push_back(interface_name("eth0", 3));
    names = names + port_names("siw0-1");
    assert_listed(append_to_conf(names));
    assert_served(interface_name("ib2", 1).c_str(), *coherdma_state, "mlx4_0 3");
    assert_served("mlx4_0", *coherdma_state, "mlx4_0 2");
    assert_served("ib2", *coherdma_state, "mlx4_0 3");
    assert_served(port_name("mlx4_0-1").c_str(), *coherdma_state, "mlx4_0 1");
    assert_served("eth0", *coherdma_state, "rxe0 1");
    assert_served("siw0", *coherdma_state, "siw0 1");
    set_ports("mlx4_0:1::1 mlx4_0:2:ib1:1");
    assert_served("mlx4_0", *coherdma_state, "mlx4_0 1"); // no port is active
}

/// The registry reads the list of devices for each call: rxe0 appears, and is replaced by rxe1.
void hotplugged_devices_found(void **) {
    set_ports("");
    assert_listed(CONF_NAMES);
    DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
    assert_int_equal(open_ia("rxe0", ia), not_found(DAT_NAME_NOT_REGISTERED));
    set_ports(ACTIVE_RXE0);
    ia = open_ia_ok("rxe0");
    set_ports("rxe1:1:eth0:4");
    assert_listed(append_to_conf({"rxe1", "eth0", interface_name("eth0", 0)}) +
                  port_names("rxe1-1"));
    assert_served("eth0", *coherdma_state, "rxe1 1");
    close_ia_ok(open_ia_ok("rxe0")); // the provider is still loaded for the open IA
    close_ia_ok(ia);
    assert_int_equal(open_ia("rxe0", ia), not_found(DAT_NAME_NOT_REGISTERED));
}

void dat_conf_precedes_live_devices(void **) {
    set_ports("rxe7:1:eth1:4");
    std::vector<std::string> names = {"eth1", NOT_IN_CONF};
    if (MAJOR == 2)
        names = names + std::vector<std::string>{NOT_IN_CONF + "s", NOT_IN_CONF + "u"};
    assert_listed(append_to_conf(names));
    assert_served("rxe7", *state, "of dat.conf");
    assert_served("eth1", *coherdma_state, "rxe7 1");
    // dat.conf has no thread-safe entry with this name.
    assert_served(IN_CONF.c_str(), *coherdma_state, "rxe7 1", DAT_TRUE);
}

void missing_library_replaced_by_coherdma_provider(void **) {
    set_ports("");
    assert_served("old", *coherdma_state, "ib0 0");
    assert_served(IN_CONF.c_str(), *coherdma_state, "eth1 0"); // of the first entry
}

void other_version_not_found(void **) {
    set_ports(ACTIVE_RXE0);
    char name[] = "rxe0";
    DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
    DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
    assert_int_equal(dat_ia_openv(name, 8, &evd, &ia, OTHER_MAJOR, OTHER_MINOR, DAT_FALSE),
                     not_found(DAT_MAJOR_NOT_FOUND));
    assert_int_equal(dat_ia_openv(name, 8, &evd, &ia, MAJOR, MINOR + 1, DAT_FALSE),
                     not_found(DAT_MINOR_NOT_FOUND));
}

#ifndef COHERDMA_DAT1
void live_devices_have_unknown_relationship(void **) {
    set_ports(ACTIVE_RXE0);
    char first[] = "rxe0", second[] = "eth0", unknown[] = "rxe1";
    DAT_HA_RELATIONSHIP relationship = DAT_HA_CONFLICTING;
    assert_int_equal(dat_registry_providers_related(first, second, &relationship), DAT_SUCCESS);
    assert_int_equal(relationship, DAT_HA_UNKNOWN);
    assert_int_equal(dat_registry_providers_related(first, unknown, &relationship),
                     not_found(DAT_NAME_NOT_REGISTERED));
}
#endif

void coherdma_dat_live_0_disables_live_devices(void **) {
    set_ports(ACTIVE_RXE0);
    setenv("COHERDMA_DAT_LIVE", "0", 1);
    assert_listed(CONF_NAMES);
    DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
    assert_int_equal(open_ia("rxe0", ia), not_found(DAT_NAME_NOT_REGISTERED));
    setenv("COHERDMA_DAT_LIVE", "1", 1);
    assert_served("rxe0", *coherdma_state, "rxe0 1");
    unsetenv("COHERDMA_DAT_LIVE");
}

/// Device and interface names have at most 63 characters.
void longest_names_served(void **) {
    const std::string device(63, 'd'), interface(63, 'i');
    set_ports((device + ":4294967295:" + interface + ":4").c_str());
    assert_served(port_name(device + "-4294967295").c_str(), *coherdma_state,
                  (device + " 4294967295").c_str());
}

int setup(void **) {
    assert_non_null(dlopen(COHERDMA_TEST_DEVICES, RTLD_NOW));
    set_ports("");
    use_conf(conf_line(IN_CONF.c_str(), "eth1 0", "/nonexistent/one.so") +
             conf_line("rxe7", "of dat.conf") +
             conf_line("rxe7", "of dat.conf", COHERDMA_TEST_STUB, "threadsafe") +
             conf_line("old", "ib0 0", "libnonexistent.so") +
             conf_line(IN_CONF.c_str(), "other", "/nonexistent/two.so"));
    state = &load_stub();
    coherdma_state = &load_stub(COHERDMA_TEST_COHERDMA_PROVIDER);
    return 0;
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(port_has_all_names),
        cmocka_unit_test(ambiguous_name_means_first_port),
        cmocka_unit_test(hotplugged_devices_found),
        cmocka_unit_test(dat_conf_precedes_live_devices),
        cmocka_unit_test(missing_library_replaced_by_coherdma_provider),
        cmocka_unit_test(other_version_not_found),
#ifndef COHERDMA_DAT1
        cmocka_unit_test(live_devices_have_unknown_relationship),
#endif
        cmocka_unit_test(coherdma_dat_live_0_disables_live_devices),
        cmocka_unit_test(longest_names_served),
    };
    return cmocka_run_group_tests(tests, setup, nullptr);
}

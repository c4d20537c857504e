// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Devices that need no dat.conf, and what becomes of its records when their libraries are gone. The
// libraries that the registry looks for are already there under their names: they are played.

#include <algorithm>
#include <string>
#include <vector>

#include "registry.hpp"

using namespace registry_test;

namespace {

constexpr DAT_RETURN not_found(DAT_RETURN_SUBTYPE which) {
    return DAT_MAKE_ERROR(DAT_PROVIDER_NOT_FOUND, which);
}

stub::state *state, *ours;

void ports(const char *all) {
    setenv("PLAYED_PORTS", all, 1);
}

/// What is listed as not thread-safe; as thread-safe it must be, too.
std::vector<std::string> listed() {
    std::vector<DAT_PROVIDER_INFO> infos(64);
    std::vector<DAT_PROVIDER_INFO *> pointers;
    for (auto &each : infos)
        pointers.push_back(&each);
    DAT_COUNT count = 0;
    assert_int_equal(dat_registry_list_providers(64, &count, pointers.data()), DAT_SUCCESS);
    std::vector<std::string> names;
    for (DAT_COUNT place = 0; place < count; ++place) {
        const DAT_PROVIDER_INFO &one = infos[static_cast<std::size_t>(place)];
        assert_int_equal(one.dapl_version_major, MAJOR);
        assert_int_equal(one.dapl_version_minor, MINOR);
        if (one.is_thread_safe == DAT_FALSE)
            names.push_back(one.ia_name);
        else if (std::find(names.begin(), names.end(), one.ia_name) == names.end())
            fail_msg("%s is listed as thread-safe only", one.ia_name);
    }
    return names;
}

void are_listed(const std::vector<std::string> &expected) {
    const auto names = listed();
    std::string all;
    for (const auto &each : names)
        all += " " + each;
    if (names != expected)
        fail_msg("listed:%s", all.c_str());
}

/// Old configurations' names of a port. In 1.2 interfaces are counted.
std::string by_interface(const std::string &interface, int before) {
    if (MAJOR == 2)
        return "ofa-v2-" + interface;
    return before == 0 ? "OpenIB-cma" : "OpenIB-cma-" + std::to_string(before);
}
std::string by_port(const std::string &port) {
    return (MAJOR == 2 ? "ofa-v2-" : "OpenIB-") + port;
}

/// One of the two for the only port of rxe7, at eth1, and the other.
const std::string IN_CONF = MAJOR == 2 ? by_interface("eth1", 0) : by_port("rxe7-1"),
                  NOT_IN_CONF = MAJOR == 2 ? by_port("rxe7-1") : by_interface("eth1", 0);
const std::vector<std::string> CONF = {IN_CONF, "rxe7", "old"};

std::vector<std::string> after_conf(std::vector<std::string> more) {
    more.insert(more.begin(), CONF.begin(), CONF.end());
    return more;
}

void every_port_has_its_names(void **) {
    ports("rxe0:1:eth0:4");
    const std::vector<std::string> names = {"rxe0", "eth0", by_interface("eth0", 0),
                                            by_port("rxe0-1")};
    are_listed(after_conf(names));
    for (const DAT_BOOLEAN safe : {DAT_FALSE, DAT_TRUE}) {
        for (const auto &each : names)
            is_served(each.c_str(), *ours, "rxe0 1", safe);
    }
}

/// A device's own name is its first port that is up. Where two have a name, it is the first's.
void names_that_several_have(void **) {
    ports("mlx4_0:1::1 mlx4_0:2:ib1:4 mlx4_0:3:ib2:4 rxe0:1:eth0:4 siw0:1:eth0:4");
    std::vector<std::string> names = {by_port("mlx4_0-1"),
                                      "mlx4_0",
                                      "ib1",
                                      by_interface("ib1", 0),
                                      by_port("mlx4_0-2"),
                                      "ib2",
                                      by_interface("ib2", 1),
                                      by_port("mlx4_0-3"),
                                      "rxe0",
                                      "eth0",
                                      by_interface("eth0", 2),
                                      by_port("rxe0-1"),
                                      "siw0",
                                      by_port("siw0-1")};
    if (MAJOR == 1)
        names.insert(names.end() - 1, by_interface("eth0", 3));
    are_listed(after_conf(names));
    is_served(by_interface("ib2", 1).c_str(), *ours, "mlx4_0 3");
    is_served("mlx4_0", *ours, "mlx4_0 2");
    is_served("ib2", *ours, "mlx4_0 3");
    is_served(by_port("mlx4_0-1").c_str(), *ours, "mlx4_0 1");
    is_served("eth0", *ours, "rxe0 1");
    is_served("siw0", *ours, "siw0 1");
    ports("mlx4_0:1::1 mlx4_0:2:ib1:1");
    is_served("mlx4_0", *ours, "mlx4_0 1"); // none is up
}

void devices_come_and_go(void **) {
    ports("");
    are_listed(CONF);
    DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
    assert_int_equal(open_ia("rxe0", ia), not_found(DAT_NAME_NOT_REGISTERED));
    ports("rxe0:1:eth0:4");
    ia = opened("rxe0");
    ports("rxe1:1:eth0:4");
    are_listed(after_conf({"rxe1", "eth0", by_interface("eth0", 0), by_port("rxe1-1")}));
    is_served("eth0", *ours, "rxe1 1");
    closed(opened("rxe0")); // as long as somebody has it open
    closed(ia);
    assert_int_equal(open_ia("rxe0", ia), not_found(DAT_NAME_NOT_REGISTERED));
}

void dat_conf_goes_first(void **) {
    ports("rxe7:1:eth1:4");
    are_listed(after_conf({"eth1", NOT_IN_CONF}));
    is_served("rxe7", *state, "of the file");
    is_served("eth1", *ours, "rxe7 1");
    // The file says nothing of it for those who want thread safety.
    is_served(IN_CONF.c_str(), *ours, "rxe7 1", DAT_TRUE);
}

void ours_instead_of_what_is_gone(void **) {
    ports("");
    is_served("old", *ours, "ib0 0");
    is_served(IN_CONF.c_str(), *ours, "eth1 0"); // the first record's
}

void not_with_another_version(void **) {
    ports("rxe0:1:eth0:4");
    char name[] = "rxe0";
    DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
    DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
    assert_int_equal(dat_ia_openv(name, 8, &evd, &ia, OTHER_MAJOR, OTHER_MINOR, DAT_FALSE),
                     not_found(DAT_MAJOR_NOT_FOUND));
    assert_int_equal(dat_ia_openv(name, 8, &evd, &ia, MAJOR, MINOR + 1, DAT_FALSE),
                     not_found(DAT_MINOR_NOT_FOUND));
}

#ifndef COHERDMA_DAT1
void relations_of_devices(void **) {
    ports("rxe0:1:eth0:4");
    char one[] = "rxe0", other[] = "eth0", nobody[] = "rxe1";
    DAT_HA_RELATIONSHIP answer = DAT_HA_CONFLICTING;
    assert_int_equal(dat_registry_providers_related(one, other, &answer), DAT_SUCCESS);
    assert_int_equal(answer, DAT_HA_UNKNOWN);
    assert_int_equal(dat_registry_providers_related(one, nobody, &answer),
                     not_found(DAT_NAME_NOT_REGISTERED));
}
#endif

void can_be_switched_off(void **) {
    ports("rxe0:1:eth0:4");
    setenv("COHERDMA_DAT_LIVE", "0", 1);
    are_listed(CONF);
    DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
    assert_int_equal(open_ia("rxe0", ia), not_found(DAT_NAME_NOT_REGISTERED));
    setenv("COHERDMA_DAT_LIVE", "1", 1);
    is_served("rxe0", *ours, "rxe0 1");
    unsetenv("COHERDMA_DAT_LIVE");
}

/// The kernel allows up to 63 characters, so this is more than there can be.
void long_names(void **) {
    const std::string device(63, 'd'), interface(63, 'i');
    ports((device + ":4294967295:" + interface + ":4").c_str());
    is_served(by_port(device + "-4294967295").c_str(), *ours, (device + " 4294967295").c_str());
}

int set_up(void **) {
    assert_non_null(dlopen(COHERDMA_TEST_DEVICES, RTLD_NOW));
    ports("");
    use_conf(record(IN_CONF.c_str(), "eth1 0", "/nowhere/one.so") + record("rxe7", "of the file") +
             record("rxe7", "of the file", COHERDMA_TEST_STUB, "threadsafe") +
             record("old", "ib0 0", "libnowhere.so") +
             record(IN_CONF.c_str(), "other", "/nowhere/two.so"));
    state = &stub_of();
    ours = &stub_of(COHERDMA_TEST_OURS);
    return 0;
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(every_port_has_its_names),     cmocka_unit_test(names_that_several_have),
        cmocka_unit_test(devices_come_and_go),          cmocka_unit_test(dat_conf_goes_first),
        cmocka_unit_test(ours_instead_of_what_is_gone), cmocka_unit_test(not_with_another_version),
#ifndef COHERDMA_DAT1
        cmocka_unit_test(relations_of_devices),
#endif
        cmocka_unit_test(can_be_switched_off),          cmocka_unit_test(long_names),
    };
    return cmocka_run_group_tests(tests, set_up, nullptr);
}

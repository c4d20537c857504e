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
        assert_int_equal(one.dapl_version_major, 2);
        assert_int_equal(one.dapl_version_minor, 0);
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

const std::vector<std::string> CONF = {"ofa-v2-eth1", "rxe7", "old"};

std::vector<std::string> after_conf(std::vector<std::string> more) {
    more.insert(more.begin(), CONF.begin(), CONF.end());
    return more;
}

void every_port_has_its_names(void **) {
    ports("rxe0:1:eth0:4");
    are_listed(after_conf({"rxe0", "eth0", "ofa-v2-eth0", "ofa-v2-rxe0-1"}));
    for (const DAT_BOOLEAN safe : {DAT_FALSE, DAT_TRUE}) {
        for (const char *each : {"rxe0", "eth0", "ofa-v2-eth0", "ofa-v2-rxe0-1"})
            is_served(each, *ours, "rxe0 1", safe);
    }
}

/// A device's own name is its first port that is up. Where two have a name, it is the first's.
void names_that_several_have(void **) {
    ports("mlx4_0:1::1 mlx4_0:2:ib1:4 mlx4_0:3:ib2:4 rxe0:1:eth0:4 siw0:1:eth0:4");
    are_listed(after_conf({"ofa-v2-mlx4_0-1", "mlx4_0", "ib1", "ofa-v2-ib1", "ofa-v2-mlx4_0-2",
                           "ib2", "ofa-v2-ib2", "ofa-v2-mlx4_0-3", "rxe0", "eth0", "ofa-v2-eth0",
                           "ofa-v2-rxe0-1", "siw0", "ofa-v2-siw0-1"}));
    is_served("mlx4_0", *ours, "mlx4_0 2");
    is_served("ib2", *ours, "mlx4_0 3");
    is_served("ofa-v2-mlx4_0-1", *ours, "mlx4_0 1");
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
    are_listed(after_conf({"rxe1", "eth0", "ofa-v2-eth0", "ofa-v2-rxe1-1"}));
    is_served("eth0", *ours, "rxe1 1");
    closed(opened("rxe0")); // as long as somebody has it open
    closed(ia);
    assert_int_equal(open_ia("rxe0", ia), not_found(DAT_NAME_NOT_REGISTERED));
}

void dat_conf_goes_first(void **) {
    ports("rxe7:1:eth1:4");
    are_listed(after_conf({"eth1", "ofa-v2-rxe7-1"}));
    is_served("rxe7", *state, "of the file");
    is_served("eth1", *ours, "rxe7 1");
    // The file says nothing of it for those who want thread safety.
    is_served("ofa-v2-eth1", *ours, "rxe7 1", DAT_TRUE);
}

void ours_instead_of_what_is_gone(void **) {
    ports("");
    is_served("old", *ours, "ib0 0");
    is_served("ofa-v2-eth1", *ours, "eth1 0"); // the first record's
}

void not_with_another_version(void **) {
    ports("rxe0:1:eth0:4");
    char name[] = "rxe0";
    DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
    DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
    assert_int_equal(dat_ia_openv(name, 8, &evd, &ia, 1, 2, DAT_FALSE),
                     not_found(DAT_MAJOR_NOT_FOUND));
    assert_int_equal(dat_ia_openv(name, 8, &evd, &ia, 2, 1, DAT_FALSE),
                     not_found(DAT_MINOR_NOT_FOUND));
}

void relations_of_devices(void **) {
    ports("rxe0:1:eth0:4");
    char one[] = "rxe0", other[] = "eth0", nobody[] = "rxe1";
    DAT_HA_RELATIONSHIP answer = DAT_HA_CONFLICTING;
    assert_int_equal(dat_registry_providers_related(one, other, &answer), DAT_SUCCESS);
    assert_int_equal(answer, DAT_HA_UNKNOWN);
    assert_int_equal(dat_registry_providers_related(one, nobody, &answer),
                     not_found(DAT_NAME_NOT_REGISTERED));
}

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
    is_served(("ofa-v2-" + device + "-4294967295").c_str(), *ours,
              (device + " 4294967295").c_str());
}

int set_up(void **) {
    assert_non_null(dlopen(COHERDMA_TEST_DEVICES, RTLD_NOW));
    ports("");
    use_conf(record("ofa-v2-eth1", "eth1 0", "/nowhere/one.so") + record("rxe7", "of the file") +
             record("rxe7", "of the file", COHERDMA_TEST_STUB, "threadsafe") +
             record("old", "ib0 0", "libnowhere.so") +
             record("ofa-v2-eth1", "other", "/nowhere/two.so"));
    state = &stub_of();
    ours = &stub_of(COHERDMA_TEST_OURS);
    return 0;
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(every_port_has_its_names),
        cmocka_unit_test(names_that_several_have),
        cmocka_unit_test(devices_come_and_go),
        cmocka_unit_test(dat_conf_goes_first),
        cmocka_unit_test(ours_instead_of_what_is_gone),
        cmocka_unit_test(not_with_another_version),
        cmocka_unit_test(relations_of_devices),
        cmocka_unit_test(can_be_switched_off),
        cmocka_unit_test(long_names),
    };
    return cmocka_run_group_tests(tests, set_up, nullptr);
}

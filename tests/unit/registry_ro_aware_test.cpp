// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// RO_AWARE_ before an IA's name is no part of it, but something that the provider is told.

#include "registry.hpp"

using namespace registry_test;

namespace {

stub::state *state, *ours;

/// Opened by one name, the provider is told another.
void opens(const char *name, const stub::state &by, const char *as, DAT_BOOLEAN ro_aware) {
    const DAT_IA_HANDLE ia = opened(name);
    assert_string_equal(by.opened, as);
    assert_int_equal(by.ro_aware, ro_aware);
    closed(ia);
}

void names_of_the_file(void **) {
    opens("good", *state, "good", DAT_FALSE);
    opens("RO_AWARE_good", *state, "good", DAT_TRUE);
    opens("good", *state, "good", DAT_FALSE);
}

void names_of_devices(void **) {
    setenv("PLAYED_PORTS", "rxe0:1:eth0:4", 1);
    opens("RO_AWARE_eth0", *ours, "eth0", DAT_TRUE);
    opens("RO_AWARE_OpenIB-cma", *ours, "OpenIB-cma", DAT_TRUE);
    opens("rxe0", *ours, "rxe0", DAT_FALSE);
    setenv("PLAYED_PORTS", "", 1);
}

/// It is the same IA: its library is told to begin once.
void one_provider_for_both(void **) {
    const int inits = state->inits;
    const DAT_IA_HANDLE one = opened("good"), other = opened("RO_AWARE_good");
    assert_int_equal(state->inits - inits, 1);
    closed(one);
    closed(other);
}

void only_once_and_only_so(void **) {
    DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
    for (const char *each : {"RO_AWARE_", "RO_AWARE_RO_AWARE_good", "ro_aware_good", "RO_AWAREgood",
                             "good RO_AWARE_", "RO_AWARE_nobody"})
        assert_int_equal(open_ia(each, ia), NO_NAME);
    opens("RO_AWARE_RO_AWARE_twice", *state, "RO_AWARE_twice", DAT_TRUE);
}

/// How long a name may be is a matter of what is behind it.
void long_names(void **) {
    const std::string prefix = "RO_AWARE_", name(255, 'x');
    opens((prefix + name).c_str(), *state, name.c_str(), DAT_TRUE);
    DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
    assert_int_equal(open_ia((prefix + name + "x").c_str(), ia),
                     DAT_MAKE_ERROR(DAT_INVALID_PARAMETER, DAT_INVALID_ARG1));
}

int set_up(void **) {
    assert_non_null(dlopen(COHERDMA_TEST_DEVICES, RTLD_NOW));
    setenv("PLAYED_PORTS", "", 1);
    use_conf(record("good", "x") + record("RO_AWARE_twice", "x") +
             record(std::string(255, 'x').c_str(), "x"));
    state = &stub_of();
    ours = &stub_of(COHERDMA_TEST_OURS);
    return 0;
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(names_of_the_file),
        cmocka_unit_test(names_of_devices),
        cmocka_unit_test(one_provider_for_both),
        cmocka_unit_test(only_once_and_only_so),
        cmocka_unit_test(long_names),
    };
    return cmocka_run_group_tests(tests, set_up, nullptr);
}

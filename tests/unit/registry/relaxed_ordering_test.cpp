// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The prefix RO_AWARE_ of an IA name is removed and passed to the provider as a flag.

#include "registry.hpp"

using namespace registry_test;

namespace {

/// The provider of dat.conf, and the stub in place of the coherdma provider.
stub::state *state, *coherdma_state;

/// Opens and closes an IA. The provider must get this name and flag.
void assert_opens(const char *name, const stub::state &provider, const char *expected,
                  DAT_BOOLEAN ro_aware) {
    const DAT_IA_HANDLE ia = open_ia_ok(name);
    assert_string_equal(provider.opened_name, expected);
    assert_int_equal(provider.ro_aware, ro_aware);
    close_ia_ok(ia);
}

void ro_aware_prefix_works_for_dat_conf_names(void **) {
    assert_opens("good", *state, "good", DAT_FALSE);
    assert_opens("RO_AWARE_good", *state, "good", DAT_TRUE);
    assert_opens("good", *state, "good", DAT_FALSE);
}

void ro_aware_prefix_works_for_live_devices(void **) {
    setenv("FAKE_PORTS", "rxe0:1:eth0:4", 1);
    assert_opens("RO_AWARE_eth0", *coherdma_state, "eth0", DAT_TRUE);
    assert_opens("RO_AWARE_OpenIB-cma", *coherdma_state, "OpenIB-cma", DAT_TRUE);
    assert_opens("rxe0", *coherdma_state, "rxe0", DAT_FALSE);
    setenv("FAKE_PORTS", "", 1);
}

/// Both names have one provider: one init.
void ro_aware_name_shares_provider(void **) {
    const int inits = state->inits;
    const DAT_IA_HANDLE first = open_ia_ok("good"), second = open_ia_ok("RO_AWARE_good");
    assert_int_equal(state->inits - inits, 1);
    close_ia_ok(first);
    close_ia_ok(second);
}

void malformed_ro_aware_prefix_rejected(void **) {
    DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
    for (const char *name : {"RO_AWARE_", "RO_AWARE_RO_AWARE_good", "ro_aware_good", "RO_AWAREgood",
                             "good RO_AWARE_", "RO_AWARE_unknown"})
        assert_int_equal(open_ia(name, ia), NOT_REGISTERED);
    assert_opens("RO_AWARE_RO_AWARE_twice", *state, "RO_AWARE_twice", DAT_TRUE);
}

/// The limit of the length applies to the name without the prefix.
void ro_aware_prefix_extends_name_limit(void **) {
    const std::string prefix = "RO_AWARE_", name(255, 'x');
    assert_opens((prefix + name).c_str(), *state, name.c_str(), DAT_TRUE);
    DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
    assert_int_equal(open_ia((prefix + name + "x").c_str(), ia),
                     DAT_MAKE_ERROR(DAT_INVALID_PARAMETER, DAT_INVALID_ARG1));
}

int setup(void **) {
    assert_non_null(dlopen(COHERDMA_TEST_DEVICES, RTLD_NOW));
    setenv("FAKE_PORTS", "", 1);
    use_conf(conf_line("good", "x") + conf_line("RO_AWARE_twice", "x") +
             conf_line(std::string(255, 'x').c_str(), "x"));
    state = &load_stub();
    coherdma_state = &load_stub(COHERDMA_TEST_COHERDMA_PROVIDER);
    return 0;
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(ro_aware_prefix_works_for_dat_conf_names),
        cmocka_unit_test(ro_aware_prefix_works_for_live_devices),
        cmocka_unit_test(ro_aware_name_shares_provider),
        cmocka_unit_test(malformed_ro_aware_prefix_rejected),
        cmocka_unit_test(ro_aware_prefix_extends_name_limit),
    };
    return cmocka_run_group_tests(tests, setup, nullptr);
}

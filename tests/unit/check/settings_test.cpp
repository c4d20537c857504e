// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The settings of the checker: variables and errors.

#include "../cmocka.hpp"
#include "check/settings.hpp"

#include <cstdlib>

namespace {

using namespace coherdma::check;

constexpr const char *VARIABLES[] = {"COHERDMA_CHECK_LOG", "COHERDMA_CHECK_LIMIT",
                                     "COHERDMA_CHECK_EXIT", "COHERDMA_CHECK_SUPPRESS",
                                     "COHERDMA_CHECK_OPTIONS"};

int reset_environment(void **) {
    for (const char *const each : VARIABLES)
        unsetenv(each);
    return 0;
}

void defaults(void **) {
    const settings config = read_settings();
    assert_true(config.log_file.empty() && config.suppressions_file.empty());
    assert_int_equal(config.max_reports, 1);
    assert_int_equal(config.exit_status, 0);
    assert_true(!config.report_leaks && config.post_stacks && config.fill);
    assert_true(config.problem.empty());
}

void all_variables(void **) {
    setenv("COHERDMA_CHECK_LOG", "/tmp/%p.json", 1);
    setenv("COHERDMA_CHECK_SUPPRESS", "/etc/known", 1);
    setenv("COHERDMA_CHECK_LIMIT", "3", 1);
    setenv("COHERDMA_CHECK_EXIT", "255", 1);
    setenv("COHERDMA_CHECK_OPTIONS", "leaks,nostacks,nofill,distinctkeys,as=efa", 1);
    const settings config = read_settings();
    assert_string_equal(config.log_file.c_str(), "/tmp/%p.json");
    assert_string_equal(config.suppressions_file.c_str(), "/etc/known");
    assert_int_equal(config.max_reports, 3);
    assert_int_equal(config.exit_status, 255);
    assert_true(config.report_leaks && !config.post_stacks && !config.fill && config.distinct_keys);
    assert_int_equal(config.other_devices.size(), 1);
    assert_string_equal(config.other_devices[0]->name, "efa");
    assert_true(config.problem.empty());
}

void late_implies_ownership(void **) {
    setenv("COHERDMA_CHECK_OPTIONS", "late", 1);
    const settings config = read_settings();
    assert_true(config.late && config.ownership && !config.protect && config.problem.empty());
    assert_true(!settings().late);
}

void invalid_values_are_named(void **) {
    const struct {
        const char *variable, *value, *problem;
    } cases[] = {
        {"COHERDMA_CHECK_LIMIT", "x",
         "COHERDMA_CHECK_LIMIT: 'x' is not a number of findings, 1 or more"},
        {"COHERDMA_CHECK_LIMIT", "-1",
         "COHERDMA_CHECK_LIMIT: '-1' is not a number of findings, 1 or more"},
        {"COHERDMA_CHECK_LIMIT", "0",
         "COHERDMA_CHECK_LIMIT: '0' is not a number of findings, 1 or more"},
        {"COHERDMA_CHECK_EXIT", "0", "COHERDMA_CHECK_EXIT: '0' is not a status from 1 to 255"},
        {"COHERDMA_CHECK_EXIT", "256", "COHERDMA_CHECK_EXIT: '256' is not a status from 1 to 255"},
        {"COHERDMA_CHECK_EXIT", "1\n", "COHERDMA_CHECK_EXIT: '1?' is not a status from 1 to 255"},
        {"COHERDMA_CHECK_OPTIONS", "leaks,quiet",
         "COHERDMA_CHECK_OPTIONS: 'quiet' is not leaks, ownership, protect, late, nostacks, "
         "nofill, "
         "distinctkeys, as=mlx5 or as=efa"},
    };
    for (const auto &each : cases) {
        setenv(each.variable, each.value, 1);
        assert_string_equal(read_settings().problem.c_str(), each.problem);
        unsetenv(each.variable);
    }
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test_setup(defaults, reset_environment),
        cmocka_unit_test_setup(all_variables, reset_environment),
        cmocka_unit_test_setup(late_implies_ownership, reset_environment),
        cmocka_unit_test_setup(invalid_values_are_named, reset_environment),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}

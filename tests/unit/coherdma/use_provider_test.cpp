// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// coherdma_use_provider without a device: when it loads the plugin, and its errors.

#include "../cmocka.hpp"

#include <cerrno>
#include <coherdma/coherdma.h>
#include <coherdma/experimental.h>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <thread>
#include <vector>

namespace {

constexpr char PLUGIN[] = COHERDMA_TEST_PLUGIN;

bool is_plugin_loaded() {
    void *handle = dlopen(PLUGIN, RTLD_NOW | RTLD_NOLOAD);
    if (handle)
        dlclose(handle);
    return handle;
}

int reset_environment(void **) {
    for (const char *variable :
         {"COHERDMA_PROVIDER", "RDMAV_DRIVERS", "IBV_DRIVERS", "COHERDMA_EMULATE"})
        unsetenv(variable);
    setenv("COHERDMA_PROVIDER", PLUGIN, 1);
    return 0;
}

void assert_refused(int error, const char *text) {
    assert_int_equal(coherdma_use_provider(), error);
    if (!std::strstr(coherdma_error(), text))
        fail_msg("coherdma_error() does not say '%s' but '%s'", text, coherdma_error());
    assert_false(is_plugin_loaded());
}

void unusable_plugin_is_named_in_error(void **) {
    setenv("COHERDMA_PROVIDER", "/nonexistent/libcoherdma-rdmav34.so", 1);
    assert_refused(ENOENT, "/nonexistent/libcoherdma-rdmav34.so: No such file");
    setenv("COHERDMA_PROVIDER", "libc.so.6", 1);
    assert_refused(EINVAL, "not an absolute path");
    setenv("COHERDMA_PROVIDER", "/etc/passwd", 1);
    assert_refused(ENOEXEC, "/etc/passwd");
    setenv("COHERDMA_PROVIDER", "", 1); // as if unset: beside the library
    assert_refused(ENOENT, "/ibverbs-glue/libibverbs/libcoherdma-rdmav34.so");
}

void drivers_of_environment_are_kept(void **) {
    setenv("RDMAV_DRIVERS", "rxe:coherdma", 1);
    assert_refused(ECANCELED, "RDMAV_DRIVERS=rxe:coherdma");
    unsetenv("RDMAV_DRIVERS");
    setenv("IBV_DRIVERS", "/usr/lib/librxe", 1);
    assert_refused(ECANCELED, "IBV_DRIVERS=/usr/lib/librxe");
    setenv("RDMAV_DRIVERS", "/opt/libcoherdma;rxe", 1); // libibverbs loads that one
    assert_int_equal(coherdma_use_provider(), 0);
    assert_false(is_plugin_loaded());
}

// It serves no device, so it selects no provider.
void what_attaches_observers_is_no_driver(void **) {
    setenv("RDMAV_DRIVERS", "/opt/libcoherdma-observers:rxe", 1);
    assert_refused(ECANCELED, "RDMAV_DRIVERS=/opt/libcoherdma-observers:rxe");
    setenv("RDMAV_DRIVERS", "coherdma-observers;/opt/libcoherdma", 1);
    assert_int_equal(coherdma_use_provider(), 0);
    assert_false(is_plugin_loaded());
}

// A run without the emulation that was asked for would pass as one with it.
void missing_emulation_is_an_error_if_it_is_requested(void **) {
    setenv("RDMAV_DRIVERS", "/opt/libcoherdma", 1);
    setenv("COHERDMA_EMULATE", "stale", 1);
    assert_refused(ENOENT, "/opt/libcoherdma-observers-rdmav34.so: No such file");
    setenv("COHERDMA_EMULATE", "off", 1);
    assert_int_equal(coherdma_use_provider(), 0);
}

// The last test: the plugin stays loaded.
void concurrent_calls_load_plugin_once(void **) {
    setenv("RDMAV_DRIVERS", "", 1);
    std::vector<std::thread> threads;
    std::vector<int> errors(16, -1);
    for (int &error : errors)
        threads.emplace_back([&error] { error = coherdma_use_provider(); });
    for (std::thread &thread : threads)
        thread.join();
    for (const int error : errors)
        assert_int_equal(error, 0);
    assert_true(is_plugin_loaded());
    assert_int_equal(coherdma_use_provider(), 0);
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test_setup(unusable_plugin_is_named_in_error, reset_environment),
        cmocka_unit_test_setup(drivers_of_environment_are_kept, reset_environment),
        cmocka_unit_test_setup(what_attaches_observers_is_no_driver, reset_environment),
        cmocka_unit_test_setup(missing_emulation_is_an_error_if_it_is_requested, reset_environment),
        cmocka_unit_test_setup(concurrent_calls_load_plugin_once, reset_environment),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}

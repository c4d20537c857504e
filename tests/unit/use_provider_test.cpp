// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// coherdma_use_provider without a device: when it loads the plugin, and what it says when not.

#include <cerrno>
#include <coherdma/coherdma.h>
#include <csetjmp>
#include <cstdarg>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <thread>
#include <vector>

extern "C" {
#include <cmocka.h>
}

namespace {

constexpr char PLUGIN[] = COHERDMA_TEST_PLUGIN;

bool loaded() {
    void *found = dlopen(PLUGIN, RTLD_NOW | RTLD_NOLOAD);
    if (found)
        dlclose(found);
    return found;
}

int clean(void **) {
    for (const char *variable : {"COHERDMA_PROVIDER", "RDMAV_DRIVERS", "IBV_DRIVERS"})
        unsetenv(variable);
    setenv("COHERDMA_PROVIDER", PLUGIN, 1);
    return 0;
}

void refused(int error, const char *words) {
    assert_int_equal(coherdma_use_provider(), error);
    if (!std::strstr(coherdma_error(), words))
        fail_msg("coherdma_error() does not say '%s' but '%s'", words, coherdma_error());
    assert_false(loaded());
}

void what_is_not_there_is_named(void **) {
    setenv("COHERDMA_PROVIDER", "/nowhere/libcoherdma-rdmav34.so", 1);
    refused(ENOENT, "/nowhere/libcoherdma-rdmav34.so: No such file");
    setenv("COHERDMA_PROVIDER", "libc.so.6", 1);
    refused(EINVAL, "not an absolute path");
    setenv("COHERDMA_PROVIDER", "/etc/passwd", 1);
    refused(ENOEXEC, "/etc/passwd");
    setenv("COHERDMA_PROVIDER", "", 1); // as if it were not set: beside the library
    refused(ENOENT, "/ibverbs-glue/libibverbs/libcoherdma-rdmav34.so");
}

void the_users_wish_goes_before(void **) {
    setenv("RDMAV_DRIVERS", "rxe:coherdma", 1);
    refused(ECANCELED, "RDMAV_DRIVERS=rxe:coherdma");
    unsetenv("RDMAV_DRIVERS");
    setenv("IBV_DRIVERS", "/usr/lib/librxe", 1);
    refused(ECANCELED, "IBV_DRIVERS=/usr/lib/librxe");
    setenv("RDMAV_DRIVERS", "/opt/libcoherdma;rxe", 1); // libibverbs will load that one
    assert_int_equal(coherdma_use_provider(), 0);
    assert_false(loaded());
}

// The last one: what is loaded stays.
void loads_it_once_for_all_threads(void **) {
    setenv("RDMAV_DRIVERS", "", 1);
    std::vector<std::thread> all;
    std::vector<int> errors(16, -1);
    for (int &each : errors)
        all.emplace_back([&each] { each = coherdma_use_provider(); });
    for (std::thread &each : all)
        each.join();
    for (const int each : errors)
        assert_int_equal(each, 0);
    assert_true(loaded());
    assert_int_equal(coherdma_use_provider(), 0);
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test_setup(what_is_not_there_is_named, clean),
        cmocka_unit_test_setup(the_users_wish_goes_before, clean),
        cmocka_unit_test_setup(loads_it_once_for_all_threads, clean),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// How libcoherdma asks the provider that serves a context: a stub with the plugin's symbols.

#include "../cmocka.hpp"

#include <cerrno>
#include <coherdma/coherdma.h>
#include <coherdma/coherdmadv.h>
#include <coherdma/experimental.h>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <initializer_list>

namespace {

constexpr std::uint32_t attr_size = sizeof(coherdmadv_device_attr);

/// A context whose operations are in the module of `operation`, which is not called.
struct fake_context {
    ibv_device device = {};
    ibv_context context = {};

    fake_context(const char *name, void *operation) {
        std::snprintf(device.name, sizeof device.name, "%s", name);
        context.device = &device;
        context.ops.req_notify_cq = reinterpret_cast<int (*)(ibv_cq *, int)>(operation);
    }
};

void *operation_of_stub() {
    static void *const module = dlopen(COHERDMA_STUB_PLUGIN, RTLD_NOW | RTLD_LOCAL);
    assert_non_null(module);
    void *const operation = dlvsym(module, "coherdmadv_query_device", "COHERDMADV_1.0");
    assert_non_null(operation);
    return operation;
}

void assert_error_contains(const char *text) {
    if (!std::strstr(coherdma_error(), text))
        fail_msg("coherdma_error() does not say '%s' but '%s'", text, coherdma_error());
}

void query_is_forwarded_to_serving_provider(void **) {
    fake_context coherent("coherent0", operation_of_stub());
    coherdmadv_device_attr attr = {};
    assert_int_equal(coherdmadv_query_device(&coherent.context, &attr, attr_size), 0);
    assert_int_equal(attr.coherency, COHERDMA_COHERENT);
    assert_string_equal(attr.evidence, "the stub says so");
    assert_int_equal(coherdmadv_query_device(&coherent.context, &attr, attr_size + 1), E2BIG);
    assert_error_contains("coherent0: cannot query the provider");
    fake_context failing("failing0", operation_of_stub());
    assert_int_equal(coherdmadv_query_device(&failing.context, &attr, attr_size), EIO);
    assert_error_contains("failing0");
}

void invalid_arguments_are_refused(void **) {
    fake_context coherent("coherent0", operation_of_stub());
    coherdmadv_device_attr attr = {};
    assert_int_equal(coherdmadv_query_device(nullptr, &attr, attr_size), EINVAL);
    assert_error_contains("context is NULL");
    assert_int_equal(coherdmadv_query_device(&coherent.context, nullptr, attr_size), EINVAL);
    assert_error_contains("coherent0: attr is NULL");
    assert_int_equal(coherdmadv_query_device(&coherent.context, &attr, 7), EINVAL);
    assert_error_contains("inlen 7");
}

// This program is linked with libcoherdma, whose function is not that of a provider.
void other_provider_is_named_in_error(void **) {
    fake_context programs("mlx5_0", reinterpret_cast<void *>(&operation_of_stub));
    fake_context libcoherdmas("mlx5_0", dlsym(RTLD_DEFAULT, "coherdma_error"));
    fake_context libcs("mlx5_0", dlsym(RTLD_DEFAULT, "abort"));
    fake_context without("mlx5_0", nullptr);
    fake_context foreign("foreign0", operation_of_stub());
    coherdmadv_device_attr attr = {};
    for (fake_context *other : {&programs, &libcoherdmas, &libcs, &without, &foreign}) {
        assert_int_equal(coherdmadv_query_device(&other->context, &attr, attr_size), EOPNOTSUPP);
        assert_error_contains(other->device.name);
        assert_error_contains("coherdma enable");
        assert_error_contains("coherdma_use_provider()");
    }
}

void coherent_device_is_opened_as_provider_says(void **) {
    fake_context coherent("coherent0", operation_of_stub());
    coherdma_device *const device = coherdma_open_device(&coherent.context);
    assert_non_null(device);
    coherdma_device_attr attr = {};
    assert_int_equal(coherdma_query_device(device, &attr, sizeof attr), 0);
    assert_int_equal(attr.coherency, COHERDMA_COHERENT);
    assert_string_equal(attr.explanation, "coherent0 is coherent: the stub says so "
                                          "(coherdma's provider: driver rxe)");
    coherdma_close_device(device);
}

// The stub's cache marks the first byte of each range: its cache operations add 1,
// sync_for_device() adds 0x10, or 0x20 if the device writes, and sync_for_cpu() 0x40.
void emulated_device_syncs_with_emulated_cache(void **) {
    fake_context emulated("emulated0", operation_of_stub());
    coherdma_device *const device = coherdma_open_device(&emulated.context);
    assert_non_null(device);
    coherdma_device_attr attr = {};
    assert_int_equal(coherdma_query_device(device, &attr, sizeof attr), 0);
    assert_int_equal(attr.coherency, COHERDMA_NON_COHERENT);
    assert_int_equal(attr.flags, COHERDMA_DEVICE_EMULATED);
    assert_int_equal(attr.line_size, 1024);
    assert_string_equal(attr.instructions, "stub");
    assert_string_equal(attr.explanation,
                        "emulated0 is non-coherent: coherdma emulates a "
                        "non-coherent device (coherdma's emulation: mode poison)");
    unsigned char byte = 0;
    const coherdma_range range = {.addr = &byte, .length = 1};
    assert_int_equal(coherdma_sync_before_read(device, &range, 1), 0);
    assert_int_equal(byte, 1);
    assert_int_equal(coherdma_sync_for_device(device, &range, 1, COHERDMA_TO_DEVICE), 0);
    assert_int_equal(byte, 0x11);
    assert_int_equal(coherdma_sync_for_device(device, &range, 1, COHERDMA_FROM_DEVICE), 0);
    assert_int_equal(byte, 0x31);
    assert_int_equal(coherdma_sync_for_cpu(device, &range, 1, COHERDMA_TO_DEVICE), 0);
    assert_int_equal(byte, 0x31);
    assert_int_equal(coherdma_sync_for_cpu(device, &range, 1, COHERDMA_FROM_DEVICE), 0);
    assert_int_equal(byte, 0x71);
    coherdma_close_device(device);
}

// Its cache operations are not usable, and those of the CPU have no effect on it.
void emulation_of_other_release_is_refused(void **) {
    fake_context other("other0", operation_of_stub());
    assert_null(coherdma_open_device(&other.context));
    assert_int_equal(errno, EOPNOTSUPP);
    assert_error_contains("other0 is emulated by coherdma of another release");
}

} // namespace

int main() {
    setenv("COHERDMA_CONFIG", "/dev/null", 1);
    const CMUnitTest tests[] = {
        cmocka_unit_test(query_is_forwarded_to_serving_provider),
        cmocka_unit_test(invalid_arguments_are_refused),
        cmocka_unit_test(other_provider_is_named_in_error),
        cmocka_unit_test(coherent_device_is_opened_as_provider_says),
        cmocka_unit_test(emulated_device_syncs_with_emulated_cache),
        cmocka_unit_test(emulation_of_other_release_is_refused),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}

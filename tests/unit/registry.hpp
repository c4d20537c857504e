// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What tests of libdat2 and of libdat share: a dat.conf that they write, and the provider that it
// names.
#pragma once

#include "registry_version.hpp"
#include "stub_provider.hpp"

#include <csetjmp>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <string>

extern "C" {
#include <cmocka.h>
}

namespace registry_test {

constexpr DAT_RETURN NO_NAME = DAT_MAKE_ERROR(DAT_PROVIDER_NOT_FOUND, DAT_NAME_NOT_REGISTERED);
constexpr DAT_RETURN NO_IA = DAT_MAKE_ERROR(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_IA);

/// Has to be the first thing in the process: the file is read once.
inline void use_conf(const std::string &text) {
    char name[] = "/tmp/registry.XXXXXX";
    const int file = mkstemp(name);
    assert_true(file >= 0);
    FILE *stream = fdopen(file, "w");
    std::fputs(text.c_str(), stream);
    std::fclose(stream);
    setenv("DAT_OVERRIDE", name, 1);
    DAT_COUNT count = 0;
    dat_registry_list_providers(0, &count, nullptr);
    std::remove(name);
}

/// A record that the stub serves.
inline std::string record(const char *name, const char *instance,
                          const char *library = COHERDMA_TEST_STUB,
                          const char *safety = "nonthreadsafe", const char *version = API) {
    return std::string(name) + " " + version + " " + safety + " default " + library +
           " stub.1.0 \"" + instance + "\" \"\"\n";
}

/// Loaded as long as the test runs, so its counters survive.
inline stub::state &stub_of(const char *library = COHERDMA_TEST_STUB) {
    void *handle = dlopen(library, RTLD_NOW);
    if (!handle)
        fail_msg("%s", dlerror());
    return *reinterpret_cast<stub::state *(*)()>(dlsym(handle, stub::STATE))();
}

inline DAT_RETURN open_ia(const char *name, DAT_IA_HANDLE &ia,
                          DAT_BOOLEAN thread_safe = DAT_FALSE) {
    std::string copy = name;
    DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
    return dat_ia_openv(copy.data(), 8, &evd, &ia, MAJOR, MINOR, thread_safe);
}

inline DAT_IA_HANDLE opened(const char *name, DAT_BOOLEAN thread_safe = DAT_FALSE) {
    DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
    assert_int_equal(open_ia(name, ia, thread_safe), DAT_SUCCESS);
    return ia;
}

inline void closed(DAT_IA_HANDLE ia) {
    assert_int_equal(dat_ia_close(ia, DAT_CLOSE_ABRUPT_FLAG), DAT_SUCCESS);
}

/// Opened, told what is expected, and closed.
inline void is_served(const char *name, const stub::state &by, const char *instance,
                      DAT_BOOLEAN thread_safe = DAT_FALSE) {
    const int before = by.inits;
    const DAT_IA_HANDLE ia = opened(name, thread_safe);
    assert_int_equal(by.inits - before, 1);
    assert_string_equal(by.instance_kept, instance);
    closed(ia);
}

/// The provider's own.
inline DAT_IA_HANDLE address_of(DAT_IA_HANDLE ia) {
    DAT_IA_HANDLE inside = DAT_HANDLE_NULL;
    assert_int_equal(dats_get_ia_handle(ia, &inside), DAT_SUCCESS);
    return inside;
}

} // namespace registry_test

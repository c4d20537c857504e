// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Helpers for the tests of libdat2 and libdat.
#pragma once

#include "../cmocka.hpp"
#include "stub_provider.hpp"
#include "version.hpp"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <string>

namespace registry_test {

constexpr DAT_RETURN NOT_REGISTERED =
    DAT_MAKE_ERROR(DAT_PROVIDER_NOT_FOUND, DAT_NAME_NOT_REGISTERED);
constexpr DAT_RETURN INVALID_IA = DAT_MAKE_ERROR(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_IA);

/// Writes a dat.conf and makes the registry read it. Must be called first: it is read once.
inline void use_conf(const std::string &text) {
    char name[] = "/tmp/registry.XXXXXX";
    const int fd = mkstemp(name);
    assert_true(fd >= 0);
    FILE *stream = fdopen(fd, "w");
    std::fputs(text.c_str(), stream);
    std::fclose(stream);
    setenv("DAT_OVERRIDE", name, 1);
    DAT_COUNT count = 0;
    dat_registry_list_providers(0, &count, nullptr);
    std::remove(name);
}

/// A line of dat.conf for the stub provider.
inline std::string conf_line(const char *name, const char *instance,
                             const char *library = COHERDMA_TEST_STUB,
                             const char *safety = "nonthreadsafe", const char *version = API) {
    return std::string(name) + " " + version + " " + safety + " default " + library +
           " stub.1.0 \"" + instance + "\" \"\"\n";
}

/// Loads the stub provider for the rest of the test, so that its counters survive.
inline stub::state &load_stub(const char *library = COHERDMA_TEST_STUB) {
    void *handle = dlopen(library, RTLD_NOW);
    if (!handle)
        fail_msg("%s", dlerror());
    return *reinterpret_cast<stub::state *(*)()>(dlsym(handle, stub::GET_STATE))();
}

inline DAT_RETURN open_ia(const char *name, DAT_IA_HANDLE &ia,
                          DAT_BOOLEAN thread_safe = DAT_FALSE) {
    std::string copy = name;
    DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
    return dat_ia_openv(copy.data(), 8, &evd, &ia, MAJOR, MINOR, thread_safe);
}

inline DAT_IA_HANDLE open_ia_ok(const char *name, DAT_BOOLEAN thread_safe = DAT_FALSE) {
    DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
    assert_int_equal(open_ia(name, ia, thread_safe), DAT_SUCCESS);
    return ia;
}

inline void close_ia_ok(DAT_IA_HANDLE ia) {
    assert_int_equal(dat_ia_close(ia, DAT_CLOSE_ABRUPT_FLAG), DAT_SUCCESS);
}

/// Opens and closes an IA. The provider must be loaded for it, with this instance data.
inline void assert_served(const char *name, const stub::state &provider, const char *instance,
                          DAT_BOOLEAN thread_safe = DAT_FALSE) {
    const int old_inits = provider.inits;
    const DAT_IA_HANDLE ia = open_ia_ok(name, thread_safe);
    assert_int_equal(provider.inits - old_inits, 1);
    assert_string_equal(provider.instance_pointer, instance);
    close_ia_ok(ia);
}

/// Converts between the public handle of an IA and the provider's.
inline DAT_IA_HANDLE convert_handle(DAT_IA_HANDLE ia) {
    DAT_IA_HANDLE converted = DAT_HANDLE_NULL;
    assert_int_equal(dats_get_ia_handle(ia, &converted), DAT_SUCCESS);
    return converted;
}

} // namespace registry_test
